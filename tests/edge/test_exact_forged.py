"""Models that answer otherwise than their structure says are not counted, and readers that fail mean draws."""

from __future__ import annotations

from types import MethodType
from typing import Any

import catboost
import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import holdfast as hf
from holdfast.agreement import as_agreement
from holdfast.exact.binding import countable_of, read_structure
from holdfast.masking.torch import fingerprint_live
from tests.helpers.exact_oracles import Enumerated

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(200, 6))
CLASSES = (ROWS[:, 0] + ROWS[:, 1] * ROWS[:, 2] > 0).astype(int)
QUIET: dict[str, Any] = {"n_estimators": 4, "max_depth": 3, "n_jobs": 1}
SELECTED = np.arange(6) < 2


def masked(model: Any, row: int = 0) -> Any:
    return hf.mask_tabular(model, ROWS[row], background=ROWS)


def flipped(rows: Any, scores: Any) -> Any:
    """A rule of the user's own, for rows that few masks make."""
    rare = (np.asarray(rows) == ROWS[0]).sum(axis=1) == 3
    return np.where(rare[:, None], scores[:, ::-1], scores)


class RuledXGB(xgboost.XGBClassifier):
    def predict_proba(self, rows: Any, **options: Any) -> Any:
        return flipped(rows, super().predict_proba(rows, **options))


class RuledLGBM(lightgbm.LGBMClassifier):
    def predict_proba(self, rows: Any, **options: Any) -> Any:
        return flipped(rows, super().predict_proba(rows, **options))


class RuledCatBoost(catboost.CatBoostClassifier):
    def predict_proba(self, rows: Any, **options: Any) -> Any:
        return flipped(rows, super().predict_proba(rows, **options))


CAT = {"iterations": 4, "depth": 3, "verbose": 0, "allow_writing_files": False, "thread_count": 1}


@pytest.mark.parametrize("kind", [RuledXGB, RuledLGBM, RuledCatBoost])
def test_classes_derived_from_a_librarys_own_are_not_read(kind):
    model = kind(**(CAT if kind is RuledCatBoost else QUIET | ({"verbose": -1} if kind is RuledLGBM else {})))
    model.fit(ROWS, CLASSES)
    assert read_structure(masked(model)) is None


@pytest.mark.parametrize(
    "model",
    [
        DecisionTreeClassifier(max_depth=3),
        RandomForestClassifier(3, max_depth=3),
        LogisticRegression(),
        xgboost.XGBClassifier(**QUIET),
        lightgbm.LGBMClassifier(**QUIET, verbose=-1),
        catboost.CatBoostClassifier(**CAT),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_method_replaced_on_the_model_itself_is_not_read(model):
    model.fit(ROWS, CLASSES)
    assert read_structure(masked(model)) is not None
    own = model.predict_proba
    model.predict_proba = MethodType(lambda self, rows: flipped(rows, own(rows)), model)
    assert read_structure(masked(model)) is None


def test_methods_replaced_inside_a_pipeline_or_an_ensemble_are_not_read():
    pipeline = make_pipeline(StandardScaler(), DecisionTreeClassifier(max_depth=3)).fit(ROWS, CLASSES)
    assert read_structure(masked(pipeline)) is not None
    for part in (pipeline, pipeline[0], pipeline[1]):
        name = "transform" if part is pipeline[0] else "predict_proba"
        setattr(part, name, getattr(part, name))
        assert read_structure(masked(pipeline)) is None
        delattr(part, name)
    bagged = BaggingClassifier(DecisionTreeClassifier(max_depth=3), 3).fit(ROWS, CLASSES)
    bagged.estimators_[1].predict_proba = bagged.estimators_[0].predict_proba
    assert read_structure(masked(bagged)) is None


@pytest.mark.parametrize("threshold", [0.1, 0.2, 0.3, 0.6, 0.7, 0.9])
def test_means_of_whole_votes_are_judged_as_floats_round_them(threshold):
    """1 / 10 is the float 0.1, though ten times that float is more than 1."""
    agree = as_agreement(f"same_side({threshold})")
    forest = RandomForestClassifier(10, random_state=0).fit(ROWS, CLASSES)
    for row in range(10):
        model = masked(forest, row)
        known = Enumerated(model)
        reference = known.output(SELECTED)
        agreed, _ = known.truth(SELECTED, "additions", agree.name, reference)
        counts = countable_of(model).count(SELECTED, "additions", agree, reference)
        assert counts.exact
        assert list(counts.agreed) == agreed
        nearest = countable_of(model).nearest_change(SELECTED, "additions", agree, reference)
        true = next((k for k, size in enumerate(counts.sizes) if agreed[k] < size), None)
        assert nearest.distance == true


def test_sparse_rows_of_boosters_are_not_read():
    """What a sparse matrix leaves out is missing for XGBoost, and 0 for others."""
    frame = pd.DataFrame({"kind": RNG.choice(list("abc"), size=200), "number": np.maximum(0, ROWS[:, 0])})
    encode = ColumnTransformer(
        [("kinds", OneHotEncoder(), ["kind"]), ("rest", "passthrough", ["number"])], sparse_threshold=1.0
    )
    for model in (xgboost.XGBClassifier(**QUIET), lightgbm.LGBMClassifier(**QUIET, verbose=-1)):
        pipeline = make_pipeline(encode, model).fit(frame, CLASSES)
        assert read_structure(hf.mask_tabular(pipeline, frame.iloc[[0]], background=frame)) is None


def test_categories_that_are_numbers_are_not_read_for_xgboost():
    frame = pd.DataFrame({"kind": pd.Categorical(RNG.choice([10, 20, 30], size=200)), "number": ROWS[:, 0]})
    model = xgboost.XGBClassifier(**QUIET, enable_categorical=True).fit(frame, CLASSES)
    assert read_structure(hf.mask_tabular(model, frame.iloc[[0]], background=frame, fill="mode")) is None


def test_labels_of_catboost_by_another_threshold_are_not_read_and_tell_models_apart():
    model = catboost.CatBoostClassifier(**CAT).fit(ROWS, CLASSES)
    before, scores = fingerprint_live(model.predict), fingerprint_live(model)
    assert read_structure(masked(model.predict)) is not None
    model.set_probability_threshold(0.3)
    assert read_structure(masked(model.predict)) is None
    assert read_structure(masked(model)) is not None
    assert fingerprint_live(model.predict) != before
    assert fingerprint_live(model) == scores


def test_lightgbm_that_stops_early_for_sure_rows_is_not_read():
    settings = {"pred_early_stop": True, "pred_early_stop_margin": 1.0, "pred_early_stop_freq": 1}
    model = lightgbm.LGBMClassifier(**QUIET, verbose=-1, **settings).fit(ROWS, CLASSES)
    assert read_structure(masked(model)) is None


def test_raw_scores_of_xgboost_are_read_from_the_booster_alone():
    model = xgboost.XGBClassifier(**QUIET, objective="binary:logitraw").fit(ROWS, CLASSES)
    assert read_structure(masked(model.predict)) is None
    assert read_structure(masked(model)) is None
    assert countable_of(masked(model.get_booster())) is not None


@pytest.mark.parametrize("base_score", [1e-6, 0.3, 0.999, 0.999999])
def test_base_scores_near_0_and_1_are_read_as_the_library_rounds_them(base_score):
    model = xgboost.XGBClassifier(**QUIET, base_score=base_score).fit(ROWS, CLASSES)
    countable = countable_of(masked(model))
    raw = countable.scorer[0].raw(np.ones((1, 6), dtype=bool))[0, 0]
    margin = model.predict(ROWS[:1], output_margin=True)[0]
    assert abs(raw - margin) <= countable.units.tolerance


def test_what_a_matrix_product_rounds_is_left_undecided():
    n_undecided = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(50, 8)).round(1)
        model = LinearRegression().fit(rows, rows @ rng.normal(size=8) + rng.normal(size=50))
        masked_row = hf.mask_tabular(model, rows[0], fill=rows[1])
        # A threshold that some masks hit but for the last bit.
        threshold = float(masked_row(rng.random((1, 8)) < 0.5)[0, 0])
        agree, selected = hf.agreement.same_side(threshold), np.arange(8) < 2
        certificates = [hf.certify(masked_row, selected, radius=6, agree=agree, rng=0, batch_size=b) for b in (1, None)]
        assert len({(certificate.proof, certificate.n_agreed) for certificate in certificates}) == 1 or not any(
            certificate.proof for certificate in certificates
        )
        n_undecided += certificates[0].proof is None
    assert 0 < n_undecided < 20


def custom_loss(y: Any, predictions: Any) -> Any:
    return predictions - y, np.ones_like(y)


def test_readers_that_fail_mean_draws():
    models = [
        LogisticRegression().fit(ROWS, CLASSES).sparsify(),
        lightgbm.LGBMRegressor(objective=custom_loss, **QUIET, verbose=-1).fit(ROWS, ROWS[:, 0]),
        xgboost.XGBClassifier(n_estimators=0, n_jobs=1).fit(ROWS, CLASSES),
    ]
    for model in models:
        agree = "within(0.1)" if isinstance(model, lightgbm.LGBMRegressor) else "same_top_class"
        certificate = hf.certify(masked(model), SELECTED, radius=4, agree=agree, rng=0)
        assert certificate.proof is None


def test_a_booster_that_knows_no_missing_value_is_identified():
    model = xgboost.XGBClassifier(**QUIET).fit(ROWS, CLASSES)
    before = fingerprint_live(model)
    model.missing = None
    assert fingerprint_live(model) == before
    assert masked(model).n_features == 6
