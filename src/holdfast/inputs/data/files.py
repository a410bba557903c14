"""Files of images, of text lines in the layout of TweetEval, of a table, or of Hugging Face's → a ``Dataset``.

Images are opened when they are asked for; the columns of a table keep their types.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from holdfast.errors import HoldfastError, InvalidValueError, MissingExtraError
from holdfast.extras import import_extra
from holdfast.inputs.data.dataset import UNKNOWN, Dataset, digest_bytes, no_labels, number_labels
from holdfast.validation import MOST_TABLE, MOST_UNPACKED, check_file, check_name, read_text, shown

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
"""What an image file is called, where no list names the files."""

READERS = {".csv": "read_csv", ".parquet": "read_parquet"}
"""What a table is called → what of pandas reads it."""

_MOST_CELLS = 10**8  # most rows times columns of a Parquet file; a gigabyte of numbers
_COLUMNS = ("file", "label")
_DISK = "be followed by a folder that `save_to_disk` wrote"


@dataclass(frozen=True)
class ImageFiles(Sequence[Any]):
    """Image files by number; each is opened when it is asked for, and an error names the file."""

    paths: tuple[Path, ...]
    in_files: ClassVar[bool] = True

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, at: Any) -> Any:
        from holdfast.masking.image.pixels import open_picture  # few files are pictures

        return ImageFiles(self.paths[at]) if isinstance(at, slice) else open_picture(self.paths[at])

    def take(self, places: Sequence[int]) -> ImageFiles:
        """Some of the files."""
        return ImageFiles(tuple(self.paths[place] for place in places))

    def digest(self, at: int) -> str:
        """Of the bytes of a file."""
        return digest_bytes(self.paths[at].read_bytes())


def load_images(place: str, *, labels: str | None = None, classes: Any = None) -> Dataset:
    """Find the images of a folder, in the order of their names.

    The folders in it are the classes; images that lie in no inner folder, if all do, have no label. Or ``labels`` is a
    CSV file with the columns ``file`` (relative to the folder) and ``label``: these images, in this order.
    """
    folder = Path(place)
    if not folder.is_dir():
        raise InvalidValueError(argument="images:", must="be followed by a folder", got=repr(place))
    files, words = _listed(folder, Path(labels)) if labels is not None else _found(folder)
    numbers, known = (no_labels(len(files)), ()) if words is None else number_labels(words, classes)
    images, names = ImageFiles(tuple(folder / file for file in files)), tuple(file.as_posix() for file in files)
    return Dataset(f"images:{place}", "image", images, numbers, known, names=names)


def load_tweeteval(place: str, *, split: str = "test") -> Dataset:
    """Read ``<split>_text.txt``, ``<split>_labels.txt`` and ``mapping.txt`` (a number, a tab and a name per line)."""
    folder, mapping = Path(place), "mapping.txt"
    texts, words = (_lines(folder, f"{split}_{part}.txt", split) for part in ("text", "labels"))
    if len(texts) != len(words):
        files, got = f"{split}_text.txt and {split}_labels.txt", f"{len(texts)} texts and {len(words)} labels"
        raise InvalidValueError(f"{files} in {place!r} must have one line per text, got {got}.")
    pairs = [line.split("\t") for line in _lines(folder, mapping) if line.strip()]
    classes = {pair[0].strip(): pair[1].strip() for pair in pairs if len(pair) > 1}
    if not classes or len(classes) < len(pairs) or list(classes) != [str(number) for number in range(len(classes))]:
        raise InvalidValueError(f"{str(folder / mapping)!r} must have a number (0, 1, …), a tab and a name per line.")
    for number, word in enumerate(words, start=1):
        if word.strip() not in classes:
            raise InvalidValueError(f"Line {number} of {split}_labels.txt must be a label of {mapping}, got {word!r}.")
    labels, _ = number_labels([word.strip() for word in words], list(classes))
    names = tuple(f"{split} line {number}" for number in range(1, len(texts) + 1))
    return Dataset(f"tweeteval:{place}", "text", tuple(texts), labels, tuple(classes.values()), names=names)


def _lines(folder: Path, name: str, split: str | None = None) -> list[str]:
    path = check_inside(folder, name)
    if not path.is_file():
        known = ", ".join(sorted(file.name.removesuffix("_text.txt") for file in folder.glob("*_text.txt"))) or "none"
        hint = None if split is None else f"It has the splits {known}; you asked for {split!r}."
        must = f"be followed by a folder with {name}"
        raise InvalidValueError(argument="tweeteval:", must=must, got=repr(str(folder)), hint=hint)
    text = read_text(path, most=MOST_UNPACKED)
    # Tweets hold other line separators than the line feed that ends them.
    return [line.removesuffix("\r") for line in (text.removesuffix("\n").split("\n") if text else [])]


def check_inside(folder: Path, file: str | Path) -> Path:
    """The path of a file that is named relative to a folder and lies in it, links followed.

    Whoever wrote a data set can name any file in it; what is read are those of the folder that the user named.
    """
    try:
        is_inside = (folder / file).resolve().is_relative_to(folder.resolve())
    except (OSError, ValueError, RuntimeError):  # links in a circle, and what can be the name of no file
        is_inside = False
    if not is_inside:
        rule = f"Data must be inside {str(folder)!r}"
        raise InvalidValueError(f"{rule}; {str(file)!r} is not. Copy it there.")
    return folder / file


def _found(folder: Path) -> tuple[list[Path], list[str] | None]:
    """All image files below the folder, and the first folder on the way to each."""
    images = (path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file())
    files = sorted((path.relative_to(folder) for path in images), key=lambda file: file.parts)
    for file in files:
        if (folder / file).is_symlink():  # links to folders are not followed
            check_inside(folder, file)
    if not files:
        must = f"be followed by a folder with images; {str(folder)!r} has none"
        raise InvalidValueError(argument="images:", must=must)
    astray = [file for file in files if len(file.parts) == 1]
    if len(astray) == len(files):
        return files, None
    if astray:
        raise InvalidValueError(
            f"{str(folder)!r} must have either all images in folders named after their classes, or none, got "
            f"{str(astray[0])!r} and {len(astray) - 1} more outside. Or list the files in a CSV file with `labels`."
        )
    return files, [file.parts[0] for file in files]


def _listed(folder: Path, table: Path) -> tuple[list[Path], list[str]]:
    """The files and labels of a CSV file."""
    must = f"must be a CSV file with the columns {' and '.join(_COLUMNS)}"
    if not table.is_file():
        raise InvalidValueError(f"{must}, got {str(table)!r}, which is not a file.", argument="labels")
    try:
        rows = csv.DictReader(StringIO(read_text(table), newline=""))
        if not set(_COLUMNS) <= set(rows.fieldnames or ()):
            raise InvalidValueError(f"{must}, {str(table)!r} has {shown(rows.fieldnames)}.", argument="labels")
        pairs = [(row["file"], row["label"]) for row in rows]
    except csv.Error as error:
        raise InvalidValueError(f"{must}, {str(table)!r} cannot be read: {error}.", argument="labels") from error
    if not pairs:
        raise InvalidValueError(f"{must} and at least one row, {str(table)!r} has none.", argument="labels")
    for number, (file, label) in enumerate(pairs, start=2):
        if file:
            check_inside(folder, file)
        if not file or label is None or not (folder / file).is_file():
            line = f"line {number} of {str(table)!r}"
            raise InvalidValueError(
                f"{must}; {line} names no existing file: {shown(file)}, {shown(label)}.", argument="labels"
            )
    return [Path(file) for file, _ in pairs], [label.strip() for _, label in pairs]


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

    def take(self, places: Sequence[int]) -> FrameRows:
        """Some of the rows."""
        return FrameRows(self.frame.iloc[list(places)])

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


def read_table(name: str) -> Any:
    """The data frame in a ``.csv`` or ``.parquet`` file."""
    path = Path(name)
    suffix = path.suffix.lower()
    if suffix not in READERS:
        raise InvalidValueError(f"A table must be a {' or '.join(READERS)} file, got {name!r}.")
    if not path.is_file():
        raise InvalidValueError(f"No such file: {name!r}.")
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
            must = f"have a value in every row; {target!r} is empty in row {int(empty.argmax())}"
            raise InvalidValueError(argument="target", must=must)
        if column.dtype.kind == "f" and (column % 1 == 0).all():  # whole numbers stored as floats
            column = column.astype("int64")
        words = [str(label) for label in column]
    gone = [*drop, *([] if target is None else [target])]
    features = table.drop(columns=gone).reset_index(drop=True)
    if features.shape[1] == 0:
        raise InvalidValueError(f"{name} must have a column besides {', '.join(map(repr, gone))}, got none.")
    return features, words


def matching(rows: Any, features: Any, name: str) -> Any:
    """The columns of the features in a frame of background rows."""
    missing = [str(column) for column in features.columns if column not in rows.columns]
    if missing:
        must = f"have the columns of the table; {name!r} has no {missing[0]!r}"
        raise InvalidValueError(argument="background", must=must)
    return rows[list(features.columns)]


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
            from holdfast.masking.image.pixels import open_picture

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
        raise InvalidValueError(argument="hf:", must=_DISK, got=shown(place))
    try:
        listing = folder / "dataset_dict.json"
        for name in json.loads(listing.read_text(encoding="utf-8"))["splits"] if listing.is_file() else []:
            if not re.fullmatch(r"\w[\w.-]*", name):
                raise InvalidValueError(f"The splits of {str(folder)!r} must be names of folders in it, got {name!r}.")
        table = datasets.load_from_disk(str(folder), keep_in_memory=False)
    except HoldfastError:
        raise
    except Exception as error:  # damaged folders fail in many ways
        raise InvalidValueError(argument="hf:", must=_DISK, got=f"{shown(place)}: {error}") from error
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
        must = f"name a column of {place!r}; candidates: {', '.join(candidates) or 'none'}"
        raise InvalidValueError(argument=name, must=must)
    return candidates[0]
