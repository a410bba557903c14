"""Tables → smoothed tables, also directly on the coefficients of each basis, and tables as seen from an explanation.

M_λ hides features at random: M_λh(α) = E h(α ⊙ z), each z_i = 1 with probability λ. T_ρ flips them:
T_ρh(α) = E h(α ⊕ z), each z_i = 1 with probability (1−ρ)/2. On averages over z, M_λ turns the bit α_i
into λα_i and T_ρ turns it into (1−ρ)/2 + ρα_i. In the monotone basis M_λ is diagonal, in the Fourier
basis T_ρ is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from holdfast.boolean.bases import AffineBasis, Matrices, monotone, transform
from holdfast.boolean.tables import PerFeature, Table, as_table, check_per_feature, check_selected
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.types import Mask
from holdfast.validation import check_name, shown


def mask_operator(
    h: Any, lam: PerFeature, *, basis: str = "table", p: PerFeature | None = None, out: Table | None = None
) -> Table:
    """Smooth by random masking: M_λh(α) = E h(α ⊙ z), every feature kept with probability ``lam``.

    In the Fourier basis weight moves down: the coefficient at T becomes
    λ^{|T|} Σ_{S⊇T} (1−λ)^{|S∖T|} ĥ(S). In the monotone basis it shrinks in place, by λ^{|T|}.

    Parameters
    ----------
    h : array of shape (2ⁿ,) or (2ⁿ, k)
        A table, or coefficients in ``basis``.
    lam : float in [0, 1], or one per feature (n,)
        Keep probability λ.
    basis : {"table", "fourier", "biased", "monotone"}
        What ``h`` holds; the result holds the same of M_λh.
    p : float, or one per feature (n,)
        The bias of the basis, for ``basis="biased"`` only.
    out : float64 array of the same shape, optional
        Where to write; ``out=h`` works in place.

    Examples
    --------
    >>> mask_operator([0, 0, 0, 1], 0.5)
    array([0.  , 0.  , 0.  , 0.25])
    >>> mask_operator([0, 0, 0, 1], 0.5, basis="monotone")
    array([0.  , 0.  , 0.  , 0.25])
    """
    return _apply(h, lambda n: (np.zeros(n), check_per_feature(lam, "lam", n, low=0, high=1)), basis, p, out)


def flip_operator(
    h: Any, rho: PerFeature, *, basis: str = "table", p: PerFeature | None = None, out: Table | None = None
) -> Table:
    """Smooth by random flipping: T_ρh(α) = E h(α ⊕ z), every feature flipped with probability (1 − ``rho``)/2.

    The usual noise operator. In the Fourier basis it shrinks each coefficient by ρ^{|S|}. ``rho`` lies in
    [−1, 1]; the other parameters are those of :func:`mask_operator`.

    Examples
    --------
    >>> flip_operator([0.25, -0.25, -0.25, 0.25], 0.5, basis="fourier")
    array([ 0.25  , -0.125 , -0.125 ,  0.0625])
    """

    def means(n: int) -> tuple[Table, Table]:
        ratio = check_per_feature(rho, "rho", n, low=-1, high=1)
        return (1 - ratio) / 2, ratio

    return _apply(h, means, basis, p, out)


def mask_operator_rebiased(c: Any, lam: PerFeature, *, p: PerFeature, out: Table | None = None) -> Table:
    """p-biased coefficients of h → (p/λ)-biased coefficients of M_λh: a contraction in place.

    M_λ χ_S^p = ((λ−p)/(1−p))^{|S|/2} χ_S^{p/λ} for 0 < p < λ ≤ 1. At λ = p the basis on the right does
    not exist.

    Examples
    --------
    >>> mask_operator_rebiased([0.0, 1.0], 0.5, p=0.25).round(4)  # (0.25/0.75)**0.5
    array([0.    , 0.5774])
    """

    def make(n: int) -> Matrices:
        share = check_per_feature(p, "p", n, low=0, high=1, open_ends=True)
        kept = check_per_feature(lam, "lam", n, low=0, high=1)
        if not (share < kept).all():
            raise InvalidValueError(argument="lam", must=f"be larger than `p` = {p!r}", got=shown(lam))
        factor = np.sqrt((kept - share) / (1 - share))
        return np.stack([np.diag([1.0, each]) for each in factor]) if n else np.empty((0, 2, 2))

    return transform(c, "c", make, out)


def _apply(h: Any, means: Callable[[int], tuple[Table, Table]], basis: str, p: Any, out: Table | None) -> Table:
    """Replace each bit by its mean shift + scale·α_i, in the basis that ``h`` is written in."""
    known = check_name(basis, "basis", ("table", "fourier", "biased", "monotone"))
    if (known == "biased") != (p is not None):
        raise InvalidTypeError(argument="p", must='be given for basis="biased" only', got=shown(p))

    def make(n: int) -> Matrices:
        shift, scale = means(n)
        if known == "table":
            values = np.stack([shift, shift + scale], axis=-1)
            return np.stack([1 - values, values], axis=-1)
        here = AffineBasis.biased(p, n) if known == "biased" else getattr(AffineBasis, known)(n)
        return np.asarray(here.to(here, shift=shift, scale=scale))

    return transform(h, "h", make, out)


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
    matrices = np.where(mask[:, None, None], AffineBasis.monotone(n).to_table(), np.eye(2))
    return _rows_that_hold(transform(table, "weights", lambda _: matrices, None), mask)


def _rows_that_hold(table: Table, selected: Mask) -> Table:
    """The rows of all sets that hold ``selected``, in order, as a copy."""
    # The first axis is the highest bit.
    where = tuple(1 if shown else slice(None) for shown in selected[::-1])
    cube = table.reshape(*(2,) * len(selected), *table.shape[1:])
    return np.array(cube[where], order="C").reshape(-1, *table.shape[1:])
