"""Masks → outputs: the only loop over the model.

Everything that costs a forward pass goes through :class:`Evaluator`: batches, each distinct mask
computed once, halved batches when memory runs out, checked outputs, progress. What was finished
before an error or an interruption is kept.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.answers import check_repeat, checked_outputs
from holdfast.deadline import Deadline, check_seconds
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.progress import as_progress
from holdfast.types import Deciding, Mask, MaskedModel, Masks, Outputs, Progress, Provenance
from holdfast.validation import check_masks, check_whole

DEFAULT_BATCH_SIZE = 256

_EXTRA_ROWS = 3
"""The explanation, the full input and a repeated row."""

_LONG_MASK = 1024
"""Masks of so many bytes are remembered compressed: those that hide one feature of many take no room then."""

_MEMORY_SIGNS = ("out of memory", "failed to allocate", "can't allocate memory")
"""What frameworks say in a plain RuntimeError: CUDA, ONNX Runtime, torch on the CPU."""


@dataclass(frozen=True)
class Tally:
    """How many draws agreed; tallies of separate draws add."""

    n_agreed: int = 0
    n_evaluated: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.n_agreed + other.n_agreed, self.n_evaluated + other.n_evaluated)


class Evaluator:
    """A model that remembers: each distinct mask is computed once, in batches.

    It is itself a ``MaskedModel``. Pass one ``Evaluator`` to several functions and they share the
    computed masks (never the random draws).

    Parameters
    ----------
    model : MaskedModel
        Any ``MaskedModel``.
    batch_size : int, optional
        Most rows per model call; the model's own ``batch_size``, or 256, if None, of which a model
        with a ``batch_probe`` takes what its first calls show to be fastest. Halved, keeping finished
        work, when the model runs out of memory.
    progress : bool or callable, optional
        True for a bar on stderr, or a function of (rows computed, most rows expected).
    timeout : float, optional
        Most seconds that one call of the model may take; a call that takes longer raises ``ModelError``,
        and everything computed before is kept. Each call then runs in a thread, which cannot be ended: a
        call that hangs holds what it has until the process ends.

    Attributes
    ----------
    n_calls : int
        Rows the model has computed.
    masks, outputs : arrays
        Every distinct mask computed so far and what the model said of it.
    deciding : Deciding or None
        The model, if it can tell early which class leads.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import lookup_table
    >>> remembered = Evaluator(lookup_table([0, 1, 1, 0], n_features=2))
    >>> remembered(np.array([[True, False], [True, False]])).tolist(), remembered.n_calls
    ([1, 1], 1)
    """

    def __init__(
        self,
        model: MaskedModel,
        *,
        batch_size: int | None = None,
        progress: Progress | bool | None = None,
        timeout: float | None = None,
    ) -> None:
        self.model = model
        self._deadline = Deadline(check_seconds(timeout))
        self.n_features = _count_features(model)
        self.batch_size = _choose_batch_size(model, batch_size)
        self._probe = getattr(model, "batch_probe", None) if batch_size is None else None
        self._n_rows = 0
        self.deciding = model if isinstance(model, Deciding) else None
        self._base_before = 0 if self.deciding is None else self.deciding.n_base_calls
        self.progress = as_progress(progress)
        self._expected = 0
        self._slots: dict[bytes, int] = {}
        self._rows = _Rows()
        self._echo: tuple[Mask, Any] | None = None

    @property
    def n_calls(self) -> int:
        """Rows the model has computed; of a model made of another, rows of that other."""
        return self._n_rows if self.deciding is None else self.deciding.n_base_calls - self._base_before

    @property
    def provenance(self) -> Provenance:
        """What the model was made of, as far as it tells."""
        known = getattr(self.model, "provenance", None)
        return known if isinstance(known, Provenance) else Provenance()

    @property
    def deadline(self) -> Deadline:
        """What limits the time of a call of the innermost model, its gradients included."""
        return self.model.deadline if isinstance(self.model, Evaluator) else self._deadline

    @property
    def masks(self) -> Masks:
        """Every distinct mask computed so far, in the order of computation."""
        return _unpacked(list(self._slots), self.n_features)

    @property
    def outputs(self) -> Outputs:
        """What the model said of each of ``masks``."""
        return self._rows.all()

    def __call__(self, masks: Masks, /) -> Outputs:
        """Outputs of masks (b, n_features); only masks never seen before reach the model."""
        checked = check_masks(masks, self.n_features)
        keys = _packed(checked)
        first_rows: dict[bytes, int] = {}
        for row, key in enumerate(keys):
            if key not in self._slots:
                first_rows.setdefault(key, row)
        self._compute(checked[list(first_rows.values())], list(first_rows))
        return np.asarray(self.outputs[[self._slots[key] for key in keys]])

    def keeps_top_class(self, masks: Masks, top_class: int) -> Mask:
        """Boolean (b,) from a ``Deciding`` model: whether the class has the largest score."""
        if self.deciding is None:
            raise InvalidTypeError(f"`model` must be able to decide early, got {type(self.model).__name__}.")
        parts = []
        for start in range(0, len(masks), self.batch_size):
            parts.append(self._decide(masks[start : start + self.batch_size], top_class))
            self._report()
        return np.concatenate([np.zeros(0, dtype=bool), *parts])

    def _decide(self, masks: Masks, top_class: int) -> Mask:
        decide = self.deciding.keeps_top_class  # type: ignore[union-attr]
        return self._deadline.call(lambda: decide(masks, top_class), f"for {len(masks)} masks")

    def expect(self, n_rows: int) -> None:
        """Tell the progress hook how many more masks may come, references and a repeated row aside."""
        cost = 1 if self.deciding is None else self.deciding.rows_per_mask
        self._expected = self.n_calls + cost * (n_rows + _EXTRA_ROWS)

    def repeat_later(self, mask: Mask, output: Any) -> None:
        """Compute a mask of known output again with the next batch, and raise if the answer differs."""
        self._echo = (mask, output)

    def settle(self) -> None:
        """Repeat the row that waits for a batch, if none came."""
        if self._echo is not None:
            self._run(np.empty((0, self.n_features), dtype=bool), [])

    def finish(self) -> None:
        """Tell the progress hook that no more rows will come."""
        self._echo = None
        if self.progress is not None:
            self.progress(self.n_calls, self.n_calls)

    def _compute(self, masks: Masks, keys: list[bytes]) -> None:
        start = 0
        while start < len(masks):
            most = self.batch_size if self._probe is None else min(self._probe.size, self.batch_size)
            part = slice(start, start + most - (self._echo is not None))
            if self._run(masks[part], keys[part]):
                start += len(keys[part])

    def _run(self, batch: Masks, keys: list[bytes]) -> bool:
        """Compute one batch and keep it; False if memory ran out and a smaller batch is to be tried."""
        rows = batch if self._echo is None else np.concatenate([batch, self._echo[0][None]])
        start = time.perf_counter()
        try:
            raw = self._deadline.call(lambda: self.model(rows.copy()), f"for {len(rows)} masks")
        except Exception as error:
            if not _is_out_of_memory(error) or len(rows) == 1:
                raise
            self.batch_size = len(rows) // 2
            if self._probe is not None:
                self._probe.stop_at(self.batch_size)
            return False
        if self._probe is not None:
            self._probe.record(len(rows), time.perf_counter() - start)
        outputs = checked_outputs(raw, rows, self._rows.shape)
        self._n_rows += len(rows)
        if self._echo is not None:
            check_repeat(self._echo[0], self._echo[1], outputs[-1])
            self._echo, outputs = None, outputs[:-1]
        self._keep(keys, outputs)
        return True

    def _keep(self, keys: list[bytes], outputs: Outputs) -> None:
        first = len(self._slots)
        self._slots.update((key, first + i) for i, key in enumerate(keys))
        self._rows.append(outputs)
        self._report()

    def _report(self) -> None:
        if self.progress is not None:
            self.progress(self.n_calls, max(self._expected, self.n_calls))


class _Rows:
    """Outputs in one array that doubles when full."""

    def __init__(self) -> None:
        self._buffer: Outputs | None = None
        self._n = 0

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Shape of one output, or None before the first."""
        return None if self._buffer is None else self._buffer.shape[1:]

    def all(self) -> Outputs:
        if self._buffer is None:
            raise InvalidValueError("Nothing has been evaluated yet.")
        rows = self._buffer[: self._n]
        rows.setflags(write=False)
        return rows

    def append(self, rows: Outputs) -> None:
        end = self._n + len(rows)
        old = rows[:0] if self._buffer is None else self._buffer
        dtype = rows.dtype if rows.dtype == old.dtype else np.result_type(old, rows)
        if end > len(old) or dtype != old.dtype:
            grown = np.empty((max(end, 2 * len(old)), *rows.shape[1:]), dtype=dtype)
            grown[: self._n] = old[: self._n]
            self._buffer = old = grown
        old[self._n : end] = rows
        self._n = end


@contextmanager
def evaluating(
    model: MaskedModel, *, batch_size: int | None = None, progress: Progress | bool | None = None
) -> Iterator[Evaluator]:
    """An evaluator for one question; one that is given keeps its own settings for the next."""
    evaluator = model if isinstance(model, Evaluator) else Evaluator(model)
    own_size, own_probe, own_progress = evaluator.batch_size, evaluator._probe, evaluator.progress
    if batch_size is not None:
        evaluator.batch_size, evaluator._probe = check_whole(batch_size, "batch_size", minimum=1), None
    if progress is not None:
        evaluator.progress = as_progress(progress)
    # A model that asks another many times for one mask: the limit is meant for that other.
    base: AbstractContextManager[Any] = nullcontext()
    if evaluator.deciding is not None and batch_size is not None:
        base = evaluating(evaluator.deciding.base, batch_size=batch_size)
    try:
        with base:
            yield evaluator
    except KeyboardInterrupt as stop:
        stop.add_note(f"Stopped after {evaluator.n_calls} model calls; nothing was changed.")
        raise
    finally:
        evaluator.finish()
        evaluator.progress = own_progress
        if batch_size is not None:
            evaluator.batch_size, evaluator._probe = own_size, own_probe


def _count_features(model: Any) -> int:
    n_features = getattr(model, "n_features", None)
    if not callable(model) or n_features is None:
        raise InvalidTypeError(
            f"`model` must be a MaskedModel (`n_features` and a call on masks), got {type(model).__name__}. "
            "Wrap a function of masks with `holdfast.mask_function(function, n_features=...)`."
        )
    return check_whole(n_features, "model.n_features", minimum=1)


def _choose_batch_size(model: Any, batch_size: int | None) -> int:
    if batch_size is None:
        batch_size = getattr(model, "batch_size", None) or DEFAULT_BATCH_SIZE
    return check_whole(batch_size, "batch_size", minimum=1)


def _packed(masks: Masks) -> list[bytes]:
    """The bits of each mask as bytes: exact keys for de-duplication, of long masks compressed."""
    packed = np.packbits(masks, axis=1)
    rows: list[bytes] = packed.view(np.dtype((np.void, packed.shape[1]))).ravel().tolist()  # type: ignore[assignment]
    return rows if packed.shape[1] < _LONG_MASK else [zlib.compress(row, 1) for row in rows]


def _unpacked(keys: list[bytes], n_features: int) -> Masks:
    """The masks (b, n_features) of such keys."""
    width = -(-n_features // 8)
    rows = keys if width < _LONG_MASK else map(zlib.decompress, keys)
    packed = np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(-1, width)
    return np.unpackbits(packed, axis=1, count=n_features).astype(bool)


def _is_out_of_memory(error: Exception) -> bool:
    known = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    return known or (isinstance(error, RuntimeError) and any(sign in str(error).lower() for sign in _MEMORY_SIGNS))
