"""Models and their data → inputs bound and ready, loaded when they are first asked for."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from holdfast.errors import InvalidValueError, MissingExtraError
from holdfast.explore.entries import Entry
from holdfast.explore.paced import Pace
from holdfast.explore.recent import Recent
from holdfast.explore.view import View
from holdfast.extras import check_installed, needed
from holdfast.inputs import data, models
from holdfast.inputs.data.dataset import Dataset
from holdfast.inputs.models.classifier import Classifier
from holdfast.report.page.pictures import thumbnail
from holdfast.types import MaskedModel
from holdfast.words import method_label, shortened

_MOST_BOUND = 64
_MOST_LETTERS = 60


class Workbench:
    """All that can be explored.

    Models are loaded and inputs are bound by whoever has a turn, so never two at a time; data may be
    read by anybody.
    """

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.entries: Mapping[str, Entry] = {entry.spec: entry for entry in entries}
        self._classifiers: dict[str, Classifier] = {}
        self._paces: dict[str, Pace] = {}
        self._bound = Recent[MaskedModel](most=_MOST_BOUND)
        self._data: dict[str, Dataset] = {}
        self._reading = threading.Lock()

    def dataset(self, spec: str) -> Dataset:
        """The inputs of a model."""
        entry = self.entries[spec]
        with self._reading:
            if entry.data not in self._data:
                self._data[entry.data] = data.load(entry.data)
            return self._data[entry.data]

    def put(self, entry: Entry, classifier: Classifier, dataset: Dataset) -> None:
        """Keep what was loaded already."""
        self._classifiers[entry.spec], self._data[entry.data] = classifier, dataset

    def classifier(self, spec: str) -> Classifier:
        """A model, loaded on first use; to be asked for by whoever has a turn."""
        if spec not in self._classifiers:
            self._classifiers[spec] = models.load(spec, **self.entries[spec].options)
        return self._classifiers[spec]

    def bound(self, view: View) -> MaskedModel:
        """The input of a view as a function of masks; to be asked for by whoever has a turn."""
        known = self.known(view)
        if known is None:
            known = bind(self.classifier(view.model), self.dataset(view.model), self.entries[view.model], view)
            self._bound.put((view.model, view.input, view.fill), known)
        return known

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
        loaded, note = self._classifiers.get(entry.spec), entry.note
        try:
            check_installed(entry.name, needed(entry.spec, entry.data))
            n_inputs = len(self.dataset(entry.spec))
        except MissingExtraError as error:
            n_inputs, note = 0, str(error)  # the other models can be explored all the same
        return {
            "spec": entry.spec,
            "name": entry.name,
            "kind": entry.kind,
            "classes": list(entry.classes if loaded is None else loaded.classes),
            "n_inputs": n_inputs,
            "methods": [{"name": name, "label": method_label(name)} for name in entry.methods],
            "fills": [{"name": choice.name, "label": choice.label} for choice in entry.fills],
            "default_fill": entry.fills[0].name,
            "note": note,
        }

    def list_inputs(self, spec: str, first: int, count: int) -> dict[str, Any]:
        """Some inputs of a model, with what they look like at a glance."""
        dataset = self.dataset(spec)
        found = range(first, min(len(dataset), first + count))
        return {"inputs": [_describe_input(dataset, index) for index in found], "total": len(dataset)}


def bind(classifier: Classifier, dataset: Dataset, entry: Entry, view: View) -> MaskedModel:
    """One input as a function of masks, as the entry and the view say."""
    one = dataset.inputs[view.input]
    if isinstance(one, str) and not one.strip():
        raise InvalidValueError(
            argument="input", must="be a text with words", got="an empty one", hint="Choose another input."
        )
    rows = {} if dataset.background is None else {"background": dataset.background}
    return classifier.bind(one, groups=entry.groups, fill=entry.fill(view.fill).value, **rows)


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
