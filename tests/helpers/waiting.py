"""Waiting for events: what happens ends the wait, and the limit only ends a test of what never happens."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 120.0
"""Seconds that anything may take on a machine that is busy with other work."""


def wait_until(condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
    """Wait for something that happens in another thread or process."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.005)
