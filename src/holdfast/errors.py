"""What holdfast raises: every error is a ``HoldfastError`` and also the built-in error one would expect."""

from __future__ import annotations


class HoldfastError(Exception):
    """Base of every error holdfast raises on purpose."""


class InvalidValueError(HoldfastError, ValueError):
    """An argument has the right type but a value that cannot be used."""


class InvalidTypeError(HoldfastError, TypeError):
    """An argument has a type that cannot be used."""


class ModelError(HoldfastError, ValueError):
    """The model broke its contract: wrong shape, NaN, another answer for the same mask, or none in time."""


class MissingExtraError(HoldfastError, ImportError):
    """A feature needs a package that is not installed; the message says which."""


class StudyError(HoldfastError, RuntimeError):
    """A study cannot go on; the message says at which input and why. What was stored stays stored."""


class StoreError(HoldfastError, OSError):
    """A file of results cannot be used: busy, damaged, foreign, of a newer version, or not writable."""
