"""LIME: random masks and what the model says of them → the coefficients of a weighted ridge regression.

The choices are those of the lime package's explainers of images and texts: the full input and random
masks, weighted by how near they are to the full input in cosine distance, and a ridge regression on all
features. What that package itself found is read by ``from_lime``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.attribution.external import add_up, full_scores, imported
from holdfast.attribution.methods import Attribution, AttributionTask, Numbers, Scored, predicted
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.evaluation import bare_model
from holdfast.types import MaskedModel, Masks
from holdfast.validation import check_amount, check_name, check_size, is_number, shown

DEFAULT_SAMPLES = 1000
"""As in the paper."""

_MOST_FITTED = 8192  # features up to which the normal equations are solved as they are: half a gigabyte


def lime(
    task: AttributionTask, *, kernel_width: float = 0.25, penalty: float = 1.0, sampling: str = "bernoulli"
) -> Scored:
    """Fit a linear model to the model near the full input; the scores are its coefficients.

    A mask at cosine distance d has weight exp(-d² / (2 · kernel_width²)). ``penalty`` is the ridge regression's, on
    the squares of the coefficients, not on the intercept. With ``sampling="bernoulli"`` each feature is shown with
    probability ½, as in the package's image explainer; with "sizes" first the number of hidden features is drawn
    uniformly from 1 to n, as in its text explainer.
    """
    width, ridge = check_amount(kernel_width, "kernel_width"), check_amount(penalty, "penalty")
    check_name(sampling, "sampling", ("bernoulli", "sizes"))
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


def from_lime(
    explanation: Any, model: MaskedModel | None = None, *, target: Any = None, n_features: int | None = None
) -> Attribution:
    """Take an explanation of the lime package; features that it left out have score 0.

    The features of lime need not be those of the model. The weight of a word, a segment or a column is
    shared among the model's features that it covers, by characters, pixels or columns, and a word's among its places.
    Columns that lime did not cut into ranges have slopes instead of weights: their score is the slope times
    the standardised value, which is what the column adds to the score.

    Parameters
    ----------
    explanation : lime Explanation or ImageExplanation
        As returned by ``explain_instance``.
    model : MaskedModel, optional
        What it explains, which is asked once: gives the prediction, the features and their names.
    target : int or str, optional
        The label, by its number or its name; by default the one the model predicts for the full input,
        and without a model the first of the explanation's top labels.
    n_features : int, optional
        Number of features, if no model is given and the explanation does not tell.

    Examples
    --------
    >>> class Explained:
    ...     local_exp = {1: [(2, 0.5), (0, -0.25)]}
    >>> from_lime(Explained(), n_features=3).scores.tolist()
    [-0.25, 0.0, 0.5]
    """
    by_label = getattr(explanation, "local_exp", None)
    if not isinstance(by_label, dict) or not by_label:
        received = type(explanation).__name__
        raise InvalidTypeError(argument="explanation", must="be an explanation from lime", got=received)
    full, n_calls = full_scores(model)
    label, pairs = _weights(explanation, by_label, target, full)
    weights = np.zeros(1 + max([int(i) for i, _ in pairs], default=0))
    mapper = getattr(explanation, "domain_mapper", None)
    scaled: Any = getattr(mapper, "scaled_row", None)
    categorical = getattr(mapper, "categorical_features", ())
    row = scaled.toarray().ravel() if hasattr(scaled, "toarray") else np.ravel(scaled)
    for i, weight in pairs:
        weights[i] = weight if scaled is None or i in categorical else weight * float(row[i])
    stated = getattr(model, "n_features", None) if n_features is None else check_size(n_features, "n_features")
    n_explained, elements = _elements(explanation, bare_model(model))
    n = n_explained if stated is None else int(stated)
    if n is None:
        received = "None: the explanation does not contain it"
        raise InvalidTypeError(argument="n_features", must="be given", got=received)
    if elements is not None:
        # A weight is shared among the model's features by the number of elements in common.
        theirs, ours = elements
        common = (theirs >= 0) & (theirs < len(weights)) & (ours >= 0)
        sizes = np.bincount(theirs[common], minlength=len(weights))
        overlaps, counts = np.unique(theirs[common] * n + ours[common], return_counts=True)
        scores = np.zeros(n)
        np.add.at(scores, overlaps % n, weights[overlaps // n] * (counts / sizes[overlaps // n]))
    elif n_explained not in (None, n):
        must, tool = f"have {n} features, as the model has", "`mask_text`, `mask_image` or `mask_tabular`"
        hint = f"Give lime the same input, and bind the model with {tool}."
        raise InvalidValueError(argument="explanation", must=must, got=n_explained, hint=hint)
    elif len(weights) > n:
        must, received = f"be about features 0 to {n - 1}", f"feature {len(weights) - 1}"
        raise InvalidValueError(argument="explanation", must=must, got=received)
    else:
        scores = np.pad(weights, (0, n - len(weights)))
    details = {"n_reported": len(pairs)}
    return imported(scores, model, target=label, method="lime package", n_calls=n_calls, details=details)


def _weights(
    explanation: Any, by_label: dict[Any, Any], target: Any, full: Numbers | None
) -> tuple[int, list[tuple[int, float]]]:
    """The class that is explained, and the weights of lime's features for it."""
    if getattr(explanation, "mode", None) == "regression":
        return 0, by_label[1]  # lime keeps the same weights with the other sign under 0
    leading, class_names = getattr(explanation, "top_labels", None), getattr(explanation, "class_names", None)
    leading = [] if leading is None else list(leading)
    names = [] if class_names is None else list(map(str, class_names))
    n_classes = len(names) if full is None else len(full)
    label = names.index(target) if isinstance(target, str) and target in names else target
    if label is None and full is not None:
        label = predicted(full)
    elif label is None and (leading or len(by_label) == 1):
        label = leading[0] if leading else next(iter(by_label))
    elif label is None:
        raise InvalidTypeError(argument="target", must=f"be one of {', '.join(map(str, by_label))}", got="None")
    if not is_number(label) or (label not in by_label and label not in range(n_classes)):
        options: list[Any] = names or list(range(n_classes)) or list(by_label)
        must = f"be one of {', '.join(map(str, options))}"
        raise InvalidValueError(argument="target", must=must, got=shown(target))
    if label in by_label:
        return int(label), by_label[label]
    if 1 - label in by_label and (add_up(full) or (full is None and n_classes == 2)):
        return int(label), [(i, -weight) for i, weight in by_label[1 - label]]
    other = f"choose what is explained with `target={next(iter(by_label))}`"
    hint = f"Ask lime for it with `explain_instance(…, labels=({label},))`, or {other}."
    received = ", ".join(map(str, by_label))
    raise InvalidValueError(argument="explanation", must=f"explain class {label}", got=received, hint=hint)


def _elements(explanation: Any, model: Any) -> tuple[int | None, tuple[NDArray[np.intp], NDArray[np.intp]] | None]:
    """The number of lime's segments, words or columns; and lime's feature and the model's of each pixel, character or
    column, -1 for none. None if not known.
    """
    mapper, segments = getattr(explanation, "domain_mapper", None), getattr(explanation, "segments", None)
    words, columns = getattr(mapper, "indexed_string", None), getattr(mapper, "feature_names", None)
    if segments is not None:
        groups: Any = getattr(model, "groups", None)
        if np.ndim(groups) == 2 and np.shape(segments) != np.shape(groups):
            must = f"be about the image that the model sees, {np.shape(groups)} pixels"
            hint = "Give lime the image after resizing."
            raise InvalidValueError(argument="explanation", must=must, got=np.shape(segments), hint=hint)
        n_segments = int(np.max(segments)) + 1
        return n_segments, (np.ravel(segments), np.ravel(groups)) if np.ndim(groups) == 2 else None
    if words is not None:
        n_words, located = int(words.num_words()), getattr(model, "located", None)
        if located is None:
            return n_words, None
        text, spans = located
        if words.raw_string() != text:
            must = f"be about the model's text, {text[:40]!r}"
            raise InvalidValueError(argument="explanation", must=must, got="a different text")
        theirs, ours = np.full((2, len(text)), -1)
        for i in range(n_words):
            for start in words.string_position(i):
                theirs[start : start + len(words.word(i))] = i
        for i, (start, end) in enumerate(spans):
            ours[start:end] = i
        return n_words, (theirs, ours)
    if columns is None:
        return None, None
    of_column: Any = getattr(getattr(model, "features", None), "of_column", None)
    is_known = of_column is not None and len(columns) == len(of_column)
    return len(columns), (np.arange(len(columns)), of_column) if is_known else None
