"""An explanation and a model → the prediction that is to survive, and who agrees with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from holdfast.agreement import Agreement, as_agreement, prediction_of, same_top_class
from holdfast.errors import InvalidValueError
from holdfast.evaluation import Evaluator, Tally
from holdfast.neighborhood import NEIGHBORHOODS, Neighborhood
from holdfast.plans import PLANS, RATE_KINDS, Plan, make_plan
from holdfast.randomness import CANONICAL, is_canonical, stream, stream_key
from holdfast.results.certificate import Certificate, interval_around
from holdfast.types import Mask, Masks, Provenance
from holdfast.validation import check_flag, check_name, check_share

NOTHING = Tally()
"""The tally before the first draw."""


@dataclass(frozen=True)
class Settings:
    """What a certificate repeats of the question."""

    plan: str
    tolerance: Fraction
    confidence: Fraction
    neighborhood: str
    rate_kind: str
    agree: Agreement
    key: int
    is_canonical: bool
    draws: str
    check_determinism: bool

    @classmethod
    def check(
        cls,
        draws: str,
        *,
        tolerance: Any,
        confidence: Any,
        neighborhood: Any,
        agree: Any,
        check_determinism: bool,
        rng: Any,
        plan: Any,
        plans: Sequence[str] = PLANS,
        rate_kind: Any = "uniform",
    ) -> Settings:
        """The settings of a question, checked before any model call."""
        return cls(
            plan=check_name(plan, "plan", plans),
            tolerance=check_share(tolerance, "tolerance"),
            confidence=check_share(confidence, "confidence"),
            neighborhood=check_name(neighborhood, "neighborhood", NEIGHBORHOODS),
            rate_kind=check_name(rate_kind, "rate_kind", RATE_KINDS),
            agree=as_agreement(agree),
            key=0 if is_canonical(rng) else stream_key(rng),
            is_canonical=is_canonical(rng),
            draws=draws,
            check_determinism=check_flag(check_determinism, "check_determinism"),
        )

    def keyed(self, provenance: Provenance, *explanations: Mask) -> Settings:
        """The same with the key of this question, if the canonical one is asked for."""
        if not self.is_canonical:
            return self
        return replace(self, key=self.canonical_key(provenance, *explanations))

    def canonical_key(self, provenance: Provenance, *explanations: Mask) -> int:
        """The key that follows from model, input, masking, explanations and the kind of question.

        Radii, tolerance, confidence, plan and agreement do not count: who asks for others gets the same
        draws, and none to choose from. They decide only how many are drawn and how they are judged.
        """
        shown = sorted({tuple(np.flatnonzero(mask).tolist()) for mask in explanations})
        known = (provenance.model, provenance.input, provenance.masking, len(explanations[0]))
        return stream_key(CANONICAL, *known, shown, self.draws, self.neighborhood, self.rate_kind)

    def make_plan(self) -> Plan:
        """The plan asked for; searching a design may take a while, so only when all else is checked."""
        return make_plan(self.plan, tolerance=self.tolerance, confidence=self.confidence)

    def stream(self, *purpose: str | bytes) -> np.random.Generator:
        """The stream of this question for one purpose."""
        return stream(self.key, self.draws, self.neighborhood, self.rate_kind, *purpose)

    def own_stream(self, selected: Mask, *purpose: str) -> np.random.Generator:
        """The stream that belongs to one explanation."""
        return self.stream(*purpose, np.packbits(selected).tobytes())


@dataclass(frozen=True)
class Outcome:
    """A tally and the plan it was drawn by; no plan means that every mask was evaluated."""

    tally: Tally
    plan: Plan | None

    @property
    def rate(self) -> Fraction:
        """Share of agreements."""
        return Fraction(self.tally.n_agreed, self.tally.n_evaluated)

    @property
    def rate_unbiased(self) -> float | None:
        """Unbiased estimate of the true rate."""
        if self.plan is None:
            return float(self.rate)
        return self.plan.design.unbiased_rate(self.tally.n_evaluated, self.tally.n_agreed)


@dataclass(frozen=True)
class WorstOutcome(Outcome):
    """The tally of the worst size; a minimum of estimates has no known unbiased form."""

    @property
    def rate_unbiased(self) -> float | None:
        """The rate if it is exact."""
        return float(self.rate) if self.plan is None else None


class Subject:
    """What the model says of ``selected``, who agrees with it, and the nearest mask that does not.

    The explanation and the full input are computed together with the masks ``along``, in one batch.
    """

    def __init__(
        self, evaluator: Evaluator, selected: Mask, settings: Settings, *, along: Iterable[Masks] = ()
    ) -> None:
        self._evaluator = evaluator
        self._calls_before, self._repeated_before = evaluator.n_calls, evaluator.n_repeated
        self._agree = settings.agree
        self.selected = selected
        self.counterexample: Mask | None = None
        outputs = evaluator(reference_masks(selected))
        self._reference = outputs[0]
        agreed = self._agree(outputs, self._reference)
        if not agreed[0]:
            raise InvalidValueError(f"`agree` must hold between an output and itself; {self._agree.name} does not.")
        self.consistent = bool(agreed[1])
        self.prediction = prediction_of(self._reference)
        self.provenance = evaluator.provenance
        self._decides = decides_early(evaluator, self._agree)
        if settings.check_determinism:
            evaluator.check_determinism(selected)

    def judge(self, masks: Masks) -> Mask:
        """Which masks (b, n_features) keep the prediction, Boolean (b,)."""
        if self._decides:
            agreed = self._evaluator.keeps_top_class(masks, self.prediction)
        else:
            agreed = self._agree(self._evaluator(masks), self._reference)
        if not agreed.all():
            self._remember_nearest(masks[~agreed])
        return agreed

    def count(
        self,
        batches: Iterable[Masks],
        *,
        after: Tally = NOTHING,
        until_changed: bool = False,
        tell: Callable[[Tally], None] | None = None,
    ) -> Tally:
        """Tally the agreements after those known, if asked only up to the batch where the first change is seen."""
        tally = after
        for masks in batches if tell is None else self._cut(batches):
            tally += Tally(int(self.judge(masks).sum()), len(masks))
            if tell is not None:
                tell(tally)
            if until_changed and self.counterexample is not None:
                break
        return tally

    def _cut(self, batches: Iterable[Masks]) -> Iterator[Masks]:
        """The same masks in batches that the model takes at a time: whoever watches sees each of them counted."""
        size = self._evaluator.batch_size
        return (masks[start : start + size] for masks in batches for start in range(0, len(masks), size))

    def settle(self) -> int:
        """End the evaluation and tell how many rows the model computed for it."""
        self._evaluator.settle()
        return self._evaluator.n_calls - self._calls_before

    @property
    def n_repeated(self) -> int:
        """How many of those rows were computed twice."""
        return self._evaluator.n_repeated - self._repeated_before

    def counterexample_in(self, nearby: Neighborhood) -> Mask | None:
        """The nearest mask known to change the prediction, if it lies in the neighbourhood."""
        if self.counterexample is not None and nearby.contains(self.counterexample):
            return self.counterexample
        full = np.ones_like(self.selected)
        full.setflags(write=False)
        return full if not self.consistent and nearby.contains(full) else None

    def _remember_nearest(self, changing: Masks) -> None:
        distance = (changing != self.selected).sum(axis=1)
        best = self.counterexample
        if best is None or distance.min() < (best != self.selected).sum():
            self.counterexample = changing[int(distance.argmin())].copy()
            self.counterexample.setflags(write=False)


def decides_early(evaluator: Evaluator, agree: Agreement) -> bool:
    """Whether the model can tell who agrees without computing its scores in full."""
    return agree is same_top_class and evaluator.deciding is not None


def reference_masks(selected: Mask) -> Masks:
    """The explanation and the full input."""
    return np.stack([selected, np.ones_like(selected)])


def make_certificate(
    subject: Subject, nearby: Neighborhood, outcome: Outcome, settings: Settings, *, n_calls: int
) -> Certificate:
    """Write down what was asked and what was seen."""
    tally, exact = outcome.tally, outcome.plan is None
    return Certificate(
        rate=tally.n_agreed / tally.n_evaluated,
        rate_unbiased=outcome.rate_unbiased,
        interval=interval_around(tally.n_agreed, tally.n_evaluated, Fraction(0) if exact else settings.tolerance),
        n_agreed=tally.n_agreed,
        n_evaluated=tally.n_evaluated,
        n_calls=n_calls,
        n_repeated=subject.n_repeated,
        exact=exact,
        radius=nearby.radius,
        effective_radius=nearby.effective_radius,
        tolerance=float(settings.tolerance),
        confidence=float(settings.confidence),
        plan=settings.plan,
        design=outcome.plan.design if outcome.plan else None,
        rng_key=settings.key,
        prediction=subject.prediction,
        consistent=subject.consistent,
        selected=subject.selected,
        counterexample=subject.counterexample_in(
            nearby.exactly(nearby.radius) if settings.rate_kind == "exactly" else nearby
        ),
        neighborhood=settings.neighborhood,
        rate_kind=settings.rate_kind,
        agree=settings.agree.name,
        draws=settings.draws,
        provenance=subject.provenance,
    )
