"""Images, texts or rows → scores (b, n_classes), or bound one by one into a ``MaskedModel``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidTypeError, InvalidValueError, ModelError
from holdfast.masking.classes import telling_names
from holdfast.types import MaskedModel
from holdfast.validation import check_name, check_whole

KINDS = ("image", "text", "table")
"""What a classifier can be asked about."""


class ClassifierEngine(Protocol):
    """How one kind of classifier is computed; ``inputs`` is one batch."""

    def score(self, inputs: Any, /) -> NDArray[Any]:
        """Scores (b, n_classes) of b inputs."""
        ...

    def bind(self, value: Any, /, **settings: Any) -> MaskedModel:
        """One input as a function of masks; the settings are those of ``mask_image`` and the like."""
        ...


@dataclass(frozen=True, eq=False)
class Classifier:
    """A loaded classifier with everything its inputs need on the way to it.

    Attributes
    ----------
    kind : {"image", "text", "table"}
        What it classifies.
    classes : tuple of str
        The names of its classes, in the order of its scores; empty where the source does not say.
    fingerprint : str or None
        SHA-256 over the weights and the preprocessing: the same for every load of the same files, on
        every device. None for a Python callable, which shows neither.
    """

    kind: str
    classes: tuple[str, ...]
    fingerprint: str | None
    engine: ClassifierEngine = field(repr=False)

    def __post_init__(self) -> None:
        check_name(self.kind, "kind", KINDS)

    def predict(self, inputs: Any, *, batch_size: int = 32) -> NDArray[Any]:
        """Raw scores (b, n_classes) of many inputs: logits where the model has them.

        Images are PIL images, arrays (height, width, channels) or paths; rows are numbers, an array (b, n_columns) or
        a data frame. Scores do not depend on ``batch_size``, the inputs per call, beyond rounding.
        """
        size = check_whole(batch_size, "batch_size", minimum=1)
        n_inputs = _count(inputs, self.kind)
        rows = inputs.iloc if hasattr(inputs, "iloc") else inputs
        return np.concatenate([self._score(rows[start : start + size]) for start in range(0, n_inputs, size)])

    def _score(self, batch: Any) -> NDArray[Any]:
        scores = np.asarray(self.engine.score(batch))
        wanted = f"The model must return scores (b, {len(self.classes) or 'n_classes'})"
        if scores.ndim != 2 or len(scores) != len(batch):
            raise ModelError(f"{wanted}, got an array of shape {scores.shape} for {len(batch)} inputs.")
        if self.classes and scores.shape[1] != len(self.classes):
            raise ModelError(f"{wanted}, got {scores.shape[1]} columns for {len(self.classes)} classes.")
        return scores

    def bind(self, input: Any, *, groups: Any = None, fill: Any = None, **options: Any) -> MaskedModel:  # noqa: A002
        """Bind one input into a function of masks, with this classifier's own preprocessing.

        Parameters
        ----------
        input : image, text or row
            The input to explain.
        groups : object
            What a feature is: the ``groups`` of ``mask_image`` and ``mask_tabular``, the ``features``
            of ``mask_text``. None for their default.
        fill : object
            What a hidden feature looks like. None for the default of the kind.
        **options
            Passed on to ``mask_image``, ``mask_text`` or ``mask_tabular``.

        Returns
        -------
        model : MaskedModel
            Deterministic scores (b, n_classes) of masks (b, n_features).
        """
        own = {"features" if self.kind == "text" else "groups": groups, "fill": fill}
        own |= {"fingerprint": self.fingerprint, "classes": telling_names(self.classes)}
        return self.engine.bind(input, **({name: value for name, value in own.items() if value is not None} | options))


def _count(inputs: Any, kind: str) -> int:
    """How many inputs there are; one input on its own is not a list of inputs."""
    wanted = f"`inputs` must be a list of {_PLURALS[kind]}"
    if isinstance(inputs, (str, bytes)) or not (hasattr(inputs, "__len__") and hasattr(inputs, "__getitem__")):
        raise InvalidTypeError(f"{wanted}, got one {type(inputs).__name__}. Put it in a list.")
    n_axes, least = getattr(inputs, "ndim", None), _LEAST_AXES[kind]
    if n_axes is not None and n_axes < least:
        raise InvalidValueError(f"{wanted}, got an array with {n_axes} axes instead of {least}. Put it in a list.")
    if len(inputs) == 0:
        raise InvalidValueError(f"{wanted} with at least one entry, got none.")
    return len(inputs)


_PLURALS = {"image": "images", "text": "texts", "table": "rows"}
_LEAST_AXES = {"image": 4, "text": 1, "table": 2}
