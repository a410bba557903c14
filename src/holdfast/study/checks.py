"""Fields of a study → checked and normalised values, or an error that names the key as the file spells it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeVar

from holdfast.attribution.methods import options_of
from holdfast.certification.question import parse_radii
from holdfast.errors import HoldfastError, InvalidTypeError, InvalidValueError
from holdfast.validation import MOST_ENTRIES, check_list, check_name, check_share, check_whole, is_number, shown

_Checked = TypeVar("_Checked", bound=Hashable)


def check_text(value: Any, name: str) -> str:
    """A text that is not empty."""
    must = "be a text"
    if not isinstance(value, str):
        raise InvalidTypeError(argument=name, must=must, got=shown(value))
    if not value.strip():
        raise InvalidValueError(argument=name, must=must, got=shown(value))
    return value


def check_flag(value: Any, name: str) -> bool:
    """True or False, nothing that only behaves so; in the words of TOML."""
    if not isinstance(value, bool):
        raise InvalidTypeError(argument=name, must="be true or false", got=shown(value))
    return value


def check_optional_whole(value: Any, name: str) -> int | None:
    """None, or a whole number of at least 1."""
    return None if value is None else check_whole(value, name, minimum=1)


def check_fraction(value: Any, name: str) -> float:
    """A number strictly between 0 and 1."""
    return float(check_share(value, name))


def check_keep_probability(value: Any, name: str) -> float:
    """A number above 0 and at most 1."""
    must = "be a number above 0 and at most 1"
    if not is_number(value):
        raise InvalidTypeError(argument=name, must=must, got=shown(value))
    if not 0 < value <= 1:
        raise InvalidValueError(argument=name, must=must, got=shown(value))
    return float(value)


def check_each(
    values: Any, name: str, check: Callable[[Any, str], _Checked], *, may_be_empty: bool = False
) -> tuple[_Checked, ...]:
    """A list of distinct values that each pass the check."""
    entries = check_list(values, name, "be a list", most=MOST_ENTRIES)
    checked = tuple(check(value, name) for value in entries)
    if not checked and not may_be_empty:
        raise InvalidValueError(argument=name, must="have at least one entry", got="none")
    if len(set(checked)) < len(checked):
        twice = next(value for value, count in Counter(checked).items() if count > 1)
        raise InvalidValueError(argument=name, must="have distinct entries", got=f"{twice!r} more than once")
    return checked


def check_radii(values: Any, name: str) -> tuple[int, ...]:
    """Radii in increasing order, from a list or from a text such as ``"1-50"``."""
    if isinstance(values, str):
        values = parse_radii(values, name)
    return tuple(sorted(check_each(values, name, check_whole)))


def check_method_options(method: str, options: Mapping[str, Any], name: str) -> None:
    """Options the method takes; what would have no effect is an error, never ignored."""
    known = options_of(method)
    for key in options:
        if not known:
            raise InvalidValueError(argument=name, must=f"be empty: {method!r} takes no options", got=shown(key))
        check_name(key, name, known)


def checked_as(name: str, check: Callable[[], Any]) -> None:
    """Run a check of the library, whose errors speak of its own argument, and name the study's key as well."""
    try:
        check()
    except HoldfastError as error:
        raise InvalidValueError(f"must be valid: {error}", argument=name) from error
