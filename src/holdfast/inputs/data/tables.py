"""A CSV or Parquet file → a ``Dataset`` of rows that keep the type of every column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

from holdfast.errors import InvalidValueError, MissingExtraError
from holdfast.inputs.data.dataset import Dataset
from holdfast.inputs.data.labels import no_labels, number_labels
from holdfast.validation import MOST_TABLE, check_file, check_name

READERS = {".csv": "read_csv", ".parquet": "read_parquet"}
"""What a table is called → what of pandas reads it."""

_MOST_CELLS = 10**8
"""Most rows times columns of a Parquet file; a gigabyte of numbers."""


@dataclass(frozen=True, eq=False)
class Rows(Sequence[Any]):
    """Rows of a data frame by number, each a frame of one row."""

    frame: Any

    @property
    def iloc(self) -> Any:
        """Rows by number as one frame, for what takes frames."""
        return self.frame.iloc

    def __len__(self) -> int:
        return len(self.frame)

    @overload
    def __getitem__(self, at: int) -> Any: ...
    @overload
    def __getitem__(self, at: slice) -> Rows: ...
    def __getitem__(self, at: int | slice) -> Any:
        return Rows(self.frame.iloc[at]) if isinstance(at, slice) else self.frame.iloc[[at]]


def load_table(
    place: str,
    *,
    target: str | None = None,
    drop: Sequence[str] = (),
    background: str | None = None,
    classes: Any = None,
) -> Dataset:
    """Read the rows of a table.

    Parameters
    ----------
    place : str
        A ``.csv`` or ``.parquet`` file.
    target : str, optional
        The column that holds the labels; without it there are none.
    drop : list of str
        Columns that are neither features nor the target.
    background : str, optional
        Another file with rows that hidden columns are filled from; by default the table itself.
    classes : list of str, optional
        The names of the classes in the order of the model's; see ``number_labels``.
    """
    table = read_table(place)
    columns = [str(name) for name in table.columns]
    for name in [drop] if isinstance(drop, str) else drop:
        check_name(name, "drop", columns)
    words = None if target is None else _words(table[check_name(target, "target", columns)], target, place)
    features = _features(table, target, drop, place)
    rows = features if background is None else _matching(read_table(background), features, background)
    labels, names = (no_labels(len(table)), ()) if words is None else number_labels(words, classes)
    where = tuple(f"{Path(place).name} row {number}" for number in range(len(table)))
    return Dataset(f"table:{place}", "table", Rows(features), labels, names, names=where, background=rows)


def read_table(name: str) -> Any:
    """The data frame in a ``.csv`` or ``.parquet`` file."""
    path = Path(name)
    if path.suffix.lower() not in READERS:
        raise InvalidValueError(f"A table must be a {' or '.join(READERS)} file, got {name!r}.")
    if not path.is_file():
        raise InvalidValueError(f"A table must be a file, got {name!r}, which is none.")
    reader: Callable[[Path], Any] = getattr(_pandas(), READERS[path.suffix.lower()])
    check_file(path, most=MOST_TABLE)
    try:
        if path.suffix.lower() == ".parquet":
            _check_cells(path)
        table = reader(path)
    except ImportError as error:
        raise MissingExtraError("Parquet files need pyarrow: pip install 'holdfast[report]'") from error
    except Exception as error:  # readers of damaged files fail in many ways
        raise InvalidValueError(f"The table {name!r} cannot be read: {error}") from error
    if len(table) == 0:
        raise InvalidValueError(f"The table {name!r} must have at least one row, got none.")
    return table


def _check_cells(path: Path) -> None:
    """Refuse a Parquet file that unpacks to more than memory holds: a few bytes may stand for billions of rows."""
    from pyarrow.parquet import read_metadata

    facts = read_metadata(path)
    if facts.num_rows * facts.num_columns > _MOST_CELLS:
        raise ValueError(f"it must have at most {_MOST_CELLS} cells, got {facts.num_rows} × {facts.num_columns}")


def _features(table: Any, target: str | None, drop: Sequence[str], place: str) -> Any:
    gone = [*([drop] if isinstance(drop, str) else drop), *([] if target is None else [target])]
    left = table.drop(columns=gone).reset_index(drop=True)
    if left.shape[1] == 0:
        raise InvalidValueError(
            f"The table {place!r} must have a column beside {', '.join(map(repr, gone))}, got none."
        )
    return left


def _matching(rows: Any, features: Any, place: str) -> Any:
    missing = [str(name) for name in features.columns if name not in rows.columns]
    if missing:
        raise InvalidValueError(f"`background` must have the columns of the table, {place!r} has no {missing[0]!r}.")
    return rows[list(features.columns)]


def _words(column: Any, target: str, place: str) -> list[str]:
    """Labels as words; whole numbers stored as floats are whole numbers."""
    empty = column.isna().to_numpy()
    if empty.any():
        raise InvalidValueError(
            f"`target` must be known for every row, {target!r} is empty in row {int(empty.argmax())}."
        )
    if column.dtype.kind == "f" and (column % 1 == 0).all():
        column = column.astype("int64")
    return [str(label) for label in column]


def _pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise MissingExtraError("Tables need pandas: pip install 'holdfast[report]'") from error
    return pandas
