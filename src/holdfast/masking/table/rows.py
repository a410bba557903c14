"""A caller's row, background and fill, arrays or data frames → a checked table and its fill rows.

Errors name the column.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.masking.table.columns import position_of, positions_of
from holdfast.masking.table.tables import (
    ArrayTable,
    FrameTable,
    Labels,
    Table,
    are_numbers,
    check_seen,
    group_by,
    holds_numbers,
    import_pandas,
    is_numeric,
    is_pandas,
    joined,
)
from holdfast.randomness import stream
from holdfast.validation import as_array, check_list, check_name, check_whole, is_number, shown


def read_table(row: Any, background: Any, columns: Sequence[Hashable] | None) -> Table:
    """Check the row and its background; frames stay frames, everything else becomes arrays."""
    if is_pandas(row, "DataFrame", "Series"):
        return _read_frames(row, background, columns)
    return _read_arrays(row, background, columns)


def _read_arrays(row: Any, background: Any, columns: Sequence[Hashable] | None) -> ArrayTable:
    values = _numbers(row, "row")
    if values.ndim not in (1, 2) or values.size == 0 or (values.ndim == 2 and len(values) == 1):
        raise InvalidValueError(
            f"`row` must be one row (d,), or a series (T, channels) of at least two steps, got shape {values.shape}. "
            "Take one row of a table with `row[0]`."
        )
    if columns is None and is_pandas(background, "DataFrame") and values.ndim == 1:
        columns = list(background.columns)
    labels = _check_labels(columns, len(values))
    _check_finite(values[None], labels, "row")
    rows = None if background is None else _array_background(background, values.shape, labels)
    return ArrayTable(values.ravel().copy(), rows, values.shape, labels)


def _array_background(background: Any, shape: tuple[int, ...], labels: Labels) -> NDArray[Any]:
    rows = _numbers(background, "background")
    if rows.ndim != len(shape) + 1 or rows.shape[1:] != shape:
        wanted = ", ".join(map(str, shape))
        raise InvalidValueError(f"`background` must have shape (m, {wanted}) like the row, got {rows.shape}.")
    _check_not_empty(rows)
    _check_finite(rows, labels, "background")
    return rows.reshape(len(rows), -1).copy()


def _numbers(value: Any, name: str) -> NDArray[Any]:
    must = "be an array of numbers"
    array = as_array(value.detach().cpu() if hasattr(value, "detach") else value, name, must)
    if array.dtype.kind not in "fiub":
        raise InvalidTypeError(
            argument=name,
            must=must,
            got=array.dtype,
            hint="Give mixed columns as a pandas Series or DataFrame with a type per column.",
        )
    return array


def _check_labels(columns: Any, n: int) -> Labels:
    if columns is None:
        return tuple(range(n))
    labels = tuple(check_list(columns, "columns", "be a list of names, one per column"))
    if len(labels) != n:
        raise InvalidValueError(f"`columns` must have one name per column of the row ({n}), got {len(labels)}.")
    _check_distinct(labels, "columns")
    return labels


def _check_distinct(labels: Labels, name: str) -> None:
    if len(set(labels)) < len(labels):
        twice = next(label for label, count in Counter(labels).items() if count > 1)
        raise InvalidValueError(f"`{name}` must have distinct columns, got {twice!r} more than once.")


def _check_not_empty(rows: Any) -> None:
    if len(rows) == 0:
        raise InvalidValueError("`background` must have at least one row, got none.")


def _check_finite(rows: NDArray[Any], labels: Labels, name: str) -> None:
    """Name the columns (of a series: the steps) with NaN or infinity."""
    bad = ~np.isfinite(rows)
    found = np.flatnonzero(bad.any(axis=tuple(axis for axis in range(bad.ndim) if axis != 1)))
    if len(found):
        _refuse_missing([labels[at] for at in found], name)


def _refuse_missing(labels: Sequence[Hashable], name: str) -> None:
    shown = ", ".join(map(repr, labels[:8])) + (", …" if len(labels) > 8 else "")
    raise InvalidValueError(
        f"`{name}` must have no missing or infinite values, got some in {len(labels)} "
        f"{'column' if len(labels) == 1 else 'columns'} ({shown}). Fill or drop them first."
    )


def _read_frames(row: Any, background: Any, columns: Sequence[Hashable] | None) -> FrameTable:
    one = _one_row_frame(row)
    if columns is not None:
        one = _choose_columns(one, tuple(columns), "row")
    _check_distinct(tuple(one.columns), "row")
    _check_frame_complete(one, "row")
    if background is None:
        return FrameTable(one, None)
    rows = _frame_background(background, tuple(one.columns))
    return FrameTable(_retyped(one, rows), rows)


def _one_row_frame(row: Any) -> Any:
    if is_pandas(row, "Series"):
        return row.to_frame().T.infer_objects().reset_index(drop=True)
    if len(row) != 1:
        raise InvalidValueError(f"`row` must be a Series or a frame of one row, got {len(row)} rows.")
    return row.reset_index(drop=True).copy()


def _choose_columns(frame: Any, labels: Labels, name: str) -> Any:
    missing = [label for label in labels if label not in frame.columns]
    if missing:
        raise InvalidValueError(f"`{name}` must have the columns {', '.join(map(repr, missing))}, got none of them.")
    return frame[list(labels)]


def _frame_background(background: Any, labels: Labels) -> Any:
    if not is_pandas(background, "DataFrame"):
        rows = _array_background(background, (len(labels),), labels)
        return import_pandas().DataFrame(rows, columns=list(labels))
    _check_distinct(tuple(background.columns), "background")
    rows = _choose_columns(background, labels, "background").reset_index(drop=True).copy()
    _check_not_empty(rows)
    _check_frame_complete(rows, "background")
    return rows


def _check_frame_complete(frame: Any, name: str) -> None:
    bad = frame.isna().to_numpy().any(axis=0)
    floats = np.array([dtype.kind == "f" for dtype in frame.dtypes], dtype=bool) & ~bad
    if floats.any():
        bad[floats] = ~np.isfinite(frame.loc[:, floats].to_numpy(dtype=float)).all(axis=0)
    if bad.any():
        _refuse_missing([label for label, is_bad in zip(frame.columns, bad, strict=True) if is_bad], name)


def _retyped(row: Any, background: Any) -> Any:
    """The row with the background's column types: one row taken out of a frame often loses its own."""
    parts = []
    for (own_type, type_), at in group_by(zip(row.dtypes, background.dtypes, strict=True)).items():
        own, seen = row.iloc[:, at], background.iloc[:, at]
        if are_numbers(own_type) and are_numbers(type_):
            cast = own.astype(type_)
            same = (cast.to_numpy() == own.to_numpy())[0]
            parts += [cast.loc[:, same], own.loc[:, ~same]]
        else:
            parts += [_retyped_column(own[label], seen[label]).to_frame(label) for label in own.columns]
    return joined(parts, tuple(row.columns))


def _retyped_column(own: Any, seen: Any) -> Any:
    if is_numeric(seen):
        return _retyped_number(own, seen, own.name)
    check_seen(own.iloc[0], seen, own.name, "row")
    return own.astype(seen.dtype)


def _retyped_number(own: Any, seen: Any, label: Hashable) -> Any:
    if not holds_numbers(own):
        raise InvalidTypeError(
            f"`row` must have a number in column {label!r}, as the background has, got {own.iloc[0]!r}."
        )
    cast = own.astype(seen.dtype)
    return cast if (cast == own).all() else own


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
