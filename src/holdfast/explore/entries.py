"""Models that can be explored → what is known of each before it is loaded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast.attribution.methods import METHODS
from holdfast.inputs.models.bundled import BOX, BundledModel, NamedRows, available
from holdfast.inputs.models.classifier import Classifier
from holdfast.inputs.models.engines import FunctionOnTexts
from holdfast.types import Differentiable, MaskedModel

WITH_GRADIENTS = ("integrated_gradients", "mfaba")
"""Methods that need more than masks."""


@dataclass(frozen=True)
class FillChoice:
    """What hidden features may look like: a name, words for it, and what ``bind`` is given (None: its own default)."""

    name: str
    label: str
    value: Any


_ZERO = FillChoice("zero", "zero, in the numbers the model sees", None)
_IMAGE = (
    _ZERO,
    FillChoice("mean", "the image's own mean colour", "mean"),
    FillChoice("blur", "the image, blurred", "blur"),
    FillChoice("noise", "noise", "noise"),
)
PATCHES = FillChoice("drop", "nothing: hidden patches are left out", "drop")
_TOKENS = (
    FillChoice("drop", "nothing: hidden tokens are not attended to", None),
    FillChoice("mask", "the mask token", "mask"),
    FillChoice("pad", "the pad token", "pad"),
    FillChoice("delete", "nothing: hidden words are deleted", "delete"),
)
_WORDS = (
    FillChoice("delete", "nothing: hidden words are deleted", None),
    FillChoice("dots", "[…] in place of a hidden word", "replace:[…]"),
)
_ROWS = (
    FillChoice("mean", "the mean, or the most frequent value", None),
    FillChoice("mode", "the most frequent value", "mode"),
    FillChoice("background", "other rows, averaged over", "background"),
)
_MEANS = FillChoice("mean", "the mean of the training rows", None)
_NUMBERS = FillChoice("zero", "zero", 0.0)


@dataclass(frozen=True)
class Entry:
    """A model and the inputs it is explored on.

    Attributes
    ----------
    spec, data : str
        What ``holdfast.models.load`` and ``holdfast.data.load`` are given.
    name, note : str
        What it is called, and what it is, in one line.
    kind : {"image", "text", "table"}
        What it classifies.
    classes : tuple of str
        The names of its classes, as far as they are known before it is loaded.
    methods : tuple of str
        Those that work on it.
    fills : tuple of FillChoice
        What hidden features may look like, the default first.
    groups : object
        What a feature is; None for the default of the kind.
    options : mapping
        What else the model is loaded with.
    """

    spec: str
    data: str
    name: str
    note: str
    kind: str
    classes: tuple[str, ...]
    methods: tuple[str, ...]
    fills: tuple[FillChoice, ...]
    groups: Any = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def fill(self, name: str | None) -> FillChoice:
        """The choice of a name; the default if there is none."""
        return next(choice for choice in self.fills if name in (None, choice.name))


def bundled_entries(device: str | None = None) -> tuple[Entry, ...]:
    """The models that come with holdfast; nothing is loaded.

    Examples
    --------
    >>> [entry.kind for entry in bundled_entries() if entry.name == "cancer-forest"]
    ['table']
    """
    cards = sorted(available(), key=lambda card: (card.name != "digits-vit", card.name))
    return tuple(_bundled(card, device) for card in cards)


def _bundled(card: BundledModel, device: str | None) -> Entry:
    is_torch = "config.json" in card.files
    config = json.loads((BOX / card.name / "config.json").read_text(encoding="utf-8")) if is_torch else {}
    labels = config.get("id2label", {})
    fills: tuple[FillChoice, ...] = (_MEANS, _NUMBERS)
    if card.kind == "image":
        fills = (*_IMAGE, PATCHES) if config.get("model_type") == "vit" else _IMAGE
    elif card.kind == "text":
        fills = _TOKENS if is_torch else _WORDS
    return Entry(
        spec=f"bundled:{card.name}",
        data=card.data,
        name=card.name,
        note=card.description,
        kind=card.kind,
        classes=tuple(labels[key] for key in sorted(labels, key=int)) or tuple(card.settings.get("classes", ())),
        methods=_methods(is_torch),
        fills=fills,
        groups="words" if card.kind == "text" else None,
        options={"device": device} if device and is_torch else {},
    )


def given_entry(
    spec: str,
    data: str,
    classifier: Classifier,
    *,
    groups: Any,
    options: Mapping[str, Any],
    bound: MaskedModel | None = None,
) -> Entry:
    """The entry of a model that was loaded; an input bound to it shows whether it has gradients."""
    return Entry(
        spec=spec,
        data=data,
        name=spec.partition(":")[2].rstrip("/").rpartition("/")[2] or spec,
        note=f"{spec} on {data}",
        kind=classifier.kind,
        classes=classifier.classes,
        methods=_methods(isinstance(bound, Differentiable)),
        fills=_given_fills(classifier),
        groups=groups,
        options=options,
    )


def _methods(has_gradients: bool) -> tuple[str, ...]:
    return tuple(name for name in METHODS if has_gradients or name not in WITH_GRADIENTS)


def _given_fills(classifier: Classifier) -> tuple[FillChoice, ...]:
    if classifier.kind == "table":
        return (_MEANS, _NUMBERS) if isinstance(classifier.engine, NamedRows) else _ROWS
    if classifier.kind == "text":
        return _WORDS if isinstance(classifier.engine, FunctionOnTexts) else _TOKENS
    return _IMAGE
