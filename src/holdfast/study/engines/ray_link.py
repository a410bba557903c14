"""The far end of a pipe → the process that is connected to a Ray cluster: tasks come in, events go out.

Ray's client prints what it likes and, when a cluster goes away, ends the process that it is in. So it gets one
of its own; the process that writes the study never imports Ray.
"""

from __future__ import annotations

import math
import os
import shutil
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from holdfast.errors import StudyError
from holdfast.study.engines.crew import DONE, ERROR, EVENT, Crew
from holdfast.study.engines.engine import sendable
from holdfast.study.engines.ray_site import RESUME, RaySite, alive_nodes, room_for
from holdfast.study.engines.serve import STOP, end_with_parent
from holdfast.study.items import Task
from holdfast.study.spec import StudySpec

if TYPE_CHECKING:
    from holdfast.study.engines.on_ray import Ray

WANT = "want"
"""What this process says when it has room for a task."""

_OBJECT_STORE = 80 * 2**20
"""Bytes of shared memory of a local cluster: records are a few kilobytes and stay outside; Ray asks for 75 MiB."""

_SECONDS_TO_ANSWER, _SECONDS_TO_CONNECT = 10.0, 120.0
"""For the head of a cluster to be reached at all, and for the whole of connecting or of starting a cluster."""

SECONDS_TO_LEAVE = 30.0
"""How long the connection to a cluster may take to be closed."""

_SETTINGS = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_gcs_rpc_server_reconnect_timeout_s": "30"}
"""Environment of Ray where nothing else is set: no network traffic of its own, and a head that is gone is noticed."""


def attend(pipe: Connection[Any, Any], engine: Ray, spec: StudySpec, folder: str) -> None:
    """Run the tasks that the parent gives on a cluster; what Ray prints goes to a file in the folder."""
    _keep_quiet(folder)
    _ignore_signals()
    end_with_parent(partial(_clean_late, folder))
    try:
        with _connected(engine, folder, _Patience(pipe)) as placed:
            _attend(pipe, placed, spec)
    except (BrokenPipeError, ConnectionResetError, EOFError):
        # Nobody listens any more.
        return
    except Exception as error:
        pipe.send((ERROR, (sendable(error), traceback.format_exc())))
    finally:
        # The parent does this too, unless it was killed.
        shutil.rmtree(folder, ignore_errors=True)


def _clean_late(folder: str) -> None:
    """A parent that is gone is also an end of file, at which all of a cluster is ended; this is for when that hangs."""
    time.sleep(SECONDS_TO_LEAVE)
    shutil.rmtree(folder, ignore_errors=True)


def _ignore_signals() -> None:
    """Ctrl-C reaches every process of the terminal; the parent decides what it means."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def _attend(pipe: Connection[Any, Any], engine: Ray, spec: StudySpec) -> None:
    orders = _Orders(pipe)
    n_workers, max_tries = engine.n_workers, engine.max_tries
    site = RaySite(engine, spec)
    limits: dict[str, Any] = {"timeout": engine.timeout, "inputs_per_worker": engine.inputs_per_worker}
    crew = Crew(site, orders.tasks(), n_workers=n_workers, max_tries=max_tries, **limits)
    try:
        for event in crew.work(orders.to_stop):
            pipe.send((EVENT, event))
        pipe.send((DONE, None))
    finally:
        crew.dismiss()


class _Patience:
    """Ends this process, with an error for the parent, when the block takes too long: Ray can try for ever."""

    def __init__(self, pipe: Connection[Any, Any], seconds: float = _SECONDS_TO_CONNECT) -> None:
        self._pipe, self._seconds = pipe, seconds
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    def _end(self) -> None:
        error = StudyError(f"There was no connection to a Ray cluster within {self._seconds:g} s. {RESUME}")
        self._pipe.send((ERROR, (error, "(waiting for Ray)")))
        os._exit(1)


class _Orders:
    """What comes through the pipe: tasks, when they are asked for, and the order to stop at any time."""

    def __init__(self, pipe: Connection[Any, Any]) -> None:
        self._pipe, self._told = pipe, False

    def tasks(self) -> Iterator[Task]:
        """Tasks, each asked for when it is wanted."""
        while (task := self._ask()) is not None:
            yield task

    def _ask(self) -> Task | None:
        self._pipe.send((WANT, None))
        while (said := self._pipe.recv()) == STOP:
            self._told = True
        return said  # type: ignore[no-any-return]

    def to_stop(self) -> bool:
        """Whether the parent has said so; a parent that is gone is an end of file."""
        while self._pipe.poll():
            self._told |= self._pipe.recv() == STOP
        return self._told


@contextmanager
def _connected(engine: Ray, folder: str, patience: _Patience) -> Iterator[Ray]:
    """A connection to the cluster, and the engine with the number of workers that it will have there."""
    import ray

    try:
        with patience:
            _connect(engine, folder)
        # Ray takes signals for itself.
        _ignore_signals()
        yield _with_workers(engine)
    finally:
        ray.shutdown()


def _connect(engine: Ray, folder: str) -> None:
    import ray

    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if engine.address is None:
        # Where no number is asked for, Ray counts the CPUs that this process may use, in a container too.
        n_cpus = math.ceil(engine.n_workers * engine.cpus_per_worker) or None
        own = {"include_dashboard": False, "object_store_memory": _OBJECT_STORE, "_temp_dir": folder}
        ray.init(address="local", num_cpus=n_cpus, **own, **quiet)
        return
    try:
        _knock(engine.address)
        ray.init(address=engine.address, **quiet)
    except (OSError, ValueError, RuntimeError) as error:
        raise StudyError(
            f"There is no Ray cluster at {engine.address!r} that this machine is a node of: {error} "
            "Start one with `ray start --head`, or leave `address` out for one on this machine only."
        ) from error


def _knock(address: str) -> None:
    """Ray itself tries for minutes to reach a head that is not there."""
    host, _, port = address.rpartition(":")
    if port.isdigit():
        socket.create_connection((host, int(port)), timeout=_SECONDS_TO_ANSWER).close()


def _with_workers(engine: Ray) -> Ray:
    """As many workers as fit, if no number is asked for; a local cluster gets no more nodes to wait for."""
    n_places = room_for({"CPU": engine.cpus_per_worker, "GPU": engine.gpus_per_worker}, alive_nodes().values())
    if n_places == 0 and (engine.address is None or engine.n_workers == 0):
        raise StudyError(
            f"There is no place for a worker: each asks for {engine.request}, and no node has that. Ask for less; on a "
            "cluster that is to grow, give the number of `workers`, and they will wait."
        )
    return engine if engine.n_workers else replace(engine, n_workers=n_places)


def _keep_quiet(folder: str) -> None:
    """Everything that is printed here, by Ray's threads too, goes to a file."""
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    log = os.open(os.path.join(folder, "log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for number, stream in ((1, sys.stdout), (2, sys.stderr)):
        if stream is not None:
            stream.flush()
        os.dup2(log, number)
    os.close(log)
