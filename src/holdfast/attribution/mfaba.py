"""Gradients on a walk away from the explained class → what each feature gave up on the way (MFABA)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.attribution.elements import Elements
from holdfast.attribution.task import Numbers, Scored, Task, check_positive
from holdfast.validation import check_name

_VARIANTS = ("sharp", "smooth")
MOST_STEPS = 50
_BOX_SHARE = 0.05
"""Half the width of the walk's box, as a share of the range of the elements."""


def mfaba(task: Task, *, variant: str = "sharp", step: float | None = None, box: float | None = None) -> Scored:
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
    check_name(variant, "variant", _VARIANTS)
    half_width = None if box is None else check_positive(box, "box")
    length = None if step is None else check_positive(step, "step")
    n_steps = task.budget(MOST_STEPS, least=1, of="for 'mfaba'")
    elements = Elements.of(task.differentiable)
    half_width = half_width or _BOX_SHARE * elements.span
    length = length or half_width / MOST_STEPS
    walk = _walk(task, elements, n_steps, _Pace(variant, length, half_width))
    details = {"variant": variant, "step": length, "box": half_width, "n_steps": walk.n_steps}
    scores = elements.sum_by_feature(walk.given_up)
    missing = abs(float(walk.given_up.sum()) - walk.score_loss)
    seen = {"changed": walk.changed, "score_loss": walk.score_loss, "completeness_error": missing}
    return Scored(scores, details=details | seen)


@dataclass(frozen=True)
class _Pace:
    """How a walk moves: the direction, the length of a step and how far it may go."""

    variant: str
    step: float
    box: float

    def move(self, slope: Numbers, free: NDArray[np.bool_]) -> Numbers:
        """The step down a slope, for the elements that are free."""
        down = np.where(free, -slope, 0.0)
        if self.variant == "sharp":
            return self.step * np.sign(down)
        norm = float(np.sqrt((down**2).sum() / max(1, free.sum())))
        return self.step * down / norm if norm > 0 else down


@dataclass(frozen=True)
class _Walk:
    """What became of a walk: what each element gave up of the score, and how it ended."""

    given_up: Numbers
    n_steps: int
    changed: bool
    score_loss: float


def _walk(task: Task, elements: Elements, n_steps: int, pace: _Pace) -> _Walk:
    start = elements.shown
    place, given_up, done = start, np.zeros_like(start), 0
    scores, slopes = task.gradients(elements.as_points(place[None]))
    first = scores[0]
    while done < n_steps and scores[0].argmax() == first.argmax():
        ahead = np.clip(place + pace.move(slopes[0], elements.free), start - pace.box, start + pace.box)
        if np.array_equal(ahead, place):
            break
        given_up -= slopes[0] * (ahead - place)
        place, done = ahead, done + 1
        scores, slopes = task.gradients(elements.as_points(place[None]))
        task.tell_progress(n_steps + 1)
    changed = bool(scores[0].argmax() != first.argmax())
    return _Walk(given_up, done, changed, float(first[task.target]) - float(scores[0, task.target]))
