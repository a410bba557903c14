"""A path → the right to write there, held by one open store at a time and given up when its process dies."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import IO

from holdfast.errors import StoreError


class WriterLock:
    """A lock on the file ``<path>.lock``, links followed, which the operating system drops with the process.

    A lock file that a killed process left behind locks nothing.

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

    def _acquire(self, path: Path) -> IO[str]:
        while True:
            file = _open(self._path)
            if not _lock(file):
                file.seek(0)
                owner = file.read().strip() or "unknown"
                file.close()
                raise StoreError(
                    f"{str(path)!r} is being written by another process (process id {owner}). One study writes a file "
                    "at a time: wait, stop the other, or give this one its own file and merge them later."
                )
            # The holder removes the file before it lets go, so that a lock just won may be on a file nobody sees.
            if self._is_current(file):
                file.seek(0)
                file.truncate()
                file.write(str(os.getpid()))
                file.flush()
                return file
            file.close()

    def _is_current(self, file: IO[str]) -> bool:
        try:
            return os.path.samestat(os.fstat(file.fileno()), self._path.stat())
        except FileNotFoundError:
            return False

    def release(self) -> None:
        """Give up the right; harmless if done before."""
        if not self._file.closed:
            if sys.platform != "win32":  # where an open file cannot be removed
                self._path.unlink(missing_ok=True)
            self._file.close()


def _open(path: Path) -> IO[str]:
    try:
        return open(os.open(path, os.O_RDWR | os.O_CREAT, 0o644), "r+", encoding="utf-8")
    except OSError as error:
        raise StoreError(f"{str(path.parent)!r} must be a folder that can be written to: {error}") from error


def _lock(file: IO[str]) -> bool:
    try:
        if sys.platform == "win32":
            import msvcrt

            # A byte far behind the process id, which others may still read.
            file.seek(1 << 20)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
