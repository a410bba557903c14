"""What the command line names → a workbench: the models that come with holdfast, or the one that is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from holdfast.errors import HoldfastError, InvalidValueError
from holdfast.explore.entries import PATCHES, Entry, bundled_entries, given_entry
from holdfast.explore.view import View
from holdfast.explore.workbench import Workbench, bind
from holdfast.inputs import data, models
from holdfast.validation import check_name


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
        What ``holdfast.models.load`` and ``holdfast.data.load`` are given. A bundled model has data of its own.
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
            raise InvalidValueError(
                argument="--data", must="come with `--model`: say which model is to be explored on them"
            )
        return Workbench(bundled_entries(device))
    asked = {"device": device, "kind": kind, "trusted": tuple(trusted)}
    options = {name: value for name, value in asked.items() if value not in (None, ())}
    if dataset is not None:
        return _open_one(model, dataset, groups=groups, options=options)
    entry = _find_bundled(model, device)
    if groups is None and not options.keys() - {"device"}:
        return Workbench([entry])
    return _open_one(model, entry.data, groups=groups or entry.groups, options=options)


def _find_bundled(model: str, device: str | None) -> Entry:
    """The entry of a bundled model, which has data of its own; an unknown name is answered with the nearest."""
    scheme, _, name = model.partition(":")
    if scheme != "bundled":
        raise InvalidValueError(argument="--data", must="be given with `--model`: the inputs to explore it on")
    entries = {entry.name: entry for entry in bundled_entries(device)}
    return entries[check_name(name, "bundled:", entries)]


def _open_one(model: str, dataset: str, *, groups: Any, options: dict[str, Any]) -> Workbench:
    classifier, inputs = models.load(model, **options), data.load(dataset)
    if classifier.kind != inputs.kind:
        raise InvalidValueError(
            argument="--model", must=f"classify the {inputs.kind}s that are given", got=f"{classifier.kind}s"
        )
    if len(inputs) == 0:
        raise InvalidValueError(argument="--data", must="have inputs", got=f"none in {dataset!r}")
    first = next((i for i, one in enumerate(inputs.inputs) if not isinstance(one, str) or one.strip()), 0)
    entry = given_entry(model, dataset, classifier, groups=groups, options=options)
    bound = bind(classifier, inputs, entry, View(model, first))
    entry = given_entry(model, dataset, classifier, groups=groups, options=options, bound=bound)
    if classifier.kind == "image" and groups is None:
        entry = _with_dropping(entry, classifier, inputs.inputs[first])
    workbench = Workbench([entry])
    workbench.put(entry, classifier, inputs)
    return workbench


def _with_dropping(entry: Entry, classifier: Any, one: Any) -> Entry:
    """Vision transformers can leave out patches; whether a model is one is seen by trying."""
    try:
        classifier.bind(one, fill=PATCHES.value)
    except HoldfastError:
        return entry
    return replace(entry, fills=(*entry.fills, PATCHES))
