"""Prompts in the order of their tokens → groups that begin alike, cut so that computing them costs least.

Prompts with some passages left out are like paths of a tree: what two neighbours have in common needs to be computed
once. A group is one pass over what follows its common beginning; that beginning is a pass of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

Ids = tuple[int, ...]
"""Tokens of a prompt or an answer."""


@dataclass(frozen=True)
class PromptGroup:
    """Rows from ``start`` to ``stop`` that are computed at once, after ``n_shared`` tokens that they begin with."""

    start: int
    stop: int
    n_shared: int


def n_common(first: Ids, second: Ids) -> int:
    """How many tokens both begin with.

    >>> n_common((1, 2, 3), (1, 2, 4, 5))
    2
    """
    low, high = 0, min(len(first), len(second))
    while low < high:  # comparing slices is much faster than comparing tokens
        middle = (low + high + 1) // 2
        low, high = (middle, high) if first[low:middle] == second[low:middle] else (low, middle - 1)
    return low


def group_prompts(rows: Sequence[Ids], ends: Sequence[int], *, most: int, overhead: float) -> list[PromptGroup]:
    """Cut sorted rows into groups of at most so many rows that cost least in all.

    Of each row, no more than its first ``ends`` tokens may be shared. A group costs its rows, without what they share
    and filled up to the longest, and one overhead: what one more pass costs, in tokens. What it shares costs one
    overhead and its tokens, apart from those that the group before it shares too.

    >>> group_prompts([(1, 1, 5), (1, 1, 6), (2, 7)], [2, 2, 1], most=8, overhead=0.5)
    [PromptGroup(start=0, stop=2, n_shared=2), PromptGroup(start=2, stop=3, n_shared=0)]
    """
    alike = [0] + [min(n_common(rows[i - 1], rows[i]), ends[i - 1], ends[i]) for i in range(1, len(rows))] + [0]
    # best[j]: what the last group of the first j rows shares → their least cost, that group and what the one before it
    # shares. More than the group itself needs may be shared for the sake of the next one.
    best: list[dict[int, tuple[float, PromptGroup, int]]] = [{0: (0.0, PromptGroup(0, 0, 0), 0)}]
    for stop in range(1, len(rows) + 1):
        choices: dict[int, tuple[float, PromptGroup, int]] = {}
        common, longest = ends[stop - 1], 0
        for start in range(stop - 1, max(stop - 1 - most, -1), -1):
            common = min(common, ends[start], alike[start + 1] if start < stop - 1 else common)
            longest, n_rows = max(longest, len(rows[start])), stop - start
            for n_before, (cost, _, _) in best[start].items():
                for n_shared in {0, min(common, alike[start], n_before), min(common, alike[stop]), common}:
                    n_new = n_shared - min(n_shared, alike[start], n_before)
                    work = overhead + n_rows * (longest - n_shared) + (n_new + overhead if n_new else 0)
                    if n_shared not in choices or cost + work < choices[n_shared][0]:
                        choices[n_shared] = (cost + work, PromptGroup(start, stop, n_shared), n_before)
        best.append(choices)
    groups: list[PromptGroup] = []
    n_shared = min(best[-1], key=lambda n: best[-1][n][0])
    stop = len(rows)
    while stop > 0:
        _, group, n_shared = best[stop][n_shared]
        groups.append(group)
        stop = group.start
    return groups[::-1]


def common_with_next(rows: Sequence[Ids], groups: Sequence[PromptGroup]) -> Iterator[tuple[PromptGroup, int]]:
    """Each group, and how many of the tokens that it shares the group after it shares too."""
    for group, after in zip(groups, [*groups[1:], PromptGroup(0, 0, 0)], strict=False):
        both = min(group.n_shared, after.n_shared)
        yield group, n_common(rows[group.start][:both], rows[after.start][:both]) if both else 0
