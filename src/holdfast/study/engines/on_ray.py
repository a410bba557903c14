"""Tasks → events, by actors on a Ray cluster that load the model once each; those that are lost are replaced."""

from __future__ import annotations

import math
import multiprocessing
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from holdfast.errors import InvalidTypeError, InvalidValueError, StudyError
from holdfast.extras import check_installed
from holdfast.study.engines.crew import ERROR, EVENT, error_of
from holdfast.study.engines.engine import Event
from holdfast.study.engines.ray_link import SECONDS_TO_LEAVE, WANT, attend
from holdfast.study.engines.ray_site import RESUME
from holdfast.study.engines.serve import STOP, holding_back_ctrl_c
from holdfast.study.items import Task
from holdfast.study.spec import StudySpec
from holdfast.study.work import Load, load_worker
from holdfast.validation import check_seconds, check_whole, is_number, shown

_SECONDS_BETWEEN_LOOKS = 0.1


@dataclass(frozen=True)
class Ray:
    """The engine on Ray: actors on a cluster, or on this machine.

    Every actor loads the model and the data by the study's spec; specs, tasks and records are all that
    Ray carries. Results are written by the process that runs the study. The same study gives the same
    items as on any other engine.

    Parameters
    ----------
    n_workers : int
        Number of actors; 0 for as many as fit. ``run_study(…, workers=8)`` sets it too.
    address : str, optional
        An existing cluster that this machine is a node of: ``"auto"``, or host and port of its head. By default a
        cluster is started on this machine, for this run only; one that exists is never touched.
    cpus_per_worker, gpus_per_worker : float
        What each actor reserves. Torch gets as many threads as CPUs.
    load : callable
        Makes the worker in each actor; a function of a module.
    max_tries : int
        How many actors may die at one task before its items are given up. The loss of a node counts a tenth.
    patience : float
        Seconds to wait, with no actor at work, until one finds its place.
    timeout : float, optional
        Most seconds from one finished item to the next; an actor that takes longer is ended, as if it had died.
    inputs_per_worker : int, optional
        How many inputs an actor has before another takes its place, for models that keep ever more memory.

    Examples
    --------
    >>> Ray(address="auto", gpus_per_worker=1)
    Ray(n_workers=0, address='auto', cpus_per_worker=1, gpus_per_worker=1, max_tries=3, patience=600, timeout=None)
    """

    n_workers: int = 0
    address: str | None = None
    cpus_per_worker: float = 1
    gpus_per_worker: float = 0
    load: Load = field(default=load_worker, repr=False)
    max_tries: int = 3
    patience: float = 600
    timeout: float | None = None
    inputs_per_worker: int | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_whole(self.n_workers, "n_workers")
        check_whole(self.max_tries, "max_tries", minimum=1)
        _check_address(self.address)
        _check_amount(self.cpus_per_worker, "cpus_per_worker", may_be_zero=False)
        _check_amount(self.gpus_per_worker, "gpus_per_worker", may_be_zero=True)
        _check_number(self.patience, "patience", may_be_zero=True)
        check_seconds(self.timeout)
        check_installed("The engine 'ray'", ["ray"])

    @property
    def request(self) -> str:
        """What each worker asks for, in words."""
        return f"{self.cpus_per_worker:g} CPUs and {self.gpus_per_worker:g} GPUs"

    def run(self, spec: StudySpec, tasks: Iterator[Task], stop: Callable[[], bool], /) -> Iterator[Event]:
        """Events of the tasks, in the order in which they are finished."""
        first = next(tasks, None)
        if first is None:
            return
        link = _Link(self, spec)
        try:
            yield from link.work(_chained(first, tasks), stop)
        finally:
            link.end()


def _chained(first: Task, rest: Iterator[Task]) -> Iterator[Task]:
    yield first
    yield from rest


class _Link:
    """The process that is connected to the cluster, by the near end of its pipe."""

    def __init__(self, engine: Ray, spec: StudySpec) -> None:
        # Paths of sockets are short: a folder for temporary files may have a name that is too long for them.
        short = "/tmp" if os.path.isdir("/tmp") else None
        self._folder = tempfile.mkdtemp(prefix=f"holdfast-ray-{os.getpid()}-", dir=short)
        self._address = engine.address
        context = multiprocessing.get_context("spawn")
        self._pipe: Connection[Any, Any]
        self._pipe, far_end = context.Pipe()
        self._process = context.Process(target=attend, args=(far_end, engine, spec, self._folder), daemon=True)
        self._was_heard = False
        try:
            with holding_back_ctrl_c():
                self._process.start()
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        # Only that process may hold the far end, or its death would not close the pipe.
        far_end.close()

    def work(self, tasks: Iterator[Task], stop: Callable[[], bool]) -> Iterator[Event]:
        stopping = False
        while True:
            if self._pipe.poll(_SECONDS_BETWEEN_LOOKS):
                kind, content = self._receive()
                if kind == EVENT:
                    yield content
                elif kind == WANT:
                    self._send(next(tasks, None))
                elif kind == ERROR:
                    raise error_of(content)
                else:
                    return
            if not stopping and stop():
                stopping = True
                self._send(STOP)

    def end(self) -> None:
        """Close the connection; a cluster that was started for it ends with it."""
        self._pipe.close()
        try:
            self._process.join(SECONDS_TO_LEAVE)
        finally:
            self._process.kill()
            self._process.join()
            self._process.close()
            shutil.rmtree(self._folder, ignore_errors=True)

    def _receive(self) -> tuple[str, Any]:
        try:
            message: tuple[str, Any] = self._pipe.recv()
        except (EOFError, OSError):
            raise self._loss() from None
        self._was_heard = True
        return message

    def _loss(self) -> StudyError:
        """What to say when the connected process is gone."""
        where = "on this machine" if self._address is None else f"at {self._address!r}"
        what = "was lost" if self._was_heard else "ended before it was made"
        error = StudyError(f"The connection to the Ray cluster {where} {what}. {RESUME}")
        error.add_note(f"The last that Ray said:\n{self._last_words()}")
        return error

    def _send(self, message: Task | str | None) -> None:
        # If nobody listens any more, that is noticed where the pipe is read.
        with suppress(BrokenPipeError, ConnectionResetError):
            self._pipe.send(message)

    def _last_words(self) -> str:
        with suppress(OSError):
            return Path(self._folder, "log").read_text(errors="replace")[-2000:]
        return "(nothing)"


def _check_address(address: Any) -> None:
    must = "be 'auto', or host and port of the head of a cluster, such as '10.0.0.1:6379'"
    if address is not None and not isinstance(address, str):
        raise InvalidTypeError(argument="address", must=must, got=shown(address))
    if address is not None and address != "auto" and (":" not in address or "://" in address):
        raise InvalidValueError(argument="address", must=must, got=shown(address))


def _check_amount(amount: Any, name: str, *, may_be_zero: bool) -> None:
    """A number of CPUs or GPUs: parts of one, or whole ones."""
    _check_number(amount, name, may_be_zero=may_be_zero)
    if amount == math.inf or (amount > 1 and amount != int(amount)):
        raise InvalidValueError(argument=name, must="be whole where it is above 1", got=shown(amount))


def _check_number(value: Any, name: str, *, may_be_zero: bool) -> None:
    must = f"be a number {'≥' if may_be_zero else '>'} 0"
    if not is_number(value):
        raise InvalidTypeError(argument=name, must=must, got=shown(value))
    if not value >= 0 or (value == 0 and not may_be_zero):
        raise InvalidValueError(argument=name, must=must, got=shown(value))
