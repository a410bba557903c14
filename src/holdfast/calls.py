"""Rows → what a model says of them: who makes the call, how many rows it has, and how long it may take."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import ModelError
from holdfast.outputs import checked_outputs
from holdfast.types import Answering, Deciding, MaskedModel, Masks, Outputs
from holdfast.validation import check_whole

if TYPE_CHECKING:  # needed only where a call has a price
    from holdfast.prices import CallMeter, CallPrice

_Answer = TypeVar("_Answer")

DEFAULT_BATCH_SIZE = 256

STEADY_BATCH_SIZE = 64
"""Most rows per call where scores must not depend on timing: near the fastest for most models, on any machine."""

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


class ModelCalls:
    """The calls of a model: how many rows each may have, its time limit, and what is learnt from the time it takes.

    Where no ``batch_size`` is given, the model may have a ``probe``, which finds the fastest size, and a ``meter``,
    which finds out what a call takes; what is given as ``price`` counts instead.
    """

    def __init__(
        self, model: MaskedModel, *, batch_size: int | None, deadline: Deadline, price: CallPrice | None
    ) -> None:
        own_size, is_free = getattr(model, "batch_size", None) or DEFAULT_BATCH_SIZE, batch_size is None
        self.batch_size = check_whole(own_size if is_free else batch_size, "batch_size", minimum=1)
        self.model: MaskedModel = model if is_free else _without_probes(model)
        self.probe = getattr(model, "batch_probe", None) if is_free else None
        self.meter: CallMeter | None = getattr(model, "call_meter", None) if is_free else None
        self.deadline, self.given_price, self.given_size = deadline, price, batch_size
        # A protocol takes long to check: nearly always one of its names tells.
        self.deciding = model if hasattr(model, "keeps_top_class") and isinstance(model, Deciding) else None
        self.answering = model if hasattr(model, "sample") and isinstance(model, Answering) else None

    @property
    def price(self) -> CallPrice | None:
        """What a call takes: as given, or as measured; None if neither is known."""
        return self.meter.price if self.given_price is None and self.meter is not None else self.given_price

    def next_size(self, n_rows: int) -> int:
        """Most rows of the next call, where so many wait."""
        return self.batch_size if self.probe is None else min(self.probe.rows_of(n_rows), self.batch_size)

    @property
    def host(self) -> Host | None:
        """Who makes the calls; None if that is done here.

        Of a model made of another, that one's rows are shared; a call with a time limit is one question's.
        """
        is_own = self.deadline.seconds is not None or self.answering is not None or self.deciding is not None
        return None if is_own else HOST.get()

    def ask(self, rows: Masks, draws: NDArray[np.int64], shape: tuple[int, ...] | None) -> Outputs:
        """Outputs of rows (b, n_columns), by one call; ``shape`` is that of an output before, or None.

        Of a model that answers in words, the last rows are these draws; those before are draw 0, what a call gives.
        """
        if (host := self.host) is not None:
            raw = host.ask(self.model, rows.copy(), batch_size=self.batch_size, probe=self.probe)
            return checked_outputs(raw, rows, shape)
        call: Callable[[], Any] = partial(self.model, rows.copy())
        if self.answering is not None:
            first = np.zeros(len(rows) - len(draws), dtype=np.int64)
            call = partial(self.answering.sample, rows.copy(), np.concatenate([first, draws]))
        timer = self.probe if self.meter is None else self.meter
        # A call with a time limit is the work of another thread.
        clock = time.perf_counter if timer is None or self.deadline.seconds is not None else timer.clock
        began = clock()
        raw = self.deadline.call(call, f"for {len(rows)} masks")
        self._record(len(rows), clock() - began)
        return checked_outputs(raw, rows, shape)

    def _record(self, n_rows: int, seconds: float) -> None:
        """Let those know that learn from it how long a call took."""
        if self.meter is not None:
            self.meter.record(n_rows, seconds)
        if self.probe is not None and not self.probe.settled:
            self.probe.record(n_rows, seconds)
            if n_rows == self.batch_size < self.probe.size:
                self.probe.stop_at(n_rows)

    def halve(self, n_rows: int, error: Exception) -> None:
        """Go on with smaller batches if memory ran out; anything else is raised."""
        if not is_out_of_memory(error) or n_rows == 1:
            raise error
        self.batch_size = n_rows // 2
        if self.probe is not None:
            self.probe.stop_at(self.batch_size)

    @contextmanager
    def limited_to(self, batch_size: int) -> Iterator[None]:
        """Inside, calls have at most so many rows, and nothing is timed."""
        own = self.model, self.batch_size, self.probe, self.meter
        self.model, self.batch_size, self.probe, self.meter = _without_probes(self.model), batch_size, None, None
        try:
            yield
        finally:
            self.model, self.batch_size, self.probe, self.meter = own


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
