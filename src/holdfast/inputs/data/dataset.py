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
    inputs : array (n, height, width, channels), array (n, n_columns), or sequence of n inputs
        What a ``Classifier`` of the kind takes. Arrays are read-only. Images in files are opened when
        they are asked for, each time anew; one that cannot be read raises an error that names it.
    labels : whole numbers (n,)
        The right class of each input, as an index into ``classes``; -1 where it is not known.
    classes : tuple of str
        The names of the classes.
    names : tuple of n str, optional
        What each input is called, such as the name of its file.
    background : array (m, n_columns) or data frame, optional
        Of a table: rows that hidden columns are filled from.

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
    names: tuple[str, ...] | None = field(default=None, repr=False)
    background: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if len(self.inputs) != len(self.labels):
            raise InvalidValueError(
                f"`labels` must have one entry per input, {len(self.inputs)}, got {len(self.labels)}."
            )
        if self.names is not None and len(self.names) != len(self.labels):
            raise InvalidValueError(
                f"`names` must have one entry per input, {len(self.labels)}, got {len(self.names)}."
            )
        for name in ("inputs", "labels"):
            object.__setattr__(self, name, _locked(getattr(self, name)))

    def __len__(self) -> int:
        return len(self.labels)

    def __iter__(self) -> Iterator[tuple[Any, int]]:
        return zip(self.inputs, (int(label) for label in self.labels), strict=True)

    def name_of(self, index: int) -> str:
        """What an input is called, or its number."""
        return str(index) if self.names is None else self.names[index]

    def label_of(self, index: int, classes: tuple[str, ...] = ()) -> int | None:
        """The right class of an input, or None if it is not known.

        Parameters
        ----------
        index : int
            Which input.
        classes : tuple of str
            Names of classes in another order, such as a classifier's: the label is then looked up there
            by its name, and its number is kept where the names do not match.
        """
        label = int(self.labels[index])
        if label < 0:
            return None
        same_names = bool(classes) and set(self.classes) <= set(classes)
        return classes.index(self.classes[label]) if same_names else label


def _locked(values: Any) -> Any:
    """A view that cannot be written to; the caller's own array stays as it is."""
    if not isinstance(values, np.ndarray):
        return values
    view = values.view()
    view.setflags(write=False)
    return view
