"""A model whose hidden features are drawn → the same as a function of rows, each a mask and the number of a completion.

A row has one column per feature, and then the bits of the number, the lowest first. Uniform rows are uniform masks and,
independently of them, uniform completions. So whatever draws, lists, remembers or counts masks does the same with rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import ModelError
from holdfast.evaluation import Evaluator, bare_model
from holdfast.neighborhood import Indices, Neighborhood
from holdfast.types import Completing, Mask, MaskedModel, Masks, Outputs, Provenance
from holdfast.validation import check_whole


def n_bits(n_completions: int) -> int:
    """How many columns the number of a completion takes."""
    return (n_completions - 1).bit_length()


def with_completions(masks: Masks, numbers: Any, n_completions: int) -> Masks:
    """Rows of masks (b, n) and numbers of completions (b,); where nothing is hidden all are alike, and number 0."""
    hidden = np.where(masks.all(axis=1), 0, numbers)
    bits = (hidden[:, None] >> np.arange(n_bits(n_completions))) & 1
    return np.concatenate([masks, bits.astype(bool)], axis=1)


def numbers_of(rows: Masks, n_features: int) -> NDArray[np.int64]:
    """The numbers of completions (b,) of rows."""
    if rows.shape[1] == n_features:
        return np.zeros(len(rows), dtype=np.int64)
    bits = rows[:, n_features:]
    return np.asarray(bits @ (1 << np.arange(bits.shape[1], dtype=np.int64)), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class CompletedModel:
    """A model with random fills as a function of rows, and so of what was drawn: it is deterministic."""

    model: Completing

    @property
    def n_features(self) -> int:
        return self.model.n_features

    @property
    def n_completions(self) -> int:
        return check_whole(self.model.n_completions, "model.n_completions", minimum=1)

    @property
    def n_columns(self) -> int:
        """Columns of a row."""
        return self.n_features + n_bits(self.n_completions)

    @property
    def batch_size(self) -> int | None:
        """Most rows per call, if the model says so; a call of the model itself takes all completions of a mask."""
        most = getattr(self.model, "batch_size", None)
        return None if most is None else most * self.n_completions

    @property
    def provenance(self) -> Provenance | None:
        return getattr(self.model, "provenance", None)

    @property
    def feature_names(self) -> Any:
        return getattr(self.model, "feature_names", None)

    @property
    def classes(self) -> Any:
        return getattr(self.model, "classes", None)

    def __call__(self, rows: Masks, /) -> Outputs:
        """Outputs of rows (b, n_columns)."""
        numbers = numbers_of(rows, self.n_features)
        if len(numbers) and numbers.max() >= self.n_completions:
            raise ModelError(f"The number of a completion must be below {self.n_completions}, got {numbers.max()}.")
        return self.model.completed(rows[:, : self.n_features], numbers)


def by_rows(model: MaskedModel) -> MaskedModel:
    """A model with random fills as a function of rows; any other model as it is.

    Of an evaluator it is another evaluator, which it keeps, so that whoever shares the one shares the other.
    """
    inner = bare_model(model)
    if not _is_completing(inner):
        return model
    if not isinstance(model, Evaluator):
        return CompletedModel(inner)
    if model.by_rows is None:
        calls, inner = model.calls, by_rows(model.model)
        options: dict[str, Any] = {}
        if not isinstance(inner, Evaluator):  # which has its own
            options = {"timeout": model.deadline.seconds, "price": calls.given_price}
        model.by_rows = Evaluator(inner, batch_size=calls.given_size, **options)
    model.by_rows.progress, model.by_rows.is_silent = model.progress, model.is_silent
    return model.by_rows


def completions_of(model: Any) -> int | None:
    """How many completions a model draws from; None if nothing is drawn."""
    inner = bare_model(model)
    return int(inner.n_completions) if _is_completing(inner) or isinstance(inner, CompletedModel) else None


def _is_completing(model: Any) -> bool:
    return hasattr(model, "completed") and isinstance(model, Completing)  # one name tells faster than a protocol


@dataclass(frozen=True, eq=False)
class CompletedNeighborhood:
    """The masks of a neighbourhood, each with every completion: counted, listed and drawn as rows."""

    masks: Neighborhood
    n_completions: int

    @property
    def name(self) -> str:
        return self.masks.name

    @property
    def rings(self) -> str | None:
        return self.masks.rings

    @property
    def odds(self) -> Fraction:
        return self.masks.odds

    @property
    def is_uniform(self) -> bool:
        return self.masks.is_uniform

    @property
    def selected(self) -> Mask:
        return self.masks.selected

    @property
    def radius(self) -> int:
        return self.masks.radius

    @property
    def smallest(self) -> int:
        return self.masks.smallest

    @property
    def effective_radius(self) -> int:
        return self.masks.effective_radius

    @property
    def pools(self) -> tuple[Indices, ...]:
        return self.masks.pools

    @property
    def size(self) -> int:
        """Pairs of a mask and a completion."""
        return self.masks.size * self.n_completions

    def is_larger_than(self, limit: int) -> bool:
        """Whether ``size > limit``, without computing a huge size."""
        return self.masks.is_larger_than(limit // self.n_completions)

    def contains(self, mask: Mask) -> bool:
        """Whether the mask, of features alone, is one of them."""
        return self.masks.contains(mask)

    def exactly(self, k: int) -> CompletedNeighborhood:
        """The rows at distance k exactly."""
        return CompletedNeighborhood(self.masks.exactly(k), self.n_completions)

    def within(self, radius: int) -> CompletedNeighborhood:
        """The rows at distances up to the radius."""
        return CompletedNeighborhood(self.masks.within(radius), self.n_completions)

    def distance(self, mask: Mask) -> int:
        """How far a mask, of features alone, is."""
        return self.masks.distance(mask)

    def masses(self, rows: Masks) -> list[Fraction]:
        """How likely each row is, but for a factor: as likely as its mask, whatever its completion."""
        return self.masks.masses(rows[:, : len(self.selected)])

    def mass_counts(self) -> list[tuple[Fraction, int]]:
        """What is as likely, and how many rows are."""
        return [(mass, count * self.n_completions) for mass, count in self.masks.mass_counts()]

    def distances(self, words: NDArray[np.uint64]) -> Indices:
        """The distance that each random word stands for."""
        return self.masks.distances(words)

    def enumerate(self, batch: int) -> Iterator[Masks]:
        """All rows, nearest first, in arrays of ``batch`` rows (the last may be shorter)."""
        numbers, waiting = np.arange(self.n_completions), self.masks.selected[None][:0]
        waiting = with_completions(waiting, 0, self.n_completions)
        for masks in self.masks.enumerate(max(1, batch // len(numbers))):
            every = np.tile(numbers, len(masks))
            rows = with_completions(masks.repeat(len(numbers), axis=0), every, self.n_completions)
            waiting = np.concatenate([waiting, rows])
            while len(waiting) >= batch:
                yield waiting[:batch]
                waiting = waiting[batch:]
        if len(waiting):
            yield waiting

    def sample(self, n: int, rng: np.random.Generator) -> Masks:
        """Draw n rows independently and uniformly.

        A mask and its completion are drawn in turn: ``sample(a + b)`` is ``sample(a)`` followed by ``sample(b)``.
        """
        masks, numbers = [self.masks.sample(0, rng)], np.zeros(n, dtype=np.int64)
        for i in range(n):
            masks.append(self.masks.sample(1, rng))
            numbers[i] = rng.integers(self.n_completions)
        return with_completions(np.concatenate(masks), numbers, self.n_completions)


def nearby_rows(masks: Neighborhood, n_completions: int | None) -> Neighborhood:
    """The masks, with every completion if what is hidden is drawn."""
    return masks if n_completions is None else CompletedNeighborhood(masks, n_completions)
