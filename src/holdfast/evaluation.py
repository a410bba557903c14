"""Masks → outputs: the only loop over the model.

Everything that costs a forward pass goes through :class:`Evaluator`: batches, each distinct mask
computed once, halved batches when memory runs out, checked outputs, progress. What was finished
before an error or an interruption is kept.
"""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidTypeError, InvalidValueError, ModelError
from holdfast.outputs import check_repeat, checked_outputs
from holdfast.terminal import as_progress, search_bar, watching_search, without_bars
from holdfast.types import Answering, Deciding, Mask, MaskedModel, Masks, Outputs, Progress, Provenance
from holdfast.validation import check_masks, check_seconds, check_whole, shown

if TYPE_CHECKING:  # needed only where a call has a price
    from holdfast.prices import Ahead, CallPrice

_Answer = TypeVar("_Answer")

Shortcut = Callable[[Masks, Callable[[Mask], Outputs]], Outputs]
"""Masks (b, n_features), and a function that asks the model about some of them, (b,) → the outputs of all."""

DEFAULT_BATCH_SIZE = 256

STEADY_BATCH_SIZE = 64
"""Most rows per call where scores must not depend on timing: near the fastest for most models, on any machine."""

_ROWS_PER_REPEAT, _MOST_REPEATS = 16, 4
"""One row in 16 is computed twice, up to 4 in all, to see whether the model is deterministic."""

_EXTRA_ROWS = 3 + _MOST_REPEATS
"""The explanation, the full input, and what is repeated: the explanation and rows spread over the run."""

_LONG_MASK, _FEW_OF = 1024, 32
"""Masks of so many bytes are remembered compressed if they show, or hide, less than one feature in so many."""

_MEMORY_SIGNS = ("out of memory", "failed to allocate", "can't allocate memory")
"""What frameworks say in a plain RuntimeError: CUDA, ONNX Runtime, torch on the CPU."""


class Host(Protocol):
    """Whoever runs several questions at a time and calls the model for all of them."""

    seconds_waited: float

    def ask(self, model: MaskedModel, masks: Masks, /, *, batch_size: int, probe: Any) -> Any:
        """What the model says of masks, perhaps computed together with those of other questions.

        A call has at most ``batch_size`` rows, or as many as the probe wants that finds the fastest size, if any.
        """
        ...


HOST: ContextVar[Host | None] = ContextVar("host", default=None)
"""Who calls models for the question that runs here; None where every question calls its own."""


def working_seconds() -> float:
    """A clock that stands still while the model works for other questions."""
    host = HOST.get()
    return time.perf_counter() - (0.0 if host is None else host.seconds_waited)


@contextmanager
def asked_alone() -> Iterator[None]:
    """Whatever is asked inside shares no batch with other questions: for scores that round alike in every run."""
    token = HOST.set(None)
    try:
        yield
    finally:
        HOST.reset(token)


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
        with a ``batch_probe`` takes what its first calls show to be fastest. A size that is given is
        kept, and nothing is timed: networks round differently in batches of another shape. Halved,
        keeping finished work, when the model runs out of memory.
    progress : bool or callable, optional
        True for a bar on stderr, False for none in questions about it either, or a function of (rows computed, most
        rows expected).
    timeout : float, optional
        Most seconds that one call of the model may take; a call that takes longer raises ``ModelError``,
        and everything computed before is kept. Each call then runs in a thread, which cannot be ended: a
        call that hangs holds what it has until the process ends.
    price : CallPrice, optional
        What a call takes, of a model that does not tell, such as a function that runs on a GPU. Where a call takes
        as long as many rows, rows of later looks are computed in the same call. Results are the same, bit by bit.

    Attributes
    ----------
    n_calls : int
        Rows that were asked for and that the model has computed.
    n_computed : int
        All rows that it has computed, those of looks that did not come included.
    n_repeated : int
        Rows that it has computed twice, to see whether the model is deterministic.
    masks, outputs : arrays
        Every distinct mask computed so far and what the model said of it.
    deciding : Deciding or None
        The model, if it can tell early which class leads.
    shortcut : Shortcut or None
        What gives outputs in place of the model, and asks it where that is not enough. Its rows count as calls. It
        belongs to one question: outputs may be rounded otherwise than the model's, where the answer stays the same.
    takes_shortcuts : bool
        Whether a question that is put to this evaluator may use one.
    reads_structure : bool
        Whether what is known of the inside of the model may be used, in place of draws.

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
        price: CallPrice | None = None,
    ) -> None:
        if price is not None and not hasattr(price, "rows_per_call"):
            raise InvalidTypeError(argument="price", must="be a CallPrice, or None", got=shown(price))
        self._price = price
        self._meter = getattr(model, "call_meter", None) if batch_size is None else None
        self._ahead: dict[bytes, tuple[Outputs, int]] = {}  # outputs that no one has asked for yet, and the row
        self._n_unused, self._fails_ahead = 0, False
        self.model = model if batch_size is None else _without_probes(model)
        self._deadline = Deadline(check_seconds(timeout))
        n_features = getattr(model, "n_features", None)
        if not callable(model) or n_features is None:
            must = "be a MaskedModel (`n_features` and a call on masks)"
            hint = "Wrap a function of masks with `holdfast.mask_function(function, n_features=...)`."
            raise InvalidTypeError(argument="model", must=must, got=type(model).__name__, hint=hint)
        self.n_features = check_whole(n_features, "model.n_features", minimum=1)
        self.n_columns: int = getattr(model, "n_columns", self.n_features)  # more if rows say more than what is shown
        self.by_rows: Evaluator | None = None  # of the same model, where its completions are drawn
        own_size = getattr(model, "batch_size", None) or DEFAULT_BATCH_SIZE
        self.batch_size = check_whole(own_size if batch_size is None else batch_size, "batch_size", minimum=1)
        self._probe = getattr(model, "batch_probe", None) if batch_size is None else None
        self._n_rows = 0
        self.deciding = model if isinstance(model, Deciding) else None
        self._in_words = isinstance(model, Answering)
        self._base_before = 0 if self.deciding is None else self.deciding.n_base_calls
        self.progress = None if progress is None else as_progress(progress)
        self.is_silent = progress is False
        self.shortcut: Shortcut | None = None
        self.takes_shortcuts = bool(getattr(model, "takes_shortcuts", True))
        self.reads_structure = bool(getattr(model, "reads_structure", True))
        self._slots: dict[bytes, int] = {}
        self._rows = _Rows()
        self._expected = self._n_repeated = 0
        self._repeated_before = 0 if self.deciding is None else int(self.deciding.base.n_repeated)
        self._references: list[tuple[Mask, Any]] = []
        self._n_spread: int | None = None  # rows repeated but for references; None while none is to be
        self._next_draw: int | None = None  # the number of the next random answer; None while answers are remembered

    def __repr__(self) -> str:
        return f"Evaluator({self.model!r})"

    @property
    def n_calls(self) -> int:
        """Rows the model has computed; of a model made of another, rows of that other."""
        beside = 0 if self.by_rows is None else self.by_rows.n_calls
        return self._n_rows + beside if self.deciding is None else self.deciding.n_base_calls - self._base_before

    @property
    def n_computed(self) -> int:
        """Rows the model has computed, whether or not they were asked for."""
        return self.n_calls + self._innermost._n_unused

    @property
    def n_repeated(self) -> int:
        """Rows computed twice; of a model made of another, rows of that other."""
        return self._n_repeated if self.deciding is None else self.deciding.base.n_repeated - self._repeated_before

    @property
    def provenance(self) -> Provenance:
        """What the model was made of, as far as it tells."""
        known = getattr(self.model, "provenance", None)
        return known if isinstance(known, Provenance) else Provenance()

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """What the features are called, if the model tells."""
        known = getattr(self.model, "feature_names", None)
        return None if known is None else tuple(map(str, known))

    @property
    def classes(self) -> tuple[str, ...] | None:
        """What the classes are called, if the model tells."""
        known = getattr(self.model, "classes", None)
        return None if known is None else tuple(map(str, known))

    def label_of(self, answer: Any) -> Any:
        """What an answer counts as, if the model compares answers by something else than what they are."""
        counts_as = getattr(self.model, "label_of", None)
        return answer if counts_as is None or not isinstance(answer, str) else counts_as(answer)

    @property
    def answering(self) -> Answering | None:
        """The innermost model, if it answers in words."""
        if isinstance(self.model, Evaluator):
            return self.model.answering
        return self.model if isinstance(self.model, Answering) else None

    @property
    def _innermost(self) -> Evaluator:
        """The evaluator that calls the model."""
        return self.model._innermost if isinstance(self.model, Evaluator) else self

    @property
    def deadline(self) -> Deadline:
        """What limits the time of a call of the innermost model, its gradients included."""
        return self._innermost._deadline

    @property
    def masks(self) -> Masks:
        """Every distinct mask computed so far, in the order of computation."""
        return _unpacked(list(self._slots), self.n_columns)

    @property
    def outputs(self) -> Outputs:
        """What the model said of each of ``masks``."""
        return self._rows.all()

    def __call__(self, masks: Masks, /) -> Outputs:
        """Outputs of masks (b, n_features); only masks never seen before reach the model."""
        checked = check_masks(masks, self.n_columns)
        if self._next_draw is not None:
            numbers = np.arange(self._next_draw, self._next_draw + len(checked))
            self._next_draw += len(checked)
            return self.recompute(checked, numbers)
        return self._remembered(checked, checked[:0], np.zeros(0, dtype=np.int64))

    def _remembered(self, masks: Masks, again: Masks, draws: NDArray[np.int64]) -> Outputs:
        """Outputs of masks, then of rows that no memory may answer: with the last batch of new masks, if they fit."""
        keys = _keys_of(masks)
        first_rows: dict[bytes, int] = {}
        for row, key in enumerate(keys):
            if key not in self._slots:
                first_rows.setdefault(key, row)
        taken = [key for key in first_rows if key in self._ahead] if self._ahead else []
        if taken:  # they become calls now
            rows = [self._ahead.pop(key) for key in taken]
            self._n_rows, self._n_unused = self._n_rows + len(taken), self._n_unused - len(taken)
            self._keep(taken, np.concatenate([outputs[row : row + 1] for outputs, row in rows]))
            first_rows = {key: row for key, row in first_rows.items() if key not in self._slots}
        all_new = len(first_rows) == len(masks)
        new = masks if all_new else masks[list(first_rows.values())]
        repeated = self._compute(new, list(first_rows), again, draws)
        known = np.asarray(self.outputs[[self._slots[key] for key in keys]])
        if not len(again):
            return known
        return np.concatenate([known, self.recompute(again, draws) if repeated is None else repeated])

    def ahead(self, masks: Masks) -> Ahead | None:
        """What the call for these masks may take along of later looks; None if it may not, or there need be none.

        Rows are computed ahead only where they cost nothing but the time of a device: not where answers are random or
        in words, each mask is decided by many rows, outputs need not come from the model, or calls have a time limit.
        """
        last = self._innermost
        price = last._meter.price if last._price is None and last._meter is not None else last._price
        stays = self.deciding is not None or self.shortcut is not None or self._next_draw is not None
        if price is None or stays or last._fails_ahead or last._in_words or last._deadline.seconds is not None:
            return None
        if HOST.get() is not None:  # rows of other questions fill the call
            return None
        n_new = len({*_keys_of(check_masks(masks, self.n_columns))} - last._slots.keys() - last._ahead.keys())
        return price.ahead(n_new, min(self.batch_size, last.batch_size)) if n_new else None

    def compute_ahead(self, masks: Masks) -> None:
        """Compute masks (b, n_features) that may be asked for soon: they are no calls until someone does."""
        last, keys = self._innermost, _keys_of(masks)
        new = {key: row for row, key in enumerate(keys) if key not in last._slots and key not in last._ahead}
        rows, keys, size = masks[list(new.values())], list(new), min(self.batch_size, last.batch_size)
        for start in range(0, len(rows), size):
            batch, due = rows[start : start + size], (self._references, self._n_spread)
            again, expected = self._take_repeats(min(self._n_due(), size - len(batch)) if self is last else 0)
            try:
                outputs = last._ask_model(batch, again, np.ones(len(again), dtype=np.int64))
            except Exception:  # a row that no one asked for fails no question; one that is asked for fails by itself
                last._fails_ahead, (self._references, self._n_spread) = True, due
                return
            self._n_rows += len(again)
            self._check(again, expected, outputs[len(batch) :])
            last._ahead.update((key, (outputs, row)) for row, key in enumerate(keys[start : start + size]))
            last._n_unused += len(batch)

    def learn(self, other: Evaluator) -> None:
        """Remember what another evaluator of the same model has computed."""
        new = {key: row for key, row in other._slots.items() if key not in self._slots}
        if new:
            self._keep(list(new), other.outputs[list(new.values())])

    def keeps_top_class(self, masks: Masks, top_class: int) -> Mask:
        """Boolean (b,) from a ``Deciding`` model: whether the class has the largest score."""
        if self.deciding is None:
            raise InvalidTypeError(argument="model", must="be able to decide early", got=type(self.model).__name__)
        parts = [np.zeros(0, dtype=bool)]
        for start in range(0, len(masks), self.batch_size):
            part = masks[start : start + self.batch_size]
            decide = partial(self.deciding.keeps_top_class, part, top_class)
            parts.append(self._deadline.call(decide, f"for {len(part)} masks"))
            self._report()
        return np.concatenate(parts)

    def expect(self, n_rows: int) -> None:
        """Tell the progress hook how many more masks may come, references and repeated rows aside."""
        cost = 1 if self.deciding is None else self.deciding.rows_per_mask
        self._expected = self.n_calls + cost * (n_rows + _EXTRA_ROWS)

    def check_determinism(self, reference: Mask | None = None) -> None:
        """From now on compute some rows twice, and raise ``ModelError`` if an answer differs.

        A reference is repeated with the next batch, further rows, spread over the run, with batches after
        their own: a model that is random batch by batch is seen too. How many depends on how many are
        computed, not on how they are cut into batches. A model made of another remembers what the other
        said, so it is the other that is checked.
        """
        if self._next_draw is not None:
            return
        if self.deciding is not None:
            self.deciding.base.check_determinism()
            return
        if reference is not None:
            self._references.append((reference, self(reference[None])[0]))
        self._n_spread = self._n_spread or 0

    def settle(self) -> None:
        """Repeat the rows that are still due, in a batch of their own; from now on none is."""
        if self.deciding is not None:
            self.deciding.base.settle()
        masks, outputs = self._take_repeats(self._n_due())
        if len(masks):
            self._check(masks, outputs, self.recompute(masks))
        self._n_spread = None

    def draw_answers(self, first: int) -> None:
        """From now on ask the model anew for every row, as draws from number ``first`` on, and remember nothing."""
        if self.deciding is not None:
            must = "be left out for a smoothed model, which votes on answers that are remembered"
            raise InvalidValueError(argument="answers", must=must, got="'random'")
        self._next_draw = first

    def recompute(self, masks: Masks, numbers: NDArray[np.int64] | None = None) -> Outputs:
        """What the model says of masks (b, n_features) now, whatever it said of them before.

        Of a model that answers in words, these draws; without numbers, draw 1, as 0 is what it said before.
        """
        draws = np.ones(len(masks), dtype=np.int64) if numbers is None else numbers
        parts, start = [], 0
        while start < len(masks):
            part = slice(start, start + self.batch_size)
            try:
                parts.append(self._ask(masks[:0], masks[part], draws[part]))
            except Exception as error:
                self._halve(len(masks[part]), error)
                continue
            start += len(parts[-1])
            self._n_rows += len(parts[-1])
            self._report()
        return np.concatenate(parts)

    def finish(self) -> None:
        """Tell the progress hook that no more rows will come."""
        self._references, self._n_spread = [], None
        self._innermost._ahead.clear()
        if self.deciding is not None:
            self.deciding.base.finish()
        if self.progress is not None:
            self.progress(self.n_calls, self.n_calls)

    @property
    def row_costs(self) -> Callable[[Masks], NDArray[Any]] | None:
        """What rows of masks cost, if the model says that rows of like cost go together; None while sizes are timed."""
        costs: Callable[[Masks], NDArray[Any]] | None = getattr(self.model, "row_costs", None)
        if costs is None or (self._probe is not None and not self._probe.settled):
            return None
        return costs

    def _compute(self, masks: Masks, keys: list[bytes], beside: Masks, draws: NDArray[np.int64]) -> Outputs | None:
        """Compute and remember new masks; also rows beside them as these draws, unless they do not fit: then None."""
        start, of_beside, costs = 0, None, self.row_costs
        if costs is not None:
            order = np.argsort(costs(masks), kind="stable")
            masks, keys = masks[order], [keys[row] for row in order]
        while start < len(masks):
            most = self.batch_size if self._probe is None else min(self._probe.size, self.batch_size)
            due = self._references, self._n_spread
            is_computed = self._is_computed(masks[start : start + most])  # no call that repeats could go along with
            again, expected = self._take_repeats(0 if is_computed else min(self._n_due(), most - 1))
            batch = masks[start : start + most - len(again)]
            fits = start + len(batch) == len(masks) and len(batch) + len(again) + len(beside) <= most
            added, numbers = (beside, draws) if fits else (beside[:0], draws[:0])
            n_rows, began = len(batch) + len(again) + len(added), time.perf_counter()
            try:
                drawn = np.concatenate([np.ones(len(again), dtype=np.int64), numbers])
                outputs = self._ask(batch, np.concatenate([again, added]), drawn)
            except Exception as error:
                self._references, self._n_spread = due
                self._halve(n_rows, error)
                continue
            if self._probe is not None and self._host is None:  # a host times its own calls
                self._probe.record(n_rows, time.perf_counter() - began)
            self._n_rows += n_rows
            new, repeated, of_beside = np.split(outputs, [len(batch), len(batch) + len(again)])
            self._check(again, expected, repeated)
            self._keep(keys[start : start + len(batch)], new)
            start += len(batch)
        return of_beside if of_beside is not None and len(of_beside) == len(beside) else None

    def _halve(self, n_rows: int, error: Exception) -> None:
        """Go on with smaller batches if memory ran out; anything else is raised."""
        if not is_out_of_memory(error) or n_rows == 1:
            raise error
        self.batch_size = n_rows // 2
        if self._probe is not None:
            self._probe.stop_at(self.batch_size)

    def _is_computed(self, masks: Masks) -> bool:
        """Whether the evaluator below has been ahead of all of these masks."""
        last = self._innermost
        return bool(last._ahead) and all(key in last._slots or key in last._ahead for key in _keys_of(masks))

    def _n_due(self) -> int:
        """How many rows are to be repeated: references, and one in 16 of those known, up to four."""
        n_spread = min(_MOST_REPEATS, len(self._slots) // _ROWS_PER_REPEAT)
        return 0 if self._n_spread is None else len(self._references) + n_spread - self._n_spread

    def _take_repeats(self, n: int) -> tuple[Masks, list[Any]]:
        """So many masks that are to be repeated, references first, and what is known of each."""
        taken, self._references = self._references[:n], self._references[n:]
        masks, outputs = [mask for mask, _ in taken], [output for _, output in taken]
        if self._n_spread is not None and n > len(taken):
            n_more, keys = n - len(taken), list(self._slots)
            rows = (np.arange(n_more) * 2 + 1) * len(keys) // (2 * n_more)  # spread evenly
            masks += list(_unpacked([keys[row] for row in rows], self.n_columns))
            outputs += list(self.outputs[rows])
            self._n_spread += n_more
        return np.array(masks, dtype=bool).reshape(-1, self.n_columns), outputs

    @contextmanager
    def without_shortcut(self) -> Iterator[None]:
        """What is not remembered comes from the model itself."""
        shortcut, self.shortcut = self.shortcut, None
        try:
            yield
        finally:
            self.shortcut = shortcut

    def _ask(self, batch: Masks, again: Masks, draws: NDArray[np.int64]) -> Outputs:
        """Outputs of the batch and then of rows that no memory may answer, as these draws of a random answer."""
        if self.shortcut is None:
            return self._ask_model(batch, again, draws)
        n = len(batch)

        def ask(chosen: Mask) -> Outputs:
            return self._ask_model(batch[chosen[:n]], again[chosen[n:]], draws[chosen[n:]])

        return self.shortcut(np.concatenate([batch, again]), ask)

    def _ask_model(self, batch: Masks, again: Masks, draws: NDArray[np.int64]) -> Outputs:
        if isinstance(self.model, Evaluator):
            if self.model._next_draw is None and len(batch):
                return self.model._remembered(batch, again, draws)
            parts = [self.model(batch)] if len(batch) else []
            parts += [self.model.recompute(again, draws)] if len(again) else []
            return np.concatenate(parts)
        rows = np.concatenate([batch, again]) if len(again) else batch
        ask: Callable[[], Any] = partial(self.model, rows.copy())
        if self._in_words:
            sample = self.model.sample  # type: ignore[union-attr]
            ask = partial(sample, rows.copy(), np.concatenate([np.zeros(len(batch), dtype=np.int64), draws]))
        if (host := self._host) is not None:
            raw = host.ask(self.model, rows.copy(), batch_size=self.batch_size, probe=self._probe)
            return checked_outputs(raw, rows, self._rows.shape)
        clock = time.perf_counter if self._meter is None else self._meter.clock
        began = clock()
        raw = self._deadline.call(ask, f"for {len(rows)} masks")
        if self._meter is not None:
            self._meter.record(len(rows), clock() - began)
        return checked_outputs(raw, rows, self._rows.shape)

    @property
    def _host(self) -> Host | None:
        """Who calls the model; None if that is done here.

        Of a model made of another, that one's rows are shared; a call with a time limit is one question's.
        """
        is_own = self._deadline.seconds is not None or self._in_words or self.deciding is not None
        return None if is_own else HOST.get()

    def _check(self, masks: Masks, before: Any, after: Any) -> None:
        for mask, known, repeated in zip(masks, before, after, strict=True):
            check_repeat(mask, known, repeated)
        self._n_repeated += len(masks)

    def _keep(self, keys: list[bytes], outputs: Outputs) -> None:
        first, new = len(self._slots), [i for i, key in enumerate(keys) if key not in self._slots]
        # While this question waited, another one that shares the evaluator may have asked for the same.
        self._slots.update((keys[i], first + place) for place, i in enumerate(new))
        self._rows.append(outputs if len(new) == len(keys) else outputs[new])
        self._report()

    def _report(self) -> None:
        if self.progress is not None:
            self.progress(self.n_calls, max(self._expected, self.n_calls))


class _Rows:
    """Outputs in one array that doubles when full."""

    _buffer: Outputs | None = None
    _n = 0

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
    """An evaluator for one question, on top of the one that is given, if it is one.

    It counts what the question needs by itself, so that what a result says of its cost does not depend on
    what the evaluator below it knew before.
    """
    shared = model if isinstance(model, Evaluator) else None
    size = None if batch_size is None else check_whole(batch_size, "batch_size", minimum=1)
    if shared is None or shared.deciding is None:
        evaluator = Evaluator(model, batch_size=size)
    else:  # it decides early, and remembers in its base
        evaluator = Evaluator(shared.model, batch_size=size or shared.batch_size)
        evaluator._deadline = shared._deadline
    hook = None if shared is None else shared.progress
    asked = False if progress is None and shared is not None and shared.is_silent else progress
    evaluator.progress = hook if asked is None and hook is not None else as_progress(asked)
    search = search_bar() if asked is None and hook is None else None
    if shared is not None:
        shared.progress = None  # the evaluator of the question alone tells how far it is
    try:
        with _limited(evaluator, size), without_bars(), watching_search(search):
            yield evaluator
    except KeyboardInterrupt as stop:
        # Of evaluators inside each other the outermost speaks last, and knows of all calls.
        stop.__notes__ = [f"Stopped after {evaluator.n_calls} model calls."]
        raise
    finally:
        if shared is not None:
            shared.progress = hook
        evaluator.finish()


@contextmanager
def _limited(evaluator: Evaluator, batch_size: int | None) -> Iterator[None]:
    """The size is meant for the evaluators below too, of which the last one calls the model."""
    base = evaluator.model if evaluator.deciding is None else evaluator.deciding.base
    if batch_size is None or not isinstance(base, Evaluator):
        yield
        return
    own = base.model, base.batch_size, base._probe, base._meter
    base.model, base.batch_size, base._probe, base._meter = _without_probes(base.model), batch_size, None, None
    try:
        with _limited(base, batch_size):
            yield
    finally:
        base.model, base.batch_size, base._probe, base._meter = own


def is_out_of_memory(error: Exception) -> bool:
    """Whether a model raised this because its batch was too large for the memory there is."""
    known = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    return known or (isinstance(error, RuntimeError) and any(sign in str(error).lower() for sign in _MEMORY_SIGNS))


def steady_batch_size(model: Any, most: int = STEADY_BATCH_SIZE) -> int:
    """The size for scores that must be the same in every run: ``most``, or the model's own if that is smaller."""
    own = getattr(model, "batch_size", None)
    return most if own is None else min(most, own)


def _without_probes(model: Any) -> Any:
    """The same model, trying out nothing that changes how scores are rounded, if it would."""
    plain = getattr(model, "without_probes", None)
    return model if plain is None else plain()


def _keys_of(masks: Masks) -> list[bytes]:
    """The bits of each mask (b, n_features): what it is remembered by. Long ones are compressed where that is shorter.

    Random bits cannot be, and trying takes longer than all else: only what shows or hides nearly all is tried.
    """
    packed = np.ascontiguousarray(np.packbits(masks, axis=1))
    width, n_features = packed.shape[1], masks.shape[1]
    keys: list[bytes] = packed.view(np.dtype((np.void, width))).ravel().tolist()  # type: ignore[assignment]
    if width >= _LONG_MASK:
        for row, mask in enumerate(masks):
            n_shown = np.count_nonzero(mask)
            if min(n_shown, n_features - n_shown) * _FEW_OF < n_features:
                keys[row] = min(keys[row], zlib.compress(keys[row], 1), key=len)
    return keys


def _unpacked(keys: list[bytes], n_features: int) -> Masks:
    """The masks (b, n_features) of such keys."""
    width = -(-n_features // 8)
    rows = (key if len(key) == width else zlib.decompress(key) for key in keys)
    packed = np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(-1, width)
    return np.unpackbits(packed, axis=1, count=n_features).astype(bool)


class Deadline:
    """Lets calls take so many seconds each, and no more.

    A call with a limit runs in a thread of its own. Python cannot end a thread: one that is given up
    goes on until its call returns, and as long as it does no other call is begun.
    """

    def __init__(self, seconds: float | None, *, who: str = "The model") -> None:
        self.seconds, self._who = seconds, who
        self._last: threading.Thread | None = None

    def call(self, function: Callable[[], _Answer], what: str) -> _Answer:
        """The answer of a function, or what it raises; ``ModelError`` when the time is over."""
        if self.seconds is None:
            return function()
        if self._last is not None and self._last.is_alive():
            raise ModelError(f"{self._who} cannot be asked again: a call that was given up is still running.")
        answer: Future[_Answer] = Future()

        def run() -> None:
            try:
                answer.set_result(function())
            except BaseException as error:  # raised where it was asked for
                answer.set_exception(error)

        # Settings that belong to the caller's context, such as those of NumPy, hold for the call as well.
        self._last = threading.Thread(target=copy_context().run, args=(run,), daemon=True, name="holdfast-model")
        self._last.start()
        self._last.join(self.seconds)
        if not answer.done():
            late = f"{self._who} gave no answer {what} within `timeout` = {self.seconds:g} s."
            kept = "Answers that came before are kept."
            raise ModelError(f"{late} {kept} The call cannot be ended from here and may go on in the background.")
        return answer.result()
