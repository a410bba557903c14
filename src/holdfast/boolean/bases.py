"""Tables ↔ coefficients in the Fourier, p-biased and monotone bases, and between the bases directly.

In each basis the function of a set S is the product over i ∈ S of one affine function of the bit
α_i, written offset + slope·α_i:

    Fourier     χ_S(α) = Π (−1)^{α_i}              1 − 2α_i
    p-biased    χ_S^p(α) = Π (p − α_i)/√(p − p²)    p/σ − α_i/σ,  σ = √(p − p²)
    monotone    1_S(α) = Π α_i                      α_i

So a transform, its inverse, a change of basis and a smoothing operator are all tensor products of
2×2 matrices, and those between bases are triangular.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from holdfast.boolean.butterflies import Matrices, apply_in_place
from holdfast.boolean.tables import PerFeature, Table, check_finite, check_numbers, check_table, prepare, quiet


@dataclass(frozen=True, eq=False)
class AffineBasis:
    """Products of one affine function offset_i + slope_i·α_i per feature; both (n,)."""

    offset: Table
    slope: Table

    @classmethod
    def fourier(cls, n: int) -> Self:
        """Characters, orthonormal under the uniform distribution."""
        return cls(np.ones(n), np.full(n, -2.0))

    @classmethod
    def monotone(cls, n: int) -> Self:
        """Unanimity functions, not orthogonal."""
        return cls(np.zeros(n), np.ones(n))

    @classmethod
    def biased(cls, p: Any, n: int) -> Self:
        """Characters that are orthonormal when each feature is shown with probability p."""
        share = check_numbers(p, "p", n, low=0, high=1, open_ends=True)
        deviation = np.sqrt(share * (1 - share))
        return cls(share / deviation, -1 / deviation)

    def from_table(self) -> Matrices:
        """Values at α_i = 0, 1 → coefficients of 1 and of the affine function."""
        ratio, step = self.offset / self.slope, 1 / self.slope
        return _matrices(1 + ratio, -ratio, -step, step)

    def to_table(self) -> Matrices:
        """Coefficients → values at α_i = 0, 1."""
        ones = np.ones_like(self.slope)
        return _matrices(ones, self.offset, ones, self.offset + self.slope)

    def to(self, other: AffineBasis, *, shift: Table | float = 0.0, scale: Table | float = 1.0) -> Matrices:
        """Coefficients here → in another basis, after each α_i was replaced by its mean shift + scale·α_i."""
        slope = self.slope * scale / other.slope
        constant = self.offset + self.slope * shift - slope * other.offset
        return _matrices(np.ones_like(slope), constant, np.zeros_like(slope), slope)


def transform(value: Any, name: str, make: Callable[[int], Matrices], out: Table | None) -> Table:
    """The image of a table or of coefficients under the matrices ``make(n)``."""
    array, n = check_table(value, name)
    matrices = make(n)
    table = prepare(array, out)
    with quiet():
        apply_in_place(table, matrices)
    return check_finite(table, name)


def fourier(h: Any, *, out: Table | None = None) -> Table:
    """Fourier coefficients ĥ(S) = 2⁻ⁿ Σ_α h(α) χ_S(α) of a table.

    Parameters
    ----------
    h : array of shape (2ⁿ,) or (2ⁿ, k)
        The table; row α is at Σ α_i 2^i. It is not changed, unless it is given as ``out``.
    out : float64 array of the same shape, optional
        Where to write; ``out=h`` works in place.

    Returns
    -------
    coefficients : float64 array of the same shape
        Row S is at Σ_{i∈S} 2^i.

    Examples
    --------
    >>> fourier([0, 0, 0, 1])  # AND = ¼χ_∅ − ¼χ_0 − ¼χ_1 + ¼χ_01
    array([ 0.25, -0.25, -0.25,  0.25])
    """
    return transform(h, "h", lambda n: AffineBasis.fourier(n).from_table(), out)


def inverse_fourier(c: Any, *, out: Table | None = None) -> Table:
    """The table with the given Fourier coefficients.

    Examples
    --------
    >>> inverse_fourier([0.25, -0.25, -0.25, 0.25])
    array([0., 0., 0., 1.])
    """
    return transform(c, "c", lambda n: AffineBasis.fourier(n).to_table(), out)


def monotone(h: Any, *, out: Table | None = None) -> Table:
    """Monotone weights h̃(T), the numbers with h(α) = Σ_{T⊆α} h̃(T).

    Game theory calls them Harsanyi dividends, combinatorics the Möbius transform.

    Examples
    --------
    >>> monotone([0, 1, 1, 1])  # OR
    array([ 0.,  1.,  1., -1.])
    """
    return transform(h, "h", lambda n: AffineBasis.monotone(n).from_table(), out)


def inverse_monotone(c: Any, *, out: Table | None = None) -> Table:
    """The table with the given monotone weights: sums over subsets.

    Examples
    --------
    >>> inverse_monotone([0, 1, 1, -1])
    array([0., 1., 1., 1.])
    """
    return transform(c, "c", lambda n: AffineBasis.monotone(n).to_table(), out)


def biased(h: Any, p: PerFeature, *, out: Table | None = None) -> Table:
    """Coefficients E[h(α) χ_S^p(α)] when each feature is shown with probability ``p``.

    ``p`` lies strictly between 0 and 1; it may be one number per feature. At ½ these are the Fourier
    coefficients.

    Examples
    --------
    >>> biased([0, 0, 0, 1], 0.2).round(4)
    array([ 0.04, -0.08, -0.08,  0.16])
    """
    return transform(h, "h", lambda n: AffineBasis.biased(p, n).from_table(), out)


def inverse_biased(c: Any, p: PerFeature, *, out: Table | None = None) -> Table:
    """The table with the given p-biased coefficients.

    Examples
    --------
    >>> inverse_biased([0.04, -0.08, -0.08, 0.16], 0.2).round(12) + 0.0
    array([0., 0., 0., 1.])
    """
    return transform(c, "c", lambda n: AffineBasis.biased(p, n).to_table(), out)


def fourier_to_monotone(c: Any, *, out: Table | None = None) -> Table:
    """Monotone weights from Fourier coefficients, without the table.

    Examples
    --------
    >>> fourier_to_monotone([0.25, -0.25, -0.25, 0.25])
    array([0., 0., 0., 1.])
    """
    return transform(c, "c", lambda n: AffineBasis.fourier(n).to(AffineBasis.monotone(n)), out)


def monotone_to_fourier(c: Any, *, out: Table | None = None) -> Table:
    """Fourier coefficients from monotone weights, without the table.

    Examples
    --------
    >>> monotone_to_fourier([0, 0, 0, 1])
    array([ 0.25, -0.25, -0.25,  0.25])
    """
    return transform(c, "c", lambda n: AffineBasis.monotone(n).to(AffineBasis.fourier(n)), out)


def fourier_to_biased(c: Any, p: PerFeature, *, out: Table | None = None) -> Table:
    """p-biased coefficients from Fourier coefficients, without the table.

    Examples
    --------
    >>> fourier_to_biased([0.25, -0.25, -0.25, 0.25], 0.2).round(4)
    array([ 0.04, -0.08, -0.08,  0.16])
    """
    return transform(c, "c", lambda n: AffineBasis.fourier(n).to(AffineBasis.biased(p, n)), out)


def biased_to_fourier(c: Any, p: PerFeature, *, out: Table | None = None) -> Table:
    """Fourier coefficients from p-biased coefficients, without the table.

    Examples
    --------
    >>> biased_to_fourier([0.04, -0.08, -0.08, 0.16], 0.2).round(12)
    array([ 0.25, -0.25, -0.25,  0.25])
    """
    return transform(c, "c", lambda n: AffineBasis.biased(p, n).to(AffineBasis.fourier(n)), out)


def monotone_to_biased(c: Any, p: PerFeature, *, out: Table | None = None) -> Table:
    """p-biased coefficients from monotone weights, without the table.

    Examples
    --------
    >>> monotone_to_biased([0, 0, 0, 1], 0.2).round(4)
    array([ 0.04, -0.08, -0.08,  0.16])
    """
    return transform(c, "c", lambda n: AffineBasis.monotone(n).to(AffineBasis.biased(p, n)), out)


def biased_to_monotone(c: Any, p: PerFeature, *, out: Table | None = None) -> Table:
    """Monotone weights from p-biased coefficients, without the table.

    Examples
    --------
    >>> biased_to_monotone([0.04, -0.08, -0.08, 0.16], 0.2).round(12) + 0.0
    array([0., 0., 0., 1.])
    """
    return transform(c, "c", lambda n: AffineBasis.biased(p, n).to(AffineBasis.monotone(n)), out)


def biased_to_biased(c: Any, p: PerFeature, q: PerFeature, *, out: Table | None = None) -> Table:
    """q-biased coefficients from p-biased coefficients, without the table.

    Examples
    --------
    >>> biased_to_biased([0.04, -0.08, -0.08, 0.16], 0.2, 0.5).round(12)
    array([ 0.25, -0.25, -0.25,  0.25])
    """
    return transform(c, "c", lambda n: AffineBasis.biased(p, n).to(AffineBasis.biased(q, n)), out)


def _matrices(a: Table, b: Table, c: Table, d: Table) -> Matrices:
    """[[a, b], [c, d]] for every feature, (n, 2, 2)."""
    return np.stack([np.stack([a, b], axis=-1), np.stack([c, d], axis=-1)], axis=-2)
