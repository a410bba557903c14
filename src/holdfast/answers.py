"""What a model returned → outputs that everything else can rely on, or an error that says what is wrong with it."""

from __future__ import annotations

from types import NoneType
from typing import Any

import numpy as np

from holdfast.errors import ModelError
from holdfast.types import Mask, Masks, Outputs

_REPEAT_TOLERANCE = 1e-2
"""A repeated row may move by this share of its largest score: batch-dependent float noise is
far below it (half precision included), dropout and sampling far above."""


def checked_outputs(raw: Any, masks: Masks, known: tuple[int, ...] | None) -> Outputs:
    """Scores (b, n_classes) of finite numbers, or labels (b,) as objects.

    Parameters
    ----------
    raw : array
        What the model returned for these masks, whatever it is.
    masks : Boolean array (b, n_features)
        What it was asked.
    known : tuple of int or None
        The shape of its earlier answers to one mask, which must not change; None if there are none.

    Examples
    --------
    >>> checked_outputs([[1, 2], [3, 4]], np.ones((2, 3), dtype=bool), None).dtype
    dtype('float64')
    >>> checked_outputs([0.5], np.ones((1, 3), dtype=bool), None)
    Traceback (most recent call last):
    ...
    holdfast.errors.ModelError: Labels (b,) must be whole numbers, strings or Booleans, got floats. Return scores as a \
column (b, 1) and use `agree=within(margin)`.
    """
    outputs = _as_array(raw)
    if outputs.ndim not in (1, 2) or len(outputs) != len(masks):
        raise ModelError(
            f"The model must return scores ({len(masks)}, n_classes) or labels ({len(masks)},) "
            f"for {len(masks)} masks, got shape {outputs.shape}."
        )
    outputs = _labels(outputs) if outputs.ndim == 1 else _scores(outputs, masks)
    if known is not None and outputs.shape[1:] != known:
        raise ModelError(
            "The model must return the same number of classes every time: "
            f"{_width(known)} before, now {_width(outputs.shape[1:])}."
        )
    return outputs


def check_repeat(mask: Mask, before: Any, after: Any) -> None:
    """Raise if two answers to one mask differ by more than rounding."""
    if isinstance(after, np.ndarray):
        same = np.abs(after - before).max() <= _REPEAT_TOLERANCE * np.abs(before).max()
    else:
        same = after == before
    if not same:
        raise ModelError(
            f"The model must be deterministic, but it answered {before!r} and then {after!r} for one mask of "
            f"{int(mask.sum())} features. Switch off dropout and sampling (for PyTorch: `model.eval()`), or "
            "pass `check_determinism=False` to certify the answers that happen to be drawn."
        )


def _as_array(raw: Any) -> Outputs:
    try:
        return np.asarray(raw)
    except ValueError as error:
        raise ModelError("The model must return a regular array, got rows of unequal length.") from error
    except Exception as error:  # what a model returns may raise anything when it is read
        raise ModelError(f"The model must return an array, got {type(raw).__name__}: {error}") from error


def _labels(outputs: Outputs) -> Outputs:
    if outputs.dtype.kind == "f":
        raise ModelError(
            "Labels (b,) must be whole numbers, strings or Booleans, got floats. "
            "Return scores as a column (b, 1) and use `agree=within(margin)`."
        )
    labels = np.empty(len(outputs), dtype=object)
    labels[:] = [_text(label) if isinstance(label, bytes) else label for label in outputs.tolist()]
    # None stands for "no class" and is a label like others.
    strange = [label for label in labels if not isinstance(label, (str, int, NoneType))]
    if strange:
        raise ModelError(f"Labels (b,) must be whole numbers, strings or Booleans, got {strange[0]!r}.")
    return labels


def _text(label: bytes) -> str:
    try:
        return label.decode()
    except UnicodeDecodeError as error:
        raise ModelError(f"Labels that are bytes must be UTF-8, got {label!r}.") from error


def _scores(outputs: Outputs, masks: Masks) -> Outputs:
    if outputs.dtype.kind not in "fiub" or outputs.shape[1] == 0:
        raise ModelError(f"Scores must be real numbers (b, n_classes), got {outputs.dtype} {outputs.shape}.")
    if not np.isfinite(outputs).all():
        bad = ~np.isfinite(outputs).all(axis=1)
        first = np.flatnonzero(masks[np.flatnonzero(bad)[0]])
        shown = ", ".join(map(str, first[:8])) + (", …" if len(first) > 8 else "")
        raise ModelError(
            f"The model returned NaN or infinity for {bad.sum()} of {len(masks)} masks "
            f"(first: features {shown or 'none'}). Check the fill value."
        )
    # Narrow types overflow when scores are negated or subtracted.
    wide = outputs.dtype.kind == "f" and outputs.dtype.itemsize >= 4
    return outputs.copy() if wide else outputs.astype(np.float64)


def _width(shape: tuple[int, ...]) -> str:
    return f"{shape[0]} classes" if shape else "labels"
