"""Tables ↔ coefficients in the Fourier, p-biased and monotone bases, and between the bases directly.

In each basis the function of a set S is the product over i ∈ S of one affine function of the bit
α_i, written offset + slope·α_i:

    Fourier     χ_S(α) = Π (−1)^{α_i}              1 − 2α_i
    p-biased    χ_S^p(α) = Π (p − α_i)/√(p − p²)    p/σ − α_i/σ,  σ = √(p − p²)
    monotone    1_S(α) = Π α_i                      α_i

So a transform, its inverse, a change of basis and a smoothing operator are all tensor products
A_{n−1} ⊗ … ⊗ A_0 of 2×2 matrices, and those between bases are triangular. A product costs O(n·2ⁿ) and is
never written out as a 2ⁿ × 2ⁿ matrix. Four features at a time are one 16 × 16 matrix product, done on
pieces that stay in cache, so the table passes through memory twice: once for its low bits and once for
its high bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from holdfast.boolean.tables import PerFeature, Table, check_finite, check_per_feature, check_table, quiet
from holdfast.errors import InvalidTypeError, InvalidValueError

_LOW_BITS = 14  # features handled while 2¹⁴ neighbouring rows (128 KiB) are in cache
_FEATURES_AT_ONCE, _COLUMNS_AT_ONCE = 4, 8
"""Of one matrix product; functions copied side by side into the buffer of the low bits."""

_LONGEST_PRODUCT = 512  # columns of one matrix product: few enough that no BLAS spreads so small a task over threads
_STRIP_SIZE, _WIDEST_STRIP, _NARROWEST_STRIP = 1 << 16, 256, 8

Matrices = NDArray[np.float64]
"""(n, 2, 2): the matrix of each feature; rows are what comes out for bit 0 and bit 1."""


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


@dataclass(frozen=True, eq=False)
class AffineBasis:
    """Products of one affine function offset_i + slope_i·α_i per feature; both (n,)."""

    offset: Table
    slope: Table

    @classmethod
    def fourier(cls, n: int) -> Self:
        return cls(np.ones(n), np.full(n, -2.0))

    @classmethod
    def monotone(cls, n: int) -> Self:
        return cls(np.zeros(n), np.ones(n))

    @classmethod
    def biased(cls, p: Any, n: int) -> Self:
        share = check_per_feature(p, "p", n, low=0, high=1, open_ends=True)
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


def _matrices(a: Table, b: Table, c: Table, d: Table) -> Matrices:
    """[[a, b], [c, d]] for every feature, (n, 2, 2)."""
    return np.stack([a, b, c, d], axis=-1).reshape(-1, 2, 2)


def transform(value: Any, name: str, make: Callable[[int], Matrices], out: Table | None) -> Table:
    """The image of a table or of coefficients under the matrices ``make(n)``, in ``out`` or in a new array."""
    array, n = check_table(value, name)
    matrices = make(n)
    if out is None:
        out = np.empty(array.shape)
    must = f"be a writable C-contiguous float64 array of shape {array.shape}"
    if not isinstance(out, np.ndarray) or out.dtype != np.float64:
        raise InvalidTypeError(argument="out", must=must, got=getattr(out, "dtype", type(out).__name__))
    if out.shape != array.shape or not out.flags.c_contiguous or not out.flags.writeable:
        flags = f"contiguous={out.flags.c_contiguous}, writable={out.flags.writeable}"
        raise InvalidValueError(argument="out", must=must, got=f"shape {out.shape} with flags {flags}")
    if out is not array:
        np.copyto(out, array)
    with quiet():
        apply_in_place(out, matrices)
    return check_finite(out, name)


def apply_in_place(table: Table, matrices: Matrices) -> None:
    """Replace the C-contiguous table (2ⁿ,) or (2ⁿ, k) by its image under ⊗ of ``matrices``."""
    n = len(matrices)
    n_low = min(n, _LOW_BITS)
    rows, block = table.reshape(2**n, -1), 2**n_low
    # Low bits mix the rows of each block; columns lie along the buffer, so that products are long.
    stages, width = _stages(matrices[:n_low]), min(rows.shape[1], _COLUMNS_AT_ONCE)
    buffers = np.empty((2, width, block))
    for start in range(0, len(rows), block):
        for first in range(0, rows.shape[1], width):
            piece = rows[start : start + block, first : first + width]
            front, back = buffers[:, : piece.shape[1]]
            front[...] = piece.T
            piece[...] = _run(front, back, stages, below=1).T
    if n == n_low:
        return
    # High bits mix whole blocks, one strip of columns at a time.
    rows, stages = rows.reshape(2 ** (n - n_low), -1), _stages(matrices[n_low:])
    width = min(rows.shape[1], max(_NARROWEST_STRIP, min(_WIDEST_STRIP, _STRIP_SIZE // len(rows))))
    buffers = np.empty((2, len(rows) * width))
    for first in range(0, rows.shape[1], width):
        strip = rows[:, first : first + width]
        front, back = (buffer[: strip.size].reshape(strip.shape) for buffer in buffers)
        front[...] = strip
        strip[...] = _run(front, back, stages, below=strip.shape[1])


def _run(front: Table, back: Table, stages: list[Table], *, below: int) -> Table:
    """Apply the stages to the contiguous array ``front``, whose mixed axis has ``below`` entries under each index."""
    for stage in stages:
        if below == 1:
            shape = (-1, min(front.shape[-1] // len(stage), _LONGEST_PRODUCT), len(stage))
            np.matmul(front.reshape(shape), stage.T, out=back.reshape(shape))
        else:
            width = min(below, _LONGEST_PRODUCT)
            pieces = (-1, len(stage), below // width, width)
            np.matmul(stage, front.reshape(pieces).swapaxes(1, 2), out=back.reshape(pieces).swapaxes(1, 2))
        below *= len(stage)
        front, back = back, front
    return front


def _stages(matrices: Matrices) -> list[Table]:
    """Kronecker products of about equally many features each, lowest bits first."""
    parts = np.array_split(matrices, max(1, -(-len(matrices) // _FEATURES_AT_ONCE)))
    return [reduce(lambda product, matrix: np.kron(matrix, product), part, np.ones((1, 1))) for part in parts]
