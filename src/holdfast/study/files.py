"""A file → another in its place, whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.errors import StoreError


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """A file that takes its name only when nothing went wrong."""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    except OSError as error:
        raise StoreError(f"{str(target.parent)!r} must be a folder that can be written to: {error}") from error
    os.close(handle)
    unfinished = Path(name)
    try:
        yield unfinished
        unfinished.chmod(0o644)
        os.replace(unfinished, target)
    finally:
        unfinished.unlink(missing_ok=True)
