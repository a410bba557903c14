"""A threshold on the rate → an exact sequential test of "the true rate is at least this".

Both boundaries are monotone, so a wrong "yes" is most likely at the threshold itself, and so is a
wrong "no": each is checked there, in whole numbers, and nowhere else need be.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from holdfast.errors import InvalidValueError
from holdfast.validation import check_share, check_whole

N_LOOKS = 12

_POWER_Z = 4.0
"""The default budget resolves a rate halfway between the threshold and 1 at about this many
standard deviations."""


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

    def outcome_probabilities(self, rate: Fraction) -> tuple[Fraction, Fraction]:
        """Exact P(yes) and P(no) when each draw agrees with probability ``rate``."""
        yes = no = Fraction(0)
        walk = _Walk(rate)
        for n, few, many in zip(self.looks, self.yes_at_most, self.no_at_least, strict=True):
            walk.draw_until(n)
            yes += walk.leave(0, few)
            no += walk.leave(many, n)
        return yes, no

    def expected_draws(self, rate: Fraction) -> float:
        """Mean number of draws when each agrees with probability ``rate``."""
        total, walk = Fraction(0), _Walk(rate)
        for n, few, many in zip(self.looks, self.yes_at_most, self.no_at_least, strict=True):
            walk.draw_until(n)
            gone = walk.leave(0, few) + walk.leave(many, n)
            total += n * gone
        return float(total + self.max_draws * walk.leave(0, self.max_draws))


def rate_test(min_rate: Any, confidence: Any, max_draws: int | None = None) -> RateTest:
    """A test of "the rate is at least ``min_rate``" that says yes as early as any test can.

    The first look is the smallest n with min_rate**n ≤ 1 - confidence: if every draw agrees, no
    valid test can stop sooner.

    Examples
    --------
    >>> test = rate_test(0.9, 0.9)
    >>> test.looks[0], test.answer(22, 22)
    (22, True)
    """
    t, sure = check_share(min_rate, "min_rate"), check_share(confidence, "confidence")
    first = smallest_power_within(t, 1 - sure)
    last = _default_budget(float(t), first) if max_draws is None else check_whole(max_draws, "max_draws", minimum=1)
    if last < first:
        raise InvalidValueError(f"`max_draws` must be at least {first} to ever answer yes, got {last}.")
    return _make_test(t, sure, first, last)


@lru_cache(maxsize=256)
def _make_test(t: Fraction, sure: Fraction, first: int, last: int) -> RateTest:
    looks = tuple(int(n) for n in np.unique(np.geomspace(first, last, N_LOOKS).round().astype(int)))
    yes, no = zip(*_boundaries(looks, t, 1 - sure), strict=True)
    return RateTest(t, sure, looks, yes, no)


def smallest_power_within(share: Fraction, risk: Fraction) -> int:
    """The smallest n with share**n ≤ risk, decided in whole numbers.

    Examples
    --------
    >>> smallest_power_within(Fraction(9, 10), Fraction(1, 10))
    22
    """
    n = max(1, math.floor(math.log(risk) / math.log(share)) - 1)
    while share**n > risk:
        n += 1
    return n


def _default_budget(t: float, first: int) -> int:
    gap = (1 - t) / 2
    spread = math.sqrt(t * (1 - t))
    return max(4 * first, math.ceil((_POWER_Z * spread / gap) ** 2))


def _boundaries(looks: tuple[int, ...], t: Fraction, risk: Fraction) -> Iterator[tuple[int, int]]:
    """At each look the widest boundaries that keep both cumulative risks within their spending."""
    walk, said_yes, said_no = _Walk(t), Fraction(0), Fraction(0)
    first = t ** looks[0]
    for j, n in enumerate(looks):
        walk.draw_until(n)
        spent = Fraction(j, max(1, len(looks) - 1))
        few, gained = walk.take_from_below(first + (risk - first) * spent - said_yes)
        said_yes += gained
        many, lost = walk.take_from_above(risk * Fraction(j + 1, len(looks)) - said_no)
        said_no += lost
        yield few, many


class _Walk:
    """Exact distribution of the number of disagreements among runs not yet ended.

    ``weight[f]`` is a whole number; the probability is weight / denominator ** n.
    """

    def __init__(self, rate: Fraction) -> None:
        self.agree, self.fail = rate.numerator, rate.denominator - rate.numerator
        self.denominator = rate.denominator
        self.n = 0
        self.weight: dict[int, int] = {0: 1}

    def draw_until(self, n: int) -> None:
        while self.n < n:
            grown: dict[int, int] = {}
            for failed, weight in self.weight.items():
                grown[failed] = grown.get(failed, 0) + weight * self.agree
                grown[failed + 1] = grown.get(failed + 1, 0) + weight * self.fail
            self.weight = grown
            self.n += 1

    def leave(self, low: int, high: int) -> Fraction:
        """Remove the runs with low ≤ disagreements ≤ high and return their probability."""
        gone = sum(self.weight.pop(failed) for failed in list(self.weight) if low <= failed <= high)
        return Fraction(gone, self.denominator**self.n)

    def take_from_below(self, allowance: Fraction) -> tuple[int, Fraction]:
        """End the runs with fewest disagreements, as many counts as the allowance covers."""
        return self._take(sorted(self.weight), allowance, none=-1)

    def take_from_above(self, allowance: Fraction) -> tuple[int, Fraction]:
        """End the runs with most disagreements, as many counts as the allowance covers."""
        return self._take(sorted(self.weight, reverse=True), allowance, none=self.n + 1)

    def _take(self, order: list[int], allowance: Fraction, *, none: int) -> tuple[int, Fraction]:
        scale = self.denominator**self.n
        budget, taken, last = math.floor(allowance * scale), 0, none
        for failed in order:
            if taken + self.weight[failed] > budget:
                break
            taken += self.weight.pop(failed)
            last = failed
        return last, Fraction(taken, scale)
