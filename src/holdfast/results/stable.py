"""Decisions at decreasing sizes → a part of a ranking that is certified stable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from holdfast.bounds import check_counts
from holdfast.errors import InvalidValueError
from holdfast.results.radius import RadiusCertificate
from holdfast.results.values import Value
from holdfast.results.wording import NOT_RIGHT, calls, event, lower_first, same, unlike
from holdfast.types import Mask
from holdfast.validation import check_label, check_whole


@dataclass(frozen=True, eq=False)
class SizeStep(Value):
    """What was found at one tested size of the selection.

    ``answer`` is True if the minimum rate was certified, False if a smaller rate was, None if the
    draws could not tell. ``consistent`` says whether the full input gets the same prediction.
    """

    size: int
    answer: bool | None
    n_agreed: int
    n_evaluated: int
    exact: bool
    prediction: Any
    consistent: bool

    schema: ClassVar[str] = "holdfast.size_step"


@dataclass(frozen=True, eq=False)
class StableSelection(Value):
    """The leading features of a ranking, as many as are certified stable.

    Sizes were tested from the full set downwards, on a grid fixed in advance, each by a one-sided
    exact sequential test at the full risk, and the first that was not certified ended the search.
    With probability at least ``confidence``, every size of the trail that was certified, this one
    included, has a stability rate of at least ``min_rate``. Nothing is said about other sizes: one
    with fewer features may be stable as well.

    Attributes
    ----------
    size : int
        How many of the leading features are selected.
    certificate : RadiusCertificate
        The claim about this selection.
    trail : tuple of SizeStep
        What was found at each tested size, from the full set downwards.
    sizes : tuple of int
        The grid, in the order of the tests.
    ranking : tuple of int
        All features, the highest score first.
    needs_consistent : bool
        Whether the search also ended where the prediction differs from that on the full input.
    """

    size: int
    certificate: RadiusCertificate
    trail: tuple[SizeStep, ...]
    sizes: tuple[int, ...]
    ranking: tuple[int, ...]
    needs_consistent: bool
    method: str
    n_calls: int

    schema: ClassVar[str] = "holdfast.stable_selection"

    def check(self) -> None:
        """Raise if the fields contradict each other."""
        self.certificate.check()
        check_whole(self.n_calls, "n_calls")
        for step in self.trail:
            check_counts(step.n_agreed, step.n_evaluated)
        tested = tuple(step.size for step in self.trail)
        if tested != self.sizes[: len(tested)] or list(self.sizes) != sorted(set(self.sizes), reverse=True):
            raise InvalidValueError("`trail` must follow `sizes`, which must decrease.")
        passed = [self._passes(step) for step in self.trail]
        if not passed or not all(passed[:-1]) or (not passed[-1] and len(passed) == 1):
            raise InvalidValueError("`trail` must end at the first size that is not certified.")
        last = self.trail[len(passed) - 1 - (not passed[-1])]
        if not self.size == last.size == int(self.selected.sum()) or not self.certificate.radius:
            raise InvalidValueError("`size` must be the last certified one of the trail.")
        check_label(self.method, "method")
        if sorted(self.ranking) != list(range(len(self.selected))):
            raise InvalidValueError("`ranking` must name every feature once.")
        if not self.selected[list(self.ranking[: self.size])].all():
            raise InvalidValueError("`certificate.selected` must be the leading features of the ranking.")

    @property
    def selected(self) -> Mask:
        """The selected features, Boolean (n_features,)."""
        return self.certificate.selected

    @property
    def min_rate(self) -> float:
        """The rate that is certified."""
        return self.certificate.min_rate

    @property
    def radius(self) -> int:
        """How many more features may be revealed."""
        return self.certificate.radius

    @property
    def confidence(self) -> float:
        """Of all the claims of the trail together."""
        return self.certificate.confidence

    def _passes(self, step: SizeStep) -> bool:
        return bool(step.answer) and (step.consistent or not self.needs_consistent)

    def __str__(self) -> str:
        cost = f"({len(self.trail)} of {len(self.sizes)} sizes tested downwards, {calls(self.n_calls)})"
        wrong = "" if self.certificate.consistent else f" {unlike(self.certificate.min_rate)};"
        scope = f"it is about random masks for this model, input and masking, {NOT_RIGHT}"
        return f"{self._claim()} {cost};{wrong} {scope}; another size may be stable too."

    def _claim(self) -> str:
        n = len(self.selected)
        if self.size == n:
            return f"No part of the ranking by {self.method} short of all {n} features is certified stable"
        cert = self.certificate
        doing = lower_first(event(cert.neighborhood, "uniform", cert.trail[-1].effective_radius))
        keeps = f"keeps {same(cert.prediction, cert.agree)} in at least {cert.min_rate} of cases"
        are = "feature ranked highest by {} is" if self.size == 1 else "features ranked highest by {} are"
        leading = f"the {self.size} of {n} {are.format(self.method)} certified stable"
        return f"With confidence {cert.confidence}, {leading}: {doing} {keeps}"
