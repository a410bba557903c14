"""A threshold on the rate → an exact sequential test of "the true rate is at least this".

A disagreement that becomes an agreement can only move a run from "no" towards "yes", so a wrong "yes" is most likely at
the threshold itself, and so is a wrong "no": each is checked there, in whole numbers, and nowhere else need be.
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
"""Looks that can say yes; each may cost a model batch of its own."""

_EARLY = (4, 2)
"""Two looks at a quarter and a half of the draws before the first "yes" can only say no."""

_FIRST_SHARE = Fraction(3, 5)
"""Of the risk of a false "yes", what its earliest one may take. The smallest number of draws that can say yes would
take nearly all, and leave none for rates below 1. ``python -m benchmarks limits`` prints what other shares cost."""

_POWER_Z = 4.0
"""With the default budget, a rate halfway between the threshold and 1 lies this many standard deviations above it."""

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

    @property
    def fewest_for_yes(self) -> int:
        """Draws after which it says yes if all agree."""
        return next((n for n, few in zip(self.looks, self.yes_at_most, strict=True) if few >= 0), self.max_draws)

    def answer(self, n_evaluated: int, n_agreed: int) -> bool | None:
        """True or False once decided at this look; None if not (yet)."""
        j, n_failed = self.looks.index(n_evaluated), n_evaluated - n_agreed
        if n_failed <= self.yes_at_most[j]:
            return True
        return False if n_failed >= self.no_at_least[j] else None

    def stops(self, n_evaluated: int, n_agreed: int) -> bool:
        """Whether it is decided at this look."""
        return self.answer(n_evaluated, n_agreed) is not None


def rate_test(min_rate: Any, confidence: Any, max_draws: int | None = None) -> RateTest:
    """A test of "the rate is at least ``min_rate``" that is cheap at rates of 1, near 1 and well below alike.

    No valid test can say yes before min_rate**n ≤ 1 - confidence. This one waits until that is three fifths of the
    risk (27 draws in place of 22 at 0.9 and 0.9), which saves a quarter or more at rates between the threshold and 1.
    """
    t, sure = check_share(min_rate, "min_rate"), check_share(confidence, "confidence")
    fewest, first = (smallest_power_within(t, part * (1 - sure)) for part in (Fraction(1), _FIRST_SHARE))
    if max_draws is None:
        rate = float(t)
        needed = (_POWER_Z * math.sqrt(rate * (1 - rate)) / ((1 - rate) / 2)) ** 2
        last = max(2 * first, min(_MOST_DRAWS, math.ceil(needed)))
    else:
        last = check_whole(max_draws, "max_draws", minimum=1)
    if last < fewest:
        raise InvalidValueError(argument="max_draws", must=f"be at least {fewest} to ever answer yes", got=last)
    return _make_test(t, sure, min(first, last), last)


@lru_cache(maxsize=256)
def _make_test(t: Fraction, sure: Fraction, first: int, last: int) -> RateTest:
    """At each look the widest boundaries that keep both cumulative risks within their spending."""
    early = [first // part for part in _EARLY if first // part > 0]
    later = np.unique(np.geomspace(first, last, N_LOOKS).round().astype(int)).tolist()
    looks, risk = (*early, *later), 1 - sure
    earliest = max(_FIRST_SHARE * risk, t**first)
    walk, said_yes, said_no = DisagreementWalk(t), Fraction(0), Fraction(0)
    boundaries = []
    for j, n in enumerate(looks):
        walk.draw_until(n)
        spent = _spent(j - len(early), len(later) - 1) * (risk - earliest) + earliest if n >= first else Fraction(0)
        few, gained = walk.take_from_below(spent - said_yes)
        many, lost = walk.take_from_above(_spent(j + 1, len(looks)) * risk - said_no)
        said_yes, said_no = said_yes + gained, said_no + lost
        boundaries.append((few, many))
    yes, no = zip(*boundaries, strict=True)
    return RateTest(t, sure, looks, yes, no)


def _spent(step: int, n_steps: int) -> Fraction:
    """The share of a risk that may be spent up to this step: its root, so that early answers get more."""
    return Fraction(math.isqrt(step * 4**20 // n_steps), 2**20) if n_steps else Fraction(1)


class DisagreementWalk:
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
