"""Stopping designs against exact whole numbers and fractions."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.plans import Design, cheapest_look, looks_left, rate_test
from holdfast.plans.design import Stops, probabilities
from holdfast.plans.search import fixed_design
from tests.helpers import oracles
from tests.helpers.stopping_oracle import PAPER_DESIGN_05, PAPER_DESIGN_10, designs, follow_every_sequence, paths_of

F = Fraction

TINY = [
    Design((1,), (0,)),
    Design((7,), (3,)),
    Design((8,), (8,)),
    Design((4, 6), (0, 3)),
    Design((1, 2, 3, 4, 5), (-1, 0, 0, 1, 2)),
    Design((3, 4, 9), (-1, 0, 4)),
    Design((2, 5, 8, 12), (0, 0, 2, 6)),
    Design((5, 6, 11), (1, 0, 5)),
    Design((3, 6, 9), (1, 3, 4)),
]
"""Fixed, sequential, never stopping at first, limits that fall, looks that no run reaches."""

LARGER = [Design(*PAPER_DESIGN_10), Design(*PAPER_DESIGN_05), fixed_design(70), fixed_design(390)]

RATES = [F(0), F(1, 10), F(1, 3), F(1, 2), F(9, 10), F(97, 100), F(1)]


def name(design: Design) -> str:
    return f"{len(design.looks)} looks to {design.max_draws}"


def opened_of(design: Design) -> dict[tuple[int, int], int]:
    return oracles.count_paths_that_begin_with_an_agreement(design.looks, design.limits)


def unbiased_shares(design: Design) -> dict[tuple[int, int], Fraction]:
    paths, opened = paths_of(design), opened_of(design)
    return {end: F(opened.get(end, 0), count) for end, count in paths.items()}


# -- path counts --------------------------------------------------------------------------------------


@pytest.mark.parametrize("design", TINY, ids=name)
def test_the_oracle_counts_paths_as_walking_every_sequence_does(design: Design) -> None:
    paths, opened = follow_every_sequence(design.looks, design.limits)
    assert paths_of(design) == paths
    assert opened_of(design) == opened


@pytest.mark.parametrize("design", TINY + LARGER, ids=name)
def test_path_counts_equal_exact_whole_numbers(design: Design) -> None:
    points, paths = design.terminals, paths_of(design)
    assert list(zip(points.n.tolist(), points.k.tolist(), strict=True)) == sorted(paths)
    exact = np.array([math.log(paths[end]) for end in sorted(paths)])
    # A difference of logarithms is a relative error of the counts.
    np.testing.assert_allclose(points.log_paths, exact, rtol=0, atol=1e-12)


@given(designs())
@settings(max_examples=60)
def test_path_counts_of_any_design_equal_exact_whole_numbers(design: Design) -> None:
    points, paths = design.terminals, paths_of(design)
    assert list(zip(points.n.tolist(), points.k.tolist(), strict=True)) == sorted(paths)
    exact = [math.log(paths[end]) for end in sorted(paths)]
    np.testing.assert_allclose(points.log_paths, exact, rtol=0, atol=1e-13)


def test_path_counts_of_ten_thousand_draws_are_as_accurate_as_the_proofs_assume() -> None:
    points = fixed_design(10_000).terminals
    some = range(0, 10_001, 97)
    exact = [math.log(math.comb(10_000, k)) for k in some]
    np.testing.assert_allclose(points.log_paths[list(some)], exact, rtol=0, atol=1e-10)


def test_a_design_of_thousands_of_draws_and_many_looks_loses_no_probability() -> None:
    looks = tuple(range(400, 6001, 400))
    design = Design(looks, (*(n // 40 for n in looks[:-1]), 3000))
    chances = probabilities(design.terminals, np.array([[0.0], [0.02], [0.03], [0.2], [0.5], [0.97], [1.0]]))
    np.testing.assert_allclose(chances.sum(axis=1), 1.0, rtol=0, atol=1e-10)


# -- probabilities ------------------------------------------------------------------------------------


@pytest.mark.parametrize("design", TINY, ids=name)
@pytest.mark.parametrize("rate", RATES, ids=str)
def test_every_run_ends_exactly_once(design: Design, rate: Fraction) -> None:
    assert sum(oracles.end_probabilities(paths_of(design), rate).values()) == 1
    chances = probabilities(design.terminals, np.array([[float(rate)]]))[0]
    assert chances.sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("design", [*TINY, LARGER[0], LARGER[2]], ids=name)
@pytest.mark.parametrize("rate", RATES, ids=str)
def test_probabilities_and_costs_equal_exact_fractions(design: Design, rate: Fraction) -> None:
    paths = paths_of(design)
    exact = oracles.end_probabilities(paths, rate)
    chances = probabilities(design.terminals, np.array([[float(rate)]]))[0]
    np.testing.assert_allclose(chances, [float(exact[end]) for end in sorted(exact)], rtol=1e-11, atol=1e-15)
    assert design.expected_draws(float(rate)) == pytest.approx(float(oracles.expected_draws(paths, rate)), rel=1e-12)


@pytest.mark.parametrize("design", TINY, ids=name)
@pytest.mark.parametrize("tolerance", [F(1, 10), F(1, 4), F(1, 3)], ids=str)
def test_miss_probability_equals_the_exact_fraction(design: Design, tolerance: Fraction) -> None:
    for rate in (0.0, 0.125, 0.25, 0.3, 0.5, 0.625, 0.9, 1.0):
        exact = oracles.miss_probability(paths_of(design), F(rate), tolerance)
        assert design.miss_probability(rate, tolerance) == pytest.approx(float(exact), abs=1e-12)


def test_a_rate_at_exactly_the_tolerance_is_no_miss() -> None:
    design = fixed_design(4)
    assert design.miss_probability(0.5, F(1, 4)) == pytest.approx(2 / 16, abs=1e-15)
    assert design.miss_probability(0.5, F(1, 4) - F(1, 10**12)) == pytest.approx(10 / 16, abs=1e-15)


# -- the unbiased rate --------------------------------------------------------------------------------


@pytest.mark.parametrize("design", TINY + LARGER, ids=name)
def test_the_unbiased_rate_is_the_share_of_paths_that_begin_with_an_agreement(design: Design) -> None:
    for (n, k), share in unbiased_shares(design).items():
        assert design.unbiased_rate(n, k) == pytest.approx(float(share), rel=1e-11, abs=1e-300)


@pytest.mark.parametrize("design", TINY, ids=name)
def test_the_mean_of_the_unbiased_rate_is_the_rate_as_a_polynomial(design: Design) -> None:
    # Both sides are polynomials of degree at most N in the rate: equal at N + 1 points, equal everywhere.
    paths, shares = paths_of(design), unbiased_shares(design)
    for i in range(design.max_draws + 1):
        rate = F(i, design.max_draws)
        assert sum(p * shares[end] for end, p in oracles.end_probabilities(paths, rate).items()) == rate


@pytest.mark.parametrize("design", LARGER, ids=name)
def test_the_mean_of_the_unbiased_rate_is_exactly_the_rate_for_larger_designs(design: Design) -> None:
    paths, shares = paths_of(design), unbiased_shares(design)
    for rate in (F(1, 7), F(1, 2), F(9, 10), F(99, 100)):
        assert sum(p * shares[end] for end, p in oracles.end_probabilities(paths, rate).items()) == rate


@given(designs(), st.fractions(0, 1, max_denominator=30))
@settings(max_examples=60)
def test_the_mean_of_the_unbiased_rate_is_the_rate_for_any_design(design: Design, rate: Fraction) -> None:
    points = design.terminals
    chances = probabilities(points, np.array([[float(rate)]]))[0]
    values = [design.unbiased_rate(int(n), int(k)) for n, k in zip(points.n, points.k, strict=True)]
    assert chances @ values == pytest.approx(float(rate), abs=1e-12)


def test_the_plain_rate_of_a_stopped_run_is_biased() -> None:
    paths = paths_of(LARGER[0])
    rate = F(9, 10)
    mean = sum(p * F(k, n) for (n, k), p in oracles.end_probabilities(paths, rate).items())
    assert F(1, 100) < mean - rate < F(3, 100)


@pytest.mark.parametrize("n_draws", [1, 7, 70])
def test_the_unbiased_rate_of_a_fixed_number_of_draws_is_the_plain_rate(n_draws: int) -> None:
    design = fixed_design(n_draws)
    assert [design.unbiased_rate(n_draws, k) for k in range(n_draws + 1)] == [k / n_draws for k in range(n_draws + 1)]


@pytest.mark.parametrize("design", [*TINY, LARGER[0]], ids=name)
def test_the_unbiased_rate_is_a_share_and_symmetric(design: Design) -> None:
    for n, k in paths_of(design):
        rate = design.unbiased_rate(n, k)
        assert 0.0 <= rate <= 1.0
        assert design.unbiased_rate(n, n - k) == pytest.approx(1 - rate, abs=1e-12)


@pytest.mark.parametrize(("n", "k"), [(4, 2), (5, 0), (6, 0), (7, 3), (4, 5), (4, -1)])
def test_the_unbiased_rate_of_a_point_where_no_run_ends_is_refused(n: int, k: int) -> None:
    with pytest.raises(ValueError, match="cannot stop at"):
        Design((4, 6), (0, 3)).unbiased_rate(n, k)


@pytest.mark.parametrize(("n", "k"), [(5, 7), (5, -1), (4, 2)])
def test_the_unbiased_rate_of_counts_a_fixed_design_cannot_give_is_refused(n: int, k: int) -> None:
    with pytest.raises(ValueError, match="cannot stop at"):
        fixed_design(5).unbiased_rate(n, k)


# -- stopping -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("design", TINY, ids=name)
def test_a_run_stops_where_the_minority_is_small_enough(design: Design) -> None:
    for n, limit in zip(design.looks, design.limits, strict=True):
        assert [design.stops(n, k) for k in range(n + 1)] == [k <= limit or n - k <= limit for k in range(n + 1)]
    assert all(design.stops(design.max_draws, k) for k in range(design.max_draws + 1))


@pytest.mark.parametrize("design", TINY, ids=name)
def test_a_run_cannot_stop_between_looks(design: Design) -> None:
    for before, after in pairwise((0, *design.looks)):
        for n in range(before + 1, after):
            with pytest.raises(ValueError, match="not in"):
                design.stops(n, 0)


@pytest.mark.parametrize(
    ("looks", "limits"),
    [
        ((), ()),
        ((5,), ()),
        ((5, 6), (3,)),
        ((0, 5), (0, 2)),
        ((-3,), (2,)),
        ((5, 5), (0, 2)),
        ((6, 5), (0, 2)),
        ((6,), (2,)),
        ((4, 7), (2, 2)),
    ],
)
def test_what_is_no_design_is_refused(looks: tuple[int, ...], limits: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"design needs|must be increasing|last look must stop"):
        Design(looks, limits)


def test_designs_are_values() -> None:
    one, same, other = Design((4, 6), (0, 3)), Design((4, 6), (0, 3)), Design((4, 6), (1, 3))
    assert one.expected_draws(0.5) == pytest.approx(5.75)  # what is remembered on the way is no part of the value
    assert one == same
    assert hash(one) == hash(same)
    assert one != other
    with pytest.raises(AttributeError):
        one.looks = (4, 7)  # type: ignore[misc]


def test_paths_of_millions_of_draws_are_not_counted() -> None:
    with pytest.raises(ValueError, match="at most 100000 draws"):
        Design(looks=(5, 10**9), limits=(0, 10**9)).expected_draws(0.5)


# -- looks that can end a run -------------------------------------------------------------------------


def check_looks_left(looks: tuple[int, ...], stops: Stops) -> None:
    """Against every count that can be reached from every count that goes on."""
    for n in (0, *looks[:-1]):
        for n_agreed in range(n + 1):
            if n and stops(n, n_agreed):
                continue
            later = [look for look in looks if look > n]
            counts = {look: range(n_agreed, n_agreed + look - n + 1) for look in later}
            ending = [look for look in later if any(stops(look, count) for count in counts[look])]
            first = ending[0] if ending else later[-1]
            assert looks_left(looks, stops, n, n_agreed) == [look for look in later if look >= first]


@pytest.mark.parametrize("design", [*TINY, *LARGER], ids=name)
def test_looks_are_left_out_only_where_no_run_can_end(design: Design) -> None:
    check_looks_left(design.looks, design.stops)


@given(designs())
def test_looks_are_left_out_only_where_no_run_can_end_in_any_design(design: Design) -> None:
    check_looks_left(design.looks, design.stops)


@pytest.mark.parametrize(("min_rate", "confidence"), [(0.9, 0.9), (0.5, 0.99), (0.75, 0.95), (0.1, 0.9)])
def test_looks_are_left_out_only_where_no_test_can_answer(min_rate: float, confidence: float) -> None:
    test = rate_test(min_rate, confidence)
    check_looks_left(test.looks, lambda n, n_agreed: test.answer(n, n_agreed) is not None)


# -- looks that are computed together -----------------------------------------------------------------


def chance_of(n: int, n_agreed: int, next_agrees: bool) -> Fraction:
    """That the next draw agrees or not, if the rate has Jeffreys' prior and so many draws agreed."""
    return (n_agreed if next_agrees else n - n_agreed) * F(1) / (n + 1) + F(1, 2) / (n + 1)


def least_cost(design: Design, n: int, n_agreed: int, rows_per_call: int, first: int | None = None) -> Fraction:
    """Mean cost in rows of a run from here on, draw by draw, with the best calls, or with this first call."""

    def go(n: int, n_agreed: int, until: int) -> Fraction:
        """From draw n on, which is computed already up to a look."""
        if n in design.looks and design.stops(n, n_agreed):
            return F(0)
        if n == until:
            return least_cost(design, n, n_agreed, rows_per_call)
        return sum(chance_of(n, n_agreed, agrees) * go(n + 1, n_agreed + agrees, until) for agrees in (False, True))

    def cost(look: int) -> Fraction:
        after = sum(chance_of(n, n_agreed, agrees) * go(n + 1, n_agreed + agrees, look) for agrees in (False, True))
        return rows_per_call + look - n + after

    return cost(first) if first is not None else min(cost(look) for look in design.looks if look > n)


@pytest.mark.parametrize("rows_per_call", [0, 1, 3, 24])
@pytest.mark.parametrize("design", [design for design in TINY if design.max_draws <= 8], ids=name)
def test_the_cheapest_look_costs_least_on_average_over_all_rates(design: Design, rows_per_call: int) -> None:
    reached = [(0, 0)] + [(n, k) for n in design.looks[:-1] for k in range(n + 1) if not design.stops(n, k)]
    for n, k in reached:
        look = cheapest_look(design, n, k, rows_per_call)
        assert look in design.looks
        assert look > n
        assert least_cost(design, n, k, rows_per_call, look) == least_cost(design, n, k, rows_per_call)


def test_of_a_design_of_many_draws_later_looks_go_along_while_they_take_no_longer_than_a_call() -> None:
    design = Design((100, 200, 300, 400), (0, 1, 2, 200))
    assert [cheapest_look(design, 100, 50, rows) for rows in (0, 99, 100, 250)] == [200, 200, 300, 400]
    assert [cheapest_look(design, 0, 0, rows) for rows in (0, 200)] == [100, 300]
