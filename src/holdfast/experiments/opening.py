"""A subject → its model loaded, its inputs at hand, and single inputs explained."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from holdfast.attribution.methods import attribute
from holdfast.attribution.task import names_of, predicted
from holdfast.errors import InvalidValueError
from holdfast.evaluation import Evaluator
from holdfast.experiments.subjects import Subject
from holdfast.inputs.data.dataset import Dataset
from holdfast.inputs.models.classifier import Classifier
from holdfast.randomness import stream, stream_key
from holdfast.selection import top_fraction
from holdfast.types import Mask, MaskedModel


@dataclass(frozen=True, eq=False)
class Opened:
    """A model with its inputs.

    Attributes
    ----------
    subject : Subject
        What was opened.
    classifier, dataset
        Its model and its data.
    n : int
        How many inputs it is about: the first n.
    """

    subject: Subject
    classifier: Classifier
    dataset: Dataset
    n: int

    def bind(self, one: Any) -> MaskedModel:
        """An input as a function of masks."""
        masking, rows = self.subject.masking, self.dataset.background
        options = ({} if rows is None else {"background": rows}) | dict(masking.options)
        return self.classifier.bind(one, groups=masking.groups, fill=masking.fill, **options)

    def label(self, index: int) -> int | None:
        """The right class of an input, by the model's numbers."""
        return self.dataset.label_of(index, self.classifier.classes)

    def class_name(self, number: Any) -> str:
        """What a class is called."""
        names = self.classifier.classes or self.dataset.classes
        return names[number] if isinstance(number, int) and number < len(names) else str(number)


def open_subject(subject: Subject) -> Opened:
    """Load the model and the data."""
    from holdfast.inputs import data
    from holdfast.study.work import load_model

    dataset = data.load(subject.data.spec, **subject.data.options)
    wanted = len(dataset) if subject.data.n is None else subject.data.n
    if wanted > len(dataset):
        raise InvalidValueError(
            argument="--n", must=f"be at most the number of inputs there are, {len(dataset)}", got=wanted
        )
    return Opened(subject, load_model(subject.model), dataset, wanted)


class Explained:
    """One input with an explanation of its prediction; what was computed for it is remembered.

    Parameters
    ----------
    opened : Opened
        The model with its inputs.
    index : int
        Which input.
    seed : int
        Of the explanation's and every other random draw.
    """

    def __init__(self, opened: Opened, index: int, seed: int) -> None:
        self.opened, self.index, self._seed = opened, index, seed
        self.model = Evaluator(opened.bind(opened.dataset.inputs[index]))

    @cached_property
    def prediction(self) -> Any:
        """What the model says of the full input."""
        return predicted(self.model(np.ones((1, self.model.n_features), dtype=bool))[0])

    def selected(self, method: str, fraction: float) -> Mask:
        """The explanation by a method, cut at a fraction."""
        return top_fraction(attribute(self.model, method, rng=self.rng("attribute", method)), fraction)

    def predict(self, mask: Mask) -> Any:
        """What the model says of a masked input."""
        return predicted(self.model(mask[None])[0])

    def rng(self, *purpose: str) -> int:
        """The key of the random numbers of one purpose."""
        return stream_key(stream(self._seed, "reproduce", self.opened.subject.name, str(self.index), *purpose))

    @property
    def names(self) -> tuple[str, ...] | None:
        """What the features are called."""
        return names_of(self.model)

    def is_right(self, mask: Mask) -> bool:
        """Whether the full input and the explanation alone both get the right class, where that is known."""
        label = self.opened.label(self.index)
        return self.predict(mask) == self.prediction and label in (None, self.prediction)
