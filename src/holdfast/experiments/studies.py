"""Presets of studies → files of results and their summaries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.bounds import betting_mean
from holdfast.errors import InvalidValueError, StudyError, StudyMismatchError
from holdfast.experiments.experiment import Desk, Experiment, Request
from holdfast.experiments.radii import features_left, without_repeats
from holdfast.experiments.subjects import Subject
from holdfast.experiments.words import Contrast
from holdfast.inputs.inputs import Inputs
from holdfast.study.aggregate import GroupSummary, StudySummary, summarize_study
from holdfast.study.aggregate.bootstrap import bootstrap_means
from holdfast.study.aggregate.columns import Columns, read_columns
from holdfast.study.engines import Engine, InProcess
from holdfast.study.run import StudyRun, run_study
from holdfast.study.spec import CertifySpec, StudySpec
from holdfast.study.store import CurveKey, Store
from holdfast.study.watching import LiveBar

CONFIDENCE, N_RESAMPLES = 0.95, 1000

HALF_WIDTH = 0.02
"""Of mean curves, with precision "data-set"."""


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
        Means over inputs and paired differences of methods, at radii of which none repeats another.
    path : Path
        The file of results.
    left : mapping of float to tuple of int
        By the share of features selected, how many each input has left to reveal.
    """

    subject: Subject
    summary: StudySummary
    path: Path
    left: Mapping[float, tuple[int, ...]] = field(default_factory=dict)

    @property
    def lengths(self) -> list[str]:
        """A sentence about inputs that were too short, if there are any."""
        least = self.subject.data.min_features
        return left_out(self.subject.name, self.summary.n_skipped, of=self.summary.n_inputs, least=least)

    def columns(self, group: GroupSummary) -> Columns:
        """Rates per input of one group, at its radii."""
        with Store(self.path) as store:
            asked = tuple(store.spec["certify"]["radii"])
            found = read_columns(store, CurveKey(*group.key), radii=asked)
        places = [asked.index(radius) for radius in group.radii]
        return replace(found, rates=found.rates[:, places], all_agreed=found.all_agreed[:, places])

    @property
    def per_input(self) -> bool:
        """Whether there are certificates of single inputs."""
        return self.summary.precision == "per-input"


def certify_spec(radii: Iterable[int], request: Request, *, plan: str = "sequential") -> CertifySpec:
    """The question of an experiment at these radii; mean curves if only the mean is wanted."""
    if request.precision == "data-set":
        return CertifySpec(tuple(radii), precision="data-set", half_width=HALF_WIDTH, confidence=CONFIDENCE)
    return CertifySpec(tuple(radii), plan=plan)


def study_subjects(
    experiment: Experiment, request: Request, desk: Desk, *, certify: Callable[[Subject], CertifySpec], **parts: Any
) -> list[Studied]:
    """Run the studies of all subjects that were asked for; ``certify`` says what is asked of each."""
    return [
        study_subject(experiment, subject, request, desk=desk, certify=certify(subject), **parts)
        for subject in experiment.chosen(request)
    ]


def study_subject(experiment: Experiment, subject: Subject, request: Request, *, desk: Desk, **parts: Any) -> Studied:
    """Run the study of one subject, or what is left of it, and summarise it.

    ``parts`` are fields of the study, such as ``methods`` and ``certify``.
    """
    spec = StudySpec(
        model=subject.model,
        data=replace(subject.data, order="first"),  # what was found is about these
        masking=subject.masking,
        seed=request.seed,
        name=f"{experiment.id}, {subject.name}",
        **parts,
    )
    desk.folder.mkdir(parents=True, exist_ok=True)
    path = desk.folder / f"{subject.name}.db"
    _check_whole(_run(reaching(spec, subject), subject, path, desk), path)
    return _summarized(subject, path, request.seed)


def _summarized(subject: Subject, path: Path, seed: int) -> Studied:
    """What the study says, radii that repeat another one left out."""
    with Store(path) as store:
        summary = summarize_study(store, confidence=CONFIDENCE, n_resamples=N_RESAMPLES, rng=seed)
        left = features_left(store, summary.n_inputs)
    most = {fraction: max(some) for fraction, some in left.items()}
    return Studied(subject, without_repeats(summary, most), path, left)


def reaching(spec: StudySpec, subject: Subject) -> StudySpec:
    """The study about the first inputs of which ``data.n`` are long enough, or about all if there are too few.

    How long an input is only the model can say, by what it takes for a feature, so that it is loaded where inputs
    may be left out. It is not called.
    """
    n, least, there = spec.data.n, spec.data.min_features, len(subject.inputs)
    if least == 1 or (n is not None and n > there):  # the study itself says how many there are
        return spec
    found = first_inputs(subject, n or 1, least)
    if n is None:
        return spec
    return replace(spec, data=replace(spec.data, n=found.numbers[-1] + 1 if len(found) == n else there))


def first_inputs(subject: Subject, n: int, least: int) -> Inputs:
    """The first inputs that have enough features; an error names the option where none has."""
    try:
        return subject.inputs.first(n, min_features=least)
    except InvalidValueError as error:
        if error.argument != "min_features":
            raise
        got = f"{least}: every one has fewer features"
        raise InvalidValueError(argument="--min-tokens", must=f"leave an input of {subject.name}", got=got) from error


def left_out(name: str, n_left_out: int, *, of: int, least: int) -> list[str]:
    """A sentence about the inputs that were too short, if there are any.

    Examples
    --------
    >>> left_out("vader", 18, of=20, least=40)
    ['vader: 18 of the first 20 inputs have fewer than 40 features and are left out.']
    >>> left_out("vader", 0, of=20, least=40)
    []
    """
    if not n_left_out:
        return []
    have, are = ("has", "is") if n_left_out == 1 else ("have", "are")
    return [f"{name}: {n_left_out:,} of the first {of:,} inputs {have} fewer than {least} features and {are} left out."]


def _run(spec: StudySpec, subject: Subject, path: Path, desk: Desk) -> StudyRun:
    progress = LiveBar(label=path.stem) if desk.progress is True else desk.progress
    engine: str | Engine = "local" if desk.workers else InProcess.on(subject.inputs)
    try:
        return run_study(spec, path, engine=engine, workers=desk.workers, progress=progress)
    except StudyError as error:
        if isinstance(error.cause or error, StudyMismatchError):
            error.add_hint(f"With `holdfast reproduce`: choose another --output, or remove {path}.")
        raise


def _check_whole(run: StudyRun, path: Path) -> None:
    """Nothing is concluded from a part."""
    if run.stopped:
        raise StoppedError(f"Stopped. {_kept(run.status.n_done, path)}")
    if run.status.failures:
        first = next(iter(run.status.failures.items()))
        raise StudyError(
            f"{run.status.n_given_up} items of {str(path)!r} could not be computed, the first of input {first[0]}: "
            f"{first[1]} Run the command again to try them again."
        )


def _kept(n_done: int, path: Path) -> str:
    if n_done == 0:
        return "Nothing was stored yet; the same command begins again."
    stored = "1 item is" if n_done == 1 else f"{n_done:,} items are"
    return f"{stored} stored in {path}; the same command goes on from there."


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
