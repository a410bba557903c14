"""One input: how far its prediction provably stays, beside how often it stays further out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.certification.curve import StabilityCurve, certify_radii
from holdfast.experiments.experiment import Desk, Experiment, Outcome, Request, Table
from holdfast.experiments.radii import up_to
from holdfast.experiments.showing import Explained, show
from holdfast.experiments.subjects import RESNET, Subject
from holdfast.experiments.words import share
from holdfast.report.figures.curves import plot_curves
from holdfast.report.figures.style import COLOURS, make_panels, note_below
from holdfast.types import Mask
from holdfast.witness import StabilityBracket, stability_bracket
from holdfast.words import counted, method_label, percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

METHOD, TOP = "lime", 0.25
RADII = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 30, 40, 60, 80, 100)
ENOUGH = 0.9
"""The rate that is asked for when it is said how far the prediction mostly stays."""

TOLERANCE = 0.05
MAX_CALLS = 20_000

COLUMNS = {
    "model": "string",
    "input": "int64",
    "method": "string",
    "radius": "int64",
    "rate": "float64",
    "low": "float64",
    "high": "float64",
    "n_agreed": "int64",
    "n_evaluated": "int64",
    "exact": "bool",
    "hard_radius_low": "int64",
    "hard_radius_below": "int64",
}


@dataclass(frozen=True, eq=False)
class Case:
    """One input, its explanation, its curve, the bounds on its hard radius, and the rule it was chosen by."""

    explained: Explained
    method: str
    selected: Mask
    curve: StabilityCurve
    bracket: StabilityBracket
    chosen: str


def run(experiment: Experiment, request: Request, desk: Desk) -> Outcome:
    """Certify one input softly at many radii, and bracket its hard radius."""
    [method] = request.methods or (METHOD,)
    [subject] = experiment.chosen(request)
    explained, selected, chosen = first_unstable(subject, method, request.seed)
    curve = certify_radii(
        explained.model,
        selected,
        radii=up_to(request.radii or RADII, int((~selected).sum())),
        tolerance=TOLERANCE,
        plan="exact",
        simultaneous=True,
        rng=explained.rng("certify"),
    )
    bracket = stability_bracket(explained.model, selected, max_calls=MAX_CALLS, rng=explained.rng("bracket"))
    case = Case(explained, method, selected, curve, bracket, chosen)
    return Outcome({"curve": _table(case)}, draw(case), tell(case))


def first_unstable(subject: Subject, method: str, seed: int) -> tuple[Explained, Mask, str]:
    """The first input whose explanation is right and that some addition overturns, else the first; and that rule."""
    rule = "whose explanation is right on its own and for which a change was found"
    among = f"the first of {counted(len(subject.first_inputs()), 'input')}"
    for index in subject.first_inputs().numbers:
        explained = Explained(subject, index, seed)
        selected = explained.selected(method, TOP)
        if explained.is_right(selected):
            bracket = stability_bracket(explained.model, selected, max_calls=2000, rng=explained.rng("choose"))
            if bracket.below is not None:
                return explained, selected, f"{among} {rule}"
    first = Explained(subject, 0, seed)
    return first, first.selected(method, TOP), f"{among}, since there is none {rule}"


def _table(case: Case) -> Table:
    rows = [
        {
            "model": case.explained.subject.name,
            "input": case.explained.index,
            "method": case.method,
            "radius": one.radius,
            "rate": one.rate,
            "low": one.interval.low,
            "high": one.interval.high,
            "n_agreed": one.n_agreed,
            "n_evaluated": one.n_evaluated,
            "exact": one.exact,
            "hard_radius_low": case.bracket.low,
            "hard_radius_below": case.bracket.below,
        }
        for one in case.curve
    ]
    return Table.of(COLUMNS, rows)


def draw(case: Case) -> Figure:
    """The input, its explanation, and the curve with the hard radius in it."""
    figure, panels = make_panels(1, 3, size=(3.0, 2.7))
    explained, bracket = case.explained, case.bracket
    name = explained.inputs.class_name
    show(explained, title=f"Input {explained.index}: {name(explained.prediction)}", ax=panels[0][0])
    alone = name(explained.predict(case.selected))
    show(explained, case.selected, title=f"{method_label(case.method)}: {alone}", ax=panels[0][1])
    axes = plot_curves(case.curve, ax=panels[0][2])
    _mark(axes, bracket)
    level = percent(case.curve.certificates[-1].confidence)
    note_below(figure, f"Band: guaranteed {level} intervals, for all radii at once.")
    return figure


def _mark(axes: Axes, bracket: StabilityBracket) -> None:
    """The radii at which nothing changes the prediction, the first at which something does, and a legend under them."""
    axes.axvspan(0, bracket.low, color=COLOURS["green"], alpha=0.25, lw=0, label=f"never changes up to {bracket.low}")
    if bracket.below is not None:
        label = f"can change from {bracket.below}"
        axes.axvline(bracket.below, color=COLOURS["vermilion"], ls="--", lw=1.2, label=label)
    axes.set_xlim(left=0)
    axes.legend(loc="lower right", frameon=False)


def tell(case: Case) -> str:
    """The findings in words."""
    explained, curve, bracket = case.explained, case.curve, case.bracket
    last = curve.certificates[-1]
    return (
        f"{explained.subject.name}, input {explained.index}, {case.chosen}; {method_label(case.method)} "
        f"explanation of {int(case.selected.sum())} of {counted(explained.model.n_features, 'feature')}: "
        f"{_hard(bracket)} {_soft(curve)} The intervals hold for all radii at once with confidence "
        f"{last.confidence:g}. {compared(curve, bracket)}"
    )


def _hard(bracket: StabilityBracket) -> str:
    kept = f"no addition of up to {counted(bracket.low, 'feature')} changes the prediction"
    if bracket.below is None:
        return f"{kept}, and none was found that does."
    exact = ", so that the hard radius is known" if bracket.is_tight else ""
    return f"{kept}, but some addition of {bracket.below} does{exact}."


def soft_radius(curve: StabilityCurve) -> int:
    """The largest radius up to which the rate is certified to be enough at every radius asked for."""
    reached = 0
    for one in curve:
        if one.interval.low < ENOUGH:
            break
        reached = one.radius
    return reached


def _soft(curve: StabilityCurve) -> str:
    radius, last = soft_radius(curve), curve.certificates[-1]
    there = "" if radius == last.radius else f" At radius {last.radius} the rate is {share(last.rate, last.interval)}."
    if radius == 0:
        return f"A rate of {share(ENOUGH)} is not certified at the smallest radius tested.{there}"
    one = curve[radius]
    n_reached = sum(other.radius <= radius for other in curve)
    tested = f"At all {n_reached} radii tested up to {radius}" if n_reached > 1 else f"At radius {radius}"
    rate = f"the rate is certified to be at least {share(ENOUGH)} ({share(one.rate, one.interval)} at {radius})"
    return f"{tested} {rate}.{there}"


def compared(curve: StabilityCurve, bracket: StabilityBracket) -> str:
    """What the curve says beyond the hard radius, in numbers, beside the paper's example."""
    said = "The paper's example has a small hard radius and a high rate far beyond it;"
    below, soft = bracket.below, soft_radius(curve)
    if below is None:
        return f"{said} here no change was found, so that the two cannot be contrasted."
    if curve.certificates[-1].radius < below:
        return f"{said} here no radius beyond the hard one was asked for."
    too = "here, too:" if soft >= 2 * below else "here"
    hard = f"{bracket.low}" if bracket.is_tight else f"from {bracket.low} to {below - 1}"
    return f"{said} {too} the hard radius is {hard} and the rate {_reach(soft, below)}."


def _reach(soft: int, below: int) -> str:
    if soft == 0:
        return f"is not certified to be at least {share(ENOUGH)} at the smallest radius tested"
    only = "" if soft >= below else ", no further"
    return f"is certified to be at least {share(ENOUGH)} out to {soft}{only}"


SUBJECTS = ((RESNET, 40),)
