"""Masks → outputs: the only loop over the model.

Everything that costs a forward pass goes through :class:`Evaluator`: batches, each distinct mask
computed once, halved batches when memory runs out, checked outputs, progress. What was finished
before an error or an interruption is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from holdfast.calls import HOST, Deadline, ModelCalls
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.outputs import MOST_REPEATS, OutputMemory, Repeats, RowsAhead, check_repeats, keys_of, masks_of
from holdfast.terminal import as_progress, search_bar, watching_search, without_bars
from holdfast.types import Answering, Mask, MaskedModel, Masks, Outputs, Progress, Provenance
from holdfast.validation import check_masks, check_seconds, check_whole, shown

if TYPE_CHECKING:  # needed only where a call has a price
    from holdfast.prices import Ahead, CallPrice

Shortcut = Callable[[Masks, Callable[[Mask], Outputs]], Outputs]
"""Masks (b, n_features), and a function that asks the model about some of them, (b,) → the outputs of all."""

_MOST_ROWS_PER_CALL = 32
"""Most rows of a call that takes others along, over the number of rows that take as long as the call itself."""

_EXTRA_ROWS = 3 + MOST_REPEATS
"""The explanation, the full input, and what is repeated: the explanation and rows spread over the run."""


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
        kept, and no other is tried: networks round differently in batches of another shape. Halved,
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
        for name, value in {"price": price, "timeout": timeout}.items():
            if value is not None and isinstance(model, Evaluator):
                must = "be given to the evaluator inside, which calls the model"
                raise InvalidValueError(argument=name, must=must, got=shown(value))
        deadline, n_features = Deadline(check_seconds(timeout)), getattr(model, "n_features", None)
        if not callable(model) or n_features is None:
            must = "be a MaskedModel (`n_features` and a call on masks)"
            hint = "Bind a classifier to its input with `mask_image`, `mask_text` or `mask_tabular`. "
            hint += "Wrap a function of masks with `holdfast.mask_function(function, n_features=...)`."
            raise InvalidTypeError(argument="model", must=must, got=type(model).__name__, hint=hint)
        self.n_features = check_whole(n_features, "model.n_features", minimum=1)
        self.n_columns: int = getattr(model, "n_columns", self.n_features)  # more if rows say more than what is shown
        self.calls = ModelCalls(model, batch_size=batch_size, deadline=deadline, price=price)
        self.memory, self.repeats, self.rows_ahead = OutputMemory(self.n_columns), Repeats(), RowsAhead()
        self.by_rows: Evaluator | None = None  # of the same model, where its completions are drawn
        self.deciding = self.calls.deciding
        self._base_before = 0 if self.deciding is None else self.deciding.n_base_calls
        self._repeated_before = 0 if self.deciding is None else int(self.deciding.base.n_repeated)
        self.progress = None if progress is None else as_progress(progress)
        self.is_silent = progress is False
        self.shortcut: Shortcut | None = None
        self.takes_shortcuts = bool(getattr(model, "takes_shortcuts", True))
        self.reads_structure = bool(getattr(model, "reads_structure", True))
        self._n_rows = self._n_repeated = self._expected = 0
        self._next_draw: int | None = None  # the number of the next random answer; None while answers are remembered

    def __repr__(self) -> str:
        return f"Evaluator({self.model!r})"

    @property
    def model(self) -> MaskedModel:
        """What is asked: a model, or the evaluator below."""
        return self.calls.model

    @property
    def below(self) -> Any:
        """The model; of one that is made of another, the evaluator of that other."""
        return self.model if self.deciding is None else self.deciding.base

    @property
    def innermost(self) -> Evaluator:
        """The evaluator that calls the model itself."""
        return self.model.innermost if isinstance(self.model, Evaluator) else self

    @property
    def batch_size(self) -> int:
        """Most rows per call."""
        return self.calls.batch_size

    @property
    def deadline(self) -> Deadline:
        """What limits the time of a call of the innermost model, its gradients included."""
        return self.innermost.calls.deadline

    @property
    def row_costs(self) -> Callable[[Masks], NDArray[Any]] | None:
        """What rows of masks cost, if the model says that rows of like cost go together; None while sizes are timed."""
        costs: Callable[[Masks], NDArray[Any]] | None = getattr(self.model, "row_costs", None)
        is_timed = costs is not None and self.calls.probe is not None and not self.calls.probe.settled
        return None if is_timed else costs

    @property
    def answering(self) -> Answering | None:
        """The innermost model, if it answers in words."""
        return self.innermost.calls.answering

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
    def n_calls(self) -> int:
        """Rows the model has computed; of a model made of another, rows of that other."""
        beside = 0 if self.by_rows is None else self.by_rows.n_calls
        return self._n_rows + beside if self.deciding is None else self.deciding.n_base_calls - self._base_before

    @property
    def n_computed(self) -> int:
        """Rows the model has computed, whether or not they were asked for."""
        return self.n_calls + self.innermost.rows_ahead.n_unused

    @property
    def n_repeated(self) -> int:
        """Rows computed twice; of a model made of another, rows of that other."""
        return self._n_repeated if self.deciding is None else self.deciding.base.n_repeated - self._repeated_before

    @property
    def masks(self) -> Masks:
        """Every distinct mask computed so far, in the order of computation."""
        return masks_of(list(self.memory.slots), self.n_columns)

    @property
    def outputs(self) -> Outputs:
        """What the model said of each of ``masks``."""
        return self.memory.outputs

    def __call__(self, masks: Masks, /) -> Outputs:
        """Outputs of masks (b, n_features); only masks never seen before reach the model."""
        checked = check_masks(masks, self.n_columns)
        if self._next_draw is not None:
            numbers = np.arange(self._next_draw, self._next_draw + len(checked))
            self._next_draw += len(checked)
            return self.recompute(checked, numbers)
        return self._remembered(checked, checked[:0], np.zeros(0, dtype=np.int64))

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
                self.calls.halve(len(masks[part]), error)
                continue
            start += len(parts[-1])
            self._n_rows += len(parts[-1])
            self._report()
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def draw_answers(self, first: int) -> None:
        """From now on ask the model anew for every row, as draws from number ``first`` on, and remember nothing."""
        if self.deciding is not None:
            must = "be left out for a smoothed model, which votes on answers that are remembered"
            raise InvalidValueError(argument="answers", must=must, got="'random'")
        self._next_draw = first

    def keeps_top_class(self, masks: Masks, top_class: int) -> Mask:
        """Boolean (b,) from a ``Deciding`` model: whether the class has the largest score."""
        if self.deciding is None:
            raise InvalidTypeError(argument="model", must="be able to decide early", got=type(self.model).__name__)
        parts = [np.zeros(0, dtype=bool)]
        for start in range(0, len(masks), self.batch_size):
            part = masks[start : start + self.batch_size]
            decide = partial(self.deciding.keeps_top_class, part, top_class)
            parts.append(self.calls.deadline.call(decide, f"for {len(part)} masks"))
            self._report()
        return np.concatenate(parts)

    def learn(self, other: Evaluator) -> None:
        """Remember what another evaluator of the same model has computed."""
        new = [key for key in other.memory.slots if key not in self.memory.slots]
        if new:
            self._keep(new, other.memory.look_up(new))

    def check_determinism(self, reference: Mask | None = None, output: Any = None) -> None:
        """From now on compute some rows twice, and raise ``ModelError`` if an answer differs.

        A reference, whose output may be given, is repeated with the next batch, further rows, spread over the run,
        with batches after their own: a model that is random batch by batch is seen too. How many depends on how many
        are computed, not on how they are cut into batches. A model made of another remembers what the other said, so
        it is the other that is checked.
        """
        if self._next_draw is not None:
            return
        if self.deciding is not None:
            self.deciding.base.check_determinism()
            return
        more: tuple[tuple[Mask, Any], ...] = ()
        if reference is not None:
            more = ((reference, self(reference[None])[0] if output is None else output),)
        before = self.repeats
        self.repeats = replace(before, references=before.references + more, n_spread=before.n_spread or 0)

    def settle(self) -> None:
        """Repeat the rows that are still due, in a batch of their own; from now on none is."""
        if self.deciding is not None:
            self.deciding.base.settle()
        self._use_ready()
        masks, outputs, self.repeats = self.repeats.take(self.repeats.n_due(self.memory), self.memory)
        if len(masks):
            self._check(list(zip(masks, outputs, self.recompute(masks), strict=True)))
        if self.repeats.ready:  # which were no calls, and may differ all the same
            check_repeats(*zip(*self.repeats.ready, strict=True))
        self.repeats = Repeats()

    def ahead(self, masks: Masks) -> Ahead | None:
        """What the call for these masks may take along of later looks; None if it may not, or there need be none.

        Rows are computed ahead only where they cost nothing but the time of a device: not where answers are random or
        in words, each mask is decided by many rows, outputs need not come from the model, or calls have a time limit.
        """
        last = self.innermost
        price = last.calls.price
        if price is None or last.rows_ahead.has_failed or self.answering is not None:
            return None
        if price.rows_per_call * _MOST_ROWS_PER_CALL < max(1, len(masks)):  # less to gain than it takes to find out
            return None
        if self.deciding is not None or self.shortcut is not None or self._next_draw is not None:
            return None
        if self.deadline.seconds is not None or HOST.get() is not None:  # rows of other questions fill the call
            return None
        n_new = len(last.memory.missing(keys_of(check_masks(masks, self.n_columns)), last.rows_ahead.rows))
        return price.ahead(n_new, min(self.batch_size, last.batch_size)) if n_new else None

    def compute_ahead(self, masks: Masks) -> None:
        """Compute masks (b, n_features) that may be asked for soon: they are no calls until someone does."""
        last = self.innermost
        new = last.memory.missing(keys_of(masks), last.rows_ahead.rows)
        rows, keys, size = masks[list(new.values())], list(new), min(self.batch_size, last.batch_size)
        for start in range(0, len(rows), size):
            batch, due = rows[start : start + size], self.repeats
            n_again = min(due.n_due(self.memory, len(rows), ahead=True), size - len(batch))
            again, expected, self.repeats = due.take(n_again, self.memory)
            try:
                outputs = last._ask_model(batch, again, np.ones(len(again), dtype=np.int64))
            except Exception:  # a row that no one asked for fails no question; one that is asked for fails by itself
                last.rows_ahead.has_failed, self.repeats = True, due
                return
            last.rows_ahead.add(keys[start : start + size], outputs)
            last.rows_ahead.n_unused += len(again)
            repeated = tuple(zip(again, expected, outputs[len(batch) :], strict=True))
            n_references = min(len(due.references), len(again))  # whose turn it is
            self._use_repeated(repeated[:n_references])
            self.repeats = replace(self.repeats, ready=due.ready + repeated[n_references:])
            self._use_ready()

    def expect(self, n_rows: int) -> None:
        """Tell the progress hook how many more masks may come, references and repeated rows aside."""
        cost = 1 if self.deciding is None else self.deciding.rows_per_mask
        self._expected = self.n_calls + cost * (n_rows + _EXTRA_ROWS)

    def finish(self) -> None:
        """Tell the progress hook that no more rows will come."""
        self.repeats = Repeats()
        self.innermost.rows_ahead.rows.clear()
        if self.deciding is not None:
            self.deciding.base.finish()
        if self.progress is not None:
            self.progress(self.n_calls, self.n_calls)

    @contextmanager
    def without_shortcut(self) -> Iterator[None]:
        """What is not remembered comes from the model itself."""
        shortcut, self.shortcut = self.shortcut, None
        try:
            yield
        finally:
            self.shortcut = shortcut

    def _remembered(self, masks: Masks, again: Masks, draws: NDArray[np.int64]) -> Outputs:
        """Outputs of masks, then of rows that no memory may answer: with the last batch of new masks, if they fit."""
        keys, repeated = keys_of(masks), None
        new = self.memory.missing(keys)
        taken = [key for key in new if key in self.rows_ahead.rows] if self.rows_ahead.rows else []
        if taken:  # they become calls now
            self._n_rows += len(taken)
            self._keep(taken, self.rows_ahead.take(taken))
            new = self.memory.missing(keys)
        if new:
            rows = masks if len(new) == len(masks) else masks[list(new.values())]
            repeated = self._compute(rows, list(new), again, draws)
        known = self.memory.look_up(keys)
        if not len(again):
            return known
        return np.concatenate([known, self.recompute(again, draws) if repeated is None else repeated])

    def _compute(self, masks: Masks, keys: list[bytes], beside: Masks, draws: NDArray[np.int64]) -> Outputs | None:
        """Compute and remember new masks; also rows beside them as these draws, unless they do not fit: then None."""
        start, of_beside, costs, last = 0, beside[:0], self.row_costs, self.innermost
        if costs is not None:
            order = np.argsort(costs(masks), kind="stable")
            masks, keys = masks[order], [keys[row] for row in order]
        while start < len(masks):
            n_left = len(masks) - start
            self._use_ready(n_left)
            due, ahead = self.repeats, last.rows_ahead.rows
            n_due = due.n_due(self.memory, n_left)
            most = self.calls.next_size(n_left + n_due + len(beside))
            n_due = n_due if n_left + n_due <= most else due.n_due(self.memory)  # the last call takes along one more
            makes_call = not ahead or last.memory.missing(keys[start : start + most], ahead)
            n_again = min(n_due, most - 1) if makes_call else 0  # they go along with a call
            again, expected, self.repeats = due.take(n_again, self.memory)
            batch, numbers = masks[start : start + most - len(again)], np.ones(len(again), dtype=np.int64)
            n_known = len(batch) + len(again)
            if len(beside) and start + len(batch) == len(masks) and n_known + len(beside) <= most:
                again, numbers = np.concatenate([again, beside]), np.concatenate([numbers, draws])
            n_rows = len(batch) + len(again)
            try:
                outputs = self._ask(batch, again, numbers)
            except Exception as error:
                self.repeats = due
                self.calls.halve(n_rows, error)
                continue
            self._n_rows += n_rows
            n_repeated = len(expected)  # what is beside them is not compared
            self._check(list(zip(again[:n_repeated], expected, outputs[len(batch) : n_known], strict=True)))
            self._keep(keys[start : start + len(batch)], outputs[: len(batch)])
            start, of_beside = start + len(batch), outputs[n_known:]
        return of_beside if len(of_beside) == len(beside) else None

    def _ask(self, batch: Masks, again: Masks, draws: NDArray[np.int64]) -> Outputs:
        """Outputs of the batch and then of rows that no memory may answer, as these draws of a random answer."""
        if self.shortcut is None:
            return self._ask_model(batch, again, draws)
        n = len(batch)

        def ask(chosen: Mask) -> Outputs:
            return self._ask_model(batch[chosen[:n]], again[chosen[n:]], draws[chosen[n:]])

        return self.shortcut(np.concatenate([batch, again]), ask)

    def _ask_model(self, batch: Masks, again: Masks, draws: NDArray[np.int64]) -> Outputs:
        below = self.model
        if not isinstance(below, Evaluator):
            rows = np.concatenate([batch, again]) if len(again) else batch
            shape = self.rows_ahead.shape if self.memory.shape is None else self.memory.shape
            return self.calls.ask(rows, draws, shape)
        if below._next_draw is None and len(batch):
            return below._remembered(batch, again, draws)
        parts = [below(batch)] if len(batch) else []
        parts += [below.recompute(again, draws)] if len(again) else []
        return np.concatenate(parts)

    def _use_ready(self, n_coming: int = 0) -> None:
        """Use rows that were repeated ahead when it is their turn."""
        ready = self.repeats.ready
        if ready:
            n = self.repeats.n_ready(self.memory, n_coming)
            self.repeats = replace(self.repeats, ready=ready[n:])
            self._use_repeated(ready[:n])

    def _use_repeated(self, rows: Sequence[tuple[Mask, Any, Any]]) -> None:
        """Rows that were repeated ahead are calls now, of this evaluator and of all below."""
        asked: Any = self
        while isinstance(asked, Evaluator):
            asked._n_rows += len(rows)
            asked = asked.model
        self.innermost.rows_ahead.n_unused -= len(rows)
        self._check(rows)

    def _check(self, rows: Sequence[tuple[Mask, Any, Any]]) -> None:
        """Compare repeated rows, each a mask with what the model said before and now."""
        if rows:
            check_repeats(*zip(*rows, strict=True))
        self._n_repeated += len(rows)

    def _keep(self, keys: list[bytes], outputs: Outputs) -> None:
        self.memory.add(keys, outputs)
        self._report()

    def _report(self) -> None:
        if self.progress is not None:
            self.progress(self.n_calls, max(self._expected, self.n_calls))


def bare_model(model: Any) -> Any:
    """The model itself, whatever evaluators remember it."""
    return model.innermost.model if isinstance(model, Evaluator) else model


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
        evaluator.calls.deadline = shared.calls.deadline
    hook = None if shared is None else shared.progress
    asked = False if progress is None and shared is not None and shared.is_silent else progress
    evaluator.progress = hook if asked is None and hook is not None else as_progress(asked)
    search = search_bar() if asked is None and hook is None and evaluator.progress is not None else None
    if shared is not None:
        shared.progress = None  # the evaluator of the question alone tells how far it is
    try:
        with ExitStack() as limits, without_bars(), watching_search(search):
            below: Any = evaluator.below
            while size is not None and isinstance(below, Evaluator):  # of which the last one calls the model
                limits.enter_context(below.calls.limited_to(size))
                below = below.below
            yield evaluator
    except KeyboardInterrupt as stop:
        # Of evaluators inside each other the outermost speaks last, and knows of all calls.
        stop.__notes__ = [f"Stopped after {evaluator.n_calls} model calls."]
        raise
    finally:
        if shared is not None:
            shared.progress = hook
        evaluator.finish()
