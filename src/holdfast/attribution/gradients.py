"""Gradients of a model → scores: along the line from the baseline (Integrated Gradients), on a walk away (MFABA)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.attribution.task import AttributionTask, Numbers, Scored
from holdfast.errors import InvalidValueError
from holdfast.types import Differentiable
from holdfast.validation import check_amount, check_name

FIRST_POINTS, MOST_POINTS = 27, 729
"""Each refinement of the midpoint rule triples the points and keeps those it has."""

LEGENDRE_POINTS = 50
MOST_STEPS = 50

_BATCH = 32
"""Gradients keep the activations of their batch, so batches are small."""

_BOX_SHARE = 0.05
"""Half the width of the walk's box, as a share of the range of the elements."""


def integrated_gradients(task: AttributionTask, *, rule: str = "midpoint", tolerance: float = 0.01) -> Scored:
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
    check_name(rule, "rule", ("midpoint", "gauss_legendre"))
    share = check_amount(tolerance, "tolerance")
    line = _StraightLine(task)
    if rule == "gauss_legendre":
        n_points = task.n_samples or LEGENDRE_POINTS
        nodes, weights = np.polynomial.legendre.leggauss(n_points)
        mean = line.mean_gradient((nodes + 1) / 2, weights / 2)
    elif task.n_samples is not None:
        n_points = task.n_samples
        mean = line.midpoints(n_points)
    else:
        n_points = FIRST_POINTS
        mean = line.midpoints(n_points)
        while n_points < MOST_POINTS and line.missing(mean) > share * abs(line.change):
            n_points *= 3
            # The middle third of each cell is known; the outer two are new.
            outer = (np.arange(n_points) + 0.5)[np.arange(n_points) % 3 != 1] / n_points
            mean = mean / 3 + line.mean_gradient(outer, np.full(len(outer), 1 / n_points))
    details = {"n_samples": n_points, "rule": rule, "score_change": line.change}
    scores = line.elements.sum_by_feature(mean * line.way)
    return Scored(scores, details=details | {"completeness_error": line.missing(mean)})


def mfaba(
    task: AttributionTask, *, variant: str = "sharp", step: float | None = None, box: float | None = None
) -> Scored:
    """Walk against the gradient until the prediction changes; score what each feature gave up on the way.

    One path of up to ``n_samples`` steps (50 by default) within a small box around the input. Elements
    that belong to no feature stay as they are.

    Parameters
    ----------
    variant : {"sharp", "smooth"}
        Steps along the sign of the gradient, or along the gradient itself.
    step : float
        How far each element moves per step; for "smooth" the root mean square over the elements. By
        default a fiftieth of the box.
    box : float
        No element moves further than this; by default a twentieth of the range of the elements.
    """
    check_name(variant, "variant", ("sharp", "smooth"))
    half_width = None if box is None else check_amount(box, "box")
    length = None if step is None else check_amount(step, "step")
    n_steps = task.budget(MOST_STEPS, least=1, of="for 'mfaba'")
    elements = Elements.of(task.differentiable)
    half_width = half_width or _BOX_SHARE * elements.span
    length = length or half_width / MOST_STEPS
    first = place = elements.shown
    given_up, n_done = np.zeros_like(place), 0
    scores, slopes = task.gradients(elements.as_points(place[None]))
    before = scores[0]
    while n_done < n_steps and scores[0].argmax() == before.argmax():
        move = np.where(elements.free, -slopes[0], 0.0)
        if variant == "sharp":
            move = length * np.sign(move)
        elif (norm := float(np.sqrt((move**2).sum() / max(1, elements.free.sum())))) > 0:
            move = length * move / norm
        ahead = np.clip(place + move, first - half_width, first + half_width)
        if np.array_equal(ahead, place):
            break
        given_up -= slopes[0] * (ahead - place)
        place, n_done = ahead, n_done + 1
        scores, slopes = task.gradients(elements.as_points(place[None]))
        task.tell_progress(n_steps + 1)
    loss = float(before[task.target]) - float(scores[0, task.target])
    details = {
        "variant": variant,
        "step": length,
        "box": half_width,
        "n_steps": n_done,
        "changed": bool(scores[0].argmax() != before.argmax()),
        "score_loss": loss,
        "completeness_error": abs(float(given_up.sum()) - loss),
    }
    return Scored(elements.sum_by_feature(given_up), details=details)


class _StraightLine:
    """The straight line from everything hidden to everything shown, and gradients on it."""

    def __init__(self, task: AttributionTask) -> None:
        self._task, self.elements = task, Elements.of(task.differentiable)
        self.way = self.elements.shown - self.elements.hidden
        scores, _ = task.gradients(self.elements.as_points(np.stack([self.elements.hidden, self.elements.shown])))
        self.change = float(scores[1, task.target]) - float(scores[0, task.target])

    def midpoints(self, n_points: int) -> Numbers:
        return self.mean_gradient((np.arange(n_points) + 0.5) / n_points, np.full(n_points, 1 / n_points))

    def missing(self, mean: Numbers) -> float:
        """By how much the scores miss the change of the target's score."""
        return abs(float((mean * self.way).sum()) - self.change)

    def mean_gradient(self, places: Numbers, weights: Numbers) -> Numbers:
        mean = np.zeros_like(self.way)
        size = min(_BATCH, self._task.evaluator.batch_size)
        for start in range(0, len(places), size):
            part = places[start : start + size].reshape(-1, *([1] * self.way.ndim))
            _, slopes = self._task.gradients(self.elements.as_points(self.elements.hidden + part * self.way))
            mean += np.tensordot(weights[start : start + size], slopes, axes=1)
            self._task.tell_progress(self._task.n_gradients + len(places) - start - len(part))
        return mean


@dataclass(frozen=True)
class Elements:
    """The input with every feature shown and with every feature hidden, element by element."""

    shown: Numbers
    hidden: Numbers
    groups: NDArray[np.intp]
    n_features: int
    dtype: Any

    @classmethod
    def of(cls, model: Differentiable) -> Elements:
        """Read off a model with gradients; what is always shown is the same in both."""
        elements, groups = np.asarray(model.elements), np.asarray(model.groups)
        if groups.ndim == 0 or elements.shape[: groups.ndim] != groups.shape:
            must = f"name the feature of each element along the leading axes of `model.elements` {elements.shape}"
            raise InvalidValueError(argument="model.groups", must=must, got=f"shape {groups.shape}")
        shown = elements.astype(np.float64)
        hidden = np.where(_spread(groups >= 0, shown), np.asarray(model.baseline, dtype=np.float64), shown)
        kind = elements.dtype if elements.dtype.kind == "f" else np.dtype(np.float32)
        return cls(shown, hidden, groups, int(groups.max()) + 1, kind)

    @property
    def free(self) -> NDArray[np.bool_]:
        """Which elements belong to a feature, in the shape of the elements."""
        return _spread(self.groups >= 0, self.shown)

    @property
    def span(self) -> float:
        """The range of the elements; their size where all are equal."""
        return float(np.ptp(self.shown)) or float(np.abs(self.shown).max()) or 1.0

    def as_points(self, points: Numbers) -> NDArray[Any]:
        """Points in the number type of the elements."""
        return points.astype(self.dtype)

    def sum_by_feature(self, values: Numbers) -> Numbers:
        """Sums (n_features,) of one number per element."""
        per_place = values.reshape(*self.groups.shape, -1).sum(axis=-1)
        inside = self.groups >= 0
        sums = np.bincount(self.groups[inside], weights=per_place[inside], minlength=self.n_features)
        return sums.astype(np.float64)


def _spread(flags: NDArray[np.bool_], like: Numbers) -> NDArray[np.bool_]:
    """Flags of the leading axes for every element behind them."""
    return np.broadcast_to(flags.reshape(*flags.shape, *([1] * (like.ndim - flags.ndim))), like.shape)
