"""Coefficients → what they say by degree, averages over random masks, and the values and interactions of features.

Shapley values, Banzhaf values and interaction indices are sums over the sets that hold the features in
question, weighted by size:

    Shapley value      Σ_{T∋i} h̃(T) / |T|
    Banzhaf value      Σ_{T∋i} h̃(T) / 2^{|T|−1}
    interactions       the same over T ⊇ S, see ``interactions``
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from holdfast.boolean.bases import apply_in_place, biased, transform
from holdfast.boolean.tables import PerFeature, Table, as_table, check_finite, check_per_feature, degrees, quiet
from holdfast.errors import InvalidValueError
from holdfast.validation import check_name, check_number, check_size, check_whole, shown

_BLOCK_BITS = 14
_MAX_MATRIX_FEATURES = 12

_FACTORS: dict[str, Callable[[int, int], float]] = {
    "shapley": lambda t, size: 1 / (t - size + 1),
    "banzhaf": lambda t, size: 0.5 ** (t - size),
    "taylor": lambda t, size: 1 / math.comb(t, size),
}
"""What an interaction index of a set multiplies the weight of each superset of t features with."""


def degree_mass(c: Any) -> Table:
    """Mass per degree, Σ_{|S|=k} |c(S)| for k = 0 … n: shape (n+1,), or (n+1, k) for k functions.

    Examples
    --------
    >>> degree_mass([0.25, -0.25, -0.25, 0.25])
    array([0.25, 0.5 , 0.25])
    """
    return check_finite(sum_by_degree(as_table(c, "c")[0], np.abs), "c")


def degree_weight(c: Any) -> Table:
    """Weight per degree, Σ_{|S|=k} c(S)², for k = 0 … n.

    For an orthonormal basis the weights of all degrees sum to E[h²] (Parseval), those of degree 1
    and more to the variance.

    Examples
    --------
    >>> degree_weight([0.25, -0.25, -0.25, 0.25])
    array([0.0625, 0.125 , 0.0625])
    """
    return check_finite(sum_by_degree(as_table(c, "c")[0], np.square), "c")


def tail_mass(c: Any) -> Table:
    """Mass of degree k and more, Σ_{|S|≥k} |c(S)|, for k = 0 … n.

    Examples
    --------
    >>> tail_mass([0.25, -0.25, -0.25, 0.25])
    array([1.  , 0.75, 0.25])
    """
    with quiet():
        mass = np.ascontiguousarray(degree_mass(c)[::-1].cumsum(axis=0)[::-1])
    return check_finite(mass, "c")


def smoothed_mass_bound(c: Any, lam: float) -> Table:
    """Upper bound on ``tail_mass`` of M_λh from the Fourier coefficients of h, for k = 0 … n.

    The paper's P[Bin(n, λ) ≥ k] · Σ_{|S|≥k} |ĥ(S)|.

    Examples
    --------
    >>> smoothed_mass_bound([0.25, -0.25, -0.25, 0.25], 0.5)
    array([1.    , 0.5625, 0.0625])
    """
    mass = tail_mass(c)
    n, share = len(mass) - 1, _check_number(lam, "lam")
    chances = [math.comb(n, k) * share**k * (1 - share) ** (n - k) for k in range(n + 1)]
    return np.asarray((mass.T * np.minimum(1.0, np.cumsum(chances[::-1])[::-1])).T)


def variance(h: Any, *, p: PerFeature = 0.5) -> Any:
    """Variance of a table when each feature is shown with probability ``p``; one number per function.

    Examples
    --------
    >>> float(variance([0, 0, 0, 1]))
    0.1875
    """
    return _weights_of(h, p)[1:].sum(axis=0)


def smoothed_variance_bound(h: Any, lam: float, *, p: float) -> Any:
    """Upper bound (λ−p)/(1−p) · Var_p[h] on the variance of M_λh when features are shown with probability p/λ.

    For 0 < p < λ ≤ 1. Equality holds for functions of degree 1.

    Examples
    --------
    >>> round(float(smoothed_variance_bound([0, 1], 0.5, p=0.25)), 12)
    0.0625
    """
    kept, share = _check_number(lam, "lam"), _check_number(p, "p")
    if not 0 < share < kept:
        must = f"be strictly between 0 and `lam` = {lam!r}"
        raise InvalidValueError(argument="p", must=must, got=shown(p))
    return (kept - share) / (1 - share) * variance(h, p=share)


def influences(h: Any, *, p: PerFeature = 0.5) -> Table:
    """Influence of each feature, E[Var_i h] = Σ_{S∋i} ĥ(S)²: shape (n,), or (n, k) for k functions.

    Var_i is the variance over feature i alone, E the mean over the others, each feature shown with
    probability ``p``.

    Examples
    --------
    >>> influences([0, 1, 0, 1])  # only feature 0 matters
    array([0.25, 0.  ])
    """
    with quiet():
        sums = containing_sums(np.square(biased(h, p)))
    return check_finite(sums, "h")


def noise_stability(h: Any, rho: float, *, p: PerFeature = 0.5) -> Any:
    """Noise stability Σ_S ρ^{|S|} ĥ(S)²: the mean of h(α)h(β) over correlated masks α, β.

    Each feature of α is shown with probability ``p``; in β it is copied with probability ρ and drawn
    anew otherwise (for ρ ≥ 0). At p = ½ this is ⟨h, T_ρh⟩.

    Examples
    --------
    >>> float(noise_stability([0, 0, 0, 1], 0.5))
    0.140625
    """
    ratio = _check_number(rho, "rho", low=-1)
    weight = _weights_of(h, p)
    return (weight.T * ratio ** np.arange(len(weight))).T.sum(axis=0)


def gram_matrix(n_features: int, *, p: PerFeature = 0.5) -> Table:
    """Inner products E[1_S 1_T] = p^{|S∪T|} of the monotone basis, (2ⁿ, 2ⁿ); n ≤ 12.

    Examples
    --------
    >>> gram_matrix(1)
    array([[1. , 0.5],
           [0.5, 0.5]])
    """
    n = check_size(n_features, "n_features", minimum=0, most=_MAX_MATRIX_FEATURES)
    share = check_per_feature(p, "p", n, low=0, high=1)
    matrices = np.array([[[1, each], [each, each]] for each in share]).reshape(n, 2, 2)
    return transform(np.eye(2**n), "eye", lambda _: matrices, None)


def shapley(weights: Any) -> Table:
    """Shapley value of each feature, from monotone weights: shape (n,), or (n, k) for k functions.

    They sum to h(all features) − h(none).

    Examples
    --------
    >>> from holdfast.boolean import monotone
    >>> shapley(monotone([0, 1, 1, 1]))
    array([0.5, 0.5])
    """
    return _values(weights, lambda t: 1 / t)


def banzhaf(weights: Any, *, p: float = 0.5) -> Table:
    """Banzhaf value of each feature, from monotone weights: Σ_{T∋i} p^{|T|−1} h̃(T).

    The mean of h(with i) − h(without i) when every other feature is shown with probability ``p``.

    Examples
    --------
    >>> from holdfast.boolean import monotone
    >>> banzhaf(monotone([0, 0, 0, 1]))
    array([0.5, 0.5])
    """
    share = _check_number(p, "p")
    return _values(weights, lambda t: share ** (t - 1))


def interactions(weights: Any, *, order: int = 2, index: str = "shapley") -> Table:
    """Interaction index of every set S of 1 to ``order`` features, at the row of S; all other rows are 0.

    Parameters
    ----------
    weights : array of shape (2ⁿ,) or (2ⁿ, k)
        Monotone weights h̃.
    order : int
        Largest set of interest.
    index : str
        With sums over T ⊇ S: "shapley" Σ h̃(T) / (|T|−|S|+1); "banzhaf" Σ h̃(T) / 2^{|T|−|S|}; "taylor"
        (Shapley–Taylor) h̃(S) below ``order`` and Σ h̃(T) / C(|T|, order) at it; "monotone" h̃(S).

    Examples
    --------
    >>> from holdfast.boolean import monotone
    >>> interactions(monotone([0, 1, 1, 1]), order=2)
    array([ 0. ,  0.5,  0.5, -1. ])
    """
    table, n = as_table(weights, "weights")
    top = check_whole(order, "order", minimum=1)
    known = check_name(index, "index", (*_FACTORS, "monotone"))
    result, sizes = np.zeros_like(table), degrees(n)
    for size in range(1, min(top, n) + 1):
        sums = table
        if known != "monotone" and (known != "taylor" or size == top):
            sums = _scaled(table, [_FACTORS[known](t, size) if t >= size else 0.0 for t in range(n + 1)])
            with quiet():  # sums over supersets, one feature at a time
                apply_in_place(sums, np.triu(np.ones((n, 2, 2))))
        result[sizes == size] = sums[sizes == size]
    return check_finite(result, "weights")


def _values(weights: Any, factor: Callable[[int], float]) -> Table:
    """For each feature the sum over the sets that hold it, each times the factor of its size."""
    table, n = as_table(weights, "weights")
    with quiet():
        sums = containing_sums(_scaled(table, [0.0, *(factor(t) for t in range(1, n + 1))]))
    return check_finite(sums, "weights")


def _scaled(table: Table, factors: list[float]) -> Table:
    """Every row times the factor of its number of features, 0 … n."""
    return np.ascontiguousarray((table.T * np.array(factors)[degrees(len(factors) - 1)]).T)


def containing_sums(table: Table) -> Table:
    """For each feature the sum over all sets that hold it, (n,) or (n, k)."""
    n = len(table).bit_length() - 1
    sums = [table.reshape(-1, 2, 2**i, *table.shape[1:])[:, 1].sum(axis=(0, 1)) for i in range(n)]
    return np.array(sums, dtype=np.float64).reshape(n, *table.shape[1:])


def sum_by_degree(table: Table, size: Callable[[Table], Any]) -> Table:
    """Σ_{|S|=k} size(table(S)) for k = 0 … n, block by block: no second table is made."""
    n = len(table).bit_length() - 1
    bits = min(n, _BLOCK_BITS)
    low = degrees(bits).astype(np.intp)
    rows = table.reshape(2**n, -1)
    sums = np.zeros((n + 1, rows.shape[1]))
    for block in range(2 ** (n - bits)):
        with quiet():
            values = size(rows[block << bits : (block + 1) << bits])
        above = block.bit_count()
        for column in range(rows.shape[1]):
            sums[above : above + bits + 1, column] += np.bincount(low, weights=values[:, column], minlength=bits + 1)
    return sums.reshape(n + 1, *table.shape[1:])


def _weights_of(h: Any, p: PerFeature) -> Table:
    """p-biased weight per degree of a table; that they sum to something finite is checked too."""
    weights = sum_by_degree(biased(h, p), np.square)
    with quiet():
        check_finite(weights.sum(axis=0), "h")
    return weights


def _check_number(value: Any, name: str, *, low: float = 0.0) -> float:
    """A number from ``low`` to 1."""
    return float(check_number(value, name, f"be a number in [{low:g}, 1]", lambda number: low <= number <= 1))
