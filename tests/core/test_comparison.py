"""Comparisons: paired draws, differences that hold at once, and rankings that are seldom wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gammaln, xlogy
from scipy.stats import binomtest

from holdfast import Comparison, Evaluator, Interval, compare, lookup_table, mask_function, smooth
from holdfast.bounds import clopper_pearson
from holdfast.certification import Difference
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.plans import make_plan
from holdfast.types import Mask, Masks
from tests.helpers import strategies
from tests.helpers.contracts import bits
from tests.helpers.fakes import Recorded, label_table, score_table
from tests.helpers.hardest import (
    explanations,
)
from tests.helpers.oracles import exact_rate

F = Fraction
PLANS = ("exact", "sequential", "hoeffding")


# -- equal to enumeration ---------------------------------------------------------------------------


@settings(max_examples=40)
@given(
    table=strategies.tables(5),
    first=strategies.masks(5, 5),
    second=strategies.masks(5, 5),
    radii=st.lists(strategies.radii(6), min_size=1, max_size=3),
    kind=strategies.kinds,
    plan=st.sampled_from(PLANS),
)
def test_a_comparison_equals_enumeration_where_all_masks_can_be_asked(
    table: Any, first: Mask, second: Mask, radii: list[int], kind: str, plan: str
) -> None:
    masks = {"a": first, "b": second}
    found = compare(table, masks, radii, neighborhood=kind, plan=plan, tolerance=0.1, confidence=0.9, rng=0)
    for radius in found.radii:
        a, b = (exact_rate(table, mask, min(radius, 5), neighborhood=kind) for mask in masks.values())
        assert (found.curve("a")[radius].rate, found.curve("b")[radius].rate) == (float(a), float(b))
        (difference,) = found[radius]
        assert difference.interval.low == difference.interval.high == difference.estimate == float(a) - float(b)
        assert found.ranking(radius) == ((("a", "b"),) if a > b else (("b", "a"),) if b > a else ())


def test_each_explanation_is_held_to_its_own_prediction() -> None:
    # With feature 0 the model says 1, without it 0: additions to "with" never change that.
    model = mask_function(lambda masks: masks[:, 0].astype(int), n_features=6)
    found = compare(model, explanations("100000", "011000"), [4], rng=0)
    assert [curve.certificates[0].prediction for curve in found.curves] == [1, 0]
    assert found.curve("a")[4].rate == 1
    assert found.curve("b")[4].rate == float(exact_rate(model, bits("011000"), 4)) < 1
    assert found.ranking(4) == (("a", "b"),)


# -- paired draws -----------------------------------------------------------------------------------


FIRST_LOOK = {
    "exact": make_plan("exact", tolerance=0.1, confidence=0.9).design.looks[0],
    "sequential": make_plan("sequential", tolerance=0.1, confidence=0.95).design.looks[0],
}
"""Draws of each explanation in the first round; two sequential rates share the risk."""


def first_round(masks: Mapping[str, Mask], plan: str, seed: int) -> list[Masks]:
    """The draws of each explanation in the first batch, at radius 8, where no mask is drawn twice."""
    recorded = Recorded(mask_function(lambda rows: rows[:, -1], n_features=40))
    compare(recorded, masks, [8], plan=plan, batch_size=10**6, check_determinism=False, rng=seed)
    n_draws, n_references = FIRST_LOOK[plan], len(masks) + 1
    assert len(recorded.batches[0]) == n_draws * len(masks) + n_references
    start = 0 if plan == "sequential" else n_references
    parts = np.split(recorded.batches[0][start : start + n_draws * len(masks)], len(masks))
    for part, mask in zip(parts, masks.values(), strict=True):
        assert part[:, mask].all()
    return parts


@pytest.mark.parametrize("plan", FIRST_LOOK)
def test_paired_draws_add_the_first_features_of_one_common_order(plan: str) -> None:
    masks = {"a": np.arange(40) < 4, "b": np.arange(40) % 10 == 9}
    common = ~masks["a"] & ~masks["b"]
    for seed in range(3):
        first, second = first_round(masks, plan, seed)
        np.testing.assert_array_equal(first.sum(axis=1), second.sum(axis=1))
        shared_first, shared_second = first[:, common], second[:, common]
        nested = (shared_first <= shared_second).all(axis=1) | (shared_second <= shared_first).all(axis=1)
        assert nested.all()
        # Draws of different rows are not nested: the order is a new one every time.
        shifted = np.roll(shared_second, 1, axis=0)
        assert not ((shared_first <= shifted).all(axis=1) | (shifted <= shared_first).all(axis=1)).any()


def test_explanations_of_unequal_size_meet_the_same_order_and_the_same_quantile_of_sizes() -> None:
    masks = {"a": np.arange(40) < 4, "b": np.arange(40) >= 28}
    common = ~masks["a"] & ~masks["b"]
    first, second = first_round(masks, "exact", 0)
    n_first, n_second = first.sum(axis=1) - 4, second.sum(axis=1) - 12
    by_size = np.lexsort((n_second, n_first))
    assert (np.diff(n_second[by_size]) >= 0).all()
    shared_first, shared_second = first[:, common], second[:, common]
    assert ((shared_first <= shared_second).all(axis=1) | (shared_second <= shared_first).all(axis=1)).all()


def test_a_difference_comes_from_the_draws_on_which_two_explanations_disagree() -> None:
    # Reference: scipy.stats.binomtest(k, n).proportion_ci(level, method="exact").
    masks = {"a": np.arange(40) < 4, "b": np.arange(40) % 10 == 9}
    model = mask_function(lambda rows: rows[:, 4:].sum(axis=1) % 3 > 0, n_features=40)
    first, second = first_round(masks, "exact", 7)
    found = compare(model, masks, [8], plan="exact", rng=7)
    reference = [model(mask[None])[0] for mask in masks.values()]
    kept_a, kept_b = model(first) == reference[0], model(second) == reference[1]
    (difference,) = found
    assert (difference.first_only, difference.second_only) == ((kept_a & ~kept_b).sum(), (~kept_a & kept_b).sum())
    gained, lost = (
        binomtest(int(count), len(first)).proportion_ci(0.95, method="exact")
        for count in ((kept_a & ~kept_b).sum(), (~kept_a & kept_b).sum())
    )
    assert difference.interval == pytest.approx((gained.low - lost.high, gained.high - lost.low), abs=1e-9)
    assert difference.estimate == pytest.approx(kept_a.mean() - kept_b.mean())
    assert [curve[8].n_agreed for curve in found.curves] == [kept_a.sum(), kept_b.sum()]


# -- the sign test ----------------------------------------------------------------------------------


N_DRAWS = 70


def claimed(risk: float, *, by: str = "test") -> Any:
    """In which of all pairs of counts (a, b) of draws that only one explanation survives the first is better."""
    table = np.zeros((N_DRAWS + 1, N_DRAWS + 1), dtype=bool)
    ends = [clopper_pearson(count, N_DRAWS, confidence=1 - risk) for count in range(N_DRAWS + 1)]
    for a in range(N_DRAWS + 1):
        for b in range(N_DRAWS + 1 - a):
            difference = Difference("a", "b", 1, 0.0, Interval(-1.0, 1.0), a, b, risk)
            table[a, b] = difference.better == "a" if by == "test" else ends[a].low > ends[b].high
    return table


def probability(claims: Any, p_first: Any, p_second: Any) -> Any:
    """Of these counts, summed exactly, where a draw is only the first's or only the second's so often."""
    rates = np.stack(np.broadcast_arrays(p_first, p_second, 1.0 - p_first - p_second))
    counts = np.stack(np.nonzero(claims))
    counts = np.concatenate([counts, N_DRAWS - counts.sum(axis=0, keepdims=True)])
    return np.exp(
        gammaln(N_DRAWS + 1) - gammaln(counts + 1).sum(axis=0) + xlogy(counts.T, rates[None]).sum(axis=-1)
    ).sum()


def test_a_false_claim_is_no_likelier_than_its_risk_at_the_hardest_rates() -> None:
    # Where neither is more stable, and where the second is: refined around the worst discordance.
    for risk in (0.05, 0.05 / 30):
        claims, spans = claimed(risk), [(0.0, 0.5)]
        for _ in range(4):
            grid = np.linspace(*spans[-1], 41)
            misses = [probability(claims, share, share) for share in grid]
            worst = int(np.argmax(misses))
            spans.append((grid[max(0, worst - 1)], grid[min(40, worst + 1)]))
            assert max(misses) <= risk
            assert all(probability(claims, 0.8 * share, share) <= risk for share in grid)
        assert max(misses) > risk / 3, "the risk is used"


@pytest.mark.parametrize(
    ("n_claims", "rates", "by_interval", "by_test"),
    [
        (1, (0.1, 0.0), 0.26, 0.84),
        (1, (0.2, 0.05), 0.40, 0.78),
        (30, (0.1, 0.0), 0.0, 0.16),
        (30, (0.2, 0.05), 0.02, 0.26),
    ],
)
def test_the_sign_test_decides_far_more_than_intervals_of_differences(
    n_claims: int, rates: tuple[float, float], by_interval: float, by_test: float
) -> None:
    risk = 0.05 / n_claims
    assert probability(claimed(risk, by="interval"), *rates) == pytest.approx(by_interval, abs=0.006)
    assert probability(claimed(risk), *rates) == pytest.approx(by_test, abs=0.006)


@pytest.mark.parametrize(("a", "b"), [(0, 0), (1, 0), (5, 0), (12, 3), (40, 30), (3, 12)])
def test_the_sign_test_is_the_exact_one(a: int, b: int) -> None:
    # Reference: scipy.stats.binomtest(a, a + b, alternative="greater").pvalue
    exact = binomtest(a, a + b, alternative="greater").pvalue if a + b else 1.0
    difference = Difference("a", "b", 1, 0.0, Interval(-1.0, 1.0), a, b, risk=0.04)
    mirrored = binomtest(b, a + b, alternative="greater").pvalue if a + b else 1.0
    assert difference.better == ("a" if exact <= 0.04 else "b" if mirrored <= 0.04 else None)


def test_counts_and_risks_that_cannot_be_are_refused() -> None:
    found = compare(score_table(12, seed=3), explanations("110000000000", "001110000000"), [9], rng=0)
    counts = found.differences[0].first_only, found.differences[0].second_only
    assert None not in counts
    wrong = [
        {"first_only": -1},
        {"second_only": None},
        {"risk": 0.2},
        {"first_only": 0, "second_only": 10**6},
        {"first_only": counts[0] + 60, "second_only": counts[1] + 60},
        {"first_only": None, "second_only": None},
        {"estimate": 7.0},
        {"interval": Interval(0.1, 0.2)},
    ]
    for change in wrong:
        edited = replace(found, differences=(replace(found.differences[0], **change),))
        with pytest.raises((InvalidTypeError, InvalidValueError)):
            Comparison.from_json(edited.to_json())


@pytest.mark.parametrize("plan", PLANS)
def test_identical_explanations_do_not_differ(plan: str) -> None:
    selected = np.arange(40) < 4
    model = mask_function(lambda masks: masks[:, 4:].sum(axis=1) % 3 > 0, n_features=40)
    found = compare(model, {"a": selected, "b": selected.copy()}, [3, 20], plan=plan, rng=1)
    alone = compare(model, {"a": selected, "c": ~selected}, [3, 20], plan=plan, rng=1).curve("a")
    for one in found:
        n_draws = found.curve("a")[one.radius].n_evaluated
        assert one.estimate == 0
        assert one.interval.low == -one.interval.high < 0
        assert one.better is one.worse is None
        if plan != "sequential":
            # No discordant draw: 1 - (δ/4)^(1/n) with δ = .1 shared by two radii.
            assert one.interval.high == pytest.approx(1 - (0.05 / 4) ** (1 / n_draws), abs=1e-9)
    facts = [[(one.n_agreed, one.n_evaluated) for one in curve] for curve in (*found.curves, alone)]
    assert facts[0] == facts[1] == facts[2]


@pytest.mark.parametrize("plan", PLANS)
def test_the_order_of_explanations_only_turns_the_sign(plan: str) -> None:
    model, masks = score_table(12, seed=3), explanations("110000000000", "001110000000", "000000000001")
    found = compare(model, masks, [2, 9], plan=plan, tolerance=0.2, rng=4)
    turned = compare(model, dict(reversed(masks.items())), [2, 9], plan=plan, tolerance=0.2, rng=4)
    assert [(one.first, one.second, one.radius) for one in found] == [
        (first, second, radius) for first, second in combinations("abc", 2) for radius in (2, 9)
    ]
    mirrored = {(one.second, one.first, one.radius): one for one in turned}
    for one in found:
        other = mirrored[one.first, one.second, one.radius]
        assert one.estimate == pytest.approx(-other.estimate)
        assert one.interval == pytest.approx((-other.interval.high, -other.interval.low))
        assert (one.better, one.worse) == (other.better, other.worse)
    assert [found.ranking(radius) == () for radius in (2, 9)] == [turned.ranking(radius) == () for radius in (2, 9)]


@pytest.mark.parametrize("plan", PLANS)
def test_counts_do_not_depend_on_batch_size_company_or_other_radii_of_a_fixed_plan(plan: str) -> None:
    model, masks = label_table(12, seed=6), explanations("110000000000", "001100000000")
    whole = compare(model, masks, [4, 8], plan=plan, tolerance=0.2, rng=2)
    for batch_size in (1, 17, 10_000):
        again = compare(model, masks, [8, 4, 4], plan=plan, tolerance=0.2, batch_size=batch_size, rng=2)
        assert again.differences == whole.differences
    shared = Evaluator(model)
    compare(shared, masks, [8], plan=plan, tolerance=0.2, rng=99)
    assert compare(shared, masks, [4, 8], plan=plan, tolerance=0.2, rng=2).differences == whole.differences
    if plan != "sequential":
        wider = explanations("110000000000", "001100000000", "000000110000")
        more = compare(model, wider, [4, 6, 8], plan=plan, tolerance=0.2, rng=2)
        for name in "ab":
            for radius in (4, 8):
                assert more.curve(name)[radius].n_agreed == whole.curve(name)[radius].n_agreed


@pytest.mark.parametrize("plan", PLANS)
def test_no_mask_is_computed_twice(plan: str) -> None:
    recorded = Recorded(label_table(12, seed=6))
    masks = explanations("110000000000", "001100000000", "110000000000")
    found = compare(recorded, masks, [1, 4, 10, 11], plan=plan, tolerance=0.2, check_determinism=False, rng=2)
    assert set(recorded.times_asked.values()) == {1}
    assert found.n_calls == recorded.n_rows
    assert found.n_rounds >= len(recorded.batches) or recorded.n_rows > 256


def test_a_real_difference_is_certified() -> None:
    # The other side of caution: rates of 1 and about 1/2 are told apart by 70 pairs every time.
    model = mask_function(lambda masks: masks[:, 0] | (masks.sum(axis=1) > 12), n_features=20)
    masks = {"with": np.arange(20) < 4, "without": np.arange(20) >= 16}
    for plan in PLANS:
        rankings = [compare(model, masks, [8], plan=plan, rng=seed).ranking(8) for seed in range(10)]
        assert rankings == [(("with", "without"),)] * 10


# -- as a value -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def found() -> Comparison:
    model = mask_function(lambda masks: masks[:, 0] | (masks.sum(axis=1) > 12), n_features=20)
    masks = {"lime": np.arange(20) < 4, "shap": np.arange(20) % 5 == 0, "random": np.arange(20) >= 16}
    return compare(model, masks, [8, 1], rng=0)


@pytest.mark.parametrize("plan", PLANS)
def test_a_comparison_survives_json(plan: str) -> None:
    model = score_table(12, seed=2)
    made = compare(model, explanations("110000000000", "001100000000"), [1, 9], plan=plan, tolerance=0.2, rng=None)
    back = Comparison.from_json(made.to_json())
    assert back == made
    assert str(back) == str(made)
    assert back.ranking(9) == made.ranking(9)
    assert Difference.from_json(made.differences[0].to_json()) == made.differences[0]
    key = made.curves[0].certificates[0].rng_key
    again = compare(model, explanations("110000000000", "001100000000"), [1, 9], plan=plan, tolerance=0.2, rng=key)
    assert again == made


def test_a_comparison_is_iterated_by_difference_and_indexed_by_radius(found: Comparison) -> None:
    assert found.radii == (1, 8)
    assert len(found) == len(list(found)) == 3 * 2
    assert {(one.first, one.second) for one in found[8]} == {("lime", "shap"), ("lime", "random"), ("shap", "random")}
    assert {one.radius for one in found[8]} == {8}
    assert found.curve("shap").radii == (1, 8)
    with pytest.raises(InvalidValueError, match=r"^`radius` must be one of 1, 8, got 3\.$"):
        found[3]
    with pytest.raises(InvalidValueError, match=r"^`name` must be one of lime, shap, random, got 'limes'\.$"):
        found.curve("limes")
    with pytest.raises(InvalidValueError, match="`radius` must be one of 1, 8"):
        found.ranking(2)


def test_of_draws_not_made_in_pairs_the_whole_interval_says_which_is_better() -> None:
    def verdict(low: float, high: float) -> tuple[str | None, str | None]:
        difference = Difference("a", "b", 1, 0.0, Interval(low, high), None, None, risk=0.05)
        return difference.better, difference.worse

    assert verdict(0.01, 0.2) == ("a", "b")
    assert verdict(-0.2, -0.01) == ("b", "a")
    assert verdict(-0.1, 0.1) == verdict(0.0, 0.2) == verdict(-0.2, 0.0) == verdict(0.0, 0.0) == (None, None)


def test_a_frame_has_one_row_per_difference(found: Comparison) -> None:
    frame = found.to_frame()
    assert list(frame.columns) == ["first", "second", "radius", "estimate", "low", "high", "better"]
    assert len(frame) == 6
    for row, one in zip(frame.itertuples(), found, strict=True):
        assert (row.first, row.second, row.radius, row.estimate) == (one.first, one.second, one.radius, one.estimate)
        assert (row.low, row.high) == one.interval
        assert row.better == one.better or (one.better is None and row.better != row.better)


def test_the_words_show_every_rate_and_only_certified_claims(found: Comparison) -> None:
    text = str(found)
    lines = text.splitlines()
    for name in found.names:
        (row,) = [line for line in lines if line.strip().startswith(name)]
        assert [f"{rate:.3f}" for rate in found.curve(name).rates] == row.split()[1:3]
        assert any(letter in "▁▂▃▄▅▆▇█" for letter in row)
    (small,) = [line for line in lines if line.startswith("r=1:")]
    (large,) = [line for line in lines if line.startswith("r=8:")]
    assert found.ranking(8)
    assert [claim.split(" > ") for claim in large[5:].split(", ")] == [list(pair) for pair in found.ranking(8)]
    assert "lime > shap" not in text
    assert "shap > lime" not in text
    assert "random" in large
    assert lines[0].endswith("(90% confidence for all claims at once).")
    assert f"It took {found.n_calls} model calls." in found.explain()
    assert "All claims hold at once with probability at least 90%" in found.explain()
    assert ("cannot tell" in small) == (found.ranking(1) == ())


def test_the_words_say_when_nothing_can_be_told_or_the_full_input_is_predicted_differently() -> None:
    model = mask_function(lambda masks: masks.sum(axis=1) < 10, n_features=40)
    text = str(compare(model, {"a": np.arange(40) < 4, "b": np.arange(40) >= 36}, [3], rng=0))
    assert "r=3: cannot tell them apart" in text
    assert text.count("unlike the full input") == 2


# -- bad input --------------------------------------------------------------------------------------

A, B = np.arange(12) < 2, np.arange(12) > 8


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"explanations": {"a": A}}, InvalidValueError, "`explanations` must have at least two entries, got 1"),
        ({"explanations": {}}, InvalidValueError, "`explanations` must have at least two entries, got 0"),
        ({"explanations": [A, B]}, InvalidTypeError, "`explanations` must map names to Boolean masks, got list"),
        ({"explanations": {1: A, 2: B}}, InvalidTypeError, "`explanations` must map names to Boolean masks"),
        ({"explanations": {"a": A, "lime": B[:5]}}, InvalidValueError, "`lime` must have one entry per feature"),
        ({"explanations": {"a": A, "lime": B.astype(float)}}, InvalidTypeError, "`lime` must be Boolean, got float64"),
        ({"explanations": {"a": A, "lime": ["x"]}}, InvalidTypeError, "`lime` must be a mask or indices, got names"),
        ({"radii": []}, InvalidValueError, "`radii` must name at least one radius, got none"),
        ({"radii": 3}, InvalidTypeError, "`radii` must be whole numbers such as"),
        ({"radii": "3"}, InvalidTypeError, "`radii` must be whole numbers such as"),
        ({"radii": [1, -3]}, InvalidValueError, "`radii` must be a whole number ≥ 0, got -3"),
        ({"radii": [1, 0.5]}, InvalidValueError, "`radii` must be a whole number ≥ 0, got 0.5"),
        ({"plan": "fixed"}, InvalidValueError, "`plan` must be one of"),
        ({"tolerance": 1}, InvalidValueError, "`tolerance` must be a number strictly between 0 and 1"),
        ({"confidence": 0}, InvalidValueError, "`confidence` must be a number strictly between 0 and 1"),
        ({"neighborhood": "all"}, InvalidValueError, "`neighborhood` must be one of"),
        ({"agree": None}, InvalidTypeError, "`agree` must be a name or a callable"),
        ({"rng": "1"}, InvalidTypeError, "`rng` must be a numpy Generator"),
    ],
    ids=lambda value: f"{next(iter(value))}" if isinstance(value, dict) else None,
)
def test_bad_input_is_refused_before_any_model_call(
    wrong: dict[str, Any], error: type[Exception], message: str
) -> None:
    recorded = Recorded(score_table(12))
    with pytest.raises(error, match=f"^{message}"):
        compare(recorded, **({"explanations": {"a": A, "b": B}, "radii": [1, 5], "rng": 0} | wrong))
    assert recorded.batches == []


def test_names_are_kept_in_the_order_given() -> None:
    model = lookup_table(np.arange(16) % 3, n_features=4)
    found = compare(model, {"z": bits("1000"), "a": bits("0100"), "m": bits("0011")}, [2], rng=0)
    assert found.names == ("z", "a", "m")
    assert [one.first + one.second for one in found] == ["za", "zm", "am"]


def test_repeated_rows_of_smoothed_models_are_counted_alike_for_all_explanations() -> None:
    table = score_table(12, seed=3)
    pair = {"a": np.arange(12) < 3, "b": np.arange(12) >= 9}
    for batch_size in (None, 1, 2, 50):
        smoothed = smooth(table, 0.5, 6, rng=1)
        curves = compare(smoothed, pair, [3], plan="exact", batch_size=batch_size, rng=0).curves
        assert len({curve.certificates[0].n_repeated for curve in curves}) == 1
        assert curves[0].certificates[0].n_repeated > 0
