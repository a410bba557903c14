"""Question 1 of the paper: how much SCA certifies, softly and hardly, and how much MuS does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from holdfast.bounds import Interval
from holdfast.experiments.captions import bands_note, clamped, named
from holdfast.experiments.experiment import Desk, Experiment, Outcome, Request, Table
from holdfast.experiments.studies import Studied, certify_spec, paired, study_subjects
from holdfast.experiments.subjects import RESNET, ROBERTA, VIT
from holdfast.experiments.tables import contrast_row, contrast_table, study_tables
from holdfast.experiments.votes import Votes, ratio, tell_votes, votes_of
from holdfast.experiments.words import TOLD, Contrast, Verdicts, at_radii, compared, share
from holdfast.report.figures.curves import Line, band_of, plot_lines
from holdfast.report.figures.style import COLOURS, Look, entitle, legend_below, make_panels
from holdfast.study.aggregate import GroupSummary, MeanAt
from holdfast.study.spec import MusSpec
from holdfast.words import counted, listed, method_label

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
    votes = {one.subject.name: votes_of(one) for one in found}
    return Outcome(study_tables(found, _table(cells)), draw(found), tell(found, cells, votes))


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
        stated: dict[str, Any] = {
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
            entitle(axes, named(one), method_label(group.method))
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


def tell(found: Sequence[Studied], cells: Sequence[Cell], votes: Mapping[str, Sequence[Votes]]) -> str:
    """The findings in words."""
    parts = []
    for one in found:
        own = [cell for cell in cells if cell.model == one.subject.name]
        parts += [_of_subject(one, own), tell_votes(votes[one.subject.name]), *one.lengths, *clamped(one)]
    open_to_mus = [cell for cell in cells if not cell.beyond]
    closing = compared(
        "SCA typically certifies more than MuS, which can be competitive on texts at small radii with λ = 1/8",
        Verdicts.of(cell.soft for cell in open_to_mus),
    )
    return " ".join(
        [*parts, f"Where MuS can certify anything: {closing}", *_exceptions(cells), _emptiness(cells), _about(), TOLD]
    )


def _of_subject(one: Studied, cells: Sequence[Cell]) -> str:
    able, beyond = ([cell for cell in cells if cell.beyond == past] for past in (False, True))
    parts = [(able, "can certify anything"), (beyond, "can certify nothing")]
    said = "; ".join(f"over {_of_part(some, reach)}" for some, reach in parts if some)
    return f"{named(one)}: {said}. {_instance(one.summary.groups[0])}"


def _of_part(cells: Sequence[Cell], reach: str) -> str:
    """How SCA and MuS compare in the combinations that MuS reaches, or in those that it does not."""
    soft, hard = Verdicts.of(cell.soft for cell in cells), Verdicts.of(cell.hard for cell in cells)
    return (
        f"{counted(len(cells), 'combination')} of method, λ and radius in which MuS {reach}, the share that SCA-soft "
        f"certifies is {soft}, compared with MuS, and that of SCA-hard is {hard}"
    )


def _instance(group: GroupSummary) -> str:
    """The first method at the largest radius that MuS can certify at one of its keep probabilities."""
    least = min(mus.keep_probability for mus in group.mus)
    place = max([i for i, radius in enumerate(group.radii) if 2 * least * radius < 1], default=0)
    best = max(group.mus, key=lambda mus: (mus.rates[place].mean, -mus.keep_probability))
    soft, hard, voted = group.soft[place], group.hard[place], best.rates[place]
    shares = [share(at.mean, band_of(at, group.n_inputs)) for at in (soft, hard, voted)]
    return (
        f"For instance {method_label(group.method)} at radius {soft.radius}: SCA-soft {shares[0]}, "
        f"SCA-hard {shares[1]}, MuS at best {shares[2]} (λ = {ratio(best.keep_probability)})."
    )


def _exceptions(cells: Sequence[Cell]) -> list[str]:
    """Where MuS certifies more than SCA-soft, by keep probability."""
    keeps = sorted({cell.keep_probability for cell in cells if cell.soft.direction < 0})
    return [_exception(keep, [cell for cell in cells if cell.keep_probability == keep]) for keep in keeps]


def _exception(keep: float, cells: Sequence[Cell]) -> str:
    lower = [cell for cell in cells if cell.soft.direction < 0]
    radii: dict[str, list[int]] = {}
    for cell in lower:
        radii.setdefault(f"{method_label(cell.method)} on {cell.model}", []).append(cell.radius)
    names = [f"{name} ({at_radii(own)})" for name, own in radii.items()]
    sure = f"guaranteed in {sum(cell.soft.is_guaranteed for cell in lower)} of {len(lower)}"
    return f"MuS at λ = {ratio(keep)} certifies more than SCA-soft for {listed(names)}, {sure}."


def _emptiness(cells: Sequence[Cell]) -> str:
    beyond = [cell for cell in cells if cell.beyond]
    if not beyond:
        return "No radius from 1/(2λ) on, where MuS certifies nothing, was asked for."
    alive = [cell for cell in beyond if cell.certified > 0]
    said = (
        "The paper reports that MuS certifies nothing beyond radius 1/(2λ). That holds whatever the votes, and at "
        "1/(2λ) itself too, where only a criterion that is not strict, and not sound, would certify:"
    )
    if not alive:
        return f"{said} here its share is 0 in all {len(beyond)} combinations there."
    names = listed(sorted({f"{cell.model} at λ = {ratio(cell.keep_probability)}" for cell in alive}))
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


SUBJECTS = ((RESNET, 60), (VIT, 10), (ROBERTA, 50))
