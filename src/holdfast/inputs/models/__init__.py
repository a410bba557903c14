"""A short specification of a model → a ``Classifier``, without running foreign code.

Weights are safetensors, ONNX or skops: files that hold numbers, not programs. Only ``python:`` runs
code, and only code that the caller's own interpreter can already import.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from holdfast.errors import InvalidTypeError
from holdfast.inputs.models.bundled import BundledModel, available
from holdfast.inputs.models.classifier import Classifier
from holdfast.inputs.source import load_source
from holdfast.validation import check_list, shown

__all__ = ["BundledModel", "Classifier", "available", "load"]


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
    names = tuple(check_list(trusted, "trusted", "be a list of type names"))
    if not all(isinstance(name, str) for name in names):
        raise InvalidTypeError(argument="trusted", must="be a list of type names", got=shown(trusted))
    own = {"device": device, "dtype": dtype, "kind": kind, "trusted": names or None}
    options |= {name: value for name, value in own.items() if value is not None}
    classifier: Classifier = load_source(spec, "model", options)
    return classifier
