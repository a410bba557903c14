"""A model of many features → its spectrum: estimates by sampling, each with a proven interval, and low degrees exactly.

Where masks are sampled, scores must lie in a range that is known beforehand; a score outside it is an error, because
the intervals would be void. The number of draws is fixed in advance.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.boolean.tables import PORTION, Table, quiet, scores_of
from holdfast.bounds import Interval
from holdfast.errors import InvalidTypeError, InvalidValueError, ModelError
from holdfast.evaluation import Evaluator, evaluating
from holdfast.neighborhood import Additions
from holdfast.randomness import stream, stream_key
from holdfast.terminal import Shown
from holdfast.types import Mask, MaskedModel, Masks, Progress, Rng
from holdfast.validation import check_list, check_selection, check_share, check_size, check_whole, is_number, shown

MAX_LOW_DEGREE = 4

_PAIRS_AT_ONCE = 1 << 20

_MOST_SETS = 10**15  # levels with more sets would need more draws than their square root
_WIDEST_RANGE = 1e60  # its fourth power, times the number of sets and over the risk, is still a float


@dataclass(frozen=True)
class Estimate(Shown):
    """An estimated number of a spectrum and an interval for the true one.

    ``confidence`` is that of the interval alone, or, if it was estimated together with others, of all
    their intervals at once. It is the probability, before drawing, that the statement is true.
    ``value`` is unbiased, and so may lie outside the interval and outside of what is possible: that of
    a level weight may be negative, though no weight is.
    """

    of: tuple[int, ...] | int
    value: float
    interval: Interval
    confidence: float
    n_samples: int
    rng_key: int


def estimate_coefficients(
    model: MaskedModel,
    subsets: Iterable[Iterable[int]],
    *,
    n_samples: int,
    score_range: tuple[float, float],
    target: int = 0,
    p: float = 0.5,
    confidence: float = 0.9,
    batch_size: int | None = None,
    progress: Progress | bool | None = None,
    rng: Rng = None,
) -> tuple[Estimate, ...]:
    """Estimate Fourier coefficients ĥ(S), or p-biased ones, of one class score by sampling masks.

    Unbiased: the mean of (h(α) − c)·χ_S^p(α), with c the middle of the range (added back for S = ∅).
    Hoeffding's inequality gives the intervals, which hold for all the subsets at once with
    probability at least ``confidence`` (each has an equal share of the risk).

    Parameters
    ----------
    model : MaskedModel
        A model that returns scores.
    subsets : iterable of iterables of int
        Sets of features, () for the mean.
    n_samples : int
        Number of masks drawn, fixed in advance.
    score_range : (low, high)
        Numbers that every score of ``target`` is known to lie between: (0, 1) for a probability,
        (-1, 1) for a function with values ±1.
    target : int
        The class.
    p : float
        Probability that a feature is shown. Away from ½ the basis functions of larger sets are large,
        and so are the intervals.
    confidence : float
        Of all intervals at once.
    batch_size, progress, rng
        As for ``certify``.

    Examples
    --------
    >>> from holdfast import mask_function
    >>> first = mask_function(lambda masks: masks[:, :1], n_features=100)
    >>> mean, zero, other = estimate_coefficients(first, [(), (0,), (1,)], n_samples=4000, score_range=(0, 1), rng=0)
    >>> zero.value, zero.interval.high < 0 < other.interval.high
    (-0.5, True)
    """
    low, high = _check_range(score_range)
    n_draws, sure = check_whole(n_samples, "n_samples", minimum=1), check_share(confidence, "confidence")
    share = float(check_share(p, "p"))
    key = stream_key(rng)
    with evaluating(model, batch_size=batch_size, progress=progress) as evaluator:
        sets, must = [], "be sets of features such as [(0,), (0, 1)]"
        for features in check_list(subsets, "subsets", must):
            items = check_list(features, "subsets", f"{must}, not single features")
            sets.append(tuple(sorted({check_whole(feature, "subsets") for feature in items})))
            if items and sets[-1][-1] >= evaluator.n_features:
                must = f"hold features 0 to {evaluator.n_features - 1}"
                raise InvalidValueError(argument="subsets", must=must, got=sets[-1][-1])
        masks = stream(key, "coefficients").random((n_draws, evaluator.n_features)) < share
        scores = _scores_within(evaluator, masks, target, low, high)
    risk = float(1 - sure) / max(1, len(sets))
    middle, width = (low + high) / 2, (high - low) * math.sqrt(math.log(2 / risk) / (2 * n_draws))
    deviation = math.sqrt(share * (1 - share))
    characters = (share - masks) / deviation
    estimates = []
    for subset in sets:
        # Each term lies within ±(high − low)/2 times the largest value of the basis function.
        with quiet():
            half = float(width * np.float64(max(share, 1 - share) / deviation) ** len(subset))
        if not math.isfinite(2 * half):
            must = f"be further from 0 and 1 for a set of {len(subset)} features"
            raise InvalidValueError(argument="p", must=must, got=shown(p))
        value = float(((scores - middle) * characters[:, subset].prod(axis=1)).mean()) + (0 if subset else middle)
        estimates.append(Estimate(subset, value, Interval(value - half, value + half), float(sure), n_draws, key))
    return tuple(estimates)


def estimate_level_weights(
    model: MaskedModel,
    levels: Sequence[int],
    *,
    n_samples: int,
    score_range: tuple[float, float],
    target: int = 0,
    confidence: float = 0.9,
    batch_size: int | None = None,
    progress: Progress | bool | None = None,
    rng: Rng = None,
) -> tuple[Estimate, ...]:
    """Estimate the Fourier weight W_k = Σ_{|S|=k} ĥ(S)² of whole levels k ≥ 1 by sampling masks.

    Unbiased: with masks α_1 … α_N drawn uniformly and independently, the mean of
    h(α_a) h(α_b) K_k(α_a, α_b) over all pairs a ≠ b, where K_k = Σ_{|S|=k} χ_S(α_a) χ_S(α_b) depends
    only on the distance of the two masks. If |h − c| ≤ B, its variance is at most
    V(w) = 4(N−2)/(N(N−1)) B²w + 2/(N(N−1)) B⁴ C(n, k) at W_k = w, so that by Chebyshev's inequality
    {w : (estimate − w)² ≤ V(w)/δ} holds the true weight with probability at least 1 − δ (proof in
    docs/theory/boolean.md). The levels share δ equally. Useful while C(n, k) is small against N².

    The parameters are those of :func:`estimate_coefficients`; ``levels`` are the degrees of interest.

    Examples
    --------
    >>> from holdfast import mask_function
    >>> sign = mask_function(lambda masks: 1 - 2 * masks[:, :1].astype(float), n_features=50)
    >>> one, two = estimate_level_weights(sign, [1, 2], n_samples=2000, score_range=(-1, 1), rng=0)
    >>> one.interval.low > 0.8 and two.interval.high < 0.2
    True
    """
    low, high = _check_range(score_range, widest=_WIDEST_RANGE)
    n_draws, sure = check_whole(n_samples, "n_samples", minimum=2), check_share(confidence, "confidence")
    key = stream_key(rng)
    with evaluating(model, batch_size=batch_size, progress=progress) as evaluator:
        n = evaluator.n_features
        must = "be whole numbers such as [1, 2]"
        wanted = [check_whole(level, "levels", minimum=1) for level in check_list(levels, "levels", must)]
        for level in wanted:
            if level > n:
                raise InvalidValueError(argument="levels", must=f"be at most the number of features {n}", got=level)
            if math.comb(n, level) > _MOST_SETS:
                received = f"{level} of {n} features"
                raise InvalidValueError(argument="levels", must="have at most 1e15 sets", got=received)
        masks = stream(key, "level-weights").random((n_draws, n)) < 0.5
        scores = _scores_within(evaluator, masks, target, low, high)
    risk = float(1 - sure) / max(1, len(wanted))
    products = _pair_products(masks, scores - (low + high) / 2)
    estimates = []
    for level in wanted:
        value = float(_krawtchouk(n, level) @ products) / (n_draws * (n_draws - 1))
        interval = _chebyshev(value, n_draws, math.comb(n, level), bound=(high - low) / 2, risk=risk)
        estimates.append(Estimate(level, value, interval, float(sure), n_draws, key))
    return tuple(estimates)


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
    layers: list[NDArray[np.intp]] = []
    values: list[Table] = []
    start = 0
    for k in range(degree + 1):
        # All sets of k of m positions, (C(m, k), k), in the order in which ``Additions`` lists them.
        layer = np.array(list(combinations(range(m), k)), dtype=np.intp).reshape(math.comb(m, k), k)
        weights = scores[start : start + len(layer)].copy()
        start += len(layer)
        with quiet():  # what the scores have beyond the weights of all proper subsets
            for size in range(k):
                for chosen in combinations(range(k), size):
                    weights -= values[size][_ranks(layer[:, list(chosen)], layers[size])]
        if not np.isfinite(weights).all():
            raise ModelError("The scores of the model are too large: their weights overflow float64.")
        layers.append(layer)
        values.append(weights)
    subsets = tuple(np.flatnonzero(~mask)[layer] for layer in layers)
    return LowDegreeWeights(mask, degree, subsets, tuple(values), n_calls)


def _scores_within(evaluator: Evaluator, masks: Masks, target: int, low: float, high: float) -> Table:
    """The scores (b,) of the target, checked against their range."""
    column = check_whole(target, "target")
    evaluator.expect(len(masks))
    scores = scores_of(evaluator, masks, column)
    if scores.min() < low or scores.max() > high:
        must = f"must lie in `score_range` = ({low:g}, {high:g}), got {scores.min():g} to {scores.max():g}"
        raise ModelError(f"Scores of class {column} {must}. The intervals depend on it.")
    return scores


def _pair_products(masks: Masks, scores: Table) -> Table:
    """Σ h_a h_b over the ordered pairs a ≠ b at each distance 0 … n, (n+1,)."""
    n = masks.shape[1]
    signs = 1 - 2 * masks.astype(np.float64)
    sums = np.zeros(n + 1)
    rows = max(1, _PAIRS_AT_ONCE // len(masks))
    for start in range(0, len(masks), rows):
        distance = ((n - signs[start : start + rows] @ signs.T) / 2).astype(np.intp)
        pairs = np.outer(scores[start : start + rows], scores)
        sums += np.bincount(distance.ravel(), weights=pairs.ravel(), minlength=n + 1)
    sums[0] -= float(scores @ scores)
    return sums


def _krawtchouk(n: int, level: int) -> Table:
    """K_level(d) = Σ_{|S|=level} χ_S(x) for a mask x of d features, d = 0 … n, in whole numbers until the end."""
    values = [
        sum((-1) ** j * math.comb(d, j) * math.comb(n - d, level - j) for j in range(level + 1)) for d in range(n + 1)
    ]
    return np.array([float(value) for value in values])


def _chebyshev(value: float, n_draws: int, n_sets: int, *, bound: float, risk: float) -> Interval:
    """All w in [0, B²] with (value − w)² ≤ V(w)/δ: the roots of a quadratic."""
    pairs = n_draws * (n_draws - 1)
    linear = 4 * (n_draws - 2) / pairs * bound**2 / risk
    constant = 2 / pairs * bound**4 * n_sets / risk
    centre = value + linear / 2
    half = math.sqrt(max(0.0, centre**2 - value**2 + constant))
    return Interval(min(max(0.0, centre - half), bound**2), min(max(0.0, centre + half), bound**2))


def _check_range(score_range: Any, *, widest: float = 1e300) -> tuple[float, float]:
    must = "be two numbers, low < high"
    if not isinstance(score_range, (tuple, list)) or len(score_range) != 2 or not all(map(is_number, score_range)):
        raise InvalidTypeError(argument="score_range", must=must, got=shown(score_range))
    low, high = map(float, score_range)
    if not -math.inf < low < high < math.inf:
        raise InvalidValueError(argument="score_range", must=must, got=shown(score_range))
    if not high - low <= widest:
        raise InvalidValueError(argument="score_range", must=f"be at most {widest:g} wide", got=shown(score_range))
    return low, high


def _ranks(sets: NDArray[np.intp], layer: NDArray[np.intp]) -> NDArray[np.intp]:
    """Where each set (b, k) stands in its layer, which is sorted."""
    base = int(layer.max(initial=0)) + 1
    places = base ** np.arange(sets.shape[1])[::-1]
    return np.searchsorted(layer @ places, sets @ places)
