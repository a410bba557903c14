"""A row and its background, arrays or data frames → fill rows, and palettes from which masked rows are mixed.

A table gives blocks of fill rows; a palette is the row on top of such a block. Every masked row is then, column by
column, a choice from the palette: 0 takes the row itself, j the j-th fill row. What is shown is thus the caller's own
value, and columns keep their types. Errors name the column.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.extras import import_extra
from holdfast.masking.table.columns import first_few, positions_of
from holdfast.validation import as_array, check_list, is_number, shown

Labels = tuple[Hashable, ...]
Chosen = NDArray[np.intp]
"""Which palette row each column of each masked row takes, (rows, d)."""


def _import_pandas() -> Any:
    return import_extra("pandas", "Data frames need")


def as_frame(data: Any) -> Any:
    """A pandas frame of what is one, or makes one of itself, as frames of Polars and tables of Arrow do; else None."""
    if hasattr(data, "iloc"):
        return data if hasattr(data, "columns") else None
    if callable(getattr(data, "to_pandas", None)):
        _import_pandas()
        import_extra("pyarrow", "Frames of Polars and Arrow need")
        frame = data.to_pandas()
        return frame if hasattr(frame, "columns") else None
    if callable(getattr(data, "to_dicts", None)):
        return _import_pandas().DataFrame(data.to_dicts())
    return None


def is_pandas(value: Any, *kinds: str) -> bool:
    """Whether the value is a pandas object of one of these kinds; asks without importing pandas."""
    return any(kind.__module__.split(".")[0] == "pandas" and kind.__name__ in kinds for kind in type(value).__mro__)


@dataclass(frozen=True, eq=False)
class ArrayPalette:
    """Numbers (1 + m, d): the row, then m fill rows."""

    values: NDArray[Any]
    shape: tuple[int, ...]

    def take(self, chosen: Chosen) -> NDArray[Any]:
        """Masked rows (rows, *shape)."""
        return np.take_along_axis(self.values, chosen, axis=0).reshape(-1, *self.shape)

    @cached_property
    def missing(self) -> NDArray[np.bool_]:
        """Where the row or a fill row has a missing value, (1 + m, d)."""
        return _is_nan(self.values)

    @property
    def fill_bytes(self) -> bytes:
        """What tells these fill rows from others."""
        return self.values[1:].tobytes()

    def distances(self) -> NDArray[np.int64]:
        """How far each fill row is from the row, column by column, (m, d)."""
        return np.stack([_number_distances(column[0], column[1:]) for column in self.values.T], axis=1)

    def to_frame(self, labels: Labels) -> FramePalette:
        """The same numbers in named columns."""
        return FramePalette(_import_pandas().DataFrame(self.values, columns=list(labels)), labels)


@dataclass(frozen=True, eq=False)
class FramePalette:
    """A frame of 1 + m rows: the row, then m fill rows; masked rows have the columns in ``order``."""

    frame: Any
    order: Labels

    def take(self, chosen: Chosen) -> Any:
        """Masked rows as a frame with the columns' own types."""
        pandas = _import_pandas()
        taken: dict[Hashable, Any] = {}
        for labels, at, values in self._blocks:
            # Columns lie one after the other, as in a frame made of columns: a model's last bits depend on it.
            block = np.asfortranarray(np.take_along_axis(values, chosen[:, at], axis=0))
            if len(labels) == len(self.order):
                return pandas.DataFrame(block, columns=list(labels), copy=False)
            taken |= dict(zip(labels, block.T, strict=True))
        places = positions_of(self.frame.columns)
        for label in (label for label in self.order if label not in taken):
            column = self.frame[label]  # the type is given once more, or pandas makes texts of objects
            values = column.array.take(chosen[:, places[label]])
            taken[label] = pandas.Series(values, dtype=column.dtype, copy=False)
        return pandas.DataFrame({label: taken[label] for label in self.order}, copy=False)

    @cached_property
    def _blocks(self) -> list[tuple[list[Hashable], list[int], NDArray[Any]]]:
        """Columns of NumPy's numbers by type: their labels, their places in the frame, and their values together."""
        places = positions_of(self.frame.columns)
        types, order = list(self.frame.dtypes), [places[label] for label in self.order]
        plain = [at for at in order if _are_numbers(types[at])]
        groups = [[plain[i] for i in group] for group in _group_by(types[at] for at in plain).values()]
        return [([self.frame.columns[i] for i in at], at, self.frame.iloc[:, at].to_numpy()) for at in groups]

    def to_array(self) -> ArrayPalette:
        """The same rows as numbers; columns of anything else are named in the error."""
        strange = [label for label in self.order if not _holds_numbers(self.frame[label])]
        if strange:
            must, hint = "have numbers only for a classifier on arrays", "use a pipeline that takes data frames"
            got = ", ".join(f"{label!r} ({self.frame[label].dtype})" for label in strange)
            raise InvalidTypeError(argument="row", must=must, got=got, hint=f"Encode them first, or {hint}.")
        return ArrayPalette(frame_numbers(self.frame[list(self.order)]), (len(self.order),))

    @cached_property
    def missing(self) -> NDArray[np.bool_]:
        """Where the row or a fill row has a missing value, (1 + m, d), columns as in the frame."""
        return np.asarray(self.frame.isna().to_numpy())

    @property
    def fill_bytes(self) -> bytes:
        """What tells these fill rows from others."""
        return _frame_bytes(self.frame.iloc[1:])

    def distances(self) -> NDArray[np.int64]:
        """How far each fill row is from the row, column by column, (m, d): of categories 0 or 1."""
        columns = []
        for at, label in enumerate(self.frame.columns):
            column = self.frame[label]
            if _is_numeric_type(column.dtype):
                numbers = frame_numbers(column.to_frame())[:, 0]
                columns.append(_number_distances(numbers[0], numbers[1:]))
                continue
            missing, values = self.missing[:, at], column.tolist()
            alike = np.array([value == values[0] for value in values[1:]]) & ~missing[1:] & ~missing[0]
            columns.append(np.where(alike | (missing[1:] & missing[0]), 0, _ONE))
        return np.stack(columns, axis=1)


@dataclass(frozen=True, eq=False)
class ArrayTable:
    """Numbers: a row (d,) and its background (m, d), both flat; ``shape`` is that of the row as given."""

    row: NDArray[Any]
    background: Any
    shape: tuple[int, ...]
    labels: Labels

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(self.row.tobytes()).hexdigest()

    def palette(self, fills: NDArray[Any], hideable: NDArray[np.bool_]) -> ArrayPalette:
        """The row on top of the fill rows, in the row's own type if that can hold them."""
        kept = np.where(hideable, fills, self.row)
        return ArrayPalette(np.concatenate([self.row[None], _typed_like(kept, self.row.dtype)]), self.shape)

    def given(self, values: Mapping[int, Any]) -> NDArray[Any]:
        """One fill row (1, d) of given numbers by position."""
        for at, value in values.items():
            if not is_number(value):
                got = f"{shown(value)} for {self.labels[at]!r}"
                raise InvalidTypeError(argument="fill", must="be numbers", got=got)
        fills = self.row.astype(np.float64)
        fills[list(values)] = list(values.values())
        return fills[None]

    def means(self) -> NDArray[Any]:
        """The mean of each column of the background, (1, d)."""
        return _known_means(self.background, axis=0)[None]

    def modes(self) -> NDArray[Any]:
        """The most frequent value of each column of the background, the smallest of equals, (1, d)."""
        known = (column[~_is_nan(column)] for column in self.background.T)
        counted = (np.unique(column if len(column) else [np.nan], return_counts=True) for column in known)
        return np.array([values[counts.argmax()] for values, counts in counted])[None]

    def drawn(self, rows: NDArray[np.intp]) -> NDArray[Any]:
        return np.asarray(self.background[rows])


@dataclass(frozen=True, eq=False)
class FrameTable:
    """Columns of any type: a one-row frame and its background, a frame with the same columns and types."""

    row: Any
    background: Any
    shape: tuple[int, ...]
    labels: Labels

    @property
    def fingerprint(self) -> str:
        """The sha256 of the row as a line of CSV with its header."""
        return hashlib.sha256(_frame_bytes(self.row)).hexdigest()

    def palette(self, fills: Any, hideable: NDArray[np.bool_]) -> FramePalette:
        """The row on top of the fill rows; a column keeps its type if that can hold its fills."""
        parts: list[Any] = []
        types = zip(self.row.dtypes, fills.dtypes, hideable.tolist(), strict=True)
        keys = [(own, fill if can_hide else own, can_hide) for own, fill, can_hide in types]
        for (own_type, fill_type, can_hide), at in _group_by(keys).items():
            own = self.row.iloc[:, at]
            blocks = fills.iloc[:, at] if can_hide else own.loc[own.index.repeat(len(fills))]
            if _are_numbers(own_type) and _are_numbers(fill_type):
                parts += _stacked(own, blocks)
                continue
            parts += [_on_top(own[label], blocks[label]) for label in own.columns]
        return FramePalette(_joined(parts, self.labels), self.labels)

    def given(self, values: Mapping[int, Any]) -> Any:
        """A one-row frame of given values by position; the other columns are the row's own."""
        pandas, types = _import_pandas(), list(self.row.dtypes)
        floats = [at for at, value in values.items() if type(value) is float and _are_numbers(types[at])]
        numbers = np.array([[values[at] for at in floats]])
        rest = [at for at in range(len(types)) if at not in values]
        parts = [pandas.DataFrame(numbers, columns=self.row.columns[floats]), self.row.iloc[:, rest]]
        for at in sorted(values.keys() - set(floats)):
            label, value = self.labels[at], values[at]
            own = self.row[label]
            if is_missing(value):
                parts.append(_missing_like(own if self.background is None else self.background[label]))
                continue
            numeric = _is_numeric_type(own.dtype)
            if numeric and not is_number(value) and not isinstance(value, (bool, np.bool_)):
                must = f"be a number for column {label!r} ({own.dtype})"
                raise InvalidTypeError(argument="fill", must=must, got=shown(value))
            if not numeric and is_number(value) and value not in _known_values(own):
                must = f"be one of the categories of column {label!r} ({own.dtype})"
                hint = "Pass a dictionary with a value per column, or fill='mode'."
                raise InvalidTypeError(argument="fill", must=must, got=shown(value), hint=hint)
            if not numeric and (self.background is not None or isinstance(own.dtype, pandas.CategoricalDtype)):
                _check_seen(value, own if self.background is None else self.background[label], label, "fill")
            parts.append(pandas.Series([value], dtype=None if numeric else own.dtype).to_frame(label))
        return _joined(parts, self.labels)

    def means(self) -> Any:
        """The mean of each numeric column and the mode of every other one, as a one-row frame."""
        pandas, parts = _import_pandas(), []
        for dtype, at in _group_by(self.background.dtypes).items():
            block = self.background.iloc[:, at]
            if _are_numbers(dtype) and (dtype == np.float64 or dtype.kind != "f"):
                # Sums over contiguous numbers: those that pandas takes of each column, to the last bit.
                means = _known_means(np.ascontiguousarray(block.to_numpy().T), axis=1)
                parts.append(pandas.DataFrame(means[None], columns=block.columns))
            elif _is_numeric_type(dtype):
                parts += [_mean_of(block[label]) for label in block.columns]
            else:
                parts += [_first_mode(block[label]) for label in block.columns]
        return _joined(parts, self.labels)

    def modes(self) -> Any:
        """The most frequent value of each column, the smallest of equals, as a one-row frame."""
        return _joined([_first_mode(self.background[label]) for label in self.labels], self.labels)

    def drawn(self, rows: NDArray[np.intp]) -> Any:
        return self.background.iloc[rows].reset_index(drop=True)


Table = ArrayTable | FrameTable
Palette = ArrayPalette | FramePalette


def join_tables(tables: Sequence[Any]) -> Any:
    """Rows of several tables, arrays or frames, in one; of arrays and frames of one type alone."""
    if isinstance(tables[0], np.ndarray):
        return np.concatenate(tables)
    return _import_pandas().concat(tables, ignore_index=True)


def _frame_bytes(frame: Any) -> bytes:
    """A frame as CSV, and where values are missing: an empty text is none."""
    missing = np.asarray(frame.isna().to_numpy())
    return bytes(frame.to_csv(index=False).encode() + (missing.tobytes() if missing.any() else b""))


def frame_numbers(frame: Any) -> NDArray[Any]:
    """The numbers of a frame (m, d); those of several types, or that pandas alone can hold, as float64."""
    numbers = np.asarray(frame.to_numpy())
    return numbers if numbers.dtype != object else np.asarray(frame.to_numpy(dtype=np.float64, na_value=np.nan))


def missing_cells(rows: Any) -> list[tuple[int, Hashable]]:
    """The missing values of a frame, or of an array of numbers: the row and the column of each."""
    if is_pandas(rows, "DataFrame"):
        return [(row, rows.columns[at]) for row, at in np.argwhere(rows.isna().to_numpy()).tolist()]
    return [(place[0], place[1]) for place in np.argwhere(_is_nan(np.asarray(rows))).tolist()]


def is_missing(value: Any) -> bool:
    """Whether it is one of the things that stand for a missing value in pandas: NaN, None, NA or NaT."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or (is_number(value) and value != value)


def columns_without_numbers(rows: Any) -> str:
    """The columns of a frame that hold texts, dates or other things, with an example of each; empty for arrays."""
    if not is_pandas(rows, "DataFrame"):
        return ""
    strange = (label for label in rows.columns if not _holds_numbers(rows[label]))
    return first_few(f"{label!r} ({rows[label].iloc[0]!r})" for label in strange)


def _check_seen(value: Any, seen: Any, label: Hashable, name: str) -> None:
    """Refuse a category that the column ``seen`` does not know; dates are no categories."""
    kinds = _import_pandas().api.types
    if kinds.is_datetime64_any_dtype(seen.dtype) or kinds.is_timedelta64_dtype(seen.dtype):
        return
    known = _known_values(seen)
    if known and not is_missing(value) and value not in known:
        must = f"have a known category in column {label!r} ({first_few(map(repr, known))})"
        hint = "Add a row with this category to the background." if name == "row" else None
        raise InvalidValueError(argument=name, must=must, got=shown(value), hint=hint)


def _known_values(column: Any) -> list[Any]:
    """The categories of a column: those of its type, or all values it has."""
    pandas = _import_pandas()
    if pandas.api.types.is_bool_dtype(column.dtype):
        return [False, True]
    known = column.cat.categories if isinstance(column.dtype, pandas.CategoricalDtype) else column.dropna().unique()
    return list(known)


def _holds_numbers(column: Any) -> bool:
    """Whether a frame's column holds numbers or Booleans."""
    return bool(_import_pandas().api.types.is_numeric_dtype(column.dtype))


def _typed_like(fills: NDArray[Any], dtype: Any) -> NDArray[Any]:
    """The fills as this type; whole-number types only if no fill loses its fraction."""
    if fills.dtype == dtype:
        return fills
    if dtype.kind == "f":
        return fills.astype(dtype)
    if fills.dtype.kind == "f" and not np.isfinite(fills).all():
        return fills
    cast = fills.astype(dtype)
    return cast if (cast == fills).all() else fills


def _is_numeric_type(dtype: Any) -> bool:
    """Whether columns of this type hold numbers that can be averaged (Booleans cannot)."""
    kinds = _import_pandas().api.types
    return bool(kinds.is_numeric_dtype(dtype)) and not kinds.is_bool_dtype(dtype)


def _are_numbers(dtype: Any) -> bool:
    """Whether it is one of NumPy's types of numbers, which pandas puts together as NumPy does."""
    return isinstance(dtype, np.dtype) and dtype.kind in "fiu"


_MOST_COMPARED = 2**22
"""Most pairs of a mask and a fill row that are compared at a time."""

_ONE, _FARTHEST = 2**20, 2**40
"""A distance of one, and the largest of a column: whole numbers, whose sums do not depend on their order."""


def _number_distances(own: Any, others: NDArray[Any]) -> NDArray[np.int64]:
    """Squares of differences in standard deviations of the others; 0 or 1 where all are alike or a value is missing."""
    value, numbers = float(own), np.asarray(others, dtype=np.float64)
    is_missing_own, missing = np.isnan(value), np.isnan(numbers)
    unknown, known = missing | is_missing_own, numbers[~missing]
    steps = np.where(unknown, missing != is_missing_own, numbers != value).astype(np.float64)
    spread = known.std() if len(known) else 0.0
    if spread > 0:
        with np.errstate(over="ignore"):
            steps = np.where(unknown, steps, ((numbers - value) / spread) ** 2)
    return np.asarray(np.minimum(np.rint(steps * _ONE), _FARTHEST), dtype=np.int64)


def nearest_rows(shown: NDArray[np.bool_], distances: NDArray[np.int64], n: int) -> NDArray[np.intp]:
    """The n fill rows nearest in the columns shown (b, d), the nearest first and equally near ones in order, (b, n)."""
    size = max(1, _MOST_COMPARED // len(distances))
    near = []
    for start in range(0, len(shown), size):
        total = shown[start : start + size].astype(np.int64) @ distances.T
        near.append(np.argsort(total, axis=1, kind="stable")[:, :n])
    return np.concatenate(near)


def _is_nan(values: NDArray[Any]) -> NDArray[np.bool_]:
    return np.isnan(values) if values.dtype.kind == "f" else np.zeros(values.shape, dtype=bool)


def _known_means(values: NDArray[Any], axis: int) -> NDArray[np.float64]:
    """Means along an axis of what is not NaN; NaN where all is."""
    missing = _is_nan(values)
    known = np.where(missing, 0, values) if missing.any() else values
    sums = known.sum(axis=axis, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        return np.asarray(sums / (values.shape[axis] - missing.sum(axis=axis)))


def _mean_of(column: Any) -> Any:
    """The mean of a column, as a frame; types of pandas' own know another missing value than NaN."""
    pandas, mean = _import_pandas(), column.mean()
    is_plain = isinstance(column.dtype, np.dtype)
    if is_plain or not is_missing(mean):
        return pandas.DataFrame({column.name: [mean]})
    return _missing_like(column)


def _first_mode(column: Any) -> Any:
    """The most frequent value of a column, the smallest of equals, as a frame; missing if all are."""
    modes = column.mode().iloc[:1].reset_index(drop=True)
    return modes.to_frame(column.name) if len(modes) else _missing_like(column)


def _missing_like(column: Any) -> Any:
    """A frame of one missing value for a column; whole numbers and Booleans become floats for it."""
    pandas, dtype = _import_pandas(), column.dtype
    if dtype.kind == "O" and isinstance(
        dtype, np.dtype
    ):  # texts: the sort that the column has itself, if any; encoders tell NaN and None apart
        own = column[column.isna()]
        value = own.iloc[0] if len(own) else np.nan
    elif isinstance(dtype, np.dtype) and dtype.kind in "fiub":
        value, dtype = np.nan, dtype if dtype.kind == "f" else np.dtype(np.float64)
    else:
        value = None
    return pandas.Series([value], dtype=dtype).to_frame(column.name)


def _on_top(own: Any, fills: Any) -> Any:
    """A column of the row on top of its fills, as a frame; in the row's own type if that can hold the fills."""
    pandas, dtype = _import_pandas(), own.dtype
    if isinstance(dtype, np.dtype) and _holds_numbers(own) and _holds_numbers(fills):
        block = frame_numbers(fills.to_frame())[:, 0]
        values = np.concatenate([own.to_numpy(), _typed_like(block, dtype)])
        return pandas.DataFrame({own.name: values})
    if dtype != fills.dtype and _is_numeric_type(dtype) and _is_numeric_type(fills.dtype):
        with suppress(TypeError, ValueError):  # a type of pandas' own, such as Int64, that cannot hold a fraction
            fills = fills.astype(dtype)
    return pandas.concat([own, fills], ignore_index=True).to_frame(own.name)


def _stacked(row: Any, fills: Any) -> list[Any]:
    """Frames of numbers on top of each other: one of the columns whose type can hold their fills, one of the others."""
    pandas, own, block = _import_pandas(), row.to_numpy(), fills.to_numpy()
    with np.errstate(invalid="ignore"):  # a fill that the type cannot hold
        cast = block.astype(own.dtype)
    fits = np.full(own.shape[1], True) if own.dtype.kind == "f" else (cast == block).all(axis=0)
    halves = [(own[:, at], below[:, at], row.columns[at]) for at, below in ((fits, cast), (~fits, block)) if at.any()]
    return [pandas.DataFrame(np.concatenate([top, below]), columns=labels) for top, below, labels in halves]


def _joined(parts: list[Any], labels: Labels) -> Any:
    """Frames side by side, their columns in this order."""
    frame = _import_pandas().concat(parts, axis=1) if len(parts) > 1 else parts[0]
    places = positions_of(frame.columns)
    return frame.iloc[:, [places[label] for label in labels]]


def _group_by(keys: Iterable[Any]) -> dict[Any, list[int]]:
    """Key → the positions at which it stands."""
    groups: dict[Any, list[int]] = {}
    for at, key in enumerate(keys):
        groups.setdefault(key, []).append(at)
    return groups


def read_table(row: Any, background: Any, columns: Sequence[Hashable] | None) -> Table:
    """Check the row and its background; frames and mappings become frames of pandas, everything else arrays."""
    if isinstance(row, Mapping):
        row = _frame_of(row)
    elif (frame := as_frame(row)) is not None:
        row = frame
    if not is_pandas(background, "DataFrame") and (frame := as_frame(background)) is not None:
        background = frame
    if is_pandas(row, "DataFrame", "Series"):
        return _read_frames(row, background, columns)
    values = _numbers(row, "row")
    if values.ndim not in (1, 2) or values.size == 0 or (values.ndim == 2 and len(values) == 1):
        must = "be one row (d,), or a series (T, channels) of at least two steps"
        got, hint = f"shape {values.shape}", "Take one row of a table with `row[0]`."
        raise InvalidValueError(argument="row", must=must, got=got, hint=hint)
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
    return ArrayTable(_one_nan(values.ravel()), rows, values.shape, labels)


def _frame_of(row: Mapping[Hashable, Any]) -> Any:
    """A frame of one row; None is a missing number where nothing else is known of its column."""
    frame = _import_pandas().DataFrame([dict(row)])
    if frame.shape[1] == 0:
        raise InvalidValueError(argument="row", must="have at least one column", got="none")
    empty = [label for label in frame.columns if frame[label].dtype == object and is_missing(frame[label].iloc[0])]
    return frame.astype(dict.fromkeys(empty, np.float64))


def _one_nan(values: NDArray[Any]) -> NDArray[Any]:
    """A copy in which every NaN has the same bits, so that digests agree."""
    copied = values.copy()
    if (missing := _is_nan(copied)).any():
        copied[missing] = np.nan
    return copied


def _read_frames(row: Any, background: Any, columns: Sequence[Hashable] | None) -> FrameTable:
    if is_pandas(row, "Series"):
        frame = row.to_frame().T.infer_objects().reset_index(drop=True)
    elif len(row) != 1:
        raise InvalidValueError(argument="row", must="be a Series or a frame of one row", got=f"{len(row)} rows")
    else:
        frame = row.reset_index(drop=True).copy()
    if columns is not None:
        frame = _choose_columns(frame, tuple(columns), "row")
    labels = tuple(frame.columns)
    _check_distinct(labels, "row")
    _check_frame_finite(frame, "row")
    if background is None:
        return FrameTable(frame, None, (len(labels),), labels)
    if is_pandas(background, "DataFrame"):
        _check_distinct(tuple(background.columns), "background")
        rows = _choose_columns(background, labels, "background").reset_index(drop=True).copy()
        if len(rows) == 0:
            raise InvalidValueError(argument="background", must="have at least one row", got="none")
        _check_frame_finite(rows, "background")
    else:
        rows = _import_pandas().DataFrame(_array_background(background, (len(labels),), labels), columns=list(labels))
    return FrameTable(_retyped(frame, rows), rows, (len(labels),), labels)


def _array_background(background: Any, shape: tuple[int, ...], labels: Labels) -> NDArray[Any]:
    rows = _numbers(background, "background")
    if rows.ndim != len(shape) + 1 or rows.shape[1:] != shape:
        must = f"have shape (m, {', '.join(map(str, shape))}) like the row"
        hint = "Pass one row, such as `rows[0]`." if shape[1:] == rows.shape[1:] else None
        raise InvalidValueError(argument="background", must=must, got=rows.shape, hint=hint)
    if len(rows) == 0:
        raise InvalidValueError(argument="background", must="have at least one row", got="none")
    _check_finite(rows, labels, "background")
    return _one_nan(rows.reshape(len(rows), -1))


def _numbers(value: Any, name: str) -> NDArray[Any]:
    must = "be an array of numbers"
    array = as_array(value.detach().cpu() if hasattr(value, "detach") else value, name, must)
    if array.dtype.kind not in "fiub":
        hint = "Pass mixed columns as a mapping, a pandas Series, or a data frame with a type per column."
        raise InvalidTypeError(argument=name, must=must, got=array.dtype, hint=hint)
    return array


def _check_distinct(labels: Labels, name: str) -> None:
    if len(set(labels)) < len(labels):
        twice = next(label for label, count in Counter(labels).items() if count > 1)
        raise InvalidValueError(argument=name, must="have distinct columns", got=f"{twice!r} more than once")


def _check_finite(rows: NDArray[Any], labels: Labels, name: str) -> None:
    """Name the first column (of a series: the step) with infinity, and its row."""
    infinite = np.argwhere(np.isinf(rows))
    if len(infinite):
        first = tuple(infinite[0].tolist())
        of_row = "" if name == "row" else f" of row {first[0]}"
        got = f"{rows[first]} in column {labels[first[1]]!r}{of_row}"
        hint = "Replace it; NaN stands for a missing value."
        raise InvalidValueError(argument=name, must="have no infinite values", got=got, hint=hint)


def _choose_columns(frame: Any, labels: Labels, name: str) -> Any:
    missing = [label for label in labels if label not in frame.columns]
    if missing:
        must = f"have the columns {', '.join(map(repr, missing))}"
        raise InvalidValueError(argument=name, must=must, got="none of them")
    return frame[list(labels)]


def _check_frame_finite(frame: Any, name: str) -> None:
    floats = [at for at, dtype in enumerate(frame.dtypes) if dtype.kind == "f"]
    if floats:
        numbers = frame.iloc[:, floats].to_numpy(dtype=float, na_value=np.nan)
        _check_finite(numbers, tuple(frame.columns[floats]), name)


def _retyped(row: Any, background: Any) -> Any:
    """The row with the background's column types: one row taken out of a frame often loses its own."""
    parts = []
    keys = zip(row.dtypes, background.dtypes, row.isna().iloc[0], strict=True)
    for (own_type, type_, is_gone), at in _group_by(keys).items():
        own, seen = row.iloc[:, at], background.iloc[:, at]
        if is_gone:
            parts += [_missing_like(seen[label]) for label in own.columns]
            continue
        if _are_numbers(own_type) and _are_numbers(type_):
            cast = own.astype(type_)
            same = (cast.to_numpy() == own.to_numpy())[0]
            parts += [cast.loc[:, same], own.loc[:, ~same]]
            continue
        for label in own.columns:
            column, like = own[label], seen[label]
            if not _is_numeric_type(like.dtype):
                _check_seen(column.iloc[0], like, label, "row")
            elif not _holds_numbers(column):
                must = f"have a number in column {label!r}, as the background has"
                raise InvalidTypeError(argument="row", must=must, got=shown(column.iloc[0]))
            cast = column.astype(like.dtype)
            keeps = _is_numeric_type(like.dtype) and not (cast == column).all()
            parts.append((column if keeps else cast).to_frame(label))
    return _joined(parts, tuple(row.columns))
