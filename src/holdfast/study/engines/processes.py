"""Tasks → events, by worker processes that load the model once each; one that dies is replaced and its task re-run."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

from holdfast.study.engines.crew import Crew, Died, Hand, Message
from holdfast.study.engines.engine import Event
from holdfast.study.engines.serve import STOP, holding_back_ctrl_c, serve
from holdfast.study.items import Task
from holdfast.study.spec import StudySpec
from holdfast.study.work import Load, load_worker

_SECONDS_TO_LEAVE = 5.0
"""How long a worker that is done may take to end: threads that a model has started can keep it for ever."""


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
    timeout : float, optional
        Most seconds from one finished item to the next; a worker that takes longer is ended, as if it had died.
    inputs_per_worker : int, optional
        How many inputs a worker has before another takes its place, for models that keep ever more memory.
    """

    n_workers: int
    load: Load = field(default=load_worker, repr=False)
    max_tries: int = 3
    timeout: float | None = None
    inputs_per_worker: int | None = field(default=None, repr=False)

    def run(self, spec: StudySpec, tasks: Iterator[Task], stop: Callable[[], bool], /) -> Iterator[Event]:
        """Events of the tasks, in the order in which they are finished."""
        crew = Crew(
            _Machine(self, spec),
            tasks,
            n_workers=self.n_workers,
            max_tries=self.max_tries,
            timeout=self.timeout,
            inputs_per_worker=self.inputs_per_worker,
        )
        try:
            yield from crew.work(stop)
        finally:
            crew.dismiss()


class _Process(Hand):
    """One worker process, by the near end of its pipe."""

    def __init__(self, engine: Processes, spec: StudySpec) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe: Connection[Any, Any]
        self.pipe, far_end = context.Pipe()
        n_threads = max(1, (os.cpu_count() or 1) // engine.n_workers)
        self._process = context.Process(target=serve, args=(far_end, spec, engine.load, n_threads), daemon=True)
        with holding_back_ctrl_c():
            self._process.start()
        # Only the worker may hold the far end, or its death would not close the pipe.
        far_end.close()

    def give(self, task: Task) -> None:
        self._send(task)

    def stop(self) -> None:
        self._send(STOP)

    def hear(self) -> Message:
        try:
            return self.pipe.recv()  # type: ignore[no-any-return]
        except (EOFError, OSError):
            self._process.join(_SECONDS_TO_LEAVE)
            raise Died(_cause(self._process.exitcode)) from None

    def leave(self) -> None:
        self._send(None)
        self._process.join(_SECONDS_TO_LEAVE)
        self.end()

    def end(self) -> None:
        self.pipe.close()
        self._process.kill()
        self._process.join()
        self._process.close()

    def _send(self, message: Task | str | None) -> None:
        # If it has died, that is noticed where its pipe is read.
        with suppress(BrokenPipeError, ConnectionResetError):
            self.pipe.send(message)


@dataclass(frozen=True)
class _Machine:
    """The machine of this process, where workers are processes too."""

    engine: Processes
    spec: StudySpec

    def hire(self) -> _Process:
        return _Process(self.engine, self.spec)

    def wait(self, hands: list[_Process], seconds: float) -> Iterable[_Process]:
        heard = wait([hand.pipe for hand in hands], timeout=seconds)
        return [hand for hand in hands if hand.pipe in heard]


def _cause(exitcode: int | None) -> str:
    """How a process ended, in words."""
    if exitcode is None or exitcode >= 0:
        return f"exit code {exitcode}"
    name = signal.Signals(-exitcode).name
    return f"{name}, as when memory runs out" if name == "SIGKILL" else name
