"""The look that all figures share (colours told apart by the colour-blind, thin frames, few words), and their files."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from holdfast.atomic import replacing
from holdfast.extras import import_extra
from holdfast.validation import check_amount, check_whole, drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {
    "blue": "#0072B2",
    "vermilion": "#D55E00",
    "green": "#009E73",
    "purple": "#CC79A7",
    "orange": "#E69F00",
    "sky": "#56B4E9",
    "black": "#000000",
    "grey": "#6B6B6B",
    "yellow": "#F0E442",
}
"""The palette of Okabe and Ito, and a grey."""

Dashes: TypeAlias = str | tuple[int, tuple[float, ...]]

CYCLE = ("blue", "vermilion", "green", "purple", "orange", "sky", "black", "grey")

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
"""Lines are told apart by these where colours are not."""

_GAPS = ((5, 1.5), (6, 1.5, 1, 1.5), (1, 1), (6, 1, 1, 1, 1, 1), (2.5, 1.5), (9, 2), (3, 1, 1, 1))
DASHES: tuple[Dashes, ...] = ("-", *((0, gaps) for gaps in _GAPS))
"""And by these."""

METHOD_PLACES = {"lime": 0, "shap": 1, "integrated_gradients": 2, "mfaba": 3, "occlusion": 4, "random": 7}
METHOD_PLACES |= {"gradient_x_input": 5, "smoothgrad": 6, "gradient_shap": 8, "grad_cam": 9, "attention_rollout": 10}
METHOD_PLACES |= {"rise": 11}
"""A method has the same colour, dashes and marker in every figure: those of this place."""

PANEL, NOTE_SIZE = (3.1, 2.5), 7.5
"""Width and height of one panel of a grid, in inches, and the size of notes under figures, in points."""

_LETTERS_PER_INCH, _LETTER = 13, 0.085
"""Of notes; and the width of a letter of a title, in inches: the mean of lower case is less, that of capitals more."""

_ENTRY_WIDTH, _LINE_HEIGHT = 1.8, 0.17
"""Of the widest entry of a legend and of a line, in inches."""

_SIZES = {"font.size": 8.5, "axes.titlesize": 9.5, "axes.labelsize": 8.5}
_SIZES |= {"legend.fontsize": 8, "xtick.labelsize": 8, "ytick.labelsize": 8}
SETTINGS: dict[str, Any] = {"font.family": "sans-serif", "font.sans-serif": ["DejaVu Sans"], **_SIZES}
SETTINGS |= {"svg.hashsalt": "holdfast", "svg.fonttype": "path"}
"""What text is set in; with the salt the same figure is the same file."""

_KINDS: dict[str, Any] = {"svg": {"metadata": {"Date": None}}, "png": {"dpi": 150, "metadata": {"Software": None}}}
FIGURE_KINDS = {**_KINDS, "pdf": {"metadata": {"CreationDate": None}}}
"""Files without dates."""

_BY_PYPLOT: ContextVar[bool] = ContextVar("by_pyplot", default=False)
"""Whether new figures belong to pyplot, which shows them."""


@dataclass(frozen=True)
class LineStyle:
    """How a line is drawn: each of colour, dashes and marker tells it apart from the others."""

    colour: str
    style: Dashes = "-"
    marker: str = "o"


def look_of(name: str, place: int = 0) -> LineStyle:
    """The look of a method, or else that of its place in the list; that of another package's is none of ours."""
    at = METHOD_PLACES.get(name, place + len(METHOD_PLACES) * (":" in name))
    # Colours come again after eight places, with other dashes and markers.
    shape = (at + at // len(CYCLE)) % len(CYCLE)
    return LineStyle(COLOURS[CYCLE[at % len(CYCLE)]], DASHES[shape], MARKERS[shape])


def shades(n: int) -> list[str]:
    """Colours from dark to light that are told apart in print and by the colour-blind."""
    import matplotlib
    from matplotlib.colors import to_hex

    return [to_hex(colour) for colour in matplotlib.colormaps["viridis"](np.linspace(0.1, 0.85, n))]


@contextmanager
def themed() -> Iterator[None]:
    """Matplotlib with the settings of these figures, and as it was afterwards."""
    with import_extra("matplotlib", "Figures need").rc_context(SETTINGS):
        yield


@contextmanager
def shown_by_pyplot() -> Iterator[None]:
    """New figures are those of pyplot, as notebooks and ``plt.show()`` show them."""
    token = _BY_PYPLOT.set(True)
    try:
        yield
    finally:
        _BY_PYPLOT.reset(token)


def as_axes(ax: Axes | None, *, size: tuple[float, float] = (4.6, 3.3)) -> Axes:
    """The axes given, or new ones on a figure of their own."""
    return make_panels(1, 1, size=size)[1][0][0] if ax is None else ax


@drawing
def make_panels(
    n_rows: int, n_columns: int, *, size: tuple[float, float] = PANEL, heights: Sequence[float] | None = None
) -> tuple[Figure, list[list[Axes]]]:
    """A figure with a grid of panels, each of this size in inches; ``heights`` gives each row its own height.

    Examples
    --------
    >>> figure, panels = make_panels(2, 3)
    >>> len(panels), len(panels[0])
    (2, 3)
    """
    module, name = ("pyplot", "figure") if _BY_PYPLOT.get() else ("figure", "Figure")
    new_figure = getattr(import_extra(f"matplotlib.{module}", "Figures need"), name)
    down, across = check_whole(n_rows, "n_rows", minimum=1), check_whole(n_columns, "n_columns", minimum=1)
    width, height = (check_amount(length, "size") for length in size)
    rows = [height] * down if heights is None else list(heights)
    with themed():
        figure: Figure = new_figure(figsize=(width * across, sum(rows)), layout="constrained")
        grid = figure.subplots(down, across, squeeze=False, height_ratios=rows)
    return figure, [list(row) for row in grid]


def literal(text: str) -> str:
    """The text as it is drawn without formulas: a dollar sign would begin one."""
    return text.replace("$", r"\$")


def entitle(axes: Axes, *lines: str) -> None:
    """Lines above a panel; one that is too long for its width is broken, first where it has commas.

    Examples
    --------
    >>> _, [[panel]] = make_panels(1, 1, size=(2.5, 2.0))
    >>> entitle(panel, "minilm-tweeteval-emotion, 20 inputs", "LIME")
    >>> panel.get_title().splitlines()
    ['minilm-tweeteval-emotion', '20 inputs', 'LIME']
    """
    grid, figure = axes.get_gridspec(), axes.figure
    panel = PANEL[0] if grid is None else figure.bbox.width / figure.dpi / grid.ncols
    n_letters = max(int(panel / _LETTER), 1)
    parts = [part for line in lines for part in ([line] if len(line) <= n_letters else line.split(", "))]
    axes.set_title(literal("\n".join(piece for part in parts for piece in textwrap.wrap(part, n_letters))))


def tidy(
    axes: Axes, *, x: str = "", y: str = "", title: str = "", grid: Literal["x", "y"] = "y", whole_x: bool = False
) -> Axes:
    """Labels, and as little frame as reads well; radii and degrees are whole numbers."""
    if whole_x:
        from matplotlib.ticker import MaxNLocator

        axes.xaxis.set_major_locator(MaxNLocator(nbins=7, integer=True))
    axes.set(xlabel=literal(x), ylabel=literal(y), title=literal(title))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis=grid, alpha=0.25, lw=0.6)
    axes.set_axisbelow(True)
    return axes


def shade_between(
    axes: Axes, at: Sequence[float], low: Sequence[float], high: Sequence[float], *, colour: str, n_bands: int = 1
) -> None:
    """A band with thin edges, the paler the more there are, so that what lies over each other stays legible."""
    from matplotlib.colors import to_rgba

    face, edge = to_rgba(colour, min(0.14, 0.3 / n_bands)), to_rgba(colour, 0.35)
    axes.fill_between(at, low, high, facecolor=face, edgecolor=edge, lw=0.5)


def bare(axes: Axes, title: str = "") -> Axes:
    """A panel for a picture: no ticks, no frame."""
    axes.set(xticks=[], yticks=[], title=literal(title))
    axes.spines[:].set_visible(False)
    return axes


def legend_below(figure: Figure, axes: Axes, *, note: str = "") -> None:
    """One legend for all panels, that of these axes, under them; and under it a note on what is drawn."""
    handles, labels = axes.get_legend_handles_labels()
    if not handles:
        note_below(figure, note)
        return
    text = _fitted(figure, note)
    n_rows = -(-len(labels) // max(1, int(figure.get_figwidth() / _ENTRY_WIDTH)))
    n_columns = -(-len(labels) // n_rows)  # in rows that are about equally long
    drawn: dict[str, Any] = {"frameon": False, "handlelength": 3.2, "ncols": n_columns}
    legend = figure.legend(handles, labels, loc="outside lower center", title=text, **drawn)
    _heighten(figure, n_rows + text.count("\n") + 1)
    legend.get_title().set(fontsize=NOTE_SIZE, color=COLOURS["grey"], ha="center")
    entries, _ = legend.get_children()
    entries.get_children().reverse()  # a legend has its title above its entries, a note is read after them


def note_below(figure: Figure, note: str) -> None:
    """A note under all panels on what is drawn, for figures without a common legend."""
    text = _fitted(figure, note)
    figure.supxlabel(text, fontsize=NOTE_SIZE, color=COLOURS["grey"])
    _heighten(figure, text.count("\n") + 1)


def _heighten(figure: Figure, n_lines: int) -> None:
    """Room for lines under the panels, so that these stay as large as they were meant to be."""
    figure.set_figheight(figure.get_figheight() + _LINE_HEIGHT * n_lines)


def _fitted(figure: Figure, note: str) -> str:
    """The note in lines that are no longer than the figure is wide."""
    return textwrap.fill(note, int(_LETTERS_PER_INCH * figure.get_figwidth()))


@drawing
def save_figure(figure: Figure, stem: str | Path) -> tuple[Path, ...]:
    """Write a figure as ``<stem>.svg`` and ``<stem>.png``, each when it is complete; returns both paths.

    Files hold neither dates nor random names: the same figure gives the same bytes.
    """
    path = Path(stem)
    return tuple(write_figure(figure, path.with_name(f"{path.name}.{kind}")) for kind in _KINDS)


def write_figure(figure: Figure, path: Path) -> Path:
    """Write a figure as the .svg, .png or .pdf file that ``path`` names; returns the path."""
    kind = path.suffix.lower().removeprefix(".")
    with replacing(path) as unfinished, themed():
        figure.savefig(unfinished, format=kind, **FIGURE_KINDS[kind])
    return path
