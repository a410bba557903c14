"""One-sided sequential tests of "the rate is at least t", in exact fractions."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from holdfast import HoldfastError
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.plans import rate_test
from holdfast.plans.decision import smallest_power_within
from tests.helpers.stopping_oracle import Answers

F = Fraction

SETTINGS: list[tuple[float, float, int | None]] = [
    (0.9, 0.9, None),
    (0.95, 0.95, None),
    (0.9, 0.999, None),
    (0.75, 0.99, None),
    (0.5, 0.5, None),
    (0.5, 0.99, None),
    (0.1, 0.9, None),
    (0.01, 0.9, None),
    (0.01, 0.999999, None),
    (0.8, 0.01, None),
    (0.123, 0.877, None),
    (0.9, 0.9, 22),
    (0.9, 0.9, 23),
    (0.9, 0.9, 100),
]
SLOW = [pytest.param(0.98, 0.9, None, marks=pytest.mark.slow)]


def grid(t: Fraction) -> list[Fraction]:
    """Rational rates over [0, 1] with the threshold among them."""
    return sorted({F(i, 12) for i in range(13)} | {t, t - t / 20, t + (1 - t) / 20})


# -- the guarantee ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("min_rate", "confidence", "max_draws"), SETTINGS + SLOW)
def test_false_answers_are_no_more_likely_than_the_risk(
    min_rate: float, confidence: float, max_draws: int | None
) -> None:
    t, risk = F(repr(min_rate)), 1 - F(repr(confidence))
    answers = Answers(rate_test(min_rate, confidence, max_draws))
    yes, no, _, _ = answers.at(t)
    assert yes <= risk
    assert no <= risk
    assert yes > risk / 2 or min_rate < 0.1  # the risk is used, not wasted
    below, above = t * F(99, 100), t + (1 - t) * F(1, 100)
    assert answers.at(below)[0] <= risk
    assert answers.at(above)[1] <= risk


@pytest.mark.parametrize(("min_rate", "confidence", "max_draws"), SETTINGS)
def test_a_higher_rate_makes_yes_likelier_and_no_less_likely(
    min_rate: float, confidence: float, max_draws: int | None
) -> None:
    answers = Answers(rate_test(min_rate, confidence, max_draws))
    found = [answers.at(rate) for rate in grid(F(repr(min_rate)))]
    yes, no = [one[0] for one in found], [one[1] for one in found]
    assert yes == sorted(yes)
    assert no == sorted(no, reverse=True)
    assert all(sum(one[:3]) == 1 for one in found)
    assert (yes[0], yes[-1]) == (0, 1)


@pytest.mark.parametrize(("min_rate", "confidence", "max_draws"), SETTINGS + SLOW)
def test_the_earliest_yes_takes_three_fifths_of_the_risk_where_the_budget_allows(
    min_rate: float, confidence: float, max_draws: int | None
) -> None:
    t, risk = F(repr(min_rate)), 1 - F(repr(confidence))
    test = rate_test(min_rate, confidence, max_draws)
    first = test.fewest_for_yes
    assert test.answer(first, first) is True
    assert t**first <= (risk if first == max_draws else risk * F(3, 5))
    assert first == 1 or t ** (first - 1) > risk * F(3, 5)
    assert test.max_draws == (max_draws or test.max_draws)


def test_twenty_two_agreements_show_nine_tenths_if_no_more_can_be_drawn() -> None:
    assert rate_test(0.9, 0.9, 22).answer(22, 22) is True
    assert rate_test(0.9, 0.9).fewest_for_yes == 27


def test_bad_rates_are_told_after_a_handful_of_draws() -> None:
    test = rate_test(0.9, 0.9)
    assert test.looks[0] == 6
    assert test.answer(6, 6) is None
    assert test.answer(6, 3) is False
    assert Answers(test).at(F(1, 2))[3] < 11


BEFORE = {
    # python -m benchmarks limits: draws at 1, and one, two and a half fifths of the way down to the threshold, when the
    # earliest yes took all the risk
    (0.9, 0.9): (22, 68.8, 172.9, 268.2),
    (0.95, 0.95): (59, 170.1, 444.5, 667.9),
}


@pytest.mark.parametrize(("threshold", "sure"), BEFORE)
def test_waiting_a_little_for_the_earliest_yes_saves_draws_at_rates_below_one(threshold: float, sure: float) -> None:
    answers, gap = Answers(rate_test(threshold, sure)), 1 - F(repr(threshold))
    at_one, *others = (answers.at(1 - gap * part) for part in (F(0), F(1, 5), F(2, 5), F(1, 2)))
    before, *befores = BEFORE[threshold, sure]
    assert before < at_one[3] < 1.25 * before
    for draws, earlier in zip(others, befores, strict=True):
        assert draws[3] < 0.81 * earlier
    assert others[-1][0] > F(97, 100)


def test_a_rate_halfway_to_one_or_well_below_is_told_with_high_probability() -> None:
    answers = Answers(rate_test(0.9, 0.9))
    assert answers.at(F(95, 100))[0] > F(98, 100)
    assert answers.at(F(95, 100))[1] < F(1, 200)
    assert answers.at(F(80, 100))[1] > F(99, 100)


@pytest.mark.parametrize(("min_rate", "max_draws"), [(0.997, 800), (0.999, 2500), (0.9973, 900), (0.9, 25)])
def test_a_budget_just_above_the_least_can_say_yes(min_rate: float, max_draws: int) -> None:
    test = rate_test(min_rate, 0.9, max_draws)
    assert test.fewest_for_yes == max_draws
    assert F(repr(min_rate)) ** max_draws <= F(1, 10)


def test_a_larger_budget_tells_more() -> None:
    few, many = (Answers(rate_test(0.9, 0.9, max_draws)).at(F(95, 100)) for max_draws in (60, 600))
    assert few[2] > many[2]
    assert few[0] < many[0]


# -- exact probabilities ------------------------------------------------------------------------------


@pytest.mark.parametrize(("min_rate", "confidence", "max_draws"), [(0.6, 0.6, 9), (0.3, 0.8, 12), (0.75, 0.5, 11)])
@pytest.mark.parametrize("rate", [F(0), F(1, 3), F(3, 5), F(9, 10), F(1)], ids=str)
def test_probabilities_and_costs_equal_following_every_sequence(
    min_rate: float, confidence: float, max_draws: int, rate: Fraction
) -> None:
    test = rate_test(min_rate, confidence, max_draws)
    outcome: dict[bool | None, Fraction] = {True: F(0), False: F(0), None: F(0)}
    draws = F(0)
    for sequence in product((0, 1), repeat=max_draws):
        p = rate ** sum(sequence) * (1 - rate) ** (max_draws - sum(sequence))
        for n in test.looks:
            said = test.answer(n, sum(sequence[:n]))
            if said is not None or n == max_draws:
                outcome[said] += p
                draws += n * p
                break
    yes, no, _, expected = Answers(test).at(rate)
    assert (yes, no) == (outcome[True], outcome[False])
    assert float(expected) == pytest.approx(float(draws), rel=1e-15)


@pytest.mark.parametrize(("min_rate", "confidence", "max_draws"), SETTINGS)
def test_no_count_is_both_yes_and_no(min_rate: float, confidence: float, max_draws: int | None) -> None:
    test = rate_test(min_rate, confidence, max_draws)
    assert len(test.looks) == len(test.yes_at_most) == len(test.no_at_least)
    assert list(test.looks) == sorted(set(test.looks))
    assert all(few < many for few, many in zip(test.yes_at_most, test.no_at_least, strict=True))


def test_a_test_can_only_answer_at_its_looks() -> None:
    with pytest.raises(ValueError, match="not in"):
        rate_test(0.9, 0.9).answer(23, 23)


def test_decimals_mean_what_they_say() -> None:
    # 0.9 is 9/10 here, not the nearest binary fraction, which is larger.
    assert rate_test(0.9, 0.9).min_rate == F(9, 10)
    assert rate_test(0.9, 0.9) == rate_test(F(9, 10), F(9, 10)) == rate_test(np.float64(0.9), 0.9)


@pytest.mark.parametrize(
    ("share", "risk"), [(F(9, 10), F(1, 10)), (F(1, 2), F(1, 8)), (F(1, 2), F(1, 2)), (F(1, 100), F(9, 10))]
)
def test_the_smallest_power_is_found_in_whole_numbers(share: Fraction, risk: Fraction) -> None:
    n = smallest_power_within(share, risk)
    assert share**n <= risk
    assert n == 1 or share ** (n - 1) > risk


@pytest.mark.parametrize("n", [1, 2, 3, 10, 50, 200])
@pytest.mark.parametrize("share", [F(1, 2), F(9, 10), F(99, 100), F(1, 3)], ids=str)
def test_the_smallest_power_is_found_when_equality_holds(share: Fraction, n: int) -> None:
    assert smallest_power_within(share, share**n) == n
    assert smallest_power_within(share, share**n * F(10**9 - 1, 10**9)) == n + 1


@pytest.mark.slow
@pytest.mark.parametrize("min_rate", ["0.99", "0.995", "0.999"])
def test_a_threshold_near_one_is_answered_within_a_minute(min_rate: str) -> None:
    # In a process of its own, so that weights of a hundred thousand digits fail and do not hang.
    code = f"from holdfast.plans import rate_test; print(rate_test({min_rate}, 0.9).fewest_for_yes)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert F(min_rate) ** int(done.stdout) <= F(6, 100) < F(min_rate) ** (int(done.stdout) - 1)


# -- bad input ----------------------------------------------------------------------------------------

NOT_A_SHARE = [
    *((value, InvalidValueError) for value in (0, 1, 0.0, 1.0, -0.1, 1.5, float("nan"), 90)),
    *((value, InvalidTypeError) for value in ("0.9", None, True, 0.9j, [0.9], np.array([0.9]))),
]


@pytest.mark.parametrize(("bad", "error"), NOT_A_SHARE, ids=str)
def test_a_threshold_or_confidence_that_is_no_share_is_refused(bad: Any, error: type[HoldfastError]) -> None:
    with pytest.raises(error, match="`min_rate` must be a number strictly between 0 and 1, got "):
        rate_test(bad, 0.9)
    with pytest.raises(error, match="`confidence` must be a number strictly between 0 and 1, got "):
        rate_test(0.9, bad)


@pytest.mark.parametrize(("bad", "error"), [(0, InvalidValueError), (2.5, InvalidValueError), ("30", InvalidTypeError)])
def test_a_budget_that_is_no_whole_number_is_refused(bad: Any, error: type[HoldfastError]) -> None:
    with pytest.raises(error, match="`max_draws` must be a whole number ≥ 1, got "):
        rate_test(0.9, 0.9, bad)


@pytest.mark.parametrize("max_draws", [1, 21])
def test_a_budget_too_small_to_ever_say_yes_is_refused(max_draws: int) -> None:
    with pytest.raises(InvalidValueError, match=f"`max_draws` must be at least 22 to ever answer yes, got {max_draws}"):
        rate_test(0.9, 0.9, max_draws)
