"""A result → one line for the prompt, and its sentence in a box for notebooks."""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import Field, fields
from importlib import import_module
from typing import Any

import numpy as np

_LONGEST_LINE, _LONGEST_FIELD = 120, 40


class Shown:
    """A dataclass whose ``repr`` is one short line, and which notebooks show as its sentence."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.__repr__ = Shown.__repr__  # type: ignore[method-assign]  # or the dataclass writes one with all fields

    def __repr__(self) -> str:
        line = type(self).__name__ + "("
        parts = [f"{field.name}={_brief(getattr(self, field.name))}" for field in own_first(self)]
        for i, part in enumerate(parts):
            if len(line) + len(part) > _LONGEST_LINE - len(", …)"):
                return f"{line}…)"
            line += part + (", " if i + 1 < len(parts) else "")
        return f"{line})"

    def _repr_html_(self) -> str:
        return str(import_module("holdfast.report.notebook").to_html(self))  # pages are made upstairs


def own_first(value: Any) -> list[Field[Any]]:
    """The fields of a dataclass, those of its own class before those that it inherits: what it says comes first."""
    own = vars(type(value)).get("__annotations__", {})
    return sorted(fields(value), key=lambda field: field.name not in own)


def _brief(value: Any) -> str:
    """A field in a few characters: how many entries a long one has, and which of the features a mask shows."""
    if isinstance(value, np.ndarray) and value.dtype == np.bool_:
        return f"<{int(value.sum())} of {len(value)} features>"
    if isinstance(value, Shown):
        return f"{type(value).__name__}(…)"
    text = f"{value:.4g}" if isinstance(value, float) else repr(value)
    if len(text) <= _LONGEST_FIELD and "\n" not in text:
        return text
    if isinstance(value, Sized) and not isinstance(value, str):
        return f"<{len(value)} entries>"
    return f"{text[: _LONGEST_FIELD - 1]}…".replace("\n", " ")
