"""A summary of a study → lines a person can read, which say what is guaranteed and what is not."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from holdfast.bounds import Interval

if TYPE_CHECKING:
    from holdfast.study.aggregate.summary import GroupSummary, MeanAt, StudySummary

_MOST_RADII = 8
_POPULATION = "for the population that the inputs are independent draws from"


def in_words(summary: StudySummary) -> str:
    """The whole summary as text."""
    lines = [_head(summary)]
    for one in summary.groups:
        lines += _group_lines(one)
    return "\n".join([*lines, *_rankings(summary), *_feet(summary)])


def _head(summary: StudySummary) -> str:
    missing = [f"{summary.n_skipped} inputs left out"] * (summary.n_skipped > 0)
    missing += [f"{summary.n_to_do} items not computed"] * (summary.n_to_do > 0)
    told = f" ({', '.join(missing)})" if missing else ""
    return f"{summary.name}: {summary.model} on {summary.n_inputs} inputs of {summary.data}{told}"


def _group_lines(one: GroupSummary) -> Iterator[str]:
    cut = f"top {one.top_fraction:g}" + (f", keep {one.keep_probability:g}" if one.keep_probability != 1 else "")
    share = f"{one.n_consistent} consistent with the full input"
    yield f"{one.method}, {cut}: {one.n_inputs} inputs, {share}, {one.n_calls + one.attribution_calls} model calls"
    yield from _mean_lines("mean stability rate", one.soft)
    yield from _mean_lines("share with no change in any draw", one.hard)
    for votes in one.mus:
        yield from _mean_lines(f"share certified by votes, keep {votes.keep_probability:g}", votes.rates)


def _mean_lines(what: str, means: tuple[MeanAt, ...]) -> Iterator[str]:
    if means:
        yield f"  {what}"
    step = -(-len(means) // _MOST_RADII)
    for one in means[:: -max(1, step)][::-1]:
        yield f"    r = {one.radius:<4} {one.mean:.3f}{_told(one)}"


def _told(one: MeanAt) -> str:
    sure = "" if one.guaranteed is None else f"  guaranteed {_span(one.guaranteed)}"
    return sure + ("" if one.approximate is None else f"  approximate {_span(one.approximate)}")


def _span(interval: Interval) -> str:
    return f"[{interval.low:.3f}, {interval.high:.3f}]"


def _rankings(summary: StudySummary) -> Iterator[str]:
    """What is certified about which method is more stable, at the largest radius of each cut."""
    for (fraction, keep), pairs in groupby(
        summary.differences, key=lambda one: (one.top_fraction, one.keep_probability)
    ):
        radius = next(iter(pairs)).rows[-1].radius
        known = summary.ranking(radius, top_fraction=fraction, keep_probability=keep)
        claims = ", ".join(f"{better} > {worse}" for better, worse in known) or "cannot tell the methods apart"
        cut = f"top {fraction:g}" + (f", keep {keep:g}" if keep != 1 else "")
        yield f"Certified at radius {radius}, {cut}: {claims}"


def _feet(summary: StudySummary) -> Iterator[str]:
    if summary.precision == "per-input":
        yield f"Guaranteed: at confidence {summary.confidence:g} each, {_POPULATION}."
        yield f"Approximate: percentile bootstrap over inputs, {summary.n_resamples} resamples."
    else:
        sure = ", ".join(sorted({f"{one.confidence:g}" for one in summary.groups})) or "none"
        yield f"Intervals of mean curves at confidence {sure}, {_POPULATION}."
