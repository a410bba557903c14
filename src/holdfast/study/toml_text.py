"""Plain values → TOML text; reading is the standard library's."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from holdfast.errors import InvalidTypeError
from holdfast.validation import is_number, shown

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def format_toml(table: Mapping[str, Any]) -> str:
    """A table as TOML: values first, then inner tables, then lists of tables. None is left out.

    Examples
    --------
    >>> print(format_toml({"seed": 0, "data": {"spec": "bundled:digits", "n": None}, "methods": [{"name": "lime"}]}))
    seed = 0
    <BLANKLINE>
    [data]
    spec = "bundled:digits"
    <BLANKLINE>
    [[methods]]
    name = "lime"
    <BLANKLINE>
    """
    return "\n".join(_lines(table, ())).lstrip("\n") + "\n"


def _lines(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    present = {name: value for name, value in table.items() if value is not None}
    for name, value in present.items():
        if not _is_table(value) and not _is_list_of_tables(value):
            yield f"{_key(name)} = {_value(value, '.'.join((*path, name)))}"
    for name, value in present.items():
        inner = (*path, name)
        if _is_table(value):
            yield from _section(value, inner, f"[{'.'.join(map(_key, inner))}]")
        elif _is_list_of_tables(value):
            for one in value:
                yield from _section(one, inner, f"[[{'.'.join(map(_key, inner))}]]")


def _section(table: Mapping[str, Any], path: tuple[str, ...], title: str) -> Iterator[str]:
    yield ""
    yield title
    yield from _lines(table, path)


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping)


def _is_list_of_tables(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and len(value) > 0 and all(map(_is_table, value))


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else quoted(name)


def _value(value: Any, name: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return quoted(value)
    if is_number(value):
        return repr(value.item() if hasattr(value, "item") else value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_value(item, name) for item in value)}]"
    if isinstance(value, Mapping):
        entries = (f"{_key(key)} = {_value(item, name)}" for key, item in value.items() if item is not None)
        return f"{{ {', '.join(entries)} }}"
    raise InvalidTypeError(argument=name, must="be made of texts, numbers, flags, lists and tables", got=shown(value))


def quoted(text: str) -> str:
    """A text between quotation marks."""
    # JSON's escapes are TOML's, but for the delete character, which TOML wants escaped as well.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
