"""Missing values: what stands for them in every type of column, what fills learn without them, their digests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import xgboost as xgb
from sklearn.ensemble import HistGradientBoostingClassifier

import holdfast as hf
from holdfast.inputs.data.files import FrameRows
from holdfast.study import DataSpec, MaskingSpec, MethodSpec, ModelSpec, StudySpec, run_study
from holdfast.study.spec import CertifySpec

SHOWN = {
    "float": pd.Series([1.5, 2.5, np.nan]),
    "narrow": pd.Series([1.5, 2.5, 3.5], dtype="float32"),
    "whole": pd.Series([1, 2, 2]),
    "yes": pd.Series([True, False, True]),
    "Whole": pd.Series([1, None, 2], dtype="Int64"),
    "Float": pd.Series([1.5, None, 2.5], dtype="Float64"),
    "Yes": pd.Series([True, None, True], dtype="boolean"),
    "Text": pd.Series(["a", None, "b"], dtype="string"),
    "text": pd.Series(["a", "b", "b"], dtype="str"),
    "none": pd.Series(["a", None, "b"], dtype=object),
    "category": pd.Series(["a", "b", "b"], dtype="category"),
    "date": pd.Series(pd.to_datetime(["2020-01-01", "2020-01-02", "2020-01-02"])),
}
TABLE = pd.DataFrame(SHOWN)
N = len(SHOWN)
FLOATS = {"whole": "float64", "yes": "float64"}


def seen(row: Any, fill: Any, background: Any = TABLE) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What the classifier sees with everything shown, and with everything hidden."""
    model = hf.mask_tabular(lambda rows: np.zeros((len(rows), 2)), row, background=background, fill=fill)
    return model.rows(np.ones(N, dtype=bool)), model.rows(np.zeros(N, dtype=bool))


@pytest.mark.parametrize("background", [TABLE, None])
@pytest.mark.parametrize("fill", ["missing", np.nan, dict.fromkeys(SHOWN), dict.fromkeys(SHOWN, pd.NA)])
def test_hidden_is_missing_in_the_type_of_the_column(fill: Any, background: Any) -> None:
    full, hidden = seen(TABLE.iloc[[0]], fill, background)
    types = dict(TABLE.dtypes) | {name: np.dtype(dtype) for name, dtype in FLOATS.items()}
    assert dict(full.dtypes) == dict(hidden.dtypes) == types
    assert hidden.isna().to_numpy().all()
    pd.testing.assert_frame_equal(full, TABLE.iloc[[0]].astype(FLOATS))
    for name in ("Whole", "Float", "Yes", "Text"):
        assert hidden[name].iloc[0] is pd.NA
    if background is not None:
        assert hidden["none"].iloc[0] is None  # as the background has it


def test_missing_words_are_in_the_provenance_and_digests_differ() -> None:
    def masking(fill: Any) -> str:
        return hf.mask_tabular(
            lambda rows: rows, np.array([1.0, 2.0]), background=np.eye(2), fill=fill
        ).provenance.masking

    assert masking("missing").startswith("2 columns as 2 features; fill missing; digest ")
    assert masking(np.nan).startswith("2 columns as 2 features; fill constant nan; digest ")
    assert (
        masking("missing").rpartition(" ")[2] == masking(np.nan).rpartition(" ")[2] != masking(0.0).rpartition(" ")[2]
    )


def test_arrays_of_whole_numbers_become_floats_for_missing_values() -> None:
    for row in (np.array([1, 2]), np.array([True, False]), np.array([1.0, 2.0], dtype=np.float32)):
        model = hf.mask_tabular(lambda rows: rows, row, fill="missing")
        rows = model.rows(np.array([True, False]))
        assert rows.dtype == (np.float32 if row.dtype == np.float32 else np.float64)
        np.testing.assert_array_equal(rows, [[row[0], np.nan]])


@pytest.mark.parametrize("fill", ["mean", "mode"])
def test_means_and_modes_leave_out_what_is_missing(fill: str) -> None:
    _, hidden = seen(TABLE.iloc[[0]], fill)
    wanted = {"Whole": 1.5, "Float": 2.0, "float": 2.0} if fill == "mean" else {"Whole": 1, "Float": 1.5, "float": 1.5}
    for name, value in (wanted | {"Yes": True, "Text": "a", "none": "a", "text": "b", "category": "b"}).items():
        assert hidden[name].iloc[0] == value
    values = np.array([[1.0, np.nan, np.nan], [1.0, 4.0, np.nan], [4.0, 2.0, np.nan]])
    model = hf.mask_tabular(lambda rows: rows, values[0], background=values, fill=fill)
    wanted_array = [[2.0, 3.0, np.nan]] if fill == "mean" else [[1.0, 2.0, np.nan]]
    np.testing.assert_array_equal(model.rows(np.zeros(3, dtype=bool)), wanted_array)


@pytest.mark.parametrize("fill", ["mean", "mode"])
def test_a_column_of_nothing_but_missing_values_is_filled_with_them(fill: str) -> None:
    empty = pd.DataFrame(
        {name: pd.Series([None] * 3, dtype=column.dtype) for name, column in SHOWN.items() if name not in FLOATS}
    )
    model = hf.mask_tabular(lambda rows: rows, TABLE.iloc[[0]][list(empty.columns)], background=empty, fill=fill)
    hidden = model.rows(np.zeros(len(empty.columns), dtype=bool))
    assert hidden.isna().to_numpy().all()
    assert dict(hidden.dtypes) == dict(empty.dtypes)


def test_a_missing_value_of_the_row_has_the_type_of_the_background() -> None:
    for row in (pd.Series(dict.fromkeys(SHOWN)), dict.fromkeys(SHOWN), pd.DataFrame([dict.fromkeys(SHOWN, np.nan)])):
        full, hidden = seen(row, "mode")
        assert full.isna().to_numpy().all()
        assert not hidden.drop(columns="date").isna().to_numpy().any()
        assert dict(full.dtypes) == dict(TABLE.dtypes) | {name: np.dtype(dtype) for name, dtype in FLOATS.items()}


def test_fingerprints_tell_missing_values_apart_and_stay_the_same() -> None:
    def fingerprint(row: Any) -> str:
        return str(hf.mask_tabular(lambda rows: rows, row, fill="missing").provenance.input)

    rows = [
        np.array([1.0, np.nan]),
        np.array([1.0, 0.0]),
        np.array([np.nan, 1.0]),
        pd.DataFrame({"a": ["x"], "b": [""]}),
        pd.DataFrame({"a": ["x"], "b": [None]}),
        pd.DataFrame({"a": ["x"], "b": ["nan"]}),
        pd.DataFrame({"a": [None], "b": [""]}),
    ]
    assert len({fingerprint(row) for row in rows}) == len(rows)
    assert [fingerprint(row) for row in rows] == [fingerprint(row.copy()) for row in rows]
    other_bits = np.array([1.0, -np.nan])
    assert other_bits.tobytes() != rows[0].tobytes()
    assert fingerprint(other_bits) == fingerprint(rows[0])
    texts = pd.DataFrame({"b": ["", None, "nan", "x"]})
    digests = [FrameRows(texts).digest(place) for place in range(4)]
    assert len(set(digests)) == 4
    assert digests == [FrameRows(texts.copy()).digest(place) for place in range(4)]


def test_digests_of_fills_tell_missing_texts_from_empty_ones() -> None:
    row = pd.DataFrame({"a": ["x"], "b": ["y"]})
    maskings = {
        hf.mask_tabular(lambda rows: rows, row, fill=fill).provenance.masking
        for fill in ({"a": "", "b": "y"}, {"a": None, "b": "y"})
    }
    assert len(maskings) == 2


def test_missing_values_of_polars_stay_missing() -> None:
    frame = pl.DataFrame({"a": [1.0, None, 3.0], "b": [1, None, 2], "c": ["x", None, "y"], "d": [True, None, False]})
    model = hf.mask_tabular(lambda rows: np.zeros((len(rows), 2)), frame[1], background=frame, fill="mode")
    assert model.rows(np.ones(4, dtype=bool)).isna().to_numpy().all()
    assert model.rows(np.zeros(4, dtype=bool)).iloc[0].tolist() == [1.0, 1.0, "x", False]


def test_missing_is_one_of_the_fills_that_can_be_compared() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(80, 4))
    rows[rng.random(rows.shape) < 0.2] = np.nan
    model = HistGradientBoostingClassifier(max_iter=5).fit(rows, np.nan_to_num(rows[:, 0]) > 0)
    complete = np.flatnonzero(~np.isnan(rows).any(axis=1))[0]
    compared = hf.fill_sensitivity(
        lambda fill: hf.mask_tabular(model, rows[complete], background=rows, fill=fill),
        [True, False, False, False],
        ["mean", "missing"],
        radius=2,
        rng=0,
    )
    assert compared.names == ("mean", "missing")


def test_a_study_hides_by_missing_values(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(12, 4)), columns=["a b", "c", "d", "e"]).mask(rng.random((12, 4)) < 0.2)
    table.to_csv(tmp_path / "rows.csv", index=False)
    xgb.XGBClassifier(n_estimators=3, n_jobs=1).fit(table, np.arange(12) % 2).save_model(tmp_path / "m.ubj")
    spec = StudySpec(
        model=ModelSpec(f"xgboost:{tmp_path / 'm.ubj'}"),
        data=DataSpec(f"table:{tmp_path / 'rows.csv'}", n=3),
        methods=(MethodSpec("occlusion"),),
        certify=CertifySpec((1, 2)),
        masking=MaskingSpec(fill="missing"),
    )
    assert run_study(spec, tmp_path / "study.db").status.n_done == 3
