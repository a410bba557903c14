"""Question 1 of the paper: how much SCA certifies, softly and hardly, and how much MuS does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from holdfast.bounds import Interval
from holdfast.experiments.captions import bands_note, named
from holdfast.experiments.experiment import Desk, Experiment, Outcome, Request, Table
from holdfast.experiments.studies import Studied, certify_spec, paired, study_subjects
from holdfast.experiments.subjects import RESNET, ROBERTA, VIT
from holdfast.experiments.tables import contrast_row, contrast_table, study_tables
from holdfast.experiments.words import TOLD, Contrast, Verdicts, at_radii, compared, counted, joined, share
from holdfast.report.figures.curves import Line, band_of, plot_lines
from holdfast.report.figures.style import COLOURS, Look, label_of, legend_below, make_panels
from holdfast.study.aggregate import GroupSummary, MeanAt
from holdfast.study.spec import MusSpec

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RADII = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20)
KEEPS = (1 / 2, 3 / 8, 1 / 4, 1 / 8)
CRITERION = "lipschitz"
"""The paper's; it certifies no radius of 1/(2λ) or more."""

_SOFT, _HARD = Look(COLOURS["sky"], "-", "o"), Look(COLOURS["vermilion"], "-", "s")
_VOTED = (
    Look(COLOURS["grey"], ":", "^"),
    Look(COLOURS["orange"], "--", "D"),
    Look(COLOURS["green"], "-.", "v"),
    Look(COLOURS["purple"], (0, (4, 1)), "P"),
)


def run(experiment: Experiment, request: Request, desk: Desk) -> Outcome:
    """Certify every explanation at the paper's number of draws, and by votes."""
    found = study_subjects(
        experiment,
        request,
        desk,
        methods=request.method_specs(),
        certify=lambda subject: certify_spec(request.radii or subject.reachable(RADII), request, plan="hoeffding"),
        mus=MusSpec(tuple(request.keep or KEEPS), criterion=CRITERION),
    )
    cells = [cell for one in found for cell in _cells(one, request.seed)]
    return Outcome(study_tables(found, _table(cells)), draw(found), tell(found, cells))


@dataclass(frozen=True)
class Cell:
    """One method, keep probability and radius: SCA's share minus that of MuS, input by input."""

    model: str
    method: str
    top_fraction: float
    keep_probability: float
    radius: int
    n_inputs: int
    certified: float
    soft: Contrast
    hard: Contrast

    @property
    def beyond(self) -> bool:
        """Whether MuS cannot certify it whatever the votes are."""
        return 2 * self.keep_probability * self.radius >= 1


def _cells(studied: Studied, key: int) -> Iterator[Cell]:
    for group in studied.summary.groups:
        columns = studied.columns(group)
        for keep, reach in columns.voted.items():
            certified = reach[:, None] >= np.array(group.radii)
            soft, hard = (paired(rates, certified, key=key) for rates in (columns.rates, columns.all_agreed))
            for i, radius in enumerate(group.radii):
                share_of = float(certified[:, i].mean())
                which = (studied.subject.name, group.method, group.top_fraction, keep, radius, len(columns))
                yield Cell(*which, share_of, soft[i], hard[i])


def _table(cells: Sequence[Cell]) -> Table:
    rows = []
    for cell in cells:
        stated = {
            "model": cell.model,
            "top_fraction": cell.top_fraction,
            "keep_probability": 1.0,
            "radius": cell.radius,
            "n_inputs": cell.n_inputs,
        }
        for kind, contrast in (("soft", cell.soft), ("hard", cell.hard)):
            first, second = f"{cell.method}, SCA-{kind}", f"{cell.method}, MuS at {cell.keep_probability!r}"
            rows.append(contrast_row(contrast, first=first, second=second, **stated))
    return contrast_table(rows)


def draw(found: Sequence[Studied]) -> Figure:
    """A panel per model and method."""
    n_columns = max(len(one.summary.groups) for one in found)
    figure, panels = make_panels(len(found), n_columns, size=(2.5, 2.3))
    for row, one in zip(panels, found, strict=True):
        for axes, group in zip(row, one.summary.groups, strict=False):
            plot_lines(_lines(group), ax=axes, legend=False)
            axes.set_title(f"{named(one)}\n{label_of(group.method)}")
        for axes in row[len(one.summary.groups) :]:
            axes.set_visible(False)
    for axes in [axes for row in panels for axes in row[1:]]:
        axes.set_ylabel("")
    for axes in [axes for row in panels[:-1] for axes in row]:
        axes.set_xlabel("")
    legend_below(figure, panels[0][0], note=bands_note(found))
    return figure


def _lines(group: GroupSummary) -> list[Line]:
    lines = [
        Line.of("SCA-soft", _points(group, group.soft), look=_SOFT, width=3.2),
        Line.of("SCA-hard", _points(group, group.hard), look=_HARD),
    ]
    for place, one in enumerate(group.mus):
        label = f"MuS, λ = {ratio(one.keep_probability)}"
        lines.append(Line.of(label, _points(group, one.rates), look=_VOTED[place % len(_VOTED)]))
    return lines


def _points(group: GroupSummary, means: Sequence[MeanAt]) -> list[tuple[int, float, Interval]]:
    return [(one.radius, one.mean, band_of(one, group.n_inputs)) for one in means]


def ratio(keep: float) -> str:
    """A keep probability as people write it.

    Examples
    --------
    >>> ratio(0.375), ratio(0.3)
    ('3/8', '3/10')
    """
    return str(Fraction(keep).limit_denominator(64))


def tell(found: Sequence[Studied], cells: Sequence[Cell]) -> str:
    """The findings in words."""
    parts = [_of_subject(one, [cell for cell in cells if cell.model == one.subject.name]) for one in found]
    closing = compared(
        "SCA certifies more than MuS wherever they are compared", Verdicts.of(cell.soft for cell in cells)
    )
    return " ".join([*parts, closing, *_exceptions(cells), _emptiness(cells), _about(), TOLD])


def _of_subject(one: Studied, cells: Sequence[Cell]) -> str:
    group = one.summary.groups[0]
    shown = min(len(group.radii) - 1, 3)
    best = max(group.mus, key=lambda mus: (mus.rates[shown].mean, -mus.keep_probability))
    soft, hard, voted = group.soft[shown], group.hard[shown], best.rates[shown]
    shares = [share(at.mean, band_of(at, group.n_inputs)) for at in (soft, hard, voted)]
    return (
        f"{named(one)}: over {counted(len(cells), 'combination')} of method, λ and radius, the share that SCA-soft "
        f"certifies is {Verdicts.of(cell.soft for cell in cells)}, compared with MuS; that of SCA-hard is "
        f"{Verdicts.of(cell.hard for cell in cells)}. For instance {label_of(group.method)} at radius {soft.radius}: "
        f"SCA-soft {shares[0]}, SCA-hard {shares[1]}, MuS at best {shares[2]} (λ = {ratio(best.keep_probability)})."
    )


def _exceptions(cells: Sequence[Cell]) -> list[str]:
    """Where MuS certifies more than SCA-soft, by keep probability."""
    keeps = sorted({cell.keep_probability for cell in cells if cell.soft.direction < 0})
    return [_exception(keep, [cell for cell in cells if cell.keep_probability == keep]) for keep in keeps]


def _exception(keep: float, cells: Sequence[Cell]) -> str:
    lower = [cell for cell in cells if cell.soft.direction < 0]
    radii: dict[str, list[int]] = {}
    for cell in lower:
        radii.setdefault(f"{label_of(cell.method)} on {cell.model}", []).append(cell.radius)
    names = [f"{name} ({at_radii(own)})" for name, own in radii.items()]
    sure = f"guaranteed in {sum(cell.soft.is_guaranteed for cell in lower)} of {len(lower)}"
    return f"MuS at λ = {ratio(keep)} certifies more than SCA-soft for {joined(names)}, {sure}."


def _emptiness(cells: Sequence[Cell]) -> str:
    beyond = [cell for cell in cells if cell.beyond]
    alive = [cell for cell in beyond if cell.certified > 0]
    said = "The paper reports that MuS certifies nothing from radius 1/(2λ) on;"
    if not alive:
        return f"{said} here its share is 0 in all {len(beyond)} combinations there."
    names = joined(sorted({f"{cell.model} at λ = {ratio(cell.keep_probability)}" for cell in alive}))
    return (
        f"{said} here its share is 0 in {len(beyond) - len(alive)} of {len(beyond)} combinations there, and above 0 "
        f"for {names}: an input with no more unselected features than the certified radius is certified whole."
    )


def _about() -> str:
    return (
        "SCA speaks of the model itself, softly of a share of the additions and hardly of 150 random ones "
        "of which none changed the prediction (all of them where there are fewer); MuS proves something, about the "
        "smoothed model."
    )


SUBJECTS = ((RESNET, 60), (VIT, 6), (ROBERTA, 50))
