"""``certify`` and ``certify_hard`` against enumeration, exact probabilities and each other."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import holdfast as hf
from holdfast import Certificate, Evaluator, HardCertificate, certify, certify_hard, lookup_table, mask_function
from holdfast.errors import InvalidValueError
from holdfast.plans import PLANS, make_plan
from holdfast.plans.design import probabilities
from holdfast.plans.proof import bound_miss_probability
from tests.helpers import oracles
from tests.helpers.fakes import Recorded, all_masks, label_table, score_table
from tests.helpers.hardest import ALMOST_NOTHING, SELECTED
from tests.helpers.hardest import table_of_share as table
from tests.helpers.stopping_oracle import paths_of
from tests.helpers.strategies import KINDS, kinds, questions

F = Fraction
Mask = NDArray[np.bool_]

RATE_KINDS = ("uniform", "exactly", "worst_size", "worst_size_lower")


def distance(cert: Certificate | HardCertificate, mask: Any) -> int | None:
    return oracles.distance(cert.selected, mask, cert.neighborhood)


def without_calls(cert: Any) -> Any:
    return dataclasses.replace(cert, n_calls=0)


# -- enumeration --------------------------------------------------------------------------------------


@given(questions(), kinds, st.sampled_from(RATE_KINDS), st.sampled_from(PLANS[1:]))
@settings(max_examples=150)
def test_small_neighbourhoods_are_enumerated_and_the_rate_is_the_truth(
    question: Any, kind: str, rate_kind: str, plan: str
) -> None:
    model, selected, radius = question
    cert = certify(model, selected, radius=radius, neighborhood=kind, rate_kind=rate_kind, plan=plan, rng=0)
    truth = oracles.exact_rate(model, selected, radius, neighborhood=kind, rate_kind=rate_kind)
    assert cert.exact
    assert F(cert.n_agreed, cert.n_evaluated) == truth
    assert cert.rate == cert.rate_unbiased == float(truth)
    assert cert.interval == (float(truth), float(truth))
    assert cert.design is None


def leads_by_class_one(outputs: Any, reference: Any) -> Any:
    """A user's own agreement: class one is on the same side of zero."""
    return (outputs[:, 1] > 0) == (reference[1] > 0)


@pytest.mark.parametrize(
    "agree",
    [
        *("same_top_class", "same_top_set(1)", "same_top_set(2)", "within(0.9)", "within_percent(200)"),
        *("same_side(0.2, 1)", "same_labels(0.3)", leads_by_class_one),
    ],
    ids=lambda agree: getattr(agree, "__name__", agree),
)
@pytest.mark.parametrize("neighborhood", KINDS)
@pytest.mark.parametrize("rate_kind", RATE_KINDS)
def test_every_agreement_neighbourhood_and_kind_of_rate_equals_enumeration(
    agree: Any, neighborhood: str, rate_kind: str
) -> None:
    model, selected = score_table(8, seed=3, n_classes=4), np.array([1, 0, 1, 1, 0, 0, 1, 0], dtype=bool)
    rates = set()
    for radius in range(6):
        asked: dict[str, Any] = {"agree": agree, "neighborhood": neighborhood, "rate_kind": rate_kind}
        cert = certify(model, selected, radius=radius, plan="hoeffding", rng=0, **asked)
        truth = oracles.exact_rate(model, selected, radius, **asked)
        assert cert.exact
        assert F(cert.n_agreed, cert.n_evaluated) == truth
        rates.add(truth)
    assert len(rates) > 1


@pytest.mark.parametrize("plan", PLANS)
def test_enumeration_replaces_sampling_exactly_when_it_costs_no_more(plan: str) -> None:
    most = hf.plan_samples(plan=plan).max_draws
    for n_unselected in range(1, 10):
        selected = np.arange(10) >= n_unselected
        for radius in range(1, n_unselected + 1):
            cert = certify(score_table(10), selected, radius=radius, plan=plan, rng=0)
            assert cert.exact == (len(oracles.neighbors(selected, radius)) <= most)


@pytest.mark.parametrize(("tolerance", "confidence", "n_unselected", "size"), [(0.1, 0.9, 8, 4), (0.2, 0.9, 6, 3)])
def test_a_neighbourhood_of_exactly_the_largest_number_of_draws_is_enumerated(
    tolerance: float, confidence: float, n_unselected: int, size: int
) -> None:
    # 70 fixed draws and C(8, 4) = 70 masks; 20 draws and C(6, 3) = 20 masks. One more mask and draws are cheaper.
    asked: dict[str, Any] = {"tolerance": tolerance, "confidence": confidence, "plan": "exact", "rng": 0}
    most = hf.plan_samples(tolerance=tolerance, confidence=confidence, plan="exact").max_draws
    assert len(oracles.neighbors(np.arange(12) >= n_unselected, 0, exactly=size)) == most
    for extra, exact in ((0, True), (1, False)):
        selected = np.arange(12) >= n_unselected + extra
        cert = certify(score_table(12), selected, radius=size, rate_kind="exactly", **asked)
        assert (cert.exact, cert.n_evaluated) == (exact, most)


# -- edges --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate_kind", RATE_KINDS)
@pytest.mark.parametrize("radius", [0, 1, 7])
def test_nothing_unselected_gives_exactly_one(rate_kind: str, radius: int) -> None:
    cert = certify(score_table(5), np.ones(5, dtype=bool), radius=radius, rate_kind=rate_kind, rng=0)
    assert (cert.rate, cert.rate_unbiased, cert.exact, cert.interval) == (1.0, 1.0, True, (1.0, 1.0))
    assert (cert.radius, cert.effective_radius, cert.counterexample) == (radius, 0, None)
    assert (cert.n_agreed, cert.n_evaluated, cert.consistent) == (1, 1, True)


@pytest.mark.parametrize("neighborhood", ["removals", "swaps"])
def test_nothing_to_remove_or_to_swap_gives_exactly_one(neighborhood: str) -> None:
    cert = certify(score_table(5), np.zeros(5, dtype=bool), radius=3, neighborhood=neighborhood, rng=0)
    assert (cert.rate, cert.exact, cert.effective_radius) == (1.0, True, 0)


@pytest.mark.parametrize("seed", range(8))
def test_exactly_one_unselected_feature_gives_a_half_or_one(seed: int) -> None:
    selected = np.arange(6) != 2
    model = label_table(6, seed=seed)
    cert = certify(model, selected, radius=4, rng=0)
    same = oracles.answer(model, selected) == oracles.answer(model, np.ones(6, dtype=bool))
    assert cert.rate == (1.0 if same else 0.5)
    assert cert.consistent == same
    assert cert.effective_radius == 1


def test_an_empty_selection_works() -> None:
    model, nothing = score_table(7), np.zeros(7, dtype=bool)
    cert = certify(model, nothing, radius=2, rng=0)
    assert F(cert.n_agreed, cert.n_evaluated) == oracles.exact_rate(model, nothing, 2)
    assert not certify(score_table(12), np.zeros(12, dtype=bool), radius=9, rng=0).exact


def test_radius_zero_asks_only_about_the_explanation_itself() -> None:
    for rate_kind in RATE_KINDS:
        cert = certify(score_table(12), SELECTED, radius=0, rate_kind=rate_kind, rng=0)
        assert (cert.rate, cert.exact, cert.n_evaluated) == (1.0, True, 1)


@pytest.mark.parametrize("rate_kind", RATE_KINDS)
@pytest.mark.parametrize(("neighborhood", "largest"), [("additions", 9), ("removals", 3), ("swaps", 3)])
def test_a_radius_beyond_what_can_change_is_clamped_and_recorded(
    rate_kind: str, neighborhood: str, largest: int
) -> None:
    asked: dict[str, Any] = {"rate_kind": rate_kind, "neighborhood": neighborhood, "rng": 0}
    model = score_table(12)
    far, near = (certify(model, SELECTED, radius=radius, **asked) for radius in (10**9, largest))
    assert (far.radius, far.effective_radius) == (10**9, largest)
    assert (near.radius, near.effective_radius) == (largest, largest)
    assert dataclasses.replace(far, radius=largest) == near


# -- sampling: what is certified --------------------------------------------------


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("share", [0.98, 0.9, 0.5])
def test_the_exact_probability_of_missing_this_very_rate_is_within_the_risk(plan: str, share: float) -> None:
    model = table(share)
    cert = certify(model, SELECTED, radius=5, plan=plan, rng=0)
    assert cert.design is not None
    truth = oracles.exact_rate(model, SELECTED, 5)
    assert oracles.miss_probability(paths_of(cert.design), truth, F(1, 10)) <= F(1, 10)


@pytest.mark.parametrize("plan", PLANS)
def test_the_unbiased_rate_is_that_of_the_design(plan: str) -> None:
    for seed in range(10):
        cert = certify(table(0.8), SELECTED, radius=6, plan=plan, rng=seed)
        assert cert.design is not None
        paths = paths_of(cert.design)
        opened = oracles.count_paths_that_begin_with_an_agreement(cert.design.looks, cert.design.limits)
        end = (cert.n_evaluated, cert.n_agreed)
        assert cert.rate_unbiased == pytest.approx(float(F(opened.get(end, 0), paths[end])), rel=1e-12)
        assert cert.rate == cert.n_agreed / cert.n_evaluated


def test_the_interval_is_the_rate_plus_and_minus_the_tolerance_within_zero_and_one() -> None:
    for seed in range(20):
        for share in (0.02, 0.5, 0.99):
            cert = certify(table(share), SELECTED, radius=5, tolerance=0.15, plan="exact", rng=seed)
            rate = F(cert.n_agreed, cert.n_evaluated)
            low, high = max(rate - F(15, 100), F(0)), min(rate + F(15, 100), F(1))
            assert cert.interval == (float(low), float(high))


# -- the worst size -----------------------------------------------------------------------------------


@pytest.mark.parametrize("plan", PLANS)
def test_the_risk_of_the_worst_size_is_shared_among_all_sampled_sizes(plan: str) -> None:
    cert = certify(
        table(0.9, selected=ALMOST_NOTHING), ALMOST_NOTHING, radius=11, rate_kind="worst_size", plan=plan, rng=0
    )
    assert cert.design is not None
    sizes = [len(oracles.neighbors(ALMOST_NOTHING, 0, exactly=k)) for k in range(12)]
    n_sampled = sum(size > cert.design.max_draws for size in sizes)
    assert n_sampled >= 4
    each = F(1, 10) / n_sampled
    assert bound_miss_probability(cert.design, F(1, 10), target=float(each)).bound <= each


def test_the_worst_size_has_no_unbiased_rate_unless_it_is_exact() -> None:
    model = table(0.9, selected=ALMOST_NOTHING)
    assert certify(model, ALMOST_NOTHING, radius=9, rate_kind="worst_size", rng=0).rate_unbiased is None
    exact = certify(model, ALMOST_NOTHING, radius=1, rate_kind="worst_size", rng=0)
    assert exact.rate_unbiased == exact.rate


def test_a_lower_limit_for_the_worst_size_takes_the_draws_of_one_size_for_each() -> None:
    always = mask_function(lambda masks: masks[:, 0], n_features=41)
    both, lower = (
        certify(always, np.arange(41) < 1, radius=16, rate_kind=kind, rng=0)
        for kind in ("worst_size", "worst_size_lower")
    )
    # Of 17 sizes 0 and 1 are enumerated, with 41 masks; the others need 48 draws each if all agree, and 23 alone.
    planned = [
        dict(hf.plan_samples(selected=np.arange(41) < 1, radius=16, rate_kind=cert.rate_kind).expected_draws)[1.0]
        for cert in (both, lower)
    ]
    assert planned == [15 * 48 + 41, 15 * 23 + 41]
    assert both.interval == lower.interval == (0.9, 1.0)
    assert lower.n_calls < 0.55 * both.n_calls
    assert str(lower).startswith("Stable in at least 90% of cases at worst (90% confidence): revealing up to 16 more")
    assert "It is the rate at the worst size." in lower.explain()
    below = certify(table(0.5, selected=ALMOST_NOTHING), ALMOST_NOTHING, radius=11, rate_kind="worst_size_lower", rng=0)
    assert below.interval.high == 1.0
    assert below.interval.low == pytest.approx(below.rate - 0.1)
    exact = certify(always, np.arange(41) < 1, radius=1, rate_kind="worst_size_lower", rng=0)
    assert exact.interval == (1.0, 1.0)


def test_a_lower_limit_for_the_worst_size_is_too_large_no_more_often_than_stated() -> None:
    # The smallest of independent rates is too large only if all are: exact sums over the stopping design, refined
    # around the worst of the smallest true rates, the others as large.
    design, risk = make_plan("sequential", tolerance=0.1, confidence=0.9).design, 0.1
    share = design.terminals.k / design.terminals.n

    def too_large(rate: float, smallest: float) -> float:
        chance = probabilities(design.terminals, np.array([[rate]]))[0]
        return float(chance[share - 0.1 > smallest + 1e-12].sum())

    low, high = 0.0, 0.9
    for _ in range(5):
        grid = np.linspace(low, high, 61)
        alone = [too_large(rate, rate) for rate in grid]
        assert max(alone) <= risk
        assert all(too_large(rate, rate) * too_large(min(1, rate + 0.03), rate) <= risk for rate in grid)
        worst = int(np.argmax(alone))
        low, high = grid[max(0, worst - 1)], grid[min(60, worst + 1)]
    assert max(alone) > risk / 3, "the risk is used"


# -- what the result does not depend on ---------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [1, 2, 3, 7, 64, 1000])
@pytest.mark.parametrize("rate_kind", RATE_KINDS)
@pytest.mark.parametrize("radius", [1, 5])
def test_certificates_do_not_depend_on_batch_size(batch_size: int, rate_kind: str, radius: int) -> None:
    model = Recorded(table(0.8))
    asked: dict[str, Any] = {"radius": radius, "rate_kind": rate_kind, "rng": 3}
    assert certify(model, SELECTED, batch_size=batch_size, **asked) == certify(table(0.8), SELECTED, **asked)
    assert max(model.batch_sizes) <= batch_size


@pytest.mark.parametrize("plan", PLANS)
def test_sharing_an_evaluator_changes_no_certificate(plan: str) -> None:
    model = score_table(12)
    shared = Evaluator(model)
    questions = [(np.roll(SELECTED, shift), radius) for shift in (0, 4, 0) for radius in (2, 7)]
    asked: dict[str, Any] = {"plan": plan, "rng": 11}
    alone = [certify(model, selected, radius=radius, **asked) for selected, radius in questions]
    together = [certify(shared, selected, radius=radius, **asked) for selected, radius in questions]
    assert together == alone
    assert shared.n_calls < sum(cert.n_calls for cert in alone)


def test_certificates_do_not_depend_on_what_was_asked_before() -> None:
    shared, backwards = Evaluator(score_table(12)), Evaluator(score_table(12))
    radii = [1, 3, 5, 9]
    forth = [certify(shared, SELECTED, radius=radius, rng=5) for radius in radii]
    back = [certify(backwards, SELECTED, radius=radius, rng=5) for radius in reversed(radii)]
    assert [without_calls(cert) for cert in forth] == [without_calls(cert) for cert in reversed(back)]


def test_certify_leaves_the_explanation_and_the_global_generator_alone() -> None:
    selected = SELECTED.copy()
    before = np.random.get_state()[1].tolist()  # noqa: NPY002 - the global generator must be left alone
    cert = certify(score_table(12), selected, radius=5, rng=None)
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002
    np.testing.assert_array_equal(selected, SELECTED)
    selected[:] = False
    np.testing.assert_array_equal(cert.selected, SELECTED)


# -- randomness ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("rng", [0, 7, 2**128 - 1, None, "generator"])
@pytest.mark.parametrize("rate_kind", RATE_KINDS)
def test_the_key_of_a_certificate_repeats_it(rng: Any, rate_kind: str) -> None:
    given_rng = np.random.default_rng(3) if rng == "generator" else rng
    first = certify(table(0.8), SELECTED, radius=6, rate_kind=rate_kind, rng=given_rng)
    again = certify(table(0.8), SELECTED, radius=6, rate_kind=rate_kind, rng=first.rng_key)
    assert again == first
    assert again.to_json() == first.to_json()


def test_a_seed_is_its_own_key_and_a_generator_gives_a_new_one_each_time() -> None:
    assert certify(table(0.8), SELECTED, radius=6, rng=7).rng_key == 7
    assert certify(table(0.8), SELECTED, radius=6, rng=np.int64(7)).rng_key == 7
    rng = np.random.default_rng(0)
    keys = [certify(table(0.8), SELECTED, radius=6, rng=rng).rng_key for _ in range(3)]
    rng = np.random.default_rng(0)
    assert [certify(table(0.8), SELECTED, radius=6, rng=rng).rng_key for _ in range(3)] == keys
    assert len(set(keys)) == 3


def test_different_seeds_and_no_seed_give_different_draws() -> None:
    ends = {certify(table(0.6), SELECTED, radius=6, plan="exact", rng=seed).n_agreed for seed in range(20)}
    assert len(ends) > 5
    fresh = {certify(table(0.6), SELECTED, radius=6).rng_key for _ in range(3)}
    assert len(fresh) == 3


# -- what is reported besides the rate ----------------------------------------------------------------


@pytest.mark.parametrize("neighborhood", KINDS)
@pytest.mark.parametrize("rate_kind", RATE_KINDS)
@pytest.mark.parametrize("share", [0.99, 0.9, 0.3])
def test_the_counterexample_is_the_nearest_mask_seen_that_disagrees(
    neighborhood: str, rate_kind: str, share: float
) -> None:
    selected = np.arange(12) % 2 == 0
    for seed in range(6):
        model = Recorded(table(share, seed=seed, selected=selected))
        cert = certify(model, selected, radius=4, neighborhood=neighborhood, rate_kind=rate_kind, rng=seed)
        changes = [
            distance(cert, mask)
            for mask in model.times_asked
            if oracles.answer(model.model, mask) != "same" and (distance(cert, mask) or 5) <= 4
        ]
        if cert.counterexample is None:
            assert changes == []
            continue
        assert oracles.answer(model.model, cert.counterexample) != cert.prediction == "same"
        assert distance(cert, cert.counterexample) == min(changes)
        assert not cert.counterexample.flags.writeable


def test_the_full_input_is_a_counterexample_if_it_changes_the_prediction_within_the_radius() -> None:
    # Only the full input of 2^12 masks changes the prediction: no draw finds it, but it was evaluated.
    model = lookup_table((np.arange(2**12) == 2**12 - 1).astype(int), n_features=12)
    cert = certify(model, SELECTED, radius=9, rng=0)
    assert not cert.consistent
    assert cert.rate == 1.0
    assert cert.counterexample is not None
    assert cert.counterexample.all()
    assert certify(model, SELECTED, radius=8, rng=0).counterexample is None


@pytest.mark.parametrize("seed", range(10))
def test_consistent_says_whether_the_full_input_is_predicted_the_same(seed: int) -> None:
    model = score_table(12, seed=seed)
    cert, hard = certify(model, SELECTED, radius=3, rng=0), certify_hard(model, SELECTED, radius=3, rng=0)
    tops = [int(np.argmax(oracles.answer(model, mask))) for mask in (SELECTED, np.ones(12, dtype=bool))]
    assert cert.prediction == hard.prediction == tops[0]
    assert cert.consistent == hard.consistent == (tops[0] == tops[1])


def test_both_answers_about_consistency_occur() -> None:
    found = {certify(score_table(12, seed=seed), SELECTED, radius=3, rng=0).consistent for seed in range(10)}
    assert found == {True, False}


@pytest.mark.parametrize("radius", [0, 1, 2, 5, 9])
@pytest.mark.parametrize("plan", PLANS)
def test_calls_are_the_rows_that_the_model_computed(radius: int, plan: str) -> None:
    model = Recorded(score_table(12))
    cert = certify(model, SELECTED, radius=radius, plan=plan, rng=0)
    assert cert.n_calls == model.n_rows
    repeated = [mask for mask, times in model.times_asked.items() if times > 1]
    assert tuple(SELECTED.tolist()) in repeated
    assert len(repeated) == cert.n_repeated == 1 + min(4, len(model.times_asked) // 16)
    silent = Recorded(score_table(12))
    assert certify(silent, SELECTED, radius=radius, plan=plan, check_determinism=False, rng=0).n_calls == silent.n_rows
    assert max(silent.times_asked.values()) == 1


def test_draws_are_counted_every_time_though_computed_once() -> None:
    selected = np.arange(12) >= 7
    model = Recorded(score_table(12))
    cert = certify(model, selected, radius=7, plan="exact", rng=0)
    assert not cert.exact
    assert cert.n_evaluated == 70
    assert cert.n_calls < 70


@pytest.mark.parametrize("labels", [(0, 1), ("cat", "dog"), (True, False), ("", "yes")])
def test_models_that_only_return_labels_are_certified(labels: tuple[Any, Any]) -> None:
    model = label_table(12, seed=5, labels=labels)
    cert = certify(model, SELECTED, radius=2, plan="hoeffding", rng=0)
    assert cert.exact
    assert F(cert.n_agreed, cert.n_evaluated) == oracles.exact_rate(model, SELECTED, 2)
    assert cert.prediction == oracles.answer(model, SELECTED)
    assert type(cert.prediction) is type(labels[0])
    hard = certify_hard(model, SELECTED, radius=1, rng=0)
    assert hard.stable == oracles.is_hard_stable(model, SELECTED, 1)


def test_a_single_score_is_certified_within_a_margin() -> None:
    values = np.random.default_rng(0).normal(size=2**8)
    selected = np.arange(8) < 4
    cert = certify(lookup_table(values, n_features=8), selected, radius=4, agree=hf.agreement.within(0.7), rng=0)
    here = values[all_masks(8)[:, :4].all(axis=1)]
    assert F(cert.n_agreed, cert.n_evaluated) == F(int((np.abs(here - values[15]) < 0.7).sum()), 16)
    assert cert.prediction == values[15]


def test_an_agreement_that_does_not_hold_with_itself_is_refused() -> None:
    for function in (certify, certify_hard):
        with pytest.raises(InvalidValueError, match="`agree` must hold between an output and itself"):
            function(score_table(5), np.ones(5, dtype=bool), radius=1, agree=lambda outputs, _: outputs[:, 0] > 99)


def test_a_hundred_thousand_features_are_certified() -> None:
    n = 100_000
    model = hf.mask_function(lambda masks: masks[:, :50_000].sum(axis=1) > 30_000, n_features=n)
    cert = certify(model, np.arange(n) < 10, radius=20_000, rng=0)
    assert (cert.rate, cert.effective_radius) == (1.0, 20_000)


# -- hard certificates --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tolerance", "confidence", "draws"), [(0.1, 0.9, 22), (0.05, 0.95, 59), (0.01, 0.99, 459), (0.1, 0.99, 44)]
)
def test_a_hard_certificate_takes_as_many_draws_as_theorem_two(tolerance: float, confidence: float, draws: int) -> None:
    constant = lookup_table(np.zeros(2**12, dtype=int), n_features=12)
    hard = certify_hard(constant, SELECTED, radius=9, tolerance=tolerance, confidence=confidence, rng=0)
    assert (hard.method, hard.stable, hard.exact, hard.radius) == ("sampling", True, False, 9)
    assert (hard.n_agreed, hard.n_evaluated) == (draws, draws)
    assert (hard.tolerance, hard.confidence) == (tolerance, confidence)
    share, risk = 1 - F(repr(tolerance)), 1 - F(repr(confidence))
    assert share**draws <= risk < share ** (draws - 1)
    assert "no proof" in hard.explain()
    assert "with probability at most" in hard.explain()


@given(questions(max_features=5), kinds)
@settings(max_examples=100)
def test_a_small_neighbourhood_is_proven_or_refuted_by_enumeration(question: Any, kind: str) -> None:
    model, selected, radius = question
    hard = certify_hard(model, selected, radius=radius, neighborhood=kind, max_enumerated=100, rng=0)
    truth = oracles.hard_radius(model, selected, neighborhood=kind)
    stable = oracles.is_hard_stable(model, selected, radius, neighborhood=kind)
    assert (hard.method, hard.exact, hard.stable) == ("enumeration", True, stable)
    assert (hard.tolerance, hard.confidence) == (None, None)
    assert hard.radius == (radius if stable else truth)
    assert hard.requested_radius == radius
    if not stable:
        assert distance(hard, hard.counterexample) == truth + 1
        assert oracles.answer(model, hard.counterexample) != oracles.answer(model, selected)


@pytest.mark.parametrize("neighborhood", KINDS)
def test_enumeration_is_used_when_it_is_affordable(neighborhood: str) -> None:
    selected = np.arange(12) % 2 == 0
    size = len(oracles.neighbors(selected, 2, neighborhood))
    methods = [
        certify_hard(
            table(1.0, selected=selected),
            selected,
            radius=2,
            neighborhood=neighborhood,
            max_enumerated=most,
            rng=0,
        ).method
        for most in (size - 1, size, None)
    ]
    assert methods == ["sampling", "enumeration", "enumeration" if size <= 22 else "sampling"]


@pytest.mark.parametrize("seed", range(10))
def test_one_draw_that_changes_the_prediction_is_a_refutation(seed: int) -> None:
    model = table(0.5, seed=seed)
    hard = certify_hard(model, SELECTED, radius=6, rng=seed)
    assert (hard.method, hard.stable, hard.exact, hard.radius) == ("sampling", False, True, 0)
    assert hard.counterexample is not None
    assert oracles.answer(model, hard.counterexample) == "other"
    assert 1 <= (distance(hard, hard.counterexample) or 0) <= 6
    assert hard.n_agreed < hard.n_evaluated <= 22
    assert "can change the prediction 'same'" in str(hard)


def test_a_full_input_that_changes_the_prediction_within_the_radius_is_a_refutation() -> None:
    # It was evaluated, it lies within the radius: "no mask that was evaluated changes the prediction" is false.
    model = lookup_table((np.arange(2**12) == 2**12 - 1).astype(int), n_features=12)
    hard = certify_hard(model, SELECTED, radius=9, rng=0)
    assert not hard.consistent
    assert not hard.stable
    assert hard.counterexample is not None
    assert hard.counterexample.all()
    assert certify_hard(model, SELECTED, radius=8, rng=0).stable


@pytest.mark.parametrize("batch_size", [1, 2, 5, 1000])
@pytest.mark.parametrize("max_enumerated", [None, 512])
@pytest.mark.parametrize("share", [1.0, 0.97, 0.5])
def test_hard_certificates_do_not_depend_on_batch_size(
    batch_size: int, max_enumerated: int | None, share: float
) -> None:
    asked: dict[str, Any] = {"radius": 9, "max_enumerated": max_enumerated, "rng": 1}
    found = certify_hard(table(share), SELECTED, batch_size=batch_size, **asked)
    assert found == certify_hard(table(share), SELECTED, **asked)


@pytest.mark.parametrize("rng", [5, None, "generator"])
def test_the_key_of_a_hard_certificate_repeats_it(rng: Any) -> None:
    given_rng = np.random.default_rng(3) if rng == "generator" else rng
    first = certify_hard(table(0.95), SELECTED, radius=6, rng=given_rng)
    assert certify_hard(table(0.95), SELECTED, radius=6, rng=first.rng_key) == first


def test_a_hard_radius_is_clamped_and_recorded() -> None:
    hard = certify_hard(table(1.0), SELECTED, radius=50, rng=0)
    assert (hard.requested_radius, hard.effective_radius, hard.radius) == (50, 9, 50)
    everything = certify_hard(table(1.0, selected=np.ones(12, dtype=bool)), np.ones(12, dtype=bool), radius=4, rng=0)
    assert (everything.method, everything.stable, everything.effective_radius) == ("enumeration", True, 0)
