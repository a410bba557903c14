"""A masked model of few features → the table of all its scores."""

from __future__ import annotations

from typing import Any

import numpy as np

from holdfast.boolean.tables import Table, all_masks
from holdfast.errors import InvalidValueError, ModelError
from holdfast.evaluation import Evaluator, evaluating
from holdfast.types import MaskedModel, Masks, Progress
from holdfast.validation import check_whole

MAX_TABULATED_FEATURES = 20

_PORTION = 1 << 14


def tabulate(
    model: MaskedModel,
    *,
    target: int | None = None,
    batch_size: int | None = None,
    progress: Progress | bool | None = None,
) -> Table:
    """The scores of a model on all 2ⁿ masks; n ≤ 20.

    Parameters
    ----------
    model : MaskedModel
        A model that returns scores. An ``Evaluator`` keeps what was computed and computes only the rest.
    target : int, optional
        The class whose scores to keep; all if None.
    batch_size : int, optional
        Most rows per model call.
    progress : bool or callable, optional
        True for a bar, or a function of (rows computed, most rows expected).

    Returns
    -------
    table : float64 array of shape (2ⁿ, n_classes), or (2ⁿ,) for one ``target``
        The row of a mask is Σ mask_i 2^i.

    Examples
    --------
    >>> from holdfast import mask_function
    >>> count = mask_function(lambda masks: masks.sum(axis=1, keepdims=True), n_features=2)
    >>> tabulate(count, target=0)
    array([0., 1., 1., 2.])
    """
    if target is not None:
        target = check_whole(target, "target")
    with evaluating(model, batch_size=batch_size, progress=progress) as evaluator:
        n = evaluator.n_features
        if n > MAX_TABULATED_FEATURES:
            raise InvalidValueError(
                f"`model` must have at most {MAX_TABULATED_FEATURES} features to be tabulated (2**n calls), got {n}."
            )
        evaluator.expect(2**n)
        portions = (all_masks(n, start, min(start + _PORTION, 2**n)) for start in range(0, 2**n, _PORTION))
        return np.concatenate([scores_of(evaluator, masks, target) for masks in portions])


def scores_of(evaluator: Evaluator, masks: Masks, target: Any) -> Table:
    """Scores (b, n_classes) in float64, or (b,) of one class."""
    outputs = evaluator(masks)
    if outputs.ndim == 1:
        raise ModelError("The model must return scores (b, n_classes) here, but it returns labels.")
    if target is not None and target >= outputs.shape[1]:
        raise InvalidValueError(f"`target` must be a class of the model, 0 to {outputs.shape[1] - 1}, got {target!r}.")
    return np.asarray(outputs if target is None else outputs[:, target], dtype=np.float64)
