"""Many who want one model → one at a time: clicks first, searches last, tabs in turn, and nobody who has left.

A turn is one batch, so that whoever waits, waits for a batch and not for a job.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

MOST_PASSED = 8
"""So many turns of those that go first, then somebody else has one: no job waits forever."""

Item = TypeVar("Item")


class Cancelled(Exception):  # noqa: N818 - nothing went wrong
    """The work is no longer wanted."""


def never() -> bool:
    """Work that nobody takes back."""
    return False


@dataclass(frozen=True, eq=False)
class Errand:
    """On whose behalf the model is asked.

    Parameters
    ----------
    tab : str
        Who asks; tabs take turns.
    urgent : bool
        Somebody clicked and looks at the screen.
    search : bool
        It may take long and is not waited for: whatever is not a search goes first.
    unwanted : callable
        Whether the work was cancelled meanwhile.
    """

    tab: str
    urgent: bool = False
    search: bool = False
    unwanted: Callable[[], bool] = never

    def check(self) -> None:
        """Raise if the work is no longer wanted."""
        if self.unwanted():
            raise Cancelled


class Rounds(Generic[Item]):
    """A queue per tab, served in rounds: a tab with ten entries delays a tab with one by one entry.

    Examples
    --------
    >>> queue = Rounds[str]()
    >>> for tab, item in [("a", "a1"), ("a", "a2"), ("b", "b1")]:
    ...     queue.put(tab, item)
    >>> list(queue), queue.take(), queue.take(), len(queue)
    (['a1', 'b1', 'a2'], 'a1', 'b1', 1)
    """

    def __init__(self) -> None:
        self._tabs: dict[str, deque[Item]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._tabs.values()))

    def __iter__(self) -> Iterator[Item]:
        """The entries in the order of their turns, if no more come."""
        waiting = deque(map(deque, self._tabs.values()))
        while waiting:
            tab = waiting.popleft()
            yield tab.popleft()
            if tab:
                waiting.append(tab)

    def put(self, tab: str, item: Item) -> None:
        """Queue behind the tab's other entries; a new tab comes last in the round."""
        self._tabs.setdefault(tab, deque()).append(item)

    def take(self, passing: Callable[[str], bool] | None = None) -> Item | None:
        """The next entry, or None; ``passing`` says which tabs let the others go first."""
        ready = (tab for tab in self._tabs if passing is None or not passing(tab))
        tab = next(ready, None)
        if tab is None:
            return None
        queue = self._tabs.pop(tab)
        item = queue.popleft()
        if queue:
            self._tabs[tab] = queue
        return item

    def drop(self, tab: str, item: Item) -> bool:
        """Take an entry out of the queue; False if it is not there."""
        queue = self._tabs.get(tab, ())
        if item not in queue:
            return False
        self._tabs[tab].remove(item)
        if not self._tabs[tab]:
            del self._tabs[tab]
        return True


class Gate:
    """One turn at a time.

    Examples
    --------
    >>> gate = Gate()
    >>> with gate.turn(Errand("tab")):
    ...     gate.is_free
    False
    >>> gate.is_free
    True
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queues = tuple(Rounds[threading.Condition]() for _ in range(3))
        self._n_passed = [0] * len(self._queues)
        self._next: threading.Condition | None = None

    @property
    def is_free(self) -> bool:
        """Whether nobody has a turn or waits for one."""
        with self._lock:
            return self._next is None and self.n_waiting == 0

    @property
    def n_waiting(self) -> int:
        """How many wait for a turn."""
        return sum(map(len, self._queues))

    @contextmanager
    def turn(self, errand: Errand) -> Iterator[None]:
        """Wait for a turn and have it; work that is cancelled before, while it waits or after raises ``Cancelled``."""
        self._enter(errand)
        try:
            errand.check()
            yield
        finally:
            with self._lock:
                self._pass_on()
        errand.check()

    def wake(self) -> None:
        """Let all who wait see whether they are still wanted."""
        with self._lock:
            for queue in self._queues:
                for ticket in queue:
                    ticket.notify()

    def _enter(self, errand: Errand) -> None:
        # Everyone waits for a bell of their own: of many threads that wake up, all but one would only be in the way.
        rank = 0 if errand.urgent else 2 if errand.search else 1
        ticket, queue = threading.Condition(self._lock), self._queues[rank]
        with self._lock:
            queue.put(errand.tab, ticket)
            if self._next is None:
                self._pass_on()
            while self._next is not ticket:
                if errand.unwanted() and queue.drop(errand.tab, ticket):
                    raise Cancelled
                ticket.wait()

    def _pass_on(self) -> None:
        """Give the turn to the next in line, if there is any; those passed over too often come before the rest."""
        waiting = [rank for rank, queue in enumerate(self._queues) if len(queue)]
        if not waiting:
            self._next = None
            return
        passed_over = (rank for rank in reversed(waiting) if self._n_passed[rank] >= MOST_PASSED)
        chosen = next(passed_over, waiting[0])
        for rank in waiting:
            self._n_passed[rank] = 0 if rank == chosen else self._n_passed[rank] + 1
        self._next = self._queues[chosen].take()
        if self._next is not None:
            self._next.notify()
