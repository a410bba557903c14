"""What was asked for lately → kept, so that it need not be made again; the rest is forgotten."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Recent(Generic[Value]):
    """Values by key, no more than ``most`` of them; any thread may ask.

    Examples
    --------
    >>> recent = Recent[str](most=2)
    >>> for key in "abc":
    ...     recent.put(key, key.upper())
    >>> recent.get("a"), recent.get("c"), len(recent)
    (None, 'C', 2)
    """

    def __init__(self, *, most: int) -> None:
        self._most, self._lock = most, threading.Lock()
        self._values: OrderedDict[Hashable, Value] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: Hashable) -> Value | None:
        """The value of a key, from now on the most recent one; None if it is not known."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def put(self, key: Hashable, value: Value) -> None:
        """Keep a value, and forget the one that was not asked for the longest."""
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            while len(self._values) > self._most:
                self._values.popitem(last=False)
