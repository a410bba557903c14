"""Conditions on sums with one term per feature → counts and the nearest change, for any number of features.

The nearest change takes the most adverse features of each pool. Counts come from two halves, sorted and matched, up to
about 40 features, and beyond from sums rounded down and rounded up: two counts between which the truth lies.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from holdfast.exact.countable import Distances, Flips
from holdfast.exact.sums import Condition, SetCounts

MOST_HALVED = 40
"""Most features that are counted by two halves."""

_N_CELLS = 1 << 13
_MOST_ROUNDED = 900
"""Features beyond which numbers of sets do not fit into float64."""

Groups = dict[tuple[int, ...], NDArray[np.int64]]
"""Number of flips in each pool → the sums of all sets with so many, sorted."""


def least_sums(condition: Condition, flips: Flips) -> tuple[list[int], list[list[int]]]:
    """The smallest sum at each distance, and for each pool its features from the most adverse on."""
    moves = condition.moves()
    orders = [sorted(pool.tolist(), key=lambda feature: (moves.get(feature, 0), feature)) for pool in flips.pools]
    sums = [condition.start]
    for k in range(flips.largest):
        sums.append(sums[-1] + sum(moves.get(order[k], 0) for order in orders))
    return sums, orders


def count_additive(conditions: Sequence[Condition], flips: Flips) -> SetCounts | None:
    """Sets of flips that keep every condition, by their numbers in the pools; None if there are too many features.

    Two conditions that bound one sum from both sides lose different sets, which add up. Conditions on different sums
    leave a bracket: at least as many sets are lost as by the worst of them, at most as many as by all together.
    """
    moves = [condition.moves() for condition in conditions]
    features = sorted({feature for move in moves for feature in move})
    if len(features) <= MOST_HALVED:
        per_pool = [[feature for feature in features if bits >> feature & 1] for bits in flips.pool_bits]
        count, method = _count_halves, "two halves"
        keys = list(np.ndindex(*[len(pool) + 1 for pool in per_pool]))
    elif len(flips.selected) <= _MOST_ROUNDED:
        per_pool = [pool.tolist() for pool in flips.pools]
        count, method = _count_rounded, "rounded sums"
        keys = [(k,) * len(per_pool) for k in range(flips.largest + 1)]
    else:
        return None
    sizes = {key: math.prod(math.comb(len(pool), k) for pool, k in zip(per_pool, key, strict=True)) for key in keys}
    lost, kept = dict.fromkeys(keys, 0), dict(sizes)
    for group in _by_sum(conditions, moves):
        lost_here = dict.fromkeys(keys, 0)
        for condition in group:
            (low, _), (_, high) = count(condition, per_pool, (condition.lose_to, condition.keep_from - 1))
            for key in keys:
                lost_here[key] += low.get(key, 0)
                kept[key] -= min(high.get(key, 0), sizes[key])
        lost = {key: max(lost[key], min(lost_here[key], sizes[key])) for key in keys}
    agreed = {key: max(0, n_sets) for key, n_sets in kept.items()}
    undecided = {key: sizes[key] - agreed[key] - lost[key] for key in keys}
    return SetCounts(agreed, {key: n for key, n in undecided.items() if n}, tuple(map(len, per_pool)), method)


def _by_sum(conditions: Sequence[Condition], moves: Sequence[dict[int, int]]) -> list[list[Condition]]:
    """Conditions whose losses cannot coincide together: a lower and an upper edge of one sum, if they do not cross."""
    groups: list[list[Condition]] = []
    for condition, move in zip(conditions, moves, strict=True):
        opposite = {feature: -step for feature, step in move.items()}
        for group in groups:
            # Sums x and c - x: lost for x ≤ lose_to, and for x ≥ c - lose_to of the other.
            (first, *others) = group
            crossing = first.keep_from + condition.keep_from - 2 >= first.start + condition.start
            if not others and first.moves() == opposite and not crossing:
                group.append(condition)
                break
        else:
            groups.append([condition])
    return groups


Bounds = list[tuple[Distances, Distances]]
"""For each of some edges, at least and at most how many sets have a sum up to it."""


def _count_halves(condition: Condition, per_pool: list[list[int]], edges: tuple[int, int]) -> Bounds:
    """Sets with sums up to the edges, by number of flips in the pools: sums of two halves that match."""
    moves = condition.moves()
    steps = [(pool, moves.get(feature, 0)) for pool, features in enumerate(per_pool) for feature in features]
    first, second = (_sums_of(steps[half::2], len(per_pool)) for half in (0, 1))
    found: dict[int, Distances] = {}
    for edge in set(edges):
        counts = found.setdefault(edge, {})
        for key, sums in first.items():
            for other, partners in second.items():
                n_sets = int(np.searchsorted(sums, (edge - condition.start) - partners, side="right").sum())
                if n_sets:
                    both = tuple(a + b for a, b in zip(key, other, strict=True))
                    counts[both] = counts.get(both, 0) + n_sets
    return [(found[edge], found[edge]) for edge in edges]


def _sums_of(steps: list[tuple[int, int]], n_pools: int) -> Groups:
    """The sums of all subsets of some features, by number of flips in the pools."""
    groups: dict[tuple[int, ...], list[NDArray[np.int64]]] = {(0,) * n_pools: [np.zeros(1, dtype=np.int64)]}
    for pool, step in steps:
        longer = {key: list(parts) for key, parts in groups.items()}
        for key, parts in groups.items():
            after = tuple(n + (place == pool) for place, n in enumerate(key))
            longer.setdefault(after, []).extend(part + step for part in parts)
        groups = {key: [np.concatenate(parts)] for key, parts in longer.items()}
    return {key: np.sort(parts[0]) for key, parts in groups.items()}


def _count_rounded(condition: Condition, per_pool: list[list[int]], edges: tuple[int, int]) -> Bounds:
    """Lower and upper bounds of the sets with sums up to the edges: all moves rounded up, and all rounded down."""
    moves = condition.moves()
    common, total = math.gcd(*moves.values()), sum(map(abs, moves.values()))
    grain = common if total // max(1, common) <= _N_CELLS else total // _N_CELLS  # with no rounding at all, if possible
    n_features, largest = sum(map(len, per_pool)), min(map(len, per_pool))
    bounds: Bounds = [({}, {}) for _ in edges]
    for direction in (0, 1):  # rounded up, fewer sets stay below; rounded down, more
        rounded = {f: step // grain if direction else -(-step // grain) for f, step in moves.items()}
        tables = [_rounded_table([rounded.get(feature, 0) for feature in features], largest) for features in per_pool]
        n_added = n_features + sum(table.shape[1] for table, _ in tables)
        slips = 1 + (n_added if direction else -n_added) * 2.0**-51  # of the float sums
        for edge, bound in zip(edges, bounds, strict=True):
            cell = (edge - condition.start) // grain - sum(low for _, low in tables)
            for k in range(largest + 1):
                number = _pairs_below([table[k] for table, _ in tables], cell) * slips
                bound[direction][(k,) * len(per_pool)] = math.ceil(number) if direction else math.floor(number)
    return bounds


def _rounded_table(steps: list[int], largest: int) -> tuple[NDArray[np.float64], int]:
    """Number of sets by number of flips (rows) and sum (columns), and the sum of the first column."""
    low, high = sum(step for step in steps if step < 0), sum(step for step in steps if step > 0)
    table = np.zeros((largest + 1, high - low + 1))
    table[0, -low] = 1.0
    width = table.shape[1]
    for step in steps:
        moved = table[:-1, max(0, -step) : width - max(0, step)].copy()
        table[1:, max(0, step) : width - max(0, -step)] += moved
    return table, low


def _pairs_below(rows: list[NDArray[np.float64]], limit: int) -> float:
    """Sets, or pairs of sets, whose columns add up to at most ``limit``."""
    if limit < 0:
        return 0.0
    tails = np.cumsum(rows[-1])
    if len(rows) == 1:
        return float(tails[min(limit, len(tails) - 1)])
    columns = limit - np.arange(len(rows[0]))
    inside = columns >= 0
    return float(rows[0][inside] @ tails[np.minimum(columns[inside], len(tails) - 1)])
