"""Stored explanations → mean curves over the data set, stored as they are found (precision "data-set").

The items of such a study hold explanations only. When all are stored, each method, fraction and keep
probability gets one mean curve. Every input's answers are stored as they come, so that an
interrupted curve goes on with the next input.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, MutableMapping
from itertools import product
from typing import Any

from holdfast.certification.mean_curve import Answer, mean_curve
from holdfast.evaluation import Evaluator
from holdfast.results.mean_curve import MeanCurve
from holdfast.selection import top_fraction
from holdfast.smoothing.model import smooth
from holdfast.study.spec import StudySpec
from holdfast.study.store import CurveKey, StoreWriter
from holdfast.study.work import Skipped, Worker, item_rng
from holdfast.types import Mask, MaskedModel


class StoppedError(Exception):
    """Somebody asked to stop; what was finished is stored."""


class StoredAnswers(MutableMapping[str, Answer]):
    """The answers of inputs for one mean curve, kept in the store."""

    def __init__(self, store: StoreWriter, scope: str, wish: Callable[[], bool]) -> None:
        self._store, self._scope, self._wish = store, scope, wish

    def __getitem__(self, key: str) -> Answer:
        found = self._store.answer(self._scope, key)
        if found is None:
            raise KeyError(key)
        n_agreed, consistent, n_calls = json.loads(found)
        return Answer(tuple(n_agreed), consistent, n_calls)

    def __setitem__(self, key: str, answer: Answer) -> None:
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
    spec: StudySpec, store: StoreWriter, worker: Worker, *, wish: Callable[[], bool], progress: Any = None
) -> int:
    """Compute the mean curves that are not stored yet; returns how many were."""
    n_new = 0
    for method, fraction, keep in product(
        [method.name for method in spec.methods], spec.top_fractions, spec.smoothing.keep_probabilities
    ):
        key = CurveKey(method, fraction, keep)
        inputs = store.inputs_with(key)
        # A mean over other inputs than these is another mean.
        if inputs and store.mean_inputs(key) != inputs:
            try:
                curve = _mean(spec, store, worker, key, inputs, wish=wish, progress=progress)
            except StoppedError:
                return n_new
            store.add_mean_curve(key, curve.to_json(), inputs)
            n_new += 1
    return n_new


def _mean(
    spec: StudySpec,
    store: StoreWriter,
    worker: Worker,
    key: CurveKey,
    inputs: tuple[int, ...],
    *,
    wish: Callable[[], bool],
    progress: Any,
) -> MeanCurve:
    asked = spec.certify

    def subject(index: int) -> tuple[MaskedModel, Mask]:
        return _explained(spec, store, worker, key, index)

    return mean_curve(
        [lambda index=index: subject(index) for index in inputs],  # type: ignore[misc]
        radii=asked.radii,
        half_width=asked.half_width,
        confidence=asked.confidence,
        bound=asked.bound,
        simultaneous=asked.simultaneous,
        agree=asked.agree,
        neighborhood=asked.neighborhood,
        memory=StoredAnswers(store, _scope(key, inputs), wish),
        progress=progress,
        rng=item_rng(spec, "mean", key.method, repr(key.top_fraction), repr(key.keep_probability)),
    )


def _scope(key: CurveKey, inputs: tuple[int, ...]) -> str:
    """What an answer belongs to: one curve over exactly these inputs."""
    digest = hashlib.sha256(repr(inputs).encode()).hexdigest()[:16]
    return f"{key.method}/{key.top_fraction!r}/{key.keep_probability!r}/{digest}"


def _explained(
    spec: StudySpec, store: StoreWriter, worker: Worker, key: CurveKey, index: int
) -> tuple[MaskedModel, Mask]:
    """One input bound to the model, smoothed if asked, and its stored explanation."""
    bound, attribution = worker.bind(index), store.attribution(index, key.method)
    if isinstance(bound, Skipped) or attribution is None:
        raise RuntimeError(f"input {index} has no stored explanation by {key.method}")
    model: MaskedModel = bound
    if key.keep_probability != 1:
        rng = item_rng(spec, "smooth", index)
        model = smooth(Evaluator(bound), key.keep_probability, spec.smoothing.n_samples, rng=rng)
    return model, top_fraction(attribution, key.top_fraction)
