"""Ctrl-C → a wish to stop after the items that have begun; a second one, after a second or more, stops at once."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SECONDS_TOGETHER = 1.0
"""Signals within this time of the first are one wish: a key held down, or a terminal that tells every process."""


class Wish:
    """Whether somebody wants the study to stop; calling it answers."""

    def __init__(self) -> None:
        self._told: float | None = None

    def __call__(self) -> bool:
        return self._told is not None

    def tell(self, number: int, frame: FrameType | None) -> None:
        """What a signal calls: the first is a wish, the next interrupts."""
        now = time.monotonic()
        if self._told is None:
            self._told = now
        elif now - self._told >= _SECONDS_TOGETHER:
            raise KeyboardInterrupt


@contextmanager
def listening() -> Iterator[Wish]:
    """Take SIGINT and SIGTERM as a wish to stop; elsewhere than in the main thread signals cannot be heard."""
    wish = Wish()
    if threading.current_thread() is not threading.main_thread():
        yield wish
        return
    before = {number: signal.signal(number, wish.tell) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield wish
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
