"""A masked model and an explanation → random masks nearby and what becomes of the prediction, for the slider."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np

from holdfast.agreement import as_agreement, prediction_of
from holdfast.evaluation import Evaluator
from holdfast.neighborhood import NEIGHBORHOODS
from holdfast.randomness import stream
from holdfast.study.results import ItemResult
from holdfast.study.spec import StudySpec
from holdfast.study.work import item_rng
from holdfast.types import Mask, Masks
from holdfast.words import class_label

N_DRAWS = 16
"""Masks shown per radius."""


def sample_draws(
    evaluator: Evaluator, result: ItemResult, spec: StudySpec, *, radii: Sequence[int], classes: Sequence[str]
) -> dict[str, Any]:
    """Fresh uniform draws at each radius, judged by the model.

    They come from a stream of their own: they are not those that the certificate counted, and no
    claim rests on them.

    Returns
    -------
    dict
        ``at``: per radius the changed features of each mask as packed bits (base64), and for each mask None
        if the prediction is kept, or the place in ``classes`` of what it becomes.
    """
    masks = [_draw(result.selected, spec, radius, result.key) for radius in radii]
    flips = _judge(evaluator, result.selected, np.concatenate(masks), spec)
    names = [None if one is None else class_label(one, classes) for one in flips]
    known = sorted({name for name in names if name is not None})
    places = [None if name is None else known.index(name) for name in names]
    return {
        "at": [_plain(part, result.selected, places[i * N_DRAWS :]) for i, part in enumerate(masks)],
        "classes": known,
    }


def _draw(selected: Mask, spec: StudySpec, radius: int, key: str) -> Masks:
    rng = stream(item_rng(spec, "report", key), str(radius))
    return NEIGHBORHOODS[spec.certify.neighborhood](selected, radius).sample(N_DRAWS, rng)


def _judge(evaluator: Evaluator, selected: Mask, masks: Masks, spec: StudySpec) -> list[Any]:
    """For each mask None if it keeps the prediction, else what is predicted."""
    agree, reference = as_agreement(spec.certify.agree), evaluator(selected[None])[0]
    outputs = evaluator(masks)
    agreed = agree(outputs, reference)
    return [None if kept else prediction_of(output) for kept, output in zip(agreed, outputs, strict=True)]


def _plain(masks: Masks, selected: Mask, flipped: Sequence[int | None]) -> dict[str, Any]:
    packed = [base64.b64encode(np.packbits(mask != selected).tobytes()).decode() for mask in masks]
    return {"masks": packed, "flipped": list(flipped[: len(masks)])}
