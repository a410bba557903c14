"""A TOML file ⇄ a ``StudySpec``: what is written is what is read, and what is not understood is refused."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, asdict, replace
from pathlib import Path
from typing import Any

from holdfast.atomic import write_whole
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.study.options import Options
from holdfast.study.spec import (
    NO_TRUST,
    CertifySpec,
    DataSpec,
    MaskingSpec,
    MethodSpec,
    ModelSpec,
    MusSpec,
    SmoothingSpec,
    StudySpec,
    Trust,
    check_spec,
    keys_of,
)
from holdfast.study.toml_text import format_toml, quoted
from holdfast.validation import check_path, read_text, shown

_SECTIONS: dict[str, type] = {
    "model": ModelSpec,
    "data": DataSpec,
    "masking": MaskingSpec,
    "methods": MethodSpec,
    "certify": CertifySpec,
    "smoothing": SmoothingSpec,
    "mus": MusSpec,
}

_EXAMPLE = Path(__file__).with_name("example.toml")
_EXAMPLE_MODEL, _EXAMPLE_DATA = "bundled:digits-resnet", "bundled:digits"
_EXAMPLE_GROUPS = "groups = [8, 8]"

_SHORT = {"model": "spec", "data": "spec", "methods": "name"}
"""Sections that a text alone stands for, and the key it then is."""


def read_spec(path: str | Path, *, trust: Trust = NO_TRUST) -> StudySpec:
    """Read a study from a TOML file.

    Keys the study does not have are refused, with the nearest that it has. Paths inside are relative
    to where the study runs.

    Parameters
    ----------
    path : str or Path
        The file; ``holdfast study init`` writes one with every key explained.
    trust : Trust
        What the model that the file names may do when it is loaded: nothing but being read, unless said here.

    Returns
    -------
    StudySpec
        Checked; nothing has been loaded yet.
    """
    return parse_spec(read_text(check_path(path, "path")), name=str(path), trust=trust)


def parse_spec(text: str, *, name: str = "text", trust: Trust = NO_TRUST) -> StudySpec:
    r"""Read a study from TOML text.

    Examples
    --------
    >>> spec = parse_spec('''
    ... model = "bundled:digits-resnet"
    ... data = "bundled:digits"
    ... methods = ["lime", "random"]
    ... certify = { radii = "1-4" }
    ... ''')
    >>> spec.certify.radii, [method.name for method in spec.methods]
    ((1, 2, 3, 4), ['lime', 'random'])
    >>> parse_spec('model = "bundled:digits-resnet"\nsede = 1')
    Traceback (most recent call last):
    ...
    holdfast.errors.InvalidValueError: `sede` is no key of a study. Did you mean `seed`?
    """
    if not isinstance(text, str):
        raise InvalidTypeError(argument="text", must="be TOML", got=shown(text))
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # what is no TOML, and numbers of thousands of digits
        raise InvalidValueError(f"{name} must be TOML: {error}") from error
    return spec_from_plain(table, trust)


def write_spec(spec: StudySpec, path: str | Path) -> None:
    """Write a study as TOML, every key spelled out; ``read_spec`` gives the same study back."""
    write_whole(check_path(path, "path"), format_spec(check_spec(spec)))


def format_spec(spec: StudySpec) -> str:
    """A study as TOML text, every key spelled out."""
    return format_toml(spec_to_plain(spec))


def commented_example(*, model: str | None = None, data: str | None = None) -> str:
    """A study as TOML text with every key explained, for the bundled digits or the given model and data."""
    text = _EXAMPLE.read_text(encoding="utf-8")
    for spec, default in ((model, _EXAMPLE_MODEL), (data, _EXAMPLE_DATA)):
        if spec is not None:
            text = text.replace(f"spec = {quoted(default)}", f"spec = {quoted(spec)}")
    return (
        text
        if _are_images(data or _EXAMPLE_DATA)
        else text.replace(f"\n{_EXAMPLE_GROUPS}\n", f"\n# {_EXAMPLE_GROUPS}\n")
    )


def _are_images(data: str) -> bool:
    """Whether the data are images, as far as their name says."""
    return data == _EXAMPLE_DATA or data.startswith("images:")


def spec_to_plain(spec: StudySpec) -> dict[str, Any]:
    """A study as dictionaries, lists, texts and numbers only, ready for TOML or JSON."""
    plain: dict[str, Any] = _plain(asdict(spec))
    del plain["model"]["trust"]
    return plain


def spec_from_plain(table: Mapping[str, Any], trust: Trust = NO_TRUST) -> StudySpec:
    """The study that ``spec_to_plain`` made plain, or that a TOML file spells out, its model trusted as said here."""
    _check_keys(table, StudySpec, "")
    values = {name: _part(value, name) for name, value in table.items()}
    _check_complete(values, StudySpec, "")
    return StudySpec(**values | {"model": replace(values["model"], trust=trust)})


def _part(value: Any, name: str) -> Any:
    if name not in _SECTIONS:
        return value
    if name != "methods":
        return _section(value, name)
    if not isinstance(value, (list, tuple)):
        raise InvalidTypeError(argument="methods", must="be a list of names or of [[methods]] tables", got=shown(value))
    return tuple(_section(entry, name) for entry in value)


def _section(value: Any, name: str) -> Any:
    kind = _SECTIONS[name]
    if isinstance(value, str) and name in _SHORT:
        value = {_SHORT[name]: value}
    if not isinstance(value, Mapping):
        raise InvalidTypeError(argument=name, must="be a table of settings", got=shown(value))
    _check_keys(value, kind, f"{name}.")
    _check_complete(value, kind, f"{name}.")
    return kind(**value)


def _check_complete(values: Mapping[str, Any], kind: type, path: str) -> None:
    for field in keys_of(kind):
        required = field.default is MISSING and field.default_factory is MISSING
        if required and field.name not in values:
            raise InvalidValueError(argument=f"{path}{field.name}", must="be given", got="nothing")


def _check_keys(values: Mapping[str, Any], kind: type, path: str) -> None:
    known = [field.name for field in keys_of(kind)]
    for key in values:
        if key not in known:
            raise InvalidValueError(f"is no key of a study.{_hint(key, known, path)}", argument=f"{path}{key}")


def _hint(key: str, known: list[str], path: str) -> str:
    """The nearest key of the same section, else of any, else all of the section."""
    if near := difflib.get_close_matches(key, known, n=1, cutoff=0.6):
        return f" Did you mean `{path}{near[0]}`?"
    elsewhere = {full.rpartition(".")[2]: full for full in reversed(list(_every_key()))}
    if near := difflib.get_close_matches(key, elsewhere, n=1, cutoff=0.8):
        return f" Did you mean `{elsewhere[near[0]]}`?"
    return f" {f'[{path[:-1]}]' if path else 'It'} has {', '.join(known)}."


def _every_key() -> Iterator[str]:
    yield from (field.name for field in keys_of(StudySpec))
    for section, kind in _SECTIONS.items():
        yield from (f"{section}.{field.name}" for field in keys_of(kind))


def _plain(value: Any) -> Any:
    """Lists for tuples and dictionaries for options; options that are empty are left out."""
    if isinstance(value, (dict, Options)):
        return {name: _plain(item) for name, item in value.items() if item != {}}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value
