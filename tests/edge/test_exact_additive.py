"""Counts and nearest changes of additive models are those of enumeration, ties and rounding included."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeClassifier, SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

import holdfast as hf
from holdfast.agreement import as_agreement
from holdfast.exact import additive, ensembles
from holdfast.exact.binding import countable_of
from holdfast.exact.countable import Flips
from holdfast.exact.ensembles import TreeEnsemble
from tests.helpers.exact_oracles import KINDS, Enumerated, check_against_enumeration, check_nearest

CLASSIFIERS = (LogisticRegression, RidgeClassifier, LinearSVC, SGDClassifier)


def random_case(seed: int, most: int = 8) -> tuple[Any, Any, str]:
    """A masked additive model, an explanation and an agreement; half of them have whole numbers, and so ties."""
    rng = np.random.default_rng(seed)
    d, whole = int(rng.integers(2, most)), bool(rng.random() < 0.5)
    rows = rng.integers(-2, 3, size=(30, d)).astype(float) if whole else rng.normal(size=(30, d))
    if rng.random() < 0.3:
        rows[:, 0] = 1.0
    n_classes = int(rng.integers(2, 5))
    kind = int(rng.integers(6))
    agree = "same_top_class"
    if kind < 4:
        options = {"max_iter": 2} if CLASSIFIERS[kind] is SGDClassifier else {}
        estimator: Any = CLASSIFIERS[kind](**options)
        estimator.classes_ = np.arange(n_classes)
        estimator.n_features_in_ = d
        shape = (1 if n_classes == 2 else n_classes, d)
        estimator.coef_ = rng.integers(-2, 3, size=shape).astype(float) if whole else rng.normal(size=shape)
        estimator.intercept_ = rng.integers(-1, 2, size=shape[0]).astype(float)
        if kind == 1:
            estimator._label_binarizer = None
        asked = estimator.decision_function if kind != 0 or rng.random() < 0.3 else estimator
        if n_classes == 2 and kind == 0 and asked is estimator and rng.random() < 0.5:
            agree = str(rng.choice(["same_side(0.3)", "within(0.25)", "within_percent(60.0)"]))
    elif kind == 4:
        estimator = (LinearRegression, Ridge)[seed % 2]()
        estimator.coef_ = rng.integers(-3, 4, size=d).astype(float) if whole else rng.normal(size=d)
        estimator.intercept_, estimator.n_features_in_ = float(rng.integers(-1, 2)), d
        asked = estimator
        agree = str(rng.choice(["within(2.0)", "same_side(1.0)", "within_percent(50.0)"]))
    else:
        asked = GaussianNB().fit(rows, np.arange(30) % n_classes)
    row, fill = rows[rng.integers(30)], rows[rng.integers(30)]
    groups = None
    if rng.random() < 0.3:
        groups = np.unique(rng.integers(0, max(1, d - 1), size=d), return_inverse=True)[1]
    model = hf.mask_tabular(asked, row, fill=fill, groups=groups)
    return model, rng.random(model.n_features) < 0.5, agree


def check_random_additive(seed: int) -> tuple[int, int]:
    model, selected, agree = random_case(seed)
    countable = countable_of(model)
    assert isinstance(countable, TreeEnsemble), seed
    return check_against_enumeration(countable, model, selected, agree, must_be_exact=countable.is_repeatable)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_counts_of_random_additive_models_are_those_of_enumeration():
    n_exact, n_all = np.sum([check_random_additive(seed) for seed in range(200)], axis=0)
    assert n_exact > 0.95 * n_all


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("batch", range(20))
def test_counts_of_two_thousand_additive_models_are_those_of_enumeration(batch):
    n_exact, n_all = np.sum([check_random_additive(1000 + 105 * batch + at) for at in range(105)], axis=0)
    assert n_exact > 0.9 * n_all


def check_without_table(seeds: range) -> tuple[int, int]:
    """Counts by halves or by rounded sums contain the truth; returns how many were exact, of how many."""
    n_exact = n_all = 0
    for seed in seeds:
        model, selected, agree = random_case(seed)
        exact, counted = check_against_enumeration(countable_of(model), model, selected, agree, must_be_exact=False)
        n_exact, n_all = n_exact + exact, n_all + counted
    return n_exact, n_all


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_counts_by_two_halves_are_those_of_enumeration(monkeypatch):
    monkeypatch.setattr(ensembles, "_TABLE_WORK", 0)
    n_exact, n_all = check_without_table(range(300, 400))
    assert n_exact > 0.6 * n_all


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("n_cells", [1 << 14, 8])
def test_rounded_sums_contain_the_truth(monkeypatch, n_cells):
    monkeypatch.setattr(ensembles, "_TABLE_WORK", 0)
    monkeypatch.setattr(additive, "MOST_HALVED", -1)
    monkeypatch.setattr(additive, "_N_CELLS", n_cells)
    n_exact, n_all = check_without_table(range(400, 500))
    assert n_exact > 0.3 * n_all if n_cells > 8 else n_exact < n_all


def linear(weights: Any, intercept: float = 0.0) -> Any:
    model = LinearRegression()
    model.coef_, model.intercept_, model.n_features_in_ = np.asarray(weights, dtype=float), intercept, len(weights)
    return model


def test_forty_features_are_counted_exactly_by_two_halves():
    # Unit weights: the sum is the number of features shown, so counts are binomials.
    model = hf.mask_tabular(linear(np.ones(40)), np.ones(40), fill=0.0)
    selected = np.zeros(40, dtype=bool)
    counts = countable_of(model).count(selected, "additions", as_agreement("same_side(7.0)"), np.zeros(1))
    assert counts.method == "two halves"
    assert counts.exact
    assert counts.agreed == tuple(math.comb(40, k) if k < 7 else 0 for k in range(41))


def test_rounded_sums_of_many_features_bracket_the_binomials():
    n = 120
    model = hf.mask_tabular(linear(np.ones(n)), np.ones(n), fill=0.0)
    selected = np.zeros(n, dtype=bool)
    counts = countable_of(model).count(selected, "additions", as_agreement("same_side(30.0)"), np.zeros(1))
    assert counts.method == "rounded sums"
    for k in range(n + 1):
        true = math.comb(n, k) if k < 30 else 0
        assert counts.agreed[k] <= true <= counts.agreed[k] + counts.undecided[k]
    assert float(counts.largest_rate(60) - counts.rate(60)) < 1e-9


def test_rounded_sums_and_two_halves_agree_on_thirty_features(monkeypatch):
    rng = np.random.default_rng(3)
    model = hf.mask_tabular(linear(rng.normal(size=30)), rng.normal(size=30), fill=0.0)
    selected = rng.random(30) < 0.2
    reference = model(selected[None])[0]
    judge = as_agreement(f"same_side({float(reference[0]) - 2.0!r})")
    countable = countable_of(model)
    for kind in KINDS:
        halves = countable.count(selected, kind, judge, reference)
        monkeypatch.setattr(additive, "MOST_HALVED", 0)
        rounded = countable.count(selected, kind, judge, reference)
        monkeypatch.undo()
        assert halves.exact
        for exact, low, open_ in zip(halves.agreed, rounded.agreed, rounded.undecided, strict=True):
            assert low <= exact <= low + open_
        assert float(rounded.largest_rate(30) - rounded.rate(30)) < 0.01


def test_a_tie_within_rounding_is_undecided_where_it_cannot_be_settled(monkeypatch):
    monkeypatch.setattr(ensembles, "_TABLE_WORK", 0)
    # 0.1 + 0.2 - 0.3 is 0 for numbers and 5.6e-17 for floats.
    model = hf.mask_tabular(linear([0.1, 0.2, -0.3]), np.ones(3), fill=0.0)
    countable = countable_of(model)
    counts = countable.count(np.zeros(3, dtype=bool), "additions", as_agreement("same_side(0.0)"), np.zeros(1))
    assert counts.undecided[3] == 1
    assert not counts.exact


def test_one_hot_columns_of_a_category_are_one_feature():
    import pandas as pd

    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.normal(size=150), "income": rng.normal(size=150)})
    for name, values in {"job": "abcd", "city": "xyz"}.items():
        frame[name] = rng.choice(list(values), size=150)
    y = (frame["age"] + (frame["job"] == "a") - (frame["city"] == "z") > 0).to_numpy().astype(int)
    encode = ColumnTransformer([("n", StandardScaler(), ["age", "income"]), ("c", OneHotEncoder(), ["job", "city"])])
    estimator = make_pipeline(encode, LogisticRegression()).fit(frame, y)
    for at in range(10):
        model = hf.mask_tabular(estimator, frame.iloc[[at]], background=frame, fill="mode")
        countable = countable_of(model)
        assert isinstance(countable, TreeEnsemble)
        check_against_enumeration(countable, model, rng.random(4) < 0.5, "same_top_class")


def test_the_most_adverse_features_are_the_nearest_change_of_hundreds():
    rng = np.random.default_rng(1)
    weights = rng.normal(size=300)
    model = hf.mask_tabular(linear(weights, 5.0), np.ones(300), fill=0.0)
    selected, judge = np.zeros(300, dtype=bool), as_agreement("same_side(0.0)")
    nearest = countable_of(model).nearest_change(selected, "additions", judge, np.array([5.0]))
    assert nearest.proven
    sums = 5.0 + np.cumsum(np.sort(weights))
    assert nearest.distance == int(np.argmax(sums < 0)) + 1


def test_an_explanation_that_does_not_keep_a_foreign_reference_is_its_own_change():
    model = hf.mask_tabular(linear([1.0, 2.0]), np.ones(2), fill=0.0)
    known, selected = Enumerated(model), np.array([True, False])
    reference = np.array([-4.0])
    agreed, sizes = known.truth(selected, "additions", "same_side(0.5)", reference)
    check_nearest(countable_of(model), known, selected, "additions", "same_side(0.5)", reference, agreed, sizes)


def test_masks_fill_pools_up_to_their_distance():
    flips = Flips.of(np.array([True, True, False, False]), "swaps")
    mask = flips.mask(0b0001, distance=1)
    assert mask.tolist() == [False, True, True, False]
