"""Stored explanations → mean curves over the data set, stored as they are found (precision "data-set").

The items of such a study hold explanations only. When all are stored, each method, fraction and keep
probability gets one mean curve. Every input's answers are stored as they come, so that an
interrupted curve goes on with the next input.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager

from holdfast.certification.mean_curve import InputCounts, MeanCurve, mean_curve
from holdfast.errors import StoreError, StudyMismatchError
from holdfast.inputs.inputs import Inputs
from holdfast.selection import top_fraction
from holdfast.smoothing import smooth
from holdfast.study.curves import current_curve, curve_inputs, curve_keys
from holdfast.study.engines.engine import at_input
from holdfast.study.listing import first_difference
from holdfast.study.question import plain_spec
from holdfast.study.results import stored_json
from holdfast.study.spec import StudySpec
from holdfast.study.store import CurveKey, Store
from holdfast.study.work import Skipped, bind_input, item_rng, steady
from holdfast.study.writing import StoreWriter
from holdfast.types import Mask, MaskedModel, Progress

_MEAN_FIELDS = ("radii", "confidence", "simultaneous", "agree", "neighborhood")
"""What of a question counts for a mean: it has a width in place of a tolerance and a plan."""


class StoppedError(Exception):
    """Somebody asked to stop; what was finished is stored."""


class StoredAnswers(MutableMapping[str, InputCounts]):
    """The answers of inputs for one mean curve, kept in the store."""

    def __init__(self, store: StoreWriter, scope: str, wish: Callable[[], bool]) -> None:
        self._store, self._scope, self._wish = store, scope, wish

    def __getitem__(self, key: str) -> InputCounts:
        found = self._store.answer(self._scope, key)
        if found is None:
            raise KeyError(key)
        n_agreed, consistent, n_calls = stored_json(found, list)
        return InputCounts(tuple(n_agreed), consistent, n_calls)

    def __setitem__(self, key: str, answer: InputCounts) -> None:
        self._store.add_answer(self._scope, key, json.dumps(answer))
        if self._wish():
            raise StoppedError

    def __delitem__(self, key: str) -> None:
        raise TypeError("answers are never forgotten")

    def __iter__(self) -> Iterator[str]:
        return self._store.answers(self._scope)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def run_means(
    spec: StudySpec,
    store: StoreWriter,
    inputs: Inputs,
    *,
    wish: Callable[[], bool],
    progress: Callable[[], Progress] | None = None,
    timeout: float | None = None,
) -> int:
    """Compute the mean curves that are not stored yet; returns how many were. ``progress`` makes a bar for each."""
    n_new = 0
    for key in curve_keys(plain_spec(spec)):
        numbers = curve_inputs(store, key)
        # A mean over other inputs than these is another mean.
        if numbers and current_curve(store, key) is None:
            try:
                curve = _mean(spec, store, inputs, key, numbers, wish=wish, progress=progress, timeout=timeout)
            except StoppedError:
                return n_new
            store.add_mean_curve(key, curve.to_json(), numbers)
            n_new += 1
    return n_new


def _mean(
    spec: StudySpec,
    store: StoreWriter,
    inputs: Inputs,
    key: CurveKey,
    numbers: tuple[int, ...],
    *,
    wish: Callable[[], bool],
    progress: Callable[[], Progress] | None,
    timeout: float | None,
) -> MeanCurve:
    asked, at_work = spec.certify, [numbers[0]]

    def subject(index: int) -> tuple[MaskedModel, Mask]:
        at_work[0] = index
        return explained(spec, store, inputs, key, index, timeout=timeout)

    with _naming_last(at_work):
        return mean_curve(
            [lambda index=index: subject(index) for index in numbers],  # type: ignore[misc]
            half_width=asked.half_width,
            bound=asked.bound,
            **{name: getattr(asked, name) for name in _MEAN_FIELDS},
            memory=StoredAnswers(store, _scope(key, numbers), wish),
            progress=None if progress is None else progress(),
            rng=item_rng(spec, "mean", key.method, repr(key.top_fraction), repr(key.keep_probability)),
        )


@contextmanager
def _naming_last(at_work: list[int]) -> Iterator[None]:
    """Errors of the model or the data say at which input: inputs are asked one after the other."""
    try:
        yield
    except (StoppedError, StoreError):
        raise
    except Exception as error:
        raise at_input(at_work[0], error) from error


def _scope(key: CurveKey, inputs: tuple[int, ...]) -> str:
    """What an answer belongs to: one curve over exactly these inputs."""
    digest = hashlib.sha256(repr(inputs).encode()).hexdigest()[:16]
    return f"{key.name}/{digest}"


def explained(
    spec: StudySpec, store: Store, inputs: Inputs, key: CurveKey, index: int, *, timeout: float | None = None
) -> tuple[MaskedModel, Mask]:
    """One input bound to the model, smoothed if asked, and its stored explanation."""
    bound, attribution = bind_input(spec, inputs, index), store.attribution(index, key.method)
    if isinstance(bound, Skipped):
        raise StudyMismatchError(
            f"its explanation is stored, but now it would be left out ({bound.reason}). What is asked is about the "
            "inputs that were explained: put it back as it was, or use another file."
        )
    if attribution is None:
        raise StoreError(f"{str(store.path)!r} has no scores by {key.method} for input {index}, though it has items.")
    difference = first_difference(store, index, bound)
    if difference is not None:
        raise StudyMismatchError(
            "the {} is another than the one that was explained (it was {}, and is now {}). "
            "A file holds results of one model and one data set.".format(*difference)
        )
    model: MaskedModel = steady(bound, spec, timeout=timeout)
    if key.keep_probability != 1:
        rng = item_rng(spec, "smooth", index)
        model = smooth(model, key.keep_probability, spec.smoothing.n_samples, rng=rng)
    return model, top_fraction(attribution, key.top_fraction)
