"""Counts of single decision trees are those of enumeration, whatever the values, the fill and the neighbourhood."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier, ExtraTreeRegressor

import holdfast as hf
from holdfast import boolean
from holdfast.exact.binding import countable_of
from holdfast.exact.trees import CountableTree, fourier_of, monotone_of
from tests.helpers.exact_oracles import check_against_enumeration


def check_random_tree(seed: int) -> None:
    """One random tree, row, fill, grouping and agreement; values are often equal to thresholds."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(2, 8))
    rows = rng.integers(0, 4, size=(40, d)).astype(float) if rng.random() < 0.5 else rng.normal(size=(40, d))
    if rng.random() < 0.3:
        rows[:, rng.integers(d)] = 1.0  # a constant column
    has_nan = rng.random() < 0.3
    if has_nan:
        rows[rng.random(rows.shape) < 0.15] = np.nan
    kind = rng.integers(4)
    depth = int(rng.integers(1, 7))
    if kind < 2:
        y = rng.integers(0, 3, size=40)
        tree = (DecisionTreeClassifier, ExtraTreeClassifier)[kind](max_depth=depth, random_state=seed)
        agree = "same_top_class"
    else:
        y = rng.integers(0, 5, size=40).astype(float)
        tree = (DecisionTreeRegressor, ExtraTreeRegressor)[kind - 2](max_depth=depth, random_state=seed)
        agree = str(rng.choice(["within(1.0)", "same_side(2.0)", "within_percent(30.0)"]))
    tree.fit(rows, y)
    row, fill = rows[rng.integers(40)].copy(), rows[rng.integers(40)].copy()
    inner = np.flatnonzero((tree.tree_.children_left >= 0) & np.isfinite(tree.tree_.threshold))
    for values in (row, fill):
        if len(inner) and rng.random() < 0.7:
            node = rng.choice(inner)
            values[tree.tree_.feature[node]] = tree.tree_.threshold[node]
    groups = None
    if rng.random() < 0.4:
        groups = np.unique(rng.integers(-1, max(1, d - 1), size=d).clip(-1), return_inverse=True)[1]
        groups = groups - int(rng.random() < 0.5 and groups.max() > 0)
    estimator = tree
    if rng.random() < 0.3:
        steps = [MinMaxScaler(), StandardScaler()] if not has_nan else [SimpleImputer(), StandardScaler()]
        estimator = make_pipeline(*steps, tree).fit(rows, y)
    filled = "missing" if has_nan and rng.random() < 0.5 else fill
    classifier = estimator.predict if kind < 2 and rng.random() < 0.3 else estimator
    model = hf.mask_tabular(classifier, row, fill=filled, groups=groups)
    countable = countable_of(model)
    assert isinstance(countable, CountableTree)
    check_against_enumeration(countable, model, rng.random(model.n_features) < 0.5, agree)


@pytest.mark.parametrize("batch", range(10))
def test_counts_of_random_trees_are_those_of_enumeration(batch):
    for seed in range(20 * batch, 20 * batch + 20):
        check_random_tree(seed)


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(20))
def test_counts_of_two_thousand_random_trees_are_those_of_enumeration(batch):
    for seed in range(1000 + 110 * batch, 1000 + 110 * (batch + 1)):
        check_random_tree(seed)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from([0.0, -0.0, 0.5, 1.0, 0.1, float(np.float32(0.1)), 1e-40, 3e38]), min_size=4, max_size=4),
    st.lists(st.sampled_from([0.0, 0.5, 0.1, np.nextafter(0.5, 1), np.nextafter(0.5, 0), 1.0]), min_size=4, max_size=4),
    st.integers(0, 3),
)
def test_values_on_thresholds_go_where_the_library_sends_them(row, fill, seed):
    rng = np.random.default_rng(seed)
    rows = rng.choice([0.0, 0.1, 0.5, 1.0], size=(30, 4))
    tree = DecisionTreeClassifier(random_state=0).fit(rows, rng.integers(0, 2, size=30))
    # Thresholds themselves, and their neighbours in both number types.
    borders = tree.tree_.threshold[tree.tree_.children_left >= 0]
    if len(borders):
        fill = [*fill[:3], float(borders[0])]
        row = [*row[:2], float(np.nextafter(np.float32(borders[-1]), np.float32(2))), row[3]]
    model = hf.mask_tabular(tree, row, fill=np.array(fill))
    check_against_enumeration(countable_of(model), model, np.array([True, False, False, True]), "same_top_class")


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from([np.nan, 0.0, 1.0]), min_size=3, max_size=3), st.sampled_from(["missing", 0.0, 1.0]))
def test_missing_values_go_where_the_library_sends_them(row, fill):
    rng = np.random.default_rng(1)
    rows = rng.choice([0.0, 1.0, np.nan], size=(60, 3))
    tree = DecisionTreeClassifier(random_state=0).fit(rows, rng.integers(0, 3, size=60))
    model = hf.mask_tabular(tree, row, fill=fill)
    check_against_enumeration(countable_of(model), model, np.array([False, True, False]), "same_top_class")


def test_columns_whose_fill_is_their_value_never_matter():
    rows = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    tree = DecisionTreeClassifier(random_state=0).fit(rows, [0, 1, 1, 0])
    model = hf.mask_tabular(tree, [1.0, 1.0], fill=[1.0, 1.0])
    countable = countable_of(model)
    assert len(countable.leaves) == 1
    check_against_enumeration(countable, model, np.array([False, False]), "same_top_class")


@pytest.mark.parametrize("seed", range(25))
def test_coefficients_from_leaves_are_those_of_the_table(seed):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(50, 6))
    tree = DecisionTreeRegressor(max_depth=5, random_state=0).fit(rows, rng.normal(size=50))
    model = hf.mask_tabular(tree, rows[0], background=rows)
    countable = countable_of(model)
    table = boolean.tabulate(model, target=0)
    values = countable.outputs[:, 0]
    for sparse, dense in [
        (monotone_of(countable.leaves, values), boolean.monotone(table)),
        (fourier_of(countable.leaves, values), boolean.fourier(table)),
    ]:
        full = np.zeros(len(table))
        full[list(sparse)] = list(sparse.values())
        assert np.allclose(full, dense, atol=1e-12)


def test_an_average_over_background_rows_is_a_sum_of_trees():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 6))
    tree = DecisionTreeClassifier(max_depth=4, random_state=0).fit(rows, rng.integers(0, 3, size=60))
    for row in rows[:10]:
        model = hf.mask_tabular(tree, row, background=rows, fill="background", n_background=7)
        check_against_enumeration(countable_of(model), model, rng.random(6) < 0.5, "same_top_class")


def test_a_step_that_mixes_columns_is_not_read():
    from sklearn.decomposition import PCA

    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 4))
    tree = make_pipeline(PCA(3), DecisionTreeClassifier(random_state=0)).fit(rows, rng.integers(0, 2, size=60))
    assert countable_of(hf.mask_tabular(tree, rows[0], background=rows)) is None
