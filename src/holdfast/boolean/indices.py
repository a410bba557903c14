"""Monotone weights → Shapley values, Banzhaf values and interaction indices of a set function.

Each is a sum over the sets that hold the features in question, weighted by size:

    Shapley value      Σ_{T∋i} h̃(T) / |T|
    Banzhaf value      Σ_{T∋i} h̃(T) / 2^{|T|−1}
    interactions       the same over T ⊇ S, see ``interactions``
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from holdfast.boolean.butterflies import apply_in_place
from holdfast.boolean.profiles import containing_sums, expand_by_degree
from holdfast.boolean.tables import Table, as_table, check_finite, degrees, quiet
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.validation import check_name, check_whole, is_number

INDICES = ("shapley", "banzhaf", "taylor", "monotone")

_UP = np.array([[1.0, 1.0], [0.0, 1.0]])
"""Sums over supersets, one feature at a time."""


def shapley(weights: Any) -> Table:
    """Shapley value of each feature, from monotone weights: shape (n,), or (n, k) for k functions.

    They sum to h(all features) − h(none).

    Examples
    --------
    >>> from holdfast.boolean import monotone
    >>> shapley(monotone([0, 1, 1, 1]))
    array([0.5, 0.5])
    """
    table, n = as_table(weights, "weights")
    return _values(table, _per_size(n, 1, lambda t: 1 / t))


def banzhaf(weights: Any, *, p: float = 0.5) -> Table:
    """Banzhaf value of each feature, from monotone weights: Σ_{T∋i} p^{|T|−1} h̃(T).

    The mean of h(with i) − h(without i) when every other feature is shown with probability ``p``.

    Examples
    --------
    >>> from holdfast.boolean import monotone
    >>> banzhaf(monotone([0, 0, 0, 1]))
    array([0.5, 0.5])
    """
    table, n = as_table(weights, "weights")
    share = _check_share(p)
    return _values(table, _per_size(n, 1, lambda t: share ** (t - 1)))


def interactions(weights: Any, *, order: int = 2, index: str = "shapley") -> Table:
    """Interaction index of every set S of 1 to ``order`` features, at the row of S; all other rows are 0.

    Parameters
    ----------
    weights : array of shape (2ⁿ,) or (2ⁿ, k)
        Monotone weights h̃.
    order : int
        Largest set of interest.
    index : str
        With sums over T ⊇ S: "shapley" Σ h̃(T) / (|T|−|S|+1); "banzhaf" Σ h̃(T) / 2^{|T|−|S|}; "taylor"
        (Shapley–Taylor) h̃(S) below ``order`` and Σ h̃(T) / C(|T|, order) at it; "monotone" h̃(S).

    Examples
    --------
    >>> from holdfast.boolean import monotone
    >>> interactions(monotone([0, 1, 1, 1]), order=2)
    array([ 0. ,  0.5,  0.5, -1. ])
    """
    table, n = as_table(weights, "weights")
    top = check_whole(order, "order", minimum=1)
    known = check_name(index, "index", INDICES)
    result = np.zeros_like(table)
    sizes = degrees(n)
    for size in range(1, min(top, n) + 1):
        rows = sizes == size
        plain = known == "monotone" or (known == "taylor" and size < top)
        result[rows] = table[rows] if plain else _superset_sums(table, n, size, known)[rows]
    return check_finite(result, "weights")


def _values(table: Table, factors: Table) -> Table:
    """For each feature the sum over the sets that hold it, each times its factor."""
    with quiet():
        sums = containing_sums(_scaled(table, factors))
    return check_finite(sums, "weights")


def _superset_sums(table: Table, n: int, size: int, index: str) -> Table:
    """Σ_{T⊇S} factor(|T|)·h̃(T) at every S; right for sets of the given size."""
    factor = {
        "shapley": lambda t: 1 / (t - size + 1),
        "banzhaf": lambda t: 0.5 ** (t - size),
        "taylor": lambda t: 1 / math.comb(t, size),
    }[index]
    sums = _scaled(table, _per_size(n, size, factor))
    with quiet():
        apply_in_place(sums, np.broadcast_to(_UP, (n, 2, 2)))
    return sums


def _per_size(n: int, smallest: int, factor: Any) -> Table:
    """factor(t) for sets of t ≥ smallest features, 0 for smaller ones, at every row."""
    values = [factor(t) if t >= smallest else 0.0 for t in range(n + 1)]
    return expand_by_degree(np.array(values), n)


def _scaled(table: Table, factors: Table) -> Table:
    return np.ascontiguousarray((table.T * factors).T)


def _check_share(p: Any) -> float:
    wanted = f"`p` must be a number in [0, 1], got {p!r}."
    if not is_number(p):
        raise InvalidTypeError(wanted)
    if not 0 <= p <= 1:
        raise InvalidValueError(wanted)
    return float(p)
