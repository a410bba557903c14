"""What cannot be read as plain trees or sums is refused, never approximated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    BaggingClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression, LogisticRegression, SGDClassifier
from sklearn.naive_bayes import CategoricalNB, GaussianNB, MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import holdfast as hf
from holdfast.agreement import as_agreement
from holdfast.evaluation import Evaluator
from holdfast.exact.binding import countable_of, read_structure
from holdfast.exact.limits import SumScoring

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(80, 4))
CLASSES = (ROWS[:, 0] + ROWS[:, 1] > 0).astype(int)
TARGETS = ROWS[:, 0] * 2 + ROWS[:, 1]


def booster(library: str, **settings: Any) -> Any:
    if library == "xgboost":
        import xgboost

        return xgboost.XGBClassifier(n_estimators=3, n_jobs=1, **settings)
    if library == "lightgbm":
        import lightgbm

        kind = lightgbm.LGBMRegressor if settings.get("linear_tree") else lightgbm.LGBMClassifier
        return kind(n_estimators=3, verbose=-1, n_jobs=1, min_child_samples=5, **settings)
    import catboost

    quiet = {"verbose": 0, "allow_writing_files": False, "thread_count": 1}
    return catboost.CatBoostClassifier(iterations=3, **quiet, **settings)


@pytest.mark.parametrize(
    ("model", "y"),
    [
        (AdaBoostClassifier(LogisticRegression(), n_estimators=3), CLASSES),
        (AdaBoostRegressor(n_estimators=3), TARGETS),
        (BaggingClassifier(LogisticRegression(), 3), CLASSES),
        (GradientBoostingClassifier(n_estimators=3, loss="exponential"), CLASSES),
        (GradientBoostingRegressor(n_estimators=3, init=LinearRegression()), TARGETS),
        (HistGradientBoostingRegressor(max_iter=3, loss="poisson"), np.abs(TARGETS)),
        (SGDClassifier(loss="modified_huber"), CLASSES),
        (SGDClassifier(loss="log_loss"), np.arange(80) % 3),
        (make_pipeline(FunctionTransformer(np.abs), DecisionTreeClassifier()), CLASSES),
        (booster("xgboost", booster="gblinear"), CLASSES),
        (booster("xgboost", objective="binary:hinge"), CLASSES),
        (booster("xgboost", missing=0.0), CLASSES),
        (booster("lightgbm", objective="multiclassova"), np.arange(80) % 3),
        (booster("lightgbm", linear_tree=True), TARGETS),
        (booster("catboost", loss_function="MultiClassOneVsAll"), np.arange(80) % 3),
    ],
    ids=lambda value: type(value).__name__,
)
def test_other_models_are_not_read(model, y):
    model.fit(ROWS, y)
    assert countable_of(hf.mask_tabular(model, ROWS[0], background=ROWS)) is None


def test_naive_bayes_without_smoothing_is_not_read():
    rows = np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [0.0, 3.0]])
    with np.errstate(divide="ignore"):
        model = MultinomialNB(alpha=0.0).fit(rows, [0, 0, 1, 1])
        assert countable_of(hf.mask_tabular(model, rows[0], background=rows)) is None


def test_a_category_that_naive_bayes_does_not_know_is_refused_by_itself():
    rows = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    model = CategoricalNB().fit(rows, [0, 0, 1, 1])
    masked = hf.mask_tabular(model, rows[0], fill=2.0)
    assert read_structure(masked) is None
    with pytest.raises(IndexError):
        hf.certify(masked, [0], radius=1)


def test_categories_of_catboost_are_not_read():
    frame = pd.DataFrame({"number": ROWS[:, 0], "kind": RNG.choice(list("abc"), size=80)})
    model = booster("catboost").fit(frame, CLASSES, cat_features=["kind"])
    assert countable_of(hf.mask_tabular(model, frame.iloc[[0]], background=frame, fill="mode")) is None


def test_categories_that_a_library_numbers_itself_are_not_read():
    frame = pd.DataFrame({"number": ROWS[:, 0], "kind": pd.Categorical(RNG.choice(list("abc"), size=80))})
    for library in ("xgboost", "lightgbm"):
        settings = {"enable_categorical": True} if library == "xgboost" else {}
        model = booster(library, **settings).fit(frame, CLASSES)
        assert countable_of(hf.mask_tabular(model, frame.iloc[[0]], background=frame, fill="mode")) is None


def test_several_outputs_are_not_read():
    both = np.stack([CLASSES, 1 - CLASSES], axis=1)
    for model in (DecisionTreeClassifier(), RandomForestRegressor(3)):
        model.fit(ROWS, both)
        assert countable_of(hf.mask_tabular(model, ROWS[0], background=ROWS)) is None


def test_softmax_and_functions_are_not_read():
    tree = DecisionTreeClassifier().fit(ROWS, CLASSES)
    assert countable_of(hf.mask_tabular(tree, ROWS[0], background=ROWS, softmax=True)) is None
    assert countable_of(hf.mask_tabular(lambda rows: tree.predict_proba(rows), ROWS[0], background=ROWS)) is None


def test_means_of_probabilities_over_background_rows_are_not_sums():
    for model in (GradientBoostingClassifier(n_estimators=3), LogisticRegression(), GaussianNB()):
        model.fit(ROWS, CLASSES)
        assert countable_of(hf.mask_tabular(model, ROWS[0], background=ROWS, fill="background")) is None


def test_missing_values_of_a_linear_model_are_not_read():
    model = LogisticRegression().fit(ROWS, CLASSES)
    masked = hf.mask_tabular(model, ROWS[0], fill=[np.nan, 0.0, 0.0, 0.0])
    with pytest.raises(Exception, match="missing values"):
        masked(np.zeros((1, 4), dtype=bool))
    assert countable_of(masked) is None


def test_what_was_read_is_known_through_an_evaluator():
    tree = DecisionTreeClassifier().fit(ROWS, CLASSES)
    model = hf.mask_tabular(tree, ROWS[0], background=ROWS)
    countable = countable_of(Evaluator(model))
    assert countable is not None
    assert countable_of(countable) is countable


def test_a_model_that_was_fitted_again_is_read_again():
    tree = DecisionTreeRegressor(random_state=0).fit(ROWS, TARGETS)
    first = countable_of(hf.mask_tabular(tree, ROWS[0], background=ROWS))
    tree.fit(ROWS, -TARGETS)
    model = hf.mask_tabular(tree, ROWS[0], background=ROWS)
    second = countable_of(model)
    masks = RNG.random((20, 4)) < 0.5
    assert (second(masks) == model(masks)).all()
    assert (first(masks) != second(masks)).any()


def test_models_are_told_apart_whatever_they_are_called():
    masks = RNG.random((40, 4)) < 0.5
    for sign in (1, -1):
        tree = DecisionTreeRegressor(random_state=0).fit(ROWS, sign * TARGETS)
        model = hf.mask_tabular(tree, ROWS[0], background=ROWS, fingerprint="mine")
        assert (countable_of(model)(masks) == model(masks)).all()


def test_a_last_step_that_was_fitted_again_is_read_again():
    pipeline = make_pipeline(StandardScaler(), DecisionTreeRegressor(random_state=0)).fit(ROWS, TARGETS)
    assert countable_of(hf.mask_tabular(pipeline, ROWS[0], background=ROWS)) is not None
    pipeline[-1].fit(pipeline[0].transform(ROWS), -TARGETS)
    model = hf.mask_tabular(pipeline, ROWS[0], background=ROWS)
    masks = RNG.random((40, 4)) < 0.5
    assert (countable_of(model)(masks) == model(masks)).all()


def test_labels_and_regressions_of_linear_models_are_read():
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(ROWS, CLASSES)
    masked = hf.mask_tabular(model.predict, ROWS[0], background=ROWS)
    assert countable_of(masked).scoring.classes == (0, 1)


@pytest.mark.parametrize(
    ("agree", "reference", "reason"),
    [
        ("same_side(0.0)", [0.6, 0.4], "probability 0 or 1"),
        ("within(0.4)", [0.6, 0.4], "probability 0 or 1"),
        ("same_side(1e-300)", [0.6, 0.4], "probability 0 or 1"),
        ("same_labels(0.5)", [0.6, 0.4], "limits on sums"),
    ],
)
def test_thresholds_that_rounding_of_a_link_decides_are_refused(agree, reference, reason):
    limits = SumScoring("logistic", 1).limits(as_agreement(agree), np.array(reference))
    assert reason in limits


def test_thresholds_that_no_probability_reaches_always_or_never_hold():
    scoring = SumScoring("logistic", 1)
    assert scoring.limits(as_agreement("same_side(1.5)"), np.array([0.6, 0.4])) == []
    assert scoring.limits(as_agreement("within(2.0)"), np.array([0.6, 0.4])) == []


def test_a_foreign_label_has_no_limits():
    scoring = SumScoring("identity", 2, classes=("a", "b"))
    assert "the model has no label" in scoring.limits(as_agreement("same_top_class"), "c")
