"""Sampled spectra are unbiased and covered by their intervals; low layers give exact weights."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, multinomial

from holdfast import MaskedModel, boolean, lookup_table, mask_function
from holdfast.boolean import estimation, tables
from holdfast.errors import InvalidTypeError, InvalidValueError, ModelError
from holdfast.neighborhood import Additions
from tests.helpers import boolean_oracles as naive
from tests.helpers.boolean_oracles import Array

N = 3
SIGNS = np.random.default_rng(0).choice([-1.0, 1.0], size=2**N)
SCORES = np.random.default_rng(1).random(2**N)


def model_of(values: Array) -> MaskedModel:
    return lookup_table(values, n_features=len(values).bit_length() - 1)


def weighted_runs(values: Array, n_draws: int, level: int) -> tuple[Array, Array]:
    """Level estimates of all runs, to 9 digits, and their probabilities; only how often a mask is drawn matters."""
    n = len(values).bit_length() - 1
    counts = np.indices((n_draws + 1,) * (2**n - 1)).reshape(2**n - 1, -1).T
    counts = counts[counts.sum(axis=1) <= n_draws]
    counts = np.column_stack([counts, n_draws - counts.sum(axis=1)])
    sets = [s for s in naive.subsets(range(n)) if len(s) == level]
    masks = [frozenset(boolean.features_of(row)) for row in range(2**n)]
    sums = [(counts * values) @ [naive.chi(s, a) for a in masks] for s in sets]
    alone = len(sets) * (counts @ values**2)
    estimates = (np.sum(np.square(sums), axis=0) - alone) / (n_draws * (n_draws - 1))
    distinct, which = np.unique(estimates.round(9), return_inverse=True)
    return distinct, np.bincount(which, weights=multinomial.pmf(counts, n_draws, np.full(2**n, 0.5**n)))


def every_run(values: Array, n_draws: int, level: int) -> Array:
    """The level estimate of every sequence of draws, all equally likely."""
    n = len(values).bit_length() - 1
    masks, kernel = tables.all_masks(n), estimation._krawtchouk(n, level)
    runs = []
    for rows in product(range(2**n), repeat=n_draws):
        products = estimation._pair_products(masks[list(rows)], values[list(rows)])
        runs.append(float(kernel @ products) / (n_draws * (n_draws - 1)))
    return np.array(runs)


def level_weight(values: Array, level: int) -> float:
    return naive.by_degree(naive.fourier(values.tolist()), lambda c: c * c)[level]


@pytest.mark.parametrize("n", range(6))
def test_krawtchouk_polynomials_are_sums_of_characters(n: int) -> None:
    for level in range(n + 1):
        for d in range(n + 1):
            sets = [s for s in naive.subsets(range(n)) if len(s) == level]
            assert estimation._krawtchouk(n, level)[d] == sum(naive.chi(s, frozenset(range(d))) for s in sets)


@pytest.mark.parametrize("values", [SIGNS[:4], SCORES[:4] - 0.5, np.array([1.0, -1.0, -1.0, 1.0])])
@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("n_draws", [2, 3, 4])
def test_level_estimates_are_unbiased_and_no_more_variable_than_claimed(
    values: Array, level: int, n_draws: int
) -> None:
    runs, truth, bound = every_run(values, n_draws, level), level_weight(values, level), np.abs(values).max()
    assert np.isclose(runs.mean(), truth)
    pairs = n_draws * (n_draws - 1)
    claimed = 4 * (n_draws - 2) / pairs * bound**2 * truth + 2 / pairs * bound**4 * math.comb(2, level)
    assert runs.var() <= claimed + 1e-12


@pytest.mark.parametrize("values", [SIGNS[:4], SCORES[:4].round(1) - 0.5, np.array([1.0, -1.0, -1.0, 1.0]), np.ones(2)])
@pytest.mark.parametrize("risk", [0.1, 0.5])
def test_level_intervals_cover_the_truth_over_all_runs_and_say_something(values: Array, risk: float) -> None:
    n, bound = len(values).bit_length() - 1, float(np.abs(values).max())
    n_draws = 400 if n == 1 else 100
    for level in range(1, n + 1):
        truth = level_weight(values, level)
        estimates, chances = weighted_runs(values, n_draws, level)
        assert np.isclose(chances @ estimates, truth)
        low, high = np.array(
            [estimation._chebyshev(one, n_draws, math.comb(n, level), bound=bound, risk=risk) for one in estimates]
        ).T
        missed = (truth < low - 1e-8) | (high + 1e-8 < truth)
        assert chances @ missed <= risk
        assert chances @ (high - low < 0.9 * bound**2) > 0.5, (n, level)


def test_runs_counted_by_masks_are_those_of_the_estimator() -> None:
    values = SCORES[:4] - 0.5
    for level in (1, 2):
        estimates, chances = weighted_runs(values, 4, level)
        every = every_run(values, 4, level)
        assert np.isclose(chances.sum(), 1)
        for power in (1, 2, 3):
            assert np.isclose(chances @ estimates**power, (every**power).mean())


def test_level_weights_do_not_depend_on_where_the_range_of_scores_lies() -> None:
    options: dict[str, Any] = {"n_samples": 300, "rng": 9}
    here = boolean.estimate_level_weights(model_of(SCORES), [1, 2], score_range=(0, 1), **options)
    there = boolean.estimate_level_weights(model_of(SCORES + 5), [1, 2], score_range=(5, 6), **options)
    for one, other in zip(here, there, strict=True):
        assert np.isclose(one.value, other.value, rtol=0, atol=1e-12)
        assert np.allclose(one.interval, other.interval, rtol=0, atol=1e-12)


def test_levels_share_the_risk_equally() -> None:
    levels = boolean.estimate_level_weights(
        model_of(SIGNS), [1, 2, 3], n_samples=5000, score_range=(-1, 1), confidence=0.9, rng=0
    )
    for one in levels:
        wanted = estimation._chebyshev(one.value, 5000, math.comb(3, int(one.of)), bound=1.0, risk=0.1 / 3)  # type: ignore[arg-type]
        assert np.allclose(one.interval, wanted, rtol=1e-12)
        assert 0 < one.interval.high - one.interval.low < 0.9
        assert one.confidence == 0.9


def test_a_level_estimate_may_be_negative_and_its_interval_is_not() -> None:
    constant = boolean.estimate_level_weights(model_of(np.ones(8)), [1, 2, 3], n_samples=50, score_range=(0, 1), rng=1)
    assert min(one.value for one in constant) < 0
    assert all(one.interval.low == 0 for one in constant)


def test_level_intervals_are_the_solutions_of_chebyshev_s_inequality() -> None:
    rng = np.random.default_rng(2)
    for _ in range(200):
        n_draws, n_sets = int(rng.integers(2, 500)), int(rng.integers(1, 500))
        bound, risk, value = rng.uniform(0.1, 2), rng.uniform(0.01, 0.5), rng.normal()
        low, high = estimation._chebyshev(value, n_draws, n_sets, bound=bound, risk=risk)
        weights = np.linspace(0, bound**2, 500)
        pairs = n_draws * (n_draws - 1)
        variance = 4 * (n_draws - 2) / pairs * bound**2 * weights + 2 / pairs * bound**4 * n_sets
        fine = (value - weights) ** 2 <= variance / risk
        inside = (low - 1e-9 <= weights) & (weights <= high + 1e-9)
        assert inside[fine].all()
        strictly = (low + 1e-9 < weights) & (weights < high - 1e-9)
        assert fine[strictly].all()


def test_level_intervals_of_a_real_size_cover_in_seeded_runs() -> None:
    weights = np.random.default_rng(3).standard_normal(2**8) * 0.5 ** boolean.degrees(8)
    values = np.sign(boolean.inverse_fourier(weights))
    truth = boolean.degree_weight(boolean.fourier(values))
    model = model_of(values)
    missed = np.zeros(3)
    for seed in range(200):
        seen = boolean.estimate_level_weights(model, [1, 2, 3], n_samples=300, score_range=(-1, 1), rng=seed)
        missed += [not e.interval.low <= truth[e.of] <= e.interval.high for e in seen]
    assert (missed <= 0.1 / 3 * 200 + 3 * math.sqrt(200 * 0.033)).all()


def test_level_intervals_are_useful_for_many_features() -> None:
    tribes = mask_function(lambda m: np.where(m[:, :3].all(axis=1), 1.0, -1.0)[:, None], n_features=100)
    truth = boolean.degree_weight(boolean.fourier(np.where(np.arange(8) == 7, 1.0, -1.0)))
    levels = boolean.estimate_level_weights(tribes, [1, 2, 3], n_samples=5000, score_range=(-1, 1), rng=4)
    for estimate in levels:
        assert estimate.interval.low <= truth[estimate.of] <= estimate.interval.high
    assert levels[0].interval.high - levels[0].interval.low < 0.2
    assert levels[1].interval.high - levels[1].interval.low < 0.3
    assert levels[1].interval.low > 0


@pytest.mark.parametrize("p", [0.5, 0.3])
def test_coefficients_of_all_subsets_are_near_the_truth(p: float) -> None:
    model, subsets = model_of(SCORES), [boolean.features_of(row) for row in range(2**N)]
    seen = boolean.estimate_coefficients(model, subsets, n_samples=20000, score_range=(0, 1), p=p, rng=5)
    truth = boolean.biased(SCORES, p)
    assert [estimate.of for estimate in seen] == subsets
    for estimate, wanted in zip(seen, truth, strict=True):
        assert estimate.interval.low <= wanted <= estimate.interval.high
        assert abs(estimate.value - wanted) < 0.02


@pytest.mark.parametrize(("n_samples", "confidence"), [(50, 0.9), (300, 0.99)])
def test_coefficient_intervals_cover_by_the_binomial_law(n_samples: int, confidence: float) -> None:
    """For a ±1 function the terms are ±1: the miss probability is a binomial sum."""
    sign = mask_function(lambda masks: 1 - 2.0 * masks[:, :1], n_features=2)
    (estimate,) = boolean.estimate_coefficients(
        sign, [(1,)], n_samples=n_samples, score_range=(-1, 1), confidence=confidence, rng=0
    )
    half = (estimate.interval.high - estimate.interval.low) / 2
    plus = np.arange(n_samples + 1)
    for truth in np.linspace(-1, 1, 201):
        missed = np.abs(2 * plus / n_samples - 1 - truth) > half
        assert binom.pmf(plus[missed], n_samples, (1 + truth) / 2).sum() <= 1 - confidence


def test_terms_of_a_biased_coefficient_stay_within_what_hoeffding_is_given() -> None:
    for p in (0.1, 0.5, 0.7):
        low, high = 2.0, 5.0
        values = np.array([low, high])[np.random.default_rng(6).integers(0, 2, 8)]
        n_draws, (mean, *rest) = 100, [(), (0,), (0, 2), (0, 1, 2)]
        seen = boolean.estimate_coefficients(
            model_of(values), [mean, *rest], n_samples=n_draws, score_range=(low, high), p=p, rng=0
        )
        for estimate in seen:
            columns = (p - tables.all_masks(3)) / math.sqrt(p - p * p)
            terms = (values - (low + high) / 2) * columns[:, estimate.of].prod(axis=1)
            half = (estimate.interval.high - estimate.interval.low) / 2
            width = half / math.sqrt(math.log(2 / (0.1 / 4)) / (2 * n_draws))
            assert np.abs(terms).max() <= width / 2 + 1e-9


def test_runs_repeat_with_their_key_and_not_with_the_batch_size() -> None:
    options: dict[str, Any] = {"n_samples": 200, "score_range": (0, 1)}
    model = model_of(SCORES)
    one = boolean.estimate_coefficients(model, [(0,)], rng=np.random.default_rng(7), **options)
    again = boolean.estimate_coefficients(model, [(0,)], rng=one[0].rng_key, batch_size=3, **options)
    assert one == again
    assert boolean.estimate_level_weights(model, [1], rng=1, **options) != boolean.estimate_level_weights(
        model, [1], rng=2, **options
    )


@given(st.integers(1, 6), st.integers(0, 3), st.integers(0, 2**32), st.data())
@settings(max_examples=40, deadline=None)
def test_low_layers_give_the_conditional_weights(n: int, degree: int, seed: int, data: st.DataObject) -> None:
    values = np.random.default_rng(seed).standard_normal((2**n, 2))
    selected = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    low = boolean.low_degree_weights(model_of(values), selected, degree=degree)
    free = np.flatnonzero(~selected)
    assert low.degree == min(degree, len(free))
    assert low.n_calls == Additions(selected, degree).size
    wanted = boolean.conditional_weights(values, selected)
    place = {int(feature): i for i, feature in enumerate(free)}
    for k, (subsets, weights) in enumerate(zip(low.subsets, low.values, strict=True)):
        assert subsets.shape == (math.comb(len(free), k), k)
        for features, weight in zip(subsets.tolist(), weights, strict=True):
            assert np.allclose(weight, wanted[boolean.index_of(place[i] for i in features)])
    assert np.allclose(low.mass, boolean.degree_mass(wanted)[: low.degree + 1])


def test_low_layers_of_many_features_are_exact() -> None:
    model = mask_function(lambda m: m[:, :1] * m[:, 5:6] * 2.0 - m[:, 7:8], n_features=60)
    low = boolean.low_degree_weights(model, np.zeros(60, dtype=bool), degree=3)
    assert low.n_calls == 1 + 60 + 60 * 59 // 2 + 60 * 59 * 58 // 6
    found = {
        tuple(features): float(weight[0])
        for subsets, weights in zip(low.subsets, low.values, strict=True)
        for features, weight in zip(subsets.tolist(), weights, strict=True)
        if weight[0] != 0
    }
    assert found == {(7,): -1.0, (0, 5): 2.0}


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"score_range": (0, 0.5)}, ModelError, r"must lie in `score_range` = \(0, 0.5\)"),
        ({"score_range": (1, 0)}, InvalidValueError, "`score_range` must be two numbers, low < high"),
        ({"score_range": 1}, InvalidTypeError, "`score_range`"),
        ({"score_range": (0, float("inf"))}, InvalidValueError, "`score_range`"),
        ({"n_samples": 0}, InvalidValueError, "`n_samples` must be a whole number ≥"),
        ({"confidence": 1}, InvalidValueError, "`confidence`"),
        ({"target": 3}, InvalidValueError, "`target` must be a class of the model"),
        ({"rng": -1}, InvalidValueError, "`rng`"),
    ],
)
def test_what_would_void_the_intervals_is_refused(
    changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    options: dict[str, Any] = {"n_samples": 50, "score_range": (0, 1), "rng": 0} | changes
    with pytest.raises(error, match=message):
        boolean.estimate_coefficients(model_of(SCORES), [(0,)], **options)
    with pytest.raises(error, match=message):
        boolean.estimate_level_weights(model_of(SCORES), [1], **options)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda m, o: boolean.estimate_coefficients(m, (0, 1), **o),
            InvalidTypeError,
            r"`subsets` must be sets of features such as \[\(0,\), \(0, 1\)\], not single features, got 0",
        ),
        (lambda m, o: boolean.estimate_coefficients(m, 3, **o), InvalidTypeError, "`subsets` must be sets of features"),
        (
            lambda m, o: boolean.estimate_level_weights(m, 1, **o),
            InvalidTypeError,
            r"`levels` must be whole numbers such as \[1, 2\], got 1",
        ),
        (
            lambda m, o: boolean.estimate_coefficients(m, [(0,)], p=1.5, **o),
            InvalidValueError,
            r"`p` must be a number strictly between 0 and 1, got 1.5\.",
        ),
        (
            lambda m, o: boolean.estimate_coefficients(m, [(0,)], p=[0.5], **o),
            InvalidTypeError,
            r"`p` must be a number strictly between 0 and 1, got \[0.5\]\.",
        ),
        (
            lambda m, o: boolean.estimate_coefficients(m, [(0, 1, 2)], p=1e-300, **o),
            InvalidValueError,
            "`p` must be further from 0 and 1 for a set of 3 features",
        ),
        (
            lambda m, o: boolean.estimate_level_weights(m, [1], **o | {"score_range": (-1e300, 1e300)}),
            InvalidValueError,
            "`score_range` must be at most 1e\\+60 wide",
        ),
        (
            lambda m, o: boolean.estimate_coefficients(m, [(1,)], **o | {"score_range": (-1e308, 1e308)}),
            InvalidValueError,
            "`score_range` must be at most 1e\\+300 wide",
        ),
    ],
)
def test_arguments_of_the_wrong_kind_are_answered_with_the_right_one(
    call: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        call(model_of(SCORES), {"n_samples": 10, "score_range": (0, 1), "rng": 0})


def test_low_layers_that_overflow_are_refused() -> None:
    with pytest.raises(ModelError, match="their weights overflow float64"):
        boolean.low_degree_weights(model_of(np.array([1e308, -1e308])), np.array([False]), degree=1)


def test_sets_levels_and_degrees_that_do_not_exist_are_refused() -> None:
    model, options = model_of(SCORES), {"n_samples": 10, "score_range": (0, 1)}
    with pytest.raises(InvalidValueError, match="`subsets` must hold features 0 to 2, got 3"):
        boolean.estimate_coefficients(model, [(3,)], **options)  # type: ignore[arg-type]
    with pytest.raises(InvalidValueError, match="`levels` must be at most the number of features 3, got 4"):
        boolean.estimate_level_weights(model, [4], **options)  # type: ignore[arg-type]
    wide = mask_function(lambda masks: masks[:, :1], n_features=400)
    with pytest.raises(InvalidValueError, match="`levels` must have at most 1e15 sets, got 20 of 400 features"):
        boolean.estimate_level_weights(wide, [20], **options)  # type: ignore[arg-type]
    with pytest.raises(InvalidValueError, match="`levels` must be a whole number ≥ 1, got 0"):
        boolean.estimate_level_weights(model, [0], **options)  # type: ignore[arg-type]
    with pytest.raises(InvalidValueError, match="`degree` must be at most 4, got 5"):
        boolean.low_degree_weights(model, np.zeros(3, dtype=bool), degree=5)
    with pytest.raises(InvalidValueError, match="`selected` must have one entry per feature"):
        boolean.low_degree_weights(model, np.zeros(2, dtype=bool))
