"""A planned study → its files of results, what is compared in them, and the claims of the paper, counted."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, cycle, groupby
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import StudyError, StudyMismatchError
from holdfast.report.figures.curves import Line, band_of, mean_line, plot_lines
from holdfast.report.figures.style import COLOURS, LineStyle, entitle, legend_below, look_of, make_panels, shades
from holdfast.reproduce.experiment import Panels, PlannedRun, StudyPreset, Subject
from holdfast.reproduce.findings import (
    BY_BOOTSTRAP,
    CONFIDENCE,
    N_RESAMPLES,
    Contrast,
    CountedClaim,
    Quantity,
    Results,
    Table,
    paired,
    ratio,
    share,
)
from holdfast.study.local import Engine, InProcess
from holdfast.study.records import unpack_text
from holdfast.study.session import LiveBar, run_study
from holdfast.study.spec import CertifySpec, GroupKey, MethodSpec, MusSpec, SmoothingSpec, StudySpec
from holdfast.study.store import COLUMNS, Store
from holdfast.study.summary import (
    FEW,
    Columns,
    GroupSummary,
    MeanAt,
    PairedDifference,
    StudySummary,
    read_columns,
    summarize_study,
)
from holdfast.words import counted, listed, method_label, percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HALF_WIDTH = 0.02
"""Of mean curves, with precision "data-set"."""

CRITERION = "lipschitz"
"""Of MuS, the paper's; it certifies no radius of 1/(2λ) or more."""

N_SAMPLES = 32
"""Masks of a smoothed model."""

SMALL = 10
"""Radii up to this are small; images and texts have the same ones."""

LEADING, GRADIENTS, BASELINE = ("lime", "shap"), ("integrated_gradients", "mfaba"), ("random",)
"""The methods that the paper finds most stable on images, those that need gradients, and what all are held against."""

BY_MEANS = (
    f"Higher and lower: guaranteed {percent(CONFIDENCE)} intervals of two means over the population, if inputs were "
    f"drawn from it independently, do not overlap (over these inputs means are known within ±{100 * HALF_WIDTH:g} "
    f"points); that holds at {percent(2 * CONFIDENCE - 1)} for each comparison by itself, and comparisons share inputs."
)

_NOT_WRITTEN = (
    *("n_computed", "seconds", "attribution_calls", "attribution_seconds"),  # other ones in every run
    *("full_prediction", "prediction", "model_fingerprint", "input_fingerprint"),
)

ITEM_COLUMNS = {"model": "string"} | {name: kind for name, kind in COLUMNS.items() if name not in _NOT_WRITTEN}
"""Certificates: one row per item and radius."""

_LEFT = """
SELECT i.top_fraction, max(x.n_features - i.n_selected) FROM items i JOIN inputs x USING (input)
WHERE i.input < ? GROUP BY i.top_fraction
"""


class InterruptedStudyError(StudyError):
    """Somebody asked to stop; the same command goes on from there."""


@dataclass(frozen=True, eq=False)
class Studied:
    """A subject whose study is complete, in a file; the summary has no radius that repeats another."""

    subject: Subject
    summary: StudySummary
    path: Path

    @property
    def label(self) -> str:
        """The model, and over how many inputs."""
        return f"{self.subject.name}, {counted(self.summary.groups[0].n_inputs, 'input')}"

    @property
    def per_input(self) -> bool:
        """Whether there are certificates of single inputs."""
        return self.summary.precision == "per-input"

    @cached_property
    def columns(self) -> dict[GroupKey, Columns]:
        """Rates per input of each group, at its radii; every group is about the same inputs."""
        columns = {}
        with Store(self.path) as store:
            for group in self.summary.groups:
                stored, n = read_columns(store, group.key), len(group.radii)
                columns[group.key] = replace(stored, rates=stored.rates[:, :n], all_agreed=stored.all_agreed[:, :n])
        return columns

    def voted(self, group: GroupSummary, keep: float) -> NDArray[np.bool_]:
        """Whether votes at a keep probability certify each input (n,) at each radius (R,)."""
        return np.asarray(self.columns[group.key].voted[keep][:, None] >= np.array(group.radii))

    def where(self, cut: GroupSummary | PairedDifference, first: str, second: str) -> dict[str, Any]:
        """The fields of a contrast that say what is compared."""
        names = {"model": self.subject.name, "first": first, "second": second}
        return {**names, "top_fraction": cut.top_fraction, "keep_probability": cut.keep_probability}


def run_studies(planned: PlannedRun, preset: StudyPreset) -> Results:
    """Run the studies of all subjects that were asked for, or what is left of them; then count, draw and tabulate."""
    finished = [study_subject(planned, preset, subject) for subject in planned.subjects]
    compared = [(studied, preset.contrasts(studied, planned.request.seed)) for studied in finished]
    cells = {studied.label: preset.measure(studied, contrasts) for studied, contrasts in compared}
    tallies = []
    for claim in planned.experiment.claims:
        for studied, contrasts in compared:
            about = tuple(filter(claim.applies, contrasts))
            if about and claim.kind in (None, studied.subject.kind):
                tallies.append(CountedClaim(claim.statement, studied.label, about, claim.expected))
    means = [
        {"model": studied.subject.name, "data": studied.summary.data, **row}
        for studied in finished
        for group in studied.summary.groups
        for row in group.rows()
    ]
    differences = Table.of_contrasts(contrast for _, contrasts in compared for contrast in contrasts)
    tables = {"curves": Table.of(means), "differences": differences}
    per_input = all(studied.per_input for studied in finished)
    if per_input:
        tables["certificates"] = Table(ITEM_COLUMNS, lambda: (row for studied in finished for row in _rows(studied)))
    short = [(studied.subject, studied.summary.n_skipped, studied.summary.n_inputs) for studied in finished]
    how = BY_BOOTSTRAP if per_input else BY_MEANS
    return Results(tables, draw_studies(finished, preset), tallies, cells, how, too_short(short))


def _rows(studied: Studied) -> Iterator[dict[str, Any]]:
    """Certificates of the groups, radii and inputs that were asked for; the file may hold more."""
    wanted = {tuple(group.key): group.radii for group in studied.summary.groups}
    with Store(studied.path) as store:
        for row in store.rows():
            key = (row["method"], row["top_fraction"], row["keep_probability"])
            if row["radius"] in wanted.get(key, ()) and row["input"] < studied.summary.n_inputs:
                yield {name: row.get(name, studied.subject.name) for name in ITEM_COLUMNS}


def too_short(seen: Sequence[tuple[Subject, int, int]]) -> list[str]:
    """A sentence about the inputs of each subject that were too short, of so many that were seen; none if none were."""
    parts = [
        f"{subject.name}: {n_short:,} of the first {n_seen:,} inputs {'has' if n_short == 1 else 'have'} fewer than "
        f"{subject.data.min_features} features and {'is' if n_short == 1 else 'are'} left out"
        for subject, n_short, n_seen in seen
        if n_short
    ]
    return [f"{'; '.join(parts)}."] if parts else []


def study_subject(planned: PlannedRun, preset: StudyPreset, subject: Subject) -> Studied:
    """Run the study of one subject to its end, and summarise it without radii that repeat the one before."""
    planned.folder.mkdir(parents=True, exist_ok=True)
    path = planned.folder / f"{subject.name}.db"
    engine: str | Engine = "local" if planned.workers else InProcess(inputs=subject.inputs)
    watch = LiveBar(label=path.stem) if planned.progress is True else planned.progress
    spec = study_spec(planned, preset, subject)
    try:
        done = run_study(spec, path, engine=engine, workers=planned.workers, progress=watch)
    except StudyError as error:
        if isinstance(error.cause or error, StudyMismatchError):
            error.add_hint(f"With `holdfast reproduce`: choose another --output, or remove {path}.")
        raise
    if done.stopped:
        n = done.status.n_done
        stored = f"{counted(n, 'item')} {'is' if n == 1 else 'are'} stored in {path}" if n else "Nothing was stored yet"
        goes_on = "continues from there" if n else "starts again"
        raise InterruptedStudyError(f"Stopped. {stored}; the same command {goes_on}.")
    if done.status.failures:  # nothing is concluded from a part
        number, reason = next(iter(done.status.failures.items()))
        raise StudyError(
            f"{done.status.n_given_up} items of {str(path)!r} could not be computed, the first of input {number}: "
            f"{reason} Run the command again to try them again."
        )
    with Store(path) as store:
        summary = summarize_study(store, confidence=CONFIDENCE, n_resamples=N_RESAMPLES, rng=planned.request.seed)
        left: dict[float, int] = dict(store.query(_LEFT, summary.n_inputs))
    return Studied(subject, without_repeats(summary, left), path)


def study_spec(planned: PlannedRun, preset: StudyPreset, subject: Subject) -> StudySpec:
    """The study about the first inputs of which ``data.n`` are long enough, or about all if there are too few."""
    request = planned.request
    radii = preset.image_radii if subject.kind == "image" else preset.text_radii
    asked = tuple(request.radii or subject.reachable(radii, preset.top_fractions))
    certify = CertifySpec(asked, plan=preset.plan)
    if request.precision == "data-set":
        certify = CertifySpec(asked, precision="data-set", half_width=HALF_WIDTH, confidence=CONFIDENCE)
    keep = tuple(request.keep or preset.keep)
    n = subject.data.n
    if subject.data.min_features > 1 and (n is None or n <= len(subject.inputs)):  # of more, the study complains
        taken = subject.first(n or 1, min_features=subject.data.min_features).first_inputs()  # of all, one is enough
        n = n and subject.n_seen(taken)
    spec = StudySpec(
        model=subject.model,
        data=replace(subject.data, n=n, order="first"),  # what was found is about these
        masking=subject.masking,
        methods=tuple(MethodSpec(name) for name in request.methods or preset.methods),
        top_fractions=preset.top_fractions,
        certify=certify,
        seed=request.seed,
        name=f"{planned.experiment.id}, {subject.name}",
    )
    if preset.smooths == "mus":
        return replace(spec, mus=MusSpec(keep, criterion=CRITERION))
    return replace(spec, smoothing=SmoothingSpec(keep, N_SAMPLES)) if preset.smooths else spec


def without_repeats(summary: StudySummary, left: dict[float, int]) -> StudySummary:
    """The summary without radii at which every input repeats what it had at the radius before.

    ``left`` is, by the share of features selected, the most that any input has left to reveal.
    """

    def kept(rows: Sequence[Any], fraction: float) -> tuple[Any, ...]:
        return tuple(row for at, row in enumerate(rows) if at == 0 or rows[at - 1].radius < left[fraction])

    groups = []
    for group in summary.groups:
        fraction = group.top_fraction
        mus = tuple(replace(votes, rates=kept(votes.rates, fraction)) for votes in group.mus)
        groups.append(replace(group, soft=kept(group.soft, fraction), hard=kept(group.hard, fraction), mus=mus))
    differences = tuple(replace(pair, rows=kept(pair.rows, pair.top_fraction)) for pair in summary.differences)
    return replace(summary, groups=tuple(groups), differences=differences)


def method_contrasts(studied: Studied, key: int) -> list[Contrast]:
    """Every pair of methods at every fraction and radius.

    Input by input where there are certificates of inputs, with the bootstrap of the summary; from the two means' own
    intervals where there are only mean curves.
    """
    contrasts = []
    for pair in studied.summary.differences:
        where = studied.where(pair, pair.first, pair.second)
        for at in pair:
            intervals = (at.approximate, at.guaranteed, at.joint)
            contrasts.append(Contrast(at.mean, *intervals, pair.n_inputs, radius=at.radius, **where))
    if not studied.per_input:
        by_fraction = sorted(studied.summary.groups, key=attrgetter("top_fraction"))
        for _, groups in groupby(by_fraction, key=attrgetter("top_fraction")):
            for group, other in combinations(groups, 2):
                contrasts += mean_contrasts(group, other, **studied.where(group, group.method, other.method))
    return contrasts


def mean_contrasts(group: GroupSummary, other: GroupSummary, **where: Any) -> list[Contrast]:
    """Two mean curves with intervals of their own."""
    contrasts = []
    for mean, below in zip(group.soft, other.soft, strict=True):
        first, second = (Quantity(at.mean, band_of(at, group.n_inputs)) for at in (mean, below))
        contrast = Contrast.certain(first - second, radius=mean.radius, n_inputs=group.n_inputs, **where)
        is_sure = mean.approximate is None and below.approximate is None
        contrasts.append(contrast if is_sure else replace(contrast, guaranteed=None))
    return contrasts


def vote_contrasts(studied: Studied, key: int) -> list[Contrast]:
    """For every method, keep probability and radius: the shares that SCA and MuS certify, input by input."""
    contrasts = []
    for group in studied.summary.groups:
        columns = studied.columns[group.key]
        for keep in columns.voted:
            for kind, rates in (("soft", columns.rates), ("hard", columns.all_agreed)):
                where = studied.where(group, f"{group.method}, SCA-{kind}", f"{group.method}, MuS at {keep!r}")
                where |= {"mus_keep_probability": keep, "radii": group.radii}
                contrasts += paired(rates, studied.voted(group, keep), key=key, **where)
    return contrasts


def mus_contrasts(studied: Studied, key: int) -> list[Contrast]:
    """Every pair of methods wherever MuS can certify anything, by MuS and then by SCA-soft at the same radii."""
    contrasts = []
    for group, other in combinations(studied.summary.groups, 2):
        for keep in studied.columns[group.key].voted:
            where = studied.where(group, f"{group.method}, MuS", f"{other.method}, MuS")
            where |= {"keep_probability": keep, "mus_keep_probability": keep, "radii": group.radii}
            each = paired(studied.voted(group, keep), studied.voted(other, keep), key=key, **where)
            contrasts += [contrast for contrast in each if not contrast.beyond_votes]
    radii = {contrast.radius for contrast in contrasts}
    return contrasts + [contrast for contrast in method_contrasts(studied, key) if contrast.radius in radii]


def smoothing_contrasts(studied: Studied, key: int) -> list[Contrast]:
    """What each keep probability below 1 gains at each radius, and whether gains are larger at small radii.

    Nothing without the model itself to compare with.
    """
    groups = studied.summary.groups
    plain = {group.method: group for group in groups if group.keep_probability == 1}
    contrasts, gains = [], []
    for group in groups:
        other = plain.get(group.method, group)
        if other is group:
            continue
        where = studied.where(group, f"{group.method}, λ = {group.keep_probability:g}", f"{group.method}, λ = 1")
        if not studied.per_input:
            contrasts += mean_contrasts(group, other, **where)
            continue
        rates, others = studied.columns[group.key].rates, studied.columns[other.key].rates
        contrasts += paired(rates, others, key=key, radii=group.radii, **where)
        gains.append(rates - others)
    small = np.array(groups[0].radii) <= SMALL
    if gains and small.any() and not small.all():
        # Each input's gains, averaged over keep probabilities, then over the radii of each kind.
        values = np.mean(gains, axis=0)
        near, far = (values[:, radii].mean(axis=1)[:, None] for radii in (small, ~small))
        names = {"first": f"gain up to radius {SMALL}", "second": "gain beyond"}
        contrasts += paired(near, far, key=key, reach=2.0, model=studied.subject.name, **names)
    return contrasts


def measure_methods(studied: Studied, contrasts: Sequence[Contrast]) -> dict[str, str]:
    """The rate of each method at the radius in the middle of the list, chosen before looking; a mean gap."""
    cells = {}
    for group in studied.summary.groups:
        middle = group.soft[len(group.radii) // 2]
        cells[f"{method_label(group.method)}, top {percent(group.top_fraction)}"] = _rate_at(middle, group)
    led = [c for c in contrasts if c.first in LEADING and c.second in BASELINE and (c.radius or 0) <= SMALL]
    if led:  # of other models and other tasks, so that no interval is claimed for their comparison
        names = listed(dict.fromkeys(method_label(contrast.first) for contrast in led))
        gap = 100 * np.mean([contrast.estimate for contrast in led])
        cells[f"{names} minus random, mean up to radius {SMALL} (the paper: less on texts)"] = f"{gap:+.1f} points"
    return cells


def measure_smoothing(studied: Studied, contrasts: Sequence[Contrast]) -> dict[str, str]:
    """Rates at the smallest and the largest radius, by keep probability."""
    return {
        f"{method_label(group.method)}, λ = {group.keep_probability:g}": listed(
            dict.fromkeys(_rate_at(mean, group) for mean in (group.soft[0], group.soft[-1]))
        )
        for group in studied.summary.groups
    }


def measure_votes(studied: Studied, contrasts: Sequence[Contrast]) -> dict[str, str]:
    """The first method at the largest radius that MuS can certify, whether it certifies beyond, and its classes."""
    group = studied.summary.groups[0]
    least = min(votes.keep_probability for votes in group.mus)
    place = max([i for i, radius in enumerate(group.radii) if 2 * least * radius < 1], default=0)
    best = max(group.mus, key=lambda votes: (votes.rates[place].mean, -votes.keep_probability))
    every = [votes for each in studied.summary.groups for votes in each.mus]
    beyond = [at.mean > 0 for votes in every for at in votes.rates if 2 * votes.keep_probability * at.radius >= 1]
    name, lower = method_label(group.method), {}
    for keep in (votes.keep_probability for votes in group.mus):
        own = [c for c in contrasts if c.mus_keep_probability == keep and not c.beyond_votes]
        tally = CountedClaim("", "", tuple(c for c in own if c.first.endswith("SCA-soft")))
        counts = f"in {tally.count('lower')} of {tally.n_decidable} ({tally.count('lower', guaranteed=True)})"
        if tally.n_decidable:
            lower[f"MuS at λ = {ratio(keep)} certifies more than SCA-soft, below 1/(2λ)"] = counts
    return {
        f"{name}, SCA-soft": _rate_at(group.soft[place], group),
        f"{name}, SCA-hard": _rate_at(group.hard[place], group),
        f"{name}, MuS at its best λ": f"{_rate_at(best.rates[place], group)}, λ = {ratio(best.keep_probability)}",
        "MuS certifies an input at radius 1/(2λ) or more": f"in {sum(beyond)} of {len(beyond)} combinations",
        **lower,
        **classes_of_votes(studied),
    }


def measure_mus(studied: Studied, contrasts: Sequence[Contrast]) -> dict[str, str]:
    """How often MuS and SCA-soft tell two methods apart, and the classes of the smoothed model."""
    cells = {}
    for name, by_votes in (("MuS (the paper: hardly)", True), ("SCA-soft", False)):
        tally = CountedClaim("", "", tuple(c for c in contrasts if (c.mus_keep_probability is not None) == by_votes))
        n, sure = (tally.count("higher", "lower", guaranteed=only) for only in (False, True))
        apart = f"{n} of {tally.n_decidable} ({sure})" if tally.n_decidable else "too few inputs"
        cells[f"two methods told apart by {name}"] = apart if tally.contrasts else "nothing to compare"
    return cells | classes_of_votes(studied)


def _rate_at(mean: MeanAt, group: GroupSummary) -> str:
    """A mean over inputs with the interval that its figure shows."""
    return f"{share(mean.mean, band_of(mean, group.n_inputs))} at radius {mean.radius}"


def classes_of_votes(studied: Studied) -> dict[str, str]:
    """How many classes the smoothed model gives to the explanations of the study, and how often the right one."""
    votes: dict[float, list[tuple[str, float | None]]] = {}
    groups, n_inputs = {group.key for group in studied.summary.groups}, studied.summary.n_inputs
    with Store(studied.path) as store:
        for record in store.records():
            is_asked = record.item.group in groups and record.input < n_inputs
            for vote in map(json.loads, json.loads(unpack_text(record.mus))) if is_asked else ():
                votes.setdefault(vote["keep_probability"], []).append((json.dumps(vote["prediction"]), record.label))
    cells = {}
    for keep, pairs in sorted(votes.items()):
        labelled = [vote == json.dumps(label) for vote, label in pairs if label is not None and label >= 0]
        right = f", {percent(round(sum(labelled) / len(labelled), 2))} right" if labelled else ""
        n_classes = len({vote for vote, _ in pairs})
        classes = "1 class" if n_classes == 1 else f"{n_classes} classes"
        cells[f"smoothed with λ = {ratio(keep)}"] = f"{classes} for {len(pairs):,} explanations{right}"
    return cells


_SOFT, _HARD = LineStyle(COLOURS["sky"], "-", "o"), LineStyle(COLOURS["vermilion"], "-", "s")
_VOTE_STYLES = (
    LineStyle(COLOURS["grey"], ":", "^"),
    LineStyle(COLOURS["orange"], "--", "D"),
    LineStyle(COLOURS["green"], "-.", "v"),
    LineStyle(COLOURS["purple"], (0, (4, 1)), "P"),
)


def method_panels(studied: Studied) -> Panels:
    """A panel per fraction, named where there are several, with a line per method."""
    panels: Panels = {}
    groups = studied.summary.groups
    several = len({group.top_fraction for group in groups}) > 1
    for group in groups:
        lines = panels.setdefault(f"top {percent(group.top_fraction)}" if several else "", [])
        lines.append(mean_line(method_label(group.method), group, group.soft, look_of(group.method)))
    return panels


def vote_panels(studied: Studied) -> Panels:
    """A panel per method: SCA-soft, SCA-hard, and MuS at each keep probability."""
    panels: Panels = {}
    for group in studied.summary.groups:
        lines = [
            mean_line("SCA-soft", group, group.soft, _SOFT, width=3.2),
            mean_line("SCA-hard", group, group.hard, _HARD),
        ]
        for votes, look in zip(group.mus, cycle(_VOTE_STYLES), strict=False):
            lines.append(mean_line(f"MuS, λ = {ratio(votes.keep_probability)}", group, votes.rates, look))
        panels[method_label(group.method)] = lines
    return panels


def mus_panels(studied: Studied) -> Panels:
    """A panel per keep probability, with a line per method."""
    panels: Panels = {}
    for group in studied.summary.groups:
        for votes in group.mus:
            lines = panels.setdefault(f"λ = {ratio(votes.keep_probability)}", [])
            lines.append(mean_line(method_label(group.method), group, votes.rates, look_of(group.method)))
    return panels


def smoothing_panels(studied: Studied) -> Panels:
    """Small radii above, all radii below; black for the model itself, then from dark to light."""
    panels: Panels = {"small radii": [], "all radii": []}
    groups = studied.summary.groups
    several = len({group.method for group in groups}) > 1
    for place, (group, shade) in enumerate(zip(groups, shades(len(groups)), strict=True)):
        name = f"λ = {group.keep_probability:g}" + (f", {group.method}" if several else "")
        look = replace(look_of("", place), colour="#000000" if group.keep_probability == 1 else shade)
        small = [mean for mean in group.soft if mean.radius <= SMALL]
        panels["small radii"].append(mean_line(name, group, small or group.soft, look))
        panels["all radii"].append(mean_line(name, group, group.soft, look))
    return panels


def draw_studies(finished: Sequence[Studied], preset: StudyPreset) -> Figure:
    """The panels of each model in a row, or in a column, with one legend; places that a row leaves empty stay blank."""
    rows: Sequence[Sequence[tuple[str, str, list[Line]]]]
    rows = [[(studied.label, *panel) for panel in preset.panels(studied).items()] for studied in finished]
    if preset.models_across:
        rows = list(zip(*rows, strict=True))
    figure, grid = make_panels(len(rows), max(map(len, rows)), size=preset.panel_size)
    for row, axes_of_row in zip(rows, grid, strict=True):
        for axes in axes_of_row[len(row) :]:
            axes.set_visible(False)
        for place, ((label, title, lines), axes) in enumerate(zip(row, axes_of_row, strict=False)):
            plot_lines(lines, ax=axes, legend=False)
            entitle(axes, label, title)
            axes.set_ylabel("" if place else preset.y_label)
            if preset.shared_x and axes_of_row is not grid[-1]:
                axes.set_xlabel("")
    level = percent(finished[0].summary.groups[0].confidence)
    few = [studied.summary.groups[0].n_inputs < FEW for studied in finished]
    sure = f"guaranteed {level} intervals for the mean over the population"
    note = f"Bands: {sure}."
    if not all(few) and all(studied.per_input for studied in finished):
        where = f"; {sure} where there are fewer than {FEW} inputs" if any(few) else ""
        note = f"Bands: {level} intervals over inputs by the bootstrap, which are approximate{where}."
    legend_below(figure, grid[0][0], note=note)
    return figure
