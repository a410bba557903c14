"""Tasks → events, by worker processes that load the model once each; one that dies is replaced and its task re-run."""

from __future__ import annotations

import multiprocessing
import signal
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

from holdfast.errors import StudyError
from holdfast.study.engines.engine import Event, GivenUp
from holdfast.study.engines.serve import DONE, ERROR, EVENT, READY, STOP, serve
from holdfast.study.items import Task
from holdfast.study.results import Record
from holdfast.study.spec import StudySpec
from holdfast.study.work import Load, load_worker

_SECONDS_BETWEEN_LOOKS = 0.1
"""How often a request to stop is looked for while workers compute."""


@dataclass(frozen=True)
class Processes:
    """The engine with worker processes.

    Parameters
    ----------
    n_workers : int
        Number of processes.
    load : callable
        Makes the worker in each process; a function of a module.
    max_tries : int
        How many workers may die at one task before its items are given up.
    """

    n_workers: int
    load: Load = field(default=load_worker, repr=False)
    max_tries: int = 3

    def run(self, spec: StudySpec, tasks: Iterator[Task], stop: Callable[[], bool], /) -> Iterator[Event]:
        """Events of the tasks, in the order in which they are finished."""
        crew = _Crew(self, spec, tasks)
        try:
            yield from crew.work(stop)
        finally:
            crew.dismiss()


class _Hand:
    """One worker process: the near end of its pipe, and the task it has, less what it has sent."""

    def __init__(self, engine: Processes, spec: StudySpec) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe: Connection[Any, Any]
        self.pipe, far_end = context.Pipe()
        self.process = context.Process(target=serve, args=(far_end, spec, engine.load, engine.n_workers), daemon=True)
        self.process.start()
        # Only the worker may hold the far end, or its death would not close the pipe.
        far_end.close()
        self.task: Task | None = None
        self.is_ready = False

    def give(self, message: Task | str | None) -> None:
        # If it has died, that is noticed where its pipe is read.
        with suppress(BrokenPipeError, ConnectionResetError):
            self.pipe.send(message)

    def end(self) -> None:
        self.pipe.close()
        self.process.kill()
        self.process.join()
        self.process.close()


class _Crew:
    """Worker processes and what they have to do."""

    def __init__(self, engine: Processes, spec: StudySpec, tasks: Iterator[Task]) -> None:
        self._engine, self._spec, self._tasks = engine, spec, tasks
        self._again: deque[Task] = deque()
        self._hands: list[_Hand] = []
        self._deaths: Counter[int] = Counter()
        self._deaths_loading = 0
        self._stopping = False

    def work(self, stop: Callable[[], bool]) -> Iterator[Event]:
        while self._fill() or self._hands:
            for pipe in wait([hand.pipe for hand in self._hands], timeout=_SECONDS_BETWEEN_LOOKS):
                yield from self._hear(next(hand for hand in self._hands if hand.pipe is pipe))
            if not self._stopping and stop():
                self._stopping = True
                for hand in self._hands:
                    hand.give(STOP)

    def _fill(self) -> bool:
        """Give tasks to new workers, as long as there are tasks and too few workers."""
        while len(self._hands) < self._engine.n_workers and (task := self._next()) is not None:
            self._hands.append(_Hand(self._engine, self._spec))
            self._assign(self._hands[-1], task)
        return bool(self._hands)

    def _next(self) -> Task | None:
        if self._stopping:
            return None
        return self._again.popleft() if self._again else next(self._tasks, None)

    def _assign(self, hand: _Hand, task: Task | None) -> None:
        hand.task = task
        hand.give(task)

    def _hear(self, hand: _Hand) -> Iterator[Event]:
        """One message of a worker, or its death: whatever it sent before has then been read."""
        try:
            kind, content = hand.pipe.recv()
        except (EOFError, OSError):
            yield from self._bury(hand)
            return
        if kind == EVENT:
            if isinstance(content, Record) and hand.task is not None:
                hand.task = hand.task.after(content.key, content.method, content.attribution[2])
            yield content
        elif kind == READY:
            hand.is_ready, self._deaths_loading = True, 0
        elif kind == DONE:
            self._go_on(hand)
        elif kind == ERROR:
            message, trace = content
            error = StudyError(message)
            error.add_note(f"In a worker process:\n{trace}")
            raise error

    def _go_on(self, hand: _Hand) -> None:
        """The next task for a worker that is free, or its leave."""
        self._assign(hand, self._next())
        if hand.task is None:
            self._hands.remove(hand)
            hand.process.join()
            hand.end()

    def _bury(self, hand: _Hand) -> Iterator[GivenUp]:
        """Take over what a dead worker left undone."""
        hand.process.join()
        self._hands.remove(hand)
        task, reason, was_ready = hand.task, _cause(hand.process.exitcode), hand.is_ready
        hand.end()
        if not was_ready:
            self._blame_loading(reason)
        if task is None or not task.items:
            return
        self._deaths[task.input] += was_ready
        if self._deaths[task.input] < self._engine.max_tries:
            self._again.append(task)
            return
        items = tuple(item.key for item in task.items)
        yield GivenUp(task.input, items, f"its worker died ({reason})", self._deaths[task.input])

    def _blame_loading(self, reason: str) -> None:
        self._deaths_loading += 1
        if self._deaths_loading >= self._engine.max_tries:
            raise StudyError(
                f"{self._deaths_loading} workers in a row died while they loaded the model and the data ({reason}). "
                "Is there memory for as many workers?"
            )

    def dismiss(self) -> None:
        """End every worker that is left; nothing they had begun is stored."""
        for hand in self._hands:
            hand.end()
        self._hands.clear()


def _cause(exitcode: int | None) -> str:
    """How a process ended, in words."""
    if exitcode is None or exitcode >= 0:
        return f"exit code {exitcode}"
    name = signal.Signals(-exitcode).name
    return f"{name}, as when memory runs out" if name == "SIGKILL" else name
