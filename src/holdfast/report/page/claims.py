"""A summary of a study → what the page may claim: a headline, findings, a ranking of what is certified."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from holdfast.report.page.rows import InputRows
from holdfast.report.page.wording import counted, listed, method_label, percent, span
from holdfast.results.wording import event, lower_first
from holdfast.study.aggregate import GroupSummary, MeanAt, StudySummary

Plain = dict[str, Any]


def main_groups(summary: StudySummary) -> list[GroupSummary]:
    """The groups of the first fraction at the largest keep probability, by decreasing mean rate at the largest radius.

    All headlines are about them: a rule that was fixed before anything was computed.
    """
    keep = max(one.keep_probability for one in summary.groups)
    fraction = summary.groups[0].top_fraction
    found = [one for one in summary.groups if (one.top_fraction, one.keep_probability) == (fraction, keep)]
    return sorted(found, key=lambda one: -one.soft[-1].mean)


def headline(summary: StudySummary) -> str:
    """One sentence: the most and the least stable method at the largest radius, with intervals."""
    groups = main_groups(summary)
    best, worst = groups[0], groups[-1]
    doing = lower_first(event(summary.neighborhood, "uniform", best.soft[-1].radius))
    told = (
        f"{method_label(best.method)}: {doing} keeps the prediction in {_measured(best.soft[-1])} of cases on average"
    )
    if len(groups) > 1:
        told += f"; {method_label(worst.method)}: in {_measured(worst.soft[-1])}"
    return f"{told}."


def _measured(one: MeanAt) -> str:
    if one.guaranteed is not None:
        return f"{percent(one.mean)} (guaranteed {span(one.guaranteed)})"
    return percent(one.mean) + ("" if one.approximate is None else f" (approximately {span(one.approximate)})")


def findings(summary: StudySummary, rows: InputRows) -> list[str]:
    """Further sentences: the order of the methods, hard certificates, flips, explanations that are stably wrong."""
    return [*_order(summary), *_hard(summary), *_flips(rows), *_unlike(rows)]


def certified_pairs(summary: StudySummary) -> tuple[tuple[str, str], ...]:
    """The pairs (more stable, less stable) that are certified for the headline's groups and radius."""
    first = main_groups(summary)[0]
    if not summary.differences:
        return ()
    radius = first.soft[-1].radius
    return summary.ranking(radius, top_fraction=first.top_fraction, keep_probability=first.keep_probability)


def _order(summary: StudySummary) -> Iterator[str]:
    groups = main_groups(summary)
    if len(groups) < 2 or not summary.differences:
        return
    pairs = certified_pairs(summary)
    beaten: dict[str, list[str]] = {}
    for better, worse in pairs:
        beaten.setdefault(better, []).append(method_label(worse))
    claims = [f"{method_label(better)} is more stable than {listed(worse)}" for better, worse in beaten.items()]
    at = f"At radius {groups[0].soft[-1].radius}, with confidence {summary.confidence:g}"
    yield f"{at}: {'; '.join(claims)}." if claims else f"{at}, no method is shown to be more stable than another."


def _hard(summary: StudySummary) -> Iterator[str]:
    """Soft rates beside what votes prove, for the most stable method."""
    best = main_groups(summary)[0]
    if not best.mus:
        return
    votes = max(best.mus, key=lambda one: (sum(at.mean for at in one.rates), one.keep_probability))
    proven = [at for at in votes.rates if at.mean > 0]
    where = f"MuS (λ = {votes.keep_probability:g})"
    if not proven:
        yield f"{where} proves nothing for {method_label(best.method)} from radius {votes.rates[0].radius} on."
        return
    last = proven[-1]
    soft = next(at for at in best.soft if at.radius == last.radius)
    beyond = "" if last is votes.rates[-1] else ", and nothing beyond"
    yield (
        f"{where} proves {percent(last.mean)} of the inputs stable at radius {last.radius}{beyond}; "
        f"the mean rate of {method_label(best.method)} there is {percent(soft.mean)}."
    )


def _flips(rows: InputRows) -> Iterator[str]:
    sizes = flip_sizes(rows)
    if len(sizes) == 0:
        return
    found = sizes[np.isfinite(sizes)]
    if len(found) == 0:
        yield f"For none of {counted(len(sizes), 'explanation')} were additions found that change the prediction."
        return
    few = int(np.median(found))
    n_few = int((found <= few).sum())
    yield (
        f"{n_few:,} of {counted(len(sizes), 'explanation')} are flipped by revealing "
        f"{'one more feature' if few == 1 else f'at most {few} more features'}."
    )


def flip_sizes(rows: InputRows) -> Any:
    """Sizes of the smallest additions known to change a prediction; infinite where none was found."""
    searched = [one.flips[~np.isnan(one.flips)] for one in rows.groups if one.searched]
    return np.concatenate(searched) if searched else np.zeros(0)


def unlike_counts(rows: InputRows) -> tuple[int, int]:
    """How many explanations are predicted unlike their input, of how many."""
    known = np.concatenate([one.consistent[np.isfinite(one.consistent)] for one in rows.groups] or [np.zeros(0)])
    return int((known == 0).sum()), len(known)


def _unlike(rows: InputRows) -> Iterator[str]:
    n_odd, n_all = unlike_counts(rows)
    if n_odd:
        yield (
            f"{n_odd:,} of {counted(n_all, 'explanation')} alone are predicted unlike their input: stable or not, they "
            "mislead."
        )


# -- the ranking ------------------------------------------------------------------------------------


def rankings(summary: StudySummary) -> list[Plain]:
    """For each fraction and keep probability: the means at the largest radius, and the pairs that are certified."""
    cuts = dict.fromkeys((one.top_fraction, one.keep_probability) for one in summary.groups)
    return [_ranking(summary, *cut) for cut in sorted(cuts, key=lambda cut: (cut[0], -cut[1]))]


def _ranking(summary: StudySummary, fraction: float, keep: float) -> Plain:
    groups = [one for one in summary.groups if (one.top_fraction, one.keep_probability) == (fraction, keep)]
    radius = groups[0].soft[-1].radius
    order = sorted(groups, key=lambda one: -one.soft[-1].mean)
    claims = list(_claims(summary, fraction, keep, radius))
    return {
        "top_fraction": fraction,
        "keep_probability": keep,
        "radius": radius,
        "order": [{"method": one.method, "mean": one.soft[-1].mean, **_ends(one.soft[-1])} for one in order],
        "claims": claims,
        "note": _ranking_note(summary, groups, has_claims=bool(claims)),
    }


def _ends(one: MeanAt) -> Plain:
    low, high = one.guaranteed or one.approximate or (one.mean, one.mean)
    return {"low": low, "high": high}


def _claims(summary: StudySummary, fraction: float, keep: float, radius: int) -> Iterator[Plain]:
    for one in summary.differences:
        if (one.top_fraction, one.keep_probability) == (fraction, keep) and (sign := one[radius].better()):
            found = one if sign > 0 else one.reversed()
            low, high = found[radius].joint
            yield {"better": found.first, "worse": found.second, "low": low, "high": high}


def _ranking_note(summary: StudySummary, groups: list[GroupSummary], *, has_claims: bool) -> str:
    if len(groups) < 2:
        return "There is one method, so there is nothing to rank."
    if summary.precision == "data-set":
        return "Mean curves are estimated one by one: differences between methods are not certified here."
    where = "for the population that the inputs are an independent sample of, at this radius and setting"
    if has_claims:
        told = f"With confidence {summary.confidence:g} all of these hold at once, {where}."
    else:
        told = (
            f"At confidence {summary.confidence:g} no method is shown to be more stable than another, {where}: the "
            "inputs are too few, or the methods too alike."
        )
    return f"{told} The order of the bars is that of the means, and no claim."
