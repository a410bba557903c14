"""Counts → intervals for the rate behind them; only proven finite-sample bounds, named by theorem.

They hold for a number of draws fixed in advance. Looking at the interval to decide when to stop
voids them: stopping belongs to :mod:`holdfast.plans`. Only ``anytime_interval`` and ``BettingRounds`` may be looked
at all the time.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.validation import as_array, check_name, check_share, check_whole, shown

_BISECTIONS, _SMALLEST_MEAN, _BETTING_SLACK = 22, 1e-7, 1e-9
"""Steps to the end of an interval, which is never beyond the true one; where ratios would overflow; float error."""

_ANYTIME_BISECTIONS, _LOG_ERROR, _LOG_ROUNDING = 40, 1e-9, 4e-15
"""Steps to the end of an anytime interval; float error of its logarithms, and by how much it grows with the counts."""

_TAIL_ERROR = 1e-9
"""Relative float error of binomial tails, and more."""

_MOST_SUMMED = 2_000
"""Most trials whose binomial tail is summed in whole numbers where a success more would do."""

_MOST_EVALUATED = 10**15
"""More than can be counted one by one; floating point keeps apart all whole numbers up to here."""


class Interval(NamedTuple):
    """A closed interval of rates."""

    low: float
    high: float


def hoeffding(n_agreed: int, n_evaluated: int, *, confidence: float = 0.9) -> Interval:
    """Two-sided interval of Hoeffding's inequality (Theorem 1 of the paper).

    With probability at least ``confidence`` over ``n_evaluated`` independent draws, a number fixed in
    advance, the interval contains the true rate.

    Examples
    --------
    >>> hoeffding(150, 150, confidence=0.9).low > 0.9
    True
    """
    k, n, delta = _checked(n_agreed, n_evaluated, confidence)
    half = math.sqrt(math.log(2 / delta) / (2 * n))
    return Interval(max(0.0, k / n - half), min(1.0, k / n + half))


@lru_cache(maxsize=256)
def hoeffding_draws(tolerance: Fraction, confidence: Fraction) -> int:
    """Draws that Theorem 1 asks for: ln(2/δ) / (2 ε²), rounded up."""
    needed, width = math.log(2 / (1 - confidence)), 2 * tolerance**2
    # A square that is no float any more still has an answer, though nobody will draw as often.
    return math.ceil(needed / width if float(width) > 0 else Fraction(needed) / width)


def smallest_power_within(share: Fraction, risk: Fraction) -> int:
    """The smallest n with share**n ≤ risk, decided in whole numbers: draws that must all agree."""
    n = max(1, math.floor(_log(risk) / _log(share)) - 1)
    while share**n > risk:
        n += 1
    return n


def _log(share: Fraction) -> float:
    """The logarithm of a share, however near to 0 or to 1."""
    if 2 * share > 1:
        return math.log1p(-float(1 - share))
    return math.log(share.numerator) - math.log(share.denominator)


def chernoff(mean: float, n_values: int, *, confidence: float | Fraction = 0.9) -> Interval:
    """Two-sided interval of Chernoff and Hoeffding for the mean of independent numbers in [0, 1].

    With probability at least ``confidence`` the interval contains their expected mean m: the mean of n of them is
    as far above or below m as this with probability at most exp(-n kl(mean, m)), kl the relative entropy
    of two coins. It is never wider than ``hoeffding``, and far shorter for means near 0 or 1.

    Examples
    --------
    >>> low, high = chernoff(0.99, 1000, confidence=0.95)
    >>> round(low, 3), round(high, 3)
    (0.979, 0.996)
    """
    n, risk = check_whole(n_values, "n_values", minimum=1), float(1 - check_share(confidence, "confidence"))
    if not 0 <= mean <= 1:
        raise InvalidValueError(argument="mean", must="be a number from 0 to 1", got=shown(mean))
    low = _chernoff_end(mean, math.log(2 / risk) / n)
    return Interval(low, 1.0 - _chernoff_end(1 - mean, math.log(2 / risk) / n))


def _chernoff_end(mean: float, entropy: float) -> float:
    """The largest m found, below the mean, whose relative entropy to it is at least this much."""
    low, high = 0.0, mean
    for _ in range(_ANYTIME_BISECTIONS):
        middle = (low + high) / 2
        kl = mean * math.log(mean / middle) if middle > 0 else math.inf
        kl += (1 - mean) * math.log((1 - mean) / (1 - middle)) if mean < 1 else 0.0
        low, high = (middle, high) if kl >= entropy else (low, middle)
    return low


def clopper_pearson(
    n_agreed: int, n_evaluated: int, *, confidence: float | Fraction = 0.9, side: str = "both"
) -> Interval:
    """Exact binomial interval of Clopper and Pearson.

    With probability at least ``confidence`` over ``n_evaluated`` independent draws, a number fixed in
    advance, the interval contains the true rate. ``side="lower"`` spends all the risk on the lower
    end (the upper is 1), ``side="upper"`` on the upper.

    Examples
    --------
    >>> clopper_pearson(22, 22, confidence=0.9, side="lower").low > 0.9
    True
    """
    from scipy.special import betaincinv

    k, n, delta = _checked(n_agreed, n_evaluated, confidence)
    risk = delta / 2 if check_name(side, "side", ["both", "lower", "upper"]) == "both" else delta
    low = float(betaincinv(k, n - k + 1, risk)) if k > 0 and side != "upper" else 0.0
    high = 1.0 - float(betaincinv(n - k, k + 1, risk)) if k < n and side != "lower" else 1.0
    return Interval(low, high)


def sign_test(n_for: int, n_against: int) -> float:
    """P(Bin(n, ½) ≥ n_for), n the draws of both kinds: how likely so many are if neither kind is likelier."""
    from scipy.special import betainc

    return float(betainc(n_for, n_against + 1, 0.5)) * (1 + _TAIL_ERROR) if n_for else 1.0


def anytime_interval(n_agreed: int, n_evaluated: int, *, confidence: float | Fraction = 0.9) -> Interval:
    """Interval that is valid after every draw at once: a confidence sequence.

    With probability at least ``confidence`` over independent draws, the true rate is in the intervals of
    all numbers of draws at once. So one may look after every draw, stop whenever one likes, for any
    reason, and keep the interval of that moment, or what all intervals so far have in common. That costs
    width: for one number of draws that is fixed in advance ``clopper_pearson`` is narrower.

    For draws that agree with probability p, the mixture of binomial likelihoods over a Beta(½, ½) prior,
    divided by the likelihood at p, is a non-negative martingale that begins at 1. By Ville's inequality it
    ever reaches 1/δ with probability at most δ; the rates at which it has not are the interval.

    Parameters
    ----------
    n_agreed, n_evaluated : int
        Counts so far; before the first draw nothing is known, and the interval is [0, 1].
    confidence : float
        1 - δ, strictly between 0 and 1.

    Examples
    --------
    >>> low, high = anytime_interval(24, 24, confidence=0.9)
    >>> round(low, 3), high
    (0.83, 1.0)
    """
    k, n = check_counts(n_agreed, n_evaluated, least=0)
    risk = 1 - check_share(confidence, "confidence")
    # On the side of caution: logarithms of large counts are large, and so is their rounding.
    limit = -_log(risk) + max(_LOG_ERROR, _LOG_ROUNDING * n * math.log(n + 1))
    return Interval(_anytime_end(k, n - k, limit), 1.0 - _anytime_end(n - k, k, limit))


def _anytime_end(n_for: int, n_against: int, limit: float) -> float:
    """The lower end: the largest rate found, below the observed one, at which the martingale reached its limit."""
    if n_for == 0:
        return 0.0
    n = n_for + n_against
    mixture = math.lgamma(n_for + 0.5) + math.lgamma(n_against + 0.5) - math.lgamma(n + 1) - math.log(math.pi)
    low, high = 0.0, n_for / n
    for _ in range(_ANYTIME_BISECTIONS):
        middle = (low + high) / 2
        reached = mixture - n_for * math.log(middle) - n_against * math.log1p(-middle) >= limit
        low, high = (middle, high) if reached else (low, middle)
    return low


def certified_share(n_certified: int, n_inputs: int, *, level: float, confidence: float = 0.9) -> float:
    """The share of a population that has a property, at least, when a fallible test says yes to some of a sample.

    Each of ``n_inputs`` independent inputs was tested on draws of its own, and the test says yes of an input
    without the property with probability at most ``level``. If a share π of the population has it, yes is
    said with probability at most π + level (1 - π); the lower end of Clopper and Pearson for that
    probability gives one for π. Taking the share of yeses for π would be wrong: see the tests.
    """
    k, n = check_counts(n_certified, n_inputs, names=("n_certified", "n_inputs"))
    wrong = float(check_share(level, "level"))
    low = clopper_pearson(k, n, confidence=confidence, side="lower").low
    return max(0.0, (low - wrong) / (1 - wrong))


def certified_count(n_certified: int, n_inputs: int, *, level: float, confidence: float = 0.9) -> int:
    """How many of exactly these inputs have a property, at least, when a fallible test says yes to some.

    If m of them do not have it, at least ``n_certified - (n_inputs - m)`` yeses are wrong, and the number of
    wrong yeses is at most binomial (m, level). The larger m, the less likely is that; the answer is
    ``n_inputs - m`` for the largest m that is not too unlikely at this confidence. No sample and no
    population are needed, only independent draws.
    """
    from scipy.special import betainc

    k, n = check_counts(n_certified, n_inputs, names=("n_certified", "n_inputs"))
    wrong, risk = check_share(level, "level"), 1 - check_share(confidence, "confidence")
    least = np.arange(1, k + 1)  # wrong yeses there must be if m = n - k + least lack the property
    tails = betainc(least, n - k + 1.0, float(wrong))
    likely = tails > float(risk)
    for near in np.flatnonzero(np.isclose(tails, float(risk), rtol=_TAIL_ERROR, atol=0)):
        likely[near] = _tail(n - k + int(least[near]), int(least[near]), wrong) > risk
    return int(k - np.count_nonzero(likely))


def fewest_successes(n_trials: int, share: Fraction, risk: Fraction) -> int | None:
    """How many successes show, at this risk, that their probability is larger than ``share``; None if none do.

    It is the least k with P(Bin(n_trials, share) ≥ k) ≤ risk; or the next, where floats cannot tell and sums are long.
    """
    from scipy.special import betainc

    def is_likely(k: int) -> bool:
        tail = float(betainc(k, n_trials - k + 1.0, float(share)))
        if not math.isclose(tail, float(risk), rel_tol=_TAIL_ERROR):
            return tail > float(risk)
        return n_trials > _MOST_SUMMED or _tail(n_trials, k, share) > risk

    likely, unlikely = 0, n_trials
    if is_likely(n_trials):
        return None
    while unlikely - likely > 1:
        middle = (likely + unlikely) // 2
        likely, unlikely = (middle, unlikely) if is_likely(middle) else (likely, middle)
    return unlikely


def _tail(n: int, k: int, share: Fraction) -> Fraction:
    """P(Bin(n, share) ≥ k) in whole numbers, for the rare case that floats cannot decide."""
    return 1 - sum((math.comb(n, j) * share**j * (1 - share) ** (n - j) for j in range(k)), Fraction(0))


def betting_mean(
    values: Any, *, confidence: float | Fraction = 0.95, low: float = 0.0, high: float = 1.0
) -> list[Interval]:
    """Two-sided interval for the mean of bounded numbers, by betting against every mean it leaves out.

    For independent numbers X_i in [0, 1] with mean expectation m, and any stake s in [0, 1], a gambler
    who always stakes the share s on "larger than m" turns 1 into Π(1 - s + s X_i / m), which has
    expectation at most 1 (the inequality of the means). By Markov's inequality such a capital, or the
    average of several, reaches 2/δ with probability at most δ/2; the m for which it does are left out
    below, and likewise above with 1 - X_i. Numbers that spread little are won on quickly, so the
    interval is far shorter than Hoeffding's for them. The order of the numbers does not matter, and
    they need not be identically distributed.

    Values (n,) or (n, R) are independent along the first axis, the n of them fixed in advance, and must be between
    ``low`` and ``high`` whatever happens; these are not the smallest and largest seen. One interval per column.
    """
    risk = float(1 - check_share(confidence, "confidence"))
    if not -math.inf < low < high < math.inf:
        raise InvalidValueError(argument="low", must="be less than `high`", got=f"{low!r} and {high!r}")
    must = f"be numbers from {low:g} to {high:g}, at least one"
    array = as_array(values, "values", must)
    try:
        numbers = array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidTypeError(argument="values", must=must, got="something else") from error
    if numbers.ndim not in (1, 2):
        must, got = f"{must}, of shape (n,) or (n, R)", f"an array of shape {numbers.shape}"
        raise InvalidValueError(argument="values", must=must, got=got)
    if numbers.size == 0 or not ((numbers >= low) & (numbers <= high)).all():
        raise InvalidValueError(argument="values", must=must)
    columns = (numbers.reshape(len(numbers), -1) - low) / (high - low)
    ends = zip(_least_mean(columns, risk / 2), 1 - _least_mean(1 - columns, risk / 2), strict=True)
    return [Interval(low + (high - low) * float(a), low + (high - low) * float(b)) for a, b in ends]


class BettingRounds:
    """Bets for and against every mean, round by round: an interval that may be looked at after each of them.

    Before a round a stake is fixed, and numbers Y_1, …, Y_n are announced whose expectations, given all that
    was seen, have the mean that is looked for. If that is at most m, a gambler who stakes s on "larger" turns 1
    into Π(1 + s (Y_i - m)), which has expectation at most 1: numbers that are independent have the product
    of their expectations, and that is at most their mean to the power n. The product over the rounds is then
    a supermartingale; by Ville's inequality it ever reaches 2/δ with probability at most δ/2. So the m at which
    the bets have won are left out below, and likewise above, whatever decides when rounds end and how large they are.
    """

    def __init__(self) -> None:
        self._values, self._counts, self._above, self._below = np.zeros((4, 0))

    def add(self, values: NDArray[np.float64], counts: NDArray[np.float64], *, above: float, below: float) -> None:
        """Enter a round: numbers, how often each came, and the stakes on a mean above and below.

        Stakes must leave every factor positive for every mean from 0 to 1.
        """
        if above * (1 - values.min()) >= 1 or below * values.max() >= 1:
            raise ValueError("A stake must not be lost entirely, whatever the mean.")
        stakes = np.full((2, len(values)), [[above], [below]])
        entered = np.stack([self._values, self._counts, self._above, self._below])
        entered = np.concatenate([entered, [values, counts, *stakes]], axis=1)
        self._values, self._counts, self._above, self._below = entered

    @property
    def mean(self) -> float:
        """The mean of the numbers, rounds weighed by their stakes; between 0 and 1."""
        weights = self._counts * (self._above + self._below)
        return float(min(max(weights @ self._values / weights.sum(), 0.0), 1.0))

    def log_capital(self, mean: float, *, above: bool) -> float:
        """Logarithm of what the bets on a mean above (or below) this one have made of 1."""
        won = self._above * (self._values - mean) if above else self._below * (mean - self._values)
        return float(self._counts @ np.log1p(won))

    def interval(self, risk: float) -> Interval:
        """The means against which no bet has won 2/risk."""
        goal, centre = math.log(2 / risk) + _BETTING_SLACK, self.mean
        ends = []
        for above, won in ((True, 0.0), (False, 1.0)):
            lost = centre
            for _ in range(_BISECTIONS):
                middle = (won + lost) / 2
                reached = self.log_capital(middle, above=above) >= goal
                won, lost = (middle, lost) if reached else (won, middle)
            ends.append(won)
        return Interval(*ends)


def _least_mean(values: NDArray[np.float64], risk: float) -> NDArray[np.float64]:
    """The largest mean found, per column, against which the bets reach 1/risk; capital falls as the mean grows."""
    lost, won = values.mean(axis=0), np.zeros(values.shape[1])
    goal = math.log(1 / risk) + _BETTING_SLACK
    for _ in range(_BISECTIONS):
        middle = (won + lost) / 2
        reached = _log_capital(values, np.maximum(middle, _SMALLEST_MEAN)) >= goal
        won, lost = np.where(reached, middle, won), np.where(reached, lost, middle)
    return won


def _log_capital(values: NDArray[np.float64], mean: NDArray[np.float64]) -> NDArray[np.float64]:
    """Logarithm of the average capital over stakes 0.99, 0.495, … down to about 1/√n."""
    n_stakes = 1 + math.ceil(math.log2(len(values)) / 2)
    logs = [_sum_of_logs(values * (stake / mean) + (1 - stake)) for stake in 0.99 * 0.5 ** np.arange(n_stakes)]
    return np.asarray(np.logaddexp.reduce(logs, axis=0)) - math.log(n_stakes)


def _sum_of_logs(factors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum over the first axis; eight factors are multiplied before a logarithm is taken, which is what costs."""
    n_whole = len(factors) // 8 * 8
    together = factors[:n_whole].reshape(8, n_whole // 8, factors.shape[1]).prod(axis=0)
    return np.asarray(np.log(together).sum(axis=0) + np.log(factors[n_whole:]).sum(axis=0))


def check_counts(
    n_agreed: Any,
    n_evaluated: Any,
    *,
    names: tuple[str, str] = ("n_agreed", "n_evaluated"),
    least: int = 1,
    most: int | None = _MOST_EVALUATED,
) -> tuple[int, int]:
    """Whole numbers with 0 ≤ n_agreed ≤ n_evaluated, at least ``least`` evaluated and at most ``most``, if any."""
    n = check_whole(n_evaluated, names[1], minimum=least)
    if most is not None and n > most:
        raise InvalidValueError(argument=names[1], must=f"be at most {most}", got=shown(n_evaluated))
    k = check_whole(n_agreed, names[0])
    if k > n:
        raise InvalidValueError(argument=names[0], must=f"be at most `{names[1]}` = {n}", got=k)
    return k, n


def _checked(n_agreed: Any, n_evaluated: Any, confidence: Any) -> tuple[int, int, float]:
    return *check_counts(n_agreed, n_evaluated), float(1 - check_share(confidence, "confidence"))
