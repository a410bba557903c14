"""Tasks → events by actors on a Ray cluster that load the model once each; those that are lost are replaced.

Ray's client prints what it likes and, when a cluster goes away, ends the process that it is in. So it gets one of
its own, the driver; the process that writes the study never imports Ray.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from holdfast import __version__
from holdfast.errors import InvalidTypeError, InvalidValueError, StudyError
from holdfast.extras import check_installed
from holdfast.study import local
from holdfast.study.local import DONE, ERROR, EVENT, Event, Message, WorkerDied
from holdfast.study.records import Task
from holdfast.study.spec import StudySpec
from holdfast.study.worker import Load, load_worker
from holdfast.validation import check_amount, check_number, check_seconds, check_whole, shown

_WANT = "want"  # what the driver says when it has room for a task
_RESUME = "Stored items are kept. Run the same study with the same file to continue, on any engine."
_ENVIRONMENT = {  # settings of Ray, where nothing else is set
    "RAY_USAGE_STATS_ENABLED": "0",  # no network traffic of its own
    "RAY_gcs_rpc_server_reconnect_timeout_s": "30",  # a head that is gone is noticed
    "RAY_timeout_ms_task_wait_for_death_info": "60000",  # a call fails when it is known of what its actor died
}

_OBJECT_STORE = 80 * 2**20  # bytes of shared memory of a local cluster: records stay outside; Ray asks for 75 MiB
# For the head of a cluster to be reached at all, for a cluster to be joined or started, and for it to be left.
_SECONDS_TO_ANSWER, _SECONDS_TO_CONNECT, _SECONDS_TO_LEAVE = 10.0, 120.0, 30.0
_SECONDS_TOGETHER = 0.1  # items that are finished within this time are sent together: a call costs about a millisecond


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
    n_open : int, optional
        How many inputs an actor keeps open, so that its batches are full; by default as many as it takes, and one
        with a ``timeout``.

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
    n_open: int | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_whole(self.n_workers, "n_workers")
        check_whole(self.max_tries, "max_tries", minimum=1)
        must = "be 'auto', or host and port of the head node, such as '10.0.0.1:6379'"
        if not isinstance(self.address, str | None):
            raise InvalidTypeError(argument="address", must=must, got=shown(self.address))
        if self.address not in (None, "auto") and (":" not in self.address or "://" in self.address):
            raise InvalidValueError(argument="address", must=must, got=shown(self.address))
        for name in ("cpus_per_worker", "gpus_per_worker"):
            amount = check_amount(getattr(self, name), name, may_be_zero=name == "gpus_per_worker")
            if amount > 1 and amount % 1:
                raise InvalidValueError(argument=name, must="be a whole number if above 1", got=shown(amount))
        check_number(self.patience, "patience", "be a number ≥ 0", lambda seconds: seconds >= 0)
        check_seconds(self.timeout)
        check_installed("The engine 'ray'", ["ray"])

    def run(self, spec: StudySpec, tasks: Iterator[Task], stop: Callable[[], bool], /) -> Iterator[Event]:
        """Events of the tasks, in the order in which they are finished."""
        first = next(tasks, None)
        if first is None:
            return
        # Paths of sockets are short: a folder for temporary files may have a name that is too long for them.
        short = "/tmp" if os.path.isdir("/tmp") else None
        prefix = f"holdfast-ray-{os.getpid()}-"
        with tempfile.TemporaryDirectory(prefix=prefix, dir=short, ignore_cleanup_errors=True) as folder:
            driver = local.ChildProcess(_drive, self, spec, folder)
            try:
                yield from self._events(driver, chain([first], tasks), stop, folder)
            finally:  # a cluster that was started for the driver ends with it
                driver.end(_SECONDS_TO_LEAVE)

    def _events(
        self, driver: local.ChildProcess, tasks: Iterator[Task], stop: Callable[[], bool], folder: str
    ) -> Iterator[Event]:
        stopping, connected, start = False, False, time.monotonic()
        try:
            while connected or time.monotonic() - start < _SECONDS_TO_CONNECT:  # Ray itself can try for ever
                for kind, content in driver.receive() if driver.pipe.poll(local.SECONDS_BETWEEN_LOOKS) else ():
                    connected = True
                    if kind == EVENT:
                        yield content
                    elif kind == _WANT:
                        driver.send(None if stopping or stop() else next(tasks, None))
                    elif kind == ERROR:
                        raise content
                    else:
                        return
                if not stopping and stop():
                    stopping = True
                    driver.request_stop()
            what = f"was not made within {_SECONDS_TO_CONNECT:g} s"
        except WorkerDied:
            what = "was lost" if connected else "ended before it was made"
        where, log = "on this machine" if self.address is None else f"at {self.address!r}", Path(folder, "log")
        error = StudyError(f"The connection to the Ray cluster {where} {what}. {_RESUME}")
        last = log.read_text(errors="replace")[-2000:] if log.exists() else "(nothing)"
        error.add_note(f"The last that Ray said:\n{last}")
        raise error


def _drive(pipe: Connection[Any, Any], engine: Ray, spec: StudySpec, folder: str) -> None:
    """What the driver does: run the tasks that its parent sends; what Ray prints goes to a file in the folder."""
    log = os.open(os.path.join(folder, "log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for number in (1, 2):
        os.dup2(log, number)
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    parent = multiprocessing.parent_process()

    def ask() -> Task | None:
        pipe.send((_WANT, None))
        return pipe.recv()  # type: ignore[no-any-return]

    def stops() -> bool:
        if parent is None or not parent.is_alive():
            raise EOFError
        return pipe.poll()  # what comes without being asked for is a stop request

    def clean_late() -> None:  # where leaving a cluster hangs, after the parent was killed
        time.sleep(_SECONDS_TO_LEAVE)
        shutil.rmtree(folder, ignore_errors=True)

    _ignore_signals()
    local.end_with_parent(clean_late)
    try:
        with _connected(engine, folder):
            cluster = _Cluster(engine, spec)
            limits = replace(engine, n_workers=engine.n_workers or cluster.n_places)
            pool = local.Pool(limits, iter(ask, None), start=lambda: _RayWorker(cluster), wait=cluster.wait)
            for event in pool.run(stops):
                pipe.send((EVENT, event))
            pipe.send((DONE, None))
    except Exception as error:
        with suppress(OSError):  # nobody listens any more
            pipe.send(local.error_message(error))
    finally:  # the parent does this too, unless it was killed
        shutil.rmtree(folder, ignore_errors=True)


def _ignore_signals() -> None:
    """Ctrl-C reaches every process of the terminal; the parent decides what it means."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def _connected(engine: Ray, folder: str) -> Iterator[None]:
    """Join the cluster at the engine's address, or start one in the folder."""
    import ray

    options: dict[str, Any] = {"address": engine.address or "local", "log_to_driver": False, "logging_level": "ERROR"}
    if engine.address is None:
        # Where no number is asked for, Ray counts the CPUs that this process may use, in a container too.
        options["num_cpus"] = math.ceil(engine.n_workers * engine.cpus_per_worker) or None
        options |= {"include_dashboard": False, "object_store_memory": _OBJECT_STORE, "_temp_dir": folder}
    try:
        host, _, port = options["address"].rpartition(":")
        try:
            if port.isdigit():  # Ray itself tries for minutes to reach a head that is not there
                socket.create_connection((host, int(port)), timeout=_SECONDS_TO_ANSWER).close()
            ray.init(**options)
        except (OSError, ValueError, RuntimeError) as error:
            if engine.address is None:
                raise
            raise StudyError(
                f"This machine is not a node of a Ray cluster at {engine.address!r}: {error} "
                "Start one with `ray start --head`, or leave out `address` to use this machine only."
            ) from error
        _ignore_signals()  # which Ray takes for itself
        yield
    finally:
        ray.shutdown()


class Actor:
    """One worker on a node. It works in the folder of the driver and finds the same modules, as far as they are there.

    It is asked for some events at a time; one that nobody asks waits.
    """

    def __init__(self, folder: str, places: Sequence[str]) -> None:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        if os.path.isdir(folder):
            os.chdir(folder)
        sys.path.extend(place for place in places if place not in sys.path and os.path.exists(place))
        self._tasks: deque[Task] = deque()
        self._messages: Iterator[Message] = iter(())

    def place(self) -> tuple[str, str, str]:
        """Its node, the name of that machine, and the version of holdfast there."""
        import ray

        return ray.get_runtime_context().get_node_id(), socket.gethostname(), __version__

    def load(self, spec: StudySpec, load: Load, n_threads: int, n_open: int | None = None) -> list[Message]:
        """Load the model and the data."""

        def take(wait: bool) -> Task | None:  # it is never asked to go on when there is nothing to do
            return self._tasks.popleft() if self._tasks else None

        self._messages = local.run_worker(spec, load, take, n_threads=n_threads, n_open=n_open)
        return [next(self._messages)]

    def step(self, *tasks: Task) -> list[Message]:
        """At least one event more, of new tasks or of those that it has, or that a task is done."""
        self._tasks.extend(tasks)
        messages, until = list[Message](), time.monotonic() + _SECONDS_TOGETHER
        for message in self._messages:
            messages.append(message)
            if message[0] != EVENT or time.monotonic() >= until:
                break
        return messages


class _Cluster:
    """The cluster that this process is connected to."""

    def __init__(self, engine: Ray, spec: StudySpec) -> None:
        import ray

        self.ray, self.engine, self.spec = ray, engine, spec
        self._waiting_since = time.monotonic()
        # Nodes take turns, so that the loss of one is the loss of few. Ray restarts nothing by itself: which task an
        # actor had, and what of it is stored, is known in the pool.
        resources = {"num_cpus": engine.cpus_per_worker, "num_gpus": engine.gpus_per_worker}
        self.actors = ray.remote(Actor).options(**resources, max_restarts=0, scheduling_strategy="SPREAD")
        request = {"CPU": engine.cpus_per_worker, "GPU": engine.gpus_per_worker}
        self._request, self.n_places = _in_words(request), sum(room_for(request, node) for node in self.nodes.values())
        if (engine.address is None or engine.n_workers == 0) and self.n_places == 0:
            raise StudyError(
                f"No node has room for a worker, which needs {self._request}. Ask for less. "
                "On a cluster that will grow, set the number of `workers`; they will wait."
            )

    @property
    def nodes(self) -> dict[str, Mapping[str, float]]:
        """What each node has that is alive, by its id."""
        return {node["NodeID"]: node["Resources"] for node in self.ray.nodes() if node["Alive"]}

    def wait(self, workers: list[_RayWorker], seconds: float) -> list[_RayWorker]:
        """Those that have answered; an actor that nothing has room for waits forever, unless nodes are added."""
        if any(worker.place is not None for worker in workers):
            self._waiting_since = time.monotonic()
        elif time.monotonic() - self._waiting_since > self.engine.patience:
            nodes = ", ".join(map(_in_words, self.nodes.values())) or "nothing"
            raise StudyError(
                f"No worker started within {self.engine.patience:g} s: each needs {self._request}, and the "
                f"nodes have {nodes}. {_RESUME}"
            )
        calls = {worker.call: worker for worker in workers}
        self.ray.wait(list(calls), num_returns=1, timeout=seconds)
        ready, _ = self.ray.wait(list(calls), num_returns=len(calls), timeout=0)
        return [calls[call] for call in ready]


class _RayWorker(local.PoolWorker):
    """One actor, and the call that it has not answered yet."""

    def __init__(self, cluster: _Cluster) -> None:
        self._cluster = cluster
        self._to_send: list[Task] = []
        self._actor = cluster.actors.remote(os.getcwd(), [os.path.abspath(place) for place in sys.path])
        self.call: Any = self._actor.place.remote()
        self.place: tuple[str, str, str] | None = None
        self._stopping = False

    def send(self, task: Task) -> None:
        self._to_send.append(task)

    def go_on(self) -> None:
        self.call, self._to_send = self._actor.step.remote(*self._to_send), []

    def request_stop(self) -> None:
        self._stopping = True

    def receive(self) -> list[Message]:
        exceptions = self._cluster.ray.exceptions
        try:
            answer = self._cluster.ray.get(self.call)
        except exceptions.ActorDiedError as error:
            raise self._explained(error) from None
        except exceptions.OutOfMemoryError:
            raise WorkerDied("Ray ended it because its node ran out of memory") from None
        except exceptions.RayTaskError:
            raise
        except exceptions.RayError as error:
            raise WorkerDied(f"its answer was lost ({type(error).__name__})", counts=False) from None
        if self.place is None:  # it has one now, and may load, unless it could not read the spec
            self.place, engine = answer, self._cluster.engine
            _, host, version = self.place
            if version != __version__:
                raise StudyError(
                    f"Every node must have holdfast {__version__}, like this process; {host} has {version}."
                )
            n_threads = max(1, int(engine.cpus_per_worker))
            n_open = engine.n_open if engine.timeout is None else 1
            self.call = self._actor.load.remote(self._cluster.spec, engine.load, n_threads, n_open)
            return []
        messages: list[Message] = answer
        if messages[-1][0] == EVENT:
            if self._stopping:
                return [*messages, (DONE, None)]
            self.call = self._actor.step.remote()  # it computes the next item while the last ones are stored
        return messages

    def _explained(self, error: Any) -> WorkerDied:
        """Whether it died of its task, or with its node; the loss of this process's own node ends the study."""
        alive = self._cluster.nodes
        if self._cluster.ray.get_runtime_context().get_node_id() not in alive:
            raise StudyError(f"The Ray node of this process was lost. {_RESUME}")
        if self.place is None:
            lines = str(error).strip().splitlines() or [type(error).__name__]
            return WorkerDied(lines[-1], counts=error.actor_init_failed)
        node, host, _ = self.place
        if node not in alive or error.preempted:
            return WorkerDied(f"its node {host} was lost", counts=False)
        return WorkerDied(f"its process on {host} was killed or crashed, perhaps out of memory")

    def end(self, seconds: float = 0) -> None:
        self._cluster.ray.kill(self._actor)


def room_for(request: Mapping[str, float], node: Mapping[str, float]) -> int:
    """How many workers fit on a node with these resources.

    >>> [room_for({"CPU": 2, "GPU": 0.5}, node) for node in ({"CPU": 16, "GPU": 2}, {"CPU": 5, "GPU": 8}, {"CPU": 64})]
    [4, 2, 0]
    """
    # A tenth that is not one, in binary, must not cost a place.
    return int(min(node.get(name, 0) / amount + 1e-9 for name, amount in request.items() if amount))


def _in_words(resources: Mapping[str, float]) -> str:
    return f"{resources.get('CPU', 0):g} CPUs and {resources.get('GPU', 0):g} GPUs"
