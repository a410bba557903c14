"""The name of an experiment → its data, its figure and its findings, in a folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from holdfast.errors import ColumnsError, HoldfastError, MissingGradientsError, StudyError
from holdfast.experiments.checks import check_packages, check_request
from holdfast.experiments.experiment import Desk, Experiment, Outcome, Request
from holdfast.experiments.files import write_outcome
from holdfast.experiments.folders import check_folder
from holdfast.experiments.registry import find_experiment
from holdfast.report.figures.style import themed
from holdfast.validation import check_whole

FOLDER = Path("build/reproduce")
"""Where results go unless another folder is named."""

_NO_GRADIENTS = ("lime", "shap", "random")
"""Methods of the paper that every model can be explained by."""


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
        The folder; by default ``build/reproduce/<id>``. It must not hold results of another experiment.
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
    experiment = find_experiment(name)
    request = check_request(experiment, Request() if request is None else request)
    folder = check_folder(experiment, folder_of(experiment, output))
    desk = Desk(folder, check_whole(workers, "workers"), progress)
    check_packages(experiment, request)
    with themed(), _naming_options(experiment, request):
        outcome = experiment.run(experiment, request, desk)
    if experiment.hindsight and request.subjects is None and request.n is None:
        outcome = replace(outcome, findings=f"{outcome.findings} {experiment.hindsight}")
    return Reproduced(experiment.id, outcome, write_outcome(experiment, outcome, folder))


def folder_of(experiment: Experiment, output: str | Path | None) -> str | Path:
    """Where the results of an experiment go."""
    return FOLDER / experiment.id if output is None else output


@contextmanager
def _naming_options(experiment: Experiment, request: Request) -> Iterator[None]:
    """Errors inside say which option of ``holdfast reproduce`` helps, if one does."""
    try:
        yield
    except HoldfastError as error:
        cause = error.cause if isinstance(error, StudyError) and error.cause else error
        if option := _helping_option(cause, experiment, request):
            error.add_hint(f"With `holdfast reproduce`: {option}.")
        raise


def _helping_option(cause: HoldfastError, experiment: Experiment, request: Request) -> str | None:
    if isinstance(cause, MissingGradientsError):
        return f"--methods {','.join(_NO_GRADIENTS[: experiment.n_methods])}"
    tables = (subject.data for subject in request.subjects or () if subject.kind == "table")
    if isinstance(cause, ColumnsError) and any("target" not in data.options for data in tables):
        return "--target COLUMN names the column that holds the labels and is no feature"
    return None
