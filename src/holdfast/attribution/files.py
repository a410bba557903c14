"""A file of scores → an array, and the names of the features if the file has them."""

from __future__ import annotations

import csv
import zipfile
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidValueError
from holdfast.validation import MOST_UNPACKED, check_file, check_unpacked, read_text

_SUFFIXES = (".npy", ".npz", ".csv")
_KEY = "scores"


def read_scores(path: Path) -> tuple[NDArray[Any], tuple[str, ...] | None]:
    """The array of a ``.npy``, ``.npz`` or ``.csv`` file; nothing is ever unpickled."""
    if path.suffix not in _SUFFIXES:
        raise InvalidValueError(f"`scores` must be a {', '.join(_SUFFIXES)} file, got {path.name!r}.")
    try:
        if path.suffix == ".csv":
            return _read_csv(path)
        if zipfile.is_zipfile(check_file(path, most=MOST_UNPACKED)):
            check_unpacked(path)
        with path.open("rb") as file:
            return _only_array(np.load(file, allow_pickle=False), path), None
    except (OSError, InvalidValueError):
        raise
    except Exception as error:  # NumPy lets through whatever its parsers of headers and archives raise
        raise InvalidValueError(f"`scores` must be numbers, {path.name} has something else: {error}") from error


def _only_array(loaded: Any, path: Path) -> NDArray[Any]:
    if isinstance(loaded, np.ndarray):
        return loaded
    names = list(loaded)
    if _KEY not in names and len(names) != 1:
        raise InvalidValueError(
            f"`scores` must be one array or one called {_KEY!r}, {path.name} has {', '.join(names) or 'none'}."
        )
    return np.asarray(loaded[_KEY if _KEY in names else names[0]])


def _read_csv(path: Path) -> tuple[NDArray[Any], tuple[str, ...] | None]:
    """Rows of numbers; or rows that begin with a name. A first line without any number is a heading."""
    lines = StringIO(read_text(path), newline="")
    rows = [row for row in csv.reader(lines) if any(cell.strip() for cell in row)]
    # A heading with an empty corner is a frame's: its first column is an index.
    indexed = bool(rows) and len(rows[0]) > 1 and not rows[0][0].strip()
    if rows and (indexed or not any(map(_is_number, rows[0]))):
        rows = rows[1:]
    if not rows:
        raise InvalidValueError(f"`scores` must be numbers, {path.name} has none.")
    named = indexed or not all(_is_number(row[0]) for row in rows)
    names = tuple(row[0].strip() for row in rows) if named else None
    values = np.array([[float(cell) for cell in row[int(named) :]] for row in rows])
    return values.ravel() if 1 in values.shape else values, names


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
