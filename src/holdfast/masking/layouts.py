"""A convolutional module on a CPU → the memory layout of images that it is faster on.

Channels last often is, and is not always. Calls that are made anyway are computed in either layout in
turns, and the faster one is kept for the module; scores differ by rounding alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from holdfast.masking.module_notes import notes_of
from holdfast.masking.torch_support import import_torch

_ROUNDS = 3
"""Calls of one length that are timed in each layout; the best counts, since the first also warms up."""

_LEAST = 4
"""Rows of a call that says something: for fewer, laying out the weights anew outweighs the rest."""

_GAIN = 0.95
"""Channels last must take at most this share of the time, or images stay as they are."""

_REFUSALS = ("view size is not compatible", "contiguous", "stride")
"""What torch says of modules that insist on the usual layout."""

_SAME = 1e-4
"""Most that scores may differ between layouts, of 1 or of the largest."""

Work = Callable[[bool], Any]
"""Whether channels are last → scores of one batch."""


class LayoutProbe:
    """Which layout a module is faster on; None until it is known.

    Examples
    --------
    >>> probe = LayoutProbe()
    >>> [probe.run(4, lambda channels_last: channels_last) for _ in range(4)]
    [False, True, False, True]
    """

    def __init__(self) -> None:
        self.channels_last: bool | None = None
        self._seconds: dict[int, tuple[list[float], list[float]]] = {}

    def run(self, n_rows: int, work: Work) -> Any:
        """Compute a batch, in the layout that is known to be faster or was timed less often."""
        if self.channels_last is not None or n_rows < _LEAST:
            return work(bool(self.channels_last))
        usual, last = self._seconds.setdefault(n_rows, ([], []))
        channels_last, clock = len(last) < len(usual), _clock()
        start = clock()
        answer = self._try(work, channels_last)
        (last if channels_last else usual).append(clock() - start)
        if self.channels_last is None and len(last) >= _ROUNDS:
            self.channels_last = min(last) <= _GAIN * min(usual)
            if self.channels_last and not _alike(answer, work(False)):
                # A module that reads memory as it lies is not to be laid out anew.
                self.channels_last = False
                return work(False)
        return answer

    def _try(self, work: Work, channels_last: bool) -> Any:
        """One batch; a module that refuses channels last gets it again, and never that layout."""
        try:
            return work(channels_last)
        except RuntimeError as error:
            if not channels_last or not any(sign in str(error) for sign in _REFUSALS):
                raise
            self.channels_last = False
            return work(False)


def _alike(found: Any, wanted: Any) -> bool:
    """Whether both layouts give the same scores, rounding aside."""
    one, other = np.asarray(found, dtype=np.float64), np.asarray(wanted, dtype=np.float64)
    return one.shape == other.shape and bool(np.abs(one - other).max() <= _SAME * max(1.0, np.abs(other).max()))


def layout_probe(module: Any, image: Any) -> LayoutProbe:
    """The probe of a module for images like this tensor (C, H, W); settled at once where there is nothing to gain."""
    torch = import_torch()
    notes, question = notes_of(module), ("layout", tuple(image.shape), image.dtype, image.device.type)
    if question not in notes:
        notes[question] = LayoutProbe()
        if image.device.type != "cpu" or image.dtype != torch.float32 or not _is_convolutional(module):
            notes[question].channels_last = False
    probe: LayoutProbe = notes[question]
    return probe


def _clock() -> Callable[[], float]:
    """Time of this thread's own work, which others on the machine do not add to, if it does all the work."""
    return time.thread_time if import_torch().get_num_threads() == 1 else time.perf_counter


def _is_convolutional(module: Any) -> bool:
    """Whether it has convolutions besides one that cuts patches."""
    torch = import_torch()
    return sum(isinstance(part, torch.nn.Conv2d) for part in module.modules()) > 1
