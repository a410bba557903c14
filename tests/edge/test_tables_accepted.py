"""Tables as people have them: names with spaces, text categories, missing values, Polars, native boosters."""

from __future__ import annotations

from typing import Any

import catboost
import lightgbm as lgb
import numpy as np
import pandas as pd
import polars as pl
import pytest
import xgboost as xgb
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

import holdfast as hf
from holdfast.errors import ColumnsError

CANCER = load_breast_cancer(as_frame=True)
X, Y = CANCER.data.iloc[:150, :6], CANCER.target.iloc[:150]
FULL = np.ones((1, 6), dtype=bool)
SOME = np.arange(6)[None] % 2 == 0


def people() -> pd.DataFrame:
    """A table of texts, numbers, whole numbers, categories and yes or no, with a name that has a space."""
    rng = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "city": rng.choice(["Bergen", "Oslo", "Rome"], 120),
            "monthly income": rng.normal(30, 5, 120),
            "age": rng.integers(18, 80, 120),
            "job": pd.Categorical(rng.choice(["baker", "nurse"], 120), categories=["baker", "nurse", "pilot"]),
            "married": rng.random(120) < 0.5,
        }
    )


TABLE = people()
PAID = np.where((TABLE["monthly income"] > 30) ^ (TABLE["city"] == "Oslo"), "yes", "no")
QUIET: dict[str, Any] = {"verbose": 0, "allow_writing_files": False, "thread_count": 1, "iterations": 4}
SMALL: dict[str, Any] = {"n_estimators": 4, "n_jobs": 1}
CAT = catboost.CatBoostClassifier(cat_features=["city", "job"], **QUIET).fit(TABLE, PAID)
LIGHT = lgb.LGBMClassifier(verbose=-1, **SMALL).fit(X, Y)
XGB = xgb.XGBClassifier(**SMALL).fit(X, Y)


def masked_means(mask: Any, row: int = 0) -> pd.DataFrame:
    """A row of X with the means of X in its hidden columns."""
    return pd.DataFrame(np.where(mask, X.iloc[[row]], X.mean()), columns=X.columns)


# -- names --------------------------------------------------------------------------------------------------------


def test_lightgbm_renames_columns_with_spaces_and_is_asked_all_the_same() -> None:
    assert LIGHT.booster_.feature_name()[0] == "mean_radius"
    wanted = LIGHT.predict_proba(masked_means(SOME))
    for model in (LIGHT, LIGHT.booster_, make_pipeline(LIGHT), LIGHT.predict_proba):
        np.testing.assert_array_equal(hf.bind(model, X)[0](SOME), wanted)
    search = GridSearchCV(lgb.LGBMClassifier(verbose=-1, **SMALL), {"num_leaves": [31]}, cv=2).fit(X, Y)
    np.testing.assert_array_equal(hf.bind(search, X)[0](SOME), search.predict_proba(masked_means(SOME)))


@pytest.mark.parametrize(
    "model", [LIGHT, LIGHT.booster_, XGB, XGB.get_booster()], ids=lambda model: type(model).__name__
)
def test_columns_are_found_by_their_names_in_any_order(model: Any) -> None:
    turned = X[X.columns[::-1]]
    straight = hf.mask_tabular(model, X.iloc[3], background=X)(FULL)
    np.testing.assert_array_equal(hf.mask_tabular(model, turned.iloc[3], background=turned)(FULL), straight)
    loaded = hf.bind(model, turned)
    np.testing.assert_array_equal(loaded[3](FULL), straight)
    np.testing.assert_array_equal(loaded.classifier.predict(turned.iloc[3:4]), straight)
    np.testing.assert_array_equal(hf.mask_tabular(model, X.to_numpy()[3], background=X.to_numpy())(FULL), straight)
    with pytest.raises(ColumnsError, match=r"fitted on, got no 'mean.radius', an extra 'size'\. Choose columns"):
        hf.mask_tabular(model, X.rename(columns={"mean radius": "size"}).iloc[3], fill=0.0)


def test_two_columns_that_lightgbm_would_call_the_same_are_refused() -> None:
    both = X.assign(mean_radius=1.0)
    with pytest.raises(ColumnsError, match=r"got an extra 'mean_radius'"):
        hf.mask_tabular(LIGHT, both.iloc[0], fill=0.0)


def test_catboost_finds_columns_by_their_names() -> None:
    turned = TABLE[TABLE.columns[::-1]]
    one, other = (hf.bind(CAT, table)[5](np.ones((1, 5), dtype=bool)) for table in (TABLE, turned))
    np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(one, CAT.predict_proba(TABLE.iloc[[5]]))


@pytest.mark.parametrize("make", [xgb.XGBClassifier, lgb.LGBMClassifier, catboost.CatBoostClassifier])
@pytest.mark.parametrize("names", [None, range(6)])
def test_models_without_names_go_by_place(make: Any, names: Any) -> None:
    options = (
        QUIET if make is catboost.CatBoostClassifier else SMALL | {"verbosity": 0 if "XGB" in make.__name__ else -1}
    )
    rows = X.to_numpy() if names is None else pd.DataFrame(X.to_numpy(), columns=names)
    model = make(**options).fit(rows, Y)
    wanted = model.predict_proba(rows[:1])
    for form in (X.to_numpy(), pd.DataFrame(X.to_numpy())):
        np.testing.assert_array_equal(hf.bind(model, form)[0](FULL), wanted)
    if names is None:
        np.testing.assert_array_equal(hf.bind(model, X)[0](FULL), wanted)


# -- categories ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["str", "object", "category"])
def test_catboost_takes_text_categories_of_every_type(dtype: str) -> None:
    table = TABLE.astype({"city": dtype, "job": dtype})
    hidden = table.iloc[[7]].assign(city=table["city"].mode()[0], age=table["age"].mean())
    mask = np.array([[False, True, False, True, True]])
    np.testing.assert_array_equal(hf.bind(CAT, table)[7](mask), CAT.predict_proba(hidden))
    np.testing.assert_array_equal(
        hf.mask_tabular(CAT, table.iloc[7], background=table)(mask), CAT.predict_proba(hidden)
    )
    assert hf.bind(CAT, table).classes == ("no", "yes")
    inner = make_pipeline(CAT)
    np.testing.assert_array_equal(hf.bind(inner, table)[7](mask), CAT.predict_proba(hidden))


def test_catboost_says_kindly_that_a_category_cannot_be_missing() -> None:
    row = TABLE.iloc[4].copy()
    row["city"] = None
    model = hf.mask_tabular(CAT, row, background=TABLE)
    with pytest.raises(hf.errors.InvalidValueError, match=r"'city' in the row.* write a category such as 'missing'"):
        model(np.ones((1, 5), dtype=bool))
    np.testing.assert_array_equal(  # hidden, it is not missing
        model(np.arange(5)[None] > 0), CAT.predict_proba(TABLE.iloc[[4]].assign(city=TABLE["city"].mode()[0]))
    )


def test_categories_that_are_numbers_are_not_averaged() -> None:
    table = TABLE[["age", "monthly income"]]
    model = catboost.CatBoostClassifier(cat_features=["age"], **QUIET).fit(table, PAID)
    hidden = table.iloc[[0]].assign(age=table["age"].mode()[0])
    mask = np.array([[False, True]])
    np.testing.assert_array_equal(hf.bind(model, table, fill="mode")[0](mask), model.predict_proba(hidden))
    with pytest.raises(
        hf.errors.InvalidTypeError, match=r"cat_feature.* whole numbers, as in training; fill='mode' replaces"
    ):
        hf.bind(model, table, fill="mean")[0](mask)


def test_texts_for_models_of_numbers_are_refused_with_what_to_do() -> None:
    numbers = TABLE.assign(city=TABLE["city"].astype("category").cat.codes)[["city", "age"]]
    for model in (lgb.LGBMClassifier(verbose=-1, **SMALL), xgb.XGBClassifier(**SMALL), LogisticRegression()):
        masked = hf.bind(model.fit(numbers, PAID == "yes"), TABLE[["city", "age"]])[0]
        with pytest.raises(hf.errors.InvalidTypeError, match=r"Not numbers: 'city' \('\w+'\)\. .* as in training"):
            masked(np.ones((1, 2), dtype=bool))


# -- dates --------------------------------------------------------------------------------------------------------


def test_dates_are_for_pipelines_that_take_them() -> None:
    table = TABLE[["age"]].assign(since=pd.Timestamp("2020-01-01") + pd.to_timedelta(TABLE["age"], unit="D"))
    years = FunctionTransformer(lambda dates: dates.apply(lambda column: column.dt.day_of_year))
    encode = make_column_transformer((years, ["since"]), remainder="passthrough")
    pipeline = make_pipeline(encode, LogisticRegression()).fit(table, PAID)
    masked = hf.bind(pipeline, table)[0]
    np.testing.assert_array_equal(masked(np.ones((1, 2), dtype=bool)), pipeline.predict_proba(table.iloc[[0]]))
    for model in (HistGradientBoostingClassifier(max_iter=2), lgb.LGBMClassifier(verbose=-1, **SMALL)):
        plain = model.fit(table.assign(since=0.0), PAID == "yes")
        with pytest.raises(
            hf.errors.InvalidTypeError, match=r"Not numbers: 'since' \(Timestamp.*encode them as in training"
        ):
            hf.bind(plain, table)[0](np.ones((1, 2), dtype=bool))


# -- Polars and mappings ------------------------------------------------------------------------------------------


def test_polars_frames_are_rows_backgrounds_and_data() -> None:
    frame = pl.from_pandas(TABLE).with_columns(pl.col("city").cast(pl.Enum(["Bergen", "Oslo", "Rome"])))
    assert frame.schema["job"] == pl.Categorical
    mask = np.array([[True, False, False, False, True]])
    wanted = hf.mask_tabular(CAT, TABLE.iloc[[9]], background=TABLE)(mask)
    for row, background in ((frame[9], frame), (frame[9], TABLE), (TABLE.iloc[[9]], frame)):
        np.testing.assert_array_equal(hf.mask_tabular(CAT, row, background=background)(mask), wanted)
    inputs = hf.bind(CAT, frame, background=frame)
    np.testing.assert_array_equal(inputs[9](mask), wanted)
    np.testing.assert_array_equal(hf.bind(CAT, [frame[9], frame[3]], background=TABLE)[0](mask), wanted)
    np.testing.assert_array_equal(inputs.classifier.predict(frame[:4]), CAT.predict_proba(TABLE[:4]))
    seen = inputs[9].rows(np.zeros(5, dtype=bool))
    assert isinstance(seen["city"].dtype, pd.CategoricalDtype)
    assert isinstance(seen["job"].dtype, pd.CategoricalDtype)


def test_polars_frames_of_categories_reach_models_that_were_fitted_on_pandas() -> None:
    table = TABLE.astype({"city": "category"})
    for model in (xgb.XGBClassifier(enable_categorical=True, **SMALL), lgb.LGBMClassifier(verbose=-1, **SMALL)):
        model.fit(table, PAID == "yes")
        masked = hf.bind(model, pl.from_pandas(table))[9]
        np.testing.assert_array_equal(masked(np.ones((1, 5), dtype=bool)), model.predict_proba(table.iloc[[9]]))


def test_a_polars_frame_of_many_rows_is_no_row() -> None:
    with pytest.raises(hf.errors.InvalidValueError, match=r"^`row` must be .* one row, got 120 rows\."):
        hf.mask_tabular(CAT, pl.from_pandas(TABLE), background=TABLE)


def test_a_row_may_be_a_mapping() -> None:
    row = TABLE.iloc[9].to_dict()
    mask = np.array([[True, False, False, False, True]])
    wanted = hf.mask_tabular(CAT, TABLE.iloc[[9]], background=TABLE)(mask)
    np.testing.assert_array_equal(hf.mask_tabular(CAT, row, background=TABLE)(mask), wanted)
    turned = dict(reversed(row.items()))
    np.testing.assert_array_equal(hf.mask_tabular(CAT, turned, background=TABLE)(mask[:, ::-1]), wanted)
    bare = hf.mask_tabular(XGB, X.iloc[2].to_dict() | {"mean area": None}, fill=0.0)
    wanted = XGB.predict_proba(X.iloc[[2]].assign(**{"mean area": np.nan}))
    np.testing.assert_array_equal(bare(FULL), wanted)
    with pytest.raises(hf.errors.InvalidValueError, match=r"^`row` must have at least one column, got none\."):
        hf.mask_tabular(XGB, {}, fill=0.0)


# -- missing values -----------------------------------------------------------------------------------------------


def holes(table: pd.DataFrame, *, seed: int = 0) -> pd.DataFrame:
    return table.mask(np.random.default_rng(seed).random(table.shape) < 0.2)


HOLEY = holes(X)


def test_missing_values_stay_missing_for_models_that_know_them() -> None:
    for model in (
        xgb.XGBClassifier(**SMALL),
        lgb.LGBMClassifier(verbose=-1, **SMALL),
        catboost.CatBoostClassifier(**QUIET),
        HistGradientBoostingClassifier(max_iter=3),
        make_pipeline(SimpleImputer(), StandardScaler(), LogisticRegression()),
    ):
        model.fit(HOLEY, Y)
        for row in range(8):
            hidden = pd.DataFrame(np.where(SOME, HOLEY.iloc[[row]], HOLEY.mean()), columns=X.columns)
            np.testing.assert_array_equal(hf.bind(model, HOLEY)[row](SOME), model.predict_proba(hidden))
            np.testing.assert_array_equal(hf.bind(model, HOLEY)[row](FULL), model.predict_proba(HOLEY.iloc[[row]]))


def test_what_a_model_refuses_is_named_by_column_and_row() -> None:
    model = LogisticRegression(max_iter=5000).fit(X, Y)
    row, background = X.iloc[0].copy(), X.copy()
    row["mean area"] = np.nan
    background.iloc[7, 1] = np.nan
    known = r"no missing values for this model, got .*{}.*\. Fill or drop them, or use a model that knows missing"
    with pytest.raises(hf.errors.InvalidValueError, match="^`row` must have " + known.format("'mean area' in the row")):
        hf.mask_tabular(model, row, background=X)(FULL)
    masked = hf.mask_tabular(model, X.iloc[0], background=background, fill="background", n_background=200)
    place = known.format("'mean texture' in background row 7")
    with pytest.raises(hf.errors.InvalidValueError, match="^`background` must have " + place):
        masked(~FULL)
    with pytest.raises(hf.errors.InvalidValueError, match="^`background` must have " + place):
        hf.mask_tabular(
            model.predict_proba, X.to_numpy()[0], background=background, fill="background", n_background=200
        )(~FULL)
    masked(FULL)
    with pytest.raises(
        hf.errors.InvalidValueError, match="^`fill` must have " + known.format("'mean radius' in the fill")
    ):
        hf.mask_tabular(model, X.iloc[0], fill="missing")(~FULL)
    with pytest.raises(hf.errors.InvalidValueError, match=r"'mean area' in row 1\b"):
        hf.bind(model, X).classifier.predict(pd.concat([X.iloc[[0]], row.to_frame().T]))


def test_an_answer_of_nan_is_blamed_on_the_missing_value() -> None:
    def scores(rows: Any) -> Any:
        return np.stack([rows[:, 0] - rows[:, 1], rows[:, 2]], axis=1)

    row = np.array([1.0, np.nan, 2.0])
    masked = hf.mask_tabular(scores, row, fill=0.0, columns=["a", "b", "c"])
    assert masked(np.array([[True, False, True]])).tolist() == [[1.0, 2.0]]
    with pytest.raises(
        hf.errors.ModelError, match=r"NaN.*'b' in the row\. Fill or drop them, or use a model that knows"
    ):
        masked(np.ones((1, 3), dtype=bool))
    with pytest.raises(
        hf.errors.ModelError, match=r"The model returned NaN or infinity"
    ):  # no missing value is to blame
        hf.certify(hf.mask_tabular(lambda rows: rows * np.nan, [1.0, 2.0], fill=0.0), [True, False], radius=1)


def test_infinity_is_refused_by_column_and_row() -> None:
    spoiled = X.copy()
    spoiled.iloc[7, 1] = -np.inf
    nullable = spoiled.astype("Float64")
    for table in (spoiled, nullable):
        with pytest.raises(
            hf.errors.InvalidValueError, match=r"^`row` must have no infinite values, got -inf .*'mean texture'"
        ):
            hf.mask_tabular(XGB, table.iloc[[7]], background=X)
        with pytest.raises(
            hf.errors.InvalidValueError, match=r"^`background` .* got -inf in column 'mean texture' of row 7\."
        ):
            hf.mask_tabular(XGB, X.iloc[[0]], background=table)
    with pytest.raises(hf.errors.InvalidValueError, match=r"^`background` .* got -inf in column 1 of row 7\."):
        hf.mask_tabular(XGB, X.to_numpy()[0], background=spoiled.to_numpy())


def test_encoders_of_missing_categories_see_them() -> None:
    table = TABLE.astype({"city": object}).assign(city=TABLE["city"].where(TABLE["age"] > 30, None))
    encode = make_column_transformer((OneHotEncoder(), ["city", "job"]), remainder=SimpleImputer())
    pipeline = make_pipeline(encode, LogisticRegression(max_iter=2000)).fit(table, PAID)
    inputs = hf.bind(pipeline, table)
    young = np.flatnonzero(TABLE["age"] <= 30)[:3]
    for row in (*young.tolist(), 0):
        np.testing.assert_array_equal(
            inputs[row](np.ones((1, 5), dtype=bool)), pipeline.predict_proba(table.iloc[[row]])
        )
