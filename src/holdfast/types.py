"""The shapes that flow through holdfast, and the one protocol everything rests on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]
"""Boolean (n_features,): which features are shown. The explanation is a mask called ``selected``."""

Masks = NDArray[np.bool_]
"""Boolean (n_masks, n_features)."""

Outputs = NDArray[Any]
"""What a model says of b masks: scores (b, n_classes), or labels (b,)."""

Rng = np.random.Generator | int | None
"""A generator, a seed, or None for fresh entropy. Global generators are never touched."""

Progress = Callable[[int, int], None]
"""Called with (rows computed so far, most rows that may be needed)."""


@runtime_checkable
class MaskedModel(Protocol):
    """A classifier and one input, bound into a function of Boolean masks.

    It must be deterministic: the same mask always gets the same answer.
    """

    @property
    def n_features(self) -> int:
        """Number of features that can be shown or hidden."""
        ...

    def __call__(self, masks: Masks, /) -> Outputs:
        """Scores (b, n_classes), or labels (b,), of the input under masks (b, n_features)."""
        ...
