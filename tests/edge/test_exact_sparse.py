"""Sparse coefficients of models made of trees are those of their tables, and bounds hold beyond tables."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeRegressor

import holdfast as hf
from holdfast import boolean
from holdfast.agreement import as_agreement
from holdfast.boolean.sparse import sparse_fourier, sparse_monotone, sparse_stability_bound
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.exact.binding import countable_of

REGRESSORS = (
    DecisionTreeRegressor(max_depth=4, random_state=0),
    RandomForestRegressor(5, max_depth=4, random_state=0),
    GradientBoostingRegressor(n_estimators=8, random_state=0),
    Ridge(),
)


@pytest.mark.parametrize("regressor", REGRESSORS, ids=lambda model: type(model).__name__)
def test_sparse_coefficients_are_those_of_the_table(regressor):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(80, 8))
    regressor.fit(rows, rows[:, 0] * rows[:, 1] + rows[:, 2] + rng.normal(size=80))
    for row in rows[:4]:
        model = hf.mask_tabular(regressor, row, background=rows)
        table = boolean.tabulate(model, target=0)
        for sparse, dense in [
            (sparse_monotone(model), boolean.monotone(table)),
            (sparse_fourier(model), boolean.fourier(table)),
        ]:
            full = np.zeros(len(table))
            full[list(sparse)] = list(sparse.values())
            assert np.allclose(full, dense, atol=1e-9)


@pytest.mark.parametrize("regressor", REGRESSORS, ids=lambda model: type(model).__name__)
def test_the_sparse_bound_is_the_bound_of_the_table(regressor):
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(80, 7))
    regressor.fit(rows, rows[:, 0] * rows[:, 1] + rows[:, 2])
    model = hf.mask_tabular(regressor, rows[0], background=rows)
    table, weights = boolean.tabulate(model, target=0), sparse_monotone(model)
    for _ in range(5):
        selected = rng.random(7) < 0.5
        for radius in (1, 2, 5):
            dense = boolean.stability_bound(table, selected, radius=radius, margin=1.5)
            assert sparse_stability_bound(weights, selected, radius=radius, margin=1.5) == pytest.approx(
                dense, abs=1e-9
            )


def test_bounds_of_64_features_are_below_the_exact_rates():
    rows, labels = load_digits(return_X_y=True)
    tree = DecisionTreeRegressor(max_depth=6, random_state=0).fit(rows, labels.astype(float))
    useful = 0
    for row in rows[:10]:
        model = hf.mask_tabular(tree, row, background=rows)
        weights, countable = sparse_monotone(model), countable_of(model)
        selected = np.arange(64) % 4 == 0
        counts = countable.count(selected, "additions", as_agreement("within(3.0)"), model(selected[None])[0])
        for radius in (1, 2, 4, 8):
            bound = sparse_stability_bound(weights, selected, radius=radius, margin=3.0)
            assert bound <= float(counts.rate(radius)) + 1e-9
            useful += bound > 0
    assert useful > 10


def test_a_model_without_trees_has_no_sparse_weights():
    with pytest.raises(InvalidTypeError, match="sums the scores of trees"):
        sparse_monotone(hf.mask_function(lambda masks: masks[:, :1] * 1.0, n_features=3))


def test_a_score_that_is_not_there_is_refused():
    rows = np.random.default_rng(0).normal(size=(30, 3))
    forest = RandomForestClassifier(3, random_state=0).fit(rows, np.arange(30) % 2)
    with pytest.raises(InvalidValueError, match="one of 2 scores"):
        sparse_monotone(hf.mask_tabular(forest, rows[0], background=rows), target=2)


def test_more_terms_than_can_be_summed_are_refused(monkeypatch):
    monkeypatch.setattr("holdfast.boolean.sparse._MOST_TERMS", 0)
    rows = np.random.default_rng(0).normal(size=(40, 4))
    model = hf.mask_tabular(REGRESSORS[0].fit(rows, rows[:, 0] * rows[:, 1]), rows[0], background=rows)
    with pytest.raises(InvalidValueError, match="`model` must have at most 0 terms"):
        sparse_monotone(model)
