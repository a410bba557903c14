"""A value and the type a field declares → whether it fits: what is read from JSON may have been edited."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from holdfast.bounds import Interval
from holdfast.types import Provenance
from holdfast.validation import is_number

_LARGEST = 2**256
"""Keys of random streams have half as many digits; counts have far fewer."""


@cache
def hints_of(kind: Any) -> dict[str, Any]:
    """The declared types of the fields of a class."""
    return get_type_hints(kind)


def fits(value: Any, hint: Any) -> bool:
    """Whether a value is of a declared type, all the way down; numbers must be finite.

    Examples
    --------
    >>> fits((1, 2), tuple[int, ...]), fits(True, int), fits(float("inf"), float), fits(None, float | None)
    (True, False, False, True)
    """
    if hint is Any:
        return _is_finite(value)
    if get_origin(hint) in (Union, UnionType):
        return any(fits(value, option) for option in get_args(hint))
    return _fits_parts(value, hint) if get_args(hint) else _fits_plain(value, hint)


def _fits_parts(value: Any, hint: Any) -> bool:
    """A tuple of equal parts, an array of a type of numbers, or a mapping."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is tuple:
        return isinstance(value, tuple) and all(fits(item, parts[0]) for item in value)
    if origin is np.ndarray:
        return isinstance(value, np.ndarray) and value.dtype == get_args(parts[1])[0]
    return isinstance(value, Mapping) and _is_finite(value)


def _fits_plain(value: Any, hint: Any) -> bool:
    if hint is float:
        return is_number(value) and _is_small(value) and math.isfinite(value)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool) and _is_small(value)
    if hint is Interval:
        return isinstance(value, Interval) and fits(tuple(value), tuple[float, ...])
    if hint is Provenance:
        return isinstance(value, Provenance) and fits(tuple(vars(value).values()), tuple[str | None, ...])
    return isinstance(value, hint)


def _is_finite(value: Any) -> bool:
    """Whether anything, as JSON can hold it, has only numbers that JSON can hold as well."""
    if isinstance(value, Mapping):
        return all(map(_is_finite, value.values()))
    if isinstance(value, (tuple, list)):
        return all(map(_is_finite, value))
    return not isinstance(value, float) or math.isfinite(value)


def _is_small(value: Any) -> bool:
    return not isinstance(value, int) or abs(value) < _LARGEST
