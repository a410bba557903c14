"""A masked model, an explanation and a radius → a certificate (Theorem 1 of the paper, with fewer calls)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.certification.subject import Outcome, Settings, Subject, WorstOutcome, make_certificate
from holdfast.errors import InvalidTypeError
from holdfast.evaluation import Tally, evaluating
from holdfast.neighborhood import NEIGHBORHOODS, Neighborhood
from holdfast.plans import Plan, most_rows, parts_of, plan_for
from holdfast.results import Certificate
from holdfast.types import MaskedModel, Masks, Progress, Rng
from holdfast.validation import check_selection, check_whole

_PORTION_BYTES = 1 << 26
"""Most memory for masks drawn at a time."""


@dataclass(frozen=True)
class Look:
    """How far a certification is: what was counted, and the most that may be.

    Attributes
    ----------
    n_agreed, n_evaluated : int
        Masks that kept the prediction, masks counted.
    n_most : int
        The most draws of the plan; if ``exact``, the number of all masks.
    exact : bool
        Masks are listed one and all, and not drawn: the counts are then no random sample.
    """

    n_agreed: int
    n_evaluated: int
    n_most: int
    exact: bool


OnLook = Callable[[Look], None]


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
    on_look: OnLook | None = None,
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
    model : MaskedModel
        Function of masks (b, n_features); see ``mask_function``.
    selected : Boolean array of shape (n_features,), or list of names or indices
        The explanation: which features are selected.
    radius : int
        Largest number of changes; clamped to the number of features that can change.
    tolerance, confidence : float
        The rate is to be within ``tolerance`` of the true one with probability ``confidence``.
    plan : str
        "sequential" (fewest calls), "exact" (fixed number), "hoeffding" (the paper's number).
    agree : str, Agreement or callable
        "same_top_class", ``same_top_set(k)``, ``within(margin)`` or a function of
        (outputs (b, ...), reference) that returns Boolean (b,).
    neighborhood : str
        "additions", "removals" or "swaps".
    rate_kind : str
        "uniform" (all masks within the radius), "exactly" (``radius`` changes exactly) or
        "worst_size" (the smallest rate over the sizes 0 … radius).
    batch_size : int, optional
        Most rows per model call; never changes the result.
    progress : bool or callable, optional
        True for a bar, or a function of (rows computed, most rows expected).
    on_look : callable, optional
        Told a ``Look`` (``n_agreed``, ``n_evaluated``, ``n_most``, ``exact``) after every batch, for "worst_size"
        of each size in turn. It changes nothing. The interval of the certificate belongs to the end alone:
        counts seen on the way need an interval of their own, valid at every look.
    check_determinism : bool
        Compute a few rows twice (two of 25, five of 64 or more) and raise if an answer differs. If False, a
        random model is certified as the function that happens to be drawn.
    rng : Generator, int, "canonical" or None
        Seed, generator or None; ``rng_key`` of the certificate repeats the draws. "canonical" derives the key
        from model, input, explanation and question, so that nobody can try seeds until one pleases.

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
    check_whole(radius, "radius")
    if on_look is not None and not callable(on_look):
        raise InvalidTypeError(f"`on_look` must be a function of a Look, or None, got {on_look!r}.")
    settings = Settings.check(
        "single",
        tolerance=tolerance,
        confidence=confidence,
        neighborhood=neighborhood,
        agree=agree,
        check_determinism=check_determinism,
        rng=rng,
        plan=plan,
        rate_kind=rate_kind,
    )
    with evaluating(model, batch_size=batch_size, progress=progress) as evaluator:
        mask = check_selection(selected, "selected", evaluator)
        settings = settings.keyed(evaluator.provenance, mask)
        nearby = NEIGHBORHOODS[neighborhood](mask, radius)
        parts = parts_of(nearby, rate_kind)
        made = plan_for(parts, settings.make_plan())
        if evaluator.progress is not None:
            evaluator.expect(most_rows(parts, made))
        subject = Subject(evaluator, mask, settings)
        counted = [enumerate_or_sample(part, made, subject, settings, on_look=on_look) for part in parts]
        outcome = combine(counted, rate_kind)
        return make_certificate(subject, nearby, outcome, settings, n_calls=subject.settle())


def combine(outcomes: list[Outcome], rate_kind: str) -> Outcome:
    """The outcome asked for, from those of its parts."""
    return worst_of(outcomes) if rate_kind == "worst_size" else outcomes[0]


def worst_of(outcomes: list[Outcome]) -> WorstOutcome:
    """The smallest rate; among equal ones the one with most draws."""
    worst = min(outcomes, key=lambda outcome: (outcome.rate, -outcome.tally.n_evaluated))
    return WorstOutcome(worst.tally, next((outcome.plan for outcome in outcomes if outcome.plan), None))


def enumerate_or_sample(
    nearby: Neighborhood, plan: Plan, subject: Subject, settings: Settings, *, on_look: OnLook | None = None
) -> Outcome:
    """Evaluate every mask if there are no more than the plan could draw; else follow the plan."""
    exact = not nearby.is_larger_than(plan.max_draws)
    tell = None if on_look is None else _teller(on_look, nearby.size if exact else plan.max_draws, exact=exact)
    if exact:
        return Outcome(subject.count(nearby.enumerate(plan.max_draws), tell=tell), None)
    rng = settings.own_stream(subject.selected, str(nearby.smallest))
    looks, tally, stopped = iter(plan.design.looks), Tally(), False
    while not stopped:  # every design stops at its last look
        tally = subject.count(portions(nearby, next(looks) - tally.n_evaluated, rng), after=tally, tell=tell)
        stopped = plan.design.stops(tally.n_evaluated, tally.n_agreed)
    return Outcome(tally, plan)


def _teller(on_look: OnLook, n_most: int, *, exact: bool) -> Callable[[Tally], None]:
    return lambda tally: on_look(Look(tally.n_agreed, tally.n_evaluated, n_most, exact))


def portions(nearby: Neighborhood, n: int, rng: np.random.Generator) -> Iterator[Masks]:
    """Draw in portions that fit into memory; how they are cut does not change them."""
    most = max(1, _PORTION_BYTES // len(nearby.selected))
    for start in range(0, n, most):
        yield nearby.sample(min(most, n - start), rng)
