"""Exact rates and radii equal enumeration; the bounds are sound, equal to naive sums, and not vacuous."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import boolean, certify, lookup_table
from holdfast.agreement import within
from holdfast.errors import InvalidTypeError, InvalidValueError
from tests.helpers import boolean_oracles as naive
from tests.helpers import oracles
from tests.helpers.boolean_functions import FORMS, check_bounds, mask_of, random_batches
from tests.helpers.boolean_oracles import Array


def test_bounds_are_sound_and_equal_to_naive_sums_on_a_thousand_functions() -> None:
    n_seen, positive = check_bounds(random_batches(64, 16, seed=0))  # tests/house has thousands
    assert n_seen == 1024
    assert min(positive.values()) > 100, positive


def test_the_batches_of_the_tests_agree_with_one_function_at_a_time() -> None:
    for batch, selected, margin, lam in random_batches(6, 2, seed=1):
        alpha = frozenset(np.flatnonzero(selected).tolist())
        for row, h in enumerate(batch.functions.tolist()):
            scale = len(batch.near) * margin
            here = (h, alpha, batch.radius, margin)
            assert np.isclose(1 - batch.total()[row] / scale, naive.bound(*here))
            assert np.isclose(1 - batch.n_changed(margin, strict=True)[row] / len(batch.near), naive.rate(*here))
            assert np.isclose(1 - batch.smoothed(lam).total()[row] / scale, naive.smoothed_bound(*here, lam, "sharp"))
            for form in ("termwise", "factor"):
                reference = naive.smoothed_bound(*here, lam, form)
                assert np.isclose(1 - batch.total_of_all(lam, form)[row] / scale, reference)
            quantity = naive.printed_quantity(h, alpha, batch.radius)
            assert np.isclose(batch.printed_total()[row] / len(batch.near), quantity)
            sets = [frozenset(boolean.features_of(beta)) for beta in batch.near]
            assert np.allclose(batch.printed_moves()[row], [naive.printed_difference(h, alpha, b) for b in sets])


@st.composite
def cases(draw: st.DrawFn, n_classes: int | None = None) -> tuple[Array, Array, int]:
    n = draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    shape: tuple[int, ...] = (2**n,) if n_classes is None else (2**n, n_classes)
    h = rng.random(shape) if draw(st.booleans()) else rng.integers(0, 3, shape) / 2
    return h, mask_of(draw(st.integers(0, 2**n - 1)), n), draw(st.integers(0, n + 2))


@given(cases(), st.sampled_from([0.1, 0.25, 0.5, 1.0]))
@settings(max_examples=80, deadline=None)
def test_exact_rates_and_hard_radii_equal_enumeration(case: Any, margin: float) -> None:
    h, selected, radius = case
    alpha = frozenset(np.flatnonzero(selected).tolist())
    values = h.tolist()
    assert boolean.exact_rate(h, selected, radius=radius, margin=margin) == naive.rate(values, alpha, radius, margin)
    assert boolean.hard_radius(h, selected, margin=margin) == naive.hard_radius(values, alpha, margin)
    free = len(selected) - len(alpha)
    rates = boolean.exact_rates(h, selected, margin=margin)
    assert rates.tolist() == [naive.rate(values, alpha, r, margin) for r in range(free + 1)]


@given(cases(n_classes=3), st.sampled_from(["same_top_class", "same_top_set(2)", "within(0.4)"]))
@settings(max_examples=60, deadline=None)
def test_exact_rates_agree_with_the_oracle_and_with_certify_for_every_agreement(case: Any, agree: str) -> None:
    h, selected, radius = case
    model = lookup_table(h, n_features=len(selected))
    truth = oracles.exact_rate(model, selected, radius, agree=agree)
    assert boolean.exact_rate(h, selected, radius=radius, agree=agree) == float(truth)
    cert = certify(model, selected, radius=radius, agree=agree, rng=0)
    assert not cert.exact or cert.rate == float(truth)


@given(cases(n_classes=3), st.floats(0.05, 1), st.floats(0, 1), st.sampled_from(FORMS))
@settings(max_examples=150, deadline=None)
def test_bounds_of_several_scores_are_sound(case: Any, margin: float, lam: float, form: str) -> None:
    h, selected, radius = case
    for each in (margin, None):
        for table, bound in [
            (h, lambda m: boolean.stability_bound(h, selected, radius=radius, margin=m)),
            (h, lambda m: boolean.stability_bound(h, selected, radius=radius, margin=m, form="markov")),
            (
                boolean.mask_operator(h, lam),
                lambda m: boolean.smoothed_stability_bound(
                    h, selected, radius=radius, margin=m, keep_probability=lam, form=form
                ),
            ),
        ]:
            row = int(selected @ (1 << np.arange(len(selected))))
            top = np.sort(table[row])
            if each is None and top[-1] == top[-2]:
                continue
            assert bound(each) <= boolean.exact_rate(table, selected, radius=radius, margin=each) + 1e-12


def three_classes(n_functions: int, seed: int) -> Iterator[tuple[Array, int, int, float]]:
    """Scores (2ⁿ, 3) with few strong interactions, an explanation, a radius and a keep probability."""
    rng = np.random.default_rng(seed)
    for _ in range(n_functions):
        n = int(rng.integers(2, 5))
        decay = rng.choice([0.1, 0.3, 0.7]) ** boolean.degrees(n).astype(float)
        h = boolean.inverse_monotone(rng.standard_normal((2**n, 3)) * decay[:, None])
        yield h, int(rng.integers(0, 2**n - 1)), int(rng.integers(1, n + 1)), float(rng.uniform(0.3, 1))


@pytest.mark.parametrize("margin", [None, 0.4])
@pytest.mark.parametrize("form", ["weights", "markov", *FORMS])
def test_bounds_of_three_classes_equal_naive_sums(margin: float | None, form: str) -> None:
    seen, wanted = [], []
    for h, row, radius, lam in three_classes(120, seed=5):
        selected, scores = mask_of(row, len(h).bit_length() - 1), [h[:, c].tolist() for c in range(3)]
        alpha = frozenset(boolean.features_of(row))
        if form in FORMS:
            seen.append(
                boolean.smoothed_stability_bound(
                    h, selected, radius=radius, margin=margin, keep_probability=lam, form=form
                )
            )
            wanted.append(naive.smoothed_class_bound(scores, alpha, radius, margin, lam, form))
        else:
            seen.append(boolean.stability_bound(h, selected, radius=radius, margin=margin, form=form))
            wanted.append(naive.class_bound(scores, alpha, radius, margin, form))
    assert np.isclose(seen, wanted, rtol=1e-9, atol=1e-9).all()
    assert (np.array(seen) > 0).sum() >= 30


def test_forms_of_the_bound_of_three_classes_are_different_numbers() -> None:
    """Otherwise the comparison with naive sums could not tell one from another."""
    differing = 0
    for h, row, _, __ in three_classes(120, seed=5):
        selected = mask_of(row, len(h).bit_length() - 1)
        values = [
            boolean.stability_bound(h, selected, radius=3, margin=margin, form=form)
            for margin in (None, 0.4)
            for form in ("weights", "markov")
        ]
        differing += len(set(np.round(values, 9))) == 4
    assert differing >= 40


TINY = 5e-324


@pytest.mark.parametrize("form", ["weights", "markov"])
@pytest.mark.parametrize(
    ("h", "margin", "message"),
    [
        ([[TINY, 0], [0, 1]], None, "`h` must have larger leads at `selected`"),
        ([[1e308, -1e308], [0, 0]], None, "`h` must have larger leads"),
        ([0, 1.0], TINY, "`margin` must be large enough to divide the scores by, got 5e-324"),
        ([1e308, -1e308], 1.0, "`h` must hold smaller numbers: the result overflows"),
    ],
)
def test_a_bound_that_overflows_is_refused(form: str, h: Any, margin: float | None, message: str) -> None:
    with pytest.raises(InvalidValueError, match=message):
        boolean.stability_bound(h, [False], radius=1, margin=margin, form=form)
    for smoothed_form in FORMS:
        with pytest.raises(InvalidValueError, match=message):
            boolean.smoothed_stability_bound(
                h, [False], radius=1, margin=margin, keep_probability=1.0, form=smoothed_form
            )
    with pytest.raises(InvalidValueError, match=message):
        boolean.hard_bound(h, [False], margin=margin)


def test_a_move_too_large_for_a_float_is_a_disagreement() -> None:
    assert boolean.exact_rate([1e308, -1e308], [False], radius=1, margin=1.0) == 0.5
    assert boolean.hard_radius([1e308, -1e308], [False], margin=1.0) == 0


@given(cases(), st.floats(0.05, 1), st.floats(0, 1))
@settings(max_examples=80, deadline=None)
def test_each_form_is_at_least_as_strong_as_the_next(case: Any, margin: float, lam: float) -> None:
    h, selected, radius = case
    bounds = [
        boolean.smoothed_stability_bound(h, selected, radius=radius, margin=margin, keep_probability=lam, form=form)
        for form in FORMS
    ]
    assert bounds[0] >= bounds[1] - 1e-9
    assert bounds[1] >= bounds[2] - 1e-9
    plain = boolean.stability_bound(h, selected, radius=radius, margin=margin)
    markov = boolean.stability_bound(h, selected, radius=radius, margin=margin, form="markov")
    assert plain <= markov + 1e-9


@given(cases(), st.floats(0.05, 1))
@settings(max_examples=40, deadline=None)
def test_without_smoothing_the_sharp_form_is_the_plain_bound(case: Any, margin: float) -> None:
    h, selected, radius = case
    plain = boolean.stability_bound(h, selected, radius=radius, margin=margin)
    sharp = boolean.smoothed_stability_bound(h, selected, radius=radius, margin=margin, keep_probability=1.0)
    assert np.isclose(plain, sharp, rtol=1e-9)


@given(cases(), st.floats(0.05, 1), st.floats(0, 1))
@settings(max_examples=60, deadline=None)
def test_smoothing_that_spares_the_selected_features_divides_the_gap_by_lambda(
    case: Any, margin: float, lam: float
) -> None:
    """The paper's theorem is true of this smoothing, with conditional weights."""
    h, selected, radius = case
    keep = np.where(selected, 1.0, lam)
    plain = boolean.stability_bound(h, selected, radius=radius, margin=margin)
    sharp = boolean.smoothed_stability_bound(h, selected, radius=radius, margin=margin, keep_probability=keep)
    assert 1 - sharp <= lam * (1 - plain) + 1e-9
    smoothed = boolean.mask_operator(h, keep)
    assert 1 - lam * (1 - plain) <= boolean.exact_rate(smoothed, selected, radius=radius, margin=margin) + 1e-9


def test_forms_with_one_keep_probability_per_feature_are_sound() -> None:
    rng = np.random.default_rng(2)
    for _ in range(200):
        h, keep, row = rng.random(16), rng.random(4), int(rng.integers(0, 15))
        selected = mask_of(row, 4)
        rate = boolean.exact_rate(boolean.mask_operator(h, keep), selected, radius=2, margin=0.3)
        for form in FORMS:
            bound = boolean.smoothed_stability_bound(
                h, selected, radius=2, margin=0.3, keep_probability=keep, form=form
            )
            assert bound <= rate + 1e-12


def naive_hard_bound(h: Array, selected: Array, margin: float) -> int:
    g = np.abs(boolean.conditional_weights(h, selected))
    m = len(g).bit_length() - 1
    best = 0
    for radius in range(1, m + 1):
        parts = []
        for k in range(1, radius + 1):
            sizes = sorted((float(g[t]) for t in range(2**m) if t.bit_count() == k), reverse=True)
            parts.append(sum(sizes[: len(list(naive.combinations(range(radius), k)))]))
        if sum(parts) >= margin:
            return best
        best = radius
    return best


def test_the_hard_bound_is_sound_equal_to_naive_sums_and_not_vacuous() -> None:
    n_positive = 0
    for batch, selected, margin, _ in random_batches(40, 25, seed=3):
        for h in batch.functions:
            bound = boolean.hard_bound(h, selected, margin=margin)
            assert bound == naive_hard_bound(h, selected, margin)
            assert bound <= boolean.hard_radius(h, selected, margin=margin)
            n_positive += bound > 0
    assert n_positive > 100


@given(cases(n_classes=3))
@settings(max_examples=60, deadline=None)
def test_the_hard_bound_of_a_prediction_is_sound(case: Any) -> None:
    h, selected, _ = case
    top = np.sort(h[int(selected @ (1 << np.arange(len(selected))))])
    if top[-1] > top[-2]:
        assert boolean.hard_bound(h, selected) <= boolean.hard_radius(h, selected)


@given(cases())
@settings(max_examples=60, deadline=None)
def test_conditional_weights_give_every_difference_above_the_explanation(case: Any) -> None:
    h, selected, _ = case
    alpha = frozenset(np.flatnonzero(selected).tolist())
    free = np.flatnonzero(~selected)
    g = boolean.conditional_weights(h, selected)
    assert np.allclose(boolean.condition(boolean.monotone(h), selected), g)
    shown = boolean.reveal(h, selected)
    for row in range(len(g)):
        t = frozenset(free[list(boolean.features_of(row))].tolist())
        assert np.isclose(g[row], naive.conditional_weight(h.tolist(), alpha, t))
        assert shown[row] == naive.at(h, alpha | t)
        assert np.isclose(sum(g[s] for s in range(1, len(g)) if s & ~row == 0), shown[row] - shown[0])


@pytest.mark.parametrize("m", range(7))
def test_inclusion_probabilities_are_counted(m: int) -> None:
    for radius in range(m + 2):
        seen = boolean.inclusion_probabilities(m, radius)
        wanted = [naive.inclusion(m, frozenset(), radius, frozenset(range(k))) for k in range(m + 1)]
        assert np.allclose(seen, wanted, rtol=1e-15)


def test_inclusion_probabilities_of_many_features_do_not_overflow() -> None:
    w = boolean.inclusion_probabilities(1500, 700)
    assert w[0] == 1
    assert (np.diff(w[:500]) < 0).all()
    assert (w[701:] == 0).all()


def test_a_score_that_moves_by_exactly_the_margin_disagrees() -> None:
    assert boolean.exact_rate([0, 0.5], [False], radius=1, margin=0.5) == 0.5
    assert boolean.hard_radius([0, 0.5], [False], margin=0.5) == 0
    assert boolean.hard_bound([0, 0.5], [False], margin=0.5) == 0


def test_with_everything_selected_there_is_nothing_to_lose() -> None:
    h, all_of_it = [0.0, 1.0, 0.5, 0.2], [True, True]
    assert boolean.exact_rate(h, all_of_it, radius=3, margin=0.1) == 1
    assert boolean.hard_radius(h, all_of_it, margin=0.1) == 0
    assert boolean.hard_bound(h, all_of_it, margin=0.1) == 0
    assert boolean.stability_bound(h, all_of_it, radius=3, margin=0.1) == 1
    for form in FORMS:
        bound = boolean.smoothed_stability_bound(h, all_of_it, radius=3, margin=0.1, keep_probability=0.5, form=form)
        assert bound == 1


def test_nothing_of_this_changes_its_input() -> None:
    rng = np.random.default_rng(4)
    h = rng.random((16, 2))
    before, selected = h.copy(), np.array([True, False, False, False])
    boolean.exact_rates(h, selected)
    boolean.stability_bound(h, selected, radius=2, margin=0.5)
    for form in FORMS:
        boolean.smoothed_stability_bound(h, selected, radius=2, margin=0.5, keep_probability=0.5, form=form)
    boolean.hard_bound(h, selected, margin=0.5)
    boolean.condition(h, selected)
    assert (h == before).all()


ONE = [0.0, 1.0]


def test_a_far_smaller_score_of_a_third_class_does_not_make_a_tie() -> None:
    assert boolean.stability_bound([[1, 0.9995, -1e9], [1, 0.9995, -1e9]], [False], radius=1) == 1.0


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: boolean.exact_rate(ONE, [True], radius=-1, margin=1), InvalidValueError, "`radius` must be a whole"),
        (lambda: boolean.exact_rate(ONE, [1], radius=1, margin=1), InvalidTypeError, "`selected` must be Boolean"),
        (lambda: boolean.exact_rate(ONE, [True], radius=1, margin=0), InvalidValueError, "`margin` must be a number"),
        (
            lambda: boolean.exact_rate(ONE, [True], radius=1, margin=1, agree=within(1)),
            InvalidTypeError,
            "exclude each other",
        ),
        (lambda: boolean.stability_bound(ONE, [True], radius=1), InvalidTypeError, "which has no top class"),
        (lambda: boolean.stability_bound([ONE, ONE], [True, False], radius=1, margin=1), InvalidValueError, "features"),
        (
            lambda: boolean.stability_bound([[1, 1], [0, 1]], [False], radius=1),
            InvalidValueError,
            "largest scores are equal",
        ),
        (  # a tie that rounding turns into a lead of 6e-17: the bound would be 1, and the rate is one half
            lambda: boolean.stability_bound([[0.1 + 0.2, 0.3], [0.3, 0.1 + 0.2]], [False], radius=1),
            InvalidValueError,
            "are equal up to rounding",
        ),
        (lambda: boolean.hard_bound([[0.1 + 0.2, 0.3], [0, 1]], [False]), InvalidValueError, "up to rounding"),
        (
            lambda: boolean.smoothed_stability_bound(ONE, [True], radius=1, margin=1, keep_probability=2),
            InvalidValueError,
            "`keep_probability` must be a number in",
        ),
        (
            lambda: boolean.smoothed_stability_bound(
                ONE, [True], radius=1, margin=1, keep_probability=0.5, form="sharper"
            ),
            InvalidValueError,
            "Did you mean 'sharp'",
        ),
        (lambda: boolean.stability_bound(ONE, [True], radius=1, margin=1, form="x"), InvalidValueError, "`form`"),
        (lambda: boolean.inclusion_probabilities(-1, 1), InvalidValueError, "`n_unselected`"),
    ],
)
def test_what_makes_no_sense_is_refused(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
