"""How a model is run fastest: precision and compilation on request, batch sizes and layouts found by timing.

Calls that are made anyway are timed, no call is made for the sake of speed, and scores differ by rounding alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.masking.torch import device_of, evaluating_module, import_torch, notes_of, score_tensor, to_numpy
from holdfast.validation import check_name, shown

if TYPE_CHECKING:  # needed only where calls are timed
    from holdfast.prices import CallMeter

AUTOCASTS = {"bf16": "bfloat16", "fp16": "float16"}
"""Names of mixed precisions → the number type of their matrix products."""

# A larger batch size is taken if each call computes so many times the rows per second of the best before: it takes more
# memory, and slows down more than a smaller one when others use the caches too.
_BATCH_GAIN = 1.03
_MOST_ROWS = 1 << 20  # more than any batch holds
_FIRST_PIXELS, _FIRST_ROWS = 1 << 16, (4, 64)  # in the first batches of images: about so many, in so many rows
_MOST_REST = 16  # rows, and at most a quarter of a batch, that go along with a full batch
_MOST_SMALLER = 16  # calls of fewer rows than are still to be tried, after which they are not
_BATCH_REPEATS = 2  # full calls that are timed per size

_LAYOUT_ROUNDS = 3  # calls of one length that are timed in each layout until one is chosen
_LAYOUT_REPEATS = 2  # calls in each layout from which a length counts, by the best: the first also warms up
_LEAST_ROWS = 4  # of a call that says something: for fewer, laying out the weights anew outweighs the rest
_MANY_ROWS = 16  # from here on channels last was faster, or as fast, for every convolutional network that was timed
_LAYOUT_REFUSALS = ("view size is not compatible", "contiguous", "stride")  # of modules that insist on the usual layout

# Most that scores computed in two ways may differ: of 1 or of the largest score; of what they vary by, so that a model
# that hardly looks at its input does not pass unseen; and, in half precision, in steps of rounding.
_CLOSE, _SHARE, _HALF_STEPS = 1e-4, 1e-3, 16

_READING = 40  # on a CPU, reading the weights once takes as long as computing about so many tokens with them
_LAUNCHING = 1_500_000  # multiplications in the time it takes to start one
_ON_DEVICES = 1024  # on other devices a pass over a few hundred tokens more costs less than another pass


@dataclass(frozen=True)
class Acceleration:
    """Mixed precision and a compiler, if wanted: both change scores a little, and so are part of what is certified."""

    autocast: str | None = None
    backend: str | None = None

    @classmethod
    def check(cls, autocast: Any, compile: Any) -> Acceleration:  # noqa: A002
        """The options ``autocast`` and ``compile`` of a caller."""
        if autocast is not None:
            check_name(autocast, "autocast", AUTOCASTS)
        if compile is None or isinstance(compile, bool):
            return cls(autocast, "inductor" if compile else None)
        must = "be True, False or a backend of torch.compile"
        if not isinstance(compile, str):
            raise InvalidTypeError(argument="compile", must=must, got=shown(compile))
        backends = import_torch().compiler.list_backends(exclude_tags=())
        if compile not in backends:
            must = f"{must}, one of {', '.join(backends)}"
            raise InvalidValueError(argument="compile", must=must, got=shown(compile))
        return cls(autocast, compile)

    @property
    def words(self) -> tuple[str, ...]:
        """What certificates say of it."""
        mixed = () if self.autocast is None else (f"autocast {self.autocast}",)
        return mixed if self.backend is None else (*mixed, f"compiled by {self.backend}")

    @property
    def options(self) -> dict[str, Any]:
        """The options again, those that were given."""
        both = {"autocast": self.autocast, "compile": self.backend}
        return {name: value for name, value in both.items() if value is not None}


class Runner:
    """A module as it is to be run; compiled at the first call, and anew where it travels to."""

    def __init__(self, module: Any, acceleration: Acceleration | None = None) -> None:
        self.module = module
        self.acceleration = Acceleration() if acceleration is None else acceleration
        self._compiled: Any = None

    def __reduce__(self) -> tuple[type[Runner], tuple[Any, Acceleration]]:
        return Runner, (self.module, self.acceleration)

    def __call__(self, *batch: Any, **fields: Any) -> Any:
        """What the module returns of a batch."""
        backend = self.acceleration.backend
        if backend is not None and self._compiled is None:
            self._compiled = import_torch().compile(self.module, backend=backend)
        run = self.module if backend is None else self._compiled
        if self.acceleration.autocast is None:
            return run(*batch, **fields)
        with self._casting():
            return run(*batch, **fields)

    def scores(self, *batch: Any, **fields: Any) -> NDArray[Any]:
        """Its scores of a batch (b, n_classes), in evaluation mode."""
        with evaluating_module(self.module):
            return to_numpy(score_tensor(self(*batch, **fields)))

    def differentiable(self, *batch: Any, **fields: Any) -> Any:
        """The same, never compiled: gradients are rare, and compiling them takes longer than they do."""
        with self._casting():
            return self.module(*batch, **fields)

    def _casting(self) -> AbstractContextManager[Any]:
        if self.acceleration.autocast is None:
            return nullcontext()
        torch = import_torch()
        dtype = getattr(torch, AUTOCASTS[self.acceleration.autocast])
        mixed: AbstractContextManager[Any] = torch.autocast(device_of(self.module).type, dtype)
        return mixed


class BatchProbe:
    """How many rows go into the next call: twice as many while that computes more rows per second, then the best.

    It begins with ``first`` rows. No call is made for its sake, and no result depends on it. On a CPU larger batches
    help until their activations no longer fit its caches, and from there on do harm. A size that is not clearly faster
    is timed again, after the best one: other work on the machine may have slowed down one of them. Nothing larger is
    tried once twice and four times as many rows were no better.
    """

    def __init__(self, first: int = 4, *, clock: Callable[[], float] = time.perf_counter) -> None:
        self.size, self.clock = first, clock
        self.settled = False
        self._best, self._tried, self._most, self._n_smaller = first, 2 * first, _MOST_ROWS, 0
        self._best_rate, self._again = 0.0, False  # rows per second of the best size, and whether it was timed again
        self._seconds: list[float] = []

    def rows_of(self, n_rows: int) -> int:
        """How many of the rows that wait go into the next call.

        Full batches, since one of a new size needs newly allocated memory; a small rest goes along with the last.
        """
        if not self.settled and (n_rows >= self.size or self.size <= 2 * self._best):
            return min(n_rows, self.size)
        rest = min(self._best // 4, _MOST_REST)
        return min(n_rows if n_rows <= self._best + rest else self._best, self._most)

    def record(self, n_rows: int, seconds: float) -> None:
        """Take note of a call; calls of fewer rows than were offered say nothing about the size."""
        if self.settled:
            return
        if n_rows == self.size:
            self._seconds.append(seconds)
        elif self.size == 4 * self._best:
            self._n_smaller += 1
        if len(self._seconds) == _BATCH_REPEATS:
            self._compare(min(self._seconds), max(self._seconds))
            self._seconds, self._n_smaller = [], 0
        if self.settled or self._n_smaller == _MOST_SMALLER:
            self.size, self.settled = self._best, True

    def _compare(self, least: float, most: float) -> None:
        """Choose which size is timed next, after calls of the present one took at least and at most so long."""
        highest_rate, lowest_rate = (self.size / max(seconds, 1e-9) for seconds in (least, most))
        if self.size == self._best:
            self._best_rate, self.size = highest_rate, self._tried
        elif lowest_rate >= _BATCH_GAIN * self._best_rate:
            self._best, self._best_rate, self._again = self.size, highest_rate, False
            self.size = self._tried = 2 * self._best
        elif not self._again:
            self.size, self._again = self._best, True
        else:
            self.settled = self.size == 4 * self._best
            self.size, self._again = 4 * self._best, False
            self._tried = self.size

    def stop_at(self, n_rows: int) -> None:
        """Never offer more rows than this: memory ran out, or no call may have more."""
        self._most = min(self._most, max(1, n_rows))
        self._best = self.size = min(self._best, self._most)
        self.settled = True


def batch_probe(
    module: Any, *question: Any, first: int = 4, clock: Callable[[], float] = time.perf_counter
) -> BatchProbe:
    """The probe of a module for inputs of one kind: what one input taught serves the next."""
    probe: BatchProbe = notes_of(module).setdefault(("batch probe", *question), BatchProbe(first, clock=clock))
    return probe


def first_images(shape: tuple[int, ...]) -> int:
    """How many images (H, W, C) go into the first batches that are timed: many of small ones, where calls weigh most.

    >>> first_images((32, 32, 3)), first_images((224, 224, 3))
    (64, 4)
    """
    least, most = _FIRST_ROWS
    return min(most, max(least, _FIRST_PIXELS // (shape[0] * shape[1])))


def work_clock() -> float:
    """Seconds; of this thread's own work, to which others on the machine do not add, if torch works in it alone."""
    return time.thread_time() if import_torch().get_num_threads() == 1 else time.perf_counter()


def call_meter(module: Any, device: Any, *question: Any) -> CallMeter:
    """The meter of a module on a device for inputs of one kind."""
    from holdfast.prices import CallMeter

    clock = work_clock if device.type == "cpu" else time.perf_counter
    meter: CallMeter = notes_of(module).setdefault(("call meter", device.type, *question), CallMeter(clock))
    return meter


class LayoutProbe:
    """Which memory layout of images a module is faster on, usual or channels last; None until it is known.

    Channels last often is faster for convolutions on a CPU, and is not always. Calls are computed in either
    layout in turns, and the faster one is kept for the module. ``allows_last`` says whether scores were the same.
    """

    def __init__(self) -> None:
        self.channels_last: bool | None = None
        self.allows_last: bool | None = None
        self._seconds: dict[int, tuple[list[float], list[float]]] = {}

    def run(self, n_rows: int, work: Callable[[bool], Any]) -> Any:
        """A batch by ``work``, given whether channels are last: in the faster layout, or the one timed less often."""
        if self.channels_last is not None or n_rows < _LEAST_ROWS:
            return work(bool(self.channels_last))
        usual, last = self._seconds.setdefault(n_rows, ([], []))
        channels_last = len(last) < len(usual)
        start = work_clock()
        try:
            scores = work(channels_last)
        except RuntimeError as error:
            if not channels_last or not any(sign in str(error) for sign in _LAYOUT_REFUSALS):
                raise
            self.channels_last = False
            return work(False)
        (last if channels_last else usual).append(work_clock() - start)
        if len(last) >= _LAYOUT_ROUNDS:
            timed = [pair for pair in self._seconds.values() if len(pair[1]) >= _LAYOUT_REPEATS]
            self.channels_last = sum(min(last) for _, last in timed) <= sum(min(usual) for usual, _ in timed)
            if self.channels_last:
                wanted = work(False)
                self.channels_last = self.allows_last = _are_close(scores, wanted)
                return scores if self.allows_last else wanted
        return scores

    def run_untimed(self, n_rows: int, work: Callable[[bool], Any]) -> Any:
        """The same in a layout that depends on the number of rows alone, for scores that round alike in every run."""
        if n_rows < _MANY_ROWS or self.allows_last is False:
            return work(False)
        if self.allows_last:
            return work(True)
        wanted = work(False)
        try:
            scores = work(True)
            self.allows_last = _are_close(scores, wanted)
        except RuntimeError as error:
            if not any(sign in str(error) for sign in _LAYOUT_REFUSALS):
                raise
            self.allows_last = False
        return scores if self.allows_last else wanted


def _are_close(scores: Any, wanted: Any) -> bool:
    """Whether scores in two layouts differ by rounding alone; a module may read memory as it lies."""
    new, old = (np.asarray(values, dtype=np.float64) for values in (scores, wanted))
    return new.shape == old.shape and bool(np.abs(new - old).max() <= _CLOSE * max(1.0, np.abs(old).max()))


def layout_probe(module: Any, image: Any) -> LayoutProbe:
    """The probe of a module for images like this tensor (C, H, W); settled at once where there is nothing to gain."""
    torch = import_torch()
    notes, question = notes_of(module), ("layout", tuple(image.shape), image.dtype, image.device.type)
    if question not in notes:
        # One convolution alone cuts patches.
        n_convolutions = sum(isinstance(part, torch.nn.Conv2d) for part in module.modules())
        notes[question] = LayoutProbe()
        if image.device.type != "cpu" or image.dtype != torch.float32 or n_convolutions <= 1:
            notes[question].channels_last = notes[question].allows_last = False
    probe: LayoutProbe = notes[question]
    return probe


def group_by_length(lengths: NDArray[Any], overhead: float) -> list[NDArray[np.intp]]:
    """Cut rows of so many tokens (b,) into groups that cost least in all, as indices of rows, shortest groups first.

    A group costs its rows, padded to its longest, and one overhead: what one more pass costs, in tokens.
    """
    order = np.argsort(lengths, kind="stable")
    values, counts = np.unique(lengths, return_counts=True)
    ends = np.concatenate([[0], np.cumsum(counts)])
    # best[j] is the least cost of the j shortest kinds of rows, cut[j] where their last group begins.
    best, cut = np.zeros(len(ends)), np.zeros(len(ends), dtype=np.intp)
    for j in range(1, len(ends)):
        costs = best[:j] + (ends[j] - ends[:j]) * values[j - 1] + overhead
        cut[j] = costs.argmin()
        best[j] = costs[cut[j]]
    groups, j = [], len(ends) - 1
    while j > 0:
        groups.append(order[ends[cut[j]] : ends[j]])
        j = int(cut[j])
    return groups[::-1]


def pass_overhead(module: Any, device: Any) -> float:
    """About how many tokens cost as much as one more pass through the module."""
    if device.type != "cpu":
        return _ON_DEVICES
    notes = notes_of(module)
    if "pass overhead" not in notes:
        sizes = [weights.numel() for weights in module.parameters() if weights.ndim == 2] or [1]
        notes["pass overhead"] = _READING + _LAUNCHING / float(np.median(sizes))
    return float(notes["pass overhead"])


def same_scores(scores: Any, wanted: Any) -> bool:
    """Whether scores (b, n_classes) are those wanted, rounding aside, and every row has the same top class.

    The rows should be as unlike each other as the inputs at hand allow. In half precision, classes that are as close as
    its rounding may change places.
    """
    if scores.shape != wanted.shape or not scores.isfinite().all():
        return False
    rounding, exact = float(import_torch().finfo(wanted.dtype).eps), wanted.float()
    size = float(exact.abs().max())
    if rounding > _CLOSE:
        tolerance = _HALF_STEPS * rounding * size
    else:
        tolerance = min(_CLOSE * max(1.0, size), _SHARE * float((exact.amax(dim=0) - exact.amin(dim=0)).max()))
    gap = (scores.float() - exact).abs().max()
    if rounding > _CLOSE:
        return bool(gap <= tolerance)
    return bool(gap <= tolerance) and bool((scores.argmax(dim=-1) == wanted.argmax(dim=-1)).all())
