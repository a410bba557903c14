"""What each input is called to be → numbers of classes, and the classes' names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidTypeError, InvalidValueError

UNKNOWN = -1
"""The label of an input of which nobody says what it is."""

_MOST_DIGITS = 6
"""Whole numbers of so many digits are taken for names, not for numbers of classes."""


def number_labels(words: Sequence[str], classes: Any = None) -> tuple[NDArray[np.intp], tuple[str, ...]]:
    """Labels (n,) as numbers, and the names of the classes.

    Where ``classes`` gives the names in order, a label is its place there. Otherwise labels that are all
    whole numbers are the numbers of their classes, and other labels are numbered in alphabetical order.

    Examples
    --------
    >>> number_labels(["dog", "cat", "dog"])
    (array([1, 0, 1]), ('cat', 'dog'))
    >>> number_labels(["2", "0"])
    (array([2, 0]), ('0', '1', '2'))
    """
    names = _names(words) if classes is None else check_classes(classes)
    place = {name: number for number, name in enumerate(names)}
    strange = next((word for word in words if word not in place), None)
    if strange is not None:
        raise InvalidValueError(f"`classes` must name every label, got no {strange!r} among {len(names)} classes.")
    return np.array([place[word] for word in words], dtype=np.intp), names


def no_labels(n: int) -> NDArray[np.intp]:
    """The labels of n inputs of which nobody says what they are."""
    return np.full(n, UNKNOWN, dtype=np.intp)


def check_classes(classes: Any) -> tuple[str, ...]:
    """Distinct names."""
    wanted = f"`classes` must be a list of distinct names, got {classes!r}."
    if isinstance(classes, str) or not isinstance(classes, Iterable):
        raise InvalidTypeError(wanted)
    names = tuple(str(name) for name in classes)
    if not names or len(set(names)) < len(names):
        raise InvalidValueError(wanted)
    return names


def _names(words: Sequence[str]) -> tuple[str, ...]:
    distinct = sorted(set(words))
    if all(len(word) < _MOST_DIGITS and word.isdecimal() and word == str(int(word)) for word in distinct):
        return tuple(str(number) for number in range(1 + max(map(int, distinct), default=-1)))
    return tuple(distinct)
