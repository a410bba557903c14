"""Scores from elsewhere (arrays, files, shap, captum, lime) → an ``Attribution``."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.attribution.files import read_scores
from holdfast.attribution.maps import Maps
from holdfast.attribution.methods import names_of
from holdfast.attribution.task import Numbers, bare_model, predicted
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.evaluation import evaluating
from holdfast.results.attribution import Attribution
from holdfast.types import MaskedModel
from holdfast.validation import as_array, check_list, check_size, check_whole, is_number, shown


def from_array(
    scores: Any,
    model: MaskedModel | None = None,
    *,
    groups: Any = None,
    reduce: str = "sum",
    target: Any = None,
    feature_names: Any = None,
    method: str = "given",
) -> Attribution:
    """Take scores that you already have: one per feature, or a map of the input's elements.

    Parameters
    ----------
    scores : array, tensor or file name
        One number per feature (n_features,); or one per element, such as pixels, which are reduced over
        each feature. Maps are (*G, …) as ``groups`` is (G), arrays of images (H, W) or (H, W, C) and
        tensors (C, H, W), with or without a leading axis of length one. A file is ``.npy``, ``.npz`` with
        one array or one called "scores", or ``.csv``: one score per line, perhaps after the feature's name.
    model : MaskedModel, optional
        What they are scores of: gives ``groups`` and feature names, and their number is checked.
    groups : whole numbers (G), optional
        The feature of each element, -1 for none; by default the model's.
    reduce : {"sum", "mean", "max"}
        How the scores of a feature's elements become one. Sums keep the total of an attribution;
        means do not favour large features.
    target : int, str or bool, optional
        The class or label that the scores explain.
    feature_names : sequence of str, optional
        Names of the features.
    method : str
        A name for where they come from.

    Examples
    --------
    >>> import numpy as np
    >>> left_and_right = np.array([[0, 1], [0, 1]])
    >>> from_array([[1.0, 2.0], [3.0, 4.0]], groups=left_and_right).scores.tolist()
    [4.0, 6.0]
    """
    maps = Maps.of(model, groups=groups, reduce=reduce)
    if isinstance(scores, (str, os.PathLike)):
        scores, read_names = read_scores(Path(scores))
        feature_names = read_names if feature_names is None else feature_names
    values = maps.reduced(as_numbers(scores, "scores"), channels_first=_is_tensor(scores))
    return _given(values, model, target=target, feature_names=feature_names, method=method)


def from_shap(
    explanation: Any,
    model: MaskedModel | None = None,
    *,
    target: int | None = None,
    row: int | None = None,
    output: int | None = None,
    groups: Any = None,
    reduce: str = "sum",
) -> Attribution:
    """Take the values of the shap package: an ``Explanation``, an array, or a list with one array per class.

    Many explainers give one output for two classes, which speaks for class 1: XGBoost, LightGBM, gradient
    boosting, linear models. Values for class 0 are then the negated ones. Which class one output speaks for is
    ``output``; if left out it is read off an ``Explanation``, whose values and base add up to a score of ``model``.
    Where it cannot be known, ``output`` must be given.

    Parameters
    ----------
    explanation : shap.Explanation, array or list of arrays
        Values of one input, (n_features,) or (n_features, n_classes), or of many, with one more leading
        axis; images are maps (H, W, C) or (H, W, C, n_classes).
    model : MaskedModel, optional
        What they are values of, which is asked once; see ``from_array`` for this, ``groups`` and ``reduce``.
    target : int, optional
        The class to be explained; by default the one the model predicts for the full input.
    row : int, optional
        Which input, if the values are of several.
    output : int, optional
        The class that values without an axis of classes speak for.

    Examples
    --------
    >>> import numpy as np
    >>> from_shap(np.array([[0.2, -0.2], [0.5, -0.5], [0.1, -0.1]]), target=1).scores.tolist()
    [-0.2, -0.5, -0.1]
    >>> from_shap(np.array([0.2, 0.5, -0.1]), target=0, output=1).scores.tolist()
    [-0.2, -0.5, 0.1]
    """
    maps = Maps.of(model, groups=groups, reduce=reduce)
    full, n_calls = _full_scores(model)
    values, has_classes = _shap_values(explanation, row, maps)
    if has_classes and values.shape[-1] > 1:
        n_classes = values.shape[-1]
        if full is not None and len(full) != n_classes:
            raise InvalidValueError(f"`explanation` must be of the model's {len(full)} classes, got {n_classes}.")
        if output is not None:
            raise InvalidTypeError(f"`output` must be left out for values of {n_classes} classes, got {output!r}.")
        explained = predicted(full) if target is None and full is not None else target
        values = values[..., _check_index(explained, "target", n_classes)]
    else:
        values = values[..., 0] if has_classes else values
        column = _Column.read(explanation, float(values.sum()), row, full, output)
        explained = column.target(target, full)
        values = column.sign_for(explained) * values
    reduced = maps.reduced(values, channels_first=False)
    names = getattr(explanation, "feature_names", None)
    fitting = names if isinstance(names, (list, tuple)) and len(names) == len(reduced) else None
    return _given(reduced, model, target=explained, feature_names=fitting, method="shap package", n_calls=n_calls)


def from_captum(
    attributions: Any,
    model: MaskedModel | None = None,
    *,
    groups: Any = None,
    reduce: str = "sum",
    target: int | None = None,
) -> Attribution:
    """Take the attributions of one input by captum, a tensor of the input's shape, summed over each feature.

    Methods that were given a ``feature_mask`` repeat a feature's score at each of its elements: use
    ``reduce="mean"`` for those.

    Parameters
    ----------
    attributions : tensor, or tuple of one tensor
        As returned by ``attribute`` of a captum method for one input: (1, C, H, W), (1, T, d), (1, n).
    model : MaskedModel, optional
        What they are attributions of; see ``from_array`` for this, ``groups`` and ``reduce``.
    target : int, optional
        The model's class that was explained. A network with one logit speaks for class 1, although captum
        knows that logit as target 0; negate its attributions for class 0.

    Examples
    --------
    >>> import numpy as np
    >>> from_captum(np.array([[0.2, 0.5]])).scores.tolist()
    [0.2, 0.5]
    """
    if isinstance(attributions, tuple):
        if len(attributions) != 1:
            raise InvalidValueError(f"`attributions` must be of one input tensor, got {len(attributions)}.")
        attributions = attributions[0]
    maps = Maps.of(model, groups=groups, reduce=reduce)
    values = maps.reduced(as_numbers(attributions, "attributions"), channels_first=True)
    return _given(values, model, target=target, feature_names=None, method="captum")


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
        raise InvalidTypeError(f"`explanation` must be an explanation of lime, got {type(explanation).__name__}.")
    full, n_calls = _full_scores(model)
    label, pairs = _lime_weights(explanation, by_label, target, full)
    weights = np.zeros(1 + max([int(i) for i, _ in pairs], default=0))
    for i, weight in pairs:
        weights[i] = weight * _lime_value(explanation, i)
    n = _lime_features(explanation, model, n_features)
    parts = _lime_parts(explanation, bare_model(model))
    scores = _by_index(weights, n, _lime_size(explanation)) if parts is None else _shared(weights, *parts, n)
    return _given(
        scores,
        model,
        target=label,
        feature_names=None,
        method="lime package",
        n_calls=n_calls,
        details={"n_reported": len(pairs)},
    )


def as_numbers(values: Any, name: str) -> Numbers:
    """Real finite numbers as an array; tensors are brought to the CPU."""
    plain = values.detach().cpu().numpy() if _is_tensor(values) else values
    must = "hold real numbers"
    array: NDArray[Any] = as_array(plain, name, must)
    if array.dtype.kind not in "fiub" or array.size == 0:
        raise InvalidTypeError(argument=name, must=must, got=f"{array.dtype} of shape {array.shape}")
    if not np.isfinite(array).all():
        raise InvalidValueError(argument=name, must=must, got="NaN or infinity")
    return array.astype(np.float64)


def _given(
    values: Numbers,
    model: Any,
    *,
    target: Any,
    feature_names: Any,
    method: str,
    n_calls: int = 0,
    details: Any = None,
) -> Attribution:
    names = names_of(model) if feature_names is None else _names(feature_names)
    return Attribution(
        values,
        target=target,
        method=method,
        n_calls=n_calls,
        feature_names=names,
        details={} if details is None else details,
    )


def _names(given: Any) -> tuple[str, ...]:
    """A name per feature; a text is a list of letters."""
    return tuple(given) if isinstance(given, str) else tuple(map(str, check_list(given, "feature_names", "be a list")))


def _is_tensor(values: Any) -> bool:
    return hasattr(values, "detach") and hasattr(values, "cpu")


def _full_scores(model: Any) -> tuple[Numbers | None, int]:
    """The model's scores (n_classes,) of the full input, None if it gives labels, and the calls this took."""
    if model is None:
        return None, 0
    with evaluating(model) as evaluator:
        before = evaluator.n_calls
        outputs = evaluator(np.ones((1, evaluator.n_features), dtype=bool))
        return (None if outputs.ndim == 1 else outputs[0]), evaluator.n_calls - before


def _shap_values(explanation: Any, row: int | None, maps: Maps) -> tuple[Numbers, bool]:
    """The values of one input, and whether their last axis is one of classes."""
    values = getattr(explanation, "values", explanation)
    if isinstance(values, list):
        columns = [_one_row(as_numbers(column, "explanation"), row) for column in values]
        if len({column.shape for column in columns}) != 1:
            raise InvalidValueError("`explanation` must have one array of the same shape per class.")
        return np.stack(columns, axis=-1), True
    numbers = as_numbers(values, "explanation")
    n_inputs = _n_inputs(explanation, numbers, maps)
    if row is None and n_inputs > 1:
        raise InvalidTypeError(f"`row` must name one of the {n_inputs} inputs explained, got None.")
    numbers = _one_row(numbers, row)
    return numbers, numbers.ndim in (2, 4) and not maps.fits(numbers)


def _n_inputs(explanation: Any, values: Numbers, maps: Maps) -> int:
    """Of how many inputs the values are, by the data of an Explanation or by the number of features; 1 if unclear."""
    data = getattr(explanation, "data", None)
    if isinstance(data, np.ndarray):
        return len(data) if data.ndim > 1 and values.shape[: data.ndim] == data.shape else 1
    if values.ndim == 2 and not maps.fits(values):
        return len(values) if values.shape[1] == (maps.n_features or len(values)) else 1
    return 1


def _one_row(values: Numbers, row: int | None) -> Numbers:
    if row is not None and values.ndim == 0:
        raise InvalidValueError(f"`row` must be left out for a single number, got {row!r}.")
    if row is not None:
        return np.asarray(values[_check_index(row, "row", len(values))])
    return np.asarray(values[0]) if values.ndim > 1 and len(values) == 1 else values


@dataclass(frozen=True)
class _Column:
    """Values of one output: the class they speak for, and the number of classes; None where unknown."""

    output: int | None
    n_classes: int | None

    @classmethod
    def read(cls, explanation: Any, total: float, row: int | None, full: Numbers | None, output: Any) -> _Column:
        """What the caller states, or an Explanation tells: by the name of the output that was taken from it, or by
        its base and values, which add up to a score of that class. Explainers of two classes mostly speak for class 1,
        but nothing keeps a caller from explaining a function that returns the score of class 0.
        """
        n_classes = None if full is None else len(full)
        if output is not None:
            spoken_for = _check_class(output, "output", n_classes)
            return cls(spoken_for, 2 if n_classes is None and spoken_for < 2 else n_classes)
        taken = re.fullmatch(r"Output (\d+)", str(getattr(explanation, "output_names", None)))
        if taken:
            return cls(int(taken[1]), 2 if _add_up(full) else None)
        base = getattr(explanation, "base_values", None)
        if base is None or full is None:
            return cls(None, n_classes)
        bases = as_numbers(base, "explanation.base_values").ravel()
        value = total + bases[row if row is not None and len(bases) > 1 else 0]
        matching = [k for k in range(len(full)) if np.isclose(value, _views(full, k), rtol=1e-3, atol=1e-3).any()]
        return cls(matching[0] if len(matching) == 1 else None, n_classes)

    def target(self, target: int | None, full: Numbers | None) -> int | None:
        """The class to be explained: what was asked for, or predicted; None if nothing is known of the values."""
        if target is not None:
            return _check_class(target, "target", self.n_classes)
        if full is None or (self.output is None and len(full) > 1):
            return self.output
        return int(predicted(full))

    def sign_for(self, target: int | None) -> float:
        """What the values are multiplied with to speak for the target."""
        if self.n_classes == 1:
            return 1.0
        # More than two classes have an axis: values without it were taken by the caller, as were those for class 1 of
        # two; only class 0 of two may be meant by either sign.
        output = self.output
        if output is None and target is not None and (target > 0 or (self.n_classes or 2) > 2):
            output = target
        if output is None or target is None:
            raise InvalidTypeError(
                "`output` must be the class that values without an axis of classes speak for, got None. It is 1 for "
                "XGBoost, LightGBM and other models of two classes. For a regression use `from_array`."
            )
        if output == target:
            return 1.0
        if self.n_classes == 2:
            return -1.0
        raise InvalidValueError(
            f"`explanation` must have the values of class {target}, got those of class {output}. "
            f"Take column {target} of the explanation, or pass `target={output}`."
        )


def _add_up(full: Numbers | None) -> bool:
    """Whether one of two scores is as good as the other: probabilities, or a score and its opposite."""
    return full is not None and len(full) == 2 and bool(np.isclose(full.sum(), [0, 1], atol=1e-3).any())


def _views(scores: Numbers, k: int) -> Numbers:
    """The score of class k as explainers state it: as it is, and for two classes its lead, or its log-odds."""
    views = [scores[k]]
    if len(scores) == 2:
        views.append(scores[k] - scores[1 - k])
        if (scores > 0).all() and np.isclose(scores.sum(), 1):
            views.append(np.log(scores[k] / scores[1 - k]))
    return np.array(views, dtype=np.float64)


def _check_class(value: Any, name: str, n_classes: int | None) -> int:
    return check_whole(value, name) if n_classes is None else _check_index(value, name, n_classes)


def _check_index(value: Any, name: str, length: int) -> int:
    must = f"be a whole number from 0 to {length - 1}"
    if value is None:
        raise InvalidTypeError(argument=name, must=must, got=shown(value))
    index = check_whole(value, name)
    if index >= length:
        raise InvalidValueError(argument=name, must=must, got=shown(value))
    return index


def _lime_weights(
    explanation: Any, by_label: dict[Any, Any], target: Any, full: Numbers | None
) -> tuple[int, list[tuple[int, float]]]:
    """The class that is explained, and the weights of lime's features for it."""
    if getattr(explanation, "mode", None) == "regression":
        return 0, by_label[1]  # lime keeps the same weights with the other sign under 0
    names = [str(name) for name in _or_empty(explanation, "class_names")]
    n_classes = len(names) if full is None else len(full)
    label = names.index(target) if isinstance(target, str) and target in names else target
    if label is None:
        label = _lime_default(explanation, by_label) if full is None else predicted(full)
    if not is_number(label) or (label not in by_label and label not in range(n_classes)):
        options: list[Any] = names or list(range(n_classes)) or list(by_label)
        raise InvalidValueError(f"`target` must be one of {', '.join(map(str, options))}, got {target!r}.")
    if label in by_label:
        return int(label), by_label[label]
    explained = ", ".join(map(str, by_label))
    if 1 - label in by_label and (_add_up(full) or (full is None and n_classes == 2)):
        return int(label), [(i, -weight) for i, weight in by_label[1 - label]]
    raise InvalidValueError(
        f"`explanation` must explain class {label}, got {explained}. Ask lime for it with "
        f"`explain_instance(…, labels=({label},))`, or choose what is explained with `target={next(iter(by_label))}`."
    )


def _lime_default(explanation: Any, by_label: dict[Any, Any]) -> Any:
    leading = _or_empty(explanation, "top_labels")
    if not leading and len(by_label) > 1:
        raise InvalidTypeError(f"`target` must be one of {', '.join(map(str, by_label))}, got None.")
    return leading[0] if leading else next(iter(by_label))


def _or_empty(explanation: Any, name: str) -> list[Any]:
    values = getattr(explanation, name, None)
    return [] if values is None else list(values)


def _lime_value(explanation: Any, feature: int) -> float:
    """What a weight is multiplied with in the input: 1, or the standardised value of a column that has a slope."""
    mapper = getattr(explanation, "domain_mapper", None)
    scaled = getattr(mapper, "scaled_row", None)
    if scaled is None or feature in getattr(mapper, "categorical_features", ()):
        return 1.0
    dense = scaled.toarray() if hasattr(scaled, "toarray") else np.asarray(scaled)
    return float(dense.ravel()[feature])


def _lime_features(explanation: Any, model: Any, n_features: int | None) -> int:
    """The number of features to be scored: the model's, the caller's, or what the explanation is about."""
    stated = getattr(model, "n_features", None) if n_features is None else check_size(n_features, "n_features")
    known = _lime_size(explanation) if stated is None else stated
    if known is None:
        raise InvalidTypeError("`n_features` must be given, got None: the explanation does not tell.")
    return int(known)


def _lime_size(explanation: Any) -> int | None:
    """The number of segments, words or columns that an explanation of lime is about."""
    mapper, segments = getattr(explanation, "domain_mapper", None), getattr(explanation, "segments", None)
    words, columns = getattr(mapper, "indexed_string", None), getattr(mapper, "feature_names", None)
    if segments is not None:
        return int(np.max(segments)) + 1
    if words is not None:
        return int(words.num_words())
    return None if columns is None else len(columns)


def _lime_parts(explanation: Any, model: Any) -> tuple[NDArray[np.intp], NDArray[np.intp]] | None:
    """Lime's feature and the model's of each pixel, character or column, -1 for none; None if not known."""
    mapper, segments = getattr(explanation, "domain_mapper", None), getattr(explanation, "segments", None)
    words, columns = getattr(mapper, "indexed_string", None), getattr(mapper, "feature_names", None)
    groups: Any = getattr(model, "groups", None)
    located = getattr(model, "located", None)
    if segments is not None and np.ndim(groups) == 2:
        if np.shape(segments) != np.shape(groups):
            raise InvalidValueError(
                f"`explanation` must be of the image as the model sees it, {np.shape(groups)} pixels, got "
                f"{np.shape(segments)}. Give lime the image after resizing."
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
        raise InvalidValueError(f"`explanation` must be of the model's text, {text[:40]!r}, got another one.")
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
            f"`explanation` must have as many features as the model, {n}, got {n_explained}. Give lime the same input, "
            "and the model made by `mask_text`, `mask_image` or `mask_tabular`, which knows where its features are."
        )
    if len(weights) > n:
        raise InvalidValueError(f"`explanation` must be about features 0 to {n - 1}, got feature {len(weights) - 1}.")
    return np.pad(weights, (0, n - len(weights)))
