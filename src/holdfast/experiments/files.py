"""Outcome → files: tables as CSV and Parquet, the figure, the findings; each appears when it is complete."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from holdfast.atomic import replacing
from holdfast.experiments.experiment import Experiment, Outcome, Table
from holdfast.extras import import_extra
from holdfast.report.figures.saving import save_figure

FINDINGS = "findings.md"

_N_TOGETHER = 4096
"""Rows that are held in memory at a time."""


def heading(experiment: Experiment) -> str:
    """The first line of its findings, by which a folder of results is recognised."""
    return f"# {experiment.title}"


def write_outcome(experiment: Experiment, outcome: Outcome, folder: Path) -> tuple[Path, ...]:
    """Write everything into a folder; returns the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [path for name, table in outcome.tables.items() for path in write_table(table, folder / name)]
    paths += save_figure(outcome.figure, folder / "figure")
    findings = folder / FINDINGS
    with replacing(findings) as unfinished:
        unfinished.write_text(f"{heading(experiment)}\n\n{outcome.findings}\n", encoding="utf-8")
    return (*paths, findings)


def write_table(table: Table, stem: Path) -> tuple[Path, Path]:
    """Write a table as ``<stem>.csv`` and ``<stem>.parquet``."""
    paths = stem.with_name(f"{stem.name}.csv"), stem.with_name(f"{stem.name}.parquet")
    with replacing(paths[0]) as unfinished:
        _write_csv(table, unfinished)
    with replacing(paths[1]) as unfinished:
        _write_parquet(table, unfinished)
    return paths


def _write_csv(table: Table, path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(table.columns), lineterminator="\n")
        writer.writeheader()
        writer.writerows(table.rows())


def _write_parquet(table: Table, path: Path) -> None:
    pyarrow, parquet = (import_extra(module, "Parquet needs") for module in ("pyarrow", "pyarrow.parquet"))
    shape = pyarrow.schema([(name, pyarrow.type_for_alias(kind)) for name, kind in table.columns.items()])
    rows = iter(table.rows())
    with parquet.ParquetWriter(path, shape) as writer:
        while part := _rows(islice(rows, _N_TOGETHER)):
            writer.write_table(pyarrow.Table.from_pylist(part, schema=shape))


def _rows(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [dict(row) for row in rows]
