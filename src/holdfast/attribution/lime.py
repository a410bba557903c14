"""Random masks and what the model says of them → the coefficients of a weighted ridge regression (LIME).

The choices are those of the lime package's explainers of images and texts: the full input and random
masks, weighted by how near they are to the full input in cosine distance, and a ridge regression on all
features.
"""

from __future__ import annotations

import numpy as np

from holdfast.attribution.task import Numbers, Scored, Task, check_positive
from holdfast.types import Masks
from holdfast.validation import check_name

DEFAULT_SAMPLES = 1000
"""As in the paper."""

_SAMPLINGS = ("bernoulli", "sizes")

_MOST_FITTED = 8192
"""Features up to which the normal equations are solved as they are: half a gigabyte."""


def lime(task: Task, *, kernel_width: float = 0.25, penalty: float = 1.0, sampling: str = "bernoulli") -> Scored:
    """Fit a linear model to the model near the full input; the scores are its coefficients.

    Parameters
    ----------
    kernel_width : float
        A mask at cosine distance d has weight exp(-d² / (2 · kernel_width²)).
    penalty : float
        Of the ridge regression, on the squares of the coefficients, not on the intercept.
    sampling : {"bernoulli", "sizes"}
        Each feature is shown with probability ½, as in the package's image explainer; or first the
        number of hidden features is drawn uniformly from 1 to n, as in its text explainer.
    """
    width, ridge = check_positive(kernel_width, "kernel_width"), check_positive(penalty, "penalty")
    check_name(sampling, "sampling", _SAMPLINGS)
    n_masks = task.budget(DEFAULT_SAMPLES, least=2, of="for 'lime'")
    masks = draw_masks(n_masks, task.n_features, sampling, task.stream())
    task.evaluator.expect(n_masks)
    values = task.values(masks)
    coefficients, intercept, fit = fit_ridge(masks, values, kernel_weights(masks, width), ridge)
    details = {"n_samples": n_masks, "kernel_width": width, "penalty": ridge, "sampling": sampling}
    return Scored(coefficients, details=details | {"intercept": intercept, "fit": fit})


def draw_masks(n_masks: int, n_features: int, sampling: str, rng: np.random.Generator) -> Masks:
    """The full input and n_masks - 1 random masks, (n_masks, n_features)."""
    keys = rng.random((n_masks, n_features))
    if sampling == "bernoulli":
        masks = keys < 0.5
    else:
        n_hidden = rng.integers(1, n_features + 1, size=(n_masks, 1))
        masks = keys.argsort(axis=1).argsort(axis=1) >= n_hidden
    masks[0] = True
    return masks


def kernel_weights(masks: Masks, width: float) -> Numbers:
    """Weights (b,) by the cosine distance from the full input, which is 1 - √(share of features shown)."""
    distance = 1 - np.sqrt(masks.mean(axis=1))
    return np.asarray(np.exp(-((distance / width) ** 2) / 2))


def fit_ridge(masks: Masks, values: Numbers, weights: Numbers, penalty: float) -> tuple[Numbers, float, float]:
    """Coefficients, intercept and weighted R² of a ridge regression with a free intercept."""
    share = weights / weights.sum()
    # Relative to the first value, so that a constant model has coefficients of exactly zero.
    moved = values - values[0]
    centre, level = share @ masks, float(share @ moved)
    inputs, wanted = masks - centre, moved - level
    # The smallest solution where the penalty is lost in rounding and there are many.
    if masks.shape[1] <= _MOST_FITTED:
        weighted = inputs * weights[:, None]
        matrix = inputs.T @ weighted + penalty * np.eye(masks.shape[1])
        coefficients = np.linalg.lstsq(matrix, weighted.T @ wanted, rcond=None)[0]
    else:  # the same solution from a matrix of masks by masks
        matrix = weights[:, None] * (inputs @ inputs.T) + penalty * np.eye(len(masks))
        coefficients = inputs.T @ np.linalg.lstsq(matrix, weights * wanted, rcond=None)[0]
    left = wanted - inputs @ coefficients
    total = float(weights @ wanted**2)
    fit = 1 - float(weights @ left**2) / total if total > 0 else 1.0
    return coefficients, float(values[0]) + level - float(centre @ coefficients), fit
