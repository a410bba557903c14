"""Truth about stopping designs: every draw sequence followed, exact fractions, and a second proof.

Written from the definitions, never from the library's code. A design is given by its ``looks`` and
``limits``; ``paths`` maps each stopping point (n_evaluated, n_agreed) to the whole number of draw
sequences that end there (``oracles.count_paths``).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise, product
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from holdfast.plans import Design, RateTest
from tests.helpers.oracles import count_paths, end_probabilities

Paths = dict[tuple[int, int], int]
Floats = NDArray[np.float64]

PAPER_DESIGN_10 = (tuple(range(24, 73, 6)), (0, 1, 2, 4, 6, 8, 11, 15, 36))
"""A known (.1, .1) design: looks and limits."""

PAPER_DESIGN_05 = ((*range(65, 378, 24), 392), (0, 2, 5, 9, 13, 19, 25, 33, 41, 51, 62, 75, 89, 106, 196))
"""A known (.05, .05) design."""


def paths_of(design: Design) -> Paths:
    """Exact path counts of a design of the library."""
    return count_paths(design.looks, design.limits)


@st.composite
def designs(draw: st.DrawFn, max_draws: int = 12) -> Design:
    """Any small design: looks that stop nobody, looks that nobody reaches, limits that fall."""
    looks = sorted(draw(st.sets(st.integers(1, max_draws), min_size=1, max_size=5)))
    limits = [draw(st.integers(-1, n)) for n in looks[:-1]]
    return Design(tuple(looks), (*limits, looks[-1] // 2))


def follow_every_sequence(looks: tuple[int, ...], limits: tuple[int, ...]) -> tuple[Paths, Paths]:
    """Path counts, and those of paths that begin with an agreement, by walking all 2^N sequences."""
    ended: set[tuple[int, ...]] = set()
    for sequence in product((0, 1), repeat=looks[-1]):
        for n, limit in zip(looks, limits, strict=True):
            n_agreed = sum(sequence[:n])
            if min(n_agreed, n - n_agreed) <= limit:
                ended.add(sequence[:n])
                break
    paths = Counter((len(run), sum(run)) for run in ended)
    opened = Counter((len(run), sum(run)) for run in ended if run[0] == 1)
    return dict(paths), dict(opened)


def cut_points(paths: Paths, tolerance: Fraction) -> list[Fraction]:
    """Where the set of missing ends changes: 0, 1 and every k/n ± tolerance between them."""
    shares = {Fraction(k, n) for n, k in paths}
    cuts = {share + sign * tolerance for share in shares for sign in (-1, 1)}
    return sorted({Fraction(0), Fraction(1)} | {cut for cut in cuts if 0 < cut < 1})


def misses_beside_cuts(paths: Paths, tolerance: Fraction) -> Iterator[tuple[Fraction, Fraction]]:
    """(rate, limit of the miss probability there), from the left and from the right of every cut, exactly."""
    for cut in cut_points(paths, tolerance):
        ends = end_probabilities(paths, cut)
        for side in (-1, 1):
            yield cut, sum((p for end, p in ends.items() if not _hits(end, cut, tolerance, side)), Fraction(0))


def _hits(end: tuple[int, int], cut: Fraction, tolerance: Fraction, side: int) -> bool:
    """Whether k/n is within the tolerance of every rate just beside ``cut``."""
    n, k = end
    low, high = Fraction(k, n) - tolerance, Fraction(k, n) + tolerance
    return low <= cut < high if side > 0 else low < cut <= high


def largest_miss_beside_cuts(paths: Paths, tolerance: Fraction) -> Fraction:
    """The largest one-sided limit: a lower bound of the supremum, attained or approached."""
    return max(miss for _, miss in misses_beside_cuts(paths, tolerance))


def bracket_supremum(paths: Paths, tolerance: Fraction, *, precision: Fraction) -> tuple[Fraction, Fraction]:
    """Exact numbers low ≤ sup over rates of the miss probability ≤ high with high - low ≤ precision.

    Between two cuts an end that misses from below (k/n < rate - tolerance) becomes less likely as the
    rate grows, one that misses from above more likely. On [a, b] the miss probability is therefore at
    most P(miss from below at a) + P(miss from above at b). No derivative, no arcsine, no rounding.
    """
    low, high = largest_miss_beside_cuts(paths, tolerance), Fraction(0)
    waiting = [(a, b, a, b) for a, b in pairwise(cut_points(paths, tolerance))]
    while waiting:
        a, b, *cell = waiting.pop()
        (below_a, above_a), (below_b, above_b) = (_missing(paths, tolerance, cell, rate) for rate in (a, b))
        low = max(low, below_a + above_a, below_b + above_b)
        bound = below_a + above_b
        if bound <= low + precision:
            high = max(high, bound)
        else:
            middle = (a + b) / 2
            waiting += [(a, middle, *cell), (middle, b, *cell)]
    return low, max(high, low)


def _missing(paths: Paths, tolerance: Fraction, cell: list[Fraction], rate: Fraction) -> tuple[Fraction, Fraction]:
    """P(k/n misses from below), P(k/n misses from above) at a rate in the closure of an open cell."""
    below = above = Fraction(0)
    inside = (cell[0] + cell[1]) / 2
    for (n, k), p in end_probabilities(paths, rate).items():
        below += p if Fraction(k, n) < inside - tolerance else 0
        above += p if Fraction(k, n) > inside + tolerance else 0
    return below, above


def worst_fixed_rate(n_draws: int, tolerance: Fraction, *, near: float = 0.0) -> tuple[float, float]:
    """(rate, miss probability): where ``n_draws`` draws miss most often, just beside a cut in [near, 1/2].

    The miss probability is a float with an error below 1e-10: evidence that a size fails, no proof that it holds.
    """
    from scipy.special import bdtr, bdtrc

    eps, beside = float(tolerance), 1e-7
    shares = np.arange(n_draws + 1) / n_draws
    cuts = np.concatenate([shares - eps, shares + eps])
    cuts = cuts[(cuts > max(near, 2 * beside)) & (cuts <= 0.5)]
    rates = np.concatenate([[0.5], cuts - beside, cuts + beside])
    # Beside a cut by 1e-7 no n (rate ± eps) is whole; at 1/2 it may be, and a half step keeps that a hit.
    slack = np.where(rates == 0.5, 1e-9 * n_draws, 0.0)
    below = np.ceil(n_draws * (rates - eps) - slack) - 1
    above = np.floor(n_draws * (rates + eps) + slack)
    low = np.where(below >= 0, bdtr(np.maximum(below, 0), n_draws, rates), 0.0)
    high = np.where(above < n_draws, bdtrc(np.clip(above, 0, n_draws), n_draws, rates), 0.0)
    worst = int(np.argmax(low + high))
    return float(rates[worst]), float((low + high)[worst])


class _Pieces(NamedTuple):
    cell: NDArray[np.intp]
    low: Floats
    high: Floats

    def at(self, index: NDArray[np.intp] | slice) -> _Pieces:
        return _Pieces(self.cell[index], self.low[index], self.high[index])


class SecondProof:
    """The argument of ``bracket_supremum`` in floats, for designs of hundreds or thousands of draws.

    Path counts and cells are exact (whole numbers, fractions); only the final sums are floats, whose
    error stays below 1e-10. Nothing is assumed about symmetry: all of [0, 1] is covered.
    """

    rounding = 1e-9

    def __init__(self, paths: Paths, tolerance: Fraction) -> None:
        ends = sorted(paths, key=lambda end: Fraction(end[1], end[0]))
        self._n = np.array([n for n, _ in ends], dtype=float)
        self._k = np.array([k for _, k in ends], dtype=float)
        self._log_paths = np.array([math.log(paths[end]) for end in ends])
        shares = [Fraction(k, n) for n, k in ends]
        cuts = cut_points(paths, tolerance)
        self._cuts = np.array([float(cut) for cut in cuts])
        rank = {cut: i for i, cut in enumerate(cuts)}
        lows = [rank.get(share - tolerance, 0) for share in shares]
        highs = [rank.get(share + tolerance, len(cuts) - 1) for share in shares]
        cells = np.arange(len(cuts) - 1)
        self._n_below = np.searchsorted(highs, cells, side="right")
        self._n_not_above = np.searchsorted(lows, cells, side="right")

    def holds(self, risk: Fraction) -> bool:
        """Whether the miss probability is proven to be at most ``risk`` at every rate."""
        target = float(risk) - self.rounding
        cells = np.arange(len(self._cuts) - 1)
        pieces = _Pieces(cells, self._cuts[:-1], self._cuts[1:])
        while len(pieces.cell):
            low, high = self._missing(pieces, pieces.low), self._missing(pieces, pieces.high)
            if max(low.sum(axis=0).max(), high.sum(axis=0).max()) > target:
                return False
            open_ = np.flatnonzero(low[0] + high[1] > target)
            cell, a, b = pieces.at(open_)
            middle = (a + b) / 2
            if np.any((middle <= a) | (middle >= b)):
                return False
            pieces = _Pieces(np.tile(cell, 2), np.concatenate([a, middle]), np.concatenate([middle, b]))
        return True

    def _missing(self, pieces: _Pieces, rates: Floats) -> Floats:
        """(2, pieces): P(miss from below), P(miss from above) at one rate of each piece."""
        step = max(1, 2_000_000 // len(self._n))
        parts = [slice(start, start + step) for start in range(0, len(rates), step)]
        return np.concatenate([self._sums(pieces.at(part), rates[part]) for part in parts], axis=1)

    def _sums(self, pieces: _Pieces, rates: Floats) -> Floats:
        from scipy.special import xlog1py, xlogy

        rate = rates[:, None]
        p = np.exp(self._log_paths + xlogy(self._k, rate) + xlog1py(self._n - self._k, -rate))
        total = np.concatenate([np.zeros((len(p), 1)), np.cumsum(p, axis=1)], axis=1)
        rows = np.arange(len(p))
        below = total[rows, self._n_below[pieces.cell]]
        above = p[:, ::-1].cumsum(axis=1)
        above = np.concatenate([np.zeros((len(p), 1)), above], axis=1)
        return np.stack([below, above[rows, len(self._n) - self._n_not_above[pieces.cell]]])


class Answers:
    """P(yes), P(no), P(cannot tell) and the mean number of draws, as polynomials evaluated exactly.

    Follows the counts one draw at a time and asks ``answer`` at each look: the code path of a real run.
    """

    def __init__(self, test: RateTest) -> None:
        self.max_draws = test.max_draws
        self.ends: list[tuple[int, int, int, bool | None]] = []
        alive = {0: 1}
        for n in range(1, test.max_draws + 1):
            alive = {k: alive.get(k, 0) + alive.get(k - 1, 0) for k in range(n + 1)}
            alive = {k: paths for k, paths in alive.items() if paths}
            if n in test.looks:
                for k in list(alive):
                    said = test.answer(n, k)
                    if said is not None or n == test.max_draws:
                        self.ends.append((n, k, alive.pop(k), said))

    def at(self, rate: Fraction) -> tuple[Fraction, Fraction, Fraction, Fraction]:
        """(yes, no, cannot tell, mean draws)."""
        a, b, scale = rate.numerator, rate.denominator, rate.denominator**self.max_draws
        weight: dict[bool | None, int] = {True: 0, False: 0, None: 0}
        draws = 0
        for n, k, paths, said in self.ends:
            w = paths * a**k * (b - a) ** (n - k) * b ** (self.max_draws - n)
            weight[said] += w
            draws += n * w
        return (*(Fraction(weight[said], scale) for said in (True, False, None)), Fraction(draws, scale))
