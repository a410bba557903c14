"""Gradients on the line from the baseline to the input → scores that sum to the change (Integrated Gradients)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from holdfast.attribution.elements import Elements
from holdfast.attribution.task import Numbers, Scored, Task, check_positive
from holdfast.validation import check_name

_RULES = ("midpoint", "gauss_legendre")

FIRST_POINTS, MOST_POINTS = 27, 729
"""Each refinement of the midpoint rule triples the points and keeps those it has."""

LEGENDRE_POINTS = 50
_BATCH = 32
"""Gradients keep the activations of their batch, so batches are small."""


def integrated_gradients(task: Task, *, rule: str = "midpoint", tolerance: float = 0.01) -> Scored:
    """Integrate the gradient along the straight line from the baseline to the input.

    The baseline is the input with every feature hidden, as the fill makes it; for texts both are
    embeddings. Scores of elements are summed over each feature. They should sum to the difference of
    the target's score between input and baseline; by how much they miss it is reported.

    Parameters
    ----------
    rule : {"midpoint", "gauss_legendre"}
        Where the line is cut. ``n_samples`` gradients are taken if given. If not, the midpoint rule is
        refined from 27 up to 729 points until the scores sum up; the other takes 50.
    tolerance : float
        The refinement ends when the sum is within this share of the difference.
    """
    check_name(rule, "rule", _RULES)
    share = check_positive(tolerance, "tolerance")
    line = _Line(task)
    if rule == "gauss_legendre":
        n_points = task.n_samples or LEGENDRE_POINTS
        return line.scored(line.legendre(n_points), n_points, rule)
    if task.n_samples is not None:
        return line.scored(line.midpoints(task.n_samples), task.n_samples, rule)
    mean, n_points = next(refined for refined in line.refinements() if line.is_complete(*refined, share))
    return line.scored(mean, n_points, rule)


class _Line:
    """The straight line from everything hidden to everything shown, and gradients on it."""

    def __init__(self, task: Task) -> None:
        self._task, self._input = task, Elements.of(task.differentiable)
        self._way = self._input.shown - self._input.hidden
        scores, _ = task.gradients(self._input.as_points(np.stack([self._input.hidden, self._input.shown])))
        self.change = float(scores[1, task.target]) - float(scores[0, task.target])

    def legendre(self, n_points: int) -> Numbers:
        nodes, weights = np.polynomial.legendre.leggauss(n_points)
        return self._mean_gradient((nodes + 1) / 2, weights / 2)

    def midpoints(self, n_points: int) -> Numbers:
        return self._mean_gradient((np.arange(n_points) + 0.5) / n_points, np.full(n_points, 1 / n_points))

    def refinements(self) -> Iterator[tuple[Numbers, int]]:
        """Mean gradients by the midpoint rule, ever finer, and their numbers of points."""
        n_points = FIRST_POINTS
        mean = self.midpoints(n_points)
        yield mean, n_points
        while n_points < MOST_POINTS:
            # The middle third of each cell is known; the outer two are new.
            outer = (np.arange(3 * n_points) + 0.5)[np.arange(3 * n_points) % 3 != 1] / (3 * n_points)
            mean = mean / 3 + self._mean_gradient(outer, np.full(len(outer), 1 / (3 * n_points)))
            n_points *= 3
            yield mean, n_points

    def is_complete(self, mean: Numbers, n_points: int, share: float) -> bool:
        """Whether the scores sum to the change of score, or no more points are to be tried."""
        return n_points >= MOST_POINTS or self._missing(mean) <= share * abs(self.change)

    def scored(self, mean: Numbers, n_points: int, rule: str) -> Scored:
        details = {"n_samples": n_points, "rule": rule, "score_change": self.change}
        scores = self._input.sum_by_feature(mean * self._way)
        return Scored(scores, details=details | {"completeness_error": self._missing(mean)})

    def _missing(self, mean: Numbers) -> float:
        return abs(float((mean * self._way).sum()) - self.change)

    def _mean_gradient(self, places: Numbers, weights: Numbers) -> Numbers:
        mean = np.zeros_like(self._way)
        size = min(_BATCH, self._task.evaluator.batch_size)
        for start in range(0, len(places), size):
            part = places[start : start + size].reshape(-1, *([1] * self._way.ndim))
            _, slopes = self._task.gradients(self._input.as_points(self._input.hidden + part * self._way))
            mean += np.tensordot(weights[start : start + size], slopes, axes=1)
            self._task.tell_progress(self._task.n_gradients + len(places) - start - len(part))
        return mean
