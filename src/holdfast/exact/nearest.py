"""Conditions on sums of trees → the nearest set of flips that breaks one, by branch and bound.

A part of the space of masks is given by features that are flipped and features that are not. In it, each tree still
reaches some of its leaves, and the sum is at least the sum of their smallest values. Leaves that need more flips than
are left are out of reach. Parts whose bound keeps the condition are done with; the others are cut in two at the next
feature. Leaves of a tree are the bits of 64-bit words, smallest value first, so that the smallest value in reach is
that of the lowest bit, for thousands of parts at a time.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from holdfast.exact.countable import Flips, positions_in
from holdfast.exact.sums import Branch, Condition, Judge
from holdfast.exact.trees import merged_cubes
from holdfast.types import Mask

Words = NDArray[np.uint64]

_CHUNK = 2048
_NONE = 1 << 60
"""The value of a word without leaves: larger than any sum of values."""


@dataclass(frozen=True, eq=False)
class LeafWords:
    """The leaves of trees as bits of words: which of them each choice leaves in reach.

    ``values`` (n_words, 65) holds in column b + 1 the value of bit b, and in column 0 that of no leaf; ``starts`` the
    first word of each tree.
    """

    values: NDArray[np.int64]
    starts: NDArray[np.intp]
    flipped: NDArray[np.bool_]
    kept: NDArray[np.bool_]
    alive: Words

    @classmethod
    def of(cls, trees: Sequence[Sequence[Branch]], features: Sequence[int]) -> LeafWords:
        """The words of trees over some features, in the order of these."""
        values: list[list[int]] = []
        starts, branches, slots = [], [], []
        for tree in trees:
            ordered = sorted(tree, key=lambda branch: branch.value)
            starts.append(len(values))
            for first in range(0, len(ordered), 64):
                part = ordered[first : first + 64]
                slots += [64 * len(values) + bit for bit in range(len(part))]
                branches += part
                values.append([_NONE, *(branch.value for branch in part)] + [_NONE] * (64 - len(part)))
        rows = 64 * len(values)
        flipped, kept = np.zeros((rows, len(features)), dtype=bool), np.zeros((rows, len(features)), dtype=bool)
        place = {feature: at for at, feature in enumerate(features)}
        for slot, branch in zip(slots, branches, strict=True):
            for table, bits in ((flipped, branch.flipped), (kept, branch.kept)):
                for feature in positions_in(bits):
                    table[slot, place[feature]] = True
        there = np.zeros(rows, dtype=bool)
        there[slots] = True
        return cls(np.array(values, dtype=np.int64), np.array(starts), flipped, kept, packed(there))

    def bounds(self, reach: Words) -> NDArray[np.int64]:
        """The smallest sum over the leaves in reach (b, n_words); too large to matter where a tree has none."""
        lowest = np.frexp((reach & (~reach + np.uint64(1))).astype(np.float64))[1]
        smallest = np.take(self.values.ravel(), lowest + 65 * np.arange(len(self.values)))
        if len(self.starts) < len(self.values):
            smallest = np.minimum.reduceat(smallest, self.starts, axis=1)
        # A tree out of reach must not overflow the sum of many.
        sums = smallest.sum(axis=1)
        return np.where((smallest >= _NONE).any(axis=1), np.int64(_NONE), sums)


def packed(rows: NDArray[np.bool_]) -> Words:
    """Boolean (64·w, ...) → words (w, ...): 64 rows each, the first in the lowest bit."""
    grouped = np.packbits(rows.reshape(-1, 8, *rows.shape[1:]), axis=1, bitorder="little")[:, 0]
    bytes_last = np.moveaxis(grouped.reshape(-1, 8, *rows.shape[1:]), 1, -1)
    return np.ascontiguousarray(bytes_last).view("<u8")[..., 0].astype(np.uint64)


def _features_of(tree: Sequence[Branch]) -> int:
    bits = 0
    for branch in tree:
        bits |= branch.flipped | branch.kept
    return bits


class BudgetSpentError(Exception):
    """The seconds or nodes that a search may use are used up."""


@dataclass
class SearchBudget:
    """Seconds and nodes that a search may use."""

    seconds: float | None
    max_nodes: int | None
    n_nodes: int = 0
    start: float = field(default_factory=time.perf_counter)

    def spend(self, n_nodes: int) -> None:
        """Count nodes; raise if they are too many, or too late."""
        self.n_nodes += n_nodes
        late = self.seconds is not None and time.perf_counter() - self.start > self.seconds
        if late or (self.max_nodes is not None and self.n_nodes > self.max_nodes):
            raise BudgetSpentError


@dataclass(eq=False)
class BreakSearch:
    """The search for flips that break one condition, at one distance after the other."""

    condition: Condition
    flips: Flips
    judge: Judge

    def __post_init__(self) -> None:
        bits = self.condition.bits
        features = positions_in(bits)
        # Trees on the same features become one, whose smallest value is larger than the sum of theirs.
        trees = sorted(self.condition.trees, key=lambda tree: _features_of(tree))
        merged = [[Branch(*cube) for cube in tree] for tree in merged_cubes(trees)]
        words = LeafWords.of(merged, features)
        # Features decide in the order of how much the bound rises when they stay.
        if_kept = packed(~words.flipped)
        gains = words.bounds((if_kept & words.alive[:, None]).T) if features else np.zeros(0)
        order = np.argsort(-gains, kind="stable")
        self.features = [features[at] for at in order]
        self.words = LeafWords(words.values, words.starts, words.flipped[:, order], words.kept[:, order], words.alive)
        self.if_flipped = packed(~self.words.kept).T.copy()  # (n_features, n_words)
        self.if_kept = packed(~self.words.flipped).T.copy()
        self.pool_of = [[bits >> feature & 1 for bits in self.flips.pool_bits].index(1) for feature in self.features]
        in_pool = np.array(self.pool_of)[None, :] == np.arange(len(self.flips.pools))[:, None]
        self.left = np.array([[in_pool[p, i:].sum() for p in range(len(in_pool))] for i in range(len(features) + 1)])
        spare = [length - int(n) for length, n in zip(self.flips.lengths, self.left[0], strict=True)]
        self.spare = np.array(spare)  # features that do not matter, and can fill up a pool
        needed = self.words.flipped[None] & in_pool[:, None, :]
        self.needed = np.concatenate(  # flips that each leaf needs from feature i on, in each pool
            [needed[..., ::-1].cumsum(axis=2, dtype=np.int16)[..., ::-1], np.zeros((*needed.shape[:2], 1), np.int16)], 2
        )
        self._within: dict[tuple[int, ...], Words] = {}

    def can_break(self) -> bool:
        """Whether the smallest values of all trees together would break the condition."""
        return self.condition.least < self.condition.keep_from

    def _leaves_within(self, level: int, room: tuple[int, ...]) -> Words:
        """The leaves that need at most so many more flips in each pool."""
        key = (level, *room)
        if key not in self._within:
            limits = np.array(room)[:, None]
            self._within[key] = packed(np.asarray((self.needed[:, :, level] <= limits).all(axis=0)))
        return self._within[key]

    def at(self, distance: int, budget: SearchBudget) -> Mask | None:
        """A mask at this distance that breaks the condition; None if there is none."""
        n_pools = len(self.flips.pools)
        room = np.full((1, n_pools), distance)
        chosen = np.zeros((1, len(self.features)), dtype=bool)
        stack = [(0, self.words.alive[None, :], room, chosen)]
        while stack:
            level, reach, room, chosen = stack.pop()
            if len(reach) > _CHUNK:
                stack.append((level, reach[_CHUNK:], room[_CHUNK:], chosen[_CHUNK:]))
                reach, room, chosen = reach[:_CHUNK], room[:_CHUNK], chosen[:_CHUNK]
            budget.spend(len(reach))
            open_ = self._open(level, reach, room)
            done = (room[open_] == 0).all(axis=1) if level < len(self.features) else np.ones(len(open_), dtype=bool)
            mask = self._ask(chosen[open_[done]], distance)
            if mask is not None:
                return mask
            open_ = open_[~done]
            if len(open_) == 0:
                continue
            stack.append(self._cut(level, reach[open_], room[open_], chosen[open_]))
        return None

    def _open(self, level: int, reach: Words, room: NDArray[np.intp]) -> NDArray[np.intp]:
        """Parts in which the condition may break."""
        rooms, inverse = np.unique(room, axis=0, return_inverse=True)
        inverse = inverse.ravel()
        possible = ((rooms >= 0) & (rooms <= self.left[level] + self.spare)).all(axis=1)
        within = np.stack([self._leaves_within(level, tuple(row.tolist())) for row in np.maximum(rooms, 0)])
        bound = self.condition.constant + self.words.bounds(reach & within[inverse])
        return np.flatnonzero((bound < self.condition.keep_from) & possible[inverse])

    def _cut(
        self, level: int, reach: Words, room: NDArray[np.intp], chosen: NDArray[np.bool_]
    ) -> tuple[int, Words, NDArray[np.intp], NDArray[np.bool_]]:
        """Each part in two: the next feature stays, or is flipped; those that flip come first."""
        pool = self.pool_of[level]
        can_flip = room[:, pool] > 0
        room_after, chosen_after = room[can_flip].copy(), chosen[can_flip].copy()
        room_after[:, pool] -= 1
        chosen_after[:, level] = True
        parts = (
            np.concatenate([reach[can_flip] & self.if_flipped[level], reach & self.if_kept[level]]),
            np.concatenate([room_after, room]),
            np.concatenate([chosen_after, chosen]),
        )
        return level + 1, *parts

    def _ask(self, chosen: NDArray[np.bool_], distance: int) -> Mask | None:
        """The first of these sets of flips that the model itself says loses the prediction."""
        flipped = [sum(1 << self.features[at] for at in np.flatnonzero(row).tolist()) for row in chosen]
        masks = [mask for bits in flipped if (mask := self._filled(bits, distance)) is not None]
        if not masks:
            return None
        lost = np.flatnonzero(~self.judge(np.array(masks)))
        return masks[lost[0]] if len(lost) else None

    def _filled(self, flipped: int, distance: int) -> Mask | None:
        """The mask with these flips, and features that do not matter up to the distance."""
        own = sum(1 << feature for feature in self.features)
        for bits in self.flips.pool_bits:
            missing = distance - (flipped & bits).bit_count()
            spare = positions_in(bits & ~own)
            if not 0 <= missing <= len(spare):
                return None
            flipped |= sum(1 << feature for feature in spare[:missing])
        return self.flips.mask(flipped)
