"""Results → matplotlib axes: curves, accuracies, spectra, pictures, texts and times, all with one look.

Every function draws on the axes it is given, or on new ones, and returns them. Nothing is shown or
saved, and matplotlib's global state stays as it is.
"""

from holdfast.report.figures.accuracies import plot_accuracy
from holdfast.report.figures.curves import Line, lines_of, plot_curves, plot_lines
from holdfast.report.figures.pictures import plot_example_image
from holdfast.report.figures.saving import save_figure
from holdfast.report.figures.spectra import plot_spectra
from holdfast.report.figures.style import COLOURS, Look, make_panels
from holdfast.report.figures.texts import plot_example_text
from holdfast.report.figures.times import plot_times

__all__ = [
    "COLOURS",
    "Line",
    "Look",
    "lines_of",
    "make_panels",
    "plot_accuracy",
    "plot_curves",
    "plot_example_image",
    "plot_example_text",
    "plot_lines",
    "plot_spectra",
    "plot_times",
    "save_figure",
]
