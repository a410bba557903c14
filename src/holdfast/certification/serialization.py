"""Frozen dataclasses → JSON and back, and equality that compares masks and numbers by value."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from functools import cache
from importlib import import_module
from types import MappingProxyType, UnionType
from typing import Any, ClassVar, Self, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from holdfast.bounds import Interval
from holdfast.errors import InvalidValueError
from holdfast.extras import import_extra
from holdfast.judging import JudgeErrors
from holdfast.plans.design import Design
from holdfast.terminal import Shown, own_first
from holdfast.types import Provenance
from holdfast.validation import check_size, is_number

SCHEMA_VERSION = 1

_UNTRUE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What happens to values that were edited."""

_LARGEST = 2**4096
"""Counts of masks of thousands of features are as large; keys of random streams and all else have far fewer digits."""

_MODULES = tuple(f"certification.{name}" for name in ("fill_sensitivity", "mean_curve", "reexplain", "verify"))
"""Modules that know, with what they import, all kinds of results below studies."""

_hints_of = cache(get_type_hints)
_KINDS: dict[str, type[Value]] = {}
_Kind = TypeVar("_Kind", bound="Value")


class Value(Shown):
    """Equality and JSON for a frozen dataclass that may hold masks, designs and other values."""

    schema: ClassVar[str]

    def __init_subclass__(cls, schema: str | None = None) -> None:
        super().__init_subclass__()
        if schema is not None:
            cls.schema = schema
            _KINDS[schema] = cls

    def to_json(self, about: Mapping[str, Any] | None = None) -> str:
        """The value as JSON text with a schema version; ``from_json`` gives it back.

        What is said ``about`` it, such as the date and the names of features, is written with it, for people to
        read, and indented; ``read_about`` gives it back.
        """
        head: dict[str, Any] = {"schema_version": SCHEMA_VERSION}
        if about is None:
            return json.dumps(head | _to_plain(self), allow_nan=False)
        head["about"] = dict(about)
        return json.dumps(head | _to_plain(self), allow_nan=False, ensure_ascii=False, indent=2)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The value that ``to_json`` wrote; anything else is refused with a reason."""
        try:
            data = read_object(text)
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidValueError(f"must be the JSON of a {cls.schema}: {error}", argument="text") from error
        if data.get("schema") != cls.schema:
            raise InvalidValueError(argument="text", must=f"have schema {cls.schema!r}")
        version = data.pop("schema_version", None)
        if version != SCHEMA_VERSION:
            must, hint = f"have schema_version {SCHEMA_VERSION}", "Another holdfast wrote it."
            raise InvalidValueError(argument="text", must=must, got=repr(version), hint=hint)
        data.pop("about", None)
        value = _build(cls, data)
        try:  # fields that fit one by one may still make no sentence
            str(value)
            value.to_json()
        except _UNTRUE as error:
            raise InvalidValueError(f"is not a valid {value.schema}: {error!r}", argument="text") from error
        return value

    def check(self) -> None:
        """Raise if the fields contradict each other; what is read from JSON may have been edited."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and isinstance(other, Value) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(self.to_json())


def from_any_json(text: str) -> Value:
    """The value of whatever kind that ``to_json`` wrote."""
    try:
        schema = json.loads(text).get("schema")
    except (TypeError, ValueError, RecursionError, AttributeError) as error:
        raise InvalidValueError(f"it is not JSON written by holdfast: {error}") from error
    for module in (*_MODULES, "witness"):
        import_module(f"holdfast.{module}")  # each makes its own results known
    if not isinstance(schema, str) or schema not in _KINDS:
        raise InvalidValueError(f"its `schema` must be a schema of holdfast, got {schema!r}.")
    return _KINDS[schema].from_json(text)


def read_object(text: str) -> dict[str, Any]:
    """An object of JSON whose names come once: one that came twice could show people and programs two values."""

    def known(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        for name, n in Counter(name for name, _ in pairs).items():
            if n > 1:
                raise ValueError(f"{name!r} appears twice")
        return dict(pairs)

    data = json.loads(text, object_pairs_hook=known)
    return data if isinstance(data, dict) else {}


def read_about(text: str) -> dict[str, Any]:
    """What a text that ``to_json`` wrote says about its value; nothing if it says nothing."""
    about = json.loads(text).get("about", {})
    return about if isinstance(about, dict) else {}


def _to_plain(value: Any) -> Any:
    if isinstance(value, Value):
        content = {field.name: _to_plain(getattr(value, field.name)) for field in own_first(value)}
        return {"schema": value.schema} | content
    if isinstance(value, Design):
        return {"looks": list(value.looks), "limits": list(value.limits)}
    if isinstance(value, (Provenance, JudgeErrors)):
        return asdict(value)
    if isinstance(value, Interval):
        return {"low": value.low, "high": value.high}
    if isinstance(value, np.ndarray):
        if value.dtype != np.bool_:
            return {"numbers": value.tolist()}
        return {"n_features": len(value), "shown": np.flatnonzero(value).tolist()}
    if isinstance(value, Mapping):
        return {"entries": {name: _to_plain(item) for name, item in value.items()}}
    return [_to_plain(item) for item in value] if isinstance(value, tuple) else value


def _from_plain(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_from_plain(item) for item in value)
    if not isinstance(value, dict):
        return value
    if "schema" in value:
        return _build(_KINDS[value["schema"]], value)
    if value.keys() == {"looks", "limits"}:
        if not all(type(number) is int for number in (*value["looks"], *value["limits"])):
            raise InvalidValueError(argument="design", must="have whole numbers")
        return Design(tuple(value["looks"]), tuple(value["limits"]))
    if value.keys() == {"masking", "model", "input"}:
        return Provenance(**value)
    if value.keys() == set(JudgeErrors.__dataclass_fields__):
        return JudgeErrors(**value)
    if value.keys() == {"low", "high"}:
        return Interval(value["low"], value["high"])
    if value.keys() == {"entries"}:
        return MappingProxyType({name: _from_plain(item) for name, item in value["entries"].items()})
    if value.keys() == {"numbers"}:
        return frozen_numbers(value["numbers"])
    mask = np.zeros(check_size(value["n_features"], "n_features", most=10**7), dtype=bool)
    shown = value["shown"]
    if not isinstance(shown, list) or any(type(at) is not int or at < 0 for at in shown) or shown != sorted(set(shown)):
        raise InvalidValueError(argument="shown", must="list features once each, in increasing order")
    mask[shown] = True
    mask.setflags(write=False)
    return mask


def frozen_numbers(values: Any) -> NDArray[np.float64]:
    """A copy of a vector of numbers that cannot be written to."""
    numbers = np.array(values, dtype=np.float64)
    numbers.setflags(write=False)
    return numbers


def _build(kind: type[_Kind], data: dict[str, Any]) -> _Kind:
    content = {name: value for name, value in data.items() if name != "schema"}
    names = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    if content.keys() != names:
        strange = ", ".join(sorted(names ^ content.keys()))
        raise InvalidValueError(f"has missing or unknown fields: {strange}.", argument="text")
    try:
        parts, hints = {name: _from_plain(value) for name, value in content.items()}, _hints_of(kind)  # type: ignore[arg-type]
        for name, part in parts.items():
            if not fits(part, hints[name]):
                raise InvalidValueError(f"cannot be {content[name]!r}", argument=name)
        value = kind(**parts)
        value.check()
    except _UNTRUE as error:
        raise InvalidValueError(f"is not a valid {kind.schema}: {error}", argument="text") from error
    return value


def fits(value: Any, hint: Any) -> bool:
    """Whether a value is of a declared type, all the way down; numbers must be finite."""
    origin, parts = get_origin(hint), get_args(hint)
    if hint is Any:
        return _is_finite(value)
    if origin in (Union, UnionType):
        return any(fits(value, option) for option in parts)
    if origin is tuple:
        return isinstance(value, tuple) and all(fits(item, parts[0]) for item in value)
    if origin in (np.ndarray, NDArray):  # from NumPy 2.5 on, `NDArray` is an alias with an origin of its own
        scalar = parts[0] if origin is NDArray else get_args(parts[1])[0]
        return isinstance(value, np.ndarray) and value.dtype == scalar
    if origin is not None:
        return isinstance(value, Mapping) and _is_finite(value)
    small = not isinstance(value, int) or abs(value) < _LARGEST
    if hint is float:
        return is_number(value) and small and math.isfinite(value)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool) and small
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


def make_frame(rows: Iterable[dict[str, Any]], columns: Iterable[str] | None = None) -> Any:
    """A pandas ``DataFrame`` with one row per dictionary; ``columns`` are there even if there is no row."""
    names = None if columns is None else list(columns)
    return import_extra("pandas", "`to_frame` needs").DataFrame(list(rows), columns=names)
