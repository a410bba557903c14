"""A Hugging Face data set saved to disk → a ``Dataset``, its images decoded one by one."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.errors import HoldfastError, InvalidValueError
from holdfast.extras import import_extra
from holdfast.inputs.data.dataset import UNKNOWN, Dataset, digest_bytes, no_labels, number_labels
from holdfast.inputs.data.files import check_inside
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

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return [self[i] for i in range(*at.indices(len(self)))]
        if not -len(self) <= at < len(self):
            raise IndexError(f"{self.place!r} has {len(self)} entries, got {at}.")
        number = at % len(self)
        try:
            value = self._stored(number)
            if isinstance(value, str):
                return value
            if value is None:
                raise InvalidValueError("it is empty.")
            if not isinstance(value, dict):
                raise InvalidValueError(f"it is neither a text nor an image, but {type(value).__name__}.")
            # The image in the bytes that are stored, or else in a file of the folder.
            content = value.get("bytes")
            picture = open_picture(BytesIO(content) if content else self._file(value))
            return picture if self.mode in (None, picture.mode) else picture.convert(self.mode)
        except Exception as error:  # damaged tables and images raise all sorts of errors
            entry = f"Entry {number} of {self.column!r} in {self.place!r}"
            raise InvalidValueError(f"{entry} cannot be read: {error}") from error

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

    Without ``split``, the one called "test", or the only one. Without ``input``, the only column of images or texts;
    without ``label``, the only column of class labels, if there is any.
    """
    table = _open(place, split)
    features, labels = table.features, no_labels(len(table))
    classes: tuple[str, ...] = ()
    images = [name for name, feature in features.items() if type(feature).__name__ == "Image"]
    numbered = [name for name, feature in features.items() if type(feature).__name__ == "ClassLabel"]
    texts = [name for name, kind in features.items() if getattr(kind, "dtype", None) in ("string", "large_string")]
    column = _choose(input, images or texts, features, "input", place)
    if label is not None or numbered:
        target = _choose(label, numbered, features, "label", place)
        values = _undecoded(table, target)[:][target].to_pylist()
        if target in numbered:
            labels = np.array([UNKNOWN if value is None else value for value in values], dtype=np.intp)
            classes = tuple(features[target].names)
        else:
            labels, classes = number_labels([str(value) for value in values])
    names = tuple(f"{Path(place).name} row {number}" for number in range(len(table)))
    inputs = Column(_undecoded(table, column), column, place, getattr(features[column], "mode", None))
    return Dataset(f"hf:{place}", "image" if column in images else "text", inputs, labels, classes, names=names)


def _undecoded(table: Any, column: str) -> Any:
    """One column in the form of Arrow, in which ``datasets`` decodes nothing."""
    return table.select_columns([column]).with_format("arrow")


def _open(place: str, split: str | None) -> Any:
    """The table of a split; all its files lie in the folder, though its own lists could name any."""
    datasets, folder = import_extra("datasets", "Data sets of Hugging Face need"), Path(place).resolve()
    if not folder.is_dir() or "::" in str(folder):  # which datasets would take for a chain of addresses
        raise InvalidValueError(argument="hf:", must=_MUST, got=shown(place))
    try:
        listing = folder / "dataset_dict.json"
        for name in json.loads(listing.read_text(encoding="utf-8"))["splits"] if listing.is_file() else []:
            if not re.fullmatch(r"\w[\w.-]*", name):
                raise InvalidValueError(f"The splits of {str(folder)!r} must be names of folders in it, got {name!r}.")
        table = datasets.load_from_disk(str(folder), keep_in_memory=False)
    except HoldfastError:
        raise
    except Exception as error:  # damaged folders fail in many ways
        raise InvalidValueError(argument="hf:", must=_MUST, got=f"{shown(place)}: {error}") from error
    if isinstance(table, dict):
        default = "test" if "test" in table else next(iter(table)) if len(table) == 1 else None
        table = table[check_name(split or default, "split", table)]
    elif split is not None:
        raise InvalidValueError(argument="split", must=f"be left out: {place!r} has no splits", got=shown(split))
    for file in table.cache_files:
        check_inside(Path(place), Path(file["filename"]).resolve())
    return table


def _choose(chosen: str | None, candidates: list[str], features: Any, name: str, place: str) -> str:
    if chosen is not None:
        return check_name(chosen, name, features)
    if len(candidates) != 1:
        must = f"be given: the columns of {place!r} that could be meant are {', '.join(candidates) or 'none'}"
        raise InvalidValueError(argument=name, must=must)
    return candidates[0]
