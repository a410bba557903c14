"""One input explained → its masks and predictions, and panels: a picture of it, its words, or its columns."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from holdfast.attribution.methods import attribute
from holdfast.attribution.task import bare_model, names_of, predicted
from holdfast.evaluation import Evaluator
from holdfast.experiments.subjects import Subject
from holdfast.randomness import stream, stream_key
from holdfast.report.figures.pictures import plot_example_image
from holdfast.report.figures.texts import plot_example_text
from holdfast.selection import top_fraction
from holdfast.types import Mask

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Explained:
    """One input with an explanation of its prediction; what was computed for it is remembered.

    Parameters
    ----------
    subject : Subject
        The model with its inputs.
    index : int
        Which input of the data.
    seed : int
        Of the explanation's and every other random draw.
    """

    def __init__(self, subject: Subject, index: int, seed: int) -> None:
        self.subject, self.inputs, self.index, self._seed = subject, subject.inputs, index, seed
        self.model = Evaluator(self.inputs[index])

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
        return stream_key(stream(self._seed, "reproduce", self.subject.name, str(self.index), *purpose))

    @property
    def label(self) -> int | None:
        """The right class, by the model's numbers, where it is known."""
        return self.inputs.label(self.index)

    @property
    def names(self) -> tuple[str, ...] | None:
        """What the features are called."""
        return names_of(self.model)

    def is_right(self, mask: Mask) -> bool:
        """Whether the full input and the explanation alone both get the right class, where that is known."""
        return self.predict(mask) == self.prediction and self.label in (None, self.prediction)


def show(explained: Explained, selected: Any = None, *, added: Any = (), title: str = "", ax: Axes) -> Axes:
    """Draw an input, or what an explanation shows of it, with additions if there are any."""
    model = bare_model(explained.model)
    if explained.subject.kind == "image":
        return plot_example_image(model.elements, selected, groups=model.groups, added=added, title=title, ax=ax)
    words = explained.names or [f"feature {i}" for i in range(explained.model.n_features)]
    return plot_example_text([readable(word) for word in words], selected, added=added, title=title, ax=ax)


def readable(word: str) -> str:
    """A token without the marks of its tokenizer.

    Examples
    --------
    >>> readable("Ġgood"), readable("##ly")
    ('good', 'ly')
    """
    return word.removeprefix("Ġ").removeprefix("▁").removeprefix("##") or word


def name_features(explained: Explained, features: Any) -> str:
    """Features in words: by name, or by number where a name says nothing."""
    names = explained.names
    if names is None or explained.subject.kind == "image":
        return ", ".join(str(feature) for feature in features)
    return ", ".join(f"“{readable(names[feature])}”" for feature in features)
