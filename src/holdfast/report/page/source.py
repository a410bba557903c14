"""A file of results → the model and the data it is about, as far as the page is to use them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from holdfast.data.dataset import Dataset
from holdfast.errors import HoldfastError, StudyError
from holdfast.evaluation import Evaluator
from holdfast.study.spec import StudySpec, Trust
from holdfast.study.spec_file import spec_from_plain
from holdfast.study.store import Store
from holdfast.study.work import Skipped, Worker, load_data, load_model
from holdfast.types import MaskedModel

_WITHOUT = "Leave the model out of the page with `--no-model` (`use_model=False`)."


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
    """

    spec: StudySpec
    classes: tuple[str, ...]
    data: Dataset | None
    worker: Worker | None

    def input(self, index: int) -> Any:
        """One input as the data give it, or None."""
        if self.data is None:
            return None
        try:
            return self.data.inputs[index]
        except (OSError, ValueError, IndexError):
            return None

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
    if not use_model:
        return Source(spec, (), _data_if_there(spec), None)
    try:
        classifier, dataset = load_model(spec.model), load_data(spec)
    except (HoldfastError, OSError) as error:
        raise StudyError(
            f"The model or the data of {str(store.path)!r} cannot be loaded: {error} {_WITHOUT}"
        ) from error
    return Source(spec, classifier.classes, dataset, Worker(spec, classifier, dataset))


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
