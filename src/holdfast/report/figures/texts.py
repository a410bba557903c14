"""A text and its explanation → axes: its features in reading order, selected, added and hidden ones told apart."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from holdfast.report.figures.style import COLOURS, as_axes, bare
from holdfast.validation import drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDTH = 46
"""Letters per line."""

_N_LINES = 6
"""Lines a panel has room for; longer texts are set more closely."""


@drawing
def plot_example_text(
    words: Sequence[str], selected: Any = None, *, added: Collection[int] = (), title: str = "", ax: Axes | None = None
) -> Axes:
    """Draw the features of a text, or what an explanation shows of them.

    Parameters
    ----------
    words : sequence of n_features str
        The features in reading order.
    selected : Boolean array (n_features,), optional
        The explanation: its features are framed in blue, others are pale. All are plain if left out.
    added : collection of int
        Features that were revealed besides: framed in orange, with broken lines.

    Examples
    --------
    >>> axes = plot_example_text(["not", "bad"], [False, True], added=[0])
    >>> [text.get_text() for text in axes.texts]
    ['not', 'bad']
    """
    axes = as_axes(ax, size=(4.2, 1.6))
    shown = np.ones(len(words), dtype=bool) if selected is None else np.asarray(selected, dtype=bool)
    plain = selected is None
    column = line = 0
    for place, word in enumerate(words):
        if column and column + len(word) > _WIDTH:
            column, line = 0, line + 1
        look = _look(plain=plain, shown=bool(shown[place]), added=place in added)
        _write(axes, word, (column, line), look=look)
        column += len(word) + 2
    axes.set_xlim(-1, _WIDTH + 2)
    spare = max(0, _N_LINES - line) / 2
    axes.set_ylim(line + 1 + spare, -1 - spare)
    return bare(axes, title)


def _look(*, plain: bool, shown: bool, added: bool) -> dict[str, Any]:
    if plain:
        return {"color": COLOURS["black"]}
    if added:
        return {"color": COLOURS["black"], "bbox": _frame(COLOURS["orange"], "--", "#FDF0D5")}
    if shown:
        return {"color": COLOURS["black"], "bbox": _frame(COLOURS["blue"], "-", "#DCEBF5")}
    return {"color": "#B0B0B0"}


def _frame(colour: str, style: str, face: str) -> dict[str, Any]:
    return {"boxstyle": "round,pad=0.18", "ec": colour, "fc": face, "ls": style, "lw": 1.0}


def _write(axes: Axes, word: str, place: tuple[int, int], *, look: dict[str, Any]) -> None:
    # A dollar sign would begin a formula.
    axes.text(*place, word.replace("$", r"\$"), family="DejaVu Sans Mono", fontsize=7.5, va="center", **look)
