"""Decisions at increasing radii → the radius up to which a minimum rate is certified."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from holdfast.bounds import check_counts
from holdfast.errors import InvalidValueError
from holdfast.neighborhood import NEIGHBORHOODS, Neighborhood
from holdfast.plans import RateTest, rate_test
from holdfast.results.values import Value
from holdfast.results.wording import NOT_RIGHT, calls, event, lower_first, repeats, same, unlike
from holdfast.types import Mask, Provenance
from holdfast.validation import check_mask, check_name, check_share

_MOST_READ = 10**7
_MOST_DRAWS = 5_000
"""Tests of more draws are not computed anew when a file is read, which would take minutes; ``recheck`` does so."""


@dataclass(frozen=True, eq=False)
class RadiusStep(Value):
    """What was found at one tested radius.

    ``answer`` is True if the minimum rate was certified, False if a smaller rate was, None if the
    draws could not tell.
    """

    radius: int
    effective_radius: int
    answer: bool | None
    n_agreed: int
    n_evaluated: int
    exact: bool

    schema: ClassVar[str] = "holdfast.radius_step"


@dataclass(frozen=True, eq=False)
class RadiusCertificate(Value):
    """Up to which radius the stability rate is certified to be at least ``min_rate``.

    With probability at least ``confidence``, every tested radius up to ``radius`` has a rate of at
    least ``min_rate``. This does not say that larger radii have a smaller rate: rates are not
    monotone in the radius, and the first radius that was not certified ended the search.

    Attributes
    ----------
    radius : int
        The last tested radius that was certified; 0 if the first was not.
    trail : tuple of RadiusStep
        One ``RadiusStep`` per tested radius, in order.
    max_draws : int
        Most draws per radius: with ``min_rate`` and ``confidence`` it decides when each test looks and stops.
    n_calls, n_repeated : int
        Rows needed, and those of them computed twice to see whether the model is deterministic.
    """

    radius: int
    min_rate: float
    confidence: float
    trail: tuple[RadiusStep, ...]
    max_draws: int
    n_calls: int
    n_repeated: int
    rng_key: int
    prediction: Any
    consistent: bool
    selected: Mask
    counterexample: Mask | None
    neighborhood: str
    agree: str
    provenance: Provenance

    schema: ClassVar[str] = "holdfast.radius_certificate"

    def check(self) -> None:
        """Raise if the fields contradict each other."""
        check_mask(self.selected, "selected")
        check_name(self.neighborhood, "neighborhood", NEIGHBORHOODS)
        check_share(self.min_rate, "min_rate")
        check_share(self.confidence, "confidence")
        if not 1 <= self.max_draws <= _MOST_READ or (1 - self.min_rate) * _MOST_READ < 1:
            raise InvalidValueError(f"`max_draws` must be from 1 to {_MOST_READ}, and enough for `min_rate`.")
        small = self.max_draws <= _MOST_DRAWS
        test = rate_test(self.min_rate, self.confidence, self.max_draws) if small else None
        for step in self.trail:
            check_counts(step.n_agreed, step.n_evaluated)
            nearby = NEIGHBORHOODS[self.neighborhood](self.selected, step.radius)
            if step.effective_radius != nearby.effective_radius or not _follows(step, test, nearby, self.min_rate):
                raise InvalidValueError(f"`answer` must follow from the counts at radius {step.radius}.")
        answers = [step.answer for step in self.trail]
        if not answers or False in map(bool, answers[:-1]):
            raise InvalidValueError("`trail` must end at the first radius that is not certified.")
        if self.radius != max((step.radius for step in self._certified()), default=0):
            raise InvalidValueError("`radius` must be the last certified one of the trail.")

    def __str__(self) -> str:
        wrong = "" if self.consistent else f" {unlike(self.min_rate if self._certified() else 0)};"
        scope = "it is about random masks for this model, input and masking, not about larger or untested radii"
        radii = "radius" if len(self.trail) == 1 else "radii"
        cost = f"({len(self.trail)} {radii} tested, {calls(self.n_calls)}{repeats(self.n_repeated)})"
        return f"{self._claim()} {cost};{wrong} {scope}, {NOT_RIGHT}."

    def _claim(self) -> str:
        rate, keeps = f"at least {self.min_rate} of cases", same(self.prediction, self.agree)
        if not self._certified():
            return f"No radius is certified to keep {keeps} in {rate}"
        doing = lower_first(event(self.neighborhood, "uniform", self._certified()[-1].effective_radius))
        every = " (and every smaller tested radius)" if len(self._certified()) > 1 else ""
        return f"With confidence {self.confidence}, {doing}{every} keeps {keeps} in {rate}"

    def _certified(self) -> list[RadiusStep]:
        return [step for step in self.trail if step.answer]


def _follows(step: RadiusStep, test: RateTest | None, nearby: Neighborhood, min_rate: float) -> bool:
    """Whether the counts of a step say what it answers, by the rules of its test."""
    reached = step.n_agreed >= Fraction(str(min_rate)) * step.n_evaluated
    if step.exact:
        return (
            not nearby.is_larger_than(step.n_evaluated)
            and step.n_evaluated == nearby.size
            and step.answer is bool(reached)
        )
    if test is None:
        return step.answer is None or step.answer is bool(reached)
    return step.n_evaluated in test.looks and step.answer is test.answer(step.n_evaluated, step.n_agreed)
