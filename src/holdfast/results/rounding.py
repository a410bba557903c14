"""An interval → the same in few digits, none of which claims more than the interval does."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from holdfast.bounds import Interval

_DUST = 12


def outward(interval: Interval, digits: int = 3) -> Interval:
    """The interval with ends of so many digits, rounded away from each other.

    What is beyond the twelfth digit is dust of floating-point sums and is swept away first: 0.1 + 0.2 is 0.3.

    Examples
    --------
    >>> outward(Interval(0.8577, 0.9171))
    Interval(low=0.857, high=0.918)
    >>> outward(Interval(0.1 + 0.2, 1.001), 2)
    Interval(low=0.3, high=1.01)
    """
    return Interval(_rounded(interval.low, digits, ROUND_FLOOR), _rounded(interval.high, digits, ROUND_CEILING))


def bracket(interval: Interval) -> str:
    """The interval for a table, rounded outwards; a point, which is an exact rate, to the nearest.

    Examples
    --------
    >>> bracket(Interval(0.73019, 0.93019)), bracket(Interval(22 / 23, 22 / 23))
    ('[0.730, 0.931]', '[0.957, 0.957]')
    """
    low, high = interval if interval.low == interval.high else outward(interval)
    return f"[{low:.3f}, {high:.3f}]"


def _rounded(end: float, digits: int, way: str) -> float:
    if not math.isfinite(end):
        return end
    return float(Decimal(repr(round(float(end), _DUST))).quantize(Decimal(1).scaleb(-digits), way))
