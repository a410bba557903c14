"""Explaining again: how much selections overlap and rates differ, with intervals that hold."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from holdfast import Attribution, Evaluator, attribute, mask_function, reexplain, top
from holdfast.certification import Reexplanation
from holdfast.certification.reexplain import bound_mean_of_pairs, mean_overlap
from holdfast.errors import InvalidTypeError, InvalidValueError
from tests.helpers import strategies
from tests.helpers.fakes import Recorded, label_table, score_table
from tests.helpers.hardest import most_failures
from tests.helpers.oracles import exact_rate


def linear(n: int = 12, seed: int = 0) -> Any:
    weights = np.random.default_rng(seed).normal(size=n)
    return mask_function(lambda masks: np.stack([masks @ weights, np.ones(len(masks))], axis=1), n_features=n)


# -- overlap ----------------------------------------------------------------------------------------


@given(st.integers(2, 6).flatmap(lambda n: st.lists(strategies.masks(n, n), min_size=2, max_size=6)))
def test_the_overlap_is_the_mean_share_of_common_features(masks: list[Any]) -> None:
    sets = [set(np.flatnonzero(mask)) for mask in masks]
    shares = [Fraction(len(a & b), len(a | b)) if a | b else Fraction(1) for a, b in combinations(sets, 2)]
    mean, error = mean_overlap(masks)
    assert mean == pytest.approx(float(sum(shares) / len(shares)))
    if len(masks) == 2:
        assert error is None
        return
    left_out = [
        np.mean([share for pair, share in zip(combinations(range(len(sets)), 2), shares, strict=True) if i not in pair])
        for i in range(len(sets))
    ]
    wanted = math.sqrt((len(sets) - 1) * np.var([float(one) for one in left_out]))
    assert error == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize("mean", [0.0, 0.2, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("n", [2, 3, 10, 41])
def test_the_interval_of_the_overlap_is_where_hoeffdings_bound_reaches_half_the_risk(mean: float, n: int) -> None:
    low, high = bound_mean_of_pairs(mean, n, 0.1)
    assert 0 <= low <= mean <= high <= 1

    def bound(point: float) -> float:
        logs = [m * math.log(m / p) for m, p in ((mean, point), (1 - mean, 1 - point)) if m > 0]
        return math.exp(-(n // 2) * sum(logs))

    for end in (low, high):
        if 0 < end < 1:
            assert bound(end) == pytest.approx(0.05, rel=1e-3)
    # Never wider than the better known form of the inequality.
    assert max(mean - low, high - mean) <= math.sqrt(math.log(20) / (2 * (n // 2))) + 1e-12


@pytest.mark.parametrize("n", [2, 5, 12, 30])
@pytest.mark.parametrize("share", [0.03, 0.2, 0.5, 0.77, 0.97])
def test_the_interval_of_the_overlap_misses_no_more_often_than_stated(n: int, share: float) -> None:
    """Pairs whose overlap is 0 or 1, all independent: the hardest numbers in [0, 1], summed exactly.

    With n/2 disjoint pairs only, the mean of all pairs can do no worse (Hoeffding, 1963, section 5a).
    """
    k = n // 2
    missed = 0.0
    for count in range(k + 1):
        low, high = bound_mean_of_pairs(count / k, n, 0.1)
        missed += binom.pmf(count, k, share) * (not low <= share <= high)
    assert missed <= 0.1


def test_the_interval_of_the_overlap_of_real_pairs_misses_no_more_often_than_stated() -> None:
    # Selections of k of 6 features at random; the expected overlap is a sum over all pairs of selections.
    masks = np.array([[i in chosen for i in range(6)] for chosen in combinations(range(6), 2)])
    expected = np.mean(
        [
            [len(set(a) & set(b)) / len(set(a) | set(b)) for b in combinations(range(6), 2)]
            for a in combinations(range(6), 2)
        ]
    )
    rng, misses = np.random.default_rng(0), 0
    for _ in range(2000):
        drawn = list(masks[rng.integers(len(masks), size=8)])
        low, high = bound_mean_of_pairs(mean_overlap(drawn)[0], 8, 0.1)
        misses += not low <= expected <= high
    assert misses <= most_failures(2000, 0.1)


# -- rates ------------------------------------------------------------------------------------------


def test_the_true_spread_of_the_rates_lies_in_its_interval_as_often_as_stated() -> None:
    # Selections at random of a table of labels whose rates are enumerated; each run draws both anew.
    table = label_table(11, seed=1, labels=(0, 0, 0, 1))
    evaluator = Evaluator(table)
    known: dict[bytes, Fraction] = {}

    def rate(mask: Any) -> Fraction:
        if mask.tobytes() not in known:
            known[mask.tobytes()] = exact_rate(evaluator, mask, 6)
        return known[mask.tobytes()]

    n_runs, misses = 150, 0
    pool = [attribute(table, "random", rng=seed) for seed in range(12)]
    for seed in range(n_runs):
        picked = np.random.default_rng(seed).integers(12, size=4)
        chosen = iter(picked)
        found = reexplain(evaluator, lambda model, key, c=chosen: pool[next(c)], radius=6, n_repeats=4, rng=seed)
        rates = [rate(mask) for mask in found.selections]
        low, high = found.rate_spread_interval
        misses += not low - 1e-12 <= float(max(rates) - min(rates)) <= high + 1e-12
        assert all(not one.exact for one in found.certificates)
    assert misses <= most_failures(n_runs, 0.1)


def test_enumerated_rates_give_the_spread_exactly() -> None:
    table = label_table(6, seed=4, labels=(0, 0, 1))
    found = reexplain(table, "random", radius=6, n_repeats=6, rng=1)
    truth = [exact_rate(table, mask, 6) for mask in found.selections]
    assert found.rates == tuple(map(float, truth))
    assert all(one.exact for one in found.certificates)
    spread = float(max(truth) - min(truth))
    assert found.rate_spread_interval == pytest.approx((spread, spread))
    assert found.rate_spread == pytest.approx(spread)
    assert spread > 0


# -- repeats ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["shap", "occlusion"])
def test_a_method_that_draws_nothing_gives_the_same_explanation_every_time(method: str) -> None:
    found = reexplain(linear(), method, radius=4, n_repeats=5, rng=0)
    assert (found.overlap, found.overlap_interval, found.overlap_error) == (1.0, (1.0, 1.0), 0.0)
    assert (len(found.certificates), found.which) == (1, (0,) * 5)
    assert (found.rate_spread, found.rate_spread_interval) == (0.0, (0.0, 0.0))
    assert "it draws nothing at random" in found.explain()
    assert "All 5 selections are the same." in found.explain()


def test_random_explanations_overlap_as_chance_has_it_and_others_more() -> None:
    by_chance = reexplain(linear(), "random", radius=4, n_repeats=40, rng=0)
    expected = sum(math.comb(3, k) * math.comb(9, 3 - k) / math.comb(12, 3) * k / (6 - k) for k in range(4))
    assert by_chance.overlap == pytest.approx(expected, abs=4 * by_chance.overlap_error)
    assert by_chance.overlap_interval.low <= expected <= by_chance.overlap_interval.high
    few = reexplain(linear(), "lime", radius=4, n_repeats=10, n_samples=20, target=0, rng=0)
    many = reexplain(linear(), "lime", radius=4, n_repeats=10, n_samples=1000, target=0, rng=0)
    assert by_chance.overlap < few.overlap < many.overlap == 1.0


def test_every_repeat_has_draws_of_its_own_and_the_key_repeats_all_of_them() -> None:
    model = score_table(12, seed=3)
    found = reexplain(model, "lime", radius=3, n_repeats=4, n_samples=50, penalty=2.0, target=1, rng=None)
    keys = [one.rng_key for one in found.attributions]
    assert len(set(keys)) == 4
    for one in found.attributions:
        assert one == attribute(model, "lime", n_samples=50, penalty=2.0, target=1, rng=one.rng_key) or one.n_calls < 50
        again = attribute(model, "lime", n_samples=50, penalty=2.0, target=1, rng=one.rng_key)
        np.testing.assert_array_equal(one.scores, again.scores)
    second = reexplain(model, "lime", radius=3, n_repeats=4, n_samples=50, penalty=2.0, target=1, rng=found.rng_key)
    assert second == found


def test_selections_are_the_callers_or_the_papers_quarter() -> None:
    model = linear()
    quarter = reexplain(model, "lime", radius=2, n_repeats=2, n_samples=100, rng=0)
    assert {int(mask.sum()) for mask in quarter.selections} == {3}
    mine = reexplain(model, "lime", radius=2, n_repeats=2, n_samples=100, select=lambda one: top(one, 5), rng=0)
    assert {int(mask.sum()) for mask in mine.selections} == {5}
    for attribution, mask in zip(mine.attributions, mine.selections, strict=True):
        assert mask.tolist() == top(attribution, 5).tolist()
    with pytest.raises(InvalidTypeError, match=r"^`select\(attribution\)` must be Boolean"):
        reexplain(model, "lime", radius=2, n_repeats=2, n_samples=10, select=lambda one: [0.5, 2.0])
    with pytest.raises(InvalidTypeError, match=r"^`select` must be a function of an attribution, or None, got 5"):
        reexplain(model, "lime", radius=2, n_repeats=2, n_samples=10, select=5)  # type: ignore[arg-type]


def test_a_method_of_the_users_own_gets_the_model_and_a_seed() -> None:
    seeds: list[int] = []

    def noisy(model: Any, seed: int) -> Any:
        seeds.append(seed)
        return np.random.default_rng(seed).random(model.n_features)

    found = reexplain(linear(), noisy, radius=3, n_repeats=3, rng=0)
    assert (found.method, len(set(seeds))) == ("noisy", 3)
    assert [one.scores.tolist() for one in found.attributions] == [
        np.random.default_rng(seed).random(12).tolist() for seed in seeds
    ]
    given = reexplain(linear(), lambda model, seed: Attribution(np.arange(12), method="mine"), radius=3, n_repeats=2)
    assert given.method == "mine"
    assert given.overlap == 1.0
    assert given.overlap_interval.low < 1  # what a user's own function draws is not known


def test_calls_are_shared_and_counted() -> None:
    model = Recorded(linear())
    found = reexplain(model, "lime", radius=3, n_repeats=3, n_samples=60, rng=0)
    assert found.n_calls == model.n_rows
    repeats = sum(count - 1 for count in model.times_asked.values())
    assert repeats == sum(cert.n_repeated for cert in found.certificates) > 0


def test_it_survives_json_and_says_how_many_are_consistent() -> None:
    found = reexplain(score_table(10, seed=2), "lime", radius=3, n_repeats=4, n_samples=40, rng=0)
    assert Reexplanation.from_json(found.to_json()) == found
    assert found.n_consistent == sum(found.certificates[i].consistent for i in found.which)
    assert str(found).startswith("Two explanations by lime share ")
    assert f"{found.n_consistent} of 4 selections have the prediction of the full input." in found.explain()
    for before, after in [('"which": [0', '"which": [7'), ('"overlap": ', '"overlap": 3')]:
        edited = found.to_json().replace(before, after, 1)
        with pytest.raises(InvalidValueError, match=r"is not a valid holdfast\.reexplanation"):
            Reexplanation.from_json(edited)


@pytest.mark.parametrize(
    ("asked", "error", "message"),
    [
        ({"n_repeats": 1}, InvalidValueError, "`n_repeats` must be a whole number ≥ 2, got 1."),
        ({"radius": -1}, InvalidValueError, "`radius` must be"),
        ({"method": "limes"}, InvalidValueError, "`method` must be one of"),
        ({"tolerance": 0}, InvalidValueError, "`tolerance` must be"),
        ({"confidence": 1}, InvalidValueError, "`confidence` must be"),
        ({"agree": "same"}, InvalidValueError, "`agree` must be one of"),
        ({"rng": -3}, InvalidValueError, "`rng` must be"),
        ({"width": 3}, InvalidTypeError, "`width` is not an option of 'lime'"),
    ],
)
def test_what_cannot_be_is_refused_before_any_call(asked: dict[str, Any], error: type[Exception], message: str) -> None:
    model = Recorded(linear())
    with pytest.raises(error, match=message):
        reexplain(model, **({"method": "lime", "radius": 3} | asked))
    assert model.n_rows == 0


def test_a_function_is_not_believed_to_draw_nothing_because_of_its_name() -> None:
    def lime(model: Any, seed: int) -> Attribution:
        return Attribution(np.random.default_rng(seed).random(12), method="lime")

    found = reexplain(score_table(12), lime, radius=2, n_repeats=6, rng=0)
    assert found.overlap_interval.low < found.overlap_interval.high


def test_options_of_a_function_are_refused() -> None:
    with pytest.raises(TypeError, match="must set its own options"):
        reexplain(score_table(4), lambda model, seed: np.ones(4), radius=1, n_samples=7)
