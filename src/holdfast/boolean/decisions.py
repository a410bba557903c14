"""Scores at the explanation → how far they may move before the prediction can change.

Scores are rescaled so that the prediction is kept while no column moves by 1 or more. With a
margin, every column is divided by it and moves count both ways. Without, the columns are the leads
of the predicted class over each rival, divided by their value at the explanation, and only falls count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.agreement import Agreement, as_agreement, within
from holdfast.boolean.tables import Table, quiet
from holdfast.errors import InvalidTypeError, InvalidValueError


@dataclass(frozen=True, eq=False)
class MarginScale:
    """Every column divided by the margin; a move in either direction counts."""

    margin: float

    def columns(self, scores: Table) -> Table:
        """Rescaled scores (b, k) of scores (b, k)."""
        with quiet():
            shares = scores / self.margin
        return _check_shares(shares, f"`margin` must be large enough to divide the scores by, got {self.margin!r}.")

    def size(self, moves: Table) -> Table:
        """The largest move over the columns, (b,)."""
        return np.asarray(np.abs(moves).max(axis=1))


@dataclass(frozen=True, eq=False)
class LeadScale:
    """Leads of the predicted class, as shares of what they are at the explanation; only falls count."""

    winner: int
    leads: Table

    def columns(self, scores: Table) -> Table:
        """Rescaled leads (b, k - 1) of scores (b, k)."""
        with quiet():
            shares = (scores[:, [self.winner]] - np.delete(scores, self.winner, axis=1)) / self.leads
        return _check_shares(
            shares,
            "`h` must have leads at `selected` that all its leads can be divided by in float64, "
            f"got {self.leads.min():g} for the smallest.",
        )

    def size(self, moves: Table) -> Table:
        """The largest fall over the columns, (b,)."""
        return np.asarray(np.maximum(-moves.min(axis=1), 0.0))


Scale = MarginScale | LeadScale


def scale_for(reference: NDArray[np.float64], margin: Any) -> Scale:
    """The scale of the scores (k,) at the explanation."""
    if margin is not None:
        return MarginScale(within(margin).margin)
    if len(reference) == 1:
        raise InvalidTypeError("`margin` must be a number > 0 for a single score; only several have a top class.")
    winner = int(reference.argmax())
    with quiet():
        leads = reference[winner] - np.delete(reference, winner)
    if not (leads > 0).all():
        raise InvalidValueError(
            "`h` must have one top class at `selected`; the largest scores are equal there. Give a `margin` instead."
        )
    return LeadScale(winner, leads)


def _check_shares(shares: Table, message: str) -> Table:
    if not np.isfinite(shares).all():
        raise InvalidValueError(message)
    return shares


def agreement_for(margin: Any, agree: Any) -> Agreement:
    """Scores within the margin, or the agreement asked for, by default the same top class."""
    if margin is None:
        return as_agreement("same_top_class" if agree is None else agree)
    if agree is not None:
        raise InvalidTypeError("`margin` and `agree` must not both be given; `margin` means `within(margin)`.")
    return within(margin)
