"""Odds or weights of features → sets of features, counted, enumerated, and drawn by the product of their weights."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidValueError
from holdfast.neighborhood import Additions, Indices, PoolFlips, uniform
from holdfast.types import Mask, Masks
from holdfast.validation import check_mask, check_whole

_MOST_CELLS = 1 << 24
"""Most numbers in a table of partial sums."""

_CHUNK = 1 << 17
"""About how many random words are held at once."""


class EqualOdds(PoolFlips):
    """Every other feature with one probability: the masks of ``Additions``, of which each distance has its odds."""

    states, rings = (False,), "additions"

    def __init__(self, selected: Any, radius: int | None, probability: Fraction, name: str) -> None:
        mask = check_mask(selected, "selected")
        n_hidden = int((~mask).sum())
        super().__init__(mask, n_hidden if radius is None else radius)
        self._least = n_hidden if probability == 1 else 0
        _check_reach(self.radius, self._least)
        self.name, self._probability, self.smallest = name, probability, self._least
        if probability == 0:
            self.pools = (self.pools[0][:0],)
        self.odds = Fraction(1) if probability in (0, 1) else probability / (1 - probability)

    def within(self, radius: int) -> EqualOdds:
        """The same at another radius."""
        return EqualOdds(self.selected, radius, self._probability, self.name)

    def exactly(self, k: int) -> EqualOdds:
        """The masks at distance k exactly, or at the nearest distance there is."""
        return super().exactly(max(check_whole(k, "k"), self._least))


def _check_reach(radius: int, least: int) -> None:
    if radius < least:
        must = f"be at least {least}, as {least} features are always revealed"
        raise InvalidValueError(argument="radius", must=must, got=radius)


class WeightedSets:
    """Sets of other features by the product of their weights; None is the weight of one that is always revealed."""

    rings, odds, is_uniform = None, Fraction(1), False

    def __init__(self, selected: Any, radius: int | None, weights: Sequence[Fraction | None], name: str) -> None:
        self.selected, self.name, self._weights = check_mask(selected, "selected"), name, weights
        if len(weights) != len(self.selected):
            must = f"have one number for each of {len(self.selected)} features"
            raise InvalidValueError(argument="neighborhood", must=must, got=len(weights))
        always = ~self.selected & np.array([weight is None for weight in weights])
        self._free = np.flatnonzero(~self.selected & ~always & np.array([weight != 0 for weight in weights]))
        self._base, self._least = self.selected | always, int(always.sum())
        largest = self._least + len(self._free)
        self.radius = largest if radius is None else check_whole(radius, "radius")
        _check_reach(self.radius, self._least)
        self.smallest, self.effective_radius = self._least, min(self.radius, largest)
        self._bind()

    def _bind(self) -> None:
        """The sets themselves, whatever their weights: those of free features beside what is always revealed."""
        self._sets = Additions(self._base, self.effective_radius - self._least)
        self._sets.pools = self.pools = (self._free,)
        self._sets.smallest = self.smallest - self._least

    def exactly(self, k: int) -> WeightedSets:
        """The masks at distance k exactly, or at the nearest distance there is."""
        ring = self.within(max(check_whole(k, "k"), self._least))
        ring.smallest = ring.effective_radius
        ring._bind()
        return ring

    def within(self, radius: int) -> WeightedSets:
        """The same at another radius."""
        return WeightedSets(self.selected, radius, self._weights, self.name)

    @property
    def size(self) -> int:
        """Exact number of masks."""
        return self._sets.size

    def is_larger_than(self, limit: int) -> bool:
        """Whether ``size > limit``, without computing a huge size."""
        return self._sets.is_larger_than(limit)

    def contains(self, mask: Mask) -> bool:
        """Whether the mask is one of them."""
        return self._sets.contains(mask)

    def enumerate(self, batch: int) -> Iterator[Masks]:
        """All masks, the smallest first, in arrays of ``batch`` rows (the last may be shorter)."""
        return self._sets.enumerate(batch)

    def distance(self, mask: Mask) -> int:
        """How many features are revealed."""
        return int((mask & ~self.selected).sum())

    def masses(self, masks: Masks) -> list[Fraction]:
        """How likely each of these masks is, up to a common factor."""
        weights = [weight or Fraction(0) for weight in self._weights]
        rows = (np.flatnonzero(mask).tolist() for mask in masks & ~self._base)
        return [math.prod((weights[i] for i in row), start=Fraction(1)) for row in rows]

    def mass_counts(self) -> list[tuple[Fraction, int]]:
        """How likely a mask is, and how many are as likely."""
        return list(Counter(mass for masks in self.enumerate(1024) for mass in self.masses(masks)).items())

    @cached_property
    def _log_weights(self) -> tuple[float, ...]:
        exact = [self._weights[i] or Fraction(1) for i in self._free.tolist()]
        return tuple(math.log(weight.numerator) - math.log(weight.denominator) for weight in exact)

    @property
    def _sums(self) -> NDArray[np.float64]:
        n_free = len(self._free)
        most = n_free if n_free * (n_free + 1) <= _MOST_CELLS else self.effective_radius - self._least
        if n_free * (most + 1) > _MOST_CELLS:
            must = f"be at most {_MOST_CELLS // n_free - 1} for {n_free} features of unequal weights"
            raise InvalidValueError(argument="radius", must=must, got=self.radius)
        return _log_elementary(self._log_weights, most)

    def distances(self, words: NDArray[np.uint64]) -> Indices:
        """The distance that each random word stands for: the inverse of their distribution."""
        logs = self._sums[0, self._sets.smallest : self._sets.effective_radius + 1]
        cumulative = np.cumsum(np.exp(logs - logs.max()))
        return self.smallest + np.searchsorted(cumulative[:-1] / cumulative[-1], uniform(words), side="right")

    def sample(self, n: int, rng: np.random.Generator) -> Masks:
        """Draw n masks independently, (n, n_features)."""
        n_words = 1 + len(self.selected)
        masks = np.tile(self._base, (check_whole(n, "n"), 1))
        step = max(1, _CHUNK // n_words)
        is_free = self._sets.smallest == 0 and self._sets.effective_radius == len(self._free)
        for start in range(0, n, step):
            part = masks[start : start + step]
            bits = rng.integers(0, 2**64, size=(len(part), n_words), dtype=np.uint64)
            numbers = uniform(bits[:, 1:])
            if is_free:  # then features are independent
                chances = [1 / (1 + math.exp(-log)) if log > -700 else math.exp(log) for log in self._log_weights]
                part[:, self._free] = numbers[:, self._free] < np.array(chances)
                continue
            left, sums = self.distances(bits[:, 0]) - self._least, self._sums
            for place, (feature, log) in enumerate(zip(self._free.tolist(), self._log_weights, strict=True)):
                # Given how many of the features from here on are revealed, whether this one is.
                chance = np.exp(np.minimum(log + sums[place + 1, np.maximum(left - 1, 0)] - sums[place, left], 0.0))
                revealed = (left > 0) & (numbers[:, feature] < chance)
                part[revealed, feature] = True
                left = left - revealed
        return masks


@lru_cache(maxsize=4)
def _log_elementary(log_weights: tuple[float, ...], most: int) -> NDArray[np.float64]:
    """Logarithms of sums over sets of k of the weights from i on of their products, (n + 1, most + 1).

    All terms are positive, so that nothing cancels, whatever the sizes of the weights are.
    """
    sums = np.full((len(log_weights) + 1, most + 1), -np.inf)
    sums[-1, 0] = 0.0
    for place in range(len(log_weights) - 1, -1, -1):
        sums[place] = sums[place + 1]
        sums[place, 1:] = np.logaddexp(sums[place + 1, 1:], log_weights[place] + sums[place + 1, :-1])
    sums.setflags(write=False)
    return sums
