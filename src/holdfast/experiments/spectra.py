"""Random masking against random flipping: where the mass of random spectra goes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from holdfast.bounds import Interval
from holdfast.experiments.experiment import Desk, Experiment, Outcome, Request, Table
from holdfast.experiments.words import Contrast, Verdicts
from holdfast.randomness import stream
from holdfast.report.figures.boolean_plots import SpectralContraction, contraction
from holdfast.report.figures.spectra import plot_spectra
from holdfast.report.figures.style import COLOURS, make_panels
from holdfast.study.aggregate.bootstrap import FEW, bootstrap_means
from holdfast.words import listed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

N_FEATURES = 12
AMOUNTS = (1.0, 0.9, 0.75, 0.5)
N_SPECTRA = 32
OPERATORS = ("masking", "flipping")

COLUMNS = {
    "operator": "string",
    "amount": "float64",
    "degree": "int64",
    "mass": "float64",
    "low": "float64",
    "high": "float64",
    "expected": "float64",
    "n_features": "int64",
    "n_spectra": "int64",
}


def run(experiment: Experiment, request: Request, desk: Desk) -> Outcome:
    """Smooth random spectra both ways."""
    amounts = tuple(request.keep or AMOUNTS)
    n_spectra = request.n or N_SPECTRA
    spectra = stream(request.seed, "random-spectra").standard_normal((2**N_FEATURES, n_spectra))
    found = {operator: masses(spectra, amounts, operator) for operator in OPERATORS}
    [plain] = masses(spectra, (1.0,), "masking")
    cells = [
        cell
        for operator, mass in found.items()
        for cell in _cells(operator, amounts, mass=mass, before=plain, key=request.seed)
    ]
    return Outcome({"spectra": _table(cells, n_spectra)}, draw(found, amounts), tell(cells, n_spectra))


def masses(spectra: NDArray[np.float64], amounts: Sequence[float], operator: str) -> NDArray[np.float64]:
    """Fourier mass per amount of smoothing, degree and spectrum, (A, n+1, k)."""
    each = [contraction(spectrum, amounts, operator=operator).mass for spectrum in spectra.T]
    return np.stack(each, axis=2)


def expected_mass(operator: str, amount: float, degree: int, *, n_features: int = N_FEATURES) -> float:
    """The mean mass at a degree over all spectra ĥ(S) ~ N(0, 1).

    A coefficient of the smoothed function is normal with mean 0; flipping multiplies it by ρ^k, masking
    sums those of its supersets, with variance λ^(2k) (1 + (1 - λ)²)^(n - k).

    Examples
    --------
    >>> round(expected_mass("flipping", 0.5, 1, n_features=2), 4), round(expected_mass("masking", 1.0, 0), 4)
    (0.7979, 0.7979)
    """
    lifted = (1 + (1 - amount) ** 2) ** ((n_features - degree) / 2) if operator == "masking" else 1.0
    return math.comb(n_features, degree) * math.sqrt(2 / math.pi) * amount**degree * lifted


@dataclass(frozen=True)
class Cell:
    """One operator, amount and degree: the mean mass, and how much larger it is than without smoothing."""

    operator: str
    amount: float
    degree: int
    mass: float
    interval: Interval
    lift: Contrast


def _cells(
    operator: str, amounts: Sequence[float], *, mass: NDArray[np.float64], before: NDArray[np.float64], key: int
) -> Iterator[Cell]:
    for amount, by_degree in zip(amounts, mass, strict=True):
        spans, lifts = _interval(by_degree.T, key), _interval((by_degree - before).T, key)
        for degree, values in enumerate(by_degree):
            lift = Contrast(float((values - before[degree]).mean()), lifts[degree], n=len(values))
            yield Cell(operator, amount, degree, float(values.mean()), spans[degree], lift)


def _interval(values: NDArray[np.float64], key: int) -> list[Interval]:
    return bootstrap_means(values, n_resamples=1000, confidence=0.95, key=key)


def _table(cells: Sequence[Cell], n_spectra: int) -> Table:
    rows = [
        {
            "operator": cell.operator,
            "amount": cell.amount,
            "degree": cell.degree,
            "mass": cell.mass,
            "low": cell.interval.low,
            "high": cell.interval.high,
            "expected": expected_mass(cell.operator, cell.amount, cell.degree),
            "n_features": N_FEATURES,
            "n_spectra": n_spectra,
        }
        for cell in cells
    ]
    return Table.of(COLUMNS, rows)


def draw(found: dict[str, Any], amounts: Sequence[float]) -> Figure:
    """Masking on the left, flipping on the right; crosses are the exact means over all spectra."""
    figure, panels = make_panels(1, len(found), size=(4.0, 3.2))
    for axes, (operator, mass) in zip(panels[0], found.items(), strict=True):
        plot_spectra(SpectralContraction(operator, "fourier", tuple(amounts), mass.mean(axis=2)), ax=axes)
        for amount in amounts:
            exact = [expected_mass(operator, amount, degree) for degree in range(N_FEATURES + 1)]
            label = "exact mean" if amount == amounts[0] else None
            axes.plot(range(N_FEATURES + 1), exact, "x", ms=4, color=COLOURS["grey"], zorder=5, label=label)
        axes.legend(frameon=False, handlelength=3.2)
    for axes in panels[0][1:]:
        axes.set_ylabel("")
    low = min(axes.get_ylim()[0] for axes in panels[0])
    for axes in panels[0]:
        axes.set_ylim(low, max(one.get_ylim()[1] for one in panels[0]))
    return figure


def tell(cells: Sequence[Cell], n_spectra: int) -> str:
    """The findings in words."""
    smoothed = [cell for cell in cells if cell.amount != 1]
    if not smoothed:
        return f"{_spectra(n_spectra)} of {N_FEATURES} features, none of them smoothed: there is nothing to compare."
    few = any(cell.lift.n is not None and cell.lift.n < FEW for cell in smoothed)
    parts = [] if few else [_of_operator(one, [cell for cell in smoothed if cell.operator == one]) for one in OPERATORS]
    verdict = "this number of spectra cannot tell." if few else _verdict(smoothed)
    head = f"{_spectra(n_spectra)} of {N_FEATURES} features."
    return (
        f"{' '.join([head, *parts])} The paper reports that flipping "
        f"shrinks every degree in place while masking moves mass from high degrees to low ones; {verdict} "
        "Directions are approximate 95% bootstrap intervals over spectra, of which none is said of fewer than "
        f"{FEW}; the exact means over all spectra are in the data as well, and drawn as crosses."
    )


def _spectra(n: int) -> str:
    return "1 random spectrum" if n == 1 else f"{n} random spectra"


def _of_operator(operator: str, cells: Sequence[Cell]) -> str:
    lifted = [cell for cell in cells if cell.lift.direction > 0]
    lowered = Verdicts.of(cell.lift for cell in cells if cell.degree > 0)
    top = [f"degree {cell.degree} at {cell.amount:g} to {_times(cell)}" for cell in lifted]
    raised = f"raises the mass of {listed(top)} its size" if top else "raises the mass of no degree"
    still = "; by definition it leaves degree 0 unchanged" if operator == "flipping" else ""
    return (
        f"Random {operator} {raised}, and lowers that of degree 1 and more in {lowered.n_lower} of {lowered.n} "
        f"combinations of amount and degree{still}."
    )


def _times(cell: Cell) -> str:
    before = cell.mass - cell.lift.estimate
    of_all = [expected_mass(cell.operator, amount, cell.degree) for amount in (cell.amount, 1.0)]
    return f"{cell.mass / before:.2f} times (exactly {of_all[0] / of_all[1]:.2f} over all spectra)"


def _verdict(cells: Sequence[Cell]) -> str:
    masked, flipped = ([cell for cell in cells if cell.operator == operator] for operator in OPERATORS)
    amounts = list(dict.fromkeys(cell.amount for cell in masked))
    moved = [amount for amount in amounts if moves_down([cell for cell in masked if cell.amount == amount])]
    raised = any(cell.lift.direction > 0 for cell in flipped)
    if moved == amounts and not raised:
        return "here, too, masking raises low degrees at the cost of higher ones and flipping raises none."
    left_open = [amount for amount in amounts if is_open([cell for cell in masked if cell.amount == amount])]
    against = [amount for amount in amounts if amount not in (*moved, *left_open)]
    flip = "raises some degree, which contradicts it" if raised else "raises none"
    return f"here {_where(moved, against, left_open)}, and flipping {flip}."


def _where(moved: Sequence[float], against: Sequence[float], left_open: Sequence[float]) -> str:
    """At which amounts masking moves mass down, at which it does not, and at which that is open.

    Examples
    --------
    >>> print(_where([0.5], [0.75], [0.9]))
    masking does so at 0.5 but not at 0.75, whether it does at 0.9 cannot be told at this number of spectra
    """
    at, not_at, perhaps = (listed([f"{one:g}" for one in some]) if some else "" for some in (moved, against, left_open))
    if moved:
        told = [f"masking does so at {at}{f' but not at {not_at}' if against else ''}"]
    else:
        told = [f"masking does so {f'not at {not_at}' if left_open else 'at no amount'}"] if against else []
    it = "it does" if told else "masking does so"
    return ", ".join(told + [f"whether {it} at {perhaps} cannot be told at this number of spectra"] * bool(left_open))


def is_open(cells: Sequence[Cell]) -> bool:
    """Whether what is known of the degrees neither shows mass that moves down nor rules it out."""
    raised = [cell.degree for cell in cells if cell.lift.direction > 0]
    lowered = [cell.degree for cell in cells if cell.lift.direction < 0]
    undecided = any(cell.lift.direction == 0 for cell in cells)
    return undecided and not (raised and lowered)


def moves_down(cells: Sequence[Cell]) -> bool:
    """Whether some degrees rise, and all of these are lower than all degrees that fall."""
    raised = [cell.degree for cell in cells if cell.lift.direction > 0]
    lowered = [cell.degree for cell in cells if cell.lift.direction < 0]
    return bool(raised and lowered) and max(raised) < min(lowered)


SUBJECTS = ()
