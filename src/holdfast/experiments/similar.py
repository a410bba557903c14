"""Two explanations that look alike, with their stability curves: chosen on one set of draws, certified on another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.certification.certificate import certify
from holdfast.certification.comparison import Comparison, Difference, compare
from holdfast.experiments.experiment import Desk, Experiment, Outcome, Request, Table
from holdfast.experiments.methods import radii_for
from holdfast.experiments.radii import up_to
from holdfast.experiments.showing import Explained, show
from holdfast.experiments.subjects import RESNET
from holdfast.experiments.words import points, share
from holdfast.report.figures.curves import plot_curves
from holdfast.report.figures.style import make_panels, note_below
from holdfast.types import Mask
from holdfast.words import counted, listed, method_label, percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METHODS, TOP = ("lime", "shap"), 0.25
ALIKE = 0.5
"""Two explanations look alike if they have at least this share of their joint features in common."""

COLUMNS = {
    "model": "string",
    "input": "int64",
    "overlap": "float64",
    "radius": "int64",
    "method": "string",
    "rate": "float64",
    "low": "float64",
    "high": "float64",
    "difference": "float64",
    "difference_low": "float64",
    "difference_high": "float64",
}


@dataclass(frozen=True, eq=False)
class Candidate:
    """One input with two explanations: how far apart their rates seem, and whether both alone get its prediction."""

    explained: Explained
    masks: dict[str, Mask]
    overlap: float
    gap: float
    consistent: bool

    @property
    def alike(self) -> bool:
        """Whether the two look alike without being the same."""
        return ALIKE <= self.overlap < 1

    @property
    def n_left(self) -> int:
        """The most features that either leaves to reveal."""
        return max(int((~mask).sum()) for mask in self.masks.values())


def run(experiment: Experiment, request: Request, desk: Desk) -> Outcome:
    """Choose an input on one set of draws, then compare its explanations on another."""
    first, second = request.methods or METHODS
    [subject] = experiment.chosen(request)
    radii = radii_for(subject, request)
    explained = [Explained(subject, index, request.seed) for index in subject.first_inputs().numbers]
    candidates = [_candidate(one, (first, second), radii[len(radii) // 2]) for one in explained]
    chosen = choose(candidates)
    model, rng = chosen.explained.model, chosen.explained.rng("compare")
    comparison = compare(model, chosen.masks, up_to(radii, chosen.n_left), rng=rng)
    return Outcome(
        {"comparison": _table(chosen, comparison)}, draw(chosen, comparison), tell(chosen, comparison, candidates)
    )


def _candidate(explained: Explained, methods: tuple[str, str], radius: int) -> Candidate:
    masks = {method: explained.selected(method, TOP) for method in methods}
    first, second = masks.values()
    overlap = float((first & second).sum() / max(1, (first | second).sum()))
    rates = [certify(explained.model, mask, radius=radius, rng=explained.rng("choose")).rate for mask in masks.values()]
    consistent = all(explained.predict(mask) == explained.prediction for mask in masks.values())
    return Candidate(explained, masks, overlap, abs(rates[0] - rates[1]), consistent)


def choose(candidates: Sequence[Candidate]) -> Candidate:
    """The widest gap among explanations that look alike and have the input's prediction, as far as there are any."""
    alike = [one for one in candidates if one.alike]
    agreed = [one for one in alike if one.consistent]
    return max(agreed or alike or candidates, key=lambda one: (one.gap, one.overlap))


def _table(chosen: Candidate, comparison: Comparison) -> Table:
    rows = []
    for difference in comparison:
        for name in comparison.names:
            one = comparison.curve(name)[difference.radius]
            rows.append(
                {
                    "model": chosen.explained.subject.name,
                    "input": chosen.explained.index,
                    "overlap": chosen.overlap,
                    "radius": difference.radius,
                    "method": name,
                    "rate": one.rate,
                    "low": one.interval.low,
                    "high": one.interval.high,
                    "difference": difference.estimate,
                    "difference_low": difference.interval.low,
                    "difference_high": difference.interval.high,
                }
            )
    return Table.of(COLUMNS, rows)


def draw(chosen: Candidate, comparison: Comparison) -> Figure:
    """The input, both explanations, and both curves."""
    figure, panels = make_panels(1, 4, size=(2.8, 2.6))
    explained = chosen.explained
    name = explained.inputs.class_name
    show(explained, title=f"Input {explained.index}: {name(explained.prediction)}", ax=panels[0][0])
    for axes, (method, mask) in zip(panels[0][1:3], chosen.masks.items(), strict=True):
        show(explained, mask, title=f"{method_label(method)}: {name(explained.predict(mask))}", ax=axes)
    plot_curves(comparison, ax=panels[0][3])
    level = percent(comparison.curves[0].certificates[0].confidence)
    note_below(figure, f"Bands: guaranteed {level} intervals, each radius of each explanation on its own.")
    return figure


def tell(chosen: Candidate, comparison: Comparison, candidates: Sequence[Candidate]) -> str:
    """The findings in words."""
    first, second = (method_label(name) for name in comparison.names)
    told = [one for one in comparison if one.better]
    widest = max(comparison, key=lambda one: abs(one.estimate))
    there = {name: comparison.curve(name)[widest.radius] for name in comparison.names}
    rates = listed([f"{method_label(name)} {share(one.rate, one.interval)}" for name, one in there.items()])
    fit = sum(one.alike and one.consistent for one in candidates)
    return (
        f"{chosen.explained.subject.name}, {counted(len(candidates), 'input')}, of which {fit} have "
        f"explanations by {first} and {second} that share at least {share(ALIKE)} of their joint features and both "
        f"have the input's prediction on their own. Shown is input {chosen.explained.index}, chosen for its "
        f"gap{_unlike(chosen)}: its "
        f"explanations share {share(chosen.overlap)} of their joint features{_wrong(chosen)}. On fresh draws, their "
        f"rates are certified to differ at {len(told)} of {len(comparison)} radii, all claims together at confidence "
        f"{comparison.confidence:g}. The widest estimate is at radius {widest.radius}: {rates} (rates at confidence "
        f"{comparison.curves[0].certificates[0].confidence:g} each, at this radius alone); difference "
        f"{points(widest.estimate, widest.interval)}. {compared(told, alike=chosen.alike)}"
    )


def _unlike(chosen: Candidate) -> str:
    if not chosen.alike:
        return f" although no two explanations look alike (overlap ≥ {percent(ALIKE)}, but not the same)"
    return "" if chosen.consistent else " among the others"


def _wrong(chosen: Candidate) -> str:
    return "" if chosen.consistent else " (not both have the prediction of the full input on their own)"


def compared(told: Sequence[Difference], *, alike: bool) -> str:
    """Whether two explanations that look alike were certified to differ."""
    said = "The paper shows two explanations that look alike and differ in stability;"
    if not alike:
        return f"{said} here no two explanations look alike."
    return f"{said} here that is certified for one input." if told else f"{said} here no such difference is certified."


SUBJECTS = ((RESNET, 80),)
