"""Design and tolerance → a proven upper bound on the probability of missing, over every true rate.

A grid of rates is not a proof. Between two neighbouring end points of the intervals
``k/n ± tolerance`` the set of missing terminals is fixed, so the miss probability P is that of one
event of at most N draws. With rate = sin²θ, arcsin √P moves by at most √N per unit of θ (the Fisher
information of N draws in θ is 4N), hence on a piece of width h P cannot exceed
sin²(arcsin √max(P at both ends) + √N h / 2). Pieces are halved until that is below what is asked.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.plans.design import ROUNDING, ROUNDING_PER_DRAW, ByShare, Design, Floats, Integers, Terminals


class MissBound(NamedTuple):
    """``bound`` is proven for every rate; ``seen`` is the largest miss probability met on the way."""

    bound: float
    seen: float


def bound_miss_probability(design: Design, tolerance: Fraction, *, target: float) -> MissBound:
    """Bound sup over rates of P(|k/n - rate| > tolerance), sharply enough to compare with ``target``.

    Refines until the bound is at most ``target`` or some rate is seen to exceed it.
    """
    cells = _Cells(design.terminals, tolerance)
    pieces = cells.whole()
    rounding = ROUNDING + ROUNDING_PER_DRAW * design.max_draws
    while True:
        seen = float(pieces.miss.max()) + rounding
        bounds = _arcsine_bound(pieces, design.max_draws) + rounding
        if seen > target or bounds.max() <= target:
            return MissBound(float(bounds.max()), seen)
        pieces = cells.refine(pieces, bounds > target)


class _Pieces(NamedTuple):
    """Stretches [low, high] of θ inside one cell, with the larger miss probability of their ends."""

    cell: Integers
    low: Floats
    high: Floats
    miss: Floats


def _arcsine_bound(pieces: _Pieces, n_draws: int) -> Floats:
    angle = np.arcsin(np.sqrt(np.clip(pieces.miss, 0.0, 1.0)))
    angle += np.sqrt(n_draws) * (pieces.high - pieces.low) / 2
    return np.asarray(np.sin(np.minimum(angle, np.pi / 2)) ** 2)


class _Cells:
    """The cells of [0, 1/2] between end points of terminal intervals; designs are symmetric."""

    def __init__(self, points: Terminals, tolerance: Fraction) -> None:
        self.terminals = ByShare(points)
        n, k = self.terminals.points.n.tolist(), self.terminals.points.k.tolist()
        shares, zero, half = [Fraction(b, a) for a, b in zip(n, k, strict=True)], Fraction(0), Fraction(1, 2)
        lows = [min(max(share - tolerance, zero), half) for share in shares]
        highs = [min(share + tolerance, half) for share in shares]
        cuts = sorted({zero, half, *lows, *highs})
        rank = {cut: i for i, cut in enumerate(cuts)}
        cells = np.arange(len(cuts) - 1)
        # A terminal hits exactly in the cells from rank(low) up to, not including, rank(high); both
        # ranks grow with the share, so the terminals that hit in one cell are neighbours.
        self.first_hit = np.searchsorted([rank[high] for high in highs], cells, side="right")
        self.past_hit = np.searchsorted([rank[low] for low in lows], cells, side="right")
        self.angles = np.arcsin(np.sqrt(np.array([float(cut) for cut in cuts])))

    def whole(self) -> _Pieces:
        return self._pieces(np.arange(len(self.angles) - 1), self.angles[:-1], self.angles[1:])

    def refine(self, pieces: _Pieces, coarse: NDArray[np.bool_]) -> _Pieces:
        """Halve the coarse pieces and keep the others."""
        cell, low, high = pieces.cell[coarse], pieces.low[coarse], pieces.high[coarse]
        middle = (low + high) / 2
        fine = self._pieces(np.concatenate([cell, cell]), np.concatenate([low, middle]), np.concatenate([middle, high]))
        kept = [column[~coarse] for column in pieces]
        return _Pieces(*(np.concatenate(pair) for pair in zip(kept, fine, strict=True)))

    def _pieces(self, cell: Integers, low: Floats, high: Floats) -> _Pieces:
        hits = self.first_hit[cell], self.past_hit[cell]
        ends = [self.terminals.miss(np.sin(angle) ** 2, *hits) for angle in (low, high)]
        return _Pieces(cell, low, high, np.maximum(*ends))
