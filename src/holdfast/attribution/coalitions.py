"""A number of features and a budget → pairs of masks and complements, with Shapley kernel weights.

Sizes are strata: each gets a number of pairs in proportion to the kernel's total weight of that size,
those that would get all their pairs are evaluated completely, and single features always are. Within
a size pairs are drawn uniformly without replacement, and weighted by the expected share of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from holdfast.attribution.task import Numbers
from holdfast.types import Masks

_MANY = 1 << 53
"""No budget comes near; whole numbers up to it are exact as floats."""


@dataclass(frozen=True)
class Drawn:
    """One mask of each pair (p, n), the weight of each pair, and the share of its size that was to be drawn."""

    masks: Masks
    weights: Numbers
    shares: Numbers


def draw_coalitions(n_features: int, n_pairs: int, rng: np.random.Generator) -> Drawn:
    """Distinct pairs of a mask and its complement, n_pairs of them, single features first."""
    expected, there = allocate(n_features, n_pairs), pairs_by_size(n_features)
    counts = _round_fairly(expected, rng)
    sizes = zip(range(1, n_features), there.tolist(), counts.tolist(), strict=False)
    masks = [_draw_size(n_features, size, int(n_there), count, rng) for size, n_there, count in sizes if count]
    weights, shares = size_weights(n_features) / expected, expected / there
    return Drawn(np.concatenate(masks), np.repeat(weights, counts), np.repeat(shares, counts))


def pairs_by_size(n_features: int) -> Numbers:
    """How many pairs {S, complement} have a part of each of the sizes 1 … n/2 (huge numbers are cut off)."""
    counts = np.full(n_features // 2, float(_MANY))
    for size in range(1, n_features // 2 + 1):
        count = math.comb(n_features, size) // (2 if 2 * size == n_features else 1)
        if count >= _MANY:  # larger sizes have more, but for the middle one, which has half as many and still more
            break
        counts[size - 1] = count
    return counts


def size_weights(n_features: int) -> Numbers:
    """The Shapley kernel's total weight of each of the sizes 1 … n/2, up to a factor."""
    sizes = np.arange(1, n_features // 2 + 1)
    return np.asarray(np.where(2 * sizes == n_features, 0.5, 1.0) / (sizes * (n_features - sizes)))


def allocate(n_features: int, n_pairs: int) -> Numbers:
    """Expected number of pairs for each of the sizes 1 … n/2; they sum to ``n_pairs``.

    Examples
    --------
    >>> allocate(6, 14).round(2).tolist()
    [6.0, 5.54, 2.46]
    """
    there, wish = pairs_by_size(n_features), size_weights(n_features)
    counts = np.where(np.arange(len(there)) == 0, there, 0.0)
    is_open = counts == 0
    while is_open.any():
        given = wish * is_open * ((n_pairs - counts.sum()) / (wish * is_open).sum())
        filled = is_open & (given >= there)
        if not filled.any():
            return np.asarray(counts + given)
        counts = np.where(filled, there, counts)
        is_open = is_open & ~filled
    return counts


def _round_fairly(expected: Numbers, rng: np.random.Generator) -> NDArray[np.intp]:
    """Whole numbers with these expectations and the same sum: one random offset for all partial sums."""
    sums = np.cumsum(expected)
    sums[-1] = round(sums[-1])
    return np.diff(np.floor(sums + rng.random()), prepend=0.0).astype(np.intp)


def _draw_size(n_features: int, size: int, n_there: int, count: int, rng: np.random.Generator) -> Masks:
    """``count`` distinct masks of this size, of which no two are complements; ``n_there`` exist."""
    if n_there <= 2 * count:
        return _every_mask(n_features, size)[np.sort(rng.permutation(n_there)[:count])]
    found: dict[bytes, Masks] = {}
    while len(found) < count:
        drawn = _canonical(_random_masks(n_features, size, count, rng), size)
        for row in drawn:
            found.setdefault(row.tobytes(), row)
    return np.array(list(found.values())[:count], dtype=bool).reshape(count, n_features)


def _random_masks(n_features: int, size: int, count: int, rng: np.random.Generator) -> Masks:
    masks = np.zeros((count, n_features), dtype=bool)
    chosen = rng.random((count, n_features)).argpartition(size - 1, axis=1)[:, :size]
    np.put_along_axis(masks, chosen, True, axis=1)
    return masks


def _every_mask(n_features: int, size: int) -> Masks:
    chosen = np.array(list(combinations(range(n_features), size)), dtype=np.intp)
    masks = np.zeros((len(chosen), n_features), dtype=bool)
    np.put_along_axis(masks, chosen, True, axis=1)
    return masks[masks[:, 0]] if 2 * size == n_features else masks


def _canonical(masks: Masks, size: int) -> Masks:
    """Of two halves that are complements, the one with the first feature stands for both."""
    if 2 * size != masks.shape[1]:
        return masks
    return masks ^ ~masks[:, :1]
