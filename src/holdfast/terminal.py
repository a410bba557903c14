"""Progress, results and text → a terminal that only shows them: names cannot move the cursor or hide lines."""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stderr, redirect_stdout
from contextvars import ContextVar
from dataclasses import Field, fields
from importlib import import_module
from multiprocessing import parent_process
from typing import TYPE_CHECKING, Any, TextIO, cast

import numpy as np

from holdfast.errors import InvalidTypeError
from holdfast.types import MaskedModel, Progress

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""What terminals obey, but for tabs and line feeds; what turns the direction of writing; halves of characters."""

_SEARCH: ContextVar[Progress | None] = ContextVar("search", default=None)
_IS_PART: ContextVar[bool] = ContextVar("is_part", default=False)
"""Whether what is computed is part of something larger, which shows how far it is."""

_LONGEST_LINE, _LONGEST_FIELD = 120, 40
SECONDS_BETWEEN_LINES = 0.1
SECONDS_BEFORE_BAR = 2.0
"""Bars that nobody asked for appear after so long."""


def neutral(text: str) -> str:
    """The text with control characters written out."""
    return _CONTROLS.sub(lambda control: control[0].encode("unicode_escape", "backslashreplace").decode(), text)


class Neutral:
    """A stream on which control characters are written out; ``unescaped`` is the stream itself, for bars and colour."""

    def __init__(self, stream: TextIO) -> None:
        self.unescaped = stream

    def write(self, text: str, /) -> int:
        """Write the text, what the stream's encoding lacks as escapes."""
        encoding = self.unescaped.encoding or "utf-8"
        self.unescaped.write(neutral(text).encode(encoding, "backslashreplace").decode(encoding))
        return len(text)

    def writelines(self, lines: Iterable[str], /) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unescaped, name)


def unescaped(stream: TextIO) -> TextIO:
    """The stream itself, for control characters of our own."""
    return cast(TextIO, getattr(stream, "unescaped", stream))


@contextmanager
def neutral_streams() -> Iterator[None]:
    """Whatever is printed inside reaches stdout and stderr without control characters."""
    streams = (cast(TextIO, Neutral(unescaped(stream))) for stream in (sys.stdout, sys.stderr))
    with redirect_stdout(next(streams)), redirect_stderr(next(streams)):
        yield


class TerminalLine:
    """The last line of a terminal, drawn over and over."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = unescaped(out or sys.stderr)

    def show(self, text: str) -> None:
        """Write the text in place of what was there."""
        self._out.write(f"\r\x1b[K{text}")
        self._out.flush()

    def erase(self) -> None:
        """Leave an empty line."""
        self.show("")


class NotebookLine:
    """A line under the cell of a notebook, drawn over and over."""

    _handle: Any = None

    def show(self, text: str) -> None:
        """Show the text in place of what was there."""
        content = {"text/plain": text}
        if self._handle is None:
            self._handle = import_module("IPython.display").display(content, raw=True, display_id=True)
        else:
            self._handle.update(content, raw=True)

    def erase(self) -> None:
        """Leave an empty line."""
        if self._handle is not None:
            self.show("")


class TerminalBar:
    """One line on stderr: share done, rows (or whatever is counted), rate and time left. Removed when all is done.

    ``after`` so many seconds it appears, of which ``clock`` tells how many have passed; what ends before is not seen.
    """

    def __init__(
        self,
        out: TextIO | None = None,
        *,
        what: str = "masks",
        line: TerminalLine | NotebookLine | None = None,
        after: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._line, self._what = line or TerminalLine(out), neutral(what)
        self._after, self._clock, self._started = after, clock, clock()
        self._drawn: float | None = None

    def __call__(self, done: int, total: int) -> None:
        now = self._clock()
        if done >= total:
            if self._drawn is not None or not self._after:
                self._line.erase()
            self._drawn = None
        elif now - self._started >= self._after and (self._drawn is None or now - self._drawn >= SECONDS_BETWEEN_LINES):
            self._drawn = now
            rate = done / max(now - self._started, 1e-9)
            pace = f"{rate:.0f}/s, ≤ {(total - done) / max(rate, 1e-9):.0f} s left"
            self._line.show(f"{share_done(done, total, width=30)} {done}/{total} {self._what}, {pace}")


def share_done(done: int, total: int, *, width: int) -> str:
    """The share that is done as a bar."""
    filled = width * done // max(1, total)
    return "█" * filled + "░" * (width - filled)


def as_progress(progress: Any, *, what: str = "masks") -> Progress | None:
    """None for a bar that appears by itself, False for silence, True for a bar at once, or a callable of (done, total).

    By itself a bar appears after two seconds, on a terminal or in a notebook.
    """
    if progress is None:
        line = automatic_line()
        return None if line is None else TerminalBar(what=what, line=line, after=SECONDS_BEFORE_BAR)
    if progress is False:
        return None
    if progress is True:
        return TerminalBar(what=what)
    if callable(progress):
        return progress  # type: ignore[no-any-return]
    must = "be True, False, None or a function of (done, total)"
    raise InvalidTypeError(argument="progress", must=must, got=repr(progress))


def automatic_line() -> TerminalLine | NotebookLine | None:
    """Where someone looks who did not ask for a bar: a terminal or a notebook; None in pipes, logs and tests.

    Threads and worker processes belong to something larger, such as a server.
    """
    is_terminal = sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    if _IS_PART.get() or not (is_terminal or "IPython" in sys.modules):
        return None
    if threading.current_thread() is not threading.main_thread() or parent_process() is not None:
        return None
    if is_terminal:
        return TerminalLine()
    shell = getattr(sys.modules["IPython"], "get_ipython", lambda: None)()
    return NotebookLine() if type(shell).__name__ == "ZMQInteractiveShell" else None


class _Setting(AbstractContextManager[None]):
    """Inside, a context variable has this value."""

    def __init__(self, variable: ContextVar[Any], value: Any) -> None:
        self._variable, self._value = variable, value

    def __enter__(self) -> None:
        self._token = self._variable.set(self._value)

    def __exit__(self, *_error: object) -> None:
        self._variable.reset(self._token)


def without_bars() -> AbstractContextManager[None]:
    """Inside, no bar appears by itself: what is computed there is part of something larger."""
    return _Setting(_IS_PART, True)


def watching_search(progress: Progress | None) -> AbstractContextManager[None]:
    """Let ``progress`` know the steps of every search for a stopping design inside; None changes nothing."""
    return nullcontext() if progress is None else _Setting(_SEARCH, progress)


def search_bar() -> Progress | None:
    """A bar that appears by itself, of a search that nobody watches yet."""
    return None if _SEARCH.get() is not None else as_progress(None, what="steps of the search")


def tell_search(done: int, total: int) -> None:
    """Tell whoever watches how far the search for a stopping design is."""
    progress = _SEARCH.get()
    if progress is not None:
        progress(done, total)


class Shown:
    """A dataclass whose ``repr`` is one short line, and which notebooks show as its sentence."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.__repr__ = Shown.__repr__  # type: ignore[method-assign]  # or the dataclass writes one with all fields

    def __repr__(self) -> str:
        line = type(self).__name__ + "("
        parts = [f"{field.name}={_brief(getattr(self, field.name))}" for field in own_first(self)]
        for i, part in enumerate(parts):
            if len(line) + len(part) > _LONGEST_LINE - len(", …)"):
                return f"{line}…)"
            line += part + (", " if i + 1 < len(parts) else "")
        return f"{line})"

    def _repr_html_(self) -> str:
        return str(import_module("holdfast.report.notebook").to_html(self))  # pages are made upstairs


class Bound:
    """A model bound to an input, whose ``repr`` is one line instead of all pixels or rows."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.__repr__ = Bound.__repr__  # type: ignore[method-assign]  # or the dataclass writes one with all fields

    def __repr__(self) -> str:
        features = _named(cast("Any", self).n_features, "feature", "features", getattr(self, "feature_names", None))
        classes = getattr(self, "classes", None)
        known = f"; {_named(len(classes), 'class', 'classes', classes)}" if classes else ""
        return f"{type(self).__name__}({features}{known})"


class Plotted:
    """A result that can be drawn as lines or bars; ``holdfast.report.figures`` does it."""

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the result, and return the matplotlib axes.

        A curve is a line with the band of its interval, a comparison a line per explanation; scores are bars. It needs
        matplotlib: ``pip install 'holdfast[report]'``.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new pyplot figure if left out, which notebooks and ``plt.show()`` show.

        Examples
        --------
        >>> import numpy as np
        >>> import holdfast as hf
        >>> model = hf.mask_function(lambda masks: masks[:, 0], n_features=8)
        >>> curve = hf.certify_radii(model, np.arange(8) < 2, radii=[1, 2, 3], rng=0)
        >>> curve.plot().get_xlabel()
        'radius (features added)'
        """
        return cast("Axes", _figures().draw_result(self, ax))


class Pictured:
    """A result about one input that can be drawn on that input; ``holdfast.report.figures`` does it."""

    def show(self, model: MaskedModel, ax: Axes | None = None) -> Axes:
        """Draw the input with its explanation, and return the matplotlib axes.

        What is selected is blue. If additions are known that change the prediction, they are orange and hatched or
        dashed. It needs matplotlib: ``pip install 'holdfast[report]'``.

        Parameters
        ----------
        model : MaskedModel
            The model that the result is about: it knows the image, the text or the row that it is bound to.
        ax : matplotlib axes, optional
            Where to draw; a new pyplot figure if left out, which notebooks and ``plt.show()`` show.

        Examples
        --------
        >>> import holdfast as hf
        >>> model = hf.mask_text(lambda texts: ["bad" if "not" in text else "good" for text in texts], "not so good")
        >>> certificate = hf.certify(model, [False, False, True], radius=1, rng=0)
        >>> [text.get_text() for text in certificate.show(model).texts]
        ['not', 'so', 'good']
        """
        return cast("Axes", _figures().draw_explained(self, model, ax))


def _figures() -> Any:
    """What draws results: it is upstairs, and loaded when something is drawn."""
    return import_module("holdfast.report.figures.examples")


def own_first(value: Any) -> list[Field[Any]]:
    """The fields of a dataclass, those of its own class before those that it inherits: what it says comes first."""
    own = vars(type(value)).get("__annotations__", {})
    return sorted(fields(value), key=lambda field: field.name not in own)


def _named(number: int, noun: str, plural: str, names: Sequence[str] | None) -> str:
    """How many there are, and what the first three are called."""
    counted = f"{number} {noun if number == 1 else plural}"
    if not names:
        return counted
    return f"{counted}: {', '.join(map(_brief, names[:3]))}{', …' if len(names) > 3 else ''}"


def _brief(value: Any) -> str:
    """A field in a few characters: how many entries a long one has, and which of the features a mask shows."""
    if isinstance(value, np.ndarray) and value.dtype == np.bool_:
        return f"<{int(value.sum())} of {len(value)} features>"
    if isinstance(value, Shown):
        return f"{type(value).__name__}(…)"
    text = f"{value:.4g}" if isinstance(value, float) else repr(value)
    if len(text) <= _LONGEST_FIELD and "\n" not in text:
        return text
    if isinstance(value, Sized) and not isinstance(value, str):
        return f"<{len(value)} entries>"
    return f"{text[: _LONGEST_FIELD - 1]}…".replace("\n", " ")
