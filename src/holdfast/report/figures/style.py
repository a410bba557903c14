"""The look that all figures share: colours told apart by the colour-blind, thin frames, few words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from holdfast.errors import MissingExtraError

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

CYCLE = ("blue", "vermilion", "green", "purple", "orange", "sky", "black", "grey")

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
"""Lines are told apart by these where colours are not."""

METHOD_COLOURS = {
    "lime": "blue",
    "shap": "vermilion",
    "integrated_gradients": "green",
    "mfaba": "purple",
    "occlusion": "orange",
    "random": "grey",
}
"""A method has the same colour in every figure."""

METHOD_NAMES = {
    "lime": "LIME",
    "shap": "SHAP",
    "integrated_gradients": "Int. gradients",
    "mfaba": "MFABA",
    "occlusion": "Occlusion",
    "random": "Random",
}

PANEL = (3.1, 2.5)
"""Width and height of one panel of a grid, in inches."""

SETTINGS: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 8.5,
    "axes.titlesize": 9.5,
    "axes.labelsize": 8.5,
    "legend.fontsize": 8,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "svg.hashsalt": "holdfast",
    "svg.fonttype": "path",
}
"""What text is set in; with the salt the same figure is the same file."""


def colour_of(name: str, place: int = 0) -> str:
    """The colour of a method, or else that of its place in the list.

    Examples
    --------
    >>> colour_of("lime", 5), colour_of("mine", 0)
    ('#0072B2', '#0072B2')
    """
    return COLOURS[METHOD_COLOURS.get(name, CYCLE[place % len(CYCLE)])]


def marker_of(place: int) -> str:
    """The marker of a line by its place in the list.

    Examples
    --------
    >>> marker_of(0), marker_of(9)
    ('o', 's')
    """
    return MARKERS[place % len(MARKERS)]


def label_of(name: str) -> str:
    """What a method is called in a legend."""
    return METHOD_NAMES.get(name, name)


def import_figure() -> type[Figure]:
    """Matplotlib's figures without its global state, for those who have it."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("Figures need matplotlib: pip install 'holdfast[report]'") from error
    return Figure


@contextmanager
def themed() -> Iterator[None]:
    """Matplotlib with the settings of these figures, and as it was afterwards."""
    import matplotlib

    with matplotlib.rc_context(SETTINGS):  # type: ignore[arg-type]
        yield


def as_axes(ax: Axes | None, *, size: tuple[float, float] = (4.6, 3.3)) -> Axes:
    """The axes given, or new ones on a figure of their own."""
    if ax is not None:
        return ax
    return make_panels(1, 1, size=size)[1][0][0]


def make_panels(n_rows: int, n_columns: int, *, size: tuple[float, float] = PANEL) -> tuple[Figure, list[list[Axes]]]:
    """A figure with a grid of panels, each of this size in inches.

    Examples
    --------
    >>> figure, panels = make_panels(2, 3)
    >>> len(panels), len(panels[0])
    (2, 3)
    """
    figure_class = import_figure()
    with themed():
        figure = figure_class(figsize=(size[0] * n_columns, size[1] * n_rows), layout="constrained")
        grid = figure.subplots(n_rows, n_columns, squeeze=False)
    return figure, [list(row) for row in grid]


def tidy(axes: Axes, *, x: str = "", y: str = "", title: str = "") -> Axes:
    """Labels, and as little frame as reads well."""
    axes.set(xlabel=x, ylabel=y, title=title)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.25, lw=0.6)
    axes.set_axisbelow(True)
    return axes


def whole_ticks(axes: Axes) -> None:
    """Radii and degrees are whole numbers."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(nbins=7, integer=True))


def bare(axes: Axes, title: str = "") -> Axes:
    """A panel for a picture: no ticks, no frame."""
    axes.set(xticks=[], yticks=[], title=title)
    axes.spines[:].set_visible(False)
    return axes


def legend_below(figure: Figure, axes: Axes, *, n_columns: int = 6) -> None:
    """One legend for all panels, that of these axes, under them."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside lower center", ncols=min(n_columns, len(labels)), frameon=False)
