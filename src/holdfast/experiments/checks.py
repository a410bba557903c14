"""What was asked of an experiment → an error in words before anything runs, where it cannot be carried out."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.experiments.experiment import Experiment, Request
from holdfast.experiments.subjects import FOR_FILES, Subject
from holdfast.extras import check_installed
from holdfast.study.spec import PRECISIONS
from holdfast.validation import check_name, check_whole, is_number, shown


def check_request(experiment: Experiment, request: Any) -> Request:
    """Options that would have no effect, or that cannot be used, are an error before anything runs.

    Examples
    --------
    >>> from holdfast.experiments.registry import find_experiment
    >>> check_request(find_experiment("q4"), Request(keep=0.5))
    Traceback (most recent call last):
    ...
    holdfast.errors.InvalidTypeError: `keep` must be a tuple of numbers, got 0.5.
    """
    if not isinstance(request, Request):
        raise InvalidTypeError(argument="request", must="be a Request", got=type(request).__name__)
    _check_options(experiment, request)
    _check_lists(request)
    if request.n is not None:
        check_whole(request.n, "n", minimum=1)
    if request.min_tokens is not None:
        check_whole(request.min_tokens, "min-tokens", minimum=1)
    if request.precision is not None:
        check_name(request.precision, "precision", PRECISIONS)
    check_whole(request.seed, "seed")
    _check_parts(request)
    _check_levels(experiment, request.keep or ())
    _check_numbers(experiment, request)
    return request


def check_packages(experiment: Experiment, request: Request) -> None:
    """All that is missing for the figure, the tables, the models and their data is named before anything runs."""
    subjects = request.subjects if request.subjects is not None else [subject for subject, _ in experiment.subjects]
    check_installed(experiment.id, (*FOR_FILES, *(package for subject in subjects for package in subject.packages)))


def _check_options(experiment: Experiment, request: Request) -> None:
    for option in request.given():
        if option not in experiment.options:
            name, *known = (word.replace("_", "-") for word in (option, *experiment.options))
            statement = f"is no option of {experiment.id}, which takes {', '.join(known)} and seed."
            raise InvalidValueError(statement, argument=name)


_LISTS = {"subjects": "Subjects", "methods": "names", "radii": "whole numbers", "keep": "numbers"}


def _check_lists(request: Request) -> None:
    """Several of everything that can be several, even if it is one; no text, which has letters."""
    for name, what in _LISTS.items():
        values = getattr(request, name)
        if values is None:
            continue
        if not isinstance(values, (tuple, list)):
            raise InvalidTypeError(argument=name, must=f"be a tuple of {what}", got=shown(values))
        if not values:
            argument = "model" if name == "subjects" else name
            raise InvalidValueError(
                argument=argument, must="not be empty; leave it out for the experiment's own choice"
            )


def _check_parts(request: Request) -> None:
    """Every part of what was asked for can be used, and none is there twice."""
    for subject in request.subjects or ():
        if not isinstance(subject, Subject):
            raise InvalidTypeError(argument="subjects", must="be a tuple of Subjects", got=f"{subject!r} in it")
    request.method_specs(())  # an unknown name is an error
    _check_once("methods", "method", request.methods or ())
    for radius in request.radii or ():
        check_whole(radius, "radii")
    _check_once("radii", "radius", request.radii or ())
    for keep in request.keep or ():
        _check_keep(keep)
    _check_once("keep", "keep probability", request.keep or ())


def _check_once(name: str, what: str, values: Sequence[Any]) -> None:
    if len(set(values)) < len(values):
        raise InvalidValueError(argument=name, must=f"name each {what} once", got=", ".join(map(str, values)))


def _check_keep(keep: Any) -> None:
    if not is_number(keep):
        raise InvalidTypeError(argument="keep", must="be numbers above 0 and at most 1", got=shown(keep))
    if not 0 < keep <= 1:
        raise InvalidValueError(argument="keep", must="be numbers above 0 and at most 1", got=f"{keep:g}")


def _check_levels(experiment: Experiment, keeps: Sequence[float]) -> None:
    """Where masks vote, each feature is kept in a whole number of them."""
    levels = experiment.n_levels
    if levels is None:
        return
    for keep in keeps:
        nearest = max(1, round(Fraction(keep) * levels))
        if nearest / levels != keep:
            raise InvalidValueError(
                argument="keep",
                must=f"be multiples of 1/{levels} for {experiment.id}",
                got=f"{keep:g}; the nearest is {nearest}/{levels}",
            )


def _check_numbers(experiment: Experiment, request: Request) -> None:
    """As many methods and models as the experiment is about, on a device that it can measure."""
    counts = (
        ("methods", request.methods, experiment.n_methods),
        ("model", request.subjects, experiment.n_models),
    )
    for name, values, wanted in counts:
        if values is not None and wanted is not None and len(values) != wanted:
            raise InvalidValueError(argument=name, must=f"name {_times(wanted)} for {experiment.id}", got=len(values))
    elsewhere = [subject.device for subject in request.subjects or () if subject.device != "cpu"]
    if experiment.cpu_only and elsewhere:
        raise InvalidValueError(
            argument="device",
            must=f"be cpu for {experiment.id}, which measures processor time",
            got=shown(elsewhere[0]),
        )


def _times(number: int) -> str:
    return "exactly one" if number == 1 else f"exactly {number}"
