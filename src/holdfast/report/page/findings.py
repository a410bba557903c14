"""Several studies → the sentences at the top of the page: about methods, about hard certificates, about flips."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from holdfast.report.page.claims import certified_pairs, flip_sizes, headline, main_groups, unlike_counts
from holdfast.report.page.rows import InputRows
from holdfast.report.page.wording import counted, listed, method_label, percent
from holdfast.study.aggregate import GroupSummary, StudySummary

Told = tuple[StudySummary, InputRows]


def page_findings(studies: Sequence[Told]) -> list[str]:
    """What the page says first: the headline of one study, or what several have in common."""
    if len(studies) == 1:
        return [headline(studies[0][0])]
    return [*_methods(studies), *_proofs(studies), *_flips(studies)]


def _methods(studies: Sequence[Told]) -> Iterator[str]:
    """How often each method leads, and where a method is certified to beat chance."""
    compared = [summary for summary, _ in studies if len(main_groups(summary)) > 1]
    if not compared:
        return
    leaders = Counter(main_groups(summary)[0].method for summary in compared)
    led = listed(f"{method_label(name)} in {count}" for name, count in leaders.most_common())
    with_random = [summary for summary in compared if any(one.method == "random" for one in main_groups(summary))]
    beaten = sum(any(worse == "random" for _, worse in certified_pairs(summary)) for summary in with_random)
    sure = (
        f"; in {beaten} of {len(with_random)} some method is certified to be more stable than a random selection"
        if with_random
        else ""
    )
    yield f"Of {len(compared)} studies, the most stable explanations on average are those of {led}{sure}."


def _proofs(studies: Sequence[Told]) -> Iterator[str]:
    """Mean soft rates against the shares that votes prove, of each study's leading method at its largest radius."""
    leaders = [main_groups(summary)[0] for summary, _ in studies]
    leaders = [one for one in leaders if one.mus]
    if not leaders:
        return
    soft, proven, near = ([pick(one) for one in leaders] for pick in (_last_soft, _last_proven, _first_proven))
    radii = sorted({one.soft[-1].radius for one in leaders})
    where = f"{radii[0]} to {radii[-1]}" if len(radii) > 1 else f"{radii[0]}"
    yield (
        f"At the largest radius ({where}), these explanations keep the prediction in {_range(soft)} of cases on "
        f"average, by study; votes of the smoothed model (MuS) prove stability there for {_range(proven)} of the "
        f"inputs, and for {_range(near)} at the smallest radius."
    )


def _last_soft(one: GroupSummary) -> float:
    return one.soft[-1].mean


def _last_proven(one: GroupSummary) -> float:
    return max(votes.rates[-1].mean for votes in one.mus)


def _first_proven(one: GroupSummary) -> float:
    return max(votes.rates[0].mean for votes in one.mus)


def _range(shares: Sequence[float]) -> str:
    low, high = percent(min(shares)), percent(max(shares))
    return low if low == high else f"{low} to {high}"


def _flips(studies: Sequence[Told]) -> Iterator[str]:
    """How few features flip an explanation, and how many explanations are predicted unlike their input."""
    sizes = np.concatenate([flip_sizes(rows) for _, rows in studies])
    n_odd, n_all = (sum(counts) for counts in zip(*(unlike_counts(rows) for _, rows in studies), strict=True))
    wrong = f"{percent(n_odd / n_all)} of {counted(n_all, 'explanation')} alone are predicted unlike their input"
    if len(sizes) == 0:
        yield f"{wrong}."
        return
    share = percent(float((sizes <= 2).mean()))
    yield f"One or two more features flip {share} of {counted(len(sizes), 'explanation')} that were searched; {wrong}."
