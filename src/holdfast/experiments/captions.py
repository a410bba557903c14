"""Studies → what stands above and under the panels of their figures."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.experiments.studies import Studied
from holdfast.experiments.words import counted, percent
from holdfast.study.aggregate import FEW


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
