"""Counts of a hard question → a certificate: a proof, a refutation, or Theorem 2 of the paper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from holdfast.bounds import check_counts
from holdfast.errors import InvalidValueError
from holdfast.neighborhood import NEIGHBORHOODS
from holdfast.results.values import Value
from holdfast.results.wording import NOT_RIGHT, STABLY_WRONG, event, lower_first, same
from holdfast.types import Mask, Provenance
from holdfast.validation import check_mask, check_name, check_whole


@dataclass(frozen=True, eq=False)
class HardCertificate(Value):
    """How far an explanation can be changed with no change of the prediction at all.

    Attributes
    ----------
    method : str
        "enumeration" (a proof), or "sampling" (Theorem 2 of the paper: a probability).
    stable : bool
        No mask that was evaluated changes the prediction.
    radius : int
        The radius this certificate vouches for; 0 if it vouches for none.
    requested_radius, effective_radius : int
        As asked; and clamped to the features that can change.
    tolerance, confidence : float or None
        For "sampling", a fresh random mask changes the prediction with probability
        at most ``tolerance``, at this confidence; None for a proof.
    """

    method: str
    stable: bool
    radius: int
    requested_radius: int
    effective_radius: int
    tolerance: float | None
    confidence: float | None
    n_agreed: int
    n_evaluated: int
    n_calls: int
    rng_key: int
    prediction: Any
    consistent: bool
    selected: Mask
    counterexample: Mask | None
    neighborhood: str
    agree: str
    provenance: Provenance

    schema: ClassVar[str] = "holdfast.hard_certificate"

    def check(self) -> None:
        """Raise if the fields contradict each other."""
        check_mask(self.selected, "selected")
        check_name(self.neighborhood, "neighborhood", NEIGHBORHOODS)
        check_name(self.method, "method", ["enumeration", "sampling"])
        for name in ("radius", "requested_radius", "effective_radius", "n_calls"):
            check_whole(getattr(self, name), name)
        n_agreed, n_evaluated = check_counts(self.n_agreed, self.n_evaluated)
        known_change = self.counterexample is not None
        if self.stable == known_change or (self.stable and n_agreed < n_evaluated):
            raise InvalidValueError("`stable` must be false exactly if a mask that changes the prediction is known.")
        if self.radius != self.requested_radius if self.stable else self.radius >= self.requested_radius:
            raise InvalidValueError("`radius` must be the requested one if stable, and smaller if not.")

    @property
    def exact(self) -> bool:
        """Whether the answer is a proof."""
        return self.method == "enumeration" or not self.stable

    def __str__(self) -> str:
        counts = f"({self.n_agreed} of {self.n_evaluated} agreed, {self.n_calls} model calls)"
        wrong = "" if self.consistent else f"; {STABLY_WRONG}"
        return f"{self._claim()} {counts}{wrong}; {self._scope()}."

    def _claim(self) -> str:
        doing, what = event(self.neighborhood, "uniform", self.effective_radius), same(self.prediction, self.agree)
        if not self.stable:
            return f"{doing} can change {what}: {self._refutation()}"
        if self.method == "enumeration":
            return f"{doing} never changes {what}"
        risk = f"with probability at most {self.tolerance}"
        return f"With confidence {self.confidence}, {lower_first(doing)} at random changes {what} {risk}"

    def _refutation(self) -> str:
        changed = 0 if self.counterexample is None else int((self.counterexample != self.selected).sum())
        found = f"a mask that differs in {changed} {'feature' if changed == 1 else 'features'} does"
        return f"{found}, none within radius {self.radius} does" if self.radius else found

    def _scope(self) -> str:
        if self.exact:
            return f"it is a fact about this model, input and masking, {NOT_RIGHT}"
        return f"it is a statement about probability, no proof that no such change exists, {NOT_RIGHT}"
