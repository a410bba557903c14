"""Plans keep one contract, cost what they say, and tell it before anything runs."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast as hf
from holdfast.bounds import hoeffding_draws
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.plans import PLANS, find_plan, make_plan, plan_samples
from holdfast.plans.plan import share_risk
from holdfast.plans.proof import bound_miss_probability
from tests.helpers import oracles
from tests.helpers.fakes import label_table, score_table
from tests.helpers.waiting import PATIENCE

F = Fraction

LEVELS = [0.2, 0.1, 0.05]


# -- the contract -------------------------------------------------------------------------------------


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("tolerance", LEVELS)
@pytest.mark.parametrize("confidence", [0.8, 0.9, 0.95])
def test_every_plan_misses_with_at_most_the_risk_at_every_rate(plan: str, tolerance: float, confidence: float) -> None:
    made = make_plan(plan, tolerance=tolerance, confidence=confidence)
    risk = 1 - F(repr(confidence))
    assert bound_miss_probability(made.design, F(repr(tolerance)), target=float(risk)).bound <= risk


@pytest.mark.parametrize(("tolerance", "draws"), [(0.1, 150), (0.05, 738)])
def test_hoeffding_draws_exactly_what_the_paper_asks_for(tolerance: float, draws: int) -> None:
    made = make_plan("hoeffding", tolerance=tolerance, confidence=1 - tolerance)
    assert made.design.looks == (draws,)
    assert made.max_draws == draws
    assert made.design.expected_draws(0.9) == pytest.approx(draws)


@pytest.mark.parametrize("tolerance", ["0.5", "0.2", "0.1", "0.05", "0.02", "0.01", "0.003", "0.0007"])
@pytest.mark.parametrize("confidence", ["0.5", "0.8", "0.9", "0.95", "0.99", "0.999999"])
def test_hoeffding_draws_are_the_fewest_that_its_inequality_allows(tolerance: str, confidence: str) -> None:
    n = hoeffding_draws(F(tolerance), F(confidence))
    with localcontext() as context:
        context.prec = 60
        needed = (2 / (1 - Decimal(confidence))).ln() / (2 * Decimal(tolerance) ** 2)
        assert n - 1 < needed <= n


@pytest.mark.parametrize(("tolerance", "draws"), [(0.1, 70), (0.05, 390)])
def test_the_exact_plan_draws_the_smallest_valid_number(tolerance: float, draws: int) -> None:
    assert make_plan("exact", tolerance=tolerance, confidence=1 - tolerance).design.looks == (draws,)


@pytest.mark.parametrize(
    ("tolerance", "limits"),
    [(0.1, {1.0: 24, 0.98: 27.5, 0.9: 43, 0.5: 72}), (0.05, {1.0: 65, 0.98: 90, 0.9: 189, 0.5: 392})],
)
def test_the_sequential_plan_is_as_cheap_as_promised(tolerance: float, limits: dict[float, float]) -> None:
    design = make_plan("sequential", tolerance=tolerance, confidence=1 - tolerance).design
    found = {rate: design.expected_draws(rate) for rate in limits}
    assert {rate: draws for rate, draws in found.items() if draws > limits[rate] + 1e-9} == {}


def test_the_promised_costs_are_exact_expectations() -> None:
    design = make_plan("sequential", tolerance=0.1, confidence=0.9).design
    paths = oracles.count_paths(design.looks, design.limits)
    for rate in (F(1), F(98, 100), F(9, 10), F(1, 2)):
        assert design.expected_draws(float(rate)) == pytest.approx(
            float(oracles.expected_draws(paths, rate)), rel=1e-12
        )


def test_decimals_mean_what_they_say() -> None:
    made = make_plan("exact", tolerance=0.1, confidence=0.9)
    assert (made.tolerance, made.confidence) == (F(1, 10), F(9, 10))
    assert make_plan("exact", tolerance=F(1, 10), confidence=np.float64(0.9)) == made


# -- many rates at once -------------------------------------------------------------------------------


@pytest.mark.parametrize("n_rates", [1, 2, 3, 4, 11, 48, 99, 100, 101, 147, 1000, 9999, 10_001])
def test_a_shared_risk_covers_all_rates_by_the_union_bound(n_rates: int) -> None:
    plan = make_plan("hoeffding", tolerance=0.1, confidence=0.9)
    shared = share_risk(plan, n_rates)
    assert n_rates * (1 - shared.confidence) <= 1 - plan.confidence
    assert 2 * n_rates * (1 - shared.confidence) >= 1 - plan.confidence
    assert (shared.name, shared.tolerance) == (plan.name, plan.tolerance)


# -- what it will cost --------------------------------------------------------------------------------


@pytest.mark.parametrize("plan", PLANS)
def test_the_cost_is_told_before_anything_runs(plan: str) -> None:
    made, told = make_plan(plan, tolerance=0.1, confidence=0.9), plan_samples(plan=plan)
    assert (told.plan, told.tolerance, told.confidence, told.exact) == (plan, 0.1, 0.9, False)
    assert told.max_draws == made.max_draws
    assert told.paper_draws == 150
    assert [rate for rate, _ in told.expected_draws] == [1.0, 0.98, 0.95, 0.9, 0.8, 0.5]
    for rate, draws in told.expected_draws:
        assert draws == pytest.approx(made.design.expected_draws(rate))
        assert draws <= told.max_draws + 1e-9


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("neighborhood", ["additions", "removals", "swaps"])
@pytest.mark.parametrize("radius", [0, 1, 2, 4, 20])
def test_certify_spends_what_was_told_and_no_more(plan: str, neighborhood: str, radius: int) -> None:
    selected = np.arange(12) % 2 == 0
    told = plan_samples(plan=plan, selected=selected, radius=radius, neighborhood=neighborhood)
    for seed in range(5):
        cert = hf.certify(
            score_table(12, seed=seed), selected, radius=radius, plan=plan, neighborhood=neighborhood, rng=seed
        )
        assert cert.exact == told.exact
        assert cert.n_evaluated <= told.max_draws
        assert cert.n_evaluated == told.max_draws or plan == "sequential"
        assert cert.n_calls <= told.max_draws + 7
    if told.exact:
        assert told.max_draws == len(oracles.neighbors(selected, radius, neighborhood))
        assert {draws for _, draws in told.expected_draws} == {told.max_draws}


def test_the_told_maximum_is_reached_when_answers_are_mixed() -> None:
    selected = np.arange(12) < 2
    told = plan_samples(selected=selected, radius=5)
    spent = [hf.certify(label_table(12, labels=(0, 1)), selected, radius=5, rng=seed).n_evaluated for seed in range(20)]
    assert max(spent) == told.max_draws


@pytest.mark.parametrize("rate_kind", ["exactly", "worst_size"])
def test_the_cost_of_every_kind_of_rate_can_be_told(rate_kind: str) -> None:
    selected = np.arange(12) < 2
    told = plan_samples(selected=selected, radius=4, rate_kind=rate_kind)
    spent = [
        hf.certify(label_table(12, labels=(0, 1)), selected, radius=4, rate_kind=rate_kind, rng=seed).n_calls
        for seed in range(5)
    ]
    assert max(spent) <= told.max_draws + 3


def test_the_cost_is_one_readable_sentence() -> None:
    told = str(plan_samples(tolerance=0.05, confidence=0.95, plan="hoeffding"))
    assert told.startswith("Plan hoeffding: at most 738 draws (±0.05, 95% confidence), on average ")
    assert told.endswith("; the paper draws 738.")
    exact = str(plan_samples(selected=np.arange(6) < 3, radius=9))
    assert exact == "All 8 masks are evaluated: the rate is exact (the paper draws 150)."


def test_the_cost_of_a_huge_neighbourhood_is_told_at_once() -> None:
    told = plan_samples(selected=np.zeros(100_000, dtype=bool), radius=50_000)
    assert not told.exact
    assert told.max_draws == make_plan("sequential", tolerance=0.1, confidence=0.9).max_draws


def test_the_cost_of_the_largest_fixed_plans_is_told_at_once() -> None:
    # In a process of its own, so that a cost quadratic in the 1.5 million draws fails and does not hang.
    code = "import holdfast as hf; print(hf.plan_samples(tolerance=0.001, plan='hoeffding').max_draws)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert int(done.stdout) == hoeffding_draws(F(1, 1000), F(9, 10)) == 1_497_867


# -- bad input ----------------------------------------------------------------------------------------


def test_a_wrong_plan_is_answered_with_the_nearest() -> None:
    with pytest.raises(InvalidValueError, match=r"`plan` must be one of sequential, exact, hoeffding.*'hoeffding'\?"):
        make_plan("hoefding", tolerance=0.1, confidence=0.9)


@pytest.mark.parametrize("name", ["tolerance", "confidence"])
@pytest.mark.parametrize("bad", [0, 1, -0.1, 1.5, float("nan"), float("inf")])
def test_a_tolerance_or_confidence_outside_zero_and_one_is_refused(name: str, bad: float) -> None:
    with pytest.raises(InvalidValueError, match=f"`{name}` must be a number strictly between 0 and 1, got "):
        plan_samples(**{name: bad})


def test_a_tolerance_too_small_to_search_names_the_plan_that_can() -> None:
    with pytest.raises(InvalidValueError, match=r"`tolerance` must be at least 0\.005 .*plan='hoeffding'"):
        make_plan("sequential", tolerance=0.004, confidence=0.9)
    assert make_plan("hoeffding", tolerance=0.004, confidence=0.9).max_draws == hoeffding_draws(F(4, 1000), F(9, 10))


@pytest.mark.parametrize(("plan", "tolerance", "confidence"), [("sequential", 0.005, 0.9), ("exact", 0.005, 0.9999999)])
def test_a_goal_that_would_be_searched_for_too_long_is_refused_with_the_limit(
    plan: str, tolerance: float, confidence: float
) -> None:
    with pytest.raises(InvalidValueError, match=r"`tolerance` must be larger .* stops at \d+.*plan='hoeffding'"):
        make_plan(plan, tolerance=tolerance, confidence=confidence)


def test_a_search_tells_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path))
    find_plan.cache_clear()
    reports: list[tuple[int, int]] = []
    plan_samples(tolerance=0.08, confidence=0.77, progress=lambda done, total: reports.append((done, total)))
    shares = [done / total for done, total in reports]
    assert shares == sorted(shares)
    assert len(shares) > 20
    assert shares[-1] == 1
    reports.clear()
    plan_samples(tolerance=0.08, confidence=0.77, progress=lambda done, total: reports.append((done, total)))
    assert reports == []


@pytest.mark.parametrize("given", [{"radius": 3}, {"selected": np.ones(3, dtype=bool)}])
def test_an_explanation_needs_a_radius_and_a_radius_an_explanation(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidValueError, match="`selected` and `radius` must be given together or not at all"):
        plan_samples(**given)


def test_an_explanation_that_is_no_mask_is_refused() -> None:
    with pytest.raises(InvalidTypeError, match="`selected` must be Boolean"):
        plan_samples(selected=[0, 1, 2], radius=1)


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("confidence", ["0.9999999", "0.9999999999"])
def test_a_confidence_next_to_one_is_planned_or_refused_and_never_hangs(plan: str, confidence: str) -> None:
    # In a process of its own, so that an endless search fails. A plan that is made must keep its promise.
    code = (
        "import holdfast as hf\n"
        f"try: told = hf.plan_samples(tolerance=0.3, confidence={confidence}, plan='{plan}')\n"
        "except hf.errors.InvalidValueError as error: print(error)\n"
        "else: print(told.max_draws)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=True)
    answer = done.stdout.strip()
    if not answer.isdigit():
        assert answer.startswith("`confidence` must be ")
        return
    risk = 1 - F(confidence)
    # If every draw agrees although the rate is just below 1 - tolerance, the plan misses.
    assert F(7, 10) ** int(answer) <= risk


def test_a_risk_that_rounding_would_decide_is_refused_by_searched_plans() -> None:
    for plan in ("exact", "sequential"):
        with pytest.raises(InvalidValueError, match=r"^`confidence` must be at most 1 - .* beyond numerical precision"):
            make_plan(plan, tolerance=0.1, confidence=F(10**20 - 1, 10**20))  # type: ignore[arg-type]
    assert make_plan("hoeffding", tolerance=0.1, confidence=F(10**20 - 1, 10**20)).max_draws > 2000  # type: ignore[arg-type]


def test_the_cost_of_the_worst_size_can_only_be_told_of_a_neighborhood() -> None:
    with pytest.raises(InvalidValueError, match="must be given for rate_kind='worst_size'"):
        plan_samples(rate_kind="worst_size")
