"""A file of results → what the page reads of it: one row per input, and its model and data as far as they are used."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import HoldfastError, StudyError
from holdfast.inputs.data.dataset import Dataset
from holdfast.inputs.inputs import Inputs
from holdfast.report.card import Plain
from holdfast.smoothing import SmoothedAccuracy, smoothed_accuracy
from holdfast.study.records import Listed, ordered, unpack_text
from holdfast.study.spec import GroupKey, StudySpec, Trust
from holdfast.study.store import OF_STUDY, Store, group_rows
from holdfast.study.worker import Skipped, bind_input, item_rng, study_inputs
from holdfast.types import MaskedModel, Progress
from holdfast.validation import check_whole
from holdfast.words import class_label, shortened

Floats = NDArray[np.float64]

UNREADABLE = "Not shown: the input cannot be read."
UNKNOWN = "Not shown: the results have no fingerprint of the input to check it by."
CHANGED = "Not shown: the data now hold a different input in this place."

KEEP_PROBABILITIES = (1.0, 0.75, 0.5, 0.25, 0.125)

_WITHOUT = "Leave the model out of the page with `--no-model` (`use_model=False`)."


@dataclass(frozen=True)
class Source:
    """What a page can be told about inputs beyond what is stored.

    ``data`` is None where they cannot be read and no model was asked for, ``inputs`` is None without the model, and
    ``listing`` is what the inputs held when they were explained.
    """

    spec: StudySpec
    data: Dataset | None
    inputs: Inputs | None
    listing: Mapping[int, Listed]

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the model's classes; empty without the model."""
        return () if self.inputs is None else self.inputs.classes

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of labels: the model's classes; of contexts, whose answers are no classes, those of the data."""
        return self.data.classes if self.data is not None and self.data.kind == "context" else self.classes

    def input(self, index: int, bound: MaskedModel | None = None) -> tuple[Any, str | None]:
        """One input as the data give it, if it is the one that the results are about; else None, and why.

        That was checked where it is ``bound`` to the model; elsewhere what it holds is compared with what it held.
        """
        if self.data is None:
            return None, UNREADABLE
        before = self.listing.get(index, Listed(None, None)).digest
        if bound is None and before is None:
            return None, UNKNOWN
        try:
            if bound is None and before != self.data.digest(index):
                return None, CHANGED
            return self.data.inputs[index], None
        except (OSError, ValueError, LookupError):
            return None, UNREADABLE

    def bind(self, store: Store, index: int) -> MaskedModel | None:
        """The input as a function of masks, if it and the model are those that the results are about."""
        if self.inputs is None:
            return None
        bound = bind_input(self.spec, self.inputs, index)
        if isinstance(bound, Skipped):
            raise StudyError(f"Input {index} has results, but would be left out now: {bound.reason}. {_WITHOUT}")
        difference = store.first_difference(index, bound)
        if difference is not None:
            what, before, now = difference
            must = f"must be the same as when it was explained ({before}), got {now}"
            raise StudyError(f"The {what} of input {index} in {str(store.path)!r} {must}. {_WITHOUT}")
        return bound


def open_source(store: Store, *, use_model: bool, trust: Trust, inputs: Inputs | None = None) -> Source:
    """The model and the data of a study; the data alone, if they can be read, where no model is wanted.

    ``inputs`` are those of the study if they are loaded already.
    """
    spec, listing = store.spec.trusting(trust), store.listing()
    try:
        every = study_inputs(spec) if inputs is None else inputs
        if use_model:
            every.check_kinds()
        return Source(spec, every.dataset, every if use_model else None, listing)
    except (HoldfastError, OSError) as error:
        if not use_model:
            return Source(spec, None, None, listing)
        message = f"The model or the data of {str(store.path)!r} cannot be loaded: {error} {_WITHOUT}"
        raise StudyError(message) from error


def study_accuracy(
    spec: StudySpec,
    *,
    n_inputs: int,
    keep_probabilities: Sequence[float] = KEEP_PROBABILITIES,
    n_samples: int = 32,
    inputs: Inputs | None = None,
    progress: Progress | bool | None = None,
) -> SmoothedAccuracy:
    """Measure the accuracy of a study's model against the keep probability, on labelled inputs in the study's order.

    The inputs are masked as the study masks them; those that it would leave out are left out here too.
    They may be more than the study's own. ``inputs`` are those of the study if they are loaded already.
    """
    wanted = check_whole(n_inputs, "n_inputs", minimum=1)
    every = study_inputs(spec) if inputs is None else inputs
    if every.gives_numbers:
        raise StudyError(f"{spec.model.spec!r} returns numbers instead of classes, so it has no accuracy.")
    models: list[MaskedModel] = []
    labels: list[float] = []
    for index in ordered(spec, len(every)):
        if (label := every.label(index)) is None or isinstance(model := bind_input(spec, every, index), Skipped):
            continue
        models.append(model)
        labels.append(label)
        if len(models) == wanted:
            break
    if not models:
        raise StudyError(f"{spec.data.spec!r} has no labelled input to measure accuracy on.")
    options: dict[str, Any] = {"n_samples": n_samples, "progress": progress, "rng": item_rng(spec, "accuracy")}
    return smoothed_accuracy(lambda model: model, models, labels, keep_probabilities=keep_probabilities, **options)


MOST_INPUTS = 20_000  # the table of a page holds this many inputs; means are over all of them whatever the page shows
_INPUTS = f"SELECT input, name, label, prediction FROM inputs WHERE {OF_STUDY} ORDER BY input LIMIT ?"


@dataclass(frozen=True, eq=False)
class GroupColumns:
    """The items of one method, fraction and keep probability; NaN where an input has none.

    ``rates`` (R, n) has no rows where nothing is certified input by input. ``consistent`` (n,) is 1 if the explanation
    alone has the prediction of the full input, else 0. ``flips`` (n,) is the size of the smallest addition known to
    change the prediction, infinite where none was found; whether the study looked for any is ``searched``.
    """

    key: GroupKey
    rates: Floats
    consistent: Floats
    flips: Floats
    searched: bool


@dataclass(frozen=True, eq=False)
class InputRows:
    """The inputs of a study that the page lists, by their numbers."""

    inputs: NDArray[np.int64]
    names: tuple[str | None, ...]
    labels: tuple[float | None, ...]
    predictions: tuple[Any, ...]
    groups: tuple[GroupColumns, ...]

    @property
    def least_smoothed(self) -> list[GroupColumns]:
        """The groups of the largest keep probability: of the model itself, where it was studied."""
        keep = max((group.key.keep_probability for group in self.groups), default=1.0)
        return [group for group in self.groups if group.key.keep_probability == keep]

    def plain(self, source: Source) -> Plain:
        """The table of the page, column by column."""
        names = list(self.names)
        if source.data is not None and isinstance(source.data.inputs, tuple):  # of a text without a name, its beginning
            for place in (place for place, name in enumerate(names) if name is None):
                value, _ = source.input(int(self.inputs[place]))
                names[place] = shortened(value) if isinstance(value, str) else None
        right = [
            None if label is None or type(prediction) is not int else int(label == prediction)
            for label, prediction in zip(self.labels, self.predictions, strict=True)
        ]
        groups = []
        for group in self.groups:
            rates, flips = [_numbers(rates) for rates in group.rates], _numbers(group.flips) if group.searched else None
            consistent = _numbers(group.consistent)
            groups.append({**group.key._asdict(), "rates": rates, "consistent": consistent, "witness": flips})
        return {
            "input": self.inputs.tolist(),
            "name": names,
            "prediction": [class_label(prediction, source.classes) for prediction in self.predictions],
            "label": [class_label(label, source.labels) for label in self.labels],
            "right": right,
            "groups": groups,
        }


def _numbers(values: Floats) -> list[float | int | None]:
    """Short numbers, and None for what is not known."""
    rounded = np.round(values, 4).tolist()
    return [None if not np.isfinite(x) else int(x) if x == int(x) else x for x in rounded]


def read_rows(store: Store) -> InputRows:
    """Read the rows of a study, item by item, without decoding its certificates."""
    rows = list(store.query(_INPUTS, json.dumps(store.inputs()), MOST_INPUTS))
    inputs = np.array([row[0] for row in rows], dtype=np.int64)
    groups = [_read_group(store, key, inputs) for key in store.spec.groups]
    names, labels = tuple(row[1] for row in rows), tuple(row[2] for row in rows)
    stored = tuple(group for group in groups if np.isfinite(group.consistent).any())
    return InputRows(inputs, names, labels, tuple(json.loads(row[3]) for row in rows), stored)


def _read_group(store: Store, key: GroupKey, inputs: NDArray[np.int64]) -> GroupColumns:
    radii = store.spec.certify.item_radii
    place = {int(index): i for i, index in enumerate(inputs)}
    row_of = {radius: i for i, radius in enumerate(radii)}
    rates = np.full((len(radii), len(inputs)), np.nan)
    consistent, flips = np.full((2, len(inputs)), np.nan)
    for index, radius, rate in group_rows(store, key, "input, radius, rate", by_radius=True) if radii else ():
        if index in place:
            rates[row_of[radius], place[index]] = rate
    for index, is_consistent, witness in group_rows(store, key, "input, consistent, witness"):
        if index in place:
            consistent[place[index]] = is_consistent
            if witness is not None:
                n_added = json.loads(unpack_text(witness))["n_added"]
                flips[place[index]] = np.inf if n_added is None else n_added
    return GroupColumns(key, rates, consistent, flips, store.spec.witness)
