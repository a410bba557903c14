"""Stored explanations → mean curves over the data set, stored as they are found (precision "data-set").

The items of such a study hold explanations only. When all are stored, each method, fraction and keep
probability gets one mean curve. Every input's answers are stored as they come, so that an
interrupted curve goes on with the next input.
"""

from __future__ import annotations

import hashlib
import json
from collections import UserDict
from collections.abc import Callable
from functools import partial
from typing import Any

from holdfast.certification.mean_curve import InputCounts, mean_curve
from holdfast.errors import StoreError, StudyMismatchError
from holdfast.inputs.inputs import Inputs
from holdfast.selection import top_fraction
from holdfast.smoothing import smooth
from holdfast.study.records import stored_json
from holdfast.study.spec import GroupKey, StudySpec
from holdfast.study.store import Store, StoreWriter
from holdfast.study.worker import Skipped, at_input, bind_input, item_rng, steady
from holdfast.types import Mask, MaskedModel, Progress

_MEAN_FIELDS = ("radii", "confidence", "simultaneous", "agree", "neighborhood", "half_width")
"""What of a question counts for a mean: it has a width in place of a tolerance and a plan."""


class StoppedError(Exception):
    """Somebody asked to stop; what was finished is stored."""


class StoredAnswers(UserDict[str, InputCounts]):
    """The answers of inputs for one mean curve, each stored as it comes."""

    def __init__(self, store: StoreWriter, scope: str, stop: Callable[[], bool]) -> None:
        super().__init__()
        self._store, self._scope, self._stop = store, scope, stop
        for question, content in store.query("SELECT question, content FROM answers WHERE scope = ?", scope):
            n_agreed, consistent, n_calls = stored_json(content, list)
            self.data[question] = InputCounts(tuple(n_agreed), consistent, n_calls)

    def __setitem__(self, key: str, answer: InputCounts) -> None:
        self._store.add_answer(self._scope, key, json.dumps(answer))
        self.data[key] = answer
        if self._stop():
            raise StoppedError


def run_means(
    spec: StudySpec,
    store: StoreWriter,
    inputs: Inputs,
    *,
    stop: Callable[[], bool],
    progress: Callable[[], Progress] | None = None,
    timeout: float | None = None,
) -> None:
    """Compute the mean curves that are asked for and not stored yet; ``progress`` makes a bar for each."""
    at_work: int

    def subject(group: GroupKey, index: int) -> tuple[MaskedModel, Mask]:
        nonlocal at_work
        at_work = index  # inputs are asked one after the other
        return explained(spec, store, inputs, group, index, timeout=timeout)

    for group in spec.mean_groups:
        numbers = store.group_inputs(group)
        # A mean over other inputs than these is another mean.
        if not numbers or store.mean(group) is not None:
            continue
        at_work = numbers[0]
        scope = f"{group.name}/{hashlib.sha256(repr(numbers).encode()).hexdigest()[:16]}"
        question: dict[str, Any] = {name: getattr(spec.certify, name) for name in _MEAN_FIELDS}
        try:
            curve = mean_curve(
                [partial(subject, group, index) for index in numbers],
                **question,
                memory=StoredAnswers(store, scope, stop),
                progress=None if progress is None else progress(),
                rng=item_rng(spec, "mean", group.method, repr(group.top_fraction), repr(group.keep_probability)),
            )
        except StoppedError:
            return
        except StoreError:
            raise
        except Exception as error:
            raise at_input(at_work, error) from error
        store.add_mean_curve(group, curve.to_json(), numbers)


def explained(
    spec: StudySpec, store: Store, inputs: Inputs, group: GroupKey, index: int, *, timeout: float | None = None
) -> tuple[MaskedModel, Mask]:
    """One input bound to the model, smoothed if asked, and its stored explanation."""
    bound, attribution = bind_input(spec, inputs, index), store.attribution(index, group.method)
    if isinstance(bound, Skipped):
        raise StudyMismatchError(
            f"its explanation is stored, but now it would be left out ({bound.reason}). What is asked is about the "
            "inputs that were explained: put it back as it was, or use another file."
        )
    if attribution is None:
        raise StoreError(f"{str(store.path)!r} has no scores by {group.method} for input {index}, though it has items.")
    difference = store.first_difference(index, bound)
    if difference is not None:
        raise StudyMismatchError(
            "the {} is another than the one that was explained (it was {}, and is now {}). "
            "A file holds results of one model and one data set.".format(*difference)
        )
    model: MaskedModel = steady(bound, spec, timeout=timeout)
    if group.keep_probability != 1:
        rng = item_rng(spec, "smooth", index)
        model = smooth(model, group.keep_probability, spec.smoothing.n_samples, rng=rng)
    return model, top_fraction(attribution, group.top_fraction)
