"""A file of results → columns of numbers, one entry per input, for each method, fraction and keep probability.

Only the tables are read: certificates are not decoded, but for the radii of hard certificates by votes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.bounds import Interval
from holdfast.errors import StoreError
from holdfast.randomness import stream
from holdfast.study.records import unpack_text
from holdfast.study.spec import GroupKey
from holdfast.study.store import GROUP, ITEMS, OF_STUDY, Store

FEW = 20  # below this number of inputs the bootstrap does not hold its level: its intervals are too narrow
_TOGETHER = 2_000_000  # resampled indices held at a time
_ITEMS = f"""
SELECT input, n_selected, n_features, consistent, n_calls, seconds, attribution_calls, attribution_seconds
FROM {ITEMS} WHERE ({GROUP}) = (?, ?, ?) AND {OF_STUDY} ORDER BY input
"""

_RATES = f"""
SELECT r.rate_unbiased, r.n_agreed = r.n_evaluated FROM items i JOIN rates r USING (item)
WHERE ({GROUP}) = (?, ?, ?) AND i.{OF_STUDY} ORDER BY i.input, r.radius
"""

_VOTED = f"SELECT mus FROM items WHERE ({GROUP}) = (?, ?, ?) AND {OF_STUDY} ORDER BY input"


@dataclass(frozen=True)
class Columns:
    """The items of one group, by increasing input; n inputs, R radii, which are the study's.

    Attributes
    ----------
    rates : float array (n, R)
        Unbiased rates; the value at a radius beyond the features there are is that of the largest there is.
    all_agreed : Boolean array (n, R)
        Whether no draw at this radius changed the prediction.
    voted : dict of int arrays (n,)
        By keep probability, the radius that votes certify; as large as can be asked for if it covers
        every feature there is.
    """

    radii: tuple[int, ...]
    inputs: NDArray[np.int64]
    consistent: NDArray[np.bool_]
    n_calls: int
    seconds: float
    attribution_calls: int
    attribution_seconds: float
    rates: NDArray[np.float64]
    all_agreed: NDArray[np.bool_]
    voted: dict[float, NDArray[np.int64]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.inputs)


def read_columns(store: Store, key: GroupKey) -> Columns:
    """The columns of one group, at the radii of the study; without rates if no single input is certified."""
    spec, which = store.spec, (*key, json.dumps(store.inputs()))
    certify, keeps = spec.certify, spec.mus.keep_probabilities
    rows = np.array(list(store.query(_ITEMS, *which)), dtype=np.float64).reshape(-1, 8)
    inputs, n_selected, n_features = rows[:, :3].astype(np.int64).T
    rates = all_agreed = np.zeros((len(rows), 0))
    if certify.item_radii:
        flat = np.fromiter(chain.from_iterable(store.query(_RATES, *which)), dtype=np.float64)
        shape = (len(rows), len(certify.item_radii), 2)
        if flat.size != np.prod(shape):
            raise StoreError(f"{str(store.path)!r} has items without a rate for each radius of its study.")
        rates, all_agreed = flat.reshape(shape).transpose(2, 0, 1).copy()
        if np.isnan(rates).any():
            raise StoreError(f"{str(store.path)!r} has rates without an unbiased estimate; they have no mean.")
    voted: dict[float, NDArray[np.int64]] = {}
    if keeps and certify.neighborhood != "swaps":  # votes have no radius of swaps
        adds = certify.neighborhood == "additions"
        name, n_free = ("radius", n_features - n_selected) if adds else ("removal_radius", n_selected)
        votes = [json.loads(unpack_text(packed)) for (packed,) in store.query(_VOTED, *which)]
        radii = np.array([[json.loads(text)[name] for text in texts] for texts in votes], dtype=np.int64)
        radii = radii.reshape(len(rows), len(keeps))
        reach = np.where(radii >= n_free[:, None], np.iinfo(np.int64).max, radii)
        voted = dict(zip(keeps, reach.T, strict=True))
    return Columns(
        radii=certify.radii,
        inputs=inputs,
        consistent=rows[:, 3].astype(bool),
        n_calls=int(rows[:, 4].sum()),
        seconds=float(rows[:, 5].sum()),
        attribution_calls=int(rows[:, 6].sum()),
        attribution_seconds=float(rows[:, 7].sum()),
        rates=rates,
        all_agreed=all_agreed.astype(bool),
        voted=voted,
    )


def bootstrap_means(values: NDArray[Any], *, n_resamples: int, confidence: float, key: int) -> list[Interval]:
    """Percentile intervals for the mean of each column of values (n, R), by resampling rows: usual, and approximate.

    Resamples depend on the key and the number of rows only: columns, and groups over the same inputs, share them.
    """
    parts = _resamples(len(values), n_resamples, key)
    means = np.concatenate([part.astype(np.float64) @ values.astype(np.float64) for part in parts]) / len(values)
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2], axis=0)
    return list(map(Interval, low.tolist(), high.tolist()))


@lru_cache(maxsize=2)
def _resamples(n: int, n_resamples: int, key: int) -> tuple[NDArray[np.unsignedinteger[Any]], ...]:
    """How often each resample has each of n rows, in parts; groups over equally many inputs share them.

    In the smallest type that holds a row drawn n times: many resamples of many inputs are kept.
    """
    rng, step = stream(key, "bootstrap"), max(1, _TOGETHER // n)
    parts = []
    for start in range(0, n_resamples, step):
        size = min(step, n_resamples - start)
        flat = rng.integers(n, size=(size, n)) + n * np.arange(size)[:, None]
        counts = np.bincount(flat.ravel(), minlength=size * n).reshape(size, n)
        parts.append(counts.astype(np.min_scalar_type(n)))
    return tuple(parts)
