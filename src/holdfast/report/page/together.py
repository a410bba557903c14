"""A file of results and its summary → intervals for the means of all methods at once, at the headline's radius."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from holdfast.bounds import Interval, betting_mean
from holdfast.study.aggregate import GroupSummary
from holdfast.study.aggregate.columns import read_columns
from holdfast.study.store import CurveKey, Store
from holdfast.validation import check_share

Joint = dict[str, Interval]


def joint_means(store: Store, groups: Sequence[GroupSummary]) -> Joint:
    """For each method an interval of its mean rate at the largest radius; all of them hold at once.

    A headline names the methods that lead and trail, so that which interval is read depends on the results.
    Each is therefore made at a risk divided by the number of methods: whichever are picked, all
    contain their means over the population with the probability of the summary's ``confidence``.
    None are made for mean curves, which have intervals of their own.
    """
    if store.spec["certify"]["precision"] != "per-input":
        return {}
    risk = (1 - check_share(groups[0].confidence, "confidence")) / len(groups)
    return {one.method: _mean(store, one, confidence=1 - risk) for one in groups}


def _mean(store: Store, group: GroupSummary, *, confidence: Fraction) -> Interval:
    rates = read_columns(store, CurveKey(*group.key), radii=group.radii).rates
    return betting_mean(rates[:, -1], confidence=confidence)[0]
