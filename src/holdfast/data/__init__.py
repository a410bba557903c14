"""A short specification of a data set → a :class:`~holdfast.data.dataset.Dataset` of inputs and labels."""

from __future__ import annotations

from typing import Any

from holdfast.data.bundled import load_bundled
from holdfast.data.dataset import Dataset
from holdfast.errors import InvalidTypeError, InvalidValueError

__all__ = ["Dataset", "load"]

_BUNDLED = "bundled:"


def load(spec: str, *, split: str = "test") -> Dataset:
    """Load inputs with their labels from what names them.

    Parameters
    ----------
    spec : str
        ``bundled:digits``, ``bundled:sentences`` or ``bundled:cancer``: the inputs that come with
        holdfast, for the models that do.
    split : {"test", "train"}
        The inputs no bundled model was trained on, or the others. The sentences have no others.

    Returns
    -------
    dataset : Dataset
        Inputs, labels and the names of the classes, always in the same order.

    Examples
    --------
    >>> sentences = load("bundled:sentences")
    >>> sentences.kind, sentences.classes, len(sentences)
    ('text', ('negative', 'neutral', 'positive'), 200)
    """
    return load_bundled(_name(spec), split=split)


def _name(spec: Any) -> str:
    wanted = f"`spec` must be {_BUNDLED}<name>, got {spec!r}."
    if not isinstance(spec, str):
        raise InvalidTypeError(wanted)
    if not spec.startswith(_BUNDLED) or spec == _BUNDLED:
        raise InvalidValueError(wanted)
    return spec.removeprefix(_BUNDLED)
