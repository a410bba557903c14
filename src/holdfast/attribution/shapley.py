"""Values of masks → Shapley values: all masks for few features, else a regression on pairs of masks.

A Shapley value is the mean effect of showing a feature, over all orders in which features can be
shown. It depends only on the differences between a mask and its complement, and these differences are
fitted with the Shapley kernel's weights (KernelSHAP). Masks are drawn without replacement within each
size, the smallest sizes completely, so that the variance of the estimate can be estimated from the
residuals and vanishes as the budget reaches all masks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from holdfast.attribution.coalitions import Drawn, draw_coalitions
from holdfast.attribution.task import Numbers, Scored, Task
from holdfast.boolean import monotone, shapley
from holdfast.types import Masks

MOST_EXACT_FEATURES = 12
DEFAULT_SAMPLES = 1000
"""Masks beyond the single features and their complements, which are always evaluated."""

_LARGEST_LEVERAGE = 0.999
_WITHIN_TWO = 0.9772498680518208
"""The normal distribution function at 2."""


def shap(task: Task) -> Scored:
    """Shapley values of the features for the target's score.

    With up to 12 features, or a budget of all 2ⁿ masks, they are exact. Otherwise ``n_samples`` masks
    are evaluated (by default 1,000 and two per feature), and each value comes with an estimated
    standard error. The values sum to the score of the full input minus that of the empty one.
    """
    n = task.n_features
    every_mask = 2**n
    # Below 4n masks too few pairs are random to estimate an error.
    default = every_mask if n <= MOST_EXACT_FEATURES else max(DEFAULT_SAMPLES + 2 * n, 4 * n)
    budget = task.budget(default, least=min(4 * n, every_mask), of=f"for 'shap' with {n} features")
    if budget >= every_mask:
        return _exact(task)
    drawn = draw_coalitions(n, (budget - 2) // 2, task.stream())
    task.evaluator.expect(budget)
    ends = task.values(np.array([[True] * n, [False] * n]))
    values = task.values(np.concatenate([drawn.masks, ~drawn.masks])).reshape(2, -1)
    fitted = fit_pairs(drawn, values[0] - values[1], total=float(ends[0] - ends[1]))
    return Scored(fitted.values, fitted.errors, {"n_samples": 2 + 2 * len(drawn.masks), "exact": False})


def _exact(task: Task) -> Scored:
    n = task.n_features
    task.evaluator.expect(2**n)
    values = exact_shapley(task.values(every_mask_of(n)))
    return Scored(values, np.zeros(n), {"n_samples": 2**n, "exact": True})


def every_mask_of(n_features: int) -> Masks:
    """All masks (2ⁿ, n); row j shows the features that are the bits of j."""
    return (np.arange(2**n_features)[:, None] >> np.arange(n_features) & 1).astype(bool)


def exact_shapley(table: Numbers) -> Numbers:
    """Shapley values (n,) of a function given by all its values (2ⁿ,), row index = sum of mask_i · 2^i.

    Examples
    --------
    >>> exact_shapley(np.array([0.0, 1.0, 2.0, 5.0])).tolist()
    [2.0, 3.0]
    """
    # Relative to the empty input: a large offset would only cost precision.
    return shapley(monotone(table - table[0]))


@dataclass(frozen=True)
class Fitted:
    """Shapley values and their standard errors, both (n,)."""

    values: Numbers
    errors: Numbers


def fit_pairs(drawn: Drawn, differences: Numbers, *, total: float) -> Fitted:
    """Weighted least squares of v(S) - v(complement) on ±1 (S), with values that sum to ``total``."""
    signs = np.where(drawn.masks, 1.0, -1.0)
    weighted = signs * drawn.weights[:, None]
    inverse = np.linalg.inv(weighted.T @ signs)
    column = inverse.sum(axis=1)
    # Projects onto values that sum to zero, in the metric of the regression.
    solve = inverse - np.outer(column, column) / column.sum()
    values = solve @ (weighted.T @ differences) + column * (total / column.sum())
    influence = weighted @ solve
    leverage = np.minimum((influence * signs).sum(axis=1), _LARGEST_LEVERAGE)
    residuals = (differences - signs @ values) / (1 - leverage)
    # Draws without replacement: a completely evaluated size adds no error.
    spread = (influence * residuals[:, None]) ** 2
    return Fitted(values, np.sqrt((1 - drawn.shares) @ spread) * _inflation(int((drawn.shares < 1).sum())))


def _inflation(n_random: int) -> float:
    """What makes two errors cover as often with few random pairs as with many, by Student's distribution.

    Pairs of different sizes weigh unequally; half their number of degrees of freedom is what gave the
    stated coverage on lookup tables.
    """
    from scipy.special import stdtrit

    return float(stdtrit(max(n_random / 2, 1.0), _WITHIN_TWO)) / 2
