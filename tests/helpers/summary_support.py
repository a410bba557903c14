"""Summaries of studies that never ran, made of the numbers a test wants them to have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from holdfast.bounds import Interval
from holdfast.reproduce.experiment import Subject
from holdfast.reproduce.findings import Contrast
from holdfast.reproduce.studies import Studied
from holdfast.study.summary import DifferenceAt, GroupSummary, MeanAt, MusSummary, PairedDifference, StudySummary

UP, DOWN, OPEN = (
    Contrast(x, Interval(x - 0.1, x + 0.1), Interval(x - 0.2, x + 0.2), n_inputs=50) for x in (0.5, -0.5, 0.0)
)
WEAK = Contrast(0.15, Interval(0.05, 0.25), Interval(-0.05, 0.35), n_inputs=50)


def mean_at(radius: int, value: float) -> MeanAt:
    around = Interval(max(0.0, value - 0.02), min(1.0, value + 0.02))
    return MeanAt(radius, value, around, around)


def group(method: str, rates: dict[int, float], *, keep: float = 1.0, mus: tuple[MusSummary, ...] = ()) -> GroupSummary:
    soft = tuple(mean_at(radius, rate) for radius, rate in rates.items())
    return GroupSummary(method, 0.25, keep, 0.95, 50, 50, 0, 0, 0.0, 0.0, soft, soft, mus)


def difference(first: str, second: str, contrasts: dict[int, Contrast]) -> PairedDifference:
    rows = tuple(
        DifferenceAt(radius, one.estimate, one.interval, one.guaranteed or one.interval, one.interval)
        for radius, one in contrasts.items()
    )
    return PairedDifference(first, second, 0.25, 1.0, 0.95, 50, rows)


def studied(subject: Subject, groups: Any, differences: Any = ()) -> Studied:
    summary = StudySummary(
        "s",
        "m",
        "d",
        "per-input",
        "sequential",
        "additions",
        0.95,
        1000,
        50,
        0,
        0,
        0,
        tuple(groups),
        tuple(differences),
    )
    return Studied(subject, summary, Path("none.db"))
