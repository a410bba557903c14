"""A summary of a study → what the page may claim: a headline, findings, a ranking of what is certified."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.bounds import Interval
from holdfast.report.page.rows import GroupColumns, InputRows
from holdfast.report.page.together import Joint
from holdfast.smoothing import SmoothedAccuracy
from holdfast.study.aggregate import GroupSummary, MeanAt, MusSummary, StudySummary
from holdfast.words import counted, event, listed, lower_first, method_label, percent, span

Plain = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Told:
    """What the sentences about a study rest on."""

    summary: StudySummary
    rows: InputRows
    joint: Joint
    accuracy: SmoothedAccuracy | None = None


def main_groups(summary: StudySummary) -> list[GroupSummary]:
    """The groups of the first fraction at the largest keep probability, by decreasing mean rate at the largest radius.

    All headlines are about them: a rule that was fixed before anything was computed.
    """
    keep = max(one.keep_probability for one in summary.groups)
    fraction = summary.groups[0].top_fraction
    found = [one for one in summary.groups if (one.top_fraction, one.keep_probability) == (fraction, keep)]
    return sorted(found, key=lambda one: -one.soft[-1].mean)


def headline(summary: StudySummary, joint: Joint) -> str:
    """The most and the least stable method at the largest radius, with intervals, and what these are about.

    Which methods are named depends on the results; the intervals of ``joint_means`` allow for that.
    """
    groups = main_groups(summary)
    best, worst = groups[0], groups[-1]
    doing = lower_first(event(summary.neighborhood, "uniform", best.soft[-1].radius))
    told = (
        f"With explanations by {method_label(best.method)}, {doing} at random keeps the prediction in "
        f"{_measured(best, joint)} of cases on average"
    )
    if len(groups) > 1:
        told += f"; with those by {method_label(worst.method)}, in {_measured(worst, joint)}"
    return f"{told}. {_about(groups, joint, population=summary.population)}"


def _measured(one: GroupSummary, joint: Joint) -> str:
    return f"{percent(one.soft[-1].mean)} ({span(joint.get(one.method, _interval(one.soft[-1])))})"


def _about(groups: list[GroupSummary], joint: Joint, *, population: bool) -> str:
    sure = "guaranteed" if groups[0].soft[-1].guaranteed is not None else "approximate"
    together = "" if len(groups) == 1 else f" for all {len(groups)} methods at once" if joint else ", each on its own"
    inputs = counted(groups[0].n_inputs, "input")
    about = f"the population that {inputs} are an independent sample of" if population else f"exactly these {inputs}"
    told = f"Intervals are {sure} with confidence {groups[0].confidence:g}{together}"
    return f"{told}: they are about the mean over {about}."


def _interval(one: MeanAt) -> Interval:
    """The interval of a mean on its own: the guaranteed one where there is one."""
    return one.guaranteed or one.approximate or Interval(one.mean, one.mean)


def findings(told: Told) -> list[str]:
    """Further sentences: the order of the methods, hard certificates, flips, explanations that are stably wrong."""
    return [*_order(told.summary), *_hard(told), *_flips(told.rows), *_unlike(told.rows)]


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
    if claims:
        yield f"{at} for all of these at once: {'; '.join(claims)}."
    else:
        yield f"{at}, no method is shown to be more stable than another."


def farthest_votes(group: GroupSummary) -> MusSummary:
    """The votes that prove most over all radii; the less smoothed where several do."""
    return max(group.mus, key=lambda one: (sum(at.mean for at in one.rates), one.keep_probability))


def accuracy_at(told: Told, keep_probability: float) -> float | None:
    """How accurate the smoothed model is, where that was measured: one that answers always the same is stable too."""
    found = told.accuracy
    if found is None or keep_probability not in found.keep_probabilities:
        return None
    return found.accuracies[found.keep_probabilities.index(keep_probability)]


def _smoothed(told: Told, keep_probability: float) -> str:
    right, found = accuracy_at(told, keep_probability), told.accuracy
    if right is None or found is None:
        return f"λ = {keep_probability:g}, accuracy not measured"
    return f"λ = {keep_probability:g}, accuracy {percent(right)} on {counted(found.n_inputs, 'input')}"


def _hard(told: Told) -> Iterator[str]:
    """Soft rates beside what votes prove, for the most stable method."""
    best = main_groups(told.summary)[0]
    if not best.mus:
        return
    votes = farthest_votes(best)
    proven = [at for at in votes.rates if at.mean > 0]
    name, where = method_label(best.method), f"the smoothed model (MuS, {_smoothed(told, votes.keep_probability)})"
    if not proven:
        yield f"For explanations by {name}, no prediction of {where} is proven stable at a radius of the study."
        return
    last = proven[-1]
    soft = next(at for at in best.soft if at.radius == last.radius)
    beyond = "" if last is votes.rates[-1] else ", and of none at a larger radius of the study"
    yield (
        f"For explanations by {name}, the prediction of {where} is proven stable at radius {last.radius} for "
        f"{percent(last.mean)} of the inputs{beyond}; the model itself, of which nothing is proven, keeps its "
        f"prediction there in {percent(soft.mean)} of cases on average."
    )


def _flips(rows: InputRows) -> Iterator[str]:
    sizes = flip_sizes(rows)
    if len(sizes) == 0:
        return
    found = sizes[np.isfinite(sizes)]
    if len(found) == 0:
        yield (
            f"For none of {counted(len(sizes), 'explanation')}{aside(rows)} were additions found that change the "
            "prediction."
        )
        return
    few = int(np.median(found))
    n_few = int((found <= few).sum())
    yield (
        f"{n_few:,} of {counted(len(sizes), 'explanation')}{aside(rows)} are flipped by revealing "
        f"{'one more feature' if few == 1 else f'at most {few} more features'}."
    )


def meant_groups(rows: InputRows) -> list[GroupColumns]:
    """The groups of the model itself (the largest keep probability), without random selections if there are others."""
    keep = max((one.key.keep_probability for one in rows.groups), default=1.0)
    own = [one for one in rows.groups if one.key.keep_probability == keep]
    return [one for one in own if one.key.method != "random"] or own


def flip_sizes(rows: InputRows) -> Any:
    """Sizes of the smallest additions known to change a prediction; infinite where none was found."""
    searched = [one.flips[~np.isnan(one.flips)] for one in meant_groups(rows) if one.searched]
    return np.concatenate(searched) if searched else np.zeros(0)


def aside(rows: InputRows) -> str:
    """Words for what is not counted."""
    methods = {one.key.method for one in rows.groups}
    return " (random selections aside)" if "random" in methods and len(methods) > 1 else ""


def unlike_counts(rows: InputRows) -> tuple[int, int]:
    """How many explanations are predicted unlike their input, of how many."""
    groups = meant_groups(rows)
    known = np.concatenate([one.consistent[np.isfinite(one.consistent)] for one in groups] or [np.zeros(0)])
    return int((known == 0).sum()), len(known)


def _unlike(rows: InputRows) -> Iterator[str]:
    n_odd, n_all = unlike_counts(rows)
    if n_odd:
        yield (
            f"Shown alone, {n_odd:,} of {counted(n_all, 'explanation')}{aside(rows)} get another prediction than the "
            "full input: however stable, they explain something else."
        )


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
    low, high = _interval(one)
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
    inputs = "the population that the inputs are an independent sample of" if summary.population else "these inputs"
    where = f"for {inputs}, at this radius and setting"
    if has_claims:
        told = f"With confidence {summary.confidence:g} all of these differences of mean rates hold at once, {where}."
    else:
        told = (
            f"At confidence {summary.confidence:g} no method is shown to be more stable than another, {where}: the "
            "inputs are too few, or the methods too alike."
        )
    return (
        f"{told} The order of the bars is that of the means, and no claim; the interval of each bar is guaranteed at "
        f"confidence {summary.confidence:g} on its own."
    )
