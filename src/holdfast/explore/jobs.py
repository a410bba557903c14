"""Work that takes a while → threads that begin in fair order, tell how they get on, and can be cancelled."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any

from holdfast.errors import HoldfastError, InvalidValueError
from holdfast.explore.turns import Cancelled, Errand, Gate, Rounds

SEARCHES = ("witness",)
"""Kinds of jobs that may take long: they have threads of their own, and everything else has its turns first."""

MOST_RUNNING, MOST_SEARCHING = 16, 8
"""Threads at a time for other jobs and for searches, one of each per tab; one of them uses the model at a time."""

MOST_WAITING = 32
"""Jobs of one tab that may wait."""

MOST_KEPT = 256
"""Ended jobs whose results can still be read."""

PATIENCE = 150.0
"""Seconds after which a job that nobody asks about is cancelled; hidden tabs ask once a minute."""

HEARTBEAT = 10.0
_BETWEEN_REPORTS = 0.1
_MOST_LETTERS = 600
"""Of what a model says when it fails."""

_ENDS = ("done", "failed", "cancelled")

_LOG = logging.getLogger("holdfast.explore")

Clock = Callable[[], float]
"""Seconds since some moment."""

Work = Callable[[Errand, Callable[[str, dict[str, Any]], None]], dict[str, Any]]


@dataclass(frozen=True)
class Event:
    """One thing that was told: its number from 1, its name, and its data as JSON."""

    number: int
    name: str
    data: str

    def encode(self) -> bytes:
        """As a line of an event stream."""
        return f"id: {self.number}\nevent: {self.name}\ndata: {self.data}\n\n".encode()


class Job:
    """A piece of work and all that was told about it."""

    def __init__(self, tab: str, kind: str, work: Work, clock: Clock = time.monotonic) -> None:
        self.id, self.tab, self.kind, self.work = secrets.token_urlsafe(12), tab, kind, work
        self.is_search = kind in SEARCHES
        self._clock = clock
        self._lock = threading.Lock()
        self._events: list[Event] = []
        self._bells: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()
        self._unwanted = threading.Event()
        self._heard, self._reported = clock(), 0.0
        self.has_begun = False
        self._ahead = -1

    @property
    def state(self) -> str:
        """Queued, running, done, failed or cancelled."""
        if self.has_ended:
            return self._events[-1].name
        return "running" if self.has_begun else "queued"

    @property
    def has_ended(self) -> bool:
        """Whether nothing more will be told."""
        return bool(self._events) and self._events[-1].name in _ENDS

    def plain(self) -> dict[str, Any]:
        """The state for the page, which thereby shows that it still wants to know."""
        self._heard = self._clock()
        return {"job": self.id, "kind": self.kind, "state": self.state, "n_events": len(self._events)}

    def is_unwanted(self) -> bool:
        """Whether it was cancelled."""
        return self._unwanted.is_set()

    def cancel(self) -> None:
        """Let it end before its next batch."""
        self._unwanted.set()

    def tell(self, name: str, data: dict[str, Any]) -> None:
        """Keep an event and wake those who listen; nothing follows an end, and reports of progress are spaced."""
        text = json.dumps(data, allow_nan=False)
        with self._lock:
            if self.has_ended or (name == "progress" and not self._is_time(data)):
                return
            self._events.append(Event(len(self._events) + 1, name, text))
            bells = list(self._bells)
        for loop, bell in bells:
            with suppress(RuntimeError):  # the loop was closed: its listener has gone
                loop.call_soon_threadsafe(bell.set)

    def tell_place(self, ahead: int) -> None:
        """Tell how many jobs begin before this one, if that is news."""
        if ahead != self._ahead:
            self._ahead = ahead
            self.tell("queued", {"ahead": ahead})

    def _is_time(self, data: dict[str, Any]) -> bool:
        now = time.monotonic()
        if data["done"] < data["total"] and now - self._reported < _BETWEEN_REPORTS:
            return False
        self._reported = now
        return True

    def since(self, number: int) -> list[Event]:
        """The events after this number."""
        with self._lock:
            return self._events[max(0, number) :]

    def is_forsaken(self, patience: float) -> bool:
        """Whether nobody has listened for so many seconds."""
        with self._lock:
            return not self._bells and self._clock() - self._heard > patience

    async def follow(self, after: int = 0, *, seconds: float | None = None) -> AsyncIterator[Event | None]:
        """The events after a number, as they come, up to the end of the job or of the time; None is a heartbeat."""
        until = None if seconds is None else time.monotonic() + seconds
        with self._listening() as bell:
            while True:
                bell.clear()
                for event in self.since(after):
                    yield event
                    after = event.number
                left = HEARTBEAT if until is None else min(HEARTBEAT, until - time.monotonic())
                if (self.has_ended and not self.since(after)) or left <= 0:
                    return
                try:
                    await asyncio.wait_for(bell.wait(), left)
                except TimeoutError:
                    yield None

    @contextmanager
    def _listening(self) -> Iterator[asyncio.Event]:
        mine = (asyncio.get_running_loop(), asyncio.Event())
        with self._lock:
            self._bells.add(mine)
        try:
            yield mine[1]
        finally:
            with self._lock:
                self._bells.discard(mine)
                self._heard = self._clock()


class Board:
    """All jobs of a server: who runs, who waits, and what became of the rest."""

    def __init__(self, gate: Gate, *, patience: float = PATIENCE, clock: Clock = time.monotonic) -> None:
        self._gate, self._patience, self._clock = gate, patience, clock
        self._lock = threading.RLock()
        self._jobs: dict[str, Job] = {}
        self._waiting = {is_search: Rounds[Job]() for is_search in (False, True)}
        self._threads: dict[Job, threading.Thread] = {}
        self._closed = False

    def submit(self, tab: str, kind: str, work: Work) -> Job:
        """Queue a job; it begins as soon as its tab has no other running, searches apart."""
        job = Job(tab, kind, work, self._clock)
        with self._lock:
            if self._closed:
                raise InvalidValueError("The server is stopping and takes no more jobs.")
            if sum(waiting.tab == tab for waiting in self._in_line()) >= MOST_WAITING:
                raise InvalidValueError(f"A tab may have {MOST_WAITING} jobs waiting. Cancel some, or let them end.")
            self._jobs[job.id] = job
            self._waiting[job.is_search].put(tab, job)
            self._begin()
            if not job.has_begun:
                self._tell_places()
        return job

    def get(self, name: str) -> Job | None:
        """A job by its id."""
        return self._jobs.get(name)

    def cancel(self, job: Job) -> None:
        """End a job: at once if it waits, within a batch if it runs."""
        job.cancel()
        with self._lock:
            if self._waiting[job.is_search].drop(job.tab, job):
                job.tell("cancelled", {})
                self._tell_places()
        self._gate.wake()

    def sweep(self) -> None:
        """Cancel jobs that nobody listens to any more, and forget the oldest that have ended."""
        with self._lock:
            jobs = list(self._jobs.values())
        for job in jobs:
            if not job.has_ended and job.is_forsaken(self._patience):
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

    @property
    def n_running(self) -> int:
        """Jobs that have begun and not ended."""
        with self._lock:
            return len(self._threads)

    def _begin(self) -> None:
        """Start as many jobs as there is room for, one per tab, and as many searches."""
        for is_search, most in ((False, MOST_RUNNING), (True, MOST_SEARCHING)):
            while (job := self._next(is_search, most)) is not None:
                thread = threading.Thread(target=self._run, args=(job,), name=f"holdfast-{job.kind}", daemon=True)
                self._threads[job] = thread
                job.has_begun = True
                thread.start()

    def _next(self, is_search: bool, most: int) -> Job | None:
        """The job to begin now, if there is one and room for it."""
        busy = [job.tab for job in self._threads if job.is_search is is_search]
        return self._waiting[is_search].take(lambda tab: tab in busy) if len(busy) < most else None

    def _in_line(self) -> Iterator[Job]:
        """Jobs that have not begun: searches come last."""
        return chain(self._waiting[False], self._waiting[True])

    def _tell_places(self) -> None:
        for ahead, job in enumerate(self._in_line()):
            job.tell_place(ahead)

    def _run(self, job: Job) -> None:
        try:
            result = job.work(Errand(job.tab, search=job.is_search, unwanted=job.is_unwanted), job.tell)
            job.tell("done", {"result": result})
        except Cancelled:
            job.tell("cancelled", {})
        except BaseException as error:  # a model may raise anything, and one that exits ends its job alone
            job.tell("failed", complaint(error))
        finally:
            with self._lock:
                del self._threads[job]
                self._begin()
                self._tell_places()


def complaint(error: BaseException) -> dict[str, Any]:
    """What went wrong, for people; what holdfast did not raise on purpose is also logged with where it came from."""
    kind = type(error).__name__
    if isinstance(error, HoldfastError):
        return {"message": str(error), "kind": kind}
    _LOG.error("A model or its data raised.", exc_info=error)
    hint = "Try another input or fill; the terminal shows where it comes from."
    said = str(error) if len(str(error)) <= _MOST_LETTERS else f"{str(error)[:_MOST_LETTERS]}…"
    end = "" if said.endswith((".", "!", "?", "…")) else "."
    return {"message": f"The model raised {kind}{': ' if said else ''}{said}{end} {hint}", "kind": kind}
