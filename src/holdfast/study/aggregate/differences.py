"""Rates of two methods on the same inputs → how much more stable one is, with intervals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from holdfast.bounds import Interval
from holdfast.certification.serialization import Value, make_frame
from holdfast.errors import InvalidValueError
from holdfast.validation import shown
from holdfast.words import bracket


@dataclass(frozen=True, eq=False)
class DifferenceAt(Value):
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

    schema: ClassVar[str] = "holdfast.difference_at"

    def better(self, *, approximate: bool = False) -> int:
        """1 if the first method is certified more stable, -1 if the second is, 0 if the data cannot tell."""
        low, high = self.approximate if approximate else self.joint
        return int(low > 0) - int(high < 0)

    def reversed(self) -> DifferenceAt:
        """The same with the methods exchanged."""
        ends = (self.approximate, self.guaranteed, self.joint)
        return DifferenceAt(self.radius, 0.0 - self.mean, *(Interval(0.0 - high, 0.0 - low) for low, high in ends))


@dataclass(frozen=True, eq=False)
class PairedDifference(Value):
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

    schema: ClassVar[str] = "holdfast.paired_difference"

    def __iter__(self) -> Iterator[DifferenceAt]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, radius: int) -> DifferenceAt:
        """The difference at one radius."""
        for one in self.rows:
            if one.radius == radius:
                return one
        there = ", ".join(str(one.radius) for one in self.rows)
        raise InvalidValueError(argument="radius", must=f"be one of {there}", got=shown(radius))

    def reversed(self) -> PairedDifference:
        """The same with the methods exchanged."""
        rows = tuple(one.reversed() for one in self.rows)
        return replace(self, first=self.second, second=self.first, rows=rows)

    def to_frame(self) -> Any:
        """A pandas ``DataFrame`` with one row per radius."""
        kinds = ("approximate", "guaranteed", "joint")
        return make_frame(
            [
                {"first": self.first, "second": self.second, "radius": one.radius, "mean": one.mean}
                | {f"{kind}_{end}": getattr(getattr(one, kind), end) for kind in kinds for end in ("low", "high")}
                for one in self.rows
            ]
        )

    def __str__(self) -> str:
        head = f"{self.first} - {self.second}, mean over {self.n_inputs} inputs (confidence {self.confidence:g}):"
        rows = [
            f"  r = {one.radius:<4} {one.mean:+.3f}  guaranteed {bracket(one.guaranteed, '+')}  "
            f"bootstrap, approximate {bracket(one.approximate, '+')}"
            for one in self.rows
        ]
        return "\n".join([head, *rows])
