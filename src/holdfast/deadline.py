"""A call and a number of seconds → its answer, or an error while the call still runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, TypeVar

from holdfast.errors import InvalidTypeError, InvalidValueError, ModelError
from holdfast.validation import is_number, shown

_Answer = TypeVar("_Answer")


def check_seconds(value: Any, name: str = "timeout") -> float | None:
    """A number of seconds above zero, or None for as long as it takes."""
    if value is None:
        return None
    must = "be a number of seconds > 0, or None"
    if not is_number(value):
        raise InvalidTypeError(argument=name, must=must, got=shown(value))
    if not value > 0:
        raise InvalidValueError(argument=name, must=must, got=shown(value))
    return min(float(value), threading.TIMEOUT_MAX)


class Deadline:
    """Lets calls take so many seconds each, and no more.

    A call with a limit runs in a thread of its own. Python cannot end a thread: one that is given up
    goes on until its call returns, and as long as it does no other call is begun.

    Examples
    --------
    >>> Deadline(5.0).call(lambda: 6 * 7, "for 1 mask")
    42
    """

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self._last: threading.Thread | None = None

    def call(self, function: Callable[[], _Answer], what: str) -> _Answer:
        """The answer of a function, or what it raises; ``ModelError`` when the time is over."""
        if self.seconds is None:
            return function()
        if self._last is not None and self._last.is_alive():
            raise ModelError("The model cannot be asked again: a call that was given up is still running.")
        run = _Call(function)
        # Settings that belong to the caller's context, such as those of NumPy, hold for the call as well.
        self._last = threading.Thread(target=copy_context().run, args=(run,), daemon=True, name="holdfast-model")
        self._last.start()
        self._last.join(self.seconds)
        if not run.is_done:
            raise ModelError(
                f"The model gave no answer {what} within `timeout` = {self.seconds:g} s. Answers that came before are "
                "kept. The call cannot be ended from here and may go on in the background."
            )
        answer: _Answer = run.answer()
        return answer


class _Call:
    """One call, and what came of it."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function, self.is_done = function, False
        self._value: Any = None
        self._error: BaseException | None = None

    def __call__(self) -> None:
        try:
            self._value = self._function()
        except BaseException as error:  # raised where it was asked for
            self._error = error
        self.is_done = True

    def answer(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._value
