"""Lookup tables whose rates sit where a procedure fails most often, and how many failures are too many.

Simulations use fixed seeds and an exact binomial threshold: a procedure that fails with exactly its
stated risk is above ``most_failures`` with probability at most ``RARE``; one that is right never is
by bad luck on another day.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlog1py, xlogy
from scipy.stats import binom

from holdfast import Certificate, Evaluator, MaskedModel, lookup_table
from tests.helpers.contracts import bits, chi_square, codes
from tests.helpers.fakes import all_masks
from tests.helpers.oracles import Bits, end_probabilities, rings

RARE = 1e-4

SELECTED = np.arange(12) < 3
"""Nine of twelve features are unselected: 512 masks, more than any plan here draws; at most 126 of one size."""

ALMOST_NOTHING = np.arange(12) < 1
"""Eleven features are unselected: up to 462 masks of one size."""

Paths = dict[tuple[int, int], int]


def most_failures(n_runs: int, risk: Any) -> int:
    """The smallest c with P(Binomial(n_runs, risk) > c) ≤ RARE."""
    return int(binom.isf(RARE, n_runs, float(risk)))


def is_plausible(n_failures: int, n_runs: int, probability: Any) -> bool:
    """Whether a failure probability, known exactly, gives so few and so many failures more than rarely."""
    few, many = (getattr(binom, tail)(RARE, n_runs, float(probability)) for tail in ("ppf", "isf"))
    return bool(few <= n_failures <= many)


def ring_sizes(selected: Any, kind: str = "additions") -> list[int]:
    """How many masks there are at each distance."""
    return [len(ring) for ring in rings(selected, kind)]


def ball_sizes(selected: Any, kind: str = "additions") -> list[int]:
    """How many masks there are within each distance."""
    return np.cumsum(ring_sizes(selected, kind)).tolist()


# -- tables -----------------------------------------------------------------------------------------


def table_of_share(share: float, *, seed: int = 0, n_features: int = 12, selected: Any = SELECTED) -> MaskedModel:
    """Labels that are "same" for about this share of all masks, ``selected`` among them."""
    same = np.random.default_rng(seed).random(2**n_features) < share
    same[int(selected @ (1 << np.arange(n_features)))] = True
    return lookup_table(np.where(same, "same", "other"), n_features=n_features)


def table_of_rings(selected: Any, agreeing: Sequence[int], *, kind: str = "additions", seed: int = 0) -> MaskedModel:
    """A table in which ``agreeing[k]`` of the masks at distance k keep the prediction of ``selected``.

    Which of them do is random; every mask that is not reachable has the other label.
    """
    rng, labels = np.random.default_rng(seed), np.zeros(2 ** len(selected), dtype=int)
    for ring, n_agreed in zip(rings(selected, kind), agreeing, strict=False):
        labels[rng.permutation(codes(sorted(ring)))[:n_agreed]] = 1
    return lookup_table(labels, n_features=len(selected))


def table_of_balls(selected: Any, agreeing: Sequence[int], *, kind: str = "additions", seed: int = 0) -> MaskedModel:
    """A table in which ``agreeing[r]`` of the masks within distance r keep the prediction."""
    return table_of_rings(selected, np.diff([0, *agreeing]).tolist(), kind=kind, seed=seed)


def constant_rate(selected: Any, rate: Any, *, kind: str = "additions") -> list[int]:
    """Agreements within each distance that make every rate about ``rate`` (distance 0 always agrees)."""
    return [max(1, round(rate * size)) for size in ball_sizes(selected, kind)]


def explanations(*texts: str) -> dict[str, NDArray[np.bool_]]:
    """Named a, b, c, … in order."""
    return {name: bits(text) for name, text in zip("abcdef", texts, strict=False)}


def table_of_explanations(targets: Mapping[Bits, tuple[int, int]], *, base: float = 0.5, seed: int = 0) -> MaskedModel:
    """A table in which, for each explanation and its (radius, count), so many masks within agree.

    All explanations get the label 1. Masks that several of them reach are labelled at random, 1 with
    probability ``base``; the others are then labelled so that the counts come out.
    """
    explanations = list(targets)
    rng, n = np.random.default_rng(seed), len(explanations[0])
    labels = (rng.random(2**n) < base).astype(int)
    labels[codes(explanations)] = 1
    reach = {one: codes(sorted(set().union(*rings(one)[: targets[one][0] + 1]))) for one in explanations}
    taken = Counter(code for one in explanations for code in reach[one].tolist())
    for one in explanations:
        own = np.array([code for code in reach[one] if taken[code] == 1 and code not in codes(explanations)])
        shared = np.setdiff1d(reach[one], own)
        n_needed = targets[one][1] - int(labels[shared].sum())
        assert 0 <= n_needed <= len(own), f"no table has these counts: {n_needed} of {len(own)}"
        labels[own] = 0
        labels[rng.permutation(own)[:n_needed]] = 1
    return lookup_table(labels, n_features=n)


def around(certificate: Certificate) -> tuple[Fraction, Fraction]:
    """What the counts alone say: the rate ± tolerance, or the rate if it is exact."""
    share = Fraction(certificate.n_agreed, certificate.n_evaluated)
    slack = Fraction(0) if certificate.exact else Fraction(repr(certificate.tolerance))
    return max(Fraction(0), share - slack), min(Fraction(1), share + slack)


def remembered(model: MaskedModel) -> Evaluator:
    """The table with every mask asked in advance: thousands of seeded runs cost no model time."""
    evaluator = Evaluator(model)
    evaluator(all_masks(model.n_features))
    return evaluator


# -- the hardest rates of a stopping design ---------------------------------------------------------


def misses_by_count(paths: Paths, tolerance: Fraction, size: int, *, only_below: bool = False) -> NDArray[np.float64]:
    """P(|k/n - a/size| > tolerance) for a = 0, …, size; which ends miss is decided in whole numbers.

    ``only_below`` counts the ends whose k/n is too small.
    """
    n, k = np.array(list(paths)).T
    log_paths = np.array([math.log(count) for count in paths.values()])
    a = np.arange(size + 1)[:, None]
    gap = a * n - k * size
    missed = (gap if only_below else np.abs(gap)) * tolerance.denominator > tolerance.numerator * n * size
    p = np.exp(log_paths + xlogy(k, a / size) + xlog1py(n - k, -a / size))
    return np.asarray((p * missed).sum(axis=1))


def hardest_balls(
    selected: Any,
    wanted: Mapping[int, tuple[float, float]],
    paths: Paths,
    tolerance: Fraction,
    *,
    kind: str = "additions",
) -> list[int]:
    """Agreements within each distance; ``wanted`` names, by radius, between which two rates to stay.

    At those radii the rate is the one, of all that a table can have, that the design misses most often.
    """
    sizes, chosen = ball_sizes(selected, kind), [1]
    for r in range(1, len(sizes)):
        low, high = wanted[min([key for key in wanted if key >= r], default=max(wanted))]
        options = np.arange(chosen[-1], chosen[-1] + sizes[r] - sizes[r - 1] + 1)
        outside = np.maximum(low - options / sizes[r], options / sizes[r] - high).clip(0)
        options = options[outside == outside.min()]
        chosen.append(int(options[misses_by_count(paths, tolerance, sizes[r])[options].argmax()]))
    return chosen


def end_p_value(ends: Counter[tuple[int, int]], paths: Paths, rate: Fraction) -> float:
    """Chi-square of where runs ended against the exact stopping distribution of independent draws.

    Ends that are expected fewer than five times are counted together.
    """
    distribution = end_probabilities(paths, rate)
    assert ends.keys() <= distribution.keys(), "ended where the design cannot stop"
    n_runs = sum(ends.values())
    common = [end for end, p in distribution.items() if p * n_runs >= 5]
    expected = [float(distribution[end] * n_runs) for end in common]
    observed = [ends[end] for end in common]
    return chi_square([*observed, n_runs - sum(observed)], [*expected, n_runs - sum(expected)])
