"""Models that people fit beside the common ones: counts are those of enumeration, whatever the loss or the link."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import catboost
import lightgbm
import numpy as np
import pytest
import xgboost
from sklearn import ensemble, linear_model, naive_bayes
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer
from sklearn.svm import LinearSVR
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import holdfast as hf
from holdfast.exact.binding import countable_of
from holdfast.exact.ensembles import TreeEnsemble
from tests.helpers.exact_oracles import check_against_enumeration

N, N_ROWS = 6, 120
RNG = np.random.default_rng(0)
ROWS = RNG.integers(0, 4, size=(N_ROWS, N)).astype(float)
TWO = (ROWS[:, 0] + ROWS[:, 1] * ROWS[:, 2] > 4).astype(int)
THREE = (ROWS[:, :3].sum(axis=1) % 3).astype(int)
NUMBERS = ROWS[:, 0] + ROWS[:, 1] * ROWS[:, 2] + 0.1 * RNG.normal(size=N_ROWS)

XGB: dict[str, Any] = {"n_estimators": 8, "max_depth": 3, "n_jobs": 1}
LGB: dict[str, Any] = {"n_estimators": 8, "min_child_samples": 3, "verbose": -1, "n_jobs": 1}
CAT: dict[str, Any] = {"iterations": 8, "depth": 3, "verbose": 0, "allow_writing_files": False, "thread_count": 1}
BAG = {"bagging_freq": 1, "bagging_fraction": 0.5}

MODELS: dict[str, tuple[Any, Any]] = {
    "XGBoost dart": (xgboost.XGBClassifier(booster="dart", rate_drop=0.5, **XGB), TWO),
    "XGBoost dart, three": (xgboost.XGBClassifier(booster="dart", rate_drop=0.5, **XGB), THREE),
    "XGBoost forest": (xgboost.XGBRFClassifier(**XGB), TWO),
    "XGBoost absolute error": (xgboost.XGBRegressor(objective="reg:absoluteerror", **XGB), NUMBERS),
    "XGBoost huber": (xgboost.XGBRegressor(objective="reg:pseudohubererror", **XGB), NUMBERS),
    "XGBoost quantile": (xgboost.XGBRegressor(objective="reg:quantileerror", quantile_alpha=0.5, **XGB), NUMBERS),
    "LightGBM dart": (lightgbm.LGBMClassifier(boosting_type="dart", drop_rate=0.5, **LGB), TWO),
    "LightGBM forest": (lightgbm.LGBMClassifier(boosting_type="rf", **BAG, **LGB), TWO),
    "LightGBM forest, three": (lightgbm.LGBMClassifier(boosting_type="rf", **BAG, **LGB), THREE),
    "LightGBM forest of numbers": (lightgbm.LGBMRegressor(boosting_type="rf", **BAG, **LGB), NUMBERS),
    "LightGBM huber": (lightgbm.LGBMRegressor(objective="huber", **LGB), NUMBERS),
    "LightGBM quantile": (lightgbm.LGBMRegressor(objective="quantile", **LGB), NUMBERS),
    "LightGBM absolute percentages": (lightgbm.LGBMRegressor(objective="mape", **LGB), 1 + NUMBERS),
    "LightGBM fair": (lightgbm.LGBMRegressor(objective="fair", **LGB), NUMBERS),
    "LightGBM absolute error": (lightgbm.LGBMRegressor(objective="regression_l1", **LGB), NUMBERS),
    "CatBoost by depth": (catboost.CatBoostClassifier(grow_policy="Depthwise", **CAT), TWO),
    "CatBoost by loss": (catboost.CatBoostClassifier(grow_policy="Lossguide", **CAT), THREE),
    "CatBoost by loss, numbers": (catboost.CatBoostRegressor(grow_policy="Lossguide", **CAT), NUMBERS),
    "CatBoost absolute error": (catboost.CatBoostRegressor(loss_function="MAE", **CAT), NUMBERS),
    "CatBoost quantile": (catboost.CatBoostRegressor(loss_function="Quantile:alpha=0.3", **CAT), NUMBERS),
    "CatBoost absolute percentages": (catboost.CatBoostRegressor(loss_function="MAPE", **CAT), 1 + NUMBERS),
    "CatBoost huber": (catboost.CatBoostRegressor(loss_function="Huber:delta=1.0", **CAT), NUMBERS),
    "CatBoost expectile": (catboost.CatBoostRegressor(loss_function="Expectile:alpha=0.3", **CAT), NUMBERS),
    "AdaBoost": (ensemble.AdaBoostClassifier(DecisionTreeClassifier(max_depth=2), n_estimators=6), TWO),
    "AdaBoost, three": (ensemble.AdaBoostClassifier(DecisionTreeClassifier(max_depth=2), n_estimators=6), THREE),
    "bagging": (ensemble.BaggingClassifier(DecisionTreeClassifier(max_depth=3), 6), THREE),
    "bagging of columns": (ensemble.BaggingClassifier(DecisionTreeClassifier(), 6, max_features=0.5), TWO),
    "bagging of numbers": (ensemble.BaggingRegressor(DecisionTreeRegressor(max_depth=3), 6), NUMBERS),
    "SGD, logistic": (linear_model.SGDClassifier(loss="log_loss"), TWO),
    "least squares": (linear_model.LinearRegression(), NUMBERS),
    "ridge": (linear_model.Ridge(), NUMBERS),
    "lasso": (linear_model.Lasso(alpha=0.01), NUMBERS),
    "linear SVM of numbers": (LinearSVR(max_iter=100_000), NUMBERS),
    "quantile regression": (linear_model.QuantileRegressor(alpha=0.0, solver="highs"), NUMBERS),
    "least angle regression": (linear_model.Lars(), NUMBERS),
    "least angle regression, validated": (linear_model.LarsCV(), NUMBERS),
    "least angle lasso": (linear_model.LassoLars(alpha=0.01), NUMBERS),
    "least angle lasso, validated": (linear_model.LassoLarsCV(), NUMBERS),
    "matching pursuit": (linear_model.OrthogonalMatchingPursuit(n_nonzero_coefs=4), NUMBERS),
    "elastic net": (linear_model.ElasticNet(alpha=0.01), NUMBERS),
    "Bayesian ridge": (linear_model.BayesianRidge(), NUMBERS),
    "relevance": (linear_model.ARDRegression(), NUMBERS),
    "huber regression": (linear_model.HuberRegressor(max_iter=1000), NUMBERS),
    "SGD of numbers": (linear_model.SGDRegressor(), NUMBERS),
    "median of slopes": (linear_model.TheilSenRegressor(max_subpopulation=100), NUMBERS),
    "ridge classifier": (linear_model.RidgeClassifier(), THREE),
    "Bernoulli naive Bayes": (naive_bayes.BernoulliNB(binarize=1.0), THREE),
    "Bernoulli naive Bayes of bits": (naive_bayes.BernoulliNB(binarize=None), (ROWS[:, 0] > 1).astype(int)),
    "multinomial naive Bayes": (naive_bayes.MultinomialNB(), THREE),
    "complement naive Bayes": (naive_bayes.ComplementNB(), THREE),
    "categorical naive Bayes": (naive_bayes.CategoricalNB(), TWO),
    "splines and logistic": (make_pipeline(SplineTransformer(n_knots=4), linear_model.LogisticRegression()), TWO),
    "splines and ridge": (make_pipeline(SplineTransformer(n_knots=4), linear_model.Ridge()), NUMBERS),
}


def check(model: Any, y: Any, agreements: tuple[str, ...], ask: Callable[[Any], Any] = lambda model: model) -> None:
    """Counts of a fitted model on some rows are those of enumeration, and scores from its trees are its own."""
    kept = set()
    for at in range(5):
        masked = hf.mask_tabular(ask(model), ROWS[at], fill=ROWS[20 + at])
        countable = countable_of(masked)
        assert countable is not None
        selected = RNG.random(N) < 0.4
        for agree in agreements:
            check_against_enumeration(countable, masked, selected, agree)
        masks = RNG.random((40, N)) < 0.5
        if isinstance(countable, TreeEnsemble) and countable.straight:
            assert countable.is_alike(countable.scores(masks), np.asarray(masked(masks)))
        kept |= {output.tobytes() for output in np.asarray(masked(masks))}
    assert len(kept) > 1, "the masks change nothing"


@pytest.mark.parametrize("name", MODELS)
def test_counts_are_those_of_enumeration(name: str) -> None:
    model, y = MODELS[name]
    rows = (ROWS > 1).astype(float) if name.endswith("of bits") else ROWS
    fitted = clone(model).set_params(**({"random_state": 0} if "random_state" in model.get_params() else {}))
    fitted.fit(rows, y)
    if y.dtype.kind == "f":
        check(fitted, y, ("within(0.7)", "same_side(3.5)", "within_percent(30.0)"))
        return
    check(fitted, y, ("same_top_class",))
    if len(np.unique(y)) == 2 and hasattr(fitted, "predict_proba") and "naive Bayes" not in name:
        check(fitted, y, ("same_side(0.4)", "within(0.2)"))
    if not name.startswith("CatBoost"):
        check(fitted, y, ("same_top_class",), ask=lambda model: model.predict)


def test_boosters_that_stopped_early_are_read_up_to_their_best_round() -> None:
    settings = XGB | {"n_estimators": 60, "max_depth": 5}
    booster = xgboost.XGBClassifier(early_stopping_rounds=3, **settings)
    booster.fit(ROWS[:60], TWO[:60], eval_set=[(ROWS[60:], TWO[60:])], verbose=False)
    assert booster.best_iteration + 1 < booster.get_booster().num_boosted_rounds()
    check(booster, TWO, ("same_top_class",))


@pytest.mark.parametrize("y", [TWO, THREE, NUMBERS], ids=["two", "three", "numbers"])
def test_boosting_machines_without_pairs_are_sums(y: Any) -> None:
    from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor

    kind = ExplainableBoostingRegressor if y is NUMBERS else ExplainableBoostingClassifier
    machine = kind(interactions=0, outer_bags=2, max_rounds=30, n_jobs=1, random_state=0).fit(ROWS, y)
    if y.dtype.kind == "f":
        check(machine, y, ("within(0.7)", "same_side(3.5)"))
        return
    check(machine, y, ("same_top_class",))
    check(machine, y, ("same_top_class",), ask=lambda model: model.predict)
    if y is TWO:
        check(machine, y, ("same_side(0.4)", "within(0.2)"))


@pytest.mark.filterwarnings("ignore:Missing values detected")
def test_boosting_machines_know_categories_and_missing_values() -> None:
    import pandas as pd
    from interpret.glassbox import ExplainableBoostingClassifier

    frame = pd.DataFrame({"a": ROWS[:, 0], "b": np.where(ROWS[:, 1] > 2, np.nan, ROWS[:, 1]), "c": ROWS[:, 2]})
    frame["kind"] = np.where(ROWS[:, 3] > 1, "x", np.where(ROWS[:, 4] > 1, "y", "z"))
    labels = ((frame["kind"] == "x").to_numpy() ^ (ROWS[:, 0] > 1)).astype(int)
    settings: dict[str, Any] = {"outer_bags": 2, "max_rounds": 30, "n_jobs": 1, "random_state": 0}
    machine = ExplainableBoostingClassifier(interactions=0, **settings).fit(frame, labels)
    pairs = ExplainableBoostingClassifier(interactions=1, **settings).fit(frame, labels)
    for at in range(6):
        masked = hf.mask_tabular(machine, frame.iloc[[at]], background=frame, fill="mode")
        countable = countable_of(masked)
        assert countable is not None
        check_against_enumeration(countable, masked, np.array([False, True, False, False]), "same_top_class")
        assert countable_of(hf.mask_tabular(pairs, frame.iloc[[at]], background=frame, fill="mode")) is None
