"""Counts of one radius → a certificate that restates its claim in one true sentence."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from holdfast.bounds import Interval, check_counts, hoeffding_draws
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.neighborhood import NEIGHBORHOODS
from holdfast.plans import PLANS, RATE_KINDS
from holdfast.plans.design import Design
from holdfast.results.html import certificate_html
from holdfast.results.rounding import outward
from holdfast.results.values import Value
from holdfast.results.wording import NOT_RIGHT, calls, event, lower_first, repeats, same, unlike
from holdfast.types import Mask, Provenance
from holdfast.validation import check_mask, check_name, check_share, check_size, is_number

MOST_DRAWS = 10**7
"""Most draws of a certificate that can be read: each is a model call, so more would take weeks to repeat."""

DRAWS = ("single", "pooled", "paired")
"""Whom the draws were made for: one radius alone, a curve, or a comparison. They name the random stream."""


@dataclass(frozen=True, eq=False)
class Certificate(Value):
    """How often a prediction survives random changes to its explanation, with a guarantee.

    Before drawing, the probability that the whole procedure (stopping included) ends with
    |rate - true rate| ≤ tolerance was at least ``confidence``. It is about random masks near this
    explanation, of this model, input and masking. It is not a proof that no mask changes the
    prediction, does not say that the prediction is right, and is void if the seed or the settings
    were chosen after seeing results.

    Attributes
    ----------
    rate : float
        n_agreed / n_evaluated.
    rate_unbiased : float or None
        An exactly unbiased estimate, for averages over many inputs (a stopped rate leans
        towards its stopping boundary); None for ``rate_kind="worst_size"``, where none is known.
    interval : Interval
        Where the true rate lies at this confidence; a point if ``exact``.
    n_agreed, n_evaluated : int
        Draws that agreed, draws counted (repeats count each time).
    n_calls : int
        Rows this certificate needs when nothing is known before, the explanation, the full input and
        repeated rows included.
    n_repeated : int
        Rows computed twice to see whether the model is deterministic; 0 if that is assumed.
    exact : bool
        Every mask of the neighbourhood was evaluated.
    prediction : int, str, bool or float
        Class index or label on the selected features.
    consistent : bool
        Whether the full input gets the same prediction. An explanation can be stably wrong.
    counterexample : Boolean array or None
        The nearest mask seen that changes the prediction, or None.
    radius, effective_radius : int
        As asked; and clamped to the number of features that can change.
    rng_key : int
        Give it back as ``rng`` to repeat the draws.
    design : Design or None
        When the plan looked and stopped; None if every mask was evaluated.
    draws : str
        "single" for draws made for this radius alone, "pooled" for draws shared by a curve,
        "paired" for draws shared by a comparison.
    provenance : Provenance
        The masking, model and input, as far as the masked model tells.
    """

    rate: float
    rate_unbiased: float | None
    interval: Interval
    n_agreed: int
    n_evaluated: int
    n_calls: int
    n_repeated: int
    exact: bool
    radius: int
    effective_radius: int
    tolerance: float
    confidence: float
    plan: str
    design: Design | None
    rng_key: int
    prediction: Any
    consistent: bool
    selected: Mask
    counterexample: Mask | None
    neighborhood: str
    rate_kind: str
    agree: str
    draws: str
    provenance: Provenance

    schema: ClassVar[str] = "holdfast.certificate"

    def check(self) -> None:
        """Raise if the fields contradict each other."""
        n_agreed, n_evaluated = check_counts(self.n_agreed, self.n_evaluated)
        check_share(self.tolerance, "tolerance")
        check_share(self.confidence, "confidence")
        check_mask(self.selected, "selected")
        check_name(self.neighborhood, "neighborhood", NEIGHBORHOODS)
        check_name(self.rate_kind, "rate_kind", RATE_KINDS)
        check_name(self.plan, "plan", PLANS)
        check_name(self.draws, "draws", DRAWS)
        nearby = NEIGHBORHOODS[self.neighborhood](self.selected, self.radius)
        if self.effective_radius != nearby.effective_radius or self.exact != (self.design is None):
            raise InvalidValueError("`effective_radius` and `exact` must follow from the question.")
        if self.design is not None:
            check_size(self.design.max_draws, "design.looks", most=MOST_DRAWS)
            fewest = hoeffding_draws(Fraction(str(self.tolerance)), Fraction(str(self.confidence)))
            if self.plan == "hoeffding" and self.design.max_draws < fewest:
                raise InvalidValueError(f"`design` must draw {fewest} times for plan 'hoeffding'.")
            alone = self.draws == "single" and self.rate_kind != "worst_size"
            if alone and not (n_evaluated in self.design.looks and self.design.stops(n_evaluated, n_agreed)):
                raise InvalidValueError(f"`design` must stop at {n_agreed} of {n_evaluated}.")
        own = interval_around(n_agreed, n_evaluated, Fraction(0 if self.exact else str(self.tolerance)))
        inside = own.low <= self.interval.low <= self.interval.high <= own.high
        if self.rate != n_agreed / n_evaluated or not inside or (self.draws == "single" and self.interval != own):
            raise InvalidValueError(f"`rate` and `interval` must follow from {n_agreed} of {n_evaluated}.")
        changing = self.counterexample
        if changing is not None and not nearby.contains(check_mask(changing, "counterexample")):
            raise InvalidValueError("`counterexample` must lie within the radius.")

    def holds(self, rate: float) -> bool:
        """Whether the certificate shows that the true rate is at least ``rate``.

        False means "not shown", not "shown to be false". To ask about one rate from the start, a
        one-sided test is cheaper than this two-sided certificate.
        """
        if not is_number(rate):
            raise InvalidTypeError(f"`rate` must be a number from 0 to 1, got {rate!r}.")
        asked = Fraction(int(rate)) if rate in (0, 1) else check_share(rate, "rate")
        return Fraction(repr(self.interval.low)) >= asked

    def _repr_html_(self) -> str:
        return certificate_html(self)

    def __str__(self) -> str:
        return f"{self._claim()} {self._evidence()}{self._caveats()}"

    def _claim(self) -> str:
        doing = event(self.neighborhood, self.rate_kind, self.effective_radius)
        keeps = f"keeps {same(self.prediction, self.agree)}"
        if self.exact:
            exactly = "exactly " if self.n_repeated else ""
            return f"{doing} {keeps} in {exactly}{self.n_agreed} of {self.n_evaluated} cases"
        low, high = outward(self.interval)
        sure = f"With confidence {self.confidence}"
        return f"{sure}, {lower_first(doing)} {keeps} in {100 * low:g}% to {100 * high:g}% of cases"

    def _evidence(self) -> str:
        where = " at the worst" if self.rate_kind == "worst_size" else ""
        counts = f"{self.n_agreed} of {self.n_evaluated} draws agreed{where}"
        how = "every mask was evaluated" if self.exact else counts
        return f"({how}, {calls(self.n_calls)}{repeats(self.n_repeated)});"

    def _caveats(self) -> str:
        clamped = ""
        if self.effective_radius < self.radius:
            clamped = f" the radius {self.radius} was clamped to {self.effective_radius}, the largest there is;"
        wrong = "" if self.consistent else f" {unlike(self.rate)};"
        empty = "" if self.selected.any() else f" {self._emptiness()};"
        fact = "it is a fact about" if self.n_repeated else "it is about"
        meaning = fact if self.exact else "it is about random masks for"
        no_proof = "" if self.exact else ", is no proof that none of them changes the prediction"
        return f"{empty}{clamped}{wrong} {meaning} this model, input and masking{no_proof}, {NOT_RIGHT}."

    def _emptiness(self) -> str:
        same_everywhere = self.consistent and self.n_agreed == self.n_evaluated
        said = ", and the model said the same for every mask, the full input included" if same_everywhere else ""
        return f"no feature is selected{said}"


def interval_around(n_agreed: int, n_evaluated: int, tolerance: Fraction) -> Interval:
    """The rate ± tolerance within [0, 1], rounded once at the very end."""
    slack, scale = tolerance.numerator * n_evaluated, tolerance.denominator * n_evaluated
    agreed = n_agreed * tolerance.denominator
    return Interval(max(agreed - slack, 0) / scale, min(agreed + slack, scale) / scale)
