"""Neighbourhoods against enumeration of their definitions, and their draws against the uniform distribution."""

from __future__ import annotations

import math
import random
import tracemalloc
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from numpy.typing import NDArray

from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.neighborhood import NEIGHBORHOODS, Additions, Removals, Swaps, _cumulative, _smallest_keys
from holdfast.types import Masks
from tests.helpers import strategies
from tests.helpers.contracts import LEAST_P_VALUE, bits, check_neighborhood, check_set, check_uniform, chi_square, codes
from tests.helpers.oracles import neighbors, rings

KINDS = (Additions, Removals, Swaps)
TWELVE = {"additions": "100000010000", "removals": "111110111111", "swaps": "010110000110"}

kinds = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


def smallest(keys: NDArray[np.uint32], count: Any) -> Masks:
    """Mark the ``count`` smallest of all the keys of each row, by the library's own tie breaker.

    Equal keys cannot be forced from outside (one pair in 2^32), so the private function is called.
    """
    return _smallest_keys(keys, np.arange(keys.shape[1]), np.broadcast_to(count, len(keys)))


def n_changed(masks: Masks, selected: NDArray[np.bool_]) -> NDArray[np.int64]:
    return (masks != selected).sum(axis=1)


@kinds
def test_a_neighborhood_keeps_its_contract(kind: Any) -> None:
    check_neighborhood(kind)


@kinds
def test_every_radius_and_size_of_twelve_features_is_enumerated_and_drawn_uniformly(kind: Any) -> None:
    selected = bits(TWELVE[kind.name])
    for k, ring in enumerate(rings(selected, kind.name)):
        check_set(kind(selected, k), neighbors(selected, k, kind.name))
        check_set(kind(selected, 0).exactly(k), ring)


@given(kind=strategies.kinds, selected=strategies.masks(), radius=strategies.radii())
def test_counting_and_enumeration_equal_the_definition(kind: str, selected: Any, radius: int) -> None:
    nearby = NEIGHBORHOODS[kind](selected, radius)
    truth = neighbors(selected, radius, kind)
    found = [tuple(mask) for part in nearby.enumerate(7) for mask in part.tolist()]
    assert nearby.size == len(found) == len(truth)
    assert set(found) == truth


@given(kind=strategies.kinds, selected=strategies.masks(), radius=strategies.radii())
def test_every_draw_belongs_to_the_neighborhood(kind: str, selected: Any, radius: int) -> None:
    drawn = NEIGHBORHOODS[kind](selected, radius).sample(25, np.random.default_rng(0))
    assert {tuple(mask) for mask in drawn.tolist()} <= neighbors(selected, radius, kind)


# -- the contract itself can fail -------------------------------------------------------------------


class EvenSizes(Additions):
    """Every size equally likely: the classical wrong way to draw from Δ_r."""

    def distances(self, words: Any) -> Any:
        return self.smallest + (words % np.uint64(self.effective_radius - self.smallest + 1)).astype(np.intp)


class ForgetsTheLast(Additions):
    """Never adds the last unselected feature."""

    def sample(self, n: int, rng: np.random.Generator) -> Masks:
        masks = super().sample(n, rng)
        masks[:, np.flatnonzero(~self.selected)[-1:]] = False
        return masks


class EnumeratesTwice(Additions):
    """Counts right, but repeats itself."""

    def enumerate(self, batch: int) -> Any:
        return iter([np.tile(self.selected, (self.size, 1))])


class DrawsInBlocks(Additions):
    """Uses the stream column by column: a+b draws are not a draws and then b."""

    def sample(self, n: int, rng: np.random.Generator) -> Masks:
        if n == 0:
            return np.zeros((0, len(self.selected)), dtype=bool)
        return super().sample(n, np.random.default_rng(rng.integers(2**32)))


class CountsOneMore(Additions):
    """The size includes the empty mask."""

    @property
    def size(self) -> int:
        return super().size + 1


@pytest.mark.parametrize("broken", [EvenSizes, ForgetsTheLast, EnumeratesTwice, DrawsInBlocks, CountsOneMore])
def test_the_contract_catches_a_broken_neighborhood(broken: Any) -> None:
    with pytest.raises(AssertionError):
        check_neighborhood(broken)


def test_the_chi_square_of_the_contract_is_pearsons() -> None:
    # scipy.stats.chisquare([16, 18, 16, 14, 12, 12]) in scipy 1.17.1: statistic 2.0, p 0.8491450360846096
    assert chi_square([16, 18, 16, 14, 12, 12], [88 / 6] * 6) == pytest.approx(0.8491450360846096, rel=1e-12)


# -- edges ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "selected", "radius", "expected"),
    [
        (Additions, "1111", 3, {"1111"}),
        (Additions, "1101", 3, {"1101", "1111"}),
        (Additions, "000", 1, {"000", "100", "010", "001"}),
        (Additions, "0", 1, {"0", "1"}),
        (Removals, "0000", 3, {"0000"}),
        (Removals, "0100", 3, {"0100", "0000"}),
        (Swaps, "1111", 2, {"1111"}),
        (Swaps, "0000", 2, {"0000"}),
        (Swaps, "110", 2, {"110", "101", "011"}),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_tiny_neighborhoods_are_what_one_would_write_down(
    kind: Any, selected: str, radius: int, expected: set[str]
) -> None:
    nearby = kind(bits(selected), radius)
    assert nearby.size == len(expected)
    for masks in (np.concatenate(list(nearby.enumerate(2))), nearby.sample(200, np.random.default_rng(0))):
        assert {"".join("01"[bit] for bit in mask) for mask in masks.tolist()} == expected


def test_a_radius_beyond_the_unselected_features_is_clamped_and_both_are_recorded() -> None:
    nearby = Additions(bits("1001"), 50)
    assert (nearby.radius, nearby.effective_radius, nearby.size) == (50, 2, 4)
    assert Swaps(bits("1110"), 3).effective_radius == 1


def test_exactly_does_not_depend_on_the_radius_it_is_asked_of() -> None:
    selected = bits("100000")
    for radius in range(6):
        ring = Additions(selected, radius).exactly(3)
        assert ring.size == math.comb(5, 3)
        assert (n_changed(ring.sample(50, np.random.default_rng(0)), selected) == 3).all()


def test_no_draws_have_the_shape_of_draws() -> None:
    assert Additions(bits("1000"), 2).sample(0, np.random.default_rng(0)).shape == (0, 4)


@pytest.mark.parametrize("n", [3.0, np.int64(3), np.float64(3.0)])
def test_a_whole_number_of_draws_may_come_in_any_numeric_type(n: Any) -> None:
    assert Additions(bits("1000"), 2).sample(n, np.random.default_rng(0)).shape == (3, 4)


@pytest.mark.parametrize("n", [-1, 2.5, float("nan")])
def test_an_impossible_number_of_draws_is_refused(n: Any) -> None:
    with pytest.raises(InvalidValueError, match=r"^`n` must be a whole number ≥ 0, got "):
        Additions(bits("1000"), 2).sample(n, np.random.default_rng(0))


@pytest.mark.parametrize("batch", [0, -3, 1.5])
def test_an_impossible_batch_is_refused_when_asked_not_when_iterated(batch: Any) -> None:
    with pytest.raises(InvalidValueError, match=r"^`batch` must be a whole number ≥ 1, got "):
        Additions(bits("1000"), 2).enumerate(batch)


@pytest.mark.parametrize("rng", [0, None, "seed", np.random])
def test_a_sampler_asks_for_a_generator(rng: Any) -> None:
    with pytest.raises(InvalidTypeError, match=r"^`rng` must be a numpy Generator, got "):
        Additions(bits("1000"), 2).sample(3, rng)


# -- the stream -------------------------------------------------------------------------------------


@given(
    kind=strategies.kinds,
    selected=strategies.masks(),
    radius=strategies.radii(),
    cuts=strategies.st.lists(strategies.st.integers(0, 9), max_size=5),
)
def test_draws_do_not_depend_on_how_they_are_cut(kind: str, selected: Any, radius: int, cuts: list[int]) -> None:
    nearby = NEIGHBORHOODS[kind](selected, radius)
    whole = nearby.sample(sum(cuts), np.random.default_rng(3))
    rng = np.random.default_rng(3)
    parts = [nearby.sample(n, rng) for n in cuts]
    np.testing.assert_array_equal(np.concatenate([whole[:0], *parts]), whole)


def test_draws_do_not_depend_on_the_chunks_of_a_large_sample() -> None:
    selected = np.arange(2000) % 3 == 0
    nearby = Additions(selected, 800)
    n = 2000  # about four chunks of _CHUNK_BYTES
    rng = np.random.default_rng(0)
    one_by_one = np.concatenate([nearby.sample(1, rng) for _ in range(n)])
    np.testing.assert_array_equal(nearby.sample(n, np.random.default_rng(0)), one_by_one)


@kinds
def test_the_stream_used_by_a_draw_does_not_depend_on_radius_or_explanation(kind: Any) -> None:
    ends = set()
    for selected, radius in (("110010", 0), ("110010", 2), ("000001", 5), ("111111", 1)):
        rng = np.random.default_rng(0)
        kind(bits(selected), radius).sample(10, rng)
        kind(bits(selected), 3).exactly(radius).sample(10, rng)
        ends.add(int(rng.integers(2**63)))
    assert len(ends) == 1


@kinds
def test_sampling_never_touches_global_generators(kind: Any) -> None:
    ours, theirs = np.random.get_state(legacy=False), random.getstate()  # noqa: NPY002 - the global one is the point
    kind(bits("110010"), 2).sample(100, np.random.default_rng(0))
    smallest(np.zeros((5, 4), dtype=np.uint32), 2)
    after = np.random.get_state(legacy=False)  # noqa: NPY002
    np.testing.assert_array_equal(after["state"]["key"], ours["state"]["key"])
    assert after["state"]["pos"] == ours["state"]["pos"]
    assert random.getstate() == theirs


def test_equal_seeds_give_equal_draws_and_other_seeds_other_draws() -> None:
    nearby = Additions(np.zeros(30, dtype=bool), 15)
    first = nearby.sample(50, np.random.default_rng(1))
    np.testing.assert_array_equal(first, nearby.sample(50, np.random.default_rng(1)))
    assert not np.array_equal(first, nearby.sample(50, np.random.default_rng(2)))


def test_successive_draws_are_independent() -> None:
    truth = neighbors(bits("1000"), 2)
    cells = np.sort(codes(list(truth)))
    drawn = codes(Additions(bits("1000"), 2).sample(20_001, np.random.default_rng(0)))
    at = np.searchsorted(cells, drawn)
    pairs = np.bincount(at[:-1] * len(cells) + at[1:], minlength=len(cells) ** 2)
    assert chi_square(pairs, np.full(len(pairs), 20_000 / len(pairs))) > LEAST_P_VALUE


# -- paired draws -----------------------------------------------------------------------------------


def test_two_explanations_of_equal_size_draw_equal_numbers_of_additions() -> None:
    one, other = bits("110000000000"), bits("000000000011")
    sizes = [n_changed(Additions(s, 6).sample(500, np.random.default_rng(4)), s) for s in (one, other)]
    np.testing.assert_array_equal(*sizes)
    assert len(set(sizes[0].tolist())) > 3


def test_two_explanations_order_the_features_they_share_alike() -> None:
    """k smallest keys of a smaller pool contain what is left of the k smallest of the larger one."""
    small = bits("100000000000")
    large = bits("110000000000")
    for k in range(1, 11):
        few = Additions(small, 0).exactly(k).sample(300, np.random.default_rng(7)) & ~small
        many = Additions(large, 0).exactly(k).sample(300, np.random.default_rng(7)) & ~large
        kept = few & ~large
        np.testing.assert_array_equal(kept & many, kept)
        untouched = ~few[:, 1]
        np.testing.assert_array_equal(few[untouched], many[untouched])


@kinds
def test_draws_of_a_smaller_radius_lie_within_those_of_a_larger_one(kind: Any) -> None:
    selected = bits("110010010000")
    draws = [kind(selected, r).sample(400, np.random.default_rng(2)) != selected for r in range(9)]
    for near, far in pairwise(draws):
        np.testing.assert_array_equal(near & far, near)


def test_swaps_drop_and_add_by_the_keys_that_removals_and_additions_use() -> None:
    selected = bits("110110000000")
    for k in range(5):
        swapped, added, dropped = (
            kind(selected, 0).exactly(k).sample(100, np.random.default_rng(0)) for kind in (Swaps, Additions, Removals)
        )
        np.testing.assert_array_equal(swapped, (added & ~selected) | (dropped & selected))


# -- ties of keys -----------------------------------------------------------------------------------


@pytest.mark.parametrize("k", range(7))
def test_features_with_equal_keys_are_chosen_uniformly(k: int) -> None:
    values = np.random.default_rng(0).integers(2**32, size=(200 * math.comb(6, k), 1), dtype=np.uint32)
    keys = np.repeat(values, 6, axis=1)
    marked = smallest(keys, k)
    assert (marked.sum(axis=1) == k).all()
    counts = np.bincount(codes(marked), minlength=64)
    observed = counts[counts > 0]
    assert len(observed) == math.comb(6, k)
    assert chi_square(observed, np.full(len(observed), len(keys) / len(observed))) > LEAST_P_VALUE


def test_only_the_ties_at_the_border_are_open() -> None:
    """Keys low, t, t, t, high with 3 to choose: low is always in, high never, two of the t's evenly."""
    n = 3000
    tied = np.random.default_rng(0).integers(10, 2**31, size=n, dtype=np.uint32)
    keys = np.stack([tied, tied - 5, tied, tied + 5, tied], axis=1)
    marked = smallest(keys, 3)
    assert marked[:, 1].all()
    assert not marked[:, 3].any()
    assert (marked.sum(axis=1) == 3).all()
    left_out = np.argmin(marked[:, [0, 2, 4]], axis=1)
    assert chi_square(np.bincount(left_out, minlength=3), [n / 3] * 3) > LEAST_P_VALUE


def test_ties_are_broken_by_their_own_row_alone() -> None:
    rng = np.random.default_rng(0)
    keys = rng.integers(0, 3, size=(200, 8), dtype=np.uint32)
    count = rng.integers(0, 9, size=200)
    together = smallest(keys, count)
    alone = [smallest(keys[i : i + 1], count[i])[0] for i in range(200)]
    np.testing.assert_array_equal(together, alone)
    for row, marked, k in zip(keys, together, count, strict=True):
        assert sorted(row[marked]) == sorted(row)[:k]


def test_keys_outside_the_pool_are_never_chosen_and_never_matter() -> None:
    rng = np.random.default_rng(0)
    keys = rng.integers(0, 4, size=(300, 9), dtype=np.uint32)
    count = rng.integers(0, 5, size=300)
    pool = np.array([1, 2, 5, 8])
    marked = _smallest_keys(keys, pool, count)
    inside = np.zeros_like(marked)
    inside[:, pool] = smallest(keys[:, pool], count)
    np.testing.assert_array_equal(marked, inside)


# -- large ------------------------------------------------------------------------------------------


@kinds
@pytest.mark.parametrize(("n_features", "radius"), [(60, 7), (196, 60), (1000, 900), (3000, 20)])
def test_large_sizes_are_exact(kind: Any, n_features: int, radius: int) -> None:
    selected = np.arange(n_features) % 4 == 1
    n_in, n_out = int(selected.sum()), int((~selected).sum())
    counts = {
        "additions": lambda k: math.comb(n_out, k),
        "removals": lambda k: math.comb(n_in, k),
        "swaps": lambda k: math.comb(n_out, k) * math.comb(n_in, k),
    }[kind.name]
    nearby = kind(selected, radius)
    assert nearby.size == sum(counts(k) for k in range(radius + 1))
    assert nearby.exactly(radius).size == counts(min(radius, nearby.effective_radius))
    assert nearby.is_larger_than(nearby.size - 1)
    assert not nearby.is_larger_than(nearby.size)


@kinds
@pytest.mark.parametrize(("n_features", "radius"), [(40, 3), (196, 40), (2000, 300), (2000, 2000)])
def test_the_distribution_of_the_distance_is_that_of_exact_binomials(kind: Any, n_features: int, radius: int) -> None:
    nearby = kind(np.arange(n_features) % 4 == 1, radius)
    counts = [nearby.exactly(k).size for k in range(nearby.effective_radius + 1)]
    cumulative = np.cumsum(np.array([float(Fraction(c, nearby.size)) for c in counts]))
    lengths = tuple(len(pool) for pool in nearby.pools)
    np.testing.assert_allclose(_cumulative(lengths, 0, nearby.effective_radius), cumulative, rtol=0, atol=1e-12)


@kinds
def test_distances_and_features_of_an_image_sized_neighborhood_are_uniform(kind: Any) -> None:
    """n = 196 with a quarter selected: the distance by chi-square, then each feature given the distance."""
    selected = np.arange(196) % 4 == 1
    nearby, n = kind(selected, 20), 20_000
    drawn = nearby.sample(n, np.random.default_rng(0))
    far = n_changed(drawn, selected) // len(nearby.pools)
    expected = np.array([float(Fraction(n * nearby.exactly(k).size, nearby.size)) for k in range(21)])
    common = expected >= 10
    observed = np.bincount(far, minlength=21)
    pooled = [observed[~common].sum(), *observed[common]], [expected[~common].sum(), *expected[common]]
    assert chi_square(*pooled) > LEAST_P_VALUE
    for pool in nearby.pools:
        flipped = (drawn != selected)[:, pool].sum(axis=0)
        # Flips within a row are drawn without replacement: the statistic is scaled by (m - 1) / (m - k), k ≈ 20.
        shrink = (len(pool) - 1) / (len(pool) - far.mean())
        spread = ((flipped - flipped.mean()) ** 2).sum() / flipped.mean() * shrink
        assert 0.5 < spread / (len(pool) - 1) < 1.6


@kinds
@pytest.mark.parametrize("radius", [3, 50_000])
def test_a_hundred_thousand_features_fit_into_bounded_memory(kind: Any, radius: int) -> None:
    selected = np.arange(100_000) % 2 == 0
    tracemalloc.start()
    try:
        nearby = kind(selected, radius)
        drawn = nearby.sample(64, np.random.default_rng(0))
        assert nearby.is_larger_than(10**6)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < drawn.nbytes + 32 * 2**20
    far = n_changed(drawn, selected) // len(nearby.pools)
    if radius == 3:
        assert (far == 3).mean() > 0.95
    else:
        # Half of 50,000 with standard deviation 112 (79 for swaps): six of them.
        assert (abs(far - 25_000) < 670).all()
    assert len(np.unique(far)) > 1 or radius == 3


def test_enumerating_a_large_neighborhood_starts_at_once_and_in_bounded_memory() -> None:
    selected = np.zeros(100_000, dtype=bool)
    tracemalloc.start()
    try:
        first = next(Additions(selected, 50_000).enumerate(32))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(n_changed(first, selected), [0] + [1] * 31)
    assert peak < 64 * 2**20


def test_a_size_of_nine_thousand_digits_is_exact() -> None:
    """Additions of any number to nothing: the whole cube, 2^n masks."""
    assert Additions(np.zeros(30_000, dtype=bool), 30_000).size == 2**30_000


def test_uniformity_holds_for_a_counter_based_generator_too() -> None:
    nearby = Additions(bits("1000010"), 3)
    philox = nearby.sample(3000, np.random.Generator(np.random.Philox(0)))
    assert not np.array_equal(philox, nearby.sample(3000, np.random.default_rng(0)))
    check_uniform(nearby, neighbors(bits("1000010"), 3), seed=11)
    observed = np.unique(codes(philox), return_counts=True)[1]
    assert len(observed) == nearby.size
    assert chi_square(observed, np.full(len(observed), 3000 / len(observed))) > LEAST_P_VALUE
