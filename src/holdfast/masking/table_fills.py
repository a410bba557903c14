"""A table and the name or value of a fill → the rows that stand in for what is hidden."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.masking.columns import position_of, positions_of
from holdfast.masking.tables import FrameTable, Table, is_pandas
from holdfast.randomness import stream
from holdfast.validation import as_array, check_name, check_whole, is_number, shown

NAMED_FILLS = ("mean", "mode", "background")


@dataclass(frozen=True, eq=False)
class Fill:
    """Fill rows, an array (m, d) or a frame of m rows, and the words for them."""

    rows: Any
    name: str


@dataclass(frozen=True)
class Draws:
    """How many background rows to draw, and the key of the stream they are drawn from."""

    n_rows: int
    key: int

    def pick(self, n_known: int) -> NDArray[np.intp]:
        """Distinct rows in increasing order; all of them if no more are known than asked for."""
        if self.n_rows >= n_known:
            return np.arange(n_known)
        order = stream(self.key, "background").permutation(n_known)
        return np.sort(order[: self.n_rows])


def make_fill(table: Table, fill: Any, *, hideable: NDArray[np.bool_], draws: Draws) -> Fill:
    """The fill rows of a table; only columns that can be hidden need a value."""
    if isinstance(fill, str):
        return _named_fill(table, check_name(fill, "fill", NAMED_FILLS), draws)
    hidden = [int(at) for at in np.flatnonzero(hideable)]
    if is_number(fill):
        return Fill(table.given(dict.fromkeys(hidden, fill)), f"constant {fill}")
    return Fill(table.given(_values_by_position(table, fill, hidden)), "given values")


def _named_fill(table: Table, name: str, draws: Draws) -> Fill:
    if table.background is None:
        raise InvalidValueError(
            f"`background` must be given for fill={name!r}, got None. Give rows to learn from, "
            "such as the training set, or a constant such as fill=0.0."
        )
    n_known = len(table.background)
    if name == "background":
        check_whole(draws.n_rows, "n_background", minimum=1)
        rows = draws.pick(n_known)
        chosen = f"all {n_known}" if len(rows) == n_known else f"{len(rows)} (key {draws.key}) of {n_known}"
        return Fill(table.drawn(rows), f"{chosen} background rows, averaged")
    rows = table.means() if name == "mean" else table.modes()
    return Fill(rows, f"{name} of {n_known} background rows")


def _values_by_position(table: Table, fill: Any, hidden: list[int]) -> dict[int, Any]:
    if is_pandas(fill, "Series"):
        fill = fill.to_dict()
    if isinstance(fill, Mapping):
        return _from_mapping(table, fill, hidden)
    values = _spread(table, fill)
    return {at: values[at].item() if isinstance(values[at], np.generic) else values[at] for at in hidden}


def _from_mapping(table: Table, fill: Mapping[Any, Any], hidden: list[int]) -> dict[int, Any]:
    if len(table.shape) > 1:
        raise InvalidTypeError("`fill` of a series must be a number, an array or a name, got a dictionary.")
    places = positions_of(table.labels)
    values = {position_of(label, places, "fill"): value for label, value in fill.items()}
    missing = [table.labels[at] for at in hidden if at not in values]
    if missing:
        shown = ", ".join(map(repr, missing[:8])) + (", …" if len(missing) > 8 else "")
        raise InvalidValueError(f"`fill` must have a value for every column that can be hidden, got none for {shown}.")
    return {at: values[at] for at in hidden}


def _spread(table: Table, fill: Any) -> NDArray[Any]:
    """An array of one value per column, or per channel of a series, as flat values (d,)."""
    must = f"be a number, {', '.join(map(repr, NAMED_FILLS))}, or values of shape {table.shape}"
    given = fill.detach().cpu() if hasattr(fill, "detach") else fill
    values = np.array(given, dtype=object) if isinstance(table, FrameTable) else as_array(given, "fill", must)
    if values.ndim == 0 and values.dtype == object:
        raise InvalidTypeError(argument="fill", must=must, got=shown(fill))
    fits = values.shape == table.shape or (len(table.shape) == 2 and values.shape == table.shape[1:])
    if not fits:
        raise InvalidValueError(argument="fill", must=must, got=f"shape {values.shape}")
    return np.broadcast_to(values, table.shape).ravel()
