"""A short specification of a data set → a ``Dataset`` of inputs and labels."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from inspect import Parameter, signature
from typing import Any

from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.inputs.data.advice import advise
from holdfast.inputs.data.dataset import Dataset
from holdfast.validation import shown, split_spec

__all__ = ["Dataset", "load"]

_LOADERS = {
    "bundled": ("bundled", "load_bundled", "bundled:<name>"),
    "images": ("images", "load_images", "images:<folder>"),
    "tweeteval": ("tweeteval", "load_tweeteval", "tweeteval:<folder>"),
    "table": ("tables", "load_table", "table:<file>"),
    "hf": ("hf_disk", "load_disk", "hf:<folder>"),
}


def load(spec: str, **options: Any) -> Dataset:
    """Load inputs with their labels from what names them.

    Parameters
    ----------
    spec : str
        ``bundled:digits``, ``bundled:sentences`` or ``bundled:cancer``: the inputs that come with
        holdfast, for the models that do. ``images:<folder>``: image files, in a folder per class.
        ``tweeteval:<folder>``: texts and labels, line by line. ``table:<file>``: rows of a ``.csv`` or
        ``.parquet`` file. ``hf:<folder>``: what the ``datasets`` library saved to disk.
    **options
        ``bundled``: ``split`` ("test": inputs no bundled model was trained on; or "train").
        ``images``: ``labels`` (a CSV file with the columns file and label), ``classes``.
        ``tweeteval``: ``split``. ``table``: ``target`` (the column of labels), ``drop``,
        ``background`` (a file with rows that hidden columns are filled from), ``classes``. ``hf``:
        ``split``, ``input`` and ``label`` (columns). ``classes`` are the names of the classes in the
        order of the model's.

    Returns
    -------
    dataset : Dataset
        Inputs, labels and the names of the classes, always in the same order. Images are opened when
        they are asked for, and not kept.

    Examples
    --------
    >>> sentences = load("bundled:sentences")
    >>> sentences.kind, sentences.classes, len(sentences)
    ('text', ('negative', 'neutral', 'positive'), 200)
    """
    scheme, place = split(spec)
    module, name, _ = _LOADERS[scheme]
    loader: Callable[..., Dataset] = getattr(import_module(f"holdfast.inputs.data.{module}"), name)
    _check_options(loader, options, scheme)
    return loader(place, **options)


def split(spec: Any) -> tuple[str, str]:
    """The scheme and the place of data, or an error that says what is wrong with them; nothing is loaded.

    Examples
    --------
    >>> split("images:photos")
    ('images', 'photos')
    """
    scheme, place = split_spec(spec, "data", _LOADERS, advise)
    if not place:
        raise InvalidValueError(argument="data", must=f"be {_LOADERS[scheme][2]}", got=shown(spec))
    return scheme, place


def _check_options(loader: Callable[..., Dataset], options: dict[str, Any], scheme: str) -> None:
    """Something the loader cannot use is an error, not ignored."""
    parameters = signature(loader).parameters.values()
    known = sorted(one.name for one in parameters if one.kind is Parameter.KEYWORD_ONLY)
    if unknown := sorted(options.keys() - set(known)):
        raise InvalidTypeError(f"`{unknown[0]}` must be an option of {scheme}: data ({', '.join(known)}).")
    for one in parameters:
        if one.name in options:
            _check_kind(options[one.name], one.name, str(one.annotation))


def _check_kind(value: Any, name: str, kind: str) -> None:
    """A text, or a list of texts, where the loader says so; files and columns are named by texts."""
    if kind.startswith("Sequence[str]"):
        parts = [value] if isinstance(value, str) else value
        if not isinstance(parts, (list, tuple)) or not all(isinstance(part, str) for part in parts):
            raise InvalidTypeError(f"`{name}` must be a list of texts, got {value!r}.")
    elif kind.startswith("str") and not (isinstance(value, str) or (value is None and "None" in kind)):
        raise InvalidTypeError(f"`{name}` must be a text, got {value!r}.")
