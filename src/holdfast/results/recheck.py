"""A certificate and a second run of its draws → whether the counts are the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from holdfast.results.certificate import Certificate
from holdfast.results.values import Value


@dataclass(frozen=True, eq=False)
class Recheck(Value):
    """What became of a certificate's counts when its draws were repeated.

    Attributes
    ----------
    certificate : Certificate
        What was claimed.
    repeated : Certificate
        What the same draws give now.
    same_model, same_input : bool or None
        Whether the fingerprints agree; None if one of them is unknown.
    smallest_margins : tuple of float
        The smallest gaps between the two largest scores among the repeated masks. Where counts
        differ and these are near zero, a tie in the model's arithmetic is the likely reason.
    """

    certificate: Certificate
    repeated: Certificate
    same_model: bool | None
    same_input: bool | None
    smallest_margins: tuple[float, ...]

    schema: ClassVar[str] = "holdfast.recheck"

    @property
    def confirmed(self) -> bool:
        """Whether the counts, the prediction and all known fingerprints agree."""
        before, now = self.certificate, self.repeated
        same = (before.n_agreed, before.n_evaluated) == (now.n_agreed, now.n_evaluated)
        known = self.same_model is not False and self.same_input is not False
        return same and known and before.prediction == now.prediction and before.consistent == now.consistent

    def __str__(self) -> str:
        before, now = self.certificate, self.repeated
        counts = f"{before.n_agreed} of {before.n_evaluated} agreed then, {now.n_agreed} of {now.n_evaluated} now"
        if self.confirmed:
            return f"Confirmed: {counts}."
        reasons = [
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
