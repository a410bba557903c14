"""A table and an explanation → the table as seen from the explanation: with it revealed, or with all else hidden."""

from __future__ import annotations

from typing import Any

import numpy as np

from holdfast.boolean.bases import AffineBasis, monotone
from holdfast.boolean.butterflies import apply_in_place
from holdfast.boolean.tables import Table, as_table, check_finite, check_selected, quiet
from holdfast.types import Mask


def reveal(h: Any, selected: Any) -> Table:
    """The function S ↦ h(α ∪ S) of the unselected features, (2^(n−|α|),): what is left to add to ``selected``.

    The unselected features keep their order.

    Examples
    --------
    >>> reveal([0, 10, 20, 30], [True, False])  # feature 0 is shown, feature 1 is free
    array([10., 30.])
    """
    table, n = as_table(h)
    return _rows_that_hold(table, check_selected(selected, n))


def hide(h: Any, selected: Any) -> Table:
    """The function β ↦ h(α ∩ β), (2ⁿ,): features outside ``selected`` are never seen.

    It is f_{x⊙α} if h is f_x, and M_λ f(x⊙α) = M_λ f_{x⊙α}(1, …, 1).

    Examples
    --------
    >>> hide([0, 10, 20, 30], [True, False])
    array([ 0., 10.,  0., 10.])
    """
    table, n = as_table(h)
    shown = int(check_selected(selected, n) @ (1 << np.arange(n)))
    return np.ascontiguousarray(table[np.arange(2**n) & shown])


def conditional_weights(h: Any, selected: Any) -> Table:
    """Monotone weights of ``reveal(h, selected)``: g̃(T) = Σ_{U⊆α} h̃(T ∪ U) for T outside ``selected``.

    h(β) − h(α) = Σ g̃(T) over nonempty T ⊆ β∖α, for every β ⊇ α.

    Examples
    --------
    >>> conditional_weights([0, 0, 0, 1], [True, False])  # AND, once feature 0 is shown
    array([0., 1.])
    """
    return monotone(reveal(h, selected))


def condition(weights: Any, selected: Any) -> Table:
    """The weights of ``conditional_weights`` from the monotone weights h̃, without the table.

    Examples
    --------
    >>> condition([0, 0, 0, 1], [True, False])
    array([0., 1.])
    """
    table, n = as_table(weights, "weights")
    mask = check_selected(selected, n)
    sums = np.array(table, order="C")
    matrices = np.where(mask[:, None, None], AffineBasis.monotone(n).to_table(), np.eye(2))
    with quiet():
        apply_in_place(sums, matrices)
    return _rows_that_hold(check_finite(sums, "weights"), mask)


def _rows_that_hold(table: Table, selected: Mask) -> Table:
    """The rows of all sets that hold ``selected``, in order, as a copy."""
    # The first axis is the highest bit.
    where = tuple(1 if shown else slice(None) for shown in selected[::-1])
    cube = table.reshape(*(2,) * len(selected), *table.shape[1:])
    return np.array(cube[where], order="C").reshape(-1, *table.shape[1:])
