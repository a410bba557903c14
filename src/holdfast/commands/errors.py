"""An error → a line for whoever typed the command: options as they were typed, files without error numbers."""

from __future__ import annotations

import argparse
from pathlib import Path

from holdfast.errors import ArgumentError, HoldfastError

_OPTIONS = {
    "k": ("top",),
    "fraction": ("top_fraction",),
    "trusted": ("trust",),
    "rows": ("grid",),
    "cols": ("grid",),
    "min_features": ("min_tokens",),
    "row": ("table",),
    "data": ("data", "input"),
}
"""Arguments of the library → options that may stand for them, where they are called otherwise."""

_LONGEST = 2000
"""Most characters of a message: what was received may be megabytes."""


def error_message(error: Exception, options: argparse.Namespace) -> str:
    """The message of an error, its argument called as it was typed."""
    if isinstance(error, OSError) and not isinstance(error, HoldfastError):
        return shorten(file_message(error))
    if isinstance(error, ArgumentError) and error.argument is not None:
        return shorten(error.about(_option(error.argument, options) or error.argument))
    return shorten(str(error))


def _option(argument: str, options: argparse.Namespace) -> str | None:
    """The option that an argument such as ``data.n`` was typed as; none if it was not typed, as keys of files."""
    parts = argument.replace("-", "_").split(".")
    names = [name for part in (parts[-1], parts[0]) for name in _OPTIONS.get(part, (part,))]
    typed = (name for name in names if name in options.flags and getattr(options, name, None) is not None)
    return next((options.flags[name] for name in typed), None)


def shorten(message: str) -> str:
    """The message without the middle of what is too long to read."""
    half = _LONGEST // 2
    return message if len(message) <= _LONGEST else f"{message[:half]} … {message[-half:]}"


def file_message(error: OSError) -> str:
    """What is wrong with a file or a folder.

    Examples
    --------
    >>> file_message(FileNotFoundError(2, "No such file or directory", "nope.json"))
    "No such file: 'nope.json'."
    """
    if not isinstance(error.filename, str) or error.strerror is None:
        return str(error)
    path = Path(error.filename)
    if isinstance(error, FileNotFoundError):
        return f"No such file: {str(path)!r}." if path.parent.is_dir() else f"No such folder: {str(path.parent)!r}."
    if isinstance(error, (FileExistsError, NotADirectoryError)):
        file = next((place for place in (path, *path.parents) if place.is_file()), None)
        return f"{str(path)!r} is there already." if file is None else f"{str(file)!r} must be a folder, and is a file."
    if isinstance(error, IsADirectoryError):
        return f"{str(path)!r} must be a file, and is a folder."
    return f"{error.strerror}: {str(path)!r}."
