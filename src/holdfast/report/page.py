"""Files of results → one HTML page that needs nothing else: the data as JSON, the drawing as plain scripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from holdfast.atomic import check_spared, replacing
from holdfast.attribution.methods import Attribution
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.inputs.inputs import Inputs
from holdfast.report.card import Plain
from holdfast.report.claims import (
    Evidence,
    findings,
    headline,
    headline_terms,
    joint_means,
    main_groups,
    page_findings,
    rankings,
)
from holdfast.report.gallery import HOW_CHOSEN, make_gallery
from holdfast.report.html import as_bytes, render_page
from holdfast.report.rows import MOST_INPUTS, InputRows, Source, open_source, read_rows
from holdfast.smoothing import SmoothedAccuracy
from holdfast.study.calibration import StudyCalibration, calibrate_study
from holdfast.study.records import unpack_text
from holdfast.study.spec import NO_TRUST, Trust
from holdfast.study.status import StudyStatus, reasons_in_words, status_of
from holdfast.study.store import Store
from holdfast.study.summary import GroupSummary, StudySummary, summarize_study
from holdfast.terminal import as_progress
from holdfast.types import Progress
from holdfast.validation import check_flag, check_list, check_path, check_whole, shown
from holdfast.words import counted, event, method_label, outward, percent, span

__all__ = ["write_report"]

SCHEMA_VERSION = 1


def write_report(
    results: str | Path | Sequence[str | Path],
    output: str | Path,
    *,
    title: str | None = None,
    n_gallery: int = 24,
    use_model: bool = True,
    trust: Trust = NO_TRUST,
    confidence: float = 0.95,
    accuracy: Mapping[str, SmoothedAccuracy] | None = None,
    calibrate: Mapping[str, float] | None = None,
    inputs: Mapping[str, Inputs] | None = None,
    progress: Progress | bool | None = None,
) -> tuple[str, ...]:
    """Write one HTML page about one or several studies; returns its leading sentences.

    The page is a single file that loads nothing: curves with intervals, what is certified about the order
    of the methods, a table of every input, and a closer look at a few that are chosen by a stated rule.
    It claims only what ``summarize_study`` certifies.

    Parameters
    ----------
    results : path, or list of paths
        Files of results; a run may be writing them, and then what is stored by now is shown.
    output : str or Path
        The page; it appears when it is complete.
    title : str, optional
        By default the name of the study.
    n_gallery : int
        Most inputs that are looked at closer, per study.
    use_model : bool
        Load the model and the data, to draw inputs as the model sees them, to name classes and to
        show sampled additions. Without, only what is stored is shown, and the inputs that can be read and are
        those that the results are about.
    trust : Trust
        What the models that the files name may do when they are loaded: nothing but being read, unless said here.
    confidence : float
        Of the intervals over inputs.
    accuracy : mapping, optional
        ``SmoothedAccuracy`` by the name of the study it belongs to.
    calibrate : mapping, optional
        ``min_rate``, and if wanted ``share`` and ``confidence``, as ``calibrate_study`` takes them: the page then says
        how many features each method needs.
    inputs : mapping, optional
        The ``Inputs`` of studies, by their names, where they are loaded already.
    progress : bool or callable, optional
        True for a bar, False for none, or a function of (inputs done, inputs in all) of each gallery.

    Examples
    --------
    >>> write_report("no such file.db", "report.html")
    Traceback (most recent call last):
    ...
    holdfast.errors.StoreError: 'no such file.db' does not exist; it must be a file of results.
    """
    must = "be a file of results, or a list of them"
    files = [results] if isinstance(results, (str, Path)) else check_list(results, "results", must)
    if not files:
        raise InvalidValueError(argument="results", must="be at least one file of results", got="none")
    paths, target = [check_path(file, "results") for file in files], check_path(output, "output")
    check_whole(n_gallery, "n_gallery")
    if title is not None and not isinstance(title, str):
        raise InvalidTypeError(argument="title", must="be a text", got=shown(title))
    if not (inputs is None or (isinstance(inputs, Mapping) and all(isinstance(i, Inputs) for i in inputs.values()))):
        raise InvalidTypeError(argument="inputs", must="map names of studies to their inputs", got=shown(inputs))
    if not (accuracy is None or isinstance(accuracy, Mapping)):
        raise InvalidTypeError(argument="accuracy", must="map names of studies to accuracies", got=shown(accuracy))
    names = {"min_rate", "share", "confidence"}
    if not (calibrate is None or (isinstance(calibrate, Mapping) and {"min_rate"} <= set(calibrate) <= names)):
        must = "map `min_rate`, and optionally `share` and `confidence`, to shares"
        raise InvalidTypeError(argument="calibrate", must=must, got=shown(calibrate))
    check_flag(use_model, "use_model")
    check_spared(target, "output", {"the results": paths})
    tell, sections, evidence = as_progress(progress, what="inputs"), [], []
    with ExitStack() as opened:
        # Every file is opened before the first model is loaded.
        stores = [opened.enter_context(Store(path)) for path in paths]
        for store in stores:
            check_spared(target, "output", store.sources())
        for store in stores:
            name = store.spec.name
            source = open_source(store, use_model=use_model, trust=trust, inputs=(inputs or {}).get(name))
            with store.snapshot():  # one state of the file, whatever a run adds meanwhile
                summary = summarize_study(store, confidence=confidence)
                rows, measured = read_rows(store), (accuracy or {}).get(name)
                evidence.append(Evidence(summary, rows, joint_means(store, main_groups(summary)), measured))
                gallery = make_gallery(store, source, rows, n_gallery, tell)
                sections.append(make_section(store, source, evidence[-1], gallery))
                sections[-1]["sizes"] = None if calibrate is None else _sizes(calibrate_study(store, **calibrate))
    payload: Plain = {
        "schema": "holdfast.report",
        "schema_version": SCHEMA_VERSION,
        "title": title or (sections[0]["name"] if len(sections) == 1 else "Do these explanations hold fast?"),
        "findings": page_findings(evidence),
        "studies": sections,
    }
    with replacing(target) as unfinished:
        unfinished.write_bytes(as_bytes(render_page(payload)))
    return tuple(payload["findings"])


def make_section(store: Store, source: Source, evidence: Evidence, gallery: list[Plain]) -> Plain:
    """What the page shows of one study, ``docs/report.md`` describes it: facts, curves, what is certified, a table."""
    summary, rows, certify, status = evidence.summary, evidence.rows, source.spec.certify, status_of(store)
    known = {group.method for group in summary.groups}
    methods = [method.name for method in source.spec.methods if method.name in known]
    return {
        "name": summary.name,
        "kind": None if source.data is None else source.data.kind,
        "neighborhood": certify.neighborhood,
        "precision": certify.precision,
        "radii": list(summary.groups[0].radii),
        "radius": max(certify.radii),
        "methods": [{"name": name, "label": method_label(name)} for name in methods],
        "spec": store.spec.plain(),
        "headline": headline(summary, evidence.joint),
        "headline_terms": headline_terms(summary, evidence.joint),
        "findings": findings(evidence),
        "facts": _facts(store, summary, status),
        "groups": [_group(group, population=summary.population) for group in summary.groups],
        "rankings": rankings(summary),
        "accuracy": _accuracy(evidence.accuracy, population=summary.population),
        "table": rows.plain(source),
        "gallery": gallery,
        **_words(summary, rows, status),
        "gallery_lead": f"{counted(len(gallery), 'input')}. {HOW_CHOSEN}",
    }


def _facts(store: Store, summary: StudySummary, status: StudyStatus) -> list[tuple[str, str]]:
    spec, certify = store.spec, store.spec.certify
    promise = f"rate ±{certify.tolerance:g} at confidence {certify.confidence:g} each, {certify.plan} plan"
    if summary.precision != "per-input":
        promise = f"means within ±{certify.half_width:g}"
    shares = f"top {', '.join(f'{100 * share:g}%' for share in spec.top_fractions)} of the features"
    if masks := [method.name for method in spec.methods if method.masks]:
        own = f"{', '.join(masks)}: as selected"
        shares = own if len(masks) == len(spec.methods) else f"{shares}; {own}"
    inputs = f"{status.n_inputs:,}"
    if store.n_there != status.n_inputs:
        chosen = f"at random (seed {spec.seed})" if spec.data.order == "random" else "the first"
        inputs = f"{inputs} of {store.n_there:,}, {chosen}"
    scores = next(store.query("SELECT content FROM attributions LIMIT 1"), None)
    masking = None if scores is None else Attribution.from_json(unpack_text(scores[0])).provenance.masking
    return [
        ("model", summary.model),
        ("data", summary.data),
        ("inputs", inputs),
        ("explanations", f"{status.n_done:,}"),
        ("selected by each explanation", shares),
        ("features", masking or "as the model has them"),
        ("counts as the same prediction", certify.agree),
        ("certificates", promise),
        ("model calls", f"{status.n_computed:,}"),
    ]


def _group(group: GroupSummary, *, population: bool) -> Plain:
    votes = [("mus", votes.keep_probability, votes.rates) for votes in group.mus]
    curves: list[Plain] = []
    for kind, keep, means in [("soft", None, group.soft), ("hard", None, group.hard), *votes]:
        # Of exactly these inputs a share is known: only as an estimate of others it has an interval.
        bands = population or kind == "soft"
        curve: Plain = {"kind": kind, "keep": keep, "mean": [round(mean.mean, 5) for mean in means]}
        for prefix, name in (("", "guaranteed"), ("bootstrap_", "approximate")):
            intervals = [outward(band, 5) for mean in means if bands and (band := getattr(mean, name)) is not None]
            curve[f"{prefix}low"] = [interval.low for interval in intervals] or None
            curve[f"{prefix}high"] = [interval.high for interval in intervals] or None
        curves.append(curve)
    n_calls, seconds = group.n_calls + group.attribution_calls, round(group.seconds + group.attribution_seconds, 3)
    counts = {"n_inputs": group.n_inputs, "n_consistent": group.n_consistent, "n_calls": n_calls, "seconds": seconds}
    return {**group.key._asdict(), **counts, "curves": [curve for curve in curves if curve["mean"]]}


def _sizes(calibration: StudyCalibration) -> Plain:
    """What each method needs at each radius, as a table."""
    rows, enough = calibration.table(), "a method with a larger size may need fewer: the inputs were too few to tell"
    return {
        "lead": calibration.claim(),
        "explanation": f"{calibration.explain()} Sizes were tested from the most features to the fewest; {enough}.",
        "radii": list(dict.fromkeys(size.radius for size in calibration)),
        "rows": [{"name": method_label(name), "cells": list(cells.values())} for name, cells in rows.items()],
    }


def _words(summary: StudySummary, rows: InputRows, status: StudyStatus) -> Plain:
    """What the parts of the page are about, and what is missing: nothing is left out in silence."""
    unbiased = "and intervals are guaranteed only if what is missing does not depend on the results"
    others = ": the population is that of the others" if summary.population else ""
    missing = (
        (status.n_to_do - status.n_given_up, f"not computed yet: this page shows what is stored so far, {unbiased}"),
        (status.n_given_up, f"given up, of {counted(len(status.failures), 'input')}, {unbiased}"),
        (status.n_left_out, f"left out, of {counted(len(status.skips), 'input')}{others}"),
    )
    about = "about the population that the inputs are an independent sample of"
    if not summary.population:
        about = "about the mean over exactly these inputs, which are the first of the data"
    bands = (
        f"Bands are {about}, at confidence {summary.confidence:g} for each point on its own; a point picked for its "
        "value has no guarantee. Bootstrap bands are approximate, and too narrow where inputs are few or rates alike. "
        "Soft: the mean rate. Hard: the share of inputs for which no draw changed the prediction; that proves nothing. "
        "MuS: the share of inputs for which the prediction of the smoothed model, a vote over masks that keep each "
        "feature with probability λ, is proven not to change. That proves nothing about the model itself, and a vote "
        "that always ends the same is stable whatever its accuracy."
    )
    if summary.precision == "data-set":
        bands = f"Mean curves over the data set; their intervals are {about}."
    flipped = " “Flipped by” is the fewest added features found to change the prediction of one of its explanations."
    cut = f" The first {MOST_INPUTS:,} of {status.n_inputs:,}."
    return {
        "notes": [f"{counted(count, 'explanation')} {what}." for count, what in missing if count > 0]
        + [f"Given up: {words}." for words in reasons_in_words(status.failures)],
        "curves_lead": f"How often {event(summary.neighborhood, 'uniform', 'r')} at random keeps the "
        "prediction of the explanation alone, on average; r is the radius.",
        "curves_note": bands,
        "ranking_lead": "Methods are compared input by input, at the largest radius of the study. More stable does not "
        "mean more right: a stable explanation of a wrong prediction is stable too.",
        "table_lead": "Rates at one radius, by method: the estimated share of changes that keep the prediction, each "
        "within the tolerance of its certificate with its confidence. ≠ marks explanations that alone get "
        f"another prediction than the full input.{flipped if any(group.searched for group in rows.groups) else ''} "
        "Open an input to look "
        f"closer.{cut if len(rows.inputs) == MOST_INPUTS < status.n_inputs else ''}",
    }


def _accuracy(measured: SmoothedAccuracy | None, *, population: bool) -> Plain | None:
    if measured is None:
        return None
    keeps, shares, intervals = measured.keep_probabilities, measured.accuracies, measured.intervals
    spans = [f" ({span(intervals[i])})" if population else "" for i in (0, -1)]
    first, last = (f"{percent(shares[i])}{spans[i]} at λ = {keeps[i]:g}" for i in (0, -1))
    about = ""
    if population:
        about = (
            f". Intervals hold at confidence {measured.confidence:g} each, for the population that the inputs are an "
        )
        about += "independent sample of"
    return {
        "keep_probabilities": list(keeps),
        "accuracy": list(shares),
        "low": [interval.low for interval in intervals] if population else None,
        "high": [interval.high for interval in intervals] if population else None,
        "lead": "The smoothed model takes a vote over random masks that keep each feature with probability λ; at λ = 1 "
        f"it is the model itself. Of {counted(measured.n_inputs, 'input')}, {first} and {last} are predicted as "
        f"labelled. {measured.n_samples} masks vote{about}.",
    }
