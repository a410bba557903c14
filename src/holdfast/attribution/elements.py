"""A model with gradients → its input's elements, those of the baseline, and the features they belong to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.attribution.task import Numbers
from holdfast.errors import InvalidValueError
from holdfast.types import Differentiable


@dataclass(frozen=True)
class Elements:
    """The input with every feature shown and with every feature hidden, element by element."""

    shown: Numbers
    hidden: Numbers
    groups: NDArray[np.intp]
    n_features: int
    dtype: Any

    @classmethod
    def of(cls, model: Differentiable) -> Elements:
        """Read off a model with gradients; what is always shown is the same in both."""
        elements, groups = np.asarray(model.elements), np.asarray(model.groups)
        if groups.ndim == 0 or elements.shape[: groups.ndim] != groups.shape:
            raise InvalidValueError(
                f"`model.groups` must name the feature of each element along the leading axes of "
                f"`model.elements` {elements.shape}, got shape {groups.shape}."
            )
        shown = elements.astype(np.float64)
        hidden = np.where(_spread(groups >= 0, shown), np.asarray(model.baseline, dtype=np.float64), shown)
        kind = elements.dtype if elements.dtype.kind == "f" else np.dtype(np.float32)
        return cls(shown, hidden, groups, int(groups.max()) + 1, kind)

    @property
    def free(self) -> NDArray[np.bool_]:
        """Which elements belong to a feature, in the shape of the elements."""
        return _spread(self.groups >= 0, self.shown)

    @property
    def span(self) -> float:
        """The range of the elements; their size where all are equal."""
        return float(np.ptp(self.shown)) or float(np.abs(self.shown).max()) or 1.0

    def as_points(self, points: Numbers) -> NDArray[Any]:
        """Points in the number type of the elements."""
        return points.astype(self.dtype)

    def sum_by_feature(self, values: Numbers) -> Numbers:
        """Sums (n_features,) of one number per element."""
        per_place = values.reshape(*self.groups.shape, -1).sum(axis=-1)
        inside = self.groups >= 0
        sums = np.bincount(self.groups[inside], weights=per_place[inside], minlength=self.n_features)
        return sums.astype(np.float64)


def _spread(flags: NDArray[np.bool_], like: Numbers) -> NDArray[np.bool_]:
    """Flags of the leading axes for every element behind them."""
    return np.broadcast_to(flags.reshape(*flags.shape, *([1] * (like.ndim - flags.ndim))), like.shape)
