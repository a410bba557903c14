"""Values of masks → Shapley values: all masks for few features, else a regression on pairs of masks.

A Shapley value is the mean effect of showing a feature, over all orders in which features can be
shown. It depends only on the differences between a mask and its complement, and these differences are
fitted with the Shapley kernel's weights (KernelSHAP). Sizes are strata: each gets a number of pairs in
proportion to the kernel's total weight of that size, those that would get all their pairs are evaluated
completely, and single features always are. Within a size pairs are drawn uniformly without replacement,
so that the variance of the estimate can be estimated from the residuals and vanishes as the budget
reaches all masks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.attribution.methods import AttributionTask, Numbers, Scored, names_of
from holdfast.evaluation import Evaluator
from holdfast.extras import import_extra
from holdfast.types import Mask, MaskedModel, Masks

MOST_EXACT_FEATURES = 12
DEFAULT_SAMPLES = 1000
"""Masks beyond the single features and their complements, which are always evaluated."""

_LARGEST_LEVERAGE = 0.999
_WITHIN_TWO = 0.9772498680518208  # the normal distribution function at 2
_MANY = 1 << 53  # no budget comes near; whole numbers up to it are exact as floats


def shap(task: AttributionTask) -> Scored:
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
        task.evaluator.expect(every_mask)
        from holdfast.boolean.tables import all_masks

        exact = exact_shapley(task.values(all_masks(n)))
        return Scored(exact, np.zeros(n), {"n_samples": every_mask, "exact": True})
    pairs = draw_coalitions(n, (budget - 2) // 2, task.stream())
    task.evaluator.expect(budget)
    ends = task.values(np.array([[True] * n, [False] * n]))
    values = task.values(np.concatenate([pairs.masks, ~pairs.masks])).reshape(2, -1)
    scores, errors = fit_pairs(pairs, values[0] - values[1], total=float(ends[0] - ends[1]))
    return Scored(scores, errors, {"n_samples": 2 + 2 * len(pairs.masks), "exact": False})


def exact_shapley(table: Numbers) -> Numbers:
    """Shapley values (n,) of a function given by all its values (2ⁿ,), row index = sum of mask_i · 2^i."""
    from holdfast.boolean import monotone, shapley

    # Relative to the empty input: a large offset would only cost precision.
    return shapley(monotone(table - table[0]))


def as_shapiq_game(model: MaskedModel, *, target: Any = None) -> Any:
    """Treat a masked model as a game of shapiq: features are players, the target's score is the value.

    Values are the target's score minus that of the empty input. Each mask is computed once; pass an
    ``Evaluator`` to choose the batch size or to share the computed masks.
    Names of features become names of players if they are all different.

    Parameters
    ----------
    model : MaskedModel
        Function of masks (b, n_features).
    target : int, str or bool, optional
        The class or label; by default the one predicted for the full input.

    Returns
    -------
    shapiq.Game
        For any approximator or computer of shapiq.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import as_shapiq_game, mask_function
    >>> model = mask_function(lambda masks: masks @ np.array([[1.0, 0.0], [2.0, 0.0]]), n_features=2)
    >>> game = as_shapiq_game(model)
    >>> game(np.array([[True, False], [True, True]])).tolist()
    [1.0, 3.0]
    """
    evaluator = model if isinstance(model, Evaluator) else Evaluator(model)
    return game_of(AttributionTask(evaluator, "shapiq", target=target, n_samples=None, key=0))


def game_of(task: AttributionTask) -> Any:
    """The values of masks that a task explains, minus that of the empty input, as a game of shapiq."""
    game: Any = import_extra("shapiq", "`as_shapiq_game` needs").Game
    names = names_of(task.evaluator)

    class MaskedGame(game):  # type: ignore[misc]
        """A masked model as a game."""

        def value_function(self, coalitions: Any) -> Any:
            """The target's score under masks (b, n_features)."""
            return task.values(np.asarray(coalitions, dtype=bool))

    empty = float(task.values(np.zeros((1, task.n_features), dtype=bool))[0])
    players = list(names) if names is not None and len(set(names)) == len(names) else None
    return MaskedGame(n_players=task.n_features, normalize=True, normalization_value=empty, player_names=players)


def fit_pairs(pairs: Coalitions, differences: Numbers, *, total: float) -> tuple[Numbers, Numbers]:
    """Weighted least squares of v(S) - v(complement) on ±1 (S): values that sum to ``total``, and standard errors."""
    from scipy.special import stdtrit

    signs = np.where(pairs.masks, 1.0, -1.0)
    weighted = signs * pairs.weights[:, None]
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
    # Two errors are to cover as often with few random pairs as with many, by Student's distribution. Pairs of different
    # sizes weigh unequally; half their number of degrees of freedom is what gave the stated coverage on lookup tables.
    freedom = max(int((pairs.shares < 1).sum()) / 2, 1.0)
    return values, np.sqrt((1 - pairs.shares) @ spread) * (float(stdtrit(freedom, _WITHIN_TWO)) / 2)


@dataclass(frozen=True)
class Coalitions:
    """One mask of each pair (p, n), the weight of each pair, and the share of its size that was to be drawn."""

    masks: Masks
    weights: Numbers
    shares: Numbers


def draw_coalitions(n_features: int, n_pairs: int, rng: np.random.Generator) -> Coalitions:
    """Distinct pairs of a mask and its complement, n_pairs of them, single features first."""
    expected, available = allocate(n_features, n_pairs), pairs_by_size(n_features)
    # Whole numbers with these expectations and the same sum: one random offset for all partial sums.
    sums = np.cumsum(expected)
    sums[-1] = round(sums[-1])
    counts = np.diff(np.floor(sums + rng.random()), prepend=0.0).astype(np.intp)
    sizes = zip(range(1, n_features), available.tolist(), counts.tolist(), strict=False)
    masks = [_draw_size(n_features, size, int(n_all), count, rng) for size, n_all, count in sizes if count]
    weights, shares = size_weights(n_features) / expected, expected / available
    return Coalitions(np.concatenate(masks), np.repeat(weights, counts), np.repeat(shares, counts))


def pairs_by_size(n_features: int) -> Numbers:
    """How many pairs {S, complement} have a part of each of the sizes 1 … n/2 (huge numbers are cut off)."""
    counts = np.full(n_features // 2, float(_MANY))
    for size in range(1, n_features // 2 + 1):
        count = math.comb(n_features, size) // (2 if 2 * size == n_features else 1)
        if count >= _MANY:  # larger sizes have more, but for the middle one, which has half as many and still more
            break
        counts[size - 1] = count
    return counts


def size_weights(n_features: int) -> Numbers:
    """The Shapley kernel's total weight of each of the sizes 1 … n/2, up to a factor."""
    sizes = np.arange(1, n_features // 2 + 1)
    return np.asarray(np.where(2 * sizes == n_features, 0.5, 1.0) / (sizes * (n_features - sizes)))


def allocate(n_features: int, n_pairs: int) -> Numbers:
    """Expected number of pairs for each of the sizes 1 … n/2; they sum to ``n_pairs``."""
    available, weights = pairs_by_size(n_features), size_weights(n_features)
    counts = np.where(np.arange(len(available)) == 0, available, 0.0)
    is_open = counts == 0
    while is_open.any():
        shares = weights * is_open * ((n_pairs - counts.sum()) / (weights * is_open).sum())
        filled = is_open & (shares >= available)
        if not filled.any():
            return np.asarray(counts + shares)
        counts = np.where(filled, available, counts)
        is_open = is_open & ~filled
    return counts


def _draw_size(n_features: int, size: int, n_all: int, count: int, rng: np.random.Generator) -> Masks:
    """``count`` distinct masks of this size, of which no two are complements; ``n_all`` exist."""
    # Of two halves that are complements, the one with the first feature stands for both.
    is_half = 2 * size == n_features
    if n_all <= 2 * count:
        chosen = np.array(list(combinations(range(n_features), size)), dtype=np.intp)
        every = _masks_with(chosen, n_features)
        return (every[every[:, 0]] if is_half else every)[np.sort(rng.permutation(n_all)[:count])]
    distinct: dict[bytes, Mask] = {}
    while len(distinct) < count:
        chosen = rng.random((count, n_features)).argpartition(size - 1, axis=1)[:, :size]
        masks = _masks_with(chosen, n_features)
        for mask in masks ^ ~masks[:, :1] if is_half else masks:
            distinct.setdefault(mask.tobytes(), mask)
    return np.array(list(distinct.values())[:count], dtype=bool).reshape(count, n_features)


def _masks_with(chosen: NDArray[np.intp], n_features: int) -> Masks:
    masks = np.zeros((len(chosen), n_features), dtype=bool)
    np.put_along_axis(masks, chosen, True, axis=1)
    return masks
