"""Results → matplotlib axes: curves, accuracies, spectra, pictures, texts and times, all with one look.

Every function draws on the axes it is given, or on new ones, and returns them. Nothing is shown or
saved, and matplotlib's global state stays as it is.
"""

from holdfast.report.figures.boolean_plots import plot_spectra
from holdfast.report.figures.curves import (
    Line,
    lines_of,
    plot_accuracy,
    plot_curves,
    plot_lines,
    plot_sizes,
    plot_times,
)
from holdfast.report.figures.examples import plot_example_image, plot_example_text
from holdfast.report.figures.style import COLOURS, LineStyle, make_panels, save_figure

__all__ = [
    "COLOURS",
    "Line",
    "LineStyle",
    "lines_of",
    "make_panels",
    "plot_accuracy",
    "plot_curves",
    "plot_example_image",
    "plot_example_text",
    "plot_lines",
    "plot_sizes",
    "plot_spectra",
    "plot_times",
    "save_figure",
]
