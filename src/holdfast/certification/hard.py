"""A masked model, an explanation and a radius → a hard certificate (Theorem 2 of the paper, or a proof)."""

from __future__ import annotations

from typing import Any

from holdfast.bounds import smallest_power_within
from holdfast.certification.single import portions
from holdfast.certification.subject import Settings, Subject
from holdfast.errors import InvalidValueError
from holdfast.evaluation import Tally, evaluating
from holdfast.neighborhood import NEIGHBORHOODS, Neighborhood
from holdfast.results.hard import SMALLEST_TOLERANCE, HardCertificate
from holdfast.types import Mask, MaskedModel, Progress, Rng
from holdfast.validation import check_selection, check_whole

_PORTION = 256
"""Masks enumerated before looking for a change; not the batch size, which must not matter."""


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
    settings = Settings.check(
        "hard",
        tolerance=tolerance,
        confidence=confidence,
        neighborhood=neighborhood,
        agree=agree,
        check_determinism=check_determinism,
        rng=rng,
        plan="hard",
        plans=["hard"],
    )
    check_whole(radius, "radius")
    eps, sure = settings.tolerance, settings.confidence
    if eps < SMALLEST_TOLERANCE:
        raise InvalidValueError(f"`tolerance` must be at least {float(SMALLEST_TOLERANCE)}, got {tolerance!r}.")
    n_draws = smallest_power_within(1 - eps, 1 - sure)
    affordable = n_draws if max_enumerated is None else check_whole(max_enumerated, "max_enumerated")
    with evaluating(model, batch_size=batch_size, progress=progress) as evaluator:
        mask = check_selection(selected, "selected", evaluator)
        settings = settings.keyed(evaluator.provenance, mask)
        nearby = NEIGHBORHOODS[neighborhood](mask, radius)
        proof = not nearby.is_larger_than(affordable)
        evaluator.expect(nearby.size if proof else n_draws)
        subject = Subject(evaluator, mask, settings)
        stream = settings.own_stream(mask)
        masks = nearby.enumerate(_PORTION) if proof else portions(nearby, n_draws, stream)
        tally = subject.count(masks, until_changed=True)
        return _make_hard(subject, nearby, tally, settings, proof=proof)


def _make_hard(
    subject: Subject, nearby: Neighborhood, tally: Tally, settings: Settings, *, proof: bool
) -> HardCertificate:
    changing = subject.counterexample_in(nearby)
    return HardCertificate(
        method="enumeration" if proof else "sampling",
        stable=changing is None,
        radius=_vouched_radius(nearby, changing, proof=proof),
        requested_radius=nearby.radius,
        effective_radius=nearby.effective_radius,
        tolerance=None if proof else float(settings.tolerance),
        confidence=None if proof else float(settings.confidence),
        n_agreed=tally.n_agreed,
        n_evaluated=tally.n_evaluated,
        n_calls=subject.settle(),
        n_repeated=subject.n_repeated,
        rng_key=settings.key,
        prediction=subject.prediction,
        consistent=subject.consistent,
        selected=subject.selected,
        counterexample=changing,
        neighborhood=settings.neighborhood,
        agree=settings.agree.name,
        provenance=subject.provenance,
    )


def _vouched_radius(nearby: Neighborhood, counterexample: Mask | None, *, proof: bool) -> int:
    """As far as no change was found; enumeration goes outwards, so all nearer masks were seen."""
    if counterexample is None:
        return nearby.radius
    if not proof:
        return 0
    changed = int((counterexample != nearby.selected).sum())
    return changed // len(nearby.pools) - 1
