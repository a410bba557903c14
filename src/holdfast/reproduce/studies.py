"""A planned study → its files of results, what is compared in them, and the claims of the paper, counted."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from holdfast.bounds import Interval
from holdfast.errors import StudyError, StudyMismatchError
from holdfast.report.figures.curves import Line, band_of, plot_lines
from holdfast.report.figures.style import COLOURS, LineStyle, entitle, legend_below, look_of, make_panels
from holdfast.reproduce.experiment import PlannedRun, StudyPreset, Subject
from holdfast.reproduce.findings import (
    BY_BOOTSTRAP,
    CONFIDENCE,
    N_RESAMPLES,
    Contrast,
    CountedClaim,
    Matrix,
    Results,
    Table,
    contrast_table,
    paired,
    ratio,
    share,
)
from holdfast.study.columns import FEW, Columns, read_columns
from holdfast.study.local import Engine, InProcess
from holdfast.study.records import unpack_text
from holdfast.study.run import LiveBar, run_study
from holdfast.study.spec import CertifySpec, MethodSpec, MusSpec, SmoothingSpec, StudySpec
from holdfast.study.store import COLUMNS, Store
from holdfast.study.summary import GroupSummary, MeanAt, StudySummary, summarize_study
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

_VOTED = """
SELECT i.method, i.top_fraction, i.keep_probability, i.mus, x.label FROM items i JOIN inputs x USING (input)
WHERE i.input < ? ORDER BY i.item
"""


class InterruptedStudyError(StudyError):
    """Somebody asked to stop; the same command goes on from there."""


@dataclass(frozen=True, eq=False)
class Studied:
    """A subject whose study is complete, in a file; the summary has no radius that repeats another."""

    subject: Subject
    summary: StudySummary
    path: Path
    _columns: dict[Any, Columns] = field(default_factory=dict, repr=False)

    @property
    def label(self) -> str:
        """The model, and over how many inputs."""
        return f"{self.subject.name}, {counted(self.summary.groups[0].n_inputs, 'input')}"

    @property
    def per_input(self) -> bool:
        """Whether there are certificates of single inputs."""
        return self.summary.precision == "per-input"

    @property
    def methods(self) -> list[str]:
        """The methods, in the order of the study."""
        return list(dict.fromkeys(group.method for group in self.summary.groups))

    def columns(self, group: GroupSummary) -> Columns:
        """Rates per input of one group, at its radii; read once."""
        if group.key not in self._columns:
            with Store(self.path) as store:
                asked = store.spec.certify.radii
                columns = read_columns(store, group.key)
            places = [asked.index(radius) for radius in group.radii]
            rates, all_agreed = columns.rates[:, places], columns.all_agreed[:, places]
            self._columns[group.key] = replace(columns, rates=rates, all_agreed=all_agreed)
        return self._columns[group.key]

    def voted(self, group: GroupSummary, keep: float) -> NDArray[np.bool_]:
        """Whether votes at a keep probability certify each input (n,) at each radius (R,)."""
        return np.asarray(self.columns(group).voted[keep][:, None] >= np.array(group.radii))

    def common(self, group: GroupSummary, other: GroupSummary) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Rows of two groups that are about the same inputs."""
        inputs, others = self.columns(group).inputs, self.columns(other).inputs
        _, here, there = np.intersect1d(inputs, others, assume_unique=True, return_indices=True)
        return here, there


def run_studies(planned: PlannedRun, preset: StudyPreset) -> Results:
    """Run the studies of all subjects that were asked for, or what is left of them; then count, draw and tabulate."""
    finished = [study_subject(planned, preset, subject) for subject in planned.subjects]
    contrasts = {studied.subject.name: preset.contrasts(studied, planned.request.seed) for studied in finished}
    measured: Matrix = {}
    for studied in finished:
        for quantity, cell in preset.measure(studied, contrasts[studied.subject.name]).items():
            measured.setdefault(quantity, {})[studied.label] = cell
    tallies = []
    for claim in planned.experiment.claims:
        for studied in finished:
            about = tuple(filter(claim.applies, contrasts[studied.subject.name]))
            if about and claim.kind in (None, studied.subject.kind):
                tallies.append(CountedClaim(claim.statement, studied.label, about, claim.expected))
    means = [
        {"model": studied.subject.name, "data": studied.summary.data, **row}
        for studied in finished
        for group in studied.summary.groups
        for row in group.rows()
    ]
    differences = contrast_table(contrast for some in contrasts.values() for contrast in some)
    tables = {"curves": Table.of(means), "differences": differences}
    per_input = all(studied.per_input for studied in finished)
    if per_input:
        tables["certificates"] = Table(ITEM_COLUMNS, lambda: (row for studied in finished for row in _rows(studied)))
    short = [(studied.subject, studied.summary.n_skipped, studied.summary.n_inputs) for studied in finished]
    how = BY_BOOTSTRAP if per_input else BY_MEANS
    return Results(tables, preset.draw(finished), tallies, measured, how, too_short(short))


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
    if done.stopped and not done.status.n_done:
        raise InterruptedStudyError("Stopped. Nothing was stored yet; the same command begins again.")
    if done.stopped:
        stored = f"{counted(done.status.n_done, 'item')} {'is' if done.status.n_done == 1 else 'are'} stored in {path}"
        raise InterruptedStudyError(f"Stopped. {stored}; the same command goes on from there.")
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
    n, least, there = subject.data.n, subject.data.min_features, len(subject.inputs)
    if least > 1 and (n is None or n <= there):  # of more inputs than there are the study itself complains
        long = subject.long_inputs(n or 1, least)
        n = n and (long.numbers[-1] + 1 if len(long) == n else there)
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
    """Every pair of methods at every fraction, keep probability and radius.

    Input by input where there are certificates of inputs, with the bootstrap of the summary; from the two means' own
    intervals where there are only mean curves.
    """
    summary, contrasts = studied.summary, []
    for fraction, keep in dict.fromkeys((group.top_fraction, group.keep_probability) for group in summary.groups):
        cut = {"top_fraction": fraction, "keep_probability": keep}
        for first, second in combinations(studied.methods, 2):
            where: dict[str, Any] = {"model": studied.subject.name, "first": first, "second": second, **cut}
            if not studied.per_input:
                contrasts += mean_contrasts(summary.group(first, **cut), summary.group(second, **cut), **where)
                continue
            pair = summary.difference(first, second, **cut)
            for at in pair:
                where |= {"radius": at.radius, "n_inputs": pair.n_inputs}
                contrasts.append(Contrast(at.mean, at.approximate, at.guaranteed, at.joint, **where))
    return contrasts


def mean_contrasts(group: GroupSummary, other: GroupSummary, **where: Any) -> list[Contrast]:
    """Two mean curves with intervals of their own: their difference lies between the farthest ends."""
    contrasts = []
    for mean, below in zip(group.soft, other.soft, strict=True):
        (low, high), (least, most) = band_of(mean, group.n_inputs), band_of(below, group.n_inputs)
        span = Interval(low - most, high - least)
        sure = span if mean.approximate is None and below.approximate is None else None
        where |= {"radius": mean.radius, "n_inputs": group.n_inputs, "bootstrap": False}
        contrasts.append(Contrast(mean.mean - below.mean, span, sure, **where))
    return contrasts


def vote_contrasts(studied: Studied, key: int) -> list[Contrast]:
    """For every method, keep probability and radius: the shares that SCA and MuS certify, input by input."""
    contrasts = []
    for group in studied.summary.groups:
        columns = studied.columns(group)
        for keep in columns.voted:
            where: dict[str, Any] = {"model": studied.subject.name, "second": f"{group.method}, MuS at {keep!r}"}
            where |= {"top_fraction": group.top_fraction, "keep_probability": 1.0, "mus_keep_probability": keep}
            for kind, rates in (("soft", columns.rates), ("hard", columns.all_agreed)):
                name, certified = f"{group.method}, SCA-{kind}", studied.voted(group, keep)
                contrasts += paired(rates, certified, key=key, radii=group.radii, first=name, **where)
    return contrasts


def mus_contrasts(studied: Studied, key: int) -> list[Contrast]:
    """Every pair of methods wherever MuS can certify anything, by MuS and then by SCA-soft at the same radii."""
    groups = {group.method: group for group in studied.summary.groups}
    contrasts = []
    for first, second in combinations(groups, 2):
        here, there = studied.common(groups[first], groups[second])
        for keep in studied.columns(groups[first]).voted:
            certified = studied.voted(groups[first], keep)[here], studied.voted(groups[second], keep)[there]
            where: dict[str, Any] = dict.fromkeys(("keep_probability", "mus_keep_probability"), keep)
            where |= {"model": studied.subject.name, "first": f"{first}, MuS", "second": f"{second}, MuS"}
            where |= {"top_fraction": groups[first].top_fraction, "radii": groups[first].radii}
            each = paired(*certified, key=key, **where)
            contrasts += [contrast for contrast in each if not contrast.beyond_votes]
    radii = {contrast.radius for contrast in contrasts}
    return contrasts + [contrast for contrast in method_contrasts(studied, key) if contrast.radius in radii]


def smoothing_contrasts(studied: Studied, key: int) -> list[Contrast]:
    """What each keep probability below 1 gains at each radius, and whether gains are larger at small radii.

    Nothing without the model itself to compare with.
    """
    groups = studied.summary.groups
    plain = {group.method: group for group in groups if group.keep_probability == 1}
    smoothed = [group for group in groups if group.keep_probability != 1 and group.method in plain]
    contrasts, gains = [], []
    for group in smoothed:
        first, second = f"{group.method}, λ = {group.keep_probability:g}", f"{group.method}, λ = 1"
        where: dict[str, Any] = {"model": studied.subject.name, "first": first, "second": second}
        where |= {"top_fraction": group.top_fraction, "keep_probability": group.keep_probability}
        if not studied.per_input:
            contrasts += mean_contrasts(group, plain[group.method], **where)
            continue
        here, there = studied.common(group, plain[group.method])
        rates, others = studied.columns(group).rates[here], studied.columns(plain[group.method]).rates[there]
        contrasts += paired(rates, others, key=key, radii=group.radii, **where)
        gains.append(rates - others)
    small = np.array(groups[0].radii) <= SMALL
    if gains and small.any() and not small.all():
        # Each input's gains, averaged over keep probabilities, then over the radii of each kind.
        values = np.mean(gains, axis=0)
        near, far = values[:, small].mean(axis=1)[:, None], values[:, ~small].mean(axis=1)[:, None]
        where = {"model": studied.subject.name, "first": f"gain up to radius {SMALL}", "second": "gain beyond"}
        contrasts += paired(near, far, key=key, reach=2.0, **where)
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
    beyond = [
        mean.mean > 0
        for votes in (votes for each in studied.summary.groups for votes in each.mus)
        for mean in votes.rates
        if 2 * votes.keep_probability * mean.radius >= 1
    ]
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
    votes: dict[float, list[tuple[str, int | None]]] = {}
    wanted = {tuple(group.key) for group in studied.summary.groups}
    with Store(studied.path) as store:
        for *key, packed, label in store.query(_VOTED, studied.summary.n_inputs):
            for vote in map(json.loads, json.loads(unpack_text(packed))) if tuple(key) in wanted else ():
                votes.setdefault(vote["keep_probability"], []).append((json.dumps(vote["prediction"]), label))
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

Panel = tuple[tuple[str, ...], list[Line]]
"""The lines of its title, and what is drawn."""


def draw_methods(finished: Sequence[Studied]) -> Figure:
    """A panel per model, or a row of panels per model with one per fraction."""
    fractions = list(dict.fromkeys(group.top_fraction for group in finished[0].summary.groups))
    single = len(fractions) == 1
    panels: list[Panel] = []
    for studied in finished:
        for fraction in fractions:
            groups = [group for group in studied.summary.groups if group.top_fraction == fraction]
            lines = [_line(method_label(group.method), group, group.soft, look_of(group.method)) for group in groups]
            panels.append(((studied.label, *([] if single else [f"top {percent(fraction)}"])), lines))
    if single:
        return _grid([panels], finished, size=(3.2, 2.7))
    n = len(fractions)
    return _grid([panels[at : at + n] for at in range(0, len(panels), n)], finished, size=(2.6, 2.3))


def draw_votes(finished: Sequence[Studied]) -> Figure:
    """A panel per model and method: SCA-soft, SCA-hard, and MuS at each keep probability."""
    panels: list[list[Panel]] = []
    for studied in finished:
        row: list[Panel] = []
        for group in studied.summary.groups:
            lines = [
                replace(_line("SCA-soft", group, group.soft, _SOFT), width=3.2),
                _line("SCA-hard", group, group.hard, _HARD),
            ]
            for place, votes in enumerate(group.mus):
                look = _VOTE_STYLES[place % len(_VOTE_STYLES)]
                lines.append(_line(f"MuS, λ = {ratio(votes.keep_probability)}", group, votes.rates, look))
            row.append(((studied.label, method_label(group.method)), lines))
        panels.append(row)
    figure = _grid(panels, finished, size=(2.5, 2.3))
    for axes in figure.axes[: -max(map(len, panels))]:
        axes.set_xlabel("")
    return figure


def draw_mus(finished: Sequence[Studied]) -> Figure:
    """A row of panels per model, one per keep probability, with a line per method."""
    panels: list[list[Panel]] = [[] for _ in finished]
    for row, studied in zip(panels, finished, strict=True):
        groups = [(group, method_label(group.method), look_of(group.method)) for group in studied.summary.groups]
        for place, votes in enumerate(groups[0][0].mus):
            lines = [_line(label, group, group.mus[place].rates, look) for group, label, look in groups]
            row.append(((studied.label, f"λ = {ratio(votes.keep_probability)}"), lines))
    return _grid(panels, finished, size=(2.5, 2.2), y="certified by MuS")


def draw_smoothing(finished: Sequence[Studied]) -> Figure:
    """Small radii above, all radii below, a column per model; black for the model itself, then from dark to light."""
    import matplotlib
    from matplotlib.colors import to_hex

    rows: list[list[Panel]] = [[], []]
    for studied in finished:
        groups = studied.summary.groups
        shades = [to_hex(colour) for colour in matplotlib.colormaps["viridis"](np.linspace(0.1, 0.85, len(groups)))]
        whole, near = [], []
        for place, (group, shade) in enumerate(zip(groups, shades, strict=True)):
            name = f"λ = {group.keep_probability:g}" + (f", {group.method}" if len(studied.methods) > 1 else "")
            look = replace(look_of("", place), colour="#000000" if group.keep_probability == 1 else shade)
            small = [mean for mean in group.soft if mean.radius <= SMALL]
            near.append(_line(name, group, small or group.soft, look))
            whole.append(_line(name, group, group.soft, look))
        rows[0].append(((studied.label, "small radii"), near))
        rows[1].append(((studied.label, "all radii"), whole))
    return _grid(rows, finished, size=(3.1, 2.5))


def _line(label: str, group: GroupSummary, means: Sequence[MeanAt], look: LineStyle) -> Line:
    return Line.of(label, [(mean.radius, mean.mean, band_of(mean, group.n_inputs)) for mean in means], look=look)


def _grid(
    panels: Sequence[Sequence[Panel]],
    finished: Sequence[Studied],
    *,
    size: tuple[float, float],
    y: str = "stability rate",
) -> Figure:
    """Panels in rows, labelled at the left, with one legend; places that a row leaves empty stay blank."""
    figure, grid = make_panels(len(panels), max(map(len, panels)), size=size)
    for row, axes_of_row in zip(panels, grid, strict=True):
        for axes in axes_of_row[len(row) :]:
            axes.set_visible(False)
        for place, ((title, lines), axes) in enumerate(zip(row, axes_of_row, strict=False)):
            plot_lines(lines, ax=axes, legend=False)
            entitle(axes, *title)
            axes.set_ylabel("" if place else y)
    level = percent(finished[0].summary.groups[0].confidence)
    few = [studied.summary.groups[0].n_inputs < FEW for studied in finished]
    sure = f"guaranteed {level} intervals for the mean over the population"
    if all(few) or not all(studied.per_input for studied in finished):
        note = f"Bands: {sure}."
    else:
        where = f"; {sure} where there are fewer than {FEW} inputs" if any(few) else ""
        note = f"Bands: {level} intervals over inputs by the bootstrap, which are approximate{where}."
    legend_below(figure, grid[0][0], note=note)
    return figure
