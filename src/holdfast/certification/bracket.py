"""A masked model and an explanation → bounds on its hard radius, both about one and the same function."""

from __future__ import annotations

from typing import Any

from holdfast.evaluation import Evaluator, evaluating
from holdfast.mus import certify_mus
from holdfast.results.witness import StabilityBracket
from holdfast.smoothing import SmoothedModel
from holdfast.types import MaskedModel, Progress, Rng
from holdfast.witness import find_witness


def stability_bracket(
    model: MaskedModel,
    selected: Any,
    *,
    max_radius: int | None = None,
    max_calls: int = 20_000,
    batch_size: int | None = None,
    progress: Progress | bool | None = None,
    rng: Rng = None,
) -> StabilityBracket:
    """Bracket the hard radius: how many additions can never, and how many can, change the prediction.

    The upper end is a witness (``find_witness``). The lower end is what the search has enumerated,
    or, if ``model`` was smoothed by votes (``mus_model``, ``smooth``), the certificate by votes where
    that reaches further. Both are about ``model`` as given: to bracket a smoothed model, pass it.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import mask_function, stability_bracket
    >>> model = mask_function(lambda masks: masks[:, 0] & ~(masks[:, 5] & masks[:, 7]), n_features=8)
    >>> bracket = stability_bracket(model, np.arange(8) < 2, rng=0)
    >>> bracket.low, bracket.below
    (1, 2)
    """
    with evaluating(model, batch_size=batch_size, progress=progress) as evaluator:
        before = evaluator.n_calls
        witness = find_witness(evaluator, selected, max_radius=max_radius, max_calls=max_calls, rng=rng)
        certificate = certify_mus(evaluator, selected, input_removals=False) if _votes(evaluator) else None
        by_votes = certificate is not None and certificate.radius > witness.cleared_radius
        return StabilityBracket(
            low=certificate.radius if certificate is not None and by_votes else witness.cleared_radius,
            below=witness.n_added,
            method=certificate.method if certificate is not None and by_votes else "enumeration",
            certificate=certificate,
            witness=witness,
            n_calls=evaluator.n_calls - before,
        )


def _votes(evaluator: Evaluator) -> bool:
    return isinstance(evaluator.model, SmoothedModel) and evaluator.model.votes
