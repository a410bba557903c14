"""Hidden features that are drawn: rates over pairs of a mask and a completion, by enumeration and by exact sums."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest

import holdfast as hf
from holdfast.completions import CompletedModel, CompletedNeighborhood, by_rows, completions_of, numbers_of
from holdfast.completions import with_completions as rows_of
from holdfast.errors import HoldfastError
from holdfast.neighborhood import NEIGHBORHOODS
from holdfast.plans import rate_test
from holdfast.randomness import stream
from tests.helpers.oracles import neighbors

SELECTED = np.array([True, False, False, False])


@dataclass
class Filled:
    """A table of labels (2ⁿ, m): one for each mask, by the sum of 2ⁱ over what is shown, and each completion."""

    table: Any
    asked: list[tuple[int, int]] = field(default_factory=list)

    @property
    def n_features(self) -> int:
        return len(self.table).bit_length() - 1

    @property
    def n_completions(self) -> int:
        return int(self.table.shape[1])

    def completed(self, masks: Any, numbers: Any) -> Any:
        at = masks @ (1 << np.arange(self.n_features))
        self.asked += zip(at.tolist(), numbers.tolist(), strict=True)
        return self.table[at, numbers]

    def __call__(self, masks: Any) -> Any:
        return (self.table[masks @ (1 << np.arange(self.n_features))].mean(axis=1) > 0.5).astype(int)


def filled(seed: int, n_completions: int, share: float = 0.8, n_features: int = 4) -> Filled:
    """A random table; the full input has the label 1 with every completion."""
    table = (np.random.default_rng(seed).random((2**n_features, n_completions)) < share).astype(int)
    table[-1] = 1
    return Filled(table)


def truth(model: Filled, radius: int, kind: str = "additions", **options: Any) -> Fraction:
    """The share of all pairs that keep the label of the full input."""
    masks = np.array(sorted(neighbors(SELECTED, radius, kind, **options)))
    kept = model.table[masks @ (1 << np.arange(4))]
    return Fraction(int(kept.sum()), kept.size)


def test_the_fake_draws_what_is_hidden() -> None:
    assert isinstance(filled(0, 3), hf.types.Completing)
    assert not isinstance(hf.lookup_table([0, 1], n_features=1), hf.types.Completing)


# -- rows -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_completions", [1, 2, 3, 8, 9])
def test_a_row_says_which_features_are_shown_and_which_completion_is_drawn(n_completions: int) -> None:
    masks = np.array(list(product([True, False], repeat=3))).repeat(n_completions, axis=0)
    numbers = np.tile(np.arange(n_completions), 8)
    rows = rows_of(masks, numbers, n_completions)
    np.testing.assert_array_equal(rows[:, :3], masks)
    np.testing.assert_array_equal(numbers_of(rows, 3), np.where(masks.all(axis=1), 0, numbers))
    assert len(np.unique(rows, axis=0)) == 7 * n_completions + 1  # with nothing hidden all completions are alike


@pytest.mark.parametrize("kind", NEIGHBORHOODS)
@pytest.mark.parametrize("n_completions", [1, 3, 5])
def test_every_mask_is_counted_and_listed_with_every_completion(kind: str, n_completions: int) -> None:
    for radius in range(4):
        whole = CompletedNeighborhood(NEIGHBORHOODS[kind](SELECTED, radius), n_completions)
        for nearby, masks in (
            (whole, neighbors(SELECTED, radius, kind)),
            (whole.exactly(radius), neighbors(SELECTED, 0, kind, exactly=radius)),
        ):
            pairs = Counter((mask, 0 if all(mask) else number) for mask in masks for number in range(n_completions))
            assert nearby.size == pairs.total()
            assert nearby.is_larger_than(nearby.size - 1)
            assert not nearby.is_larger_than(nearby.size)
            for batch in (1, 4, nearby.size, 100):
                parts = list(nearby.enumerate(batch))
                assert all(len(part) == batch for part in parts[:-1])
                rows = np.concatenate(parts)
                listed = zip(map(tuple, rows[:, :4].tolist()), numbers_of(rows, 4).tolist(), strict=True)
                assert Counter(listed) == pairs
                distances = (rows[:, :4] != SELECTED).sum(axis=1)
                assert (np.diff(distances) >= 0).all()


def test_rows_are_drawn_uniformly_and_go_on_where_they_stopped() -> None:
    nearby = CompletedNeighborhood(NEIGHBORHOODS["additions"](SELECTED, 2), 3)
    rng = np.random.default_rng(5)
    parts = [nearby.sample(n, rng) for n in (1, 0, 11, 5)]
    np.testing.assert_array_equal(np.concatenate(parts), nearby.sample(17, np.random.default_rng(5)))
    rows = nearby.sample(21_000, np.random.default_rng(0))
    counts = np.unique(rows, axis=0, return_counts=True)[1]
    assert len(counts) == 21
    assert ((counts - 1000) ** 2 / 1000).sum() < 60  # chi-square of 20 degrees: p < 1e-5
    words = np.random.default_rng(1).integers(0, 2**64, size=9, dtype=np.uint64)
    np.testing.assert_array_equal(nearby.distances(words), nearby.masks.distances(words))


def test_a_number_beyond_the_completions_is_refused() -> None:
    row = np.array([[True, False, False, False, True, True]])
    with pytest.raises(HoldfastError, match="The number of a completion must be below 3, got 3"):
        CompletedModel(filled(0, 3))(row)


def test_evaluators_share_what_was_computed_with_completions() -> None:
    model = filled(0, 3)
    shared = hf.Evaluator(model)
    first = hf.certify(shared, SELECTED, radius=3, plan="hoeffding", rng=0)
    n_asked = len(model.asked)
    again = hf.certify(shared, SELECTED, radius=3, plan="hoeffding", rng=0)
    assert first == again == hf.certify(filled(0, 3), SELECTED, radius=3, plan="hoeffding", rng=0)
    assert n_asked == first.n_calls
    assert shared.n_calls == len(model.asked) == n_asked + again.n_repeated  # which are repeated on purpose
    on_top = hf.Evaluator(shared)
    assert hf.certify(on_top, SELECTED, radius=3, plan="hoeffding", rng=0) == first
    assert shared.n_calls == len(model.asked) == n_asked + 2 * again.n_repeated
    assert by_rows(by_rows(shared)) is by_rows(shared)
    assert completions_of(shared) == completions_of(by_rows(shared)) == completions_of(model) == 3
    assert completions_of(hf.lookup_table([0, 1], n_features=1)) is None


# -- rates ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", NEIGHBORHOODS)
@pytest.mark.parametrize("radius", [0, 1, 2, 3])
@pytest.mark.parametrize("n_completions", [1, 4, 7])
def test_few_pairs_are_all_evaluated_and_the_rate_is_their_share(kind: str, radius: int, n_completions: int) -> None:
    for seed in range(4):
        model = filled(seed, n_completions)
        certificate = hf.certify(model, SELECTED, radius=radius, plan="hoeffding", neighborhood=kind, rng=0)
        rate = truth(model, radius, kind)
        assert certificate.exact
        assert Fraction(certificate.n_agreed, certificate.n_evaluated) == rate
        assert certificate.n_evaluated == len(neighbors(SELECTED, radius, kind)) * n_completions
        assert (certificate.n_completions, certificate.consistent, certificate.prediction) == (n_completions, True, 1)
        assert "with random fills" in str(certificate)
        assert f"drawn from {n_completions} fill" in certificate.explain()
        assert hf.Certificate.from_json(certificate.to_json()) == certificate
        changing = certificate.counterexample
        assert (changing is None) == (rate == 1) == (certificate.completion is None)
        if changing is not None:
            assert model.completed(changing[None], np.array([certificate.completion])).tolist() == [0]


def test_radius_0_is_the_precision_of_what_is_selected() -> None:
    """Of 40 rows with these values in the selected columns, drawn from 40 backgrounds, so many keep the prediction."""
    model = filled(3, 40)
    certificate = hf.certify(model, SELECTED, radius=0, rng=0)
    assert Fraction(certificate.n_agreed, certificate.n_evaluated) == Fraction(int(model.table[1].sum()), 40)
    assert "showing the selected features alone with random fills keeps" in str(certificate)
    assert "drawn from 40 fills" in certificate.explain()


def test_what_a_certificate_costs_is_told_for_pairs() -> None:
    for n_completions, exact in ((4, True), (40, False)):
        planned = hf.plan_samples(selected=SELECTED, radius=2, n_completions=n_completions)
        certificate = hf.certify(filled(0, n_completions), SELECTED, radius=2, rng=0)
        assert planned.exact == certificate.exact == exact
        assert certificate.n_evaluated <= planned.max_draws
    with pytest.raises(HoldfastError, match="`n_completions` must be a whole number ≥ 1"):
        hf.plan_samples(n_completions=0)


def test_the_draws_are_those_of_the_stream_and_counted_one_by_one() -> None:
    model = filled(1, 500)
    certificate = hf.certify(model, SELECTED, radius=2, rng=9)
    rng = stream(9, "single", "additions", "uniform", "0", np.packbits(SELECTED).tobytes())
    rows = CompletedNeighborhood(NEIGHBORHOODS["additions"](SELECTED, 2), 500).sample(certificate.n_evaluated, rng)
    assert certificate.n_agreed == int(model.completed(rows[:, :4], numbers_of(rows, 4)).sum())
    assert not certificate.exact


def scripted(rows: Any, script: tuple[bool, ...], n_completions: int) -> Filled:
    """A model whose answers to distinct completions of the explanation are those of a script."""
    table = np.ones((16, n_completions), dtype=int)
    table[1, rows[: len(script)]] = np.array(script, dtype=int)
    return Filled(table)


def completions_drawn(purpose: tuple[str, ...], n: int, seed: int, n_completions: int) -> Any:
    """The completions of the first draws at radius 0, all different."""
    rng = stream(seed, *purpose, np.packbits(SELECTED).tobytes())
    rows = CompletedNeighborhood(NEIGHBORHOODS["additions"](SELECTED, 0), n_completions).sample(n, rng)
    numbers = numbers_of(rows, 4)
    assert len(set(numbers.tolist())) == n
    return numbers


@pytest.mark.parametrize("plan", ["sequential", "exact", "hoeffding"])
def test_coverage_summed_over_every_sequence_of_completions(plan: str) -> None:
    """The whole procedure, stopping included, for every sequence of answers that the draws can bring."""
    tolerance, confidence = 0.4, 0.8
    n_most = hf.plan_samples(tolerance=tolerance, confidence=confidence, plan=plan).max_draws
    drawn = completions_drawn(("single", "additions", "uniform", "0"), n_most, 1, 1000)
    results = []
    for script in product([True, False], repeat=n_most):
        model = scripted(drawn, script, 1000)
        certificate = hf.certify(
            model, SELECTED, radius=0, tolerance=tolerance, confidence=confidence, plan=plan, rng=1
        )
        assert certificate.n_agreed == sum(script[: certificate.n_evaluated])
        results.append((sum(script), certificate.interval))
    assert n_most >= 4
    for rate in (0.0, 0.1, 0.35, 0.5, 0.62, 0.75, 0.9, 1.0):
        p = Fraction(str(rate))
        chances = [(p**k * (1 - p) ** (n_most - k), interval) for k, interval in results]
        missed = sum(share for share, (low, high) in chances if not low <= rate <= high)
        assert sum(share for share, _ in chances) == 1
        assert missed <= 1 - Fraction(str(confidence))


@pytest.mark.parametrize("verb", ["certified_radius", "stabilize"])
def test_false_claims_summed_over_every_sequence_of_completions(verb: str) -> None:
    """At a rate just below the one asked for, "yes" comes with probability at most 1 - confidence."""
    min_rate, confidence, n_most = 0.6, 0.8, 8
    test = rate_test(min_rate, confidence, n_most)
    purpose = "decision" if verb == "certified_radius" else "stabilize"
    drawn = completions_drawn((purpose, "additions", "uniform", "size 0"), test.max_draws, 1, 1000)
    claimed = Fraction(0)
    p, n = Fraction("0.6"), test.max_draws
    ranking = np.arange(4, 0, -1)
    question: Any = {"min_rate": min_rate, "confidence": confidence, "max_draws": n_most}
    for script in product([True, False], repeat=n):
        model = scripted(drawn, script, 1000)
        if verb == "certified_radius":
            result = hf.certified_radius(model, SELECTED, radii=[0], rng=1, **question)
            yes = bool(result.trail[0].answer)
        else:
            yes = hf.stabilize(model, ranking, radius=0, sizes=[1], rng=1, **question).size == 1
        claimed += yes * p ** sum(script) * (1 - p) ** (n - sum(script))
    assert 0 < claimed <= 1 - Fraction(str(confidence))


@pytest.mark.parametrize("options", [{}, {"rate_kind": "exactly"}, {"rate_kind": "worst_size"}])
def test_curves_hold_what_is_true_of_every_pair(options: Any) -> None:
    misses = 0
    for seed in range(30):
        model = filled(seed, 60, 0.85)
        curve = hf.certify_radii(model, SELECTED, radii=[0, 1, 3], simultaneous=True, rng=seed, **options)
        rates = [truth(model, 0, exactly=size) for size in range(4)]
        for certificate in curve:
            radius = certificate.radius
            rate = truth(model, radius) if not options else rates[radius]
            rate = min(rates[: radius + 1]) if options.get("rate_kind") == "worst_size" else rate
            misses += not certificate.interval.low - 1e-12 <= rate <= certificate.interval.high + 1e-12
        assert hf.StabilityCurve.from_json(curve.to_json()) == curve
    assert misses <= 6  # of 30 curves at most a tenth miss on average; twice that has probability below .05


def test_a_radius_does_not_depend_on_which_others_are_asked() -> None:
    model = filled(2, 300)
    curve = hf.certify_radii(model, SELECTED, radii=[0, 1, 2], rng=4)
    alone = hf.certify_radii(model, SELECTED, radii=[2], rng=4)
    assert (alone[2].n_agreed, alone[2].n_evaluated) == (curve[2].n_agreed, curve[2].n_evaluated)


VERBS: dict[str, Callable[..., Any]] = {
    "certify": lambda model, **o: hf.certify(model, SELECTED, radius=2, rng=0, **o),
    "worst size": lambda model, **o: hf.certify(model, SELECTED, radius=2, rate_kind="worst_size_lower", rng=0, **o),
    "radii": lambda model, **o: hf.certify_radii(model, SELECTED, radii=[0, 1, 3], rng=0, **o),
    "radius": lambda model, **o: hf.certified_radius(model, SELECTED, min_rate=0.5, radii=[0, 1, 2], rng=0, **o),
    "hard": lambda model, **o: hf.certify_hard(model, SELECTED, radius=1, rng=0, **o),
    "hard, sampled": lambda model, **o: hf.certify_hard(model, SELECTED, radius=3, max_enumerated=0, rng=0, **o),
    "compare": lambda model, **o: hf.compare(model, {"a": SELECTED, "b": ~SELECTED}, [0, 2], rng=0, **o),
    "compare in pairs": lambda model, **o: hf.compare(
        model, {"a": SELECTED, "b": ~SELECTED}, [0, 2], plan="exact", rng=0, **o
    ),
    "stabilize": lambda model, **o: hf.stabilize(model, np.arange(4, 0, -1), min_rate=0.5, radius=0, rng=0, **o),
    "witness": lambda model, **o: hf.find_witness(model, SELECTED, rng=0, **o),
}


@pytest.mark.parametrize("n_completions", [3, 100])
@pytest.mark.parametrize("verb", VERBS)
def test_no_batch_size_changes_a_result_and_a_recheck_repeats_it_exactly(verb: str, n_completions: int) -> None:
    model = filled(5, n_completions, 0.95)
    result = VERBS[verb](model)
    for batch_size in (1, 7):
        assert VERBS[verb](model, batch_size=batch_size) == result
    check = hf.recheck(model, result)
    assert check.confirmed, check.differences
    assert getattr(check.repeated, "n_calls", None) == result.n_calls
    assert "two samples" not in check.explain()
    assert type(result).from_json(result.to_json()) == result
    other = Filled(1 - model.table)
    assert not hf.recheck(other, result).confirmed
    fewer = Filled(model.table[:, 1:])
    assert not hf.recheck(fewer, result).confirmed


def test_a_canonical_key_follows_from_the_question() -> None:
    model = filled(5, 100, 0.95)
    certificate = hf.certify(model, SELECTED, radius=2, rng="canonical")
    assert certificate == hf.certify(model, SELECTED, radius=2, rng="canonical")
    assert hf.recheck(model, certificate).canonical


def test_features_and_classes_have_the_names_that_the_model_gives() -> None:
    class Named(Filled):
        feature_names, classes, batch_size = ("a", "b", "c", "d"), ("no", "yes"), 2

        def completed(self, masks: Any, numbers: Any) -> Any:
            assert len(masks) <= 2 * self.n_completions
            return np.eye(2)[super().completed(masks, numbers)]

    certificate = hf.certify(Named(filled(0, 3).table), ["a"], radius=1, rng=0)
    assert certificate.prediction_name == "yes"
    assert certificate.selected.tolist() == SELECTED.tolist()
    assert hf.recheck(Named(filled(0, 3).table), certificate).smallest_margins == (1.0, 1.0, 1.0)


def test_one_completion_is_a_fixed_fill_with_the_full_input_as_reference() -> None:
    for seed in range(20):
        model = filled(seed, 1)
        fixed = hf.lookup_table(model.table[:, 0], n_features=4)
        drawn = hf.certify(model, SELECTED, radius=3, rng=0)
        assert drawn.rate == hf.certify(fixed, SELECTED, radius=3, reference=1, rng=0).rate


def test_a_reference_is_kept_in_place_of_the_full_input() -> None:
    model = filled(0, 4)
    certificate = hf.certify(model, SELECTED, radius=1, reference=0, rng=0)
    assert Fraction(certificate.n_agreed, certificate.n_evaluated) == 1 - truth(model, 1)
    assert not certificate.consistent
    assert "but the full input " in str(certificate)
    assert "the full input does not give it" in certificate.explain()
    whole = hf.certify(Filled(np.zeros((16, 2), dtype=int) + (np.arange(16) == 15)[:, None]), SELECTED, radius=3)
    assert whole.rate == 1 / 8
    changed = hf.certify(Filled(1 - model.table * 0), SELECTED, radius=3, reference=0, rng=0)
    assert changed.counterexample is not None
    assert changed.completion == 0


def test_where_only_the_full_input_differs_from_a_reference_it_is_the_counterexample() -> None:
    table = np.zeros((16, 100), dtype=int)
    table[-1] = 1
    question: Any = {"radius": 3, "reference": 0, "tolerance": 0.4, "confidence": 0.8}
    certificates = [hf.certify(Filled(table), SELECTED, rng=seed, **question) for seed in range(20)]
    unseen = [cert for cert in certificates if cert.n_agreed == cert.n_evaluated]
    assert unseen
    assert all(cert.counterexample is not None and cert.counterexample.all() for cert in unseen)
    assert {cert.completion for cert in unseen} == {0}


def explained(model: Filled) -> tuple[Filled, Any]:
    return model, SELECTED


def test_the_mean_curve_holds_the_mean_over_all_pairs() -> None:
    models = [filled(seed, 20, 0.8) for seed in range(20)]
    subjects = [partial(explained, model) for model in models]
    curve = hf.mean_curve(subjects, radii=[0, 1, 3], half_width=0.04, rng=0)
    for mean in curve:
        rate = float(np.mean([truth(model, mean.radius) for model in models]))
        assert mean.interval.low <= rate <= mean.interval.high
    assert curve.random_fills
    assert curve.n_consistent == 20
    assert "with random fills" in str(curve)
    assert "Hidden features are drawn with each mask." in curve.explain()
    assert hf.MeanCurve.from_json(curve.to_json()) == curve


def test_certificates_of_two_explanations_take_the_same_completions() -> None:
    """One is as good as the other with each completion, so that draws in pairs never tell them apart."""
    table = np.tile(np.random.default_rng(0).random(400) < 0.7, (16, 1)).astype(int)
    table[-1] = 1
    comparison = hf.compare(Filled(table), {"a": SELECTED, "b": SELECTED[::-1].copy()}, [0], plan="exact", rng=0)
    (difference,) = comparison.differences
    assert (difference.first_only, difference.second_only) == (0, 0)


# -- selections and witnesses -----------------------------------------------------------------------


def test_a_certified_prefix_is_sufficient_with_the_probability_asked_for() -> None:
    n_smaller = 0
    for seed in range(40):
        model = filled(seed, 4, 0.85)
        stable = hf.stabilize(model, np.arange(4, 0, -1), min_rate=0.75, radius=0, rng=0)
        assert all(step.exact for step in stable.trail)
        for step in stable.trail:
            rate = Fraction(int(model.table[(1 << step.size) - 1].sum()), 4)
            assert step.answer == (rate >= Fraction(3, 4))
        assert stable.size == min(step.size for step in stable.trail if step.answer)
        n_smaller += stable.size < 4
        assert hf.certification.StableSelection.from_json(stable.to_json()) == stable
    assert n_smaller > 10
    with pytest.raises(HoldfastError, match="`radius` must be a whole number ≥ 1"):
        hf.stabilize(hf.lookup_table([0, 1], n_features=1), [1.0], min_rate=0.9, radius=0)


@pytest.mark.parametrize("share", [0.5, 0.9, 0.99, 1.0])
def test_a_witness_is_the_nearest_pair_of_all(share: float) -> None:
    for seed in range(40):
        model = filled(seed, 5, share)
        changing = [
            sum(mask) - 1
            for mask in neighbors(SELECTED, 3)
            if not model.table[np.array(mask) @ (1 << np.arange(4))].all()
        ]
        witness = hf.find_witness(model, SELECTED, rng=0)
        assert witness.proven
        assert witness.n_added == min(changing, default=None)
        assert witness.cleared_radius == min(changing, default=4) - 1
        if witness.mask is not None:
            output = model.completed(witness.mask[None], np.array([witness.completion]))
            assert output.tolist() == [witness.prediction] == [0]
        assert hf.Witness.from_json(witness.to_json()) == witness
        assert hf.recheck(model, witness).confirmed


def many_features(n_changing: int) -> Any:
    """30 features and 9,000 completions; with a few odd ones, so many of the features shown change the answer."""

    class Many:
        n_features, n_completions = 30, 9000

        def completed(self, masks: Any, numbers: Any) -> Any:
            return ~((numbers % 3 == 0) & (masks[:, 1:].sum(axis=1) >= n_changing) & ~masks.all(axis=1))

        def __call__(self, masks: Any) -> Any:
            return self.completed(masks, np.ones(len(masks), dtype=int))

    return Many()


@pytest.mark.parametrize("n_changing", [0, 3])
def test_a_witness_beyond_what_can_be_listed_changes_the_prediction_and_is_not_called_smallest(n_changing: int) -> None:
    model, selected = many_features(n_changing), np.arange(30) == 0
    witness = hf.find_witness(model, selected, max_calls=2000, rng=0)
    assert witness.mask is not None
    assert not model.completed(witness.mask[None], np.array([witness.completion]))[0]
    assert (witness.n_added, witness.proven, witness.cleared_radius) == (n_changing, False or not n_changing, -1)
    assert hf.Witness.from_json(witness.to_json()) == witness
    nothing = hf.find_witness(many_features(40), selected, max_calls=2000, rng=0)
    assert not nothing.found
    assert not nothing.proven
    assert nothing.completion is None


def test_a_witness_needs_a_reference_that_the_full_input_has() -> None:
    with pytest.raises(HoldfastError, match="`reference` must be the prediction of the full input, 1, got 0"):
        hf.find_witness(filled(0, 3), SELECTED, reference=0)


def test_a_stated_witness_that_is_not_one_is_not_confirmed() -> None:
    model = filled(0, 5, 0.9)
    plain = json.loads(hf.find_witness(model, SELECTED, rng=0).to_json())
    for completion in range(5):
        edited = hf.Witness.from_json(json.dumps(plain | {"completion": completion}))
        mask = np.array(edited.mask)
        flips = model.completed(mask[None], np.array([completion]))[0] == 0
        assert hf.recheck(model, edited).confirmed == flips


# -- what is refused --------------------------------------------------------------------------------


EDITS: list[dict[str, Any]] = [
    {"n_completions": None},
    {"n_completions": 0},
    {"completion": None},
    {"completion": 3},
    {"completion": -1},
]


@pytest.mark.parametrize(
    ("verb", "edit"),
    [
        *product(["certify", "radius", "hard", "witness"], EDITS),
        *product(["certify", "radius"], [{"n_completions": 7}]),  # which their counts contradict
        *product(["certify", "radius", "hard"], [{"answers": "random"}, {"counterexample": None}]),
    ],
)
def test_edited_results_are_refused(verb: str, edit: dict[str, Any]) -> None:
    result = VERBS[verb](filled(1, 3, 0.7))
    assert result.completion is not None
    plain = json.loads(result.to_json())
    assert edit.keys() <= plain.keys()
    with pytest.raises(HoldfastError):
        type(result).from_json(json.dumps(plain | edit))


def test_random_answers_and_random_fills_are_not_mixed_up() -> None:
    with pytest.raises(HoldfastError, match="`answers` must be left out for random fills"):
        hf.certify(filled(0, 3), SELECTED, radius=1, answers="random")
    assert hf.certify(filled(0, 3), SELECTED, radius=1, answers="fixed", rng=0).n_completions == 3


def test_a_model_that_is_random_itself_is_seen() -> None:
    class Fickle(Filled):
        def completed(self, masks: Any, numbers: Any) -> Any:
            self.asked.append((0, 0))
            return np.full(len(masks), len(self.asked) % 2)

    with pytest.raises(HoldfastError, match="must be deterministic"):
        hf.certify(Fickle(np.ones((16, 3), dtype=int)), SELECTED, radius=3, rng=0, batch_size=4)


def test_what_needs_one_answer_to_a_mask_gets_the_mean_or_is_refused() -> None:
    model = filled(0, 9)
    mean = hf.lookup_table((model.table.mean(axis=1) > 0.5).astype(int), n_features=4)
    np.testing.assert_array_equal(hf.attribute(model, "shap").scores, hf.attribute(mean, "shap").scores)
    with pytest.raises(HoldfastError, match="`model` must have a fixed fill"):
        hf.stability_bracket(model, SELECTED)
    with pytest.raises(HoldfastError, match="`fills` must be fixed, not random"):
        hf.fill_sensitivity(lambda fill: model, SELECTED, {"drawn": 0}, radius=1)


def test_a_selection_explained_again_is_certified_over_pairs() -> None:
    model = filled(0, 9)
    again = hf.reexplain(model, "random", n_repeats=3, radius=1, rng=0)
    assert {certificate.n_completions for certificate in again.certificates} == {9}
    assert again.n_calls > len(model.asked) > 20  # with the calls of the mean


def test_nothing_hard_is_said_of_the_explanation_alone_unless_all_completions_keep_it() -> None:
    table = np.ones((16, 4), dtype=int)
    table[1, 2] = 0
    hard = hf.certify_hard(Filled(table), SELECTED, radius=0, rng=0)
    assert (hard.stable, hard.radius, hard.completion, hard.exact) == (False, 0, 2, True)
    assert "as a mask with 0 changed features shows" in str(hard)
    assert "with fill 2" in hard.explain()
    assert hf.HardCertificate.from_json(hard.to_json()) == hard
    stable = hf.certify_hard(Filled(np.ones((16, 4), dtype=int)), SELECTED, radius=0, rng=0)
    assert stable.stable
    assert hf.HardCertificate.from_json(stable.to_json()) == stable


# -- with distributions of what is revealed --------------------------------------------------------------------

DISTRIBUTIONS = (
    hf.distributions.Bernoulli(0.3),
    hf.distributions.Bernoulli([0.5, 0.1, 0.6, 0.3]),
    hf.distributions.Weighted([1, 1, 2, 4]),
    hf.distributions.Grouped([[1, 2], 3]),
)


def truth_by_distribution(model: Filled, distribution: Any, radius: int | None = None) -> Fraction:
    """Σ P(mask) · share of completions that keep the label of the full input."""
    nearby = distribution(SELECTED, radius)
    masks = np.concatenate(list(nearby.enumerate(100)))
    masses = [Fraction(1)] * len(masks) if nearby.is_uniform else nearby.masses(masks)
    kept = model.table[masks @ (1 << np.arange(4))].sum(axis=1).tolist()
    total = sum(masses, Fraction(0))
    return sum((mass * n for mass, n in zip(masses, kept, strict=True)), Fraction(0)) / (total * model.n_completions)


@pytest.mark.parametrize("radius", [None, 1])
@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=lambda distribution: distribution.name)
def test_completions_are_drawn_independently_of_masks_of_any_distribution(
    distribution: Any, radius: int | None
) -> None:
    few, many = filled(3, 3), filled(4, 300)
    exact = hf.certify(few, SELECTED, radius=radius, neighborhood=distribution, tolerance=0.05, rng=0)
    assert (exact.exact, exact.rate) == (True, float(truth_by_distribution(few, distribution, radius)))
    drawn = hf.certify(many, SELECTED, radius=radius, neighborhood=distribution, rng=0)
    assert not drawn.exact
    assert drawn.interval.low <= truth_by_distribution(many, distribution, radius) <= drawn.interval.high
    for model, certificate in ((few, exact), (many, drawn)):
        assert hf.recheck(model, certificate).confirmed
        assert hf.Certificate.from_json(certificate.to_json()) == certificate
    assert "with random fills" in str(drawn)
    assert "drawn from 300 fills" in drawn.explain()


def test_draws_of_a_distribution_and_a_completion_follow_the_product_of_both() -> None:
    nearby = CompletedNeighborhood(hf.distributions.Bernoulli(0.3)(SELECTED, None), 3)
    n = 4000
    rows = nearby.sample(n, np.random.default_rng(1))
    counts = Counter(zip(map(tuple, rows[:, :4].tolist()), numbers_of(rows, 4).tolist(), strict=True))
    for mask in product([False, True], repeat=3):
        p = float(np.prod([0.3 if shown else 0.7 for shown in mask]))
        whole = (True, *mask)
        found = [counts[whole, 0]] if all(mask) else [counts[whole, number] for number in range(3)]
        for count in found:
            share = p / len(found)
            assert abs(count - n * share) <= 5 * (n * share * (1 - share)) ** 0.5
    assert sum(mass * count for mass, count in nearby.mass_counts()) / 3 == sum(
        mass * count for mass, count in nearby.masks.mass_counts()
    )
    assert (nearby.rings, nearby.odds, nearby.is_uniform) == ("additions", Fraction(3, 7), False)
    assert (nearby.name, len(nearby.pools[0]), nearby.distances(np.zeros(2, dtype=np.uint64)).tolist()) == (
        "bernoulli(0.3)",
        3,
        [0, 0],
    )
    assert (nearby.within(1).effective_radius, nearby.distance(np.array([True, True, False, False]))) == (1, 1)


def test_curves_over_probabilities_draw_completions_too() -> None:
    model = filled(6, 200)
    curve = hf.certify_probabilities(model, SELECTED, probabilities=[0.2, 0.6], rng=0)
    for p in (0.2, 0.6):
        truth_at = truth_by_distribution(model, hf.distributions.Bernoulli(p))
        assert curve[p].interval.low <= truth_at <= curve[p].interval.high
    assert hf.recheck(model, curve).confirmed
    stable = hf.stabilize(model, [4, 3, 2, 1], min_rate=0.6, neighborhood=hf.distributions.Bernoulli(0.5), rng=0)
    assert hf.recheck(model, stable).confirmed


def test_whoever_watches_sees_pairs_counted() -> None:
    seen: list[Any] = []
    exact = hf.certify(filled(3, 3), SELECTED, radius=1, tolerance=0.05, on_look=seen.append, rng=0)
    assert (seen[-1].n_evaluated, seen[-1].exact) == (exact.n_evaluated, True)
    distribution: list[Any] = []
    hf.certify(
        filled(3, 3),
        SELECTED,
        neighborhood=hf.distributions.Bernoulli(0.3),
        tolerance=0.05,
        on_look=distribution.append,
        rng=0,
    )
    assert distribution[-1].n_evaluated == 24
    with pytest.raises(hf.errors.InvalidTypeError, match="`on_look` must be a function of a Look"):
        hf.certify(filled(3, 3), SELECTED, radius=1, on_look=3)  # type: ignore[arg-type]
