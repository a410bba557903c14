"""The paper's examples of one input: an explanation overturned, two that look alike, a hard radius beside a curve."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import numpy as np

from holdfast.attribution.methods import attribute, names_of, predicted
from holdfast.bounds import clopper_pearson
from holdfast.certification.certificate import certify
from holdfast.certification.comparison import compare
from holdfast.certification.curve import StabilityCurve, certify_radii
from holdfast.evaluation import Evaluator, bare_model
from holdfast.randomness import stream, stream_key
from holdfast.report.figures.curves import plot_curves
from holdfast.report.figures.examples import plot_example, readable_token
from holdfast.report.figures.style import COLOURS, make_panels, note_below
from holdfast.reproduce.experiment import IMAGE_RADII, TEXT_RADII, PlannedRun, Subject, up_to
from holdfast.reproduce.findings import Contrast, CountedClaim, Quantity, Results, Table, share
from holdfast.reproduce.studies import too_short
from holdfast.selection import top_fraction
from holdfast.types import Mask
from holdfast.witness import Witness, find_witness, stability_bracket
from holdfast.words import counted, method_label, percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TOP = 0.25


class Explained:
    """One input of a subject, with explanations of its prediction; what was computed for it is remembered."""

    def __init__(self, subject: Subject, index: int, seed: int) -> None:
        self.subject, self.inputs, self.index, self._seed = subject, subject.inputs, index, seed
        self.model = Evaluator(self.inputs[index])

    @cached_property
    def prediction(self) -> Any:
        """What the model says of the full input."""
        return self.predict(np.ones(self.model.n_features, dtype=bool))

    def predict(self, mask: Mask) -> Any:
        """What the model says of a masked input."""
        return predicted(self.model(mask[None])[0])

    def selected(self, method: str) -> Mask:
        """The explanation by a method, cut at a quarter of the features."""
        return top_fraction(attribute(self.model, method, rng=self.rng("attribute", method)), TOP)

    def rng(self, *purpose: str) -> int:
        """The key of the random numbers of one purpose."""
        return stream_key(stream(self._seed, "reproduce", self.subject.name, str(self.index), *purpose))

    def is_right(self, mask: Mask) -> bool:
        """Whether the full input and the explanation alone both get the right class, where that is known."""
        return self.predict(mask) == self.prediction and self.inputs.label(self.index) in (None, self.prediction)

    @property
    def names(self) -> list[str]:
        """What the features are called, without the marks of tokenizers; numbers where a name says nothing."""
        names = None if self.subject.kind == "image" else names_of(self.model)
        if names is None:
            return [str(feature) for feature in range(self.model.n_features)]
        return [readable_token(name) for name in names]

    def show(self, ax: Axes, title: str, selected: Any = None, added: Any = ()) -> None:
        """Draw the input, or what an explanation shows of it, with additions if there are any."""
        plot_example(self.inputs.raw(self.index), bare_model(self.model), selected, added=added, title=title, ax=ax)


MAX_CALLS = 4000
HEIGHTS = (1.4, 2.4)
"""Of a row of texts and of one of images, in inches."""


@dataclass(frozen=True, eq=False)
class Overturned:
    """One input, its explanation and the smallest change found."""

    explained: Explained
    selected: Mask
    is_right: bool
    witness: Witness

    def row(self, method: str, shown: bool) -> dict[str, Any]:
        """All about it, for a table."""
        explained, witness = self.explained, self.witness
        sizes = {"n_features": explained.model.n_features, "n_selected": int(self.selected.sum())}
        says = {"label": explained.inputs.label(explained.index), "prediction": str(explained.prediction)}
        search = {"found": witness.found, "n_added": witness.n_added, "added": json.dumps(list(witness.added))}
        changed = {"changed_prediction": str(witness.prediction) if witness.found else None}
        proof = {"proven_smallest": witness.found and witness.proven, "cleared_radius": witness.cleared_radius}
        name = {"model": explained.subject.name, "input": explained.index, "method": method}
        return {**name, **sizes, **says, "is_right": self.is_right, **search, **changed, **proof, "shown": shown}

    def __str__(self) -> str:
        witness, explained, name = self.witness, self.explained, self.explained.inputs.class_name
        if not witness.found:
            return "no addition that overturns one was found"
        label = explained.inputs.label(explained.index)
        right = ", which is right" if label is not None and witness.prediction == label else ""
        names = ", ".join(explained.names[feature] for feature in witness.added)
        least = "no fewer can" if witness.proven else "whether fewer can is open"
        return (
            f"input {explained.index}{'' if self.is_right else ' (not right)'}: revealing {names} turns "
            f"“{name(witness.original_prediction)}” into “{name(witness.prediction)}”{right}; {least}"
        )


def run_unstable(planned: PlannedRun) -> Results:
    """Search every input for the smallest change that overturns its explanation, and show the smallest of all."""
    [method] = planned.request.methods or ("lime",)
    heights = [HEIGHTS[subject.kind == "image"] for subject in planned.subjects]
    figure, panels = make_panels(len(heights), 3, size=(3.0, 2.4), heights=heights)
    rows, short = [], []
    cells = {}
    for subject, axes in zip(planned.subjects, panels, strict=True):
        taken, searched = subject.first_inputs(), []
        for index in taken.numbers:
            explained = Explained(subject, index, planned.request.seed)
            selected = explained.selected(method)
            witness = find_witness(explained.model, selected, max_calls=MAX_CALLS, rng=explained.rng("witness"))
            searched.append(Overturned(explained, selected, explained.is_right(selected), witness))
        overturned = [case for case in searched if case.witness.found]
        right = [case for case in overturned if case.is_right]
        chosen = min(right or overturned or searched, key=lambda case: len(case.witness.added))  # the first of equals
        rows += [case.row(method, case is chosen) for case in searched]
        name, added = chosen.explained.inputs.class_name, chosen.witness.added
        chosen.explained.show(axes[0], f"Input {chosen.explained.index}: {name(chosen.explained.prediction)}")
        alone = f"{method_label(method)}: {name(chosen.witness.original_prediction)}"
        chosen.explained.show(axes[1], alone, chosen.selected)
        changed = f"+ {len(added)}: {name(chosen.witness.prediction)}" if added else "no change found"
        chosen.explained.show(axes[2], changed, chosen.selected, added)
        cells[f"{subject.name}, {counted(len(searched), 'input')}"] = measure_overturned(searched, chosen)
        n_seen = subject.n_seen(taken)
        short.append((subject, n_seen - len(taken), n_seen))
    note_below(figure, "Blue: the explanation. Orange, hatched or with broken frames: what was revealed besides.")
    meaning = (
        f"{method_label(method)} explanations are right where the full input and the explanation alone both get the "
        "label, or the same prediction where there is no label; brackets are exact 95% binomial intervals."
    )
    rule = "Shown is the smallest change found among right explanations; it is not typical."
    notes = [meaning, rule, *too_short(short)]
    return Results({"witnesses": Table.of(rows)}, figure, cells=cells, notes=notes)


def measure_overturned(searched: Sequence[Overturned], chosen: Overturned) -> dict[str, str]:
    """How many right explanations there are, how many of them are overturned, and what is shown."""
    right = [case.witness for case in searched if case.is_right]
    cells = {"right explanations": f"{len(right)} of {len(searched)}"}
    if right:
        alone = sum(witness.n_added == 1 for witness in right)
        sizes = [len(witness.added) for witness in right if witness.found]
        n_never = sum(not witness.found and witness.proven for witness in right)
        size = f", with {min(sizes)} to {max(sizes)} features" if sizes else ""
        never = f"; {n_never} by no addition at all" if n_never else ""
        span = clopper_pearson(alone, len(right), confidence=0.95)
        cells["overturned by a single feature"] = share(alone / len(right), span)
        cells["overturned by what was found"] = f"{len(sizes)} of {len(right)}{size}{never}"
    return cells | {"shown": str(chosen)}


ALIKE = 0.5
"""Two explanations look alike if they have at least this share of their joint features in common."""


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


def run_similar(planned: PlannedRun) -> Results:
    """Choose an input whose explanations look alike on one set of draws, then compare them on another."""
    [subject], request = planned.subjects, planned.request
    methods = request.methods or ("lime", "shap")
    radii = request.radii or subject.reachable(IMAGE_RADII if subject.kind == "image" else TEXT_RADII)
    candidates = []
    for index in subject.first_inputs().numbers:
        explained = Explained(subject, index, request.seed)
        masks = {method: explained.selected(method) for method in methods}
        radius, rng = radii[len(radii) // 2], explained.rng("choose")
        rates = [certify(explained.model, mask, radius=radius, rng=rng).rate for mask in masks.values()]
        consistent = all(explained.predict(mask) == explained.prediction for mask in masks.values())
        both, either = np.logical_and(*masks.values()).sum(), np.logical_or(*masks.values()).sum()
        overlap, gap = float(both / max(1, either)), abs(rates[0] - rates[1])
        candidates.append(Candidate(explained, masks, overlap, gap, consistent))
    chosen = choose_similar(candidates)
    explained, name = chosen.explained, chosen.explained.inputs.class_name
    n_left = max(int((~mask).sum()) for mask in chosen.masks.values())
    comparison = compare(explained.model, chosen.masks, up_to(radii, n_left), rng=explained.rng("compare"))
    figure, [panels] = make_panels(1, 4, size=(2.8, 2.6))
    explained.show(panels[0], f"Input {explained.index}: {name(explained.prediction)}")
    for axes, (method, mask) in zip(panels[1:3], chosen.masks.items(), strict=True):
        explained.show(axes, f"{method_label(method)}: {name(explained.predict(mask))}", mask)
    plot_curves(comparison, ax=panels[3])
    level = percent(comparison.curves[0].certificates[0].confidence)
    note_below(figure, f"Bands: guaranteed {level} intervals, each radius of each explanation on its own.")
    rows, contrasts = [], []
    where: dict[str, Any] = dict(zip(("first", "second"), methods, strict=True))
    where |= {"model": subject.name, "top_fraction": TOP, "keep_probability": 1.0}
    for at in comparison:
        stated = {"model": subject.name, "input": explained.index, "overlap": chosen.overlap, "radius": at.radius}
        difference = {"difference": at.estimate, "difference_low": at.interval.low, "difference_high": at.interval.high}
        for method in methods:
            rate = comparison.curve(method)[at.radius]
            rows.append({**stated, "method": method, "rate": rate.rate, **rate.interval._asdict(), **difference})
        contrasts.append(Contrast.certain(Quantity(at.estimate, at.interval), radius=at.radius, **where))
    widest = max(comparison, key=lambda at: abs(at.estimate)).radius
    ends = {method: comparison.curve(method)[widest] for method in methods}
    label = f"{subject.name}, input {explained.index}"
    n_rates = len(methods) * len(comparison.radii)
    cells = {
        f"{method_label(method)}, radius {widest}": share(at.rate, at.interval_if_picked(n_rates))
        for method, at in ends.items()
    }
    statement = " more stable than ".join(method_label(method) for method in methods)
    return Results(
        {"comparison": Table.of(rows), "differences": Table.of_contrasts(contrasts)},
        figure,
        [CountedClaim(statement, label, tuple(contrasts), expected=False)],
        {label: cells},
        f"Higher and lower, and likewise brackets, hold at all radii at once, confidence {comparison.confidence:g}; "
        "the paper shows two explanations that look alike and differ.",
        [tell_rule(chosen, candidates)],
    )


def choose_similar(candidates: Sequence[Candidate]) -> Candidate:
    """The widest gap among explanations that look alike and have the input's prediction, as far as there are any."""
    alike = [candidate for candidate in candidates if candidate.alike]
    agreed = [candidate for candidate in alike if candidate.consistent]
    return max(agreed or alike or candidates, key=lambda candidate: (candidate.gap, candidate.overlap))


def tell_rule(chosen: Candidate, candidates: Sequence[Candidate]) -> str:
    """By which rule an input was chosen, and among how many."""
    fit = sum(candidate.alike and candidate.consistent for candidate in candidates)
    unlike = "" if chosen.consistent else ", though not both have its prediction"
    if not chosen.alike:
        unlike = ", since no two explanations look alike"
    return (
        f"{fit} of {counted(len(candidates), 'input')} have explanations that share at least {share(ALIKE)} of their "
        f"joint features and both have the input's prediction; shown is input {chosen.explained.index}, whose "
        f"explanations share {share(chosen.overlap)}, for the widest gap{unlike}."
    )


RADII = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 30, 40, 60, 80, 100)
ENOUGH = 0.9
"""The rate that is asked for when it is said how far the prediction mostly stays."""

TOLERANCE = 0.05
MOST_CALLS = 20_000


def run_soft_vs_hard(planned: PlannedRun) -> Results:
    """Certify one input softly at many radii, and bracket its hard radius."""
    [method], [subject] = planned.request.methods or ("lime",), planned.subjects
    explained, selected, rule = first_overturned(subject, method, planned.request.seed)
    radii = up_to(planned.request.radii or RADII, int((~selected).sum()))
    asked: dict[str, Any] = {"tolerance": TOLERANCE, "plan": "exact", "simultaneous": True}
    curve = certify_radii(explained.model, selected, radii=radii, rng=explained.rng("certify"), **asked)
    bracket = stability_bracket(explained.model, selected, max_calls=MOST_CALLS, rng=explained.rng("bracket"))
    last, below, name = curve.certificates[-1], bracket.below, explained.inputs.class_name
    figure, [panels] = make_panels(1, 3, size=(3.0, 2.7))
    explained.show(panels[0], f"Input {explained.index}: {name(explained.prediction)}")
    explained.show(panels[1], f"{method_label(method)}: {name(explained.predict(selected))}", selected)
    axes = plot_curves(curve, ax=panels[2])
    axes.axvspan(0, bracket.low, color=COLOURS["green"], alpha=0.25, lw=0, label=f"never changes up to {bracket.low}")
    if below is not None:
        axes.axvline(below, color=COLOURS["vermilion"], ls="--", lw=1.2, label=f"can change from {below}")
    axes.set_xlim(left=0)
    axes.legend(loc="lower right", frameon=False)
    note_below(figure, f"Band: guaranteed {percent(last.confidence)} intervals, for all radii at once.")
    rows = []
    for certificate in curve:
        stated = {"model": subject.name, "input": explained.index, "method": method, "radius": certificate.radius}
        rates = {"rate": certificate.rate, **certificate.interval._asdict()}
        counts = {key: getattr(certificate, key) for key in ("n_agreed", "n_evaluated", "exact")}
        rows.append({**stated, **rates, **counts, "hard_radius_low": bracket.low, "hard_radius_below": below})
    label = f"{subject.name}, input {explained.index}"
    contrasts = contrasts_beyond(subject.name, curve, below)
    claim = f"beyond the hard radius, the rate is at least {share(ENOUGH)}"
    cells = {
        "no addition changes the prediction": f"up to radius {bracket.low}",
        "some addition does": "none was found" if below is None else f"at radius {below}",
        f"the rate is certified to be at least {share(ENOUGH)}": f"up to radius {soft_radius(curve)}",
        f"the rate at radius {last.radius}": share(last.rate, last.interval),
    }
    return Results(
        {"curve": Table.of(rows), "differences": Table.of_contrasts(contrasts)},
        figure,
        [CountedClaim(claim, label, tuple(contrasts))] if contrasts else [],
        {label: cells},
        f"Higher is certified, for all radii at once at confidence {last.confidence:g}.",
        [f"Input {explained.index} is {rule}."],
    )


def first_overturned(subject: Subject, method: str, seed: int) -> tuple[Explained, Mask, str]:
    """The first input whose explanation is right and that some addition overturns, else the first; and that rule."""
    rule = "whose explanation is right on its own and for which a change was found"
    among = f"the first of {counted(len(subject.first_inputs()), 'input')}"
    for index in subject.first_inputs().numbers:
        explained = Explained(subject, index, seed)
        selected = explained.selected(method)
        if explained.is_right(selected):
            bracket = stability_bracket(explained.model, selected, max_calls=2000, rng=explained.rng("choose"))
            if bracket.below is not None:
                return explained, selected, f"{among} {rule}"
    first = Explained(subject, 0, seed)
    return first, first.selected(method), f"{among}, since there is none {rule}"


def contrasts_beyond(model: str, curve: StabilityCurve, below: int | None) -> list[Contrast]:
    """From the radius at which something changes the prediction on, how much the rate is above enough."""
    where = {"model": model, "first": "stability rate", "second": f"{ENOUGH:g}"}
    return [
        Contrast.certain(Quantity(certificate.rate, certificate.interval) - ENOUGH, radius=certificate.radius, **where)
        for certificate in curve
        if below is not None and certificate.radius >= below
    ]


def soft_radius(curve: StabilityCurve) -> int:
    """The largest radius up to which the rate is certified to be enough at every radius asked for."""
    enough = takewhile(lambda certificate: certificate.interval.low >= ENOUGH, curve)
    return max((certificate.radius for certificate in enough), default=0)
