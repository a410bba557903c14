from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from holdfast.certification.allocation import total_variance, variance_of_mean, within_variance


@pytest.mark.parametrize("n_draws", [1, 2, 3, 4, 5, 6, 7, 9])
def test_the_variance_of_a_mean_in_turns_is_exact(n_draws):
    rates = np.array([0.1, 0.5, 0.95])
    n, mean = len(rates), rates.mean()
    whole, extra = divmod(n_draws, n)
    first = second = 0.0
    orders = list(combinations(range(n), extra))
    for chosen in orders:
        turns = np.full(n, whole)
        turns[list(chosen)] += 1
        centre, spread = turns @ rates, turns @ (rates * (1 - rates))
        first += centre / len(orders)
        second += (spread + centre**2) / len(orders)
    truth = (second - first**2) / n_draws**2
    assert first / n_draws == pytest.approx(mean)
    within, total = float((rates * (1 - rates)).mean()), float(mean * (1 - mean))
    assert variance_of_mean(n_draws, n, within=within, total=total) == pytest.approx(truth)


def draw(rates, n_each, rng):
    return np.stack([np.full(len(rates), n_each), rng.binomial(n_each, rates)]).astype(np.int64)


def test_repeats_estimate_the_variance_within_inputs():
    rng, rates = np.random.default_rng(0), np.repeat([0.0, 0.1, 0.9, 1.0], 500)
    found = np.mean([within_variance(draw(rates, 2, rng), []) for _ in range(100)])
    assert found == pytest.approx((rates * (1 - rates)).mean(), abs=0.003)


def test_pairs_of_adjacent_sizes_estimate_rather_too_much():
    rng, rates = np.random.default_rng(1), np.repeat([0.0, 0.2, 0.8, 1.0], 500)
    others = np.clip(rates + 0.2, 0, 1)
    found = [within_variance(draw(rates, 1, rng), [draw(others, 1, rng)]) for _ in range(100)]
    both = (rates * (1 - rates) + others * (1 - others) + (rates - others) ** 2).mean() / 2
    assert np.mean(found) == pytest.approx(both, abs=0.003)
    assert both > (rates * (1 - rates) + others * (1 - others)).mean() / 2


def test_without_pairs_the_total_variance_stands_in():
    few = np.array([[1] * 20, [1, 0] * 10])
    assert within_variance(few, []) == total_variance(few)
    assert within_variance(few, [few]) == total_variance(few)


def test_a_variance_is_never_zero():
    always = np.array([[2] * 50, [2] * 50])
    assert 0 < within_variance(always, []) <= total_variance(always)
