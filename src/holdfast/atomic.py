"""A file → another in its place, whole or not at all; and locks that the operating system drops with a process."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from holdfast.errors import InvalidValueError, StoreError

_PREFIX, _UNFINISHED, _LOCK = ".holdfast-", "unfinished", "lock"
"""Names of the folder of a writer, of what it writes there (SQLite adds ``-wal`` and the like), and of its lock."""

_MOST_TRIES = 20


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
    with suppress(OSError):  # what writers that were killed left there: of those alive, the lock cannot be had
        for left in real.parent.glob(f"{_PREFIX}????????"):
            if left.is_dir() and not left.is_symlink():
                with suppress(OSError), open_lock(left / _LOCK) as lock:
                    if try_lock(lock) and is_current(lock, left / _LOCK):
                        _remove(left)
    folder, lock = _folder_beside(real)
    unfinished = folder / _UNFINISHED
    try:
        unfinished.touch()
        yield unfinished
        unfinished.chmod(0o644)  # for all to read
        os.replace(unfinished, real)
    finally:
        if sys.platform == "win32":  # where an open file cannot be removed
            lock.close()
        _remove(folder)
        lock.close()


def write_whole(target: str | Path, text: str) -> None:
    """Write a text into a file: whoever reads it sees the old one or the new one, and no part of either."""
    with replacing(Path(target)) as unfinished:
        unfinished.write_text(text, encoding="utf-8")


def check_spared(target: str | Path, name: str, sources: Mapping[str, Iterable[str | Path]]) -> None:
    """Raise where the file that is to be written, called ``name``, is one that is read, or lies in such a folder.

    ``sources`` are files, folders and specs such as ``onnx:model.onnx``, by what they are called. A target
    that does not exist yet, or is no file of its own, harms none.
    """
    real = Path(os.path.realpath(target))
    if not real.is_file():
        return
    for what, texts in sources.items():
        if any(_is_or_holds(place, real) for text in texts for place in _places(str(text))):
            must, got = f"be a different file from {what}", f"{str(target)!r}, which would be overwritten"
            raise InvalidValueError(argument=name, must=must, got=got, hint="Choose a name that does not exist yet.")


def _is_or_holds(place: Path, file: Path) -> bool:
    try:
        return place.samefile(file) or Path(os.path.realpath(place)) in file.parents
    except (OSError, ValueError):  # there is nothing of this name, or there can be nothing
        return False


def _places(text: str) -> list[Path]:
    """Where a text may point to: ``a.npy``, ``mine=a.npy``, ``onnx:a.onnx``, ``table:a.csv#3``, ``python:a:make``."""
    scheme, _, place = text.partition(":")
    if scheme == "bundled":
        return []
    module = f"{place.partition(':')[0].replace('.', '/')}.py" if scheme == "python" else ""
    places = [text, text.partition("=")[2], place, text.rpartition("#")[0], place.rpartition("#")[0], module]
    return [Path(name) for name in places if name]


def _folder_beside(target: Path) -> tuple[Path, IO[str]]:
    """A new folder in the same folder, and its lock, which tells others that its writer is alive."""
    n_tries = 0
    while True:
        try:
            folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=target.parent))
        except OSError as error:
            message = f"Cannot write to the folder {str(target.parent)!r}: {error.strerror}."
            raise StoreError(message) from error
        try:
            lock = open_lock(folder / _LOCK)
        except StoreError:
            if folder.exists():
                raise
            continue  # it was taken for litter before it was locked
        n_tries += 1
        # Where the file system knows no locks, nobody takes it for litter.
        if (try_lock(lock) and is_current(lock, folder / _LOCK)) or n_tries == _MOST_TRIES:
            return folder, lock
        lock.close()
        _remove(folder)


def _remove(folder: Path) -> None:
    """Remove the files of a writer, the lock last, and their folder; it is kept if anything else is in it."""
    with suppress(OSError):
        for path in (*folder.glob(f"{_UNFINISHED}*"), folder / _LOCK):
            path.unlink(missing_ok=True)
        folder.rmdir()


def open_lock(path: Path) -> IO[str]:
    """A lock file, made if there is none. What was put in its place, such as a link to another file, is refused."""
    not_a_lock = f"{str(path)!r} must be a lock file, but is a link to another file. Delete the link; "
    not_a_lock += "the file was not touched."
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o644)
    except OSError as error:
        unwritable = f"Cannot write to the folder {str(path.parent)!r}: {error}"
        raise StoreError(not_a_lock if path.is_symlink() else unwritable) from error
    if os.fstat(descriptor).st_nlink > 1:
        os.close(descriptor)
        raise StoreError(not_a_lock)
    return open(descriptor, "r+", encoding="utf-8")


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
