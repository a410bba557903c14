"""Counts and nearest changes of forests and boosted trees are those of enumeration, for every library."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)

import holdfast as hf
from holdfast.agreement import as_agreement
from holdfast.errors import InvalidValueError
from holdfast.exact import binding, ensembles
from holdfast.exact.binding import countable_of
from holdfast.exact.ensembles import TreeEnsemble
from tests.helpers.exact_oracles import KINDS, Enumerated, check_against_enumeration, check_nearest

FAMILIES = ("forest", "extra", "gradient", "histogram", "xgboost", "lightgbm", "catboost")


def fitted(family: str, rows: Any, y: Any, n_trees: int, depth: int, seed: int) -> Any:
    """A small ensemble of a family: a regression if y are floats."""
    regression = y.dtype.kind == "f"
    sizes = {"max_depth": depth, "random_state": seed}
    if family in ("forest", "extra"):
        kinds = {
            "forest": (RandomForestClassifier, RandomForestRegressor),
            "extra": (ExtraTreesClassifier, ExtraTreesRegressor),
        }
        return kinds[family][regression](n_trees, **sizes).fit(rows, y)
    if family == "gradient":
        kind = GradientBoostingRegressor if regression else GradientBoostingClassifier
        return kind(n_estimators=n_trees, learning_rate=0.5, **sizes).fit(rows, y)
    if family == "histogram":
        kind = HistGradientBoostingRegressor if regression else HistGradientBoostingClassifier
        return kind(max_iter=n_trees, min_samples_leaf=2, learning_rate=0.5, **sizes).fit(rows, y)
    if family == "xgboost":
        import xgboost

        kind = xgboost.XGBRegressor if regression else xgboost.XGBClassifier
        return kind(n_estimators=n_trees, learning_rate=0.5, n_jobs=1, **sizes).fit(rows, y)
    if family == "lightgbm":
        import lightgbm

        kind = lightgbm.LGBMRegressor if regression else lightgbm.LGBMClassifier
        leaves = {"num_leaves": 2**depth, "min_child_samples": 2, "min_split_gain": 0.0, "verbose": -1, "n_jobs": 1}
        return kind(n_estimators=n_trees, learning_rate=0.5, **sizes, **leaves).fit(rows, y)
    import catboost

    kind = catboost.CatBoostRegressor if regression else catboost.CatBoostClassifier
    quiet = {"verbose": 0, "allow_writing_files": False, "thread_count": 1}
    return kind(iterations=n_trees, depth=depth, learning_rate=0.5, random_seed=seed, **quiet).fit(rows, y)


def random_case(family: str, seed: int, n_features: tuple[int, int] = (3, 9)) -> tuple[Any, Any, str, Any]:
    """A masked model of a family, an explanation, an agreement, and the random numbers."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(*n_features))
    rows = rng.integers(0, 4, size=(60, d)).astype(float) if rng.random() < 0.5 else rng.normal(size=(60, d))
    if rng.random() < 0.3 and family not in ("gradient",):
        rows[rng.random(rows.shape) < 0.1] = np.nan
    has_nan = bool(np.isnan(rows).any())
    if rng.random() < 0.3:
        rows[:, 0] = 1.0
    n_classes = int(rng.integers(2, 4))
    y: Any = np.arange(60) % n_classes
    if rng.random() < 0.3:
        y = rng.integers(0, 4, size=60).astype(float)
    model = fitted(family, rows, y, int(rng.integers(2, 12)), int(rng.integers(1, 5)), seed)
    row = rows[rng.integers(60)]
    fill = "missing" if has_nan and rng.random() < 0.4 else rows[rng.integers(60)]
    if y.dtype.kind == "f":
        masked = hf.mask_tabular(model, row, fill=fill)
        level = float(masked(np.ones((1, d), dtype=bool))[0, 0])
        agree = str(
            rng.choice(
                ["within(0.7)", f"same_side({float(level + rng.choice([-0.3, 0.0, 0.3]))!r})", "within_percent(40.0)"]
            )
        )
    else:
        masked = hf.mask_tabular(
            model.predict if rng.random() < 0.2 and family != "catboost" else model, row, fill=fill
        )
        two = n_classes == 2 and masked.predictor.method == "predict_proba"
        agree = (
            str(rng.choice(["same_side(0.4)", "within(0.2)", "within_percent(50.0)"]))
            if two and rng.random() < 0.4
            else "same_top_class"
        )
    return masked, rng.random(d) < 0.5, agree, rng


def check_random_ensemble(family: str, seed: int, n_features: tuple[int, int] = (3, 9)) -> None:
    model, selected, agree, rng = random_case(family, seed, n_features)
    countable = countable_of(model)
    assert countable is not None, (family, seed)
    check_against_enumeration(countable, model, selected, agree)
    masks = rng.random((20, model.n_features)) < 0.5
    if isinstance(countable, TreeEnsemble):
        check_same_scores(model(masks), countable(masks), countable.scoring.roundoff)


def check_same_scores(theirs: Any, ours: Any, roundoff: float) -> None:
    if np.asarray(theirs).ndim == 1:
        assert (theirs == ours).all()
    else:
        assert np.allclose(theirs, ours, rtol=64 * roundoff, atol=64 * roundoff)


@pytest.mark.parametrize("family", FAMILIES)
def test_counts_of_small_ensembles_are_those_of_enumeration(family):
    for seed in range(8):
        check_random_ensemble(family, seed)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_counts_of_five_hundred_ensembles_are_those_of_enumeration(family):
    for seed in range(100, 185):
        check_random_ensemble(family, seed, (3, 9) if seed % 10 else (10, 15))


@pytest.mark.parametrize("family", FAMILIES)
def test_branch_and_bound_finds_the_nearest_change(family, monkeypatch):
    monkeypatch.setattr(ensembles, "_QUICK_TABLE", 0)
    monkeypatch.setattr(ensembles, "_TABLE_WORK", 0)
    methods = set()
    for seed in range(200, 218):
        model, selected, agree, _ = random_case(family, seed)
        countable, known = countable_of(model), Enumerated(model)
        reference = known.output(selected)
        for kind in KINDS:
            agreed, sizes = known.truth(selected, kind, agree, reference)
            nearest = check_nearest(countable, known, selected, kind, agree, reference, agreed, sizes)
            methods.add(nearest.method)
    assert "branch and bound" in methods


@pytest.mark.parametrize("max_nodes", [0, 1, 3, 10, 30])
def test_brackets_of_a_search_that_is_cut_short_contain_the_truth(max_nodes, monkeypatch):
    monkeypatch.setattr(ensembles, "_QUICK_TABLE", 0)
    monkeypatch.setattr(ensembles, "_TABLE_WORK", 0)
    n_open = 0
    for seed in range(300, 320):
        model, selected, agree, _ = random_case("forest" if seed % 2 else "xgboost", seed)
        countable, known = countable_of(model), Enumerated(model)
        if not isinstance(countable, TreeEnsemble):
            continue
        reference = known.output(selected)
        for kind in KINDS:
            agreed, sizes = known.truth(selected, kind, agree, reference)
            limits = {"max_nodes": max_nodes}
            nearest = check_nearest(countable, known, selected, kind, agree, reference, agreed, sizes, **limits)
            n_open += not nearest.proven
            again = countable.nearest_change(selected, kind, as_agreement(agree), reference, **limits)
            assert (again.cleared, again.distance, again.n_nodes) == (
                nearest.cleared,
                nearest.distance,
                nearest.n_nodes,
            )
    assert n_open > 0 or max_nodes > 3


def test_trees_with_more_than_64_leaves_are_searched_and_scored():
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 2, size=(800, 12)).astype(float)
    forest = RandomForestClassifier(3, random_state=0).fit(rows, rng.integers(0, 2, size=800))
    seen = 0
    for row in rows[:3]:
        model = hf.mask_tabular(forest, row, fill=1 - row)
        countable = countable_of(model)
        seen = max(seen, max(len(tree) for tree in countable.fills[0]))
        check_against_enumeration(countable, model, rng.random(12) < 0.3, "same_top_class", kinds=("additions",))
        masks = rng.random((50, 12)) < 0.5
        assert (countable(masks) == model(masks)).all()
    assert seen > 64


def test_a_radius_that_is_asked_for_limits_the_search():
    model, selected, agree, _ = random_case("forest", 5)
    countable, judge = countable_of(model), as_agreement(agree)
    nearest = countable.nearest_change(selected, "additions", judge, model(selected[None])[0], max_radius=1)
    assert nearest.largest <= 1
    assert nearest.cleared <= 1


def test_probabilities_behind_a_softmax_are_not_judged_by_thresholds():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 4))
    forest = GradientBoostingClassifier(n_estimators=3).fit(rows, np.arange(60) % 3)
    model = hf.mask_tabular(forest, rows[0], background=rows)
    countable = countable_of(model)
    reference = model(np.ones((1, 4), dtype=bool))[0]
    assert "softmax" in countable.reasons_against(as_agreement("within(0.1)"), reference)
    assert countable.reasons_against(as_agreement("same_top_class"), reference) is None
    assert countable.reasons_against(as_agreement("same_top_set(2)"), reference) is not None
    with pytest.raises(InvalidValueError, match="softmax"):
        countable.count(np.zeros(4, dtype=bool), "additions", as_agreement("within(0.1)"), reference)


def test_categories_of_a_frame_go_where_the_library_sends_them():
    import pandas as pd

    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=200), "b": rng.normal(size=200)})
    frame["kind"] = pd.Categorical(rng.choice(list("wxyz"), size=200))
    y = ((frame["kind"].isin(["x", "z"])).to_numpy() ^ (frame["a"].to_numpy() > 0)).astype(int)
    model = HistGradientBoostingClassifier(categorical_features="from_dtype", max_iter=5).fit(frame, y)
    for at in range(8):
        masked = hf.mask_tabular(model, frame.iloc[[at]], background=frame, fill="mode")
        countable = countable_of(masked)
        assert countable is not None
        check_against_enumeration(countable, masked, np.array([False, True, False]), "same_top_class")


def test_categories_that_were_never_seen_or_are_missing_go_where_the_library_sends_them():
    rng = np.random.default_rng(3)
    rows = np.column_stack([rng.integers(0, 6, size=300), rng.normal(size=300), rng.integers(2, 5, size=300)]).astype(
        float
    )
    rows[rng.random(300) < 0.2, 0] = np.nan
    y = (np.isin(rows[:, 0], [1, 3]) ^ np.isnan(rows[:, 0]) ^ (rows[:, 2] == 3) ^ (rows[:, 1] > 0)).astype(int)
    model = HistGradientBoostingClassifier(categorical_features=[0, 2], max_iter=8, min_samples_leaf=3).fit(rows, y)
    for kind in (0.0, 3.0, 9.0, np.nan):
        for fill in (1.0, 7.0, np.nan):
            masked = hf.mask_tabular(model, [kind, 0.3, 3.0], fill=np.array([fill, -1.0, 8.0]))
            countable = countable_of(masked)
            assert countable is not None
            check_against_enumeration(countable, masked, np.array([False, True, False]), "same_top_class")


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_categories_of_boosters_are_read_or_refused(library):
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.integers(0, 5, size=200), rng.normal(size=200), rng.integers(0, 3, size=200)]).astype(
        float
    )
    y = (np.isin(rows[:, 0], [1, 3]) ^ (rows[:, 1] > 0)).astype(int)
    if library == "xgboost":
        import xgboost

        kinds = ["c", "q", "c"]
        model = xgboost.XGBClassifier(
            n_estimators=5, max_depth=3, feature_types=kinds, enable_categorical=True, max_cat_to_onehot=1
        ).fit(rows, y)
    else:
        import lightgbm

        model = lightgbm.LGBMClassifier(
            n_estimators=5, num_leaves=6, min_child_samples=3, min_data_per_group=3, cat_smooth=1.0, verbose=-1
        ).fit(rows, y, categorical_feature=[0, 2])
    for row in rows[:8]:
        masked = hf.mask_tabular(model, row, fill=rows[20])
        countable = countable_of(masked)
        assert countable is not None
        check_against_enumeration(countable, masked, np.array([False, True, False]), "same_top_class")


def test_more_leaves_than_are_worth_reading_are_not_read(monkeypatch):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(100, 6))
    forest = RandomForestClassifier(10, random_state=0).fit(rows, (rows[:, 0] * rows[:, 1] > 0).astype(int))
    model = hf.mask_tabular(forest, rows[0], background=rows, fill="background", n_background=4)
    assert countable_of(model) is not None
    monkeypatch.setattr(binding, "_MOST_LEAVES", 50)
    assert countable_of(model) is None


def test_a_search_of_a_large_ensemble_looks_at_fewer_parts(monkeypatch):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200, 12))
    forest = RandomForestClassifier(30, random_state=0).fit(rows, (rows.sum(axis=1) > 0).astype(int))
    monkeypatch.setattr(ensembles, "_QUICK_TABLE", 0)
    monkeypatch.setattr(ensembles, "_TABLE_WORK", 0)
    selected, agree, n_open = np.arange(12) < 6, as_agreement("same_top_class"), 0
    for row in rows[:20]:
        model = hf.mask_tabular(forest, row, background=rows)
        searches = []
        for work in (1 << 26, 1):
            monkeypatch.setattr(ensembles, "_SEARCH_WORK", work)
            reference = model(selected[None])[0]
            searches.append(countable_of(model).nearest_change(selected, "additions", agree, reference))
        whole, cut = searches
        assert whole.proven
        assert cut.cleared <= whole.cleared
        assert cut.distance is None or cut.distance >= whole.distance
        n_open += not cut.proven
    assert n_open > 0
