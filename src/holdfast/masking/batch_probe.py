"""Calls that are made anyway, and how long they took → how many masks to evaluate per call."""

from __future__ import annotations

from typing import Any

from holdfast.masking.module_notes import notes_of

_GAIN = 1.03
"""A size is worth its memory if it computes so many times the rows per second of the best before."""

_REPEATS = 2
"""Full calls that are timed per size; the best of them counts, since other work only adds time."""


class BatchProbe:
    """The size of the next call: doubled while that computes more rows per second, then kept.

    It begins with ``first`` rows. No call is made for its sake, and no result depends on it. On a CPU
    larger batches help until their activations no longer fit its caches, and from there on do harm.

    Examples
    --------
    >>> probe = BatchProbe(first=4)
    >>> for seconds in (4, 4, 5, 5, 10, 10):
    ...     probe.record(probe.size, seconds)
    >>> probe.size, probe.settled
    (8, True)
    """

    def __init__(self, first: int = 4) -> None:
        self.size = first
        self.settled = False
        self._best = (0.0, first)
        self._seconds: list[float] = []

    def record(self, n_rows: int, seconds: float) -> None:
        """Take note of a call; calls of fewer rows than were offered say nothing about the size."""
        if self.settled or n_rows != self.size:
            return
        self._seconds.append(seconds)
        if len(self._seconds) == _REPEATS:
            self._move_on(self.size / max(min(self._seconds), 1e-9))

    def stop_at(self, n_rows: int) -> None:
        """Never offer more rows than this: memory ran out."""
        self.size, self.settled = min(self.size, max(1, n_rows)), True

    def _move_on(self, rows_per_second: float) -> None:
        if rows_per_second >= _GAIN * self._best[0]:
            self._best = (rows_per_second, self.size)
            self.size, self._seconds = 2 * self.size, []
        else:
            self.size, self.settled = self._best[1], True


def batch_probe(module: Any, *question: Any, first: int = 4) -> BatchProbe:
    """The probe of a module for inputs of one kind: what one input taught serves the next."""
    probe: BatchProbe = notes_of(module).setdefault(("batch probe", *question), BatchProbe(first))
    return probe
