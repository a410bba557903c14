"""A masked model, an explanation and a radius → a certificate (Theorems 1 and 2 of the paper)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from holdfast.agreement import Agreement, as_agreement
from holdfast.errors import InvalidValueError
from holdfast.evaluation import Evaluator, Tally, evaluating
from holdfast.neighborhood import NEIGHBORHOODS, Neighborhood
from holdfast.plans import Plan, make_plan
from holdfast.randomness import stream, stream_key
from holdfast.results import Certificate, HardCertificate
from holdfast.types import Mask, MaskedModel, Masks, Progress, Rng
from holdfast.validation import check_mask, check_name, check_share, check_whole

RATE_KINDS = ("uniform", "exactly", "worst_size")

_ROUND_BYTES = 1 << 26
"""Most memory for masks drawn at a time."""


def certify(
    model: MaskedModel,
    selected: Any,
    *,
    radius: int,
    tolerance: float = 0.1,
    confidence: float = 0.9,
    plan: str = "sequential",
    agree: Any = "same_top_class",
    neighborhood: str = "additions",
    rate_kind: str = "uniform",
    batch_size: int | None = None,
    progress: Progress | bool | None = None,
    check_determinism: bool = True,
    rng: Rng = None,
) -> Certificate:
    """Certify how often the prediction survives when up to ``radius`` more features are revealed.

    The stability rate τ is the share of all masks within the radius on which the model agrees with
    its prediction on ``selected``. With probability at least ``confidence`` over the draws, the
    returned ``rate`` is within ``tolerance`` of τ. When there are no more masks than the plan could
    draw, all are evaluated and the rate is exact.

    This is a statement about random masks: rare changes that flip the prediction may exist (see
    ``counterexample``), and a stable explanation may still belong to a wrong prediction
    (see ``consistent``).

    Parameters
    ----------
    model : function of masks (b, n_features); see ``mask_function``.
    selected : Boolean (n_features,), the explanation.
    radius : largest number of changes; clamped to the number of features that can change.
    plan : "sequential" (fewest calls), "exact" (fixed number), "hoeffding" (the paper's number).
    agree : "same_top_class", ``same_top_set(k)``, ``within(margin)`` or a function of
        (outputs (b, ...), reference) that returns Boolean (b,).
    neighborhood : "additions", "removals" or "swaps".
    rate_kind : "uniform" (all masks within the radius), "exactly" (``radius`` changes exactly) or
        "worst_size" (the smallest rate over the sizes 1 … radius).
    batch_size : most rows per model call; never changes the result.
    progress : True for a bar, or a function of (rows computed, most rows expected).
    check_determinism : repeat one row and raise if the answer differs. If False, a random model is
        certified as the function that happens to be drawn.
    rng : seed, generator or None; ``rng_key`` of the certificate repeats the draws.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import certify, mask_function
    >>> model = mask_function(lambda masks: masks[:, 0] | (masks.sum(axis=1) > 15), n_features=20)
    >>> selected = np.arange(20) < 4
    >>> cert = certify(model, selected, radius=5, rng=0)
    >>> cert.rate, cert.holds(0.9)
    (1.0, True)
    """
    check_name(rate_kind, "rate_kind", RATE_KINDS)
    check_name(neighborhood, "neighborhood", NEIGHBORHOODS)
    made, judge, key = make_plan(plan, tolerance=tolerance, confidence=confidence), as_agreement(agree), stream_key(rng)
    check_whole(radius, "radius")
    with evaluating(model, batch_size=batch_size, progress=progress) as evaluator:
        mask = check_mask(selected, "selected", n_features=evaluator.n_features)
        nearby = NEIGHBORHOODS[neighborhood](mask, radius)
        subject = _Subject(evaluator, mask, judge, check_determinism=check_determinism)
        outcome = _estimate(nearby, made, subject, key=key, rate_kind=rate_kind)
        return Certificate(
            rate=outcome.tally.n_agreed / outcome.tally.n_evaluated,
            rate_unbiased=outcome.rate_unbiased,
            n_agreed=outcome.tally.n_agreed,
            n_evaluated=outcome.tally.n_evaluated,
            n_calls=subject.n_calls,
            exact=outcome.exact,
            radius=nearby.radius,
            effective_radius=nearby.effective_radius,
            tolerance=float(made.tolerance),
            confidence=float(made.confidence),
            plan=plan,
            design=outcome.plan.design if outcome.plan else None,
            rng_key=key,
            prediction=subject.prediction,
            consistent=subject.consistent,
            selected=mask,
            counterexample=subject.counterexample,
            neighborhood=neighborhood,
            rate_kind=rate_kind,
            agree=judge.name,
        )


def certify_hard(
    model: MaskedModel,
    selected: Any,
    *,
    radius: int,
    tolerance: float = 0.1,
    confidence: float = 0.9,
    agree: Any = "same_top_class",
    neighborhood: str = "additions",
    max_enumerated: int | None = None,
    batch_size: int | None = None,
    progress: Progress | bool | None = None,
    check_determinism: bool = True,
    rng: Rng = None,
) -> HardCertificate:
    """Certify that no change within ``radius`` was found to alter the prediction (Theorem 2).

    If all of n draws agree, n the smallest with (1 - tolerance)ⁿ ≤ 1 - confidence, a fresh random
    mask changes the prediction with probability at most ``tolerance``, at this confidence. That is a
    statement about probability, not a proof. If the neighbourhood has at most ``max_enumerated``
    masks (by default, as many as would be drawn), all are evaluated, nearest first, and the answer
    is a proof. One mask that changes the prediction settles the question either way.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import certify_hard, mask_function
    >>> model = mask_function(lambda masks: masks[:, 0], n_features=20)
    >>> hard = certify_hard(model, np.arange(20) < 4, radius=1, rng=0)
    >>> hard.method, hard.stable, hard.radius
    ('enumeration', True, 1)
    """
    eps, sure = check_share(tolerance, "tolerance"), check_share(confidence, "confidence")
    check_name(neighborhood, "neighborhood", NEIGHBORHOODS)
    check_whole(radius, "radius")
    judge, key, n_draws = as_agreement(agree), stream_key(rng), _hard_draws(eps, 1 - sure)
    affordable = n_draws if max_enumerated is None else check_whole(max_enumerated, "max_enumerated")
    with evaluating(model, batch_size=batch_size, progress=progress) as evaluator:
        mask = check_mask(selected, "selected", n_features=evaluator.n_features)
        nearby = NEIGHBORHOODS[neighborhood](mask, radius)
        subject = _Subject(evaluator, mask, judge, check_determinism=check_determinism)
        proof = not nearby.is_larger_than(affordable)
        subject.expect(affordable if proof else n_draws)
        draws = _portions(nearby, n_draws, subject.stream(nearby, key, "hard"))
        tally = subject.count_until_changed(nearby.enumerate(subject.portion) if proof else draws)
        stable = subject.counterexample is None
        return HardCertificate(
            method="enumeration" if proof else "sampling",
            stable=stable,
            radius=_vouched_radius(nearby, subject.counterexample, proof=proof),
            requested_radius=nearby.radius,
            effective_radius=nearby.effective_radius,
            tolerance=None if proof else float(eps),
            confidence=None if proof else float(sure),
            n_agreed=tally.n_agreed,
            n_evaluated=tally.n_evaluated,
            n_calls=subject.n_calls,
            rng_key=key,
            prediction=subject.prediction,
            consistent=subject.consistent,
            selected=mask,
            counterexample=subject.counterexample,
            neighborhood=neighborhood,
            agree=judge.name,
        )


class _Subject:
    """The prediction that is to survive: what the model says of ``selected``, and who agrees."""

    def __init__(self, evaluator: Evaluator, selected: Mask, agree: Agreement, *, check_determinism: bool) -> None:
        self._evaluator = evaluator
        self._calls_before = evaluator.n_calls
        self._agree = agree
        self.selected = selected
        self.counterexample: Mask | None = None
        outputs = evaluator(np.stack([selected, np.ones_like(selected)]))
        self._reference = outputs[0]
        agreed = agree(outputs, self._reference)
        if not agreed[0]:
            raise InvalidValueError(f"`agree` must hold between an output and itself, but {agree.name} does not.")
        self.consistent = bool(agreed[1])
        self.prediction = _prediction(self._reference)
        if check_determinism:
            evaluator.repeat_later(selected)

    @property
    def n_calls(self) -> int:
        return self._evaluator.n_calls - self._calls_before

    @property
    def portion(self) -> int:
        """How many masks to enumerate at a time."""
        return self._evaluator.batch_size

    def expect(self, n_rows: int) -> None:
        self._evaluator.expect(n_rows)

    def count(self, masks: Masks) -> Tally:
        """Evaluate masks, tally agreements and remember the nearest mask that disagrees."""
        agreed = self._agree(self._evaluator(masks), self._reference)
        self._remember_nearest(masks[~agreed])
        return Tally(int(agreed.sum()), len(masks))

    def count_all(self, batches: Iterator[Masks]) -> Tally:
        return sum((self.count(masks) for masks in batches), Tally())

    def count_until_changed(self, batches: Iterator[Masks]) -> Tally:
        tally = Tally()
        for masks in batches:
            tally += self.count(masks)
            if self.counterexample is not None:
                break
        return tally

    def stream(self, nearby: Neighborhood, key: int, *purpose: str) -> np.random.Generator:
        """The stream that belongs to this explanation and purpose, whatever the radius."""
        return stream(key, "certify", nearby.name, *purpose, np.packbits(self.selected).tobytes())

    def _remember_nearest(self, changing: Masks) -> None:
        if len(changing) == 0:
            return
        distance = (changing != self.selected).sum(axis=1)
        nearest = changing[int(distance.argmin())]
        best = self.counterexample
        if best is None or distance.min() < (best != self.selected).sum():
            self.counterexample = nearest.copy()
            self.counterexample.setflags(write=False)


@dataclass(frozen=True)
class _Outcome:
    """A tally and the plan it was drawn by; no plan means that every mask was evaluated."""

    tally: Tally
    plan: Plan | None

    @property
    def exact(self) -> bool:
        return self.plan is None

    @property
    def rate(self) -> Fraction:
        return Fraction(self.tally.n_agreed, self.tally.n_evaluated)

    @property
    def rate_unbiased(self) -> float | None:
        if self.plan is None:
            return float(self.rate)
        return self.plan.design.unbiased_rate(self.tally.n_evaluated, self.tally.n_agreed)


@dataclass(frozen=True)
class _WorstSize(_Outcome):
    """The tally of the worst size; a minimum of estimates has no known unbiased form."""

    @property
    def rate_unbiased(self) -> float | None:
        return float(self.rate) if self.exact else None


def _estimate(nearby: Neighborhood, plan: Plan, subject: _Subject, *, key: int, rate_kind: str) -> _Outcome:
    if rate_kind == "worst_size":
        return _estimate_worst_size(nearby, plan, subject, key=key)
    if rate_kind == "exactly":
        ring = nearby.exactly(nearby.radius)
        return _enumerate_or_sample(ring, plan, subject, key, rate_kind, str(ring.effective_radius))
    return _enumerate_or_sample(nearby, plan, subject, key, rate_kind)


def _estimate_worst_size(nearby: Neighborhood, plan: Plan, subject: _Subject, *, key: int) -> _WorstSize:
    """The smallest rate over sizes: within tolerance of the truth if every sampled size is.

    With each of K sampled sizes at risk δ/K, all are within tolerance at once with probability
    1 - δ, and then so is the minimum.
    """
    rings = [nearby.exactly(k) for k in range(1, nearby.effective_radius + 1)] or [nearby.exactly(0)]
    n_sampled = sum(ring.is_larger_than(plan.max_draws) for ring in rings)
    if n_sampled > 1:
        risk = (1 - plan.confidence) / n_sampled
        plan = make_plan(plan.name, tolerance=plan.tolerance, confidence=1 - risk)
    outcomes = [
        _enumerate_or_sample(ring, plan, subject, key, "worst_size", str(ring.effective_radius)) for ring in rings
    ]
    worst = min(outcomes, key=lambda outcome: outcome.rate)
    return _WorstSize(worst.tally, next((outcome.plan for outcome in outcomes if outcome.plan), None))


def _enumerate_or_sample(nearby: Neighborhood, plan: Plan, subject: _Subject, key: int, *purpose: str) -> _Outcome:
    """Evaluate every mask if there are no more than the plan could draw; else follow the plan."""
    subject.expect(plan.max_draws)
    if not nearby.is_larger_than(plan.max_draws):
        return _Outcome(subject.count_all(nearby.enumerate(subject.portion)), None)
    rng = subject.stream(nearby, key, *purpose)
    tally = Tally()
    for look in plan.design.looks:
        tally += subject.count_all(_portions(nearby, look - tally.n_evaluated, rng))
        if plan.design.stops(tally.n_evaluated, tally.n_agreed):
            break
    return _Outcome(tally, plan)


def _portions(nearby: Neighborhood, n: int, rng: np.random.Generator) -> Iterator[Masks]:
    """Draw in portions that fit into memory; how they are cut does not change them."""
    most = max(1, _ROUND_BYTES // len(nearby.selected))
    for start in range(0, n, most):
        yield nearby.sample(min(most, n - start), rng)


def _hard_draws(tolerance: Fraction, risk: Fraction) -> int:
    """The smallest n with (1 - tolerance)ⁿ ≤ risk, decided in whole numbers."""
    n = max(1, math.floor(math.log(risk) / math.log1p(-tolerance)) - 1)
    while (1 - tolerance) ** n > risk:
        n += 1
    return n


def _vouched_radius(nearby: Neighborhood, counterexample: Mask | None, *, proof: bool) -> int:
    if counterexample is None:
        return nearby.radius
    if not proof:
        return 0
    changed = int((counterexample != nearby.selected).sum())
    return changed // len(nearby.pools) - 1


def _prediction(output: Any) -> Any:
    """Class index of scores, the label of a label-only model, or the value of a single score."""
    if not isinstance(output, np.ndarray):
        return output
    return int(output.argmax()) if len(output) > 1 else float(output[0])
