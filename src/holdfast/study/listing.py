"""A data set → what its inputs are called and hold, so that stored numbers keep meaning the same inputs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from holdfast.errors import StudyMismatchError
from holdfast.inputs.data.dataset import Dataset
from holdfast.inputs.data.hf_disk import Column
from holdfast.inputs.data.images import ImageFiles
from holdfast.inputs.data.tables import Rows


class Listed(NamedTuple):
    """What is known of an input without binding it; None where it has no name, or is read only when it is needed."""

    name: str | None
    digest: str | None

    def differs(self, other: Listed) -> bool:
        """Whether they are two inputs for sure: what one of them does not say is no difference."""
        return any(mine is not None and its is not None and mine != its for mine, its in zip(self, other, strict=True))

    def knowing(self, other: Listed | None) -> Listed:
        """The same, with the digest that another listing has for this name, if this one has none."""
        if other is None or other.name != self.name or self.digest is not None:
            return self
        return other

    def __str__(self) -> str:
        return repr(self.name) if self.digest is None else f"{self.name!r} (content {self.digest[:8]})"


def list_inputs(data: Dataset, numbers: Sequence[int]) -> dict[int, Listed]:
    """Some inputs of a data set by number; files are not opened.

    Examples
    --------
    >>> data = Dataset("moods", "text", ("fine", "awful"), np.array([1, 0]), ("bad", "good"))
    >>> print(list_inputs(data, [0])[0])
    None (content d14a58ba)
    """
    names = data.names
    return {
        number: Listed(None if names is None else names[number], digest)
        for number, digest in zip(numbers, _digests(data.inputs, numbers), strict=True)
    }


def _digests(inputs: Any, numbers: Sequence[int]) -> Iterator[str | None]:
    """A digest for what need not be opened one by one: texts, arrays, rows; files of images have their names."""
    if isinstance(inputs, Rows):
        from pandas.util import hash_pandas_object

        hashes = hash_pandas_object(inputs.frame.iloc[list(numbers)], index=False)
        return (f"{int(one):016x}" for one in hashes)
    if isinstance(inputs, Column):
        return (content_digest(inputs, number) for number in numbers)
    if isinstance(inputs, (np.ndarray, tuple)):
        return (content_digest(inputs, number) for number in numbers)
    return (None for _ in numbers)


def content_digest(inputs: Any, at: int) -> str | None:
    """A digest of what one input holds, read from its file if it has one; None if that cannot be told of it alone."""
    one: Any = None
    if isinstance(inputs, ImageFiles):
        one = inputs.paths[at].read_bytes()
    elif isinstance(inputs, Column):
        one = inputs.content(at)
    elif isinstance(inputs, np.ndarray):
        one = np.ascontiguousarray(inputs[at]).tobytes()
    elif isinstance(inputs, tuple) and isinstance(inputs[at], str):
        one = inputs[at].encode()
    return None if one is None else _digest(one)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def check_listing(before: Mapping[int, Listed], now: Mapping[int, Listed]) -> None:
    """Raise where a number stands for another input than before."""
    for number in sorted(before.keys() & now.keys()):
        if before[number].differs(now[number]):
            raise StudyMismatchError(
                f"Input {number} was {before[number]} and is now {now[number]}: the numbers in the file of results "
                "would mean other inputs. Put new inputs after the old ones, or use another file."
            )
