"""A folder of images, or of text lines in the layout of TweetEval → a ``Dataset``; images are opened when asked for."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any, ClassVar

from holdfast.errors import InvalidValueError
from holdfast.inputs.data.dataset import Dataset, digest_bytes, no_labels, number_labels
from holdfast.masking.image.pixels import open_picture
from holdfast.validation import MOST_UNPACKED, read_text, shown

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
"""What an image file is called, where no list names the files."""

_COLUMNS = ("file", "label")


@dataclass(frozen=True)
class ImageFiles(Sequence[Any]):
    """Image files by number; each is opened when it is asked for, and an error names the file."""

    paths: tuple[Path, ...]
    in_files: ClassVar[bool] = True

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, at: Any) -> Any:
        return ImageFiles(self.paths[at]) if isinstance(at, slice) else open_picture(self.paths[at])

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
        raise InvalidValueError(
            f"{split}_text.txt and {split}_labels.txt in {place!r} must have a line per text, "
            f"got {len(texts)} texts and {len(words)} labels."
        )
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
        hint = None if split is None else f"Its splits: {known}; `split` was {split!r}."
        must = f"be followed by a folder with {name}"
        raise InvalidValueError(argument="tweeteval:", must=must, got=repr(str(folder)), hint=hint)
    text = read_text(path, most=MOST_UNPACKED)
    # Tweets hold other line separators than the line feed that ends them.
    lines = text.removesuffix("\n").split("\n") if text else []
    return [line.removesuffix("\r") for line in lines]


def check_inside(folder: Path, file: str | Path) -> Path:
    """The path of a file that is named relative to a folder and lies in it, links followed.

    Whoever wrote a data set can name any file in it; what is read are those of the folder that the user named.
    """
    try:
        is_inside = (folder / file).resolve().is_relative_to(folder.resolve())
    except (OSError, ValueError, RuntimeError):  # links in a circle, and what can be the name of no file
        is_inside = False
    if not is_inside:
        raise InvalidValueError(
            f"Data must lie in the folder that was named, {str(folder)!r}: {str(file)!r} does not. Copy it there."
        )
    return folder / file


def _found(folder: Path) -> tuple[list[Path], list[str] | None]:
    """All image files below the folder, and the first folder on the way to each."""
    files = sorted(
        (path.relative_to(folder) for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file()),
        key=lambda file: file.parts,
    )
    for file in files:
        if (folder / file).is_symlink():  # links to folders are not followed
            check_inside(folder, file)
    if not files:
        must = f"be followed by a folder with images, {str(folder)!r} has none"
        raise InvalidValueError(argument="images:", must=must)
    astray = [file for file in files if len(file.parts) == 1]
    if len(astray) == len(files):
        return files, None
    if astray:
        raise InvalidValueError(
            f"{str(folder)!r} must have all images in folders named after their classes, or none, got "
            f"{str(astray[0])!r} and {len(astray) - 1} more outside. Or name the files in a CSV file with `labels`."
        )
    return files, [file.parts[0] for file in files]


def _listed(folder: Path, table: Path) -> tuple[list[Path], list[str]]:
    """The files and labels of a CSV file."""
    must = f"must be a CSV file with the columns {' and '.join(_COLUMNS)}"
    if not table.is_file():
        raise InvalidValueError(f"{must}, got {str(table)!r}, which is no file.", argument="labels")
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
            raise InvalidValueError(f"{must}; {line} names no file: {shown(file)}, {shown(label)}.", argument="labels")
    return [Path(file) for file, _ in pairs], [label.strip() for _, label in pairs]
