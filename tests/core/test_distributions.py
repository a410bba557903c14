"""Distributions of what may be revealed: equal to their definitions, drawn exactly, certified, named, asked again."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast as hf
from holdfast.certification.serialization import from_any_json
from holdfast.certification.shared_draws import MaskLists, SizeWords
from holdfast.distributions.distribution import Distribution, as_neighborhood
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.neighborhood import Neighborhood
from holdfast.words import percent
from tests.core.test_structure import CountedTable
from tests.helpers import oracles
from tests.helpers.contracts import LEAST_P_VALUE, bits, chi_square, codes

Chances = dict[tuple[bool, ...], Fraction]

SELECTIONS = ("00000", "11111", "01000", "10110", "110111", "0010000")


def by_weights(selected: Any, weights: Any, radius: int | None) -> Chances:
    """The definition: sets of at most so many hidden features, by the product of their weights (None: always)."""
    hidden, always = np.flatnonzero(~selected).tolist(), {i for i in np.flatnonzero(~selected) if weights[i] is None}
    masses: Chances = {}
    for size in range(len(hidden) + 1):
        for chosen in combinations(hidden, size):
            mass = math.prod((Fraction(str(weights[i])) for i in chosen if weights[i] is not None), start=Fraction(1))
            if mass and always <= set(chosen) and (radius is None or size <= radius):
                masses[tuple(bool(selected[i] or i in chosen) for i in range(len(selected)))] = mass
    return {mask: mass / sum(masses.values()) for mask, mass in masses.items()}


def by_probabilities(selected: Any, chances: Any, radius: int | None) -> Chances:
    """The definition: every hidden feature independently, given that at most so many are revealed."""
    hidden, masses = np.flatnonzero(~selected).tolist(), {}
    for shown in product([False, True], repeat=len(hidden)):
        mass, mask = Fraction(1), selected.copy()
        for i, is_shown in zip(hidden, shown, strict=True):
            mass *= Fraction(str(chances[i])) if is_shown else 1 - Fraction(str(chances[i]))
            mask[i] = is_shown
        if mass and (radius is None or sum(shown) <= radius):
            masses[tuple(mask.tolist())] = mass
    return {mask: mass / sum(masses.values()) for mask, mass in masses.items()}


def by_groups(selected: Any, tree: Any, radius: int | None) -> Chances:
    """The definition: sets of nodes, no two of which share a feature, all equally likely."""
    nodes: set[frozenset[int]] = set()

    def features(part: Any) -> frozenset[int]:
        inside = frozenset().union(*map(features, part)) if isinstance(part, (list, tuple)) else {part}
        hidden = frozenset(i for i in inside if not selected[i])
        if hidden:
            nodes.add(hidden)
        return hidden

    for part in tree:
        features(part)
    counts: defaultdict[tuple[bool, ...], int] = defaultdict(int)
    for size in range(len(nodes) + 1 if radius is None else radius + 1):
        for chosen in combinations(nodes, size):
            revealed = [i for node in chosen for i in node]
            if len(revealed) == len(set(revealed)):
                counts[tuple(bool(selected[i] or i in revealed) for i in range(len(selected)))] += 1
    return {mask: Fraction(count, sum(counts.values())) for mask, count in counts.items()}


PROBABILITIES = (0.5, 0.1, 0.9, 0.25, 0.7, 0.3, 0.01)
WEIGHTS = (1, 2.5, 0.125, 3, 0, 7, 1e-3)
TREE = [[0, [1, 2]], [3, 4], 5, [[6]]]


def cut(tree: Any, n: int) -> Any:
    """The part of a tree that has features below n."""
    if isinstance(tree, int):
        return tree if tree < n else None
    return [part for part in (cut(child, n) for child in tree) if part not in (None, [])]


def distributions_and_truths(n: int) -> list[tuple[Any, Any]]:
    certain = [1, 0.3, 0, 0.6, 1, 0.5, 0.2][:n]
    odds = [None if p == 1 else Fraction(str(p)) / (1 - Fraction(str(p))) for p in certain]
    return [
        (hf.distributions.Bernoulli(0.3), lambda selected, radius: by_probabilities(selected, [0.3] * n, radius)),
        (hf.distributions.Bernoulli(0.9), lambda selected, radius: by_probabilities(selected, [0.9] * n, radius)),
        (hf.distributions.Bernoulli(0), lambda selected, radius: by_probabilities(selected, [0] * n, radius)),
        (
            hf.distributions.Bernoulli(PROBABILITIES[:n]),
            lambda selected, radius: by_probabilities(selected, PROBABILITIES, radius),
        ),
        (hf.distributions.Bernoulli(certain), lambda selected, radius: by_weights(selected, odds, radius)),
        (hf.distributions.Weighted(WEIGHTS[:n]), lambda selected, radius: by_weights(selected, WEIGHTS, radius)),
        (hf.distributions.Grouped(cut(TREE, n)), lambda selected, radius: by_groups(selected, cut(TREE, n), radius)),
    ]


def listed(nearby: Neighborhood) -> Chances:
    """The probabilities of the masks that are listed, each by its mass, in batches of 3."""
    masses: defaultdict[tuple[bool, ...], Fraction] = defaultdict(Fraction)
    n_rows = 0
    for masks in nearby.enumerate(3):
        n_rows += len(masks)
        for mask, mass in zip(masks, nearby.masses(masks), strict=True):
            assert nearby.contains(mask)
            masses[tuple(mask.tolist())] += mass
    assert n_rows == nearby.size
    assert nearby.is_larger_than(n_rows - 1)
    assert not nearby.is_larger_than(n_rows)
    return {mask: mass / sum(masses.values()) for mask, mass in masses.items()}


def cases() -> list[Any]:
    return [
        pytest.param(text, distribution, truth, radius, id=f"{text}-{distribution.name}-{radius}")
        for text in SELECTIONS
        for distribution, truth in distributions_and_truths(len(text))
        for radius in (None, 2, 3, 9)
        if truth(bits(text), radius)
    ]


@pytest.mark.parametrize(("text", "distribution", "truth", "radius"), cases())
def test_what_is_listed_and_drawn_is_the_distribution_itself(
    text: str, distribution: Any, truth: Any, radius: int | None
) -> None:
    selected = bits(text)
    nearby, chances = distribution(selected, radius), truth(selected, radius)
    assert listed(nearby) == chances
    assert sum(chances.values()) == 1
    masks = nearby.sample(4000, np.random.default_rng(7))
    rng = np.random.default_rng(7)
    np.testing.assert_array_equal(np.concatenate([nearby.sample(n, rng) for n in (1, 0, 999, 3000)]), masks)
    cells = np.sort(codes(list(chances)))
    assert np.isin(codes(masks), cells).all()
    expected = {code: 4000 * float(chances[mask]) for mask, code in zip(chances, codes(list(chances)), strict=True)}
    observed = np.bincount(np.searchsorted(cells, codes(masks)), minlength=len(cells))
    common = [i for i, cell in enumerate(cells) if expected[cell] >= 5]
    rest = [4000 - observed[common].sum()], [4000 - sum(expected[cells[i]] for i in common)]
    pairs = [(observed[i], expected[cells[i]]) for i in common] + ([(rest[0][0], rest[1][0])] if rest[1][0] > 5 else [])
    assert chi_square(*zip(*pairs, strict=True)) > LEAST_P_VALUE


@pytest.mark.parametrize(
    ("text", "distribution", "truth", "radius"), [case for case in cases() if case.values[3] is None]
)
def test_a_ring_is_the_distribution_given_the_distance(
    text: str, distribution: Any, truth: Any, radius: int | None
) -> None:
    selected = bits(text)
    whole = distribution(selected, radius)
    for k in range(whole.smallest, whole.effective_radius + 1):
        ring = whole.exactly(k)
        assert (ring.smallest, ring.effective_radius) == (k, k)
        chances = listed(ring)
        masks = ring.sample(400, np.random.default_rng(1))
        assert {tuple(mask) for mask in masks.tolist()} <= set(chances)
        if distribution.name.startswith("grouped"):
            assert all(k in whole._part.sizes(np.array(mask)) for mask in chances)
        else:
            given_size = {
                mask: chance for mask, chance in truth(selected, None).items() if sum(mask) - selected.sum() == k
            }
            total = sum(given_size.values())
            assert chances == {mask: chance / total for mask, chance in given_size.items()}
        assert all(whole.distance(np.array(mask)) <= k for mask in chances)
    assert whole.exactly(99).smallest == whole.effective_radius


def test_each_feature_is_revealed_with_its_probability() -> None:
    chances = listed(hf.distributions.Bernoulli(PROBABILITIES)(bits("0010000"), None))
    for i, probability in enumerate(PROBABILITIES):
        marginal = sum(chance for mask, chance in chances.items() if mask[i])
        assert marginal == (1 if i == 2 else Fraction(str(probability)))


@pytest.mark.parametrize("radius", [0, 1, 2, 4, 9])
@pytest.mark.parametrize("text", SELECTIONS)
def test_equal_weights_are_additions_and_odds_are_probabilities(text: str, radius: int) -> None:
    selected = bits(text)
    uniform = hf.neighborhood.Additions(selected, radius)
    masks = {tuple(mask) for part in uniform.enumerate(99) for mask in part.tolist()}
    for distribution in (
        hf.distributions.Weighted([1] * len(text)),
        hf.distributions.Bernoulli(0.5),
        hf.distributions.Weighted([0.1] * len(text), radius=0),
    ):
        own = distribution(selected, None if distribution.name.startswith("weighted([0.1") else radius)
        reached = masks if own.radius == radius else {tuple(selected.tolist())}
        assert listed(own) == dict.fromkeys(reached, Fraction(1, len(reached)))
    odds = [Fraction(3, 7)] * len(text)
    assert listed(hf.distributions.Bernoulli(0.3)(selected, radius)) == by_weights(selected, odds, radius)
    assert listed(hf.distributions.Bernoulli([0.3] * len(text))(selected, radius)) == by_weights(selected, odds, radius)


def test_a_probability_of_one_reveals_everything_and_needs_the_room_for_it() -> None:
    everything = hf.distributions.Bernoulli(1)(bits("0100"), None)
    assert listed(everything) == {(True,) * 4: Fraction(1)}
    assert everything.sample(3, np.random.default_rng(0)).all()
    assert everything.exactly(0).smallest == 3
    for distribution in (hf.distributions.Bernoulli(1), hf.distributions.Bernoulli([1, 1, 1, 1])):
        with pytest.raises(
            InvalidValueError, match="`radius` must be at least 3, as 3 features are always revealed, got 2"
        ):
            distribution(bits("0100"), 2)


@pytest.mark.parametrize("radius", [None, 2])
def test_weights_of_very_different_size_are_drawn_by_their_distribution(radius: int | None) -> None:
    weights = [1e-300, 1e300, 1.0, 2.0, 1e-3]
    nearby = hf.distributions.Weighted(weights)(bits("00000"), radius)
    chances = by_weights(bits("00000"), weights, radius)
    assert listed(nearby) == chances
    masks = nearby.sample(20_000, np.random.default_rng(3))
    for i in range(5):
        marginal = float(sum(chance for mask, chance in chances.items() if mask[i]))
        spread = math.sqrt(marginal * (1 - marginal) / len(masks))
        assert abs(masks[:, i].mean() - marginal) <= 5 * spread
    rings = [nearby.exactly(k).sample(50, np.random.default_rng(0)) for k in range(1, nearby.effective_radius + 1)]
    assert all(ring[:, 1].all() for ring in rings), "the heaviest is always among them"


def test_hundreds_of_features_are_drawn_by_their_weights() -> None:
    n = 300
    weights = np.linspace(0.01, 2, n)
    nearby = hf.distributions.Weighted(weights)(np.zeros(n, dtype=bool), 3)
    masks = nearby.sample(20_000, np.random.default_rng(0))
    sums = [Fraction(1), Fraction(0), Fraction(0), Fraction(0)]
    for weight in weights.tolist():
        sums = [sums[0], *(sums[k] + Fraction(repr(weight)) * sums[k - 1] for k in (1, 2, 3))]
    observed = np.bincount(masks.sum(axis=1), minlength=4)
    expected = [20_000 * float(part / sum(sums)) for part in sums]
    assert chi_square(observed[1:], np.array(expected[1:]) * observed[1:].sum() / sum(expected[1:])) > LEAST_P_VALUE
    assert masks[:, -100:].sum() > 3 * masks[:, :100].sum()


def test_a_table_of_sums_that_does_not_fit_is_refused() -> None:
    nearby = hf.distributions.Weighted([1.0] * 5000)(np.zeros(5000, dtype=bool), 4000)
    with pytest.raises(InvalidValueError, match="`radius` must be at most 3354 for 5000 features of unequal weights"):
        nearby.sample(1, np.random.default_rng(0))
    near = hf.distributions.Weighted([1.0] * 5000)(np.zeros(5000, dtype=bool), 3)
    assert near.sample(2, np.random.default_rng(0)).sum(axis=1).max() <= 3


def test_masks_that_are_equally_likely_have_one_mass() -> None:
    nearby = hf.distributions.Grouped([[1, 2]])(bits("0000"), None)
    assert nearby.mass_counts() == [(1, 5)]
    own = as_neighborhood(ListedHalf())(bits("1000"), None)
    assert own.mass_counts() == [(Fraction(1, 8), 8)]
    assert own.distances(np.zeros(3, dtype=np.uint64)).tolist() == [4, 4, 4]


def test_features_in_no_group_stay_hidden() -> None:
    nearby = hf.distributions.Grouped([[1, 2]])(bits("0000"), None)
    assert not nearby.sample(100, np.random.default_rng(0))[:, [0, 3]].any()
    assert not nearby.contains(bits("1000"))
    assert not nearby.contains(bits("1110"))
    assert nearby.contains(bits("0110"))


# -- texts ------------------------------------------------------------------------------------------


numbers = st.one_of(st.integers(0, 10**6), st.floats(0, 1e300, allow_subnormal=True))
trees = st.recursive(st.integers(0, 40), lambda children: st.lists(children, min_size=1, max_size=4), max_leaves=9)


@settings(max_examples=60)
@given(
    st.lists(numbers, min_size=1, max_size=5),
    st.lists(st.floats(0, 1), min_size=1, max_size=4),
    st.lists(trees, min_size=1),
)
def test_texts_of_distributions_are_read_back_as_they_were(weights: Any, chances: Any, tree: Any) -> None:
    distributions: list[Any] = [
        hf.distributions.Weighted(weights),
        hf.distributions.Bernoulli(chances),
        hf.distributions.Bernoulli(chances[0]),
    ]
    flat = str(tree).replace("[", " ").replace("]", " ").replace(",", " ").split()
    if len(set(flat)) == len(flat):
        distributions.append(hf.distributions.Grouped(tree))
    for distribution in distributions:
        again = as_neighborhood(distribution.name)
        assert again == distribution
        assert again.name == distribution.name
        assert as_neighborhood(json.loads(json.dumps(distribution.name))) == distribution


@pytest.mark.parametrize(
    ("value", "must"),
    [
        ("bernoulli(2)", "cannot be 'bernoulli(2)': `probability` must be a number from 0 to 1, or one per feature"),
        ("bernoulli(.3)", "must have numbers in the brackets, such as 'bernoulli(0.3)', got 'bernoulli(.3)'."),
        ("bernoulli(x)", "must have numbers in the brackets, such as 'bernoulli(0.3)', got 'bernoulli(x)'."),
        ("bernoulli", "Did you mean 'bernoulli(0.3)'?"),
        ("bernouli(0.1)", "Did you mean 'bernoulli(0.1)'?"),
        ("Bernoulli(0.3)", "Did you mean 'bernoulli(0.3)'?"),
        ("swap", "Did you mean 'swaps'?"),
        ("§§§", "or an object with `sample`, got '§§§'."),
        ([0.1, 0.2], "Use hf.distributions.Bernoulli(…), or hf.distributions.Weighted(…) for weights."),
        (hf.distributions.Weighted, "Use hf.distributions.Weighted(…)."),
        (Distribution, "Use an object of the class."),
        ({}, "or an object with `sample`, got {}."),
        ("bernoulli([])", "`probability` must be a number from 0 to 1"),
        ("weighted(1)", "`weights` must be numbers ≥ 0, one per feature"),
        ("weighted([1, -1])", "`weights` must be numbers ≥ 0"),
        ("grouped(3)", "`tree` must be nested lists of features"),
        ("grouped([])", "`tree` must be nested lists of features"),
        ("grouped([[0, 0]])", "each of them once"),
        ("grouped([[0], 0.5])", "`tree` must be a whole number"),
        ("grouped(" + "[" * 70 + "0" + "]" * 70 + ")", "`tree` must be nested lists"),
        (
            "gruppen([1])",
            "must be one of additions, removals, swaps, bernoulli(p), weighted([…]), grouped([…]) or an object",
        ),
        ("own law mine", "must be one of additions, removals, swaps, bernoulli(p)"),
        (3, "must be one of additions, removals, swaps, bernoulli(p)"),
        (
            hf.neighborhood.Additions(bits("100"), 1),
            "must not be bound to an explanation yet, got Additions. Pass its name and",
        ),
        (hf.distributions.Bernoulli, "Use hf.distributions.Bernoulli(…)."),
    ],
)
def test_texts_that_name_no_distribution_are_refused_with_a_reason(value: Any, must: str) -> None:
    with pytest.raises((InvalidValueError, InvalidTypeError)) as caught:
        as_neighborhood(value)
    assert must in str(caught.value)
    assert caught.value.argument == "neighborhood"


# -- certificates -----------------------------------------------------------------------------------


N = 9
SELECTED = np.arange(N) < 2
TABLE = np.random.default_rng(5).random(2**N) < 0.7


def lookup(masks: Any) -> Any:
    return TABLE[codes(masks)] | (np.asarray(masks) == SELECTED).all(axis=1)


MODEL = hf.mask_function(lookup, n_features=N)
MANY = hf.mask_function(lambda masks: masks[:, 0] & ~(masks[:, 7] & masks[:, 9]), n_features=24)
OF_MANY = np.arange(24) < 3

DISTRIBUTIONS = [
    hf.distributions.Bernoulli(0.3),
    hf.distributions.Bernoulli([0.1, 0.5, 0.9, 0.3, 0.2, 0.6, 0.7, 0.05, 0.4]),
    hf.distributions.Weighted([1, 2, 3, 4, 5, 6, 7, 8, 9]),
    hf.distributions.Grouped([[0, 3, 4], [[1, 5], 6, 2], 7, 8]),
]
DISTRIBUTIONS_OF_MANY = [
    hf.distributions.Bernoulli(0.4),
    hf.distributions.Bernoulli(np.linspace(0.1, 0.9, 24)),
    hf.distributions.Weighted(list(range(1, 25))),
    hf.distributions.Grouped([list(range(3, 10)), [list(range(10, 20)), 20, 21], 22, 23]),
]


def true_rate(distribution: Any, radius: int | None) -> Fraction:
    chances = listed(distribution(SELECTED, radius))
    return sum((chance for mask, chance in chances.items() if lookup(np.array([mask]))[0]), start=Fraction(0))


@pytest.mark.parametrize("radius", [None, 3])
@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=lambda distribution: distribution.family)
def test_few_masks_are_all_evaluated_and_the_rate_is_their_probability(distribution: Any, radius: int | None) -> None:
    certificate = hf.certify(MODEL, SELECTED, neighborhood=distribution, radius=radius, tolerance=0.05, rng=0)
    assert certificate.exact
    assert certificate.rate == certificate.rate_unbiased == float(true_rate(distribution, radius))
    assert certificate.interval == (certificate.rate, certificate.rate)
    assert certificate.n_evaluated == distribution(SELECTED, radius).size
    certificate.check()
    assert hf.Certificate.from_json(certificate.to_json()) == certificate
    by_text = hf.certify(
        MODEL, SELECTED, neighborhood=distribution.name, radius=certificate.radius, tolerance=0.05, rng=0
    )
    assert by_text == certificate


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=lambda distribution: distribution.family)
def test_the_exact_probability_of_missing_a_sampled_rate_is_within_the_risk(distribution: Any) -> None:
    # Draws are independent with the true rate as their probability; the rest is summed over the stopping design.
    certificate = hf.certify(MODEL, SELECTED, neighborhood=distribution, tolerance=0.3, confidence=0.8, rng=0)
    assert certificate.design is not None
    paths = oracles.count_paths(certificate.design.looks, certificate.design.limits)
    rate = true_rate(distribution, None)
    assert 0 < rate < 1
    assert oracles.miss_probability(paths, rate, Fraction(3, 10)) <= Fraction(2, 10)
    agreed = lookup(distribution(SELECTED, None).sample(6000, np.random.default_rng(2)))
    assert abs(agreed.mean() - float(rate)) < 5 * math.sqrt(float(rate * (1 - rate)) / 6000)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS_OF_MANY, ids=lambda distribution: distribution.family)
def test_every_verb_takes_a_distribution_and_every_result_is_confirmed(distribution: Any) -> None:
    others = {"a": OF_MANY, "b": np.arange(24) >= 18}
    results: list[Any] = [
        hf.certify(MANY, OF_MANY, neighborhood=distribution, rng=0),
        hf.certify(MANY, OF_MANY, neighborhood=distribution, radius=4, rng="canonical"),
        hf.certify(MANY, OF_MANY, neighborhood=distribution, radius=3, rate_kind="exactly", rng=0),
        hf.certify(MANY, OF_MANY, neighborhood=distribution, radius=2, rate_kind="worst_size", rng=0),
        hf.certify_radii(MANY, OF_MANY, neighborhood=distribution, radii=[0, 1, 3, 99], rng=0),
        hf.certify_radii(MANY, OF_MANY, neighborhood=distribution, radii=[1, 3, 5], simultaneous=True, rng=0),
        hf.certify_radii(MANY, OF_MANY, neighborhood=distribution, radii=[1, 3], rate_kind="worst_size", rng=0),
        hf.certified_radius(MANY, OF_MANY, min_rate=0.8, neighborhood=distribution, rng=0),
        hf.certify_hard(MANY, OF_MANY, neighborhood=distribution, rng=0),
        hf.certify_hard(MANY, OF_MANY, neighborhood=distribution, radius=1, tolerance=0.01, rng=0),
        hf.compare(MANY, others, [1, 4], neighborhood=distribution, rng=0),
        hf.compare(MANY, others, [1, 4], neighborhood=distribution, plan="sequential", rng=0),
        hf.stabilize(MANY, np.arange(24, 0, -1), min_rate=0.8, neighborhood=distribution, rng=0),
        hf.stabilize(MANY, np.arange(24, 0, -1), min_rate=0.8, radius=2, neighborhood=distribution, rng=0),
    ]
    for result in results:
        result.check()
        assert from_any_json(result.to_json()) == result
        check = hf.recheck(MANY, result)
        assert check.confirmed, check
    assert results[1].neighborhood == distribution.name
    assert hf.recheck(MANY, results[1]).canonical


def test_other_fills_are_certified_by_a_distribution() -> None:
    fills = hf.fill_sensitivity(lambda fill: MODEL, SELECTED, [0, 1], radius=99, rng=0, neighborhood=DISTRIBUTIONS[2])
    assert "revealing other features by weight" in str(fills)
    fills.check()
    assert from_any_json(fills.to_json()) == fills


def test_a_distribution_has_the_draws_of_its_family_whatever_its_numbers_are() -> None:
    keys = {
        hf.certify(MANY, OF_MANY, neighborhood=hf.distributions.Bernoulli(p), rng="canonical").rng_key
        for p in (0.2, 0.3, 0.9)
    }
    assert len(keys) == 1


@pytest.mark.parametrize("distribution", DISTRIBUTIONS_OF_MANY, ids=lambda distribution: distribution.family)
def test_sizes_on_a_curve_are_those_of_each_radius_alone(distribution: Any) -> None:
    wide = distribution(OF_MANY, 24)
    lists = MaskLists(wide, lambda purpose: np.random.default_rng(len(purpose)))
    for radius in (1, 2, 5):
        near = distribution(OF_MANY, radius)
        sizes = np.bincount(lists.sizes(near, 0, 20_000), minlength=radius + 1)
        words = np.random.default_rng(1).integers(0, 2**64, size=200_000, dtype=np.uint64)
        alone = np.bincount(near.distances(words), minlength=radius + 1) / 10
        common = alone > 20
        assert chi_square(sizes[common], alone[common] * sizes[common].sum() / alone[common].sum()) > LEAST_P_VALUE


def counted(probability: float, radius: int | None, model: Any = None) -> Any:
    model = CountedTable() if model is None else model
    return hf.certify(
        model, np.arange(8) < 2, neighborhood=hf.distributions.Bernoulli(probability), radius=radius, rng=0
    )


@pytest.mark.parametrize("radius", [None, 2, 3])
@pytest.mark.parametrize("probability", [0, 0.3, 0.5, 0.75, 1])
def test_a_model_that_counts_its_masks_tells_the_probability_exactly(probability: float, radius: int | None) -> None:
    radius = None if probability == 1 else radius
    certificate = counted(probability, radius)
    chances = by_probabilities(np.arange(8) < 2, [probability] * 8, radius)
    truth = sum((chance for mask, chance in chances.items() if not (mask[5] and mask[7])), start=Fraction(0))
    assert certificate.proof == "paths of a tree"
    assert (certificate.rate, certificate.exact) == (float(truth), True)
    certificate.check()
    assert hf.Certificate.from_json(certificate.to_json()) == certificate
    steps = hf.certified_radius(CountedTable(), np.arange(8) < 2, min_rate=0.7, neighborhood="bernoulli(0.3)", rng=0)
    steps.check()
    assert steps.trail[0].proof is not None


def test_who_watches_sees_the_masks_that_are_listed_counted() -> None:
    looks: list[Any] = []
    asked: Any = {"neighborhood": hf.distributions.Bernoulli(0.3), "tolerance": 0.05, "rng": 0, "batch_size": 50}
    certificate = hf.certify(MODEL, SELECTED, on_look=looks.append, **asked)
    assert [look.n_evaluated for look in looks] == [50, 100, 128]
    assert all(look.exact and look.n_most == 128 for look in looks)
    assert certificate == hf.certify(MODEL, SELECTED, **asked)


def test_distributions_whose_rings_are_not_uniform_are_not_counted() -> None:
    model = CountedTable()
    certificate = hf.certify(model, np.arange(8) < 2, neighborhood=hf.distributions.Weighted([1] * 8), radius=2, rng=0)
    assert certificate.proof is None
    assert certificate.rate == hf.certify(model, np.arange(8) < 2, radius=2, rng=0).rate


@pytest.mark.parametrize("changing", [[(3, 4, 5), (6, 8)], [(6, 8)], [(2, 3), (6, 8), (2, 3, 4, 5)], [], [(6, 7, 8)]])
def test_a_proof_about_groups_vouches_for_numbers_of_groups(changing: Any) -> None:
    # One group of three features is nearer than two features of different groups.
    changed = [np.isin(np.arange(N), (0, 1, *features)) for features in changing]
    model = hf.mask_function(lambda masks: ~np.isin(codes(masks), codes(changed) if changed else []), n_features=N)
    distribution = hf.distributions.Grouped([[2, [3, 4, 5]], [6, 7], 8])
    hard = hf.certify_hard(model, SELECTED, neighborhood=distribution, max_enumerated=999, rng=0)
    changes = [
        k
        for k in range(8)
        if not model(np.concatenate(list(distribution(SELECTED, 99).exactly(k).enumerate(99)))).all()
    ]
    assert hard.radius == (changes[0] - 1 if changes else hard.requested_radius)
    assert hard.stable == (not changes)
    hard.check()


# -- what is forged ---------------------------------------------------------------------------------


def forged(result: Any, **changes: Any) -> str:
    return json.dumps(json.loads(result.to_json()) | changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"rate": 0.99, "rate_unbiased": 0.99, "interval": {"low": 0.99, "high": 0.99}},
        {"n_agreed": 0},
        {"n_evaluated": 127},
        {"neighborhood": "bernoulli(0.30)"},
        {"neighborhood": "bernoulli(3)"},
        {"effective_radius": 5},
        {"interval": {"low": 0.1, "high": 0.9}},
    ],
)
def test_an_exact_certificate_that_was_edited_is_refused(changes: Any) -> None:
    certificate = hf.certify(MODEL, SELECTED, neighborhood=hf.distributions.Bernoulli(0.3), tolerance=0.05, rng=0)
    assert certificate.n_evaluated == 128
    assert 0 < certificate.n_agreed < 128
    with pytest.raises(InvalidValueError, match=r"is not a valid holdfast\.certificate"):
        hf.Certificate.from_json(forged(certificate, **changes))


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=lambda distribution: distribution.family)
def test_a_rate_that_other_masks_would_have_is_read_and_not_confirmed(distribution: Any) -> None:
    certificate = hf.certify(MODEL, SELECTED, neighborhood=distribution, tolerance=0.05, rng=0)
    other = certificate.rate * 0.999
    edited = forged(certificate, rate=other, rate_unbiased=other, interval={"low": other, "high": other})
    if distribution.family == "grouped":  # all choices are equally likely, so that the counts tell the rate
        with pytest.raises(InvalidValueError):
            hf.Certificate.from_json(edited)
    else:
        check = hf.recheck(MODEL, hf.Certificate.from_json(edited))
        assert not check.confirmed
        assert check.differences[0].startswith("rate is ")


def test_an_answer_that_the_counts_cannot_give_is_refused() -> None:
    radius = hf.certified_radius(MODEL, SELECTED, min_rate=0.8, radii=[1], neighborhood=DISTRIBUTIONS[2], rng=0)
    step = radius.trail[0]
    assert (step.exact, step.n_evaluated) == (True, 8)
    for n_agreed, answer in ((0, True), (8, False), (4, None)):
        forgery = replace(step, n_agreed=n_agreed, answer=answer)
        with pytest.raises(InvalidValueError, match="follow from the counts at radius 1"):
            replace(radius, trail=(forgery,), radius=int(bool(answer))).check()
    with pytest.raises(InvalidValueError, match="follow from the counts at radius 1"):
        replace(radius, trail=(replace(step, n_agreed=7, n_evaluated=7, answer=True),), radius=1).check()


# -- curves over probabilities ----------------------------------------------------------------------


def over(*probabilities: float, **keywords: Any) -> hf.certification.ProbabilityCurve:
    return hf.certify_probabilities(MANY, OF_MANY, probabilities=probabilities, **({"rng": 0} | keywords))


def test_a_probability_has_the_same_certificate_whichever_others_are_asked_for() -> None:
    whole, part = over(0.1, 0.3, 0.5, 0.9), over(0.3)
    assert replace(whole[0.3], n_calls=0, n_repeated=0) == replace(part[0.3], n_calls=0, n_repeated=0)
    assert whole.n_calls < sum(over(p).n_calls for p in whole.probabilities)
    assert over(0.9, 0.1, 0.5, 0.3, 0.3) == whole


def test_sizes_that_share_their_random_words_are_binomial_for_each_probability() -> None:
    words, n = SizeWords(np.random.default_rng(0)), 21
    for probability in (0.1, 0.3, 0.5, 0.9):
        near = hf.distributions.Bernoulli(probability)(OF_MANY, None)
        first, rest = words.sizes(near, 0, 100), words.sizes(near, 100, 20_000)
        np.testing.assert_array_equal(np.concatenate([first, rest]), words.sizes(near, 0, 20_000))
        sizes = np.bincount(np.concatenate([first, rest]), minlength=n + 1)
        distribution = [20_000 * math.comb(n, k) * probability**k * (1 - probability) ** (n - k) for k in range(n + 1)]
        common = [k for k in range(n + 1) if distribution[k] > 10]
        expected = np.array([distribution[k] for k in common])
        assert chi_square(sizes[common], expected * sizes[common].sum() / expected.sum()) > LEAST_P_VALUE


def test_draws_of_a_curve_are_as_frequent_as_the_distribution_says() -> None:
    # The agreements of 300 curves at a fixed number of draws each, against the true rate at each probability.
    rates: defaultdict[float, list[float]] = defaultdict(list)
    for seed in range(300):
        for certificate in over(0.2, 0.6, plan="exact", tolerance=0.2, rng=seed):
            rates[as_neighborhood(certificate.neighborhood).probability].append(certificate.rate)  # type: ignore[attr-defined]
            n_draws = certificate.n_evaluated
    for probability, seen in rates.items():
        truth = 1 - probability**2
        spread = math.sqrt(truth * (1 - truth) / n_draws / len(seen))
        assert abs(np.mean(seen) - truth) < 4 * spread
        assert np.var(seen) == pytest.approx(truth * (1 - truth) / n_draws, rel=0.35), "draws are not independent"


@pytest.mark.parametrize(
    "keywords",
    [
        {},
        {"radius": 4},
        {"simultaneous": True},
        {"radius": 99},
        {"plan": "exact"},
        {"answers": "random", "reference": True},
    ],
)
def test_a_curve_over_probabilities_is_stored_and_confirmed(keywords: Any) -> None:
    curve = over(0, 0.25, 0.5, **keywords)
    curve.check()
    assert from_any_json(curve.to_json()) == curve
    check = hf.recheck(MANY, curve)
    assert check.confirmed, check
    assert curve.probabilities == curve.places == (0, 0.25, 0.5)
    assert [cert.neighborhood for cert in curve] == ["bernoulli(0)", "bernoulli(0.25)", "bernoulli(0.5)"]
    assert curve[0].rate == 1


def test_a_curve_over_probabilities_can_have_a_key_that_nobody_chose() -> None:
    curve = over(0.2, 0.6, rng="canonical")
    assert hf.recheck(MANY, curve).canonical
    assert hf.recheck(MANY, over(0.2, 0.6)).canonical is False
    other = replace(curve, certificates=(replace(curve[0.2], prediction=False), curve[0.6]))
    assert not hf.recheck(MANY, other).confirmed


def test_all_at_once_takes_more_draws_than_each_alone() -> None:
    alone, together = over(0.2, 0.5, plan="exact"), over(0.2, 0.5, plan="exact", simultaneous=True)
    assert together[0.2].n_evaluated > alone[0.2].n_evaluated
    assert "for all probabilities at once" in str(together)


def test_a_curve_over_probabilities_is_printed_line_by_line() -> None:
    text = str(over(0, 0.25, 1))
    assert text.splitlines()[2:6] == [
        "probability    rate  interval          agreed/drawn",
        "          0   1.000  [1.000, 1.000]                  exact",
        text.splitlines()[4],
        "          1   0.000  [0.000, 0.000]                  exact",
    ]
    assert "(90% confidence each): revealing each other feature with this probability keeps prediction True" in text
    assert "(at most 4)" in str(over(0.5, radius=4))
    assert "with this probability (at most 4)" in over(0.5, radius=4).explain()


def test_a_curve_of_other_certificates_is_refused() -> None:
    curve = over(0.2, 0.5)
    radii = hf.certify_radii(MANY, OF_MANY, radii=[1, 2], rng=0)
    with pytest.raises(InvalidValueError, match="reveal each feature with one probability"):
        hf.certification.ProbabilityCurve(radii.certificates, False, 1, 1).check()
    with pytest.raises(InvalidValueError, match="answer one question at increasing probabilities"):
        replace(curve, certificates=curve.certificates[::-1]).check()
    limited = over(0.6, radius=4).certificates
    with pytest.raises(InvalidValueError, match="have one radius"):
        replace(curve, certificates=(*curve.certificates, *limited)).check()
    with pytest.raises(InvalidValueError, match=r"`probability` must be one of 0\.2, 0\.5, got 0\.3"):
        curve[0.3]


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"probabilities": []}, "`probabilities` must be numbers from 0 to 1, at least one, got none"),
        ({"probabilities": [0.5, 2]}, "`probabilities` must be numbers from 0 to 1"),
        ({"probabilities": [0.5], "neighborhood": "swaps"}, "`neighborhood` must be left out"),
        ({"probabilities": [0.5], "radius": -1}, "`radius` must be a whole number ≥ 0"),
        ({"probabilities": [1], "radius": 2}, "`radius` must be at least 21"),
    ],
)
def test_questions_about_probabilities_that_make_no_sense_are_refused(keywords: Any, message: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        hf.certify_probabilities(MANY, OF_MANY, **keywords)
    assert str(caught.value).startswith(message)


# -- objects of one's own ---------------------------------------------------------------------------


@dataclass
class Half:
    """Each other feature with probability one half, by its own code."""

    name: str = "coin"

    def sample(self, selected: Any, n: int, rng: Any) -> Any:
        return selected | (rng.random((n, len(selected))) < 0.5)


class ListedHalf(Half):
    """The same, and it lists its masks."""

    chances: Any = None

    def enumerate(self, selected: Any) -> Any:
        hidden = np.flatnonzero(~selected)
        masks = np.tile(selected, (2 ** len(hidden), 1))
        for row, shown in enumerate(product([False, True], repeat=len(hidden))):
            masks[row, hidden] = shown
        return masks if self.chances is None else (masks, self.chances(len(masks)))

    def size(self, selected: Any) -> int:
        return int(2 ** (~selected).sum())


def test_masks_of_ones_own_are_sampled_and_named() -> None:
    certificate = hf.certify(MANY, OF_MANY, neighborhood=Half(), rng=0)
    assert certificate.neighborhood == "own law coin"
    assert not certificate.exact
    assert abs(certificate.rate - 0.75) <= 0.1
    certificate.check()
    assert hf.Certificate.from_json(certificate.to_json()) == certificate
    assert ": drawing masks from coin kept the prediction True" in str(certificate)


def test_masks_of_ones_own_that_are_listed_are_evaluated_by_their_probabilities() -> None:
    uniform = hf.certify(MODEL, SELECTED, neighborhood=ListedHalf(), tolerance=0.05, rng=0)
    assert uniform.exact
    assert uniform.rate == float(true_rate(hf.distributions.Bernoulli(0.5), None))
    skewed = ListedHalf()
    skewed.chances = lambda n: [Fraction(2 * i + 1, n * n) for i in range(n)]
    certificate = hf.certify(MODEL, SELECTED, neighborhood=skewed, tolerance=0.05, rng=0)
    masks = skewed.enumerate(SELECTED)[0]
    truth = sum(Fraction(2 * i + 1, 128**2) for i, agrees in enumerate(lookup(masks)) if agrees)
    assert certificate.rate == float(truth)
    assert hf.Certificate.from_json(certificate.to_json()) == certificate
    with pytest.raises(InvalidValueError, match="is not a valid"):
        hf.Certificate.from_json(forged(certificate, n_agreed=0))


@pytest.mark.parametrize("source", [Half(), ListedHalf()])
def test_results_of_ones_own_masks_are_confirmed_with_the_object_and_only_so(source: Any) -> None:
    others = {"a": OF_MANY, "b": np.arange(24) >= 18}
    for result in (
        hf.certify(MANY, OF_MANY, neighborhood=source, rng="canonical"),
        hf.certify(MODEL, SELECTED, neighborhood=source, tolerance=0.05, rng=0),
        hf.certified_radius(MANY, OF_MANY, min_rate=0.6, neighborhood=source, rng=0),
        hf.certified_radius(MODEL, SELECTED, min_rate=0.6, neighborhood=source, rng=0),
        hf.certify_hard(MANY, OF_MANY, neighborhood=source, rng=0),
        hf.certify_hard(MODEL, SELECTED, neighborhood=source, tolerance=0.01, rng=0),
        hf.compare(MANY, others, [24], neighborhood=source, rng=0),
        hf.compare(MANY, others, [24], neighborhood=source, plan="sequential", rng=0),
        hf.stabilize(MANY, np.arange(24, 0, -1), min_rate=0.6, neighborhood=source, rng=0),
    ):
        model = MODEL if result.to_json().count('"n_features": 9') else MANY
        result.check()
        assert from_any_json(result.to_json()) == result
        check = hf.recheck(model, result, neighborhood=source)
        assert check.confirmed, check
        with pytest.raises(InvalidValueError, match="`neighborhood` must be 'coin', which drew the masks"):
            hf.recheck(model, result)
        with pytest.raises(InvalidValueError, match="`neighborhood` must be 'own law coin', as in the result"):
            hf.recheck(model, result, neighborhood=hf.distributions.Bernoulli(0.5))


def test_pairs_of_ones_own_draws_are_independent_of_each_other() -> None:
    # Two explanations whose draws take different numbers of random words must not share them row by row.
    class Greedy(Half):
        def sample(self, selected: Any, n: int, rng: Any) -> Any:
            hidden, masks = np.flatnonzero(~selected), np.tile(selected, (n, 1))
            masks[:, hidden] = rng.random((n, len(hidden))) < 0.5
            return masks

    model = hf.mask_function(lambda masks: masks[:, 0] ^ masks[:, 23] ^ True, n_features=24)
    pair = {"a": np.arange(24) < 1, "b": np.arange(24) < 2}
    both = [hf.compare(model, pair, [24], neighborhood=Greedy(), rng=seed).differences[0] for seed in range(40)]
    shared = [difference.first_only + difference.second_only for difference in both]  # type: ignore[operator]
    n_draws = hf.compare(model, pair, [24], neighborhood=Greedy(), rng=0).curves[0].certificates[0].n_evaluated
    assert abs(np.mean(shared) / n_draws - 0.5) < 5 * 0.5 / math.sqrt(40 * n_draws)


class Broken(ListedHalf):
    """A copy of a good one with one thing wrong."""

    def __init__(self, **methods: Any) -> None:
        super().__init__()
        for method, function in methods.items():
            setattr(self, method, function)


def biased(selected: Any, n: int, rng: Any) -> Any:
    return selected | (rng.random((n, len(selected))) < 0.45)


def by_columns(selected: Any, n: int, rng: Any) -> Any:
    return selected | (rng.random((len(selected), n)).T < 0.5)


def half_forgetful(selected: Any, n: int, rng: Any) -> Any:
    return forgetful(selected, n, rng) & (rng.random((n, len(selected))) < 0.5)


def forgetful(selected: Any, n: int, rng: Any) -> Any:
    return selected | (np.random.default_rng().random((n, len(selected))) < 0.5)


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        ({"sample": biased}, "draw each mask with its stated probability for the explanation []"),
        ({"sample": by_columns}, "draw the same masks in one batch as in several for the explanation []"),
        ({"sample": forgetful}, "draw from `rng`, which it ignores for the explanation []"),
        ({"sample": half_forgetful}, "draw the same masks from the same `rng` for the explanation []"),
        ({"sample": lambda selected, n, rng: selected}, "give Boolean arrays of shape (20000, 6), got bool (6,)"),
        ({"sample": lambda selected, n, rng: [selected] * n}, "give Boolean arrays of shape (20000, 6), got list"),
        ({"sample": lambda selected, n, rng: np.ones((n, 6))}, "got float64 (20000, 6)"),
        ({"enumerate": lambda selected: selected[None]}, "list every mask that it draws"),
        (
            {"enumerate": lambda selected: (selected[None], [0.4])},
            "list masks with one probability each, summing to 1",
        ),
        ({"enumerate": lambda selected: (selected[None], [0.5, 0.5])}, "got 1 masks, 2 probabilities that sum to 1"),
        ({"enumerate": lambda selected: (selected[None], [-1])}, "summing to 1, got -1"),
        ({"enumerate": lambda selected: selected[None][:0]}, "got 0 masks, 0 probabilities that sum to 0"),
        ({"enumerate": lambda selected: [selected]}, "give Boolean arrays of shape (n, 6), got list"),
        ({"size": lambda selected: 3}, "have `size` = 64, the length of its list, for the explanation [], got 3"),
    ],
)
def test_a_neighbourhood_that_breaks_its_contract_is_told_so(methods: Any, message: str) -> None:
    with pytest.raises((InvalidValueError, InvalidTypeError)) as caught:
        hf.distributions.check_neighborhood(Broken(**methods))
    assert str(caught.value).startswith("`neighborhood`")
    assert message in str(caught.value)


def test_draws_that_ignore_the_random_numbers_are_found_without_a_list() -> None:
    class Counter(Half):
        """Goes round the features, wherever the generator is; it starts again with every new one."""

        def sample(self, selected: Any, n: int, rng: Any) -> Any:
            start = self.at if self.rng is rng else 0
            self.rng, self.at = rng, start + len(rng.random(n))
            return selected | (np.arange(len(selected)) == (start + np.arange(n))[:, None] % 8)

        rng: Any = None
        at: int = 0

    with pytest.raises(
        InvalidValueError, match="`neighborhood` must draw different masks from different random numbers"
    ):
        hf.distributions.check_neighborhood(Counter(), n_features=8)


def test_an_object_that_writes_to_what_it_is_given_changes_nothing() -> None:
    class Writing(Half):
        def sample(self, selected: Any, n: int, rng: Any) -> Any:
            masks = super().sample(selected, n, rng)
            selected[:] = True
            return masks

    assert hf.distributions.check_neighborhood(Writing()).n_masks == (None,) * 4


def test_a_good_neighbourhood_is_described() -> None:
    check = hf.distributions.check_neighborhood(ListedHalf())
    assert (check.name, check.n_masks, check.removes) == ("own law coin", (64, 16, 2, 1), False)
    assert (
        str(check) == "own law coin keeps all selected features; its draws agree with its list for 4 of 4 explanations."
    )
    removing = hf.distributions.check_neighborhood("removals", n_features=5)
    assert removing.removes
    assert "may hide selected features" in str(removing)
    assert hf.distributions.check_neighborhood(Half(), n_features=5).n_masks == (None,) * 4


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=lambda distribution: distribution.family)
def test_built_in_distributions_keep_the_public_contract(distribution: Any) -> None:
    assert hf.distributions.check_neighborhood(distribution, n_features=N).n_masks[-1] == 1
    assert hf.distributions.check_neighborhood(distribution, n_features=N, radius=2).n_masks[-1] == 1


def test_a_mask_that_was_never_drawn_is_no_counterexample_of_ones_own() -> None:
    class Near(Half):
        def sample(self, selected: Any, n: int, rng: Any) -> Any:
            masks = np.tile(selected, (n, 1))
            masks[np.arange(n), rng.integers(3, 23, size=n)] = True
            return masks

    model = hf.mask_function(lambda masks: ~masks.all(axis=1), n_features=24)
    certificate = hf.certify(model, OF_MANY, neighborhood=Near(), rng=0)
    assert (certificate.consistent, certificate.counterexample, certificate.rate) == (False, None, 1.0)
    drawn = hf.certify(model, np.arange(24) < 23, neighborhood=Half(), rng=0)
    assert drawn.counterexample is not None
    assert drawn.counterexample.all()
    listing = hf.certify(model, np.arange(24) < 23, neighborhood=ListedHalf(), rng=0)
    assert (listing.exact, listing.rate) == (True, 0.5)
    assert listing.counterexample is not None


# -- refusals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: hf.certify(MANY, OF_MANY), "`radius` must be a whole number ≥ 0, got None"),
        (lambda: hf.certify(MANY, OF_MANY, neighborhood="swaps"), "`radius` must be a whole number ≥ 0, got None"),
        (
            lambda: hf.certify(MANY, OF_MANY, neighborhood=hf.distributions.Bernoulli(0.3), rate_kind="exactly"),
            "`radius` must be a whole number ≥ 0, got None",
        ),
        (lambda: hf.certify(MANY, OF_MANY, neighborhood=Half(), radius=3), "`radius` must be left out"),
        (
            lambda: hf.certify(MANY, OF_MANY, neighborhood=Half(), rate_kind="worst_size"),
            "`rate_kind` must be 'uniform' for your own neighbourhood",
        ),
        (lambda: hf.certify_radii(MANY, OF_MANY, neighborhood=Half(), radii=[1]), "`radius` must be left out"),
        (
            lambda: hf.certify(MANY, OF_MANY, neighborhood=hf.distributions.Bernoulli([0.5])),
            "`neighborhood` must have one number for each of 24 features, got 1",
        ),
        (
            lambda: hf.certify(MANY, OF_MANY, neighborhood=hf.distributions.Grouped([[30]])),
            "`neighborhood` must have features below 24, got 30",
        ),
        (
            lambda: hf.certify(MANY, OF_MANY, neighborhood=hf.distributions.Weighted([1] * 24, radius=2), radius=3),
            "`radius` must be at most 2, the radius of the neighbourhood, or left out, got 3",
        ),
        (lambda: hf.certify(MANY, OF_MANY, neighborhood=Half(name="")), "`neighborhood.name` must be a text"),
        (lambda: hf.certify(MANY, OF_MANY, neighborhood=Half(name=3)), "`neighborhood.name` must be a text"),  # type: ignore[arg-type]
        (lambda: hf.stabilize(MANY, np.arange(24), min_rate=0.8), "`radius` must be a whole number ≥ 0, got None"),
        (
            lambda: hf.mean_curve(
                [lambda: (MANY, OF_MANY)], radii=[2], neighborhood=hf.distributions.Grouped([[1]]), rng=0
            ),
            "`neighborhood` must draw masks of one size equally often",
        ),
        (
            lambda: hf.mean_curve([lambda: (MANY, OF_MANY)], radii=[2], neighborhood="bernoulli(1)", rng=0),
            "`neighborhood` must draw masks of one size equally often",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_before_any_model_call(ask: Any, message: str) -> None:
    with pytest.raises((InvalidValueError, InvalidTypeError)) as caught:
        ask()
    assert str(caught.value).startswith(message)


def test_a_distribution_with_a_radius_of_its_own_goes_no_further() -> None:
    distribution = hf.distributions.Weighted([1] * 24, radius=2)
    certificate = hf.certify(MANY, OF_MANY, neighborhood=distribution, rng=0)
    assert (certificate.radius, certificate.neighborhood) == (2, hf.distributions.Weighted([1] * 24).name)
    assert hf.recheck(MANY, certificate).confirmed
    assert len(hf.certified_radius(MANY, OF_MANY, min_rate=0.5, neighborhood=distribution, rng=0).trail) == 2


# -- means and costs --------------------------------------------------------------------------------


def test_the_mean_of_curves_is_that_of_the_distribution() -> None:
    rates = hf.mean_curve(
        [lambda: (MODEL, SELECTED), lambda: (MODEL, np.arange(N) < 4)] * 3,
        radii=[2, 99],
        neighborhood=hf.distributions.Bernoulli(0.3),
        half_width=0.02,
        rng=0,
    )
    reference = lookup(np.array([np.arange(N) < 4]))[0]
    for row, radius in zip(rates, (2, None), strict=True):
        other = listed(hf.distributions.Bernoulli(0.3)(np.arange(N) < 4, radius))
        second = sum(chance for mask, chance in other.items() if lookup(np.array([mask]))[0] == reference)
        truth = (float(true_rate(hf.distributions.Bernoulli(0.3), radius)) + float(second)) / 2
        assert row.interval.low <= truth <= row.interval.high
    assert rates.neighborhood == "bernoulli(0.3)"
    counted_table = hf.mean_curve(
        [lambda: (CountedTable(), np.arange(8) < 2)], radii=[3], neighborhood="bernoulli(0.25)", half_width=0.05, rng=0
    )
    assert counted_table.n_counted == 0


def test_the_cost_of_a_distribution_is_known_before() -> None:
    few = hf.plan_samples(selected=SELECTED, neighborhood=hf.distributions.Weighted([1] * N, radius=1))
    assert (few.exact, few.max_draws) == (True, 8)
    assert not hf.plan_samples(selected=OF_MANY, neighborhood=Half()).exact
    assert hf.plan_samples(neighborhood=hf.distributions.Bernoulli(0.3)) == hf.plan_samples()


# -- words ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("distribution", "keywords", "sentence"),
    [
        (DISTRIBUTIONS_OF_MANY[0], {}, "revealing each other feature with probability 0.4 kept"),
        (
            DISTRIBUTIONS_OF_MANY[0],
            {"radius": 5},
            "revealing each other feature with probability 0.4 (at most 5) kept",
        ),
        (
            DISTRIBUTIONS_OF_MANY[0],
            {"radius": 5, "rate_kind": "exactly"},
            "revealing each other feature with probability 0.4 (exactly 5) kept",
        ),
        (
            DISTRIBUTIONS_OF_MANY[0],
            {"radius": 3, "rate_kind": "worst_size"},
            "revealing each other feature with probability 0.4 (at most 3) kept",
        ),
        (DISTRIBUTIONS_OF_MANY[1], {}, "revealing each other feature with its own probability kept"),
        (DISTRIBUTIONS_OF_MANY[2], {}, "revealing other features by weight kept"),
        (DISTRIBUTIONS_OF_MANY[2], {"radius": 3}, "revealing up to 3 more features by weight kept"),
        (DISTRIBUTIONS_OF_MANY[3], {"radius": 3}, "revealing up to 3 groups of features kept"),
        (DISTRIBUTIONS_OF_MANY[3], {}, "revealing any number of groups of features kept"),
    ],
)
def test_a_certificate_says_what_was_revealed(distribution: Any, keywords: Any, sentence: str) -> None:
    assert sentence in str(hf.certify(MANY, OF_MANY, neighborhood=distribution, rng=0, **keywords))


def test_an_exact_rate_is_told_as_a_probability() -> None:
    certificate = hf.certify(MODEL, SELECTED, neighborhood=hf.distributions.Bernoulli(0.3), tolerance=0.05, rng=0)
    assert str(certificate).startswith(f"Stable in {percent(certificate.rate)} of cases: ")
    assert "Masks count by their probability." in certificate.explain()


def test_the_order_of_groups_names_no_other_draws() -> None:
    model = hf.mask_function(lambda masks: masks[:, 4] | (masks.sum(axis=1) > 4), n_features=12)
    trees = ([[0, 1, 2], [3, [4, 5]], [6, 7, 8, 9, 10, 11]], [[11, 10, 9, 8, 7, 6], [[5, 4], 3], [2, 0, 1]])
    first, second = (
        hf.certify(model, [0], radius=3, neighborhood=hf.distributions.Grouped(tree), tolerance=0.2, rng="canonical")
        for tree in trees
    )
    assert first == second
    assert first.neighborhood == "grouped([[0, 1, 2], [3, [4, 5]], [6, 7, 8, 9, 10, 11]])"


@pytest.mark.parametrize("probability", [0, 1])
def test_hard_certificates_of_certain_masks_are_about_that_mask_alone(probability: int) -> None:
    model = hf.mask_function(lambda masks: masks[:, 1] & ~masks.all(axis=1), n_features=4)
    hard = hf.certify_hard(model, [0, 1], neighborhood=hf.distributions.Bernoulli(probability), rng=0)
    assert (hard.method, hard.stable, hard.n_evaluated) == ("enumeration", probability == 0, 1)
    assert hf.recheck(model, hard).confirmed


def test_masks_in_the_order_of_columns_are_certified_as_any_others() -> None:
    class Columns(Half):
        def sample(self, selected: Any, n: int, rng: Any) -> Any:
            return np.asfortranarray(super().sample(selected, n, rng))

    result, same = (hf.certify(MANY, OF_MANY, neighborhood=distribution, rng=0) for distribution in (Columns(), Half()))
    assert result.rate == same.rate
    masks = Half().sample(OF_MANY, 30, np.random.default_rng(0))
    assert np.array_equal(hf.Evaluator(MANY)(np.asfortranarray(masks)), MANY(masks))


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        (forgetful, "must draw from `rng`, which it ignores: run `check_neighborhood` for details"),
        (half_forgetful, "must draw the same masks from the same `rng`"),
        (by_columns, "must draw the same masks in one batch as in several"),
    ],
)
def test_certify_tries_an_object_before_it_trusts_it(sample: Any, message: str) -> None:
    calls = []
    model = hf.mask_function(lambda masks: calls.append(len(masks)) or masks[:, 0], n_features=6)
    with pytest.raises(InvalidValueError, match=message):
        hf.certify(model, [0], neighborhood=Broken(sample=sample), rng=0)
    assert not calls


def test_no_object_is_asked_for_no_masks() -> None:
    class Counting(Half):
        def sample(self, selected: Any, n: int, rng: Any) -> Any:
            assert n > 0
            return super().sample(selected, n, rng)

    assert "it has no list to compare them with" in str(hf.distributions.check_neighborhood(Counting()))
    assert as_neighborhood(Counting())(OF_MANY, None).sample(0, np.random.default_rng(0)).shape == (0, 24)


def test_probabilities_of_32_bits_say_what_they_print() -> None:
    class Series:
        def __init__(self, values: Any) -> None:
            self.to_numpy = lambda: np.array(values)

    short = np.array([0.3, 0.1], dtype=np.float32)
    assert (
        hf.distributions.Bernoulli(np.float32(0.3)).name
        == hf.distributions.Bernoulli(np.array(0.3, dtype=np.float32)).name
        == "bernoulli(0.3)"
    )
    assert hf.distributions.Bernoulli(short).name == "bernoulli([0.3, 0.1])"
    assert hf.distributions.Weighted(Series([1, 2])).name == "weighted([1, 2])"
    assert hf.distributions.Weighted(Series([1.5, 2])).name == "weighted([1.5, 2.0])"


def test_sentences_name_a_radius_only_where_one_was_asked_for() -> None:
    assert "clamped" not in hf.certify(MODEL, SELECTED, neighborhood=hf.distributions.Bernoulli(0), rng=0).explain()
    assert (
        "clamped to 0"
        in hf.certify(MODEL, SELECTED, neighborhood=hf.distributions.Bernoulli(0), radius=2, rng=0).explain()
    )
    stable = hf.mask_function(lambda masks: masks[:, 0] | True, n_features=8)
    found = hf.certified_radius(stable, [0, 1], min_rate=0.9, neighborhood=hf.distributions.Bernoulli(0.3), rng=0)
    assert found.radius == 6
    assert "with probability 0.3 (at most 6) keeps" in str(found)


def test_radii_of_ones_own_masks_are_refused_with_what_to_use() -> None:
    with pytest.raises(InvalidValueError, match="Use `certify`, without a radius"):
        hf.certify_radii(MANY, OF_MANY, radii=[1, 2], neighborhood=Half(), rng=0)


def test_weighed_masks_are_not_counted_in_sentences_and_tables() -> None:
    distribution = hf.distributions.Bernoulli([0.5] * len(SELECTED))
    sentence = str(hf.certify(MODEL, SELECTED, neighborhood=distribution, tolerance=0.05, rng=0))
    assert sentence.startswith("Stable in ")
    assert " of 64 masks" not in sentence
    exact = hf.certify_probabilities(MODEL, SELECTED, probabilities=[0.1, 0.5], tolerance=0.05, rng=0)
    assert "agreed/" not in str(exact)
    assert str(exact).count("]     exact") == 2
    mixed = hf.certify_probabilities(MANY, OF_MANY, probabilities=[0, 0.5], rng=0)
    assert "agreed/drawn" in str(mixed)
    assert " exact" in str(mixed)
