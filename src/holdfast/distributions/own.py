"""An object of the user's that draws masks → a neighbourhood, and whether it keeps what a neighbourhood must."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.neighborhood import Indices, Neighborhood
from holdfast.types import Mask, Masks
from holdfast.validation import check_label, check_mask, check_number, check_whole, shown

OWN = "own law "
"""How the names of objects of the user's begin: such a name cannot be read back."""

MOST_LISTED = 100_000
"""Most masks whose probabilities are listed only to check a result."""

_SUM_SLACK = Fraction(1, 10**6)
"""By which probabilities may miss a sum of 1."""


def _exact(chance: Any, must: str) -> Fraction:
    """A probability as the fraction that its digits say."""
    number = check_number(chance, "neighborhood", must, lambda value: 0 <= value <= 1)
    return Fraction(number) if isinstance(number, (int, Fraction)) else Fraction(repr(float(number)))


class OwnDistribution:
    """An object of the user's as a distribution: it has no radius, and its name cannot be read back."""

    rings = None

    def __init__(self, source: Any) -> None:
        self.source = source
        label = getattr(source, "name", type(source).__name__)
        if not isinstance(label, str) or not label:
            raise InvalidTypeError(argument="neighborhood.name", must="be a text", got=shown(label))
        self.name = self.family = f"{OWN}{check_label(label, 'neighborhood.name')}"

    def __call__(self, selected: Any, radius: Any = None) -> Neighborhood:
        nearby = OwnMasks(selected, self)
        if radius is not None and check_whole(radius, "radius") < nearby.radius:
            must = "be left out: your own neighbourhood decides what is revealed"
            hint = "Use `certify`, without a radius."
            raise InvalidValueError(argument="radius", must=must, got=shown(radius), hint=hint)
        return nearby


class OwnMasks:
    """What an object of the user's draws, and lists if it can: one ring that has all its masks."""

    rings, odds, is_uniform = None, Fraction(1), False

    def __init__(self, selected: Any, distribution: OwnDistribution) -> None:
        self.selected = check_mask(selected, "selected")
        self.name, self._source = distribution.name, distribution.source
        self.radius = self.smallest = self.effective_radius = len(self.selected)
        self.pools: tuple[Indices, ...] = (np.arange(len(self.selected)),)

    def exactly(self, k: int) -> OwnMasks:
        """The same: it knows no distances."""
        return self

    def within(self, radius: int) -> OwnMasks:
        """The same: it knows no radius."""
        return self

    @cached_property
    def _listed(self) -> dict[bytes, Fraction]:
        """All masks with their probabilities."""
        listed = self._source.enumerate(self.selected.copy())
        masks, given = listed if isinstance(listed, tuple) else (listed, None)
        rows = self._checked(masks, None)
        must = "list masks with one probability each, summing to 1"
        chances = (
            [Fraction(1, max(1, len(rows)))] * len(rows)
            if given is None
            else [_exact(chance, must) for chance in given]
        )
        total = sum(chances, Fraction(0))
        if len(chances) != len(rows) or abs(total - 1) > _SUM_SLACK:
            got = f"{len(rows)} masks, {len(chances)} probabilities that sum to {float(total):g}"
            raise InvalidValueError(argument="neighborhood", must=must, got=got)
        by_mask = defaultdict[bytes, Fraction](Fraction)
        for row, chance in zip(rows, chances, strict=True):
            by_mask[row.tobytes()] += chance / total
        return {mask: chance for mask, chance in by_mask.items() if chance}

    def _checked(self, masks: Any, n: int | None) -> Masks:
        shape = (len(masks) if n is None and isinstance(masks, np.ndarray) else n, len(self.selected))
        if not isinstance(masks, np.ndarray) or masks.dtype != np.bool_ or masks.shape != shape:
            got = f"{masks.dtype} {masks.shape}" if isinstance(masks, np.ndarray) else type(masks).__name__
            must = f"give Boolean arrays of shape ({'n' if n is None else n}, {len(self.selected)})"
            raise InvalidValueError(argument="neighborhood", must=must, got=got)
        return np.ascontiguousarray(masks)

    @property
    def size(self) -> int:
        """Number of different masks that it lists."""
        return len(self._listed)

    def is_larger_than(self, limit: int) -> bool:
        """Whether ``size > limit``; what lists nothing is larger than anything."""
        if not callable(getattr(self._source, "enumerate", None)):
            return True
        stated = self.stated_size
        return (stated is not None and stated > limit) or self.size > limit

    @property
    def stated_size(self) -> int | None:
        """How many masks the object says that there are, if it does."""
        size = getattr(self._source, "size", None)
        return check_whole(size(self.selected.copy()), "neighborhood.size") if callable(size) else None

    def contains(self, mask: Mask) -> bool:
        """Whether the mask can be drawn; if nothing is listed, that is not known of the full input."""
        return not mask.all() if self.is_larger_than(MOST_LISTED) else mask.tobytes() in self._listed

    def distance(self, mask: Mask) -> int:
        """1: it knows no distances."""
        return 1

    def masses(self, masks: Masks) -> list[Fraction]:
        """The probability of each of these masks."""
        return [self._listed[mask.tobytes()] for mask in masks]

    def mass_counts(self) -> list[tuple[Fraction, int]]:
        """How likely a mask is, and how many are as likely."""
        return list(Counter(self._listed.values()).items())

    def enumerate(self, batch: int) -> Iterator[Masks]:
        """All masks in the order of the object, in arrays of ``batch`` rows (the last may be shorter)."""
        rows = np.array([np.frombuffer(mask, dtype=bool) for mask in self._listed])
        return (rows[start : start + batch] for start in range(0, len(rows), batch))

    def distances(self, words: NDArray[np.uint64]) -> Indices:
        """The one distance."""
        return np.full(len(words), self.smallest, dtype=np.intp)

    def sample(self, n: int, rng: np.random.Generator) -> Masks:
        """Let the object draw n masks, (n, n_features); it is never asked for none."""
        if n == 0:
            return np.zeros((0, len(self.selected)), dtype=bool)
        return self._checked(self._source.sample(self.selected.copy(), n, rng), n)


def check_draws(nearby: Neighborhood, counts: Sequence[int], about: str = "") -> Masks:
    """Draw so many masks, in one batch and in several; raise unless they are the same and come from ``rng``."""
    first, again, batched = (np.random.default_rng(0) for _ in range(3))
    before = first.bit_generator.state
    masks = nearby.sample(sum(counts), first)
    if len(np.unique(masks, axis=0)) > 1 and first.bit_generator.state == before:
        hint = "Take all randomness from the generator passed to `sample`."
        raise InvalidValueError(argument="neighborhood", must=f"draw from `rng`, which it ignores{about}", hint=hint)
    if not np.array_equal(nearby.sample(sum(counts), again), masks):
        raise InvalidValueError(argument="neighborhood", must=f"draw the same masks from the same `rng`{about}")
    if not np.array_equal(np.concatenate([nearby.sample(rows, batched) for rows in counts]), masks):
        must = f"draw the same masks in one batch as in several{about}"
        hint = "For each mask, draw one row of `rng.random((n, k))` with a k that does not depend on n."
        raise InvalidValueError(argument="neighborhood", must=must, hint=hint)
    return masks
