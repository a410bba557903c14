"""A masked model → the same function of masks, asked a few masks at a time, each time in its turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.explore.turns import Errand, Gate
from holdfast.types import Differentiable, MaskedModel, Masks, Outputs, Provenance
from holdfast.validation import check_masks

MOST_ROWS = 32
"""Most masks of a turn."""

_LONGEST, _SHORTEST = 0.12, 0.03
"""Seconds of a turn above which the next one is half as long, and below which it is twice as long."""


class Pace:
    """How many rows a turn has: few enough that it is short.

    Examples
    --------
    >>> pace = Pace()
    >>> pace.record(32, seconds=1.0)
    >>> pace.n_rows
    16
    """

    def __init__(self) -> None:
        self.n_rows = MOST_ROWS

    def record(self, n_rows: int, *, seconds: float) -> None:
        """Take note of how long a turn was."""
        if seconds > _LONGEST:
            self.n_rows = max(1, min(self.n_rows, n_rows) // 2)
        elif seconds < _SHORTEST and n_rows >= self.n_rows:
            self.n_rows = min(MOST_ROWS, 2 * self.n_rows)


@dataclass(frozen=True, eq=False)
class PacedModel:
    """A model that waits for its turn before every batch, and raises ``Cancelled`` once nobody wants the answer.

    Examples
    --------
    >>> from holdfast import lookup_table
    >>> paced = PacedModel(lookup_table([0, 1, 1, 0], n_features=2), Gate(), Errand("tab"), Pace())
    >>> paced(np.array([[True, False], [True, True]])).tolist()
    [1, 0]
    """

    model: MaskedModel
    gate: Gate
    errand: Errand
    pace: Pace

    @property
    def n_features(self) -> int:
        """As of the model."""
        return self.model.n_features

    @property
    def batch_size(self) -> int:
        """Most rows of a turn."""
        return MOST_ROWS

    @property
    def provenance(self) -> Provenance | None:
        """As of the model."""
        return getattr(self.model, "provenance", None)

    @property
    def feature_names(self) -> Any:
        """As of the model."""
        return getattr(self.model, "feature_names", None)

    @property
    def classes(self) -> Any:
        """As of the model."""
        return getattr(self.model, "classes", None)

    def __call__(self, masks: Masks, /) -> Outputs:
        """What the model says of masks (b, n_features)."""
        shown = check_masks(masks, self.n_features)
        if len(shown) == 0:
            return np.asarray(self.model(shown))
        return np.concatenate(list(self._in_turns(lambda rows: np.asarray(self.model(shown[rows])), len(shown))))

    def _in_turns(self, work: Callable[[slice], Any], n_rows: int) -> Iterator[Any]:
        start = 0
        while start < n_rows:
            with self.gate.turn(self.errand):
                rows = slice(start, min(n_rows, start + self.pace.n_rows))
                began = time.perf_counter()
                answer = work(rows)
                self.pace.record(rows.stop - rows.start, seconds=time.perf_counter() - began)
            start = rows.stop
            yield answer


@dataclass(frozen=True, eq=False)
class PacedGradients(PacedModel):
    """The same for a model that also has gradients."""

    model: Any

    @property
    def elements(self) -> NDArray[Any]:
        """As of the model."""
        return np.asarray(self.model.elements)

    @property
    def baseline(self) -> NDArray[Any]:
        """As of the model."""
        return np.asarray(self.model.baseline)

    @property
    def groups(self) -> NDArray[np.intp]:
        """As of the model."""
        return np.asarray(self.model.groups)

    def gradient(self, points: NDArray[Any], target: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Scores (b, n_classes) and gradients (b, *S) at points (b, *S)."""
        parts = self._in_turns(lambda rows: self.model.gradient(points[rows], target), len(points))
        scores, slopes = zip(*parts, strict=True)
        return np.concatenate(scores), np.concatenate(slopes)


def in_turns(model: MaskedModel, gate: Gate, errand: Errand, pace: Pace) -> PacedModel:
    """The model, to be asked on an errand; with gradients if it has them."""
    kind = PacedGradients if isinstance(model, Differentiable) else PacedModel
    return kind(model, gate, errand, pace)
