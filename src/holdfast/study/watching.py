"""Events of a study → what a person or a program sees of it while it runs."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, TextIO

from holdfast.errors import InvalidTypeError
from holdfast.terminal import TerminalBar, neutral, unescaped
from holdfast.validation import shown
from holdfast.words import duration

_WIDTH = 24
_SECONDS_BETWEEN_LINES = 0.1


@dataclass(frozen=True)
class Moment:
    """A study at one moment.

    Attributes
    ----------
    n_done, n_items : int
        Items stored, of this run and before, and items there will be, those left out aside.
    n_new : int
        Items stored by this run.
    n_skipped, n_given_up : int
        Inputs left out, and items given up.
    seconds : float
        Since the run began.
    means : mapping
        For each method, the mean rate at the largest radius, over what this run has stored.
    key : str or None
        The item just stored.
    """

    n_done: int
    n_items: int
    n_new: int
    n_skipped: int
    n_given_up: int
    seconds: float
    means: Mapping[str, float]
    key: str | None = None

    @property
    def items_per_second(self) -> float:
        """The rate of this run so far."""
        return self.n_new / max(self.seconds, 1e-9)

    @property
    def seconds_left(self) -> float | None:
        """How long the rest takes at this rate; None before the first item."""
        left = self.n_items - self.n_done - self.n_given_up
        return left / self.items_per_second if self.n_new else None


class LiveBar:
    """One line that is drawn over and over, and stays: whose it is, share done, rate, time left, means."""

    def __init__(self, out: TextIO | None = None, *, label: str = "") -> None:
        self._out, self._label = unescaped(out or sys.stderr), f"{neutral(label)} " if label else ""
        self._drawn = 0.0

    def __call__(self, moment: Moment) -> None:
        now = time.monotonic()
        if now - self._drawn >= _SECONDS_BETWEEN_LINES or moment.n_done >= moment.n_items:
            self._drawn = now
            self._out.write(f"\r\x1b[K{self._label}{line_of(moment)}")
            self._out.flush()

    def of_masks(self) -> TerminalBar:
        """A bar of the same study for one mean curve, which counts masks."""
        return TerminalBar(self._out, what=f"masks of {self._label.strip()}" if self._label else "masks")


def line_of(moment: Moment) -> str:
    """A moment in one line.

    Examples
    --------
    >>> print(line_of(Moment(50, 200, 30, 0, 0, 60.0, {"lime": 0.93, "shap": 0.951})))
    ██████░░░░░░░░░░░░░░░░░░ 50/200 items, 0.50/s, 5 min left, lime 0.930, shap 0.951
    """
    filled = _WIDTH * moment.n_done // max(1, moment.n_items)
    parts = [f"{'█' * filled}{'░' * (_WIDTH - filled)} {moment.n_done}/{moment.n_items} items"]
    if moment.seconds_left is not None:
        parts += [f"{moment.items_per_second:.2f}/s", f"{duration(moment.seconds_left)} left"]
    parts += [f"{moment.n_skipped} inputs left out"] * (moment.n_skipped > 0)
    parts += [f"{moment.n_given_up} items given up"] * (moment.n_given_up > 0)
    return ", ".join(parts + [f"{method} {mean:.3f}" for method, mean in moment.means.items()])


class JsonLines:
    """One JSON object per event, for programs."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stderr

    def __call__(self, moment: Moment) -> None:
        left = moment.seconds_left
        content = asdict(moment) | {"items_per_second": moment.items_per_second, "seconds_left": left}
        self._out.write(json.dumps(content) + "\n")
        self._out.flush()


def as_watcher(progress: Any) -> Callable[[Moment], None] | None:
    """None or False for silence, True for a bar, "json" for JSON lines, or a function of a ``Moment``."""
    if progress is None or progress is False:
        return None
    if progress is True:
        return LiveBar()
    if progress == "json":
        return JsonLines()
    if callable(progress):
        return progress  # type: ignore[no-any-return]
    raise InvalidTypeError(
        argument="progress", must="be True, False, None, 'json' or a function of a Moment", got=shown(progress)
    )
