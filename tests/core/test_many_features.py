"""Many features: what is computed in a shorter way is what the long way gives, bit by bit."""

from __future__ import annotations

import sys
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import holdfast as hf
from holdfast import neighborhood
from holdfast.certification import shared_draws
from holdfast.certification.shared_draws import SizeChain
from holdfast.completions import nearby_rows
from holdfast.distributions.distribution import as_neighborhood
from holdfast.evaluation import Evaluator
from holdfast.neighborhood import NEIGHBORHOODS, Neighborhood, share_of_masks

LAWS = ("additions", "removals", "swaps", "bernoulli(0.3)", "bernoulli(0.001)", "bernoulli(0.999)", "completions")


def law_of(name: str, selected: Any) -> Neighborhood:
    if name == "completions":
        return nearby_rows(NEIGHBORHOODS["additions"](selected, 3), 7)
    return as_neighborhood(name)(selected, len(selected))


@pytest.mark.parametrize("roundings", [64, 1e13])
@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("n", [2, 3, 17, 64, 400])
def test_sizes_by_jumps_and_by_tables_are_those_from_radius_to_radius(
    n: int, name: str, roundings: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With so many roundings that they decide everything, the law itself is asked everywhere."""
    monkeypatch.setattr(shared_draws, "_ROUNDINGS", roundings)
    monkeypatch.setattr(shared_draws, "_FEW_LEFT", 0 if n == 64 else 5)
    for share in (0.25, 0.5, 0.8):
        nearby = law_of(name, np.arange(n) < n * share)
        monkeypatch.setattr(shared_draws, "_FEW_RADII", -1)
        long = SizeChain(nearby, np.random.default_rng(n))
        monkeypatch.setattr(shared_draws, "_FEW_RADII", n)
        short = SizeChain(nearby, np.random.default_rng(n))
        assert long._nearer is not None
        assert short._shares is not None
        words = np.random.default_rng(1).integers(0, 2**64, size=(30, long._reach + 1), dtype=np.uint64)
        words[0], words[1] = 0, 2**64 - 1
        sizes = long._by_steps(words)  # of the law at each radius itself
        assert np.array_equal(long._by_jumps(words, long._nearer), sizes)
        assert np.array_equal(short._by_steps(words), sizes)
        assert np.array_equal(short.sizes(long._reach, 0, 40), long.sizes(long._reach, 0, 40))


def test_sizes_do_not_depend_on_how_many_words_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    nearby = NEIGHBORHOODS["additions"](np.arange(40) < 9, 20)
    together = SizeChain(nearby, np.random.default_rng(3)).sizes(12, 0, 50)
    monkeypatch.setattr(shared_draws, "_MOST_WORDS", 70)
    chain = SizeChain(nearby, np.random.default_rng(3))
    assert chain.sizes(12, 0, 7).tolist() == together[:7].tolist()
    assert chain.sizes(12, 0, 50).tolist() == together.tolist()


@pytest.mark.parametrize("name", NEIGHBORHOODS)
@pytest.mark.parametrize("bits", [2, 8, 192])
def test_sizes_lie_between_their_bounds_and_shares_are_rounded_once(
    name: str, bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With few bits, the bounds often leave a share open; the sizes themselves then decide."""
    monkeypatch.setattr(neighborhood, "_SIZE_BITS", bits)
    for n in (3, 10, 60, 900):
        for share in (0.1, 0.5, 0.9):
            selected = np.arange(n) < n * share
            nears = [NEIGHBORHOODS[name](selected, radius) for radius in sorted({0, 1, n // 7, n // 3, n // 2, n})]
            for near in nears:
                low, high, shift = near.size_bounds
                assert low << shift <= near.size <= high << shift
            for small, large in pairwise(nears):
                assert share_of_masks(small, large) == small.size / large.size
                assert share_of_masks(nearby_rows(small, 3), nearby_rows(large, 3)) == small.size / large.size


def test_shares_of_groups_are_those_of_their_sizes() -> None:
    law = as_neighborhood("grouped([[0, 1], [2], [3, 4], [5]])")
    small, large = (law(np.arange(6) < 1, radius) for radius in (1, 3))
    assert share_of_masks(small, large) == small.size / large.size


def test_long_masks_are_remembered_as_they_are_and_take_no_room_if_nearly_all_is_hidden() -> None:
    n = 40_000
    rng = np.random.default_rng(0)
    masks = rng.random((6, n)) < np.array([0.0, 0.001, 0.3, 0.5, 0.999, 1.0])[:, None]
    evaluator = Evaluator(hf.mask_function(lambda rows: rows[:, :20].sum(axis=1), n_features=n))
    assert evaluator(masks).tolist() == masks[:, :20].sum(axis=1).tolist()
    assert np.array_equal(evaluator.masks, masks)
    sizes = [len(key) for key in evaluator.memory.slots]
    assert sizes[2] == sizes[3] == n // 8
    assert max(sizes[0], sizes[1], sizes[4], sizes[5]) < n // 64
    assert evaluator(masks[::-1]).tolist() == masks[::-1, :20].sum(axis=1).tolist()
    assert evaluator.n_calls == 6


def test_a_curve_of_many_features_is_certified_without_huge_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its exact sizes have tens of thousands of bits; none is computed."""
    n = 20_000
    for kind in NEIGHBORHOODS.values():
        monkeypatch.setattr(kind, "size", property(lambda self: pytest.fail("a huge size was computed")))
    model = hf.mask_function(lambda masks: masks[:, -64:].sum(axis=1) % 10 > 0, n_features=n)
    selected = np.arange(n) < n // 4
    curve = hf.certify_radii(model, selected, radii=range(2000, 15_001, 6500), simultaneous=True, tolerance=0.2, rng=0)
    assert [cert.effective_radius for cert in curve] == [2000, 8500, 15_000]
    assert sys.float_info.epsilon < curve[2000].interval.high - curve[2000].interval.low <= 0.4
