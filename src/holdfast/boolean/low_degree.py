"""A model of many features and an explanation → its conditional monotone weights of low degree, exactly."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.boolean.tables import PORTION, Table, quiet, scores_of
from holdfast.errors import ModelError
from holdfast.evaluation import evaluating
from holdfast.neighborhood import Additions
from holdfast.showing import Shown
from holdfast.types import Mask, MaskedModel, Progress
from holdfast.validation import check_selection, check_size

MAX_LOW_DEGREE = 4


@dataclass(frozen=True, eq=False)
class LowDegreeWeights(Shown):
    """Conditional monotone weights g̃(T) for all sets T of at most ``degree`` unselected features.

    ``subsets[k]`` (C(m, k), k) lists the sets of k features and ``values[k]`` (C(m, k), n_classes) their
    weights; ``values[0]`` is the score of ``selected`` itself. Exact up to rounding, at ``n_calls`` model
    calls. They give every score within ``degree`` additions: h(α ∪ S) = Σ_{T⊆S} g̃(T).
    """

    selected: Mask
    degree: int
    subsets: tuple[NDArray[np.intp], ...]
    values: tuple[Table, ...]
    n_calls: int

    @property
    def mass(self) -> Table:
        """Σ_{|T|=k} |g̃(T)| for k = 0 … degree: (degree + 1, n_classes)."""
        return np.stack([np.abs(values).sum(axis=0) for values in self.values])


def low_degree_weights(
    model: MaskedModel,
    selected: Any,
    *,
    degree: int = 2,
    batch_size: int | None = None,
    progress: Progress | bool | None = None,
) -> LowDegreeWeights:
    """Compute g̃(T) of all sets of at most ``degree`` unselected features by evaluating the low layers.

    g̃(T) = Σ_{S⊆T} (−1)^{|T∖S|} h(α ∪ S) needs only masks that add at most ``degree`` features: there are
    Σ_{k≤degree} C(m, k) of them, for m unselected features. With nothing selected these are the monotone
    weights h̃(T) themselves.

    Parameters
    ----------
    model : MaskedModel
        A model that returns scores.
    selected : Boolean array of shape (n_features,)
        The explanation α.
    degree : int
        At most 4; the number of calls grows like its power of m.
    batch_size, progress
        As for ``certify``.

    Examples
    --------
    >>> from holdfast import mask_function
    >>> pair = mask_function(lambda masks: masks[:, :2].all(axis=1, keepdims=True), n_features=40)
    >>> low = low_degree_weights(pair, np.arange(40) == 0, degree=2)
    >>> low.n_calls, low.mass.ravel().tolist()
    (781, [0.0, 1.0, 0.0])
    """
    top = check_size(degree, "degree", minimum=0, most=MAX_LOW_DEGREE)
    with evaluating(model, batch_size=batch_size, progress=progress) as evaluator:
        mask = check_selection(selected, "selected", evaluator)
        nearby = Additions(mask, top)
        evaluator.expect(nearby.size)
        before = evaluator.n_calls
        scores = np.concatenate([scores_of(evaluator, masks, None) for masks in nearby.enumerate(PORTION)])
        n_calls = evaluator.n_calls - before
    m, degree = int((~mask).sum()), nearby.effective_radius
    # All sets of k of m positions, (C(m, k), k), in the order in which ``Additions`` lists them.
    layers = [
        np.array(list(combinations(range(m), k)), dtype=np.intp).reshape(math.comb(m, k), k) for k in range(degree + 1)
    ]
    with quiet():
        values = _weights(layers, scores)
    if not all(np.isfinite(weights).all() for weights in values):
        raise ModelError("Scores of the model must be small enough for finite weights in float64.")
    subsets = tuple(np.flatnonzero(~mask)[layer] for layer in layers)
    return LowDegreeWeights(mask, degree, subsets, values, n_calls)


def _weights(layers: list[NDArray[np.intp]], scores: Table) -> tuple[Table, ...]:
    """Layer by layer: what the scores have beyond the weights of all proper subsets."""
    values: list[Table] = []
    start = 0
    for k, layer in enumerate(layers):
        weights = scores[start : start + len(layer)].copy()
        start += len(layer)
        for size in range(k):
            for chosen in combinations(range(k), size):
                weights -= values[size][_ranks(layer[:, list(chosen)], layers[size])]
        values.append(weights)
    return tuple(values)


def _ranks(sets: NDArray[np.intp], layer: NDArray[np.intp]) -> NDArray[np.intp]:
    """Where each set (b, k) stands in its layer, which is sorted."""
    base = int(layer.max(initial=0)) + 1
    places = base ** np.arange(sets.shape[1])[::-1]
    return np.searchsorted(layer @ places, sets @ places)
