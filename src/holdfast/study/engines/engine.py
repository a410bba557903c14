"""What every engine does: take tasks as it has room for them, and give back each result as soon as it is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, TypeGuard, runtime_checkable

from holdfast.errors import HoldfastError, StudyError
from holdfast.study.items import Task
from holdfast.study.results import ItemResult, Record, encode
from holdfast.study.spec import StudySpec
from holdfast.study.work import Skipped


@dataclass(frozen=True)
class GivenUp:
    """Items of an input whose worker died again and again."""

    input: int
    items: tuple[str, ...]
    reason: str
    n_tries: int


Event = Record | Skipped | GivenUp
"""A finished item, an input that was left out, or items that were given up."""


@runtime_checkable
class Engine(Protocol):
    """Runs tasks. Whatever it does, the same tasks give the same records, each exactly once, in any order."""

    def run(self, spec: StudySpec, tasks: Iterator[Task], stop: Callable[[], bool], /) -> Iterator[Event]:
        """Events of the tasks, which are taken one by one; once ``stop()`` is true, only begun items are finished.

        An error of the model or the data is raised as a ``StudyError`` that names the input, an error of loading as
        it is.
        """
        ...


def as_event(found: ItemResult | Skipped) -> Event:
    """What a worker found, as rows for the store."""
    return encode(found) if isinstance(found, ItemResult) else found


@contextmanager
def naming_input(index: int) -> Iterator[None]:
    """Errors inside become a ``StudyError`` that says at which input."""
    try:
        yield
    except Exception as error:
        raise at_input(index, error) from error


def at_input(index: int, error: Exception) -> StudyError:
    """What went wrong at an input, in one line; our own errors keep their fields."""
    kind, cause = f"{type(error).__name__}: ", error
    if isinstance(error, StudyError):
        kind, cause = "", error.cause or error
    return StudyError(f"Input {index}: {kind}{error}", cause=cause if _is_own(cause) else None)


def sendable(error: Exception) -> HoldfastError:
    """What went wrong, as another process can read it: our own errors as they are, others by what they say."""
    return error if _is_own(error) else StudyError(str(error))


def _is_own(error: Exception) -> TypeGuard[HoldfastError]:
    """Another process need not know the classes of a model."""
    return isinstance(error, HoldfastError) and type(error).__module__.startswith("holdfast.")
