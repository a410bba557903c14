"""Smoothing operators, on tables and directly on the coefficients of each basis.

M_λ hides features at random: M_λh(α) = E h(α ⊙ z), each z_i = 1 with probability λ. T_ρ flips them:
T_ρh(α) = E h(α ⊕ z), each z_i = 1 with probability (1−ρ)/2. On averages over z, M_λ turns the bit α_i
into λα_i and T_ρ turns it into (1−ρ)/2 + ρα_i. In the monotone basis M_λ is diagonal, in the Fourier
basis T_ρ is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from holdfast.boolean.bases import AffineBasis, transform
from holdfast.boolean.butterflies import Matrices
from holdfast.boolean.tables import PerFeature, Table, check_numbers
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.validation import check_name

_Means = Callable[[int], tuple[Table, Table]]
"""The shift and the scale (n,) of the mean of each bit."""

BASES = ("table", "fourier", "biased", "monotone")


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
    return _apply(h, lambda n: (np.zeros(n), check_numbers(lam, "lam", n, low=0, high=1)), basis, p, out)


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
        ratio = check_numbers(rho, "rho", n, low=-1, high=1)
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
        share = check_numbers(p, "p", n, low=0, high=1, open_ends=True)
        kept = check_numbers(lam, "lam", n, low=0, high=1)
        if not (share < kept).all():
            raise InvalidValueError(f"`lam` must be larger than `p` = {p!r}, got {lam!r}.")
        factor = np.sqrt((kept - share) / (1 - share))
        return np.stack([np.diag([1.0, each]) for each in factor]) if n else np.empty((0, 2, 2))

    return transform(c, "c", make, out)


def _apply(h: Any, means: _Means, basis: str, p: Any, out: Table | None) -> Table:
    """Replace each bit by its mean shift + scale·α_i, in the basis that ``h`` is written in."""
    known = check_name(basis, "basis", BASES)
    if (known == "biased") != (p is not None):
        raise InvalidTypeError(f'`p` must be given for basis="biased" and for no other, got {p!r}.')

    def make(n: int) -> Matrices:
        shift, scale = means(n)
        if known == "table":
            values = np.stack([shift, shift + scale], axis=-1)
            return np.stack([1 - values, values], axis=-1)
        here = AffineBasis.biased(p, n) if known == "biased" else getattr(AffineBasis, known)(n)
        return np.asarray(here.to(here, shift=shift, scale=scale))

    return transform(h, "h", make, out)
