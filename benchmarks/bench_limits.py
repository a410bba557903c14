"""Limits: draws of every shipped design and of tests, beside what no stopping rule with the same promise can beat.

Weak duality over policies: for any weights of the promise "a miss has probability at most δ" at some true rates, the
rule that minimises expected draws plus weighted misses is found by going backwards through all counts, and
what it costs, less the weights times δ, is at most the expected draws of every rule that keeps the promise: of all
looks, randomised or not. Good weights are found by ascent; bad ones only make the bound weaker, never false. Rules may
draw beyond the last count that is followed: there they are let off without a miss. Tests say yes or no,
or go on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.figures import Figure
from holdfast.bounds import smallest_power_within
from holdfast.plans import make_plan, rate_test
from holdfast.plans.catalog import shipped_goals
from holdfast.plans.decision import DisagreementWalk, RateTest
from holdfast.plans.search import RATE_WEIGHTS, TYPICAL_RATES

Floats = NDArray[np.float64]

N_STEPS, N_LONG_STEPS, LONG = 400, 200, 1500
"""Steps of the ascent; fewer where more draws than this are followed, which takes minutes and a weaker bound."""

LONGER = 1.6
"""How far beyond the last look of a design counts are followed."""

MOST_NUMBERS, FEWEST_RATES = 200_000_000, 24
"""That are held for a bound, counts times rates, unless these would be too few."""

AT_MOST = {(0.1, 0.1): 1.1, (0.05, 0.05): 1.13}
"""Of expected draws over the bound, for the most common designs."""

MIX = {1.0: 0.3, 0.8: 0.2, 0.6: 0.15, 0.5: 0.1, -1.0: 0.15, -4.0: 0.1}
"""The rates that tests are made cheap for, as parts of the way from the threshold up to 1, and their weights."""

THRESHOLDS = {(0.9, 0.9): 1.17, (0.95, 0.95): 1.17, (0.8, 0.9): 1.17, (0.9, 0.95): 1.2}


@dataclass(frozen=True)
class Promise:
    """The rates at which a promise is weighed, and the risk of a miss.

    ``is_miss`` tells of (k, n) which answers a rule may stop with would be a miss, Boolean (n_answers, n + 1, n_rates).
    """

    rates: Floats
    risk: float
    is_miss: Callable[[Any, int], Any]


def pmf(n: int, rates: Floats) -> Floats:
    """Binomial probabilities (n + 1, n_rates)."""
    from scipy.special import gammaln, xlog1py, xlogy

    k = np.arange(n + 1.0)[:, None]
    orders = gammaln(n + 1.0) - gammaln(k + 1) - gammaln(n - k + 1)
    return np.asarray(np.exp(orders + xlogy(k, rates) + xlog1py(n - k, -rates)))


class Bound:
    """The least expected draws, over a mix of rates, of any rule that keeps a promise."""

    def __init__(self, promise: Promise, mix: Floats, weights: Floats, most: int) -> None:
        self._promise, self._most = promise, most
        self._draws = [n * (pmf(n, mix) @ weights) for n in range(most + 1)]
        # How likely each count is, for every answer that would be a miss there; there is no stopping at 0.
        self._missed = [promise.is_miss(np.arange(n + 1), n) * pmf(n, promise.rates) for n in range(1, most)]

    def find(self) -> float:
        n_steps = N_STEPS if self._most <= LONG else N_LONG_STEPS
        rates, risk = self._promise.rates, self._promise.risk
        multipliers = np.full(len(rates), self._draws[-1].sum() / (10 * risk * len(rates)))
        best, first, second = 0.0, np.zeros(len(rates)), np.zeros(len(rates))
        for step in range(1, n_steps + 1):
            stops, answers = [], []
            value = self._draws[self._most]
            for n in range(self._most - 1, 0, -1):
                k = np.arange(n + 1)
                on = value[:-1] * (n + 1 - k) / (n + 1) + value[1:] * (k + 1) / (n + 1)
                missed = self._missed[n - 1] @ multipliers
                ends = self._draws[n] + missed.min(axis=0)
                stops.append(ends < on)
                answers.append(missed.argmin(axis=0))
                value = np.minimum(ends, on)
            best = max(best, float(value.sum()) - risk * float(multipliers.sum()))
            misses = self._misses(stops[::-1], answers[::-1])
            gradient = multipliers * (misses - risk)
            first, second = 0.9 * first + 0.1 * gradient, 0.99 * second + 0.01 * gradient**2
            moved = (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.99**step)) + 1e-12)
            multipliers *= np.exp(0.3 * (1 - step / n_steps) ** 0.5 * moved)
        return best

    def _misses(self, stops: list[Any], answers: list[Any]) -> Floats:
        """How often the rule that stops so misses, at each weighed rate."""
        alive, misses = np.ones(1), np.zeros(len(self._promise.rates))
        for n, (ends, answer) in enumerate(zip(stops, answers, strict=True), start=1):
            k = np.arange(n + 1)
            alive = (np.append(alive, 0.0) * (n - k) + np.append(0.0, alive) * k) / n
            here = np.flatnonzero(ends & (alive > 0))
            misses += alive[here] @ self._missed[n - 1][answer[here], here]
            alive = np.where(ends, 0.0, alive)
        return misses


def estimation_bound(tolerance: Fraction, risk: Fraction, most: int) -> float:
    """For rules that state k/n ± tolerance when they stop."""
    eps = float(tolerance)
    rates = np.linspace(eps / 50, 1 - eps / 50, min(800, max(FEWEST_RATES, 2 * MOST_NUMBERS // most**2)))

    def is_miss(k: Any, n: int) -> Any:
        return (abs(k[:, None] / n - rates) > eps + 1e-12)[None]

    return Bound(Promise(rates, float(risk), is_miss), TYPICAL_RATES, RATE_WEIGHTS, most).find()


def decision_bound(threshold: float, risk: float, mix: Floats, weights: Floats, most: int) -> float:
    """For rules that say "at least the threshold" or "below it"; yes must be rare up to it, no from it on."""
    gap = 1 - threshold
    below = np.maximum(threshold - gap * np.array([0.0, 0.25, 0.5, 1.0, 2.0, 4.0]), 0.02)
    rates = np.concatenate([below, threshold + gap * np.array([0.0, 0.25, 0.5, 0.8])])

    def is_miss(k: Any, n: int) -> Any:
        misses = np.zeros((2, len(k), len(rates)), dtype=bool)
        misses[0, :, : len(below)] = True  # yes
        misses[1, :, len(below) :] = True  # no
        return misses

    return Bound(Promise(rates, risk, is_miss), mix, weights, most).find()


def earliest_test(threshold: Fraction, confidence: Fraction, last: int) -> RateTest:
    """The test with nearly all its risk on the earliest "yes" that any test can say: what ``rate_test`` once was."""
    risk = 1 - confidence
    first = smallest_power_within(threshold, risk)
    looks = tuple(int(n) for n in np.unique(np.geomspace(first, last, 12).round().astype(int)))
    walk, said_yes, said_no, earliest = DisagreementWalk(threshold), Fraction(0), Fraction(0), threshold**first
    yes, no = [], []
    for j, n in enumerate(looks):
        walk.draw_until(n)
        few, gained = walk.take_from_below(earliest + (risk - earliest) * Fraction(j, len(looks) - 1) - said_yes)
        many, lost = walk.take_from_above(risk * Fraction(j + 1, len(looks)) - said_no)
        said_yes, said_no = said_yes + gained, said_no + lost
        yes.append(few)
        no.append(many)
    return RateTest(threshold, confidence, looks, tuple(yes), tuple(no))


def answers_of(test: RateTest, rate: float) -> tuple[float, float]:
    """Expected draws and the probability of yes, at one rate."""
    alive, n, draws, yes = np.ones(1), 0, 0.0, 0.0
    for look, few, many in zip(test.looks, test.yes_at_most, test.no_at_least, strict=True):
        failed = pmf(look - n, np.array([1 - rate]))[:, 0]
        alive, n = np.convolve(alive, failed), look
        k = np.arange(n + 1)
        ends = (k <= few) | (k >= many) | (look == test.max_draws)
        draws, yes = draws + n * float(alive[ends].sum()), yes + float(alive[k <= few].sum())
        alive = np.where(ends, 0.0, alive)
    return draws, yes


def run() -> Iterator[Figure]:
    for goal, _ in shipped_goals():
        design = make_plan("sequential", tolerance=goal.tolerance, confidence=1 - goal.risk).design
        label = f"ε={float(goal.tolerance):g}, δ={float(goal.risk):.3g}"
        draws = float(RATE_WEIGHTS @ [design.expected_draws(rate) for rate in TYPICAL_RATES])
        bound = estimation_bound(goal.tolerance, goal.risk, math.ceil(LONGER * design.max_draws))
        yield Figure(f"{label}: draws on average over typical rates", draws)
        yield Figure(f"{label}: no rule can take fewer than", bound)
        at_most = AT_MOST.get((float(goal.tolerance), float(goal.risk)))
        yield Figure(f"{label}: draws over the limit", draws / bound, "×", at_most=at_most)
    for (threshold, confidence), at_most in THRESHOLDS.items():
        test, risk = rate_test(threshold, confidence), 1 - confidence
        mix = np.clip([threshold + part * (1 - threshold) for part in MIX], 0.02, 1.0)
        weights = np.array(list(MIX.values()))
        label = f"is τ ≥ {threshold:g}, δ={risk:.2g}"
        before = earliest_test(test.min_rate, test.confidence, test.max_draws)
        for rate in mix:
            for rule, which in ((before, ", nearly all risk on the earliest yes"), (test, "")):
                draws, yes = answers_of(rule, rate)
                yield Figure(f"{label}: draws at τ={rate:g}{which}", draws)
                yield Figure(f"{label}: probability of yes at τ={rate:g}{which}", yes)
        draws = float(weights @ [answers_of(test, rate)[0] for rate in mix])
        bound = decision_bound(threshold, risk, mix, weights, test.max_draws)
        yield Figure(f"{label}: draws on average over the mix", draws)
        yield Figure(f"{label}: no rule can take fewer than", bound)
        yield Figure(f"{label}: draws over the limit", draws / bound, "×", at_most=at_most)
