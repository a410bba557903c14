"""Counts → intervals for the rate behind them; only proven finite-sample bounds, named by theorem.

They hold for a number of draws fixed in advance. Looking at the interval to decide when to stop
voids them: stopping belongs to :mod:`holdfast.plans`.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, NamedTuple

from holdfast.errors import InvalidValueError
from holdfast.validation import check_name, check_share, check_whole


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


def hoeffding_draws(tolerance: Fraction, confidence: Fraction) -> int:
    """Draws that Theorem 1 asks for: ln(2/δ) / (2 ε²), rounded up.

    Examples
    --------
    >>> hoeffding_draws(Fraction(1, 10), Fraction(9, 10))
    150
    """
    return math.ceil(math.log(2 / (1 - confidence)) / (2 * tolerance**2))


def smallest_power_within(share: Fraction, risk: Fraction) -> int:
    """The smallest n with share**n ≤ risk, decided in whole numbers: draws that must all agree.

    Examples
    --------
    >>> smallest_power_within(Fraction(9, 10), Fraction(1, 10))
    22
    """
    n = max(1, math.floor(math.log(risk) / math.log1p(-(1 - share))) - 1)
    while share**n > risk:
        n += 1
    return n


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


def check_counts(n_agreed: Any, n_evaluated: Any) -> tuple[int, int]:
    """Whole numbers with 0 ≤ n_agreed ≤ n_evaluated and at least one evaluated."""
    n = check_whole(n_evaluated, "n_evaluated", minimum=1)
    k = check_whole(n_agreed, "n_agreed")
    if k > n:
        raise InvalidValueError(f"`n_agreed` must be at most `n_evaluated` = {n}, got {k}.")
    return k, n


def _checked(n_agreed: Any, n_evaluated: Any, confidence: Any) -> tuple[int, int, float]:
    return *check_counts(n_agreed, n_evaluated), float(1 - check_share(confidence, "confidence"))
