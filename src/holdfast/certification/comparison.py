"""A masked model and several explanations → which of them is more stable, from paired draws."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np

from holdfast.bounds import Interval, clopper_pearson
from holdfast.certification.curve import check_radii
from holdfast.certification.pooling import PooledSubject, run_pooled
from holdfast.certification.subject import (
    Outcome,
    Settings,
    Subject,
    decides_early,
    make_certificate,
    reference_masks,
)
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.evaluation import Evaluator, Tally, evaluating
from holdfast.neighborhood import NEIGHBORHOODS, Neighborhood
from holdfast.plans import Plan, share_risk
from holdfast.results.certificate import Certificate
from holdfast.results.comparison import Comparison, Difference
from holdfast.results.curve import StabilityCurve
from holdfast.types import Mask, MaskedModel, Masks, Progress, Rng
from holdfast.validation import check_label, check_selection


def compare(
    model: MaskedModel,
    explanations: Mapping[str, Any],
    radii: Iterable[int],
    *,
    tolerance: float = 0.1,
    confidence: float = 0.9,
    plan: str = "exact",
    agree: Any = "same_top_class",
    neighborhood: str = "additions",
    batch_size: int | None = None,
    progress: Progress | bool | None = None,
    check_determinism: bool = True,
    rng: Rng = None,
) -> Comparison:
    """Compare the stability of several explanations of one input, claiming only what is certified.

    All explanations face the same random order of features and the same sizes, so that their
    differences vary less than their rates. Every rate has its interval as from ``certify_radii``.
    All differences hold in their intervals at once with probability at least ``confidence``.

    Parameters
    ----------
    explanations : mapping of str to Boolean array
        Name → selected features as in ``certify``, at least two.
    plan : str
        With a fixed number of draws ("exact", "hoeffding") differences come from the draws on
        which two explanations disagree, by exact binomial intervals; with "sequential" from the
        two rates' own intervals, which then hold all at once. The former is sharper for
        explanations that mostly agree; ask a smaller ``tolerance`` for sharper intervals.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import compare, mask_function
    >>> model = mask_function(lambda masks: masks[:, 0] | (masks.sum(axis=1) > 12), n_features=20)
    >>> with_key, without = np.arange(20) < 4, np.arange(20) >= 16
    >>> compare(model, {"a": with_key, "b": without}, [8], rng=0).ranking(8)
    (('a', 'b'),)
    """
    asked = check_radii(radii)
    settings = Settings.check(
        "paired",
        tolerance=tolerance,
        confidence=confidence,
        neighborhood=neighborhood,
        agree=agree,
        check_determinism=check_determinism,
        rng=rng,
        plan=plan,
    )
    _check_explanations(explanations)
    with evaluating(model, batch_size=batch_size, progress=progress) as evaluator:
        before = evaluator.n_calls
        masks = {name: check_selection(mask, name, evaluator) for name, mask in explanations.items()}
        settings = settings.keyed(evaluator.provenance, *masks.values())
        nearby: list[list[Neighborhood]] = [
            [NEIGHBORHOODS[neighborhood](mask, radius) for radius in asked] for mask in masks.values()
        ]
        ask = _ask_in_sequence if plan == "sequential" else _ask_in_pairs
        answers, n_rounds = ask(nearby, settings.make_plan(), evaluator, settings)
        evaluator.settle()
        n_calls = evaluator.n_calls - before
        curves = [
            StabilityCurve(answer.certificates(settings, n_calls), plan == "sequential", n_calls, n_rounds)
            for answer in answers
        ]
        return Comparison(
            names=tuple(masks),
            curves=tuple(curves),
            differences=tuple(_differences(list(masks), curves, answers, 1 - settings.confidence)),
            confidence=float(settings.confidence),
            n_calls=n_calls,
            n_rounds=n_rounds,
        )


def _check_explanations(explanations: Any) -> None:
    if not isinstance(explanations, Mapping):
        raise InvalidTypeError(f"`explanations` must map names to Boolean masks, got {type(explanations).__name__}.")
    strange = next((name for name in explanations if not isinstance(name, str)), None)
    if strange is not None:
        raise InvalidTypeError(f"`explanations` must map names to Boolean masks, got the name {strange!r}, no string.")
    for name in explanations:
        check_label(name, "explanations")
    if len(explanations) < 2:
        raise InvalidValueError(f"`explanations` must have at least two entries, got {len(explanations)}.")


@dataclass(frozen=True)
class _Answer:
    """The outcomes of one explanation by radius; ``kept`` says draw by draw what agreed."""

    subject: Subject
    nearby: Sequence[Neighborhood]
    outcomes: Sequence[Outcome]
    kept: Sequence[Mask | None]

    def certificates(self, settings: Settings, n_calls: int) -> tuple[Certificate, ...]:
        pairs = zip(self.nearby, self.outcomes, strict=True)
        return tuple(make_certificate(self.subject, near, found, settings, n_calls=n_calls) for near, found in pairs)


def _ask_in_sequence(
    nearby: list[list[Neighborhood]], plan: Plan, evaluator: Evaluator, settings: Settings
) -> tuple[list[_Answer], int]:
    """Each rate by the sequential plan, at a share of the risk that makes all hold at once."""
    plan = share_risk(plan, sum(map(len, nearby)))
    pooled = [PooledSubject(nears[0].selected, nears, plan, settings.stream) for nears in nearby]
    n_rounds = run_pooled(pooled, evaluator, settings)
    return [
        _Answer(one.subject, nears, [one.outcome(near) for near in nears], [None] * len(nears))
        for one, nears in zip(pooled, nearby, strict=True)
    ], n_rounds


def _ask_in_pairs(
    nearby: list[list[Neighborhood]], plan: Plan, evaluator: Evaluator, settings: Settings
) -> tuple[list[_Answer], int]:
    """The same rows of random bits for every explanation and radius, all evaluated together."""
    masks = [[_enumerated_or_drawn(near, plan, settings) for near in nears] for nears in nearby]
    references = [reference_masks(nears[0].selected) for nears in nearby]
    evaluator.expect(sum(len(drawn) for drawns in masks for drawn in drawns))
    if not decides_early(evaluator, settings.agree):
        evaluator(np.concatenate([*references, *(drawn for drawns in masks for drawn in drawns)]))
    return [
        _paired_answer(nears, drawns, plan, evaluator, settings) for nears, drawns in zip(nearby, masks, strict=True)
    ], 1


def _enumerated_or_drawn(near: Neighborhood, plan: Plan, settings: Settings) -> Masks:
    if near.is_larger_than(plan.max_draws):
        return near.sample(plan.max_draws, settings.stream("rows"))
    return np.concatenate(list(near.enumerate(plan.max_draws)))


def _paired_answer(
    nears: list[Neighborhood], drawns: list[Masks], plan: Plan, evaluator: Evaluator, settings: Settings
) -> _Answer:
    subject = Subject(evaluator, nears[0].selected, settings)
    kept = [subject.judge(drawn) for drawn in drawns]
    sampled = [near.is_larger_than(plan.max_draws) for near in nears]
    outcomes = [Outcome(Tally(int(k.sum()), len(k)), plan if s else None) for k, s in zip(kept, sampled, strict=True)]
    return _Answer(subject, nears, outcomes, [k if s else None for k, s in zip(kept, sampled, strict=True)])


def _differences(
    names: list[str], curves: list[StabilityCurve], answers: list[_Answer], risk: Fraction
) -> Iterator[Difference]:
    """All pairs at all radii, sharing the risk equally."""
    pairs = list(combinations(range(len(names)), 2))
    share = risk / (len(pairs) * len(curves[0]))
    for a, b in pairs:
        for i, radius in enumerate(curves[0].radii):
            first, second = curves[a].certificates[i], curves[b].certificates[i]
            interval, paired = _difference_interval(first, second, answers[a].kept[i], answers[b].kept[i], share)
            estimate = (first.rate_unbiased or 0.0) - (second.rate_unbiased or 0.0)
            yield Difference(names[a], names[b], radius, estimate, interval, paired)


def _difference_interval(
    first: Certificate, second: Certificate, kept_first: Mask | None, kept_second: Mask | None, risk: Fraction
) -> tuple[Interval, bool]:
    """From the discordant draws if both were drawn in pairs; else from the two rates' intervals."""
    if kept_first is not None and kept_second is not None:
        n, sure = len(kept_first), 1 - risk / 2
        gained = clopper_pearson(int((kept_first & ~kept_second).sum()), n, confidence=sure)
        lost = clopper_pearson(int((~kept_first & kept_second).sum()), n, confidence=sure)
        return Interval(gained.low - lost.high, gained.high - lost.low), True
    one, other = (_rate_interval(c, k, risk) for c, k in ((first, kept_first), (second, kept_second)))
    return Interval(one.low - other.high, one.high - other.low), False


def _rate_interval(certificate: Certificate, kept: Mask | None, risk: Fraction) -> Interval:
    """The certificate's own interval, or an exact binomial one for draws made in pairs."""
    if kept is None:
        return certificate.interval
    return clopper_pearson(certificate.n_agreed, certificate.n_evaluated, confidence=1 - risk)
