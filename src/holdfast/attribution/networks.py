"""What a network computes for the full input → scores: maps of a convolution (Grad-CAM), attention (rollout)."""

from __future__ import annotations

import numpy as np

from holdfast.attribution.methods import AttributionTask, Numbers, Scored, check_needs


def grad_cam(task: AttributionTask, *, layer: str | None = None) -> Scored:
    """Weight the maps of a convolution by their mean gradients; score features by what is above zero on their pixels.

    ``layer`` names a part of the module as ``named_modules`` does; by default it is the last convolution computed, of
    those with more than one place. The map is enlarged to the image bilinearly, after cutting off what is below zero.
    Features get the mean over their pixels and not the sum, so that a large feature does not lead by its size. It takes
    one pass and its gradient.
    """
    model = check_needs(task.evaluator, task.method, "activations")
    target = task.target
    name, maps, slopes = task.call(lambda: model.activations(layer, target), 1, "for activations")
    weights = slopes.astype(np.float64).mean(axis=(1, 2))
    heat = np.maximum(np.tensordot(weights, maps.astype(np.float64), axes=1), 0)
    height, width = model.groups.shape
    heat = enlarging(heat.shape[0], height) @ heat @ enlarging(heat.shape[1], width).T
    inside = model.groups >= 0
    features = model.groups[inside]
    sums = np.bincount(features, weights=heat[inside], minlength=task.n_features)
    return Scored(sums / np.bincount(features, minlength=task.n_features), details={"layer": name})


def attention_rollout(task: AttributionTask) -> Scored:
    """Multiply attention through the layers; a feature's score is what reaches the class token from its tokens.

    As by Abnar and Zuidema: heads are averaged, half of every token comes from itself past the attention, and rows sum
    to one. The row of the first token is taken, or of the last where attention looks back only. A patch's share goes to
    features by their pixels in it. Scores are the same for every class. It takes one pass.
    """
    model = check_needs(task.evaluator, task.method, "attentions")
    weights, shares = task.call(model.attentions, 1, "for attention")
    is_causal = not np.triu(weights, 1).any()
    rollout: Numbers = np.eye(len(shares))
    for layer in weights.astype(np.float64).mean(axis=1):
        mixed = 0.5 * layer + 0.5 * np.eye(len(shares))
        rollout = mixed / mixed.sum(axis=1, keepdims=True) @ rollout
    return Scored(rollout[-1 if is_causal else 0] @ shares)


def enlarging(n_from: int, n_to: int) -> Numbers:
    """The matrix (n_to, n_from) of linear interpolation between the middles of cells, as torch has it."""
    places = np.clip((np.arange(n_to) + 0.5) * n_from / n_to - 0.5, 0, n_from - 1)
    overlaps: Numbers = np.clip(1 - np.abs(places[:, None] - np.arange(n_from)), 0, None)
    return overlaps
