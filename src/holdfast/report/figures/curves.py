"""Curves of rates over radii, with their intervals as bands → axes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from holdfast.bounds import Interval
from holdfast.certification.comparison import Comparison
from holdfast.certification.curve import StabilityCurve
from holdfast.certification.mean_curve import MeanCurve
from holdfast.errors import InvalidTypeError
from holdfast.report.figures.style import Look, as_axes, look_of, shade_between, tidy, whole_ticks
from holdfast.study.aggregate import FEW, MeanAt, StudySummary
from holdfast.validation import drawing
from holdfast.words import method_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_RADIUS, _RATE = "radius (features added)", "stability rate"


@dataclass(frozen=True)
class Line:
    """One line of a figure: a value at each radius, with its interval.

    Attributes
    ----------
    label : str
        What the legend says.
    radii : tuple of int
        (R,), in increasing order.
    values, low, high : tuple of float
        (R,) each; the band lies between ``low`` and ``high``.
    look : Look
        Colour, dashes and marker, as matplotlib takes them.
    width : float
        In points.
    """

    label: str
    radii: tuple[int, ...]
    values: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    look: Look
    width: float = 1.5

    @classmethod
    def of(cls, label: str, points: Iterable[tuple[int, float, Interval]], *, look: Look, width: float = 1.5) -> Line:
        """A line through points (radius, value, (low, high))."""
        radii, values, intervals = zip(*points, strict=True)
        low, high = zip(*intervals, strict=True)
        return cls(label, tuple(radii), tuple(values), tuple(low), tuple(high), look, width)


@drawing
def plot_curves(result: Any, *, ax: Axes | None = None) -> Axes:
    """Draw stability rates over radii, each with the band of its interval.

    Parameters
    ----------
    result : StabilityCurve, Comparison, MeanCurve, StudySummary, or mapping of names to curves
        The band of a certificate is its guaranteed interval; that of a mean curve is about these
        inputs; that of a study is its bootstrap interval over inputs, which is approximate, or, if it has
        only mean curves or fewer than 20 inputs, the guaranteed one for the population.
    ax : matplotlib axes, optional
        Where to draw; new axes if left out.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import certify_radii, mask_function
    >>> model = mask_function(lambda masks: masks[:, 0], n_features=8)
    >>> curve = certify_radii(model, np.arange(8) < 2, radii=[1, 2, 3], rng=0)
    >>> plot_curves(curve).get_ylabel()
    'stability rate'
    """
    return plot_lines(lines_of(result), ax=ax)


@drawing
def plot_lines(lines: Sequence[Line], *, ax: Axes | None = None, legend: bool = True) -> Axes:
    """Draw lines with their bands."""
    axes = as_axes(ax)
    # The first line lies over the others, unless it is drawn wide to be seen under them.
    first_over = len({line.width for line in lines}) == 1
    for place, line in enumerate(lines):
        look = line.look
        axes.plot(
            line.radii,
            line.values,
            ls=look.style,
            color=look.colour,
            lw=line.width,
            marker=look.marker if len(line.radii) <= 24 else None,
            ms=2.6,
            label=line.label,
            zorder=2 + (len(lines) - place) / len(lines) if first_over else None,
        )
        if line.low != line.high:
            shade_between(axes, line.radii, line.low, line.high, colour=look.colour, n_bands=len(lines))
    tidy(axes, x=_RADIUS, y=_RATE)
    whole_ticks(axes)
    axes.set_ylim(-0.02, 1.03)
    if legend and len(lines) > 1:
        axes.legend(frameon=False, handlelength=3.2)
    return axes


@drawing
def lines_of(result: Any) -> tuple[Line, ...]:
    """The lines that stand for a result."""
    if isinstance(result, Mapping):
        return tuple(
            _relabelled(line, name, place)
            for place, (name, one) in enumerate(result.items())
            for line in lines_of(one)[:1]
        )
    if isinstance(result, Comparison):
        return lines_of(dict(zip(result.names, result.curves, strict=True)))
    if isinstance(result, (StabilityCurve, MeanCurve)):
        return (Line.of("", [(one.radius, one.rate, one.interval) for one in result], look=look_of("")),)
    if isinstance(result, StudySummary):
        return _study_lines(result)
    raise InvalidTypeError(
        argument="result",
        must="be a StabilityCurve, a Comparison, a MeanCurve, a StudySummary or a mapping of names to curves",
        got=type(result).__name__,
    )


def _relabelled(line: Line, name: str, place: int) -> Line:
    return replace(line, label=method_label(name), look=look_of(name, place))


def _study_lines(summary: StudySummary) -> tuple[Line, ...]:
    """One line per method, fraction and keep probability; what all share is left out of the label."""
    groups = summary.groups
    varying = [
        name
        for name in ("method", "top_fraction", "keep_probability")
        if len({getattr(group, name) for group in groups}) > 1
    ]
    return tuple(
        Line.of(
            _words(group, varying),
            [(one.radius, one.mean, band_of(one, group.n_inputs)) for one in group.soft],
            look=look_of(group.method if varying in ([], ["method"]) else "", place),
        )
        for place, group in enumerate(groups)
    )


def band_of(one: MeanAt, n_inputs: int) -> Interval:
    """The interval that a figure shows: the usual approximate one.

    Of few inputs, for which that is too narrow, it is the guaranteed one; and where there is only one
    interval, it is that.
    """
    found = (one.guaranteed, one.approximate) if n_inputs < FEW else (one.approximate, one.guaranteed)
    return next((interval for interval in found if interval is not None), Interval(one.mean, one.mean))


def _words(group: Any, varying: Sequence[str]) -> str:
    words = {
        "method": method_label(group.method),
        "top_fraction": f"top {group.top_fraction:.3g}",
        "keep_probability": f"λ = {group.keep_probability:g}",
    }
    return ", ".join(words[name] for name in varying) or words["method"]
