"""Draws spread over inputs → the variance of their mean, of which differences between inputs are no part.

The rates of a cell differ from input to input. The variance of one draw of a random input is
p(1 - p), p the mean rate; the mean over all inputs of the variance within an input is smaller by the
variance of the rates. When every input has its turn equally often, only the variance within inputs
is left in the mean; when some have one turn more, a part of the other comes back.

For the normal approximation only: these are estimates, meant to be rather too large than too small.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Tally = NDArray[np.int64]
"""Draws (row 0) and agreements (row 1) of each input in a cell, (2, n_inputs)."""

_ENOUGH = 30
"""Inputs from which a variance within inputs is believed."""


def total_variance(own: Tally) -> float:
    """P(1 - p) of a cell; two imaginary draws, one of each answer, keep it above 0."""
    n_drawn, n_agreed = own.sum(axis=1)
    rate = (n_agreed + 1) / (n_drawn + 2)
    return float(rate * (1 - rate))


def within_variance(own: Tally, neighbours: Sequence[Tally]) -> float:
    """The mean variance within inputs of one draw, estimated from draws of the same input.

    Two draws of one input at the same size differ with probability 2 τ(1 - τ). Two of adjacent sizes
    with rates τ and σ differ with probability τ(1 - τ) + σ(1 - σ) + (τ - σ)²: rather too much.
    Without enough such pairs the total variance takes its place.
    """
    total = total_variance(own)
    found = [_from_repeats(own), *(_from_pairs(own, other) for other in neighbours)]
    enough = [(estimate, n) for estimate, n in found if n >= _ENOUGH]
    if not enough:
        return total
    estimate, n = enough[0] if found[0][1] >= _ENOUGH else max(enough)
    # One imaginary pair that differs.
    return min(total, (estimate * n + 0.5) / (n + 1))


def variance_of_mean(n_draws: int, n_inputs: int, *, within: float, total: float) -> float:
    """Variance of the mean of a cell's draws, given in turns to the inputs of a random order."""
    extra = n_draws % n_inputs
    unequal = extra * (n_inputs - extra) / max(1, n_inputs - 1)
    return within / n_draws + unequal * (total - within) / n_draws**2


def _from_repeats(own: Tally) -> tuple[float, int]:
    n_drawn, n_agreed = own[:, own[0] >= 2]
    if len(n_drawn) == 0:
        return 0.0, 0
    return float(np.mean(n_agreed * (n_drawn - n_agreed) / (n_drawn * (n_drawn - 1)))), len(n_drawn)


def _from_pairs(own: Tally, other: Tally) -> tuple[float, int]:
    both = (own[0] > 0) & (other[0] > 0)
    if not both.any():
        return 0.0, 0
    here, there = own[1, both] / own[0, both], other[1, both] / other[0, both]
    return float(np.mean(here * (1 - there) + there * (1 - here)) / 2), int(both.sum())
