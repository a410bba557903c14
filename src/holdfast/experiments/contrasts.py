"""Summaries of studies → contrasts between methods, radius by radius."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import combinations
from typing import Any

from holdfast.bounds import Interval
from holdfast.experiments.experiment import Table
from holdfast.experiments.studies import HALF_WIDTH, Studied
from holdfast.experiments.tables import contrast_row, contrast_table
from holdfast.experiments.words import TOLD, Contrast, told_of_means
from holdfast.report.figures.curves import band_of
from holdfast.study.aggregate import DifferenceAt, GroupSummary, MeanAt, StudySummary

ByRadius = dict[int, Contrast]


def method_contrasts(
    summary: StudySummary, first: str, second: str, *, top_fraction: float, keep_probability: float = 1.0
) -> ByRadius:
    """How much more stable the first method's explanations are, by radius.

    Input by input where there are certificates of inputs; from the two means' own intervals where
    there are only mean curves.
    """
    cut = {"top_fraction": top_fraction, "keep_probability": keep_probability}
    if summary.differences:
        found = summary.difference(first, second, **cut)
        return {one.radius: of_pair(one, found.n_inputs) for one in found}
    a, b = summary.group(first, **cut), summary.group(second, **cut)
    return {one.radius: of_means(one, other, a.n_inputs) for one, other in zip(a.soft, b.soft, strict=True)}


def chosen_contrast(summary: StudySummary, first: str, second: str, *, top_fraction: float, radius: int) -> Contrast:
    """The same at one radius for two methods that were chosen by their rates.

    What is guaranteed there is so for all pairs of methods at once; nothing is where there are only mean curves.
    """
    if not summary.differences:
        plain = method_contrasts(summary, first, second, top_fraction=top_fraction)[radius]
        return replace(plain, guaranteed=None)
    found = summary.difference(first, second, top_fraction=top_fraction, keep_probability=1.0)
    return replace(of_pair(found[radius], found.n_inputs), guaranteed=found[radius].joint)


def of_pair(one: DifferenceAt, n_inputs: int) -> Contrast:
    """A paired difference over a number of inputs as a contrast."""
    return Contrast(one.mean, one.approximate, one.guaranteed, n_inputs)


def of_means(first: MeanAt, second: MeanAt, n_inputs: int) -> Contrast:
    """Two means with intervals of their own: their difference lies between the farthest ends."""
    a, b = band_of(first, n_inputs), band_of(second, n_inputs)
    span = Interval(a.low - b.high, a.high - b.low)
    sure = span if first.approximate is None and second.approximate is None else None
    return Contrast(first.mean - second.mean, span, sure)


def note_on(studied: Iterable[Studied]) -> str:
    """What brackets and directions mean, for certificates of inputs or for mean curves."""
    means = [one.summary for one in studied if not one.per_input]
    return told_of_means(HALF_WIDTH, means[0].groups[0].confidence) if means else TOLD


def methods_of(groups: Iterable[GroupSummary]) -> list[str]:
    """The methods, in the order of the study."""
    return list(dict.fromkeys(group.method for group in groups))


def method_table(studied: Iterable[Studied]) -> Table:
    """Every pair of methods at every fraction, keep probability and radius."""
    return contrast_table(row for one in studied for row in _method_rows(one))


def _method_rows(studied: Studied) -> Iterator[dict[str, Any]]:
    summary = studied.summary
    cuts = dict.fromkeys((group.top_fraction, group.keep_probability) for group in summary.groups)
    for fraction, keep in cuts:
        for first, second in combinations(methods_of(summary.groups), 2):
            found = method_contrasts(summary, first, second, top_fraction=fraction, keep_probability=keep)
            n_inputs = summary.group(first, top_fraction=fraction, keep_probability=keep).n_inputs
            cut = {"top_fraction": fraction, "keep_probability": keep}
            named = {"model": studied.subject.name, "first": first, "second": second, "n_inputs": n_inputs}
            joint = _joint(summary, first, second, **cut)
            for radius, contrast in found.items():
                yield contrast_row(contrast, **named, **cut, radius=radius, joint=joint.get(radius))


def _joint(summary: StudySummary, first: str, second: str, **cut: float) -> dict[int, Interval]:
    """Intervals that hold for all pairs of methods at once, by radius; none where there are only mean curves."""
    return {one.radius: one.joint for one in summary.difference(first, second, **cut)} if summary.differences else {}
