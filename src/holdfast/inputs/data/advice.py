"""What names data without a scheme → what to write instead, as far as its name and its files tell."""

from __future__ import annotations

from pathlib import Path

from holdfast.inputs.data.bundled import NAMES
from holdfast.inputs.data.images import SUFFIXES
from holdfast.inputs.data.tables import READERS

_SAVED = ("dataset_dict.json", "dataset_info.json")
"""What ``save_to_disk`` writes beside the data."""


def advise(place: str) -> str | None:
    """A sentence of advice for the place of data whose scheme is missing or unknown.

    Examples
    --------
    >>> advise("digits"), advise("loans.csv"), advise("loans.txt")
    ("Did you mean 'bundled:digits'?", "Did you mean 'table:loans.csv'?", None)
    """
    scheme = _scheme(place)
    return f"Did you mean '{scheme}:{place}'?" if scheme else None


def _scheme(place: str) -> str | None:
    path = Path(place)
    if place in NAMES:
        return "bundled"
    if path.suffix.lower() in READERS:
        return "table"
    return _scheme_of_folder(path) if place and path.is_dir() else None


def _scheme_of_folder(folder: Path) -> str | None:
    if any((folder / name).is_file() for name in _SAVED):
        return "hf"
    if any(folder.glob("*_text.txt")):
        return "tweeteval"
    return "images" if any(file.suffix.lower() in SUFFIXES for file in folder.rglob("*")) else None
