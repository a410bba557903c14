"""What a study says as a whole, as frozen values: means per radius and differences between methods."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeVar

from holdfast.bounds import Interval
from holdfast.certification.serialization import Value, make_frame
from holdfast.errors import InvalidValueError
from holdfast.study.aggregate.differences import PairedDifference
from holdfast.study.aggregate.wording import in_words
from holdfast.validation import check_share

_Kind = TypeVar("_Kind")


@dataclass(frozen=True, eq=False)
class MeanAt(Value):
    """A mean over inputs at one radius.

    Attributes
    ----------
    mean : float
        For soft rates the mean of unbiased estimates; for hard and MuS rates a share of the inputs.
    approximate : Interval or None
        The percentile bootstrap over inputs, as in the paper; for a mean curve with bound "normal", that
        approximation. None for a mean curve that is guaranteed.
    guaranteed : Interval or None
        Contains the mean over the population with probability at least the group's ``confidence``, if the
        inputs were drawn from it independently. None for a mean curve that is only approximate.
    """

    radius: int
    mean: float
    approximate: Interval | None
    guaranteed: Interval | None

    schema: ClassVar[str] = "holdfast.mean_at"


@dataclass(frozen=True, eq=False)
class MusSummary(Value):
    """Shares of inputs that votes at one keep probability certify, by radius."""

    keep_probability: float
    rates: tuple[MeanAt, ...]

    schema: ClassVar[str] = "holdfast.mus_summary"


class GroupKey(NamedTuple):
    """What the items of a group have in common."""

    method: str
    top_fraction: float
    keep_probability: float


@dataclass(frozen=True, eq=False)
class GroupSummary(Value):
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

    schema: ClassVar[str] = "holdfast.group_summary"

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
                ends = _ends("approximate", mean.approximate) | _ends("guaranteed", mean.guaranteed)
                stated = {"kind": kind, "mus_keep_probability": votes, "radius": mean.radius, "mean": mean.mean}
                yield {**self.key._asdict(), **stated, **ends, "n_inputs": self.n_inputs, "confidence": self.confidence}


def _ends(name: str, interval: Interval | None) -> dict[str, float | None]:
    low, high = (None, None) if interval is None else interval
    return {f"{name}_low": low, f"{name}_high": high}


@dataclass(frozen=True, eq=False)
class StudySummary(Value):
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

    schema: ClassVar[str] = "holdfast.study_summary"

    def check(self) -> None:
        """Raise if the fields contradict each other."""
        check_share(self.confidence, "confidence")
        keys = [group.key for group in self.groups]
        if len(set(keys)) < len(keys):
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
            statement = "and `keep_probability` must choose one of several: rank at one cut."
            raise InvalidValueError(statement, argument="top_fraction")
        signs = [difference[radius].better(approximate=approximate) for difference in chosen]
        pairs = [(difference.first, difference.second) for difference in chosen]
        return tuple(pair if sign > 0 else pair[::-1] for pair, sign in zip(pairs, signs, strict=True) if sign)

    def to_frame(self) -> Any:
        """The means as a pandas ``DataFrame``, one row per group, kind of rate and radius."""
        return make_frame([row for group in self.groups for row in group.rows()])

    def __str__(self) -> str:
        return in_words(self)


def _fits(entry: Any, wanted: dict[str, Any]) -> bool:
    return all(getattr(entry, name) == value for name, value in wanted.items() if value is not None)


def _only(among: tuple[_Kind, ...], wanted: dict[str, Any], what: str) -> _Kind:
    """The only entry that has what is wanted; an error that says what there is if there is no such one."""
    matching = [entry for entry in among if _fits(entry, wanted)]
    if len(matching) == 1:
        return matching[0]
    with_these = ", ".join(f"{name}={value!r}" for name, value in wanted.items() if value is not None)
    there = "; ".join(", ".join(f"{name}={getattr(entry, name)!r}" for name in wanted) for entry in among) or "none"
    raise InvalidValueError(
        argument=what, must=f"have exactly one with {with_these}", got=len(matching), hint=f"There are: {there}."
    )
