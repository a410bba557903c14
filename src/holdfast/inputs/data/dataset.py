"""Inputs, their labels and what the labels are called: one frozen value; and labels as numbers of classes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.validation import shown

UNKNOWN = -1
"""The label of an input of which nobody says what it is."""

_MOST_DIGITS = 6
"""Whole numbers of so many digits are taken for names, not for numbers of classes."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """Inputs of one kind with their labels; iterating gives pairs (input, label).

    Attributes
    ----------
    name : str
        What it is loaded by.
    kind : {"image", "text", "table"}
        What the inputs are.
    inputs : array (n, height, width, channels), array (n, n_columns), or sequence of n inputs
        What a ``Classifier`` of the kind takes. Arrays are read-only. Images in files are opened when
        they are asked for, each time anew; one that cannot be read raises an error that names it.
    labels : whole numbers (n,)
        The right class of each input, as an index into ``classes``; -1 where it is not known.
    classes : tuple of str
        The names of the classes.
    names : tuple of n str, optional
        What each input is called, such as the name of its file.
    background : array (m, n_columns) or data frame, optional
        Of a table: rows that hidden columns are filled from.

    Examples
    --------
    >>> data = Dataset("moods", "text", ("fine", "awful"), np.array([1, 0]), ("bad", "good"))
    >>> [(text, data.classes[label]) for text, label in data]
    [('fine', 'good'), ('awful', 'bad')]
    """

    name: str
    kind: str
    inputs: Sequence[Any] | NDArray[Any] = field(repr=False)
    labels: NDArray[np.intp] = field(repr=False)
    classes: tuple[str, ...]
    names: tuple[str, ...] | None = field(default=None, repr=False)
    background: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for name, entries in (("labels", self.labels), ("names", self.names)):
            if entries is not None and len(entries) != len(self.inputs):
                must = f"have one entry per input, {len(self.inputs)}"
                raise InvalidValueError(argument=name, must=must, got=len(entries))
        for name, values in (("inputs", self.inputs), ("labels", self.labels)):
            if isinstance(values, np.ndarray):  # a view is locked: the caller's own array stays as it is
                view = values.view()
                view.setflags(write=False)
                object.__setattr__(self, name, view)

    def __len__(self) -> int:
        return len(self.labels)

    def __iter__(self) -> Iterator[tuple[Any, int]]:
        return zip(self.inputs, (int(label) for label in self.labels), strict=True)

    @property
    def in_files(self) -> bool:
        """Whether each input is in a file of its own, which is opened when it is asked for."""
        return bool(getattr(self.inputs, "in_files", False))

    def digest(self, index: int) -> str | None:
        """What tells whether an input is still the same, read from its file if it has one; None if nothing does."""
        if hasattr(self.inputs, "digest"):
            return cast("str | None", self.inputs.digest(index))
        value = self.inputs[index]
        if isinstance(self.inputs, np.ndarray):
            return digest_bytes(np.ascontiguousarray(value).tobytes())
        return digest_bytes(value.encode()) if isinstance(value, str) else None

    def name_of(self, index: int) -> str:
        """What an input is called, or its number."""
        return str(index) if self.names is None else self.names[index]

    def label_of(self, index: int, classes: tuple[str, ...] = ()) -> int | None:
        """The right class of an input, or None if it is not known.

        In ``classes`` of another order, such as a classifier's, it is looked up by its name; its number is kept
        where the names do not match.
        """
        label = int(self.labels[index])
        if label < 0:
            return None
        return classes.index(self.classes[label]) if classes and set(self.classes) <= set(classes) else label


def digest_bytes(content: bytes) -> str:
    """The first 16 digits of the SHA-256."""
    return hashlib.sha256(content).hexdigest()[:16]


def number_labels(words: Sequence[str], classes: Any = None) -> tuple[NDArray[np.intp], tuple[str, ...]]:
    """Labels (n,) as numbers, and the names of the classes.

    Where ``classes`` gives the names in order, a label is its place there. Otherwise labels that are all
    whole numbers are the numbers of their classes, and other labels are numbered in alphabetical order.
    """
    distinct = sorted(set(words))
    if classes is not None:
        must = "be a list of distinct names"
        if isinstance(classes, str) or not isinstance(classes, Iterable):
            raise InvalidTypeError(argument="classes", must=must, got=shown(classes))
        names = tuple(str(name) for name in classes)
        if not names or len(set(names)) < len(names):
            raise InvalidValueError(argument="classes", must=must, got=shown(classes))
    elif all(len(word) < _MOST_DIGITS and word.isdecimal() and word == str(int(word)) for word in distinct):
        names = tuple(str(number) for number in range(1 + max(map(int, distinct), default=-1)))
    else:
        names = tuple(distinct)
    place = {name: number for number, name in enumerate(names)}
    strange = next((word for word in words if word not in place), None)
    if strange is not None:
        got = f"no {strange!r} among {len(names)} classes"
        raise InvalidValueError(argument="classes", must="name every label", got=got)
    return np.array([place[word] for word in words], dtype=np.intp), names


def no_labels(n: int) -> NDArray[np.intp]:
    """The labels of n inputs of which nobody says what they are."""
    return np.full(n, UNKNOWN, dtype=np.intp)
