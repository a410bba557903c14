"""A threshold on the rate → an exact sequential test of "the true rate is at least this".

Both boundaries are monotone, so a wrong "yes" is most likely at the threshold itself, and so is a
wrong "no": each is checked there, in whole numbers, and nowhere else need be.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, takewhile
from typing import Any

import numpy as np

from holdfast.bounds import smallest_power_within
from holdfast.errors import InvalidValueError
from holdfast.validation import check_share, check_whole

N_LOOKS = 12

_POWER_Z = 4.0
"""With the default budget, a rate halfway between the threshold and 1 lies this many standard
deviations above it. Most of the risk is spent on the earliest "yes", so such a rate is still
sometimes left undecided."""

_MOST_DRAWS = 4096
_MOST_BITS, _KEPT_BITS = 4096, 512


@dataclass(frozen=True)
class RateTest:
    """Look after ``looks[j]`` draws: few disagreements say yes, many say no.

    Whatever the true rate, a false "yes" has probability at most 1 - confidence, and so has a
    false "no". A run that ends without either cannot tell.
    """

    min_rate: Fraction
    confidence: Fraction
    looks: tuple[int, ...]
    yes_at_most: tuple[int, ...]
    no_at_least: tuple[int, ...]

    @property
    def max_draws(self) -> int:
        """The most draws a run can take."""
        return self.looks[-1]

    def answer(self, n_evaluated: int, n_agreed: int) -> bool | None:
        """True or False once decided at this look; None if not (yet)."""
        j, n_failed = self.looks.index(n_evaluated), n_evaluated - n_agreed
        if n_failed <= self.yes_at_most[j]:
            return True
        return False if n_failed >= self.no_at_least[j] else None


def rate_test(min_rate: Any, confidence: Any, max_draws: int | None = None) -> RateTest:
    """A test of "the rate is at least ``min_rate``" that says yes as early as any test can.

    The first look is the smallest n with min_rate**n ≤ 1 - confidence: if every draw agrees, no
    valid test can stop sooner.
    """
    t, sure = check_share(min_rate, "min_rate"), check_share(confidence, "confidence")
    first = smallest_power_within(t, 1 - sure)
    if max_draws is None:
        rate = float(t)
        needed = (_POWER_Z * math.sqrt(rate * (1 - rate)) / ((1 - rate) / 2)) ** 2
        last = max(2 * first, min(_MOST_DRAWS, math.ceil(needed)))
    else:
        last = check_whole(max_draws, "max_draws", minimum=1)
    if last < first:
        raise InvalidValueError(argument="max_draws", must=f"be at least {first} to ever answer yes", got=last)
    return _make_test(t, sure, first, last)


@lru_cache(maxsize=256)
def _make_test(t: Fraction, sure: Fraction, first: int, last: int) -> RateTest:
    """At each look the widest boundaries that keep both cumulative risks within their spending."""
    looks = tuple(int(n) for n in np.unique(np.geomspace(first, last, N_LOOKS).round().astype(int)))
    risk, earliest = 1 - sure, t ** looks[0]
    walk, said_yes, said_no = _DisagreementWalk(t), Fraction(0), Fraction(0)
    boundaries = []
    for j, n in enumerate(looks):
        walk.draw_until(n)
        spent = Fraction(j, max(1, len(looks) - 1))
        few, gained = walk.take_from_below(earliest + (risk - earliest) * spent - said_yes)
        many, lost = walk.take_from_above(risk * Fraction(j + 1, len(looks)) - said_no)
        said_yes, said_no = said_yes + gained, said_no + lost
        boundaries.append((few, many))
    yes, no = zip(*boundaries, strict=True)
    return RateTest(t, sure, looks, yes, no)


class _DisagreementWalk:
    """Distribution of the number of disagreements among runs not yet ended, in whole numbers.

    The probability of ``first + i`` disagreements is weight[i] / scale. Exact while the scale has at
    most ``_MOST_BITS``; beyond, weights are rounded up, so probabilities are never understated.
    """

    def __init__(self, rate: Fraction) -> None:
        self.agree, self.fail = rate.numerator, rate.denominator - rate.numerator
        self.n = self.first = 0
        self.scale, self.weight = 1, [1]

    def draw_until(self, n: int) -> None:
        while self.n < n:
            pairs = zip([*self.weight, 0], [0, *self.weight], strict=True)
            self.weight = [same * self.agree + one_less * self.fail for same, one_less in pairs]
            self.scale *= self.agree + self.fail
            self.n += 1
            extra = self.scale.bit_length() - _MOST_BITS
            if extra > _KEPT_BITS:
                self.scale >>= extra
                self.weight = [-(-weight >> extra) for weight in self.weight]

    def leave(self, low: int, high: int) -> Fraction:
        """Remove the runs with low ≤ disagreements ≤ high and return their probability."""
        start, stop = max(low - self.first, 0), max(high - self.first + 1, 0)
        gone = Fraction(sum(self.weight[start:stop]), self.scale)
        self.weight[start:stop] = [0] * len(self.weight[start:stop])
        while self.weight and self.weight[-1] == 0:
            self.weight.pop()
        skip = next((i for i, weight in enumerate(self.weight) if weight), len(self.weight))
        self.first, self.weight = self.first + skip, self.weight[skip:]
        return gone

    def take_from_below(self, allowance: Fraction) -> tuple[int, Fraction]:
        """End the runs with fewest disagreements, as many counts as the allowance covers."""
        taken = self._affordable(self.weight, allowance)
        last = self.first + taken - 1 if taken else -1
        return last, self.leave(0, last)

    def take_from_above(self, allowance: Fraction) -> tuple[int, Fraction]:
        """End the runs with most disagreements, as many counts as the allowance covers."""
        taken = self._affordable(self.weight[::-1], allowance)
        last = self.first + len(self.weight) - taken if taken else self.n + 1
        return last, self.leave(last, self.n)

    def _affordable(self, weights: list[int], allowance: Fraction) -> int:
        budget = math.floor(allowance * self.scale)
        return sum(1 for _ in takewhile(lambda total: total <= budget, accumulate(weights)))
