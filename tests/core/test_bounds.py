"""Intervals keep their coverage, summed exactly over the binomial."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy.special import betaln
from scipy.stats import binomtest

from holdfast import HoldfastError, Interval
from holdfast.bounds import anytime_interval, betting_mean, certified_count, certified_share, clopper_pearson, hoeffding
from holdfast.errors import InvalidTypeError, InvalidValueError

F = Fraction
Bound = Callable[[int, int], Interval]

FLOAT_SLACK = F(1, 10**12)
"""The ends of an interval are floats: coverage may fall short by their rounding, no more."""

CONFIDENCES = [0.5, 0.8, 0.9, 0.95, 0.99, 0.999]
SIDES = ["both", "lower", "upper"]
N_LOOKED_AT = 150


def coverage(intervals: list[Interval], rate: Fraction) -> Fraction:
    """P(rate ∈ interval) over the binomial number of agreements, exactly."""
    n, a, b = len(intervals) - 1, rate.numerator, rate.denominator
    inside = (k for k, (low, high) in enumerate(intervals) if low <= rate <= high)
    return F(sum(math.comb(n, k) * a**k * (b - a) ** (n - k) for k in inside), b**n)


def check_bound(bound: Bound, n_evaluated: int, confidence: float) -> None:
    """Check that an interval covers every rate with at least its confidence.

    Coverage is a polynomial between two ends of intervals and jumps at them: it is summed exactly at
    every end, just beside it on both sides, and between neighbouring ends. Ends must be ordered.
    """
    intervals = [bound(k, n_evaluated) for k in range(n_evaluated + 1)]
    assert all(0.0 <= low <= k / n_evaluated <= high <= 1.0 for k, (low, high) in enumerate(intervals))
    assert [one.low for one in intervals] == sorted(one.low for one in intervals)
    assert [one.high for one in intervals] == sorted(one.high for one in intervals)
    exactly = [(F(low), F(high)) for low, high in intervals]
    ends = sorted({F(0), F(1), *(end for interval in exactly for end in interval)})
    tiny = F(1, 10**15)
    rates = {*ends, *(end + tiny for end in ends), *(end - tiny for end in ends)}
    rates |= {(a + b) / 2 for a, b in pairwise(ends)}
    least = min(coverage(exactly, rate) for rate in rates if 0 <= rate <= 1)
    assert least >= F(repr(confidence)) - FLOAT_SLACK, f"covers with probability {float(least)} only"


@pytest.mark.parametrize("n", [1, 2, 3, 7, 20, 41])
@pytest.mark.parametrize("confidence", CONFIDENCES)
@pytest.mark.parametrize("side", SIDES)
def test_clopper_pearson_covers_every_rate(n: int, confidence: float, side: str) -> None:
    check_bound(lambda k, n: clopper_pearson(k, n, confidence=confidence, side=side), n, confidence)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 20, 41])
@pytest.mark.parametrize("confidence", CONFIDENCES)
def test_hoeffding_covers_every_rate(n: int, confidence: float) -> None:
    check_bound(lambda k, n: hoeffding(k, n, confidence=confidence), n, confidence)


def wald(k: int, n: int) -> Interval:
    """The textbook normal interval, which does not keep its coverage."""
    half = 1.6449 * math.sqrt(k * (n - k) / n**3)
    return Interval(max(0.0, k / n - half), min(1.0, k / n + half))


def wilson(k: int, n: int) -> Interval:
    """Wilson's score interval, right on average only."""
    z = 1.6449
    middle, spread = k + z * z / 2, z * math.sqrt(k * (n - k) / n + z * z / 4)
    low, high = (middle - spread) / (n + z * z), (middle + spread) / (n + z * z)
    return Interval(max(0.0, min(low, k / n)), min(1.0, max(high, k / n)))


@pytest.mark.parametrize("unproven", [wald, wilson])
def test_the_check_rejects_intervals_that_only_hold_approximately(unproven: Bound) -> None:
    with pytest.raises(AssertionError, match="covers with probability"):
        check_bound(unproven, 20, 0.9)


def test_the_check_rejects_an_interval_that_is_narrower_by_a_hair() -> None:
    def narrowed(k: int, n: int) -> Interval:
        low, high = clopper_pearson(k, n, confidence=0.9, side="lower")
        return Interval(min(low * (1 + 1e-9), k / n), high)

    with pytest.raises(AssertionError, match="covers with probability"):
        check_bound(narrowed, 20, 0.9)


@pytest.mark.parametrize(("k", "n"), [(0, 22), (1, 22), (11, 22), (22, 22), (3, 1000), (999, 1000), (50_000, 100_000)])
@pytest.mark.parametrize("confidence", [0.9, 0.99])
def test_clopper_pearson_equals_scipy(k: int, n: int, confidence: float) -> None:
    # scipy.stats.binomtest(k, n).proportion_ci(confidence, method="exact")
    known = binomtest(k, n).proportion_ci(confidence, method="exact")
    assert clopper_pearson(k, n, confidence=confidence) == pytest.approx((known.low, known.high), rel=1e-9)
    for side, alternative in (("lower", "greater"), ("upper", "less")):
        known = binomtest(k, n, alternative=alternative).proportion_ci(confidence, method="exact")
        assert clopper_pearson(k, n, confidence=confidence, side=side) == pytest.approx(
            (known.low, known.high), rel=1e-9
        )


@pytest.mark.parametrize("k", range(1, 12))
def test_the_ends_of_clopper_pearson_solve_the_binomial_equations(k: int) -> None:
    n, risk = 12, 0.05
    low, high = clopper_pearson(k, n, confidence=1 - 2 * risk)
    at_least = sum(math.comb(n, j) * low**j * (1 - low) ** (n - j) for j in range(k, n + 1))
    at_most = sum(math.comb(n, j) * high**j * (1 - high) ** (n - j) for j in range(k + 1))
    assert at_least == pytest.approx(risk, rel=1e-9)
    assert at_most == pytest.approx(risk, rel=1e-9)


def test_one_side_spends_all_its_risk_on_one_end() -> None:
    both, lower, upper = (clopper_pearson(15, 20, confidence=0.9, side=side) for side in SIDES)
    assert (lower.high, upper.low) == (1.0, 0.0)
    assert lower.low > both.low
    assert upper.high < both.high
    assert lower.low == clopper_pearson(15, 20, confidence=0.8).low


def test_22_agreements_of_22_show_more_than_nine_tenths_and_21_of_21_do_not() -> None:
    assert clopper_pearson(22, 22, confidence=0.9, side="lower").low == pytest.approx(0.1 ** (1 / 22), rel=1e-12)
    assert clopper_pearson(22, 22, confidence=0.9, side="lower").low > 0.9
    assert clopper_pearson(21, 21, confidence=0.9, side="lower").low < 0.9


def test_hoeffding_has_the_half_width_of_its_inequality() -> None:
    low, high = hoeffding(500, 1000, confidence=0.9)
    half = math.sqrt(math.log(20) / 2000)
    assert (low, high) == pytest.approx((0.5 - half, 0.5 + half), rel=1e-12)
    assert hoeffding(150, 150, confidence=0.9).low > 0.9
    assert hoeffding(149, 149, confidence=0.9).low < 0.9


def test_more_confidence_never_narrows_and_more_draws_never_widen() -> None:
    for bound in (anytime_interval, clopper_pearson, hoeffding):
        widths = [high - low for low, high in (bound(30, 40, confidence=c) for c in CONFIDENCES)]
        assert widths == sorted(widths)
        widths = [high - low for low, high in (bound(3 * m, 4 * m) for m in (1, 2, 5, 20, 100))]
        assert widths == sorted(widths, reverse=True)


@pytest.mark.parametrize("bound", [clopper_pearson, hoeffding])
@pytest.mark.parametrize(
    ("k", "n", "error", "wanted"),
    [
        (3, 0, InvalidValueError, "`n_evaluated` must be a whole number ≥ 1, got 0"),
        (-1, 5, InvalidValueError, "`n_agreed` must be a whole number ≥ 0, got -1"),
        (6, 5, InvalidValueError, "`n_agreed` must be at most `n_evaluated` = 5, got 6"),
        (2.5, 5, InvalidValueError, "`n_agreed` must be a whole number ≥ 0, got 2.5"),
        (3, 10**15 + 1, InvalidValueError, "`n_evaluated` must be at most 1000000000000000, got 1000000000000001"),
        ("2", 5, InvalidTypeError, "`n_agreed` must be a whole number ≥ 0, got '2'"),
        (True, 5, InvalidTypeError, "`n_agreed` must be a whole number ≥ 0, got True"),
    ],
)
def test_counts_that_cannot_be_are_refused(
    bound: Callable[..., Interval], k: Any, n: Any, error: type[HoldfastError], wanted: str
) -> None:
    with pytest.raises(error) as caught:
        bound(k, n)
    assert wanted in str(caught.value)


@pytest.mark.parametrize("bound", [anytime_interval, clopper_pearson, hoeffding])
@pytest.mark.parametrize("confidence", [0, 1, -0.5, 2, float("nan")])
def test_a_confidence_outside_zero_and_one_is_refused(bound: Callable[..., Interval], confidence: float) -> None:
    with pytest.raises(InvalidValueError, match="`confidence` must be a number strictly between 0 and 1"):
        bound(1, 2, confidence=confidence)


def test_a_wrong_side_is_answered_with_the_nearest() -> None:
    with pytest.raises(InvalidValueError, match=r"`side` must be one of both, lower, upper, got 'low'.*'lower'\?"):
        clopper_pearson(1, 2, side="low")
    with pytest.raises(InvalidValueError, match="`side` must be one of"):
        clopper_pearson(0, 2, side="two-sided")


@cache
def betting(k: int, n: int, confidence: float) -> Interval:
    return betting_mean(np.arange(n) < k, confidence=confidence)[0]


@pytest.mark.parametrize("n", [1, 2, 3, 7, 20, 41])
@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.999])
def test_betting_covers_every_rate_of_a_coin(n: int, confidence: float) -> None:
    check_bound(lambda k, n: betting(k, n, confidence), n, confidence)


@cache
def betting_on(values: tuple[float, ...], counts: tuple[int, ...]) -> Interval:
    return betting_mean(np.repeat(values, counts), confidence=0.9)[0]


def draws_of(n: int, shares: tuple[float, ...]) -> list[tuple[tuple[int, ...], float]]:
    """Every way in which n draws can fall on the values, with its probability."""
    if len(shares) == 1:
        return [((n,), shares[0] ** n)]
    return [
        ((k, *rest), math.comb(n, k) * shares[0] ** k * probability)
        for k in range(n + 1)
        for rest, probability in draws_of(n - k, shares[1:])
    ]


@pytest.mark.parametrize("shares", [(0.2, 0.3, 0.5), (0.05, 0.05, 0.9), (0.9, 0.08, 0.02), (0.01, 0.98, 0.01)], ids=str)
@pytest.mark.parametrize("values", [(0.0, 0.5, 1.0), (0.0, 0.9, 1.0), (0.3, 0.4, 0.45)], ids=str)
def test_betting_covers_the_mean_of_three_values(shares: tuple[float, ...], values: tuple[float, ...]) -> None:
    """Summed over all outcomes of 15 draws, which is possible because their order does not matter."""
    mean, covered = sum(p * v for p, v in zip(shares, values, strict=True)), 0.0
    for counts, probability in draws_of(15, shares):
        low, high = betting_on(values, counts)
        covered += probability * (low <= mean <= high)
    assert covered >= 0.9


@pytest.mark.parametrize(("first", "second"), [(0.1, 0.9), (0.5, 1.0), (0.02, 0.3), (0.95, 0.99)])
def test_betting_covers_the_mean_of_coins_that_differ(first: float, second: float) -> None:
    """Half of the draws from one coin, half from another: their mean rate is covered."""
    n, covered = 12, 0.0
    for j in range(n + 1):
        for k in range(n + 1):
            probability = math.comb(n, j) * first**j * (1 - first) ** (n - j)
            probability *= math.comb(n, k) * second**k * (1 - second) ** (n - k)
            low, high = betting(j + k, 2 * n, 0.8)
            covered += probability * (low <= (first + second) / 2 <= high)
    assert covered >= 0.8


def test_betting_is_shorter_than_hoeffding_for_numbers_that_spread_little() -> None:
    values = np.linspace(-0.1, 0.2, 200)
    low, high = betting_mean(values, confidence=0.95, low=-1, high=1)[0]
    assert low < values.mean() < high
    assert high - low < 0.35 * 2 * 2 * math.sqrt(math.log(40) / 400)
    assert betting_mean(values[::-1], confidence=0.95, low=-1, high=1)[0] == pytest.approx((low, high), abs=1e-9)


def capital(values: list[F], mean: F) -> F:
    """The gambler's capital against a mean, in whole numbers, by its definition."""
    stakes = [F(99, 100) / 2**j for j in range(1 + math.ceil(math.log2(len(values)) / 2))]
    return sum((math.prod(1 - s + s * value / mean for value in values) for s in stakes), F(0)) / len(stakes)


@pytest.mark.parametrize("n", [1, 2, 9, 16, 33])
@pytest.mark.parametrize("confidence", ["0.5", "0.95", "0.999"])
@pytest.mark.parametrize("shape", [(0.1, 0.1), (1.0, 1.0), (20.0, 1.0)], ids=str)
def test_betting_leaves_out_no_mean_against_which_the_exact_capital_is_too_small(
    n: int, confidence: str, shape: tuple[float, float]
) -> None:
    """Both ends, in exact arithmetic; values of exactly 0 and 1 are among them."""
    values = np.random.default_rng(n).beta(*shape, size=n)
    values[: n // 2] = values[: n // 2].round()
    low, high = betting_mean(values, confidence=float(confidence))[0]
    goal = 2 / (1 - F(confidence))
    assert low == 0 or capital([F(value) for value in values], F(low)) >= goal
    assert high == 1 or capital([1 - F(value) for value in values], 1 - F(high)) >= goal
    assert low - 1e-12 < values.mean() < high + 1e-12


@pytest.mark.parametrize(
    ("values", "ends", "wanted"),
    [
        ([0.5], (0.5, 0.5), "`low` must be less than `high`, got 0.5 and 0.5"),
        ([0.5], (1.0, 0.0), "`low` must be less than `high`, got 1.0 and 0.0"),
        ([0.5], (0.0, math.inf), "`low` must be less than `high`, got 0.0 and inf"),
        ([[[0.5]]], (0.0, 1.0), r"of shape \(n,\) or \(n, R\), got an array of shape \(1, 1, 1\)"),
        (0.5, (0.0, 1.0), r"of shape \(n,\) or \(n, R\), got an array of shape \(\)"),
        (["half"], (0.0, 1.0), "`values` must be numbers from 0 to 1, at least one, got something else"),
        ([[0.5], [0.5, 0.5]], (0.0, 1.0), "got rows of unequal length"),
    ],
    ids=str,
)
def test_betting_refuses_what_it_cannot_bet_on(values: Any, ends: tuple[float, float], wanted: str) -> None:
    with pytest.raises(HoldfastError, match=wanted):
        betting_mean(values, low=ends[0], high=ends[1])


@pytest.mark.parametrize("values", [[], [0.5, 1.1], [-0.1], [math.nan]], ids=str)
def test_betting_refuses_what_is_not_bounded(values: list[float]) -> None:
    with pytest.raises(InvalidValueError, match="`values` must be numbers from 0 to 1, at least one"):
        betting_mean(values)


def test_a_tail_that_floats_cannot_tell_from_the_risk_is_summed_in_whole_numbers() -> None:
    # One certified input of one lacks the property with probability `level`, which is the risk itself: not more likely.
    assert certified_count(1, 1, level=0.1, confidence=0.9) == 1
    assert certified_count(1, 1, level=Fraction(1, 3), confidence=Fraction(2, 3)) == 1
    assert certified_count(1, 1, level=0.1, confidence=Fraction(9, 10) + Fraction(1, 10**18)) == 0


def looked_at_rates() -> list[float]:
    return sorted({*np.linspace(0.0, 1.0, 101), 0.001, 0.005, 0.995, 0.999})


def chance_of_a_miss(rate: float, confidence: float, n_draws: int) -> float:
    """P(the rate is outside the interval after some number of draws ≤ n_draws), summed over all paths."""
    alive = np.array([1.0])
    missed = 0.0
    for n in range(1, n_draws + 1):
        grown = np.zeros(n + 1)
        grown[1:] += alive * rate
        grown[:-1] += alive * (1 - rate)
        for k in np.flatnonzero(grown):
            low, high = anytime_interval(int(k), n, confidence=confidence)
            if not low <= rate <= high:
                missed += grown[k]
                grown[k] = 0.0
        alive = grown
    return missed


@pytest.mark.parametrize("confidence", [0.8, 0.9, 0.98])
def test_the_rate_is_in_all_intervals_at_once_with_the_stated_confidence(confidence: float) -> None:
    # The intervals do not depend on the rate: computed once for all rates.
    looks = [[anytime_interval(k, n, confidence=confidence) for k in range(n + 1)] for n in range(1, N_LOOKED_AT + 1)]
    lows = [np.array([interval.low for interval in intervals]) for intervals in looks]
    highs = [np.array([interval.high for interval in intervals]) for intervals in looks]
    worst = 0.0
    for rate in looked_at_rates():
        alive, missed = np.array([1.0]), 0.0
        for low, high in zip(lows, highs, strict=True):
            grown = np.append(alive * (1 - rate), 0.0) + np.append(0.0, alive * rate)
            out = (rate < low) | (rate > high)
            missed += grown[out].sum()
            alive = np.where(out, 0.0, grown)
        worst = max(worst, missed)
    assert 0 < worst <= 1 - confidence
    assert chance_of_a_miss(0.5, confidence, 40) <= 1 - confidence


def test_an_interval_for_one_number_of_draws_would_not_do() -> None:
    """The same sum for Clopper–Pearson intervals misses more often than they say: looking is what costs."""
    rate, alive, missed = 0.9, np.array([1.0]), 0.0
    for n in range(1, 101):
        grown = np.append(alive * (1 - rate), 0.0) + np.append(0.0, alive * rate)
        intervals = [clopper_pearson(k, n, confidence=0.9) for k in range(n + 1)]
        out = np.array([not one.low <= rate <= one.high for one in intervals])
        missed += grown[out].sum()
        alive = np.where(out, 0.0, grown)
    assert missed > 1 - 0.9


def evidence(k: int, n: int, rate: float) -> float:
    mixed = float(betaln(k + 0.5, n - k + 0.5) - betaln(0.5, 0.5))
    return mixed - k * math.log(rate) - (n - k) * math.log1p(-rate)


@pytest.mark.parametrize(("k", "n"), [(0, 7), (7, 7), (3, 10), (59, 60), (300, 900)])
def test_the_ends_are_where_the_martingale_reaches_its_limit(k: int, n: int) -> None:
    low, high = anytime_interval(k, n, confidence=0.9)
    limit = math.log(10)
    assert 0 <= low <= k / n <= high <= 1
    if low > 0:
        assert evidence(k, n, low - 1e-6) > limit > evidence(k, n, low + 1e-6)
    if high < 1:
        assert evidence(k, n, high + 1e-6) > limit > evidence(k, n, high - 1e-6)
    mirrored = anytime_interval(n - k, n, confidence=0.9)
    assert (1 - mirrored.high, 1 - mirrored.low) == pytest.approx((low, high))


def test_nothing_is_known_before_the_first_draw() -> None:
    assert anytime_interval(0, 0, confidence=0.9) == (0.0, 1.0)


def log_factorial(n: int) -> Decimal:
    """ln n! to forty digits, by Stirling's series for large n."""
    if n < 1000:
        return Decimal(math.factorial(n)).ln()
    x, pi = Decimal(n), Decimal("3.1415926535897932384626433832795028841971693993751058209749")
    series = 1 / (12 * x) - 1 / (360 * x**3) + 1 / (1260 * x**5) - 1 / (1680 * x**7)
    return x * x.ln() - x + (2 * pi * x).ln() / 2 + series


def exact_evidence(k: int, n: int, rate: Decimal) -> Decimal:
    """The logarithm of the martingale: the Beta integrals of halves are ratios of factorials."""
    halves = sum((log_factorial(2 * m) - m * Decimal(4).ln() - log_factorial(m) for m in (k, n - k)), Decimal(0))
    return halves - log_factorial(n) - k * rate.ln() - (n - k) * (1 - rate).ln()


@pytest.mark.parametrize("n", [1000, 30_000, 10**6, 10**9, 10**12])
@pytest.mark.parametrize("share", [0, 1e-6, 0.01, 0.5, 0.9])
def test_rounding_of_large_counts_leaves_out_no_rate_that_the_martingale_does_not(n: int, share: float) -> None:
    k = round(share * n)
    low, high = anytime_interval(k, n, confidence=0.9)
    with localcontext() as context:
        context.prec = 60
        limit = Decimal(10).ln()
        assert low == 0 or exact_evidence(k, n, Decimal(low)) >= limit
        assert exact_evidence(k, n, Decimal(high)) >= limit
    assert high - low <= 20 * math.sqrt((share + 1 / n) * (1 - share) * math.log(n) / n)


def test_a_confidence_beyond_floats_still_has_an_interval() -> None:
    low, high = anytime_interval(50, 50, confidence=1 - F(1, 10**30))
    assert (0.1 < low < 0.3, high) == (True, 1.0)


def test_certified_shares_and_counts_are_below_those_counted() -> None:
    assert certified_share(190, 200, level=0.02, confidence=0.9) == pytest.approx(0.922, abs=5e-4)
    assert certified_count(190, 200, level=0.02, confidence=0.9) == 189


def test_numbers_that_spread_little_have_a_short_interval() -> None:
    assert betting_mean(np.linspace(0.8, 1.0, 100), confidence=0.95)[0] == pytest.approx((0.852, 0.918), abs=5e-4)
