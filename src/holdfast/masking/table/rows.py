"""A caller's row, background and fill, arrays or data frames → a checked table and its fill rows.

Errors name the column.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.masking.table.columns import first_few, position_of, positions_of
from holdfast.masking.table.palettes import (
    ArrayTable,
    FrameTable,
    Labels,
    Table,
    are_numbers,
    check_seen,
    group_by,
    holds_numbers,
    import_pandas,
    is_numeric_type,
    is_pandas,
    joined,
)
from holdfast.randomness import stream
from holdfast.validation import as_array, check_list, check_name, is_number, shown

_NAMED_FILLS = ("mean", "mode", "background")


def read_table(row: Any, background: Any, columns: Sequence[Hashable] | None) -> Table:
    """Check the row and its background; frames stay frames, everything else becomes arrays."""
    if is_pandas(row, "DataFrame", "Series"):
        return _read_frames(row, background, columns)
    values = _numbers(row, "row")
    if values.ndim not in (1, 2) or values.size == 0 or (values.ndim == 2 and len(values) == 1):
        raise InvalidValueError(
            argument="row",
            must="be one row (d,), or a series (T, channels) of at least two steps",
            got=f"shape {values.shape}",
            hint="Take one row of a table with `row[0]`.",
        )
    if columns is None and is_pandas(background, "DataFrame") and values.ndim == 1:
        columns = list(background.columns)
    labels: Labels = tuple(range(len(values)))
    if columns is not None:
        labels = tuple(check_list(columns, "columns", "be a list of names, one per column"))
        if len(labels) != len(values):
            must = f"have one name per column of the row ({len(values)})"
            raise InvalidValueError(argument="columns", must=must, got=len(labels))
        _check_distinct(labels, "columns")
    _check_finite(values[None], labels, "row")
    rows = None if background is None else _array_background(background, values.shape, labels)
    return ArrayTable(values.ravel().copy(), rows, values.shape, labels)


def _array_background(background: Any, shape: tuple[int, ...], labels: Labels) -> NDArray[Any]:
    rows = _numbers(background, "background")
    if rows.ndim != len(shape) + 1 or rows.shape[1:] != shape:
        must = f"have shape (m, {', '.join(map(str, shape))}) like the row"
        raise InvalidValueError(argument="background", must=must, got=rows.shape)
    _check_not_empty(rows)
    _check_finite(rows, labels, "background")
    return rows.reshape(len(rows), -1).copy()


def _numbers(value: Any, name: str) -> NDArray[Any]:
    must = "be an array of numbers"
    array = as_array(value.detach().cpu() if hasattr(value, "detach") else value, name, must)
    if array.dtype.kind not in "fiub":
        hint = "Give mixed columns as a pandas Series or DataFrame with a type per column."
        raise InvalidTypeError(argument=name, must=must, got=array.dtype, hint=hint)
    return array


def _check_distinct(labels: Labels, name: str) -> None:
    if len(set(labels)) < len(labels):
        twice = next(label for label, count in Counter(labels).items() if count > 1)
        raise InvalidValueError(argument=name, must="have distinct columns", got=f"{twice!r} more than once")


def _check_not_empty(rows: Any) -> None:
    if len(rows) == 0:
        raise InvalidValueError(argument="background", must="have at least one row", got="none")


def _check_finite(rows: NDArray[Any], labels: Labels, name: str) -> None:
    """Name the columns (of a series: the steps) with NaN or infinity."""
    bad = ~np.isfinite(rows)
    _refuse_missing(bad.any(axis=tuple(axis for axis in range(bad.ndim) if axis != 1)), labels, name)


def _refuse_missing(bad: NDArray[np.bool_], labels: Sequence[Hashable], name: str) -> None:
    if bad.any():
        places, columns = np.flatnonzero(bad), "column" if bad.sum() == 1 else "columns"
        raise InvalidValueError(
            argument=name,
            must="have no missing or infinite values",
            got=f"some in {len(places)} {columns} ({first_few(repr(labels[int(at)]) for at in places)})",
            hint="Fill or drop them first.",
        )


def _read_frames(row: Any, background: Any, columns: Sequence[Hashable] | None) -> FrameTable:
    if is_pandas(row, "Series"):
        frame = row.to_frame().T.infer_objects().reset_index(drop=True)
    elif len(row) != 1:
        must = "be a Series or a frame of one row"
        raise InvalidValueError(argument="row", must=must, got=f"{len(row)} rows")
    else:
        frame = row.reset_index(drop=True).copy()
    if columns is not None:
        frame = _choose_columns(frame, tuple(columns), "row")
    labels = tuple(frame.columns)
    _check_distinct(labels, "row")
    _check_frame_complete(frame, "row")
    if background is None:
        return FrameTable(frame, None)
    if is_pandas(background, "DataFrame"):
        _check_distinct(tuple(background.columns), "background")
        rows = _choose_columns(background, labels, "background").reset_index(drop=True).copy()
        _check_not_empty(rows)
        _check_frame_complete(rows, "background")
    else:
        rows = import_pandas().DataFrame(_array_background(background, (len(labels),), labels), columns=list(labels))
    return FrameTable(_retyped(frame, rows), rows)


def _choose_columns(frame: Any, labels: Labels, name: str) -> Any:
    missing = [label for label in labels if label not in frame.columns]
    if missing:
        must = f"have the columns {', '.join(map(repr, missing))}"
        raise InvalidValueError(argument=name, must=must, got="none of them")
    return frame[list(labels)]


def _check_frame_complete(frame: Any, name: str) -> None:
    bad = frame.isna().to_numpy().any(axis=0)
    floats = np.array([dtype.kind == "f" for dtype in frame.dtypes], dtype=bool) & ~bad
    if floats.any():
        bad[floats] = ~np.isfinite(frame.loc[:, floats].to_numpy(dtype=float)).all(axis=0)
    _refuse_missing(bad, frame.columns, name)


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
    if not is_numeric_type(seen.dtype):
        check_seen(own.iloc[0], seen, own.name, "row")
        return own.astype(seen.dtype)
    if not holds_numbers(own):
        must = f"have a number in column {own.name!r}, as the background has"
        raise InvalidTypeError(argument="row", must=must, got=shown(own.iloc[0]))
    cast = own.astype(seen.dtype)
    return cast if (cast == own).all() else own


def make_fill(table: Table, fill: Any, *, hideable: NDArray[np.bool_], n_background: int, key: int) -> tuple[Any, str]:
    """The fill rows of a table, an array (m, d) or a frame of m rows, and the words for them.

    Only columns that can be hidden need a value. ``key`` is that of the stream background rows are drawn from.
    """
    if not isinstance(fill, str):
        hidden = np.flatnonzero(hideable).tolist()
        if is_number(fill):
            return table.given(dict.fromkeys(hidden, fill)), f"constant {fill}"
        return table.given(_values_by_position(table, fill, hidden)), "given values"
    name = check_name(fill, "fill", _NAMED_FILLS)
    if table.background is None:
        raise InvalidValueError(
            argument="background",
            must=f"be given for fill={name!r}",
            got="None",
            hint="Give rows to learn from, such as the training set, or a constant such as fill=0.0.",
        )
    n_known = len(table.background)
    if name != "background":
        return table.means() if name == "mean" else table.modes(), f"{name} of {n_known} background rows"
    if n_background >= n_known:
        return table.drawn(np.arange(n_known)), f"all {n_known} background rows, averaged"
    rows = np.sort(stream(key, "background").permutation(n_known)[:n_background])
    return table.drawn(rows), f"{len(rows)} (key {key}) of {n_known} background rows, averaged"


def _values_by_position(table: Table, fill: Any, hidden: list[int]) -> dict[int, Any]:
    if is_pandas(fill, "Series"):
        fill = fill.to_dict()
    if isinstance(fill, Mapping):
        if len(table.shape) > 1:
            must = "be a number, an array or a name for a series"
            raise InvalidTypeError(argument="fill", must=must, got="a dictionary")
        places = positions_of(table.labels)
        values = {position_of(label, places, "fill"): value for label, value in fill.items()}
        missing = [table.labels[at] for at in hidden if at not in values]
        if missing:
            must, got = "have a value for every column that can be hidden", f"none for {first_few(map(repr, missing))}"
            raise InvalidValueError(argument="fill", must=must, got=got)
        return {at: values[at] for at in hidden}
    # One value per column, or per channel of a series.
    must = f"be a number, {', '.join(map(repr, _NAMED_FILLS))}, or values of shape {table.shape}"
    source = fill.detach().cpu() if hasattr(fill, "detach") else fill
    array = np.array(source, dtype=object) if isinstance(table, FrameTable) else as_array(source, "fill", must)
    if array.ndim == 0 and array.dtype == object:
        raise InvalidTypeError(argument="fill", must=must, got=shown(fill))
    if array.shape != table.shape and not (len(table.shape) == 2 and array.shape == table.shape[1:]):
        raise InvalidValueError(argument="fill", must=must, got=f"shape {array.shape}")
    flat = np.broadcast_to(array, table.shape).ravel()
    return {at: flat[at].item() if isinstance(flat[at], np.generic) else flat[at] for at in hidden}
