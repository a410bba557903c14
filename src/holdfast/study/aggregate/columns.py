"""A file of results → columns of numbers, one entry per input, for each method, fraction and keep probability.

Only the tables are read: certificates are not decoded, but for the radii of hard certificates by votes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, product

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import StoreError
from holdfast.study.question import Plain
from holdfast.study.results import unpack_text
from holdfast.study.store import CURVE_KEY, CurveKey, Store

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

_ITEMS = f"""
SELECT i.input, i.n_selected, x.n_features, i.consistent, i.n_calls, i.seconds, a.n_calls, a.seconds
FROM items i JOIN inputs x USING (input) JOIN attributions a ON a.input = i.input AND a.method = i.method
WHERE ({CURVE_KEY.replace("method", "i.method")}) = (?, ?, ?) AND i.input < ? ORDER BY i.input
"""

_RATES = f"""
SELECT r.rate_unbiased, r.n_agreed = r.n_evaluated FROM items i JOIN rates r USING (item)
WHERE ({CURVE_KEY}) = (?, ?, ?) AND i.input < ? ORDER BY i.input, r.radius
"""

_VOTED = f"SELECT mus FROM items i WHERE ({CURVE_KEY}) = (?, ?, ?) AND i.input < ? ORDER BY i.input"

_VOTED_RADII = {"additions": "radius", "removals": "removal_radius"}
"""Which radius of a certificate by votes is about the neighbourhood; it has none about swaps."""


@dataclass(frozen=True)
class Columns:
    """The items of one group, by increasing input; n inputs, R radii.

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

    inputs: Integers
    consistent: Flags
    n_calls: int
    seconds: float
    attribution_calls: int
    attribution_seconds: float
    rates: Floats
    all_agreed: Flags
    voted: dict[float, Integers] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.inputs)


def group_keys(spec: Plain) -> list[CurveKey]:
    """Every group of a study: its methods × fractions × keep probabilities."""
    names = [method["name"] for method in spec["methods"]]
    return [CurveKey(*one) for one in product(names, spec["top_fractions"], spec["smoothing"]["keep_probabilities"])]


def read_columns(store: Store, key: CurveKey, *, radii: tuple[int, ...]) -> Columns:
    """The columns of one group; without rates where no radius is asked for."""
    spec, which = store.spec, (*key, store.n_inputs)
    rows = np.array(list(store.query(_ITEMS, *which)), dtype=np.float64).reshape(-1, 8)
    inputs, n_selected, n_features = rows[:, :3].astype(np.int64).T
    rates, all_agreed = _read_rates(store, which, (len(rows), len(radii)))
    n_free = {"additions": n_features - n_selected, "removals": n_selected}.get(spec["certify"]["neighborhood"])
    return Columns(
        inputs=inputs,
        consistent=rows[:, 3].astype(bool),
        n_calls=int(rows[:, 4].sum()),
        seconds=float(rows[:, 5].sum()),
        attribution_calls=int(rows[:, 6].sum()),
        attribution_seconds=float(rows[:, 7].sum()),
        rates=rates,
        all_agreed=all_agreed,
        voted={} if n_free is None else _read_voted(store, which, spec, n_free),
    )


def _read_rates(store: Store, which: tuple[object, ...], shape: tuple[int, int]) -> tuple[Floats, Flags]:
    if shape[1] == 0:
        return np.zeros(shape), np.zeros(shape, dtype=bool)
    flat = np.fromiter(chain.from_iterable(_known(store, which)), dtype=np.float64)
    if len(flat) != 2 * shape[0] * shape[1]:
        raise StoreError(f"{str(store.path)!r} has items without a rate for each radius of its study.")
    both = flat.reshape(*shape, 2)
    return both[:, :, 0].copy(), both[:, :, 1].astype(bool)


def _known(store: Store, which: tuple[object, ...]) -> Iterator[tuple[float, int]]:
    for rate, all_agreed in store.query(_RATES, *which):
        if rate is None:
            raise StoreError(f"{str(store.path)!r} has rates without an unbiased estimate; they have no mean.")
        yield rate, all_agreed


def _read_voted(store: Store, which: tuple[object, ...], spec: Plain, n_free: Integers) -> dict[float, Integers]:
    keeps = spec["mus"]["keep_probabilities"]
    if not keeps:
        return {}
    name = _VOTED_RADII[spec["certify"]["neighborhood"]]
    found = [
        [json.loads(one)[name] for one in json.loads(unpack_text(packed))] for (packed,) in store.query(_VOTED, *which)
    ]
    radii = np.array(found, dtype=np.int64).reshape(len(n_free), len(keeps))
    reach = np.where(radii >= n_free[:, None], np.iinfo(np.int64).max, radii)
    return dict(zip(keeps, reach.T, strict=True))
