"""Files of results → one page, written whole or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from holdfast.atomic import check_spared, replacing
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.inputs.inputs import Inputs
from holdfast.report.page.findings import page_findings
from holdfast.report.page.html import as_bytes, render_page
from holdfast.report.page.sections import make_section
from holdfast.report.page.source import open_source
from holdfast.smoothing import SmoothedAccuracy
from holdfast.study.aggregate import summarize_study
from holdfast.study.spec import NO_TRUST, Trust
from holdfast.study.store import Store
from holdfast.terminal import as_progress
from holdfast.types import Progress
from holdfast.validation import check_flag, check_list, check_path, check_whole, shown

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
    inputs : mapping, optional
        The ``Inputs`` of studies, by their names, where they are loaded already.
    progress : bool or callable, optional
        True for a bar, or a function of (inputs done, inputs in all) of each gallery.

    Examples
    --------
    >>> write_report("no such file.db", "report.html")
    Traceback (most recent call last):
    ...
    holdfast.errors.StoreError: 'no such file.db' must be a file of results; there is none.
    """
    paths, target = _check_paths(results), check_path(output, "output")
    check_whole(n_gallery, "n_gallery")
    if title is not None and not isinstance(title, str):
        raise InvalidTypeError(argument="title", must="be a text", got=shown(title))
    if not (inputs is None or (isinstance(inputs, Mapping) and all(isinstance(i, Inputs) for i in inputs.values()))):
        raise InvalidTypeError(argument="inputs", must="map names of studies to their inputs", got=shown(inputs))
    if not (accuracy is None or isinstance(accuracy, Mapping)):
        raise InvalidTypeError(argument="accuracy", must="map names of studies to accuracies", got=shown(accuracy))
    check_flag(use_model, "use_model")
    check_spared(target, "output", {"the results": paths})
    payload = make_payload(
        paths,
        target=target,
        title=title,
        n_gallery=n_gallery,
        use_model=use_model,
        trust=trust,
        confidence=confidence,
        accuracy=accuracy or {},
        inputs=inputs,
        progress=progress,
    )
    with replacing(target) as unfinished:
        unfinished.write_bytes(as_bytes(render_page(payload)))
    return tuple(payload["findings"])


def _check_paths(results: Any) -> list[Path]:
    must = "be a file of results, or a list of them"
    paths = [results] if isinstance(results, (str, Path)) else check_list(results, "results", must)
    if not paths:
        raise InvalidValueError(argument="results", must="be at least one file of results", got="none")
    return [check_path(one, "results") for one in paths]


def make_payload(
    paths: Sequence[Path],
    *,
    target: Path | None = None,
    title: str | None,
    n_gallery: int,
    use_model: bool,
    trust: Trust = NO_TRUST,
    confidence: float,
    accuracy: Mapping[str, SmoothedAccuracy],
    inputs: Mapping[str, Inputs] | None = None,
    progress: Progress | bool | None,
) -> dict[str, Any]:
    """The data of a page: ``docs/report.md`` describes them. ``target`` is where it will be written."""
    tell, sections, told = as_progress(progress, what="inputs"), [], []
    with ExitStack() as opened:
        # Every file is opened before the first model is loaded.
        stores = [opened.enter_context(Store(path)) for path in paths]
        for store in stores:
            if target is not None:
                check_spared(target, "output", store.sources())
        for store in stores:
            source = open_source(store, use_model=use_model, trust=trust, inputs=(inputs or {}).get(store.spec["name"]))
            with store.snapshot():  # one state of the file, whatever a run adds meanwhile
                summary = summarize_study(store, confidence=confidence)
                found = accuracy.get(summary.name)
                section, rests_on = make_section(store, source, summary, n_gallery=n_gallery, accuracy=found, tell=tell)
            sections.append(section)
            told.append(rests_on)
    return {
        "schema": "holdfast.report",
        "schema_version": SCHEMA_VERSION,
        "title": title or (sections[0]["name"] if len(sections) == 1 else "Do these explanations hold fast?"),
        "findings": page_findings(told),
        "studies": sections,
    }
