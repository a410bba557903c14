"""What the paper prints and what holds instead: docs/errata.md, claim by claim.

Each printed claim that is false has a smallest counterexample, found by going through a family of
functions in order of size; the page quotes it. The corrected claims are checked on the same families
and on thousands of random functions.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from scipy.stats import binom

from holdfast import boolean
from holdfast.bounds import hoeffding_draws
from tests.helpers import boolean_oracles as naive
from tests.helpers.boolean_functions import mask_of, random_batches
from tests.helpers.boolean_oracles import Array, Batch

MARGINS = (1 / 8, 1 / 4, 1 / 2, 3 / 4)
KEEPS = (1 / 4, 1 / 2, 3 / 4)
PAGE = (Path(__file__).resolve().parents[2] / "docs/errata.md").read_text(encoding="utf-8")

Claim = Callable[[Batch, float, float], Array]
"""Which functions of a batch break a claim at a margin and a keep probability, Boolean (f,)."""


class Found(NamedTuple):
    """A counterexample: the first in the order of its family."""

    n: int
    n_values: int
    radius: int
    h: tuple[float, ...]
    selected: int
    margin: float
    keep: float


def functions(n: int, n_values: int) -> Array:
    """All functions with values 0, 1/(v−1), …, 1, those with the smallest sum first."""
    rows = np.array(list(product(np.linspace(0, 1, n_values), repeat=2**n)))
    return rows[np.lexsort((*rows.T[::-1], rows.sum(axis=1)))]


def family(largest: int = 2) -> Iterator[tuple[int, int, list[tuple[Batch, float, float]]]]:
    """Fewest features first, then fewest values; all explanations, radii, margins and keep probabilities."""
    for n, n_values in [(n, v) for n in range(1, largest + 1) for v in (2, 3, 5)]:
        batches = [
            Batch(functions(n, n_values), alpha, radius)
            for alpha in range(2**n)
            for radius in range(1, n - alpha.bit_count() + 1)
        ]
        yield n, n_values, [(b, margin, keep) for b in batches for margin in MARGINS for keep in KEEPS]


def smallest(claim: Claim) -> Found | None:
    """The first function that breaks the claim: fewest features, values, added features; smallest sum."""
    for n, n_values, members in family():
        found = []
        for batch, margin, keep in members:
            broken = np.flatnonzero(claim(batch, margin, keep))
            if len(broken):
                key = (batch.radius, int(broken[0]), batch.alpha.bit_count(), batch.alpha, margin, keep)
                found.append((key, tuple(batch.functions[broken[0]].tolist())))
        if found:
            (radius, _, _, alpha, margin, keep), h = min(found)
            return Found(n, n_values, radius, h, alpha, margin, keep)
    return None


AND = (0.0, 0.0, 0.0, 1.0)

PRINTED: dict[str, tuple[Claim, Found]] = {
    "difference": (
        lambda b, _, __: ~np.isclose(b.printed_moves(), b.moves(), rtol=1e-9, atol=1e-9).all(axis=1),
        Found(2, 2, 1, AND, 1, 1 / 8, 1 / 4),
    ),
    "rate bound": (
        lambda b, margin, _: margin * b.n_changed(margin) > b.printed_total(),
        Found(2, 2, 1, AND, 1, 1 / 8, 1 / 4),
    ),
    "smoothed bound": (
        lambda b, margin, keep: margin * b.smoothed(keep).n_changed(margin) > keep * b.printed_total(),
        Found(2, 2, 1, AND, 1, 1 / 8, 1 / 2),
    ),
    "smoothed implication": (
        lambda b, margin, keep: (
            (margin * b.n_changed(margin) <= b.printed_total())
            & (margin * b.smoothed(keep).n_changed(margin) > keep * b.printed_total())
        ),
        Found(2, 3, 1, (0.0, 0.0, 0.5, 1.0), 1, 1 / 2, 3 / 4),
    ),
    "λ times the conditional bound": (
        lambda b, margin, keep: margin * b.smoothed(keep).n_changed(margin) > keep * b.total(),
        Found(2, 2, 1, (0.0, 0.0, 1.0, 0.0), 1, 1 / 8, 1 / 4),
    ),
    "hard bound, some β": (
        lambda b, margin, _: (np.abs(b.printed_moves()) <= margin).any(axis=1) & (b.n_changed(margin) > 0),
        Found(1, 2, 1, (0.0, 1.0), 0, 1 / 8, 1 / 4),
    ),
    "hard bound, all β": (
        lambda b, margin, _: (np.abs(b.printed_moves()) <= margin).all(axis=1) & (b.n_changed(margin) > 0),
        Found(2, 2, 1, AND, 1, 1 / 8, 1 / 4),
    ),
    "smoothing improves the rate": (
        lambda b, margin, keep: b.smoothed(keep).n_changed(margin) > b.n_changed(margin),
        Found(2, 2, 1, (0.0, 0.0, 1.0, 0.0), 1, 1 / 8, 1 / 4),
    ),
}

CORRECTED: dict[str, Claim] = {
    "difference": lambda b, _, __: (
        ~np.isclose(
            [b.conditional()[:, [t & ~beta == 0 for t in b.sets]].sum(axis=1) for beta in b.near], b.moves().T
        ).all(axis=0)
    ),
    "rate bound": lambda b, margin, _: margin * b.n_changed(margin, strict=True) > b.total() + 1e-9,
    "smoothed, sharp": lambda b, margin, keep: (
        margin * b.smoothed(keep).n_changed(margin, strict=True) > b.smoothed(keep).total() + 1e-9
    ),
    "smoothed, termwise": lambda b, margin, keep: (
        margin * b.smoothed(keep).n_changed(margin, strict=True) > b.total_of_all(keep, "termwise") + 1e-9
    ),
    "smoothed, factor": lambda b, margin, keep: (
        margin * b.smoothed(keep).n_changed(margin, strict=True) > b.total_of_all(keep, "factor") + 1e-9
    ),
}


STATED = {
    "difference": "α",
    "rate bound": "αr",
    "smoothed bound": "αrγλ",
    "smoothed implication": "αrγλ",
    "λ times the conditional bound": "αrγλ",
    "hard bound, some β": "αrγ",
    "hard bound, all β": "αrγ",
    "smoothing improves the rate": "αrγλ",
}
"""Which of α, r, γ and λ the page gives with each counterexample; the claim fails whatever the others are."""

FRACTIONS = {1 / 8: "⅛", 1 / 4: "¼", 1 / 2: "½", 3 / 4: "¾"}


def stated_on_page(found: Found) -> dict[str, str]:
    selected = ", ".join(map(str, boolean.features_of(found.selected)))
    return {
        "α": f"α = {{{selected}}}" if selected else "α = ∅",
        "r": f"r = {found.radius}",
        "γ": f"γ = {FRACTIONS[found.margin]}",
        "λ": f"λ = {FRACTIONS[found.keep]}",
    }


def paragraph_of(name: str, found: Found) -> str:
    """The paragraph with the table of a counterexample, its white space made single."""
    section = re.search(rf"<!-- {re.escape(name)} -->(.*?)(?=<!-- |\n## |\Z)", PAGE, re.DOTALL)
    assert section is not None
    table = "`[" + ", ".join(f"{value:g}" for value in found.h) + "]`"
    return next(" ".join(text.split()) for text in section[1].split("\n\n") if table in text)


@pytest.mark.parametrize("name", PRINTED)
def test_the_smallest_counterexample_to_what_is_printed_is_the_one_on_the_page(name: str) -> None:
    claim, documented = PRINTED[name]
    assert smallest(claim) == documented
    paragraph, words = paragraph_of(name, documented), stated_on_page(documented)
    for letter in STATED[name]:
        assert words[letter] in paragraph, letter


@pytest.mark.parametrize("name", PRINTED)
def test_what_the_page_does_not_state_of_a_counterexample_does_not_matter(name: str) -> None:
    claim, found = PRINTED[name]
    batch = Batch(np.array([found.h]), found.selected, found.radius)
    margins = [found.margin] if "γ" in STATED[name] else [1e-3, *MARGINS, 0.999]
    keeps = [found.keep] if "λ" in STATED[name] else [0.0, *KEEPS, 1.0]
    assert all(claim(batch, margin, keep)[0] for margin in margins for keep in keeps)


def test_any_margin_below_one_breaks_the_rate_bound_and_one_does_not() -> None:
    claim, found = PRINTED["rate bound"]
    assert "any γ < 1" in paragraph_of("rate bound", found)
    assert not claim(Batch(np.array([found.h]), found.selected, found.radius), 1.0, 0.5)[0]


@pytest.mark.parametrize("name", CORRECTED)
def test_what_is_corrected_holds_throughout_the_families(name: str) -> None:
    assert smallest(CORRECTED[name]) is None


@pytest.mark.parametrize("name", [name for name in PRINTED if name != "hard bound, some β"])
def test_what_is_printed_fails_on_random_functions(name: str) -> None:
    claim, _ = PRINTED[name]
    broken = [claim(batch, margin, lam) for batch, _, margin, lam in random_batches(30, 100, seed=0)]
    assert sum(map(len, broken)) >= 3000
    assert np.concatenate(broken).any()


@pytest.mark.parametrize("name", CORRECTED)
def test_what_is_corrected_holds_on_thousands_of_random_functions(name: str) -> None:
    broken = [CORRECTED[name](batch, margin, lam) for batch, _, margin, lam in random_batches(40, 100, seed=1)]
    assert sum(map(len, broken)) >= 4000
    assert not np.concatenate(broken).any()


def test_the_printed_hard_radius_is_too_large_and_the_corrected_one_is_the_true_one() -> None:
    """Even read as "for all β ⊇ α": with h̃ it over-certifies, with g̃ it is the hard radius."""
    n_too_large = 0
    for batch, selected, margin, _ in random_batches(30, 20, seed=2):
        free = batch.n - batch.alpha.bit_count()
        widest = Batch(batch.functions, batch.alpha, free)
        for row, h in enumerate(batch.functions):
            sizes = np.array([(beta & ~batch.alpha).bit_count() for beta in widest.near])
            printed = _radius(np.abs(widest.printed_moves()[row]) < margin, sizes)
            parts = [[t & ~beta == 0 for t in widest.sets] for beta in widest.near]
            moves = np.array([widest.conditional()[row, part].sum() for part in parts])
            true = boolean.hard_radius(h, selected, margin=margin)
            assert true == _radius(np.abs(moves) < margin, sizes)
            n_too_large += printed > true
    assert n_too_large > 20


def _radius(fine: Array, sizes: Array) -> int:
    """The largest r such that all masks at distance at most r are fine."""
    return int(sizes[~fine].min()) - 1 if not fine.all() else int(sizes.max())


def radius_over_all_masks(h: naive.Function, alpha: naive.Set, margin: float, move: Callable[..., float]) -> int | None:
    """The largest r ≤ m with |move| ≤ γ for all β, also such as drop selected features, with |β∖α| ≤ r; None if even
    r = 0 fails."""
    free = naive.n_of(h) - len(alpha)
    spoiled = [len(beta - alpha) for beta in naive.every(h) if abs(move(h, alpha, beta)) > margin]
    largest = min(spoiled, default=free + 1) - 1
    return largest if largest >= 0 else None


def true_difference(h: naive.Function, alpha: naive.Set, beta: naive.Set) -> float:
    return naive.at(h, beta) - naive.at(h, alpha)


def test_masks_that_drop_selected_features_spoil_the_form_of_the_proof_and_not_the_printed_one() -> None:
    h, alpha = [0.0, 1.0], frozenset({0})
    assert radius_over_all_masks(h, alpha, 0.5, naive.printed_difference) == 0
    assert radius_over_all_masks(h, alpha, 0.5, true_difference) is None
    assert boolean.hard_radius(h, [True], margin=0.5) == 0
    text = " ".join(PAGE.split())
    assert "for `[0, 1]`, α = {0} and γ = ½, β = ∅ has |β∖α| = 0. Its sum is empty and the bracket true" in text


def test_the_printed_bracket_is_the_same_for_all_masks_and_for_those_above_the_explanation() -> None:
    rng = np.random.default_rng(6)
    spoiled = 0
    for _ in range(200):
        n = int(rng.integers(1, 5))
        h, row = rng.random(2**n).tolist(), int(rng.integers(0, 2**n))
        alpha = frozenset(boolean.features_of(row))
        above = [abs(naive.printed_difference(h, alpha, beta)) for beta in naive.additions(n, alpha, n)]
        sizes = [len(beta - alpha) for beta in naive.additions(n, alpha, n)]
        restricted = min((k for k, move in zip(sizes, above, strict=True) if move > 0.3), default=n - len(alpha) + 1)
        assert radius_over_all_masks(h, alpha, 0.3, naive.printed_difference) == restricted - 1
        spoiled += radius_over_all_masks(h, alpha, 0.3, true_difference) is None
    assert spoiled > 50


def test_with_equality_allowed_the_hard_radius_is_sound_but_need_not_be_maximal() -> None:
    """[0, ½] at ∅ with γ = ½: the corrected r⋆ is 0, and with ≤ radius 1 is stable as well."""
    h, nothing = [0.0, 0.5], frozenset[int]()
    assert boolean.hard_radius(h, [False], margin=0.5) == 0
    assert naive.rate(h, nothing, 1, 0.5, strict=True) < 1
    assert naive.rate(h, nothing, 1, 0.5, strict=False) == 1
    for batch, _, margin, __ in random_batches(20, 50, seed=7):
        assert (batch.n_changed(margin) <= batch.n_changed(margin, strict=True)).all()
    assert "only the r⋆ of the hard bound need not be the largest radius then" in " ".join(PAGE.split())


def test_smoothing_may_lower_the_rate_with_nothing_selected_too() -> None:
    xor, nothing = [0, 1, 1, 0], [False, False]
    before = boolean.exact_rate(xor, nothing, radius=2, margin=1 / 4)
    assert boolean.exact_rate(boolean.mask_operator(xor, 1 / 2), nothing, radius=2, margin=1 / 4) < before


# -- w_k ----------------------------------------------------------------------------------------------


def chance_of_size(m: int, radius: int, k: int) -> Fraction:
    """P[|β∖α| ≥ k], what the paper calls w_k."""
    sizes = [math.comb(m, j) for j in range(radius + 1)]
    return Fraction(sum(sizes[k:]), sum(sizes))


def test_the_formula_of_w_k_is_not_its_label_and_is_the_one_needed() -> None:
    differing = []
    for m, radius in [(features, r) for features in range(1, 6) for r in range(1, features + 1)]:
        for k in range(1, radius + 1):
            formula = boolean.inclusion_probabilities(m, radius)[k]
            counted = naive.inclusion(m, frozenset(), radius, frozenset(range(k)))
            assert math.isclose(formula, counted)
            if not math.isclose(formula, chance_of_size(m, radius, k)):
                differing.append((m, radius, k))
    assert differing[0] == (2, 1, 1)
    assert chance_of_size(2, 1, 1) == Fraction(2, 3)
    assert math.isclose(boolean.inclusion_probabilities(2, 1)[1], 1 / 3)
    assert round(boolean.inclusion_probabilities(7, 4)[2], 3) == 0.162
    assert round(float(chance_of_size(7, 4, 2)), 3) == 0.919


# -- the AND example ------------------------------------------------------------------------------------


@pytest.mark.parametrize("lam", [0.0, 0.25, 0.5, 0.75, 1.0])
def test_the_spectrum_of_a_masked_and_has_alternating_signs(lam: float) -> None:
    coefficients = boolean.fourier(AND)
    assert coefficients.tolist() == [0.25, -0.25, -0.25, 0.25]
    masked = boolean.mask_operator(coefficients, lam, basis="fourier")
    assert np.allclose(masked, lam**2 / 4 * np.array([1, -1, -1, 1]), atol=1e-16)
    assert np.allclose(masked, naive.fourier(naive.mask_operator(AND, lam)), atol=1e-16)
    printed = np.array([(2 - lam) ** 2, -lam * (2 - lam), -lam * (2 - lam), lam**2]) / 4
    assert np.allclose(masked, printed) == (lam == 1)
    # The printed numbers come from ĥ = ¼ throughout, signs of the middle ones apart.
    unsigned = boolean.mask_operator(np.full(4, 0.25), lam, basis="fourier")
    assert np.allclose(np.abs(printed), unsigned)


# -- margins and decision boundaries ----------------------------------------------------------------------


def predictions(share: Array) -> Array:
    """Class 1 if its probability is above one half; a tie goes to class 0."""
    return share > 0.5


def broken_by_smoothing(batch: Batch, keep: float, *, own_margin: bool) -> Array:
    """Functions (probability of class 1) whose smoothed prediction changes within the margin."""
    smoothed = batch.smoothed(keep)
    reference = smoothed.functions if own_margin else batch.functions
    margin = np.abs(reference[:, [batch.alpha]] - 0.5)
    changed = predictions(smoothed.functions[:, batch.near]) != predictions(smoothed.functions[:, [batch.alpha]])
    return (changed & (np.abs(smoothed.moves()) < margin)).any(axis=1)


def test_a_smoothed_model_has_a_margin_of_its_own() -> None:
    found = smallest(lambda b, _, keep: broken_by_smoothing(b, keep, own_margin=False))
    assert found == Found(2, 2, 1, (0.0, 1.0, 1.0, 0.0), 1, 1 / 8, 3 / 4)
    assert "`[0, 1, 1, 0]`, as the probability of class 1, α = {0} and λ = ¾" in " ".join(PAGE.split())
    assert smallest(lambda b, _, keep: broken_by_smoothing(b, keep, own_margin=True)) is None
    for batch, _, _, lam in random_batches(30, 100, seed=3):
        assert not broken_by_smoothing(batch, lam, own_margin=True).any()


def test_a_move_of_exactly_the_margin_may_change_the_prediction() -> None:
    def broken(batch: Batch, *, strict: bool) -> Array:
        margin = np.abs(batch.functions[:, [batch.alpha]] - 0.5)
        within = np.abs(batch.moves()) < margin if strict else np.abs(batch.moves()) <= margin
        kept = predictions(batch.functions[:, batch.near]) == predictions(batch.functions[:, [batch.alpha]])
        return (within & ~kept).any(axis=1)

    found = smallest(lambda b, _, __: broken(b, strict=False))
    assert found == Found(1, 3, 1, (1.0, 0.5), 0, 1 / 8, 1 / 4)
    words = "Let `[1, 0.5]` be the probability of class 1 of two, ties going to class 0, and α = ∅. Then γ = ½"
    assert words in " ".join(PAGE.split())
    assert smallest(lambda b, _, __: broken(b, strict=True)) is None


def simplex(n_classes: int, parts: int) -> Iterator[tuple[int, ...]]:
    """Probability vectors with denominators ``parts``, as counts."""
    return (p for p in product(range(parts + 1), repeat=n_classes) if sum(p) == parts)


def half_gap_fails(n_classes: int, parts: int) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Two vectors whose top score moved by less than half the gap, with another top class and no tie."""
    for p, q in product(simplex(n_classes, parts), repeat=2):
        first, second = sorted(p, reverse=True)[:2]
        ahead = sorted(q, reverse=True)
        top = p.index(first)
        if first > second and 2 * abs(q[top] - first) < first - second and ahead[0] > ahead[1] and q[top] != ahead[0]:
            return p, q
    return None


def test_half_the_gap_is_no_margin_for_one_score_of_three_classes() -> None:
    assert all(half_gap_fails(2, parts) is None for parts in range(1, 13))
    found = next((parts, pair) for parts in range(1, 13) if (pair := half_gap_fails(3, parts)))
    assert found == (7, ((2, 2, 3), (0, 4, 3)))
    assert "(2, 2, 3)/7 at ∅ and (0, 4, 3)/7" in PAGE


def test_half_the_gap_is_a_margin_if_every_score_keeps_within_it() -> None:
    rng = np.random.default_rng(4)
    for _ in range(3000):
        p, move = rng.dirichlet(np.ones(4)), rng.uniform(-1, 1, 4)
        gap = np.diff(np.sort(p)[-2:])[0]
        assert (p + move * gap / 2).argmax() == p.argmax()


# -- variance ------------------------------------------------------------------------------------------


def test_the_second_variance_inequality_needs_no_centring_and_gains_a_factor_with_it() -> None:
    rng = np.random.default_rng(5)
    for _ in range(3000):
        n = int(rng.integers(1, 6))
        h, lam = rng.standard_normal(2**n), rng.uniform(0.05, 1)
        p = lam * rng.uniform(0.02, 0.98)
        factor = (lam - p) / (1 - p)
        before, after = boolean.biased(h, p), boolean.biased(boolean.mask_operator(h, lam), p / lam)
        assert (after**2).sum() <= (before**2).sum() + 1e-9
        assert (after[1:] ** 2).sum() <= factor * (before[1:] ** 2).sum() + 1e-9
        assert math.isclose(after[0], before[0], abs_tol=1e-9)


def test_at_lambda_equal_to_p_the_masked_basis_function_is_no_multiple_of_anything() -> None:
    """M_p χ_S^p(α) = Π p(1 − α_i)/σ is not zero, though the factor on the right of the lemma is."""
    p = 0.3
    table = [p / math.sqrt(p - p * p), (p - 1) / math.sqrt(p - p * p)]
    masked = boolean.mask_operator(table, p)
    assert masked[0] == table[0] > 0
    assert abs(masked[1]) < 1e-15


# -- a curve read as a whole ---------------------------------------------------------------------------


def chance_of_a_miss(m: int, n_draws: int) -> tuple[float, tuple[int, ...]]:
    """Largest P(some radius 1 … m misses by more than 1/10), with separate draws per radius, over all functions
    of m unselected features; and the agreeing masks at each distance that reach it. Only the numbers that agree
    within each distance matter: all of them are gone through by dynamic programming."""
    rings = [math.comb(m, k) for k in range(m + 1)]
    best: dict[int, tuple[float, tuple[int, ...]]] = {1: (1.0, ())}
    for radius in range(1, m + 1):
        size = sum(rings[: radius + 1])
        hit = [_chance_of_a_hit(agreed, size, n_draws) for agreed in range(size + 1)]
        grown: dict[int, tuple[float, tuple[int, ...]]] = {}
        for agreed, (chance, path) in best.items():
            for more in range(rings[radius] + 1):
                step = (chance * hit[agreed + more], (*path, more))
                if agreed + more not in grown or step < grown[agreed + more]:
                    grown[agreed + more] = step
        best = grown
    chance, path = min(best.values())
    return 1 - chance, path


def _chance_of_a_hit(agreed: int, size: int, n_draws: int) -> float:
    """P(|k/N − agreed/size| ≤ 1/10), the condition decided in whole numbers."""
    hits = [k for k in range(n_draws + 1) if 10 * abs(k * size - n_draws * agreed) <= n_draws * size]
    return float(binom.cdf(hits[-1], n_draws, agreed / size) - binom.cdf(hits[0] - 1, n_draws, agreed / size))


def test_a_guarantee_per_radius_is_none_for_the_curve() -> None:
    n_draws = hoeffding_draws(Fraction(1, 10), Fraction(9, 10))
    assert n_draws == 150
    chances = [chance_of_a_miss(m, n_draws) for m in range(1, 9)]
    assert [chance > 0.1 for chance, _ in chances] == [False] * 7 + [True]
    assert ", ".join(map(str, chances[-1][1])) in PAGE
    assert f"{chances[-1][0]:.3f}" in PAGE


def test_dividing_the_risk_by_the_number_of_radii_is_enough() -> None:
    n_draws = hoeffding_draws(Fraction(1, 10), 1 - Fraction(1, 10) / 8)
    assert n_draws == 254
    assert chance_of_a_miss(8, n_draws)[0] < 0.1


# -- the radius of MuS -----------------------------------------------------------------------------------


def mus_fails(n: int, *, strict: bool) -> list[tuple[tuple[float, ...], float]]:
    """Two-class 0/1 scores and keep probabilities for which a radius within gap/(2λ) is unsafe for M_λf."""
    found = []
    for share, lam in product(functions(n, 2), (1 / 4, 1 / 2, 3 / 4, 1.0)):
        scores = boolean.mask_operator(np.stack([1 - share, share], axis=1), lam)
        for alpha in range(2**n):
            gap = float(np.abs(np.diff(scores[alpha]))[0])
            radii = [r for r in range(n + 1) if (2 * lam * r < gap if strict else 2 * lam * r <= gap)]
            safe = boolean.hard_radius(scores, mask_of(alpha, n), agree="same_top_class")
            if radii and min(radii[-1], n - alpha.bit_count()) > safe:
                found.append((tuple(share.tolist()), lam))
    return found


def test_the_radius_of_mus_is_unsafe_at_equality_only() -> None:
    assert mus_fails(1, strict=False)[0] == ((1.0, 0.0), 0.5)
    assert "f = (0, 1) at ∅ and (1, 0) at {0}, λ = ½" in " ".join(PAGE.split())
    assert all(not mus_fails(n, strict=True) for n in (1, 2, 3))


# -- the page ----------------------------------------------------------------------------------------------


def test_the_page_has_every_counterexample_of_this_file() -> None:
    marks = set(re.findall(r"<!-- (.*?) -->", PAGE))
    assert set(PRINTED) <= marks


def test_the_three_forms_of_the_smoothed_bound_are_three() -> None:
    h, selected = [0, 0.5, 0.5, 0.75], [True, False]
    bounds = [
        boolean.smoothed_stability_bound(h, selected, radius=1, margin=0.5, keep_probability=0.5, form=form)
        for form in ("sharp", "termwise", "factor")
    ]
    assert bounds[0] > bounds[1] > bounds[2]
