"""Counts so far → an interval for the rate that is valid at every look at once, and only narrows."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.bounds import anytime_interval
from holdfast.certification.certificate import Look


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
        if look.exact:
            # Masks that are listed one and all leave open only what the others do; there is no chance in it.
            n_left = look.n_most - look.n_evaluated
            low, high = look.n_agreed / look.n_most, (look.n_agreed + n_left) / look.n_most
        else:
            low, high = anytime_interval(look.n_agreed, look.n_evaluated, confidence=confidence)
        return Narrowing(max(self.low, low), min(self.high, high), self.n_looks + 1)

    @property
    def is_empty(self) -> bool:
        """Whether no rate is left."""
        return self.low > self.high
