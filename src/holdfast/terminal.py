"""Progress, results and text → a terminal that only shows them: names cannot move the cursor or hide lines."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterable, Iterator, Sized
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from contextvars import ContextVar
from dataclasses import Field, fields
from importlib import import_module
from typing import Any, TextIO, cast

import numpy as np

from holdfast.errors import InvalidTypeError
from holdfast.types import Progress

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""What terminals obey, but for tabs and line feeds; what turns the direction of writing; halves of characters."""

_SEARCH: ContextVar[Progress | None] = ContextVar("search", default=None)

_LONGEST_LINE, _LONGEST_FIELD = 120, 40
SECONDS_BETWEEN_LINES = 0.1


def neutral(text: str) -> str:
    """The text with control characters written out."""
    return _CONTROLS.sub(lambda control: control[0].encode("unicode_escape", "backslashreplace").decode(), text)


class Neutral:
    """A stream on which control characters are written out; ``unescaped`` is the stream itself, for bars and colour."""

    def __init__(self, stream: TextIO) -> None:
        self.unescaped = stream

    def write(self, text: str, /) -> int:
        """Write the text, what the stream's encoding lacks as escapes."""
        encoding = self.unescaped.encoding or "utf-8"
        self.unescaped.write(neutral(text).encode(encoding, "backslashreplace").decode(encoding))
        return len(text)

    def writelines(self, lines: Iterable[str], /) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unescaped, name)


def unescaped(stream: TextIO) -> TextIO:
    """The stream itself, for control characters of our own."""
    return cast(TextIO, getattr(stream, "unescaped", stream))


@contextmanager
def neutral_streams() -> Iterator[None]:
    """Whatever is printed inside reaches stdout and stderr without control characters."""
    streams = (cast(TextIO, Neutral(unescaped(stream))) for stream in (sys.stdout, sys.stderr))
    with redirect_stdout(next(streams)), redirect_stderr(next(streams)):
        yield


class TerminalBar:
    """One line on stderr: share done, rows (or whatever is counted), rate and time left. Removed when all is done."""

    def __init__(self, out: TextIO | None = None, *, what: str = "masks") -> None:
        self._out, self._what = unescaped(out or sys.stderr), neutral(what)
        self._started = time.monotonic()
        self._drawn = 0.0

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if done >= total:
            self._out.write("\r\x1b[K")
        elif now - self._drawn >= SECONDS_BETWEEN_LINES:
            self._drawn = now
            rate = done / max(now - self._started, 1e-9)
            pace = f"{rate:.0f}/s, ≤ {(total - done) / max(rate, 1e-9):.0f} s left"
            self._out.write(f"\r{share_done(done, total, width=30)} {done}/{total} {self._what}, {pace}")
        self._out.flush()


def share_done(done: int, total: int, *, width: int) -> str:
    """The share that is done as a bar."""
    filled = width * done // max(1, total)
    return "█" * filled + "░" * (width - filled)


def as_progress(progress: Any, *, what: str = "masks") -> Progress | None:
    """None or False for silence, True for a bar, or a callable of (done, total)."""
    if progress is None or progress is False:
        return None
    if progress is True:
        return TerminalBar(what=what)
    if callable(progress):
        return progress  # type: ignore[no-any-return]
    must = "be True, False, None or a function of (done, total)"
    raise InvalidTypeError(argument="progress", must=must, got=repr(progress))


@contextmanager
def watching_search(progress: Progress | None) -> Iterator[None]:
    """Let ``progress`` know the steps of every search for a stopping design inside; None changes nothing."""
    token = _SEARCH.set(progress or _SEARCH.get())
    try:
        yield
    finally:
        _SEARCH.reset(token)


def tell_search(done: int, total: int) -> None:
    """Tell whoever watches how far the search for a stopping design is."""
    progress = _SEARCH.get()
    if progress is not None:
        progress(done, total)


class Shown:
    """A dataclass whose ``repr`` is one short line, and which notebooks show as its sentence."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.__repr__ = Shown.__repr__  # type: ignore[method-assign]  # or the dataclass writes one with all fields

    def __repr__(self) -> str:
        line = type(self).__name__ + "("
        parts = [f"{field.name}={_brief(getattr(self, field.name))}" for field in own_first(self)]
        for i, part in enumerate(parts):
            if len(line) + len(part) > _LONGEST_LINE - len(", …)"):
                return f"{line}…)"
            line += part + (", " if i + 1 < len(parts) else "")
        return f"{line})"

    def _repr_html_(self) -> str:
        return str(import_module("holdfast.report.notebook").to_html(self))  # pages are made upstairs


def own_first(value: Any) -> list[Field[Any]]:
    """The fields of a dataclass, those of its own class before those that it inherits: what it says comes first."""
    own = vars(type(value)).get("__annotations__", {})
    return sorted(fields(value), key=lambda field: field.name not in own)


def _brief(value: Any) -> str:
    """A field in a few characters: how many entries a long one has, and which of the features a mask shows."""
    if isinstance(value, np.ndarray) and value.dtype == np.bool_:
        return f"<{int(value.sum())} of {len(value)} features>"
    if isinstance(value, Shown):
        return f"{type(value).__name__}(…)"
    text = f"{value:.4g}" if isinstance(value, float) else repr(value)
    if len(text) <= _LONGEST_FIELD and "\n" not in text:
        return text
    if isinstance(value, Sized) and not isinstance(value, str):
        return f"<{len(value)} entries>"
    return f"{text[: _LONGEST_FIELD - 1]}…".replace("\n", " ")
