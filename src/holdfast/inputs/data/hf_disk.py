"""A Hugging Face data set saved to disk → a ``Dataset``, its images decoded one by one."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, overload

import numpy as np

from holdfast.errors import HoldfastError, InvalidValueError
from holdfast.extras import import_extra
from holdfast.inputs.data.dataset import Dataset, digest_bytes, no_labels, number_labels
from holdfast.inputs.data.images import check_inside
from holdfast.masking.image.pixels import open_picture
from holdfast.validation import check_name, shown

_MUST = "be followed by a folder that `save_to_disk` wrote"


@dataclass(frozen=True, eq=False)
class Column(Sequence[Any]):
    """One column of a data set on disk, read entry by entry.

    Images are decoded here and not by ``datasets``, which would follow any address or path that an entry holds.
    """

    table: Any
    column: str
    place: str
    mode: str | None = None

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
        number = at % len(self)
        try:
            value = self._stored(number)
            return value if isinstance(value, str) else self._picture(value)
        except Exception as error:  # damaged tables and images raise all sorts of errors
            raise InvalidValueError(
                f"Entry {number} of {self.column!r} in {self.place!r} cannot be read: {error}"
            ) from error

    def digest(self, at: int) -> str | None:
        """Of an entry as it is stored, an image not decoded; None for an image that is not in the folder."""
        value = self._stored(at)
        if not isinstance(value, dict):
            return digest_bytes(value if isinstance(value, bytes) else str(value or "").encode())
        try:
            return digest_bytes(value.get("bytes") or self._file(value).read_bytes())
        except (InvalidValueError, OSError):
            return None

    def _stored(self, at: int) -> Any:
        return self.table[at][self.column][0].as_py()

    def _picture(self, value: Any) -> Any:
        """The image in the bytes that are stored, or else in a file of the folder."""
        if value is None:
            raise InvalidValueError("it is empty.")
        if not isinstance(value, dict):
            raise InvalidValueError(f"it is neither a text nor an image, but {type(value).__name__}.")
        content = value.get("bytes")
        picture = open_picture(BytesIO(content) if content else self._file(value))
        return picture if self.mode in (None, picture.mode) else picture.convert(self.mode)

    def _file(self, value: dict[str, Any]) -> Path:
        """Where the image of an entry lies: in the folder, or it is refused."""
        path = value.get("path")
        if not path:
            raise InvalidValueError("it is empty.")
        if "://" in path:
            raise InvalidValueError(f"{path!r} is an address, and nothing is downloaded.")
        return check_inside(Path(self.place), path)


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
    table = _check_files(_choose_split(_open(place), split, place), place)
    features = table.features
    column = _choose(input, _inputs(features), features, "input", place)
    kind = "image" if type(features[column]).__name__ == "Image" else "text"
    wanted = (
        None if label is None and not _labels(features) else _choose(label, _labels(features), features, "label", place)
    )
    labels, classes = (no_labels(len(table)), ()) if wanted is None else _read_labels(table, wanted)
    names = tuple(f"{Path(place).name} row {number}" for number in range(len(table)))
    inputs = Column(_undecoded(table, column), column, place, getattr(features[column], "mode", None))
    return Dataset(f"hf:{place}", kind, inputs, labels, classes, names=names)


def _undecoded(table: Any, column: str) -> Any:
    """One column in the form of Arrow, in which ``datasets`` decodes nothing."""
    return table.select_columns([column]).with_format("arrow")


def _open(place: str) -> Any:
    datasets = import_extra("datasets", "Data sets of Hugging Face need")
    folder = Path(place).resolve()
    if not folder.is_dir() or "::" in str(folder):  # which datasets would take for a chain of addresses
        raise InvalidValueError(argument="hf:", must=_MUST, got=shown(place))
    try:
        _check_splits(folder)
        return datasets.load_from_disk(str(folder), keep_in_memory=False)
    except HoldfastError:
        raise
    except Exception as error:  # damaged folders fail in many ways
        raise InvalidValueError(argument="hf:", must=_MUST, got=f"{shown(place)}: {error}") from error


def _check_splits(folder: Path) -> None:
    """Names of splits are names of folders inside, and nothing else that could be opened."""
    listing = folder / "dataset_dict.json"
    splits = json.loads(listing.read_text(encoding="utf-8"))["splits"] if listing.is_file() else []
    for split in splits:
        if not re.fullmatch(r"\w[\w.-]*", split):
            raise InvalidValueError(f"The splits of {str(folder)!r} must be names of folders in it, got {split!r}.")


def _check_files(table: Any, place: str) -> Any:
    """A table whose files all lie in the folder, though its own list could name any."""
    for file in table.cache_files:
        check_inside(Path(place), Path(file["filename"]).resolve())
    return table


def _choose_split(loaded: Any, split: str | None, place: str) -> Any:
    if not isinstance(loaded, dict):
        if split is not None:
            raise InvalidValueError(argument="split", must=f"be left out: {place!r} has no splits", got=shown(split))
        return loaded
    default = "test" if "test" in loaded else next(iter(loaded)) if len(loaded) == 1 else None
    return loaded[check_name(split or default, "split", loaded)]


def _choose(given: str | None, candidates: list[str], features: Any, name: str, place: str) -> str:
    if given is not None:
        return check_name(given, name, features)
    if len(candidates) != 1:
        found = ", ".join(candidates) or "none"
        raise InvalidValueError(
            argument=name, must=f"be given: the columns of {place!r} that could be meant are {found}"
        )
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
    kind, given = table.features[column], _undecoded(table, column)[:][column].to_pylist()
    if type(kind).__name__ == "ClassLabel":
        return np.array([-1 if label is None else label for label in given], dtype=np.intp), tuple(kind.names)
    return number_labels([str(label) for label in given])
