"""Questions with the passages they are answered from, in a file of JSON lines or as objects → a ``Dataset``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.errors import ArgumentError, InvalidTypeError, InvalidValueError
from holdfast.inputs.data.dataset import UNKNOWN, Dataset, number_labels
from holdfast.judging import cited_in
from holdfast.types import Mask
from holdfast.validation import MOST_UNPACKED, check_label, check_list, is_number, read_text, shown

KEYS: Mapping[str, tuple[str, ...]] = {
    "question": ("question", "user_input"),
    "passages": ("passages", "retrieved_contexts", "contexts"),
    "answer": ("answer", "response"),
    "label": ("label", "reference", "ground_truth"),
    "cited": ("cited",),
    "accepted": ("accepted",),
}
"""What a context holds → the keys it may be under: ours, and those of ragas."""

_MOST_PASSAGES, _MOST_LINE = 10_000, 1 << 24
_CITED = "be numbers of passages, from 1, or one true or false for each passage"


@dataclass(frozen=True)
class ContextInput:
    """A question, the passages that it is answered from, and what is known of an answer.

    Attributes
    ----------
    question : str
        What is asked.
    passages : tuple of str
        What it is answered from; each is a feature.
    cited : tuple of int or None
        Numbers, from 1, of the passages that the answer cites; None if the data do not say.
    answer : str or None
        The answer that a user saw, which is to stay.
    accepted : tuple of str
        Other forms of that answer, which count as the same.
    label : str or None
        What is right, if the data say.

    Examples
    --------
    >>> context = ContextInput("How tall?", ("It rains.", "It is 84 metres tall."), cited=(2,), answer="84 metres")
    >>> context.cited_mask().tolist()
    [False, True]
    """

    question: str
    passages: tuple[str, ...]
    cited: tuple[int, ...] | None = None
    answer: str | None = None
    accepted: tuple[str, ...] = ()
    label: str | None = None

    def cited_mask(self) -> Mask:
        """The cited passages as a mask of all, or those that the answer cites; an error where nothing is cited."""
        mask = np.zeros(len(self.passages), dtype=bool)
        if self.cited is None and self.answer is not None:
            mask = np.array(cited_in(self.answer, len(self.passages), lenient=True))
        if not self.cited and not mask.any():
            got = "none" if self.cited is None else "an empty list"
            raise InvalidValueError(argument="cited", must="name at least one passage of this context", got=got)
        if not self.cited:
            return mask
        mask[np.array(self.cited) - 1] = True
        return mask


def load_contexts(place: str) -> Dataset:
    """Read a UTF-8 file of JSON lines: ``question``, ``passages``, and if known ``id``, ``cited``, ``answer``, ….

    Further keys are left aside. A context is called by its ``id``, or by its line.
    """
    path, contexts, names = Path(place), list[ContextInput](), list[str]()
    if not path.is_file():
        must = "be followed by a file of JSON lines"
        raise InvalidValueError(argument="contexts:", must=must, got=f"{place!r}, which is not a file")
    for number, line in enumerate(read_text(path, most=MOST_UNPACKED).split("\n"), start=1):
        if not line.strip():
            continue
        where = f"line {number} of {place!r}"
        content = _parse_line(line, where)
        contexts.append(read_context(content, where))
        names.append(_name_of(content, where) or f"{path.name} line {number}")
    if not contexts:
        raise InvalidValueError(f"{place!r} must have at least one line with a context, got none.")
    return contexts_dataset(f"contexts:{place}", contexts, names)


def contexts_of(name: str, entries: Iterable[Any]) -> Dataset:
    """The same of live objects: mappings, samples of ragas, or ``ContextInput`` values."""
    contexts, names = list[ContextInput](), list[str | None]()
    for number, entry in enumerate(map(_plain, entries)):
        where = f"input {number}"
        contexts.append(entry if isinstance(entry, ContextInput) else read_context(entry, where))
        names.append(_name_of(entry, where) if isinstance(entry, Mapping) else None)
    has_names = any(called is not None for called in names)
    known = [str(number) if called is None else called for number, called in enumerate(names)]
    return contexts_dataset(name, contexts, known if has_names else None)


def contexts_dataset(name: str, contexts: Sequence[ContextInput], names: Sequence[str] | None) -> Dataset:
    """Contexts under these names, of which no two are the same; their labels are numbered in alphabetical order."""
    places: dict[str, int] = {}
    for place, called in enumerate(names or ()):
        if places.setdefault(called, place) != place:
            got = f"{called!r} for inputs {places[called]} and {place}"
            raise InvalidValueError(f"Every context of {name!r} must have an `id` of its own, got {got}.")
    known = {place: context.label for place, context in enumerate(contexts) if context.label is not None}
    labels, classes = np.full(len(contexts), UNKNOWN, dtype=np.intp), tuple(sorted(set(known.values())))
    if known:
        labels[[*known]], classes = number_labels([*known.values()], classes)
    return Dataset(name, "context", tuple(contexts), labels, classes, names=None if names is None else tuple(names))


def is_context(entry: Any) -> bool:
    """Whether an object is a context, as far as its keys show: it has a question that is a text."""
    content = _plain(entry)
    asked = isinstance(content, Mapping) and any(isinstance(content.get(key), str) for key in KEYS["question"])
    return asked or isinstance(content, ContextInput)


def _plain(entry: Any) -> Any:
    """A sample of ragas, which is a model of pydantic, as a mapping; all else as it is."""
    return entry.model_dump() if hasattr(entry, "model_dump") else entry


def read_context(content: Any, where: str) -> ContextInput:
    """The context that a mapping describes; errors say ``where`` it is."""
    if not isinstance(content, Mapping):
        raise InvalidTypeError(
            f"{where.capitalize()} must be an object with a question and passages, got {shown(content)}."
        )
    try:
        return _check_context({name: _value_of(content, keys) for name, keys in KEYS.items()})
    except ArgumentError as error:
        raise type(error)(f"In {where}, {error}") from error


def _check_context(values: Mapping[str, Any]) -> ContextInput:
    must = "be a list of texts, none of them empty"
    question = _check_text(values["question"], "question")
    entries = check_list(values["passages"], "passages", must, most=_MOST_PASSAGES)
    passages = tuple(_check_text(_text_of(entry), "passages", must) for entry in entries)
    if not passages:
        raise InvalidValueError(argument="passages", must="hold at least one passage", got="none")
    forms = [] if values["accepted"] is None else check_list(values["accepted"], "accepted", "be a list of texts")
    label = str(values["label"]) if is_number(values["label"]) else values["label"]
    return ContextInput(
        question,
        passages,
        None if values["cited"] is None else _check_cited(values["cited"], len(passages)),
        None if values["answer"] is None else _check_text(values["answer"], "answer"),
        tuple(_check_text(form, "accepted", "be a list of texts") for form in forms),
        None if label is None else _check_text(label, "label", "be a text or a number"),
    )


def _check_cited(value: Any, n_passages: int) -> tuple[int, ...]:
    entries = check_list(value, "cited", _CITED, most=_MOST_PASSAGES)
    if any(isinstance(entry, (bool, np.bool_)) for entry in entries):
        if len(entries) != n_passages or not all(isinstance(entry, (bool, np.bool_)) for entry in entries):
            raise InvalidValueError(argument="cited", must=_CITED, got=shown(value))
        return tuple(number for number, is_cited in enumerate(entries, start=1) if is_cited)
    numbers = set[int]()
    for entry in entries:
        if not is_number(entry) or entry % 1 != 0 or not 1 <= entry <= n_passages:
            must = f"be numbers of passages, from 1 to {n_passages}"
            raise InvalidValueError(argument="cited", must=must, got=shown(entry))
        numbers.add(int(entry))
    return tuple(sorted(numbers))


def _value_of(content: Mapping[Any, Any], keys: tuple[str, ...]) -> Any:
    """What is under the first of the keys that there is something under."""
    return next((content[key] for key in keys if content.get(key) is not None), None)


def _check_text(value: Any, name: str, must: str = "be a text that is not empty") -> str:
    if not isinstance(value, str):
        raise InvalidTypeError(argument=name, must=must, got="nothing" if value is None else shown(value))
    if not value.strip():
        raise InvalidValueError(argument=name, must=must, got=shown(value))
    try:
        value.encode()
    except UnicodeEncodeError as error:  # half of a surrogate pair, which JSON can spell
        raise InvalidValueError(argument=name, must="be valid Unicode", got=shown(value)) from error
    return value


def _text_of(passage: Any) -> Any:
    """The text of a passage, or of a document of LangChain or LlamaIndex."""
    attributes = (getattr(passage, name, None) for name in ("page_content", "text"))
    return (
        passage if isinstance(passage, str) else next((text for text in attributes if isinstance(text, str)), passage)
    )


def _name_of(content: Mapping[Any, Any], where: str) -> str | None:
    """The ``id`` of a context: a text or a whole number."""
    value = content.get("id")
    if value is None:
        return None
    if not isinstance(value, str) and not (is_number(value) and value % 1 == 0):
        raise InvalidTypeError(f"In {where}, `id` must be a text or a whole number, got {shown(value)}.")
    try:
        return check_label(str(value), "id")
    except ArgumentError as error:
        raise type(error)(f"In {where}, {error}") from error


def _parse_line(line: str, where: str) -> Any:
    if len(line) > _MOST_LINE:
        raise InvalidValueError(f"{where.capitalize()} must have at most {_MOST_LINE} characters, got {len(line)}.")
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:  # what is no JSON, and numbers of thousands of digits
        reason = str(error)
    hint = ""
    with suppress(ValueError, RecursionError):
        json.loads(line.rstrip().rstrip(","))
        hint = " JSON lines have no commas between them."
    raise InvalidValueError(f"{where.capitalize()} must be a JSON object: {reason}.{hint}")
