"""Inputs, their labels and what the labels are called: one frozen value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidValueError


@dataclass(frozen=True, eq=False)
class Dataset:
    """Inputs of one kind with their labels; iterating gives pairs (input, label).

    Attributes
    ----------
    name : str
        What it is loaded by.
    kind : {"image", "text", "table"}
        What the inputs are.
    inputs : array (n, height, width, channels), tuple of n str, or array (n, n_columns)
        What a ``Classifier`` of the kind takes. Arrays are read-only.
    labels : whole numbers (n,)
        The right class of each input, as an index into ``classes``.
    classes : tuple of str
        The names of the classes.

    Examples
    --------
    >>> data = Dataset("moods", "text", ("fine", "awful"), np.array([1, 0]), ("bad", "good"))
    >>> [(text, data.classes[label]) for text, label in data]
    [('fine', 'good'), ('awful', 'bad')]
    """

    name: str
    kind: str
    inputs: Sequence[Any] | NDArray[Any] = field(repr=False)
    labels: NDArray[np.intp] = field(repr=False)
    classes: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.inputs) != len(self.labels):
            raise InvalidValueError(
                f"`labels` must have one entry per input, {len(self.inputs)}, got {len(self.labels)}."
            )
        for name in ("inputs", "labels"):
            object.__setattr__(self, name, _locked(getattr(self, name)))

    def __len__(self) -> int:
        return len(self.labels)

    def __iter__(self) -> Iterator[tuple[Any, int]]:
        return zip(self.inputs, (int(label) for label in self.labels), strict=True)


def _locked(values: Any) -> Any:
    """A view that cannot be written to; the caller's own array stays as it is."""
    if not isinstance(values, np.ndarray):
        return values
    view = values.view()
    view.setflags(write=False)
    return view
