"""Certificates of one explanation under several fills → how much the answer depends on the fill."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from holdfast.errors import InvalidValueError
from holdfast.results.certificate import Certificate
from holdfast.results.frames import make_frame
from holdfast.results.rounding import bracket
from holdfast.results.values import Value
from holdfast.results.wording import NOT_RIGHT, calls, event, lower_first


@dataclass(frozen=True, eq=False)
class FillSensitivity(Value):
    """How the stability of one explanation moves with what hidden features look like.

    Each certificate holds on its own at its confidence; nothing is promised of all of them at once
    beyond ``joint_confidence``, and nothing of a fill picked after seeing them. A rate that moves
    says that the explanation's stability is partly a property of the fill, not of the model alone.

    Attributes
    ----------
    names : tuple of str
        A name per fill, in the order asked.
    certificates : tuple of Certificate
        One per fill, from the same draws of masks.
    n_calls : int
        Rows the models computed in all.
    """

    names: tuple[str, ...]
    certificates: tuple[Certificate, ...]
    n_calls: int

    schema: ClassVar[str] = "holdfast.fill_sensitivity"

    def check(self) -> None:
        """Raise if the fields contradict each other."""
        if not self.names or len(set(self.names)) != len(self.names) or len(self.names) != len(self.certificates):
            raise InvalidValueError("`names` must be distinct, one per certificate, at least one.")
        for one in self.certificates:
            one.check()

    @property
    def rates(self) -> tuple[float, ...]:
        """The rate under each fill."""
        return tuple(one.rate for one in self.certificates)

    @property
    def predictions(self) -> tuple[Any, ...]:
        """The prediction on the selected features under each fill."""
        return tuple(one.prediction for one in self.certificates)

    @property
    def spread(self) -> float:
        """The largest rate minus the smallest, as observed."""
        return max(self.rates) - min(self.rates)

    @property
    def same_prediction(self) -> bool:
        """Whether the selected features alone get the same prediction under every fill."""
        return all(one == self.predictions[0] for one in self.predictions)

    @property
    def joint_confidence(self) -> float:
        """With at least this probability all intervals hold at once; exact rates cost nothing (union bound)."""
        risk = sum(1 - Fraction(repr(one.confidence)) for one in self.certificates if not one.exact)
        return float(max(Fraction(0), 1 - risk))

    def __iter__(self) -> Iterator[Certificate]:
        return iter(self.certificates)

    def __len__(self) -> int:
        return len(self.certificates)

    def __getitem__(self, name: str) -> Certificate:
        """The certificate of one fill."""
        if name not in self.names:
            raise InvalidValueError(f"`name` must be one of {', '.join(self.names)}, got {name!r}.")
        return self.certificates[self.names.index(name)]

    def to_frame(self) -> Any:
        """A pandas ``DataFrame``, one row per fill."""
        return make_frame([_cells(name, one) for name, one in self._pairs()])

    def __str__(self) -> str:
        first = self.certificates[0]
        doing = lower_first(event(first.neighborhood, first.rate_kind, first.effective_radius)).rstrip(",")
        width = max(len("fill"), *map(len, self.names))
        head = f"How often the prediction is kept when {doing}, under {self._count('fill')}"
        titles = f"{'fill':>{width}}    rate  interval          agreed/drawn  prediction"
        rows = [f"{name:>{width}}  {_line(one)}" for name, one in self._pairs()]
        return "\n".join([head, titles, *rows, self._movement(), self._guarantee()])

    def _pairs(self) -> Iterator[tuple[str, Certificate]]:
        return zip(self.names, self.certificates, strict=True)

    def _count(self, noun: str) -> str:
        return f"{len(self)} {noun}" + ("" if len(self) == 1 else "s")

    def _movement(self) -> str:
        moved = f"The rate goes from {min(self.rates):.3f} to {max(self.rates):.3f}"
        if self.same_prediction:
            return f"{moved}; the prediction on the selected features is {self.predictions[0]!r} under every fill."
        return f"{moved}; the prediction on the selected features changes with the fill."

    def _guarantee(self) -> str:
        holds = f"Each of the {self._count('certificate')} holds on its own"
        if not all(one.exact for one in self.certificates):
            tolerance, confidence = self.certificates[0].tolerance, self.certificates[0].confidence
            joint = math.floor(1000 * self.joint_confidence) / 1000
            holds += f" (±{tolerance} at confidence {confidence}; all at once only at {joint:g})"
        return f"{holds}, for its fill, {NOT_RIGHT}; {calls(self.n_calls)}."


def _cells(name: str, one: Certificate) -> dict[str, Any]:
    return {
        "fill": name,
        "rate": one.rate,
        "low": one.interval.low,
        "high": one.interval.high,
        "exact": one.exact,
        "prediction": one.prediction,
        "consistent": one.consistent,
        "n_agreed": one.n_agreed,
        "n_evaluated": one.n_evaluated,
        "n_calls": one.n_calls,
        "masking": one.provenance.masking,
    }


def _line(one: Certificate) -> str:
    counts = f"{one.n_agreed}/{one.n_evaluated}" + (" exact" if one.exact else "")
    unlike = "" if one.consistent else ", unlike the full input"
    return f"{one.rate:6.3f}  {bracket(one.interval):<16}  {counts:<12}  {one.prediction!r}{unlike}"
