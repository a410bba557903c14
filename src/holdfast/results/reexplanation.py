"""Explanations of one prediction made again and again → how much they and their stability differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from holdfast.bounds import Interval
from holdfast.errors import InvalidValueError
from holdfast.results.attribution import Attribution
from holdfast.results.certificate import Certificate
from holdfast.results.values import Value
from holdfast.results.wording import NOT_RIGHT, calls, event
from holdfast.types import Mask


@dataclass(frozen=True, eq=False)
class Reexplanation(Value):
    """How far repeated explanations of one prediction agree, and how far their stability rates differ.

    Two statements, each true with probability at least ``confidence``. The expected overlap of two
    fresh explanations lies in ``overlap_interval`` (Hoeffding's inequality for U-statistics). The
    true rates of the selections that were made differ by an amount in ``rate_spread_interval``
    (exact binomial intervals for all of them at once).

    Attributes
    ----------
    attributions : tuple of Attribution
        One per repeat.
    certificates : tuple of Certificate
        One per distinct selection, each with its own guarantee.
    which : tuple of int
        For each repeat the number of its certificate.
    rate_intervals : tuple of Interval
        Intervals of the rates, one per certificate, that hold all at once.
    overlap : float
        Mean Jaccard index, shared over joint features, of all pairs of repeats; 1 for two empty ones.
    overlap_interval : Interval
        Where its expectation lies; a point if the method draws nothing at random.
    overlap_error : float or None
        Approximate standard error of the overlap (jackknife), without a guarantee; None for two repeats.
    n_calls : int
        Rows the model computed in all.
    """

    method: str
    attributions: tuple[Attribution, ...]
    certificates: tuple[Certificate, ...]
    which: tuple[int, ...]
    rate_intervals: tuple[Interval, ...]
    overlap: float
    overlap_interval: Interval
    overlap_error: float | None
    confidence: float
    n_calls: int
    rng_key: int

    schema: ClassVar[str] = "holdfast.reexplanation"

    def check(self) -> None:
        """Raise if the fields contradict each other."""
        if len(self.attributions) < 2 or len(self.which) != len(self.attributions):
            raise InvalidValueError("`which` must name the certificate of each of at least two attributions.")
        if set(self.which) != set(range(len(self.certificates))) or len(self.rate_intervals) != len(self.certificates):
            raise InvalidValueError("`certificates` must be one per distinct selection, and so must `rate_intervals`.")
        for one in (*self.attributions, *self.certificates):
            one.check()
        if not 0 <= self.overlap_interval.low <= self.overlap <= self.overlap_interval.high <= 1:
            raise InvalidValueError("`overlap` must lie in its interval.")

    @property
    def n_repeats(self) -> int:
        """How often the prediction was explained."""
        return len(self.attributions)

    @property
    def selections(self) -> tuple[Mask, ...]:
        """The selected features of each repeat."""
        return tuple(self.certificates[i].selected for i in self.which)

    @property
    def rates(self) -> tuple[float, ...]:
        """The stability rate of each repeat, as observed."""
        return tuple(self.certificates[i].rate for i in self.which)

    @property
    def rate_spread(self) -> float:
        """The largest rate minus the smallest, as observed."""
        return max(self.rates) - min(self.rates)

    @property
    def rate_spread_interval(self) -> Interval:
        """Where the largest true rate minus the smallest lies."""
        if len(self.certificates) == 1:
            return Interval(0.0, 0.0)
        lows, highs = zip(*self.rate_intervals, strict=True)
        return Interval(max(0.0, max(lows) - min(highs)), max(highs) - min(lows))

    @property
    def n_consistent(self) -> int:
        """Repeats whose selection gets the prediction of the full input."""
        return sum(self.certificates[i].consistent for i in self.which)

    def __str__(self) -> str:
        # Selections of unlike size may leave unlike numbers of features to reveal.
        widest = max(self.certificates, key=lambda one: one.effective_radius)
        doing = event(widest.neighborhood, widest.rate_kind, widest.effective_radius)
        return (
            f"{self.method}, {self.n_repeats} times: two selections share {self.overlap:.0%} of their features on "
            f"average ({self._shared()}). {doing} keeps the prediction in {min(self.rates):.1%} to "
            f"{max(self.rates):.1%} of cases ({self._apart()}). {self.n_consistent} of {self.n_repeats} selections get "
            f"the full input's prediction; {calls(self.n_calls)}. It is about this model, input and masking, "
            f"{NOT_RIGHT}."
        )

    def _shared(self) -> str:
        low, high = self.overlap_interval
        if low == high:
            return "the method draws nothing at random"
        return f"expected: {low:.0%} to {high:.0%} with confidence {self.confidence}"

    def _apart(self) -> str:
        low, high = self.rate_spread_interval
        if len(self.certificates) == 1:
            return "all selections are the same"
        return (
            f"the true rates of {len(self.certificates)} distinct selections differ by {low:.2f} to {high:.2f} "
            f"with confidence {self.confidence}"
        )
