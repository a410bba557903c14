"""The proof of a design against exact fractions, and against a second proof by another argument."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from holdfast.bounds import clopper_pearson
from holdfast.plans import Design
from holdfast.plans.design import ROUNDING, ROUNDING_PER_DRAW
from holdfast.plans.proof import _arcsine_bound, _Pieces, bound_miss_probability
from holdfast.plans.search import fixed_design
from tests.helpers import oracles
from tests.helpers.stopping_oracle import (
    PAPER_DESIGN_05,
    PAPER_DESIGN_10,
    SecondProof,
    bracket_supremum,
    cut_points,
    designs,
    largest_miss_beside_cuts,
    misses_beside_cuts,
    paths_of,
)

F = Fraction

SMALL = [
    (fixed_design(1), F(9, 10)),
    (fixed_design(1), F(3, 10)),
    (fixed_design(2), F(1, 10)),
    (fixed_design(9), F(1, 5)),
    (fixed_design(10), F(1, 4)),
    (fixed_design(20), F(1, 5)),
    (Design((4, 6), (0, 3)), F(1, 4)),
    (Design((2, 5, 8, 12), (0, 0, 2, 6)), F(1, 5)),
    (Design((7, 10), (0, 5)), F(3, 10)),
    (Design((11, 12, 13, 15, 16, 17, 18, 19, 20), (0, 0, 0, 1, 1, 2, 3, 5, 10)), F(1, 5)),
    (Design((5, 9, 14), (-1, 2, 7)), F(17, 100)),
    (Design((3, 6, 9), (1, 3, 4)), F(1, 3)),
]


def grid_inside_cells(paths: dict[tuple[int, int], int], tolerance: Fraction, n_points: int) -> list[Fraction]:
    cuts = cut_points(paths, tolerance)
    return [a + (b - a) * F(i, n_points + 1) for a, b in pairwise(cuts) for i in range(1, n_points + 1)]


# -- the oracle itself --------------------------------------------------------------------------------


@pytest.mark.parametrize(("design", "tolerance"), SMALL[:8])
def test_one_sided_limits_are_the_miss_probabilities_just_beside_the_cuts(design: Design, tolerance: Fraction) -> None:
    paths, tiny = paths_of(design), F(1, 10**15)
    beside = list(misses_beside_cuts(paths, tolerance))
    for (cut, left), (_, right) in zip(beside[::2], beside[1::2], strict=True):
        for limit, rate in ((left, cut - tiny), (right, cut + tiny)):
            if 0 <= rate <= 1:
                assert abs(oracles.miss_probability(paths, rate, tolerance) - limit) < F(1, 10**12)
        assert oracles.miss_probability(paths, cut, tolerance) <= max(left, right)


@pytest.mark.parametrize(("design", "tolerance"), SMALL[3:])
def test_the_exact_bracket_contains_every_rate_on_a_fine_grid(design: Design, tolerance: Fraction) -> None:
    paths = paths_of(design)
    low, high = bracket_supremum(paths, tolerance, precision=F(1, 500))
    assert 0 <= high - low <= F(1, 500)
    assert low >= largest_miss_beside_cuts(paths, tolerance)
    assert all(
        oracles.miss_probability(paths, rate, tolerance) <= high for rate in grid_inside_cells(paths, tolerance, 3)
    )


# -- the bound bounds ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("design", "tolerance"), SMALL)
@pytest.mark.parametrize("target", [1.0, 0.3, 0.1, 0.01])
def test_the_bound_is_not_exceeded_beside_any_cut_nor_inside_any_cell(
    design: Design, tolerance: Fraction, target: float
) -> None:
    paths = paths_of(design)
    bound, seen = bound_miss_probability(design, tolerance, target=target)
    truths = [miss for _, miss in misses_beside_cuts(paths, tolerance)]
    truths += [oracles.miss_probability(paths, rate, tolerance) for rate in grid_inside_cells(paths, tolerance, 4)]
    assert max(truths) <= bound
    rounding = ROUNDING + ROUNDING_PER_DRAW * design.max_draws
    assert seen - rounding - 1e-15 <= bracket_supremum(paths, tolerance, precision=F(1, 100))[1]


@given(designs(max_draws=14), st.fractions(F(1, 50), F(3, 5), max_denominator=60), st.fractions(0, 1))
@settings(max_examples=80)
def test_the_bound_of_any_design_holds_at_any_rate(design: Design, tolerance: Fraction, rate: Fraction) -> None:
    proven = bound_miss_probability(design, tolerance, target=0.2)
    assert oracles.miss_probability(paths_of(design), rate, tolerance) <= proven.bound
    assert largest_miss_beside_cuts(paths_of(design), tolerance) <= proven.bound


@pytest.mark.parametrize(("design", "tolerance"), SMALL[3:])
def test_the_bound_is_as_sharp_as_it_is_asked_to_be(design: Design, tolerance: Fraction) -> None:
    low, high = bracket_supremum(paths_of(design), tolerance, precision=F(1, 1000))
    assert high < 1
    reachable = float(high) + 1e-4
    assert bound_miss_probability(design, tolerance, target=reachable).bound <= reachable
    too_low = float(low) - 1e-6
    assert bound_miss_probability(design, tolerance, target=too_low).seen > too_low


def test_the_bound_covers_rates_above_one_half() -> None:
    design, tolerance = Design((2, 5, 8, 12), (0, 0, 2, 6)), F(1, 5)
    upper = [miss for cut, miss in misses_beside_cuts(paths_of(design), tolerance) if cut > F(1, 2)]
    assert max(upper) <= bound_miss_probability(design, tolerance, target=0.5).bound


def test_a_tolerance_is_taken_as_the_fraction_it_is() -> None:
    # At a rate of 1/2 exactly, 4 of 10 is off by 1/10 exactly: a hit at 1/10, a miss at anything smaller.
    narrower = F(1, 10) - F(1, 10**9)
    wide, narrow = (bound_miss_probability(fixed_design(70), eps, target=0.097) for eps in (F(1, 10), narrower))
    assert wide.bound <= 0.097
    assert narrow.seen > 0.1
    exact = largest_miss_beside_cuts(paths_of(fixed_design(70)), narrower)
    assert narrow.seen == pytest.approx(float(exact), abs=0.01)


@pytest.mark.parametrize("n_draws", [1, 2, 3, 4, 9, 16])
def test_the_arcsine_bound_covers_events_that_are_likeliest_between_the_ends(n_draws: int) -> None:
    # Misses are hardly ever likeliest inside a piece; the bound must not rest on that. Here K = k is the event.
    peaked = 0
    for k, (low, high) in product(range(n_draws + 1), pairwise(np.linspace(0, np.pi / 2, 4))):
        angles = np.linspace(low, high, 50)
        chances = binom.pmf(k, n_draws, np.sin(angles) ** 2)
        ends = np.array([max(chances[0], chances[-1])])
        piece = _Pieces(np.zeros(1, dtype=int), np.array([low]), np.array([high]), ends)
        assert chances.max() <= _arcsine_bound(piece, n_draws)[0] + 1e-12
        peaked += chances.max() > ends[0] + 1e-3
    assert peaked > 0 or n_draws == 1


def test_the_arcsine_bound_needs_its_full_slope() -> None:
    # One of two draws agrees with probability sin²(2θ)/2: nothing at both ends of [0, π/2], 1/2 between.
    whole = _Pieces(np.zeros(1, dtype=int), np.zeros(1), np.full(1, np.pi / 2), np.zeros(1))
    assert _arcsine_bound(whole, 2)[0] == pytest.approx(np.sin(np.sqrt(2) * np.pi / 4) ** 2, rel=1e-12)
    assert _arcsine_bound(whole, 2)[0] > 0.5


# -- designs that must fail, designs that must pass ---------------------------------------------------


@pytest.mark.parametrize("n_draws", [*range(60, 70), 73, 74])
def test_a_fixed_size_that_misses_too_often_is_rejected(n_draws: int) -> None:
    paths = paths_of(fixed_design(n_draws))
    assert largest_miss_beside_cuts(paths, F(1, 10)) > F(1, 10)
    proven = bound_miss_probability(fixed_design(n_draws), F(1, 10), target=0.1)
    assert proven.bound > 0.1
    assert proven.seen > 0.1


@pytest.mark.parametrize("n_draws", [70, 71, 72, *range(75, 90)])
def test_a_fixed_size_that_keeps_the_contract_is_proven_twice(n_draws: int) -> None:
    assert bound_miss_probability(fixed_design(n_draws), F(1, 10), target=0.1).bound <= 0.1
    assert SecondProof(paths_of(fixed_design(n_draws)), F(1, 10)).holds(F(1, 10))


def stop_when_clopper_pearson_is_narrow(tolerance: float, confidence: float) -> Design:
    """Look after every draw; stop once the interval's half-width is at most the tolerance."""
    looks, limits = [], []
    n = 0
    while not limits or limits[-1] < n // 2:
        n += 1
        narrow = [m for m in range(n // 2 + 1) if _half_width(m, n, confidence) <= tolerance]
        looks.append(n)
        limits.append(max(narrow, default=-1))
    return Design(tuple(looks), tuple(limits))


def _half_width(n_agreed: int, n_evaluated: int, confidence: float) -> float:
    low, high = clopper_pearson(n_agreed, n_evaluated, confidence=confidence)
    return (high - low) / 2


@pytest.mark.parametrize(("tolerance", "confidence", "at_least"), [(0.1, 0.9, 0.23), (0.2, 0.9, 0.2), (0.1, 0.8, 0.3)])
def test_stopping_when_clopper_pearson_looks_narrow_is_rejected(
    tolerance: float, confidence: float, at_least: float
) -> None:
    naive, eps = stop_when_clopper_pearson_is_narrow(tolerance, confidence), F(repr(tolerance))
    truth = largest_miss_beside_cuts(paths_of(naive), eps)
    assert truth > at_least > 1 - confidence
    proven = bound_miss_probability(naive, eps, target=1 - confidence)
    assert proven.bound >= truth
    assert proven.seen > 1 - confidence


def test_stopping_at_the_first_agreements_is_rejected() -> None:
    hasty = Design((21, 100), (0, 50))
    assert bound_miss_probability(hasty, F(1, 10), target=0.1).seen >= 0.9**21
    patient = Design((22, 100), (0, 50))
    assert bound_miss_probability(patient, F(1, 10), target=0.1).bound <= 0.1


PAPER = [
    (Design(*PAPER_DESIGN_10), F(1, 10), 0.0991, 0.0995, [24, 27.2, 32.8, 42.7, 61.9, 72]),
    (Design(*PAPER_DESIGN_05), F(1, 20), 0.0489, 0.0491, [65, 89.4, 124, 188.5, 310, 392]),
    (fixed_design(70), F(1, 10), 0.0959, 0.0963, [70] * 6),
    (fixed_design(390), F(1, 20), 0.0484, 0.0486, [390] * 6),
]
"""Design, tolerance, supremum, bound and expected draws at six rates, as published with the method."""


@pytest.mark.parametrize(("design", "tolerance", "supremum", "bound", "draws"), PAPER, ids=lambda v: str(v)[:20])
def test_the_designs_of_the_paper_page_have_the_numbers_it_states(
    design: Design, tolerance: Fraction, supremum: float, bound: float, draws: list[float]
) -> None:
    proven = bound_miss_probability(design, tolerance, target=bound)
    assert proven.bound <= bound
    assert proven.seen == pytest.approx(supremum, abs=5.1e-5)
    found = [design.expected_draws(rate) for rate in (1.0, 0.98, 0.95, 0.9, 0.8, 0.5)]
    half_a_unit = [0.5 if stated > 100 and float(stated).is_integer() else 0.05 for stated in draws]
    assert all(np.abs(np.subtract(found, draws)) <= half_a_unit)


@pytest.mark.parametrize(("design", "tolerance", "supremum", "bound", "draws"), PAPER, ids=lambda v: str(v)[:20])
def test_the_second_proof_agrees_on_the_designs_of_the_paper_page(
    design: Design, tolerance: Fraction, supremum: float, bound: float, draws: list[float]
) -> None:
    second = SecondProof(paths_of(design), tolerance)
    assert second.holds(F(repr(bound)))
    assert not second.holds(F(repr(supremum)) - F(1, 10**4))


@pytest.mark.parametrize(("design", "tolerance"), SMALL[3:])
def test_the_second_proof_agrees_with_exact_fractions(design: Design, tolerance: Fraction) -> None:
    low, high = bracket_supremum(paths_of(design), tolerance, precision=F(1, 1000))
    second = SecondProof(paths_of(design), tolerance)
    assert not second.holds(low - F(1, 10**6))
    assert second.holds(high + F(1, 10**6))


def test_the_largest_miss_of_the_paper_design_is_exact() -> None:
    truth = largest_miss_beside_cuts(paths_of(Design(*PAPER_DESIGN_10)), F(1, 10))
    seen = bound_miss_probability(Design(*PAPER_DESIGN_10), F(1, 10), target=0.1).seen
    assert seen == pytest.approx(float(truth), abs=2 * ROUNDING)
