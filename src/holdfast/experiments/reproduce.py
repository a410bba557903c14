"""The name of an experiment → its data, its figure and its findings, in a folder."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from holdfast.errors import InvalidValueError
from holdfast.experiments.experiment import Desk, Experiment, Outcome, Request
from holdfast.experiments.files import write_outcome
from holdfast.experiments.registry import find_experiment
from holdfast.report.figures.style import themed
from holdfast.study.spec import PRECISIONS
from holdfast.validation import check_installed, check_name, check_whole

FOLDER = Path("build/reproduce")
"""Where results go unless another folder is named."""


@dataclass(frozen=True, eq=False)
class Reproduced:
    """What came out of an experiment, and the files that hold it."""

    id: str
    outcome: Outcome
    files: tuple[Path, ...]

    @property
    def findings(self) -> str:
        """What the data say, in words."""
        return self.outcome.findings


def reproduce(
    name: str,
    request: Request | None = None,
    *,
    output: str | Path | None = None,
    workers: int = 0,
    progress: Any = None,
) -> Reproduced:
    """Carry out an experiment of the paper, or what is left of it, and write data, figure and findings.

    The same request gives the same data files, whatever the number of workers and however often it was
    interrupted; only times differ (batching-table).

    Parameters
    ----------
    name : str
        Its name, or how its name begins, such as "q1".
    request : Request, optional
        What is changed about it.
    output : str or Path, optional
        The folder; by default ``build/reproduce/<id>``.
    workers : int
        Worker processes of its studies; 0 for none.
    progress : bool, optional
        True for a live bar.

    Examples
    --------
    >>> reproduce("masking", Request(radii=(1, 2)))
    Traceback (most recent call last):
    ...
    holdfast.errors.InvalidValueError: `radii` is no option of masking-vs-flipping, which takes n, keep and seed.
    """
    experiment, asked = find_experiment(name), request or Request()
    check_request(experiment, asked)
    folder = Path(output) if output is not None else FOLDER / experiment.id
    desk = Desk(folder, check_whole(workers, "workers"), progress)
    check_packages(experiment, asked)
    with themed():
        outcome = experiment.run(experiment, asked, desk)
    if experiment.hindsight and asked.subjects is None:
        outcome = replace(outcome, findings=f"{outcome.findings} {experiment.hindsight}")
    return Reproduced(experiment.id, outcome, write_outcome(experiment, outcome, folder))


def check_request(experiment: Experiment, request: Request) -> None:
    """Options that would have no effect, or that cannot be used, are an error before anything runs."""
    for option in request.given():
        if option not in experiment.options:
            known = ", ".join(one.replace("_", "-") for one in experiment.options)
            shown = option.replace("_", "-")
            raise InvalidValueError(f"`{shown}` is no option of {experiment.id}, which takes {known} and seed.")
    if request.n is not None:
        check_whole(request.n, "n", minimum=1)
    if request.min_tokens is not None:
        check_whole(request.min_tokens, "min-tokens", minimum=1)
    if request.precision is not None:
        check_name(request.precision, "precision", PRECISIONS)
    check_whole(request.seed, "seed")
    _check_parts(request)
    _check_numbers(experiment, request)


def check_packages(experiment: Experiment, request: Request) -> None:
    """All that is missing for the figure, the data and the bundled models is named before anything runs."""
    bundled = bool(experiment.subjects) and request.subjects is None
    extras = ("hf,report,sklearn", ("torch", "transformers", "sklearn")) if bundled else ("report", ())
    check_installed(experiment.id, extras[0], ("matplotlib", "pyarrow", *extras[1]))


def _check_parts(request: Request) -> None:
    """Nothing that was asked for is empty, and every part of it can be used."""
    given = {"methods": request.methods, "radii": request.radii, "keep": request.keep, "model": request.subjects}
    for name, values in given.items():
        if values is not None and len(values) == 0:
            raise InvalidValueError(f"`{name}` must not be empty; leave it out for the experiment's own choice.")
    methods = request.methods or ()
    request.method_specs(())  # an unknown name is an error
    if len(set(methods)) < len(methods):
        raise InvalidValueError(f"`methods` must name each method once, got {', '.join(methods)}.")
    for keep in request.keep or ():
        if not 0 < keep <= 1:
            raise InvalidValueError(f"`keep` must be numbers above 0 and at most 1, got {keep:g}.")


def _check_numbers(experiment: Experiment, request: Request) -> None:
    """As many methods and models as the experiment is about, on a device that it can measure."""
    counts = (
        ("methods", request.methods, experiment.n_methods),
        ("model", request.subjects, experiment.n_models),
    )
    for name, values, wanted in counts:
        if values is not None and wanted is not None and len(values) != wanted:
            raise InvalidValueError(f"`{name}` must name {_times(wanted)} for {experiment.id}, got {len(values)}.")
    elsewhere = [one.device for one in request.subjects or () if one.device != "cpu"]
    if experiment.cpu_only and elsewhere:
        raise InvalidValueError(
            f"`device` must be cpu for {experiment.id}, which measures processor time, got {elsewhere[0]!r}."
        )


def _times(number: int) -> str:
    return "exactly one" if number == 1 else f"exactly {number}"
