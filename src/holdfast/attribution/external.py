"""Scores from elsewhere (arrays, files, shap, captum, lime) → an ``Attribution``."""

from __future__ import annotations

import os
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.attribution.files import read_scores
from holdfast.attribution.maps import Maps
from holdfast.attribution.methods import names_of
from holdfast.attribution.task import Numbers
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.results.attribution import Attribution
from holdfast.types import MaskedModel
from holdfast.validation import as_array, check_list, check_size, check_whole


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
    groups: Any = None,
    reduce: str = "sum",
) -> Attribution:
    """Take the values of the shap package: an ``Explanation``, an array, or a list with one array per class.

    Parameters
    ----------
    explanation : shap.Explanation, array or list of arrays
        Values of one input, (n_features,) or (n_features, n_classes), or of many, with one more leading
        axis; images are maps (H, W, C) or (H, W, C, n_classes).
    model : MaskedModel, optional
        What they are values of; see ``from_array`` for this, ``groups`` and ``reduce``.
    target : int, optional
        The class, if the values have several.
    row : int, optional
        Which input, if the values are of several.

    Examples
    --------
    >>> import numpy as np
    >>> from_shap(np.array([[0.2, -0.2], [0.5, -0.5]]), target=1).scores.tolist()
    [-0.2, -0.5]
    """
    values, names = getattr(explanation, "values", explanation), getattr(explanation, "feature_names", None)
    if row is None and _n_inputs(explanation) > 1:
        raise InvalidTypeError(f"`row` must name one of the {_n_inputs(explanation)} inputs explained, got None.")
    if isinstance(values, list):
        values = values[_check_index(target, "target", len(values))]
        numbers = _one_row(as_numbers(values, "explanation"), row)
    else:
        maps = Maps.of(model, groups=groups, reduce=reduce)
        numbers = _one_class(_one_row(as_numbers(values, "explanation"), row), target, maps)
    reduced = Maps.of(model, groups=groups, reduce=reduce).reduced(numbers, channels_first=False)
    fitting = names if isinstance(names, (list, tuple)) and len(names) == len(reduced) else None
    return _given(reduced, model, target=target, feature_names=fitting, method="shap package")


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
        The class that was explained.

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
    explanation: Any, model: MaskedModel | None = None, *, target: int | None = None, n_features: int | None = None
) -> Attribution:
    """Take an explanation of the lime package; features that it left out have score 0.

    Its features must be those of the model: for texts construct the explainer with ``bow=False``, so
    that a repeated word is as many features as it is words; for images give it the same segments.

    Parameters
    ----------
    explanation : lime Explanation or ImageExplanation
        As returned by ``explain_instance``.
    model : MaskedModel, optional
        What it explains: gives the number of features and their names.
    target : int, optional
        The label, if the explanation has several; by default the first of its top labels.
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
    label = _lime_label(explanation, by_label, target)
    n = _lime_features(explanation, model, n_features)
    strange = next((i for i, _ in by_label[label] if not 0 <= i < n), None)
    if strange is not None:
        raise InvalidValueError(f"`explanation` must be about features 0 to {n - 1}, got feature {strange}.")
    scores = np.zeros(n)
    for i, weight in by_label[label]:
        scores[i] = weight
    details = {"n_reported": len(by_label[label])}
    return _given(scores, model, target=int(label), feature_names=None, method="lime package", details=details)


def as_numbers(values: Any, name: str) -> Numbers:
    """Real finite numbers as an array; tensors are brought to the CPU."""
    plain = values.detach().cpu().numpy() if _is_tensor(values) else values
    wanted = f"`{name}` must hold real numbers"
    array: NDArray[Any] = as_array(plain, wanted)
    if array.dtype.kind not in "fiub" or array.size == 0:
        raise InvalidTypeError(f"{wanted}, got {array.dtype} of shape {array.shape}.")
    if not np.isfinite(array).all():
        raise InvalidValueError(f"{wanted}, got NaN or infinity.")
    return array.astype(np.float64)


def _given(
    values: Numbers, model: Any, *, target: Any, feature_names: Any, method: str, details: Any = None
) -> Attribution:
    names = names_of(model) if feature_names is None else _names(feature_names)
    return Attribution(
        values, target=target, method=method, feature_names=names, details={} if details is None else details
    )


def _names(given: Any) -> tuple[str, ...]:
    """A name per feature; a text is a list of letters."""
    return (
        tuple(given) if isinstance(given, str) else tuple(map(str, check_list(given, "`feature_names` must be a list")))
    )


def _is_tensor(values: Any) -> bool:
    return hasattr(values, "detach") and hasattr(values, "cpu")


def _n_inputs(explanation: Any) -> int:
    """Of how many inputs an Explanation of shap is, by the data it holds; 1 if it does not tell."""
    data, values = getattr(explanation, "data", None), getattr(explanation, "values", None)
    if not isinstance(data, np.ndarray) or not isinstance(values, np.ndarray) or data.ndim < 2:
        return 1
    return len(data) if values.shape[: data.ndim] == data.shape else 1


def _one_row(values: Numbers, row: int | None) -> Numbers:
    if row is not None and values.ndim == 0:
        raise InvalidValueError(f"`row` must be left out for a single number, got {row!r}.")
    if row is not None:
        return np.asarray(values[_check_index(row, "row", len(values))])
    return np.asarray(values[0]) if values.ndim > 1 and len(values) == 1 else values


def _one_class(values: Numbers, target: int | None, maps: Maps) -> Numbers:
    """Values without their axis of classes, which is the last, if they have one."""
    if values.ndim not in (2, 4) or maps.fits(values):
        return values
    return np.asarray(values[..., _check_index(target, "target", values.shape[-1])])


def _check_index(value: Any, name: str, length: int) -> int:
    wanted = f"`{name}` must be a whole number from 0 to {length - 1}, got {value!r}."
    if value is None:
        raise InvalidTypeError(wanted)
    index = check_whole(value, name)
    if index >= length:
        raise InvalidValueError(wanted)
    return index


def _lime_label(explanation: Any, by_label: dict[Any, Any], target: int | None) -> Any:
    if target is not None:
        if not isinstance(target, Hashable) or target not in by_label:
            raise InvalidValueError(f"`target` must be one of {', '.join(map(str, by_label))}, got {target!r}.")
        return target
    if getattr(explanation, "mode", None) == "regression":
        return 1  # label 0 holds the same weights with the other sign
    leading = getattr(explanation, "top_labels", None)
    if not leading and len(by_label) > 1:
        raise InvalidTypeError(f"`target` must be one of {', '.join(map(str, by_label))}, got None.")
    return leading[0] if leading else next(iter(by_label))


def _lime_features(explanation: Any, model: Any, n_features: int | None) -> int:
    """Their number: the model's, the caller's, or what the explanation is about."""
    asked = getattr(model, "n_features", None) if n_features is None else check_size(n_features, "n_features")
    told = _lime_size(explanation)
    if asked is None and told is None:
        raise InvalidTypeError("`n_features` must be given, got None: the explanation does not tell.")
    if asked is not None and told is not None and asked != told:
        raise InvalidValueError(
            f"`explanation` must have as many features as the model, {asked}, got {told}. "
            "For texts use LimeTextExplainer(bow=False); for images give lime the same segments."
        )
    return int(asked or told or 0)


def _lime_size(explanation: Any) -> int | None:
    """The number of segments, words or columns that an explanation of lime is about."""
    mapper, segments = getattr(explanation, "domain_mapper", None), getattr(explanation, "segments", None)
    words, columns = getattr(mapper, "indexed_string", None), getattr(mapper, "feature_names", None)
    if segments is not None:
        return int(np.max(segments)) + 1
    if words is not None:
        return int(words.num_words())
    return None if columns is None else len(columns)
