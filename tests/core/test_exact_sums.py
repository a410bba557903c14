"""Sums of trees made by hand, full of ties: counts, nearest changes and scores are those of enumeration."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from holdfast import mask_function
from holdfast.agreement import as_agreement
from holdfast.exact import ensembles
from holdfast.exact.countable import Counts, Flips, bits_of, positions_in
from holdfast.exact.ensembles import MaskScorer, TreeEnsemble, merged_trees
from holdfast.exact.limits import SumScoring
from holdfast.exact.trees import CountableTree, Leaf, fourier_of, merged_cubes, monotone_of
from tests.helpers.exact_oracles import KINDS, Enumerated, check_against_enumeration, check_nearest


def random_tree(rng: Any, n_features: int, depth: int, first_node: int) -> list[Leaf]:
    """A random decision tree over masks: its leaves, whose nodes are numbered from ``first_node``."""
    leaves: list[Leaf] = []

    def grow(shown: int, hidden: int, room: int) -> None:
        free = [i for i in range(n_features) if not (shown | hidden) >> i & 1]
        if room == 0 or not free or rng.random() < 0.15:
            leaves.append(Leaf(shown, hidden, first_node + len(leaves)))
            return
        bit = 1 << int(rng.choice(free))
        grow(shown | bit, hidden, room - 1)
        grow(shown, hidden | bit, room - 1)

    grow(0, 0, depth)
    return leaves


def raw_scores(trees: Any, values: Any, base: Any, masks: Any) -> Any:
    """The sums by the definition: for each mask, the one leaf of each tree whose conditions hold."""
    sums = np.tile(np.asarray(base, dtype=float), (len(masks), 1))
    for row, mask in enumerate(masks):
        shown = sum(1 << i for i, on in enumerate(mask) if on)
        for tree in trees:
            (leaf,) = [leaf for leaf in tree if leaf.shown & shown == leaf.shown and not leaf.hidden & shown]
            sums[row] += values[leaf.node]
    return sums


def random_ensemble(seed: int, most_features: int = 8) -> tuple[Any, TreeEnsemble, Any, str]:
    """A masked model, the same as an ensemble, an explanation and an agreement; values are small whole numbers."""
    rng = np.random.default_rng(seed)
    n, n_raw = int(rng.integers(1, most_features)), int(rng.integers(1, 4))
    trees: list[list[Leaf]] = []
    for _ in range(int(rng.integers(1, 7))):
        trees.append(random_tree(rng, n, int(rng.integers(0, 5)), sum(map(len, trees))))
    n_leaves = sum(map(len, trees))
    scale = rng.choice([1.0, 0.1])  # sums of tenths round
    values = scale * rng.integers(-2, 3, size=(n_leaves, n_raw))
    base = scale * rng.integers(-1, 2, size=n_raw)
    link = "identity" if n_raw > 1 else str(rng.choice(["identity", "signed"]))
    scoring = SumScoring(link, n_raw, divisor=int(rng.integers(1, 4)) if link == "identity" else 1)
    model = mask_function(lambda masks: scoring.outputs(raw_scores(trees, values, base, masks)), n_features=n)
    scorer = MaskScorer.of(trees, values, n, base=base)
    exact_base = [Fraction(float(part)) for part in base]
    ensemble = TreeEnsemble(model, [trees], values, exact_base, scoring, (scorer,))
    options = ["same_top_class"] if n_raw > 1 or link == "signed" else []
    if n_raw == 1:
        options += ["same_side(0.0)", "within(1.0)", "within_percent(50.0)"]
    return model, ensemble, rng.random(n) < 0.5, str(rng.choice(options))


@pytest.mark.parametrize("batch", range(8))
def test_counts_of_sums_full_of_ties_are_those_of_enumeration(batch):
    for seed in range(25 * batch, 25 * batch + 25):
        model, ensemble, selected, agree = random_ensemble(seed)
        check_against_enumeration(ensemble, model, selected, agree)


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(10))
def test_counts_of_larger_sums_are_those_of_enumeration(batch):
    for seed in range(5000 + 30 * batch, 5030 + 30 * batch):
        model, ensemble, selected, agree = random_ensemble(seed, 13)
        check_against_enumeration(ensemble, model, selected, agree)


@pytest.mark.parametrize("max_nodes", [None, 0, 2, 8])
def test_a_search_contains_the_truth_wherever_it_stops(max_nodes, monkeypatch):
    monkeypatch.setattr(ensembles, "_QUICK_TABLE", 0)
    monkeypatch.setattr(ensembles, "_TABLE_WORK", 0)
    n_searched = 0
    for seed in range(300, 380):
        model, ensemble, selected, agree = random_ensemble(seed)
        known = Enumerated(model)
        reference = known.output(selected)
        limits = {} if max_nodes is None else {"max_nodes": max_nodes}
        for kind in KINDS:
            agreed, sizes = known.truth(selected, kind, agree, reference)
            nearest = check_nearest(ensemble, known, selected, kind, agree, reference, agreed, sizes, **limits)
            n_searched += nearest.method == "branch and bound"
    assert n_searched > 20


def test_a_search_out_of_time_says_what_it_cleared(monkeypatch):
    monkeypatch.setattr(ensembles, "_QUICK_TABLE", 0)
    monkeypatch.setattr(ensembles, "_TABLE_WORK", 0)
    n_open = 0
    for seed in range(300, 340):
        model, ensemble, selected, agree = random_ensemble(seed)
        judge, reference = as_agreement(agree), model(selected[None])[0]
        nearest = ensemble.nearest_change(selected, "additions", judge, reference, seconds=0.0)
        n_open += not nearest.proven
    assert n_open > 0


def test_masks_are_scored_as_by_the_definition():
    for seed in range(40):
        model, ensemble, _, _ = random_ensemble(seed, 20)
        masks = np.random.default_rng(seed).random((30, model.n_features)) < 0.5
        assert (ensemble(masks) == model(masks)).all()
        assert (ensemble(masks[:1]) == model(masks[:1])).all()


def test_a_feature_that_moves_all_scores_alike_matters_where_rounding_decides():
    # 0.1 + 0.2 is larger than 0.3 for floats, but 0.1 + 0.2 + 1 is not larger than 0.3 + 1.
    trees = [[Leaf(0, 0, 0)], [Leaf(1, 0, 1), Leaf(0, 1, 2)]]
    values, base = np.array([[0.0, 0.2], [1.0, 1.0], [0.0, 0.0]]), np.array([0.3, 0.1])
    scoring = SumScoring("identity", 2)
    model = mask_function(lambda masks: raw_scores(trees, values, base, masks), n_features=2)
    scorer = MaskScorer.of(trees, values, 2, base=base)
    ensemble = TreeEnsemble(model, [trees], values, [Fraction(0.3), Fraction(0.1)], scoring, (scorer,))
    assert model(np.array([[False, False], [True, False]])).argmax(axis=1).tolist() == [1, 0]
    check_against_enumeration(ensemble, model, np.array([False, False]), "same_top_class")


def test_merged_trees_have_the_same_sums():
    rng = np.random.default_rng(0)
    for seed in range(40):
        _, ensemble, _, _ = random_ensemble(seed, 12)
        (trees,) = ensemble.fills
        n = ensemble.n_features
        column = np.zeros((len(ensemble.values), 3))
        for tree in trees:
            score = int(rng.integers(3))
            nodes = [leaf.node for leaf in tree]
            column[nodes, score] = rng.integers(-3, 4, size=len(nodes))
        merged, values = merged_trees(trees, column)
        masks = rng.random((20, n)) < 0.5
        assert len(merged) <= len(trees)
        assert (raw_scores(merged, values, np.zeros(3), masks) == raw_scores(trees, column, np.zeros(3), masks)).all()


def test_trees_that_add_to_several_scores_are_left_as_they_are():
    trees = [[Leaf(1, 0, 0), Leaf(0, 1, 1)]] * 2
    merged, values = merged_trees(trees, np.ones((2, 2)))
    assert len(merged) == 2
    assert values.shape == (2, 2)


def test_trees_are_not_merged_beyond_one_word():
    trees = [[(1 << i, 0, 1), (0, 1 << i, 0)] for i in range(8)]
    assert [len(tree) for tree in merged_cubes(trees)] == [64, 4]


def test_sparse_coefficients_rebuild_the_tree():
    rng = np.random.default_rng(0)
    for _ in range(30):
        n = int(rng.integers(1, 7))
        leaves = random_tree(rng, n, 4, 0)
        values = rng.integers(-3, 4, size=len(leaves)).astype(float)
        monotone, fourier = monotone_of(leaves, values), fourier_of(leaves, values)
        for index in range(2**n):
            (own,) = [leaf.node for leaf in leaves if leaf.shown & index == leaf.shown and not leaf.hidden & index]
            assert sum(weight for term, weight in monotone.items() if term & index == term) == values[own]
            signed = sum((-1) ** (term & index).bit_count() * weight for term, weight in fourier.items())
            assert signed == pytest.approx(values[own], abs=1e-12)


def test_counts_answer_for_radii_rings_and_the_worst_size():
    counts = Counts(agreed=(1, 3, 2), undecided=(0, 0, 1), sizes=(1, 4, 6), method="table of all sums")
    assert counts.rate(1) == Fraction(4, 5)
    assert counts.rate(2, 2) == Fraction(1, 3)
    assert counts.rate(9) == counts.rate(2)
    assert counts.largest_rate(2) == Fraction(7, 11)
    assert counts.worst_size(2) == Fraction(1, 3)
    assert counts.is_exact_within(1)
    assert not counts.exact


def test_nothing_to_flip_leaves_distance_zero():
    tree = CountableTree(None, [Leaf(1, 0, 0), Leaf(0, 1, 1)], np.array([[0, 1], [1, 0]]))  # type: ignore[arg-type]
    everything = np.array([True])
    counts = tree.count(everything, "additions", as_agreement("same_top_class"), np.array([0, 1]))
    assert (counts.agreed, counts.sizes) == ((1,), (1,))
    assert counts.worst_size(3) == 1
    nearest = tree.nearest_change(everything, "additions", as_agreement("same_top_class"), np.array([0, 1]))
    assert nearest.proven
    assert nearest.distance is None


def test_bits_and_positions_are_inverse():
    positions = [0, 5, 63, 64, 200]
    assert positions_in(bits_of(positions)) == positions
    flips = Flips.of(np.arange(70) % 2 == 0, "swaps")
    assert [len(pool) for pool in flips.pools] == [35, 35]
