"""Every table model under 500 masks: equal to the library's own prediction on rows that are masked by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import catboost
import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import holdfast as hf

N_ROWS, N_MASKS = 60, 500
NUMBERS = ["mean size", "weight", "visits", "smokes"]
CATEGORIES = [*NUMBERS, "job"]
TEXTS = [*NUMBERS, "city"]
QUIET: dict[str, Any] = {"verbose": 0, "allow_writing_files": False, "thread_count": 1, "iterations": 5}
SMALL: dict[str, Any] = {"n_estimators": 5, "n_jobs": 1}
DTYPES: dict[str, dict[str, str]] = {
    "plain": {},
    "narrow": {"mean size": "float32", "weight": "float32", "visits": "int32"},
    "nullable": {"mean size": "Float64", "weight": "Float64", "visits": "Int64", "smokes": "boolean"},
}


def whole_table() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "mean size": rng.normal(10, 3, N_ROWS).round(2),
            "weight": rng.normal(70, 10, N_ROWS).round(1),
            "visits": rng.integers(0, 9, N_ROWS),
            "smokes": rng.random(N_ROWS) < 0.4,
            "job": pd.Categorical(rng.choice(["baker", "nurse", "pilot"], N_ROWS)),
            "city": rng.choice(["Bergen", "Oslo", "Rome"], N_ROWS),
        }
    )


TABLE = whole_table()
TARGET = ((TABLE["mean size"] > 10) ^ (TABLE["visits"] > 4) ^ (TABLE["job"] == "nurse")).astype(int).to_numpy()


def with_holes(table: pd.DataFrame, seed: int, rate: float, columns: list[str]) -> pd.DataFrame:
    """The table with missing values in some columns; whole numbers and Booleans become floats where they have any."""
    rng, spoiled = np.random.default_rng(seed), table.copy()
    for column in columns:
        holes = rng.random(len(table)) < rate
        if holes.any():
            plain = spoiled[column].dtype.kind in "iub" and isinstance(spoiled[column].dtype, np.dtype)
            spoiled[column] = (spoiled[column].astype(float) if plain else spoiled[column]).mask(holes)
    return spoiled


def missing(column: pd.Series) -> Any:
    return pd.NA if isinstance(column.dtype, pd.api.extensions.ExtensionDtype) else np.nan


def hand_fill(column: pd.Series, fill: Any) -> Any:
    """What one hidden column holds."""
    known = column.dropna()
    is_number = pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_bool_dtype(column.dtype)
    if fill == "missing" or len(known) == 0:
        return missing(column)
    if fill == "mean" and is_number:
        return known.mean()
    if fill in ("mean", "mode"):
        counts = Counter(known.tolist())
        return min(value for value, count in counts.items() if count == max(counts.values()))
    return fill[column.name]


def hand_masked(row: pd.DataFrame, fills: dict[str, Any], masks: np.ndarray) -> pd.DataFrame:
    """The row with fills where a mask is False, one row per mask; each column of the first type that can hold it."""
    columns = {}
    for place, name in enumerate(row.columns):
        own, dtype = row[name].iloc[0], row[name].dtype
        values = [own if shown else fills[name] for shown in masks[:, place]]
        if isinstance(dtype, np.dtype) and dtype.kind in "iub":
            fill = fills[name]
            keeps = not pd.isna(fill) and fill == dtype.type(fill)
            columns[name] = pd.Series(values, dtype=dtype if keeps else "float64")
        elif dtype == "Int64":
            fraction = not pd.isna(fills[name]) and fills[name] != int(fills[name])
            columns[name] = pd.Series(values, dtype="Float64" if fraction else "Int64")
        else:
            columns[name] = pd.Series(values, dtype=dtype)
    return pd.DataFrame(columns)


def two(positive: Any) -> Any:
    return np.stack([1 - positive, positive], axis=1)


def frame_of(columns: list[str]) -> pd.DataFrame:
    return with_holes(TABLE[columns], 5, 0.15, [column for column in columns if column != "city"])


def encoder() -> Any:
    codes = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    return make_column_transformer(
        (codes, ["job", "city"]), (make_pipeline(SimpleImputer(), StandardScaler()), NUMBERS)
    )


def grown(objective: str) -> Any:
    settings = {"objective": objective, "verbosity": -1, "num_threads": 1, "min_data_in_leaf": 5}
    return lgb.train(settings, lgb.Dataset(frame_of(CATEGORIES), TARGET), 5)


def trained() -> Any:
    matrix = xgb.DMatrix(frame_of(CATEGORIES), TARGET, enable_categorical=True)
    return xgb.train({"objective": "binary:logistic", "nthread": 1}, matrix, 5)


Ask = Callable[[Any], Any]


def fit(name: str) -> tuple[Any, Ask, list[str]]:
    """What is bound, the library's own prediction of a frame, and the columns it was fitted on."""
    light: dict[str, Any] = SMALL | {"verbose": -1, "min_child_samples": 5}
    every = [*CATEGORIES, "city"]
    if name == "pipeline":
        model: Any = make_pipeline(encoder(), LogisticRegression(max_iter=500)).fit(frame_of(every), TARGET)
        return model, model.predict_proba, every
    if name == "HistGradientBoosting":
        model = HistGradientBoostingClassifier(max_iter=5, categorical_features="from_dtype", min_samples_leaf=5)
        return model.fit(frame_of(CATEGORIES), TARGET), model.predict_proba, CATEGORIES
    if name == "RandomForest":
        model = RandomForestClassifier(8, random_state=0).fit(frame_of(NUMBERS), TARGET)
        return model, model.predict_proba, NUMBERS
    if name == "LogisticRegression":
        model = LogisticRegression(max_iter=5000).fit(TABLE[NUMBERS], TARGET)
        return model, model.predict_proba, NUMBERS
    if name == "XGBClassifier":
        model = xgb.XGBClassifier(enable_categorical=True, **SMALL).fit(frame_of(CATEGORIES), TARGET)
        return model, model.predict_proba, CATEGORIES
    if name == "XGBRegressor":
        model = xgb.XGBRegressor(enable_categorical=True, **SMALL).fit(frame_of(CATEGORIES), TABLE["weight"])
        return model.predict, lambda rows: model.predict(rows)[:, None], CATEGORIES
    if name == "xgboost.Booster":
        model = trained()
        return model, lambda rows: two(model.predict(xgb.DMatrix(rows, enable_categorical=True))), CATEGORIES
    if name == "LGBMClassifier":
        model = lgb.LGBMClassifier(**light).fit(frame_of(CATEGORIES), TARGET)
        return model, model.predict_proba, CATEGORIES
    if name == "LGBMRegressor":
        model = lgb.LGBMRegressor(**light).fit(frame_of(CATEGORIES), TABLE["weight"])
        return model.predict, lambda rows: model.predict(rows)[:, None], CATEGORIES
    if name == "lightgbm.Booster":
        model = grown("binary")
        return model, lambda rows: two(model.predict(rows)), CATEGORIES
    if name == "CatBoostClassifier":
        model = catboost.CatBoostClassifier(cat_features=["city"], **QUIET).fit(frame_of(TEXTS), TARGET)
        return model, model.predict_proba, TEXTS
    model = catboost.CatBoost(QUIET | {"loss_function": "Logloss", "cat_features": ["city"]}).fit(
        frame_of(TEXTS), TARGET
    )
    return model, lambda rows: model.predict(rows, prediction_type="Probability"), TEXTS


NAMES = ["pipeline", "HistGradientBoosting", "RandomForest", "LogisticRegression", "XGBClassifier", "XGBRegressor"]
NAMES += ["xgboost.Booster", "LGBMClassifier", "LGBMRegressor", "lightgbm.Booster", "CatBoostClassifier", "CatBoost"]


@pytest.fixture(scope="module", params=NAMES)
def fitted(request: pytest.FixtureRequest) -> tuple[str, Any, Ask, list[str]]:
    return (request.param, *fit(request.param))


@settings(
    max_examples=10, deadline=None, derandomize=True, phases=[Phase.generate], suppress_health_check=[*HealthCheck]
)
@given(
    seed=st.integers(0, 2**20),
    rate=st.sampled_from([0.0, 0.2, 1.0]),
    dtype=st.sampled_from(sorted(DTYPES)),
    fill=st.sampled_from(["mean", "mode", "missing", "values", "background"]),
    at=st.integers(0, N_ROWS - 1),
)
def test_500_masks_are_answered_as_the_library_answers_rows_masked_by_hand(
    fitted: tuple[str, Any, Ask, list[str]], seed: int, rate: float, dtype: str, fill: str, at: int
) -> None:
    name, model, ask, columns = fitted
    takes_holes = name != "LogisticRegression"
    holed = [column for column in columns if column != "city"] if takes_holes else []
    # CatBoost itself refuses Booleans of pandas' own type that are missing.
    types = {column: kind for column, kind in DTYPES[dtype].items() if "city" not in columns or kind != "boolean"}
    table = with_holes(TABLE[columns].astype(types), seed, rate, holed)
    if fill == "missing" and (not takes_holes or "city" in columns):
        fill = "mean"  # neither logistic regression nor CatBoost's categories can be missing
    masks = np.random.default_rng(seed).random((N_MASKS, len(columns))) < 0.5
    row = table.iloc[[at]]
    values = {column: TABLE[column].iloc[3] for column in columns}
    if fill == "background":
        inputs = hf.bind(model, table, background=table[:4], fill=fill)
        fills = [{column: table[column].iloc[place] for column in columns} for place in range(4)]
    else:
        inputs = hf.bind(model, table, fill=values if fill == "values" else fill)
        chosen: Any = values if fill == "values" else fill
        fills = [{column: hand_fill(table[column], chosen) for column in columns}]
    answers = inputs[at](masks)
    wanted = [ask(hand_masked(row, each, masks)) for each in fills]
    if fill == "background" or "LogisticRegression" in str(model):
        # Averages are taken in another order; BLAS sums in an order that depends on the layout of memory.
        np.testing.assert_allclose(answers, np.mean(wanted, axis=0, dtype=np.float64), rtol=2e-6)
    else:
        np.testing.assert_array_equal(answers, wanted[0])
