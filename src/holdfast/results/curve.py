"""Certificates of many radii → one curve: indexable by radius, a table, a sparkline."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, ClassVar

from holdfast.errors import InvalidValueError
from holdfast.plans import is_valid_design
from holdfast.plans.search import Goal
from holdfast.results.certificate import Certificate
from holdfast.results.frames import make_frame
from holdfast.results.html import curve_html
from holdfast.results.rounding import bracket
from holdfast.results.values import Value
from holdfast.results.wording import calls, event, lower_first, same, unlike

_BARS = "▁▂▃▄▅▆▇█"
_MOST_ROWS = 24


@dataclass(frozen=True, eq=False)
class StabilityCurve(Value):
    """Stability rates over radii, from shared model calls.

    If ``simultaneous``, all intervals contain their true rates at once with probability at least
    ``confidence``; the curve may be read as a whole. If not, each radius has that probability on
    its own, and a reader who picks a radius after seeing the curve has no guarantee.

    Attributes
    ----------
    certificates : tuple of Certificate
        One ``Certificate`` per radius asked for, by increasing radius. Their ``n_calls``
        is that of the whole curve.
    n_calls : int
        Rows the model computed for the whole curve.
    n_rounds : int
        How many times masks were sent to the model together.
    """

    certificates: tuple[Certificate, ...]
    simultaneous: bool
    n_calls: int
    n_rounds: int

    schema: ClassVar[str] = "holdfast.stability_curve"

    def check(self) -> None:
        """Raise if the certificates are not one curve."""
        if not self.certificates:
            raise InvalidValueError("`certificates` must not be empty.")
        for one in self.certificates:
            one.check()
        questions = {(one.rng_key, one.tolerance, one.confidence, one.rate_kind) for one in self.certificates}
        if len(questions) > 1 or list(self.radii) != sorted(set(self.radii)):
            raise InvalidValueError("`certificates` must answer one question at increasing radii.")
        designs = [one.design for one in self.certificates if one.design is not None]
        if len(set(designs)) > 1:
            raise InvalidValueError("`design` must be the same at every radius.")
        goal = Goal(Fraction(str(self.certificates[0].tolerance)), self._risk_of_one(len(designs)))
        if not all(is_valid_design(one, goal) for one in set(designs)):
            raise InvalidValueError("`design` must be proven for the risk that each radius has.")

    def _risk_of_one(self, n_sampled: int) -> Fraction:
        risk = 1 - Fraction(str(self.certificates[0].confidence))
        return risk / max(1, n_sampled) if self.simultaneous else risk

    @property
    def radii(self) -> tuple[int, ...]:
        """The radii asked for."""
        return tuple(one.radius for one in self.certificates)

    @property
    def rates(self) -> tuple[float, ...]:
        """The rate at each radius."""
        return tuple(one.rate for one in self.certificates)

    def __iter__(self) -> Iterator[Certificate]:
        return iter(self.certificates)

    def __len__(self) -> int:
        return len(self.certificates)

    def __getitem__(self, radius: int) -> Certificate:
        """The certificate of one radius."""
        for one in self.certificates:
            if one.radius == radius:
                return one
        raise InvalidValueError(f"`radius` must be one of {', '.join(map(str, self.radii))}, got {radius!r}.")

    def to_frame(self) -> Any:
        """The curve as a pandas ``DataFrame``, one row per radius."""
        names = [
            f.name for f in fields(Certificate) if f.name not in ("interval", "design", "selected", "counterexample")
        ]
        rows = [
            {name: getattr(one, name) for name in names} | {"low": one.interval.low, "high": one.interval.high}
            for one in self.certificates
        ]
        return make_frame(rows)

    def _repr_html_(self) -> str:
        return curve_html(self)

    def __str__(self) -> str:
        last = self.certificates[-1]
        scope = "for all radii at once" if self.simultaneous else "for each radius on its own"
        doing = lower_first(event(last.neighborhood, last.rate_kind, "r")).rstrip(",")
        head = f"{sparkline(self.rates)}  how often {same(last.prediction, last.agree)} is kept when {doing}, {scope}"
        wrong = [] if last.consistent else [f"Beware: {unlike(last.rate)}."]
        foot = f"±{last.tolerance} at confidence {last.confidence}; {calls(self.n_calls)}."
        return "\n".join([head, " radius    rate  interval          agreed/drawn", *self._rows(), *wrong, foot])

    def _rows(self) -> Iterator[str]:
        step = -(-len(self) // _MOST_ROWS)
        shown = self.certificates[::-step][::-1]
        if step > 1:
            yield f"  (every {step}{'nd' if step == 2 else 'rd' if step == 3 else 'th'} radius)"
        for one in shown:
            counts = f"{one.n_agreed:>6}/{one.n_evaluated:<6}" + (" exact" if one.exact else "")
            yield f"{one.radius:>7}  {one.rate:6.3f}  {bracket(one.interval):<16}  {counts}".rstrip()


def sparkline(rates: tuple[float, ...]) -> str:
    """Rates in [0, 1] as a row of bars.

    Examples
    --------
    >>> sparkline((0.0, 0.5, 1.0))
    '▁▅█'
    """
    return "".join(_BARS[min(len(_BARS) - 1, int(rate * len(_BARS)))] for rate in rates)
