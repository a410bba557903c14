"""A Hugging Face data set saved to disk → a ``Dataset``, its images decoded one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import numpy as np

from holdfast.data.dataset import Dataset
from holdfast.data.labels import no_labels, number_labels
from holdfast.errors import InvalidValueError, MissingExtraError
from holdfast.masking.pictures import open_picture
from holdfast.validation import check_name


@dataclass(frozen=True, eq=False)
class Column(Sequence[Any]):
    """One column of a data set on disk, read and decoded entry by entry."""

    table: Any
    column: str
    place: str

    def __len__(self) -> int:
        return len(self.table)

    @overload
    def __getitem__(self, at: int) -> Any: ...
    @overload
    def __getitem__(self, at: slice) -> list[Any]: ...
    def __getitem__(self, at: int | slice) -> Any:
        if isinstance(at, slice):
            return [self[i] for i in range(*at.indices(len(self)))]
        if not -len(self) <= at < len(self):
            raise IndexError(f"{self.place!r} has {len(self)} entries, got {at}.")
        return self._read(at % len(self))

    def contents(self, numbers: Iterable[int]) -> Iterator[bytes]:
        """Some entries as they are stored, images not decoded; nothing where there is none."""
        table = self.table.select_columns([self.column])
        if type(table.features[self.column]).__name__ == "Image":
            from datasets import Image

            table = table.cast_column(self.column, Image(decode=False))
        for at in numbers:
            value = table[at][self.column]
            if isinstance(value, dict):
                value = value["bytes"] or value["path"]
            yield value if isinstance(value, bytes) else str(value or "").encode()

    def _read(self, at: int) -> Any:
        try:
            value = self.table[at][self.column]
        except Exception as error:  # decoders of broken images raise all sorts of errors
            raise InvalidValueError(
                f"Entry {at} of {self.column!r} in {self.place!r} cannot be read: {error}"
            ) from error
        if value is None:
            raise InvalidValueError(f"Entry {at} of {self.column!r} in {self.place!r} cannot be read: it is empty.")
        return value if isinstance(value, str) else open_picture(value)


def load_disk(place: str, *, split: str | None = None, input: str | None = None, label: str | None = None) -> Dataset:  # noqa: A002
    """Open what ``datasets.Dataset.save_to_disk`` or ``DatasetDict.save_to_disk`` wrote.

    Parameters
    ----------
    place : str
        The folder.
    split : str, optional
        Which split, if there are several; "test" if there is one of this name.
    input : str, optional
        The column of images or texts; by default the only one of its kind.
    label : str, optional
        The column of labels; by default the only one that holds class labels, if there is any.
    """
    table = _choose_split(_open(place), split, place)
    features = table.features
    column = _choose(input, _inputs(features), features, "input", place)
    kind = "image" if type(features[column]).__name__ == "Image" else "text"
    wanted = (
        None if label is None and not _labels(features) else _choose(label, _labels(features), features, "label", place)
    )
    labels, classes = (no_labels(len(table)), ()) if wanted is None else _read_labels(table, wanted)
    names = tuple(f"{Path(place).name} row {number}" for number in range(len(table)))
    return Dataset(f"hf:{place}", kind, Column(table, column, place), labels, classes, names=names)


def _open(place: str) -> Any:
    try:
        import datasets
    except ImportError as error:
        raise MissingExtraError("Data sets of Hugging Face need datasets: pip install 'holdfast[datasets]'") from error
    if not Path(place).is_dir():
        raise InvalidValueError(f"`hf:` must be followed by a folder that `save_to_disk` wrote, got {place!r}.")
    try:
        return datasets.load_from_disk(place)
    except (FileNotFoundError, ValueError, OSError) as error:
        raise InvalidValueError(f"`hf:` must be followed by a folder that `save_to_disk` wrote: {error}") from error


def _choose_split(loaded: Any, split: str | None, place: str) -> Any:
    if not isinstance(loaded, dict):
        if split is not None:
            raise InvalidValueError(f"`split` must be left out: {place!r} has no splits, got {split!r}.")
        return loaded
    default = "test" if "test" in loaded else next(iter(loaded)) if len(loaded) == 1 else None
    return loaded[check_name(split or default, "split", loaded)]


def _choose(given: str | None, candidates: list[str], features: Any, name: str, place: str) -> str:
    if given is not None:
        return check_name(given, name, features)
    if len(candidates) != 1:
        found = ", ".join(candidates) or "none"
        raise InvalidValueError(f"`{name}` must be given: the columns of {place!r} that could be meant are {found}.")
    return candidates[0]


def _inputs(features: Any) -> list[str]:
    """Columns of images; columns of texts if there are none."""
    images = [name for name, kind in features.items() if type(kind).__name__ == "Image"]
    return images or [
        name for name, kind in features.items() if getattr(kind, "dtype", None) in ("string", "large_string")
    ]


def _labels(features: Any) -> list[str]:
    return [name for name, kind in features.items() if type(kind).__name__ == "ClassLabel"]


def _read_labels(table: Any, column: str) -> tuple[Any, tuple[str, ...]]:
    kind, given = table.features[column], table[column][:]
    if type(kind).__name__ == "ClassLabel":
        return np.array([-1 if label is None else label for label in given], dtype=np.intp), tuple(kind.names)
    return number_labels([str(label) for label in given])
