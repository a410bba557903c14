"""Gradients of a model → scores: at the input or near it, on a line to it (Integrated Gradients), on a walk (MFABA)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.attribution.methods import AttributionTask, Numbers, Scored
from holdfast.errors import InvalidValueError
from holdfast.types import Differentiable
from holdfast.validation import check_amount, check_name

FIRST_POINTS, MOST_POINTS = 27, 729
"""Each refinement of the midpoint rule triples the points and keeps those it has."""

LEGENDRE_POINTS = 50
MOST_STEPS = 50
NOISY_COPIES, RANDOM_PLACES = 25, 50
"""Gradients of ``smoothgrad`` and of ``gradient_shap``."""

_BATCH = 32  # gradients keep the activations of their batch, so batches are small
_BOX_SHARE = 0.05  # half the width of the walk's box, as a share of the range of the elements


def integrated_gradients(task: AttributionTask, *, rule: str = "midpoint", tolerance: float = 0.01) -> Scored:
    """Integrate the gradient along the straight line from the baseline to the input.

    The baseline is the input with every feature hidden, as the fill makes it; for texts both are embeddings. Scores
    of elements are summed over each feature. They should sum to the difference of the target's score between input and
    baseline; by how much they miss it is reported. ``rule`` says where the line is cut, "midpoint" or "gauss_legendre",
    at ``n_samples`` points if given. If not, midpoints are refined from 27 up to 729 points until the sum is within
    the share ``tolerance`` of the difference; the other rule takes 50.
    """
    check_name(rule, "rule", ("midpoint", "gauss_legendre"))
    share = check_amount(tolerance, "tolerance")
    elements = Elements.of(task.differentiable)
    way, size = elements.shown - elements.hidden, min(_BATCH, task.evaluator.batch_size)
    ends, _ = task.gradients(np.stack([elements.hidden, elements.shown]).astype(elements.dtype))
    change = float(ends[1, task.target]) - float(ends[0, task.target])

    def mean_gradient(places: Numbers, weights: Numbers) -> Numbers:
        mean = np.zeros_like(way)
        for start in range(0, len(places), size):
            part = places[start : start + size].reshape(-1, *([1] * way.ndim))
            _, slopes = task.gradients((elements.hidden + part * way).astype(elements.dtype))
            mean += np.tensordot(weights[start : start + size], slopes, axes=1)
            task.tell_progress(task.n_gradients + len(places) - start - len(part))
        return mean

    def error(mean: Numbers) -> float:
        return abs(float((mean * way).sum()) - change)

    if rule == "gauss_legendre":
        n_points = task.n_samples or LEGENDRE_POINTS
        nodes, weights = np.polynomial.legendre.leggauss(n_points)
        mean = mean_gradient((nodes + 1) / 2, weights / 2)
    else:
        n_points = task.n_samples or FIRST_POINTS
        mean = mean_gradient((np.arange(n_points) + 0.5) / n_points, np.full(n_points, 1 / n_points))
        while task.n_samples is None and n_points < MOST_POINTS and error(mean) > share * abs(change):
            n_points *= 3
            # The middle third of each cell is known; the outer two are new.
            outer = (np.arange(n_points) + 0.5)[np.arange(n_points) % 3 != 1] / n_points
            mean = mean / 3 + mean_gradient(outer, np.full(len(outer), 1 / n_points))
    details = {"n_samples": n_points, "rule": rule, "score_change": change, "completeness_error": error(mean)}
    return Scored(elements.sum_by_feature(mean * way), details=details)


def gradient_x_input(task: AttributionTask) -> Scored:
    """Multiply the gradient at the input by the input, element by element, and sum over each feature."""
    elements = Elements.of(task.differentiable)
    _, slopes = task.gradients(elements.shown[None].astype(elements.dtype))
    return Scored(elements.sum_by_feature(slopes[0] * elements.shown))


def smoothgrad(task: AttributionTask, *, noise: float = 0.15) -> Scored:
    """Average the gradient over ``n_samples`` noisy copies of the input (25), and sum it over each feature.

    The noise is normal; its standard deviation is the share ``noise`` of the elements' range. As in the paper, and by
    captum's ``NoiseTunnel`` on ``Saliency(abs=False)``, gradients keep their sign and are not multiplied by the input.
    Elements that belong to no feature get no noise.
    """
    share = check_amount(noise, "noise", may_be_zero=True)
    n_samples = task.budget(NOISY_COPIES, least=1, of="for 'smoothgrad'")
    elements = Elements.of(task.differentiable)
    mean = np.zeros_like(elements.shown)
    for copies in _noisy_copies(task, elements, share, n_samples, task.stream()):
        _, slopes = task.gradients(copies.astype(elements.dtype))
        mean += slopes.sum(axis=0) / n_samples
        task.tell_progress(n_samples)
    return Scored(elements.sum_by_feature(mean), details={"noise": share, "n_samples": n_samples})


def gradient_shap(task: AttributionTask, *, noise: float = 0.0) -> Scored:
    """Average gradient × (input − baseline) over ``n_samples`` random places (50) between baseline and input.

    These are expected gradients, as by captum's ``GradientShap``; the only baseline is the input with every feature
    hidden. ``noise`` is the standard deviation of normal noise on the input, as a share of the elements' range; none by
    default, as by captum.
    """
    share = check_amount(noise, "noise", may_be_zero=True)
    n_samples = task.budget(RANDOM_PLACES, least=1, of="for 'gradient_shap'")
    elements, rng = Elements.of(task.differentiable), task.stream()
    places, mean, n_done = rng.random(n_samples), np.zeros_like(elements.shown), 0
    for copies in _noisy_copies(task, elements, share, n_samples, rng):
        part = places[n_done : n_done + len(copies)].reshape(-1, *([1] * elements.shown.ndim))
        way = copies - elements.hidden
        _, slopes = task.gradients((elements.hidden + part * way).astype(elements.dtype))
        mean += (slopes * way).sum(axis=0) / n_samples
        n_done += len(copies)
        task.tell_progress(n_samples)
    return Scored(elements.sum_by_feature(mean), details={"noise": share, "n_samples": n_samples})


def _noisy_copies(
    task: AttributionTask, elements: Elements, noise: float, n_samples: int, rng: np.random.Generator
) -> Iterator[Numbers]:
    """Batches (b, *S) of the input with noise on the elements of its features; none depends on the batch size."""
    spread, size = noise * float(np.ptp(elements.shown)), min(_BATCH, task.evaluator.batch_size)
    for start in range(0, n_samples, size):
        shape = (min(size, n_samples - start), *elements.shown.shape)
        if spread == 0:
            yield np.broadcast_to(elements.shown, shape)
        else:
            yield elements.shown + np.where(elements.free, spread * rng.standard_normal(shape), 0.0)


def mfaba(
    task: AttributionTask, *, variant: str = "sharp", step: float | None = None, box: float | None = None
) -> Scored:
    """Walk against the gradient until the prediction changes; score what each feature gave up on the way.

    One path of up to ``n_samples`` steps (50 by default) along the sign of the gradient ("sharp") or along the gradient
    itself ("smooth"). No element leaves a ``box`` around the input, by default a twentieth of the elements' range, and
    those that belong to no feature stay as they are. Each moves by ``step`` at a time, by default a fiftieth of the
    box; for "smooth" that is the root mean square over the elements.
    """
    check_name(variant, "variant", ("sharp", "smooth"))
    half_width = None if box is None else check_amount(box, "box")
    length = None if step is None else check_amount(step, "step")
    n_steps = task.budget(MOST_STEPS, least=1, of="for 'mfaba'")
    elements = Elements.of(task.differentiable)
    # The range of the elements; their size where all are equal.
    span = float(np.ptp(elements.shown)) or float(np.abs(elements.shown).max()) or 1.0
    half_width = half_width or _BOX_SHARE * span
    length = length or half_width / MOST_STEPS
    first = place = elements.shown
    given_up, n_done = np.zeros_like(place), 0
    scores, slopes = task.gradients(place[None].astype(elements.dtype))
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
        scores, slopes = task.gradients(place[None].astype(elements.dtype))
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


@dataclass(frozen=True)
class Elements:
    """The input with every feature shown and with every feature hidden, element by element."""

    shown: Numbers
    hidden: Numbers
    groups: NDArray[np.intp]
    free: NDArray[np.bool_]
    """Which elements belong to a feature, in the shape of the elements."""
    dtype: Any

    @classmethod
    def of(cls, model: Differentiable) -> Elements:
        """Read off a model with gradients; what is always shown is the same in both."""
        elements, groups = np.asarray(model.elements), np.asarray(model.groups)
        if groups.ndim == 0 or elements.shape[: groups.ndim] != groups.shape:
            must = f"match the leading axes of `model.elements` {elements.shape}"
            raise InvalidValueError(argument="model.groups", must=must, got=f"shape {groups.shape}")
        shown = elements.astype(np.float64)
        further_axes = [1] * (shown.ndim - groups.ndim)
        free = np.broadcast_to((groups >= 0).reshape(*groups.shape, *further_axes), shown.shape)
        hidden = np.where(free, np.asarray(model.baseline, dtype=np.float64), shown)
        return cls(shown, hidden, groups, free, elements.dtype if elements.dtype.kind == "f" else np.dtype(np.float32))

    def sum_by_feature(self, values: Numbers) -> Numbers:
        """Sums (n_features,) of one number per element."""
        per_place = values.reshape(*self.groups.shape, -1).sum(axis=-1)
        inside = self.groups >= 0
        return np.bincount(self.groups[inside], weights=per_place[inside]).astype(np.float64)
