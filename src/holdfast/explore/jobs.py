"""Work that takes a while → threads that begin in fair order, report how they get on, and can be cancelled."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

from holdfast.errors import HoldfastError, InvalidValueError
from holdfast.explore.scheduling import Caller, Cancelled, FairQueue, Priority, PriorityLock
from holdfast.words import shortened

MOST_RUNNING = {Priority.JOB: 16, Priority.SEARCH: 8}
"""Threads at a time for jobs and for searches, one of each per tab; one of them uses the model at a time."""

MOST_WAITING = 32  # jobs of one tab that may wait
MOST_KEPT = 256  # ended jobs whose results can still be read
TIMEOUT = 150.0  # seconds after which a job that nobody asks about is cancelled; hidden tabs ask once a minute
HEARTBEAT = 10.0
_BETWEEN_REPORTS = 0.1
_MOST_LETTERS = 600  # of what a model says when it fails
_ENDS = ("done", "failed", "cancelled")

_LOG = logging.getLogger("holdfast.explore")

Clock = Callable[[], float]
Report = Callable[[str, dict[str, Any]], None]  # takes the name of an event and its data, as work goes on
Work = Callable[[Caller, Report], dict[str, Any]]


class Job:
    """A piece of work and all that it reported."""

    def __init__(self, tab: str, kind: str, work: Work, clock: Clock = time.monotonic) -> None:
        self.id, self.tab, self.kind, self.work = secrets.token_urlsafe(12), tab, kind, work
        self.priority = Priority.SEARCH if kind == "witness" else Priority.JOB
        self.has_begun, self.cancelled, self.n_ahead = False, threading.Event(), -1
        self._clock, self._lock = clock, threading.Lock()
        self._events: list[tuple[str, str]] = []
        self._listeners: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()
        self._last_heard, self._last_progress = clock(), 0.0

    @property
    def state(self) -> str:
        """Queued, running, done, failed or cancelled."""
        if self.has_ended:
            return self._events[-1][0]
        return "running" if self.has_begun else "queued"

    @property
    def has_ended(self) -> bool:
        return bool(self._events) and self._events[-1][0] in _ENDS

    def plain(self) -> dict[str, Any]:
        """The state for the page, which thereby shows that it still wants to know."""
        self._last_heard = self._clock()
        return {"job": self.id, "kind": self.kind, "state": self.state, "n_events": len(self._events)}

    def report(self, name: str, data: dict[str, Any]) -> None:
        """Keep an event and wake those who listen; nothing follows an end, and reports of progress are spaced."""
        text, now = json.dumps(data, allow_nan=False), time.monotonic()
        with self._lock:
            if self.has_ended:
                return
            if name == "progress":
                if data["done"] < data["total"] and now - self._last_progress < _BETWEEN_REPORTS:
                    return
                self._last_progress = now
            self._events.append((name, text))
            listeners = list(self._listeners)
        for loop, news in listeners:
            with suppress(RuntimeError):  # the loop was closed: its listener has gone
                loop.call_soon_threadsafe(news.set)

    def since(self, number: int) -> list[tuple[str, str]]:
        """The events after this number, the first of which is 1: the name and the data as JSON."""
        with self._lock:
            return self._events[max(0, number) :]

    def is_forsaken(self, timeout: float) -> bool:
        """Whether nobody has listened for so many seconds."""
        with self._lock:
            return not self._listeners and self._clock() - self._last_heard > timeout

    async def stream(self, after: int = 0, *, seconds: float | None = None) -> AsyncIterator[bytes]:
        """The events after a number as an event stream, up to the end of the job or of the time, with heartbeats."""
        until = None if seconds is None else time.monotonic() + seconds
        news = asyncio.Event()
        listener = asyncio.get_running_loop(), news
        with self._lock:
            self._listeners.add(listener)
        try:
            while True:
                news.clear()
                for name, data in self.since(after):
                    after += 1
                    yield f"id: {after}\nevent: {name}\ndata: {data}\n\n".encode()
                left = HEARTBEAT if until is None else min(HEARTBEAT, until - time.monotonic())
                if (self.has_ended and not self.since(after)) or left <= 0:
                    return
                try:
                    await asyncio.wait_for(news.wait(), left)
                except TimeoutError:
                    yield b": still here\n\n"
        finally:
            with self._lock:
                self._listeners.discard(listener)
                self._last_heard = self._clock()


class JobQueue:
    """All jobs of a server: which run, which wait, and what became of the rest."""

    def __init__(self, lock: PriorityLock, *, timeout: float = TIMEOUT, clock: Clock = time.monotonic) -> None:
        self._model_lock, self._timeout, self._clock = lock, timeout, clock
        self._lock = threading.RLock()
        self._jobs: dict[str, Job] = {}
        self._waiting = FairQueue[Job]()
        self._threads: dict[Job, threading.Thread] = {}
        self._closed = False

    def submit(self, tab: str, kind: str, work: Work) -> Job:
        """Queue a job; it begins as soon as its tab has no other running, searches apart."""
        job = Job(tab, kind, work, self._clock)
        with self._lock:
            if self._closed:
                raise InvalidValueError("The server is stopping and takes no more jobs.")
            if sum(waiting.tab == tab for waiting in self._waiting) >= MOST_WAITING:
                raise InvalidValueError(f"A tab may have at most {MOST_WAITING} waiting jobs. Cancel some, or wait.")
            self._jobs[job.id] = job
            self._waiting.put(job, job.priority, tab)
            self._begin()
        return job

    def get(self, name: str) -> Job | None:
        return self._jobs.get(name)

    def cancel(self, job: Job) -> None:
        """End a job: at once if it waits, within a batch if it runs."""
        job.cancelled.set()
        with self._lock:
            if self._waiting.drop(job, job.priority, job.tab):
                job.report("cancelled", {})
                self._report_places()
        self._model_lock.wake()

    def sweep(self) -> None:
        """Cancel jobs that nobody listens to any more, and forget the oldest that have ended."""
        with self._lock:
            jobs = list(self._jobs.values())
        for job in jobs:
            if not job.has_ended and job.is_forsaken(self._timeout):
                self.cancel(job)
        ended = [job for job in jobs if job.has_ended]
        with self._lock:
            for job in ended[: max(0, len(ended) - MOST_KEPT)]:
                self._jobs.pop(job.id, None)

    def close(self, *, seconds: float = 0.0) -> bool:
        """Cancel everything; whether all threads ended within so many seconds."""
        with self._lock:
            self._closed = True
            jobs, threads = list(self._jobs.values()), list(self._threads.values())
        for job in jobs:
            self.cancel(job)
        until = time.monotonic() + seconds
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
        return not any(thread.is_alive() for thread in threads)

    def _has_room(self, priority: Priority, tab: str) -> bool:
        busy = [job.tab for job in self._threads if job.priority is priority]
        return tab not in busy and len(busy) < MOST_RUNNING[priority]

    def _begin(self) -> None:
        """Start as many jobs as there is room for, and tell the others their places."""
        while (job := self._waiting.take(self._has_room)) is not None:
            thread = threading.Thread(target=self._run, args=(job,), name=f"holdfast-{job.kind}", daemon=True)
            self._threads[job] = thread
            job.has_begun = True
            thread.start()
        self._report_places()

    def _report_places(self) -> None:
        """Tell every job that waits how many begin before it, if that is news."""
        for n_ahead, job in enumerate(self._waiting):
            if n_ahead != job.n_ahead:
                job.n_ahead = n_ahead
                job.report("queued", {"ahead": n_ahead})

    def _run(self, job: Job) -> None:
        try:
            result = job.work(Caller(job.tab, job.priority, job.cancelled.is_set), job.report)
            job.report("done", {"result": result})
        except Cancelled:
            job.report("cancelled", {})
        except BaseException as error:  # a model may raise anything, and one that exits ends its job alone
            job.report("failed", describe_error(error))
        finally:
            with self._lock:
                del self._threads[job]
                self._begin()


def describe_error(error: BaseException) -> dict[str, str]:
    """What went wrong, for people; what holdfast did not raise on purpose is also logged with where it came from."""
    kind = type(error).__name__
    if isinstance(error, HoldfastError):
        return {"message": str(error), "kind": kind}
    _LOG.error("A model or its data raised an error.", exc_info=error)
    hint = "Try another input or fill; the terminal shows the traceback."
    words = shortened(str(error), _MOST_LETTERS)
    end = "" if words.endswith((".", "!", "?", "…")) else "."
    return {"message": f"The model raised {kind}{': ' if words else ''}{words}{end} {hint}", "kind": kind}
