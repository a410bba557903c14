"""A study → its model and its data, as far as a page is to use them: inputs to show, and the smoothed accuracy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from holdfast.errors import HoldfastError, StudyError
from holdfast.inputs.data.dataset import Dataset
from holdfast.inputs.inputs import Inputs
from holdfast.smoothing import SmoothedAccuracy, smoothed_accuracy
from holdfast.study.items import ordered
from holdfast.study.listing import Listed, first_difference
from holdfast.study.spec import StudySpec, Trust
from holdfast.study.spec_file import spec_from_plain
from holdfast.study.store import Store
from holdfast.study.work import Skipped, bind_input, item_rng, study_inputs
from holdfast.types import MaskedModel, Progress
from holdfast.validation import check_whole

UNREADABLE = "Not shown: the input cannot be read."
UNKNOWN = "Not shown: the results do not say what the input held, so that it cannot be recognised."
CHANGED = "Not shown: what is in its place now is not the input that the results are about."

KEEP_PROBABILITIES = (1.0, 0.75, 0.5, 0.25, 0.125)

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
    data : Dataset or None
        The inputs; None where they cannot be read and no model was asked for.
    inputs : Inputs or None
        Binds inputs to the model; None without the model.
    listing : dict of Listed
        What the inputs held when they were explained.
    """

    spec: StudySpec
    data: Dataset | None
    inputs: Inputs | None
    listing: Mapping[int, Listed]

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the model's classes; empty without the model."""
        return () if self.inputs is None else self.inputs.classes

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
        if self.inputs is None:
            return None
        bound = bind_input(self.spec, self.inputs, index)
        if isinstance(bound, Skipped):
            raise StudyError(f"Input {index} has results, but now it would be left out: {bound.reason}. {_WITHOUT}")
        difference = first_difference(store, index, bound)
        if difference is not None:
            what, before, now = difference
            raise StudyError(
                f"The {what} of input {index} in {str(store.path)!r} must be what its results are about ({before}), "
                f"got {now}. {_WITHOUT}"
            )
        return bound


def open_source(store: Store, *, use_model: bool, trust: Trust, inputs: Inputs | None = None) -> Source:
    """The model and the data of a study; the data alone, if they can be read, where no model is wanted.

    ``inputs`` are those of the study if they are loaded already.
    """
    spec, listing = spec_from_plain(store.spec, trust), store.listing()
    every = study_inputs(spec) if inputs is None else inputs
    try:
        if use_model:
            every.check_kinds()
        return Source(spec, every.dataset, every if use_model else None, listing)
    except (HoldfastError, OSError) as error:
        if not use_model:
            return Source(spec, None, None, listing)
        raise StudyError(
            f"The model or the data of {str(store.path)!r} cannot be loaded: {error} {_WITHOUT}"
        ) from error


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
    models: list[MaskedModel] = []
    labels: list[int] = []
    for index in ordered(spec, len(every)):
        label = every.label(index)
        model = None if label is None else bind_input(spec, every, index)
        if label is None or model is None or isinstance(model, Skipped):
            continue
        models.append(model)
        labels.append(label)
        if len(models) == wanted:
            break
    if not models:
        raise StudyError(f"{spec.data.spec!r} has no input with a label, so that no accuracy can be measured.")
    return smoothed_accuracy(
        lambda model: model,
        models,
        labels,
        keep_probabilities=keep_probabilities,
        n_samples=n_samples,
        progress=progress,
        rng=item_rng(spec, "accuracy"),
    )
