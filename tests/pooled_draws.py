"""Which masks a pooled question draws, learnt only from what it says about models.

A model whose answer is one feature of the mask is "kept" by exactly the draws that leave this
feature as it was. ``n_features`` such models, asked with the same seed, spell out every draw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from holdfast import Evaluator, MaskedModel, mask_function, same_top_class
from holdfast.certification.curve import _Run
from holdfast.certification.reference import Settings
from holdfast.certification.shared_draws import Question, SizePool
from holdfast.neighborhood import NEIGHBORHOODS
from holdfast.plans import Design, Plan
from holdfast.types import Mask, Masks

Kept = Callable[[MaskedModel], dict[int, Mask]]


def spell_out(selected: Mask, kept: Kept) -> dict[int, Masks]:
    """The masks behind ``kept(model)``, which says for each radius which draws keep the prediction."""
    changed = [_changed(kept(_shows(feature, len(selected)))) for feature in range(len(selected))]
    return {radius: np.stack([one[radius] for one in changed], axis=1) ^ selected for radius in changed[0]}


def _shows(feature: int, n_features: int) -> MaskedModel:
    return mask_function(lambda masks: masks[:, feature], n_features=n_features)


def _changed(kept: dict[int, Mask]) -> dict[int, Mask]:
    return {radius: ~draws for radius, draws in kept.items()}


def drawn_by_a_curve(
    selected: Mask, radii: Iterable[int], looks: Sequence[int], *, seed: int, kind: str = "additions"
) -> dict[int, Masks]:
    """The first ``looks[-1]`` draws that ``certify_radii(rng=seed)`` makes at each radius it samples.

    The plan never stops early. It is given to the private run behind ``certify_radii``, because a
    certificate tells counts only.
    """
    settings = Settings(
        plan="sequential",
        tolerance=Fraction(1, 10),
        confidence=Fraction(9, 10),
        neighborhood=kind,
        rate_kind="uniform",
        agree=same_top_class,
        key=seed,
        is_canonical=False,
        draws="pooled",
        check_determinism=False,
    )
    plan = Plan("sequential", settings.tolerance, settings.confidence, never_stops(looks))
    asked = list(radii)

    def kept(model: MaskedModel) -> dict[int, Mask]:
        nearby = [NEIGHBORHOODS[kind](selected, radius) for radius in asked]
        run = _Run(Evaluator(model), selected, nearby, plan, settings)
        answers = {radius: run.pooled.draws(one) for radius, one in zip(asked, nearby, strict=True)}
        return {radius: draws for radius, draws in answers.items() if draws is not None}

    return spell_out(selected, kept)


def drawn_from_a_pool(
    selected: Mask, looks: dict[int, Sequence[int]], *, seed: int = 0, kind: str = "additions"
) -> dict[int, Masks]:
    """The draws of one question per radius, each with its own looks, also if more than there are masks."""

    def streams(purpose: str) -> np.random.Generator:
        return np.random.default_rng([seed, *purpose.encode()])

    def kept(model: MaskedModel) -> dict[int, Mask]:
        nearby = {radius: NEIGHBORHOODS[kind](selected, radius) for radius in looks}
        pool = SizePool(nearby[max(looks)], streams)
        questions = {radius: Question(nearby[radius], looks[radius], lambda n, k: False) for radius in looks}
        answer_all(pool, list(questions.values()), lambda masks: same_top_class(model(masks), model(selected[None])[0]))
        return {radius: question.agreed for radius, question in questions.items()}

    return spell_out(selected, kept)


def answer_all(pool: SizePool, questions: Sequence[Question], judge: Callable[[Masks], Mask]) -> None:
    """Move every open question to its next look until none is open."""
    while still := [question for question in questions if not question.done]:
        wanted = np.max([question.wants(pool) for question in still], axis=0)
        drawn = pool.draw(wanted)
        pool.record(wanted, judge(np.concatenate(drawn)) if drawn else np.zeros(0, dtype=bool))
        for question in still:
            question.take(pool)


def never_stops(looks: Sequence[int]) -> Design:
    """A design that looks, but goes on to its last look whatever it sees."""
    return Design(tuple(looks), (*([-1] * (len(looks) - 1)), looks[-1] // 2))


def in_order(design: Design, agreed: Any) -> tuple[int, int]:
    """(n_evaluated, n_agreed) where a design stops on these answers, read in order."""
    for n, limit in zip(design.looks, design.limits, strict=True):
        k = int(np.sum(agreed[:n]))
        if min(k, n - k) <= limit:
            return n, k
    raise AssertionError("the last look must stop")
