"""Sums of trees over masks in whole numbers → conditions that can be counted, and exact counts of them.

Every leaf value is a whole number of units of a power of two, so sums are exact. What the model itself computes may
differ by its rounding: sums that close to a limit are undecided, unless rounding cannot happen because all values are
multiples of one power of two that is large enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.exact.countable import Distances, Flips, positions_in
from holdfast.exact.limits import Limit
from holdfast.exact.trees import Leaf
from holdfast.types import Mask, Masks

Judge = Callable[[Masks], Mask]
"""Masks (b, n_features) → Boolean (b,): whether the model itself keeps the prediction."""

_BITS = 60
"""Sums are below 2⁶⁰ units, so that three of them still fit into 64 bits."""

MOST_ASKED = 4096
"""Most sums within rounding that the model itself is asked about."""

_FAR = 1 << 61


class Branch(NamedTuple):
    """A leaf near an explanation: features that must be flipped, features that must not (bits), and its value."""

    flipped: int
    kept: int
    value: int


@dataclass(frozen=True, eq=False)
class Condition:
    """A limit on the sum of the values of some small trees, near one explanation.

    A sum of at least ``keep_from`` keeps the prediction, one of at most ``lose_to`` loses it; those between are
    within rounding.
    """

    constant: int
    trees: Sequence[Sequence[Branch]]
    keep_from: int
    lose_to: int

    @property
    def bits(self) -> int:
        """The features that matter."""
        bits = 0
        for tree in self.trees:
            for branch in tree:
                bits |= branch.flipped | branch.kept
        return bits

    @property
    def least(self) -> int:
        """No sum is smaller: every tree at its smallest value."""
        return self.constant + sum(min(branch.value for branch in tree) for tree in self.trees)

    @property
    def is_additive(self) -> bool:
        """Whether every tree depends on one feature."""
        return all((branch.flipped | branch.kept).bit_count() <= 1 for tree in self.trees for branch in tree)

    def moves(self) -> dict[int, int]:
        """Of an additive condition: feature → how much the sum changes when it is flipped."""
        moves: dict[int, int] = {}
        for tree in self.trees:
            for branch in tree:
                feature = (branch.flipped | branch.kept).bit_length() - 1
                moves[feature] = moves.get(feature, 0) + (branch.value if branch.flipped else -branch.value)
        return {feature: move for feature, move in moves.items() if move}

    @property
    def start(self) -> int:
        """The sum with nothing flipped."""
        return self.constant + sum(branch.value for tree in self.trees for branch in tree if not branch.flipped)


@dataclass(frozen=True, eq=False)
class Units:
    """Leaf values in whole units of 2^-``scale``.

    ``whole`` (n, n_scores) are the values, ``error`` the most that a sum over all trees can differ by from the sum of
    the true values, and ``rounding`` (n_scores,) how far the model's own sum can be from that, both in units.
    """

    whole: NDArray[np.int64]
    base: tuple[int, ...]
    scale: int
    error: Fraction
    rounding: tuple[Fraction, ...]

    @classmethod
    def of(
        cls,
        values: NDArray[np.float64],
        base: Sequence[Fraction],
        trees: Sequence[Sequence[Leaf]],
        *,
        roundoff: float,
        extra_roundings: int = 0,
    ) -> Units:
        """The units of values (n, n_scores), of which each tree adds those of one of its leaves to the base."""
        sizes = np.abs(values)
        most = [np.array([sizes[[leaf.node for leaf in tree]].max(axis=0) for tree in trees])] if trees else []
        totals = np.sum(most[0], axis=0) if most else np.zeros(values.shape[1])
        totals = totals + np.array([abs(float(part)) for part in base])
        total = float(totals.max()) * (1 + 2.0**-40)
        scale = _BITS - (math.frexp(total)[1] if total else 0)
        scaled = np.ldexp(values, scale)
        whole = np.rint(scaled).astype(np.int64)
        exact_base = [part * Fraction(2) ** scale for part in base]
        rounded_base = tuple(round(part) for part in exact_base)
        is_exact = bool((scaled == whole).all()) and all(
            part == rounded for part, rounded in zip(exact_base, rounded_base, strict=True)
        )
        # Sums of multiples of one power of two are exact in floats of enough digits, in any order.
        digits = round(-math.log2(roundoff)) - 3
        used = np.bitwise_or.reduce(whole, axis=None) if whole.size else 0
        for part in rounded_base:
            used |= part
        grain = (int(used) & -int(used)).bit_length() - 1 if used else _BITS
        n_sums = len(trees) + 1 + extra_roundings
        relative = Fraction(n_sums * roundoff) / (1 - Fraction(n_sums * roundoff))
        never_rounds = is_exact and extra_roundings == 0 and _BITS - grain <= digits
        rounding = tuple(
            Fraction(0) if never_rounds else relative * Fraction(float(size)) * Fraction(2) ** scale for size in totals
        )
        error = Fraction(0) if is_exact else Fraction(len(trees) + 1, 2)
        return cls(whole, rounded_base, scale, error, rounding)

    @classmethod
    def of_fractions(
        cls,
        values: Sequence[Sequence[Fraction]],
        base: Sequence[Fraction],
        trees: Sequence[Sequence[Leaf]],
        *,
        sizes: Sequence[Fraction],
        pieces: Sequence[Fraction],
        n_sums: int,
        roundoff: float,
    ) -> Units:
        """The units of exact values; the model adds up ``pieces``, whose ``sizes`` are their largest sums per score."""
        total = max(1e-300, float(max(sizes)) * (1 + 2.0**-40))
        scale = _BITS - math.frexp(total)[1]
        unit = Fraction(2) ** scale
        whole = np.array([[round(part * unit) for part in line] for line in values], dtype=np.int64)
        rounded_base = tuple(round(part * unit) for part in base)
        is_exact = all(
            part * unit == rounded
            for line, numbers in [*zip(values, whole.tolist(), strict=True), (base, rounded_base)]
            for part, rounded in zip(line, numbers, strict=True)
        )
        finest = max((part.denominator for part in (*pieces, *base)), default=1)
        never_rounds = is_exact and finest & (finest - 1) == 0 and finest * total < 0.125 / roundoff
        relative = Fraction(n_sums * roundoff) / (1 - Fraction(n_sums * roundoff))
        rounding = tuple(Fraction(0) if never_rounds else relative * size * unit for size in sizes)
        return cls(whole, rounded_base, scale, Fraction(0) if is_exact else Fraction(len(trees) + 1, 2), rounding)

    @property
    def tolerance(self) -> float:
        """How far raw scores of the model may be from those in units."""
        return float((max(self.rounding) + self.error) / Fraction(2) ** self.scale)

    def condition(self, limit: Limit, trees: Sequence[Sequence[Leaf]], flips: Flips) -> Condition:
        """A limit on the sum, as seen from one explanation: trees that cannot change are part of the constant."""
        column = self.whole @ np.array(limit.weights, dtype=np.int64)
        constant = sum(weight * part for weight, part in zip(limit.weights, self.base, strict=True))
        unit = Fraction(2) ** self.scale
        used = [index for index, weight in enumerate(limit.weights) if weight]
        zone = limit.slack * unit + sum(self.rounding[index] for index in used) + self.error * len(used)
        near: list[list[Branch]] = []
        for tree in trees:
            branches: list[Branch] = []
            nodes = []
            for leaf in tree:
                needs = flips.requirements(leaf.shown, leaf.hidden)
                if needs is not None:
                    branches.append(Branch(*needs, int(column[leaf.node])))
                    nodes.append(leaf.node)
            # Where rounding decides, leaves that move several scores alike matter too.
            values = column[nodes] if zone == 0 else self.whole[nodes]
            if (values == values[0]).all():
                constant += branches[0].value
            else:
                near.append(branches)
        least = limit.least * unit
        if zone == 0:
            keep_from = math.floor(least) + 1 if limit.strict else math.ceil(least)
            lose_to = keep_from - 1
        else:
            keep_from, lose_to = math.floor(least + zone) + 1, math.ceil(least - zone) - 1
        return Condition(constant, near, *(max(-_FAR, min(_FAR, edge)) for edge in (keep_from, lose_to)))


class SetCounts(NamedTuple):
    """Sets of flips that keep the prediction, and that are undecided, by their number in each pool; and how known."""

    agreed: Distances
    undecided: Distances
    used: tuple[int, ...]
    method: str


@dataclass(frozen=True, eq=False)
class SumTable:
    """The state of the prediction at every set of flips of the features that matter: kept, lost or undecided.

    ``features`` are these features, those of the first pool first; set S is at index Σ 2^(place of the feature).
    """

    features: list[int]
    used: tuple[int, ...]
    kept: NDArray[np.bool_]
    lost: NDArray[np.bool_]
    flips: Flips

    @classmethod
    def of(cls, conditions: Sequence[Condition], flips: Flips) -> SumTable:
        """Sums of all sets of flips, from the monotone weights of the trees."""
        bits = 0
        for condition in conditions:
            bits |= condition.bits
        per_pool = [positions_in(bits & pool) for pool in flips.pool_bits]
        features = [feature for pool in per_pool for feature in pool]
        place = {feature: 1 << index for index, feature in enumerate(features)}
        kept, lost = np.ones(1 << len(features), dtype=bool), np.zeros(1 << len(features), dtype=bool)
        for condition in conditions:
            sums = _all_sums(condition, place)
            kept &= sums >= condition.keep_from
            lost |= sums <= condition.lose_to
        return cls(features, tuple(map(len, per_pool)), kept, lost, flips)

    def settle(self, judge: Judge) -> None:
        """Ask the model itself about sums within rounding, unless they are too many."""
        open_sets = np.flatnonzero(~self.kept & ~self.lost)
        if 0 < len(open_sets) <= MOST_ASKED:
            answers = judge(np.array([self.mask(int(index)) for index in open_sets]))
            self.kept[open_sets], self.lost[open_sets] = answers, ~answers

    def mask(self, index: int) -> Mask:
        """The mask of a set of flips."""
        return self.flips.mask(sum(1 << self.features[place] for place in positions_in(index)))

    def numbers(self) -> NDArray[np.intp]:
        """For each set, its number of flips in the pools: those of the first, plus (1 + its features) · the second."""
        rows = np.zeros(1, dtype=np.intp)
        weight = 1
        for n in self.used:
            for _ in range(n):
                rows = np.concatenate([rows, rows + weight])
            weight *= n + 1
        return rows

    def counts(self) -> SetCounts:
        """Sets that keep the prediction, by number of flips."""
        numbers = self.numbers()
        parts = []
        for chosen in (self.kept, ~self.kept & ~self.lost):
            found = np.bincount(numbers[chosen], minlength=1).tolist()
            parts.append({self._flips_of(key): n_sets for key, n_sets in enumerate(found) if n_sets})
        return SetCounts(parts[0], parts[1], self.used, "table of all sums")

    def nearest(self, among: NDArray[np.bool_]) -> tuple[int, int] | None:
        """The distance of the nearest mask of some sets, and the set; None if no mask has exactly these flips."""
        indices = np.flatnonzero(among)
        numbers = self.numbers()[indices]
        best: tuple[int, int] | None = None
        for key in np.unique(numbers).tolist():
            flips = self._flips_of(key)
            free = [length - n for length, n in zip(self.flips.lengths, self.used, strict=True)]
            distance = max(flips)
            reachable = all(distance - n <= room for n, room in zip(flips, free, strict=True))
            if reachable and (best is None or distance < best[0]):
                best = distance, int(indices[numbers == key][0])
        return best

    def _flips_of(self, key: int) -> tuple[int, ...]:
        flips = []
        for n in self.used:
            key, own = divmod(key, n + 1)
            flips.append(own)
        return tuple(flips)


def _all_sums(condition: Condition, place: dict[int, int]) -> NDArray[np.int64]:
    """The sum at every set of flips; arithmetic modulo 2⁶⁴ is exact because the sums themselves are small.

    A leaf is a cube of sets. It is added by its 2^(features that must not be flipped) monotone weights before the sums
    over subsets, or itself afterwards, whichever is less work: never more than 2^(n/2) numbers.
    """
    n = len(place)
    sums = np.zeros(1 << n, dtype=np.int64)
    weights: dict[int, int] = {0: condition.constant}
    cubes = []
    for tree in condition.trees:
        for branch in tree:
            n_kept = branch.kept.bit_count()
            if n_kept > n - n_kept - branch.flipped.bit_count():
                cubes.append(branch)
                continue
            subset = branch.kept
            while True:
                term = branch.flipped | subset
                weights[term] = weights.get(term, 0) + (-branch.value if subset.bit_count() % 2 else branch.value)
                if subset == 0:
                    break
                subset = (subset - 1) & branch.kept
    for term, weight in weights.items():
        wrapped = (weight + (1 << 63)) % (1 << 64) - (1 << 63)
        sums[sum(place[feature] for feature in positions_in(term))] = wrapped
    for bit in place.values():
        pairs = sums.reshape(-1, 2, bit)
        pairs[:, 1] += pairs[:, 0]
    corners = sums.reshape((2,) * n)  # bit i is axis n - 1 - i
    for branch in cubes:
        cube: list[int | slice] = [slice(None)] * n
        for feature in positions_in(branch.flipped | branch.kept):
            cube[n - place[feature].bit_length()] = branch.flipped >> feature & 1
        corners[tuple(cube)] += branch.value
    return sums
