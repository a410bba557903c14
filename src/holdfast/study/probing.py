"""A study's model and some of its inputs → how many features there are, and how long a call takes."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from holdfast.attribution.methods import GRADIENT_METHODS, attribute
from holdfast.errors import StudyError
from holdfast.evaluation import Evaluator
from holdfast.study.items import inputs_of
from holdfast.study.spec import StudySpec
from holdfast.study.work import Skipped, bind_input, check_packages, steady, study_inputs
from holdfast.types import MaskedModel

_N_LOOKED_AT = 9
"""Inputs that are bound to see how many features they have."""

_SECONDS = 0.5
_MOST_PORTIONS = 64
_LARGE, _SMALL = 256, 32
"""Rows that come together when a method explains, and between two looks of a certificate."""

_FEW_GRADIENTS = 8


@dataclass(frozen=True)
class Probe:
    """What was seen of the model and the data.

    Attributes
    ----------
    n_inputs : int
        Inputs the study asks for.
    n_features : tuple of int
        Features of each input that was looked at.
    n_skipped : int
        Inputs that were looked at and would be left out.
    seconds_per_call : float or None
        Time of one model call among many, measured on one input; None if it was not to be measured.
    seconds_per_small_call : float or None
        The same among few, as they come between two looks of a certificate.
    seconds_per_gradient : float or None
        The same for gradients, if a method needs them.
    """

    n_inputs: int
    n_features: tuple[int, ...]
    n_skipped: int
    seconds_per_call: float | None
    seconds_per_small_call: float | None
    seconds_per_gradient: float | None


def probe_study(spec: StudySpec, *, timed: bool) -> Probe:
    """Load the model and the data, bind a few inputs, and time one of them if asked."""
    check_packages(spec)
    every = study_inputs(spec)
    every.check_kinds()
    inputs = inputs_of(spec, len(every))
    looked_at = []
    for place in sorted(set(np.linspace(0, len(inputs) - 1, _N_LOOKED_AT).astype(int).tolist())):
        try:
            looked_at.append(bind_input(spec, every, inputs[place]))
        except StudyError as error:
            raise StudyError(f"Input {inputs[place]} {error}") from error
    bound = [model for model in looked_at if not isinstance(model, Skipped)]
    if not bound:
        raise StudyError(f"None of {len(looked_at)} inputs that were looked at can be used: {looked_at[0]}.")
    own = [method for method in spec.methods if method.name in GRADIENT_METHODS]
    return Probe(
        n_inputs=len(inputs),
        n_features=tuple(model.n_features for model in bound),
        n_skipped=len(looked_at) - len(bound),
        seconds_per_call=time_calls(steady(bound[0], spec), _LARGE) if timed else None,
        seconds_per_small_call=time_calls(steady(bound[0], spec), _SMALL) if timed else None,
        seconds_per_gradient=time_gradients(bound[0], own[0].name) if timed and own else None,
    )


def time_calls(evaluator: Evaluator, n_rows: int) -> float:
    """Seconds per row when random masks come in portions of this size, over about half a second."""
    n_features, rng = evaluator.n_features, np.random.default_rng(0)
    evaluator(rng.random((n_rows, n_features)) < 0.5)
    n_calls, seconds = 0, 0.0
    for _ in range(_MOST_PORTIONS):
        masks, before, start = rng.random((n_rows, n_features)) < 0.5, evaluator.n_calls, time.perf_counter()
        evaluator(masks)
        seconds += time.perf_counter() - start
        n_calls += evaluator.n_calls - before
        # Of few features all masks are soon known, and cost nothing.
        if seconds >= _SECONDS or evaluator.n_calls - before < n_rows // 2:
            break
    return seconds / max(1, n_calls)


def time_gradients(model: MaskedModel, method: str) -> float:
    """Seconds per gradient of a method on the first few steps of its way."""
    attribute(model, method, n_samples=1, rng=0)
    start = time.perf_counter()
    found = attribute(model, method, n_samples=_FEW_GRADIENTS, rng=0)
    return (time.perf_counter() - start) / max(1, found.n_calls)
