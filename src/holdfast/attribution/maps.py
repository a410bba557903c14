"""A map of the input's elements and the feature of each → one score per feature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.attribution.task import Numbers, bare_model
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.validation import as_array, check_name, check_whole

_REDUCTIONS = ("sum", "mean", "max")


@dataclass(frozen=True)
class Maps:
    """How maps of one input become scores: the feature of each element, and what is done with a feature's elements."""

    groups: NDArray[np.intp] | None
    n_features: int | None
    reduce: str

    @classmethod
    def of(cls, model: Any, *, groups: Any, reduce: str) -> Maps:
        """The groups given, or those of the model, checked."""
        check_name(reduce, "reduce", _REDUCTIONS)
        known = getattr(bare_model(model), "groups", None) if groups is None else groups
        checked = None if known is None else _check_groups(known)
        told = getattr(model, "n_features", None)
        n_features = None if told is None else check_whole(told, "model.n_features", minimum=1)
        if checked is not None:
            n_grouped = int(checked.max()) + 1
            if n_features not in (None, n_grouped):
                raise InvalidValueError(f"`groups` must name the model's {n_features} features, got {n_grouped}.")
            n_features = n_grouped
        return cls(checked, n_features, reduce)

    def fits(self, values: Numbers) -> bool:
        """Whether these are scores of features, or a map without further axes."""
        is_map = self.groups is not None and values.shape == self.groups.shape
        return is_map or (values.ndim == 1 and self.n_features in (None, len(values)))

    def reduced(self, values: Numbers, *, channels_first: bool) -> Numbers:
        """Scores (n_features,) of scores or of a map; leading axes of length one are dropped."""
        while values.ndim > 1 and len(values) == 1 and not self.fits(values):
            values = values[0]
        if values.ndim == 1 and self.n_features in (None, len(values)) and not self._moves(values):
            return values
        if self.groups is None:
            wanted = "one number per feature" if self.n_features is None else f"{self.n_features} numbers"
            raise InvalidValueError(
                f"`scores` must be {wanted}, or a map with the `groups` of its elements, got shape {values.shape}."
            )
        places = self._by_place(values, channels_first=channels_first)
        inside = self.groups.ravel() >= 0
        return self._join(places[inside], self.groups.ravel()[inside])

    def _moves(self, values: Numbers) -> bool:
        """Whether one element per feature is meant, in another order than the features'."""
        if self.groups is None or self.groups.shape != values.shape:
            return False
        return not np.array_equal(self.groups, np.arange(len(values)))

    def _by_place(self, values: Numbers, *, channels_first: bool) -> Numbers:
        """The map as (places, further numbers at each place)."""
        shape = () if self.groups is None else self.groups.shape
        first, last = values.shape[: len(shape)] == shape, values.shape[-len(shape) :] == shape
        # Channels come first in images (C, H, W), never in texts (T, d).
        if last and ((channels_first and len(shape) > 1) or not first):
            return values.reshape(-1, int(np.prod(shape))).T
        if not first:
            raise InvalidValueError(
                f"`scores` must be {self.n_features} numbers or a map of elements {shape}, got shape {values.shape}."
            )
        return values.reshape(int(np.prod(shape)), -1)

    def _join(self, places: Numbers, features: NDArray[np.intp]) -> Numbers:
        n = int(self.n_features or features.max() + 1)
        if self.reduce == "max":
            largest = np.full(n, -np.inf)
            np.maximum.at(largest, features, places.max(axis=1))
            return largest
        sums = np.bincount(features, weights=places.sum(axis=1), minlength=n).astype(np.float64)
        return sums if self.reduce == "sum" else sums / (np.bincount(features, minlength=n) * places.shape[1])


def _check_groups(groups: Any) -> NDArray[np.intp]:
    must = "hold the feature of each element, whole numbers from -1"
    array = as_array(groups, "groups", must)
    if array.dtype.kind not in "iu":
        raise InvalidTypeError(argument="groups", must=must, got=array.dtype)
    present = np.unique(array[array >= 0])
    if array.size == 0 or array.min() < -1 or not np.array_equal(present, np.arange(len(present))) or not len(present):
        raise InvalidValueError(argument="groups", must=f"{must} with none left out", got=present.tolist()[:8])
    return array.astype(np.intp)
