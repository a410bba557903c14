"""Smoothed models and hard radii by enumeration, written from the definitions."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast import MaskedModel
from tests.helpers.fakes import all_masks


def expected_votes(model: MaskedModel, keep: Any) -> NDArray[np.float64]:
    """The exact expectation of the one-hot votes for every mask, (2ⁿ, n_classes)."""
    n = model.n_features
    every = all_masks(n)
    shares = np.broadcast_to(np.asarray(keep, dtype=float), n)
    weights = np.where(every, shares, 1 - shares).prod(axis=1)
    scores = model(every)
    winners = np.eye(scores.shape[1])[scores.argmax(axis=1)]
    codes = np.arange(2**n)
    return np.stack([sum(w * winners[code & z] for z, w in zip(codes, weights, strict=True)) for code in codes])


def bank_votes(model: MaskedModel, bank: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Votes of a bank for every mask, one mask and one row of the bank at a time, (2ⁿ, n_classes)."""
    every = all_masks(model.n_features)
    winners = model(every).argmax(axis=1)
    n_classes = model(every[:1]).shape[1]
    weights = 1 << np.arange(model.n_features)
    votes = np.zeros((len(every), n_classes), dtype=np.int64)
    for row in bank:
        for code, mask in enumerate(every):
            votes[code, winners[(mask & row) @ weights]] += 1
    return votes


def hard_radius(winners: NDArray[Any], start: NDArray[np.bool_], may_change: NDArray[np.bool_]) -> int:
    """The largest r such that flipping any r or fewer of the allowed features keeps the winner."""
    weights = 1 << np.arange(len(start))
    here = winners[start @ weights]
    free = np.flatnonzero(may_change)
    for size in range(1, len(free) + 1):
        for chosen in combinations(free, size):
            there = start.copy()
            there[list(chosen)] ^= True
            if winners[there @ weights] != here:
                return size - 1
    return len(free)
