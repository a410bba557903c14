"""Strata with weights in several means → how many draws each stratum gets, so that every mean is precise enough.

A mean r is Σ_c weight[r, c] · (rate of stratum c). With n_c draws in stratum c its squared error is bounded by
Σ_c weight[r, c]² · spread_c / n_c, and that is to be at most a given limit for every r. The cheapest
numbers of draws solve a convex problem: for multipliers μ_r ≥ 0 they are the root of
spread_c · Σ_r μ_r · weight[r, c]².
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_N_STEPS = 4000
_CLOSE = 1e-4


def allocate(weights: Floats, spreads: Floats, limit: float) -> NDArray[np.int64]:
    """The fewest draws per stratum that keep every mean's squared error within the limit, (n_strata,).

    ``weights`` (n_means, n_strata) are those of each stratum's rate in each mean, ``spreads`` (n_strata,) bounds on
    the variance of one draw, or 1 for a bound that needs none. Every stratum with weight gets at least one draw.
    """
    # A weight may be too small to have a square; its stratum gets one draw.
    used = (weights > 0).any(axis=0)
    n_draws = np.zeros(weights.shape[1], dtype=np.int64)
    if used.any():
        exact = _solve((weights**2 * spreads)[:, used], limit)
        n_draws[used] = np.maximum(1, np.ceil(exact * (1 - 1e-12))).astype(np.int64)
    return n_draws


def _solve(squares: Floats, limit: float) -> Floats:
    """Multiplicative updates of the multipliers; the best feasible point seen, scaled onto the limit."""
    if not squares.any():
        return np.ones(squares.shape[1])
    multipliers = np.where(squares.any(axis=1), 1.0, 0.0)
    best = np.full(squares.shape[1], np.inf)
    for _ in range(_N_STEPS):
        draws = np.sqrt(multipliers @ squares)
        errors = (squares / np.maximum(draws, 1e-300)).sum(axis=1)
        feasible = draws * (errors.max() / limit)
        if feasible.sum() < best.sum():
            best = feasible
        # At the optimum, means with a multiplier have the largest error; the others tend to none.
        multipliers *= errors / errors.max()
        multipliers /= multipliers.max()
        if feasible.sum() <= (1 + _CLOSE) * _dual(multipliers, squares, limit):
            break
    return best


def _dual(multipliers: Floats, squares: Floats, limit: float) -> float:
    """A lower bound on the total number of draws of any feasible allocation.

    For any μ ≥ 0, Σ n ≥ min_n Σ n + Σ_r μ_r (error_r - limit) = 2 Σ_c √(μ·squares) - limit Σ μ; the best
    multiple of μ gives (Σ_c √(μ·squares))² / (limit Σ μ).
    """
    return float(np.sqrt(multipliers @ squares).sum() ** 2 / (limit * multipliers.sum()))
