"""A short specification of a model → a ``Classifier``, without running foreign code.

Weights are safetensors, ONNX or skops: files that hold numbers, not programs. Only ``python:`` runs
code, and only code that the caller's own interpreter can already import.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from inspect import Parameter, signature
from typing import Any

from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.inputs.models.advice import advise
from holdfast.inputs.models.bundled import BundledModel, available
from holdfast.inputs.models.classifier import Classifier
from holdfast.validation import check_list, shown, split_spec

__all__ = ["BundledModel", "Classifier", "available", "load"]

_LOADERS = {
    "hf": ("hf", "load_folder", "hf:<hub id or folder>"),
    "onnx": ("onnx", "load_onnx", "onnx:<file>"),
    "skops": ("skops_file", "load_skops", "skops:<file>"),
    "bundled": ("bundled", "load_bundled", "bundled:<name>"),
    "python": ("python_factory", "load_python", "python:<module>:<factory>"),
}


def load(
    spec: str,
    *,
    device: Any = None,
    dtype: Any = None,
    kind: str | None = None,
    trusted: Iterable[str] = (),
    **options: Any,
) -> Classifier:
    """Load a classifier, with its preprocessing, from what names it.

    Parameters
    ----------
    spec : str
        ``hf:<hub id or folder>``, ``onnx:<file>``, ``skops:<file>``, ``bundled:<name>`` or
        ``python:<module>:<factory>``.
    device : str or torch.device, optional
        Where to compute; the CPU unless asked.
    dtype : str or torch.dtype, optional
        The number type of the weights; float32 unless asked, whatever the file holds.
    kind : {"image", "text", "table"}, optional
        What it classifies, where the source leaves that open.
    trusted : iterable of str
        The types a skops file may create besides scikit-learn's own.
    **options
        ``hf``: ``revision`` (of a hub id), ``download`` (False: only from the cache), ``max_length`` (cut
        longer texts), ``autocast`` and ``compile`` (as in ``mask_image``). ``onnx``: ``classes``, ``preprocess``,
        ``threads``. ``skops``: ``classes``. ``bundled``: ``max_length``, ``autocast``, ``compile`` for torch
        models. ``python``: ``classes``, ``preprocess``, ``tokenizer``, ``max_length``, ``autocast``,
        ``compile``, ``fingerprint``.

    Returns
    -------
    classifier : Classifier
        In evaluation mode. Loading leaves random generators, number types, log levels and import
        paths as they were.

    Examples
    --------
    >>> load("pkl:")
    Traceback (most recent call last):
    ...
    holdfast.errors.InvalidValueError: `model` must start with one of hf:, onnx:, skops:, bundled:, python:, got 'pkl:'.
    """
    scheme, place = split(spec)
    module, name, _ = _LOADERS[scheme]
    loader: Callable[..., Classifier] = getattr(import_module(f"holdfast.inputs.models.{module}"), name)
    given = {"device": device, "dtype": dtype, "kind": kind, "trusted": _names(trusted)}
    return loader(place, **_accepted(loader, given, options, scheme))


def split(spec: Any) -> tuple[str, str]:
    """The scheme and the place of a model, or an error that says what is wrong with them; nothing is loaded.

    Examples
    --------
    >>> split("hf:google/vit-base-patch16-224")
    ('hf', 'google/vit-base-patch16-224')
    """
    scheme, place = split_spec(spec, "model", _LOADERS, advise)
    if not place:
        raise InvalidValueError(argument="model", must=f"be {_LOADERS[scheme][2]}", got=shown(spec))
    return scheme, place


def _names(trusted: Any) -> tuple[str, ...]:
    names = tuple(check_list(trusted, "trusted", "be a list of type names"))
    if not all(isinstance(name, str) for name in names):
        raise InvalidTypeError(f"`trusted` must be a list of type names, got {trusted!r}.")
    return names


def _accepted(
    loader: Callable[..., Classifier], given: dict[str, Any], options: dict[str, Any], scheme: str
) -> dict[str, Any]:
    """What the loader takes; something it cannot use is an error, not ignored."""
    known = {
        name for name, parameter in signature(loader).parameters.items() if parameter.kind is Parameter.KEYWORD_ONLY
    }
    asked = {
        name: value for name, value in given.items() if not (value is None or (isinstance(value, tuple) and not value))
    } | options
    if unknown := sorted(asked.keys() - known):
        raise InvalidTypeError(f"`{unknown[0]}` must be an option of {scheme}: models ({', '.join(sorted(known))}).")
    return asked
