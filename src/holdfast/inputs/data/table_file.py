"""A CSV or Parquet file, or a data frame → a ``Dataset`` of rows that keep the type of every column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from holdfast.errors import InvalidValueError, MissingExtraError
from holdfast.extras import import_extra
from holdfast.inputs.data.dataset import Dataset, no_labels, number_labels
from holdfast.validation import MOST_TABLE, check_file, check_name

READERS = {".csv": "read_csv", ".parquet": "read_parquet"}
"""What a table is called → what of pandas reads it."""

_MOST_CELLS = 10**8
"""Most rows times columns of a Parquet file; a gigabyte of numbers."""


@dataclass(frozen=True, eq=False)
class FrameRows(Sequence[Any]):
    """Rows of a data frame by number, each a frame of one row."""

    frame: Any

    @property
    def iloc(self) -> Any:
        return self.frame.iloc

    def __len__(self) -> int:
        return len(self.frame)

    def __getitem__(self, at: Any) -> Any:
        return FrameRows(self.frame.iloc[at]) if isinstance(at, slice) else self.frame.iloc[[at]]

    @cached_property
    def _hashes(self) -> Any:
        """Of all rows at once: what a row's is depends on the types of the others."""
        from pandas.util import hash_pandas_object

        return hash_pandas_object(self.frame, index=False).to_numpy()

    def digest(self, at: int) -> str:
        """Of the values of a row."""
        return f"{int(self._hashes[at]):016x}"


def load_table(
    place: str,
    *,
    target: str | None = None,
    drop: Sequence[str] = (),
    background: str | None = None,
    classes: Any = None,
) -> Dataset:
    """Read the rows of a ``.csv`` or ``.parquet`` file.

    ``target`` is the column that holds the labels; columns to ``drop`` are neither features nor labels. ``background``
    is another file, with rows that hidden columns are filled from; without it they are those of the table.
    """
    table = read_table(place)
    gone = [drop] if isinstance(drop, str) else [*drop]
    for name in gone:
        check_name(name, "drop", [str(column) for column in table.columns])
    features, words = split_target(table, target, gone, name=f"The table {place!r}")
    rows = features if background is None else matching(read_table(background), features, background)
    labels, names = (no_labels(len(table)), ()) if words is None else number_labels(words, classes)
    where = tuple(f"{Path(place).name} row {number}" for number in range(len(table)))
    return Dataset(f"table:{place}", "table", FrameRows(features), labels, names, names=where, background=rows)


def read_table(name: str, *, default: str | None = None) -> Any:
    """The data frame in a ``.csv`` or ``.parquet`` file; a file of another name is read like one of the default."""
    path = Path(name)
    suffix = path.suffix.lower() if path.suffix.lower() in READERS else default
    if suffix is None:
        raise InvalidValueError(f"A table must be a {' or '.join(READERS)} file, got {name!r}.")
    if not path.is_file():
        raise InvalidValueError(f"A table must be a file, got {name!r}, which is none.")
    reader: Callable[[Path], Any] = getattr(import_extra("pandas", "Tables need"), READERS[suffix])
    check_file(path, most=MOST_TABLE)
    try:
        if suffix == ".parquet":
            # A few bytes may stand for billions of rows, which would unpack to more than memory holds.
            from pyarrow.parquet import read_metadata

            facts = read_metadata(path)
            if facts.num_rows * facts.num_columns > _MOST_CELLS:
                size = f"{facts.num_rows} × {facts.num_columns}"
                raise ValueError(f"it must have at most {_MOST_CELLS} cells, got {size}")
        table = reader(path)
    except ImportError as error:
        raise MissingExtraError("Parquet files need pyarrow: pip install 'holdfast[report]'") from error
    except Exception as error:  # readers of damaged files fail in many ways
        raise InvalidValueError(f"The table {name!r} cannot be read: {error}") from error
    if len(table) == 0:
        raise InvalidValueError(f"The table {name!r} must have at least one row, got none.")
    return table


def split_target(
    table: Any, target: str | None, drop: Sequence[str] = (), *, name: str = "`data`"
) -> tuple[Any, list[str] | None]:
    """The features, numbered from 0, and the labels as words, if a column holds them."""
    words = None
    if target is not None:
        column = table[check_name(target, "target", [str(column) for column in table.columns])]
        empty = column.isna().to_numpy()
        if empty.any():
            must = f"be known for every row, {target!r} is empty in row {int(empty.argmax())}"
            raise InvalidValueError(argument="target", must=must)
        if column.dtype.kind == "f" and (column % 1 == 0).all():  # whole numbers stored as floats
            column = column.astype("int64")
        words = [str(label) for label in column]
    gone = [*drop, *([] if target is None else [target])]
    features = table.drop(columns=gone).reset_index(drop=True)
    if features.shape[1] == 0:
        raise InvalidValueError(f"{name} must have a column beside {', '.join(map(repr, gone))}, got none.")
    return features, words


def matching(rows: Any, features: Any, name: str) -> Any:
    """The columns of the features in a frame of background rows."""
    missing = [str(column) for column in features.columns if column not in rows.columns]
    if missing:
        must = f"have the columns of the table, {name!r} has no {missing[0]!r}"
        raise InvalidValueError(argument="background", must=must)
    return rows[list(features.columns)]
