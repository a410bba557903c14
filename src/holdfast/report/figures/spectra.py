"""Spectra under masking and flipping → axes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.report.figures.boolean_plots import SpectralContraction, plot_contraction
from holdfast.report.figures.style import as_axes, look_of, whole_ticks
from holdfast.validation import drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@drawing
def plot_spectra(result: SpectralContraction, *, log: bool = True, ax: Axes | None = None) -> Axes:
    """Draw the mass per degree of a spectrum, one line per amount of smoothing.

    Parameters
    ----------
    result : SpectralContraction
        What ``hf.boolean.figures.contraction`` returned.
    log : bool
        Whether mass is on a logarithmic axis.

    Examples
    --------
    >>> from holdfast.report.figures.boolean_plots import contraction
    >>> plot_spectra(contraction([0.25, -0.25, -0.25, 0.25], [1.0, 0.5])).get_title()
    'Random masking'
    """
    axes = plot_contraction(result, log=log, ax=as_axes(ax))
    for place, line in enumerate(axes.lines):
        look = look_of("", place)
        line.set(linestyle=look.style, marker=look.marker)
    whole_ticks(axes)
    return axes
