"""A study → plain JSON, and what two studies must have in common for their items to belong together."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from typing import Any

from holdfast.errors import InvalidTypeError, StudyMismatchError
from holdfast.study.spec import StudySpec, keys_of

Plain = dict[str, Any]

_UNUSED = {"per-input": ("half_width", "bound"), "data-set": ("tolerance", "plan")}
"""Keys of ``certify`` that no result depends on, by precision."""


_WHICH_INPUTS = ("n", "order", "skip_unreadable")
"""Keys of ``data`` that say which inputs are asked for: an item has the number of its input in the data."""


def plain_spec(spec: StudySpec) -> Plain:
    """The study as dictionaries, lists, texts and numbers, defaults written out.

    Examples
    --------
    >>> from holdfast.study.spec import DataSpec, MethodSpec, ModelSpec
    >>> spec = StudySpec(ModelSpec("bundled:digits-resnet"), DataSpec("bundled:digits"), (MethodSpec("lime"),))
    >>> plain_spec(spec)["methods"]
    [{'name': 'lime', 'n_samples': None, 'options': {}}]
    """
    plain: Plain = _plain(spec, "study")
    return plain


def _plain(value: Any, path: str) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: _plain(getattr(value, field.name), f"{path}.{field.name}") for field in keys_of(type(value))
        }
    if isinstance(value, Mapping):
        return {str(name): _plain(item, f"{path}.{name}") for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, path) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise InvalidTypeError(
        argument=path,
        must="be something a file can hold (text, numbers, lists)",
        got=f"{type(value).__name__}: a study is stored, and its workers are told, by name",
    )


def check_same_question(stored: Plain, asked: Plain) -> None:
    """Raise unless items of both studies answer one question and may share a file.

    More inputs, methods, fractions or keep probabilities may be asked for later; an item's own draws
    depend on nothing of the kind. Anything else would mix answers to different questions.
    """
    for path, before, now in _differences(_question(stored), _question(asked), ""):
        raise StudyMismatchError(
            f"`{path}` is {json.dumps(before, ensure_ascii=False)} in the stored study and "
            f"{json.dumps(now, ensure_ascii=False)} in this one: their items do not belong together. "
            "Use another file for another question."
        )


def _question(plain: Plain) -> Plain:
    """What every item depends on; methods by name, so that some may be new."""
    question = {name: plain[name] for name in ("model", "masking", "mus", "witness", "batch_size", "seed")}
    unused = _UNUSED[plain["certify"]["precision"]]
    question["certify"] = {name: value for name, value in plain["certify"].items() if name not in unused}
    question["data"] = {name: value for name, value in plain["data"].items() if name not in _WHICH_INPUTS}
    question["smoothing"] = {"n_samples": plain["smoothing"]["n_samples"]}
    question["methods"] = {method["name"]: method for method in plain["methods"]}
    return question


def _differences(before: Any, now: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(before, dict) and isinstance(now, dict):
        new_is_fine = path == "methods"
        names = before.keys() & now.keys() if new_is_fine else before.keys() | now.keys()
        for name in sorted(names):
            yield from _differences(before.get(name), now.get(name), f"{path}.{name}" if path else name)
    elif before != now:
        yield path, before, now
