"""Studies → what stands above and under the panels of their figures."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.experiments.studies import Studied
from holdfast.experiments.words import counted, joined, percent, share
from holdfast.study.aggregate import FEW, GroupSummary


def named(studied: Studied) -> str:
    """What a panel is about: the model, and over how many inputs."""
    return f"{studied.subject.name}, {counted(studied.summary.groups[0].n_inputs, 'input')}"


def bands_note(found: Sequence[Studied]) -> str:
    """What the bands around means over inputs are, and their level."""
    level = f"{percent(found[0].summary.groups[0].confidence)} %"
    few = [one.summary.groups[0].n_inputs < FEW for one in found]
    sure = f"guaranteed {level} intervals for the mean over the population"
    if all(few) or not all(one.per_input for one in found):
        return f"Bands: {sure}."
    rough = f"{level} intervals over inputs by the bootstrap, which are approximate"
    return f"Bands: {rough}; {sure} where there are fewer than {FEW} inputs." if any(few) else f"Bands: {rough}."


def clamped(studied: Studied) -> list[str]:
    """For texts of different lengths: how many have nothing more to reveal at the middle radius and at the last."""
    return [words for group in _first_of_each_cut(studied) for words in _clamped(studied, group)]


def _first_of_each_cut(studied: Studied) -> list[GroupSummary]:
    return list({group.top_fraction: group for group in reversed(studied.summary.groups)}.values())[::-1]


def _clamped(studied: Studied, group: GroupSummary) -> list[str]:
    left = studied.left.get(group.top_fraction, ())
    radii = sorted({group.radii[len(group.radii) // 2], group.radii[-1]})
    shares = [sum(one < radius for one in left) / max(len(left), 1) for radius in radii]
    if studied.subject.kind != "text" or not any(shares):
        return []
    said = joined([f"{share(value)} at {radius}" for value, radius in zip(shares, radii, strict=True)])
    return [
        f"Of {studied.subject.name}'s texts, {said} have fewer features left to reveal than the radius (top "
        f"{percent(group.top_fraction)} %): for these, the rate is that of all they have."
    ]
