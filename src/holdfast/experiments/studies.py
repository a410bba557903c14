"""Presets of studies → files of results, their summaries, and the tables that go with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.bounds import betting_mean
from holdfast.errors import StudyError
from holdfast.experiments.experiment import Desk, Experiment, Request, Table
from holdfast.experiments.subjects import Subject
from holdfast.experiments.words import Contrast
from holdfast.study.aggregate import StudySummary, summarize_study
from holdfast.study.aggregate.bootstrap import bootstrap_means
from holdfast.study.aggregate.columns import Columns, read_columns
from holdfast.study.run import StudyRun, run_study
from holdfast.study.spec import CertifySpec, StudySpec
from holdfast.study.store import CurveKey, Store

CONFIDENCE, N_RESAMPLES = 0.95, 1000

HALF_WIDTH = 0.02
"""Of mean curves, with precision "data-set"."""

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

ITEM_COLUMNS = {
    "model": "string",
    "input": "int64",
    "name": "string",
    "label": "int64",
    "n_features": "int64",
    "method": "string",
    "top_fraction": "float64",
    "keep_probability": "float64",
    "n_selected": "int64",
    "consistent": "bool",
    "radius": "int64",
    "effective_radius": "int64",
    "rate": "float64",
    "rate_unbiased": "float64",
    "low": "float64",
    "high": "float64",
    "n_agreed": "int64",
    "n_evaluated": "int64",
    "exact": "bool",
    "n_calls": "int64",
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
    "n_inputs": "int64",
}
"""Paired differences, first minus second."""


class StoppedError(StudyError):
    """Somebody asked to stop; the same command goes on from there."""


@dataclass(frozen=True, eq=False)
class Studied:
    """A subject whose study is complete.

    Attributes
    ----------
    subject : Subject
        The model with its inputs.
    summary : StudySummary
        Means over inputs and paired differences of methods.
    path : Path
        The file of results.
    """

    subject: Subject
    summary: StudySummary
    path: Path

    def columns(self, key: CurveKey, radii: tuple[int, ...]) -> Columns:
        """Rates per input of one group."""
        with Store(self.path) as store:
            return read_columns(store, key, radii=radii)

    @property
    def per_input(self) -> bool:
        """Whether there are certificates of single inputs."""
        return self.summary.precision == "per-input"


def certify_spec(radii: Iterable[int], request: Request, *, plan: str = "sequential") -> CertifySpec:
    """The question of an experiment at these radii; mean curves if only the mean is wanted."""
    if request.precision == "data-set":
        return CertifySpec(tuple(radii), precision="data-set", half_width=HALF_WIDTH, confidence=CONFIDENCE)
    return CertifySpec(tuple(radii), plan=plan)


def study_subject(experiment: Experiment, subject: Subject, request: Request, *, desk: Desk, **parts: Any) -> Studied:
    """Run the study of one subject, or what is left of it, and summarise it.

    ``parts`` are fields of the study, such as ``methods`` and ``certify``.
    """
    spec = StudySpec(
        model=subject.model,
        data=subject.data,
        masking=subject.masking,
        seed=request.seed,
        name=f"{experiment.id}, {subject.name}",
        **parts,
    )
    desk.folder.mkdir(parents=True, exist_ok=True)
    path = desk.folder / f"{subject.name}.db"
    _check_whole(_run(spec, path, desk), path)
    summary = summarize_study(path, confidence=CONFIDENCE, n_resamples=N_RESAMPLES, rng=request.seed)
    return Studied(subject, summary, path)


def _run(spec: StudySpec, path: Path, desk: Desk) -> StudyRun:
    try:
        return run_study(spec, path, workers=desk.workers, progress=desk.progress)
    except StudyError as error:
        if "another file" not in str(error):
            raise
        raise StudyError(f"{error} With `holdfast reproduce`: choose another --output, or remove {path}.") from error


def _check_whole(run: StudyRun, path: Path) -> None:
    """Nothing is concluded from a part."""
    if run.stopped:
        raise StoppedError("Stopped. What was stored is kept; the same command goes on from there.")
    if run.status.failures:
        first = next(iter(run.status.failures.items()))
        raise StudyError(
            f"{run.status.n_given_up} items of {str(path)!r} could not be computed, the first of input {first[0]}: "
            f"{first[1]} Run the command again to try them again."
        )


def paired(first: NDArray[Any], second: NDArray[Any], *, key: int, reach: float = 1.0) -> list[Contrast]:
    """Mean differences of columns (n, R) over the same n inputs, with both kinds of interval.

    ``reach`` is the most by which two values can differ.

    Examples
    --------
    >>> rates = np.linspace(0.5, 1, 40)[:, None]
    >>> [one] = paired(rates, rates - 0.2, key=0)
    >>> round(one.estimate, 3), one.direction, one.is_guaranteed
    (0.2, 1, True)
    """
    values = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    usual = bootstrap_means(values, n_resamples=N_RESAMPLES, confidence=CONFIDENCE, key=key)
    sure = betting_mean(values, confidence=CONFIDENCE, low=-reach, high=reach)
    rows = zip(values.mean(axis=0).tolist(), usual, sure, strict=True)
    return [Contrast(*row, n=len(values)) for row in rows]


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
    """The rows of the groups and inputs that were asked for; the file may hold more."""
    wanted = {tuple(group.key) for group in studied.summary.groups}
    with Store(studied.path) as store:
        for row in store.rows():
            key = (row["method"], row["top_fraction"], row["keep_probability"])
            if key in wanted and row["input"] < studied.summary.n_inputs:
                yield {name: row.get(name, studied.subject.name) for name in ITEM_COLUMNS}


def contrast_row(contrast: Contrast, **stated: Any) -> dict[str, Any]:
    """A row of a table of differences."""
    low, high = (None, None) if contrast.guaranteed is None else contrast.guaranteed
    return {
        **stated,
        "difference": contrast.estimate,
        "approximate_low": contrast.interval.low,
        "approximate_high": contrast.interval.high,
        "guaranteed_low": low,
        "guaranteed_high": high,
    }
