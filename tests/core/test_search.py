"""The search for designs: the smallest fixed size, and sequential designs that are cheap and proven."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from holdfast.plans import Design, search
from holdfast.plans.search import Goal, fixed_design, search_fixed, search_sequential
from tests.helpers.stopping_oracle import (
    SecondProof,
    bracket_supremum,
    largest_miss_beside_cuts,
    paths_of,
    worst_fixed_rate,
)

F = Fraction


def goal(tolerance: str, risk: str) -> Goal:
    return Goal(F(tolerance), F(risk))


def fails_exactly(n_draws: int, asked: Goal) -> bool:
    """Whether n_draws draws are shown, in whole numbers, to miss too often at some rate."""
    rate = F(round(worst_fixed_rate(n_draws, asked.tolerance)[0] * 10**9), 10**9)
    hit, miss = rate.numerator, rate.denominator - rate.numerator
    missed = [k for k in range(n_draws + 1) if abs(F(k, n_draws) - rate) > asked.tolerance]
    weight = sum(math.comb(n_draws, k) * hit**k * miss ** (n_draws - k) for k in missed)
    return weight > asked.risk * rate.denominator**n_draws


# -- fixed sizes --------------------------------------------------------------------------------------


def test_the_smallest_fixed_size_at_one_tenth_is_seventy_and_every_smaller_one_fails() -> None:
    assert search_fixed(goal("0.1", "0.1")) == fixed_design(70)
    for n in range(1, 70):
        assert fails_exactly(n, goal("0.1", "0.1")), n


def test_the_smallest_fixed_size_at_one_twentieth_is_390_and_every_smaller_one_fails() -> None:
    assert search_fixed(goal("0.05", "0.05")) == fixed_design(390)
    for n in range(1, 390):
        assert fails_exactly(n, goal("0.05", "0.05")), n


def test_which_fixed_sizes_are_valid_is_not_monotone() -> None:
    proven = {n for n in range(60, 90) if goal("0.1", "0.1").is_proven_for(fixed_design(n))}
    assert proven == {70, 71, 72, *range(75, 90)}


@pytest.mark.parametrize(
    ("tolerance", "risk"), [("0.3", "0.1"), ("0.3", "0.3"), ("0.25", "0.05"), ("0.2", "0.2"), ("0.4", "0.01")]
)
def test_the_smallest_fixed_size_is_the_first_that_exact_fractions_allow(tolerance: str, risk: str) -> None:
    asked = goal(tolerance, risk)
    n = 1
    while largest_miss_beside_cuts(paths_of(fixed_design(n)), asked.tolerance) > asked.risk:
        n += 1
    found = search_fixed(asked)
    assert found == fixed_design(n)
    assert bracket_supremum(paths_of(found), asked.tolerance, precision=F(1, 10**4))[1] <= asked.risk + F(1, 10**4)


@pytest.mark.parametrize(("tolerance", "risk"), [("0.1", "0.1"), ("0.05", "0.05"), ("0.3", "0.01"), ("0.02", "0.2")])
def test_no_run_of_agreements_may_stop_before_its_probability_is_at_most_the_risk(tolerance: str, risk: str) -> None:
    asked = goal(tolerance, risk)
    first = asked.first_possible_stop
    assert (1 - asked.tolerance) ** first <= asked.risk < (1 - asked.tolerance) ** (first - 1)


def test_the_first_possible_stop_at_one_tenth_is_22() -> None:
    assert goal("0.1", "0.1").first_possible_stop == 22


# -- sequential designs -------------------------------------------------------------------------------

UNSHIPPED = [("0.15", "0.15"), ("0.3", "0.05"), ("0.25", "0.01"), ("0.4", "0.001"), ("0.9", "0.5"), ("0.17", "0.31")]


@pytest.mark.parametrize(("tolerance", "risk"), UNSHIPPED)
def test_a_searched_design_is_proven_twice_and_costs_no_more_than_the_fixed_size(tolerance: str, risk: str) -> None:
    asked = goal(tolerance, risk)
    found, fixed = search_sequential(asked), search_fixed(asked)
    assert asked.is_proven_for(found)
    assert SecondProof(paths_of(found), asked.tolerance).holds(asked.risk)
    for rate in (1.0, 0.98, 0.9):
        assert found.expected_draws(rate) <= fixed.max_draws


def test_a_searched_design_saves_draws_where_the_rate_is_high() -> None:
    asked = goal("0.15", "0.15")
    found, fixed = search_sequential(asked), search_fixed(asked)
    assert found.expected_draws(1.0) <= asked.first_possible_stop + 1
    assert found.expected_draws(1.0) < 0.6 * fixed.max_draws
    assert found.expected_draws(0.9) < 0.9 * fixed.max_draws


def test_the_search_finds_the_same_design_every_time() -> None:
    asked = goal("0.2", "0.15")
    before = np.random.get_state()[1].tolist()  # noqa: NPY002 - the global generator must be left alone
    assert search_sequential(asked) == search_sequential(asked)
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002


def test_a_design_is_not_proven_for_a_goal_that_it_misses() -> None:
    found = search_sequential(goal("0.2", "0.2"))
    assert goal("0.2", "0.2").is_proven_for(found)
    assert not goal("0.2", "0.1").is_proven_for(found)
    assert not goal("0.15", "0.2").is_proven_for(found)


def test_the_search_ends_with_a_design_even_when_the_risk_is_tiny() -> None:
    asked = goal("0.4", "1e-7")
    found = search_sequential(asked)
    assert asked.is_proven_for(found)
    assert largest_miss_beside_cuts(paths_of(found), asked.tolerance) <= asked.risk


def test_a_start_that_only_the_screen_lets_through_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = goal("0.3", "0.05")
    usual, tried = search_sequential(asked, effort=0.1), []
    monkeypatch.setattr(Goal, "is_proven_for", _telling(tried))
    # A screen of four times the risk lets through what no proof does.
    monkeypatch.setattr(search, "_MARGINS", (-3.0, *search._MARGINS))
    assert search_sequential(asked, effort=0.1) == usual
    assert [answer for design, answer in tried if len(design.looks) > 1][:3] == [False, False, True]


def _telling(tried: list[tuple[Design, bool]]) -> Callable[[Goal, Design], bool]:
    """The proof, which also enters what it was asked and what it said."""
    proof = Goal.is_proven_for

    def is_proven_for(self: Goal, design: Design) -> bool:
        tried.append((design, proof(self, design)))
        return tried[-1][1]

    return is_proven_for
