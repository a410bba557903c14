"""Agreements per size over many inputs → the mean stability rate at each radius, with its interval."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from holdfast.bounds import Interval
from holdfast.errors import InvalidValueError
from holdfast.results.frames import make_frame
from holdfast.results.rounding import outward
from holdfast.results.values import Value
from holdfast.results.wording import calls
from holdfast.validation import check_name, check_share

BOUNDS = ("hoeffding", "normal")


class MeanRate(NamedTuple):
    """The mean at one radius: for these inputs, and for the population they are a sample of."""

    radius: int
    rate: float
    interval: Interval
    population: Interval


@dataclass(frozen=True, eq=False)
class MeanCurve(Value):
    """The mean stability rate of many explanations, radius by radius; no single one is certified.

    Two means are kept apart. ``intervals`` are about these inputs: the average of their true rates.
    ``population_intervals`` are about the mean over all inputs such as these, if these were drawn
    independently; they are wider, whatever the number of draws. Each holds on its own with
    probability ``confidence``, or all of one kind at once if ``simultaneous``. With
    ``bound="hoeffding"`` that is guaranteed; ``"normal"`` is an approximation for many draws.

    Attributes
    ----------
    radii : tuple of int
        The radii.
    rates : tuple of float
        Unbiased estimates of the mean rates.
    n_inputs : int
        Inputs averaged over.
    n_consistent : int
        Explanations with the prediction of the full input. The others may be stably wrong.
    n_draws, n_calls : int
        Draws counted, and rows the models computed.
    """

    radii: tuple[int, ...]
    rates: tuple[float, ...]
    intervals: tuple[Interval, ...]
    population_intervals: tuple[Interval, ...]
    bound: str
    confidence: float
    half_width: float
    simultaneous: bool
    n_inputs: int
    n_consistent: int
    n_draws: int
    n_calls: int
    neighborhood: str
    agree: str
    rng_key: int

    schema: ClassVar[str] = "holdfast.mean_curve"

    def check(self) -> None:
        """Raise if the fields contradict each other."""
        check_name(self.bound, "bound", BOUNDS)
        check_share(self.confidence, "confidence")
        lengths = {len(column) for column in (self.radii, self.rates, self.intervals, self.population_intervals)}
        if len(lengths) != 1:
            raise InvalidValueError("`radii`, `rates` and both intervals must have one entry per radius.")

    def __iter__(self) -> Iterator[MeanRate]:
        columns = (self.radii, self.rates, self.intervals, self.population_intervals)
        return (MeanRate(*row) for row in zip(*columns, strict=True))

    def __len__(self) -> int:
        return len(self.radii)

    def __getitem__(self, radius: int) -> MeanRate:
        for one in self:
            if one.radius == radius:
                return one
        raise KeyError(radius)

    def to_frame(self) -> Any:
        """A data frame with one row per radius."""
        return make_frame(
            [
                {
                    "radius": one.radius,
                    "rate": one.rate,
                    "low": one.interval.low,
                    "high": one.interval.high,
                    "population_low": one.population.low,
                    "population_high": one.population.high,
                }
                for one in self
            ]
        )

    def __str__(self) -> str:
        sure = "guaranteed" if self.bound == "hoeffding" else "by normal approximation"
        scope = "all radii at once" if self.simultaneous else "each radius on its own"
        head = f"Mean stability rate of {self.n_inputs} explanations (confidence {self.confidence:g} {sure}, {scope}):"
        rows = [
            f"  r = {one.radius:<4} {one.rate:.3f}  these inputs {_span(one.interval)}"
            f"  population {_span(one.population)}"
            for one in self
        ]
        share = self.n_consistent / self.n_inputs
        foot = f"{calls(self.n_calls)}; {share:.1%} of the explanations have the prediction of the full input."
        condition = "The population's intervals are for inputs drawn independently from it."
        return "\n".join([head, *rows, foot, condition])


def _span(interval: Interval) -> str:
    low, high = outward(interval)
    return f"[{low:.3f}, {high:.3f}]"
