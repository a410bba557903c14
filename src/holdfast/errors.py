"""What holdfast raises: every error is a ``HoldfastError`` and also the built-in error one would expect."""

from __future__ import annotations


class HoldfastError(Exception):
    """Base of every error holdfast raises on purpose."""

    def add_hint(self, sentence: str) -> None:
        """Say one sentence more at the end of the message, such as which option helps."""
        self.args = (f"{self} {sentence}",)


class ArgumentError(HoldfastError):
    """An argument cannot be used: which one, what must hold, what was received and what to do.

    ``argument`` is its name in the library; the command line calls it by its option. ``must`` follows the word "must",
    ``got`` is what was received as it is printed (``shown(value)`` where it may be a text), ``hint`` a whole sentence.
    A ``message`` is said in place of these, after the name of the argument if there is one.

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
        self.argument, self.must, self.hint = argument, must, hint
        self.got = None if got is None else str(got)  # text, so that every error can be sent to another process
        if must is not None:
            received = "" if got is None else f", got {got}"
            message = f"must {must}{received}.{f' {hint}' if hint else ''}"
        self._statement = message
        super().__init__(message if argument is None else self.about(argument))

    def add_hint(self, sentence: str) -> None:
        """Say one sentence more at the end of the message, under whichever name."""
        self._statement = f"{self._statement} {sentence}"
        self.hint = f"{self.hint} {sentence}" if self.hint else sentence
        super().add_hint(sentence)

    def about(self, name: str) -> str:
        """The message with another name for the argument; as it is if it is about none."""
        return str(self) if self.argument is None else f"`{name}` {self._statement}"


class InvalidValueError(ArgumentError, ValueError):
    """An argument has the right type but a value that cannot be used."""


class InvalidTypeError(ArgumentError, TypeError):
    """An argument has a type that cannot be used."""


class MissingGradientsError(InvalidTypeError):
    """A method needs gradients, and the model has none."""


class ColumnsError(InvalidValueError):
    """A row of a table has other columns than the classifier was fitted on."""


class ModelError(HoldfastError, ValueError):
    """The model broke its contract: wrong shape, NaN, another answer for the same mask, or none in time."""


class BudgetError(HoldfastError, RuntimeError):
    """The calls or tokens that may be spent are spent; the message says on what, and how to go on."""


class MissingExtraError(HoldfastError, ImportError):
    """A feature needs a package that is not installed; the message says which."""


class StudyError(HoldfastError, RuntimeError):
    """A study cannot go on: at which input and why (``cause``, from any process). What was stored stays stored."""

    def __init__(self, message: str = "", *, cause: HoldfastError | None = None) -> None:
        self.cause = cause
        super().__init__(message)


class StudyMismatchError(StudyError):
    """A file of results holds answers to another question, or about other inputs."""


class StoreError(HoldfastError, OSError):
    """A file of results cannot be used: busy, damaged, foreign, of a newer version, or not writable."""
