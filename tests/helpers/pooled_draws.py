"""Which masks a pooled question draws, learnt only from what it says about models.

A model whose answer is one feature of the mask is "kept" by exactly the draws that leave this
feature as it was. ``n_features`` such models, asked with the same seed, spell out every draw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from holdfast import Evaluator, MaskedModel, mask_function
from holdfast.certification.question import Procedure, Question
from holdfast.certification.shared_draws import DrawSequence, ExplanationDraws, SharedDraws
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
    question = Question.check({"radii": radii, "neighborhood": kind})
    procedure = Procedure(question, "pooled", seed, is_canonical=False, check_determinism=False)
    plan = Plan("sequential", question.tolerance, question.confidence, never_stops(looks))

    def kept(model: MaskedModel) -> dict[int, Mask]:
        nearby = [NEIGHBORHOODS[kind](selected, radius) for radius in question.radii]
        evaluator, streams = Evaluator(model), partial(procedure.own_stream, selected)
        draws = ExplanationDraws.by_plan(plan, nearby, streams, evaluator, procedure)
        SharedDraws(evaluator, procedure, [draws]).run()
        radii = {id(near): radius for radius, near in zip(question.radii, nearby, strict=True)}
        return {radii[key]: _in_order(sequence, draws) for key, sequence in draws.sequences.items()}

    return spell_out(selected, kept)


def drawn_from_a_pool(
    selected: Mask, looks: dict[int, Sequence[int]], *, seed: int = 0, kind: str = "additions"
) -> dict[int, Masks]:
    """The draws of one question per radius, each with its own looks, also if more than there are masks."""

    def streams(purpose: str) -> np.random.Generator:
        return np.random.default_rng([seed, *purpose.encode()])

    def kept(model: MaskedModel) -> dict[int, Mask]:
        nearby = {radius: NEIGHBORHOODS[kind](selected, radius) for radius in looks}
        question = Question.check({"radii": list(looks)})
        procedure = Procedure(question, "pooled", seed, is_canonical=False, check_determinism=False)
        draws = ExplanationDraws(nearby[max(looks)], streams)
        sequences = {radius: draws.open(nearby[radius], looks[radius], lambda n, k: False) for radius in looks}
        SharedDraws(Evaluator(model), procedure, [draws]).run()
        return {radius: _in_order(sequence, draws) for radius, sequence in sequences.items()}

    return spell_out(selected, kept)


def _in_order(sequence: DrawSequence, draws: ExplanationDraws) -> Mask:
    """Which draws of a sequence keep the prediction: each is the next mask of its size; their number is its tally."""
    sizes = draws.lists.sizes(sequence.nearby, 0, sequence.tally.n_evaluated)
    ranks = [int((sizes[:draw] == size).sum()) for draw, size in enumerate(sizes)]
    kept = np.diff(draws.lists._n_agreed, axis=1)[sizes, ranks]
    assert kept.sum() == sequence.tally.n_agreed
    return kept.astype(bool)


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
