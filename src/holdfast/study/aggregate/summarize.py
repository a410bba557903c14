"""A file of results → its summary: means per radius with bootstrap and guaranteed intervals, paired differences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import combinations, groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.bounds import Interval, betting_mean, clopper_pearson
from holdfast.certification.mean_curve import MeanCurve
from holdfast.errors import StudyError
from holdfast.randomness import stream_key
from holdfast.study.aggregate.bootstrap import bootstrap_means
from holdfast.study.aggregate.columns import Columns, group_keys, read_columns
from holdfast.study.aggregate.differences import DifferenceAt, PairedDifference
from holdfast.study.aggregate.summary import GroupSummary, MeanAt, MusSummary, StudySummary
from holdfast.study.curves import current_means
from holdfast.study.status import status_of
from holdfast.study.store import CurveKey, Store
from holdfast.types import Rng
from holdfast.validation import check_share, check_whole

Groups = dict[CurveKey, Columns]


def summarize_study(
    results: str | Path | Store, *, confidence: float = 0.95, n_resamples: int = 1000, rng: Rng = 0
) -> StudySummary:
    """Summarise a file of results: how stable each method's explanations are, and which method's are more so.

    Means are over inputs, of unbiased rates. Each has two intervals, kept apart: the percentile
    bootstrap, which is usual and approximate, and one that is guaranteed whatever the rates are
    (for rates by ``bounds.betting_mean``, for shares by Clopper and Pearson). Both are about the population
    that the inputs were drawn from; where they are the first few of the data (``data.order = "first"``), the
    guaranteed intervals of rates are about exactly these inputs.

    Parameters
    ----------
    results : str, Path or Store
        The file of results; a run may be writing it, and then what is stored by now is summarised. Guaranteed
        intervals need a set of inputs that depends on no result: what is done first may be what is quickly
        certified, and stopping a study when its summary pleases voids them.
    confidence : float
        Of each interval on its own. Mean curves (precision "data-set") keep the study's own confidence.
    n_resamples : int
        Of the bootstrap.
    rng : Generator, int or None
        Seed of the bootstrap; nothing else is random.

    Examples
    --------
    >>> summarize_study("no such file.db")
    Traceback (most recent call last):
    ...
    holdfast.errors.StoreError: 'no such file.db' must be a file of results; there is none.
    """
    sure = float(check_share(confidence, "confidence"))
    settings = _Settings(sure, check_whole(n_resamples, "n_resamples", minimum=1), stream_key(rng))
    with nullcontext(results) if isinstance(results, Store) else Store(results) as store, store.snapshot():
        return _summarize(store, settings)


@dataclass(frozen=True)
class _Settings:
    confidence: float
    n_resamples: int
    key: int

    def bootstrap(self, values: NDArray[Any]) -> list[Interval]:
        return bootstrap_means(values, n_resamples=self.n_resamples, confidence=self.confidence, key=self.key)


def _summarize(store: Store, settings: _Settings) -> StudySummary:
    spec, status = store.spec, status_of(store)
    asked = spec["certify"]
    per_input = asked["precision"] == "per-input"
    radii = tuple(asked["radii"])
    found = {key: read_columns(store, key, radii=radii if per_input else ()) for key in group_keys(spec)}
    groups = {key: columns for key, columns in found.items() if len(columns)}
    curves = {} if per_input else current_means(store)
    if not groups or (not per_input and not curves):
        raise StudyError(f"{str(store.path)!r} has nothing to summarise yet. Run the study, or what is left of it.")
    return StudySummary(
        name=spec["name"],
        model=spec["model"]["spec"],
        data=spec["data"]["spec"],
        precision=asked["precision"],
        plan=asked["plan"],
        neighborhood=asked["neighborhood"],
        confidence=settings.confidence,
        n_resamples=settings.n_resamples,
        n_inputs=status.n_inputs,
        n_skipped=len(status.skips),
        n_given_up=status.n_given_up,
        n_to_do=status.n_to_do,
        groups=tuple(
            _group(key, columns, radii, settings, curves.get(key))
            for key, columns in groups.items()
            if per_input or key in curves
        ),
        differences=tuple(_differences(groups, radii, settings)) if per_input else (),
        population=store.speaks_of_population,
    )


def _group(
    key: CurveKey, columns: Columns, radii: tuple[int, ...], settings: _Settings, curve: MeanCurve | None
) -> GroupSummary:
    if curve is not None:
        settings = replace(settings, confidence=curve.confidence)  # one confidence for all intervals of a group
    soft = _soft(columns, radii, settings) if curve is None else _of_curve(curve)
    return GroupSummary(
        *key,
        confidence=settings.confidence,
        n_inputs=len(columns),
        n_consistent=int(columns.consistent.sum()),
        n_calls=columns.n_calls + (0 if curve is None else curve.n_calls),
        attribution_calls=columns.attribution_calls,
        seconds=columns.seconds,
        attribution_seconds=columns.attribution_seconds,
        soft=soft,
        hard=_shares(columns.all_agreed, radii, settings) if curve is None else (),
        mus=tuple(
            MusSummary(keep, _shares(reach[:, None] >= np.array(radii), radii, settings))
            for keep, reach in columns.voted.items()
        ),
    )


def _soft(columns: Columns, radii: tuple[int, ...], settings: _Settings) -> tuple[MeanAt, ...]:
    sure = betting_mean(columns.rates, confidence=settings.confidence)
    means = columns.rates.mean(axis=0).tolist()
    return tuple(map(MeanAt, radii, means, settings.bootstrap(columns.rates), sure))


def _shares(flags: NDArray[np.bool_], radii: tuple[int, ...], settings: _Settings) -> tuple[MeanAt, ...]:
    """Shares of inputs; an input drawn at random is among them or not, so that the exact interval is that of counts."""
    counts = [int(count) for count in flags.sum(axis=0)]
    sure = [clopper_pearson(count, len(flags), confidence=settings.confidence) for count in counts]
    return tuple(map(MeanAt, radii, [count / len(flags) for count in counts], settings.bootstrap(flags), sure))


def _of_curve(curve: MeanCurve) -> tuple[MeanAt, ...]:
    """The means of a mean curve with its own intervals for the population."""
    sure = curve.bound == "hoeffding"
    return tuple(
        MeanAt(one.radius, one.rate, None if sure else one.population, one.population if sure else None)
        for one in curve
    )


def _differences(groups: Groups, radii: tuple[int, ...], settings: _Settings) -> Iterator[PairedDifference]:
    """Every pair of methods at each fraction and keep probability, over the inputs that have both."""
    ordered = sorted(groups, key=lambda key: key[1:])  # stable: methods stay in the order of the study
    for _, keys in groupby(ordered, key=lambda key: key[1:]):
        pairs = list(combinations(keys, 2))
        for first, second in pairs:
            a, b = groups[first], groups[second]
            _, here, there = np.intersect1d(a.inputs, b.inputs, assume_unique=True, return_indices=True)
            if len(here):
                yield _difference(first, second, radii, a.rates[here] - b.rates[there], settings, n_pairs=len(pairs))


def _difference(
    first: CurveKey,
    second: CurveKey,
    radii: tuple[int, ...],
    values: NDArray[np.float64],
    settings: _Settings,
    *,
    n_pairs: int,
) -> PairedDifference:
    risk = 1 - check_share(settings.confidence, "confidence")
    alone, joint = (betting_mean(values, confidence=1 - risk / n, low=-1.0, high=1.0) for n in (1, n_pairs))
    columns: Iterable[Any] = (radii, values.mean(axis=0).tolist(), settings.bootstrap(values), alone, joint)
    return PairedDifference(
        first=first.method,
        second=second.method,
        top_fraction=first.top_fraction,
        keep_probability=first.keep_probability,
        confidence=settings.confidence,
        n_inputs=len(values),
        rows=tuple(map(DifferenceAt, *columns)),
    )
