"""Text lines in the layout of TweetEval → a ``Dataset`` of texts."""

from __future__ import annotations

from pathlib import Path

from holdfast.errors import InvalidValueError
from holdfast.inputs.data.dataset import Dataset, number_labels
from holdfast.inputs.data.images import check_inside
from holdfast.validation import MOST_UNPACKED, read_text

_MAPPING = "mapping.txt"


def load_tweeteval(place: str, *, split: str = "test") -> Dataset:
    """Read ``<split>_text.txt``, ``<split>_labels.txt`` and ``mapping.txt`` (a number, a tab and a name per line)."""
    folder = Path(place)
    texts = _lines(folder, f"{split}_text.txt", split)
    given = _lines(folder, f"{split}_labels.txt", split)
    if len(texts) != len(given):
        raise InvalidValueError(
            f"{split}_text.txt and {split}_labels.txt in {place!r} must have a line per text, "
            f"got {len(texts)} texts and {len(given)} labels."
        )
    classes = _read_mapping(folder)
    for number, label in enumerate(given, start=1):
        if label.strip() not in classes:
            raise InvalidValueError(
                f"Line {number} of {split}_labels.txt must be a label of {_MAPPING}, got {label!r}."
            )
    labels, _ = number_labels([label.strip() for label in given], list(classes))
    names = tuple(f"{split} line {number}" for number in range(1, len(texts) + 1))
    return Dataset(f"tweeteval:{place}", "text", tuple(texts), labels, tuple(classes.values()), names=names)


def _lines(folder: Path, name: str, split: str) -> list[str]:
    path = check_inside(folder, name)
    if not path.is_file():
        known = sorted(found.name.removesuffix("_text.txt") for found in folder.glob("*_text.txt"))
        hint = f"Its splits: {', '.join(known) or 'none'}; `split` was {split!r}."
        must = f"be followed by a folder with {name}"
        raise InvalidValueError(argument="tweeteval:", must=must, got=repr(str(folder)), hint=hint)
    return _split_lines(path)


def _split_lines(path: Path) -> list[str]:
    text = read_text(path, most=MOST_UNPACKED)
    # Tweets hold other line separators than the line feed that ends them.
    lines = text.removesuffix("\n").split("\n") if text else []
    return [line.removesuffix("\r") for line in lines]


def _read_mapping(folder: Path) -> dict[str, str]:
    """Number → name, in the order of the numbers from 0 on."""
    path = check_inside(folder, _MAPPING)
    if not path.is_file():
        must = f"be followed by a folder with {_MAPPING}"
        raise InvalidValueError(argument="tweeteval:", must=must, got=repr(str(folder)))
    pairs = [line.split("\t") for line in _split_lines(path) if line.strip()]
    names = {pair[0].strip(): pair[1].strip() for pair in pairs if len(pair) > 1}
    if len(names) < len(pairs) or list(names) != [str(number) for number in range(len(names))] or not names:
        raise InvalidValueError(f"{str(path)!r} must have a number (0, 1, …), a tab and a name per line.")
    return names
