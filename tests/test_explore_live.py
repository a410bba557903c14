"""The interval on the way: valid at every look at once, and only narrower; and the hook that feeds it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.special import betaln

import holdfast as hf
from holdfast.certification.certificate import Look
from holdfast.explore.live import Narrowing, anytime_interval
from tests.explore_support import decide

CONFIDENCE = 0.9
N_DRAWS = 150


def rates() -> list[float]:
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
    table = {(k, n): anytime_interval(k, n, confidence=confidence) for n in range(1, N_DRAWS + 1) for k in range(n + 1)}
    lows = [np.array([table[k, n].low for k in range(n + 1)]) for n in range(1, N_DRAWS + 1)]
    highs = [np.array([table[k, n].high for k in range(n + 1)]) for n in range(1, N_DRAWS + 1)]
    worst = 0.0
    for rate in rates():
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
        intervals = [hf.clopper_pearson(k, n, confidence=CONFIDENCE) for k in range(n + 1)]
        out = np.array([not one.low <= rate <= one.high for one in intervals])
        missed += grown[out].sum()
        alive = np.where(out, 0.0, grown)
    assert missed > 1 - CONFIDENCE


def evidence(k: int, n: int, rate: float) -> float:
    mixed = float(betaln(k + 0.5, n - k + 0.5) - betaln(0.5, 0.5))
    return mixed - k * math.log(rate) - (n - k) * math.log1p(-rate)


@pytest.mark.parametrize(("k", "n"), [(0, 7), (7, 7), (3, 10), (59, 60), (300, 900)])
def test_the_ends_are_where_the_martingale_reaches_its_limit(k: int, n: int) -> None:
    low, high = anytime_interval(k, n, confidence=CONFIDENCE)
    limit = math.log(10)
    assert 0 <= low <= k / n <= high <= 1
    if low > 0:
        assert evidence(k, n, low - 1e-6) > limit > evidence(k, n, low + 1e-6)
    if high < 1:
        assert evidence(k, n, high + 1e-6) > limit > evidence(k, n, high - 1e-6)
    mirrored = anytime_interval(n - k, n, confidence=CONFIDENCE)
    assert (1 - mirrored.high, 1 - mirrored.low) == pytest.approx((low, high))


def test_nothing_is_known_before_the_first_draw() -> None:
    assert anytime_interval(0, 0, confidence=0.9) == (0.0, 1.0)


def test_what_is_known_only_narrows_and_says_when_looks_contradict_each_other() -> None:
    known = Narrowing()
    for k, n in [(20, 20), (30, 40), (50, 60)]:
        later = known.after(Look(k, n, 72, exact=False), confidence=CONFIDENCE)
        assert known.low <= later.low <= later.high <= known.high
        known = later
    assert (known.n_looks, known.is_empty) == (3, False)
    assert known.after(Look(60, 600, 600, exact=False), confidence=CONFIDENCE).is_empty


def test_masks_that_are_listed_leave_no_chance() -> None:
    model, selected = hf.mask_function(decide, n_features=12), np.arange(12) < 2
    looks: list[Look] = []
    exact = hf.certify(model, selected, radius=2, rng=0, batch_size=8, on_look=looks.append)
    assert exact.exact
    known = Narrowing()
    for look in looks:
        assert look.exact
        assert look.n_most == exact.n_evaluated
        known = known.after(look, confidence=CONFIDENCE)
        assert known.low <= exact.rate <= known.high
    assert (known.low, known.high) == (exact.rate, exact.rate)


@pytest.mark.parametrize("plan", ["sequential", "exact", "hoeffding"])
@pytest.mark.parametrize("batch_size", [None, 5])
def test_looking_changes_nothing_and_ends_at_the_counts_of_the_certificate(plan: str, batch_size: int | None) -> None:
    model, selected = hf.mask_function(decide, n_features=12), np.arange(12) < 2
    asked: dict[str, Any] = {"radius": 6, "plan": plan, "rng": 3}
    looks: list[Look] = []
    watched = hf.certify(model, selected, on_look=looks.append, batch_size=batch_size, **asked)
    assert watched == hf.certify(model, selected, **asked)
    assert (looks[-1].n_agreed, looks[-1].n_evaluated) == (watched.n_agreed, watched.n_evaluated)
    counts = [look.n_evaluated for look in looks]
    assert counts == sorted(set(counts))
    assert all(after - before <= (batch_size or 256) for before, after in zip([0, *counts], counts, strict=False))
    assert {look.n_most for look in looks} == {watched.design.max_draws if watched.design else 0}


def test_each_size_is_told_in_turn() -> None:
    model, selected = hf.mask_function(decide, n_features=12), np.arange(12) < 2
    looks: list[Look] = []
    hf.certify(model, selected, radius=3, rate_kind="worst_size", rng=0, on_look=looks.append)
    assert [look.n_evaluated for look in looks if look.exact] == [1, 10, 45]


def test_a_hook_must_be_a_function() -> None:
    model = hf.mask_function(decide, n_features=12)
    with pytest.raises(hf.InvalidTypeError, match="`on_look` must be a function of a Look, or None, got 3"):
        hf.certify(model, np.arange(12) < 2, radius=1, on_look=3)  # type: ignore[arg-type]
