"""What models smoothed for hard certificates predict: how many classes, and how often the right one."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from holdfast.experiments.studies import Studied
from holdfast.study.results import unpack_text
from holdfast.study.store import Store
from holdfast.words import listed, percent

_VOTED = """
SELECT i.method, i.top_fraction, i.keep_probability, i.mus, x.label FROM items i JOIN inputs x USING (input)
WHERE i.input < ? ORDER BY i.item
"""


@dataclass(frozen=True)
class Votes:
    """What a smoothed model says of all explanations of a study.

    Attributes
    ----------
    keep_probability : float
        How much it is smoothed.
    n_explanations, n_classes : int
        How many explanations there are, and how many different classes they get.
    n_labelled, n_right : int
        How many have a label, and how many of these get it.
    """

    keep_probability: float
    n_explanations: int
    n_classes: int
    n_labelled: int
    n_right: int

    def __str__(self) -> str:
        classes = "one class" if self.n_classes == 1 else f"{self.n_classes} classes"
        right = f" ({percent(round(self.n_right / self.n_labelled, 2))} right)" if self.n_labelled else ""
        return f"{classes} at λ = {ratio(self.keep_probability)}{right}"


def votes_of(studied: Studied) -> tuple[Votes, ...]:
    """The votes on what was asked for, by keep probability; the file may hold more."""
    said: dict[float, list[tuple[object, int | None]]] = {}
    wanted = {tuple(group.key) for group in studied.summary.groups}
    with Store(studied.path) as store:
        for *key, packed, label in store.query(_VOTED, studied.summary.n_inputs):
            if tuple(key) not in wanted:
                continue
            for one in map(json.loads, json.loads(unpack_text(packed))):
                said.setdefault(one["keep_probability"], []).append((one["prediction"], label))
    return tuple(_count(keep, pairs) for keep, pairs in sorted(said.items()))


def _count(keep: float, pairs: list[tuple[object, int | None]]) -> Votes:
    labelled = [(said, label) for said, label in pairs if label is not None and label >= 0]
    classes = {json.dumps(said) for said, _ in pairs}
    return Votes(keep, len(pairs), len(classes), len(labelled), sum(said == label for said, label in labelled))


def tell_votes(votes: Iterable[Votes]) -> str:
    """The votes of one model in a sentence.

    Examples
    --------
    >>> tell_votes([Votes(0.125, 300, 1, 300, 30), Votes(0.5, 300, 10, 300, 240)])
    'Smoothed, it gives its 300 explanations one class at λ = 1/8 (10% right) and 10 classes at λ = 1/2 (80% right).'
    """
    found = tuple(votes)
    return f"Smoothed, it gives its {found[0].n_explanations:,} explanations {listed([str(one) for one in found])}."


def ratio(keep: float) -> str:
    """A keep probability as people write it.

    Examples
    --------
    >>> ratio(0.375), ratio(0.3)
    ('3/8', '3/10')
    """
    return str(Fraction(keep).limit_denominator(1024))
