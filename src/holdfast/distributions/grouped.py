"""A tree of features → choices of its nodes, none within another: counted exactly, enumerated, and drawn uniformly."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidValueError
from holdfast.neighborhood import Indices, uniform
from holdfast.types import Mask, Masks
from holdfast.validation import check_mask, check_whole

_CHUNK = 1 << 17
"""About how many random words are held at once."""


class TreePart:
    """Part of a tree: a feature, or two parts side by side which, if they make up a group, can be taken as a whole.

    ``counts`` has the number of choices of 0, 1, … nodes.
    """

    def __init__(self, features: tuple[int, ...], halves: tuple[TreePart, TreePart] | None, is_node: bool) -> None:
        self.features, self.halves, self.is_node = features, halves, is_node
        self.counts = [1]
        if halves is not None:
            self.counts = _product(halves[0].counts, halves[1].counts)
        if is_node:
            self.counts = [1, 1] if halves is None else [1, self.counts[1] + 1, *self.counts[2:]]
        self.indices: Indices = np.array(features, dtype=np.intp)
        self._rows: dict[int, NDArray[np.float64]] = {}

    def choices(self, k: int) -> Iterator[tuple[int, ...]]:
        """The features revealed by each choice of k nodes."""
        if k == 0:
            yield ()
            return
        if k == 1 and self.is_node:
            yield self.features
        if self.halves is not None:
            first, second = self.halves
            for i in range(min(k, len(first.counts) - 1), max(0, k - len(second.counts) + 1) - 1, -1):
                for chosen in first.choices(i):
                    for others in second.choices(k - i):
                        yield (*chosen, *others)

    def split(self, k: int) -> NDArray[np.float64]:
        """P(the whole is taken), then P(that, or at most i of k nodes are in the first half) for i = 0, 1 and so on."""
        if k not in self._rows and self.halves is not None:
            first, second = (half.counts for half in self.halves)
            ways = [int(k == 1 and self.is_node)]
            ways += [n * second[k - i] if 0 <= k - i < len(second) else 0 for i, n in enumerate(first[: k + 1])]
            self._rows[k] = np.array([part / self.counts[k] for part in accumulate(ways)])
        return self._rows[k]

    def sizes(self, mask: Mask) -> set[int]:
        """Of how many nodes the choices are that reveal what the mask does of this part; none if it cannot."""
        shown = mask[list(self.features)]
        if not shown.any():
            return {0}
        sizes = {1} if shown.all() and self.is_node else set()
        if self.halves is not None:
            first, second = (half.sizes(mask) for half in self.halves)
            sizes |= {i + j for i in first for j in second}
        return sizes


def _product(first: list[int], second: list[int]) -> list[int]:
    """The coefficients of the product of two polynomials, by one product of whole numbers that have room for each."""
    room = (sum(first) * sum(second)).bit_length() // 8 + 1
    packed = (b"".join(count.to_bytes(room, "little") for count in counts) for counts in (first, second))
    length = len(first) + len(second) - 1
    product = math.prod(int.from_bytes(part, "little") for part in packed).to_bytes(room * length, "little")
    return [int.from_bytes(product[room * i : room * (i + 1)], "little") for i in range(length)]


def _side_by_side(parts: Sequence[TreePart], is_node: bool) -> TreePart:
    """Parts as two halves, each of which is made so again."""
    if len(parts) == 1:
        return parts[0]
    halves = tuple(_side_by_side(half, False) for half in (parts[: len(parts) // 2], parts[len(parts) // 2 :]))
    return TreePart(halves[0].features + halves[1].features, (halves[0], halves[1]), is_node)


def hidden_parts(tree: Any, hidden: Mask, *, is_node: bool) -> TreePart | None:
    """What a tree has of hidden features; None if nothing."""
    if isinstance(tree, int):
        if tree >= len(hidden):
            raise InvalidValueError(argument="neighborhood", must=f"have features below {len(hidden)}", got=tree)
        return TreePart((tree,), None, True) if hidden[tree] else None
    parts = [part for child in tree if (part := hidden_parts(child, hidden, is_node=True)) is not None]
    return _side_by_side(parts, is_node) if parts else None


@lru_cache(maxsize=16)
def _parts_beside(tree: Any, selected: bytes) -> TreePart:
    """What a tree has beside an explanation: of thousands of features it takes seconds to count."""
    hidden = ~np.frombuffer(selected, dtype=bool)
    return hidden_parts(tree, hidden, is_node=False) or TreePart((), None, False)


class GroupChoices:
    """Choices of at most so many nodes of a tree, none within another, all equally likely.

    Several choices may reveal the same features: as many times is the mask counted, enumerated and drawn.
    """

    rings, odds, is_uniform = None, Fraction(1), True

    def __init__(self, selected: Any, radius: int | None, tree: Any, name: str) -> None:
        self.selected, self.name = check_mask(selected, "selected"), name
        self._part = _parts_beside(tree, self.selected.tobytes())
        self.pools = (self._part.indices,)
        largest = len(self._part.counts) - 1
        self.radius = largest if radius is None else check_whole(radius, "radius")
        self.smallest, self.effective_radius = 0, min(self.radius, largest)

    def exactly(self, k: int) -> GroupChoices:
        """The choices of k nodes exactly, or of as many as there are."""
        ring = self.within(k)
        ring.smallest = ring.effective_radius
        return ring

    def within(self, radius: int) -> GroupChoices:
        """The same at another radius; what is counted is shared."""
        other = object.__new__(GroupChoices)
        vars(other).update(vars(self))
        other.radius, other.smallest = check_whole(radius, "radius"), 0
        other.effective_radius = min(other.radius, len(self._part.counts) - 1)
        return other

    @property
    def size(self) -> int:
        """Exact number of choices."""
        return sum(self._part.counts[self.smallest : self.effective_radius + 1])

    def is_larger_than(self, limit: int) -> bool:
        """Whether ``size > limit``."""
        return self.size > limit

    def contains(self, mask: Mask) -> bool:
        """Whether some choice reveals just what the mask does."""
        others = mask != self.selected
        others[self.pools[0]] = False
        return not others.any() and any(self.smallest <= k <= self.effective_radius for k in self._part.sizes(mask))

    def distance(self, mask: Mask) -> int:
        """The fewest nodes that reveal what the mask does."""
        return min(self._part.sizes(mask))

    def masses(self, masks: Masks) -> list[Fraction]:
        """How likely each of these choices is, up to a common factor."""
        return [Fraction(1)] * len(masks)

    def mass_counts(self) -> list[tuple[Fraction, int]]:
        """How likely a choice is, and how many are as likely."""
        return [(Fraction(1), self.size)]

    def enumerate(self, batch: int) -> Iterator[Masks]:
        """The masks of all choices, fewest nodes first, in arrays of ``batch`` rows (the last may be shorter)."""
        return self._enumerate(check_whole(batch, "batch", minimum=1))

    def _enumerate(self, rows: int) -> Iterator[Masks]:
        waiting: list[Mask] = []
        for k in range(self.smallest, self.effective_radius + 1):
            for features in self._part.choices(k):
                waiting.append(self.selected.copy())
                waiting[-1][list(features)] = True
                if len(waiting) == rows:
                    yield np.array(waiting)
                    waiting = []
        if waiting:
            yield np.array(waiting)

    def distances(self, words: NDArray[np.uint64]) -> Indices:
        """The number of nodes that each random word stands for: the inverse of their distribution."""
        ways = list(accumulate(self._part.counts[self.smallest : self.effective_radius + 1]))
        cumulative = [part / ways[-1] for part in ways[:-1]]
        return self.smallest + np.searchsorted(cumulative, uniform(words), side="right")

    def sample(self, n: int, rng: np.random.Generator) -> Masks:
        """Draw n choices independently and uniformly, as masks (n, n_features)."""
        masks = np.tile(self.selected, (check_whole(n, "n"), 1))
        n_words = 1 + len(self.selected)
        step = max(1, _CHUNK // n_words)
        for start in range(0, n, step):
            rows = masks[start : start + step]
            bits = rng.integers(0, 2**64, size=(len(rows), n_words), dtype=np.uint64)
            numbers = uniform(bits[:, 1:])
            waiting = [(self._part, self.distances(bits[:, 0]))]
            while waiting:
                part, left = waiting.pop()
                if part.halves is None:
                    rows[np.ix_(left == 1, part.indices)] = True
                elif left.any():
                    first, second = part.halves
                    # Where one half ends is a place that no other part has: its word is this part's alone.
                    inside, drawn = np.zeros_like(left), numbers[:, first.features[-1]]
                    for k in np.unique(left[left > 0]).tolist():
                        these = np.flatnonzero(left == k)
                        inside[these] = np.searchsorted(part.split(k)[:-1], drawn[these], side="right") - 1
                    whole = inside < 0
                    rows[np.ix_(whole, part.indices)] = True
                    waiting += [(first, np.where(whole, 0, inside)), (second, np.where(whole, 0, left - inside))]
        return masks
