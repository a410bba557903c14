"""Arguments → checked values, or one kind of message: what must hold, for which name, what came."""

from __future__ import annotations

import difflib
import math
import numbers
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.types import Mask, Masks


def check_whole(value: Any, name: str, *, minimum: int = 0) -> int:
    """A whole number of at least ``minimum``."""
    wanted = f"`{name}` must be a whole number ≥ {minimum}, got {value!r}."
    if not is_number(value):
        raise InvalidTypeError(wanted)
    try:
        whole: int = math.floor(value)
    except (OverflowError, ValueError) as error:
        raise InvalidValueError(wanted) from error
    if whole != value or whole < minimum:
        raise InvalidValueError(wanted)
    return whole


def check_share(value: Any, name: str) -> Fraction:
    """A number strictly between 0 and 1, as the fraction its decimal digits say (0.1 is 1/10)."""
    wanted = f"`{name}` must be a number strictly between 0 and 1, got {value!r}."
    if not is_number(value):
        raise InvalidTypeError(wanted)
    if not 0 < value < 1:
        raise InvalidValueError(wanted)
    return value if isinstance(value, Fraction) else _fraction(str(value))


@lru_cache(maxsize=1024)
def _fraction(digits: str) -> Fraction:
    return Fraction(digits)


def check_mask(value: Any, name: str, *, n_features: int | None = None) -> Mask:
    """A Boolean vector, copied and made read-only."""
    wanted = f"`{name}` must be a Boolean vector (n_features,)"
    mask = as_array(value, wanted).copy()
    if mask.ndim != 1 or len(mask) == 0:
        raise InvalidValueError(f"{wanted}, got an array of shape {mask.shape}.")
    if mask.dtype != np.bool_:
        raise InvalidTypeError(
            f"`{name}` must be Boolean, got {mask.dtype}. Turn 0/1 flags into a mask with "
            f"`.astype(bool)`; turn feature indices into one with `mask = np.zeros(n, bool); mask[indices] = True`."
        )
    if n_features is not None and len(mask) != n_features:
        raise InvalidValueError(
            f"`{name}` must have one entry per feature: the model has {n_features} features, got {len(mask)}."
        )
    mask.setflags(write=False)
    return mask


def check_masks(value: Any, n_features: int) -> Masks:
    """Boolean masks (b, n_features)."""
    masks = np.asarray(value)
    if masks.dtype != np.bool_:
        raise InvalidTypeError(f"`masks` must be Boolean, got {masks.dtype}.")
    if masks.ndim != 2 or masks.shape[1] != n_features:
        raise InvalidValueError(f"`masks` must have shape (b, {n_features}), got {masks.shape}.")
    return masks


def as_array(value: Any, wanted: str) -> NDArray[Any]:
    """Anything array-like as an array; rows of unequal length are not what was wanted."""
    try:
        return np.asarray(value)
    except ValueError as error:
        raise InvalidValueError(f"{wanted}, got rows of unequal length.") from error


def check_name(value: Any, name: str, options: Iterable[str]) -> str:
    """One of the known names; a wrong one is answered with the nearest."""
    known = list(options)
    if not isinstance(value, str):
        raise InvalidTypeError(f"`{name}` must be one of {', '.join(known)}, got {value!r}.")
    if value not in known:
        near = difflib.get_close_matches(value, known, n=1, cutoff=0.4)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise InvalidValueError(f"`{name}` must be one of {', '.join(known)}, got {value!r}.{hint}")
    return value


def is_number(value: Any) -> bool:
    """Whether the value is a real number and no Boolean."""
    return isinstance(value, numbers.Real) and not isinstance(value, (bool, np.bool_))


def split_spec(spec: Any, schemes: Iterable[str]) -> tuple[str, str]:
    """The scheme of ``scheme:place``, and the place; an unknown scheme is answered with the nearest."""
    known = tuple(schemes)
    wanted = f"`spec` must start with one of {', '.join(f'{scheme}:' for scheme in known)}"
    if not isinstance(spec, str):
        raise InvalidTypeError(f"{wanted}, got {spec!r}.")
    scheme, colon, place = spec.partition(":")
    if not colon or scheme not in known:
        near = difflib.get_close_matches(scheme.lower(), known, n=1, cutoff=0.5)
        hint = f" Did you mean '{near[0]}:{place if colon else ''}'?" if near else ""
        raise InvalidValueError(f"{wanted}, got {spec!r}.{hint}")
    return scheme, place
