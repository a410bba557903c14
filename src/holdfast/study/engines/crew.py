"""Tasks and workers → events: who has which task, what a death costs, and when a task is given up, on every engine."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, Generic, Protocol, TypeVar

from holdfast.errors import HoldfastError, StudyError
from holdfast.study.engines.engine import Event, GivenUp
from holdfast.study.items import Task
from holdfast.study.results import Record
from holdfast.study.work import Skipped

EVENT, READY, DONE, ERROR = "event", "ready", "done", "error"
"""What a worker says: an event, that it is loaded, that its task is done, or what went wrong."""

Message = tuple[str, Any]

_SECONDS_BETWEEN_LOOKS = 0.1
"""How often a request to stop is looked for while workers compute."""

_LOSSES_PER_DEATH = 10
"""How many machines may be lost under a task for each worker that may die at it: an input can also crash a machine."""


class Died(Exception):  # noqa: N818
    """A worker is gone; ``counts`` says whether the task that it had may be the cause."""

    def __init__(self, reason: str, *, counts: bool = True) -> None:
        super().__init__(reason)
        self.reason, self.counts = reason, counts


class Late(Died):
    """A worker that has finished nothing for too long; it is ended."""


class Hand(ABC):
    """One worker, wherever it is: its task, less what it has sent, when it was heard last, how many tasks it had."""

    task: Task | None = None
    is_ready = False
    since = 0.0
    n_tasks = 0

    @abstractmethod
    def give(self, task: Task) -> None:
        """Let it begin a task."""

    @abstractmethod
    def stop(self) -> None:
        """Let it finish the item that it has begun, and then be done."""

    @abstractmethod
    def hear(self) -> Message:
        """What it says next; ``Died`` once everything has been heard that it said before."""

    def leave(self) -> None:
        """Let a worker go that has nothing to do."""
        self.end()

    @abstractmethod
    def end(self) -> None:
        """End it at once."""


_Hand = TypeVar("_Hand", bound=Hand)


class Site(Protocol[_Hand]):
    """Where workers are found."""

    def hire(self) -> _Hand:
        """A new worker, which loads the model and the data and says when it is ready."""
        ...

    def wait(self, hands: list[_Hand], seconds: float) -> Iterable[_Hand]:
        """Those that have something to say, as soon as there are some, or none when the time is over."""
        ...


class Tries:
    """What the tasks have cost so far in workers.

    Examples
    --------
    >>> tries = Tries(2)
    >>> [tries.add(7, counts=counts) for counts in (True, False, True)]
    [False, False, True]
    >>> tries.n_tries(7)
    3
    """

    def __init__(self, max_tries: int) -> None:
        self._max_tries = max_tries
        self._deaths: Counter[int] = Counter()
        self._losses: Counter[int] = Counter()

    def add(self, index: int, *, counts: bool) -> bool:
        """Count one more; True once that is too many for this input."""
        (self._deaths if counts else self._losses)[index] += 1
        spent = _LOSSES_PER_DEATH * self._deaths[index] + self._losses[index]
        return spent >= _LOSSES_PER_DEATH * self._max_tries

    def n_tries(self, index: int) -> int:
        """Workers that were lost with this input."""
        return self._deaths[index] + self._losses[index]


class Crew(Generic[_Hand]):
    """Workers and what they have to do; a task is taken when there is, or will be, a worker for it."""

    def __init__(
        self,
        site: Site[_Hand],
        tasks: Iterator[Task],
        *,
        n_workers: int,
        max_tries: int,
        timeout: float | None = None,
        inputs_per_worker: int | None = None,
    ) -> None:
        self._site, self._tasks, self._n_workers, self._max_tries = site, tasks, n_workers, max_tries
        self._timeout, self._inputs_per_worker = timeout, inputs_per_worker
        self._waiting: deque[Task] = deque()
        self._hands: list[_Hand] = []
        self._tries = Tries(max_tries)
        self._deaths_loading = 0
        self._stopping = False

    def work(self, stop: Callable[[], bool]) -> Iterator[Event]:
        """Events, until there is nothing left to do; once ``stop()`` is true, until begun items are finished."""
        self._hire()
        while self._waiting or any(hand.task for hand in self._hands):
            for hand in self._site.wait(self._hands, _SECONDS_BETWEEN_LOOKS):
                yield from self._hear(hand)
            yield from self._end_late()
            if not self._stopping and stop():
                self._stop()
            self._hire()

    def dismiss(self) -> None:
        """End every worker that is left; nothing they had begun is stored."""
        while self._hands:
            self._hands.pop().end()

    def _hire(self) -> None:
        """New workers, as long as there are too few, and tasks that nobody else will be free for."""
        while not self._stopping and len(self._hands) < self._n_workers and self._has_one_for_another():
            self._hands.append(self._site.hire())

    def _has_one_for_another(self) -> bool:
        """Whether more tasks wait than workers load; those that load may take long, or never find a place."""
        n_loading = sum(not hand.is_ready for hand in self._hands)
        if len(self._waiting) <= n_loading and (task := next(self._tasks, None)) is not None:
            self._waiting.append(task)
        return len(self._waiting) > n_loading

    def _end_late(self) -> Iterator[Event]:
        """End workers that have finished no item in time, unless they have just said something."""
        if self._timeout is None:
            return
        begun = time.monotonic() - self._timeout
        late = [hand for hand in self._hands if hand.is_ready and hand.task is not None and hand.since < begun]
        talking = list(self._site.wait(late, 0)) if late else []
        for hand in late:
            if hand not in talking:
                yield from self._bury(hand, Late(f"no item was finished within {self._timeout:g} s"))

    def _stop(self) -> None:
        """Whoever has begun finishes an item; the others go."""
        self._stopping = True
        self._waiting.clear()
        for hand in list(self._hands):
            if hand.task is None:
                self._hands.remove(hand)
                hand.end()
            else:
                hand.stop()

    def _hear(self, hand: _Hand) -> Iterator[Event]:
        """One message of a worker, or its death."""
        try:
            kind, content = hand.hear()
        except Died as death:
            yield from self._bury(hand, death)
            return
        hand.since = time.monotonic()
        if kind == EVENT:
            assert hand.task is not None
            hand.task = _left_of(hand.task, content)
            yield content
        elif kind == ERROR:
            raise error_of(content)
        else:
            if kind == READY:
                hand.is_ready, self._deaths_loading = True, 0
            self._go_on(hand)

    def _go_on(self, hand: _Hand) -> None:
        """The next task for a worker that is free, or its leave; one that has had its share is replaced."""
        is_spent = self._inputs_per_worker is not None and hand.n_tasks >= self._inputs_per_worker
        hand.task = None if is_spent else self._next()
        if hand.task is None:
            self._hands.remove(hand)
            hand.leave()
        else:
            hand.n_tasks += 1
            hand.give(hand.task)

    def _next(self) -> Task | None:
        if self._stopping:
            return None
        return self._waiting.popleft() if self._waiting else next(self._tasks, None)

    def _bury(self, hand: _Hand, death: Died) -> Iterator[GivenUp]:
        """Take over what a dead worker left undone."""
        self._hands.remove(hand)
        hand.end()
        if not hand.is_ready and death.counts:
            self._blame_loading(death.reason)
        task = hand.task
        if task is None or not task.items:
            return
        if self._tries.add(task.input, counts=death.counts):
            items = tuple(item.key for item in task.items)
            what = "it took too long" if isinstance(death, Late) else "its worker died"
            yield GivenUp(task.input, items, f"{what} ({death.reason})", self._tries.n_tries(task.input))
        elif not self._stopping:
            self._waiting.append(task)

    def _blame_loading(self, reason: str) -> None:
        self._deaths_loading += 1
        if self._deaths_loading >= self._max_tries:
            raise StudyError(
                f"{self._deaths_loading} workers in a row died while they loaded the model and the data ({reason}). "
                "Is there memory for as many workers, and has every machine what they need?"
            )


def _left_of(task: Task, event: Event) -> Task:
    """What a worker has still to do of its task; of an input that is left out, nothing."""
    if isinstance(event, Record):
        return task.after(event.key, event.method, event.attribution[2])
    return replace(task, items=()) if isinstance(event, Skipped) else task


def error_of(content: tuple[HoldfastError, str]) -> HoldfastError:
    """What went wrong in a worker, with its trace."""
    error, trace = content
    error.add_note(f"In a worker process:\n{trace}")
    return error
