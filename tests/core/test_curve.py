"""Curves against enumeration, and what radii imply about each other."""

from __future__ import annotations

from dataclasses import fields
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from holdfast import Certificate, StabilityCurve, certify, certify_radii, lookup_table, mask_function
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.plans import make_plan
from tests.helpers import strategies
from tests.helpers.contracts import bits
from tests.helpers.fakes import Recorded, label_table, score_table
from tests.helpers.hardest import (
    around,
    ball_sizes,
    constant_rate,
    ring_sizes,
    table_of_balls,
    table_of_rings,
)
from tests.helpers.oracles import exact_rate, neighbors

F = Fraction

TWELVE = np.arange(12) < 2
TEN = np.arange(10) < 2
RATE_KINDS = ("uniform", "exactly", "worst_size", "worst_size_lower")


# -- equal to enumeration ---------------------------------------------------------------------------


@settings(max_examples=60)
@given(
    question=strategies.questions(),
    kind=strategies.kinds,
    rate_kind=st.sampled_from(RATE_KINDS),
    more=st.lists(strategies.radii(), max_size=3),
)
def test_a_curve_equals_enumeration_where_all_masks_can_be_asked(
    question: Any, kind: str, rate_kind: str, more: list[int]
) -> None:
    model, selected, radius = question
    curve = certify_radii(model, selected, radii=[radius, *more], neighborhood=kind, rate_kind=rate_kind, rng=0)
    assert curve.radii == tuple(sorted({radius, *more}))
    for one in curve:
        clamped = min(one.radius, len(selected))
        truth = exact_rate(model, selected, clamped, neighborhood=kind, rate_kind=rate_kind)
        assert one.exact
        assert F(one.n_agreed, one.n_evaluated) == truth
        assert one.interval == (float(truth), float(truth))
        assert one.rate == one.rate_unbiased == float(truth)


@given(question=strategies.questions(), kind=strategies.kinds, rate_kind=st.sampled_from(RATE_KINDS))
@settings(max_examples=30)
def test_a_curve_says_of_each_small_radius_what_certify_says(question: Any, kind: str, rate_kind: str) -> None:
    model, selected, radius = question
    asked = {"neighborhood": kind, "rate_kind": rate_kind, "rng": 3}
    single = certify(model, selected, radius=radius, **asked)
    pooled = certify_radii(model, selected, radii=[radius], **asked)[radius]
    names = [field.name for field in fields(Certificate) if field.name not in ("draws", "selected", "counterexample")]
    assert {name: getattr(pooled, name) for name in names} == {name: getattr(single, name) for name in names}
    assert pooled.draws != single.draws


def test_small_and_large_radii_mix() -> None:
    model = table_of_balls(TWELVE, constant_rate(TWELVE, 0.7))
    curve = certify_radii(model, TWELVE, radii=range(11), rng=0)
    limit = make_plan("sequential", tolerance=0.1, confidence=0.9).max_draws
    assert [one.exact for one in curve] == [size <= limit for size in ball_sizes(TWELVE)]
    assert [one.rate for one in curve if one.exact] == [float(exact_rate(model, TWELVE, r)) for r in (0, 1, 2)]


def test_radii_beyond_the_last_feature_share_one_answer_and_cost_nothing() -> None:
    model = table_of_balls(TWELVE, constant_rate(TWELVE, 0.8))
    for rate_kind in RATE_KINDS:
        plain = certify_radii(model, TWELVE, radii=[3, 10], rate_kind=rate_kind, rng=5)
        beyond = certify_radii(model, TWELVE, radii=[3, 10, 11, 12, 10**9], rate_kind=rate_kind, rng=5)
        assert beyond.n_calls == plain.n_calls
        for radius in (10, 11, 12, 10**9):
            one = beyond[radius]
            assert (one.radius, one.effective_radius) == (radius, 10)
            assert (one.n_agreed, one.n_evaluated, one.interval) == (
                plain[10].n_agreed,
                plain[10].n_evaluated,
                plain[10].interval,
            )


def test_radii_that_clamp_to_one_are_one_in_a_guarantee_for_all() -> None:
    model = table_of_balls(TWELVE, constant_rate(TWELVE, 0.8))
    beyond = certify_radii(model, TWELVE, radii=[4, 10, 11, 12, 13, 14], simultaneous=True, rng=5)
    plain = certify_radii(model, TWELVE, radii=[4, 10], simultaneous=True, rng=5)
    assert [one.design for one in beyond] == [plain[4].design] + [plain[10].design] * 5
    assert {one.interval for one in beyond if one.radius >= 10} == {plain[10].interval}


# -- all radii at once ------------------------------------------------------------------------------


@given(table=strategies.label_tables(7, labels=(0, 1)), selected=strategies.masks(7, 7), kind=strategies.kinds)
@settings(max_examples=40)
def test_rates_within_two_radii_bound_each_other(table: Any, selected: Any, kind: str) -> None:
    sizes = ball_sizes(selected, kind)
    rates = [exact_rate(table, selected, r, neighborhood=kind) for r in range(len(sizes))]
    for r, s in combinations(range(len(sizes)), 2):
        share = F(sizes[r], sizes[s])
        assert share * rates[r] <= rates[s] <= share * rates[r] + 1 - share


def implied(ranges: list[tuple[Fraction, Fraction]], sizes: list[int]) -> list[tuple[Fraction, Fraction]]:
    """Every implication between every two radii, again and again until nothing moves."""
    now, before = list(ranges), None
    while now != before:
        before = list(now)
        for r, s in combinations(range(len(now)), 2):
            share = F(sizes[r], sizes[s])
            (low, high), (low_s, high_s) = now[r], now[s]
            now[s] = max(low_s, share * low), min(high_s, share * high + 1 - share)
            now[r] = max(low, 1 - (1 - now[s][0]) / share), min(high, now[s][1] / share)
        assume(all(low <= high for low, high in now))  # draws that contradict each other imply everything
    return now


@settings(max_examples=60)
@given(
    rings=st.lists(st.sampled_from([0, 0.1, 0.5, 0.9, 1]), min_size=8, max_size=8),
    radii=st.sets(st.integers(0, 10), min_size=2, max_size=5),
    seed=st.integers(0, 2),
)
def test_tightened_intervals_are_exactly_what_all_radii_imply(rings: list[float], radii: set[int], seed: int) -> None:
    agreeing = [1, *(round(share * size) for share, size in zip(rings, ring_sizes(TEN)[1:], strict=True))]
    model = table_of_rings(TEN, agreeing)
    curve = certify_radii(model, TEN, radii=radii, simultaneous=True, rng=seed)
    clamped = [ball_sizes(TEN)[min(one.radius, 8)] for one in curve]
    plain = [around(one) for one in curve]
    for one, (low, high), before in zip(curve, implied(plain, clamped), plain, strict=True):
        assert float(before[0]) <= one.interval.low <= one.interval.high <= float(before[1])
        assert one.interval == pytest.approx((float(low), float(high)), abs=1e-9)
        assert one.rate == one.n_agreed / one.n_evaluated


def test_a_radius_that_contains_a_smaller_one_inherits_its_agreements() -> None:
    # All 37 masks within radius 2 agree, nothing beyond does: 37 of 93 within radius 3.
    model = table_of_rings(TEN, [1, 8, 28])
    curve = certify_radii(model, TEN, radii=[2, 3], tolerance=0.1, simultaneous=True, rng=0)
    assert curve[2].exact
    assert curve[3].interval.low == pytest.approx(37 / 93, abs=1e-9)
    assert curve[3].interval.low > curve[3].rate - 0.1 + 0.01


def test_an_interval_is_never_empty_and_an_exact_rate_never_loses_its_own() -> None:
    # Within 4 there are 31 masks, all asked; within 5 one more, of which 31 are drawn. A draw that misses
    # contradicts what is known for certain about radius 4.
    selected = np.arange(6) < 1
    model = table_of_balls(selected, constant_rate(selected, 0.5))
    truth = exact_rate(model, selected, 4)
    n_contradictions = 0
    for seed in range(150):
        asked = {"radii": [4, 5], "plan": "exact", "tolerance": 0.18, "simultaneous": True}
        curve = certify_radii(model, selected, rng=seed, **asked)
        assert (curve[4].exact, curve[5].exact) == (True, False)
        low, high = around(curve[5])
        n_contradictions += not low <= exact_rate(model, selected, 5) <= high
        assert curve[4].interval == (float(truth), float(truth))
        assert curve[5].interval.low <= curve[5].interval.high
    assert n_contradictions > 0


def test_radii_of_very_different_size_can_be_certified_at_once() -> None:
    # |Δ₁| / |Δ₁₂₀₀| is below the smallest positive float.
    model = mask_function(lambda masks: masks[:, 0], n_features=1_201)
    curve = certify_radii(model, np.arange(1_201) < 1, radii=[1, 1_200], simultaneous=True, rng=0)
    assert [one.interval.high for one in curve] == [1.0, 1.0]


def test_a_guarantee_for_all_is_never_tightened_for_other_kinds_of_rate() -> None:
    # Sizes share no masks: nothing is implied by one about another.
    model = table_of_rings(TEN, [1, 8, 0, 56, 0, 56, 0, 8, 0])
    curve = certify_radii(model, TEN, radii=[2, 3, 4], rate_kind="exactly", simultaneous=True, tolerance=0.2, rng=0)
    assert [one.interval for one in curve] == [tuple(map(float, around(one))) for one in curve]


# -- the worst size ---------------------------------------------------------------------------------


def test_the_worst_size_finds_what_the_uniform_rate_hides() -> None:
    # Adding exactly one feature always changes the prediction; 10 of 1,024 masks add one.
    model = mask_function(lambda masks: masks.sum(axis=1) != 3, n_features=12)
    uniform = certify_radii(model, TWELVE, radii=[0, 1, 10], rng=0)
    worst = certify_radii(model, TWELVE, radii=[0, 1, 10], rate_kind="worst_size", rng=0)
    assert uniform[10].rate > 0.9
    assert worst.rates == (1, 0, 0)
    assert not worst[10].exact


# -- as a value -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def curve() -> StabilityCurve:
    model = table_of_balls(TWELVE, constant_rate(TWELVE, 0.8))
    return certify_radii(model, TWELVE, radii=(9, 1, 3, 14), rng=2)


@pytest.mark.parametrize("rate_kind", RATE_KINDS)
@pytest.mark.parametrize("simultaneous", [False, True])
def test_a_curve_survives_json(rate_kind: str, simultaneous: bool) -> None:
    model = score_table(12, seed=1)
    made = certify_radii(
        model,
        TWELVE,
        radii=[0, 1, 6, 10],
        rate_kind=rate_kind,
        simultaneous=simultaneous,
        rng=None,
        agree="within(2.0)",
    )
    back = StabilityCurve.from_json(made.to_json())
    assert back == made
    assert hash(back) == hash(made)
    assert str(back) == str(made)
    assert back != certify_radii(model, TWELVE, radii=[0, 1, 6], rate_kind=rate_kind, rng=made[0].rng_key)


def test_the_key_of_a_curve_repeats_it() -> None:
    model = score_table(12, seed=1)
    first = certify_radii(model, TWELVE, radii=range(3, 11), rng=np.random.default_rng(0))
    again = certify_radii(model, TWELVE, radii=range(3, 11), rng=first[3].rng_key)
    other = certify_radii(model, TWELVE, radii=range(3, 11), rng=first[3].rng_key + 1)
    assert again == first
    assert [(one.n_agreed, one.n_evaluated) for one in other] != [(one.n_agreed, one.n_evaluated) for one in first]


def test_a_curve_is_iterated_by_increasing_radius_and_indexed_by_radius(curve: StabilityCurve) -> None:
    assert [one.radius for one in curve] == [1, 3, 9, 14] == list(curve.radii)
    assert len(curve) == 4
    assert [curve[radius] for radius in curve.radii] == list(curve)
    assert curve.rates == tuple(one.rate for one in curve)
    assert {one.n_calls for one in curve} == {curve.n_calls}


@pytest.mark.parametrize("radius", [2, 0, -1, "3", None, 10])
def test_a_radius_that_was_not_asked_is_refused_with_the_ones_that_were(curve: StabilityCurve, radius: Any) -> None:
    with pytest.raises(InvalidValueError, match=r"`radius` must be one of 1, 3, 9, 14, got "):
        curve[radius]


def test_a_frame_has_one_row_per_radius_and_a_column_per_fact(curve: StabilityCurve) -> None:
    frame = curve.to_frame()
    assert list(frame["radius"]) == [1, 3, 9, 14]
    assert {"rate", "low", "high", "n_agreed", "n_evaluated", "exact", "confidence", "tolerance"} <= set(frame.columns)
    for row, one in zip(frame.itertuples(), curve, strict=True):
        assert (row.rate, row.low, row.high) == (one.rate, *one.interval)
        assert (row.n_agreed, row.n_evaluated, row.exact) == (one.n_agreed, one.n_evaluated, one.exact)
        assert (row.neighborhood, row.rate_kind, row.prediction) == ("additions", "uniform", 1)


BARS = set("▁▂▃▄▅▆▇█")


def test_the_words_show_a_sparkline_every_radius_and_what_the_confidence_is_about() -> None:
    model = table_of_balls(TWELVE, constant_rate(TWELVE, 0.8))
    each = certify_radii(model, TWELVE, radii=range(1, 11), rng=2)
    every = certify_radii(model, TWELVE, radii=range(1, 11), simultaneous=True, rng=2)
    for curve, scope in ((each, "for each radius)"), (every, "for all radii at once")):
        text = str(curve)
        assert sum(letter in BARS for letter in text) == 10
        assert scope in text
        assert "(90% confidence " in text
        assert f"It took {curve.n_calls} model calls" in curve.explain()
        rows = [line.split() for line in text.splitlines() if line.strip()[:1].isdigit()]
        assert [int(row[0]) for row in rows] == list(range(1, 11))
        assert [row[1] for row in rows] == [f"{rate:.3f}" for rate in curve.rates]
        assert [row[-1] == "exact" for row in rows] == [one.exact for one in curve]
    assert "at once" not in str(each)
    assert "Each holds on its own" in each.explain()
    assert "on its own" not in every.explain()


def test_a_sparkline_falls_as_the_rates_do() -> None:
    selected = np.arange(6) < 1
    falling = certify_radii(table_of_rings(selected, [1, 5]), selected, radii=range(6), rng=0)
    bars = [letter for letter in str(falling) if letter in BARS]
    assert bars[:2] == ["█", "█"]
    assert bars == sorted(bars, reverse=True)
    assert bars[-1] == "▂"  # 6 of 32


def test_long_curves_stay_readable() -> None:
    model = mask_function(lambda masks: masks[:, 0], n_features=150)
    text = str(certify_radii(model, np.arange(150) < 1, radii=range(1, 150), rng=0))
    assert len(text.splitlines()) <= 30


def test_the_words_tell_when_the_full_input_is_predicted_differently() -> None:
    # Report when f(x⊙α) ≠ f(x); an explanation can be stably wrong.
    wrong, right = (table_of_rings(TEN, [*ring_sizes(TEN)[:-1], last]) for last in (0, 1))
    told, silent = (str(certify_radii(model, TEN, radii=[1, 3], rng=0)) for model in (wrong, right))
    assert "full input" in told
    assert "full input" not in silent


def test_curves_of_different_questions_do_not_read_the_same() -> None:
    # A model that never changes: all rates are 1, and only the words can tell what was asked.
    model = mask_function(lambda masks: masks[:, 0] | True, n_features=6)
    selected = np.arange(6) < 3
    questions = [(kind, rate_kind) for kind in strategies.KINDS for rate_kind in ("uniform", "exactly")]
    texts = {
        question: str(certify_radii(model, selected, radii=[0], neighborhood=question[0], rate_kind=question[1], rng=0))
        for question in questions
    }
    assert len(set(texts.values())) == len(questions)


# -- bad input --------------------------------------------------------------------------------------

BAD_RADII = [
    ([], InvalidValueError, "`radii` must name at least one radius, got none."),
    (range(0), InvalidValueError, "`radii` must name at least one radius, got none."),
    ([1, -1], InvalidValueError, "`radii` must be a whole number ≥ 0, got -1."),
    ([1, 2.5], InvalidValueError, "`radii` must be a whole number ≥ 0, got 2.5."),
    ([float("nan")], InvalidValueError, "`radii` must be a whole number ≥ 0, got nan."),
    ("12", InvalidTypeError, "`radii` must be whole numbers such as range(1, 11), got '12'."),
    (b"12", InvalidTypeError, "`radii` must be whole numbers such as range(1, 11), got b'12'."),
    (5, InvalidTypeError, "`radii` must be whole numbers such as range(1, 11), got 5."),
    (None, InvalidTypeError, "`radii` must be whole numbers such as range(1, 11), got None."),
    (np.array(5), InvalidTypeError, "`radii` must be whole numbers such as range(1, 11), got array(5)."),
    ([True], InvalidTypeError, "`radii` must be a whole number ≥ 0, got True."),
    (["1"], InvalidTypeError, "`radii` must be a whole number ≥ 0, got '1'."),
    ([[1, 2]], InvalidTypeError, "`radii` must be a whole number ≥ 0, got [1, 2]."),
]


@pytest.mark.parametrize(("radii", "error", "message"), BAD_RADII, ids=[repr(case[0]) for case in BAD_RADII])
def test_bad_radii_are_refused_before_any_model_call(radii: Any, error: type[Exception], message: str) -> None:
    recorded = Recorded(score_table(12))
    with pytest.raises(error) as caught:
        certify_radii(recorded, TWELVE, radii=radii, rng=0)
    assert str(caught.value) == message
    assert recorded.batches == []


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"selected": TWELVE[:-1]}, InvalidValueError),
        ({"selected": TWELVE.astype(int)}, InvalidTypeError),
        ({"tolerance": 0}, InvalidValueError),
        ({"confidence": 1}, InvalidValueError),
        ({"plan": "sequentiel"}, InvalidValueError),
        ({"agree": "nearly"}, InvalidValueError),
        ({"neighborhood": "deletions"}, InvalidValueError),
        ({"rate_kind": "best_size"}, InvalidValueError),
        ({"batch_size": 0}, InvalidValueError),
        ({"rng": -1}, InvalidValueError),
        ({"rng": "0"}, InvalidTypeError),
    ],
    ids=lambda value: str(next(iter(value))) if isinstance(value, dict) else None,
)
def test_other_bad_input_is_refused_before_any_model_call(wrong: dict[str, Any], error: type[Exception]) -> None:
    recorded = Recorded(label_table(12))
    with pytest.raises(error, match=f"`{next(iter(wrong))}`"):
        certify_radii(recorded, **({"selected": TWELVE, "radii": [1, 5], "rng": 0} | wrong))
    assert recorded.batches == []


def test_whole_numbers_of_any_type_are_radii() -> None:
    model = lookup_table(np.arange(16) % 3, n_features=4)
    plain = certify_radii(model, bits("1000"), radii=[1, 2, 3], rng=0)
    for radii in (np.array([3, 1, 2]), {1, 2, 3}, iter([2.0, 1, 3, 3]), (np.int64(3), np.uint8(2), 1)):
        assert certify_radii(model, bits("1000"), radii=radii, rng=0) == plain


@pytest.mark.parametrize("text", ["0000", "1111", "0111"])
@pytest.mark.parametrize("rate_kind", RATE_KINDS)
@pytest.mark.parametrize("kind", strategies.KINDS)
def test_nothing_or_everything_selected_is_a_question_like_any_other(text: str, rate_kind: str, kind: str) -> None:
    model = label_table(4, seed=2)
    curve = certify_radii(model, bits(text), radii=[0, 1, 4], neighborhood=kind, rate_kind=rate_kind, rng=0)
    for one in curve:
        truth = exact_rate(model, bits(text), one.radius, neighborhood=kind, rate_kind=rate_kind)
        assert F(one.n_agreed, one.n_evaluated) == truth
        assert one.n_evaluated <= len(neighbors(bits(text), one.radius, kind))
