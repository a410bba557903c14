"""Selected features and a radius → the masks nearby: counted, enumerated, drawn uniformly.

``Additions`` is the paper's Δ_r: everything that reveals at most r more features. A neighbourhood is
built from pools of positions: a mask at distance k flips k positions of every pool. All masks at all
distances up to the radius are equally likely, so distance k has probability Π C(|pool|, k) / size.

Every draw uses up one row of a fixed number of random bits, whatever the radius: one word for the
distance and one key per feature. Hence ``sample(a + b)`` is ``sample(a)`` followed by ``sample(b)``,
and neighbourhoods of two explanations fed with equal streams make paired draws.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate, chain, combinations, islice, product
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidTypeError
from holdfast.types import Mask, Masks
from holdfast.validation import check_mask, check_whole, shown

_CHUNK_BYTES = 1 << 20
_COMPUTED = ("effective_radius", "size", "size_bounds")

_SIZE_BITS = 192
"""At least so many bits of a size are known by its bounds, but for those that roundings take: as many as radii have."""

Indices = NDArray[np.intp]
Keys = NDArray[np.uint32]


class Neighborhood(Protocol):
    """A finite set of masks that can be counted, enumerated and drawn from.

    ``rings`` is the name of the uniform neighbourhood that it has the masks of each distance from, and ``odds`` how
    much likelier a mask is than one at a distance less by one; None if masks at one distance are not equally likely.
    """

    @property
    def name(self) -> str: ...
    @property
    def rings(self) -> str | None: ...
    @property
    def odds(self) -> Fraction: ...
    @property
    def selected(self) -> Mask: ...
    @property
    def radius(self) -> int: ...
    @property
    def smallest(self) -> int: ...
    @property
    def effective_radius(self) -> int: ...
    @property
    def pools(self) -> tuple[Indices, ...]: ...
    @property
    def size(self) -> int: ...
    def is_larger_than(self, limit: int) -> bool: ...
    def contains(self, mask: Mask) -> bool: ...
    def enumerate(self, batch: int) -> Iterator[Masks]: ...
    def sample(self, n: int, rng: np.random.Generator) -> Masks: ...
    def exactly(self, k: int) -> Neighborhood: ...
    def within(self, radius: int) -> Neighborhood: ...
    def distance(self, mask: Mask) -> int: ...
    def distances(self, words: NDArray[np.uint64]) -> Indices: ...
    @property
    def is_uniform(self) -> bool: ...
    def masses(self, masks: Masks) -> list[Fraction]: ...
    def mass_counts(self) -> list[tuple[Fraction, int]]: ...


class PoolFlips:
    """Masks that differ from ``selected`` by k flips in each pool, smallest ≤ k ≤ radius.

    There is a pool for each of the ``states`` that features are flipped from: hidden (False) or shown (True).
    """

    name: str
    rings: str
    states: tuple[bool, ...]
    odds = Fraction(1)

    def __init__(self, selected: Any, radius: int) -> None:
        self.selected = check_mask(selected, "selected")
        self.radius = check_whole(radius, "radius")
        self.smallest = 0
        self.pools = tuple((self.selected == state).nonzero()[0] for state in self.states)

    def exactly(self, k: int) -> Self:
        """The masks at distance k exactly (clamped to the largest distance there is)."""
        ring = self._at(check_whole(k, "k"))
        ring.smallest = ring.effective_radius
        return ring

    def within(self, radius: int) -> Self:
        """The same at another radius."""
        nearby = self._at(check_whole(radius, "radius"))
        nearby.smallest = 0
        return nearby

    def _at(self, radius: int) -> Self:
        """A copy at another radius. There may be one for every size: they share all but what is computed."""
        nearby = object.__new__(type(self))
        vars(nearby).update({name: value for name, value in vars(self).items() if name not in _COMPUTED})
        nearby.radius = radius
        return nearby

    @cached_property
    def effective_radius(self) -> int:
        """The radius, or the largest distance there is if that is smaller."""
        return min(self.radius, *(len(pool) for pool in self.pools))

    @cached_property
    def size(self) -> int:
        """Exact number of masks."""
        if self.smallest == self.effective_radius:
            return math.prod(math.comb(len(pool), self.smallest) for pool in self.pools)
        return sum(self._counts())

    @cached_property
    def size_bounds(self) -> tuple[int, int, int]:
        """Whole numbers low and high, and bits e: the size is from low to high times 2ᵉ; small sizes are exact."""
        if self.smallest == self.effective_radius:
            return self.size, self.size, 0
        # Of the count at distance k, and of all up to k: what they are at least, and at most more.
        count, more, total, total_more, bits = 1, 0, 1, 0, 0
        for k in range(self.effective_radius):
            for pool in self.pools:
                count, rest = divmod(count * (len(pool) - k), k + 1)
                more = -(-(rest + more * (len(pool) - k)) // (k + 1))
            total, total_more = total + count, total_more + more
            if total.bit_length() > 2 * _SIZE_BITS:
                cut, bits = (1 << _SIZE_BITS) - 1, bits + _SIZE_BITS
                more = -(-((count & cut) + more) >> _SIZE_BITS)
                total_more = -(-((total & cut) + total_more) >> _SIZE_BITS)
                count, total = count >> _SIZE_BITS, total >> _SIZE_BITS
        return total, total + total_more, bits

    def is_larger_than(self, limit: int) -> bool:
        """Whether ``size > limit``, without computing a huge size."""
        if self.smallest < self.effective_radius:
            return any(total > limit for total in accumulate(self._counts()))
        k, total = self.smallest, 1
        for length in map(len, self.pools):  # the product of C(length, k), of which each factor only grows on the way
            for j in range(min(k, length - k)):
                total = total * (length - j) // (j + 1)
                if total > limit:
                    return True
        return total > limit

    def contains(self, mask: Mask) -> bool:
        """Whether the mask is one of them."""
        flipped = mask != self.selected
        counts = [int(flipped[pool].sum()) for pool in self.pools]
        inside = len(set(counts)) == 1 and sum(counts) == flipped.sum()
        return bool(inside) and self.smallest <= counts[0] <= self.effective_radius

    def distance(self, mask: Mask) -> int:
        """How many flips there are in each pool."""
        return int((mask != self.selected).sum()) // len(self.pools)

    @property
    def is_uniform(self) -> bool:
        """Whether all masks are equally likely."""
        return self.odds == 1 or self.smallest == self.effective_radius

    def masses(self, masks: Masks) -> list[Fraction]:
        """How likely each of these masks is, up to a common factor."""
        return [self.odds ** self.distance(mask) for mask in masks]

    def mass_counts(self) -> list[tuple[Fraction, int]]:
        """How likely a mask is, and how many are as likely."""
        return [(self.odds**k, count) for k, count in enumerate(self._counts())]

    def _counts(self) -> Iterator[int]:
        """Number of masks at each distance from 0."""
        count = 1
        for k in range(self.effective_radius + 1):
            yield count
            for pool in self.pools:
                count = count * (len(pool) - k) // (k + 1)

    def enumerate(self, batch: int) -> Iterator[Masks]:
        """All masks, nearest first, in arrays of ``batch`` rows (the last may be shorter)."""
        return self._enumerate(check_whole(batch, "batch", minimum=1))  # a generator would check too late

    def _enumerate(self, rows: int) -> Iterator[Masks]:
        waiting: list[Masks] = []
        for k in range(self.smallest, self.effective_radius + 1):
            choices = product(*(combinations(pool.tolist(), k) for pool in self.pools))
            while True:
                room = rows - sum(map(len, waiting))
                ring = self._flip_all(islice(choices, min(room, sys.maxsize)), k)
                waiting.append(ring)
                if len(ring) < room:
                    break
                yield np.concatenate(waiting)
                waiting = []
        if sum(map(len, waiting)):
            yield np.concatenate(waiting)

    def _flip_all(self, choices: Iterator[tuple[tuple[int, ...], ...]], k: int) -> Masks:
        """One mask per choice of k positions from every pool."""
        if k == 0:
            return np.tile(self.selected, (sum(1 for _ in choices), 1))
        flat = chain.from_iterable(chain.from_iterable(choices))
        positions = np.fromiter(flat, dtype=np.intp).reshape(-1, k * len(self.pools))
        masks = np.tile(self.selected, (len(positions), 1))
        rows = np.arange(len(positions))[:, None]
        masks[rows, positions] = ~self.selected[positions]
        return masks

    def sample(self, n: int, rng: np.random.Generator) -> Masks:
        """Draw n masks independently and uniformly, (n, n_features)."""
        if not isinstance(rng, np.random.Generator):
            raise InvalidTypeError(argument="rng", must="be a numpy Generator", got=shown(rng))
        n_masks, most = check_whole(n, "n"), self.n_at_once
        if n_masks <= most:
            words = self.draw_words(n_masks, rng)
            return self.flipped(words, self.distances(words[:, 0]))
        masks = np.empty((n_masks, len(self.selected)), dtype=bool)
        for start in range(0, n_masks, most):
            masks[start : start + most] = self.sample(min(most, n_masks - start), rng)
        return masks

    @property
    def n_at_once(self) -> int:
        """How many masks are best made at a time: more would not stay in the caches of a processor."""
        return max(1, _CHUNK_BYTES // (8 * self._n_words))

    @property
    def _n_words(self) -> int:
        return 1 + (len(self.selected) + 1) // 2

    def draw_words(self, n: int, rng: np.random.Generator) -> NDArray[np.uint64]:
        """What n masks are made of: a random word for the distance of each, and half a word for each feature."""
        return rng.integers(0, 2**64, size=(n, self._n_words), dtype=np.uint64)

    def flipped(self, words: NDArray[np.uint64], distance: Indices) -> Masks:
        """The masks of such words at these distances."""
        masks = self.selected
        keys = words[:, 1:].view(np.uint32)[:, : len(self.selected)]
        for pool in self.pools:
            masks = masks ^ _smallest_keys(keys, pool, distance)
        return masks

    def shares_nearer(self) -> NDArray[np.float64]:
        """Which share of all masks within distance k, 0 ≤ k ≤ radius, is nearer than k; within 4 n rounding units."""
        ratios = _ratios(tuple(len(pool) for pool in self.pools), 0, self.effective_radius, float(self.odds))
        shares, at = [0.0], 1.0  # of the masks within k, the share at distance k
        for ratio in ratios.tolist():
            added = at * ratio
            shares.append(1 / (1 + added))
            at = 1 - shares[-1] if added > 1 else added * shares[-1]
        return np.array(shares)

    def shares_within(self) -> NDArray[np.float64]:
        """Row r: which share of all masks within distance r is within 0, 1, …; no number where that is all of them."""
        return _shares_within(tuple(len(pool) for pool in self.pools), self.effective_radius, float(self.odds))

    def distances(self, words: NDArray[np.uint64]) -> Indices:
        """The distance that each random word stands for: the inverse of their distribution."""
        if self.smallest == self.effective_radius:
            return np.full(len(words), self.smallest, dtype=np.intp)
        lengths = tuple(len(pool) for pool in self.pools)
        cumulative = _cumulative(lengths, self.smallest, self.effective_radius, float(self.odds))
        return self.smallest + cumulative[:-1].searchsorted(uniform(words), side="right")


def share_of_masks(small: Neighborhood, large: Neighborhood) -> float:
    """``small.size / large.size``, rounded once; huge sizes are computed only where their first bits leave it open."""
    parts, wholes = (getattr(getattr(near, "masks", near), "size_bounds", None) for near in (small, large))
    if parts is not None and wholes is not None:
        up, down = max(0, parts[2] - wholes[2]), max(0, wholes[2] - parts[2])
        least, most = ((part << up) / (whole << down) for part, whole in ((parts[0], wholes[1]), (parts[1], wholes[0])))
        if least == most:
            return float(least)
    return small.size / large.size


def uniform(words: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Numbers in [0, 1) of 53 random bits each."""
    return np.asarray((words >> np.uint64(11)) * 2.0**-53)


@lru_cache(maxsize=512)
def _cumulative(lengths: tuple[int, ...], smallest: int, largest: int, odds: float = 1.0) -> NDArray[np.float64]:
    """P(distance ≤ k) by ratios from the most likely distance outwards: no huge binomials."""
    ratio = _ratios(lengths, smallest, largest, odds)
    mode = int(np.searchsorted(-ratio, -1.0))
    up = np.cumprod(ratio[mode:])
    down = np.cumprod(1 / ratio[:mode][::-1])[::-1]
    total = np.cumsum(np.concatenate([down, [1.0], up]))
    cumulative = np.asarray(total / total[-1])
    cumulative.setflags(write=False)
    return cumulative


@lru_cache(maxsize=64)
def _shares_within(lengths: tuple[int, ...], largest: int, odds: float) -> NDArray[np.float64]:
    shares = np.full((largest + 1, largest), np.nan)
    for radius in range(1, largest + 1):
        shares[radius, :radius] = _cumulative(lengths, 0, radius, odds)[:-1]
    shares.setflags(write=False)
    return shares


def _ratios(lengths: tuple[int, ...], smallest: int, largest: int, odds: float) -> NDArray[np.float64]:
    """How much likelier distance k + 1 is than distance k."""
    k = np.arange(smallest, largest, dtype=np.float64)
    ratio = np.full(len(k), odds)
    for length in lengths:
        ratio *= (length - k) / (k + 1)
    return ratio


class Additions(PoolFlips):
    """Every mask that reveals at most ``radius`` more features: the paper's Δ_r.

    Parameters
    ----------
    selected : Boolean array of shape (n_features,)
        The explanation: which features are selected.
    radius : int
        How many features may be added; clamped to the number of unselected ones.

    Examples
    --------
    >>> import numpy as np
    >>> nearby = Additions(np.array([True, False, False, False]), radius=2)
    >>> nearby.size
    7
    >>> nearby.sample(3, np.random.default_rng(0)).shape
    (3, 4)
    """

    name = family = rings = "additions"
    states = (False,)


class Removals(PoolFlips):
    """Every mask that hides at most ``radius`` of the selected features.

    Examples
    --------
    >>> import numpy as np
    >>> Removals(np.array([True, True, False]), radius=5).size
    4
    """

    name = family = rings = "removals"
    states = (True,)


class Swaps(PoolFlips):
    """Every mask that trades at most ``radius`` selected features for as many unselected ones.

    Examples
    --------
    >>> import numpy as np
    >>> Swaps(np.array([True, True, False]), radius=1).size
    3
    """

    name = family = rings = "swaps"
    states = (False, True)


NEIGHBORHOODS: dict[str, type[PoolFlips]] = {kind.name: kind for kind in (Additions, Removals, Swaps)}


def _smallest_keys(keys: Keys, pool: Indices, count: Indices) -> Masks:
    """Mark the ``count[row]`` smallest keys of the pool in each row: a uniform subset of that size."""
    if len(pool) == 0:
        return np.zeros(keys.shape, dtype=bool)
    rows, in_pool = np.arange(len(keys)), np.zeros(keys.shape[1], dtype=bool)
    in_pool[pool] = True
    ordered = keys.take(pool, axis=1)
    ordered.sort(axis=1)
    border = ordered[rows, np.maximum(count, 1) - 1]
    marked: Masks = (keys <= border[:, None]) & in_pool
    marked[count == 0] = False
    beyond = ordered[rows, np.minimum(count, len(pool) - 1)]
    for row in ((border == beyond) & (count > 0) & (count < len(pool))).nonzero()[0]:
        # Equal keys are ordered by bits that belong to this row alone.
        seed = np.random.SeedSequence([int(key) for key in keys[row, pool]])
        fresh = np.random.Generator(np.random.Philox(seed)).permutation(len(pool))
        marked[row] = False
        marked[row, pool[np.lexsort((fresh, keys[row, pool]))[: count[row]]]] = True
    return marked
