"""Guarantees at the hardest rates there are: how often thousands of seeded runs are wrong, against what was promised.

Where a probability can be summed exactly, the counts must fit it too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy.special import bdtrc
from scipy.stats import binom

from holdfast import (
    Attribution,
    Comparison,
    Interval,
    MaskedModel,
    RadiusCertificate,
    StabilityCurve,
    certified_radius,
    certify,
    certify_hard,
    certify_radii,
    compare,
    lookup_table,
    stabilize,
)
from holdfast.certification import Difference, RadiusStep
from holdfast.plans import make_plan, rate_test, share_risk
from holdfast.types import Mask
from tests.helpers.boolean_functions import check_bounds, random_batches
from tests.helpers.contracts import LEAST_P_VALUE, bits
from tests.helpers.fakes import all_masks, label_table
from tests.helpers.hardest import (
    ALMOST_NOTHING,
    SELECTED,
    around,
    ball_sizes,
    end_p_value,
    explanations,
    hardest_balls,
    is_plausible,
    misses_by_count,
    most_failures,
    remembered,
    ring_sizes,
    table_of_balls,
    table_of_explanations,
    table_of_rings,
    table_of_share,
)
from tests.helpers.oracles import Bits, exact_rate
from tests.helpers.stopping_oracle import Answers, paths_of
from tests.helpers.strategies import KINDS

F = Fraction
N_RUNS = 2_000

TEN, TWELVE = np.arange(10) < 2, np.arange(12) < 2
SIZES = ball_sizes(TWELVE)
"""1, 11, 56, 176, 386, 638, 848, 968, 1013, 1023, 1024 masks."""


def seeded_runs(verb: Callable[..., Any], model: MaskedModel, *asked: Any, n_runs: int = N_RUNS, **options: Any) -> Any:
    """What a verb answers with the seeds 0, 1, …; the model is asked for every mask once, in advance."""
    evaluator = remembered(model)
    return [verb(evaluator, *asked, check_determinism=False, rng=seed, **options) for seed in range(n_runs)]


# -- certificates ------------------------------------------------------------------------------------

RATE_KINDS = ("uniform", "exactly", "worst_size")
WIDE = {"additions": np.arange(12) < 2, "removals": np.arange(12) < 10, "swaps": np.arange(12) % 2 == 0}
"""For each neighbourhood an explanation with many masks at every distance."""

N_SEEDS = 500
LEAST_BINOMIAL = 1e-6
"""A count of misses whose probability under the promise is below this fails the test."""


def assert_contract(n_missed: int, n_runs: int, risk: float) -> None:
    """P(at least this many misses), were each run to miss with probability ``risk``."""
    chance = float(bdtrc(n_missed - 1, n_runs, risk)) if n_missed else 1.0
    assert chance > LEAST_BINOMIAL, f"{n_missed} of {n_runs} runs missed"


def table_by_size(largest_kept: int) -> MaskedModel:
    """Labels that are "same" for at most so many features: the rate hangs on the sizes of the draws."""
    return lookup_table(np.where(all_masks(12).sum(axis=1) <= largest_kept, "same", "other"), n_features=12)


@pytest.mark.parametrize(
    ("model", "plan", "rate_kind"),
    [
        (table_of_share(0.95), "sequential", "uniform"),
        (table_of_share(0.95), "sequential", "exactly"),
        (table_of_share(0.7), "sequential", "exactly"),
        (table_of_share(0.7), "exact", "uniform"),
        (table_by_size(3 + 4), "sequential", "uniform"),
        (table_by_size(3 + 4), "hoeffding", "uniform"),
    ],
    ids=range(6),
)
def test_runs_end_as_often_as_the_stopping_design_says(model: MaskedModel, plan: str, rate_kind: str) -> None:
    asked: dict[str, Any] = {"radius": 5, "plan": plan, "rate_kind": rate_kind}
    certs = seeded_runs(certify, model, SELECTED, n_runs=N_SEEDS, **asked)
    truth = exact_rate(model, SELECTED, 5, rate_kind=rate_kind)
    assert 0 < truth < 1
    ends = Counter((cert.n_evaluated, cert.n_agreed) for cert in certs)
    assert len(ends) > 5
    assert end_p_value(ends, paths_of(certs[0].design), truth) > LEAST_P_VALUE


@pytest.mark.parametrize("neighborhood", KINDS)
@pytest.mark.parametrize("rate_kind", RATE_KINDS)
def test_misses_are_no_more_frequent_than_the_risk(neighborhood: str, rate_kind: str) -> None:
    selected = WIDE[neighborhood]
    model = table_of_share(0.85, seed=4, selected=selected)
    asked: dict[str, Any] = {"neighborhood": neighborhood, "rate_kind": rate_kind}
    truth = exact_rate(model, selected, 3, **asked)
    certs = seeded_runs(certify, model, selected, n_runs=400, radius=3, tolerance=0.2, confidence=0.8, **asked)
    sampled = [cert for cert in certs if not cert.exact]
    missed = sum(abs(F(cert.n_agreed, cert.n_evaluated) - truth) > F(1, 5) for cert in sampled)
    assert len(sampled) == 400
    assert_contract(missed, 400, 0.2)


def test_the_miss_threshold_would_catch_a_broken_plan() -> None:
    with pytest.raises(AssertionError, match="missed"):
        assert_contract(90, 400, 0.1)
    assert_contract(50, 400, 0.1)


def test_the_mean_of_the_unbiased_rate_is_the_truth_where_that_of_the_plain_rate_is_not() -> None:
    model = table_of_share(0.9, seed=1)
    truth = float(exact_rate(model, SELECTED, 5))
    certs = seeded_runs(certify, model, SELECTED, radius=5)
    unbiased, plain = (np.array([getattr(cert, name) for cert in certs]) for name in ("rate_unbiased", "rate"))
    error = unbiased.std() / np.sqrt(len(certs))
    assert abs(unbiased.mean() - truth) < 4 * error
    assert plain.mean() - truth > 4 * error


def test_the_worst_size_is_within_tolerance_of_the_smallest_rate_over_sizes() -> None:
    model = table_of_share(0.8, seed=2, selected=ALMOST_NOTHING)
    rates = [exact_rate(model, ALMOST_NOTHING, k, rate_kind="exactly") for k in range(1, 7)]
    certs = seeded_runs(certify, model, ALMOST_NOTHING, n_runs=100, radius=6, rate_kind="worst_size")
    assert not any(cert.exact for cert in certs)
    missed = sum(abs(F(cert.n_agreed, cert.n_evaluated) - min(rates)) > F(1, 10) for cert in certs)
    above = sum(any(F(cert.n_agreed, cert.n_evaluated) > rate + F(1, 10) for rate in rates) for cert in certs)
    assert_contract(missed, 100, 0.1)
    assert_contract(above, 100, 0.1)


def test_an_unstable_explanation_passes_as_often_as_all_draws_agree_and_no_more() -> None:
    model = table_of_share(0.88, seed=0)
    truth = float(exact_rate(model, SELECTED, 5))
    assert 0.8 < truth < 0.9
    passed = sum(run.stable for run in seeded_runs(certify_hard, model, SELECTED, n_runs=1000, radius=5))
    assert_contract(passed, 1000, 0.1)
    expected = 1000 * truth**22
    assert abs(passed - expected) < 4.5 * np.sqrt(expected * (1 - truth**22))


# -- curves -----------------------------------------------------------------------------------------


def contains(interval: Interval, rate: Fraction) -> bool:
    """Both ends and the rate are rounded once from fractions, which keeps their order."""
    return interval.low <= float(rate) <= interval.high


HARD_RATES = {4: (0.86, 0.95), 8: (0.5, 0.8)}
"""By radius: where the table's rate is put, at the hardest of all possible rates in this range."""


def check_each_radius(curves: list[StabilityCurve], truths: dict[int, Fraction]) -> None:
    """Misses at most as often as promised, as often as computed exactly, and stops as computed exactly."""
    for radius, truth in truths.items():
        ones = [curve[radius] for curve in curves]
        first = ones[0]
        risk, tolerance = 1 - F(repr(first.confidence)), F(repr(first.tolerance))
        paths = paths_of(first.design)
        n_missed = sum(not contains(one.interval, truth) for one in ones)
        promised = float(misses_by_count(paths, tolerance, truth.denominator)[truth.numerator])
        assert promised <= risk
        assert n_missed <= most_failures(len(ones), risk)
        assert is_plausible(n_missed, len(ones), promised), f"radius {radius}: {n_missed}, expected {promised:.4f}"
        ends = Counter((one.n_evaluated, one.n_agreed) for one in ones)
        assert end_p_value(ends, paths, truth) > LEAST_P_VALUE
        unbiased = np.array([one.rate_unbiased for one in ones])
        error = (unbiased.mean() - float(truth)) / (unbiased.std() / len(ones) ** 0.5)
        assert abs(error) < 4, f"radius {radius}: rate_unbiased is off by {error:.1f} standard errors"


def test_every_radius_of_a_curve_keeps_its_contract_at_the_hardest_rates() -> None:
    # Threshold: at most 252 of 2,000 runs may miss, which a risk of exactly .1 exceeds once in 10,000 times.
    assert most_failures(2_000, 0.1) == 252
    paths = paths_of(make_plan("sequential", tolerance=0.1, confidence=0.9).design)
    counts = hardest_balls(TEN, HARD_RATES, paths, F(1, 10))
    sizes = ball_sizes(TEN)
    truths = {radius: F(counts[radius], sizes[radius]) for radius in HARD_RATES}
    assert all(misses_by_count(paths, F(1, 10), sizes[r])[counts[r]] > 0.08 for r in HARD_RATES)
    model = table_of_balls(TEN, counts)
    assert {radius: exact_rate(model, TEN, radius) for radius in HARD_RATES} == truths
    check_each_radius(seeded_runs(certify_radii, model, TEN, radii=list(HARD_RATES)), truths)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "selected"), [("removals", "111111111101"), ("swaps", "000111110000"), ("additions", "000000100000")]
)
@pytest.mark.parametrize("plan", ["sequential", "exact"])
def test_every_radius_of_every_neighborhood_keeps_its_contract(kind: str, selected: str, plan: str) -> None:
    mask, tolerance, confidence = bits(selected), F(1, 5), F(9, 10)
    made = make_plan(plan, tolerance=tolerance, confidence=confidence)
    sizes, paths = ball_sizes(mask, kind), paths_of(made.design)
    radii = [r for r, size in enumerate(sizes) if size > made.max_draws]
    counts = hardest_balls(mask, dict.fromkeys(radii, (0.5, 0.95)), paths, tolerance, kind=kind)
    truths = {r: exact_rate(table_of_balls(mask, counts, kind=kind), mask, r, neighborhood=kind) for r in radii}
    asked = {"radii": radii, "neighborhood": kind, "tolerance": 0.2, "confidence": 0.9, "plan": plan}
    check_each_radius(seeded_runs(certify_radii, table_of_balls(mask, counts, kind=kind), mask, **asked), truths)


@pytest.mark.slow
def test_every_size_of_an_exactly_curve_keeps_its_contract() -> None:
    made = make_plan("sequential", tolerance=0.1, confidence=0.9)
    paths, sizes = paths_of(made.design), ring_sizes(TWELVE)
    sampled = [k for k, size in enumerate(sizes) if size > made.max_draws]
    counts = [int(misses_by_count(paths, F(1, 10), size).argmax()) if k else 1 for k, size in enumerate(sizes)]
    model = table_of_rings(TWELVE, counts)
    truths = {k: exact_rate(model, TWELVE, k, rate_kind="exactly") for k in sampled}
    check_each_radius(seeded_runs(certify_radii, model, TWELVE, radii=sampled, rate_kind="exactly"), truths)


@pytest.mark.slow
def test_intervals_of_all_radii_hold_at_once_at_the_hardest_rates() -> None:
    # Threshold: at most 252 of 2,000 curves may have any interval that misses.
    check_all_at_once({2: (0.6, 0.95), 8: (0.3, 0.9)})


@pytest.mark.slow
def test_intervals_of_five_radii_hold_at_once_at_the_hardest_rates() -> None:
    check_all_at_once({1: (0.8, 0.95), 2: (0.7, 0.95), 3: (0.6, 0.9), 5: (0.3, 0.9), 8: (0.3, 0.7)})


def check_all_at_once(hard_rates: dict[int, tuple[float, float]]) -> None:
    """Any interval misses at most as often as promised; a tightened one only if a plain one does."""
    made = share_risk(make_plan("sequential", tolerance=0.2, confidence=0.9), len(hard_rates))
    assert 1 - made.confidence <= F(1, 10) / len(hard_rates)
    sizes, paths = ball_sizes(TEN), paths_of(made.design)
    counts = hardest_balls(TEN, hard_rates, paths, F(1, 5))
    model = table_of_balls(TEN, counts)
    truths = {radius: exact_rate(model, TEN, radius) for radius in hard_rates}
    curves = seeded_runs(certify_radii, model, TEN, radii=list(hard_rates), tolerance=0.2, simultaneous=True)
    assert {one.design for one in curves[0] if not one.exact} == {made.design}
    plain = [{one.radius: contains(Interval(*around(one)), truths[one.radius]) for one in curve} for curve in curves]
    for radius in (one.radius for one in curves[0] if not one.exact):
        promised = misses_by_count(paths, F(1, 5), sizes[radius])[counts[radius]]
        assert promised > 0.7 * (1 - made.confidence)
        assert is_plausible(sum(not one[radius] for one in plain), N_RUNS, promised)
    told = [all(contains(one.interval, truths[one.radius]) for one in curve) for curve in curves]
    assert 0 < told.count(False) <= most_failures(N_RUNS, 0.1)
    assert all(tight or not all(loose.values()) for tight, loose in zip(told, plain, strict=True))


@pytest.mark.slow
def test_a_worst_size_curve_holds_as_a_whole_at_the_hardest_rates() -> None:
    # Threshold: at most 252 of 2,000 curves may miss the smallest size rate at any radius. A minimum is too
    # small as soon as one size is: the rates of the two sampled sizes, 28 and 56 masks, are nearly equal
    # and where the design comes out too small most often.
    sizes, radii = ring_sizes(TEN), range(4)
    made = make_plan("sequential", tolerance=0.2, confidence=0.9)
    shared = share_risk(made, sum(size > made.max_draws for size in sizes[:4]))
    assert 1 - shared.confidence == F(1, 20)
    too_small = {k: misses_by_count(paths_of(shared.design), F(1, 5), sizes[k], only_below=True) for k in (2, 3)}
    counts = [1, 8, *(int(misses.argmax()) for misses in too_small.values())]
    model = table_of_rings(TEN, counts)
    truths = {r: exact_rate(model, TEN, r, rate_kind="worst_size") for r in radii}
    curves = seeded_runs(certify_radii, model, TEN, radii=radii, tolerance=0.2, rate_kind="worst_size")
    assert all(curve.simultaneous for curve in curves)
    assert [one.design for one in curves[0]] == [None, None, shared.design, shared.design]
    n_missed = sum(any(not contains(one.interval, truths[one.radius]) for one in curve) for curve in curves)
    assert 0.7 * N_RUNS * sum(misses.max() for misses in too_small.values()) < n_missed <= most_failures(N_RUNS, 0.1)
    for curve in curves:
        assert curve[0].rate == 1
        assert all(before >= after for before, after in pairwise(curve.rates))
        assert all(one.rate_unbiased is None or one.exact for one in curve)


# -- radii ------------------------------------------------------------------------------------------


def runs_at(counts: list[int], radii: list[int], *, max_draws: int | None) -> tuple[int, list[RadiusCertificate]]:
    """Seeded runs, and how many of them certify some tested radius whose rate is below 9/10."""
    model = table_of_balls(TWELVE, counts)
    rates = {radius: exact_rate(model, TWELVE, radius) for radius in radii}
    runs = seeded_runs(certified_radius, model, TWELVE, min_rate=0.9, radii=radii, max_draws=max_draws)
    wrong = sum(any(rates[radius] < F(9, 10) for radius in radii if radius <= run.radius) for run in runs)
    return wrong, runs


def just_below(size: int) -> int:
    """The largest count whose share is below 9/10."""
    return -(-9 * size // 10) - 1


@pytest.mark.parametrize("max_draws", [36, pytest.param(None, marks=pytest.mark.slow)])
def test_a_first_radius_just_below_is_certified_no_more_often_than_stated(max_draws: int | None) -> None:
    # Threshold: 252 of 2,000 runs; a risk of exactly .1 exceeds it once in 10,000 times.
    counts = [1, 11, 56, 176, 386, just_below(SIZES[5])]
    wrong, runs = runs_at(counts, [5], max_draws=max_draws)
    rate = F(counts[5], SIZES[5])
    assert F(899, 1000) < rate < F(9, 10)
    assert wrong <= most_failures(N_RUNS, 0.1) == 252
    assert is_plausible(wrong, N_RUNS, Answers(rate_test(0.9, 0.9, max_draws)).at(rate)[0])
    assert {run.radius for run in runs} == {0, 5}
    assert not any(run.trail[-1].exact for run in runs)


def test_a_later_radius_just_below_is_certified_no_more_often_than_stated() -> None:
    # Radii 3 and 4 agree always and are passed by every run; all the risk is met at radius 5.
    counts = [1, 11, 56, 176, 386, just_below(SIZES[5]), just_below(SIZES[6])]
    wrong, runs = runs_at(counts, [3, 4, 5, 6], max_draws=26)
    assert 0 < wrong <= most_failures(N_RUNS, 0.1)
    passed = (RadiusStep(3, 3, True, 26, 26, False), RadiusStep(4, 4, True, 26, 26, False))
    assert all(run.trail[:2] == passed for run in runs)
    assert is_plausible(wrong, N_RUNS, Answers(rate_test(0.9, 0.9, 26)).at(F(counts[5], SIZES[5]))[0])
    assert any(run.radius == 6 for run in runs)


def test_a_radius_just_below_after_one_just_above_is_certified_no_more_often_than_stated() -> None:
    # Radius 8 has a rate just above, radius 9 (nearly the same masks, nearly the same draws) just below.
    counts = [1, 11, 56, 170, 370, 600, 790, 880, just_below(SIZES[8]) + 1, just_below(SIZES[9])]
    rates = [F(counts[r], SIZES[r]) for r in (8, 9)]
    assert rates[1] < F(9, 10) <= rates[0]
    wrong, _ = runs_at(counts, [8, 9], max_draws=26)
    assert 0 < wrong <= most_failures(N_RUNS, 0.1)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "selected"), [("removals", "111111111101"), ("swaps", "000111110000")])
@pytest.mark.parametrize(("min_rate", "confidence"), [(0.9, 0.9), (0.8, 0.95), (0.6, 0.8)])
def test_false_claims_are_as_rare_for_other_neighborhoods_and_levels(
    kind: str, selected: str, min_rate: float, confidence: float
) -> None:
    mask, threshold = bits(selected), F(repr(min_rate))
    sizes = ball_sizes(mask, kind)
    counts = [max(1, -(-threshold.numerator * size // threshold.denominator) - 1) for size in sizes]
    model = table_of_balls(mask, counts, kind=kind)
    radii = [r for r, size in enumerate(sizes) if size > 100]
    assert all(exact_rate(model, mask, r, neighborhood=kind) < threshold for r in radii)
    asked = {"min_rate": min_rate, "confidence": confidence, "max_draws": 90, "neighborhood": kind, "radii": radii}
    runs = seeded_runs(certified_radius, model, mask, **asked)
    assert 0 < sum(run.radius > 0 for run in runs) <= most_failures(N_RUNS, 1 - confidence)


# -- rankings cut where they are stable ---------------------------------------------------------------

N, GRID = 12, [12, 4, 3, 2, 1]
RANKED = Attribution(np.arange(N, 0, -1.0), method="test")


def prefix(size: int) -> Any:
    return np.arange(N) < size


def table_below(threshold: Fraction) -> MaskedModel:
    """Labels for which every prefix of at most 4 features is just less stable than the threshold at any radius ≥ 11.

    The masks that contain the prefix of size k are those that contain the prefix of size k + 1, and as
    many without feature k; the latter are labelled so that of all of them as many agree as is still
    too few. All prefixes and the full input have label 1.
    """
    masks, labels = all_masks(N), np.zeros(2**N, dtype=int)
    rng = np.random.default_rng(0)
    for size in (4, 3, 2, 1):
        inside = masks[:, :size].all(axis=1)
        fresh = np.flatnonzero(inside if size == 4 else inside & ~masks[:, size])
        own = (1 << size) - 1
        most = -(-threshold.numerator * int(inside.sum()) // threshold.denominator) - 1
        n_needed = most - int(labels[inside].sum()) - 1 - (size == 4)
        keep = {own, 2**N - 1} if size == 4 else {own}
        others = rng.permutation([code for code in fresh if code not in keep])
        labels[others[:n_needed]] = 1
        labels[list(keep)] = 1
    return lookup_table(labels, n_features=N)


@pytest.fixture(scope="module")
def hardest() -> MaskedModel:
    return table_below(F(9, 10))


def test_the_hardest_table_is_just_too_unstable_at_every_size(hardest: MaskedModel) -> None:
    for size in GRID[1:]:
        rate = exact_rate(hardest, prefix(size), N)
        assert F(9, 10) - F(1, 2 ** (N - size)) <= rate < F(9, 10)
    assert exact_rate(hardest, prefix(N), N) == 1


@pytest.mark.parametrize("max_draws", [26, pytest.param(None, marks=pytest.mark.slow)])
def test_false_claims_are_no_more_frequent_than_stated_at_the_hardest_point(
    hardest: MaskedModel, max_draws: int | None
) -> None:
    runs = seeded_runs(stabilize, hardest, RANKED, min_rate=0.9, radius=N, sizes=GRID, max_draws=max_draws)
    wrong = sum(run.size < N for run in runs)
    # At most 252 of 2,000: a risk of exactly .1 exceeds that once in 10,000 times.
    assert 0 < wrong <= most_failures(N_RUNS, 0.1) == 252
    # A false claim is a false yes at the first size below the full set, whose probability is summed exactly.
    exactly = Answers(rate_test(0.9, 0.9, max_draws)).at(exact_rate(hardest, prefix(4), N))[0]
    assert exactly <= F(1, 10)
    if max_draws is not None:  # by default, draws that cannot tell give way to enumeration
        assert is_plausible(wrong, N_RUNS, exactly)
    assert all(run.trail[-1].answer is not True or run.size == 1 for run in runs)


def test_going_upwards_until_one_size_passes_would_break_the_promise(hardest: MaskedModel) -> None:
    # The same single tests, each valid on its own: four chances of a false claim instead of one.
    asked = {"min_rate": 0.9, "radius": N, "max_draws": 22, "n_runs": 120}
    runs = {size: seeded_runs(stabilize, hardest, RANKED, sizes=[size], **asked) for size in (1, 2, 3, 4)}
    passed = [any(runs[size][seed].size == size for size in runs) for seed in range(120)]
    assert sum(passed) > 120 * 0.25


# -- comparisons --------------------------------------------------------------------------------------


def holds(one: Difference, truth: Mapping[tuple[str, int], Fraction]) -> bool:
    difference = truth[one.first, one.radius] - truth[one.second, one.radius]
    return one.interval.low - 1e-12 <= difference <= one.interval.high + 1e-12


def true_rates(model: Any, masks: Mapping[str, Mask], radii: Any, **asked: Any) -> dict[tuple[str, int], Fraction]:
    return {(name, r): exact_rate(model, mask, r, **asked) for name, mask in masks.items() for r in radii}


def check_claims(runs: list[Comparison], truth: Mapping[tuple[str, int], Fraction]) -> tuple[int, int]:
    """How many runs have a difference outside its interval, and how many a false claim in a ranking."""
    n_missed = sum(not all(holds(one, truth) for one in run) for run in runs)
    n_false = sum(
        any(truth[better, r] <= truth[worse, r] for r in run.radii for better, worse in run.ranking(r)) for run in runs
    )
    # Thresholds: a risk of exactly .1 exceeds them once in 10,000 times (252 of 2,000).
    assert n_missed <= most_failures(len(runs), 0.1)
    assert n_false <= most_failures(len(runs), 0.1)
    if any(pair.first_only is None for run in runs for pair in run):  # claims come from the intervals
        assert n_false <= n_missed
    return n_missed, n_false


def equal_rates(rate: Fraction, *texts: str, radius: int = 10, base: float = 0.5) -> tuple[Any, dict[str, Mask]]:
    """A table in which all these explanations have exactly this rate at this radius."""
    masks = explanations(*texts)
    targets: dict[Bits, tuple[int, int]] = {}
    for mask in masks.values():
        count = rate * ball_sizes(mask)[min(radius, int((~mask).sum()))]
        assert count.denominator == 1
        targets[tuple(mask.tolist())] = (radius, int(count))
    return table_of_explanations(targets, base=base), masks


SAMPLED = {"equal size": ("1100000000", "0011000000"), "unequal size": ("1100000000", "0000001110")}


@pytest.mark.parametrize("texts", SAMPLED.values(), ids=SAMPLED)
def test_equal_rates_are_told_apart_no_more_often_than_stated(texts: tuple[str, str]) -> None:
    # 256 and 256 (or 128) masks, 70 draws in pairs, half of all masks agree, labels of common masks at random.
    model, masks = equal_rates(F(1, 2), *texts)
    runs = seeded_runs(compare, model, masks, [8], plan="exact")
    assert all(pair.first_only is not None for run in runs for pair in run)
    check_claims(runs, true_rates(model, masks, [8]))
    estimates = np.array([run.differences[0].estimate for run in runs])
    assert abs(estimates.mean()) < 4 * estimates.std() / N_RUNS**0.5
    spread = 0.5 / 70
    assert estimates.std() < (2 * spread) ** 0.5


def clopper_pearson_misses(n_draws: int, size: int, risk: float) -> Any:
    """Exact P(miss) of the two-sided interval for rates 0/size, …, size/size, from its definition by tails."""
    rates = np.arange(size + 1)[:, None] / size
    k = np.arange(n_draws + 1)
    outside = (binom.sf(k - 1, n_draws, rates) < risk / 2) | (binom.cdf(k, n_draws, rates) < risk / 2)
    return (binom.pmf(k, n_draws, rates) * outside).sum(axis=1)


def test_an_enumerated_and_a_sampled_rate_that_are_equal_are_told_apart_no_more_often_than_stated() -> None:
    # 64 masks of b are all asked, 70 of the 256 of a are drawn; the truth is the rate the interval misses most.
    misses = clopper_pearson_misses(70, 64, 0.1)
    hardest = int(misses[8:57].argmax()) + 8
    model, masks = equal_rates(F(hardest, 64), "1100000000", "0000111100")
    runs = seeded_runs(compare, model, masks, [8], plan="exact")
    assert {(run.curve("a")[8].exact, run.curve("b")[8].exact) for run in runs} == {(False, True)}
    n_missed, n_false = check_claims(runs, true_rates(model, masks, [8]))
    assert 0 < n_false == n_missed
    assert 0.08 < misses[hardest] <= 0.1
    assert is_plausible(n_missed, N_RUNS, misses[hardest])


@pytest.mark.slow
def test_sequential_rates_that_are_equal_are_told_apart_no_more_often_than_stated() -> None:
    # Explanations of 2 and 3 features; each rate has half the risk, and is where its design misses most.
    design = make_plan("sequential", tolerance=0.2, confidence=0.95).design
    hardest = int(misses_by_count(paths_of(design), F(1, 5), 32)[16:].argmax()) + 16
    model, masks = equal_rates(F(hardest, 32), "11000000", "00001110", base=hardest / 32)
    runs = seeded_runs(compare, model, masks, [8], plan="sequential", tolerance=0.2)
    assert {one.design for run in runs for curve in run.curves for one in curve} == {design}
    truth = true_rates(model, masks, [8])
    check_claims(runs, truth)
    assert all(curve.simultaneous for run in runs for curve in run.curves)
    both = sum(
        any(abs(F(c[8].n_agreed, c[8].n_evaluated) - truth["a", 8]) > F(1, 5) for c in run.curves) for run in runs
    )
    assert 0 < both <= most_failures(N_RUNS, 0.1)


@pytest.mark.slow
def test_a_sequential_and_an_enumerated_rate_that_are_equal_are_told_apart_no_more_often_than_stated() -> None:
    paths = paths_of(make_plan("sequential", tolerance=0.2, confidence=0.95).design)
    misses = misses_by_count(paths, F(1, 5), 16)
    hardest = int(misses[8:15].argmax()) + 8
    model, masks = equal_rates(F(hardest, 16), "1100000000", "0000111111")
    runs = seeded_runs(compare, model, masks, [8], plan="sequential", tolerance=0.2)
    assert {(run.curve("a")[8].exact, run.curve("b")[8].exact) for run in runs} == {(False, True)}
    n_missed, n_false = check_claims(runs, true_rates(model, masks, [8]))
    assert n_false == n_missed
    assert is_plausible(n_missed, len(runs), misses[hardest])


@pytest.mark.slow
@pytest.mark.parametrize("plan", ["exact", "sequential"])
def test_all_differences_of_several_explanations_and_radii_hold_at_once(plan: str) -> None:
    # Three explanations of different sizes, two radii, enumerated and sampled neighbourhoods.
    masks = explanations("1100000000", "0000001110", "0000111100")
    model = label_table(10, seed=12, labels=(0, 0, 1))
    runs = seeded_runs(compare, model, masks, [2, 7], plan=plan, tolerance=0.1)
    truth = true_rates(model, masks, [2, 7])
    assert len({truth[key] for key in truth}) > 3
    assert {one.exact for curve in runs[0].curves for one in curve} == {True, False}
    check_claims(runs, truth)


@pytest.mark.slow
@pytest.mark.parametrize("texts", SAMPLED.values(), ids=SAMPLED)
@pytest.mark.parametrize("plan", ["exact", "sequential"])
@pytest.mark.parametrize("rate", [F(1, 4), F(7, 8)])
def test_equal_rates_elsewhere_are_told_apart_no_more_often_than_stated(
    texts: tuple[str, str], plan: str, rate: Fraction
) -> None:
    model, masks = equal_rates(rate, *texts, base=float(rate))
    runs = seeded_runs(compare, model, masks, [8], plan=plan, tolerance=0.2)
    check_claims(runs, true_rates(model, masks, [8]))


@pytest.mark.slow
def test_each_rate_of_a_comparison_keeps_its_own_contract() -> None:
    n_draws = make_plan("exact", tolerance=0.1, confidence=0.9).max_draws
    paths = paths_of(make_plan("exact", tolerance=0.1, confidence=0.9).design)
    assert {n for n, _ in paths} == {n_draws}
    hardest = int(misses_by_count(paths, F(1, 10), 128)[64:].argmax()) + 64
    model, masks = equal_rates(F(hardest, 128), *SAMPLED["unequal size"], base=hardest / 128)
    runs = seeded_runs(compare, model, masks, [8], plan="exact")
    promised = misses_by_count(paths, F(1, 10), 128)[hardest]
    for name in masks:
        inside = [run.curve(name)[8].interval.low <= hardest / 128 <= run.curve(name)[8].interval.high for run in runs]
        assert inside.count(False) <= most_failures(len(runs), 0.1)
        assert is_plausible(inside.count(False), len(runs), promised)


def test_boolean_bounds_are_sound_and_equal_to_naive_sums_on_thousands_of_functions() -> None:
    n_seen, positive = check_bounds(random_batches(64, 50, seed=0))
    assert n_seen >= 3000
    assert min(positive.values()) > 300, positive
