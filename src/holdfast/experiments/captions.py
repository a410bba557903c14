"""Studies → what stands above and under the panels of their figures."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.experiments.studies import Studied
from holdfast.study.aggregate import FEW
from holdfast.words import counted, percent


def named(studied: Studied) -> str:
    """What a panel is about: the model, and over how many inputs."""
    return f"{studied.subject.name}, {counted(studied.summary.groups[0].n_inputs, 'input')}"


def bands_note(found: Sequence[Studied]) -> str:
    """What the bands around means over inputs are, and their level."""
    level = percent(found[0].summary.groups[0].confidence)
    few = [one.summary.groups[0].n_inputs < FEW for one in found]
    sure = f"guaranteed {level} intervals for the mean over the population"
    if all(few) or not all(one.per_input for one in found):
        return f"Bands: {sure}."
    rough = f"{level} intervals over inputs by the bootstrap, which are approximate"
    return f"Bands: {rough}; {sure} where there are fewer than {FEW} inputs." if any(few) else f"Bands: {rough}."


def clamped(studied: Studied) -> list[str]:
    """For texts of different lengths: from which radius on most of them have fewer features left to reveal."""
    cuts = {group.top_fraction: group.radii for group in studied.summary.groups}
    return [words for fraction, radii in cuts.items() if (words := _clamped(studied, fraction, radii))]


def _clamped(studied: Studied, fraction: float, radii: Sequence[int]) -> str:
    left = studied.left.get(fraction, ())
    beyond = [radius for radius in radii if 2 * sum(one < radius for one in left) > len(left)]
    if studied.subject.kind != "text" or not beyond:
        return ""
    return (
        f"From radius {beyond[0]} on, most texts of {studied.subject.name} have fewer features left to reveal than the "
        f"radius (top {percent(fraction)}): their rates are those of all they have."
    )
