"""Several studies → the sentences at the top of the page: about methods, about hard certificates, about flips."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from holdfast.report.page.claims import (
    Told,
    accuracy_at,
    aside,
    certified_pairs,
    farthest_votes,
    flip_sizes,
    headline,
    main_groups,
    unlike_counts,
)
from holdfast.study.aggregate import GroupSummary, MusSummary
from holdfast.words import counted, listed, method_label, percent


def page_findings(studies: Sequence[Told]) -> list[str]:
    """What the page says first: the headline of one study, or what several have in common."""
    if len(studies) == 1:
        return [headline(studies[0].summary, studies[0].joint)]
    return [*_methods(studies), *_proofs(studies), *_flips(studies)]


def _methods(studies: Sequence[Told]) -> Iterator[str]:
    """How often each method leads, and where a method is certified to beat chance."""
    compared = [one.summary for one in studies if len(main_groups(one.summary)) > 1]
    if not compared:
        return
    leaders = Counter(main_groups(summary)[0].method for summary in compared)
    led = listed(f"{method_label(name)} in {count}" for name, count in leaders.most_common())
    with_random = [summary for summary in compared if any(one.method == "random" for one in main_groups(summary))]
    beaten = sum(any(worse == "random" for _, worse in certified_pairs(summary)) for summary in with_random)
    sure = (
        f" In {beaten} of {len(with_random)} some method is certified to be more stable than a random selection, "
        f"with confidence {with_random[0].confidence:g} in each study on its own."
        if with_random
        else ""
    )
    order = "the highest mean stability rate is that of"
    yield f"Of {len(compared)} studies, {order} {led}; the order of means is no claim.{sure}"


def _proofs(studies: Sequence[Told]) -> Iterator[str]:
    """Mean soft rates against the shares that votes prove, of each study's leading method at its largest radius."""
    voted = [(one, main_groups(one.summary)[0]) for one in studies if main_groups(one.summary)[0].mus]
    if not voted:
        return
    soft = [best.soft[-1].mean for _, best in voted]
    votes = [farthest_votes(best) for _, best in voted]
    radii = sorted({best.soft[-1].radius for _, best in voted})
    where = f"{radii[0]} to {radii[-1]}" if len(radii) > 1 else f"{radii[0]}"
    yield (
        f"At the largest radius ({where}, by study), explanations by these methods keep the prediction in "
        f"{_range(soft)} of cases on average. Proofs (MuS) exist only for smoothed models, here for "
        f"{_range([one.rates[0].mean for one in votes])} of the inputs at the smallest radius and for "
        f"{_range([one.rates[-1].mean for one in votes])} at the largest{_accuracies(voted, votes)}."
    )


def _accuracies(voted: Sequence[tuple[Told, GroupSummary]], votes: Sequence[MusSummary]) -> str:
    """What the proofs are worth: a model that always answers the same is provably stable."""
    pairs = zip(voted, votes, strict=True)
    known = [right for (told, _), one in pairs if (right := accuracy_at(told, one.keep_probability)) is not None]
    return f", and the accuracy of these smoothed models is {_range(known)}" if known else ""


def _range(shares: Sequence[float]) -> str:
    low, high = percent(min(shares)), percent(max(shares))
    return low if low == high else f"{low} to {high}"


def _flips(studies: Sequence[Told]) -> Iterator[str]:
    """How few features flip an explanation, and how many explanations are predicted unlike their input."""
    sizes = np.concatenate([flip_sizes(one.rows) for one in studies])
    n_odd, n_all = (sum(counts) for counts in zip(*(unlike_counts(one.rows) for one in studies), strict=True))
    wrong = (
        f"shown alone, {percent(n_odd / n_all)} of {counted(n_all, 'explanation')}{_aside(studies)} get another "
        "prediction than the full input"
    )
    if len(sizes) == 0:
        yield f"{wrong[0].upper()}{wrong[1:]}."
        return
    share = percent(float((sizes <= 2).mean()))
    searched = f"{counted(len(sizes), 'explanation')} that were searched for the smallest change"
    yield f"One or two more features flip {share} of {searched}; {wrong}."


def _aside(studies: Sequence[Told]) -> str:
    return next((words for one in studies if (words := aside(one.rows))), "")
