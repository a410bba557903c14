"""A masked model, an explanation and a minimum rate → the radius up to which it is certified."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from holdfast.certification.curve import check_radii
from holdfast.certification.pooling import Question, SizePool
from holdfast.certification.subject import Settings, Subject
from holdfast.evaluation import evaluating
from holdfast.neighborhood import NEIGHBORHOODS, Neighborhood
from holdfast.plans import RateTest, rate_test
from holdfast.results.radius import RadiusCertificate, RadiusStep
from holdfast.types import MaskedModel, Progress, Rng
from holdfast.validation import check_selection


def certified_radius(
    model: MaskedModel,
    selected: Any,
    *,
    min_rate: float,
    confidence: float = 0.9,
    radii: Iterable[int] | None = None,
    max_draws: int | None = None,
    agree: Any = "same_top_class",
    neighborhood: str = "additions",
    batch_size: int | None = None,
    progress: Progress | bool | None = None,
    check_determinism: bool = True,
    rng: Rng = None,
) -> RadiusCertificate:
    """Find the radius up to which the stability rate is certified to be at least ``min_rate``.

    The radii are tested in increasing order, each by a one-sided exact sequential test at the full
    risk, and the first that is not certified ends the search. With probability at least
    ``confidence`` every tested radius up to the returned one has a rate of at least ``min_rate``:
    a false claim needs a false "yes" at the first radius whose rate is too small. If every draw
    agrees, the smallest number of draws that any valid test needs suffices for each radius.

    Parameters
    ----------
    min_rate : float
        Strictly between 0 and 1; for a rate of 1 see ``certify_hard``.
    radii : iterable of int
        The radii to test, fixed in advance; 1, 2, 3, … by default.
    max_draws : int, optional
        Most draws per radius before the answer is "cannot tell".

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import certified_radius, mask_function
    >>> model = mask_function(lambda masks: masks.sum(axis=1) < 10, n_features=20)
    >>> certified_radius(model, np.arange(20) < 4, min_rate=0.9, rng=0).radius
    5
    """
    test = rate_test(min_rate, confidence, max_draws)
    asked = None if radii is None else check_radii(radii)
    settings = Settings.check(
        "decision",
        tolerance=1 - test.min_rate,
        confidence=test.confidence,
        neighborhood=neighborhood,
        agree=agree,
        check_determinism=check_determinism,
        rng=rng,
        plan="decision",
        plans=["decision"],
    )
    with evaluating(model, batch_size=batch_size, progress=progress) as evaluator:
        mask = check_selection(selected, "selected", evaluator)
        settings = settings.keyed(evaluator.provenance, mask)
        kind = NEIGHBORHOODS[neighborhood]
        tested = asked or range(1, max(1, kind(mask, len(mask)).effective_radius) + 1)
        evaluator.expect(len(tested) * test.max_draws)
        subject = Subject(evaluator, mask, settings)
        trail = decide_in_order(tested, test, subject, settings)
        return make_radius_certificate(subject, trail, test, settings)


def make_radius_certificate(
    subject: Subject, trail: list[RadiusStep], test: RateTest, settings: Settings
) -> RadiusCertificate:
    """Write down what was asked and what was decided."""
    nearby = NEIGHBORHOODS[settings.neighborhood](subject.selected, trail[-1].radius)
    return RadiusCertificate(
        radius=max((step.radius for step in trail if step.answer), default=0),
        min_rate=float(test.min_rate),
        confidence=float(test.confidence),
        trail=tuple(trail),
        n_calls=subject.settle(),
        n_repeated=subject.n_repeated,
        max_draws=test.max_draws,
        rng_key=settings.key,
        prediction=subject.prediction,
        consistent=subject.consistent,
        selected=subject.selected,
        counterexample=subject.counterexample_in(nearby),
        neighborhood=settings.neighborhood,
        agree=settings.agree.name,
        provenance=subject.provenance,
    )


def decide_in_order(radii: Sequence[int], test: RateTest, subject: Subject, settings: Settings) -> list[RadiusStep]:
    """Fixed-sequence testing: go on while the answer is yes."""
    kind = NEIGHBORHOODS[settings.neighborhood]
    pool = SizePool(kind(subject.selected, radii[-1]), lambda purpose: settings.own_stream(subject.selected, purpose))
    trail: list[RadiusStep] = []
    for radius in radii:
        one = kind(subject.selected, radius)
        if trail and trail[-1].effective_radius == one.effective_radius:
            step = _same_masks(trail[-1], one.radius)
        else:
            step = _test_radius(one, test, subject, pool)
        trail.append(step)
        if not step.answer:
            break
    return trail


def _same_masks(step: RadiusStep, radius: int) -> RadiusStep:
    """A larger radius with the same masks has the same answer."""
    return RadiusStep(radius, step.effective_radius, step.answer, step.n_agreed, step.n_evaluated, step.exact)


def _test_radius(nearby: Neighborhood, test: RateTest, subject: Subject, pool: SizePool) -> RadiusStep:
    """Enumerate what is no dearer than the first look; else draw, and enumerate if draws cannot tell."""
    if not nearby.is_larger_than(test.looks[0]):
        return _enumerate(nearby, test, subject)
    question = Question(nearby, test.looks, lambda n, k: test.answer(n, k) is not None)
    while not question.done:
        wanted = question.wants(pool)
        drawn = pool.draw(wanted)
        pool.record(wanted, subject.judge(np.concatenate(drawn)) if drawn else np.zeros(0, dtype=bool))
        question.take(pool)
    tally = question.tally
    answer = test.answer(tally.n_evaluated, tally.n_agreed)
    if answer is None and not nearby.is_larger_than(test.max_draws):
        return _enumerate(nearby, test, subject)
    return _step(nearby, answer, tally.n_agreed, tally.n_evaluated, exact=False)


def _enumerate(nearby: Neighborhood, test: RateTest, subject: Subject) -> RadiusStep:
    tally = subject.count(nearby.enumerate(test.max_draws))
    holds = tally.n_agreed >= test.min_rate * tally.n_evaluated
    return _step(nearby, bool(holds), tally.n_agreed, tally.n_evaluated, exact=True)


def _step(nearby: Neighborhood, answer: bool | None, n_agreed: int, n_evaluated: int, *, exact: bool) -> RadiusStep:
    return RadiusStep(nearby.radius, nearby.effective_radius, answer, n_agreed, n_evaluated, exact)
