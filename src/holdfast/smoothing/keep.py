"""One number, one per feature, or an attribution → the probability with which each feature is kept."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.validation import as_array, check_mask, is_number

_WANTED = "`keep_probability` must be a number in (0, 1], or one per feature"


def check_keep(value: Any, n_features: int) -> tuple[Fraction, ...]:
    """A keep probability in (0, 1] for every feature, as the fractions their digits say."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if is_number(value):
        return (_share(value),) * n_features
    if not isinstance(value, (np.ndarray, list, tuple)):
        raise InvalidTypeError(f"{_WANTED} in a list or an array, got {value!r}.")
    if len(value) != n_features:
        raise InvalidValueError(f"{_WANTED}: the model has {n_features} features, got {len(value)}.")
    return tuple(_share(one) for one in (value.tolist() if isinstance(value, np.ndarray) else value))


def _share(value: Any) -> Fraction:
    if not is_number(value):
        raise InvalidTypeError(f"{_WANTED}, got {value!r}.")
    if not 0 < value <= 1:
        raise InvalidValueError(f"{_WANTED}, got {value!r}.")
    return value if isinstance(value, Fraction) else Fraction(str(value))


def keep_in_words(keep: tuple[Fraction, ...]) -> str:
    """One number if all are equal, else their range."""
    low, high = float(min(keep)), float(max(keep))
    return f"{low:g}" if low == high else f"{low:g} to {high:g} by feature"


def adaptive_keep(scores: Any, *, lowest: float = 0.5, highest: float = 1.0) -> NDArray[np.float64]:
    """Keep features the more often the larger their score: adaptive smoothing.

    Scores are ranked by size (equal scores get equal probabilities) and spread evenly from
    ``lowest`` to ``highest``. Features that are seldom kept can move few votes, so that a hard
    certificate for revealing them reaches further.

    Parameters
    ----------
    scores : Attribution or array (n_features,)
        Scores of an explanation. Absolute values count.
    lowest, highest : float
        Probabilities of the feature with the smallest and the largest absolute score.

    Returns
    -------
    keep_probability : float array (n_features,)
        For ``smooth``; for ``mus_model`` and ``certify_mus`` with ``round=True``.

    Examples
    --------
    >>> adaptive_keep([0.1, -3.0, 1.0], lowest=0.5, highest=1.0).tolist()
    [0.5, 1.0, 0.75]
    """
    must = "be numbers (n_features,)"
    given = as_array(getattr(scores, "scores", scores), "scores", must)
    if given.ndim != 1 or len(given) == 0 or given.dtype.kind not in "fiub" or not np.isfinite(given).all():
        raise InvalidValueError(argument="scores", must=f"{must}, finite", got=f"{given.dtype} of shape {given.shape}")
    low, high = float(_share(lowest)), float(_share(highest))
    if low > high:
        raise InvalidValueError(f"`lowest` must be at most `highest` = {highest!r}, got {lowest!r}.")
    distinct, rank = np.unique(np.abs(given.astype(np.float64)), return_inverse=True)
    return np.clip(low + (high - low) * rank / max(1, len(distinct) - 1), low, high)


def selective_keep(smoothed: Any, keep_probability: float) -> NDArray[np.float64]:
    """Smooth only some features and keep the others always: selective smoothing.

    Parameters
    ----------
    smoothed : Boolean array (n_features,)
        The features that are smoothed, for instance ``~selected``: revealing any of them is then
        certified as far as with smoothing everything, and the explanation itself stays whole.
    keep_probability : float
        Probability with which each of them is kept.

    Examples
    --------
    >>> selective_keep([False, True, True], 0.25).tolist()
    [1.0, 0.25, 0.25]
    """
    return np.where(check_mask(smoothed, "smoothed"), float(_share(keep_probability)), 1.0)
