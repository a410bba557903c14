"""Boolean analysis from its definitions: sums over sets and masks, one at a time, without the package.

A function is a list of 2ⁿ numbers; the entry of a set of features S, given as a frozenset or a bit
mask, is at Σ_{i∈S} 2^i. Nothing here is fast. What is printed in the paper but false is here too, under
a name that begins with ``printed``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, combinations, permutations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Set = frozenset[int]
Function = Sequence[float]


def subsets(of: Any) -> Iterator[Set]:
    """All subsets, smallest first."""
    items = sorted(of)
    return map(frozenset, chain.from_iterable(combinations(items, k) for k in range(len(items) + 1)))


def n_of(h: Function) -> int:
    return len(h).bit_length() - 1


def every(h: Function) -> Iterator[Set]:
    return subsets(range(n_of(h)))


def at(h: Function, s: Set) -> float:
    return h[sum(1 << i for i in s)]


def function(n: int, rule: Callable[[Set], float]) -> list[float]:
    """The list of a rule on sets."""
    values = [0.0] * 2**n
    for s in subsets(range(n)):
        values[sum(1 << i for i in s)] = rule(s)
    return values


def chance(s: Set, n: int, p: float) -> float:
    """P[α = s] when each feature is shown with probability p."""
    return p ** len(s) * (1 - p) ** (n - len(s))


def mean(h: Function, p: float = 0.5) -> float:
    return sum(chance(a, n_of(h), p) * at(h, a) for a in every(h))


# -- bases ------------------------------------------------------------------------------------------


def chi(s: Set, a: Set) -> float:
    return math.prod(-1.0 if i in a else 1.0 for i in s)


def chi_biased(s: Set, a: Set, p: float) -> float:
    return math.prod((p - (i in a)) / math.sqrt(p - p * p) for i in s)


def unanimity(t: Set, a: Set) -> float:
    return 1.0 if t <= a else 0.0


def fourier(h: Function) -> list[float]:
    n = n_of(h)
    return function(n, lambda s: sum(at(h, a) * chi(s, a) for a in every(h)) / 2**n)


def biased(h: Function, p: float) -> list[float]:
    n = n_of(h)
    return function(n, lambda s: sum(chance(a, n, p) * at(h, a) * chi_biased(s, a, p) for a in every(h)))


def monotone(h: Function) -> list[float]:
    """By the recursion h̃(T) = h(T) − Σ_{S⊊T} h̃(S)."""
    known: dict[Set, float] = {}
    for t in every(h):
        known[t] = at(h, t) - sum(known[s] for s in subsets(t) if s != t)
    return function(n_of(h), lambda t: known[t])


def combine(c: Function, basis: Callable[[Set, Set], float]) -> list[float]:
    """The function with the given coefficients in a basis."""
    return function(n_of(c), lambda a: sum(at(c, s) * basis(s, a) for s in every(c)))


# -- operators --------------------------------------------------------------------------------------


def mask_operator(h: Function, lam: float) -> list[float]:
    n = n_of(h)
    return function(n, lambda a: sum(chance(z, n, lam) * at(h, a & z) for z in every(h)))


def flip_operator(h: Function, rho: float) -> list[float]:
    n = n_of(h)
    return function(n, lambda a: sum(chance(z, n, (1 - rho) / 2) * at(h, a ^ z) for z in every(h)))


# -- averages ---------------------------------------------------------------------------------------


def by_degree(c: Function, size: Callable[[float], float]) -> list[float]:
    sums = [0.0] * (n_of(c) + 1)
    for s in every(c):
        sums[len(s)] += size(at(c, s))
    return sums


def variance(h: Function, p: float) -> float:
    centre = mean(h, p)
    return sum(chance(a, n_of(h), p) * (at(h, a) - centre) ** 2 for a in every(h))


def influence(h: Function, i: int, p: float) -> float:
    """E[Var_i h]: p(1−p)·(h with i − h without i)², averaged over the other features."""
    n = n_of(h)
    rest = [s for s in every(h) if i not in s]
    return sum(chance(s, n - 1, p) * p * (1 - p) * (at(h, s | {i}) - at(h, s)) ** 2 for s in rest)


def noise_stability(h: Function, rho: float, p: float) -> float:
    """E[h(α)h(β)], β a copy of α in which each feature is drawn anew with probability 1 − ρ (ρ ≥ 0)."""
    n, total = n_of(h), 0.0
    for a, b in product(every(h), repeat=2):
        steps = [(rho if (i in a) == (i in b) else 0.0) + (1 - rho) * (p if i in b else 1 - p) for i in range(n)]
        total += chance(a, n, p) * math.prod(steps) * at(h, a) * at(h, b)
    return total


# -- games ------------------------------------------------------------------------------------------


def shapley(h: Function) -> list[float]:
    """Mean gain of each feature over all orders in which they may be added."""
    n = n_of(h)
    gains = [0.0] * n
    for order in permutations(range(n)):
        before: Set = frozenset()
        for i in order:
            gains[i] += (at(h, before | {i}) - at(h, before)) / math.factorial(n)
            before |= {i}
    return gains


def discrete_derivative(h: Function, s: Set, t: Set) -> float:
    """Σ_{L⊆S} (−1)^{|S|−|L|} h(T ∪ L)."""
    return sum((-1) ** (len(s) - len(low)) * at(h, t | low) for low in subsets(s))


def interaction(h: Function, s: Set, weight: Callable[[int, int, int], float]) -> float:
    """Σ_{T⊆N∖S} weight(n, |S|, |T|)·derivative: the form in which game theory defines such indices."""
    n = n_of(h)
    rest = frozenset(range(n)) - s
    return sum(weight(n, len(s), len(t)) * discrete_derivative(h, s, t) for t in subsets(rest))


def shapley_weight(n: int, s: int, t: int) -> float:
    return math.factorial(n - t - s) * math.factorial(t) / math.factorial(n - s + 1)


def banzhaf_weight(n: int, s: int, t: int) -> float:
    return 0.5 ** (n - s)


def taylor_weight(n: int, s: int, t: int) -> float:
    return s / n / math.comb(n - 1, t)


# -- stability --------------------------------------------------------------------------------------


def additions(n: int, alpha: Set, radius: int) -> list[Set]:
    """Δ_r(α)."""
    return [alpha | extra for extra in subsets(frozenset(range(n)) - alpha) if len(extra) <= radius]


def rate(h: Function, alpha: Set, radius: int, margin: float, *, strict: bool = True) -> float:
    """τ_r: the share of Δ_r on which |h(β) − h(α)| is below the margin (at most it, if not strict)."""
    moves = [abs(at(h, beta) - at(h, alpha)) for beta in additions(n_of(h), alpha, radius)]
    return sum(move < margin or (not strict and move == margin) for move in moves) / len(moves)


def hard_radius(h: Function, alpha: Set, margin: float) -> int:
    free = n_of(h) - len(alpha)
    return max(r for r in range(free + 1) if rate(h, alpha, r, margin) == 1)


def inclusion(n: int, alpha: Set, radius: int, t: Set) -> float:
    """P[T ⊆ β∖α] for β uniform on Δ_r, counted."""
    near = additions(n, alpha, radius)
    return sum(t <= beta - alpha for beta in near) / len(near)


def conditional_weight(h: Function, alpha: Set, t: Set) -> float:
    """g̃(T) = Σ_{U⊆α} h̃(T ∪ U)."""
    weights = monotone(h)
    return sum(at(weights, t | u) for u in subsets(alpha))


def bound(h: Function, alpha: Set, radius: int, margin: float) -> float:
    """1 − Q/γ with conditional weights."""
    n = n_of(h)
    outside = [t for t in subsets(frozenset(range(n)) - alpha) if 1 <= len(t) <= radius]
    total = sum(abs(conditional_weight(h, alpha, t)) * inclusion(n, alpha, radius, t) for t in outside)
    return 1 - total / margin


def smoothed_bound(h: Function, alpha: Set, radius: int, margin: float, lam: float, form: str) -> float:
    n = n_of(h)
    weights = monotone(h)
    if form == "sharp":
        return bound(
            combine([lam ** j.bit_count() * w for j, w in enumerate(weights)], unanimity), alpha, radius, margin
        )
    total = 0.0
    for t in every(h):
        if 1 <= len(t - alpha) <= radius:
            factor = lam ** len(t) if form == "termwise" else lam
            total += factor * abs(at(weights, t)) * inclusion(n, alpha, radius, t - alpha)
    return 1 - total / margin


def leads(scores: Sequence[Function], alpha: Set) -> list[list[float]]:
    """For each rival the lead of the class that is ahead at α, over what it is at α."""
    ahead = max(scores, key=lambda h: at(h, alpha))
    rivals = [h for h in scores if h is not ahead]
    return [[(a - b) / (at(ahead, alpha) - at(h, alpha)) for a, b in zip(ahead, h, strict=True)] for h in rivals]


def distance(moves: Sequence[float], margin: float | None) -> float:
    """How far several scores moved: the largest move over the margin, or the largest fall of a lead."""
    if margin is None:
        return max(max(-move, 0.0) for move in moves)
    return max(abs(move) for move in moves) / margin


def class_bound(scores: Sequence[Function], alpha: Set, radius: int, margin: float | None, form: str) -> float:
    """The bound for several scores: "weights" sums sizes of conditional weights, "markov" is the mean distance."""
    columns = leads(scores, alpha) if margin is None else scores
    n = n_of(scores[0])
    if form == "markov":
        near = additions(n, alpha, radius)
        moved = [distance([at(h, beta) - at(h, alpha) for h in columns], margin) for beta in near]
        return 1 - sum(moved) / len(moved)
    outside = [t for t in subsets(frozenset(range(n)) - alpha) if 1 <= len(t) <= radius]
    sizes = [distance([conditional_weight(h, alpha, t) for h in columns], margin) for t in outside]
    return 1 - sum(s * inclusion(n, alpha, radius, t) for s, t in zip(sizes, outside, strict=True))


def smoothed_class_bound(
    scores: Sequence[Function], alpha: Set, radius: int, margin: float | None, lam: float, form: str
) -> float:
    """The same for M_λ of the scores: "sharp", "termwise", "factor"; leads are those of the smoothed scores at α."""
    smoothed = [mask_operator(h, lam) for h in scores]
    if form == "sharp":
        return class_bound(smoothed, alpha, radius, margin, "weights")
    n = n_of(scores[0])
    columns = scores
    if margin is None:
        ahead = max(range(len(scores)), key=lambda c: at(smoothed[c], alpha))
        rivals = [c for c in range(len(scores)) if c != ahead]
        gaps = {c: at(smoothed[ahead], alpha) - at(smoothed[c], alpha) for c in rivals}
        columns = [[(a - b) / gaps[c] for a, b in zip(scores[ahead], scores[c], strict=True)] for c in rivals]
    weights, total = [monotone(h) for h in columns], 0.0
    for t in subsets(range(n)):
        if 1 <= len(t - alpha) <= radius:
            factor = lam ** len(t) if form == "termwise" else lam
            total += factor * distance([at(w, t) for w in weights], margin) * inclusion(n, alpha, radius, t - alpha)
    return 1 - total


def printed_quantity(h: Function, alpha: Set, radius: int) -> float:
    """Q of the paper: unconditional weights h̃(T) of sets outside α."""
    n, weights = n_of(h), monotone(h)
    outside = [t for t in subsets(frozenset(range(n)) - alpha) if 1 <= len(t) <= radius]
    return sum(abs(at(weights, t)) * inclusion(n, alpha, radius, t) for t in outside)


def printed_difference(h: Function, alpha: Set, beta: Set) -> float:
    """What the paper has for h(β) − h(α)."""
    weights = monotone(h)
    return sum(at(weights, t) for t in subsets(beta - alpha) if t)


# -- many functions at once ---------------------------------------------------------------------------


class Batch:
    """Functions (f, 2ⁿ), an explanation given as a row number, and a radius: every sum over explicit lists.

    Sums over Δ_r are left as sums, not divided by its size, so that with values, margins and keep
    probabilities that are short binary fractions everything is exact.
    """

    def __init__(self, functions: Array, alpha: int, radius: int) -> None:
        self.functions, self.alpha, self.radius = functions, alpha, radius
        self.n = n_of(functions[0])
        rows = range(2**self.n)
        self.outside = [x for x in rows if x & alpha == 0]
        self.inside = [x for x in rows if x & ~alpha == 0]
        self.near = [alpha | x for x in self.outside if x.bit_count() <= radius]
        self.sets = [x for x in self.outside if 1 <= x.bit_count() <= radius]
        self.weights = functions @ mobius_matrix(self.n).T
        self.counts = np.array([self.count(t) for t in self.sets], dtype=float)

    def count(self, t: int) -> int:
        """How many β of Δ_r hold the set t."""
        return sum(t & ~beta == 0 for beta in self.near)

    def smoothed(self, lam: float) -> Batch:
        return Batch(self.functions @ mask_matrix(self.n, lam).T, self.alpha, self.radius)

    def moves(self) -> Array:
        """h(β) − h(α) for β in Δ_r, (f, |Δ_r|)."""
        return self.functions[:, self.near] - self.functions[:, [self.alpha]]

    def printed_moves(self) -> Array:
        """What the paper says they are: sums of h̃(T) over nonempty T ⊆ β∖α."""
        parts = [[t for t in self.sets if t & ~(beta & ~self.alpha) == 0] for beta in self.near]
        return np.stack([self.weights[:, part].sum(axis=1) for part in parts], axis=1)

    def n_changed(self, margin: float, *, strict: bool = False) -> Array:
        """Number of β of Δ_r that disagree; a move of exactly the margin agrees, as printed, unless strict."""
        size = np.abs(self.moves())
        return (size >= margin if strict else size > margin).sum(axis=1)

    def conditional(self) -> Array:
        """g̃(T) for the sets T, (f, number of sets)."""
        return np.stack([self.weights[:, [t | u for u in self.inside]].sum(axis=1) for t in self.sets], axis=1)

    def printed_total(self) -> Array:
        """|Δ_r|·Q of the paper."""
        return np.abs(self.weights[:, self.sets]) @ self.counts

    def total(self) -> Array:
        """|Δ_r|·Q with conditional weights."""
        return np.abs(self.conditional()) @ self.counts

    def total_of_all(self, lam: float, form: str) -> Array:
        """|Δ_r|·Q of the forms "termwise" and "factor": sums over all T that are not within α."""
        total = np.zeros(len(self.functions))
        for t in range(2**self.n):
            added = t & ~self.alpha
            if 1 <= added.bit_count() <= self.radius:
                factor = lam ** t.bit_count() if form == "termwise" else lam
                total += factor * np.abs(self.weights[:, t]) * self.count(added)
        return total


@lru_cache
def mobius_matrix(n: int) -> Array:
    rows = range(2**n)
    return np.array([[(-1.0) ** (t ^ s).bit_count() if s & ~t == 0 else 0.0 for s in rows] for t in rows])


@lru_cache
def mask_matrix(n: int, lam: float) -> Array:
    """P[α ⊙ z = β], every draw of z counted."""
    matrix = np.zeros((2**n, 2**n))
    for a, z in product(range(2**n), repeat=2):
        matrix[a, a & z] += lam ** z.bit_count() * (1 - lam) ** (n - z.bit_count())
    return matrix
