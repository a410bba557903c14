"""What holdfast raises: every error is a ``HoldfastError`` and also the built-in error one would expect."""

from __future__ import annotations


class HoldfastError(Exception):
    """Base of every error holdfast raises on purpose."""


class ArgumentError(HoldfastError):
    """An argument cannot be used: which one, what must hold, what was received and what to do.

    Parameters
    ----------
    message : str
        The whole message, where no argument is concerned; without it the fields make one.
    argument : str, optional
        The argument by its name in the library; the command line calls it by its option.
    must : str, optional
        What must hold, as it follows the word "must".
    got : object, optional
        What was received, as it is printed: ``shown(value)`` where it may be a text.
    hint : str, optional
        What to do, as a whole sentence.

    Examples
    --------
    >>> error = InvalidValueError(argument="radius", must="be a whole number ≥ 0", got="-1", hint="Try 1.")
    >>> print(error)
    `radius` must be a whole number ≥ 0, got -1. Try 1.
    >>> print(error.about("--radius"))
    `--radius` must be a whole number ≥ 0, got -1. Try 1.
    """

    def __init__(
        self,
        message: str = "",
        *,
        argument: str | None = None,
        must: str | None = None,
        got: object = None,
        hint: str | None = None,
    ) -> None:
        self.argument, self.must, self.got, self.hint = argument, must, got, hint
        super().__init__(message or self.about(argument))

    def about(self, name: str | None) -> str:
        """The message with another name for the argument; as it is if it is about none."""
        if name is None or self.must is None:
            return str(self)
        received = "" if self.got is None else f", got {self.got}"
        return f"`{name}` must {self.must}{received}.{f' {self.hint}' if self.hint else ''}"


class InvalidValueError(ArgumentError, ValueError):
    """An argument has the right type but a value that cannot be used."""


class InvalidTypeError(ArgumentError, TypeError):
    """An argument has a type that cannot be used."""


class ModelError(HoldfastError, ValueError):
    """The model broke its contract: wrong shape, NaN, another answer for the same mask, or none in time."""


class MissingExtraError(HoldfastError, ImportError):
    """A feature needs a package that is not installed; the message says which."""


class StudyError(HoldfastError, RuntimeError):
    """A study cannot go on; the message says at which input and why. What was stored stays stored."""


class StoreError(HoldfastError, OSError):
    """A file of results cannot be used: busy, damaged, foreign, of a newer version, or not writable."""
