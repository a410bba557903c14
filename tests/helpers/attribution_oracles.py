"""Truth about attributions, written from the definitions: slow, short, never from the library's code."""

from __future__ import annotations

from itertools import permutations
from math import factorial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.helpers.oracles import answer

Numbers = NDArray[np.float64]


def shapley_by_orders(value: Any, n_features: int) -> list[float]:
    """Mean effect of showing each feature, over every order of showing them, for ``value`` of a set."""
    totals = [0.0] * n_features
    for order in permutations(range(n_features)):
        shown: list[int] = []
        for i in order:
            totals[i] += value(frozenset([*shown, i])) - value(frozenset(shown))
            shown.append(i)
    return [total / factorial(n_features) for total in totals]


def shapley_by_subsets(value: Any, n_features: int) -> list[float]:
    """Σ over sets S without i of |S|! (n - |S| - 1)! / n! · (value(S ∪ {i}) - value(S))."""
    found = []
    for i in range(n_features):
        others = [j for j in range(n_features) if j != i]
        total = 0.0
        for code in range(2 ** len(others)):
            chosen = frozenset(j for bit, j in enumerate(others) if code >> bit & 1)
            weight = factorial(len(chosen)) * factorial(n_features - len(chosen) - 1) / factorial(n_features)
            total += weight * (value(chosen | {i}) - value(chosen))
        found.append(total)
    return found


def value_of_set(model: Any, target: Any) -> Any:
    """The target's score (or whether its label is given) when exactly these features are shown, remembered."""
    known: dict[frozenset[int], float] = {}

    def value(shown: frozenset[int]) -> float:
        if shown not in known:
            said = answer(model, [i in shown for i in range(model.n_features)])
            known[shown] = float(said[target] if isinstance(said, list) else said == target)
        return known[shown]

    return value


def ridge_by_stacking(masks: Any, values: Any, weights: Any, alpha: float) -> Numbers:
    """Coefficients that minimise Σ w (y - a - x·b)² + alpha |b|², as one stacked least-squares problem."""
    n = masks.shape[1]
    root = np.sqrt(weights)[:, None]
    rows = np.hstack([root, root * masks])
    penalty = np.hstack([np.zeros((n, 1)), np.sqrt(alpha) * np.eye(n)])
    right = np.concatenate([root[:, 0] * values, np.zeros(n)])
    return np.linalg.lstsq(np.vstack([rows, penalty]), right, rcond=None)[0][1:]


class Dividends:
    """A function of sets given by the worth of some coalitions, for which Shapley values are known for any n."""

    def __init__(self, n_features: int, sizes: dict[int, int], seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.n_features = n_features
        self.sets = [rng.choice(n_features, size, replace=False) for size, count in sizes.items() for _ in range(count)]
        self.worth = rng.normal(size=len(self.sets))
        self._members = np.zeros((len(self.sets), n_features))
        for row, chosen in zip(self._members, self.sets, strict=True):
            row[chosen] = 1

    def __call__(self, masks: Any) -> Numbers:
        complete = masks @ self._members.T >= self._members.sum(axis=1) - 0.5
        return np.asarray(complete @ self.worth)[:, None]

    @property
    def shapley(self) -> Numbers:
        """Each coalition's worth is shared equally by its members."""
        return np.asarray((self.worth / self._members.sum(axis=1)) @ self._members)
