"""Pooled draws: uniform on each radius's own neighbourhood, independent, shared, and never paid twice."""

from __future__ import annotations

import tracemalloc
from fractions import Fraction
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import Evaluator, certify, certify_radii, mask_function
from holdfast.certification.reference import draw_all
from holdfast.certification.shared_draws import MaskLists
from holdfast.distributions import Bernoulli
from holdfast.neighborhood import Additions
from holdfast.plans import make_plan
from holdfast.types import Masks
from tests.helpers.contracts import LEAST_P_VALUE, bits, chi_square
from tests.helpers.fakes import Recorded, label_table, score_table
from tests.helpers.hardest import ring_sizes
from tests.helpers.oracles import answer, neighbors
from tests.helpers.pooled_draws import drawn_by_a_curve, drawn_from_a_pool, in_order

SMALL = {"additions": "0100100", "removals": "1011110", "swaps": "110010"}
"""Explanations with 5, 5 and 3 distances beyond zero: at most 32 masks."""

TWELVE = {"additions": "000100000100", "removals": "111111101111", "swaps": "010110001110"}
"""Explanations of 12 features whose larger radii must be sampled."""

DESIGN = make_plan("sequential", tolerance=0.1, confidence=0.9).design

kinds = pytest.mark.parametrize("kind", SMALL)


def sizes_of(masks: Masks, selected: Any, kind: str) -> list[int]:
    n_changed = (masks != selected).sum(axis=1)
    return (n_changed // 2 if kind == "swaps" else n_changed).tolist()


def cells_of(drawn: Masks, truth: set[tuple[bool, ...]]) -> Any:
    """The place of each draw among all masks of its neighbourhood; fails for a mask that is not one."""
    places = {mask: place for place, mask in enumerate(sorted(truth))}
    return np.array([places[tuple(mask)] for mask in drawn.tolist()])


def uniform_p_value(cells: Any, n_cells: int) -> float:
    return chi_square(np.bincount(cells, minlength=n_cells), np.full(n_cells, len(cells) / n_cells))


# -- uniform and independent ------------------------------------------------------------------------


@kinds
def test_every_radius_draws_uniformly_from_its_own_neighborhood(kind: str) -> None:
    selected = bits(SMALL[kind])
    largest = len(ring_sizes(selected, kind)) - 1
    looks = {radius: (7, 100 + radius, 1_000, 4_000) for radius in range(1, largest + 1)}
    drawn = drawn_from_a_pool(selected, looks, kind=kind)
    for radius in looks:
        truth = neighbors(selected, radius, kind)
        assert len(drawn[radius]) == 4_000
        p_value = uniform_p_value(cells_of(drawn[radius], truth), len(truth))
        assert p_value > LEAST_P_VALUE, f"radius {radius} is not uniform: p = {p_value:.1e}"


@pytest.mark.parametrize("lag", [1, 2, 5])
def test_draws_of_one_radius_are_independent_of_earlier_ones(lag: int) -> None:
    selected = bits("1000")
    drawn = drawn_from_a_pool(selected, dict.fromkeys((1, 2, 3), (50, 12_000)), seed=lag)
    for radius, masks in drawn.items():
        truth = neighbors(selected, radius)
        cells = cells_of(masks, truth)
        # Blocks of 2·lag draws: each draw is used in one pair only, so that the pairs are independent.
        blocks = cells[: len(cells) // (2 * lag) * 2 * lag].reshape(-1, 2, lag)
        pairs = blocks[:, 0].ravel() * len(truth) + blocks[:, 1].ravel()
        p_value = uniform_p_value(pairs, len(truth) ** 2)
        assert p_value > LEAST_P_VALUE, f"radius {radius}: p = {p_value:.1e}"


def test_lists_of_different_sizes_are_independent() -> None:
    # Cut from the same orders, their first masks would be nested, and two draws of one radius dependent.
    selected, wanted = bits("10000"), np.array([0, 1, 1, 1, 0])
    firsts = []
    for seed in range(1_000):
        lists = MaskLists(
            Additions(selected, 4), lambda purpose, seed=seed: np.random.default_rng([seed, *purpose.encode()])
        )
        firsts.append(lists.extend(wanted))
    by_size = np.stack(firsts, axis=1)
    cells = [cells_of(masks, neighbors(selected, 0, exactly=k)) for k, masks in zip((1, 2, 3), by_size, strict=True)]
    for (one, n_one), (other, n_other) in combinations(zip(cells, (4, 6, 4), strict=True), 2):
        assert uniform_p_value(one * n_other + other, n_one * n_other) > LEAST_P_VALUE


def test_the_draws_of_a_curve_are_uniform_over_seeds() -> None:
    selected, radii, seen = bits("10000"), (1, 2, 3, 4), {1: [], 2: [], 3: [], 4: []}
    for seed in range(220):
        for radius, masks in drawn_by_a_curve(selected, radii, (2, 4), seed=seed).items():
            seen[radius].append(masks)
    for radius in radii:
        truth = neighbors(selected, radius)
        first, fourth = (np.array([masks[j] for masks in seen[radius]]) for j in (0, 3))
        for drawn in (first, fourth, np.concatenate(seen[radius])):
            assert uniform_p_value(cells_of(drawn, truth), len(truth)) > LEAST_P_VALUE


@kinds
def test_a_smaller_radius_keeps_the_size_of_a_larger_one_wherever_it_fits(kind: str) -> None:
    selected = bits(TWELVE[kind])
    rings = ring_sizes(selected, kind)
    drawn = drawn_by_a_curve(selected, range(1, len(rings)), (3, 400), seed=5, kind=kind)
    assert len(drawn) >= 3
    sizes = {radius: np.array(sizes_of(masks, selected, kind)) for radius, masks in drawn.items()}
    for small, large in combinations(sorted(sizes), 2):
        fits = sizes[large] <= small
        assert (sizes[small] == sizes[large])[fits].all()
        # The size fits as often as the smaller neighbourhood is a share of the larger one.
        share = Fraction(sum(rings[: small + 1]), sum(rings[: large + 1]))
        chances = np.array([float(share), float(1 - share)])
        assert chi_square([fits.sum(), (~fits).sum()], 400 * chances) > LEAST_P_VALUE


def test_different_seeds_and_explanations_make_different_draws() -> None:
    one, other = bits(TWELVE["additions"]), bits(TWELVE["additions"])[::-1].copy()
    first = drawn_by_a_curve(one, [10], (60,), seed=1)[10]
    assert (first != drawn_by_a_curve(one, [10], (60,), seed=2)[10]).any()
    mirrored = drawn_by_a_curve(other, [10], (60,), seed=1)[10][:, ::-1]
    assert sizes_of(first, one, "additions") != sizes_of(mirrored, one, "additions")


# -- shared, yet never used twice -------------------------------------------------------------------


def test_a_radius_never_uses_a_mask_of_the_lists_twice_and_radii_share_most() -> None:
    # With 40 features, equal masks of 5 or more additions are the same list element, not a coincidence.
    selected = np.zeros(40, dtype=bool)
    drawn = drawn_by_a_curve(selected, (8, 20, 21, 40), (30, 77, 200), seed=3)
    distinct = {}
    for radius, masks in drawn.items():
        large = masks[masks.sum(axis=1) >= 5]
        distinct[radius] = {tuple(mask) for mask in large.tolist()}
        assert len(distinct[radius]) == len(large) >= 190
    assert len(distinct[20] & distinct[21]) > 120
    assert len(distinct[8] & distinct[40]) == 0


@pytest.mark.parametrize("radii", [range(1, 49), range(3, 49, 3)])
def test_a_replicate_of_all_radii_costs_no_more_than_any_scheme_must(radii: range) -> None:
    # Size k must be drawn as often as the radius that needs it most: the smallest that allows it.
    rings = [comb(48, k) for k in range(49)]
    at_least = sum(rings[k] / sum(rings[: min(r for r in radii if r >= k) + 1]) for k in range(1, 49))
    model = mask_function(lambda masks: masks[:, 0], n_features=64)
    n_draws = make_plan("exact", tolerance=0.1, confidence=0.9).max_draws
    curves = [certify_radii(model, np.arange(64) < 16, radii=radii, plan="exact", rng=seed) for seed in range(20)]
    assert all(one.n_evaluated == n_draws for curve in curves for one in curve if not one.exact)
    # Rows more per curve: the explanation, the full input and those that are repeated.
    assert (
        np.mean([curve.n_calls - 2 - curve.certificates[0].n_repeated for curve in curves]) / n_draws <= at_least + 0.05
    )


# -- whatever else is asked -------------------------------------------------------------------------

FACTS = ("rate", "rate_unbiased", "interval", "n_agreed", "n_evaluated", "exact", "effective_radius", "design")


def facts(curve: Any) -> dict[int, tuple[Any, ...]]:
    return {one.radius: tuple(getattr(one, name) for name in FACTS) for one in curve}


@settings(max_examples=30)
@given(
    kind=st.sampled_from(sorted(TWELVE)),
    rate_kind=st.sampled_from(["uniform", "exactly"]),
    radii=st.lists(st.integers(0, 12), min_size=1, max_size=5),
    batch_size=st.sampled_from([1, 7, 64, 10_000]),
    seed=st.integers(0, 3),
)
def test_a_radius_does_not_depend_on_other_radii_their_order_or_the_batch_size(
    kind: str, rate_kind: str, radii: list[int], batch_size: int, seed: int
) -> None:
    model, selected = label_table(12, seed=seed, labels=(0, 0, 0, 1)), bits(TWELVE[kind])
    asked = {"neighborhood": kind, "rate_kind": rate_kind, "rng": seed}
    whole = facts(certify_radii(model, selected, radii=range(13), **asked))
    part = facts(certify_radii(model, selected, radii=radii, batch_size=batch_size, **asked))
    assert part == {radius: whole[radius] for radius in part}
    assert part.keys() == set(radii)


def test_a_shared_evaluator_saves_calls_and_changes_no_draw() -> None:
    model, selected = label_table(12, seed=4, labels=(0, 0, 1)), bits(TWELVE["additions"])
    fresh = certify_radii(model, selected, radii=range(1, 11), rng=7)
    shared = Evaluator(Recorded(model), batch_size=32)
    certify(shared, selected, radius=6, rng=1)
    first = certify_radii(shared, selected, radii=[9], rng=7)
    second = certify_radii(shared, selected, radii=range(1, 11), rng=7)
    assert facts(second) == facts(fresh)
    assert facts(first)[9] == facts(fresh)[9]
    assert second.n_calls == fresh.n_calls
    assert shared.n_calls == shared.model.n_rows < first.n_calls + second.n_calls


# -- stopping and cost ------------------------------------------------------------------------------


@kinds
def test_each_radius_stops_on_its_own_draws_read_in_order(kind: str) -> None:
    selected, model = bits(TWELVE[kind]), label_table(12, seed=8, labels=(0, 0, 0, 0, 1))
    largest = len(ring_sizes(selected, kind)) - 1
    for seed in range(4):
        drawn = drawn_by_a_curve(selected, range(1, largest + 1), DESIGN.looks, seed=seed, kind=kind)
        curve = certify_radii(model, selected, radii=range(1, largest + 1), neighborhood=kind, rng=seed)
        assert {one.radius for one in curve if not one.exact} == drawn.keys()
        for radius, masks in drawn.items():
            agreed = [answer(model, mask) == answer(model, selected) for mask in masks]
            assert (curve[radius].n_evaluated, curve[radius].n_agreed) == in_order(DESIGN, agreed)


def test_repeats_are_computed_once_counted_every_time_and_the_explanation_itself_is_free() -> None:
    # Radius 2 has 79 masks, the explanation among them: its draws repeat masks and draw α itself.
    selected, radii = np.zeros(12, dtype=bool), (1, 2, 3, 12)
    model = label_table(12, seed=11)
    n_repeats = n_unchanged = 0
    for seed in range(5):
        recorded = Recorded(model)
        curve = certify_radii(recorded, selected, radii=radii, rng=seed, check_determinism=False)
        drawn = drawn_by_a_curve(selected, radii, DESIGN.looks, seed=seed)
        needed = {tuple(selected.tolist()), (True,) * 12} | neighbors(selected, 1)
        for radius, masks in drawn.items():
            used = [tuple(mask) for mask in masks[: curve[radius].n_evaluated].tolist()]
            assert curve[radius].n_agreed == sum(answer(model, mask) == answer(model, selected) for mask in used)
            n_repeats += len(used) - len(set(used))
            n_unchanged += used.count(tuple(selected.tolist()))
            needed |= set(used)
        assert recorded.times_asked.keys() == needed
        assert set(recorded.times_asked.values()) == {1}
        assert curve.n_calls == recorded.n_rows == len(needed)
    assert n_repeats > 50
    assert n_unchanged > 0


@pytest.mark.parametrize("check_determinism", [True, False])
def test_a_round_is_one_model_call_and_there_are_no_more_rounds_than_looks(check_determinism: bool) -> None:
    uncertain = mask_function(lambda masks: masks[:, 5:].sum(axis=1) % 7 < 5, n_features=60)
    for radii in ([55], range(1, 56)):
        for seed in range(4):
            recorded = Recorded(uncertain)
            curve = certify_radii(
                recorded,
                np.arange(60) < 5,
                radii=radii,
                batch_size=10**6,
                check_determinism=check_determinism,
                rng=seed,
            )
            assert 2 <= len(recorded.batches) <= curve.n_rounds <= len(DESIGN.looks)
            # Draws of one large radius never repeat: each of its rounds has something to ask.
            assert len(radii) > 1 or len(recorded.batches) == curve.n_rounds


def test_a_radius_that_has_stopped_asks_for_nothing_more() -> None:
    # Up to two features never matter; then the first feature decides.
    recorded = Recorded(mask_function(lambda masks: np.where(masks.sum(axis=1) > 2, masks[:, 0], 0), n_features=60))
    curve = certify_radii(recorded, np.zeros(60, dtype=bool), radii=[2, 60], rng=0)
    assert curve[2].n_evaluated == DESIGN.looks[0]
    assert curve[60].n_evaluated > 2 * DESIGN.looks[0]
    later = np.concatenate(recorded.batches[1:])
    assert sum(mask.sum() <= 2 for mask in later) <= curve[2].n_repeated  # what the determinism check repeats


@pytest.mark.parametrize("at_once", [1, 5])
@pytest.mark.parametrize("neighborhood", ["additions", "removals", "swaps", Bernoulli(0.3)])
def test_how_many_masks_are_drawn_at_once_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, at_once: int, neighborhood: Any
) -> None:
    model, selected = score_table(20), np.arange(20) < 10
    options: dict[str, Any] = {"neighborhood": neighborhood, "rng": 3}

    def results() -> list[Any]:
        curve = certify_radii(model, selected, radii=[4, 6, 8], **options)
        assert not any(certificate.exact for certificate in curve)
        return [curve, certify(model, selected, radius=5, **options)]

    usual = results()
    monkeypatch.setattr("holdfast.certification.reference._DRAWN_AT_ONCE", at_once)
    assert results() == usual


def test_many_masks_are_not_made_all_at_once() -> None:
    """Masks that fit into the caches are made together; of more, the memory is that of the masks themselves."""
    selected = np.arange(1000) < 100
    widest = Additions(selected, 900)
    lists = {k: (widest.exactly(k), np.random.default_rng(k), selected[None][:0], 50) for k in range(1, 200)}
    tracemalloc.start()
    try:
        together = draw_all(lists)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2 * sum(masks.nbytes for masks in together.values())
    for k, (ring, _, _, n) in lists.items():
        assert np.array_equal(together[k][:n], ring.sample(n, np.random.default_rng(k)))
