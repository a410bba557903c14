"""A path → the right to write there, held by one open store at a time and given up when its process dies."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import IO

from holdfast.atomic import is_current, open_lock, try_lock
from holdfast.errors import StoreError


class WriterLock:
    """A lock on the file ``<path>.lock``, which the operating system drops with the process.

    Links to the path are followed, so that there is one lock by whatever link the file is reached. A lock file that
    a killed process left behind locks nothing. A file with two names in its folders (hard links) is refused: SQLite
    keeps its log by the name, so that what is written by one name is lost for the other.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "study.db"
    >>> first = WriterLock(path)
    >>> WriterLock(path)
    Traceback (most recent call last):
    ...
    holdfast.errors.StoreError: ...study.db' is being written by another process (...
    >>> first.release()
    >>> WriterLock(path).release()
    """

    def __init__(self, path: Path) -> None:
        # By whatever name the file is reached, there is one lock.
        real = path.resolve()
        self._path = real.with_name(real.name + ".lock")
        self._file = self._acquire(path)
        if real.exists() and real.stat().st_nlink > 1:
            self.release()
            raise StoreError(
                f"{str(path)!r} has a second name, a hard link, by which it could be written at the same time. "
                "Delete the other name, or write into a copy of the file."
            )

    def _acquire(self, path: Path) -> IO[str]:
        while True:
            file = open_lock(self._path)
            if not try_lock(file):
                file.seek(0)
                owner = file.read().strip() or "unknown"
                file.close()
                raise StoreError(
                    f"{str(path)!r} is being written by another process (process id {owner}). One study writes a file "
                    "at a time: wait, stop the other, or give this one its own file and merge them later."
                )
            # The holder removes the file before it lets go, so that a lock just won may be on a file nobody sees.
            if is_current(file, self._path):
                file.seek(0)
                file.truncate()
                file.write(str(os.getpid()))
                file.flush()
                return file
            file.close()

    def release(self) -> None:
        """Give up the right; harmless if done before."""
        if not self._file.closed:
            if sys.platform != "win32":  # where an open file cannot be removed
                self._path.unlink(missing_ok=True)
            self._file.close()
