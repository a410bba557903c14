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
from holdfast.attribution.scores import Attribution
from holdfast.attribution.task import AttributionTask, Numbers, Scored, bare_model, predicted
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.types import MaskedModel, Masks
from holdfast.validation import check_amount, check_name, check_size, is_number, shown

DEFAULT_SAMPLES = 1000
"""As in the paper."""

_MOST_FITTED = 8192
"""Features up to which the normal equations are solved as they are: half a gigabyte."""


def lime(
    task: AttributionTask, *, kernel_width: float = 0.25, penalty: float = 1.0, sampling: str = "bernoulli"
) -> Scored:
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
        raise InvalidTypeError(argument="explanation", must="be an explanation of lime", got=received)
    full, n_calls = full_scores(model)
    label, pairs = _weights(explanation, by_label, target, full)
    weights = np.zeros(1 + max([int(i) for i, _ in pairs], default=0))
    for i, weight in pairs:
        weights[i] = weight * _value_in_input(explanation, i)
    stated = getattr(model, "n_features", None) if n_features is None else check_size(n_features, "n_features")
    n_explained = _size(explanation)
    n = n_explained if stated is None else int(stated)
    if n is None:
        must, received = "be given", "None: the explanation does not tell"
        raise InvalidTypeError(argument="n_features", must=must, got=received)
    elements = _elements(explanation, bare_model(model))
    scores = _by_index(weights, n, n_explained) if elements is None else _shared(weights, *elements, n)
    details = {"n_reported": len(pairs)}
    return imported(scores, model, target=label, method="lime package", n_calls=n_calls, details=details)


def _weights(
    explanation: Any, by_label: dict[Any, Any], target: Any, full: Numbers | None
) -> tuple[int, list[tuple[int, float]]]:
    """The class that is explained, and the weights of lime's features for it."""
    if getattr(explanation, "mode", None) == "regression":
        return 0, by_label[1]  # lime keeps the same weights with the other sign under 0
    names = [str(name) for name in _or_empty(explanation, "class_names")]
    n_classes = len(names) if full is None else len(full)
    label = names.index(target) if isinstance(target, str) and target in names else target
    if label is None:
        label = _default_label(explanation, by_label) if full is None else predicted(full)
    if not is_number(label) or (label not in by_label and label not in range(n_classes)):
        options: list[Any] = names or list(range(n_classes)) or list(by_label)
        must = f"be one of {', '.join(map(str, options))}"
        raise InvalidValueError(argument="target", must=must, got=shown(target))
    if label in by_label:
        return int(label), by_label[label]
    if 1 - label in by_label and (add_up(full) or (full is None and n_classes == 2)):
        return int(label), [(i, -weight) for i, weight in by_label[1 - label]]
    raise InvalidValueError(
        argument="explanation",
        must=f"explain class {label}",
        got=", ".join(map(str, by_label)),
        hint=f"Ask lime for it with `explain_instance(…, labels=({label},))`, or choose what is explained with "
        f"`target={next(iter(by_label))}`.",
    )


def _default_label(explanation: Any, by_label: dict[Any, Any]) -> Any:
    leading = _or_empty(explanation, "top_labels")
    if not leading and len(by_label) > 1:
        raise InvalidTypeError(argument="target", must=f"be one of {', '.join(map(str, by_label))}", got="None")
    return leading[0] if leading else next(iter(by_label))


def _or_empty(explanation: Any, name: str) -> list[Any]:
    values = getattr(explanation, name, None)
    return [] if values is None else list(values)


def _value_in_input(explanation: Any, feature: int) -> float:
    """What a weight is multiplied with in the input: 1, or the standardised value of a column that has a slope."""
    mapper = getattr(explanation, "domain_mapper", None)
    scaled = getattr(mapper, "scaled_row", None)
    if scaled is None or feature in getattr(mapper, "categorical_features", ()):
        return 1.0
    dense = scaled.toarray() if hasattr(scaled, "toarray") else np.asarray(scaled)
    return float(dense.ravel()[feature])


def _size(explanation: Any) -> int | None:
    """The number of segments, words or columns that an explanation of lime is about."""
    mapper, segments = getattr(explanation, "domain_mapper", None), getattr(explanation, "segments", None)
    words, columns = getattr(mapper, "indexed_string", None), getattr(mapper, "feature_names", None)
    if segments is not None:
        return int(np.max(segments)) + 1
    if words is not None:
        return int(words.num_words())
    return None if columns is None else len(columns)


def _elements(explanation: Any, model: Any) -> tuple[NDArray[np.intp], NDArray[np.intp]] | None:
    """Lime's feature and the model's of each pixel, character or column, -1 for none; None if not known."""
    mapper, segments = getattr(explanation, "domain_mapper", None), getattr(explanation, "segments", None)
    words, columns = getattr(mapper, "indexed_string", None), getattr(mapper, "feature_names", None)
    groups: Any = getattr(model, "groups", None)
    located = getattr(model, "located", None)
    if segments is not None and np.ndim(groups) == 2:
        if np.shape(segments) != np.shape(groups):
            raise InvalidValueError(
                argument="explanation",
                must=f"be of the image as the model sees it, {np.shape(groups)} pixels",
                got=np.shape(segments),
                hint="Give lime the image after resizing.",
            )
        return np.ravel(segments), np.ravel(groups)
    if words is not None and located is not None:
        return _words_and_features(words, *located)
    of_column = getattr(getattr(model, "features", None), "of_column", None)
    if columns is not None and of_column is not None and len(columns) == len(of_column):
        return np.arange(len(columns)), of_column
    return None


def _words_and_features(words: Any, text: str, spans: Any) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Lime's feature and the model's of each character."""
    if words.raw_string() != text:
        must = f"be of the model's text, {text[:40]!r}"
        raise InvalidValueError(argument="explanation", must=must, got="another one")
    theirs, ours = np.full((2, len(text)), -1)
    for i in range(words.num_words()):
        for start in words.string_position(i):
            theirs[start : start + len(words.word(i))] = i
    for i, (start, end) in enumerate(spans):
        ours[start:end] = i
    return theirs, ours


def _shared(weights: Numbers, theirs: NDArray[np.intp], ours: NDArray[np.intp], n: int) -> Numbers:
    """Weights of their features as scores of ours: each is shared by the number of elements in common."""
    common = (theirs >= 0) & (theirs < len(weights)) & (ours >= 0)
    sizes = np.bincount(theirs[common], minlength=len(weights))
    pairs, counts = np.unique(theirs[common] * n + ours[common], return_counts=True)
    scores = np.zeros(n)
    np.add.at(scores, pairs % n, weights[pairs // n] * (counts / sizes[pairs // n]))
    return scores


def _by_index(weights: Numbers, n: int, n_explained: int | None) -> Numbers:
    """Weights of features that are those of the model, one by one."""
    if n_explained not in (None, n):
        raise InvalidValueError(
            argument="explanation",
            must=f"have as many features as the model, {n}",
            got=n_explained,
            hint="Give lime the same input, and the model made by `mask_text`, `mask_image` or `mask_tabular`, which "
            "knows where its features are.",
        )
    if len(weights) > n:
        must, received = f"be about features 0 to {n - 1}", f"feature {len(weights) - 1}"
        raise InvalidValueError(argument="explanation", must=must, got=received)
    return np.pad(weights, (0, n - len(weights)))
