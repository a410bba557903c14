"""Outputs of a model and the names of its classes → what the page shows of them, as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.agreement import same_top_class
from holdfast.types import Mask
from holdfast.words import class_label

MOST_CLASSES, _SHOWN_CLASSES = 50, 20
"""Of a model with more classes than these, only the leading ones are told."""

Plain = dict[str, Any]


@dataclass(frozen=True)
class Answers:
    """How outputs are told, with names for classes, against the output for the explanation alone.

    Examples
    --------
    >>> told = Answers(("cat", "dog"), np.array([0.2, 0.8])).tell(np.array([0.6, 0.4]))
    >>> told["prediction"], told["agrees"], round(told["margin"], 3)
    ('cat', False, -0.2)
    """

    classes: Sequence[str]
    reference: Any

    def tell(self, output: Any) -> Plain:
        """The prediction, its scores, and whether it is that of the explanation.

        ``margin`` is by how much the class of the explanation leads its strongest rival: below zero once
        the prediction has changed.
        """
        agrees = bool(same_top_class(_column(output), self.reference)[0])
        if not isinstance(output, np.ndarray):
            return {"prediction": str(output), "class": None, "margin": None, "scores": [], "agrees": agrees}
        leader, wanted = int(output.argmax()), int(self.reference.argmax())
        return {
            "prediction": self.name(leader),
            "class": leader,
            "margin": float(output[wanted] - np.delete(output, wanted).max()),
            "scores": self._scores(output, wanted),
            "agrees": agrees,
        }

    def name(self, prediction: Any) -> str:
        """What a class is called; labels are their own names."""
        return class_label(prediction, self.classes) or ""

    def _scores(self, output: NDArray[Any], wanted: int) -> list[Plain]:
        shares = _shares(output)
        told = np.arange(len(output))
        if len(output) > MOST_CLASSES:
            told = np.union1d(np.argsort(-output, kind="stable")[:_SHOWN_CLASSES], [wanted])
        return [{"class": self.name(int(i)), "score": float(output[i]), "share": float(shares[i])} for i in told]


def step_through(answers: Answers, outputs: Any, added: Sequence[int]) -> list[Plain]:
    """What is seen as features are revealed one after the other."""
    return [{"added": int(one)} | answers.tell(output) for one, output in zip(added, outputs, strict=True)]


def indices(mask: Mask | None) -> list[int] | None:
    """The features of a mask."""
    return None if mask is None else [int(i) for i in np.flatnonzero(mask)]


def _column(output: Any) -> NDArray[Any]:
    if isinstance(output, np.ndarray):
        return output[None]
    column = np.empty(1, dtype=object)
    column[0] = output
    return column


def _shares(output: NDArray[Any]) -> NDArray[np.float64]:
    """Scores that are shares as they are, others by their softmax."""
    scores = output.astype(np.float64)
    if (scores >= 0).all() and abs(scores.sum() - 1) < 1e-6:
        return scores
    powers = np.exp(scores - scores.max())
    return np.asarray(powers / powers.sum())
