"""Question 2 of the paper, and its ablation over the share of features selected: which method's explanations hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.experiments.captions import bands_note, clamped, named
from holdfast.experiments.contrasts import chosen_contrast, method_contrasts, method_table, methods_of, note_on
from holdfast.experiments.experiment import Desk, Experiment, Outcome, Request
from holdfast.experiments.studies import Studied, certify_spec, study_subjects
from holdfast.experiments.subjects import RESNET, ROBERTA, VIT, Subject
from holdfast.experiments.tables import study_tables
from holdfast.experiments.words import Contrast, Verdicts, at_radii, compared, share
from holdfast.report.figures.curves import Line, band_of, plot_lines
from holdfast.report.figures.style import entitle, legend_below, look_of, make_panels
from holdfast.study.aggregate import GroupSummary, StudySummary
from holdfast.words import counted, listed, method_label, percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

IMAGE_RADII = (1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 40, 60, 80, 100, 120, 147)
TEXT_RADII = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 35, 40)
TOP = 0.25
FRACTIONS = (0.125, 0.25, 0.375, 0.5)
BASELINE = "random"
LEADING = ("lime", "shap")
"""The methods that the paper finds most stable on images."""

GRADIENTS = ("integrated_gradients", "mfaba")
"""The paper's methods that need gradients."""


def radii_for(subject: Subject, request: Request, fractions: Sequence[float] = (TOP,)) -> tuple[int, ...]:
    """The radii asked for, or the paper's as far as the subject has features besides those selected."""
    return request.radii or subject.reachable(IMAGE_RADII if subject.kind == "image" else TEXT_RADII, fractions)


def run(experiment: Experiment, request: Request, desk: Desk) -> Outcome:
    """Compare methods at a quarter of the features."""
    found = _studied(experiment, request, desk, fractions=(TOP,))
    return Outcome(study_tables(found, method_table(found)), draw(found, (TOP,)), tell(found, (TOP,)))


def run_ablation(experiment: Experiment, request: Request, desk: Desk) -> Outcome:
    """Compare methods at several shares of the features."""
    found = _studied(experiment, request, desk, fractions=FRACTIONS)
    return Outcome(study_tables(found, method_table(found)), draw(found, FRACTIONS), tell(found, FRACTIONS))


def _studied(experiment: Experiment, request: Request, desk: Desk, *, fractions: tuple[float, ...]) -> list[Studied]:
    return study_subjects(
        experiment,
        request,
        desk,
        methods=request.method_specs(),
        top_fractions=fractions,
        certify=lambda subject: certify_spec(radii_for(subject, request, fractions), request),
    )


def draw(found: Sequence[Studied], fractions: Sequence[float]) -> Figure:
    """A panel per model, or a row of panels per model with one per fraction."""
    single = len(fractions) == 1
    n_rows, n_columns = (1, len(found)) if single else (len(found), len(fractions))
    figure, panels = make_panels(n_rows, n_columns, size=(3.2, 2.7) if single else (2.6, 2.3))
    places = [(one, fraction) for one in found for fraction in fractions]
    for axes, (one, fraction) in zip([axes for row in panels for axes in row], places, strict=True):
        plot_lines([_line(group) for group in _at(one.summary, fraction)], ax=axes, legend=False)
        entitle(axes, named(one), *([] if single else [f"top {percent(fraction)}"]))
    for axes in [axes for row in panels for axes in row[1:]]:
        axes.set_ylabel("")
    legend_below(figure, panels[0][0], note=bands_note(found))
    return figure


def _at(summary: StudySummary, fraction: float) -> list[GroupSummary]:
    return [group for group in summary.groups if group.top_fraction == fraction]


def _line(group: GroupSummary) -> Line:
    points = [(one.radius, one.mean, band_of(one, group.n_inputs)) for one in group.soft]
    return Line.of(method_label(group.method), points, look=look_of(group.method))


def tell(found: Sequence[Studied], fractions: Sequence[float]) -> str:
    """The findings in words."""
    parts = [_of_cut(one, fraction) for one in found for fraction in fractions]
    lengths = [words for one in found for words in (*one.lengths, *clamped(one))]
    return " ".join([*parts, *lengths, *_vision(found, fractions), *_text(found, fractions), note_on(found)])


def _of_cut(one: Studied, fraction: float) -> str:
    groups = _at(one.summary, fraction)
    radius = _middle(groups[0])
    at = {group.method: next(mean for mean in group.soft if mean.radius == radius) for group in groups}
    order, n_inputs = sorted(at, key=lambda method: -at[method].mean), groups[0].n_inputs
    bands = {method: share(mean.mean, band_of(mean, n_inputs)) for method, mean in at.items()}
    rates = listed(f"{method_label(method)} {bands[method]}" for method in order)
    gap = _gap(one.summary, order, top_fraction=fraction, radius=radius) if len(order) > 1 else ""
    which = f"{one.subject.name} ({counted(n_inputs, 'input')}, top {percent(fraction)})"
    return f"{which} at radius {radius}: {rates}.{gap}"


def _gap(summary: StudySummary, order: Sequence[str], *, top_fraction: float, radius: int) -> str:
    """The first of the methods in the order of their rates, compared with the last."""
    best, worst = order[0], order[-1]
    contrast = chosen_contrast(summary, best, worst, top_fraction=top_fraction, radius=radius)
    if contrast.is_guaranteed:
        chosen = "chosen after looking; guaranteed for all pairs at once"
    elif contrast.shown == contrast.guaranteed:
        chosen = "chosen after looking; the interval holds for all pairs at once"
    else:
        chosen = "chosen after looking; the interval does not allow for that"
    named = f"{method_label(best)}, highest here, compared with {method_label(worst)}, lowest here,"
    return f" {named} {contrast.said} ({chosen})."


def _middle(group: GroupSummary) -> int:
    """The radius that is written about: the one in the middle of the list, chosen before looking."""
    return group.radii[len(group.radii) // 2]


@dataclass(frozen=True)
class Lead:
    """One method's rate minus that of another, for one model, fraction and radius."""

    model: str
    method: str
    top_fraction: float
    radius: int
    contrast: Contrast


Rivals = tuple[Sequence[str], Sequence[str]]


def leads_of(
    found: Sequence[Studied], fractions: Sequence[float], kind: str, rivals: Rivals = (LEADING, (BASELINE,))
) -> list[Lead]:
    """Some methods compared with others, as far as they are there, for one kind of input."""
    pairs = [(first, second) for first in rivals[0] for second in rivals[1]]
    return [
        Lead(one.subject.name, first, fraction, radius, contrast)
        for one in found
        if one.subject.kind == kind
        for fraction in fractions
        for first, second in pairs
        if {first, second} <= set(methods_of(one.summary.groups))
        for radius, contrast in method_contrasts(one.summary, first, second, top_fraction=fraction).items()
    ]


def _verdicts(leads: Sequence[Lead]) -> Verdicts:
    return Verdicts.of(one.contrast for one in leads)


def _named(leads: Sequence[Lead]) -> str:
    return listed([method_label(method) for method in dict.fromkeys(one.method for one in leads)])


def _vision(found: Sequence[Studied], fractions: Sequence[float]) -> list[str]:
    """The paper's three claims about images, as far as their methods are there."""
    claims: list[tuple[Rivals, str]] = [
        ((LEADING, (BASELINE,)), "random explanations"),
        ((LEADING, GRADIENTS), "methods that use gradients"),
        ((GRADIENTS, (BASELINE,)), "random explanations"),
    ]
    said = []
    for rivals, others in claims:
        leads = leads_of(found, fractions, "image", rivals)
        are = "are" if len({one.method for one in leads}) > 1 else "is"
        trend = f"on images {_named(leads)} {are} more stable than {others}" if leads else ""
        said += [compared(trend, _verdicts(leads))] if leads else []
    return said


def _text(found: Sequence[Studied], fractions: Sequence[float]) -> list[str]:
    """How methods differ on texts, and by how much on both kinds of input as far as both are there."""
    images, texts = (leads_of(found, fractions, kind) for kind in ("image", "text"))
    if not texts:
        return []
    return [
        f"On texts the rate of {_named(texts)}, compared with that of random explanations, is {_verdicts(texts)}. The "
        f"paper reports less distinction between methods on texts than on images; {_gaps(images, texts)}."
    ]


def _gaps(images: Sequence[Lead], texts: Sequence[Lead]) -> str:
    """The mean gap to random explanations of each model, over the radii that all models have."""
    by_cut: dict[tuple[str, float], set[int]] = {}
    for one in (*images, *texts):
        by_cut.setdefault((one.model, one.top_fraction), set()).add(one.radius)
    common = set.intersection(*by_cut.values())
    if not images or not common:
        return f"there are no {'radii in common' if images else 'images'} here to compare with"
    on_images, on_texts = (_means([one for one in leads if one.radius in common]) for leads in (images, texts))
    return (
        f"here the gap of {_named(texts)} to random, averaged over the radii that all models have ({at_radii(common)}),"
        f" is {on_texts} on texts against {on_images} on images (other models and other tasks: no interval is claimed "
        "for this comparison)"
    )


def _means(leads: Sequence[Lead]) -> str:
    """The mean gap of each model."""
    gaps: dict[str, list[float]] = {}
    for one in leads:
        gaps.setdefault(one.model, []).append(one.contrast.estimate)
    return listed([f"{100 * sum(own) / len(own):+.1f} points ({model})" for model, own in gaps.items()])


SUBJECTS = ((RESNET, 80), (VIT, 20), (ROBERTA, 80))
ABLATION_SUBJECTS = ((RESNET, 40), (VIT, 10), (ROBERTA, 40))
