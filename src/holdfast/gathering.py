"""Several questions → their results, with rows of many questions in each call of the model.

Every question runs until it waits for the model; then another goes on, in the same thread (a greenlet each). They run
in their order, so that which rows go together depends on what is asked and never on timing. Draws and counts belong to
their question: how rows are cut into batches changes no more than the last digits of a network's scores.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from contextvars import copy_context
from functools import cached_property
from importlib.util import find_spec
from traceback import clear_frames
from typing import Any, Generic, TypeVar
from weakref import WeakSet

import numpy as np

from holdfast.calls import HOST, is_out_of_memory
from holdfast.errors import ModelError
from holdfast.evaluation import Evaluator
from holdfast.outputs import answers_of
from holdfast.types import Deciding, MaskedModel, Masks

_Result = TypeVar("_Result")

MOST_OPEN = 32
"""Most questions that are open at a time: each holds its input and what was computed of it."""

_ROWS_PER_LOOK, _BATCHES_AHEAD = 16, 4
"""A question wants about so many rows at a time, or more; those that are open fill so many batches."""

_CALLS_PER_TRY = 64
"""After so many calls as large as memory has allowed, twice as large ones are tried: it may be there again."""


def open_questions(batch_size: int) -> int:
    """How many questions to keep open for batches of this size.

    >>> [open_questions(size) for size in (1, 16, 64, 256)]
    [1, 4, 16, 32]
    """
    return min(MOST_OPEN, max(1, _BATCHES_AHEAD * batch_size // _ROWS_PER_LOOK))


def are_apart(models: Iterable[Any], others: WeakSet[Evaluator] | None = None) -> bool:
    """Whether no two models, nor those before them, remember in one evaluator, which is asked by one at a time."""
    known = WeakSet[Evaluator]() if others is None else others
    for model in models:
        while isinstance(model, (Evaluator, Deciding)):
            if isinstance(model, Evaluator):
                if model in known:
                    return False
                known.add(model)
            model = model.model if isinstance(model, Evaluator) else model.base
    return True


def run_together(
    questions: Callable[[bool], Iterator[_Result] | None],
    *,
    n_open: int,
    stop: Callable[[], bool] = lambda: False,
) -> Iterator[_Result]:
    """Results of all questions as they come, with up to ``n_open`` of them open at a time.

    Without the package greenlet, which comes with every extra for a framework, they run one after the other.

    ``questions`` gives the next question, an iterator of its results, or None if there is none; it is told whether to
    wait for one, because no other is open. An error of a question is raised when the questions before it are over;
    those after it are given up. An interrupt is raised at once. Once ``stop()`` is true, no question is begun, and
    only the first of those that are open goes on.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import certify, mask_function
    >>> def question(feature):
    ...     model = mask_function(lambda masks: masks[:, feature], n_features=5)
    ...     yield feature, certify(model, np.arange(5) < 3, radius=2, rng=0).rate
    >>> waiting = [question(feature) for feature in range(5)]
    >>> sorted(run_together(lambda wait: waiting.pop(0) if waiting else None, n_open=4))
    [(0, 1.0), (1, 1.0), (2, 1.0), (3, 0.5), (4, 0.5)]
    """
    if n_open > 1 and find_spec("greenlet") is not None:
        yield from _Gathering(questions, n_open, stop).run()
        return
    while (question := questions(True)) is not None:
        yield from question


class _Gathering(Generic[_Result]):
    """The questions that are open, in their order, and the first error that is to be raised."""

    def __init__(
        self, questions: Callable[[bool], Iterator[_Result] | None], n_open: int, stop: Callable[[], bool]
    ) -> None:
        self._questions, self._n_open, self._stop = questions, n_open, stop
        self._open: list[_OpenQuestion[_Result]] = []
        self._batches = _SharedBatches()
        self._failure: BaseException | None = None

    def run(self) -> Iterator[_Result]:
        try:
            while True:
                yield from self._begin()
                if self._stop():
                    self._give_up(self._open[1:])
                if not self._open:
                    break
                for question in self._batches.answer(self._open):
                    if self._stop():
                        self._give_up(self._open[1:])
                    yield from self._proceed(question)
            if self._failure is not None:
                raise self._failure
        finally:
            self._give_up(self._open[:])

    def _begin(self) -> Iterator[_Result]:
        """Begin questions until enough are open, each until it waits for the model."""
        while self._failure is None and len(self._open) < self._n_open and not self._stop():
            results = self._questions(not self._open)
            if results is None:
                return
            self._open.append(_OpenQuestion(results))
            yield from self._proceed(self._open[-1])

    def _proceed(self, question: _OpenQuestion[_Result]) -> Iterator[_Result]:
        if question not in self._open:  # it was given up
            return
        yield from question.proceed()
        if question.request is None:
            if question.error is not None:
                self._failure = question.error
                self._give_up(self._open[self._open.index(question) + 1 :])
            self._open.remove(question)

    def _give_up(self, questions: list[_OpenQuestion[_Result]]) -> None:
        for question in questions:
            question.give_up()
            self._open.remove(question)


class _OpenQuestion(Generic[_Result]):
    """One question in its greenlet, and the ``Host`` of it; it runs only while the caller waits for it."""

    def __init__(self, results: Iterator[_Result]) -> None:
        from greenlet import GreenletExit, getcurrent, greenlet

        self.request: _RowRequest | None = None
        self.error: BaseException | None = None
        self.seconds_waited = 0.0
        self._results, self._is_given_up, self._exit, self._current = results, False, GreenletExit, getcurrent
        self._greenlet = greenlet(self._run)
        self._greenlet.gr_context = copy_context()  # of the caller, in which settings such as NumPy's are kept

    def proceed(self) -> Iterator[_Result]:
        """Let it go on until it waits for rows, has failed, or is over; its results as they come."""
        self.request = None
        while True:
            try:
                said = self._greenlet.switch()
            except Exception as error:  # raised when the questions before it are over
                self.error = error
                return
            if self._greenlet.dead:
                return
            if isinstance(said, _RowRequest):
                self.request = said
                return
            yield said

    def give_up(self) -> None:
        """End it where it waits; what it says then is of no interest."""
        self._is_given_up = True
        with suppress(Exception):
            self._greenlet.throw()

    def ask(self, model: MaskedModel, masks: Masks, /, *, batch_size: int, probe: Any) -> Any:
        if self._current() is not self._greenlet:  # in a thread of the question's own, which cannot wait for others
            return model(masks)
        if self._is_given_up:  # and asks all the same, to clean up
            raise self._exit
        start, request = time.perf_counter(), _RowRequest(model, masks, batch_size, probe)
        try:
            self._greenlet.parent.switch(request)
        finally:
            self.seconds_waited += time.perf_counter() - start - request.seconds
        return request.answer()

    def _run(self) -> None:
        HOST.set(self)
        try:
            for result in self._results:
                self._greenlet.parent.switch(result)
        finally:  # a question that is given up may wait between two results
            if hasattr(self._results, "close"):
                self._results.close()


class _RowRequest:
    """Masks that a question waits for, and what is known of the first of them."""

    def __init__(self, model: MaskedModel, masks: Masks, batch_size: int, probe: Any) -> None:
        self.model, self.probe, self._masks, self._batch_size = model, probe, masks, batch_size
        self.error: Exception | None = None
        self.seconds, self.n_known = 0.0, 0
        self._parts: list[Any] = []

    @cached_property
    def key(self) -> Hashable:
        """What requests have in common that can be computed together; one that goes alone has its own."""
        try:
            key = getattr(self.model, "join_key", None)
            hash(key)
        except Exception:  # whatever it is, the model says it again when it is asked
            key = None
        return object() if key is None else key

    @property
    def batch_size(self) -> int:
        """Most rows of a call."""
        return self._batch_size if self.probe is None else min(self._batch_size, self.probe.size)

    @property
    def n_left(self) -> int:
        return 0 if self.error is not None else len(self._masks) - self.n_known

    def answer(self) -> Any:
        """What the model said, or raised."""
        if self.error is not None:
            error, self.error = self.error, None
            try:
                raise error
            finally:  # nothing refers to an error in a circle, which would keep what its frames hold
                del error
        if len(self._parts) == 1:
            return self._parts[0]
        if all(isinstance(part, list) for part in self._parts):
            return [answer for part in self._parts for answer in part]
        parts = [answers_of(part) for part in self._parts]
        if len({part.shape[1:] for part in parts}) > 1:
            raise ModelError("The model must return the same number of classes every time.")
        return np.concatenate(parts)

    def next_masks(self, n: int) -> Masks:
        return self._masks[self.n_known : self.n_known + n]

    def keep(self, outputs: Any, n: int, seconds: float) -> None:
        self._parts.append(outputs)
        self.n_known += n
        self.seconds += seconds


class _SharedBatches:
    """Full batches of what questions wait for; where none is full, the largest there is."""

    def __init__(self) -> None:
        self._limits: dict[Hashable, int] = {}
        self._n_calls: Counter[Hashable] = Counter()
        self._apart: Counter[Hashable] = Counter()  # and for how many calls

    def answer(self, questions: Sequence[_OpenQuestion[_Result]]) -> list[_OpenQuestion[_Result]]:
        """Compute some rows; gives the questions that have their answer."""
        requests = [question.request for question in questions if question.request is not None]
        groups: dict[Hashable, list[_RowRequest]] = {}
        for request in requests:
            key = request.key
            groups.setdefault(request if self._apart[key] > 0 else key, []).append(request)
        is_full = {key: _n_rows(group) >= self._size(key, group) for key, group in groups.items()}
        largest = max(groups, key=lambda key: _n_rows(groups[key]))
        for key, group in groups.items():
            if is_full[key] or (key is largest and not any(is_full.values())):
                self._compute(key, group)
        return [question for question in questions if question.request is not None and question.request.n_left == 0]

    def _size(self, key: Hashable, group: Sequence[_RowRequest]) -> int:
        """Most rows per call, as far as memory has allowed."""
        size = min(request.batch_size for request in group)
        return min(size, self._limits.get(key, size))

    def _compute(self, key: Hashable, group: list[_RowRequest]) -> None:
        """One call at least, then more as long as they are full."""
        is_first = True
        while _n_rows(group) >= (1 if is_first else self._size(key, group)):
            is_first, room, parts = False, self._size(key, group), list[tuple[_RowRequest, Masks]]()
            for request in group:
                if request.n_left and room:
                    parts.append((request, request.next_masks(room)))
                    room -= len(parts[-1][1])
            self._call(key, parts)

    def _call(self, key: Hashable, parts: list[tuple[_RowRequest, Masks]]) -> None:
        (first, masks), n_rows = parts[0], sum(len(masks) for _, masks in parts)
        model: Any = first.model
        outputs, probe, start = None, first.probe, time.perf_counter()
        probe_start = 0.0 if probe is None else probe.clock()
        try:
            if len(parts) == 1:
                outputs = [model(masks)]
            else:
                answers = model.score_jointly([(request.model, masks) for request, masks in parts])
                if [len(answer) for answer in answers] == [len(masks) for _, masks in parts]:
                    outputs = answers
                else:
                    self._apart[key] = _CALLS_PER_TRY
        except Exception as error:
            ran_out = is_out_of_memory(error)
            if ran_out:  # of which the error would keep what the model had made
                clear_frames(error.__traceback__)
            if ran_out and n_rows > 1 and (len(parts) > 1 or first.n_known):
                self._limits[key], self._n_calls[key] = n_rows // 2, 0
            elif len(parts) == 1:  # which is that question's; where memory ran out, it asks for less
                first.error = error
            else:  # of one of them alone, or of their being together
                self._apart[key] = _CALLS_PER_TRY
        if outputs is None:
            for part in parts if len(parts) > 1 and self._apart[key] > 0 else ():
                self._call(part[0], [part])
            return
        if len(parts) == 1 and self._apart[first.key] > 0:
            self._apart[first.key] -= 1
        seconds = time.perf_counter() - start
        if n_rows >= self._limits.get(key, n_rows + 1):
            self._n_calls[key] += 1
            if self._n_calls[key] == _CALLS_PER_TRY:
                self._limits[key], self._n_calls[key] = 2 * n_rows, 0
        if probe is not None:
            probe.record(n_rows, probe.clock() - probe_start)
        for (request, masks), output in zip(parts, outputs, strict=True):
            request.keep(output, len(masks), seconds * len(masks) / n_rows)


def _n_rows(group: Sequence[_RowRequest]) -> int:
    return sum(request.n_left for request in group)
