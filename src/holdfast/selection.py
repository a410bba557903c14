"""Scores of features → the features that are selected."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.types import Mask
from holdfast.validation import as_array, check_share, check_whole


def top(scores: Any, k: int) -> Mask:
    """Select the k features with the largest scores; among equal ones those with the lowest index.

    Examples
    --------
    >>> top([0.1, 0.7, 0.7, 0.2], 2).tolist()
    [False, True, True, False]
    """
    values = _check_scores(scores)
    n_selected = check_whole(k, "k")
    if n_selected > len(values):
        raise InvalidValueError(f"`k` must be at most the number of features, {len(values)}, got {k}.")
    mask = np.zeros(len(values), dtype=bool)
    mask[np.argsort(-values, kind="stable")[:n_selected]] = True
    return mask


def top_fraction(scores: Any, fraction: float) -> Mask:
    """Select the features with the largest scores: int(fraction · n) of them, as the paper does.

    Examples
    --------
    >>> top_fraction([0.1, 0.7, 0.6, 0.2], 0.5).tolist()
    [False, True, True, False]
    """
    values = _check_scores(scores)
    return top(values, int(check_share(fraction, "fraction") * len(values)))


def _check_scores(scores: Any) -> NDArray[np.float64]:
    wanted = "`scores` must be a vector of one number per feature"
    values = as_array(scores, wanted)
    if values.dtype.kind not in "fiub":
        raise InvalidTypeError(f"{wanted}, got {values.dtype}.")
    if values.ndim != 1 or len(values) == 0:
        raise InvalidValueError(f"{wanted}, got an array of shape {values.shape}.")
    if not np.isfinite(values).all():
        raise InvalidValueError(f"{wanted}, got NaN or infinity.")
    return values.astype(np.float64)
