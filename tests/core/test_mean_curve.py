from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast as hf
from holdfast.bounds import BettingRounds, Interval, chernoff
from holdfast.certification import allocation
from holdfast.certification.allocation import _dual, allocate
from holdfast.certification.mean_curve import StratifiedSample, bet_until
from holdfast.certification.question import Procedure
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


def squared_errors(weights: np.ndarray, spreads: np.ndarray, n_draws: np.ndarray) -> np.ndarray:
    return (weights**2 * spreads / np.maximum(n_draws, 1)).sum(axis=1)


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
def test_the_mean_is_the_right_one(kind):
    pairs = explained(5, kind)
    radii = [1, 2, 3]
    truth = exact_means(pairs, radii, kind)
    runs = [
        hf.mean_curve(as_subjects(pairs), radii=radii, half_width=0.1, neighborhood=kind, rng=seed).rates
        for seed in range(15)
    ]
    assert np.abs(np.mean(runs, axis=0) - truth).max() < 0.03


def stable_but(n_unstable: int, n_inputs: int) -> list[tuple[hf.MaskedModel, np.ndarray]]:
    """Inputs whose prediction every addition changes, and others that none does: the hardest inputs of a mean."""
    always = hf.mask_function(lambda masks: masks[:, 0], n_features=6)
    never = hf.mask_function(lambda masks: masks[:, 1:].any(axis=1), n_features=6)
    return [(never if i < n_unstable else always, np.arange(6) < 1) for i in range(n_inputs)]


HARD = {
    "very different tables": (lambda: explained(7), 0.8, 0.15),
    "one of 30 never agrees": (lambda: stable_but(1, 30), 0.8, 0.08),
    "two of 12 never agree": (lambda: stable_but(2, 12), 0.9, 0.15),
    "half never agree": (lambda: stable_but(4, 8), 0.8, 0.2),
}


class SampleOfRates(StratifiedSample):
    """Answers that are drawn from known rates at exactly k changes, (n_inputs, n_sizes), without any model."""

    def __init__(self, pairs, rates, procedure, seed):
        super().__init__(as_subjects(pairs), procedure, {}, None)
        self._rates, self._answers = rates, np.random.default_rng(seed)

    def _draw_for_input(self, i, spans):
        self.consistent[i] = True
        for (free, size), (start, stop) in spans.items():
            n_agreed = self._answers.binomial(stop - start, self._rates[i][size])
            self.tallies[free, size][:, self._places[i]] += (stop - start, n_agreed)


def misses(name: str, n_runs: int) -> np.ndarray:
    """How often each radius's interval leaves out the mean of these inputs; all are as narrow as asked for."""
    make, sure, half = HARD[name]
    pairs, radii = make(), [1, 3, 5]
    truth, missed = np.array(exact_means(pairs, radii)), np.zeros(len(radii))
    sizes = [range(int((~selected).sum()) + 1) for _, selected in pairs]
    rates = [
        [float(exact_rate(model, selected, k, rate_kind="exactly")) for k in free]
        for (model, selected), free in zip(pairs, sizes, strict=True)
    ]
    for seed in range(n_runs):
        procedure = Procedure.check(hf.mean_curve, "mean", {"rng": seed}, radii=radii)
        sample = SampleOfRates(pairs, rates, procedure, seed)
        bets = bet_until(sample, sample.weights(radii), half, 1 - sure)
        lows, highs = np.transpose([bet.interval(1 - sure) for bet in bets])
        means = np.array([bet.mean for bet in bets])
        assert max(np.max(means - lows), np.max(highs - means)) <= half
        missed += ~((lows <= truth) & (truth <= highs))
    return missed / n_runs


@pytest.mark.slow
@pytest.mark.parametrize("name", HARD)
def test_intervals_hold_as_often_as_they_say_in_twenty_thousand_runs(name):
    assert (misses(name, 20_000) <= 1 - HARD[name][1]).all()


def bets_of(answers: tuple[int, ...], turns: tuple[tuple[int, ...], ...], predictions: list[float]) -> BettingRounds:
    """Rounds over the inputs in turns: each draw is compared with the prediction made for its input."""
    bets, seen = BettingRounds(), 0
    for round_number, members in enumerate(turns):
        drawn = np.array(answers[seen : seen + len(members)], dtype=float)
        guess = np.full(len(predictions), 0.5) if round_number == 0 else np.array(predictions)
        values = drawn - guess[list(members)] + guess.mean()
        # Stakes and, for the second round, whether there is one, may depend on what was seen.
        stake = 0.35 if round_number == 0 else 0.3 + 0.1 * answers[0]
        bets.add(values, np.ones(len(drawn)), above=stake, below=0.8 * stake)
        seen += len(drawn)
        if round_number == 0 and sum(answers[:seen]) == seen:
            break  # all agreed: stop
    return bets


@pytest.mark.parametrize("rates", [(0.5, 0.5, 0.5), (0.0, 1.0, 1.0), (0.0, 0.0, 1.0), (0.1, 0.9, 0.97)])
@pytest.mark.parametrize("risk", [0.9, 0.5, 0.2])
def test_bets_miss_no_more_often_than_their_risk_summed_over_every_sequence(rates, risk):
    # Three inputs: a whole turn each, then a second round of two of them in a random order, unless all agreed.
    truth, missed = float(np.mean(rates)), 0.0
    orders = [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]
    for order, answers in product(orders, product((0, 1), repeat=5)):
        chances = [rates[i] if answer else 1 - rates[i] for i, answer in zip((0, 1, 2, *order), answers, strict=True)]
        low, high = bets_of(answers, ((0, 1, 2), order), [0.2, 0.7, 0.9]).interval(risk)
        missed += math.prod(chances) / len(orders) * (not low <= truth <= high)
    assert missed <= risk


def test_a_stake_that_could_lose_everything_is_refused():
    for stakes in ({"above": 1.0, "below": 0.1}, {"above": 0.1, "below": 1.0}):
        with pytest.raises(ValueError, match="must not be lost entirely"):
            BettingRounds().add(np.array([0.0, 1.0]), np.ones(2), **stakes)


@pytest.mark.parametrize("n", [1, 5, 40])
@pytest.mark.parametrize("rate", [0.02, 0.3, 0.5, 0.97])
@pytest.mark.parametrize("confidence", [0.5, 0.9])
def test_the_interval_of_chernoff_holds_and_is_within_hoeffding_s(n, rate, confidence):
    from holdfast.bounds import hoeffding

    missed = 0.0
    for k in range(n + 1):
        low, high = chernoff(k / n, n, confidence=confidence)
        wide = hoeffding(k, n, confidence=confidence)
        assert wide.low - 1e-9 <= low <= k / n <= high <= wide.high + 1e-9
        missed += math.comb(n, k) * rate**k * (1 - rate) ** (n - k) * (not low <= rate <= high)
    assert missed <= 1 - confidence


def test_a_mean_beyond_its_range_has_no_interval():
    with pytest.raises(hf.errors.InvalidValueError, match="`mean` must be a number from 0 to 1"):
        chernoff(1.2, 5)


@pytest.mark.parametrize(("rate", "gain"), [(0.5, 0.95), (0.9, 2.2), (0.95, 3.4), (0.99, 8.0)])
def test_rates_near_one_take_far_fewer_draws_than_hoeffding_asks_for(rate, gain):
    # Fifty inputs alike, one radius: Hoeffding takes ln(2/δ)/(2 h²).
    model, radii = hf.mask_function(lambda masks: masks[:, 0], n_features=11), [5]
    procedure = Procedure.check(hf.mean_curve, "mean", {"rng": 0}, radii=radii)
    sample = SampleOfRates([(model, np.arange(11) < 1)] * 50, [[rate] * 11] * 50, procedure, seed=0)
    bet_until(sample, sample.weights(radii), 0.01, 0.05)
    assert math.log(2 / 0.05) / (2 * 0.01**2) / sample.n_draws > gain


def test_all_radii_at_once_take_more_draws():
    pairs = explained(4)
    asked = {"radii": [1, 2, 3, 4], "half_width": 0.1, "rng": 0}
    alone, together = (hf.mean_curve(as_subjects(pairs), simultaneous=s, **asked) for s in (False, True))
    assert together.n_draws > 1.2 * alone.n_draws


def test_many_features_do_not_upset_the_weights():
    # Most of the 2^598 masks have about half of the features: rare sizes have weights without a square.
    model = hf.mask_function(lambda shown: shown[:, 0], n_features=600)
    curve = hf.mean_curve([lambda: (model, np.arange(600) < 2)], radii=[1, 600], half_width=0.2, rng=0)
    assert curve.rates == pytest.approx((1.0, 1.0), abs=1e-12)


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
    curve = hf.mean_curve(as_subjects(explained(6)), radii=[2], half_width=0.05, rng=0)
    assert curve[2].population.low < curve[2].interval.low
    assert curve[2].population.high > curve[2].interval.high


def test_it_costs_the_same_for_few_and_for_many_inputs():
    few, many = (
        hf.mean_curve(as_subjects(explained(n, n_features=12)), radii=range(1, 9), half_width=0.05, rng=0)
        for n in (10, 200)
    )
    assert many.n_draws <= few.n_draws * 1.5


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


def test_an_interrupted_mean_goes_on_with_what_it_remembers():
    asked = {"radii": [1, 3], "half_width": 0.1, "rng": 0}
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
    assert curve.intervals == (Interval(1.0, 1.0),) * 2
    assert curve.n_draws == 0
    assert curve.n_consistent == 1


def test_nothing_is_drawn_for_radius_zero():
    curve = hf.mean_curve(as_subjects(explained(4)), radii=[0, 2], half_width=0.1, rng=0)
    assert curve[0].interval == (1.0, 1.0)
    assert curve[2].interval.low < curve[2].interval.high


def test_confidence_so_near_one_that_floats_cannot_halve_the_risk_is_kept():
    curve = hf.mean_curve(as_subjects(explained(2)), radii=[2], half_width=0.4, confidence=1 - 1e-15, rng=0)
    assert curve[2].population.low <= curve[2].interval.low


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


@pytest.mark.parametrize(
    "subjects", [None, 3, [(score_table(3), np.ones(3, dtype=bool))]], ids=["none", "number", "pairs"]
)
def test_subjects_must_be_functions(subjects):
    with pytest.raises(hf.errors.InvalidTypeError, match="`subjects` must be functions that return a pair"):
        hf.mean_curve(subjects, radii=[1])
    with pytest.raises(hf.errors.InvalidValueError, match="got none"):
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
    with pytest.raises(hf.errors.InvalidValueError, match="`rng` must be a seed, a generator or None"):
        hf.mean_curve([lambda: (model, [0])], radii=[1], rng="canonical")
