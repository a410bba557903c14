"""A certificate and its model → the same draws again: a stored claim can be re-checked."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from holdfast.agreement import as_agreement
from holdfast.certification.pooling import PooledSubject, Streams, run_pooled
from holdfast.certification.single import combine, enumerate_or_sample
from holdfast.certification.subject import Outcome, Settings, Subject, make_certificate
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.evaluation import Evaluator, evaluating
from holdfast.neighborhood import NEIGHBORHOODS, Neighborhood
from holdfast.plans import Plan, is_valid_design, parts_of
from holdfast.plans.search import Goal
from holdfast.results.certificate import Certificate
from holdfast.results.recheck import Recheck
from holdfast.types import Mask, MaskedModel, Progress
from holdfast.validation import check_mask, check_share

_N_MARGINS = 3


def recheck(
    model: MaskedModel,
    certificate: Certificate,
    *,
    agree: Any = None,
    batch_size: int | None = None,
    progress: Progress | bool | None = None,
) -> Recheck:
    """Repeat the draws of a certificate and compare the counts.

    The same model, input and masking give the same counts, up to ties in the model's arithmetic.
    The stored design is used, so nothing is searched.

    Parameters
    ----------
    model : MaskedModel
        The model and input the certificate is about.
    certificate : Certificate
        What is to be confirmed.
    agree : callable, optional
        Needed if the certificate was made with a function of the user's.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import certify, mask_function, recheck
    >>> model = mask_function(lambda masks: masks.sum(axis=1) < 10, n_features=20)
    >>> cert = certify(model, np.arange(20) < 4, radius=8, rng=0)
    >>> recheck(model, cert).confirmed
    True
    """
    if not isinstance(certificate, Certificate):
        raise InvalidTypeError(f"`certificate` must be a Certificate, got {type(certificate).__name__}.")
    settings = _settings(certificate, agree)
    with evaluating(model, batch_size=batch_size, progress=progress) as evaluator:
        mask = check_mask(certificate.selected, "certificate.selected", n_features=evaluator.n_features)
        nearby = NEIGHBORHOODS[certificate.neighborhood](mask, certificate.radius)
        subject, outcome = _repeat(nearby, _plan(certificate), evaluator, settings)
        repeated = make_certificate(subject, nearby, outcome, settings, n_calls=subject.settle())
        before, now = certificate.provenance, evaluator.provenance
        return Recheck(
            certificate=certificate,
            repeated=repeated,
            proven=_is_proven(certificate, nearby),
            same_model=_same(before.model, now.model),
            same_input=_same(before.input, now.input),
            smallest_margins=_margins(evaluator),
        )


def _settings(certificate: Certificate, agree: Any) -> Settings:
    known = certificate.agree if agree is None else agree
    try:
        judge = as_agreement(known)
    except InvalidValueError as error:
        raise InvalidValueError(f"`agree` must be given: the certificate was judged by {known!r}.") from error
    return Settings(
        plan=certificate.plan,
        tolerance=check_share(certificate.tolerance, "tolerance"),
        confidence=check_share(certificate.confidence, "confidence"),
        neighborhood=certificate.neighborhood,
        rate_kind=certificate.rate_kind,
        agree=judge,
        key=certificate.rng_key,
        draws=certificate.draws,
        check_determinism=True,
    )


def _plan(certificate: Certificate) -> Plan | None:
    if certificate.design is None:
        return None
    tolerance, confidence = Fraction(str(certificate.tolerance)), Fraction(str(certificate.confidence))
    return Plan(certificate.plan, tolerance, confidence, certificate.design)


def _repeat(
    nearby: Neighborhood, plan: Plan | None, evaluator: Evaluator, settings: Settings
) -> tuple[Subject, Outcome]:
    """The outcome by the stored plan, or of all masks if the certificate is exact."""
    parts = parts_of(nearby, settings.rate_kind)
    shared = settings.draws == "pooled" or (settings.draws == "paired" and settings.plan == "sequential")
    if plan is not None and shared:
        pooled = PooledSubject(nearby.selected, parts, plan, _streams(nearby.selected, settings))
        run_pooled([pooled], evaluator, settings)
        return pooled.subject, combine([pooled.outcome(part) for part in parts], settings.rate_kind)
    subject = Subject(evaluator, nearby.selected, settings)
    if plan is None:
        outcomes = [Outcome(subject.count(part.enumerate(evaluator.batch_size)), None) for part in parts]
    elif settings.draws == "paired":
        outcomes = [Outcome(subject.count([nearby.sample(plan.max_draws, settings.stream("rows"))]), plan)]
    else:
        outcomes = [enumerate_or_sample(part, plan, subject, settings) for part in parts]
    return subject, combine(outcomes, settings.rate_kind)


def _streams(selected: Mask, settings: Settings) -> Streams:
    """A comparison's streams serve all explanations; a curve's belong to its own."""
    return settings.stream if settings.draws == "paired" else lambda purpose: settings.own_stream(selected, purpose)


def _is_proven(certificate: Certificate, nearby: Neighborhood) -> bool:
    """Whether the design keeps the stated risk, shared by all sampled sizes if the worst is asked for."""
    design = certificate.design
    if design is None:
        return True
    parts = parts_of(nearby, certificate.rate_kind)
    n_sampled = sum(part.is_larger_than(design.max_draws) for part in parts)
    risk = (1 - Fraction(str(certificate.confidence))) / max(1, n_sampled)
    return is_valid_design(design, Goal(Fraction(str(certificate.tolerance)), risk))


def _same(before: str | None, now: str | None) -> bool | None:
    return None if before is None or now is None else before == now


def _margins(evaluator: Evaluator) -> tuple[float, ...]:
    """The smallest gaps between the two largest scores; none for labels and single scores."""
    outputs = evaluator.outputs
    if outputs.ndim == 1 or outputs.shape[1] < 2:
        return ()
    top = np.sort(outputs, axis=1)[:, -2:]
    return tuple(float(gap) for gap in np.sort(top[:, 1] - top[:, 0])[:_N_MARGINS])
