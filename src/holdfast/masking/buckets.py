"""Rows of different lengths → groups of rows that are computed together, padded to their longest."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.masking.module_notes import notes_of

_READING = 24
"""On a CPU, reading the weights once takes as long as computing about so many tokens with them."""

_LAUNCHING = 250_000
"""Multiplications in the time it takes to start one."""

_ON_DEVICES = 1024
"""On other devices a pass over a few hundred tokens more costs less than another pass."""


def group_by_length(lengths: NDArray[Any], overhead: float) -> list[NDArray[np.intp]]:
    """Cut rows into groups that cost least in all; a group costs its rows, padded, and one overhead.

    Parameters
    ----------
    lengths : whole numbers (b,)
        Tokens per row.
    overhead : float
        What one more pass costs, in tokens.

    Returns
    -------
    groups : list of intp arrays
        Indices of rows, shortest groups first; together each row once.

    Examples
    --------
    >>> [group.tolist() for group in group_by_length(np.array([9, 2, 9, 2]), 4)]
    [[1, 3], [0, 2]]
    >>> [group.tolist() for group in group_by_length(np.array([9, 2, 9, 2]), 40)]
    [[1, 3, 0, 2]]
    """
    order = np.argsort(lengths, kind="stable")
    values, counts = np.unique(lengths, return_counts=True)
    ends = np.concatenate([[0], np.cumsum(counts)])
    # best[j] is the least cost of the j shortest kinds of rows, cut[j] where their last group begins.
    best, cut = np.zeros(len(ends)), np.zeros(len(ends), dtype=np.intp)
    for j in range(1, len(ends)):
        costs = best[:j] + (ends[j] - ends[:j]) * values[j - 1] + overhead
        cut[j] = costs.argmin()
        best[j] = costs[cut[j]]
    groups, j = [], len(ends) - 1
    while j > 0:
        groups.append(order[ends[cut[j]] : ends[j]])
        j = int(cut[j])
    return groups[::-1]


def pass_overhead(module: Any, device: Any) -> float:
    """About how many tokens cost as much as one more pass through the module."""
    if device.type != "cpu":
        return _ON_DEVICES
    notes = notes_of(module)
    if "pass overhead" not in notes:
        sizes = [weights.numel() for weights in module.parameters() if weights.ndim == 2] or [1]
        notes["pass overhead"] = _READING + _LAUNCHING / float(np.median(sizes))
    return float(notes["pass overhead"])
