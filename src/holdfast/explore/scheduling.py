"""Many who want one model → one at a time: clicks first, searches last, tabs in turn, and nobody who has left.

A turn is one batch, so that whoever waits, waits for a batch and not for a job.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from itertools import islice
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from holdfast.types import Differentiable, Inspectable, MaskedModel, Masks, Outputs
from holdfast.validation import check_masks

MOST_PASSED = 8  # so many turns of those that go first, then somebody else has one: nobody waits forever
MOST_ROWS = 32  # most masks of a turn
_LONGEST, _SHORTEST = 0.12, 0.03
"""Seconds of a turn above which the next one is half as long, and below which it is twice as long."""

Item = TypeVar("Item")


class Cancelled(Exception):  # noqa: N818 - nothing went wrong
    """The work is no longer wanted."""


class Priority(IntEnum):
    """Who goes first: somebody who clicked and looks at the screen, then jobs, then searches that may take long."""

    CLICK = 0
    JOB = 1
    SEARCH = 2


@dataclass(frozen=True, eq=False)
class Caller:
    """On whose behalf the model is asked: tabs take turns, and cancelled work has none."""

    tab: str
    priority: Priority = Priority.JOB
    is_cancelled: Callable[[], bool] = lambda: False

    def check(self) -> None:
        """Raise if the work was cancelled."""
        if self.is_cancelled():
            raise Cancelled


class FairQueue(Generic[Item]):
    """Entries by priority, and those of one priority in rounds: ten entries of a tab delay another tab by one.

    Examples
    --------
    >>> queue = FairQueue[str]()
    >>> for tab, item in [("a", "a1"), ("a", "a2"), ("b", "b1")]:
    ...     queue.put(item, Priority.JOB, tab)
    >>> queue.put("click", Priority.CLICK, "a")
    >>> list(queue), queue.take(), queue.take(), len(queue)
    (['click', 'a1', 'b1', 'a2'], 'click', 'a1', 2)
    """

    def __init__(self) -> None:
        self._tabs: dict[Priority, dict[str, deque[Item]]] = {priority: {} for priority in Priority}
        self._n_passed = dict.fromkeys(Priority, 0)

    def __len__(self) -> int:
        return sum(len(entries) for tabs in self._tabs.values() for entries in tabs.values())

    def __iter__(self) -> Iterator[Item]:
        """The entries in the order of their turns, if no more come and nobody is passed over."""
        for tabs in self._tabs.values():
            waiting = deque(map(deque, tabs.values()))
            while waiting:
                entries = waiting.popleft()
                yield entries.popleft()
                if entries:
                    waiting.append(entries)

    def put(self, item: Item, priority: Priority, tab: str) -> None:
        self._tabs[priority].setdefault(tab, deque()).append(item)

    def take(self, is_ready: Callable[[Priority, str], bool] = lambda priority, tab: True) -> Item | None:
        """The next entry of those that are ready, or None; a priority passed over too often comes before the rest."""
        ready = {
            priority: tab
            for priority, tabs in self._tabs.items()
            for tab in islice((tab for tab in tabs if is_ready(priority, tab)), 1)
        }
        if not ready:
            return None
        chosen = max((priority for priority in ready if self._n_passed[priority] >= MOST_PASSED), default=min(ready))
        for priority in ready:
            self._n_passed[priority] = 0 if priority == chosen else self._n_passed[priority] + 1
        tab = ready[chosen]
        entries = self._tabs[chosen].pop(tab)
        item = entries.popleft()
        if entries:
            self._tabs[chosen][tab] = entries  # last in the next round
        return item

    def drop(self, item: Item, priority: Priority, tab: str) -> bool:
        """Take an entry out of the queue; False if it is not there."""
        entries = self._tabs[priority].get(tab, deque())
        if item not in entries:
            return False
        entries.remove(item)
        if not entries:
            del self._tabs[priority][tab]
        return True


class PriorityLock:
    """One turn at a time, in the order of a fair queue."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.waiting = FairQueue[threading.Condition]()
        self.holder: threading.Condition | None = None

    @contextmanager
    def turn(self, caller: Caller) -> Iterator[None]:
        """Wait for a turn and have it; work that is cancelled before, while it waits or after raises ``Cancelled``."""
        # Everyone waits for a condition of their own: of many threads woken at once, all but one would be in the way.
        ticket = threading.Condition(self._lock)
        with self._lock:
            self.waiting.put(ticket, caller.priority, caller.tab)
            if self.holder is None:
                self._pass_on()
            while self.holder is not ticket:
                if caller.is_cancelled() and self.waiting.drop(ticket, caller.priority, caller.tab):
                    raise Cancelled
                ticket.wait()
        try:
            caller.check()
            yield
        finally:
            with self._lock:
                self._pass_on()
        caller.check()

    def wake(self) -> None:
        """Let all who wait see whether they were cancelled."""
        with self._lock:
            for ticket in self.waiting:
                ticket.notify()

    def _pass_on(self) -> None:
        self.holder = self.waiting.take()
        if self.holder is not None:
            self.holder.notify()


class BatchSize:
    """How many rows a turn has: few enough that it is short."""

    def __init__(self) -> None:
        self.n_rows = MOST_ROWS

    def adapt(self, n_rows: int, *, seconds: float) -> None:
        """Have fewer rows after a long turn, more after a short one that was full."""
        if seconds > _LONGEST:
            self.n_rows = max(1, min(self.n_rows, n_rows) // 2)
        elif seconds < _SHORTEST and n_rows >= self.n_rows:
            self.n_rows = min(MOST_ROWS, 2 * self.n_rows)


class ScheduledModel:
    """A masked model that waits for its turn before every batch, and raises ``Cancelled`` once its caller has left.

    It has gradients, and shows what happens inside, if the model does.
    """

    batch_size = MOST_ROWS

    def __init__(self, model: MaskedModel, lock: PriorityLock, caller: Caller, batch: BatchSize) -> None:
        self._model: Any = model
        self._lock, self._caller, self._batch = lock, caller, batch
        self.n_features = model.n_features
        for name in ("provenance", "feature_names", "classes", "elements", "baseline", "groups"):
            if hasattr(model, name):
                setattr(self, name, getattr(model, name))
        if hasattr(model, "structure_reader"):  # what counts its masks reads the model itself
            self.structure_reader, self.structured = model.structure_reader, model
        if isinstance(model, Differentiable):
            self.gradient = self._gradient
        if isinstance(model, Inspectable):
            self.lacks, self.network = model.lacks, model.network
            self.activations = lambda *asked: self._alone(lambda: self._model.activations(*asked))
            self.attentions = lambda: self._alone(lambda: self._model.attentions())

    def __call__(self, masks: Masks, /) -> Outputs:
        shown = check_masks(masks, self.n_features)
        if len(shown) == 0:
            return np.asarray(self._model(shown))
        return np.concatenate(self._in_turns(lambda rows: np.asarray(self._model(shown[rows])), len(shown)))

    def _gradient(self, points: NDArray[Any], target: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Scores (b, n_classes) and gradients (b, *S) at points (b, *S)."""
        parts = self._in_turns(lambda rows: self._model.gradient(points[rows], target), len(points))
        scores, slopes = zip(*parts, strict=True)
        return np.concatenate(scores), np.concatenate(slopes)

    def _alone(self, work: Callable[[], Any]) -> Any:
        with self._lock.turn(self._caller):
            return work()

    def _in_turns(self, work: Callable[[slice], Any], n_rows: int) -> list[Any]:
        answers, start = list[Any](), 0
        while start < n_rows:
            with self._lock.turn(self._caller):
                rows = slice(start, min(n_rows, start + self._batch.n_rows))
                began = time.perf_counter()
                answers.append(work(rows))
                self._batch.adapt(rows.stop - rows.start, seconds=time.perf_counter() - began)
            start = rows.stop
        return answers
