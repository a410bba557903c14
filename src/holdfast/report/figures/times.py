"""Seconds per pass by batch size → axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from holdfast.report.figures.style import COLOURS, as_axes, tidy
from holdfast.validation import check_numbers, drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@drawing
def plot_times(seconds: Mapping[str, Sequence[float]], *, title: str = "", ax: Axes | None = None) -> Axes:
    """Draw the mean time per pass for each batch size, ± one standard deviation over inputs.

    Parameters
    ----------
    seconds : mapping of str to sequence of float
        What the batch size is called → seconds per pass, one for each input; the first is what the
        speed-ups beside the bars are relative to.

    Examples
    --------
    >>> axes = plot_times({"1": [0.004, 0.004], "5": [0.001, 0.001]})
    >>> [text.get_text() for text in axes.texts]
    ['4.00 ms', '1.00 ms (4.0×)']
    """
    axes = as_axes(ax)
    each = [check_numbers(values, "seconds") for values in seconds.values()]
    means = [1e3 * float(values.mean()) for values in each]
    spread = [1e3 * float(values.std(ddof=1)) if len(values) > 1 else 0.0 for values in each]
    places = range(len(means))
    axes.barh(places, means, xerr=spread, color=COLOURS["sky"], ecolor=COLOURS["grey"], height=0.62, capsize=2)
    for place, mean, deviation in zip(places, means, spread, strict=True):
        faster = f" ({means[0] / mean:.1f}×)" if place else ""
        axes.annotate(
            f"{mean:.2f} ms{faster}", (mean + deviation, place), xytext=(4, 0), textcoords="offset points", va="center"
        )
    axes.set_yticks(places, list(seconds))
    axes.invert_yaxis()
    axes.set_xlim(0, 1.45 * max(mean + deviation for mean, deviation in zip(means, spread, strict=True)))
    tidy(axes, x="ms per pass", y="batch size", title=title)
    axes.grid(axis="x", alpha=0.25, lw=0.6)
    axes.grid(axis="y", visible=False)
    return axes
