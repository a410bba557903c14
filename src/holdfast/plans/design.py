"""A stopping design → its exact behaviour: who stops where, how often it misses, what it costs.

A design fixes, before anything is drawn, the numbers of draws at which the counts are looked at
and, for each look, the largest minority count ``min(k, n - k)`` at which drawing stops. The last
look always stops. One look is a fixed sample size (Theorem 1 of the paper uses one); several looks
are a group-sequential design. Everything here is a finite sum: no simulation, no normal limits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

Stops = Callable[[int, int], bool]
"""Whether a run that has drawn so many, of which so many agreed, ends at this look."""

ROUNDING, ROUNDING_PER_DRAW = 1e-9, 4e-15
"""Added to every computed bound: above the float error of the sums, which grows with the draws."""

CHUNK = 2_000_000

MOST_DRAWS_WALKED = 100_000
"""Most draws of a design whose paths are counted, which takes seconds; a search never ends above a few ten thousand."""


_MOST_DRAWS_AHEAD = 300
"""Most draws of a design for which the cheapest looks are found, in some hundredths of a second."""


class Terminals(NamedTuple):
    """The points (n, k) at which a design can stop, with the logarithm of their path counts.

    The path count of a point is the number of draw sequences that reach it without stopping before.
    """

    n: Integers
    k: Integers
    log_paths: Floats

    def at(self, index: Integers) -> Terminals:
        """The terminals of these positions."""
        return Terminals(self.n[index], self.k[index], self.log_paths[index])


@dataclass(frozen=True)
class Design:
    """Look after ``looks[j]`` draws; stop if the minority count is at most ``limits[j]``.

    The numbers of draws increase, and the last limit must stop every run.
    """

    looks: tuple[int, ...]
    limits: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.looks) != len(self.limits) or not self.looks:
            raise ValueError("A design needs one limit per look, and at least one look.")
        if self.looks[0] < 1 or any(a >= b for a, b in zip(self.looks, self.looks[1:], strict=False)):
            raise ValueError(f"Looks must be increasing and positive, got {self.looks}.")
        if self.limits[-1] < self.looks[-1] // 2:
            raise ValueError("The last look must stop whatever the counts.")

    @property
    def max_draws(self) -> int:
        """The most draws a run can take."""
        return self.looks[-1]

    def stops(self, n_evaluated: int, n_agreed: int) -> bool:
        """Whether a run with these counts, now at a look, ends here."""
        limit = self.limits[self.looks.index(n_evaluated)]
        return min(n_agreed, n_evaluated - n_agreed) <= limit

    @cached_property
    def terminals(self) -> Terminals:
        """Every point where a run can stop, with its path count."""
        return _walk(self, first_draw=(1.0, 1.0))

    @cached_property
    def _first_agrees(self) -> dict[tuple[int, int], float]:
        """For each terminal (n, k) the share of its paths whose first draw agreed."""
        opened = _walk(self, first_draw=(0.0, 1.0))
        share = np.zeros(len(self.terminals.n))
        # Where each point of ``opened`` stands among the terminals; both are ordered by (n, k).
        width = self.max_draws + 1
        reached = np.searchsorted(self.terminals.n * width + self.terminals.k, opened.n * width + opened.k)
        share[reached] = np.exp(opened.log_paths - self.terminals.log_paths[reached])
        points = zip(self.terminals.n.tolist(), self.terminals.k.tolist(), strict=True)
        return dict(zip(points, share.tolist(), strict=True))

    def expected_draws(self, rate: float) -> float:
        """Mean number of draws when each agrees with probability ``rate``."""
        if len(self.looks) == 1:
            return float(self.max_draws)
        points = self.terminals
        return float(np.sum(probabilities(points, np.array([[rate]]))[0] * points.n))

    def unbiased_rate(self, n_evaluated: int, n_agreed: int) -> float:
        """Share of the paths to this stopping point that begin with an agreement.

        Its mean is exactly the true rate (Girshick, Mosteller and Savage 1946), which
        ``n_agreed / n_evaluated`` of a stopped run is not.
        """
        if self.looks == (n_evaluated,) and 0 <= n_agreed <= n_evaluated:
            return n_agreed / n_evaluated
        if (n_evaluated, n_agreed) not in self._first_agrees:
            raise ValueError(f"This design cannot stop at {n_agreed} of {n_evaluated}.")
        return self._first_agrees[n_evaluated, n_agreed]

    def miss_probability(self, rate: float, tolerance: Fraction) -> float:
        """P(|k/n - rate| > tolerance) at one true rate, stopping included."""
        points, exact = self.terminals, Fraction(rate)
        missed = [abs(Fraction(int(k), int(n)) - exact) > tolerance for n, k in zip(points.n, points.k, strict=True)]
        return float(np.sum(probabilities(points, np.array([[rate]]))[0][missed]))


def looks_left(looks: Sequence[int], stops: Stops, n_evaluated: int, n_agreed: int) -> list[int]:
    """The looks that may come, from the first at which the run can end: until then it goes on, whatever it draws.

    A look ends runs with few agreements or with many. So if it can end this run, it does so if all draws up to it
    agree, or if none does.

    >>> design = Design((24, 30, 36, 42), (0, 1, 2, 21))
    >>> looks_left(design.looks, design.stops, 24, 22), looks_left(design.looks, design.stops, 24, 12)
    ([36, 42], [42])
    """
    later = [look for look in looks if look > n_evaluated]
    ends = (stops(look, n_agreed) or stops(look, n_agreed + look - n_evaluated) for look in later[:-1])
    return later[next((place for place, can_end in enumerate(ends) if can_end), len(later) - 1) :]


def cheapest_look(design: Design, n_evaluated: int, n_agreed: int, rows_per_call: int) -> int:
    """The look up to which the next call should compute, where a call takes as long as so many rows.

    Then a run takes least on average, over all rates: rates near 0 and 1 are the likeliest (Jeffreys' prior, a beta
    distribution of ½ and ½). The counts, at a look or before the first draw, say which are left. For designs of many
    draws that takes too long to find out: there, later looks go along as long as their rows take no longer than a call.

    >>> design = Design((24, 30, 36, 42), (0, 1, 2, 21))
    >>> [cheapest_look(design, 24, 23, rows_per_call) for rows_per_call in (0, 1, 100)]
    [30, 30, 42]
    """
    if design.max_draws > _MOST_DRAWS_AHEAD:
        later = [look for look in design.looks if look > n_evaluated]
        return max(look for look in later if look <= later[0] + rows_per_call)
    bits = max(0, rows_per_call.bit_length() - 2)  # of which the first two count, so that few tables are made
    return design.looks[int(_cheapest_looks(design, rows_per_call >> bits << bits)[n_evaluated][n_agreed])]


@lru_cache(maxsize=64)
def _cheapest_looks(design: Design, rows_per_call: int) -> dict[int, Integers]:
    """By the number of draws and the number that agreed: the place of the look up to which to compute.

    From the last look backwards: ``later[k, j]`` is what is still to come after a call that computes up to the look j,
    on average over the runs with k agreements now that go on until then.
    """
    numbers, later, nexts = (0, *design.looks), np.zeros((design.max_draws + 1, 0)), {}  # after the last look, nothing
    cost = np.zeros(design.max_draws + 1)  # of a run that is at this look, with k agreements
    for place in range(len(design.looks) - 1, -1, -1):
        n, following = numbers[place], numbers[place + 1]
        goes_on = np.minimum(np.arange(following + 1), following - np.arange(following + 1)) > design.limits[place]
        later = _chances(n, following) @ (np.column_stack([cost, later]) * goes_on[:, None])
        costs = rows_per_call + np.array(design.looks[place:]) - n + later
        nexts[n], cost = place + costs.argmin(axis=1), costs.min(axis=1)
    return nexts


def _chances(n: int, following: int) -> Floats:
    """How likely k of n agreements become each number of agreements of more draws, (n + 1, following + 1)."""
    from scipy.special import betaln, gammaln

    agreed, total = np.arange(n + 1)[:, None], np.arange(following + 1)[None]
    new, more = total - agreed, following - n
    possible = (new >= 0) & (new <= more)
    new = np.where(possible, new, 0)
    logs = gammaln(more + 1) - gammaln(new + 1) - gammaln(more - new + 1)
    logs += betaln(agreed + new + 0.5, n - agreed + more - new + 0.5) - betaln(agreed + 0.5, n - agreed + 0.5)
    return np.where(possible, np.exp(logs), 0.0)


def _walk(design: Design, *, first_draw: tuple[float, float]) -> Terminals:
    """Follow all draw sequences at once, one draw a step, from the given shares of (0, 1) and (1, 1).

    ``alive[k]`` is the share of the C(n, k) orders of k agreements that have not stopped: the last
    draw of such an order agreed with probability k/n, so each step averages two neighbours. Only
    positive terms are added: the relative error stays below 4 n times the machine's rounding unit,
    where path counts themselves would overflow.
    """
    from scipy.special import gammaln

    if design.max_draws > MOST_DRAWS_WALKED:
        raise ValueError(f"A design of several looks must have at most {MOST_DRAWS_WALKED} draws.")
    stops = dict(zip(design.looks, design.limits, strict=True))
    alive = np.array(first_draw)
    count = np.arange(design.max_draws + 1.0)
    ended: list[Terminals] = []
    for n in range(1, design.max_draws + 1):
        if n > 1:
            grown = np.zeros(n + 1)
            np.multiply(alive, count[n:0:-1], out=grown[:-1])
            grown[1:] += alive * count[1 : n + 1]
            alive = grown / n
        if n in stops:
            ends = np.minimum(count[: n + 1], n - count[: n + 1]) <= stops[n]
            k = np.flatnonzero(ends & (alive > 0))
            log_orders = gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)
            ended.append(Terminals(np.full(len(k), n), k, np.log(alive[k]) + log_orders))
            alive[ends] = 0.0
    n_, k_, log_paths = zip(*ended, strict=True)
    return Terminals(np.concatenate(n_), np.concatenate(k_), np.concatenate(log_paths))


def probabilities(points: Terminals, rates: Floats) -> Floats:
    """Probability of each terminal (columns) at each rate (rows) of a column (r, 1)."""
    from scipy.special import xlog1py, xlogy

    return np.asarray(np.exp(points.log_paths + xlogy(points.k, rates) + xlog1py(points.n - points.k, -rates)))


class ByShare:
    """The terminals of a design in the order of k/n, so that those near a rate are neighbours."""

    def __init__(self, points: Terminals) -> None:
        order = np.argsort(points.k / points.n, kind="stable")
        self.points = points.at(order)
        self.share = self.points.k / self.points.n

    def miss(self, rates: Floats, first_hit: Integers, past_hit: Integers) -> Floats:
        """P(not ending in the terminals first_hit, …, past_hit - 1) at each rate."""
        width = max(1, int(np.max(past_hit - first_hit, initial=0)))
        out = np.empty(len(rates))
        step = max(1, CHUNK // width)
        for start in range(0, len(rates), step):
            part = slice(start, start + step)
            at = first_hit[part, None] + np.arange(width)
            hit = at < past_hit[part, None]
            near = self.points.at(np.minimum(at, len(self.share) - 1))
            out[part] = 1.0 - np.sum(probabilities(near, rates[part, None]) * hit, axis=1)
        return out
