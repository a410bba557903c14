"""Scores of features → the features that are selected.

Every function takes an ``Attribution`` or a vector of one number per feature. Equal scores are taken in
the order of their index. With ``absolute=True`` the size of a score counts and its sign does not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidValueError
from holdfast.types import Mask
from holdfast.validation import check_flag, check_number, check_numbers, check_share, check_whole


def top(scores: Any, k: int, *, absolute: bool = False) -> Mask:
    """Select the k features with the largest scores; among equal ones those with the lowest index.

    Examples
    --------
    >>> top([0.1, 0.7, 0.7, 0.2], 2).tolist()
    [False, True, True, False]
    """
    values = _check_scores(scores, absolute)
    if isinstance(k, float) and 0 < k < 1:
        hint = f"For a share of the features, use `top_fraction(scores, {k:g})`."
        raise InvalidValueError(argument="k", must="be a whole number ≥ 0", got=k, hint=hint)
    n_selected = check_whole(k, "k")
    if n_selected > len(values):
        raise InvalidValueError(argument="k", must=f"be at most the number of features, {len(values)}", got=k)
    mask = np.zeros(len(values), dtype=bool)
    mask[rank(values)[:n_selected]] = True
    return mask


def top_fraction(scores: Any, fraction: float, *, absolute: bool = False) -> Mask:
    """Select the features with the largest scores: int(fraction · n) of them, as the paper does.

    Examples
    --------
    >>> top_fraction([0.1, 0.7, 0.6, 0.2], 0.5).tolist()
    [False, True, True, False]
    """
    values = _check_scores(scores, absolute)
    return top(values, int(check_share(fraction, "fraction") * len(values)))


def above(scores: Any, threshold: float, *, absolute: bool = False) -> Mask:
    """Select the features whose score is strictly above the threshold.

    Examples
    --------
    >>> above([0.1, -0.7, 0.6, 0.2], 0.2, absolute=True).tolist()
    [False, True, True, False]
    """
    values = _check_scores(scores, absolute)
    check_number(threshold, "threshold", "be a number", lambda number: number == number)  # not NaN
    return np.asarray([value > threshold for value in values.tolist()])


def positive(scores: Any) -> Mask:
    """Select the features with a score above zero: those that speak for the target.

    Examples
    --------
    >>> positive([0.1, -0.7, 0.0]).tolist()
    [True, False, False]
    """
    return above(scores, 0.0)


def rank(scores: Any, *, absolute: bool = False) -> NDArray[np.intp]:
    """Feature indices by decreasing score, equal ones by index."""
    return np.argsort(-_check_scores(scores, absolute), kind="stable")


def _check_scores(scores: Any, absolute: bool = False) -> NDArray[np.float64]:
    must = "be a vector of one number per feature"
    values = check_numbers(scores, "scores", must)
    if values.ndim != 1 or len(values) == 0:
        raise InvalidValueError(argument="scores", must=must, got=f"an array of shape {values.shape}")
    if not np.isfinite(values).all():
        raise InvalidValueError(argument="scores", must=must, got="NaN or infinity")
    return np.abs(values) if check_flag(absolute, "absolute") else values
