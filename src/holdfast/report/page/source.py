"""A file of results → the model and the data it is about, as far as the page is to use them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from holdfast.errors import HoldfastError, StudyError
from holdfast.evaluation import Evaluator
from holdfast.inputs.data.dataset import Dataset
from holdfast.study.listing import Listed
from holdfast.study.spec import StudySpec, Trust
from holdfast.study.spec_file import spec_from_plain
from holdfast.study.store import Store
from holdfast.study.work import Skipped, Worker, load_data, load_model
from holdfast.types import MaskedModel

UNREADABLE = "Not shown: the input cannot be read."
UNKNOWN = "Not shown: the results do not say what the input held, so that it cannot be recognised."
CHANGED = "Not shown: what is in its place now is not the input that the results are about."

_WITHOUT = "Leave the model out of the page with `--no-model` (`use_model=False`)."


class ShownInput(NamedTuple):
    """An input, or None and why it is not shown."""

    input: Any
    why_not: str | None = None


@dataclass(frozen=True)
class Source:
    """What a page can be told about inputs beyond what is stored.

    Attributes
    ----------
    classes : tuple of str
        The names of the model's classes; empty without the model.
    data : Dataset or None
        The inputs; None where they cannot be read and no model was asked for.
    worker : Worker or None
        Binds inputs to the model; None without the model.
    listing : dict of Listed
        What the inputs held when they were explained.
    inputs : sequence of int
        The numbers of the study's inputs.
    """

    spec: StudySpec
    classes: tuple[str, ...]
    data: Dataset | None
    worker: Worker | None
    listing: Mapping[int, Listed]
    inputs: Sequence[int]

    def input(self, index: int, bound: MaskedModel | None = None) -> ShownInput:
        """One input as the data give it, if it is the one that the results are about.

        That was checked where it is ``bound`` to the model; elsewhere what it holds is compared with what it held.
        """
        if self.data is None:
            return ShownInput(None, UNREADABLE)
        before = self.listing.get(index, Listed(None, None)).digest
        if bound is None and before is None:
            return ShownInput(None, UNKNOWN)
        try:
            if bound is None and before != self.data.digest(index):
                return ShownInput(None, CHANGED)
            return ShownInput(self.data.inputs[index])
        except (OSError, ValueError, LookupError):
            return ShownInput(None, UNREADABLE)

    def bind(self, store: Store, index: int) -> MaskedModel | None:
        """The input as a function of masks, if it and the model are those that the results are about."""
        if self.worker is None:
            return None
        bound = self.worker.bind(index)
        if isinstance(bound, Skipped):
            raise StudyError(f"Input {index} has results, but now it would be left out: {bound.reason}. {_WITHOUT}")
        _check_same(store, index, bound)
        return bound


def open_source(store: Store, *, use_model: bool, trust: Trust) -> Source:
    """The model and the data of a study; the data alone, if they can be read, where no model is wanted."""
    spec = spec_from_plain(store.spec, trust)
    listing, inputs = store.listing(), store.inputs()
    if not use_model:
        return Source(spec, (), _data_if_there(spec), None, listing, inputs)
    try:
        classifier, dataset = load_model(spec.model), load_data(spec)
    except (HoldfastError, OSError) as error:
        raise StudyError(
            f"The model or the data of {str(store.path)!r} cannot be loaded: {error} {_WITHOUT}"
        ) from error
    return Source(spec, classifier.classes, dataset, Worker(spec, classifier, dataset), listing, inputs)


def _data_if_there(spec: StudySpec) -> Dataset | None:
    try:
        return load_data(spec)
    except (HoldfastError, OSError):
        return None


def _check_same(store: Store, index: int, bound: MaskedModel) -> None:
    """Raise unless the model and the input are those that were explained."""
    now = Evaluator(bound).provenance
    statement = "SELECT model_fingerprint, input_fingerprint, n_features FROM inputs WHERE input = ?"
    model, content, n_features = next(store.query(statement, index))
    told = (("model", model, now.model), ("input", content, now.input), ("features", n_features, bound.n_features))
    for what, before, found in told:
        if before != found:
            raise StudyError(
                f"The {what} of input {index} in {str(store.path)!r} must be what its results are about ({before}), "
                f"got {found}. {_WITHOUT}"
            )
