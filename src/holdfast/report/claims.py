"""Summaries of studies → what the page may claim: headlines, findings, a ranking of what is certified."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.bounds import Interval, betting_mean
from holdfast.report.card import Plain
from holdfast.report.rows import Floats, GroupColumns, InputRows
from holdfast.smoothing import SmoothedAccuracy
from holdfast.study.store import Store
from holdfast.study.summary import GroupSummary, MusSummary, StudySummary, read_columns
from holdfast.validation import check_share
from holdfast.words import (
    INCOMPLETE,
    NOT_RIGHT,
    counted,
    event,
    fitted,
    listed,
    method_label,
    paragraph,
    percent,
    shares,
    sure,
)

Joint = dict[str, Interval]


@dataclass(frozen=True, eq=False)
class Evidence:
    """What the sentences about a study rest on."""

    summary: StudySummary
    rows: InputRows
    joint: Joint
    accuracy: SmoothedAccuracy | None = None

    def accuracy_at(self, keep_probability: float) -> float | None:
        """How accurate the smoothed model is, where it was measured: one that answers always the same is stable too."""
        if self.accuracy is None:
            return None
        return dict(zip(self.accuracy.keep_probabilities, self.accuracy.accuracies, strict=True)).get(keep_probability)


def main_groups(summary: StudySummary) -> list[GroupSummary]:
    """The groups of the first fraction at the largest keep probability, by decreasing mean rate at the largest radius.

    All headlines are about them: a rule that was fixed before anything was computed.
    """
    keep = max(group.keep_probability for group in summary.groups)
    return _cut(summary, summary.groups[0].top_fraction, keep)


def _cut(summary: StudySummary, fraction: float, keep: float) -> list[GroupSummary]:
    groups = [group for group in summary.groups if (group.top_fraction, group.keep_probability) == (fraction, keep)]
    return sorted(groups, key=lambda group: -group.soft[-1].mean)


def joint_means(store: Store, groups: Sequence[GroupSummary]) -> Joint:
    """For each method an interval of its mean rate at the largest radius; all of them hold at once.

    A headline names the methods that lead and trail, so that which interval is read depends on the results.
    Each is therefore made at a risk divided by the number of methods: whichever are picked, all
    contain their means over the population with the probability of the summary's ``confidence``.
    None are made for mean curves, which have intervals of their own.
    """
    if store.spec.certify.of_means:
        return {}
    confidence = 1 - (1 - check_share(groups[0].confidence, "confidence")) / len(groups)
    last_rates = {group.method: read_columns(store, group.key).rates[:, -1] for group in groups}
    return {method: betting_mean(rates, confidence=confidence)[0] for method, rates in last_rates.items()}


def certified_pairs(summary: StudySummary) -> tuple[tuple[str, str], ...]:
    """The pairs (more stable, less stable) that are certified for the headline's groups and radius."""
    first = main_groups(summary)[0]
    keep, fraction = first.keep_probability, first.top_fraction
    return summary.ranking(first.soft[-1].radius, top_fraction=fraction, keep_probability=keep)


def farthest_votes(group: GroupSummary) -> MusSummary:
    """The votes that prove most over all radii; the less smoothed where several do."""
    return max(group.mus, key=lambda votes: (sum(at.mean for at in votes.rates), votes.keep_probability))


def meant_groups(rows: InputRows) -> list[GroupColumns]:
    """The groups of the model itself, without random selections if there are others."""
    groups = rows.least_smoothed
    return [group for group in groups if group.key.method != "random"] or groups


def flip_sizes(rows: InputRows) -> Floats:
    """Sizes of the smallest additions known to change a prediction; infinite where none was found."""
    searched = [group.flips[~np.isnan(group.flips)] for group in meant_groups(rows) if group.searched]
    return np.concatenate([np.zeros(0), *searched])


def unlike_counts(rows: InputRows) -> tuple[int, int]:
    """How many explanations are predicted unlike their input, of how many."""
    flags = np.concatenate([np.zeros(0), *(group.consistent for group in meant_groups(rows))])
    return int((flags == 0).sum()), int(np.isfinite(flags).sum())


def aside(rows: InputRows) -> str:
    """Words for what is not counted."""
    methods = {group.key.method for group in rows.groups}
    return " (random selections aside)" if "random" in methods and len(methods) > 1 else ""


def headline(summary: StudySummary, joint: Joint) -> str:
    """The most and the least stable method at the largest radius, with intervals, and what these are about.

    Which methods are named depends on the results; the intervals of ``joint_means`` allow for that.
    """
    groups = main_groups(summary)
    best, worst = groups[0], groups[-1]
    most, least = (
        f"{percent(group.soft[-1].mean)} ({shares(joint.get(group.method, group.soft[-1].guaranteed))})"
        for group in (best, worst)
    )
    change = event(summary.neighborhood, "uniform", best.soft[-1].radius)
    rivals = "" if len(groups) == 1 else f", with {method_label(worst.method)} in {least}"
    return fitted(
        "With {method}, {change} keeps the prediction in {most} of cases on average{rivals}{known}.",
        method=[method_label(best.method)],
        most=[most],
        rivals=[rivals],
        change=[change],
        known=[f" ({sure(best.confidence)} confidence)", ""],
    )


def headline_terms(summary: StudySummary, joint: Joint) -> str:
    """What the intervals of the headline are, and what they are about."""
    groups = main_groups(summary)
    together = "" if len(groups) == 1 else f" for all {len(groups)} methods at once" if joint else ", each on its own"
    inputs = counted(groups[0].n_inputs, "input")
    population = f"the population that {inputs} are an independent sample of"
    about = population if summary.population else f"exactly these {inputs}"
    return paragraph(
        f"Intervals are guaranteed with {sure(groups[0].confidence)} confidence{together}.",
        f"They are about the mean over {about}.",
        "A mean says nothing about single inputs.",
        INCOMPLETE if summary.n_to_do else "",
        NOT_RIGHT,
    )


def findings(evidence: Evidence) -> list[str]:
    """Further sentences: the order of the methods, hard certificates, flips, explanations that are stably wrong."""
    summary, rows, sentences = evidence.summary, evidence.rows, []
    groups = main_groups(summary)
    if len(groups) > 1 and summary.differences:
        beaten: dict[str, list[str]] = {}
        for better, worse in certified_pairs(summary):
            beaten.setdefault(better, []).append(method_label(worse))
        claims = [f"{method_label(better)} is more stable than {listed(worse)}" for better, worse in beaten.items()]
        order = f" for all of these at once: {'; '.join(claims)}."
        at = f"At radius {groups[0].soft[-1].radius}, with confidence {summary.confidence:g}"
        sentences.append(at + (order if claims else ", no method is shown to be more stable than another."))
    if groups[0].mus:
        sentences.append(_proof(evidence, groups[0]))
    sizes, left_out = flip_sizes(rows), aside(rows)
    explanations, known = f"{counted(len(sizes), 'explanation')}{left_out}", sizes[np.isfinite(sizes)]
    if len(known):
        few = int(np.median(known))
        more = "one more feature" if few == 1 else f"at most {few} more features"
        sentences.append(f"{int((known <= few).sum()):,} of {explanations} are flipped by revealing {more}.")
    elif len(sizes):
        sentences.append(f"For none of {explanations} were additions found that change the prediction.")
    n_unlike, n_all = unlike_counts(rows)
    if n_unlike:
        share = f"{n_unlike:,} of {counted(n_all, 'explanation')}{left_out}"
        unlike = f"Shown alone, {share} get another prediction than the full input"
        sentences.append(f"{unlike}: however stable, they explain another prediction.")
    return sentences


def _proof(evidence: Evidence, best: GroupSummary) -> str:
    """Soft rates beside what votes prove, for the most stable method."""
    votes = farthest_votes(best)
    right, measured, accuracy = evidence.accuracy_at(votes.keep_probability), evidence.accuracy, "not measured"
    if right is not None and measured is not None:
        accuracy = f"{percent(right)} on {counted(measured.n_inputs, 'input')}"
    by = f"For explanations by {method_label(best.method)}"
    model = f"λ = {votes.keep_probability:g}, accuracy {accuracy}"
    last = next((at for at in reversed(votes.rates) if at.mean > 0), None)
    if last is None:
        return f"{by}, no prediction of the smoothed model (MuS, {model}) is proven stable at a radius of the study."
    soft = next(at for at in best.soft if at.radius == last.radius)
    beyond = "" if last is votes.rates[-1] else ", and for none at a larger radius of the study"
    return (
        f"{by}, the smoothed model (MuS, {model}) is proven stable at radius {last.radius} for {percent(last.mean)} of "
        f"inputs{beyond}. Nothing is proven about the model itself, which is stable there in "
        f"{percent(soft.mean)} of cases on average."
    )


def page_findings(studies: Sequence[Evidence]) -> list[str]:
    """What the page says first: the headline of one study, or what several have in common."""
    if len(studies) == 1:
        return [headline(studies[0].summary, studies[0].joint)]
    sizes = np.concatenate([flip_sizes(study.rows) for study in studies])
    n_unlike, n_all = (sum(counts) for counts in zip(*(unlike_counts(study.rows) for study in studies), strict=True))
    left_out = next((words for study in studies if (words := aside(study.rows))), "")
    share = f"{percent(n_unlike / n_all)} of {counted(n_all, 'explanation')}{left_out}"
    unlike = f"Shown alone, {share} get another prediction than the full input."
    if len(sizes):
        searched = f"{counted(len(sizes), 'explanation')} that were searched for the smallest change"
        share = percent(float((sizes <= 2).mean()))
        unlike = f"One or two more features flip {share} of {searched}. {unlike}"
    return [*_leaders([study.summary for study in studies]), *_proofs(studies), unlike]


def _leaders(summaries: Sequence[StudySummary]) -> Iterator[str]:
    """How often each method leads, and where a method is certified to beat chance."""
    compared = [summary for summary in summaries if len(main_groups(summary)) > 1]
    if not compared:
        return
    leaders = Counter(main_groups(summary)[0].method for summary in compared)
    (first, most), *others = leaders.most_common()
    order = f"{method_label(first)} has the highest mean stability rate in {most} of {len(compared)} studies"
    led = listed([order, *(f"{method_label(name)} in {count}" for name, count in others)])
    sure = ""
    with_random = [summary for summary in compared if "random" in {group.method for group in main_groups(summary)}]
    if with_random:
        beaten = sum(any(worse == "random" for _, worse in certified_pairs(summary)) for summary in with_random)
        better = f"In {beaten} of {len(with_random)}, a method is certified to be more stable than a random selection"
        sure = f" {better} (confidence {with_random[0].confidence:g}, each study on its own)."
    yield f"{led}; this order is not certified.{sure}"


def _proofs(studies: Sequence[Evidence]) -> Iterator[str]:
    """Mean soft rates against the shares that votes prove, of each study's leading method at its largest radius.

    The accuracy says what the proofs are worth: a model that always answers the same is provably stable.
    """
    voted = [(study, best) for study in studies if (best := main_groups(study.summary)[0]).mus]
    if not voted:
        return
    votes = [farthest_votes(best) for _, best in voted]
    radii = {best.soft[-1].radius for _, best in voted}
    where = f"{min(radii)} to {max(radii)}" if len(radii) > 1 else f"{min(radii)}"
    measured = [study.accuracy_at(vote.keep_probability) for (study, _), vote in zip(voted, votes, strict=True)]
    shares = [share for share in measured if share is not None]
    accuracy = f" The accuracy of these smoothed models is {_range(shares)}." if shares else ""
    yield (
        f"At the largest radius ({where}, by study), explanations by these methods keep the prediction in "
        f"{_range([best.soft[-1].mean for _, best in voted])} of cases on average. Hard proofs exist only for "
        f"smoothed models: for {_range([vote.rates[0].mean for vote in votes])} of the inputs at the smallest "
        f"radius and for {_range([vote.rates[-1].mean for vote in votes])} at the largest.{accuracy}"
    )


def _range(shares: Sequence[float]) -> str:
    low, high = percent(min(shares)), percent(max(shares))
    return low if low == high else f"{low} to {high}"


def rankings(summary: StudySummary) -> list[Plain]:
    """For each fraction and keep probability: the means at the largest radius, and the pairs that are certified."""
    cuts = {(group.top_fraction, group.keep_probability) for group in summary.groups}
    ranked = []
    for fraction, keep in sorted(cuts, key=lambda cut: (cut[0], -cut[1])):
        cut: Plain = {"top_fraction": fraction, "keep_probability": keep}
        groups, claims = _cut(summary, fraction, keep), []
        radius = groups[0].soft[-1].radius
        for better, worse in summary.ranking(radius, **cut):
            interval = summary.difference(better, worse, **cut)[radius].joint
            claims.append({"better": better, "worse": worse, **interval._asdict()})
        means = [(group.method, group.soft[-1]) for group in groups]
        order = [{"method": method, "mean": mean.mean, **mean.guaranteed._asdict()} for method, mean in means]
        note = _ranking_note(summary, len(groups), has_claims=bool(claims))
        ranked.append({**cut, "radius": radius, "order": order, "claims": claims, "note": note})
    return ranked


def _ranking_note(summary: StudySummary, n_methods: int, *, has_claims: bool) -> str:
    if n_methods < 2:
        return "There is one method, so there is nothing to rank."
    if summary.precision == "data-set":
        return "Mean curves are estimated one by one: differences between methods are not certified here."
    inputs = "the population that the inputs are an independent sample of" if summary.population else "these inputs"
    where, confidence = f"for {inputs}, at this radius and setting", f"confidence {summary.confidence:g}"
    sure = f"With {confidence} all of these differences of mean rates hold at once, {where}."
    if not has_claims:
        unclear = "the inputs are too few, or the methods too alike"
        sure = f"At {confidence} no method is shown to be more stable than another, {where}: {unclear}."
    bars = "The order of the bars is that of the means, not a claim"
    return f"{sure} {bars}; the interval of each bar is guaranteed at {confidence} on its own."
