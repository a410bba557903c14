"""Numbers per input → the percentile bootstrap interval of their mean: usual, approximate, and labelled so."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.bounds import Interval
from holdfast.randomness import stream

FEW = 20
"""Below this number of inputs the bootstrap does not hold its level: its intervals are too narrow."""

_TOGETHER = 2_000_000
"""Resampled indices held at a time."""


def bootstrap_means(values: NDArray[Any], *, n_resamples: int, confidence: float, key: int) -> list[Interval]:
    """Percentile intervals for the mean of each column of values (n, R), by resampling rows.

    Resamples depend on the key and the number of rows only: columns, and groups over the same
    inputs, are resampled together.

    Examples
    --------
    >>> [one] = bootstrap_means(np.arange(10.0)[:, None], n_resamples=200, confidence=0.95, key=0)
    >>> one.low < 4.5 < one.high
    True
    """
    tails = [(1 - confidence) / 2, (1 + confidence) / 2]
    low, high = np.quantile(_resampled(values, n_resamples, key), tails, axis=0)
    return [Interval(float(a), float(b)) for a, b in zip(low, high, strict=True)]


def _resampled(values: NDArray[Any], n_resamples: int, key: int) -> NDArray[np.float64]:
    """The mean of each column in each resample, (n_resamples, R).

    A resample is counted, not copied out: how often it has each row, times the values.
    """
    numbers = values.astype(np.float64)
    parts = _counts(len(values), n_resamples, key)
    return np.concatenate([part.astype(np.float64) @ numbers for part in parts]) / len(values)


@lru_cache(maxsize=2)
def _counts(n: int, n_resamples: int, key: int) -> tuple[NDArray[np.unsignedinteger[Any]], ...]:
    """How often each resample has each row, in parts; groups over equally many inputs share them."""
    rng, step = stream(key, "bootstrap"), max(1, _TOGETHER // n)
    sizes = [min(step, n_resamples - start) for start in range(0, n_resamples, step)]
    return tuple(_count(rng.integers(n, size=(size, n)), n) for size in sizes)


def _count(drawn: NDArray[np.int64], n: int) -> NDArray[np.unsignedinteger[Any]]:
    """In the smallest type that holds a row drawn n times: many resamples of many inputs are kept."""
    flat = drawn + n * np.arange(len(drawn))[:, None]
    return np.bincount(flat.ravel(), minlength=len(drawn) * n).reshape(len(drawn), n).astype(np.min_scalar_type(n))
