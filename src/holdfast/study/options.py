"""Named settings that are passed on as they are → a mapping that cannot be changed, and can be sent to a worker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.validation import shown


class Options(Mapping[str, Any]):
    """Settings by name; equal to any mapping of the same entries.

    Lists become tuples and inner mappings become options, so that nothing inside can be changed.

    Examples
    --------
    >>> options = Options({"device": "cpu", "classes": ["a", "b"]})
    >>> options["classes"], options == {"device": "cpu", "classes": ("a", "b")}
    (('a', 'b'), True)
    """

    __slots__ = ("_entries",)

    def __init__(self, entries: Mapping[str, Any]) -> None:
        self._entries = {name: frozen(value) for name, value in entries.items()}

    def __getitem__(self, name: str) -> Any:
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __hash__(self) -> int:
        return hash(frozenset(self._entries.items()))

    def __repr__(self) -> str:
        return repr(self._entries)


def frozen(value: Any) -> Any:
    """The value with tuples for lists and options for mappings, all the way down."""
    try:
        return _frozen(value)
    except RecursionError as error:
        raise InvalidValueError("Settings must end: got one that contains itself, or is nested too deep.") from error


def _frozen(value: Any) -> Any:
    if isinstance(value, Mapping):
        return Options(value)
    return tuple(frozen(item) for item in value) if isinstance(value, (list, tuple)) else value


def check_options(value: Any, name: str, *, taken: tuple[str, ...] = ()) -> Options:
    """Options with names for keys, none of them among those ``taken`` by keys of their own."""
    must = "map names to settings"
    if not isinstance(value, Mapping):
        raise InvalidTypeError(argument=name, must=must, got=shown(value))
    if twice := [key for key in taken if key in value]:
        raise InvalidValueError(
            argument=name, must=f"not have `{twice[0]}`", got=f"{value[twice[0]]!r}: it is no option"
        )
    strange = next((key for key in value if not isinstance(key, str)), None)
    if strange is not None:
        raise InvalidTypeError(argument=name, must=must, got=f"the key {shown(strange)}")
    return Options(value)
