"""Prompts that begin alike are grouped at the least cost: equal to the best of all ways to cut small lists."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from holdfast.masking.context.sharing import Ids, PromptGroup, common_with_next, group_prompts, n_common


def random_rows(rng: np.random.Generator) -> list[Ids]:
    """Some of the same few passages, in their order, and a question."""
    passages = [tuple(rng.integers(5, size=rng.integers(1, 9)).tolist()) for _ in range(4)]
    shown = rng.random((int(rng.integers(1, 9)), 4)) < 0.6
    return sorted({(9, *(token for i in np.flatnonzero(row) for token in passages[i]), 7, 7) for row in shown})


def cost_of(rows: list[Ids], groups: list[PromptGroup], overhead: float) -> float:
    """By the definition."""
    total, before = 0.0, ()
    for group in groups:
        members = rows[group.start : group.stop]
        shared = members[0][: group.n_shared]
        assert all(row[: group.n_shared] == shared for row in members)
        n_new = group.n_shared - n_common(before, shared)
        total += overhead + len(members) * (max(map(len, members)) - group.n_shared)
        total += n_new + overhead if n_new else 0
        before = shared
    return total


def least_cost(rows: list[Ids], ends: list[int], most: int, overhead: float) -> float:
    """Over all cuts into groups, and all beginnings of every group."""
    best = np.inf
    for n_cuts in range(len(rows)):
        for cuts in combinations(range(1, len(rows)), n_cuts):
            edges = [*zip((0, *cuts), (*cuts, len(rows)), strict=True)]
            if max(stop - start for start, stop in edges) > most:
                continue
            costs: dict[Ids, float] = {(): 0.0}  # of the groups so far, by what the last one shares
            for start, stop in edges:
                members = rows[start:stop]
                n_most = min(min(ends[start:stop]), *(n_common(members[0], row) for row in members))
                after: dict[Ids, float] = {}
                for before, cost in costs.items():
                    for n in range(n_most + 1):
                        shared = members[0][:n]
                        n_new = n - n_common(before, shared)
                        own = overhead + len(members) * (max(map(len, members)) - n) + (n_new + overhead) * (n_new > 0)
                        after[shared] = min(after.get(shared, np.inf), cost + own)
                costs = after
            best = min(best, *costs.values())
    return float(best)


@pytest.mark.parametrize("overhead", [0.5, 4.0, 1000.0])
@pytest.mark.parametrize("most", [1, 3, 8])
def test_groups_cover_all_rows_in_order_and_cost_the_least(most: int, overhead: float) -> None:
    rng = np.random.default_rng(0)
    ratios = []
    for _ in range(12):
        rows = random_rows(rng)
        ends = [len(row) - 2 for row in rows]
        groups = group_prompts(rows, ends, most=most, overhead=overhead)
        assert [row for group in groups for row in range(group.start, group.stop)] == [*range(len(rows))]
        assert all(group.stop - group.start <= most for group in groups)
        assert all(group.n_shared <= min(ends[group.start : group.stop]) for group in groups)
        alone = sum(len(row) + overhead for row in rows)
        cost = cost_of(rows, groups, overhead)
        assert cost <= alone
        ratios.append(cost / least_cost(rows, ends, most, overhead))
    np.testing.assert_allclose(ratios, 1, rtol=1e-9)


def test_what_groups_share_with_the_next_is_counted() -> None:
    rows = [(1, 2, 3, 4), (1, 2, 5, 6), (3, 3)]
    groups = [PromptGroup(0, 1, 3), PromptGroup(1, 2, 2), PromptGroup(2, 3, 1)]
    assert [n for _, n in common_with_next(rows, groups)] == [2, 0, 0]
    assert n_common((), (1,)) == 0
    assert n_common((1, 2), (1, 2)) == 2


def test_no_rows_have_no_groups() -> None:
    assert group_prompts([], [], most=4, overhead=1.0) == []
