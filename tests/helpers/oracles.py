"""Truth by enumeration: slow, short and written from the definitions, never from the library's code.

Everything here is exact (Python ints and fractions) and meant for n_features ≤ 12.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

Bits = tuple[bool, ...]
Rule = Callable[[Any, Any], bool]


def distance(selected: Any, mask: Any, kind: str = "additions") -> int | None:
    """How far ``mask`` is from ``selected``, or None if ``kind`` does not lead there.

    Additions only add and removals only drop; a swap adds one and drops one.
    """
    n_added = sum(new and not old for old, new in zip(selected, mask, strict=True))
    n_dropped = sum(old and not new for old, new in zip(selected, mask, strict=True))
    legal = {"additions": n_dropped == 0, "removals": n_added == 0, "swaps": n_added == n_dropped}
    return max(n_added, n_dropped) if legal[kind] else None


def rings(selected: Any, kind: str = "additions") -> list[set[Bits]]:
    """The reachable masks by distance: ``rings(...)[k]`` holds those at distance k exactly."""
    found: dict[int, set[Bits]] = {}
    for mask in product((False, True), repeat=len(selected)):
        k = distance(selected, mask, kind)
        if k is not None:
            found.setdefault(k, set()).add(mask)
    return [found[k] for k in range(len(found))]


def neighbors(selected: Any, radius: int, kind: str = "additions", exactly: int | None = None) -> set[Bits]:
    """Every mask within ``radius``, or at distance ``exactly`` (clamped to the largest there is)."""
    by_distance = rings(selected, kind)
    if exactly is not None:
        return by_distance[min(exactly, len(by_distance) - 1)]
    return set().union(*by_distance[: radius + 1])


def exact_rate(
    model: Any,
    selected: Any,
    radius: int,
    *,
    agree: Any = "same_top_class",
    neighborhood: str = "additions",
    rate_kind: str = "uniform",
) -> Fraction:
    """The stability rate of a model, every mask asked one at a time.

    ``agree`` is a name of the library ("same_top_class", "same_top_set(2)", "within(0.5)"), judged by
    the rules of this file, or a callable of the library's form on (outputs (b, ...), reference).
    ``rate_kind`` is "uniform", "exactly" (``radius`` changes) or "worst_size" (sizes 1 … radius).
    """
    same = rule(agree)
    reference = answer(model, selected)

    def share(masks: set[Bits]) -> Fraction:
        return Fraction(sum(same(answer(model, mask), reference) for mask in masks), len(masks))

    if rate_kind == "uniform":
        return share(neighbors(selected, radius, neighborhood))
    if rate_kind == "exactly":
        return share(neighbors(selected, radius, neighborhood, exactly=radius))
    by_distance = rings(selected, neighborhood)
    return min(share(ring) for ring in by_distance[1 : radius + 1] or by_distance[:1])


def is_hard_stable(model: Any, selected: Any, radius: int, **kwargs: Any) -> bool:
    """Whether no mask within ``radius`` changes the prediction."""
    return exact_rate(model, selected, radius, **kwargs) == 1


def hard_radius(model: Any, selected: Any, **kwargs: Any) -> int:
    """The largest radius within which no mask changes the prediction (n_features if none does)."""
    n = len(selected)
    return max(r for r in range(n + 1) if is_hard_stable(model, selected, r, **kwargs))


def answer(model: Any, mask: Any) -> Any:
    """What the model says of one mask: a list of scores, or a label."""
    return np.asarray(model(np.array([mask], dtype=bool))).tolist()[0]


def rule(agree: Any) -> Rule:
    """A rule on one output and one reference, both plain Python values."""
    if callable(agree):
        return lambda output, reference: bool(agree(np.array([output]), np.array(reference)).item())
    name, _, argument = agree.removesuffix(")").partition("(")
    if name == "same_top_set":
        return lambda output, reference: leaders(output, int(argument)) == leaders(reference, int(argument))
    if name == "within":
        return lambda output, reference: all(
            abs(new - old) < float(argument) for new, old in zip(output, reference, strict=True)
        )
    if name == "within_percent":
        share = Fraction(argument) / 100
        return lambda output, reference: all(
            new == old or abs(Fraction(new) - Fraction(old)) < share * abs(Fraction(old))
            for new, old in zip(output, reference, strict=True)
        )
    if name == "same_side":
        threshold, _, column = argument.partition(",")
        return lambda output, reference: len({side(scores, threshold, column) for scores in (output, reference)}) == 1
    if name == "same_labels":
        return lambda output, reference: labels_on(output, argument) == labels_on(reference, argument)
    return _same_top_class


def side(scores: list[float], threshold: str, column: str = "") -> bool:
    """Whether the score of a column (the last of one or two, if it is not named) is at least the threshold."""
    return not scores[int(column.removeprefix(" ").removeprefix("class_=") or len(scores) - 1)] < float(threshold)


def labels_on(scores: list[float], thresholds: str) -> set[int]:
    """The labels whose scores reach their thresholds: one number for all, or a list."""
    limits = [float(limit) for limit in thresholds.strip("[]").split(",")]
    return {
        i for i, score in enumerate(scores) if not score < (limits * len(scores) if len(limits) == 1 else limits)[i]
    }


def _same_top_class(output: Any, reference: Any) -> bool:
    if not isinstance(reference, list):
        return bool(output == reference)
    return leaders(output, 1) == leaders(reference, 1)


def leaders(scores: list[float], k: int) -> set[int]:
    """The k classes with the largest scores; among equals the lowest index leads."""
    return set(sorted(range(len(scores)), key=lambda i: (-scores[i], i))[:k])


def draws(looks: tuple[int, ...], limits: tuple[int, ...], opening: Counter[int]) -> Iterator[tuple[int, int, int]]:
    """(n, k, path count) of every stopping point reached from the first draws ``opening``."""
    stops = dict(zip(looks, limits, strict=True))
    alive = opening
    for n in range(1, looks[-1] + 1):
        if n in stops:
            ended = {k: paths for k, paths in alive.items() if min(k, n - k) <= stops[n]}
            yield from ((n, k, paths) for k, paths in sorted(ended.items()))
            alive = Counter({k: paths for k, paths in alive.items() if k not in ended})
        grown: Counter[int] = Counter()
        for k, paths in alive.items():
            grown[k] += paths
            grown[k + 1] += paths
        alive = grown


def count_paths(looks: tuple[int, ...], limits: tuple[int, ...]) -> dict[tuple[int, int], int]:
    """For each (n_evaluated, n_agreed) where a stopping design can end, the number of draw sequences
    that end there. Stopping at look j needs a minority count of at most ``limits[j]``."""
    return {(n, k): paths for n, k, paths in draws(looks, limits, Counter({0: 1, 1: 1}))}


def count_paths_that_begin_with_an_agreement(
    looks: tuple[int, ...], limits: tuple[int, ...]
) -> dict[tuple[int, int], int]:
    """As ``count_paths``, of the sequences whose first draw agrees."""
    return {(n, k): paths for n, k, paths in draws(looks, limits, Counter({1: 1}))}


def end_probabilities(paths: dict[tuple[int, int], int], rate: Fraction) -> dict[tuple[int, int], Fraction]:
    """P(ending at (n, k)) when each draw agrees with probability ``rate``; they sum to one."""
    return {(n, k): count * rate**k * (1 - rate) ** (n - k) for (n, k), count in paths.items()}


def miss_probability(paths: dict[tuple[int, int], int], rate: Fraction, tolerance: Fraction) -> Fraction:
    """P(|k/n - rate| > tolerance), the stopping included."""
    ends = end_probabilities(paths, rate)
    return sum((p for (n, k), p in ends.items() if abs(Fraction(k, n) - rate) > tolerance), Fraction(0))


def expected_draws(paths: dict[tuple[int, int], int], rate: Fraction) -> Fraction:
    """Mean number of draws when each agrees with probability ``rate``."""
    return sum((n * p for (n, _), p in end_probabilities(paths, rate).items()), Fraction(0))
