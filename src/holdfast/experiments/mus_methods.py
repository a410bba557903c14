"""Methods compared by the hard certificates of MuS alone, one keep probability at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from holdfast.experiments.captions import bands_note, named
from holdfast.experiments.contrasts import method_contrasts, methods_of
from holdfast.experiments.experiment import Desk, Experiment, Outcome, Request, Table
from holdfast.experiments.methods import BASELINE, LEADING
from holdfast.experiments.sca_vs_mus import CRITERION, KEEPS
from holdfast.experiments.studies import Studied, certify_spec, paired, study_subjects
from holdfast.experiments.subjects import RESNET, ROBERTA, VIT
from holdfast.experiments.tables import contrast_row, contrast_table, study_tables
from holdfast.experiments.votes import Votes, ratio, tell_votes, votes_of
from holdfast.experiments.words import FEWEST, TOLD, Contrast, Verdicts, at_radii
from holdfast.report.figures.curves import Line, band_of, plot_lines
from holdfast.report.figures.style import entitle, legend_below, look_of, make_panels
from holdfast.study.aggregate import GroupSummary
from holdfast.study.spec import MusSpec
from holdfast.words import listed, method_label

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RADII = (1, 2, 3, 4, 5, 6)
"""A keep probability of 1/8 certifies at most radius 3."""


def run(experiment: Experiment, request: Request, desk: Desk) -> Outcome:
    """Certify every explanation by votes, and softly at the same radii for comparison."""
    keeps = tuple(request.keep or KEEPS)
    found = study_subjects(
        experiment,
        request,
        desk,
        methods=request.method_specs(),
        certify=lambda subject: certify_spec(request.radii or subject.reachable(RADII), request),
        mus=MusSpec(keeps, criterion=CRITERION),
    )
    pairs = [pair for one in found for pair in pairs_of(one, request.seed)]
    votes = {one.subject.name: votes_of(one) for one in found}
    return Outcome(study_tables(found, _table(pairs)), draw(found, keeps), tell(found, pairs, votes))


@dataclass(frozen=True)
class Pair:
    """Two methods at one keep probability and radius: the difference of the shares of inputs that MuS certifies."""

    model: str
    first: str
    second: str
    top_fraction: float
    keep_probability: float
    radius: int
    n_inputs: int
    contrast: Contrast


def pairs_of(studied: Studied, key: int) -> Iterator[Pair]:
    """Every pair of methods wherever MuS can certify anything."""
    columns = {group.method: studied.columns(group) for group in studied.summary.groups}
    fractions = {group.method: group.top_fraction for group in studied.summary.groups}
    radii = np.array(studied.summary.groups[0].radii)
    for first, second in combinations(columns, 2):
        a, b = columns[first], columns[second]
        _, here, there = np.intersect1d(a.inputs, b.inputs, assume_unique=True, return_indices=True)
        for keep in a.voted:
            certified = (a.voted[keep][here, None] >= radii, b.voted[keep][there, None] >= radii)
            for radius, contrast in zip(radii.tolist(), paired(*certified, key=key), strict=True):
                if 2 * keep * radius < 1:
                    which = (studied.subject.name, first, second, fractions[first], keep, radius)
                    yield Pair(*which, len(here), contrast)


def _table(pairs: Sequence[Pair]) -> Table:
    return contrast_table(
        contrast_row(
            one.contrast,
            model=one.model,
            first=f"{one.first}, MuS",
            second=f"{one.second}, MuS",
            top_fraction=one.top_fraction,
            keep_probability=one.keep_probability,
            radius=one.radius,
            n_inputs=one.n_inputs,
        )
        for one in pairs
    )


def draw(found: Sequence[Studied], keeps: Sequence[float]) -> Figure:
    """A row of panels per model, one per keep probability."""
    figure, panels = make_panels(len(found), len(keeps), size=(2.5, 2.2))
    for row, one in zip(panels, found, strict=True):
        for place, (axes, keep) in enumerate(zip(row, keeps, strict=True)):
            plot_lines([_line(group, keep) for group in one.summary.groups], ax=axes, legend=False)
            entitle(axes, named(one), f"λ = {ratio(keep)}")
            axes.set_ylabel("" if place else "certified by MuS")
    legend_below(figure, panels[0][0], note=bands_note(found))
    return figure


def _line(group: GroupSummary, keep: float) -> Line:
    rates = next(one.rates for one in group.mus if one.keep_probability == keep)
    points = [(one.radius, one.mean, band_of(one, group.n_inputs)) for one in rates]
    return Line.of(method_label(group.method), points, look=look_of(group.method))


def tell(found: Sequence[Studied], pairs: Sequence[Pair], votes: Mapping[str, Sequence[Votes]]) -> str:
    """The findings in words."""
    parts = []
    for one in found:
        own = [pair for pair in pairs if pair.model == one.subject.name]
        parts += [_of_subject(one, own), tell_votes(votes[one.subject.name]), *one.lengths]
    return " ".join([*parts, _compared(found, pairs), *_ranked(pairs), TOLD])


def _of_subject(one: Studied, pairs: Sequence[Pair]) -> str:
    if not pairs:
        return f"{named(one)}: below radius 1/(2λ) there are no two methods to compare."
    hard, soft = Verdicts.of(pair.contrast for pair in pairs), Verdicts.of(soft_contrasts(one, pairs))
    if not hard.n:
        return f"{named(one)}: fewer than {FEWEST} inputs can decide nothing."
    return (
        f"{named(one)}: below radius 1/(2λ), MuS tells two methods apart in {_told_apart(hard)} comparisons of two "
        f"methods at one λ and radius; SCA-soft does in {_told_apart(soft)} at "
        f"{at_radii(pair.radius for pair in pairs)}, once each."
    )


def _told_apart(verdicts: Verdicts) -> str:
    return f"{verdicts.n_decided} of {verdicts.n} ({verdicts.n_guaranteed} guaranteed)"


def soft_contrasts(one: Studied, pairs: Sequence[Pair]) -> list[Contrast]:
    """Soft rates of every pair of methods at every radius at which MuS can certify anything for this model."""
    fraction = one.summary.groups[0].top_fraction
    radii = {pair.radius for pair in pairs if pair.model == one.subject.name}
    return [
        contrast
        for first, second in combinations(methods_of(one.summary.groups), 2)
        for radius, contrast in method_contrasts(one.summary, first, second, top_fraction=fraction).items()
        if radius in radii
    ]


def _compared(found: Sequence[Studied], pairs: Sequence[Pair]) -> str:
    said = [words for one in found if (words := _shares(one, [p for p in pairs if p.model == one.subject.name]))]
    if not said:
        return "There are no two methods to compare, or too few inputs."
    return (
        f"The paper reports that MuS can hardly tell methods apart; here it does in {listed(said)}, of comparisons at "
        "radii that MuS can certify (they depend on each other, and MuS has one for each λ; no interval is claimed)."
    )


def _shares(one: Studied, pairs: Sequence[Pair]) -> str:
    """How often MuS and SCA-soft tell methods of one model apart."""
    hard, soft = Verdicts.of(pair.contrast for pair in pairs), Verdicts.of(soft_contrasts(one, pairs))
    if not hard.n or not soft.n:
        return ""
    shares = (hard.n_decided / hard.n, soft.n_decided / soft.n)
    how = "less often than" if shares[0] < shares[1] else "not less often than"
    return f"{100 * shares[0]:.0f}% on {one.subject.name}, {how} SCA-soft ({100 * shares[1]:.0f}%)"


def _ranked(pairs: Sequence[Pair]) -> list[str]:
    """Which way MuS ranks the methods that SCA finds most stable and random explanations."""
    against = [pair for pair in pairs if pair.second == BASELINE and pair.first in LEADING]
    ranked = Verdicts.of(pair.contrast for pair in against)
    if ranked.n == ranked.n_open:
        return []
    leading = listed([method_label(method) for method in LEADING if any(pair.first == method for pair in against)])
    return [
        f"The share of inputs that MuS certifies for {leading}, compared with random explanations, is {ranked}; a "
        "random explanation of which every vote says the same is as good to MuS as any other."
    ]


SUBJECTS = ((RESNET, 60), (VIT, 10), (ROBERTA, 50))
