"""What a model returned → outputs that everything else can rely on, or an error that says what is wrong with it.

Outputs are remembered by the bits of their mask, and some are compared with what the model says later.
"""

from __future__ import annotations

import inspect
import zlib
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.errors import InvalidValueError, ModelError
from holdfast.types import Mask, Masks, Outputs

_REPEAT_TOLERANCE = 1e-2
"""A repeated row may move by this share of the spread of its scores: batch-dependent float noise is
far below it (half precision included), dropout and sampling far above."""

_ROUNDING = 1e-5  # and by this share of its largest score, for scores that are all but equal

_ROWS_PER_REPEAT, MOST_REPEATS = 16, 4
"""One row in 16 is computed twice, up to 4 in all, to see whether the model is deterministic."""

_LONG_MASK, _FEW_OF = 1024, 32
"""Masks of so many bytes are remembered compressed if they show, or hide, less than one feature in so many."""


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


def check_repeats(masks: Sequence[Mask], before: Sequence[Any], after: Sequence[Any]) -> None:
    """Raise if two answers to one of the masks differ by more than rounding."""
    if isinstance(after[0], np.ndarray):
        old, new = np.array(before), np.array(after)
        if (old == new).all():  # as nearly always
            return
        most, least = old.max(axis=1), old.min(axis=1)
        size = np.maximum(most, -least)
        spread = most - least if old.shape[1] > 1 else size
        differ = ~(np.abs(new - old).max(axis=1) <= _REPEAT_TOLERANCE * spread + _ROUNDING * size)
    else:
        differ = np.array([now != then for then, now in zip(before, after, strict=True)])
    if differ.any():
        row = int(differ.argmax())
        served = "Endpoints may vary even at temperature 0, as they batch requests of several users. "
        raise ModelError(
            f"The model must be deterministic, but it answered {before[row]!r} and then {after[row]!r} for one mask of "
            f"{int(masks[row].sum())} features. {served if isinstance(after[row], str) else ''}Switch off dropout and "
            'sampling (for PyTorch: `model.eval()`), pass `answers="random"` to certify how often a random answer '
            "agrees, or `check_determinism=False` to certify the answers that happen to be drawn."
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


class OutputMemory:
    """What a model said of each distinct mask; ``slots`` are their keys, in the order of computation."""

    def __init__(self, n_columns: int) -> None:
        self.n_columns = n_columns
        self.slots: dict[bytes, int] = {}
        self._buffer: Outputs | None = None  # doubled when full

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Shape of one output, or None before the first."""
        return None if self._buffer is None else self._buffer.shape[1:]

    @property
    def outputs(self) -> Outputs:
        """All outputs."""
        if self._buffer is None:
            raise InvalidValueError("Nothing has been evaluated yet.")
        outputs = self._buffer[: len(self.slots)]
        outputs.setflags(write=False)
        return outputs

    def look_up(self, keys: list[bytes]) -> Outputs:
        """The outputs of masks that are known."""
        return np.asarray(self.outputs[[self.slots[key] for key in keys]])

    def missing(self, keys: list[bytes], also: Container[bytes] = ()) -> dict[bytes, int]:
        """The keys that are neither known nor known elsewhere too, each with its first row."""
        rows: dict[bytes, int] = {}
        for row, key in enumerate(keys):
            if key not in self.slots and key not in also:
                rows.setdefault(key, row)
        return rows

    def add(self, keys: list[bytes], outputs: Outputs) -> None:
        """Remember outputs, but for those known: while a question waited, another one may have asked for the same."""
        new = [row for row, key in enumerate(keys) if key not in self.slots]
        rows = outputs if len(new) == len(keys) else outputs[new]
        start, end = len(self.slots), len(self.slots) + len(rows)
        buffer = rows[:0] if self._buffer is None else self._buffer
        dtype = rows.dtype if rows.dtype == buffer.dtype else np.result_type(buffer, rows)
        if end > len(buffer) or dtype != buffer.dtype:
            grown = np.empty((max(end, 2 * len(buffer)), *rows.shape[1:]), dtype=dtype)
            grown[:start] = buffer[:start]
            self._buffer = buffer = grown
        buffer[start:end] = rows
        self.slots.update(zip((keys[row] for row in new), range(start, end), strict=True))


class RowsAhead:
    """Outputs that no one has asked for yet, by the keys of their masks.

    ``n_unused`` counts all rows that were computed and not asked for, repeated ones too.
    """

    def __init__(self) -> None:
        self.rows: dict[bytes, tuple[Outputs, int]] = {}
        self.n_unused, self.has_failed = 0, False

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Shape of one output, or None if there is none."""
        return next((outputs.shape[1:] for outputs, _ in self.rows.values()), None)

    def add(self, keys: list[bytes], outputs: Outputs) -> None:
        """Keep what a call took along."""
        self.rows.update((key, (outputs, row)) for row, key in enumerate(keys))
        self.n_unused += len(keys)

    def take(self, keys: list[bytes]) -> Outputs:
        """The outputs of masks that are asked for now."""
        self.n_unused -= len(keys)
        calls, rows = zip(*map(self.rows.pop, keys), strict=True)
        if all(outputs is calls[0] for outputs in calls):
            return np.asarray(calls[0][list(rows)])
        return np.concatenate([outputs[row : row + 1] for outputs, row in zip(calls, rows, strict=True)])


@dataclass(frozen=True, eq=False)
class Repeats:
    """The rows that are due to be computed again, to see whether the model is deterministic.

    They are ``references``, each with its output, and one in 16 of those known, up to four; None while none is due.
    ``n_spread`` of these were taken. Some of them may be ``ready``: repeated before it was their turn, a mask with what
    the model said both times.
    """

    references: tuple[tuple[Mask, Any], ...] = ()
    n_spread: int | None = None
    ready: tuple[tuple[Mask, Any, Any], ...] = ()

    def n_due(self, memory: OutputMemory, n_coming: int = 0, *, ahead: bool = False) -> int:
        """How many rows are to be repeated; one of those that come, if so many do, may be repeated before they have.

        If ``ahead``, all of those that come may.
        """
        if self.n_spread is None:
            return 0
        by_known = self._n_spread_of(memory, 0)
        soon = self._n_spread_of(memory, n_coming)
        return len(self.references) + max(0, (soon if ahead else min(by_known + 1, soon)) - self.n_spread)

    def n_ready(self, memory: OutputMemory, n_coming: int = 0) -> int:
        """How many of those that are ready it is the turn of."""
        n_counted = (self.n_spread or 0) - len(self.ready)
        return min(len(self.ready), max(0, self._n_spread_of(memory, n_coming) - n_counted))

    def _n_spread_of(self, memory: OutputMemory, n_coming: int) -> int:
        """How many are to be repeated once so many more are known; only those known now can be."""
        n_known = len(memory.slots)
        return min(MOST_REPEATS, (n_known + n_coming) // _ROWS_PER_REPEAT) if n_known >= _ROWS_PER_REPEAT else 0

    def take(self, n: int, memory: OutputMemory) -> tuple[Masks, list[Any], Repeats]:
        """So many masks that are due, references first, what is known of each, and what is due from then on."""
        if n == 0:
            return np.zeros((0, memory.n_columns), dtype=bool), [], self
        taken, n_spread = self.references[:n], self.n_spread
        masks, outputs = [mask for mask, _ in taken], [output for _, output in taken]
        if n_spread is not None and n > len(taken):
            n_more, keys = n - len(taken), list(memory.slots)
            rows = (np.arange(n_more) * 2 + 1) * len(keys) // (2 * n_more)  # spread evenly
            masks += list(masks_of([keys[row] for row in rows], memory.n_columns))
            outputs += list(memory.outputs[rows])
            n_spread += n_more
        again = np.array(masks, dtype=bool).reshape(-1, memory.n_columns)
        return again, outputs, Repeats(self.references[n:], n_spread, self.ready)


def keys_of(masks: Masks) -> list[bytes]:
    """The bits of each mask (b, n_features): what it is remembered by. Long ones are compressed where that is shorter.

    Random bits cannot be, and trying takes longer than all else: only what shows or hides nearly all is tried.
    """
    n_features = masks.shape[1]
    width, packed = -(-n_features // 8), np.packbits(masks, axis=1).tobytes()
    keys = [packed[start : start + width] for start in range(0, len(packed), width)]
    if width >= _LONG_MASK:
        for row, mask in enumerate(masks):
            n_shown = np.count_nonzero(mask)
            if min(n_shown, n_features - n_shown) * _FEW_OF < n_features:
                keys[row] = min(keys[row], zlib.compress(keys[row], 1), key=len)
    return keys


def masks_of(keys: list[bytes], n_features: int) -> Masks:
    """The masks (b, n_features) of such keys."""
    width = -(-n_features // 8)
    rows = (key if len(key) == width else zlib.decompress(key) for key in keys)
    packed = np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(-1, width)
    return np.unpackbits(packed, axis=1, count=n_features).astype(bool)
