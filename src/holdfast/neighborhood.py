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
from functools import cached_property, lru_cache
from itertools import accumulate, chain, combinations, islice, product
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidTypeError
from holdfast.types import Mask, Masks
from holdfast.validation import check_mask, check_whole, shown

_CHUNK_BYTES = 1 << 20

Indices = NDArray[np.intp]
Keys = NDArray[np.uint32]


class Neighborhood(Protocol):
    """A finite set of masks that can be counted, enumerated and drawn from."""

    @property
    def name(self) -> str: ...
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
    def distances(self, words: NDArray[np.uint64]) -> Indices: ...


class _FlipNeighborhood:
    """Masks that differ from ``selected`` by k flips in each pool, smallest ≤ k ≤ radius.

    There is a pool for each of the ``states`` that features are flipped from: hidden (False) or shown (True).
    """

    name: str
    states: tuple[bool, ...]

    def __init__(self, selected: Any, radius: int) -> None:
        self.selected = check_mask(selected, "selected")
        self.radius = check_whole(radius, "radius")
        self.smallest = 0
        self.pools = tuple(np.flatnonzero(self.selected == state) for state in self.states)

    def exactly(self, k: int) -> Self:
        """The masks at distance k exactly (clamped to the largest distance there is)."""
        ring = object.__new__(type(self))
        ring.selected, ring.radius = self.selected, check_whole(k, "k")
        ring.pools = self.pools  # there may be a ring for every size
        ring.smallest = ring.effective_radius
        return ring

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
        n_features = len(self.selected)
        masks = np.tile(self.selected, (check_whole(n, "n"), 1))
        words = 1 + (n_features + 1) // 2
        step = max(1, _CHUNK_BYTES // (8 * words))
        for start in range(0, len(masks), step):
            part = masks[start : start + step]
            bits = rng.integers(0, 2**64, size=(len(part), words), dtype=np.uint64)
            distance = self.distances(bits[:, 0])
            keys = bits[:, 1:].view(np.uint32)[:, :n_features]
            for pool in self.pools:
                part ^= _smallest_keys(keys, pool, distance)
        return masks

    def distances(self, words: NDArray[np.uint64]) -> Indices:
        """The distance that each random word stands for: the inverse of their distribution."""
        uniform = (words >> np.uint64(11)) * 2.0**-53
        lengths = tuple(len(pool) for pool in self.pools)
        cumulative = _cumulative(lengths, self.smallest, self.effective_radius)
        return self.smallest + np.searchsorted(cumulative[:-1], uniform, side="right")


@lru_cache(maxsize=512)
def _cumulative(lengths: tuple[int, ...], smallest: int, largest: int) -> NDArray[np.float64]:
    """P(distance ≤ k) by ratios from the most likely distance outwards: no huge binomials."""
    k = np.arange(smallest, largest, dtype=np.float64)
    ratio = np.ones(len(k))
    for length in lengths:
        ratio *= (length - k) / (k + 1)
    mode = int(np.searchsorted(-ratio, -1.0))
    up = np.cumprod(ratio[mode:])
    down = np.cumprod(1 / ratio[:mode][::-1])[::-1]
    total = np.cumsum(np.concatenate([down, [1.0], up]))
    cumulative = np.asarray(total / total[-1])
    cumulative.setflags(write=False)
    return cumulative


class Additions(_FlipNeighborhood):
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

    name, states = "additions", (False,)


class Removals(_FlipNeighborhood):
    """Every mask that hides at most ``radius`` of the selected features.

    Examples
    --------
    >>> import numpy as np
    >>> Removals(np.array([True, True, False]), radius=5).size
    4
    """

    name, states = "removals", (True,)


class Swaps(_FlipNeighborhood):
    """Every mask that trades at most ``radius`` selected features for as many unselected ones.

    Examples
    --------
    >>> import numpy as np
    >>> Swaps(np.array([True, True, False]), radius=1).size
    3
    """

    name, states = "swaps", (False, True)


NEIGHBORHOODS: dict[str, type[_FlipNeighborhood]] = {kind.name: kind for kind in (Additions, Removals, Swaps)}


def _smallest_keys(keys: Keys, pool: Indices, count: Indices) -> Masks:
    """Mark the ``count[row]`` smallest keys of the pool in each row: a uniform subset of that size."""
    if len(pool) == 0:
        return np.zeros(keys.shape, dtype=bool)
    rows, in_pool = np.arange(len(keys)), np.zeros(keys.shape[1], dtype=bool)
    in_pool[pool] = True
    ordered = np.take(keys, pool, axis=1)
    ordered.sort(axis=1)
    border = ordered[rows, np.maximum(count, 1) - 1]
    marked: Masks = (keys <= border[:, None]) & in_pool
    marked[count == 0] = False
    beyond = ordered[rows, np.minimum(count, len(pool) - 1)]
    for row in np.flatnonzero((border == beyond) & (count > 0) & (count < len(pool))):
        # Equal keys are ordered by bits that belong to this row alone.
        seed = np.random.SeedSequence([int(key) for key in keys[row, pool]])
        fresh = np.random.Generator(np.random.Philox(seed)).permutation(len(pool))
        marked[row] = False
        marked[row, pool[np.lexsort((fresh, keys[row, pool]))[: count[row]]]] = True
    return marked
