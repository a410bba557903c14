"""A file of results → what it says about its methods: means over inputs, and differences, with their intervals.

Each mean has two intervals, kept apart: the bootstrap, which is approximate, and one that is guaranteed. Only the
tables of a file are read: certificates are not decoded, but for the radii of hard certificates by votes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import chain, combinations, groupby
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from holdfast.bounds import Interval, betting_mean, clopper_pearson
from holdfast.certification.mean_curve import MeanCurve
from holdfast.certification.serialization import Value, make_frame
from holdfast.errors import InvalidValueError, StoreError, StudyError
from holdfast.neighborhood import NEIGHBORHOODS
from holdfast.randomness import stream, stream_key
from holdfast.study.records import unpack_text
from holdfast.study.spec import GroupKey
from holdfast.study.status import status_of
from holdfast.study.store import Store, group_rows
from holdfast.terminal import Plotted
from holdfast.types import Rng
from holdfast.validation import check_share, check_whole, shown
from holdfast.words import (
    INCOMPLETE,
    NOT_RIGHT,
    ON_ITS_OWN,
    OTHER_INPUTS,
    bracket,
    calls,
    counted,
    cut_label,
    event,
    few_words,
    paragraph,
    sure,
)

FEW = 20  # below this number of inputs the bootstrap does not hold its level: its intervals are too narrow
_MOST_RADII = 8  # rows of a printed table
_TOGETHER = 2_000_000  # resampled indices held at a time
_Kind = TypeVar("_Kind")
_Bootstrap = Callable[..., list[Interval]]

_TOTALS = {"n_calls": int, "seconds": float, "attribution_calls": int, "attribution_seconds": float}


@dataclass(frozen=True, eq=False)
class MeanAt(Value, schema="holdfast.mean_at"):
    """A mean over inputs at one radius.

    Attributes
    ----------
    mean : float
        For soft rates the mean of unbiased estimates; for hard and MuS rates a share of the inputs.
    approximate : Interval or None
        The percentile bootstrap over inputs, as in the paper; None for a mean curve.
    guaranteed : Interval
        Contains the mean over the population with probability at least the group's ``confidence``, if the
        inputs were drawn from it independently.
    """

    radius: int
    mean: float
    approximate: Interval | None
    guaranteed: Interval


@dataclass(frozen=True, eq=False)
class MusSummary(Value, schema="holdfast.mus_summary"):
    """Shares of inputs that votes at one keep probability certify, by radius."""

    keep_probability: float
    rates: tuple[MeanAt, ...]


@dataclass(frozen=True, eq=False)
class GroupSummary(Value, schema="holdfast.group_summary"):
    """One method at one fraction and keep probability, over its inputs.

    Attributes
    ----------
    confidence : float
        Of every interval, each on its own.
    n_inputs, n_consistent : int
        Inputs with results, and those whose explanation alone has the prediction of the full input.
    n_calls, attribution_calls : int
        Model calls of the certificates, each counted on its own, and of the explanations, which groups of
        one method share.
    seconds, attribution_seconds : float
        Time of both.
    soft : tuple of MeanAt
        Mean stability rates. Beyond the features an input has left, its rate at the largest radius counts.
    hard : tuple of MeanAt
        Shares of inputs for which no draw changed the prediction. A statement about draws, as many as the
        plan needed, and not a proof: an input that is never changed may need fewer draws than another. The
        paper's SCA-hard rate is that of the plan "hoeffding" at its defaults, 150 draws.
    mus : tuple of MusSummary
        Shares of inputs whose SMOOTHED prediction provably cannot change within the radius.
    """

    method: str
    top_fraction: float
    keep_probability: float
    confidence: float
    n_inputs: int
    n_consistent: int
    n_calls: int
    attribution_calls: int
    seconds: float
    attribution_seconds: float
    soft: tuple[MeanAt, ...]
    hard: tuple[MeanAt, ...]
    mus: tuple[MusSummary, ...]
    masks: bool = False
    """Whether the method gives masks, of which no share is cut."""

    @property
    def key(self) -> GroupKey:
        """Method, fraction and keep probability."""
        return GroupKey(self.method, self.top_fraction, self.keep_probability)

    @property
    def radii(self) -> tuple[int, ...]:
        """The radii of its means."""
        return tuple(mean.radius for mean in self.soft)

    def rows(self) -> Iterator[dict[str, Any]]:
        """One flat row per kind of rate and radius."""
        by_votes = [("mus", curve.keep_probability, curve.rates) for curve in self.mus]
        for kind, votes, means in (("soft", None, self.soft), ("hard", None, self.hard), *by_votes):
            for mean in means:
                row = {"kind": kind, "mus_keep_probability": votes, "radius": mean.radius, "mean": mean.mean}
                for name in ("approximate", "guaranteed"):
                    row[f"{name}_low"], row[f"{name}_high"] = getattr(mean, name) or (None, None)
                yield {**self.key._asdict(), **row, "n_inputs": self.n_inputs, "confidence": self.confidence}

    def lines(self, *, population: bool = True) -> Iterator[str]:
        """Its means as a table in text; of exactly these inputs shares are known, so that they have no interval."""
        consistent = f"{self.n_consistent} consistent with the full input"
        n_calls = calls(self.n_calls + self.attribution_calls)
        yield f"{self.method}, {_cut(self)}: {self.n_inputs} inputs, {consistent}, {n_calls}"
        columns = [["radius", *map(str, self.radii)], ["mean rate"]]
        for mean in self.soft:
            near = "" if mean.approximate is None else f" ≈{bracket(mean.approximate)}"
            columns[1].append(f"{mean.mean:.3f} {bracket(mean.guaranteed)}{near}")
        by_votes = [(f"votes {curve.keep_probability:g}", curve.rates) for curve in self.mus]
        for title, shares in (("all draws agree", self.hard), *by_votes):
            if shares:
                cells = [(f"{share.mean:.3f}", share.guaranteed if population else None) for share in shares]
                columns.append([title, *(f"{mean} {bracket(ends)}" if ends else mean for mean, ends in cells)])
        widths = [max(map(len, column)) for column in columns]
        head, *rows = zip(*columns, strict=True)
        step = -(-len(rows) // _MOST_RADII)
        for row in [head, *rows[::-step][::-1]]:
            yield "  " + "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()


@dataclass(frozen=True, eq=False)
class DifferenceAt(Value, schema="holdfast.difference_at"):
    """The mean difference of two methods' rates at one radius.

    Attributes
    ----------
    mean : float
        The mean, over inputs that both methods explain, of the difference of unbiased rates.
    approximate : Interval
        The percentile bootstrap over inputs.
    guaranteed : Interval
        Contains the population's mean difference with the summary's confidence, on its own.
    joint : Interval
        The same for all pairs of methods at this radius, fraction and keep probability at once.
    """

    radius: int
    mean: float
    approximate: Interval
    guaranteed: Interval
    joint: Interval

    def better(self, *, approximate: bool = False) -> int:
        """1 if the first method is certified more stable, -1 if the second is, 0 if the data cannot tell."""
        low, high = self.approximate if approximate else self.joint
        return int(low > 0) - int(high < 0)

    def reversed(self) -> DifferenceAt:
        """The same with the methods exchanged."""
        ends = (self.approximate, self.guaranteed, self.joint)
        return DifferenceAt(self.radius, 0.0 - self.mean, *(Interval(0.0 - high, 0.0 - low) for low, high in ends))


@dataclass(frozen=True, eq=False)
class PairedDifference(Value, schema="holdfast.paired_difference"):
    """How much more stable the explanations of ``first`` are than those of ``second``, by radius.

    Inputs are compared with themselves: what makes one input harder than another cancels out.
    """

    first: str
    second: str
    top_fraction: float
    keep_probability: float
    confidence: float
    n_inputs: int
    rows: tuple[DifferenceAt, ...]

    def __iter__(self) -> Iterator[DifferenceAt]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, radius: int) -> DifferenceAt:
        """The difference at one radius."""
        for row in self.rows:
            if row.radius == radius:
                return row
        known = ", ".join(str(row.radius) for row in self.rows)
        raise InvalidValueError(argument="radius", must=f"be one of {known}", got=shown(radius))

    def reversed(self) -> PairedDifference:
        """The same with the methods exchanged."""
        rows = tuple(row.reversed() for row in self.rows)
        return replace(self, first=self.second, second=self.first, rows=rows)

    def to_frame(self) -> Any:
        """A pandas ``DataFrame`` with one row per radius."""
        table = []
        for row in self.rows:
            cells = {"first": self.first, "second": self.second, "radius": row.radius, "mean": row.mean}
            for kind in ("approximate", "guaranteed", "joint"):
                cells[f"{kind}_low"], cells[f"{kind}_high"] = getattr(row, kind)
            table.append(cells)
        return make_frame(table)

    def __str__(self) -> str:
        methods = f"{few_words(self.first)} - {few_words(self.second)}"
        known = f"{counted(self.n_inputs, 'input')}, {sure(self.confidence)} confidence each"
        head = f"{methods}: mean difference of rates ({known}):"
        for row in self.rows:
            wide, near = bracket(row.guaranteed, "+"), bracket(row.approximate, "+")
            head += f"\n  r = {row.radius:<4} {row.mean:+.3f}  guaranteed {wide}  bootstrap, approximate {near}"
        return head

    def explain(self) -> str:
        """What was asked, what is guaranteed and what is not, in plain words."""
        return paragraph(
            f"How much more stable are explanations by {few_words(self.first)} than by {few_words(self.second)}?",
            "Inputs are compared with themselves: what makes one harder than another cancels out.",
            f"Each guaranteed interval contains the mean difference with probability at least {sure(self.confidence)}.",
            "That is the mean over these inputs and, if they are independent draws, over their population.",
            "Bootstrap intervals are approximate, and not guaranteed.",
            ON_ITS_OWN,
            "A mean says nothing about single inputs.",
            OTHER_INPUTS,
            NOT_RIGHT,
        )


@dataclass(frozen=True, eq=False)
class StudySummary(Plotted, Value, schema="holdfast.study_summary"):
    """What a study says about its methods.

    Guaranteed intervals are about the population that the inputs are a sample of, if they were drawn
    independently (see ``population``). Those of soft rates hold as well for the mean of the true rates of
    exactly these inputs. Each holds on its own with probability ``confidence`` (for mean curves: with that of the
    study); a reader who picks the most striking has no guarantee for it. Inputs that were left out
    belong to no mean: the population is that of inputs which are not left out. Where items are not
    computed (``n_to_do``), intervals are guaranteed only if it depends on no result which ones.

    Attributes
    ----------
    name, model, data : str
        As the study says.
    precision : str
        "per-input", or "data-set" where means come from mean curves; these have no hard rates and no
        differences.
    plan : str
        How many draws a certificate took, which hard rates depend on.
    n_inputs, n_skipped : int
        Inputs the study asks for, and those it left out.
    n_given_up, n_to_do : int
        Items that could not be computed, and all items that are not stored, these included.
    groups : tuple of GroupSummary
        One per method, fraction and keep probability that has results.
    differences : tuple of PairedDifference
        One per pair of methods at the same fraction and keep probability.
    population : bool
        Whether the inputs are all of the data, or drawn from them at random. If they are the first few, intervals
        of soft rates and differences are about exactly these inputs, and those of shares about nothing.
    """

    name: str
    model: str
    data: str
    precision: str
    plan: str
    neighborhood: str
    confidence: float
    n_resamples: int
    n_inputs: int
    n_skipped: int
    n_given_up: int
    n_to_do: int
    groups: tuple[GroupSummary, ...]
    differences: tuple[PairedDifference, ...]
    population: bool = True

    def check(self) -> None:
        """Raise if the fields contradict each other."""
        check_share(self.confidence, "confidence")
        if len({group.key for group in self.groups}) < len(self.groups):
            raise InvalidValueError(argument="groups", must="differ in method, fraction or keep probability")

    def __iter__(self) -> Iterator[GroupSummary]:
        return iter(self.groups)

    def __len__(self) -> int:
        return len(self.groups)

    def group(
        self, method: str, *, top_fraction: float | None = None, keep_probability: float | None = None
    ) -> GroupSummary:
        """One group; what is not given must be the same for all groups of the method."""
        wanted = {"method": method, "top_fraction": top_fraction, "keep_probability": keep_probability}
        return _only(self.groups, wanted, "groups")

    def difference(
        self, first: str, second: str, *, top_fraction: float | None = None, keep_probability: float | None = None
    ) -> PairedDifference:
        """How much more stable the explanations of ``first`` are than those of ``second``, input by input."""
        cut = {"top_fraction": top_fraction, "keep_probability": keep_probability}
        reverse = any((difference.first, difference.second) == (second, first) for difference in self.differences)
        a, b = (second, first) if reverse else (first, second)
        difference = _only(self.differences, {"first": a, "second": b, **cut}, "differences")
        return difference.reversed() if reverse else difference

    def ranking(
        self,
        radius: int,
        *,
        top_fraction: float | None = None,
        keep_probability: float | None = None,
        approximate: bool = False,
    ) -> tuple[tuple[str, str], ...]:
        """All pairs (more stable, less stable) of methods that are certified at one radius.

        With probability at least ``confidence`` all of them are true for the population, at one radius,
        fraction and keep probability that were chosen beforehand. With ``approximate`` they are the pairs
        whose bootstrap intervals leave out 0, each on its own: usual, and not guaranteed.
        """
        cut = {"top_fraction": top_fraction, "keep_probability": keep_probability}
        chosen = [difference for difference in self.differences if _fits(difference, cut)]
        if len({(difference.top_fraction, difference.keep_probability) for difference in chosen}) > 1:
            statement = "and `keep_probability` must pick one cut to rank at."
            raise InvalidValueError(statement, argument="top_fraction")
        signs = {(pair.first, pair.second): pair[radius].better(approximate=approximate) for pair in chosen}
        return tuple(pair if sign > 0 else pair[::-1] for pair, sign in signs.items() if sign)

    def to_frame(self) -> Any:
        """The means as a pandas ``DataFrame``, one row per group, kind of rate and radius."""
        return make_frame([row for group in self.groups for row in group.rows()])

    def __str__(self) -> str:
        missing = [f"{self.n_skipped} inputs left out"] * (self.n_skipped > 0)
        missing += [f"{self.n_to_do} items not computed"] * (self.n_to_do > 0)
        aside = f" ({', '.join(missing)})" if missing else ""
        distribution = "" if self.neighborhood in NEIGHBORHOODS else f", {event(self.neighborhood, 'uniform', 'r')}"
        inputs = f"{few_words(self.model)} on {counted(self.n_inputs, 'input')} of {few_words(self.data)}"
        levels = " or ".join(sorted({sure(group.confidence) for group in self.groups}))
        known = f", {levels} confidence for each interval" if levels else ""
        lines = [f"{few_words(self.name)}: {inputs}{aside}{distribution}{known}"]
        for group in self.groups:
            lines += group.lines(population=self.population)
        for difference in {(each.top_fraction, each.keep_probability): each for each in self.differences}.values():
            radius, fraction, keep = difference.rows[-1].radius, difference.top_fraction, difference.keep_probability
            pairs = self.ranking(radius, top_fraction=fraction, keep_probability=keep)
            claims = ", ".join(f"{better} > {worse}" for better, worse in pairs) or "cannot tell the methods apart"
            lines.append(f"  certified at radius {radius}, {_cut(difference)}: {claims}")
        return "\n".join(lines)

    def explain(self) -> str:
        """What was asked, what is guaranteed and what is not, in plain words."""
        sample = "mean over exactly these inputs, the first of the data"
        about = "population that the inputs are independent draws from" if self.population else sample
        known = ", ".join(sorted({sure(group.confidence) for group in self.groups})) or "none"
        resampled = f"Those after ≈ are approximate, by {self.n_resamples} bootstrap resamples of the inputs."
        pairs = f"At one radius, all certified pairs of methods hold at once with {sure(self.confidence)} confidence."
        return paragraph(
            "How stable are the explanations of each method, on average?",
            f"Intervals in brackets are guaranteed with {known} confidence, for the {about}.",
            resampled if self.precision == "per-input" else "",
            pairs if self.differences else "",
            ON_ITS_OWN,
            f"{counted(self.n_skipped, 'input')} left out belong to no mean." if self.n_skipped else "",
            INCOMPLETE if self.n_to_do else "",
            "A mean says nothing about single inputs.",
            NOT_RIGHT,
        )


def _cut(entry: GroupSummary | PairedDifference) -> str:
    keep = f", keep {entry.keep_probability:g}" if entry.keep_probability != 1 else ""
    return f"{cut_label(entry.top_fraction, masks=getattr(entry, 'masks', False))}{keep}"


def _fits(entry: Any, wanted: dict[str, Any]) -> bool:
    return all(getattr(entry, name) == value for name, value in wanted.items() if value is not None)


def _only(among: tuple[_Kind, ...], wanted: dict[str, Any], what: str) -> _Kind:
    """The only entry that has what is wanted; an error that says what there is if there is no such one."""
    matching = [entry for entry in among if _fits(entry, wanted)]
    if len(matching) == 1:
        return matching[0]
    with_these = ", ".join(f"{name}={value!r}" for name, value in wanted.items() if value is not None)
    there = "; ".join(", ".join(f"{name}={getattr(entry, name)!r}" for name in wanted) for entry in among) or "none"
    must, hint = f"have exactly one with {with_these}", f"There are: {there}."
    raise InvalidValueError(argument=what, must=must, got=len(matching), hint=hint)


@dataclass(frozen=True)
class Columns:
    """The items of one group, by increasing input; n inputs, R radii, which are the study's.

    Attributes
    ----------
    totals : dict
        Model calls and seconds of all items, and of their attributions.
    rates : float array (n, R)
        Unbiased rates; the value at a radius beyond the features there are is that of the largest there is.
    all_agreed : Boolean array (n, R)
        Whether no draw at this radius changed the prediction.
    voted : dict of int arrays (n,)
        By keep probability, the radius that votes certify; as large as can be asked for if it covers
        every feature there is.
    """

    radii: tuple[int, ...]
    inputs: NDArray[np.int64]
    consistent: NDArray[np.bool_]
    totals: dict[str, Any]
    rates: NDArray[np.float64]
    all_agreed: NDArray[np.bool_]
    voted: dict[float, NDArray[np.int64]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.inputs)


def read_columns(store: Store, key: GroupKey) -> Columns:
    """The columns of one group, at the radii of the study; without rates if no single input is certified."""
    certify, keeps = store.spec.certify, store.spec.mus.keep_probabilities
    columns = ("input", "n_selected", "n_features", "consistent", *_TOTALS)
    rows = np.array(list(group_rows(store, key, ", ".join(columns))), dtype=np.float64).reshape(-1, len(columns))
    inputs, n_selected, n_features = rows[:, :3].astype(np.int64).T
    rates = all_agreed = np.zeros((len(rows), 0))
    if certify.item_radii:
        stored = group_rows(store, key, "rate_unbiased, n_agreed = n_evaluated", by_radius=True)
        flat = np.fromiter(chain.from_iterable(stored), dtype=np.float64)
        shape = (len(rows), len(certify.item_radii), 2)
        if flat.size != np.prod(shape):
            raise StoreError(f"{str(store.path)!r} has items that lack a rate for a radius of the study.")
        rates, all_agreed = flat.reshape(shape).transpose(2, 0, 1).copy()
        if np.isnan(rates).any():
            raise StoreError(f"{str(store.path)!r} has rates without an unbiased estimate; they have no mean.")
    voted: dict[float, NDArray[np.int64]] = {}
    if keeps and certify.neighborhood != "swaps":  # votes have no radius of swaps
        adds = certify.neighborhood != "removals"
        name, n_free = ("radius", n_features - n_selected) if adds else ("removal_radius", n_selected)
        votes = [json.loads(unpack_text(packed)) for (packed,) in group_rows(store, key, "mus")]
        radii = np.array([[json.loads(text)[name] for text in texts] for texts in votes], dtype=np.int64)
        radii = radii.reshape(len(rows), len(keeps))
        reach = np.where(radii >= n_free[:, None], np.iinfo(np.int64).max, radii)
        voted = dict(zip(keeps, reach.T, strict=True))
    return Columns(
        radii=certify.radii,
        inputs=inputs,
        consistent=rows[:, 3].astype(bool),
        totals={name: kind(column.sum()) for (name, kind), column in zip(_TOTALS.items(), rows.T[4:], strict=True)},
        rates=rates,
        all_agreed=all_agreed.astype(bool),
        voted=voted,
    )


def bootstrap_means(values: NDArray[Any], *, n_resamples: int, confidence: float, key: int) -> list[Interval]:
    """Percentile intervals for the mean of each column of values (n, R), by resampling rows: usual, and approximate.

    Resamples depend on the key and the number of rows only: columns, and groups over the same inputs, share them.
    """
    parts = _resamples(len(values), n_resamples, key)
    means = np.concatenate([part.astype(np.float64) @ values.astype(np.float64) for part in parts]) / len(values)
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2], axis=0)
    return list(map(Interval, low.tolist(), high.tolist()))


@lru_cache(maxsize=2)
def _resamples(n: int, n_resamples: int, key: int) -> tuple[NDArray[np.unsignedinteger[Any]], ...]:
    """How often each resample has each of n rows, in parts; groups over equally many inputs share them.

    In the smallest type that holds a row drawn n times: many resamples of many inputs are kept.
    """
    rng, step = stream(key, "bootstrap"), max(1, _TOGETHER // n)
    parts = []
    for start in range(0, n_resamples, step):
        size = min(step, n_resamples - start)
        flat = rng.integers(n, size=(size, n)) + n * np.arange(size)[:, None]
        counts = np.bincount(flat.ravel(), minlength=size * n).reshape(size, n)
        parts.append(counts.astype(np.min_scalar_type(n)))
    return tuple(parts)


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
    holdfast.errors.StoreError: 'no such file.db' does not exist; it must be a file of results.
    """
    confidence = float(check_share(confidence, "confidence"))
    n_resamples = check_whole(n_resamples, "n_resamples", minimum=1)
    bootstrap = partial(bootstrap_means, n_resamples=n_resamples, key=stream_key(rng))
    with nullcontext(results) if isinstance(results, Store) else Store(results) as store, store.snapshot():
        spec, status, curves = store.spec, status_of(store), store.means()
        certify = spec.certify
        columns = {key: read_columns(store, key) for key in spec.groups}
        certified = {key: column for key, column in columns.items() if column.rates.size}
        keys = dict.fromkeys([*certified, *curves])
        groups = [_group(key, columns[key], curves.get(key), confidence, bootstrap) for key in keys]
        groups = [replace(group, masks=spec.method(group.method).masks) for group in groups]
        if not groups:
            raise StudyError(f"{str(store.path)!r} has nothing to summarise yet. Run the study first.")
        return StudySummary(
            name=spec.name,
            model=spec.model.spec,
            data=spec.data.spec,
            precision=certify.precision,
            plan=certify.plan,
            neighborhood=certify.neighborhood,
            confidence=confidence,
            n_resamples=n_resamples,
            n_inputs=status.n_inputs,
            n_skipped=len(status.skips),
            n_given_up=status.n_given_up,
            n_to_do=status.n_to_do,
            groups=tuple(groups),
            differences=tuple(_differences(certified, confidence, bootstrap)),
            population=store.speaks_of_population,
        )


def _group(
    key: GroupKey, columns: Columns, curve: MeanCurve | None, confidence: float, bootstrap: _Bootstrap
) -> GroupSummary:
    """The means of a group: those of its columns or, if there is a mean curve, that one's with its own intervals."""
    radii, totals = np.array(columns.radii), dict(columns.totals)

    def shares(flags: NDArray[np.bool_]) -> tuple[MeanAt, ...]:
        """An input drawn at random is among them or not, so that the exact interval is that of counts."""
        counts = flags.sum(axis=0).tolist()
        sure = [clopper_pearson(count, len(flags), confidence=confidence) for count in counts]
        near = bootstrap(flags, confidence=confidence)
        return tuple(map(MeanAt, columns.radii, [count / len(flags) for count in counts], near, sure))

    if curve is None:
        near, sure = (interval(columns.rates, confidence=confidence) for interval in (bootstrap, betting_mean))
        soft = tuple(map(MeanAt, columns.radii, columns.rates.mean(axis=0).tolist(), near, sure))
    else:
        confidence = curve.confidence  # one confidence for all intervals of a group
        totals["n_calls"] += curve.n_calls
        soft = tuple(MeanAt(point.radius, point.rate, None, point.population) for point in curve)
    return GroupSummary(
        *key,
        confidence=confidence,
        n_inputs=len(columns),
        n_consistent=int(columns.consistent.sum()),
        **totals,
        soft=soft,
        hard=shares(columns.all_agreed) if curve is None else (),
        mus=tuple(MusSummary(keep, shares(reach[:, None] >= radii)) for keep, reach in columns.voted.items()),
    )


def _differences(
    groups: dict[GroupKey, Columns], confidence: float, bootstrap: _Bootstrap
) -> Iterator[PairedDifference]:
    """Every pair of methods at each fraction and keep probability, over the inputs that have both."""
    risk = 1 - check_share(confidence, "confidence")
    ordered = sorted(groups, key=lambda key: key[1:])  # stable: methods stay in the order of the study
    for _, keys in groupby(ordered, key=lambda key: key[1:]):
        pairs = list(combinations(keys, 2))
        for first, second in pairs:
            a, b = groups[first], groups[second]
            _, here, there = np.intersect1d(a.inputs, b.inputs, assume_unique=True, return_indices=True)
            if len(here) == 0:
                continue
            values = a.rates[here] - b.rates[there]
            near = bootstrap(values, confidence=confidence)
            alone, joint = (betting_mean(values, confidence=1 - risk / n, low=-1.0, high=1.0) for n in (1, len(pairs)))
            rows = tuple(map(DifferenceAt, a.radii, values.mean(axis=0).tolist(), near, alone, joint))
            yield PairedDifference(first.method, second.method, *first[1:], confidence, len(values), rows)
