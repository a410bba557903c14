"""A table of 2ⁿ rows and one 2×2 matrix per feature → the table under their tensor product, in place.

Every transform and operator of this package is such a product A_{n−1} ⊗ … ⊗ A_0. It costs O(n·2ⁿ) and
is never written out as a 2ⁿ × 2ⁿ matrix. Four features at a time are one 16 × 16 matrix product, done
on pieces that stay in cache, so the table passes through memory twice: once for its low bits and
once for its high bits.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from holdfast.boolean.tables import Table

_LOW_BITS = 14
"""Features handled while 2¹⁴ neighbouring rows (128 KiB) are in cache."""

_FEATURES_AT_ONCE = 4

_COLUMNS_AT_ONCE = 8
"""Functions copied side by side into the buffer of the low bits."""

_LONGEST_PRODUCT = 512
"""Columns of one matrix product: few enough that no BLAS spreads so small a task over threads."""

_STRIP_SIZE = 1 << 16
_WIDEST_STRIP = 256
_NARROWEST_STRIP = 8

Matrices = NDArray[np.float64]
"""(n, 2, 2): the matrix of each feature; rows are what comes out for bit 0 and bit 1."""


def apply_in_place(table: Table, matrices: Matrices) -> None:
    """Replace the C-contiguous table (2ⁿ,) or (2ⁿ, k) by its image under ⊗ of ``matrices``."""
    n = len(matrices)
    rows = table.reshape(2**n, -1)
    n_low = min(n, _LOW_BITS)
    _apply_low(rows, _stages(matrices[:n_low]), 2**n_low)
    if n > n_low:
        _apply_high(rows.reshape(2 ** (n - n_low), -1), _stages(matrices[n_low:]))


def _apply_low(rows: Table, stages: list[Table], block: int) -> None:
    """Mix the rows of each block; columns lie along the buffer, so that products are long."""
    width = min(rows.shape[1], _COLUMNS_AT_ONCE)
    buffers = np.empty((2, width, block))
    for start in range(0, len(rows), block):
        for first in range(0, rows.shape[1], width):
            piece = rows[start : start + block, first : first + width]
            front, back = buffers[:, : piece.shape[1]]
            front[...] = piece.T
            piece[...] = _run(front, back, stages, below=1).T


def _apply_high(rows: Table, stages: list[Table]) -> None:
    """Mix whole rows, one strip of columns at a time."""
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
    n_stages = -(-len(matrices) // _FEATURES_AT_ONCE)
    return [_kronecker(part) for part in np.array_split(matrices, n_stages)] if n_stages else []


def _kronecker(matrices: Matrices) -> Table:
    product = np.ones((1, 1))
    for matrix in matrices:
        size = 2 * len(product)
        product = (matrix[:, None, :, None] * product[None, :, None, :]).reshape(size, size)
    return product
