"""A certificate and a second run of its draws → whether the counts are the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from holdfast.results.certificate import Certificate
from holdfast.results.values import Value

_REPEATED = ("n_agreed", "n_evaluated", "rate", "rate_unbiased", "exact", "prediction", "consistent")


@dataclass(frozen=True, eq=False)
class Recheck(Value):
    """What became of a certificate's counts when its draws were repeated.

    Attributes
    ----------
    certificate : Certificate
        What was claimed.
    repeated : Certificate
        What the same draws give now.
    proven : bool
        Whether the stored design keeps the stated tolerance and confidence.
    same_model, same_input : bool or None
        Whether the fingerprints agree; None if one of them is unknown.
    smallest_margins : tuple of float
        The smallest gaps between the two largest scores among the repeated masks. Where counts
        differ and these are near zero, a tie in the model's arithmetic is the likely reason.
    """

    certificate: Certificate
    repeated: Certificate
    proven: bool
    same_model: bool | None
    same_input: bool | None
    smallest_margins: tuple[float, ...]

    schema: ClassVar[str] = "holdfast.recheck"

    @property
    def confirmed(self) -> bool:
        """Whether everything stated follows from the repeated draws, and all known fingerprints agree."""
        before, now = self.certificate, self.repeated
        same = all(getattr(before, name) == getattr(now, name) for name in _REPEATED)
        known = self.same_model is not False and self.same_input is not False
        return self.proven and known and same and self._interval_follows

    @property
    def _interval_follows(self) -> bool:
        """An interval must be that of the counts; a curve's may be narrower by what other radii imply."""
        stated, found = self.certificate.interval, self.repeated.interval
        if self.certificate.draws == "pooled" and self.certificate.rate_kind == "uniform":
            return found.low <= stated.low <= stated.high <= found.high
        return stated == found

    def __str__(self) -> str:
        before, now = self.certificate, self.repeated
        counts = f"{before.n_agreed} of {before.n_evaluated} agreed then, {now.n_agreed} of {now.n_evaluated} now"
        if self.confirmed:
            note = "" if before.interval == now.interval else f"; the draws of this radius alone show {now.interval}"
            return f"Confirmed: {counts}{note}."
        reasons = [
            "" if self.proven else "its design does not keep the stated tolerance and confidence",
            "" if self._interval_follows else "its interval does not follow from the counts",
            "the model is another one" if self.same_model is False else "",
            "the input is another one" if self.same_input is False else "",
            f"the prediction was {before.prediction!r} and is {now.prediction!r}"
            if before.prediction != now.prediction
            else "",
            f"smallest margins of the scores: {', '.join(f'{m:.3g}' for m in self.smallest_margins)}"
            if self.smallest_margins
            else "",
        ]
        return "; ".join(["Not confirmed: " + counts, *(reason for reason in reasons if reason)]) + "."
