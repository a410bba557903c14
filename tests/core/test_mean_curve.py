from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast as hf
from holdfast.bounds import Interval
from holdfast.certification import allocation
from holdfast.certification.allocation import (
    _dual,
    allocate,
    squared_errors,
    total_variance,
    variance_of_mean,
    within_variance,
)
from tests.helpers.fakes import Recorded, label_table, score_table
from tests.helpers.oracles import exact_rate

SELECTIONS = {"additions": "0100100", "removals": "1011110", "swaps": "1100100"}


def explained(n_inputs: int, kind: str = "additions", n_features: int = 7) -> list[tuple[hf.MaskedModel, np.ndarray]]:
    """Tables of very different rates, with explanations of different sizes."""
    rng = np.random.default_rng(0)
    found = []
    for i in range(n_inputs):
        labels = (0, 1) if i % 3 else (0, 0, 0, 0, 1)
        selected = rng.permutation(n_features) < 2 + i % 2 * (3 if kind == "removals" else 1)
        found.append((label_table(n_features, seed=i, labels=labels), selected))
    return found


def as_subjects(pairs):
    return [lambda pair=pair: pair for pair in pairs]


def exact_means(pairs, radii, kind="additions"):
    return [float(np.mean([float(exact_rate(m, s, r, neighborhood=kind)) for m, s in pairs])) for r in radii]


# -- how many draws ---------------------------------------------------------------------------------


def size_weights(m: int, radii: range) -> np.ndarray:
    weights = np.zeros((len(radii), m + 1))
    for row, radius in enumerate(radii):
        rings = [math.comb(m, k) for k in range(radius + 1)]
        weights[row, 1 : radius + 1] = [ring / sum(rings) for ring in rings[1:]]
    return weights


def test_a_hundredth_over_48_radii_takes_the_known_number_of_draws():
    # Known: "234 thousand by a distribution-free bound" for ±.01 at 95 %, 48 radii.
    weights, limit = size_weights(48, range(1, 49)), 2 * 0.01**2 / math.log(2 / 0.05)
    n_draws = allocate(weights, np.ones(49), limit)
    assert n_draws.sum() == pytest.approx(234_000, rel=0.01)


@given(st.integers(1, 8), st.integers(1, 8), st.integers(0, 100))
def test_an_allocation_keeps_the_limit_and_nothing_is_much_cheaper(n_means, n_cells, seed):
    rng = np.random.default_rng(seed)
    weights = rng.random((n_means, n_cells)) * (rng.random((n_means, n_cells)) < 0.7)
    spreads, limit = rng.random(n_cells) + 0.01, 1e-5
    n_draws = allocate(weights, spreads, limit)
    assert (squared_errors(weights, spreads, n_draws) <= limit * (1 + 1e-9)).all()
    assert ((n_draws > 0) == (weights > 0).any(axis=0)).all()
    # Any multipliers bound the total of every allocation from below; search good ones.
    squares = weights**2 * spreads
    if (weights > 0).any():
        tried = (rng.dirichlet(np.full(n_means, shape)) for shape in (0.1, 0.3, 1, 3) for _ in range(50))
        assert n_draws.sum() >= max(_dual(one, squares, limit) for one in tried) * (1 - 1e-9)


def test_an_allocation_keeps_the_limit_even_if_its_solver_is_stopped_early(monkeypatch):
    weights, spreads, limit = size_weights(48, range(1, 49)), np.ones(49), 1e-4
    cheapest = allocate(weights, spreads, limit).sum()
    for n_steps in (1, 3):
        monkeypatch.setattr(allocation, "_N_STEPS", n_steps)
        n_draws = allocate(weights, spreads, limit)
        assert (squared_errors(weights, spreads, n_draws) <= limit * (1 + 1e-9)).all()
        assert n_draws.sum() > cheapest


def test_a_weight_too_small_to_have_a_square_gets_one_draw():
    assert allocate(np.array([[1e-200, 0.0]]), np.ones(2), 0.01).tolist() == [1, 0]
    assert allocate(np.array([[1e-200, 0.5]]), np.ones(2), 0.01).tolist() == [1, 25]


def test_the_solver_closes_the_gap_on_curves():
    for m in (5, 48, 147):
        radii = range(1, m + 1)
        weights, limit = size_weights(m, radii), 1e-4
        n_draws = allocate(weights, np.ones(m + 1), limit)
        squares = weights**2
        multipliers = np.ones(m)
        for _ in range(20_000):
            errors = (squares / np.maximum(np.sqrt(multipliers @ squares), 1e-300)).sum(axis=1)
            multipliers *= errors / errors.max()
        assert n_draws.sum() <= 1.01 * _dual(multipliers, squares, limit) + m


# -- the mean ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", SELECTIONS)
def test_the_mean_is_unbiased(kind):
    pairs = explained(5, kind)
    radii = [1, 2, 3]
    truth = exact_means(pairs, radii, kind)
    # Few draws and inputs out of turn: 5 does not divide the number of draws.
    runs = [
        hf.mean_curve(as_subjects(pairs), radii=radii, half_width=0.3, neighborhood=kind, rng=seed).rates
        for seed in range(150)
    ]
    error = 4.5 * np.std(runs, axis=0, ddof=1) / math.sqrt(len(runs))
    assert (np.abs(np.mean(runs, axis=0) - truth) <= error).all()


def test_guaranteed_intervals_hold_as_often_as_they_say():
    pairs, radii = explained(7), [1, 3, 5]
    truth = np.array(exact_means(pairs, radii))
    curves = [
        hf.mean_curve(as_subjects(pairs), radii=radii, half_width=0.15, confidence=0.8, rng=s) for s in range(150)
    ]
    missed = np.mean(
        [[not low <= t <= high for t, (low, high) in zip(truth, c.intervals, strict=True)] for c in curves], axis=0
    )
    assert (missed <= 0.2).all()
    for curve in curves:
        assert all(high - low <= 2 * 0.15 + 1e-9 for low, high in curve.intervals)


def test_normal_intervals_hold_about_as_often_as_they_say():
    pairs, radii = explained(7), [1, 3, 5]
    truth = np.array(exact_means(pairs, radii))
    curves = [
        hf.mean_curve(as_subjects(pairs), radii=radii, half_width=0.06, confidence=0.9, bound="normal", rng=s)
        for s in range(150)
    ]
    missed = np.mean(
        [[not low <= t <= high for t, (low, high) in zip(truth, c.intervals, strict=True)] for c in curves], axis=0
    )
    # 150 runs at 10 %: 17.4 % is three standard errors above.
    assert (missed <= 0.174).all()


def test_all_radii_at_once_take_more_draws():
    pairs = explained(4)
    asked = {"radii": [1, 2, 3, 4], "half_width": 0.1, "rng": 0}
    alone, together = (hf.mean_curve(as_subjects(pairs), simultaneous=s, **asked) for s in (False, True))
    assert together.n_draws > 1.2 * alone.n_draws


@pytest.mark.parametrize(("simultaneous", "risk"), [(False, 0.05), (True, 0.025)])
def test_half_widths_are_those_of_hoeffding(simultaneous, risk):
    # One group with 4 unselected features; radius 1 weighs sizes 0 and 1 by 1:4.
    pairs = [(label_table(6, seed=i), np.arange(6) < 2) for i in range(500)]
    asked = {"radii": [1, 4], "half_width": 0.05, "simultaneous": simultaneous, "rng": 0}
    curve = hf.mean_curve(as_subjects(pairs), **asked)
    weights = np.array([[4, 0, 0, 0], [4, 6, 4, 1]]) / np.array([[5], [16]])
    n_draws = allocate(weights, np.ones(4), 2 * 0.05**2 / math.log(2 / risk))
    assert curve.n_draws == n_draws.sum()
    for one, error in zip(curve, squared_errors(weights, np.ones(4), n_draws), strict=True):
        half = math.sqrt(error * math.log(2 / risk) / 2)
        assert one.interval.high - one.rate == pytest.approx(half, abs=1e-12)
        wide = math.sqrt(error * math.log(4 / risk) / 2) + math.sqrt(math.log(4 / risk) / 1000)
        assert one.population.high - one.rate == pytest.approx(wide, abs=1e-12)


def test_inputs_out_of_turn_are_drawn_at_random():
    # One draw and two inputs with rates 0 and 1: the mean over seeds is one half only if either gets it.
    fixed = [hf.mask_function(lambda shown, keep=keep: shown[:, 1] & ~keep, n_features=2) for keep in (True, False)]
    pairs = [(model, np.array([True, False])) for model in fixed]
    rates = [hf.mean_curve(as_subjects(pairs), radii=[1], half_width=0.7, rng=seed).rates[0] for seed in range(300)]
    drawn = hf.mean_curve(as_subjects(pairs), radii=[1], half_width=0.7, rng=0).n_draws
    assert drawn % 2 == 1
    # Half of the mean is the explanation itself, which always agrees.
    assert np.mean(rates) == pytest.approx(0.75, abs=4.5 * np.std(rates) / math.sqrt(300))
    assert np.std(rates) > 0


def test_many_features_do_not_upset_the_weights():
    # Most of the 2^598 masks have about half of the features: rare sizes have weights without a square.
    model = hf.mask_function(lambda shown: shown[:, 0], n_features=600)
    curve = hf.mean_curve([lambda: (model, np.arange(600) < 2)], radii=[1, 600], half_width=0.2, rng=0)
    assert curve.rates == (1.0, 1.0)


def test_a_memory_is_not_taken_for_another_question():
    pairs, memory = explained(5, "removals"), {}
    asked = {"radii": [1, 2], "half_width": 0.1, "rng": 0}
    hf.mean_curve(as_subjects(pairs), memory=memory, **asked)
    other = hf.mean_curve(as_subjects(pairs), memory=memory, neighborhood="removals", **asked)
    assert other == hf.mean_curve(as_subjects(pairs), neighborhood="removals", **asked)
    with pytest.raises(TypeError, match="`memory` must be a mapping"):
        hf.mean_curve(as_subjects(pairs), memory={}, radii=[1])
    with pytest.raises(TypeError, match="`memory` must be a mapping"):
        hf.mean_curve(as_subjects(pairs), memory=[3], **asked)


@pytest.mark.parametrize("given", [3, (3, np.arange(4) < 2), (score_table(4), [1, 0, 0, 0])])
def test_what_a_subject_returns_is_checked(given):
    with pytest.raises(TypeError, match=r"`(subjects|selected)` must"):
        hf.mean_curve([lambda: given], radii=[1])


def test_the_population_is_less_well_known_than_these_inputs():
    normal = hf.mean_curve(as_subjects(explained(6)), radii=[2], half_width=0.05, bound="normal", rng=0)
    assert normal[2].population.low < normal[2].interval.low


def test_it_costs_the_same_for_few_and_for_many_inputs():
    few, many = (
        hf.mean_curve(as_subjects(explained(n, n_features=12)), radii=range(1, 9), half_width=0.05, rng=0)
        for n in (10, 200)
    )
    assert many.n_draws <= few.n_draws * 1.3
    normal = hf.mean_curve(
        as_subjects(explained(200, n_features=12)), radii=range(1, 9), half_width=0.05, bound="normal", rng=0
    )
    assert normal.n_draws < 0.75 * many.n_draws


def test_calls_and_consistency_are_counted():
    recorded = [(Recorded(model), selected) for model, selected in explained(5)]
    curve = hf.mean_curve(as_subjects(recorded), radii=[1, 2], half_width=0.1, rng=0)
    assert curve.n_calls == sum(model.n_rows for model, _ in recorded)
    kept = [m.model(np.stack([s, np.ones_like(s)])) for m, s in recorded]
    assert curve.n_consistent == sum(a == b for a, b in kept)


class StoppedError(Exception):
    pass


def stop_after(n_batches):
    """Raise at the batch after the first few of all models that share it."""
    seen = []

    def count(n, masks):
        seen.append(n)
        if len(seen) > n_batches:
            raise StoppedError

    return count


@pytest.mark.parametrize("bound", ["hoeffding", "normal"])
def test_an_interrupted_mean_goes_on_with_what_it_remembers(bound):
    asked = {"radii": [1, 3], "half_width": 0.1, "bound": bound, "rng": 0}
    whole = hf.mean_curve(as_subjects(explained(9)), **asked)
    memory, n_stopped, curve = {}, 0, None
    while curve is None:
        stop = stop_after(4)
        models = [(Recorded(model, stop), selected) for model, selected in explained(9)]
        try:
            curve = hf.mean_curve(as_subjects(models), memory=memory, **asked)
        except StoppedError:
            n_stopped += 1
    assert n_stopped >= 2
    assert curve == whole
    again = [(Recorded(model), selected) for model, selected in explained(9)]
    assert hf.mean_curve(as_subjects(again), memory=memory, **asked) == whole
    assert sum(one.n_rows for one, _ in again) == 0


def test_batch_sizes_do_not_matter_and_seeds_do():
    asked = {"radii": [1, 3], "half_width": 0.1}
    first, again, other = (
        hf.mean_curve(as_subjects(explained(5)), batch_size=size, rng=seed, **asked)
        for size, seed in ((None, 1), (3, 1), (None, 2))
    )
    assert first == again
    assert first.rates != other.rates


def test_inputs_of_different_lengths_are_weighed_by_their_own_sizes():
    pairs = [(label_table(n, seed=n), np.arange(n) < 2) for n in (3, 5, 8, 8)]
    truth = exact_means(pairs, [2, 6])
    curve = hf.mean_curve(as_subjects(pairs), radii=[2, 6], half_width=0.02, rng=0)
    assert all(abs(one.rate - t) <= 0.02 for one, t in zip(curve, truth, strict=True))


def test_an_explanation_of_everything_is_stable():
    curve = hf.mean_curve([lambda: (score_table(4), np.ones(4, dtype=bool))], radii=[0, 3], rng=0)
    assert curve.rates == (1.0, 1.0)
    assert curve.n_draws == 0


def test_smoothed_models_have_mean_curves():
    pairs = [(hf.smooth(score_table(7, seed=i), 0.7, 9, rng=i), np.arange(7) < 2) for i in range(4)]
    truth = exact_means([(_tabulated(model), selected) for model, selected in pairs], [3])
    curve = hf.mean_curve(as_subjects(pairs), radii=[3], half_width=0.03, rng=0)
    assert abs(curve[3].rate - truth[0]) <= 0.03


def _tabulated(model):
    from tests.helpers.fakes import all_masks

    return hf.lookup_table(model(all_masks(model.n_features)), n_features=model.n_features)


def test_a_mean_curve_is_a_value():
    curve = hf.mean_curve(as_subjects(explained(3)), radii=[1, 2], half_width=0.2, rng=0)
    assert hf.MeanCurve.from_json(curve.to_json()) == curve
    assert list(curve.to_frame().columns)[:2] == ["radius", "rate"]
    assert "these inputs" in str(curve)
    near, far = (Interval(0.40049, 0.60051),) * 2, (Interval(0.30049, 0.70051),) * 2
    close = replace(curve, intervals=near, population_intervals=far)
    assert "these inputs [0.400, 0.601]  population [0.300, 0.701]" in str(close)
    with pytest.raises(KeyError):
        curve[9]


def test_bad_questions_are_refused():
    with pytest.raises(ValueError, match="got none"):
        hf.mean_curve([], radii=[1])
    with pytest.raises(TypeError, match="functions that return a pair"):
        hf.mean_curve([3], radii=[1])
    with pytest.raises(ValueError, match="`half_width` must be"):
        hf.mean_curve(as_subjects(explained(1)), radii=[1], half_width=2)
    with pytest.raises(ValueError, match="`bound` must be one of hoeffding, normal"):
        hf.mean_curve(as_subjects(explained(1)), radii=[1], bound="bootstrap")


@pytest.mark.parametrize(
    "subjects", [None, 3, [(score_table(3), np.ones(3, dtype=bool))]], ids=["none", "number", "pairs"]
)
def test_subjects_must_be_functions(subjects):
    with pytest.raises(hf.InvalidTypeError, match="`subjects` must be functions that return a pair"):
        hf.mean_curve(subjects, radii=[1])
    with pytest.raises(hf.InvalidValueError, match="got none"):
        hf.mean_curve([], radii=[1])


def test_progress_is_told_after_every_input_and_changes_nothing():
    pairs, told = explained(5), []
    quiet = hf.mean_curve(as_subjects(pairs), radii=[1, 2], half_width=0.3, rng=0)
    heard = hf.mean_curve(
        as_subjects(pairs), radii=[1, 2], half_width=0.3, rng=0, progress=lambda *done: told.append(done)
    )
    assert heard == quiet
    assert told[:5] == [(i + 1, 5) for i in range(5)]


def test_a_mean_has_no_canonical_key() -> None:
    model = hf.mask_function(lambda masks: masks[:, 0], n_features=4)
    with pytest.raises(hf.InvalidValueError, match="`rng` must be a seed, a generator or None"):
        hf.mean_curve([lambda: (model, [0])], radii=[1], rng="canonical")


# -- the variance within inputs ------------------------------------------------------------------------


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
