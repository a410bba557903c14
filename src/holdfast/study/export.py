"""A file of results → Parquet, CSV or JSON, row by row, so that memory stays flat."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from holdfast.atomic import check_spared, replacing
from holdfast.certification.mean_curve import MeanCurve
from holdfast.certification.serialization import make_frame
from holdfast.errors import StudyError
from holdfast.extras import import_extra
from holdfast.study.spec import GroupKey
from holdfast.study.status import status_of
from holdfast.study.store import COLUMNS, Store
from holdfast.validation import check_name, check_path

_MEAN_COLUMNS = """
method string, top_fraction float64, keep_probability float64, radius int64, rate float64, low float64, high float64,
population_low float64, population_high float64, confidence float64, n_inputs int64, n_consistent int64,
n_draws int64, n_calls int64
"""
MEAN_COLUMNS = dict(column.split() for column in _MEAN_COLUMNS.split(","))
"""The columns for a study with precision "data-set": one row per mean curve and radius."""

_N_TOGETHER = 2048  # rows that are held in memory at a time


def export_study(path: str | Path, out: str | Path, *, kind: str | None = None) -> int:
    """Write the results in a file of results to a table or to JSON; returns the number of rows or items written.

    Parquet and CSV are flat: one row per item and radius, without masks and scores; for a study with
    precision "data-set", one row per mean curve and radius. JSON is complete:
    the study, and per item the certificates, the scores, the explanation as a mask, hard certificates
    and witnesses, each as its own ``to_json`` writes it. The file appears when it is complete.

    Parameters
    ----------
    path : str or Path
        The file of results; a run may be writing it, and then what is stored by now is written.
    out : str or Path
        The file to write.
    kind : {"parquet", "csv", "json"}, optional
        By default what the name of ``out`` ends with.
    """
    target = check_path(out, "out")
    chosen = check_name(target.suffix.removeprefix(".") if kind is None else kind, "kind", ("parquet", "csv", "json"))
    with Store(path) as store:
        check_spared(target, "out", {"the results": [path], **store.sources()})
        table = _table(store)
        with replacing(target) as unfinished:
            if chosen == "json":
                return _write_json(store, unfinished)
            return (write_csv if chosen == "csv" else write_parquet)(*table, unfinished)


def study_frame(path: str | Path) -> Any:
    """Read a file of results as a pandas ``DataFrame``: the rows of ``export_study``, predictions as they are.

    Methods that give masks have no share: their ``top_fraction`` is missing.
    """
    with Store(path) as store:
        if store.spec.certify.of_means:
            columns, rows = _table(store)
            return make_frame(rows, columns)
        masks = {method.name for method in store.methods().values() if method.masks}
        first = store.spec.top_fractions[0]  # where masks stand, whatever earlier runs had
        rows = (row for row in store.rows() if row["method"] not in masks or row["top_fraction"] == first)
        return make_frame((row | {"top_fraction": None} if row["method"] in masks else row for row in rows), COLUMNS)


def _table(store: Store) -> tuple[dict[str, str], Iterator[dict[str, Any]]]:
    """The columns with their types, and the rows; a study about means has nothing to show before there is one."""
    if not store.spec.certify.of_means:
        predictions = ("prediction", "full_prediction")  # as JSON: they may be numbers or texts
        return COLUMNS, (row | {name: json.dumps(row[name]) for name in predictions} for row in store.rows())
    means = store.means()
    if not means:
        raise StudyError(
            f"{str(store.path)!r} has no mean curve yet, the only result of a study with precision 'data-set'. "
            "Run the study to the end with this file; stored explanations are kept."
        )
    return MEAN_COLUMNS, _mean_rows(means)


def _mean_rows(means: Mapping[GroupKey, MeanCurve]) -> Iterator[dict[str, Any]]:
    for key, curve in means.items():
        stated = key._asdict() | {name: getattr(curve, name) for name in MEAN_COLUMNS if hasattr(curve, name)}
        for point in curve:
            row = stated | {"radius": point.radius, "rate": point.rate}
            row["low"], row["high"] = point.interval
            row["population_low"], row["population_high"] = point.population
            yield {name: row[name] for name in MEAN_COLUMNS}


def write_csv(columns: Mapping[str, str], rows: Iterable[Mapping[str, Any]], path: Path) -> int:
    """Write rows with these columns; returns how many."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        return sum(1 for row in rows if writer.writerow(row))


def write_parquet(columns: Mapping[str, str], rows: Iterable[Mapping[str, Any]], path: Path) -> int:
    """The same with types, as Arrow calls them."""
    pyarrow, parquet = (import_extra(module, "Parquet needs") for module in ("pyarrow", "pyarrow.parquet"))
    shape = pyarrow.schema([(name, pyarrow.type_for_alias(kind)) for name, kind in columns.items()])
    n_rows, waiting = 0, map(dict, rows)
    with parquet.ParquetWriter(path, shape) as writer:
        while part := list(islice(waiting, _N_TOGETHER)):
            writer.write_table(pyarrow.Table.from_pylist(part, schema=shape))
            n_rows += len(part)
    return n_rows


def _write_json(store: Store, path: Path) -> int:
    n_items = 0
    with path.open("w", encoding="utf-8") as file:
        file.write('{"study": ' + json.dumps(store.spec.plain()) + ', "items": [')
        for n_items, record in enumerate(store.records(), start=1):
            file.write(("\n" if n_items == 1 else ",\n") + record.to_json())
        status = status_of(store)
        left_out, given_up = json.dumps(status.skips), json.dumps(status.failures)
        means = ", ".join(json.dumps(key.name) + ": " + curve.to_json() for key, curve in status.means.items())
        file.write(f'\n], "means": {{{means}}}, "left_out": {left_out}, "given_up": {given_up}}}\n')
    return n_items
