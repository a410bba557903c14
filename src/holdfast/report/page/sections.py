"""A file of results → everything that the page shows of one study, as plain data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.report.page.cards import make_card
from holdfast.report.page.choice import HOW_CHOSEN, choose_inputs
from holdfast.report.page.claims import Told, findings, headline, main_groups, rankings
from holdfast.report.page.rows import MOST_INPUTS, InputRows, read_rows
from holdfast.report.page.source import Source
from holdfast.report.page.together import joint_means
from holdfast.smoothing import SmoothedAccuracy
from holdfast.study.aggregate import GroupSummary, MeanAt, StudySummary
from holdfast.study.status import StudyStatus, status_of
from holdfast.study.store import Store
from holdfast.words import counted, event, lower_first, method_label, outward, percent, span

Plain = dict[str, Any]
Tell = Callable[[int, int], None]


def make_section(
    store: Store,
    source: Source,
    summary: StudySummary,
    *,
    n_gallery: int,
    accuracy: SmoothedAccuracy | None = None,
    tell: Tell | None = None,
) -> tuple[Plain, Told]:
    """One study: its facts, curves, what is certified, its table and its gallery; and what its sentences rest on."""
    rows, status = read_rows(store), status_of(store)
    told = Told(summary, rows, joint_means(store, main_groups(summary)), accuracy)
    chosen = choose_inputs(rows, n_gallery)
    gallery = []
    for n_done, one in enumerate(chosen, start=1):
        gallery.append(make_card(store, source, rows, one))
        if tell is not None:
            tell(n_done, len(chosen))
    section = {
        **_question(store, source, summary),
        "headline": headline(summary, told.joint),
        "findings": findings(told),
        "facts": _facts(store, summary, status),
        "notes": _notes(status, population=summary.population),
        "groups": [_group(one, population=summary.population) for one in summary.groups],
        "curves_note": _curves_note(summary),
        "rankings": rankings(summary),
        "ranking_lead": "Methods are compared input by input, at the largest radius of the study. More stable does not "
        "mean more right: a stable explanation of a wrong prediction is stable too.",
        "accuracy": None if accuracy is None else _accuracy(accuracy, population=summary.population),
        "table": rows.plain(source),
        "table_lead": _table_lead(rows, status),
        "gallery": gallery,
        "gallery_lead": f"{counted(len(gallery), 'input')}. {HOW_CHOSEN}",
    }
    return section, told


def _question(store: Store, source: Source, summary: StudySummary) -> Plain:
    certify = source.spec.certify
    radius = max(certify.radii)
    change = lower_first(event(certify.neighborhood, "uniform", "r"))
    known = {one.method for one in summary.groups}
    methods = [one.name for one in source.spec.methods if one.name in known]
    return {
        "name": summary.name,
        "kind": None if source.data is None else source.data.kind,
        "neighborhood": certify.neighborhood,
        "precision": certify.precision,
        "radii": list(summary.groups[0].radii),
        "radius": radius,
        "methods": [{"name": name, "label": method_label(name)} for name in methods],
        "curves_lead": f"How often {change} at random keeps the prediction that the explanation alone gets, on "
        "average; r is the radius.",
        "spec": store.spec,
    }


def _facts(store: Store, summary: StudySummary, status: StudyStatus) -> list[tuple[str, str]]:
    spec = store.spec
    certify = spec["certify"]
    promise = f"rate ±{certify['tolerance']:g} at confidence {certify['confidence']:g} each, {certify['plan']} plan"
    means = f"means within ±{certify['half_width']:g} ({certify['bound']})"
    shares = ", ".join(f"{100 * share:g}%" for share in spec["top_fractions"])
    masking = next(store.query("SELECT content FROM attributions LIMIT 1"), None)
    return [
        ("model", summary.model),
        ("data", summary.data),
        ("inputs", _inputs(store, status.n_inputs)),
        ("explanations", f"{status.n_done:,}"),
        ("selected by each explanation", f"top {shares} of the features"),
        ("features", _masking(masking)),
        ("certificates", promise if summary.precision == "per-input" else means),
        ("model calls", f"{status.n_computed:,}"),
    ]


def _inputs(store: Store, n_inputs: int) -> str:
    """How many inputs, and how they were chosen where there are more in the data."""
    n_there, spec = store.n_there, store.spec
    if n_there == n_inputs:
        return f"{n_inputs:,}"
    chosen = f"at random (seed {spec['seed']})" if spec["data"]["order"] == "random" else "the first"
    return f"{n_inputs:,} of {n_there:,}, {chosen}"


def _masking(row: Any) -> str:
    from holdfast.attribution.task import Attribution
    from holdfast.study.results import unpack_text

    words = None if row is None else Attribution.from_json(unpack_text(row[0])).provenance.masking
    return words or "as the model has them"


def _notes(status: StudyStatus, *, population: bool) -> list[str]:
    """What is missing; nothing is left out in silence."""
    unbiased = "and intervals are guaranteed only if no result decides which are missing"
    facts = (
        (status.n_to_do - status.n_given_up, f"still to do: this page shows what is stored by now, {unbiased}"),
        (status.n_given_up, f"given up, of {counted(len(status.failures), 'input')}, {unbiased}"),
        (
            status.n_left_out,
            f"left out, of {counted(len(status.skips), 'input')}"
            + (": the population is that of the others" if population else ""),
        ),
    )
    return [f"{counted(count, 'explanation')} {what}." for count, what in facts if count > 0]


def _group(one: GroupSummary, *, population: bool) -> Plain:
    curves: list[tuple[str, float | None, tuple[MeanAt, ...]]] = [("soft", None, one.soft), ("hard", None, one.hard)]
    curves += [("mus", votes.keep_probability, votes.rates) for votes in one.mus]
    return {
        **one.key._asdict(),
        "n_inputs": one.n_inputs,
        "n_consistent": one.n_consistent,
        "n_calls": one.n_calls + one.attribution_calls,
        "seconds": round(one.seconds + one.attribution_seconds, 3),
        # Of exactly these inputs a share is known: only as an estimate of others it has an interval.
        "curves": [_curve(*one, bands=population or one[0] == "soft") for one in curves if one[2]],
    }


def _curve(kind: str, keep: float | None, means: tuple[MeanAt, ...], *, bands: bool) -> Plain:
    sure = [outward(one.guaranteed, 5) for one in means if one.guaranteed is not None and bands]
    rough = [outward(one.approximate, 5) for one in means if one.approximate is not None and bands]
    return {
        "kind": kind,
        "keep": keep,
        "mean": [round(one.mean, 5) for one in means],
        "low": [one.low for one in sure] or None,
        "high": [one.high for one in sure] or None,
        "bootstrap_low": [one.low for one in rough] or None,
        "bootstrap_high": [one.high for one in rough] or None,
    }


def _curves_note(summary: StudySummary) -> str:
    about = "about the population that the inputs are an independent sample of"
    if not summary.population:
        about = "about the mean over exactly these inputs, which are the first of the data"
    if summary.precision == "data-set":
        return f"Mean curves over the data set; their intervals are {about}."
    return (
        f"Bands are {about}, at confidence {summary.confidence:g} for each point on its own: a reader who picks the "
        "most striking one has no guarantee for it. Bootstrap bands are approximate, and too short where inputs are "
        "few or rates alike. Soft: the mean rate. Hard: the share of inputs for which no draw changed the prediction; "
        "it counts draws and proves nothing. MuS: the share of inputs for which the prediction of the smoothed model, "
        "a vote over masks that keep each feature with probability λ, is proven not to change. It proves nothing of "
        "the model itself, and a vote that always ends the same is stable as well, whatever its accuracy."
    )


def _table_lead(rows: InputRows, status: StudyStatus) -> str:
    is_cut = len(rows.inputs) == MOST_INPUTS < status.n_inputs
    cut = f" The first {MOST_INPUTS:,} of {status.n_inputs:,}." if is_cut else ""
    return (
        "Rates at one radius, by method: the estimated share of changes that keep the prediction, each within the "
        "tolerance of its certificate. ≠ marks explanations that, shown alone, get another prediction than the full "
        f"input.{_flipped_lead(rows)} Open an input to look closer.{cut}"
    )


def _flipped_lead(rows: InputRows) -> str:
    searched = any(one.searched for one in rows.groups)
    told = " “Flipped by” is the fewest added features found to change the prediction of one of its explanations."
    return told if searched else ""


def _accuracy(found: SmoothedAccuracy, *, population: bool) -> Plain:
    keeps, shares, sure = found.keep_probabilities, found.accuracies, found.intervals
    spans = [f" ({span(sure[i])})" if population else "" for i in (0, -1)]
    first, last = (f"{percent(shares[i])}{spans[i]} at λ = {keeps[i]:g}" for i in (0, -1))
    about = (
        f"; intervals at confidence {found.confidence:g} each, for the population that the inputs are an independent "
        "sample of"
    )
    return {
        "keep_probabilities": list(keeps),
        "accuracy": list(shares),
        "low": [one.low for one in sure] if population else None,
        "high": [one.high for one in sure] if population else None,
        "lead": (
            "The smoothed model takes a vote over random masks that keep each feature with probability λ; at λ = 1 it "
            f"is the model itself. Of {counted(found.n_inputs, 'input')}, {first} and {last} are predicted as labelled "
            f"({found.n_samples} masks vote{about if population else ''})."
        ),
    }
