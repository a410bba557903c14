"""Counts so far → an interval for the rate that is valid at every look at once, and only narrows.

For independent draws that agree with probability p, the mixture of binomial likelihoods over a Beta
prior, divided by the likelihood at p, is a non-negative martingale that begins at 1. By Ville's inequality
it ever reaches 1/δ with probability at most δ; the rates at which it has not are the interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from holdfast.bounds import Interval
from holdfast.certification.certificate import Look

_A = _B = 0.5
"""The prior of Jeffreys: narrow for rates near 0 and 1, which are the common ones."""

_BISECTIONS = 40
_SLACK = 1e-9
"""On the side of caution, for the rounding of logarithms."""


def anytime_interval(n_agreed: int, n_evaluated: int, *, confidence: float) -> Interval:
    """The rates that the counts do not speak against, whenever one looks.

    With probability at least ``confidence``, the true rate is in the intervals of all numbers of draws at
    once. That costs width: an interval for one number of draws alone is narrower.

    Examples
    --------
    >>> low, high = anytime_interval(24, 24, confidence=0.9)
    >>> round(low, 3), high
    (0.83, 1.0)
    """
    if n_evaluated == 0:
        return Interval(0.0, 1.0)
    limit = -math.log1p(-confidence) + _SLACK
    n_other = n_evaluated - n_agreed
    low = 0.0 if n_agreed == 0 else _edge(n_agreed, n_other, limit)
    high = 1.0 if n_other == 0 else 1.0 - _edge(n_other, n_agreed, limit)
    return Interval(low, high)


def _edge(n_for: int, n_against: int, limit: float) -> float:
    """The lower end: the largest rate found, below the observed one, that the counts speak against."""
    low, high = 0.0, n_for / (n_for + n_against)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if _evidence(n_for, n_against, middle) >= limit:
            low = middle
        else:
            high = middle
    return low


def _evidence(n_for: int, n_against: int, rate: float) -> float:
    """The logarithm of the martingale at a rate strictly between 0 and 1."""
    mixed = _log_beta(n_for + _A, n_against + _B) - _log_beta(_A, _B)
    return mixed - n_for * math.log(rate) - n_against * math.log1p(-rate)


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


@dataclass(frozen=True)
class Narrowing:
    """What is known of the rate after some looks: what all of their intervals have in common.

    Attributes
    ----------
    low, high : float
        The interval; ``low > high`` if the looks contradict each other, which happens with
        probability at most 1 - confidence.
    n_looks : int
        How many there were.

    Examples
    --------
    >>> known = Narrowing().after(Look(32, 32, 72, exact=False), confidence=0.9)
    >>> later = known.after(Look(48, 64, 72, exact=False), confidence=0.9)
    >>> known.low <= later.low <= later.high <= known.high
    True
    """

    low: float = 0.0
    high: float = 1.0
    n_looks: int = 0

    def after(self, look: Look, *, confidence: float) -> Narrowing:
        """What is known after one more look."""
        low, high = _listed(look) if look.exact else self._drawn(look, confidence)
        return Narrowing(max(self.low, low), min(self.high, high), self.n_looks + 1)

    @staticmethod
    def _drawn(look: Look, confidence: float) -> Interval:
        return anytime_interval(look.n_agreed, look.n_evaluated, confidence=confidence)

    @property
    def is_empty(self) -> bool:
        """Whether no rate is left."""
        return self.low > self.high


def _listed(look: Look) -> Interval:
    """Masks that are listed one and all leave open only what the others do; there is no chance in it."""
    n_left = look.n_most - look.n_evaluated
    return Interval(look.n_agreed / look.n_most, (look.n_agreed + n_left) / look.n_most)
