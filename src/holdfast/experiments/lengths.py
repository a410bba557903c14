"""A study that leaves out short inputs → as many leading inputs as it takes to have the number asked for."""

from __future__ import annotations

from dataclasses import replace

from holdfast.errors import InvalidValueError
from holdfast.study.engines.engine import naming_input
from holdfast.study.spec import StudySpec
from holdfast.study.work import Skipped, Worker, load_data, load_model


def reaching(spec: StudySpec, name: str) -> StudySpec:
    """The study about the first inputs of which ``data.n`` are long enough, or about all if there are too few.

    How long an input is only the model can say, by what it takes for a feature, so that it is loaded where inputs
    may be left out. It is not called.

    Parameters
    ----------
    spec : StudySpec
        The study, with ``data.n`` as the number of inputs that are wanted.
    name : str
        What the model is called in an error.
    """
    wanted = spec.data.n
    if spec.data.min_features == 1:
        return spec
    data = load_data(spec)
    if wanted is not None and wanted > len(data):
        return spec  # the study itself says how many there are
    worker = Worker(spec, load_model(spec.model), data)
    n_found = 0
    for index in range(len(data)):
        with naming_input(index):
            n_found += not isinstance(worker.bind(index), Skipped)
        if n_found == (wanted or 1):
            return spec if wanted is None else replace(spec, data=replace(spec.data, n=index + 1))
    if n_found == 0:
        raise none_left(name, spec.data.min_features)
    return replace(spec, data=replace(spec.data, n=len(data)))


def none_left(name: str, least: int) -> InvalidValueError:
    """The error where every input is too short.

    Examples
    --------
    >>> print(none_left("vader", 40))
    `--min-tokens` must leave an input of vader, got 40: every one has fewer features.
    """
    got = f"{least}: every one has fewer features"
    return InvalidValueError(argument="--min-tokens", must=f"leave an input of {name}", got=got)


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
