"""Models and their data → entries that can be explored, loaded when they are first asked for, and bound inputs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any, NamedTuple

from holdfast.attribution.methods import METHODS, NEEDS, lack_of
from holdfast.errors import HoldfastError, InvalidValueError, MissingExtraError
from holdfast.explore.requests import CITED, OWN, View, check_features, check_object
from holdfast.explore.scheduling import BatchSize
from holdfast.extras import check_installed, needed
from holdfast.inputs import data, models
from holdfast.inputs.data.dataset import PHOTO_GRID
from holdfast.inputs.inputs import Inputs, bind, is_blank
from holdfast.inputs.models.bundled import BOX, NamedRows, available
from holdfast.inputs.models.classifier import FunctionOnTexts
from holdfast.inputs.source import Once
from holdfast.report.card import glance
from holdfast.types import MaskedModel
from holdfast.validation import check_name, check_number, check_share, check_size, shown
from holdfast.words import class_label, method_label

MOST_SEED = 2**53 - 1  # seeds above would be rounded by the page, whose numbers are floats


class FillChoice(NamedTuple):
    """What hidden features may look like: a name, words for it, and what ``bind`` is given (None: its own default)."""

    name: str
    label: str
    value: Any


_IMAGE = (
    FillChoice("zero", "zero, after preprocessing", None),
    FillChoice("mean", "the image's own mean colour", "mean"),
    FillChoice("blur", "the image, blurred", "blur"),
    FillChoice("noise", "noise", "noise"),
)
_PATCHES = FillChoice("drop", "nothing: patches left out", "drop")
_TOKENS = (
    FillChoice("drop", "nothing: tokens not attended", None),
    FillChoice("mask", "the mask token", "mask"),
    FillChoice("pad", "the pad token", "pad"),
    FillChoice("delete", "nothing: words deleted", "delete"),
)
_WORDS = (
    FillChoice("delete", "nothing: words deleted", None),
    FillChoice("dots", "[…] for each hidden word", "replace:[…]"),
)
_ROWS = (
    FillChoice("mean", "mean or most frequent value", None),
    FillChoice("mode", "most frequent value", "mode"),
    FillChoice("background", "other rows, averaged over", "background"),
)
_PASSAGES = (FillChoice("drop", "nothing: passages left out", None),)
_NUMBERS = (FillChoice("mean", "mean of the training rows", None), FillChoice("zero", "zero", 0.0))


_INSIDE = {"resnet": ("activations",), "vit": ("attentions",), "roberta": ("attentions",)}
_INSIDE["efficientnet-lite0"] = ("activations",)
"""What bundled networks give beside gradients, by their type."""


@dataclass(frozen=True, eq=False)
class Entry:
    """A model and the inputs it is explored on.

    ``inputs`` is the model on its data, by the names they are loaded by; they are loaded when the first input is bound.
    ``options`` are what else the model is loaded with. The first of the ``fills`` is the default. ``gives`` says what
    methods may ask of the model, as ``NEEDS`` calls it; ``cites``, whether the inputs say which passages are cited.
    """

    inputs: Inputs
    note: str
    gives: tuple[str, ...]
    fills: tuple[FillChoice, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    cites: bool = False
    batch: BatchSize = field(default_factory=BatchSize)

    @property
    def name(self) -> str:
        spec = self.inputs.model_name
        return spec.partition(":")[2].rstrip("/").rpartition("/")[2] or spec

    @property
    def methods(self) -> tuple[str, ...]:
        cited = (CITED,) if self.cites else ()
        return (*cited, *(name for name, (_, need) in METHODS.items() if need in self.gives))

    def fill(self, name: str | None) -> Any:
        """What ``bind`` is given for the choice of a name; for the default if there is none."""
        return next(choice.value for choice in self.fills if name in (None, choice.name))

    def describe(self) -> dict[str, Any]:
        inputs, note = self.inputs, self.note
        try:
            check_installed(self.name, needed(inputs.model_name, inputs.data_name))
            n_inputs = len(inputs)
        except MissingExtraError as error:
            n_inputs, note = 0, str(error)  # the other models can be explored all the same
        return {
            "spec": inputs.model_name,
            "name": self.name,
            "n_inputs": n_inputs,
            "methods": [{"name": name, "label": method_label(name)} for name in self.methods],
            "fills": [{"name": choice.name, "label": choice.label} for choice in self.fills],
            "default_fill": self.fills[0].name,
            "note": note,
        }

    def preview(self, index: int) -> dict[str, Any]:
        """An input as the page lists it, with what it looks like at a glance."""
        dataset = self.inputs.dataset
        look, label = None, class_label(dataset.label_of(index), dataset.classes)
        with suppress(Exception):  # readers of files raise many things; it is told when the input is chosen
            look = glance(dataset.inputs[index], dataset.kind)
        return {"id": str(index), "name": dataset.name_of(index), "label": label, "short": look}


def bundled_entries(device: str | None = None) -> tuple[Entry, ...]:
    """The models that come with holdfast; nothing is loaded."""
    entries = []
    shared = cache(lambda name: Once(partial(data.load, name)))  # models on the same data load them once
    for card in sorted(available(), key=lambda card: (card.name != "digits-vit", card.name)):
        path = BOX / card.name / "config.json"
        config = json.loads(path.read_text(encoding="utf-8")) if path.name in card.files else {}
        is_torch = card.kind == "image" or bool(config)
        fills = {"image": _IMAGE, "text": _TOKENS if is_torch else _WORDS, "table": _NUMBERS}[card.kind]
        options = {"device": device} if device and is_torch else {}
        spec = f"bundled:{card.name}"
        model = Once(partial(models.load, spec, **options))
        features = {"bundled:sentences": "words", "bundled:photos": PHOTO_GRID}.get(card.data)
        inputs = Inputs(spec, card.data, model, shared(card.data), features=features)
        fills = (*fills, _PATCHES) if config.get("model_type") == "vit" else fills
        gives = ["masks", *(["gradients"] if is_torch else [])]
        gives += _INSIDE.get(config.get("model_type", card.name), ())
        entries.append(Entry(inputs, card.description, tuple(gives), fills, options))
    return tuple(entries)


def loaded_entry(inputs: Inputs, options: Mapping[str, Any], bound: MaskedModel | None = None) -> Entry:
    """The entry of a model that was loaded with options; an input bound to it shows what it gives."""
    classifier = inputs.classifier
    text = _WORDS if isinstance(classifier.engine, FunctionOnTexts) else _TOKENS
    table = _NUMBERS if isinstance(classifier.engine, NamedRows) else _ROWS
    fills = {"image": _IMAGE, "text": text, "table": table, "context": _PASSAGES}[classifier.kind]
    note = f"{inputs.model_name} on {inputs.data_name}"
    gives = ("masks",) if bound is None else tuple(need for need in NEEDS if lack_of(bound, need) is None)
    cites = inputs.kind == "context" and any(context.cited for context in inputs.dataset.inputs)
    return Entry(inputs, note, gives, fills, options, cites)


class Workbench:
    """All that can be explored, by the names of the models; data may be read by anybody."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.entries: Mapping[str, Entry] = {entry.inputs.model_name: entry for entry in entries}

    def read_view(self, plain: Any) -> View:
        """The view that a JSON object describes; what it leaves out is as ``View`` has it."""
        fields = check_object(plain, "view", names=View.__dataclass_fields__)
        entry = self.entries[check_name(fields.get("model"), "model", self.entries)]
        method = check_name(fields.get("method", View.method), "method", (*entry.methods, OWN))
        if (method == OWN) != (fields.get("selected") is not None):
            raise InvalidValueError(argument="selected", must=f"be given for the method {OWN!r} only")
        number, must = fields.get("input"), f"be the id of an input, from '0' to '{len(entry.inputs) - 1}'"
        if not (isinstance(number, str) and re.fullmatch("[0-9]{1,15}", number) and int(number) < len(entry.inputs)):
            raise InvalidValueError(argument="input", must=must, got=shown(number))
        names = [choice.name for choice in entry.fills]
        fill = names[0] if fields.get("fill") is None else check_name(fields["fill"], "fill", names)
        keep, share = fields.get("keep_probability", 1.0), "be a number in (0, 1]"
        return View(
            model=entry.inputs.model_name,
            input=int(number),
            method=method,
            fraction=float(check_share(fields.get("fraction", View.fraction), "fraction")),
            fill=None if fill == names[0] else fill,
            keep_probability=float(check_number(keep, "keep_probability", share, lambda value: 0 < value <= 1)),
            seed=check_size(fields.get("seed", 0), "seed", minimum=0, most=MOST_SEED),
            selected=check_features(fields["selected"], "selected") if method == OWN else (),
        )

    def bind(self, view: View) -> MaskedModel:
        """The input of a view as a function of masks; to be asked for by whoever has a turn."""
        entry = self.entries[view.model]
        value = entry.inputs.raw(view.input)
        if is_blank(value):
            hint = "Choose another input."
            raise InvalidValueError(
                argument="input", must="be a text with at least one word", got="an empty one", hint=hint
            )
        return replace(entry.inputs, fill=entry.fill(view.fill)).bind(value)


def open_workbench(
    model: str | None = None, dataset: str | None = None, *, groups: Any = None, **options: Any
) -> Workbench:
    """The workbench of a model and its data, loaded and tried on the first input; or of all that is bundled.

    ``groups`` are the features and ``options`` what else ``holdfast.bind`` is given: a device, a kind, trusted types.
    A bundled model has data of its own.
    """
    bundled = Workbench(bundled_entries(options.get("device")))
    if model is None:
        settings = {"--data": dataset, "features": groups} | options | {"device": None}
        for argument in (name for name, value in settings.items() if value is not None):
            must = "come with `--model`, the model to explore"
            raise InvalidValueError(argument=argument, must=must)
        return bundled
    if dataset is None:
        if not model.startswith("bundled:"):
            raise InvalidValueError(argument="--data", must="be given with `--model`: the inputs to explore it on")
        entry = bundled.entries[check_name(model, "model", bundled.entries)]
        if groups is None and not options.keys() - {"device"}:
            return Workbench([entry])
        dataset, groups = entry.inputs.data_name, groups or entry.inputs.features
    inputs = bind(model, dataset, features=groups, **options)
    first = inputs.first(1)
    entry = loaded_entry(inputs, options, first[0])
    if inputs.kind == "image" and groups is None:
        with suppress(HoldfastError):  # whether a model is a vision transformer, which can leave out patches
            replace(first, fill=_PATCHES.value)[0]
            entry = replace(entry, fills=(*entry.fills, _PATCHES))
    return Workbench([entry])
