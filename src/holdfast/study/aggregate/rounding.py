"""A guaranteed interval → the same in three digits, none of which claims more than the interval does."""

from __future__ import annotations

import math

from holdfast.bounds import Interval


def outward(interval: Interval) -> Interval:
    """The interval with ends of three digits, rounded away from each other.

    Examples
    --------
    >>> outward(Interval(0.8577, 0.9171))
    Interval(low=0.857, high=0.918)
    """
    return Interval(math.floor(1000 * interval.low) / 1000, math.ceil(1000 * interval.high) / 1000)
