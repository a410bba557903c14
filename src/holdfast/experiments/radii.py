"""Radii that say something of their own: none beyond what an explanation leaves to reveal is repeated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from holdfast.study.aggregate import GroupSummary, StudySummary
from holdfast.study.store import Store

_Row = TypeVar("_Row", bound=Any)

_LEFT = """
SELECT DISTINCT i.top_fraction, i.input, x.n_features - i.n_selected FROM items i JOIN inputs x USING (input)
WHERE i.input < ? ORDER BY i.input
"""


def up_to(radii: Sequence[int], left: int) -> tuple[int, ...]:
    """The radii as far as there are features left to reveal; the first that is not reached is all of them.

    Examples
    --------
    >>> up_to((1, 10, 100, 200), 48), up_to((1, 10), 48)
    ((1, 10, 48), (1, 10))
    """
    most = max(left, 1)
    return tuple(radius for radius in radii if radius < most) + (most,) * (max(radii) >= most)


def features_left(store: Store, n_inputs: int) -> dict[float, tuple[int, ...]]:
    """By the share of features selected, how many each of the first inputs has left to reveal."""
    found: dict[float, list[int]] = {}
    for fraction, _, left in store.query(_LEFT, n_inputs):
        found.setdefault(fraction, []).append(left)
    return {fraction: tuple(some) for fraction, some in found.items()}


def without_repeats(summary: StudySummary, left: Mapping[float, int]) -> StudySummary:
    """The summary without radii at which every input repeats what it had at the radius before.

    Parameters
    ----------
    summary : StudySummary
        Means and differences at every radius of the study, which several shares of features have in common.
    left : mapping of float to int
        By the share of features selected, the most that any input has left to reveal.
    """
    return replace(
        summary,
        groups=tuple(_without(group, left[group.top_fraction]) for group in summary.groups),
        differences=tuple(replace(one, rows=told(one.rows, left[one.top_fraction])) for one in summary.differences),
    )


def _without(group: GroupSummary, left: int) -> GroupSummary:
    mus = tuple(replace(one, rates=told(one.rates, left)) for one in group.mus)
    return replace(group, soft=told(group.soft, left), hard=told(group.hard, left), mus=mus)


def told(rows: Sequence[_Row], left: int) -> tuple[_Row, ...]:
    """Rows by increasing ``radius``, without those that follow one at which everything is revealed."""
    return tuple(row for place, row in enumerate(rows) if place == 0 or rows[place - 1].radius < left)
