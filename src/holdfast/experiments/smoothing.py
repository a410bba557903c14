"""Question 3 of the paper: whether smoothing a model makes explanations of it more stable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from holdfast.experiments.captions import bands_note, clamped, named
from holdfast.experiments.contrasts import methods_of, note_on, of_means
from holdfast.experiments.experiment import Desk, Experiment, Outcome, Request, Table
from holdfast.experiments.methods import TOP, radii_for
from holdfast.experiments.studies import Studied, certify_spec, paired, study_subjects
from holdfast.experiments.subjects import RESNET, ROBERTA, VIT, Subject
from holdfast.experiments.tables import contrast_row, contrast_table, study_tables
from holdfast.experiments.words import FEWEST, Contrast, Verdicts, compared, points
from holdfast.report.figures.curves import Line, band_of, plot_lines
from holdfast.report.figures.style import entitle, legend_below, look_of, make_panels
from holdfast.study.aggregate import GroupSummary
from holdfast.study.spec import SmoothingSpec
from holdfast.words import listed, method_label

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KEEPS = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5)
N_SAMPLES = 32
METHOD = "random"
SMALL = 10
"""Radii up to this are small."""

IMAGE_RADII = (1, 2, 3, 5, 7, 10, 15, 20, 30, 40, 60, 80, 100)


def run(experiment: Experiment, request: Request, desk: Desk) -> Outcome:
    """Certify the same explanations of models smoothed more and more."""
    found = study_subjects(
        experiment,
        request,
        desk,
        methods=request.method_specs((METHOD,)),
        certify=lambda subject: certify_spec(_radii(subject, request), request),
        smoothing=SmoothingSpec(tuple(request.keep or KEEPS), N_SAMPLES),
    )
    gains = [gain for one in found for gain in gains_of(one, request.seed)]
    return Outcome(study_tables(found, _table(gains)), draw(found), tell(found, gains, request.seed))


def _radii(subject: Subject, request: Request) -> tuple[int, ...]:
    own = subject.reachable(IMAGE_RADII) if subject.kind == "image" else radii_for(subject, request)
    return request.radii or own


@dataclass(frozen=True)
class Gain:
    """A smoothed model's mean rate minus that of the model itself."""

    model: str
    method: str
    keep_probability: float
    radius: int
    n_inputs: int
    contrast: Contrast


def gains_of(studied: Studied, key: int) -> list[Gain]:
    """What each keep probability below 1 gains at each radius; nothing without the model itself to compare with."""
    plain = {group.method: group for group in studied.summary.groups if group.keep_probability == 1}
    return [
        Gain(studied.subject.name, group.method, group.keep_probability, radius, group.n_inputs, contrast)
        for group in studied.summary.groups
        if group.keep_probability != 1 and group.method in plain
        for radius, contrast in zip(group.radii, _gain(studied, group, plain[group.method], key=key), strict=True)
    ]


def _gain(studied: Studied, group: GroupSummary, plain: GroupSummary, *, key: int) -> list[Contrast]:
    if not studied.per_input:
        return [of_means(a, b, group.n_inputs) for a, b in zip(group.soft, plain.soft, strict=True)]
    return paired(*_rates(studied, group, plain), key=key)


def _rates(studied: Studied, group: GroupSummary, plain: GroupSummary) -> tuple[NDArray[np.float64], ...]:
    """Rates of both models on the inputs that both have, in the same order."""
    a, b = studied.columns(group), studied.columns(plain)
    _, here, there = np.intersect1d(a.inputs, b.inputs, assume_unique=True, return_indices=True)
    return a.rates[here], b.rates[there]


def _table(gains: Sequence[Gain]) -> Table:
    return contrast_table(
        contrast_row(
            one.contrast,
            model=one.model,
            first=f"{one.method}, λ = {one.keep_probability:g}",
            second=f"{one.method}, λ = 1",
            top_fraction=TOP,
            keep_probability=one.keep_probability,
            radius=one.radius,
            n_inputs=one.n_inputs,
        )
        for one in gains
    )


def draw(found: Sequence[Studied]) -> Figure:
    """Small radii above, all radii below, a column per model."""
    figure, panels = make_panels(2, len(found), size=(3.1, 2.5))
    for place, one in enumerate(found):
        lines = _lines(one.summary.groups)
        for row, largest in enumerate((SMALL, None)):
            axes = plot_lines([_cut(line, largest) for line in lines], ax=panels[row][place], legend=False)
            entitle(axes, named(one), "small radii" if largest else "all radii")
            axes.set_ylabel("" if place else "stability rate")
    legend_below(figure, panels[0][0], note=bands_note(found))
    return figure


def _lines(groups: Sequence[GroupSummary]) -> list[Line]:
    """One line per keep probability: black for the model itself, then from dark to light."""
    import matplotlib
    from matplotlib.colors import to_hex

    shades = [to_hex(one) for one in matplotlib.colormaps["viridis"](np.linspace(0.1, 0.85, len(groups)))]
    methods = len({group.method for group in groups})
    return [
        Line.of(
            f"λ = {group.keep_probability:g}" + (f", {group.method}" if methods > 1 else ""),
            [(one.radius, one.mean, band_of(one, group.n_inputs)) for one in group.soft],
            look=replace(look_of("", place), colour="#000000" if group.keep_probability == 1 else shade),
        )
        for place, (group, shade) in enumerate(zip(groups, shades, strict=True))
    ]


def _cut(line: Line, largest: int | None) -> Line:
    """The part of a line up to a radius; all of it if it begins beyond."""
    n = sum(radius <= largest for radius in line.radii) if largest else len(line.radii)
    n = n or len(line.radii)
    return replace(line, radii=line.radii[:n], values=line.values[:n], low=line.low[:n], high=line.high[:n])


def tell(found: Sequence[Studied], gains: Sequence[Gain], key: int) -> str:
    """The findings in words."""
    parts = [_of_subject(one, [gain for gain in gains if gain.model == one.subject.name]) for one in found]
    closing = compared(
        "smoothing with λ from 1/2 up raises the stability rate",
        Verdicts.of(gain.contrast for gain in gains if gain.keep_probability >= 0.5),
    )
    lengths = [words for one in found for words in (*one.lengths, *clamped(one))]
    where = [words for one in found if one.per_input and (words := _most_where(one, key))]
    return " ".join([*parts, *lengths, closing, *_compared_radii(where), note_on(found)])


def _of_subject(one: Studied, gains: Sequence[Gain]) -> str:
    which = f"{named(one)}, {_explanations(methods_of(one.summary.groups))}"
    if not gains:
        return f"{which}: λ = 1 is not among the keep probabilities, so that nothing is compared."
    by_keep: dict[float, list[Gain]] = {}
    for gain in gains:
        by_keep.setdefault(gain.keep_probability, []).append(gain)
    keep, chosen = min(by_keep.items())
    first, last = chosen[0], chosen[-1]
    if not first.contrast.can_decide:
        return f"{which}: fewer than {FEWEST} inputs can decide nothing."
    counts = listed([f"λ = {k:g} {Verdicts.of(gain.contrast for gain in some)}" for k, some in by_keep.items()])
    return (
        f"{which}: compared with the model itself, over radii, the rate "
        f"of the smoothed one is, for {counts}. At λ = {keep:g} it "
        f"{first.contrast.said} at radius {first.radius} and {last.contrast.said} at radius {last.radius}."
    )


def _explanations(methods: Sequence[str]) -> str:
    """Such as ``LIME and random explanations``."""
    return f"{listed([method if method == METHOD else method_label(method) for method in methods])} explanations"


def _most_where(one: Studied, key: int) -> str:
    """Whether gains are larger at small radii: the difference of mean gains, input by input."""
    plain = {group.method: group for group in one.summary.groups if group.keep_probability == 1}
    smoothed = [g for g in one.summary.groups if g.keep_probability != 1 and g.method in plain]
    radii = np.array(one.summary.groups[0].radii)
    small = radii <= SMALL
    if not smoothed or small.all() or not small.any():
        return ""
    # Each input's gains, averaged over keep probabilities, then over the radii of each kind.
    values = np.mean([np.subtract(*_rates(one, group, plain[group.method])) for group in smoothed], axis=0)
    near, far = values[:, small].mean(axis=1), values[:, ~small].mean(axis=1)
    [contrast] = paired(near[:, None], far[:, None], key=key, reach=2.0)
    if not contrast.can_decide:
        return ""
    how = {1: "larger", -1: "smaller", 0: "not told apart at this number of inputs"}[contrast.direction]
    return f"{how} for {one.subject.name} ({points(contrast.estimate, contrast.shown)})"


def _compared_radii(where: Sequence[str]) -> list[str]:
    if not where:
        return []
    said = "The paper finds the gain largest at small radii; here the mean gain up to radius"
    return [f"{said} {SMALL}, compared with that beyond, is {listed(where)}."]


SUBJECTS = ((RESNET, 30), (VIT, 4), (ROBERTA, 60))
