"""A file → another in its place, whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.errors import StoreError

_FOR_ALL_TO_READ = 0o644


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """A file that takes its name only when nothing went wrong.

    A link is followed, and what it leads to is replaced. What is no file of its own (a pipe, a terminal,
    ``/dev/stdout``) is written as it is.
    """
    real = Path(os.path.realpath(target))
    if real.exists() and not real.is_file():
        yield target
        return
    unfinished = _beside(real)
    try:
        yield unfinished
        unfinished.chmod(_FOR_ALL_TO_READ)
        os.replace(unfinished, real)
    finally:
        unfinished.unlink(missing_ok=True)


def write_whole(target: str | Path, text: str) -> None:
    """Write a text into a file: whoever reads it sees the old one or the new one, and no part of either."""
    with replacing(Path(target)) as unfinished:
        unfinished.write_text(text, encoding="utf-8")


def _beside(target: Path) -> Path:
    """An empty file in the same folder, under a name that nobody else has."""
    try:
        handle, name = tempfile.mkstemp(prefix=".holdfast-", dir=target.parent)
    except OSError as error:
        raise StoreError(
            f"{str(target.parent)!r} must be a folder that can be written to: {error.strerror}."
        ) from error
    os.close(handle)
    return Path(name)
