"""A table and an explanation → its exact stability, and lower bounds from monotone weights.

The bounds are the corrected forms of the paper's (docs/theory/index.md has the proofs). With g̃ the
conditional weights of h at the explanation α and w_k = P[T ⊆ β∖α], β uniform on Δ_r, |T| = k:

    1 − τ_r ≤ (1/γ) Σ_{1≤|T|≤r} |g̃(T)| w_{|T|}

Agreement is strict, as in ``holdfast.agreement.within``: scores that moved by exactly the margin disagree.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.agreement import as_agreement, within
from holdfast.boolean.bases import monotone
from holdfast.boolean.operators import mask_operator, reveal
from holdfast.boolean.profiles import sum_by_degree
from holdfast.boolean.tables import (
    PerFeature,
    Table,
    as_table,
    check_finite,
    check_per_feature,
    check_selected,
    degrees,
    index_of,
    quiet,
)
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.validation import check_name, check_whole

_ROUNDING = 1e-12  # a sum this close below its limit counts as reaching it, and scores this much apart as equal


def exact_rates(h: Any, selected: Any, *, margin: float | None = None, agree: Any = None) -> Table:
    """The stability rates τ_0, τ_1, …, τ_m by enumeration, m the number of unselected features: (m+1,).

    The parameters are those of :func:`exact_rate`.

    Examples
    --------
    >>> exact_rates([0, 0, 0, 1], [False, False], margin=0.5)
    array([1.  , 1.  , 0.75])
    """
    agreed, sizes = _agreed_by_distance(h, selected, margin, agree)
    return np.cumsum(agreed) / np.cumsum(sizes)


def exact_rate(h: Any, selected: Any, *, radius: int, margin: float | None = None, agree: Any = None) -> float:
    """The stability rate τ_r by enumeration: the share of Δ_r that keeps the prediction.

    Parameters
    ----------
    h : array of shape (2ⁿ,) or (2ⁿ, k)
        The table of one score, or of k class scores.
    selected : Boolean array of shape (n,)
        The explanation α.
    radius : int
        Most features added; clamped to the number of unselected features.
    margin : float, optional
        A mask agrees when every score moved by strictly less than this. If None, when the top class
        is the same.
    agree : str, Agreement or callable, optional
        Another agreement, instead of ``margin``.

    Examples
    --------
    >>> exact_rate([0, 0, 0, 1], [True, False], radius=1, margin=0.5)  # AND
    0.5
    """
    steps = check_whole(radius, "radius")
    rates = exact_rates(h, selected, margin=margin, agree=agree)
    return float(rates[min(steps, len(rates) - 1)])


def hard_radius(h: Any, selected: Any, *, margin: float | None = None, agree: Any = None) -> int:
    """The largest radius within which no addition changes the prediction, by enumeration.

    The paper's r*, corrected: the largest r for which all β ⊇ α with |β∖α| ≤ r agree. It is the number of
    unselected features if nothing changes the prediction. The parameters are those of :func:`exact_rate`.

    Examples
    --------
    >>> hard_radius([0, 0, 0, 1], [False, False], margin=0.5)
    1
    """
    agreed, sizes = _agreed_by_distance(h, selected, margin, agree)
    return int(np.flatnonzero(np.append(agreed < sizes, True))[0]) - 1


def inclusion_probabilities(n_unselected: int, radius: int) -> Table:
    """w_k = P[T ⊆ β∖α] for a fixed set T of k unselected features and β uniform on Δ_r, k = 0 … n_unselected.

    w_k = Σ_{j=k}^{r} C(m−k, j−k) / |Δ_r|; sizes are counted in whole numbers. (The paper labels this
    P[|β∖α| ≥ k], which is another number.)

    Examples
    --------
    >>> inclusion_probabilities(2, 1)
    array([1.        , 0.33333333, 0.        ])
    """
    m = check_whole(n_unselected, "n_unselected")
    r = min(check_whole(radius, "radius"), m)
    size = holding = sum(math.comb(m, i) for i in range(r + 1))
    chances = np.zeros(m + 1)
    for k in range(r + 1):
        chances[k] = holding / size
        # Of the sets counted, those that hold one more given feature: B(m, r) = 2·B(m−1, r−1) + C(m−1, r).
        holding = (holding - math.comb(max(m - k - 1, 0), r - k)) // 2
    return chances


def stability_bound(h: Any, selected: Any, *, radius: int, margin: float | None = None, form: str = "weights") -> float:
    """A lower bound on the stability rate τ_r from the conditional monotone weights of h.

    1 − (1/γ) Σ_{1≤|T|≤r} |g̃(T)| w_{|T|}, where g̃(T) = Σ_{U⊆α} h̃(T ∪ U). It says nothing when it is not
    positive, which is common: the proof takes Markov's inequality and then the triangle inequality.
    It is computed in floating point: where it equals the rate, it may come out above it by a rounding
    error (in the order of 1e-16 for scores in [0, 1] and few features). This holds for all the bounds here.

    Parameters
    ----------
    h : array of shape (2ⁿ,) or (2ⁿ, k)
        The table of one score, or of k class scores.
    selected : Boolean array of shape (n,)
        The explanation α.
    radius : int
        Most features added; clamped to the number of unselected features.
    margin : float, optional
        γ: a mask agrees when every score moved by strictly less; for several scores |g̃(T)| is their
        largest. If None, a mask agrees when the top class is the same; then the weights are those of
        its leads over the rivals, each divided by its value at α, and only negative ones count.
    form : {"weights", "markov"}
        "markov" stops the proof after its first step, 1 − E|h(β)−h(α)|/γ: tighter, but it needs all of
        Δ_r, from which the exact rate can be had as well.

    Examples
    --------
    >>> stability_bound([0, 0, 0, 1], [True, False], radius=1, margin=2.0)
    0.75
    """
    scores = _as_columns(reveal(h, selected))
    steps = min(check_whole(radius, "radius"), len(scores).bit_length() - 1)
    known = check_name(form, "form", ("weights", "markov"))
    return _bound(scores, _Scale.at(scores[0], margin), steps, known)


def smoothed_stability_bound(
    h: Any,
    selected: Any,
    *,
    radius: int,
    margin: float | None = None,
    keep_probability: PerFeature,
    form: str = "sharp",
) -> float:
    """A lower bound on the stability rate of the smoothed function M_λh, from the monotone weights of h.

    Parameters
    ----------
    h : array of shape (2ⁿ,) or (2ⁿ, k)
        The table of the function before smoothing.
    selected : Boolean array of shape (n,)
        The explanation α.
    radius : int
        Most features added; clamped to the number of unselected features.
    margin : float, optional
        As in :func:`stability_bound`. It is a margin of M_λh, which has a decision boundary of its own.
    keep_probability : float in [0, 1], or one per feature (n,)
        λ.
    form : {"sharp", "termwise", "factor"}
        What is summed, for T with k = |T∖α| in 1 … r. "sharp": |Σ_{U⊆α} λ^{|T∪U|} h̃(T∪U)| w_k over T
        outside α, the conditional weights of M_λh. "termwise": λ^{|T|} |h̃(T)| w_k over all T.
        "factor": λ |h̃(T)| w_k over all T, the paper's form corrected. Each is at least the next.

    Examples
    --------
    >>> for form in ("sharp", "termwise", "factor"):
    ...     smoothed_stability_bound(
    ...         [0, 0.5, 0.5, 0.75], [True, False], radius=1, margin=0.5, keep_probability=0.5, form=form
    ...     )
    0.8125
    0.6875
    0.625
    """
    table, n = as_table(h)
    mask = check_selected(selected, n)
    m = n - int(mask.sum())
    steps = min(check_whole(radius, "radius"), m)
    known = check_name(form, "form", ("sharp", "termwise", "factor"))
    kept = check_per_feature(keep_probability, "keep_probability", n, low=0, high=1)
    smoothed = _as_columns(reveal(mask_operator(table, kept), mask))
    scale = _Scale.at(smoothed[0], margin)
    if known == "sharp":
        return _bound(smoothed, scale, steps, "weights")
    weights = monotone(scale.columns(_as_columns(table)))
    factor = float(kept[~mask].max(initial=0.0)) if known == "factor" else 1.0
    if known == "termwise":
        mask_operator(weights, kept, basis="monotone", out=weights)
    chances = inclusion_probabilities(m, steps)
    chances[0] = 0.0  # sets within α do not move the score
    n_outside = degrees(n)[np.arange(2**n) & index_of(np.flatnonzero(~mask))]
    with quiet():
        return _one_minus(factor * float(scale.size(weights) @ chances[n_outside]))


def hard_bound(h: Any, selected: Any, *, margin: float | None = None) -> int:
    """A radius within which no addition changes the prediction, from the sizes of the conditional weights.

    The largest r with Σ_{k≤r} (the C(r, k) largest |g̃(T)|, |T| = k) < γ: at most :func:`hard_radius`, and
    sound for the same reason. For M_λh give ``mask_operator(h, lam)``. ``margin`` is that of
    :func:`stability_bound`.

    Examples
    --------
    >>> hard_bound([0, 0.125, 0.125, 0.25], [False, False], margin=0.2)
    1
    """
    scores = _as_columns(reveal(h, selected))
    scale = _Scale.at(scores[0], margin)
    sizes = scale.size(monotone(scale.columns(scores)))
    degree = degrees(len(sizes).bit_length() - 1)
    with quiet():
        sums = [np.sort(sizes[degree == k])[::-1].cumsum() for k in range(1, int(degree[-1]) + 1)]
    for radius in range(1, len(sums) + 1):
        # The most that the weights of the subsets of a set of ``radius`` features can add up to.
        parts = (sums[k - 1][min(math.comb(radius, k), len(sums[k - 1])) - 1] for k in range(1, radius + 1))
        if not float(sum(parts)) < 1 - _ROUNDING:
            return radius - 1
    return len(sums)


@dataclass(frozen=True, eq=False)
class _Scale:
    """How far scores may move: the prediction is kept while no rescaled column moves by 1 or more.

    With a margin, ``unit``, the columns are the scores divided by it and moves count both ways. With a
    ``winner``, they are its leads over each rival, divided by what they are at the explanation, ``unit``
    (k - 1,), and only falls count.
    """

    unit: Any
    winner: int | None = None

    @classmethod
    def at(cls, reference: Table, margin: Any) -> _Scale:
        """The scale of the scores (k,) at the explanation."""
        if margin is not None:
            return cls(within(margin).margin)
        if len(reference) == 1:
            must = "be a number > 0 for a single score, which has no top class"
            raise InvalidTypeError(argument="margin", must=must)
        winner = int(reference.argmax())
        with quiet():
            rivals = np.delete(reference, winner)
            leads = reference[winner] - rivals
            rounding = _ROUNDING * np.maximum(abs(reference[winner]), np.abs(rivals))
        if not (leads > rounding).all():
            must = "have one top class at `selected`, where the largest scores are equal up to rounding"
            raise InvalidValueError(argument="h", must=must, hint="Pass a `margin` instead.")
        return cls(leads, winner)

    def columns(self, scores: Table) -> Table:
        """Rescaled scores (b, k), or leads (b, k - 1), of scores (b, k)."""
        with quiet():
            if self.winner is not None:
                scores = scores[:, [self.winner]] - np.delete(scores, self.winner, axis=1)
            shares = np.asarray(scores / self.unit)
        if np.isfinite(shares).all():
            return shares
        if self.winner is None:
            raise InvalidValueError(argument="margin", must="be large enough to divide the scores by", got=self.unit)
        must = "have larger leads at `selected`: dividing by them overflows float64"
        raise InvalidValueError(argument="h", must=must, got=f"{self.unit.min():g} for the smallest")

    def size(self, moves: Table) -> Table:
        """The largest move that counts over the columns, (b,)."""
        return np.asarray(np.abs(moves).max(axis=1) if self.winner is None else np.maximum(-moves.min(axis=1), 0.0))


def _bound(scores: Table, scale: _Scale, radius: int, form: str) -> float:
    """1 − Q for the scores (2^m, k) of α and everything above it."""
    columns = scale.columns(scores)
    m = len(columns).bit_length() - 1
    with quiet():
        if form == "markov":
            distance = sum_by_degree(scale.size(columns - columns[0]), np.abs)
            return _one_minus(float(distance[: radius + 1].sum()) / sum(math.comb(m, k) for k in range(radius + 1)))
        mass = sum_by_degree(scale.size(monotone(columns)), np.abs)
        return _one_minus(float(mass[1:] @ inclusion_probabilities(m, radius)[1:]))


def _one_minus(quantity: float) -> float:
    return 1.0 - float(check_finite(np.array(quantity), "h"))


def _agreed_by_distance(h: Any, selected: Any, margin: Any, agree: Any) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """How many masks at each distance from ``selected`` agree with it, and how many there are."""
    scores = _as_columns(reveal(h, selected))
    if margin is not None and agree is not None:
        message = "and `agree` exclude each other; `margin` means `within(margin)`."
        raise InvalidTypeError(message, argument="margin")
    same = within(margin) if margin is not None else as_agreement("same_top_class" if agree is None else agree)
    m = len(scores).bit_length() - 1
    # A move too large for a float is infinite, which is the right side of any margin.
    with quiet():
        agreed = np.bincount(degrees(m)[same(scores, scores[0])], minlength=m + 1)
    return agreed, np.array([math.comb(m, k) for k in range(m + 1)])


def _as_columns(table: Table) -> Table:
    return table.reshape(len(table), -1)
