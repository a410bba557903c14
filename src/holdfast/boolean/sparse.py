"""Trees over masks → sparse monotone and Fourier coefficients, and stability bounds for any number of features.

A table has 2ⁿ rows; a tree has few leaves, and each leaf has few coefficients. Sets of features are whole numbers with
the bits of their features, as indices of tables are, so everything here agrees with the transforms of tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.agreement import within
from holdfast.boolean.stability import inclusion_probabilities
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.exact.binding import countable_of
from holdfast.exact.countable import bits_of
from holdfast.exact.ensembles import TreeEnsemble
from holdfast.exact.trees import CountableTree, fourier_of, monotone_of
from holdfast.types import MaskedModel
from holdfast.validation import check_mask, check_whole

Sparse = dict[int, float]
"""Set of features (bits) → coefficient; all others are 0."""

_MOST_TERMS = 1 << 22
"""Terms that are added up at most: a leaf that needs h features hidden has 2^h."""


def sparse_monotone(model: MaskedModel, *, target: int = 0) -> Sparse:
    """Monotone weights of a model made of trees, for any number of features.

    Parameters
    ----------
    model : MaskedModel
        A row of a table (``mask_tabular``) with a classifier or regressor that is a sum of trees, or additive.
    target : int
        The score. Of models behind a link it is the raw score: the log-odds of boosted trees of two classes.

    Returns
    -------
    dict
        Set of features, as Σ 2^feature, → weight: those of ``boolean.monotone`` that are not 0.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> from holdfast import mask_tabular
    >>> tree = DecisionTreeRegressor().fit([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], [0, 0, 0, 1])
    >>> sparse_monotone(mask_tabular(tree, [1.0, 1.0], fill=0.0))
    {3: 1.0}
    """
    return _add_up(model, target, monotone_of, lambda leaf: leaf.hidden.bit_count())


def sparse_fourier(model: MaskedModel, *, target: int = 0) -> Sparse:
    """Fourier coefficients of a model made of trees, for any number of features; see :func:`sparse_monotone`.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> from holdfast import mask_tabular
    >>> tree = DecisionTreeRegressor().fit([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], [0, 0, 0, 1])
    >>> sparse_fourier(mask_tabular(tree, [1.0, 1.0], fill=0.0))
    {0: 0.25, 1: -0.25, 2: -0.25, 3: 0.25}
    """
    return _add_up(model, target, fourier_of, lambda leaf: (leaf.shown | leaf.hidden).bit_count())


def sparse_conditional_weights(weights: Mapping[int, float], selected: Any) -> Sparse:
    """The weights g̃(T) = Σ_{U⊆α} h̃(T ∪ U) of what can be added to an explanation α, T outside α.

    Examples
    --------
    >>> sparse_conditional_weights({0b01: 1.0, 0b11: 2.0}, [True, False])
    {0: 1.0, 2: 2.0}
    """
    shown = bits_of(np.flatnonzero(check_mask(selected, "selected")))
    conditional: Sparse = {}
    for term, weight in weights.items():
        conditional[term & ~shown] = conditional.get(term & ~shown, 0.0) + weight
    return conditional


def sparse_stability_bound(weights: Mapping[int, float], selected: Any, *, radius: int, margin: float) -> float:
    """A lower bound on the stability rate τ_r from sparse weights: ``boolean.stability_bound`` without a table.

    1 − (1/γ) Σ_{1≤|T|≤r} |g̃(T)| w_{|T|}: a mask agrees when the score moved by strictly less than the margin γ. It says
    nothing when it is not positive.

    Examples
    --------
    >>> sparse_stability_bound({0b11: 1.0}, [True, False], radius=1, margin=2.0)
    0.75
    """
    mask = check_mask(selected, "selected")
    chances = inclusion_probabilities(int((~mask).sum()), check_whole(radius, "radius"))
    conditional = sparse_conditional_weights(weights, mask)
    moves = (abs(weight) * chances[term.bit_count()] for term, weight in conditional.items() if term)
    return 1.0 - float(sum(moves)) / within(margin).margin


def _add_up(
    model: MaskedModel, target: int, coefficients: Callable[..., dict[int, Any]], n_doubled: Callable[[Any], int]
) -> Sparse:
    """Coefficients summed over the trees of a model."""
    countable = countable_of(model)
    column = check_whole(target, "target")
    trees: list[tuple[Any, NDArray[np.float64]]]
    start, scale = 0.0, 1
    if isinstance(countable, CountableTree) and countable.outputs.ndim == 2:
        trees = [(countable.leaves, np.asarray(countable.outputs, dtype=np.float64))]
    elif isinstance(countable, TreeEnsemble):
        values = countable.values
        trees = [(tree, values[[leaf.node for leaf in tree]]) for fill in countable.fills for tree in fill]
        scale = countable.scoring.divisor * len(countable.fills)
        start = float(countable.base[min(column, len(countable.base) - 1)]) * len(countable.fills)
    else:
        must = "be a table row with a classifier that sums the scores of trees"
        raise InvalidTypeError(argument="model", must=must, got=type(model).__name__)
    n_scores = trees[0][1].shape[1]
    if column >= n_scores:
        raise InvalidValueError(argument="target", must=f"be one of {n_scores} scores", got=column)
    n_terms = sum(1 << n_doubled(leaf) for leaves, _ in trees for leaf in leaves)
    if n_terms > _MOST_TERMS:
        raise InvalidValueError(argument="model", must=f"have at most {_MOST_TERMS} terms", got=n_terms)
    total: Sparse = {0: start} if start else {}
    for leaves, outputs in trees:
        for term, weight in coefficients(leaves, outputs[:, column]).items():
            total[term] = total.get(term, 0.0) + float(weight)
    return {term: weight / scale for term, weight in sorted(total.items()) if weight}
