"""Results → matplotlib axes: spectra under masking and flipping, degree profiles, bounds beside the truth.

Every function draws on the axes it is given, or on new ones, and returns them. Nothing is shown or saved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from holdfast.boolean.operators import flip_operator, mask_operator
from holdfast.boolean.profiles import degree_mass
from holdfast.boolean.tables import Table, as_table
from holdfast.randomness import stream, stream_key
from holdfast.report.figures.style import COLOURS, CYCLE, as_axes, look_of, shades, tidy
from holdfast.terminal import Shown
from holdfast.types import Rng
from holdfast.validation import check_flag, check_list, check_name, check_numbers, check_size, check_whole, drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MAX_FIGURE_FEATURES, _MOST_TICKS = 20, 8

_SIZE = (5.2, 3.6)
"""Of a figure, in inches."""

_PALE = ("#B5D3E7", "#F2C9A6", "#CBE3C1")
_MASS_NAMES = {"fourier": "Fourier mass", "monotone": "monotone mass"}


@dataclass(frozen=True, eq=False)
class SpectralContraction(Shown):
    """Mass per degree after smoothing by different amounts: ``mass[j, k]`` at ``amounts[j]`` and degree k.

    ``operator`` is "masking" (M_λ) or "flipping" (T_ρ); ``basis`` says of which spectrum.
    """

    operator: str
    basis: str
    amounts: tuple[float, ...]
    mass: Table


@drawing
def contraction(
    c: Any, amounts: Sequence[float], *, operator: str = "masking", basis: str = "fourier"
) -> SpectralContraction:
    """How the mass per degree of a spectrum shrinks or moves as smoothing grows.

    Parameters
    ----------
    c : array of shape (2ⁿ,), or (2ⁿ, k)
        Coefficients in ``basis``, "fourier" or "monotone"; the mass of k functions is averaged.
    amounts : sequence of float
        λ of M_λ, or ρ of T_ρ.
    operator : {"masking", "flipping"}
        Which of the two.

    Examples
    --------
    >>> contraction([0.25, -0.25, -0.25, 0.25], [1.0, 0.5], operator="flipping").mass
    array([[0.25  , 0.5   , 0.25  ],
           [0.25  , 0.25  , 0.0625]])
    """
    table = as_table(c, "c")[0]
    table = table.reshape(len(table), -1)
    operators = {"masking": mask_operator, "flipping": flip_operator}
    smooth = operators[check_name(operator, "operator", operators)]
    known = check_name(basis, "basis", _MASS_NAMES)
    steps = check_list(amounts, "amounts", "be several numbers such as [1, 0.5]")
    mass = [degree_mass(smooth(table, amount, basis=known)).mean(axis=1) for amount in steps]
    return SpectralContraction(operator, basis, tuple(map(float, steps)), np.array(mass))


def random_contractions(
    n_features: int = 12, amounts: Sequence[float] = (1.0, 0.9, 0.75, 0.5), *, n_spectra: int = 32, rng: Rng = 0
) -> tuple[SpectralContraction, SpectralContraction]:
    """The paper's comparison: random spectra ĥ(S) ~ N(0, 1) under masking and under flipping, averaged.

    Examples
    --------
    >>> masking, flipping = random_contractions(6)
    >>> bool((flipping.mass[1:] <= flipping.mass[0]).all()), bool((masking.mass[1:] <= masking.mass[0]).all())
    (True, False)
    """
    n = check_size(n_features, "n_features", most=_MAX_FIGURE_FEATURES)
    shape = (2**n, check_whole(n_spectra, "n_spectra", minimum=1))
    spectra = stream(stream_key(rng), "random-spectra").standard_normal(shape)
    return contraction(spectra, amounts), contraction(spectra, amounts, operator="flipping")


@drawing
def plot_contraction(result: SpectralContraction, *, log: bool = True, ax: Axes | None = None) -> Axes:
    """Mass per degree, one line per amount of smoothing; the unsmoothed one is black.

    On the logarithmic axis it is seen that masking lifts degree 0, at small λ degree 1 too, and flipping none.
    """
    axes = as_axes(ax, size=_SIZE)
    letter = {"masking": "λ", "flipping": "ρ"}[result.operator]
    lines = zip(result.amounts, result.mass, shades(len(result.amounts)), strict=True)
    for place, (amount, mass, shade) in enumerate(lines):
        colour, look = "black" if amount == 1 else shade, look_of("", place)
        drawn: dict[str, Any] = {"ls": look.style, "marker": look.marker, "ms": 3.5, "lw": 1.6, "color": colour}
        axes.plot(np.arange(len(mass)), mass, **drawn, label=f"{letter} = {amount:g}")
    _finish(axes, "degree k", f"{_MASS_NAMES[result.basis]} at degree k", f"Random {result.operator}", log=log)
    axes.legend(frameon=False)
    return axes


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
    >>> plot_spectra(contraction([0.25, -0.25, -0.25, 0.25], [1.0, 0.5])).get_title()
    'Random masking'
    """
    return plot_contraction(result, log=log, ax=as_axes(ax))


@drawing
def plot_degree_profile(
    profiles: Mapping[str, Any], *, first: int = 1, quantity: str = "weight", log: bool = False, ax: Axes | None = None
) -> Axes:
    """Bars of mass or weight per degree, side by side for several functions or classes.

    ``profiles`` maps a label to the numbers (n+1,) of ``degree_mass`` or ``degree_weight``; degrees below
    ``first`` are left out (degree 0 is only the mean).
    """
    axes = as_axes(ax, size=_SIZE)
    width = 0.8 / max(1, len(profiles))
    for j, ((label, profile), shade) in enumerate(zip(profiles.items(), shades(len(profiles)), strict=True)):
        values = check_numbers(profile, "profiles")[check_whole(first, "first") :]
        places = first + np.arange(len(values)) + (j - (len(profiles) - 1) / 2) * width
        axes.bar(places, values, width=width * 0.92, color=shade, label=label)
    _finish(axes, "degree k", f"{quantity} at degree k", "Degree profile", log=log)
    if len(profiles) > 1:
        axes.legend(frameon=False)
    return axes


@drawing
def plot_bounds(
    radii: Sequence[int],
    exact: Any,
    *,
    bounds: Mapping[str, Any],
    certificates: Mapping[str, Any] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """The exact rate at each radius, lower bounds below it, and certificates around it.

    Parameters
    ----------
    radii : sequence of int
        (R,), in increasing order.
    exact : array (R,)
        The exact rates.
    bounds : mapping of str to array (R,)
        Lower bounds by name. Where they are not positive they say nothing and are not drawn; one that never
        is has no mark in the legend either.
    certificates : mapping of str to array (R, 2), optional
        Intervals (low, high) by name, drawn as bars; an exact one, low = high, as a dot.
    """
    axes = as_axes(ax, size=_SIZE)
    steps = check_numbers(radii, "radii")
    axes.plot(steps, check_numbers(exact, "exact"), "-", color="black", lw=1.8, label="exact rate", zorder=3)
    for j, (label, intervals) in enumerate(({} if certificates is None else certificates).items()):
        low, high = check_numbers(intervals, "certificates").T
        places, colour, exactly = steps + 0.12 * (j + 1), _PALE[j % len(_PALE)], low == high
        axes.vlines(places[~exactly], low[~exactly], high[~exactly], color=colour, lw=3.5, label=label)
        axes.plot(places[exactly], low[exactly], "o", ms=5.5, color=colour, mec="#4A7FA5", mew=0.8, zorder=4)
    for j, (label, values) in enumerate(bounds.items()):
        numbers = check_numbers(values, "bounds")
        drawn = np.where(numbers > 0, numbers, np.nan)
        if np.isnan(drawn).all():
            axes.plot([], [], ls="", label=f"{label} (never positive)")
            continue
        marker, colour = "osv^D"[j % 5], COLOURS[CYCLE[j % 5]]
        axes.plot(steps, drawn, marker=marker, ms=4.5, lw=1.4, ls="--", color=colour, label=label)
    _finish(axes, "radius r (features added)", "stability rate", "")
    axes.set_xticks(steps[:: -(-len(steps) // _MOST_TICKS)])
    axes.set_ylim(0, 1.03)
    axes.legend(frameon=False, fontsize="small")
    return axes


def _finish(axes: Axes, xlabel: str, ylabel: str, title: str, *, log: bool = False) -> None:
    tidy(axes, x=xlabel, y=ylabel, title=title, whole_x=True)
    if check_flag(log, "log"):
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
