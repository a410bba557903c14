"""Studies that are complete → the tables that go with them: means, differences and certificates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from holdfast.bounds import Interval
from holdfast.experiments.experiment import Table
from holdfast.experiments.studies import Studied
from holdfast.experiments.words import Contrast
from holdfast.study.export import COLUMNS
from holdfast.study.store import Store

CURVE_COLUMNS = {
    "model": "string",
    "data": "string",
    "method": "string",
    "top_fraction": "float64",
    "keep_probability": "float64",
    "kind": "string",
    "mus_keep_probability": "float64",
    "radius": "int64",
    "mean": "float64",
    "approximate_low": "float64",
    "approximate_high": "float64",
    "guaranteed_low": "float64",
    "guaranteed_high": "float64",
    "confidence": "float64",
    "n_inputs": "int64",
}
"""Means over inputs: one row per model, method, fraction, keep probability, kind of rate and radius."""

_PER_RUN = ("n_computed", "seconds", "attribution_calls", "attribution_seconds")
_PER_MODEL = ("full_prediction", "prediction", "model_fingerprint", "input_fingerprint")

ITEM_COLUMNS = {"model": "string"} | {
    name: kind for name, kind in COLUMNS.items() if name not in (*_PER_RUN, *_PER_MODEL)
}
"""Certificates: one row per item and radius. Times are left out: these files are the same for every run."""

CONTRAST_COLUMNS = {
    "model": "string",
    "first": "string",
    "second": "string",
    "top_fraction": "float64",
    "keep_probability": "float64",
    "radius": "int64",
    "difference": "float64",
    "approximate_low": "float64",
    "approximate_high": "float64",
    "guaranteed_low": "float64",
    "guaranteed_high": "float64",
    "joint_low": "float64",
    "joint_high": "float64",
    "n_inputs": "int64",
}
"""Paired differences, first minus second. Joint intervals are guaranteed for all pairs of methods at once."""


def study_tables(found: Sequence[Studied], differences: Table) -> dict[str, Table]:
    """Means, these differences, and certificates as far as single inputs have them."""
    tables = {"curves": curve_table(found), "differences": differences}
    certified = [one for one in found if one.per_input]
    return tables | ({"certificates": item_table(certified)} if certified else {})


def curve_table(studied: Iterable[Studied]) -> Table:
    """All means of all subjects."""
    rows = [
        {"model": one.subject.name, "data": one.summary.data, **row}
        for one in studied
        for group in one.summary.groups
        for row in group.rows()
    ]
    return Table.of(CURVE_COLUMNS, [{name: row[name] for name in CURVE_COLUMNS} for row in rows])


def item_table(studied: Iterable[Studied]) -> Table:
    """All certificates of all subjects, read row by row."""
    kept = tuple(studied)
    return Table(ITEM_COLUMNS, lambda: (row for one in kept for row in _item_rows(one)))


def _item_rows(studied: Studied) -> Iterator[dict[str, Any]]:
    """The rows of the groups, radii and inputs that were asked for; the file may hold more."""
    wanted = {tuple(group.key): group.radii for group in studied.summary.groups}
    with Store(studied.path) as store:
        for row in store.rows():
            key = (row["method"], row["top_fraction"], row["keep_probability"])
            if row["radius"] in wanted.get(key, ()) and row["input"] < studied.summary.n_inputs:
                yield {name: row.get(name, studied.subject.name) for name in ITEM_COLUMNS}


def contrast_table(rows: Iterable[Mapping[str, Any]]) -> Table:
    """Rows of ``contrast_row``."""
    return Table.of(CONTRAST_COLUMNS, rows)


def contrast_row(contrast: Contrast, *, joint: Interval | None = None, **stated: Any) -> dict[str, Any]:
    """A row of a table of differences."""
    low, high = contrast.guaranteed or (None, None)
    joint_low, joint_high = joint or (None, None)
    return {
        **stated,
        "difference": contrast.estimate,
        "approximate_low": contrast.interval.low,
        "approximate_high": contrast.interval.high,
        "guaranteed_low": low,
        "guaranteed_high": high,
        "joint_low": joint_low,
        "joint_high": joint_high,
    }
