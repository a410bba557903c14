"""The inputs of a study → the few that the page looks at closer, and why each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.report.page.rows import InputRows

STABLE = 0.9
"""An explanation that is predicted unlike its input is called stably wrong from this rate on."""

HOW_CHOSEN = (
    "Not a random sample: in turn the least stable inputs (by the mean rate of their explanations at the largest "
    "radius), those with an explanation that is stably predicted unlike its input, those on which the methods differ "
    "most, those flipped by the fewest features, and the most stable."
)


@dataclass(frozen=True)
class Chosen:
    """An input of the gallery, by its place among the rows, and the rule that put it there."""

    place: int
    why: str


def choose_inputs(rows: InputRows, most: int) -> tuple[Chosen, ...]:
    """Pick up to ``most`` inputs, one by each rule in turn; equal ones by their numbers.

    The rules look at the model itself where it was studied, and at the first fraction.
    """
    queues = [_queue(why, order) for why, order in _rules(rows)]
    chosen: dict[int, str] = {}
    while len(chosen) < min(most, len(rows.inputs)) and queues:
        for queue in list(queues):
            found = next((one for one in queue if one.place not in chosen), None)
            if found is None:
                queues.remove(queue)
            elif len(chosen) < most:
                chosen[found.place] = found.why
    return tuple(Chosen(place, why) for place, why in chosen.items())


def _queue(why: str, order: NDArray[np.intp]) -> Iterator[Chosen]:
    return (Chosen(int(place), why) for place in order)


def _rules(rows: InputRows) -> Iterator[tuple[str, NDArray[np.intp]]]:
    """Each rule with the inputs that it holds for, the strongest first."""
    keep = max((one.key.keep_probability for one in rows.groups), default=1.0)
    groups = [one for one in rows.groups if one.key.keep_probability == keep]
    groups = [one for one in groups if one.key.top_fraction == groups[0].key.top_fraction]
    everything = np.arange(len(rows.inputs))
    if groups and all(len(one.rates) for one in groups):
        last = np.array([one.rates[-1] for one in groups])
        known = np.isfinite(last).any(axis=0)
        low, high = _extreme(last, np.nanmin), _extreme(last, np.nanmax)
        mean = np.where(known, np.nansum(last, axis=0) / np.maximum(np.isfinite(last).sum(axis=0), 1), np.nan)
        wrong = np.where([one.consistent == 0 for one in groups], last, np.nan)
        strength = _extreme(wrong, np.nanmax)
        yield "among the least stable", _ascending(mean)
        yield (
            "an explanation is stably predicted unlike its input",
            _ascending(-np.where(strength >= STABLE, strength, np.nan)),
        )
        yield "the methods differ", _ascending(-np.where(high - low > 0, high - low, np.nan))
        yield "flipped by few features", _ascending(_extreme(np.array([one.flips for one in groups]), np.nanmin))
        yield "among the most stable", _ascending(-mean)
    elif groups:
        odd = np.array([one.consistent == 0 for one in groups]).any(axis=0)
        yield "an explanation is predicted unlike its input", everything[odd]
        yield "among the first", everything
    else:
        yield "among the first", everything


def _extreme(values: NDArray[np.float64], pick: Callable[..., Any]) -> NDArray[np.float64]:
    """The smallest or largest of each column that is known at all."""
    known = ~np.isnan(values).all(axis=0)
    found = np.full(values.shape[1], np.nan)
    found[known] = pick(values[:, known], axis=0)
    return found


def _ascending(values: NDArray[np.float64]) -> NDArray[np.intp]:
    """Places by increasing value; those with none are left out."""
    order = np.argsort(values, kind="stable")
    return order[np.isfinite(values[order])]
