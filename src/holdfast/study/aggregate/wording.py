"""A summary of a study → lines a person can read, which say what is guaranteed and what is not."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from holdfast.words import bracket, calls

if TYPE_CHECKING:
    from holdfast.study.aggregate.summary import GroupSummary, MeanAt, StudySummary

_MOST_RADII = 8
_POPULATION = "for the population that the inputs are independent draws from"
_THESE = "for the mean over exactly these inputs, the first of the data"


def in_words(summary: StudySummary) -> str:
    """The whole summary as text."""
    lines = [_head(summary)]
    for one in summary.groups:
        lines += _group_lines(one, population=summary.population)
    return "\n".join([*lines, *_rankings(summary), *_feet(summary)])


def _head(summary: StudySummary) -> str:
    missing = [f"{summary.n_skipped} inputs left out"] * (summary.n_skipped > 0)
    missing += [f"{summary.n_to_do} items not computed"] * (summary.n_to_do > 0)
    told = f" ({', '.join(missing)})" if missing else ""
    return f"{summary.name}: {summary.model} on {summary.n_inputs} inputs of {summary.data}{told}"


def _group_lines(one: GroupSummary, *, population: bool) -> Iterator[str]:
    cut = f"top {one.top_fraction:g}" + (f", keep {one.keep_probability:g}" if one.keep_probability != 1 else "")
    share = f"{one.n_consistent} consistent with the full input"
    yield f"{one.method}, {cut}: {one.n_inputs} inputs, {share}, {calls(one.n_calls + one.attribution_calls)}"
    shares = [("all draws agree", one.hard), *((f"votes {v.keep_probability:g}", v.rates) for v in one.mus)]
    columns = [_column("mean rate", one.soft)]
    # Of exactly these inputs the share is known; it has an interval only as an estimate of others.
    columns += [_column(title, means, approximate=False, guaranteed=population) for title, means in shares]
    shown = [["radius", *map(str, one.radii)], *filter(None, columns)]
    step = -(-len(one.soft) // _MOST_RADII)
    table = [list(row) for row in zip(*shown, strict=True)]
    widths = [max(map(len, column)) for column in shown]
    for row in [table[0], *table[:0:-step][::-1]]:
        yield "  " + "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()


def _column(title: str, means: tuple[MeanAt, ...], *, approximate: bool = True, guaranteed: bool = True) -> list[str]:
    """A title and a cell per radius; nothing if there are no means."""
    return [title, *(_cell(at, approximate, guaranteed) for at in means)] if means else []


def _cell(at: MeanAt, approximate: bool, guaranteed: bool) -> str:
    sure = "" if at.guaranteed is None or not guaranteed else f" {bracket(at.guaranteed)}"
    near = "" if at.approximate is None else f" ≈{bracket(at.approximate)}"
    return f"{at.mean:.3f}{sure}{near if approximate else ''}"


def _rankings(summary: StudySummary) -> Iterator[str]:
    """What is certified about which method is more stable, at the largest radius of each cut."""
    for (fraction, keep), pairs in groupby(
        summary.differences, key=lambda one: (one.top_fraction, one.keep_probability)
    ):
        radius = next(iter(pairs)).rows[-1].radius
        known = summary.ranking(radius, top_fraction=fraction, keep_probability=keep)
        claims = ", ".join(f"{better} > {worse}" for better, worse in known) or "cannot tell the methods apart"
        cut = f"top {fraction:g}" + (f", keep {keep:g}" if keep != 1 else "")
        yield f"Certified at radius {radius}, {cut}, confidence {summary.confidence:g} for all pairs at once: {claims}"


def _feet(summary: StudySummary) -> Iterator[str]:
    about = _POPULATION if summary.population else _THESE
    if summary.precision == "per-input":
        yield f"[ ] guaranteed at confidence {summary.confidence:g} each, {about};"
        yield f"≈[ ] approximate, by {summary.n_resamples} bootstrap resamples of the inputs."
    else:
        sure = ", ".join(sorted({f"{one.confidence:g}" for one in summary.groups})) or "none"
        yield f"[ ] guaranteed and ≈[ ] approximate at confidence {sure}, {about}."
    if summary.n_to_do:
        yield "Items are missing: guaranteed only if it depends on no result which ones, and how many."
