"""A hook called as rows are computed → a bar on the terminal, or the user's own function."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TextIO

from holdfast.errors import InvalidTypeError
from holdfast.terminal import neutral, unescaped
from holdfast.types import Progress

_SEARCH: ContextVar[Progress | None] = ContextVar("search", default=None)

_WIDTH = 30
_SECONDS_BETWEEN_LINES = 0.1


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
        elif now - self._drawn >= _SECONDS_BETWEEN_LINES:
            self._drawn = now
            self._out.write("\r" + self._line(done, total, now - self._started))
        self._out.flush()

    def _line(self, done: int, total: int, seconds: float) -> str:
        filled = _WIDTH * done // max(1, total)
        rate = done / max(seconds, 1e-9)
        left = (total - done) / max(rate, 1e-9)
        return f"{'█' * filled}{'░' * (_WIDTH - filled)} {done}/{total} {self._what}, {rate:.0f}/s, ≤ {left:.0f} s left"


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
