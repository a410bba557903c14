"""Ctrl-C → a wish to stop after the items that have begun; a second one stops at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Wish:
    """Whether somebody wants the study to stop; calling it answers."""

    def __init__(self) -> None:
        self._told = False

    def __call__(self) -> bool:
        return self._told

    def tell(self, number: int, frame: FrameType | None) -> None:
        """What a signal calls: the first is a wish, the next interrupts."""
        if self._told:
            raise KeyboardInterrupt
        self._told = True


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
