"""Times of calls → what a call of a model takes, and how many rows of later looks it may take along.

On a device such as a GPU a call of a few rows takes as long as one of a few hundred. Whether a row is computed now or
later changes no result; what it takes decides when.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from holdfast.validation import check_amount

_LEAST_FIXED, _LEAST_DOUBLINGS = 1e-3, 2
"""Of a price that is measured: seconds of a call itself below which it is not worth saving, and how many times its
number of rows must have doubled."""

BETWEEN_CALLS = 1e-3
"""About how many seconds pass between two calls: what they said is judged, and the next masks are drawn."""

_MOST_WORTH = 1 << 20
"""Rows that no batch holds."""


class Ahead(NamedTuple):
    """What a call may take along of later looks: ``worth`` rows take as long as another call, ``room`` rows fit in."""

    worth: int
    room: int


@dataclass(frozen=True)
class CallPrice:
    """What a call of a model takes: seconds for the call itself, and seconds for each of its rows.

    Examples
    --------
    >>> CallPrice(fixed=0.005, per_row=0.00005).rows_per_call
    100
    """

    fixed: float
    per_row: float

    def __post_init__(self) -> None:
        for name in ("fixed", "per_row"):
            check_amount(getattr(self, name), name, may_be_zero=True)

    @property
    def rows_per_call(self) -> int:
        """How many rows take as long as the call itself does."""
        return int(min(self.fixed / max(self.per_row, 1e-12), _MOST_WORTH)) if self.fixed else 0

    def ahead(self, n_rows: int, batch_size: int) -> Ahead:
        """What the call for so many rows may take along, in the last of its batches."""
        return Ahead(self.rows_per_call, -n_rows % batch_size)


class CallMeter:
    """Times of calls that are made anyway → what a call takes, once few rows and many have been timed twice.

    The fastest call of about as many rows counts: other work only adds time, and the first call also warms up.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self.price: CallPrice | None = None  # as long as it is not known, and where a call itself takes next to nothing
        self._fastest: dict[int, tuple[float, int]] = {}
        self._n_timed: dict[int, int] = {}

    def record(self, n_rows: int, seconds: float) -> None:
        """Take note of a call."""
        about, call = n_rows.bit_length(), (seconds, n_rows)
        n_timed = self._n_timed[about] = self._n_timed.get(about, 0) + 1
        if n_timed == 1 or call < self._fastest[about]:
            self._fastest[about] = call
        elif n_timed > 2:
            return
        self.price = self._find_price()

    def _find_price(self) -> CallPrice | None:
        timed = [about for about, n in self._n_timed.items() if n > 1]
        later = [self._fastest[about] for about in timed if about - min(timed) >= _LEAST_DOUBLINGS]
        if not later:
            return None
        few_seconds, few = self._fastest[min(timed)]
        # Where rows take least: larger batches may leave the caches, and the first calls of a size take longer.
        many_seconds, many = min(later, key=lambda call: call[0] / call[1])
        per_row = max(0.0, (many_seconds - few_seconds) / (many - few))
        fixed = few_seconds - few * per_row
        return CallPrice(fixed + BETWEEN_CALLS, per_row) if fixed >= _LEAST_FIXED else None
