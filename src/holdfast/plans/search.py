"""Tolerance and confidence → a cheap design whose miss probability is proven.

Three steps, all deterministic. The smallest valid fixed sample size is found by checking each size
itself (validity is not monotone in the size). A family of boundaries, "stop when the plug-in normal
half-width is small enough", gives a first sequential design. A seeded annealing over looks and
limits then lowers the expected number of draws. Candidates are screened at the jumps of the miss
probability; the one returned has passed the proof in :mod:`holdfast.plans.proof`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import islice, pairwise, product

import numpy as np

from holdfast.bounds import hoeffding_draws, smallest_power_within
from holdfast.plans.design import ByShare, Design, probabilities
from holdfast.plans.proof import bound_miss_probability
from holdfast.terminal import tell_search

N_LOOKS = 12
"""Looks of a searched design: each may cost a separate model batch, so few; more gain little."""

TYPICAL_RATES = np.array([1.0, 0.98, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5])
RATE_WEIGHTS = np.array([0.25, 0.15, 0.1, 0.15, 0.15, 0.1, 0.05, 0.05])
"""The rates a design is made cheap for. The guarantee holds at every rate whatever these are."""

_JUST_BESIDE, _LONGER = 1e-10, 1.05
_MARGINS = (0.0, 0.004, 0.01, 0.02, 0.05, 0.1)
_SHAPES_PER_DRAW = 12_000
_STEPS_PER_DRAW, _MAX_STEPS = 150_000, 2_500
_N_STEPS, _DRAWS_BETWEEN_REPORTS = 1000, 50

_Shape = tuple[tuple[int, ...], float]
"""Looks and a prior: the boundaries z² p(1-p)/n <= tolerance² with p = (minority + prior)/(n + 2 prior)."""


@dataclass(frozen=True)
class Goal:
    """Miss by more than ``tolerance`` with probability at most ``risk``, at every rate."""

    tolerance: Fraction
    risk: Fraction

    def is_proven_for(self, design: Design) -> bool:
        """Whether the rigorous bound is at most the risk."""
        return bound_miss_probability(design, self.tolerance, target=float(self.risk)).bound <= self.risk

    @cached_property
    def first_possible_stop(self) -> int:
        """No run of agreements may stop before (1 - tolerance)^n <= risk."""
        return smallest_power_within(1 - self.tolerance, self.risk)


def fixed_design(n_draws: int) -> Design:
    """Draw ``n_draws`` times and stop."""
    return Design(looks=(n_draws,), limits=(n_draws // 2,))


def search_fixed(goal: Goal) -> Design:
    """The smallest fixed number of draws that is proven to meet the goal; each smaller one is tried itself."""
    n, most = 0, hoeffding_draws(goal.tolerance, 1 - goal.risk)
    while True:
        n += 1
        if n % _DRAWS_BETWEEN_REPORTS == 0:
            tell_search(_N_STEPS // 2 * n // most, _N_STEPS)
        if _fixed_miss_near_half(n, goal) > goal.risk:
            continue
        design = fixed_design(n)
        if _Screen(goal, float(goal.risk), n).miss(design) <= goal.risk and goal.is_proven_for(design):
            return design


def _fixed_miss_near_half(n: int, goal: Goal) -> float:
    """Miss probability of n draws just beside the jumps nearest one half (a few rates, exact sums)."""
    from scipy.special import bdtr, bdtrc

    eps = float(goal.tolerance)
    cut = np.floor(n * (0.5 - eps)) / n + eps
    rates = np.array([cut - _JUST_BESIDE, cut + _JUST_BESIDE, 0.5])
    below = np.ceil(n * (rates - eps) - 1e-12 * n) - 1
    above = np.floor(n * (rates + eps) + 1e-12 * n)
    low = np.where(below >= 0, bdtr(np.maximum(below, 0), n, rates), 0.0)
    high = np.where(above < n, bdtrc(np.minimum(above, n), n, rates), 0.0)
    return float(np.max(low + high))


def search_sequential(goal: Goal, *, effort: float = 1.0, n_looks: int = N_LOOKS) -> Design:
    """A group-sequential design for the goal, cheap at the typical rates.

    ``effort`` multiplies the annealing steps; 1 takes seconds (about 20 s at a tolerance of .02).
    """
    fixed = search_fixed(goal)
    most_draws = math.ceil(_LONGER * fixed.max_draws)
    shapes = _cheapest_shapes(goal, fixed.max_draws, n_looks)
    for margin, shape in product(_MARGINS, shapes):
        screen = _Screen(goal, float(goal.risk) * (1 - margin), most_draws)
        start = _smallest_z(shape, screen)
        if start is not None and goal.is_proven_for(start.design):
            n_steps = int(effort * min(_MAX_STEPS, _STEPS_PER_DRAW / start.design.max_draws))
            candidates = _anneal(start, screen, n_steps)
            proven = (candidate.design for candidate in candidates if goal.is_proven_for(candidate.design))
            design = next(proven, start.design)
            # Without the looks that no run reaches.
            last = next(j for j, n in enumerate(design.looks) if design.limits[j] >= n // 2)
            return Design(design.looks[: last + 1], (*design.limits[:last], design.looks[last] // 2))
    return fixed


@dataclass(frozen=True)
class _RatedDesign:
    design: Design
    miss: float
    cost: float


@dataclass(frozen=True)
class _Screen:
    """Quick, optimistic check against ``aim``: the miss probability just beside its jumps."""

    goal: Goal
    aim: float
    most_draws: int

    def miss(self, design: Design) -> float:
        terminals, eps = ByShare(design.terminals), float(self.goal.tolerance)
        cuts = np.concatenate([terminals.share - eps, terminals.share + eps])
        cuts = np.unique(np.round(cuts[(cuts > 0) & (cuts <= 0.5)], 12))
        rates = np.concatenate([cuts - _JUST_BESIDE, cuts + _JUST_BESIDE])
        first = np.searchsorted(terminals.share, rates - eps)
        past = np.searchsorted(terminals.share, rates + eps, side="right")
        return float(np.max(terminals.miss(rates, first, past), initial=0.0))

    def look_at(self, design: Design) -> _RatedDesign:
        draws = probabilities(design.terminals, TYPICAL_RATES[:, None]) @ design.terminals.n
        return _RatedDesign(design, self.miss(design), float(RATE_WEIGHTS @ draws))

    def is_met_by(self, candidate: _RatedDesign) -> bool:
        return candidate.miss <= self.aim * (1 - 1e-6)

    def penalised(self, candidate: _RatedDesign) -> float:
        return candidate.cost * (1 + 5 * max(0.0, candidate.miss / self.aim - 1 + 1e-6))


def _cheapest_shapes(goal: Goal, n_fixed: int, n_looks: int) -> list[_Shape]:
    """The two cheapest of the most promising shapes, which are listed first."""
    screen, start = _Screen(goal, float(goal.risk), math.ceil(_LONGER * n_fixed)), goal.first_possible_stop
    beginnings = (1.02, 1.5), (1.2, 3.0), (1.02, 3.0), (1.1, 1.5)
    endings = (1.0, 1.4), (1.02, 1.0), (1.0, 1.8), (1.02, 1.4)
    met = []
    for (later, prior), (longer, bend) in islice(product(beginnings, endings), max(2, _SHAPES_PER_DRAW // n_fixed)):
        first, rise = start * later, np.linspace(0, 1, n_looks) ** bend
        looks = np.unique(np.ceil(first + (max(n_fixed * longer, first) - first) * rise))
        shape = tuple(int(n) for n in looks), prior
        candidate = _smallest_z(shape, screen)
        if candidate is not None:
            met.append((candidate.cost, shape))
    return [shape for _, shape in sorted(met, key=lambda pair: pair[0])[:2]]


def _smallest_z(shape: _Shape, screen: _Screen) -> _RatedDesign | None:
    (looks, prior), eps = shape, float(screen.goal.tolerance)
    low, high, best = 1.0, 6.0, None
    for _ in range(8):
        z = (low + high) / 2
        limits = []
        for n in looks[:-1]:  # from the plug-in half-width; -1 where even a unanimous run goes on
            variance = n * (eps / z) ** 2  # the largest share p has p(1-p) no larger
            share = 0.5 if variance >= 0.25 else 0.5 - math.sqrt(0.25 - variance)
            limits.append(min(max(math.floor(share * (n + 2 * prior) - prior), -1), n // 2))
        candidate = screen.look_at(Design(looks, (*limits, looks[-1] // 2)))
        if screen.is_met_by(candidate):
            high, best = z, candidate
        else:
            low = z
    return best


def _anneal(start: _RatedDesign, screen: _Screen, n_steps: int) -> list[_RatedDesign]:
    """Cheapest designs met by the screen, best first; a fixed seed makes the search repeatable."""
    rng = np.random.Generator(np.random.Philox(2024))
    here, kept = start, [start]
    for step in range(n_steps):
        tell_search(_N_STEPS // 2 + _N_STEPS // 2 * step // n_steps, _N_STEPS)
        heat = 0.012 * start.cost * (1 - step / n_steps) ** 2 + 1e-9
        there = _neighbour(here.design, screen, rng)
        if there is None:
            continue
        rise = screen.penalised(there) - screen.penalised(here)
        if rise <= 0 or rng.random() < math.exp(-rise / heat):
            here = there
        if screen.is_met_by(there) and there.cost < kept[0].cost:
            kept = [there, *kept[:20]]
    return kept


def _neighbour(design: Design, screen: _Screen, rng: np.random.Generator) -> _RatedDesign | None:
    """Move one to three looks or limits a little; None if the result is no design."""
    looks, limits = list(design.looks), list(design.limits)
    for _ in range(rng.integers(1, 4)):
        j = int(rng.integers(len(looks)))
        if j < len(looks) - 1 and rng.random() < 0.55:
            limits[j] += _small_step(limits[j] // 8, rng)
        else:
            looks[j] += _small_step(design.max_draws // 80, rng)
    limits[-1] = looks[-1] // 2
    legal = all(a < b for a, b in pairwise(looks)) and all(a <= b for a, b in pairwise(limits))
    if not legal or limits[0] < -1 or looks[0] < screen.goal.first_possible_stop or looks[-1] > screen.most_draws:
        return None
    return screen.look_at(Design(tuple(looks), tuple(limits)))


def _small_step(reach: int, rng: np.random.Generator) -> int:
    return int(rng.integers(1, max(1, reach) + 1)) * int(rng.choice([-1, 1]))
