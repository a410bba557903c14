"""A task → messages, on a node of a Ray cluster: an actor holds the model and is asked for some items at a time."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from holdfast.study.engines.crew import DONE, ERROR, EVENT, READY, Message
from holdfast.study.engines.engine import as_event, at_input, sendable
from holdfast.study.engines.serve import share_cores
from holdfast.study.items import Task
from holdfast.study.spec import StudySpec
from holdfast.study.work import Load, Worker

_SECONDS_TOGETHER = 0.1
"""Items that are finished within this time are sent together: a call costs about a millisecond."""


@dataclass(frozen=True)
class Home:
    """Where a study was started: its folder, and the places that modules are imported from."""

    folder: str
    places: tuple[str, ...]

    @classmethod
    def here(cls) -> Home:
        """That of this process."""
        folder = os.getcwd()
        return cls(folder, tuple(os.path.abspath(place) for place in sys.path))

    def enter(self) -> None:
        """Work in the same folder and find the same modules, as far as this machine has them."""
        if os.path.isdir(self.folder):
            os.chdir(self.folder)
        sys.path.extend(place for place in self.places if place not in sys.path and os.path.exists(place))


@dataclass(frozen=True)
class Place:
    """Where an actor was placed, and which holdfast is there."""

    node: str
    host: str
    version: str


class Actor:
    """One worker; every method but the first answers with messages for the crew."""

    def __init__(self, home: Home) -> None:
        if threading.current_thread() is threading.main_thread():
            # Ctrl-C reaches every process of the terminal; the one that writes the study decides what it means.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        home.enter()
        self._worker: Worker | None = None
        self._task: Task | None = None
        self._found: Iterator[Any] = iter(())

    def place(self) -> Place:
        """Where it is; also asked to find out whether it lives."""
        import ray

        from holdfast import __version__

        return Place(ray.get_runtime_context().get_node_id(), socket.gethostname(), __version__)

    def load(self, spec: StudySpec, load: Load, n_threads: int) -> list[Message]:
        """Load the model and the data."""
        try:
            self._worker = load(spec)
            share_cores(n_threads)
        except Exception as error:
            return [(ERROR, (sendable(error), traceback.format_exc()))]
        return [(READY, None)]

    def begin(self, task: Task) -> list[Message]:
        """The first events of a task."""
        assert self._worker is not None
        self._task, self._found = task, self._worker.run(task)
        return self.step()

    def step(self) -> list[Message]:
        """At least one event more, or that the task is done."""
        until = time.monotonic() + _SECONDS_TOGETHER
        messages = [self._next()]
        while messages[-1][0] == EVENT and time.monotonic() < until:
            messages.append(self._next())
        return messages

    def _next(self) -> Message:
        assert self._task is not None
        try:
            found = next(self._found, None)
            return (DONE, None) if found is None else (EVENT, as_event(found))
        except Exception as error:
            return ERROR, (at_input(self._task.input, error), traceback.format_exc())
