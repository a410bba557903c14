"""Results → axes: rates over radii, accuracy over the keep probability, seconds per pass."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from holdfast.bounds import Interval
from holdfast.certification.comparison import Comparison
from holdfast.certification.curve import CertificateCurve
from holdfast.certification.mean_curve import MeanCurve
from holdfast.certification.probabilities import ProbabilityCurve
from holdfast.errors import InvalidTypeError
from holdfast.report.figures.style import COLOURS, LineStyle, as_axes, literal, look_of, shade_between, tidy
from holdfast.smoothing import SmoothedAccuracy
from holdfast.study.calibration import StudyCalibration
from holdfast.study.summary import FEW, GroupSummary, MeanAt, StudySummary
from holdfast.validation import check_numbers, drawing
from holdfast.words import method_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKED = (1.0, 0.5, 0.25)
"""Keep probabilities that the paper marks."""


@dataclass(frozen=True)
class Line:
    """One line of a figure: a value at each radius, with its interval.

    Attributes
    ----------
    label : str
        What the legend says.
    radii : tuple of float
        (R,), in increasing order; of a ``ProbabilityCurve`` its probabilities.
    values, low, high : tuple of float
        (R,) each; the band lies between ``low`` and ``high``.
    look : LineStyle
        Colour, dashes and marker, as matplotlib takes them.
    width : float
        In points.
    """

    label: str
    radii: tuple[float, ...]
    values: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    look: LineStyle
    width: float = 1.5

    @classmethod
    def of(
        cls, label: str, points: Iterable[tuple[float, float, Interval]], *, look: LineStyle, width: float = 1.5
    ) -> Line:
        """A line through points (radius, value, (low, high))."""
        radii, values, intervals = zip(*points, strict=True)
        low, high = zip(*intervals, strict=True)
        return cls(label, tuple(radii), tuple(values), tuple(low), tuple(high), look, width)


@drawing
def plot_curves(result: Any, *, ax: Axes | None = None) -> Axes:
    """Draw stability rates over radii, each with the band of its interval.

    Parameters
    ----------
    result : StabilityCurve, ProbabilityCurve, Comparison, MeanCurve, StudySummary, or mapping of names to curves
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
    axes = plot_lines(lines_of(result), ax=ax)
    curves = result.values() if isinstance(result, Mapping) else [result]
    if any(isinstance(curve, ProbabilityCurve) for curve in curves):
        from matplotlib.ticker import AutoLocator

        tidy(axes, x="probability that each other feature is revealed", y="stability rate")
        axes.xaxis.set_major_locator(AutoLocator())
    return axes


@drawing
def plot_lines(lines: Sequence[Line], *, ax: Axes | None = None, legend: bool = True) -> Axes:
    """Draw lines with their bands."""
    axes = as_axes(ax)
    # The first line lies over the others, unless it is drawn wide to be seen under them.
    first_over = len({line.width for line in lines}) == 1
    for place, line in enumerate(lines):
        look = line.look
        drawn: dict[str, Any] = {"ls": look.style, "color": look.colour, "lw": line.width}
        drawn["label"] = literal(line.label)
        marker = look.marker if len(line.radii) <= 24 else None
        order = 2 + (len(lines) - place) / len(lines) if first_over else None
        axes.plot(line.radii, line.values, marker=marker, ms=2.6, zorder=order, **drawn)
        if line.low != line.high:
            shade_between(axes, line.radii, line.low, line.high, colour=look.colour, n_bands=len(lines))
    tidy(axes, x="radius (features added)", y="stability rate", whole_x=True)
    axes.set_ylim(-0.02, 1.03)
    if legend and len(lines) > 1:
        axes.legend(frameon=False, handlelength=3.2)
    return axes


@drawing
def lines_of(result: Any) -> tuple[Line, ...]:
    """The lines that stand for a result."""
    if isinstance(result, Mapping):
        return tuple(
            replace(line, label=method_label(name), look=look_of(name, place))
            for place, (name, curve) in enumerate(result.items())
            for line in lines_of(curve)[:1]
        )
    if isinstance(result, Comparison):
        return lines_of(dict(zip(result.names, result.curves, strict=True)))
    if isinstance(result, (CertificateCurve, MeanCurve)):
        places = result.places if isinstance(result, CertificateCurve) else result.radii
        rates: Iterable[Any] = result
        points = [(place, one.rate, one.interval) for place, one in zip(places, rates, strict=True)]
        return (Line.of("", points, look=look_of("")),)
    if isinstance(result, StudySummary):
        return _study_lines(result)
    must = "be a StabilityCurve, a Comparison, a MeanCurve, a StudySummary or a mapping of names to curves"
    raise InvalidTypeError(argument="result", must=must, got=type(result).__name__)


def _study_lines(summary: StudySummary) -> tuple[Line, ...]:
    """One line per method, fraction and keep probability; what all share is left out of the label."""
    names = ("method", "top_fraction", "keep_probability")
    varying = [name for name in names if len({getattr(group, name) for group in summary.groups}) > 1] or ["method"]
    lines = []
    for place, group in enumerate(summary.groups):
        words = {
            "method": method_label(group.method),
            "top_fraction": f"top {group.top_fraction:.3g}",
            "keep_probability": f"λ = {group.keep_probability:g}",
        }
        look = look_of(group.method if varying == ["method"] else "", place)
        lines.append(mean_line(", ".join(words[name] for name in varying), group, group.soft, look))
    return tuple(lines)


def mean_line(label: str, group: GroupSummary, means: Sequence[MeanAt], look: LineStyle, *, width: float = 1.5) -> Line:
    """Means of a group over radii."""
    points = [(mean.radius, mean.mean, band_of(mean, group.n_inputs)) for mean in means]
    return Line.of(label, points, look=look, width=width)


def band_of(mean: MeanAt, n_inputs: int) -> Interval:
    """The interval that a figure shows: the usual approximate one; where there is none, and of few inputs, for which it
    is too narrow, the guaranteed one.
    """
    return mean.guaranteed if n_inputs < FEW or mean.approximate is None else mean.approximate


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
    >>> accuracy = SmoothedAccuracy((1.0, 0.5), (9, 6), 10, 64, 0.95, 640, 0)
    >>> plot_accuracy(accuracy).get_ylabel()
    'accuracy'
    """
    axes = as_axes(ax)
    named = {"": result} if isinstance(result, SmoothedAccuracy) else dict(result)
    for place, (name, accuracy) in enumerate(named.items()):
        keeps, shares, intervals = zip(*sorted(accuracy), strict=True)
        low, high = zip(*intervals, strict=True)
        colour = look_of(name, place).colour
        axes.plot(keeps, shares, "-", color=colour, lw=1.5, label=name)
        shade_between(axes, keeps, low, high, colour=colour)
        for keep, share in zip(keeps, shares, strict=True):
            if keep in marked:
                axes.plot([keep], [share], "o", ms=4.5, color=colour)
                # Accuracy falls to the right, which leaves room above it there.
                axes.annotate(f"{share:.0%}", (keep, share), xytext=(4, 5), textcoords="offset points", ha="left")
    axes.margins(x=0.06)
    axes.axvline(0.5, color=COLOURS["grey"], lw=0.6, ls=":")
    tidy(axes, x="keep probability λ", y="accuracy")
    axes.set_ylim(0, 1.12)
    axes.set_yticks([0, 0.2, 0.4, 0.6, 0.8, 1])
    axes.invert_xaxis()
    if len(named) > 1:
        axes.legend(frameon=False)
    return axes


@drawing
def plot_sizes(result: StudyCalibration, *, ax: Axes | None = None) -> Axes:
    """Draw the fraction of features that each method needs for the same guarantee, over radii; 1 where it needs all.

    Parameters
    ----------
    result : StudyCalibration
        What ``calibrate_study`` returned.
    ax : matplotlib axes, optional
        Where to draw; new axes if left out.
    """
    axes = as_axes(ax)
    lines: dict[tuple[str, float], list[tuple[int, float]]] = {}
    for size in result:
        needed = 1.0 if size.top_fraction is None else size.top_fraction
        lines.setdefault((size.method, size.keep_probability), []).append((size.radius, needed))
    for place, ((method, keep), points) in enumerate(lines.items()):
        look = look_of(method if keep == 1 else "", place)
        label = method_label(method) + (f", λ = {keep:g}" if keep != 1 else "")
        radii, needed_at = zip(*points, strict=True)
        axes.plot(radii, needed_at, color=look.colour, ls=look.style, marker=look.marker, ms=4, label=literal(label))
    tidy(axes, x="radius (features added)", y="features needed (fraction)", whole_x=True)
    axes.set_ylim(0, 1.05)
    if len(lines) > 1:
        axes.legend(frameon=False, handlelength=3.2)
    return axes


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
        text = f"{mean:.2f} ms" + (f" ({means[0] / mean:.1f}×)" if place else "")
        axes.annotate(text, (mean + deviation, place), xytext=(4, 0), textcoords="offset points", va="center")
    axes.set_yticks(places, list(seconds))
    axes.invert_yaxis()
    axes.set_xlim(0, 1.45 * max(mean + deviation for mean, deviation in zip(means, spread, strict=True)))
    return tidy(axes, x="ms per pass", y="batch size", title=title, grid="x")
