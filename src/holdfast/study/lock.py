"""A path → the right to write there, held by one open store at a time and given up when its process dies."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import IO

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


def open_lock(path: Path) -> IO[str]:
    """A lock file, made if there is none. What was put in its place, such as a link to another file, is refused."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o644)
    except OSError as error:
        if path.is_symlink():
            raise _not_a_lock(path) from error
        raise StoreError(f"{str(path.parent)!r} must be a folder that can be written to: {error}") from error
    if os.fstat(descriptor).st_nlink > 1:
        os.close(descriptor)
        raise _not_a_lock(path)
    return open(descriptor, "r+", encoding="utf-8")


def _not_a_lock(path: Path) -> StoreError:
    return StoreError(
        f"{str(path)!r} must be a lock file, but is a link to another file. Delete the link; the file was not touched."
    )


def is_current(file: IO[str], path: Path) -> bool:
    """Whether an open file is the one that has the name now."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def try_lock(file: IO[str]) -> bool:
    """Lock an open file until it is closed, unless somebody else has."""
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
