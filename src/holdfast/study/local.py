"""Tasks → events on this machine: in this process, or by a pool of worker processes that load the model once each.

The pool is that of every engine whose workers can die: a worker that does is replaced, and its task is run again
without the items that it had sent.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, runtime_checkable

from holdfast.errors import StudyError
from holdfast.gathering import run_together
from holdfast.inputs.inputs import Inputs
from holdfast.memory import keep_memory
from holdfast.study.methods import Explainer
from holdfast.study.records import GivenUp, ItemResult, Record, Task
from holdfast.study.spec import StudySpec
from holdfast.study.worker import Load, Skipped, Worker, is_own, load_worker, naming_input, study_inputs

if TYPE_CHECKING:
    from holdfast.study.on_ray import Ray

EVENT, READY, DONE, ERROR = "event", "ready", "done", "error"  # what a worker says
SECONDS_BETWEEN_LOOKS = 0.1  # how often a stop request is looked for while workers compute
_SECONDS_TO_LEAVE = 5.0  # for a worker that is done to end: threads that a model has started can keep it for ever
_LOSSES_PER_DEATH = 10  # so many machines lost under a task count as one death: an input can also crash a machine
Message = tuple[str, Any]


Event = Record | Skipped | GivenUp  # a finished item, an input that was left out, or items that were given up


@runtime_checkable
class Engine(Protocol):
    """Runs tasks. Whatever it does, the same tasks give the same records, each exactly once, in any order."""

    def run(self, spec: StudySpec, tasks: Iterator[Task], stop: Callable[[], bool], /) -> Iterator[Event]:
        """Events of the tasks, which are taken one by one; once ``stop()`` is true, only begun items are finished.

        An error of the model or the data is raised as a ``StudyError`` that names the input, an error of loading as
        it is.
        """
        ...


@dataclass(frozen=True)
class InProcess:
    """The engine without workers; ``load`` makes the one that works here, or what is loaded already does.

    ``timeout`` limits the seconds of methods of one's own; nothing else can be ended without a process of its own.
    ``n_open`` inputs are open at a time, so that the model is asked for rows of several at once; by default as many as
    fill its batches.
    """

    load: Load | None = field(default=None, repr=False)
    inputs: Inputs | None = field(default=None, repr=False)
    explainers: Mapping[str, Explainer] | None = field(default=None, repr=False)
    timeout: float | None = field(default=None, repr=False)
    n_open: int | None = field(default=None, repr=False)

    def run(self, spec: StudySpec, tasks: Iterator[Task], stop: Callable[[], bool], /) -> Iterator[Event]:
        """Events of the tasks, as they come; those of one input in their order."""
        first = next(tasks, None)
        if first is None:  # models take their time to load
            return
        if self.load is not None:
            worker = self.load(spec)
        else:
            inputs = study_inputs(spec) if self.inputs is None else self.inputs
            worker = Worker(spec, inputs, self.explainers, timeout=self.timeout)
        questions = (events_of(worker, task) for task in chain([first], tasks))
        n_open, take = self.n_open or worker.n_open, lambda wait: next(questions, None)
        for event in run_together(take, n_open=n_open, stop=stop):
            yield event
            if stop():
                return


def events_of(worker: Worker, task: Task) -> Iterator[Event]:
    """What a worker finds, as rows for the store, with the input named in errors."""
    with naming_input(task.input):
        for result in worker.run(task):
            yield Record.of(result) if isinstance(result, ItemResult) else result


@dataclass(frozen=True)
class Processes:
    """The engine with worker processes, in each of which ``load``, a function of a module, makes the worker.

    ``max_tries`` workers may die at one task before its items are given up; one that takes longer than ``timeout``
    seconds from one finished item to the next is ended, as if it had died. After ``inputs_per_worker`` inputs another
    takes its place, for models that keep ever more memory. Each keeps ``n_open`` inputs open at a time, by default as
    many as fill its batches; with a ``timeout`` one, since only then it is known which of them takes so long.
    """

    n_workers: int
    load: Load = field(default=load_worker, repr=False)
    max_tries: int = 3
    timeout: float | None = None
    inputs_per_worker: int | None = field(default=None, repr=False)
    n_open: int | None = field(default=None, repr=False)

    def run(self, spec: StudySpec, tasks: Iterator[Task], stop: Callable[[], bool], /) -> Iterator[Event]:
        """Events of the tasks, in the order in which they are finished."""
        n_open = self.n_open if self.timeout is None else 1
        n_threads = max(1, (os.cpu_count() or 1) // self.n_workers)

        def wait_for(workers: list[ChildProcess], seconds: float) -> list[ChildProcess]:
            ready = wait([worker.pipe for worker in workers], timeout=seconds)
            return [worker for worker in workers if worker.pipe in ready]

        pool = Pool(self, tasks, start=lambda: ChildProcess(_serve, spec, self.load, n_threads, n_open), wait=wait_for)
        yield from pool.run(stop)


class WorkerDied(Exception):  # noqa: N818
    """A worker is gone; ``counts`` says whether the task that it had may be the cause."""

    def __init__(self, reason: str, *, what: str = "its worker died", counts: bool = True) -> None:
        super().__init__(reason)
        self.reason, self.what, self.counts = reason, what, counts


class PoolWorker(Protocol):
    """One worker, wherever it is: its tasks by input, less what it has sent, and how many it can have and had."""

    tasks: dict[int, Task] = {}  # noqa: RUF012 - the pool gives each its own
    n_open: int = 1
    is_ready: bool = False
    heard_at: float = 0.0
    n_tasks: int = 0

    def send(self, task: Task) -> None:
        """Let it begin a task."""

    def go_on(self) -> None:
        """Let it compute, now that it has all that it can have; most do by themselves."""
        return

    def request_stop(self) -> None:
        """Let it finish the item that it has begun, and then be done."""

    def receive(self) -> list[Message]:
        """Its next messages; ``WorkerDied`` once everything was received that it sent before."""
        ...

    def end(self, seconds: float = 0) -> None:
        """End it at once, or after some seconds if it has not ended by then for want of tasks."""


_PoolWorker = TypeVar("_PoolWorker", bound=PoolWorker)


class Pool(Generic[_PoolWorker]):
    """Workers and what they have to do; a task is taken when there is, or will be, a worker for it.

    ``start`` starts a worker, which says when it is loaded. ``wait`` gives those of some workers that have messages, as
    soon as there are some, or none when the seconds are over.
    """

    def __init__(
        self,
        limits: Processes | Ray,
        tasks: Iterator[Task],
        *,
        start: Callable[[], _PoolWorker],
        wait: Callable[[list[_PoolWorker], float], Iterable[_PoolWorker]],
    ) -> None:
        self._limits, self._tasks, self._start, self._wait = limits, tasks, start, wait
        self._waiting: deque[Task] = deque()
        self._workers: list[_PoolWorker] = []
        self._tries: Counter[int] = Counter()
        self._costs: Counter[int] = Counter()
        self._suspects: set[int] = set()
        self._deaths_loading = 0
        self._stopping = False

    def run(self, stop: Callable[[], bool]) -> Iterator[Event]:
        """Events, until there is nothing left to do; once ``stop()`` is true, until begun items are finished."""
        timeout = self._limits.timeout
        try:
            self._start_workers()
            while self._waiting or any(worker.tasks for worker in self._workers):
                for worker in self._wait(self._workers, SECONDS_BETWEEN_LOOKS):
                    try:
                        messages = worker.receive()
                    except WorkerDied as death:
                        yield from self._replace(worker, death)
                    else:
                        yield from self._take(worker, messages)
                if timeout is not None:
                    begun = time.monotonic() - timeout
                    busy = (worker for worker in self._workers if worker.is_ready and worker.tasks)
                    late = [worker for worker in busy if worker.heard_at < begun]
                    heard = list(self._wait(late, 0)) if late else []  # those that have just said something go on
                    for worker in late:
                        if worker not in heard:
                            reason = f"no item finished within {timeout:g} s"
                            yield from self._replace(worker, WorkerDied(reason, what="it took too long"))
                if not self._stopping and stop():
                    self._stopping = True
                    self._waiting.clear()
                    for worker in list(self._workers):  # whoever has begun finishes an item; the others go
                        if not worker.tasks:
                            self._end(worker)
                        else:
                            worker.request_stop()
                self._start_workers()
        finally:  # nothing that they have begun is stored
            while self._workers:
                self._workers.pop().end()

    def _start_workers(self) -> None:
        """Start workers as long as there are too few, and more tasks wait than workers load.

        Those that load may take long, or never find a place.
        """
        while not self._stopping and len(self._workers) < self._limits.n_workers:
            n_loading = sum(not worker.is_ready for worker in self._workers)
            if len(self._waiting) <= n_loading and (task := next(self._tasks, None)) is not None:
                self._waiting.append(task)
            if len(self._waiting) <= n_loading:
                return
            worker = self._start()
            worker.tasks = {}
            self._workers.append(worker)

    def _end(self, worker: _PoolWorker, seconds: float = 0) -> None:
        self._workers.remove(worker)
        worker.end(seconds)

    def _take(self, worker: _PoolWorker, messages: list[Message]) -> Iterator[Event]:
        """What a worker says; one that has room gets tasks, or ends if there is none, or it has had its share."""
        worker.heard_at = time.monotonic()
        for kind, content in messages:
            if kind == ERROR:
                raise content
            if kind == EVENT:
                task = worker.tasks[content.input]
                if isinstance(content, Record):
                    task = task.after(content)
                elif isinstance(content, GivenUp):
                    task = task.without(content.items)
                else:  # of an input that is left out, nothing is left to do
                    task = replace(task, items=())
                worker.tasks[content.input] = task
                yield content
                continue
            if kind == READY:
                worker.is_ready, worker.n_open, self._deaths_loading = True, content or 1, 0
            elif content is None:  # it was asked to stop
                worker.tasks.clear()
            else:
                del worker.tasks[content]
            while (new := self._next_task(worker)) is not None:
                worker.n_tasks += 1
                worker.tasks[new.input] = new
                worker.send(new)
            if worker.tasks:
                worker.go_on()
            else:
                self._end(worker, _SECONDS_TO_LEAVE)

    def _next_task(self, worker: _PoolWorker) -> Task | None:
        """A task that a worker may have besides its own, if there is one; workers share what is left to do."""
        n_workers, share, n_open = self._limits.n_workers, self._limits.inputs_per_worker, worker.n_open
        n_begun = sum(len(other.tasks) for other in self._workers)
        if self._stopping or (share is not None and worker.n_tasks >= share) or self._suspects & worker.tasks.keys():
            return None
        while n_begun + len(self._waiting) < n_workers * n_open and (task := next(self._tasks, None)) is not None:
            self._waiting.append(task)
        if len(worker.tasks) >= min(n_open, -(-(n_begun + len(self._waiting)) // n_workers)):
            return None
        for task in self._waiting:
            if not worker.tasks or task.input not in self._suspects:
                self._waiting.remove(task)
                return task
        return None

    def _replace(self, worker: _PoolWorker, death: WorkerDied) -> Iterator[GivenUp]:
        """Let others do what a dead worker left undone, or give it up.

        Of several tasks it is not known which one it died of. They are suspects, and each is run alone from then on.
        """
        self._end(worker)
        if not worker.is_ready and death.counts:
            self._deaths_loading += 1
            if self._deaths_loading >= self._limits.max_tries:
                raise StudyError(
                    f"{self._deaths_loading} workers in a row died while they loaded the model and the data "
                    f"({death.reason}). Use fewer workers if memory is short. Every machine needs the files."
                )
        for task in [task for task in worker.tasks.values() if task.items]:
            self._tries[task.input] += 1
            self._costs[task.input] += _LOSSES_PER_DEATH if death.counts else 1
            is_spent = self._costs[task.input] >= _LOSSES_PER_DEATH * self._limits.max_tries
            if death.counts or is_spent:
                self._suspects.add(task.input)
            if is_spent and len(worker.tasks) == 1:
                at_work, n_tries = task.items[0].method, self._tries[task.input]
                is_own = at_work in task.own_methods  # which costs its own items alone
                items = tuple(item.key for item in task.items if not is_own or item.method == at_work)
                reason = f"{death.what} ({death.reason})"
                yield GivenUp(task.input, at_work if is_own else "", reason, n_tries, items)
                del self._costs[task.input], self._tries[task.input]
                task = task.without(items)
            if task.items and not self._stopping:
                self._waiting.append(task)


class ChildProcess(PoolWorker):
    """A process that was started here, by the near end of its pipe; ``target`` gets the far end.

    What it is sent are tasks, and None for no more of them.
    """

    def __init__(self, target: Callable[..., None], *arguments: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe: Connection[Any, Any]
        self.pipe, far_end = context.Pipe()
        self._process = context.Process(target=target, args=(far_end, *arguments), daemon=True)
        # It never sees Ctrl-C, not even before it can say that it ignores it. The tracker, which is started with the
        # first process otherwise, would let the signals of this thread through again.
        can_block = hasattr(signal, "pthread_sigmask")
        if can_block:
            resource_tracker.ensure_running()
            before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self._process.start()
        finally:
            if can_block:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
        # Only the child may hold the far end, or its death would not close the pipe.
        far_end.close()

    def send(self, task: Task | None) -> None:
        # If it has died, that is noticed where its pipe is read.
        with suppress(BrokenPipeError, ConnectionResetError):
            self.pipe.send(task)

    def request_stop(self) -> None:
        self.send(None)

    def receive(self) -> list[Message]:
        try:
            return [self.pipe.recv()]
        except (EOFError, OSError):
            self._process.join(_SECONDS_TO_LEAVE)
        code = self._process.exitcode
        if code is None or code >= 0:
            raise WorkerDied(f"exit code {code}")
        name = signal.Signals(-code).name
        raise WorkerDied(f"{name}, perhaps out of memory" if name == "SIGKILL" else name)

    def end(self, seconds: float = 0) -> None:
        self.pipe.close()
        try:
            self._process.join(seconds)
        finally:
            self._process.kill()
            self._process.join()
            self._process.close()


class _Inbox:
    """What a worker process is sent: tasks, and None when it is to stop."""

    def __init__(self, pipe: Connection[Any, Any]) -> None:
        self._pipe, self._tasks, self._is_stopped = pipe, deque[Task](), False

    def take(self, wait: bool) -> Task | None:
        """The next task, if there is one, or as soon as there is one."""
        self._read(wait=wait and not self._tasks)
        return None if self._is_stopped or not self._tasks else self._tasks.popleft()

    def is_stopped(self) -> bool:
        self._read(wait=False)
        return self._is_stopped

    def _read(self, *, wait: bool) -> None:
        while not self._is_stopped and (wait or self._pipe.poll()):
            task, wait = self._pipe.recv(), False
            if task is None:
                self._is_stopped = True
            else:
                self._tasks.append(task)


def _serve(pipe: Connection[Any, Any], spec: StudySpec, load: Load, n_threads: int, n_open: int | None) -> None:
    """What a worker process does: run what it is sent until there is no more, or a stop is asked for."""
    # Ctrl-C reaches every process of the terminal; the parent decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
    inbox = _Inbox(pipe)
    with suppress(OSError):  # nobody listens any more
        for kind, content in run_worker(
            spec, load, inbox.take, n_threads=n_threads, n_open=n_open, stop=inbox.is_stopped
        ):
            pipe.send((kind, content))
            if kind == EVENT and inbox.is_stopped():
                pipe.send((DONE, None))
                return


def run_worker(
    spec: StudySpec,
    load: Load,
    take: Callable[[bool], Task | None],
    *,
    n_threads: int,
    n_open: int | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Iterator[Message]:
    """What a worker says, wherever it is: that it is loaded, the events and the end of each task, or its error.

    ``take`` gives the next task, or None if there is none, and is told whether to wait for one.
    """
    keep_memory()
    try:
        worker = load(spec)
        n_inputs = n_open or worker.n_open
        if (torch := sys.modules.get("torch")) is not None:  # it gets no more threads than are this worker's due
            torch.set_num_threads(min(n_threads, torch.get_num_threads()))
        yield READY, n_inputs

        def say(task: Task) -> Iterator[Message]:
            for event in events_of(worker, task):
                yield EVENT, event
            yield DONE, task.input

        def question(wait: bool) -> Iterator[Message] | None:
            task = take(wait)
            return None if task is None else say(task)

        yield from run_together(question, n_open=n_inputs, stop=stop)
    except Exception as error:
        yield error_message(error)


def error_message(error: Exception) -> Message:
    """What went wrong, as another process can read it: our own errors as they are, others by what they say."""
    readable = error if is_own(error) else StudyError(str(error))
    readable.add_note(f"In a worker process:\n{traceback.format_exc()}")
    return ERROR, readable


def end_with_parent(clean: Callable[[], object] = lambda: None) -> None:
    """A parent that is killed cannot say so, or clean up: its processes would go on computing for nobody."""

    def wait_for_parent() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
            clean()
            os._exit(1)

    threading.Thread(target=wait_for_parent, daemon=True).start()
