"""Curves of several explanations → differences with intervals, and a ranking of what is certified."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

from holdfast.bounds import Interval
from holdfast.errors import InvalidValueError
from holdfast.results.curve import StabilityCurve, sparkline
from holdfast.results.frames import make_frame
from holdfast.results.html import comparison_html
from holdfast.results.values import Value
from holdfast.results.wording import calls
from holdfast.validation import check_label


@dataclass(frozen=True, eq=False)
class Difference(Value):
    """How much larger the rate of ``first`` is than that of ``second`` at one radius.

    ``estimate`` is unbiased; ``paired`` says that the interval comes from the draws on which the two
    disagree, not from the two rates' own intervals.
    """

    first: str
    second: str
    radius: int
    estimate: float
    interval: Interval
    paired: bool

    schema: ClassVar[str] = "holdfast.difference"

    @property
    def better(self) -> str | None:
        """The explanation certified to be more stable, or None if the draws cannot tell."""
        if self.interval.low > 0:
            return self.first
        return self.second if self.interval.high < 0 else None

    @property
    def worse(self) -> str | None:
        """The explanation certified to be less stable, or None if the draws cannot tell."""
        if self.better is None:
            return None
        return self.second if self.better == self.first else self.first


@dataclass(frozen=True, eq=False)
class Comparison(Value):
    """Which of several explanations of one prediction is more stable.

    With probability at least ``confidence`` all ``differences`` lie in their intervals at once, so
    every claim of ``ranking`` is true. The rates' own intervals hold at that confidence each on its
    own, or all at once if the curves are ``simultaneous``.
    """

    names: tuple[str, ...]
    curves: tuple[StabilityCurve, ...]
    differences: tuple[Difference, ...]
    confidence: float
    n_calls: int
    n_rounds: int

    schema: ClassVar[str] = "holdfast.comparison"

    def check(self) -> None:
        """Raise if the parts do not belong together."""
        if len(self.names) != len(self.curves) or len(self.names) < 2:
            raise InvalidValueError("`curves` must be one per name, at least two.")
        for name in self.names:
            check_label(name, "names")
        for curve in self.curves:
            curve.check()
        pairs = {(one.first, one.second, one.radius) for one in self.differences}
        if pairs != {(a, b, radius) for a, b in combinations(self.names, 2) for radius in self.radii}:
            raise InvalidValueError("`differences` must be one per pair and radius.")

    @property
    def radii(self) -> tuple[int, ...]:
        """The radii compared."""
        return self.curves[0].radii

    def curve(self, name: str) -> StabilityCurve:
        """The curve of one explanation."""
        if name not in self.names:
            raise InvalidValueError(f"`name` must be one of {', '.join(self.names)}, got {name!r}.")
        return self.curves[self.names.index(name)]

    def __iter__(self) -> Iterator[Difference]:
        return iter(self.differences)

    def __len__(self) -> int:
        return len(self.differences)

    def __getitem__(self, radius: int) -> tuple[Difference, ...]:
        """All differences at one radius."""
        if radius not in self.radii:
            raise InvalidValueError(f"`radius` must be one of {', '.join(map(str, self.radii))}, got {radius!r}.")
        return tuple(one for one in self.differences if one.radius == radius)

    def ranking(self, radius: int) -> tuple[tuple[str, str], ...]:
        """All pairs (more stable, less stable) that are certified at this radius."""
        return tuple((one.better, one.worse) for one in self[radius] if one.better and one.worse)

    def to_frame(self) -> Any:
        """The differences as a pandas ``DataFrame``, one row per pair and radius."""
        return make_frame(
            [
                {
                    "first": one.first,
                    "second": one.second,
                    "radius": one.radius,
                    "estimate": one.estimate,
                    "low": one.interval.low,
                    "high": one.interval.high,
                    "better": one.better,
                }
                for one in self.differences
            ]
        )

    def _repr_html_(self) -> str:
        return comparison_html(self)

    def __str__(self) -> str:
        width = max(map(len, self.names))
        head = " " * width + "  " + "".join(f"{f'r={radius}':>8}" for radius in self.radii)
        rows = [f"{name:>{width}}  {_cells(curve)}  {_wrong(curve)}" for name, curve in self._pairs()]
        claims = [f"r={radius}: {self._claims(radius)}" for radius in self.radii]
        foot = f"All claims hold together with confidence {self.confidence}; {calls(self.n_calls)}."
        return "\n".join([head, *rows, *claims, foot])

    def _pairs(self) -> Iterator[tuple[str, StabilityCurve]]:
        return zip(self.names, self.curves, strict=True)

    def _claims(self, radius: int) -> str:
        known = [f"{better} > {worse}" for better, worse in self.ranking(radius)]
        return ", ".join(known) or "cannot tell them apart"


def _cells(curve: StabilityCurve) -> str:
    return "".join(f"{rate:8.3f}" for rate in curve.rates) + "  " + sparkline(curve.rates)


def _wrong(curve: StabilityCurve) -> str:
    first = curve.certificates[0]
    return f"predicts {first.prediction!r}" + ("" if first.consistent else ", unlike the full input")
