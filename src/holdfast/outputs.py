"""What a model returned → outputs that everything else can rely on, or an error that says what is wrong with it."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np

from holdfast.errors import ModelError
from holdfast.types import Mask, Masks, Outputs

_REPEAT_TOLERANCE = 1e-2
"""A repeated row may move by this share of the spread of its scores: batch-dependent float noise is
far below it (half precision included), dropout and sampling far above."""

_ROUNDING = 1e-5  # and by this share of its largest score, for scores that are all but equal


def checked_outputs(raw: Any, masks: Masks, known: tuple[int, ...] | None) -> Outputs:
    """What the model returned for masks (b, n_features) as scores (b, n_classes) of finite numbers, or labels (b,).

    ``known`` is the shape of its earlier answers to one mask, which must not change; None if there are none.
    """
    outputs = answers_of(raw)
    if outputs.ndim not in (1, 2) or len(outputs) != len(masks):
        raise ModelError(
            f"The model must return scores ({len(masks)}, n_classes) or labels ({len(masks)},) "
            f"for {len(masks)} masks, got shape {outputs.shape}."
        )
    outputs = _labels(outputs) if outputs.ndim == 1 else _scores(outputs, masks)
    if known is not None and outputs.shape[1:] != known:
        before, now = (f"{shape[0]} classes" if shape else "labels" for shape in (known, outputs.shape[1:]))
        raise ModelError(f"The model must return the same number of classes every time: {before} before, now {now}.")
    return outputs


def check_repeat(mask: Mask, before: Any, after: Any) -> None:
    """Raise if two answers to one mask differ by more than rounding."""
    if isinstance(after, np.ndarray):
        spread, size = np.ptp(before) if len(before) > 1 else np.abs(before).max(), np.abs(before).max()
        same = np.abs(after - before).max() <= _REPEAT_TOLERANCE * spread + _ROUNDING * size
    else:
        same = after == before
    if not same:
        served = "Endpoints may differ even at temperature 0, as they compute requests of several users together. "
        raise ModelError(
            f"The model must be deterministic, but it answered {before!r} and then {after!r} for one mask of "
            f"{int(mask.sum())} features. {served if isinstance(after, str) else ''}Switch off dropout and sampling "
            '(for PyTorch: `model.eval()`), pass `answers="random"` to certify how often a random answer agrees, or '
            "`check_determinism=False` to certify the answers that happen to be drawn."
        )


def check_answered(answer: Any) -> None:
    """Raise if a model returned nothing yet, or nothing at all."""
    if inspect.iscoroutine(answer):
        answer.close()
        raise ModelError(
            "The model must return its answers, got a coroutine. "
            "Wrap the asynchronous function: `lambda batch: asyncio.run(classify(batch))`."
        )
    if answer is None:
        raise ModelError(
            "The model must return an answer, got None. Check that the function returns what it computes; "
            "return a word such as 'none' where no class applies."
        )


def answers_of(raw: Any) -> Outputs:
    """What a model returned, as an array; entries that NumPy calls masked are no answers."""
    check_answered(raw)
    if isinstance(raw, np.ma.MaskedArray) and np.ma.is_masked(raw):
        n_masked = int(np.ma.getmaskarray(raw).sum())
        raise ModelError(
            f"The model must answer every mask, got a masked array without {n_masked} of {raw.size} values. "
            "Fill them in with `.filled(value)`."
        )
    try:
        outputs = np.asarray(raw)
    except ValueError as error:
        raise ModelError("The model must return a regular array, got rows of unequal length.") from error
    except Exception as error:  # what a model returns may raise anything when it is read
        raise ModelError(f"The model must return an array, got {type(raw).__name__}: {error}") from error
    if isinstance(raw, (list, tuple)) and outputs.ndim == 1 and outputs.dtype.kind in "USiu":
        # NumPy has made words or numbers of all entries: 1 and "1", or 1 and True, would be one label.
        _check_one_type([entry.item() if isinstance(entry, np.generic) else entry for entry in raw])
    return outputs


def _labels(outputs: Outputs) -> Outputs:
    if outputs.dtype.kind == "f":
        raise ModelError(
            "Labels (b,) must be whole numbers, strings or Booleans, got floats. "
            "Return scores as a column (b, 1), and judge them with `agree=within(margin)` or `same_side(threshold)`."
        )
    labels = np.empty(len(outputs), dtype=object)
    for row, entry in enumerate(outputs.tolist()):
        check_answered(entry)
        label = entry.item() if isinstance(entry, np.generic) else entry
        if isinstance(label, bytes):
            try:
                label = label.decode()
            except UnicodeDecodeError as error:
                raise ModelError(f"Labels that are bytes must be UTF-8, got {label!r}.") from error
        if not isinstance(label, (str, int)):
            raise ModelError(f"Labels (b,) must be whole numbers, strings or Booleans, got {label!r}.")
        labels[row] = label
    _check_one_type(labels.tolist())
    return labels


def _check_one_type(labels: list[Any]) -> None:
    first = {type(label): label for label in reversed(labels)}
    if len(first) > 1:
        examples = " and ".join(repr(label) for label in first.values())
        raise ModelError(f"Labels (b,) must be of one type, got {examples}. Return words only, or whole numbers only.")


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


def combine_outputs(outputs: Outputs, n_masks: int) -> Outputs:
    """What outputs that follow each other say of each mask: the mean of its scores, or its most frequent label."""
    by_mask = outputs.reshape(n_masks, -1, *outputs.shape[1:])
    if by_mask.shape[1] == 1:
        return by_mask[:, 0]
    if outputs.ndim == 2:
        # Means (b, k) of scores (b, m, k): exactly the common score where all m are equal.
        first = by_mask[:, 0]
        return np.asarray(first + (by_mask - first[:, None]).mean(axis=1))
    # The most frequent of the labels (b, m) of each mask, the smallest of equals.
    known, votes = np.unique(by_mask, return_inverse=True)
    counts = (votes.reshape(by_mask.shape)[:, :, None] == np.arange(len(known))).sum(axis=1)
    return np.asarray(known[counts.argmax(axis=1)])


def split_rows(outputs: Any, lengths: Sequence[int]) -> list[Any]:
    """Cut what was computed together into parts of so many rows."""
    if np.ndim(outputs) == 0 or len(outputs) != sum(lengths):
        raise ModelError(f"The model must give one answer per row, got {np.shape(outputs)} for {sum(lengths)} rows.")
    ends = np.cumsum(lengths).tolist()
    return [outputs[end - length : end] for end, length in zip(ends, lengths, strict=True)]
