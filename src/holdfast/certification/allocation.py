"""Strata with weights in several means → how many draws each stratum gets, so that every mean is precise enough.

A mean r is Σ_c weight[r, c] · (rate of stratum c). With n_c draws in stratum c its squared error is bounded by
Σ_c weight[r, c]² · spread_c / n_c, and that is to be at most a given limit for every r. The cheapest
numbers of draws solve a convex problem: for multipliers μ_r ≥ 0 they are the root of
spread_c · Σ_r μ_r · weight[r, c]².

The rates of a stratum differ from input to input. The variance of one draw of a random input is p(1 - p),
p the mean rate; the mean over all inputs of the variance within an input is smaller by the variance of the
rates. When every input has its turn equally often, only the variance within inputs is left in the mean; when
some have one turn more, a part of the other comes back. These variances are estimates for the normal
approximation only, meant to be rather too large than too small.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

InputTally = NDArray[np.int64]
"""Draws (row 0) and agreements (row 1) of each input in a stratum, (2, n_inputs)."""

_ENOUGH = 30
"""Inputs from which a variance within inputs is believed."""

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


def squared_errors(weights: Floats, spreads: Floats, n_draws: NDArray[np.int64]) -> Floats:
    """Σ_c weight² · spread / n for every mean, (n_means,)."""
    return np.asarray((weights**2 * spreads / np.maximum(n_draws, 1)).sum(axis=1))


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


def total_variance(own: InputTally) -> float:
    """P(1 - p) of a stratum; two imaginary draws, one of each answer, keep it above 0."""
    n_drawn, n_agreed = own.sum(axis=1)
    rate = (n_agreed + 1) / (n_drawn + 2)
    return float(rate * (1 - rate))


def within_variance(own: InputTally, neighbours: Sequence[InputTally]) -> float:
    """The mean variance within inputs of one draw, estimated from draws of the same input.

    Two draws of one input at the same size differ with probability 2 τ(1 - τ). Two of adjacent sizes
    with rates τ and σ differ with probability τ(1 - τ) + σ(1 - σ) + (τ - σ)²: rather too much.
    Without enough such pairs the total variance takes its place.
    """
    total = total_variance(own)
    n_drawn, n_agreed = own[:, own[0] >= 2]
    chances = [n_agreed * (n_drawn - n_agreed) / (n_drawn * (n_drawn - 1))]
    if len(n_drawn) < _ENOUGH:
        chances = []
        for other in neighbours:
            both = (own[0] > 0) & (other[0] > 0)
            here, there = own[1, both] / own[0, both], other[1, both] / other[0, both]
            chances.append((here * (1 - there) + there * (1 - here)) / 2)
    enough = [(float(np.mean(chance)), len(chance)) for chance in chances if len(chance) >= _ENOUGH]
    if not enough:
        return total
    estimate, n = max(enough)
    # One imaginary pair that differs.
    return min(total, (estimate * n + 0.5) / (n + 1))


def spread_of(own: InputTally, neighbours: Sequence[InputTally], n_draws: int) -> float:
    """Estimated variance of a stratum's mean after so many draws, times their number."""
    within, total = within_variance(own, neighbours), total_variance(own)
    return n_draws * variance_of_mean(n_draws, own.shape[1], within=within, total=total)


def variance_of_mean(n_draws: int, n_inputs: int, *, within: float, total: float) -> float:
    """Variance of the mean of a stratum's draws, given in turns to the inputs of a random order."""
    extra = n_draws % n_inputs
    unequal = extra * (n_inputs - extra) / max(1, n_inputs - 1)
    return within / n_draws + unequal * (total - within) / n_draws**2
