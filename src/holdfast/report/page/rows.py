"""A file of results → one row per input: what is predicted, and how often each explanation keeps it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.report.page.source import Source
from holdfast.study.aggregate.columns import group_keys
from holdfast.study.results import unpack_text
from holdfast.study.store import CURVE_KEY, OF_STUDY, CurveKey, Store
from holdfast.words import class_label, shortened

Plain = dict[str, Any]
Floats = NDArray[np.float64]

MOST_INPUTS = 20_000
"""The table of a page holds this many inputs; means are over all of them whatever the page shows."""

_INPUTS = f"SELECT input, name, label, prediction, n_features FROM inputs WHERE {OF_STUDY} ORDER BY input LIMIT ?"
_RATES = f"SELECT i.input, r.radius, r.rate FROM items i JOIN rates r USING (item) WHERE ({CURVE_KEY}) = (?, ?, ?)"
_ITEMS = f"SELECT input, consistent, witness FROM items WHERE ({CURVE_KEY}) = (?, ?, ?)"


@dataclass(frozen=True, eq=False)
class GroupColumns:
    """The items of one method, fraction and keep probability; NaN where an input has none.

    Attributes
    ----------
    rates : float array (R, n)
        The rate at each radius; no rows where nothing is certified input by input.
    consistent : float array (n,)
        1 if the explanation alone has the prediction of the full input, else 0.
    flips : float array (n,)
        Size of the smallest addition known to change the prediction; infinite where none was found.
    searched : bool
        Whether the study looked for such additions.
    """

    key: CurveKey
    rates: Floats
    consistent: Floats
    flips: Floats
    searched: bool


@dataclass(frozen=True, eq=False)
class InputRows:
    """The inputs of a study that the page lists, by their numbers."""

    inputs: NDArray[np.int64]
    names: tuple[str | None, ...]
    labels: tuple[int | None, ...]
    predictions: tuple[Any, ...]
    n_features: NDArray[np.int64]
    radii: tuple[int, ...]
    groups: tuple[GroupColumns, ...]

    def plain(self, source: Source) -> Plain:
        """The table of the page, column by column."""
        return {
            "input": self.inputs.tolist(),
            "name": [self._name(place, source) for place in range(len(self.inputs))],
            "prediction": [class_label(one, source.classes) for one in self.predictions],
            "label": [class_label(one, source.classes) for one in self.labels],
            "right": [_is_right(*pair) for pair in zip(self.labels, self.predictions, strict=True)],
            "groups": [_plain_group(one) for one in self.groups],
        }

    def _name(self, place: int, source: Source) -> str | None:
        """The stored name; of a text that has none, its beginning."""
        if self.names[place] is not None or source.data is None or not isinstance(source.data.inputs, tuple):
            return self.names[place]
        one = source.input(int(self.inputs[place])).input
        return shortened(one) if isinstance(one, str) else None


def _is_right(label: int | None, prediction: Any) -> int | None:
    comparable = label is not None and isinstance(prediction, int) and not isinstance(prediction, bool)
    return int(label == prediction) if comparable else None


def _plain_group(one: GroupColumns) -> Plain:
    return {
        **one.key._asdict(),
        "rates": [_numbers(rates) for rates in one.rates],
        "consistent": _numbers(one.consistent),
        "witness": _numbers(one.flips) if one.searched else None,
    }


def _numbers(values: Floats) -> list[float | int | None]:
    """Short numbers, and None for what is not known."""
    rounded = np.round(values, 4).tolist()
    return [None if not np.isfinite(x) else int(x) if x == int(x) else x for x in rounded]


def read_rows(store: Store) -> InputRows:
    """Read the rows of a study, item by item, without decoding its certificates."""
    found = list(store.query(_INPUTS, json.dumps(store.inputs()), MOST_INPUTS))
    spec = store.spec
    per_input = spec["certify"]["precision"] == "per-input"
    radii = tuple(spec["certify"]["radii"])
    inputs = np.array([row[0] for row in found], dtype=np.int64)
    keys = group_keys(spec)
    groups = [_read_group(store, key, inputs, radii if per_input else (), searched=spec["witness"]) for key in keys]
    return InputRows(
        inputs=inputs,
        names=tuple(row[1] for row in found),
        labels=tuple(row[2] for row in found),
        predictions=tuple(json.loads(row[3]) for row in found),
        n_features=np.array([row[4] for row in found], dtype=np.int64),
        radii=radii,
        groups=tuple(one for one in groups if np.isfinite(one.consistent).any()),
    )


def _read_group(
    store: Store, key: CurveKey, inputs: NDArray[np.int64], radii: tuple[int, ...], *, searched: bool
) -> GroupColumns:
    place = {int(one): i for i, one in enumerate(inputs)}
    row_of = {radius: i for i, radius in enumerate(radii)}
    rates = np.full((len(radii), len(inputs)), np.nan)
    consistent, flips = np.full(len(inputs), np.nan), np.full(len(inputs), np.nan)
    if radii:
        for one, radius, rate in store.query(_RATES, *key):
            if one in place:
                rates[row_of[radius], place[one]] = rate
    for one, is_consistent, packed in store.query(_ITEMS, *key):
        if one in place:
            consistent[place[one]] = is_consistent
            flips[place[one]] = _n_added(packed)
    return GroupColumns(key, rates, consistent, flips, searched)


def _n_added(packed: bytes | None) -> float:
    if packed is None:
        return np.nan
    size = json.loads(unpack_text(packed))["n_added"]
    return np.inf if size is None else float(size)
