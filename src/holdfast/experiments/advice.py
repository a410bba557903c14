"""Errors of the library → the same errors, with what to do about them on the command line of ``holdfast reproduce``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.errors import HoldfastError
from holdfast.experiments.experiment import Experiment, Request

_NO_GRADIENTS = ("lime", "shap", "random")
"""Methods of the paper that every model can be explained by."""


@contextmanager
def advising(experiment: Experiment, request: Request) -> Iterator[None]:
    """Errors inside say which option helps, if one does."""
    try:
        yield
    except HoldfastError as error:
        words = advice(str(error), experiment, request)
        if not words:
            raise
        raise type(error)(f"{error} With `holdfast reproduce`: {words}.") from error


def advice(said: str, experiment: Experiment, request: Request) -> str:
    """The option that helps against an error, in words; nothing if there is none.

    Examples
    --------
    >>> from holdfast.experiments.registry import find_experiment
    >>> advice("`method='mfaba'` needs a model with gradients", find_experiment("q2"), Request())
    '--methods lime,shap,random'
    """
    if "needs a model with gradients" in said:
        return f"--methods {','.join(_NO_GRADIENTS[: experiment.n_methods])}"
    named = [one for one in request.subjects or () if one.kind == "table" and "target" not in one.data.options]
    if "columns the classifier was fitted on" in said and named:
        return "--target COLUMN names the column that holds the labels and is no feature"
    return ""
