"""What a model whose structure is known can prove: counts of the masks that keep a prediction, and the nearest change.

A mask at distance k of ``selected`` flips k positions of every pool of a neighbourhood. A ``Countable`` says for every
distance how many masks keep the prediction (``Counts``), and how near the nearest mask is that loses it
(``NearestChange``). Where it cannot say all, it says a bracket that contains the truth.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, Protocol, runtime_checkable

import numpy as np

from holdfast.agreement import Agreement
from holdfast.neighborhood import NEIGHBORHOODS, Indices
from holdfast.types import Mask, Masks, Outputs
from holdfast.validation import check_mask, check_name

PROOFS = (
    *("paths of a tree", "table of all sums", "two halves", "rounded sums"),
    *("branch and bound", "most adverse features first", "no sum reaches a limit"),
)
"""What proves counts and nearest changes, as results name it."""

Distances = dict[tuple[int, ...], int]
"""Number of flips in each pool → number of sets of flips."""


@dataclass(frozen=True)
class Counts:
    """How many masks at each distance keep the prediction.

    Attributes
    ----------
    agreed : tuple of int
        At distance 0, 1, …: masks that are proven to keep the prediction.
    undecided : tuple of int
        Masks of which that is not known: within rounding, or within the bracket of a bound. All 0 if exact.
    sizes : tuple of int
        All masks.
    method : str
        What proves the counts; one of ``PROOFS``.

    Examples
    --------
    >>> counts = Counts(agreed=(1, 1, 0), undecided=(0, 0, 0), sizes=(1, 2, 1), method="paths of a tree")
    >>> counts.exact, counts.rate(radius=1), counts.worst_size(radius=2)
    (True, Fraction(2, 3), Fraction(0, 1))
    """

    agreed: tuple[int, ...]
    undecided: tuple[int, ...]
    sizes: tuple[int, ...]
    method: str

    @property
    def exact(self) -> bool:
        """Whether every count is known to the last mask."""
        return not any(self.undecided)

    def is_exact_within(self, radius: int) -> bool:
        """Whether the counts at distances up to ``radius`` are all known."""
        return not any(self.undecided[: radius + 1])

    def tally(self, radius: int, smallest: int = 0) -> tuple[int, int, int]:
        """Masks that agree, that are undecided and that there are, at distances ``smallest`` … ``radius`` (clamped)."""
        last = min(radius, len(self.sizes) - 1)
        part = slice(min(smallest, last), last + 1)
        return sum(self.agreed[part]), sum(self.undecided[part]), sum(self.sizes[part])

    def rate(self, radius: int, smallest: int = 0) -> Fraction:
        """The share that is proven to agree; the stability rate if exact."""
        agreed, _, size = self.tally(radius, smallest)
        return Fraction(agreed, size)

    def largest_rate(self, radius: int, smallest: int = 0) -> Fraction:
        """The largest that the stability rate can be."""
        agreed, undecided, size = self.tally(radius, smallest)
        return Fraction(agreed + undecided, size)

    def weighted_rate(self, radius: int, odds: Fraction) -> Fraction:
        """The probability that is proven to agree, if a mask is so much likelier than one with a flip less."""
        last = min(radius, len(self.sizes) - 1)
        agreed, sizes = (sum(odds**k * counts[k] for k in range(last + 1)) for counts in (self.agreed, self.sizes))
        return Fraction(agreed) / sizes

    def worst_size(self, radius: int) -> Fraction:
        """The smallest share over the distances 1 … ``radius``, proven; of distance 0 if there is no other."""
        last = min(radius, len(self.sizes) - 1)
        return min(self.rate(k, k) for k in range(min(1, last), last + 1))


@dataclass(frozen=True, eq=False)
class NearestChange:
    """How near the nearest mask is that loses the prediction.

    Attributes
    ----------
    cleared : int
        No mask at this distance or nearer loses the prediction: proven.
    distance : int or None
        Distance of the nearest mask that is known to lose it; None if none is known.
    mask : Boolean array or None
        That mask.
    largest : int
        The largest distance that was asked about.
    method : str
        What proves ``cleared``, one of ``PROOFS``; "the explanation itself" if that loses the prediction already.
    n_nodes : int
        Parts of the space of masks that were examined.
    """

    cleared: int
    distance: int | None
    mask: Mask | None
    largest: int
    method: str
    n_nodes: int = 0

    @property
    def proven(self) -> bool:
        """Whether nothing is left open: no nearer mask loses the prediction, or none at all does."""
        return self.cleared == (self.largest if self.distance is None else self.distance - 1)


@runtime_checkable
class Countable(Protocol):
    """A masked model that can prove how its prediction fares, from its structure.

    ``reference`` is the output that others must agree with: what the model says of ``selected``, unless the caller has
    another. Where ``reasons_against(agree, reference)`` is not None, the other methods cannot judge by that agreement.
    """

    @property
    def n_features(self) -> int: ...

    def __call__(self, masks: Masks, /) -> Outputs:
        """Outputs of masks (b, n_features)."""
        ...

    def reasons_against(self, agree: Agreement, reference: Any) -> str | None:
        """Why this agreement cannot be judged from the structure; None if it can."""
        ...

    def count(self, selected: Mask, neighborhood: str, agree: Agreement, reference: Any) -> Counts | None:
        """Counts at every distance; None if there are too many masks to count by any method."""
        ...

    def nearest_change(
        self,
        selected: Mask,
        neighborhood: str,
        agree: Agreement,
        reference: Any,
        *,
        max_radius: int | None = None,
        seconds: float | None = None,
        max_nodes: int | None = None,
    ) -> NearestChange:
        """The nearest mask that loses the prediction, or a bracket once seconds or nodes are used up."""
        ...


@dataclass(frozen=True, eq=False)
class Flips:
    """A neighbourhood of ``selected`` in bits: bit i of a whole number stands for feature i.

    ``pool_bits`` are the features that may be flipped, pool by pool, ``bits`` those of all pools, ``lengths`` how many
    there are in each, and ``shown`` what is selected.
    """

    selected: Mask
    shown: int
    pool_bits: tuple[int, ...]
    bits: int
    lengths: tuple[int, ...]

    @classmethod
    def of(cls, selected: Any, neighborhood: str) -> Flips:
        """The pools of a neighbourhood by its name."""
        if neighborhood not in NEIGHBORHOODS:
            check_name(neighborhood, "neighborhood", list(NEIGHBORHOODS))
        mask = check_mask(selected, "selected")
        shown = int.from_bytes(np.packbits(mask, bitorder="little").tobytes(), "little")
        hidden = shown ^ ((1 << len(mask)) - 1)
        pool_bits = tuple([shown if state else hidden for state in NEIGHBORHOODS[neighborhood].states])
        return cls(mask, shown, pool_bits, sum(pool_bits), tuple([bits.bit_count() for bits in pool_bits]))

    @cached_property
    def pools(self) -> tuple[Indices, ...]:
        """The positions of each pool."""
        return tuple(np.array(positions_in(bits), dtype=np.intp) for bits in self.pool_bits)

    @property
    def largest(self) -> int:
        """The largest distance there is."""
        return min(self.lengths)

    def sizes(self) -> tuple[int, ...]:
        """Number of masks at each distance."""
        rows = [_binomials(length) for length in self.lengths]
        return rows[0] if len(rows) == 1 else tuple(math.prod(column) for column in zip(*rows, strict=False))

    def requirements(self, shown: int, hidden: int) -> tuple[int, int] | None:
        """Which features must be flipped and which must not, for some to be shown and others hidden; None if neither.

        Features outside the pools stay as they are.
        """
        wrong = (shown & ~self.shown) | (hidden & self.shown)
        if wrong & ~self.bits:
            return None
        return wrong, (shown | hidden) & ~wrong & self.bits

    def spread(self, sets: Distances, used: Sequence[int]) -> tuple[int, ...]:
        """Masks at each distance, from the sets of flips among ``used`` features of each pool; the others are free."""
        totals = [0] * (self.largest + 1)
        for flips, n_sets in sets.items():
            needs = tuple((flipped, n - flipped) for flipped, n in zip(flips, used, strict=True))
            totals = [total + n_sets * n for total, n in zip(totals, n_reaching(self.lengths, needs), strict=True)]
        return tuple(totals)

    def mask(self, flipped: int, distance: int | None = None) -> Mask:
        """The mask with these features flipped, and so many others that every pool has ``distance`` flips."""
        mask = self.selected.copy()
        for pool in self.pools:
            inside = np.array([bool(flipped >> int(i) & 1) for i in pool], dtype=bool)
            mask[pool] ^= inside
            if distance is not None:
                others = pool[~inside][: distance - int(inside.sum())]
                mask[others] ^= True
        return mask


@lru_cache(maxsize=128)
def _binomials(n: int) -> tuple[int, ...]:
    """C(n, 0), …, C(n, n)."""
    return tuple(math.comb(n, k) for k in range(n + 1))


@lru_cache(maxsize=128)
def n_reaching(lengths: tuple[int, ...], needs: tuple[tuple[int, int], ...]) -> tuple[int, ...]:
    """How many masks at each distance have a features of a pool flipped and b others not, for its pair (a, b) of needs.

    Examples
    --------
    >>> n_reaching((4,), ((1, 1),))
    (0, 1, 2, 1, 0)
    """
    rows = [
        (0,) * flipped + _binomials(length - flipped - kept) + (0,) * kept
        for length, (flipped, kept) in zip(lengths, needs, strict=True)
    ]
    return rows[0] if len(rows) == 1 else tuple(math.prod(column) for column in zip(*rows, strict=False))


def bits_of(positions: Any) -> int:
    """The whole number with the bits at these positions.

    Examples
    --------
    >>> bits_of([0, 3])
    9
    """
    return sum(1 << i for i in np.asarray(positions, dtype=np.intp).tolist())


def positions_in(bits: int) -> list[int]:
    """The positions of the bits of a whole number, in increasing order."""
    positions = []
    while bits:
        low = bits & -bits
        positions.append(low.bit_length() - 1)
        bits ^= low
    return positions
