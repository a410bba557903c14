"""The fake models of the tests: lookup tables, and tables that write down what they were asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from holdfast import MaskedModel, lookup_table
from holdfast.types import Masks, Outputs, Provenance


def score_table(n_features: int, *, seed: int = 0, n_classes: int = 3) -> MaskedModel:
    """Random scores for every mask."""
    scores = np.random.default_rng(seed).normal(size=(2**n_features, n_classes))
    return lookup_table(scores, n_features=n_features)


def label_table(n_features: int, *, seed: int = 0, labels: tuple[Any, ...] = (0, 1, 2)) -> MaskedModel:
    """Random labels for every mask."""
    drawn = np.random.default_rng(seed).integers(len(labels), size=2**n_features)
    return lookup_table([labels[i] for i in drawn], n_features=n_features)


def all_masks(n_features: int) -> Masks:
    """Every mask; row j is the mask whose features are the bits of j."""
    return (np.arange(2**n_features)[:, None] >> np.arange(n_features) & 1).astype(bool)


class Recorded:
    """A model that writes down every batch it is asked, before anything can go wrong.

    ``before`` is called with (number of batches so far, masks) and may raise.
    """

    def __init__(self, model: MaskedModel, before: Callable[[int, Masks], None] | None = None) -> None:
        self.model = model
        self.n_features = model.n_features
        self.provenance = getattr(model, "provenance", Provenance())
        self.batches: list[Masks] = []
        self._before = before

    def __call__(self, masks: Masks, /) -> Outputs:
        self.batches.append(masks.copy())
        if self._before is not None:
            self._before(len(self.batches), masks)
        return self.model(masks)

    @property
    def batch_sizes(self) -> list[int]:
        """Rows of each batch, in order."""
        return [len(batch) for batch in self.batches]

    @property
    def n_rows(self) -> int:
        """Rows asked in all."""
        return sum(self.batch_sizes)

    @property
    def times_asked(self) -> Counter[tuple[bool, ...]]:
        """How often each mask was asked."""
        return Counter(tuple(mask) for batch in self.batches for mask in batch.tolist())


def spread(n_features: int = 16, n: int = 40, seed: int = 0) -> Any:
    """Masks of every share of features, none and all among them."""
    rng = np.random.default_rng(seed)
    masks = rng.random((n, n_features)) < rng.random((n, 1))
    masks[0], masks[1] = False, True
    return masks
