"""What went wrong → a line for whoever typed the command: options as they were typed, files without error numbers."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from holdfast.errors import HoldfastError
from holdfast.progress import TerminalBar

_TYPED_AS = {
    "k": "top",
    "fraction": "top_fraction",
    "trusted": "trust",
    "rows": "grid",
    "cols": "grid",
    "min_features": "min_tokens",
    "row": "table",
}
"""Arguments of the library → options that are called otherwise."""

_LONGEST = 2000
"""Most characters of a message: what was received may be megabytes."""


def tell(error: Exception, options: argparse.Namespace) -> str:
    """The error in words, its argument called as it was typed."""
    if isinstance(error, OSError) and not isinstance(error, HoldfastError):
        return cut(tell_file(error))
    return cut(_as_typed(str(error), options))


def cut(message: str) -> str:
    """The message without the middle of what is too long to read."""
    half = _LONGEST // 2
    return message if len(message) <= _LONGEST else f"{message[:half]} … {message[-half:]}"


def tell_file(error: OSError) -> str:
    """What is wrong with a file or a folder.

    Examples
    --------
    >>> tell_file(FileNotFoundError(2, "No such file or directory", "nope.json"))
    "No such file: 'nope.json'."
    """
    if not isinstance(error.filename, str) or error.strerror is None:
        return str(error)
    path = Path(error.filename)
    if isinstance(error, FileNotFoundError):
        return f"No such file: {str(path)!r}." if path.parent.is_dir() else f"No such folder: {str(path.parent)!r}."
    if isinstance(error, (FileExistsError, NotADirectoryError)):
        file = next((one for one in (path, *path.parents) if one.is_file()), None)
        return f"{str(path)!r} is there already." if file is None else f"{str(file)!r} must be a folder, and is a file."
    if isinstance(error, IsADirectoryError):
        return f"{str(path)!r} must be a file, and is a folder."
    return f"{error.strerror}: {str(path)!r}."


class SearchNotice:
    """What is said while a stopping design is searched for: one line, and a bar on a terminal."""

    def __init__(self) -> None:
        self._bar: TerminalBar | None = None

    def __call__(self, done: int, total: int) -> None:
        if self._bar is None and done < total:
            self._bar = TerminalBar(what="steps")
            print("Searching a stopping design, once; it is kept for the next time. Ctrl-C ends it.", file=sys.stderr)
        if self._bar is not None and sys.stderr.isatty():
            self._bar(done, total)
        if done >= total:
            self._bar = None


def _as_typed(message: str, options: argparse.Namespace) -> str:
    """The message with the option in place of the argument that it begins with; keys of files stay as they are."""
    found = re.match(r"`([\w.-]+)`", message)
    if not found:
        return message
    parts = found[1].replace("-", "_").split(".")
    if parts[-1] == "spec":
        flag = _flag_of_spec(message, options)
    else:
        flag = _flag(parts[-1], options) or _flag(parts[0], options)
    return message if flag is None else f"`{flag}`{message[found.end() :]}"


def _flag(argument: str, options: argparse.Namespace) -> str | None:
    """The option that the argument was typed as; none if it was not typed."""
    name = _TYPED_AS.get(argument, argument)
    return None if getattr(options, name, None) is None else options.flags.get(name)


def _flag_of_spec(message: str, options: argparse.Namespace) -> str | None:
    """The option with the model or the data that the message quotes."""
    for name in ("model", "data", "input"):
        given = getattr(options, name, None) or []
        specs = given if isinstance(given, list) else [given]
        if any(repr(spec.partition("#")[0]) in message for spec in specs):
            return str(options.flags[name])
    return None
