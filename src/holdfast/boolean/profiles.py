"""Coefficients → what they say by degree, and averages over random masks: variance, influence, noise stability."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.boolean.bases import biased, transform
from holdfast.boolean.butterflies import Matrices
from holdfast.boolean.tables import PerFeature, Table, as_table, check_finite, check_numbers, degrees, quiet
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.validation import check_whole, is_number

_BLOCK_BITS = 14

_MAX_MATRIX_FEATURES = 12


def degree_mass(c: Any) -> Table:
    """Mass per degree, Σ_{|S|=k} |c(S)| for k = 0 … n: shape (n+1,), or (n+1, k) for k functions.

    Examples
    --------
    >>> degree_mass([0.25, -0.25, -0.25, 0.25])
    array([0.25, 0.5 , 0.25])
    """
    return check_finite(sum_by_degree(*as_table(c, "c"), np.abs), "c")


def degree_weight(c: Any) -> Table:
    """Weight per degree, Σ_{|S|=k} c(S)², for k = 0 … n.

    For an orthonormal basis the weights of all degrees sum to E[h²] (Parseval), those of degree 1
    and more to the variance.

    Examples
    --------
    >>> degree_weight([0.25, -0.25, -0.25, 0.25])
    array([0.0625, 0.125 , 0.0625])
    """
    return check_finite(sum_by_degree(*as_table(c, "c"), np.square), "c")


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
    tails = _binomial_tails(len(mass) - 1, _check_one(lam, "lam"))
    return np.asarray((mass.T * tails).T)


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
    kept, share = _check_one(lam, "lam"), _check_one(p, "p")
    if not 0 < share < kept:
        raise InvalidValueError(f"`p` must be strictly between 0 and `lam` = {lam!r}, got {p!r}.")
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
    ratio = _check_one(rho, "rho", low=-1)
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
    n = check_whole(n_features, "n_features")
    if n > _MAX_MATRIX_FEATURES:
        raise InvalidValueError(f"`n_features` of a matrix must be at most {_MAX_MATRIX_FEATURES}, got {n}.")
    share = check_numbers(p, "p", n, low=0, high=1)

    def make(_: int) -> Matrices:
        return np.stack([np.array([[1, each], [each, each]]) for each in share]) if n else np.empty((0, 2, 2))

    return transform(np.eye(2**n), "eye", make, None)


def containing_sums(table: Table) -> Table:
    """For each feature the sum over all sets that hold it, (n,) or (n, k)."""
    n = len(table).bit_length() - 1
    sums = [table.reshape(-1, 2, 2**i, *table.shape[1:])[:, 1].sum(axis=(0, 1)) for i in range(n)]
    return np.array(sums, dtype=np.float64).reshape(n, *table.shape[1:])


def sum_by_degree(table: Table, n: int, size: Callable[[Table], Any]) -> Table:
    """Σ_{|S|=k} size(table(S)) for k = 0 … n, block by block: no second table is made."""
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
    coefficients = biased(h, p)
    weights = sum_by_degree(coefficients, len(coefficients).bit_length() - 1, np.square)
    with quiet():
        check_finite(weights.sum(axis=0), "h")
    return weights


def expand_by_degree(values: NDArray[np.float64], n: int) -> Table:
    """One value per degree (n+1,) → one per set (2ⁿ,)."""
    return np.asarray(values[degrees(n)])


def _binomial_tails(n: int, share: float) -> Table:
    """P[Bin(n, share) ≥ k] for k = 0 … n."""
    chances = [math.comb(n, k) * share**k * (1 - share) ** (n - k) for k in range(n + 1)]
    return np.asarray(np.minimum(1.0, np.cumsum(chances[::-1])[::-1]))


def _check_one(value: Any, name: str, *, low: float = 0) -> float:
    wanted = f"`{name}` must be a number in [{low:g}, 1], got {value!r}."
    if not is_number(value):
        raise InvalidTypeError(wanted)
    if not low <= value <= 1:
        raise InvalidValueError(wanted)
    return float(value)
