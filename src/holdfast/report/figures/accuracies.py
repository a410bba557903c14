"""Accuracy of a smoothed classifier over the keep probability → axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from holdfast.report.figures.style import COLOURS, as_axes, colour_of, shade_between, tidy
from holdfast.smoothing import SmoothedAccuracy
from holdfast.validation import drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKED = (1.0, 0.5, 0.25)
"""Keep probabilities that the paper marks."""


@drawing
def plot_accuracy(
    result: SmoothedAccuracy | Mapping[str, SmoothedAccuracy],
    *,
    marked: Sequence[float] = MARKED,
    ax: Axes | None = None,
) -> Axes:
    """Draw accuracy over the keep probability, from much kept to little, with exact intervals as bands.

    Parameters
    ----------
    result : SmoothedAccuracy, or mapping of names to them
        What ``smoothed_accuracy`` returned.
    marked : sequence of float
        Keep probabilities to mark.
    ax : matplotlib axes, optional
        Where to draw; new axes if left out.

    Examples
    --------
    >>> found = SmoothedAccuracy((1.0, 0.5), (9, 6), 10, 64, 0.95, 640, 0)
    >>> plot_accuracy(found).get_ylabel()
    'accuracy'
    """
    axes = as_axes(ax)
    named = {"": result} if isinstance(result, SmoothedAccuracy) else dict(result)
    for place, (name, one) in enumerate(named.items()):
        _draw(axes, one, label=name, colour=colour_of(name, place), marked=marked)
    tidy(axes, x="keep probability λ", y="accuracy")
    axes.set_ylim(0, 1.12)
    axes.set_yticks([0, 0.2, 0.4, 0.6, 0.8, 1])
    axes.invert_xaxis()
    if len(named) > 1:
        axes.legend(frameon=False)
    return axes


def _draw(axes: Any, result: SmoothedAccuracy, *, label: str, colour: str, marked: Sequence[float]) -> None:
    rows = sorted(result)
    keeps = [keep for keep, _, _ in rows]
    values = [value for _, value, _ in rows]
    axes.plot(keeps, values, "-", color=colour, lw=1.5, label=label)
    shade_between(axes, keeps, [one.low for _, _, one in rows], [one.high for _, _, one in rows], colour=colour)
    for keep, value, _ in rows:
        if keep in marked:
            axes.plot([keep], [value], "o", ms=4.5, color=colour)
            # Accuracy falls to the right, which leaves room above it there.
            axes.annotate(f"{value:.0%}", (keep, value), xytext=(4, 5), textcoords="offset points", ha="left")
    axes.margins(x=0.06)
    axes.axvline(0.5, color=COLOURS["grey"], lw=0.6, ls=":")
