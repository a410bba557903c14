"""Decision trees of any library → trees over features that are shown or hidden, and what one tree proves by itself.

With a row and a fill in hand, each node of a tree sends the row's own value one way and the fill the same way or the
other. Nodes where both go the same way decide nothing. What is left is a decision tree on masks: the path to each leaf
says which features must be shown and which hidden. Thresholds, number types and missing values are all settled there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from holdfast.agreement import Agreement
from holdfast.exact.countable import Counts, Flips, NearestChange, n_reaching
from holdfast.types import Mask, MaskedModel, Masks, Outputs

NAN_IS_ZERO, ZERO_IS_MISSING, NAN_IS_MISSING = range(3)
"""What a node takes for a missing value: nothing (NaN is 0), values near 0 and NaN, or NaN."""

_ZERO = 1e-35  # LightGBM's


class Leaf(NamedTuple):
    """One leaf that masks can reach: the features that must be shown, those that must be hidden (bits), its node."""

    shown: int
    hidden: int
    node: int


@dataclass(frozen=True, eq=False)
class Forest:
    """The trees of a model, one after the other in arrays over all nodes.

    Attributes
    ----------
    roots : int array (n_trees,)
        Node at which each tree begins.
    column : int array (n_nodes,)
        Column that a node tests.
    left, right : int arrays (n_nodes,)
        Nodes that follow; -1 at leaves.
    threshold : float64 array (n_nodes,)
        Values up to it go left; values below it if ``strict``.
    missing_left : Boolean array (n_nodes,)
        Whether missing values go left.
    missing : uint8 array (n_nodes,)
        What counts as missing.
    values : float64 array (n_nodes, n_scores)
        What leaves add to the scores.
    strict : bool
        Whether a value equal to the threshold goes right.
    dtype : type
        Number type that rows are rounded to.
    categories : dict of int → frozenset of int
        Nodes that test for categories: those that go left.
    """

    roots: NDArray[np.intp]
    column: NDArray[np.intp]
    left: NDArray[np.intp]
    right: NDArray[np.intp]
    threshold: NDArray[np.float64]
    missing_left: NDArray[np.bool_]
    missing: NDArray[np.uint8]
    values: NDArray[np.float64]
    strict: bool
    dtype: Any
    categories: dict[int, frozenset[int]]

    def goes_left(self, rows: NDArray[Any]) -> NDArray[np.bool_]:
        """Whether each row (r, d) goes left at each node, (r, n_nodes)."""
        with np.errstate(over="ignore"):
            values = rows.astype(self.dtype).astype(np.float64)[:, self.column]
        is_nan = np.isnan(values)
        values = np.where(is_nan & (self.missing != NAN_IS_MISSING), 0.0, values)
        left = values < self.threshold if self.strict else values <= self.threshold
        for node, members in self.categories.items():
            left[:, node] = [value == value and int(value) in members for value in values[:, node].tolist()]
        is_missing = (is_nan & (self.missing == NAN_IS_MISSING)) | (
            (np.abs(values) <= _ZERO) & (self.missing == ZERO_IS_MISSING)
        )
        return np.where(is_missing, self.missing_left, left)

    @cached_property
    def _children(self) -> list[int]:
        return list(self.left.tolist())

    def leaves(self, rows: NDArray[Any], of_column: NDArray[np.intp], most: float = np.inf) -> list[list[Leaf]] | None:
        """The leaves of each tree that masks of one row can reach; None if they are more than ``most``.

        Parameters
        ----------
        rows : array (2, d)
            The row as it is, and the row with every column hidden.
        of_column : int array (d,)
            Feature of each column; -1 if it is always shown.
        """
        left = self.goes_left(rows)
        feature = of_column[self.column]
        shown_next, hidden_next = np.where(left, self.left, self.right)
        hidden_next = np.where(feature < 0, shown_next, hidden_next)
        steps = (self._children, shown_next.tolist(), hidden_next.tolist(), feature.tolist())
        trees, n_leaves = [], 0
        for root in self.roots.tolist():
            trees.append(_reachable(root, *steps))
            n_leaves += len(trees[-1])
            if n_leaves > most:
                return None
        return trees


def _reachable(
    root: int, children: list[int], shown_next: list[int], hidden_next: list[int], feature: list[int]
) -> list[Leaf]:
    leaves, stack = [], [(root, 0, 0)]
    while stack:
        node, shown, hidden = stack.pop()
        while children[node] >= 0:
            if_shown, if_hidden = shown_next[node], hidden_next[node]
            if if_shown == if_hidden:
                node = if_shown
                continue
            bit = 1 << feature[node]
            if shown & bit:
                node = if_shown
            elif hidden & bit:
                node = if_hidden
            else:
                stack.append((if_hidden, shown, hidden | bit))
                node, shown = if_shown, shown | bit
        leaves.append(Leaf(shown, hidden, node))
    return leaves


Number = TypeVar("Number", int, float)
Cube = tuple[int, int, Number]
"""Where a sum has a term: features that must be in one state, features that must be in the other (bits), the term."""

_WORD, _MOST_PAIRS = 64, 256


def merged_cubes(trees: Sequence[Sequence[Cube[Number]]]) -> list[list[Cube[Number]]]:
    """Fewer trees with the same sum: neighbours become one while it has at most 64 leaves.

    A leaf of two trees together is a leaf of each, if no feature must be in both states.

    Examples
    --------
    >>> merged_cubes([[(1, 0, 5), (0, 1, 3)], [(1, 0, 2), (0, 1, 1)]])
    [[(1, 0, 7), (0, 1, 4)]]
    """
    merged: list[list[Cube[Number]]] = []
    for tree in trees:
        if merged and len(merged[-1]) * len(tree) <= _MOST_PAIRS:
            both = [
                (first | own_first, second | own_second, term + own_term)
                for first, second, term in merged[-1]
                for own_first, own_second, own_term in tree
                if not (first | own_first) & (second | own_second)
            ]
            if len(both) <= _WORD:
                merged[-1] = both
                continue
        merged.append(list(tree))
    return merged


@dataclass(frozen=True, eq=False)
class CountableTree:
    """One decision tree on one row: every leaf is an output, so any agreement can be judged, with no rounding.

    ``outputs`` (n_leaves, ...) are what the model answers at each of ``leaves``.
    """

    model: MaskedModel
    leaves: Sequence[Leaf]
    outputs: Outputs

    @property
    def n_features(self) -> int:
        return self.model.n_features

    def __call__(self, masks: Masks, /) -> Outputs:
        """Outputs of masks (b, n_features), from the leaves."""
        packed = np.packbits(masks, axis=1, bitorder="little")
        at = np.empty(len(masks), dtype=np.intp)
        for row, bits in enumerate(packed):
            shown = int.from_bytes(bits.tobytes(), "little")
            at[row] = next(
                i for i, leaf in enumerate(self.leaves) if leaf.shown & ~shown == 0 and leaf.hidden & shown == 0
            )
        return self.outputs[at]

    def reasons_against(self, agree: Agreement, reference: Any) -> str | None:
        """None: the outputs at the leaves are all there are."""
        return None

    def count(self, selected: Mask, neighborhood: str, agree: Agreement, reference: Any) -> Counts:
        """Counts at every distance: a leaf that needs a flips and forbids b is reached by C(m - a - b, k - a) masks.

        Examples
        --------
        >>> import numpy as np
        >>> from holdfast.agreement import same_top_class
        >>> both = [Leaf(0b11, 0, 0), Leaf(0b01, 0b10, 1), Leaf(0, 0b01, 2)]
        >>> tree = CountableTree(None, both, np.array([[0, 1], [1, 0], [1, 0]]))
        >>> tree.count(np.array([False, False]), "additions", same_top_class, np.array([1, 0])).agreed
        (1, 2, 0)
        """
        flips = Flips.of(selected, neighborhood)
        kinds: dict[tuple[tuple[int, int], ...], int] = {}
        for leaf, kept in zip(self.leaves, agree(self.outputs, reference).tolist(), strict=True):
            if kept and (needs := flips.requirements(leaf.shown, leaf.hidden)) is not None:
                kind = _numbers(flips, *needs)
                kinds[kind] = kinds.get(kind, 0) + 1
        totals = [0] * (flips.largest + 1)
        for kind, n_leaves in kinds.items():
            totals = [total + n_leaves * n for total, n in zip(totals, n_reaching(flips.lengths, kind), strict=True)]
        return Counts(tuple(totals), (0,) * len(totals), flips.sizes(), "paths of a tree")

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
        """The nearest mask that reaches a leaf with another prediction."""
        flips = Flips.of(selected, neighborhood)
        largest = flips.largest if max_radius is None else min(max_radius, flips.largest)
        nearest, flipped = largest + 1, 0
        for leaf, kept in zip(self.leaves, agree(self.outputs, reference).tolist(), strict=True):
            needs = None if kept else flips.requirements(leaf.shown, leaf.hidden)
            if needs is not None:
                numbers = _numbers(flips, *needs)
                distance = max(n_flipped for n_flipped, _ in numbers)
                room = min(length - n_kept for length, (_, n_kept) in zip(flips.lengths, numbers, strict=True))
                if distance <= room and distance < nearest:
                    nearest, flipped, forbidden = distance, *needs
        if nearest > largest:
            return NearestChange(largest, None, None, largest, "paths of a tree", len(self.leaves))
        mask = _reach(flips, flipped, forbidden, nearest)
        return NearestChange(nearest - 1, nearest, mask, largest, "paths of a tree", len(self.leaves))


def _numbers(flips: Flips, flipped: int, kept: int) -> tuple[tuple[int, int], ...]:
    """For each pool, how many features must be flipped and how many must not."""
    return tuple([((flipped & bits).bit_count(), (kept & bits).bit_count()) for bits in flips.pool_bits])


def _reach(flips: Flips, flipped: int, kept: int, distance: int) -> Mask:
    """A mask at this distance with some features flipped and others not."""
    for bits in flips.pool_bits:
        free, missing = bits & ~flipped & ~kept, distance - (bits & flipped).bit_count()
        for _ in range(missing):
            low = free & -free
            flipped, free = flipped | low, free ^ low
    return flips.mask(flipped)


def monotone_of(leaves: Sequence[Leaf], values: NDArray[np.float64]) -> dict[int, NDArray[np.float64]]:
    """Sparse monotone weights of a tree from its leaves: set of features (bits) → weight.

    A leaf with value v, shown S and hidden H adds (-1)^|U| v to the weight of S ∪ U for every U ⊆ H. Sets with weight 0
    are left out; the index is that of ``boolean.monotone``, for any number of features.

    Examples
    --------
    >>> both = [Leaf(0b11, 0, 0), Leaf(0b01, 0b10, 1), Leaf(0, 0b01, 2)]
    >>> monotone_of(both, np.array([1.0, 0.0, 0.0]))
    {3: np.float64(1.0)}
    """
    weights: dict[int, Any] = {}
    for leaf, value in zip(leaves, values, strict=True):
        subset = leaf.hidden
        while True:
            term = leaf.shown | subset
            weights[term] = weights.get(term, 0.0) + (-value if subset.bit_count() % 2 else value)
            if subset == 0:
                break
            subset = (subset - 1) & leaf.hidden
    return {term: weight for term, weight in weights.items() if np.any(weight)}


def fourier_of(leaves: Sequence[Leaf], values: NDArray[np.float64]) -> dict[int, NDArray[np.float64]]:
    """Sparse Fourier coefficients of a tree from its leaves: set of features (bits) → coefficient.

    A leaf with value v on a path of d features adds ±v / 2^d to every set of features of its path, with the sign
    (-1)^|those that must be shown|. The index is that of ``boolean.fourier``, for any number of features.

    Examples
    --------
    >>> both = [Leaf(0b11, 0, 0), Leaf(0b01, 0b10, 1), Leaf(0, 0b01, 2)]
    >>> sorted(fourier_of(both, np.array([1.0, 0.0, 0.0])).items())
    [(0, np.float64(0.25)), (1, np.float64(-0.25)), (2, np.float64(-0.25)), (3, np.float64(0.25))]
    """
    coefficients: dict[int, Any] = {}
    for leaf, value in zip(leaves, values, strict=True):
        path = subset = leaf.shown | leaf.hidden
        share = value / 2 ** path.bit_count()
        while True:
            sign = -1 if (subset & leaf.shown).bit_count() % 2 else 1
            coefficients[subset] = coefficients.get(subset, 0.0) + sign * share
            if subset == 0:
                break
            subset = (subset - 1) & path
    return {term: coefficient for term, coefficient in coefficients.items() if np.any(coefficient)}
