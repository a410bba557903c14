"""A convolutional module on a CPU → the memory layout of images that it is faster on.

Channels last often is, and is not always. Both layouts compute parts of a batch that is needed
anyway, in turns, and the faster one is kept for the module; scores differ by rounding alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from holdfast.masking.module_notes import notes_of
from holdfast.masking.torch_support import import_torch

_ROUNDS = 3
"""Parts that each layout computes; the best of them counts, since the first also warms up."""

_GAIN = 0.95
"""Channels last must take at most this share of the time, or images stay as they are."""

_REFUSALS = ("view size is not compatible", "contiguous", "stride")
"""What torch says of modules that insist on the usual layout."""

Work = Callable[[slice, bool], Any]
"""Rows and whether channels are last → their scores."""


class LayoutProbe:
    """Which layout a module is faster on; None until it is known.

    Examples
    --------
    >>> probe = LayoutProbe()
    >>> probe.channels_last = True
    >>> probe.run(4, lambda rows, channels_last: (rows, channels_last))
    [(slice(0, 4, None), True)]
    """

    def __init__(self) -> None:
        self.channels_last: bool | None = None

    def run(self, n_rows: int, work: Work) -> list[Any]:
        """Do all rows, in one part or, as long as nothing is known, in parts of both layouts."""
        size = n_rows // (2 * _ROUNDS)
        if self.channels_last is not None or size == 0:
            return [work(slice(0, n_rows), bool(self.channels_last))]
        done, seconds, clock = [], ([], []), _clock()  # type: tuple[list[Any], tuple[list[float], list[float]], Any]
        for part in range(2 * _ROUNDS):
            start = clock()
            done.append(self._try(work, slice(part * size, (part + 1) * size), bool(part % 2)))
            seconds[part % 2].append(clock() - start)
        if self.channels_last is None:
            self.channels_last = min(seconds[True]) <= _GAIN * min(seconds[False])
        rest = slice(2 * _ROUNDS * size, n_rows)
        return [*done, work(rest, self.channels_last)] if rest.start < n_rows else done

    def _try(self, work: Work, rows: slice, channels_last: bool) -> Any:
        """One part; a module that refuses channels last gets the part again, and never that layout."""
        if self.channels_last is not None or not channels_last:
            return work(rows, False)
        try:
            return work(rows, True)
        except RuntimeError as error:
            if not any(sign in str(error) for sign in _REFUSALS):
                raise
            self.channels_last = False
            return work(rows, False)


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
