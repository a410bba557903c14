"""Models and their data → inputs bound and ready, loaded when they are first asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from holdfast.errors import HoldfastError, InvalidValueError, MissingExtraError
from holdfast.explore.entries import PATCHES, Entry, bundled_entries, given_entry
from holdfast.explore.paced import Pace
from holdfast.explore.recent import Recent
from holdfast.explore.view import View
from holdfast.extras import check_installed, needed
from holdfast.inputs import data, models
from holdfast.inputs.data.dataset import Dataset
from holdfast.inputs.inputs import Inputs, bind, is_blank
from holdfast.inputs.source import Once
from holdfast.report.page.pictures import thumbnail
from holdfast.types import MaskedModel
from holdfast.validation import check_name
from holdfast.words import method_label, shortened

_MOST_BOUND = 64
_MOST_LETTERS = 60


class Workbench:
    """All that can be explored.

    Models are loaded and inputs are bound by whoever has a turn, so never two at a time; data may be
    read by anybody.
    """

    def __init__(self, entries: Iterable[Entry], inputs: Mapping[str, Inputs] | None = None) -> None:
        self.entries: Mapping[str, Entry] = {entry.spec: entry for entry in entries}
        shared = {entry.data: Once(partial(data.load, entry.data)) for entry in self.entries.values()}
        self._inputs = {entry.spec: _inputs_of(entry, shared[entry.data]) for entry in self.entries.values()}
        self._inputs |= inputs or {}
        self._paces: dict[str, Pace] = {}
        self._bound = Recent[MaskedModel](most=_MOST_BOUND)

    def inputs(self, spec: str) -> Inputs:
        """The inputs of a model; it is loaded when the first one is bound, by whoever has a turn."""
        return self._inputs[spec]

    def bound(self, view: View) -> MaskedModel:
        """The input of a view as a function of masks; to be asked for by whoever has a turn."""
        model = self.known(view)
        if model is None:
            inputs, entry = self._inputs[view.model], self.entries[view.model]
            value = inputs.raw(view.input)
            if is_blank(value):
                hint = "Choose another input."
                raise InvalidValueError(argument="input", must="be a text with words", got="an empty one", hint=hint)
            model = replace(inputs, features=entry.groups, fill=entry.fill(view.fill).value).bind(value)
            self._bound.put((view.model, view.input, view.fill), model)
        return model

    def known(self, view: View) -> MaskedModel | None:
        """The same if it was asked for lately; anybody may ask."""
        return self._bound.get((view.model, view.input, view.fill))

    def pace(self, spec: str) -> Pace:
        """How many masks of a model are computed at a time."""
        return self._paces.setdefault(spec, Pace())

    def describe(self) -> list[dict[str, Any]]:
        """The models as the page lists them."""
        return [self._describe(entry) for entry in self.entries.values()]

    def _describe(self, entry: Entry) -> dict[str, Any]:
        inputs, note = self._inputs[entry.spec], entry.note
        try:
            check_installed(entry.name, needed(entry.spec, entry.data))
            n_inputs = len(inputs)
        except MissingExtraError as error:
            n_inputs, note = 0, str(error)  # the other models can be explored all the same
        return {
            "spec": entry.spec,
            "name": entry.name,
            "kind": entry.kind,
            "classes": list(inputs.classes if inputs.model.is_made else entry.classes),
            "n_inputs": n_inputs,
            "methods": [{"name": name, "label": method_label(name)} for name in entry.methods],
            "fills": [{"name": choice.name, "label": choice.label} for choice in entry.fills],
            "default_fill": entry.fills[0].name,
            "note": note,
        }

    def list_inputs(self, spec: str, first: int, count: int) -> dict[str, Any]:
        """Some inputs of a model, with what they look like at a glance."""
        dataset = self._inputs[spec].dataset
        numbers = range(first, min(len(dataset), first + count))
        return {"inputs": [_describe_input(dataset, index) for index in numbers], "total": len(dataset)}


def open_workbench(
    model: str | None = None,
    dataset: str | None = None,
    *,
    device: str | None = None,
    kind: str | None = None,
    trusted: Sequence[str] = (),
    groups: Any = None,
) -> Workbench:
    """The workbench of a model and its data, loaded and tried on the first input; or of all that is bundled.

    Parameters
    ----------
    model, dataset : str, optional
        What ``holdfast.bind`` is given. A bundled model has data of its own.
    device, kind, trusted : optional
        What the model is loaded with.
    groups : optional
        What a feature is; the default of the kind if None.

    Examples
    --------
    >>> sorted({entry.kind for entry in open_workbench().entries.values()})
    ['image', 'table', 'text']
    """
    if model is None:
        if dataset is not None:
            must = "come with `--model`: say which model is to be explored on them"
            raise InvalidValueError(argument="--data", must=must)
        return Workbench(bundled_entries(device))
    given: dict[str, Any] = {"device": device, "kind": kind, "trusted": tuple(trusted)}
    options = {name: value for name, value in given.items() if value not in (None, ())}
    if dataset is None:
        scheme, _, name = model.partition(":")
        if scheme != "bundled":
            raise InvalidValueError(argument="--data", must="be given with `--model`: the inputs to explore it on")
        entries = {entry.name: entry for entry in bundled_entries(device)}
        entry = entries[check_name(name, "bundled:", entries)]
        if groups is None and not options.keys() - {"device"}:
            return Workbench([entry])
        dataset, groups = entry.data, groups or entry.groups
    inputs = bind(model, dataset, features=groups, **options)
    first = inputs.first(1)
    entry = given_entry(model, dataset, inputs.classifier, groups=groups, options=options, bound=first[0])
    if inputs.kind == "image" and groups is None:
        with suppress(HoldfastError):  # whether a model is a vision transformer, which can leave out patches
            replace(first, fill=PATCHES.value)[0]
            entry = replace(entry, fills=(*entry.fills, PATCHES))
    return Workbench([entry], {model: inputs})


def _inputs_of(entry: Entry, dataset: Once[Dataset]) -> Inputs:
    model = Once(lambda: models.load(entry.spec, **entry.options))
    return Inputs(entry.spec, entry.data, model, dataset, features=entry.groups)


def _describe_input(dataset: Dataset, index: int) -> dict[str, Any]:
    label = dataset.label_of(index)
    return {
        "id": str(index),
        "name": dataset.name_of(index),
        "label": None if label is None or label >= len(dataset.classes) else dataset.classes[label],
        "short": _glance(dataset, index),
    }


def _glance(dataset: Dataset, index: int) -> str | None:
    try:
        one = dataset.inputs[index]
    except Exception:  # readers of files raise many things
        return None  # one that cannot be read says so when it is chosen
    if isinstance(one, str):
        return shortened(one, _MOST_LETTERS)
    if dataset.kind == "image":
        return thumbnail(one)
    cells = np.asarray(one, dtype=object).ravel()[:3]
    return ", ".join(f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in cells) + ", …"
