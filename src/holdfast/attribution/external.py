"""Scores from elsewhere (arrays, files, shap, captum) → an ``Attribution``; those of lime are read in ``lime``."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.attribution.methods import Attribution, Numbers, names_of, predicted
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.evaluation import bare_model, evaluating
from holdfast.types import MaskedModel
from holdfast.validation import as_array, check_list, check_name, check_unpacked, check_whole, read_text, shown
from holdfast.words import class_name

_SUFFIXES = (".npy", ".npz", ".csv")


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
        scores, read_names = _read_scores(Path(scores))
        feature_names = read_names if feature_names is None else feature_names
    values = maps.reduced(_as_numbers(scores, "scores"), channels_first=_is_tensor(scores))
    return imported(values, model, target=target, feature_names=feature_names, method=method)


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
    full, n_calls = full_scores(model)
    values, has_classes = _shap_values(explanation, row, maps)
    if has_classes and values.shape[-1] > 1:
        n_classes = values.shape[-1]
        if full is not None and len(full) != n_classes:
            must = f"have values for the {len(full)} classes of the model"
            raise InvalidValueError(argument="explanation", must=must, got=n_classes)
        if output is not None:
            must = f"be left out when there are values for {n_classes} classes"
            raise InvalidTypeError(argument="output", must=must, got=shown(output))
        explained = predicted(full) if target is None and full is not None else target
        values = values[..., _check_index(explained, "target", n_classes)]
    else:
        values = values[..., 0] if has_classes else values
        values, explained = _single_output(explanation, values, row=row, full=full, target=target, output=output)
    reduced = maps.reduced(values, channels_first=False)
    names = getattr(explanation, "feature_names", None)
    fitting = names if isinstance(names, (list, tuple)) and len(names) == len(reduced) else None
    return imported(reduced, model, target=explained, feature_names=fitting, method="shap package", n_calls=n_calls)


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
    if isinstance(attributions, tuple) and len(attributions) != 1:
        raise InvalidValueError(argument="attributions", must="belong to one input tensor", got=len(attributions))
    tensor = attributions[0] if isinstance(attributions, tuple) else attributions
    maps = Maps.of(model, groups=groups, reduce=reduce)
    values = maps.reduced(_as_numbers(tensor, "attributions"), channels_first=True)
    return imported(values, model, target=target, method="captum")


def imported(
    scores: Numbers, model: Any, *, target: Any, method: str, feature_names: Any = None, **known: Any
) -> Attribution:
    """Scores (n_features,) from elsewhere as an ``Attribution``, with the names that the caller or the model gives."""
    names = names_of(model)
    if isinstance(feature_names, str):  # a list of letters
        names = tuple(feature_names)
    elif feature_names is not None:
        names = tuple(map(str, check_list(feature_names, "feature_names", "be a list")))
    target_name = class_name(target, getattr(model, "classes", None))
    return Attribution(scores, target, method, feature_names=names, target_name=target_name, **known)


def full_scores(model: Any) -> tuple[Numbers | None, int]:
    """The model's scores (n_classes,) of the full input, None if it gives labels, and the calls this took."""
    if model is None:
        return None, 0
    with evaluating(model) as evaluator:
        before = evaluator.n_calls
        outputs = evaluator(np.ones((1, evaluator.n_features), dtype=bool))
        return (None if outputs.ndim == 1 else outputs[0]), evaluator.n_calls - before


def add_up(full: Numbers | None) -> bool:
    """Whether one of two scores is as good as the other: probabilities, or a score and its opposite."""
    return full is not None and len(full) == 2 and bool(np.isclose(full.sum(), [0, 1], atol=1e-3).any())


def _as_numbers(values: Any, name: str) -> Numbers:
    """Real finite numbers as an array; tensors are brought to the CPU."""
    plain = values.detach().cpu().numpy() if _is_tensor(values) else values
    must = "hold real numbers"
    array: NDArray[Any] = as_array(plain, name, must)
    if array.dtype.kind not in "fiub" or array.size == 0:
        raise InvalidTypeError(argument=name, must=must, got=f"{array.dtype} of shape {array.shape}")
    if not np.isfinite(array).all():
        raise InvalidValueError(argument=name, must=must, got="NaN or infinity")
    return array.astype(np.float64)


def _is_tensor(values: Any) -> bool:
    return hasattr(values, "detach") and hasattr(values, "cpu")


def _shap_values(explanation: Any, row: int | None, maps: Maps) -> tuple[Numbers, bool]:
    """The values of one input, and whether their last axis is one of classes."""
    values = getattr(explanation, "values", explanation)
    if isinstance(values, list):
        columns = [_one_row(_as_numbers(column, "explanation"), row) for column in values]
        if len({column.shape for column in columns}) != 1:
            raise InvalidValueError(argument="explanation", must="have one array of the same shape per class")
        return np.stack(columns, axis=-1), True
    numbers, data = _as_numbers(values, "explanation"), getattr(explanation, "data", None)
    # Whether they are of several inputs is told by the data of an Explanation, or by the number of features.
    if isinstance(data, np.ndarray):
        of_several = data.ndim > 1 and numbers.shape[: data.ndim] == data.shape
    else:
        is_table = numbers.ndim == 2 and not maps.fits(numbers)
        of_several = is_table and numbers.shape[1] == (maps.n_features or len(numbers))
    if row is None and of_several and len(numbers) > 1:
        raise InvalidTypeError(
            argument="row", must=f"say which of the {len(numbers)} explained inputs to use", got="None"
        )
    numbers = _one_row(numbers, row)
    return numbers, numbers.ndim in (2, 4) and not maps.fits(numbers)


def _one_row(values: Numbers, row: int | None) -> Numbers:
    if row is not None and values.ndim == 0:
        raise InvalidValueError(argument="row", must="be left out for a single number", got=shown(row))
    if row is not None:
        return np.asarray(values[_check_index(row, "row", len(values))])
    return np.asarray(values[0]) if values.ndim > 1 and len(values) == 1 else values


def _single_output(
    explanation: Any, values: Numbers, *, row: int | None, full: Numbers | None, target: Any, output: Any
) -> tuple[Numbers, int | None]:
    """Values of one output with the sign that speaks for the class to be explained, and that class.

    Which class they speak for is what the caller states, or an Explanation tells: by the name of the output that was
    taken from it, or by its base and values, which add up to a score of that class. Explainers of two classes mostly
    speak for class 1, but nothing keeps a caller from explaining a function that returns the score of class 0.
    """
    n_classes = None if full is None else len(full)
    spoken_for, base = None, getattr(explanation, "base_values", None)
    taken = re.fullmatch(r"Output (\d+)", str(getattr(explanation, "output_names", None)))
    if output is not None:
        spoken_for = _check_index(output, "output", n_classes)
        n_classes = 2 if n_classes is None and spoken_for < 2 else n_classes
    elif taken:
        spoken_for, n_classes = int(taken[1]), 2 if add_up(full) else None
    elif base is not None and full is not None:
        bases = _as_numbers(base, "explanation.base_values").ravel()
        total = float(values.sum()) + bases[row if row is not None and len(bases) > 1 else 0]
        matching = [k for k in range(len(full)) if np.isclose(total, _views(full, k), rtol=1e-3, atol=1e-3).any()]
        spoken_for = matching[0] if len(matching) == 1 else None
    explained = spoken_for
    if target is not None:
        explained = _check_index(target, "target", n_classes)
    elif full is not None and (spoken_for is not None or len(full) == 1):
        explained = int(predicted(full))
    if n_classes == 1:
        return values, explained
    # More than two classes have an axis: values without it were taken by the caller, as were those for class 1 of
    # two; only class 0 of two may be meant by either sign.
    if spoken_for is None and explained is not None and (explained > 0 or (n_classes or 2) > 2):
        spoken_for = explained
    if spoken_for is None or explained is None:
        must = "say which class the values explain, as they have no axis of classes"
        hint = "It is 1 for XGBoost, LightGBM and other models of two classes. For a regression use `from_array`."
        raise InvalidTypeError(argument="output", must=must, got="None", hint=hint)
    if spoken_for != explained and n_classes != 2:
        must, received = f"explain class {explained}", f"values for class {spoken_for}"
        hint = f"Take column {explained} of the explanation, or pass `target={spoken_for}`."
        raise InvalidValueError(argument="explanation", must=must, got=received, hint=hint)
    return (values if spoken_for == explained else -values), explained


def _views(scores: Numbers, k: int) -> Numbers:
    """The score of class k as explainers state it: as it is, and for two classes its lead, or its log-odds."""
    views = [scores[k]]
    if len(scores) == 2:
        views.append(scores[k] - scores[1 - k])
        if (scores > 0).all() and np.isclose(scores.sum(), 1):
            views.append(np.log(scores[k] / scores[1 - k]))
    return np.array(views, dtype=np.float64)


def _check_index(value: Any, name: str, length: int | None) -> int:
    if length is not None and (value is None or check_whole(value, name) >= length):
        kind = InvalidTypeError if value is None else InvalidValueError
        raise kind(argument=name, must=f"be a whole number from 0 to {length - 1}", got=shown(value))
    return check_whole(value, name)


@dataclass(frozen=True)
class Maps:
    """How maps of one input become scores: the feature of each element, and what is done with a feature's elements."""

    groups: NDArray[np.intp] | None
    n_features: int | None
    reduce: str

    @classmethod
    def of(cls, model: Any, *, groups: Any, reduce: str) -> Maps:
        """The groups given, or those of the model, checked."""
        check_name(reduce, "reduce", ("sum", "mean", "max"))
        known = getattr(bare_model(model), "groups", None) if groups is None else groups
        n_features = getattr(model, "n_features", None)
        n_features = None if n_features is None else check_whole(n_features, "model.n_features", minimum=1)
        if known is None:
            return cls(None, n_features, reduce)
        must = "give the feature of each element as a whole number from -1"
        array = as_array(known, "groups", must, kinds="iu")
        present = np.unique(array[array >= 0])
        if not len(present) or array.min() < -1 or not np.array_equal(present, np.arange(len(present))):
            raise InvalidValueError(argument="groups", must=f"{must}, without gaps", got=present.tolist()[:8])
        if n_features not in (None, len(present)):
            must = f"have the {n_features} features of the model"
            raise InvalidValueError(argument="groups", must=must, got=len(present))
        return cls(array.astype(np.intp), len(present), reduce)

    def fits(self, values: Numbers) -> bool:
        """Whether these are scores of features, or a map without further axes."""
        is_map = self.groups is not None and values.shape == self.groups.shape
        return is_map or (values.ndim == 1 and self.n_features in (None, len(values)))

    def reduced(self, values: Numbers, *, channels_first: bool) -> Numbers:
        """Scores (n_features,) of scores or of a map; leading axes of length one are dropped."""
        while values.ndim > 1 and len(values) == 1 and not self.fits(values):
            values = values[0]
        groups = self.groups
        # One element per feature may be meant, in another order than the features'.
        in_order = groups is None or groups.shape != values.shape or np.array_equal(groups, np.arange(values.size))
        if values.ndim == 1 and self.n_features in (None, len(values)) and in_order:
            return values
        if groups is None:
            wanted = "one number per feature" if self.n_features is None else f"{self.n_features} numbers"
            must = f"be {wanted}, or a map together with `groups`"
            is_biased = self.n_features is not None and values.shape == (self.n_features + 1,)
            hint = "If the last one is the bias, leave it out." if is_biased else None
            raise InvalidValueError(argument="scores", must=must, got=f"shape {values.shape}", hint=hint)
        first, last = values.shape[: groups.ndim] == groups.shape, values.shape[-groups.ndim :] == groups.shape
        # Channels come first in images (C, H, W), never in texts (T, d).
        if last and ((channels_first and groups.ndim > 1) or not first):
            places = values.reshape(-1, groups.size).T
        elif first:
            places = values.reshape(groups.size, -1)
        else:
            must = f"be {self.n_features} numbers or a map of elements {groups.shape}"
            raise InvalidValueError(argument="scores", must=must, got=f"shape {values.shape}")
        inside = groups.ravel() >= 0
        places, features = places[inside], groups.ravel()[inside]
        n = int(self.n_features or features.max() + 1)
        if self.reduce == "max":
            largest = np.full(n, -np.inf)
            np.maximum.at(largest, features, places.max(axis=1))
            return largest
        sums = np.bincount(features, weights=places.sum(axis=1), minlength=n).astype(np.float64)
        return sums if self.reduce == "sum" else sums / (np.bincount(features, minlength=n) * places.shape[1])


def _read_scores(path: Path) -> tuple[NDArray[Any], tuple[str, ...] | None]:
    """The array of a ``.npy``, ``.npz`` or ``.csv`` file; nothing is ever unpickled."""
    if path.suffix not in _SUFFIXES:
        raise InvalidValueError(argument="scores", must=f"be a {', '.join(_SUFFIXES)} file", got=repr(path.name))
    if path.suffix == ".csv":
        with _naming_file(path):
            return _read_csv(path)
    loaded = load_arrays(path)
    if isinstance(loaded, np.ndarray):
        return loaded, None
    names = list(loaded)
    if "scores" not in names and len(names) != 1:
        must = f"be a single array or one called 'scores'; {path.name} has {', '.join(names) or 'none'}"
        raise InvalidValueError(argument="scores", must=must)
    return loaded["scores" if "scores" in names else names[0]], None


def load_arrays(path: Path) -> NDArray[Any] | dict[str, NDArray[Any]]:
    """The array of a ``.npy`` file, or the arrays of a ``.npz`` file by name; nothing is ever unpickled."""
    with _naming_file(path):
        check_unpacked(path)
        with path.open("rb") as file:
            loaded = np.load(file, allow_pickle=False)
            return loaded if isinstance(loaded, np.ndarray) else {name: np.asarray(loaded[name]) for name in loaded}


@contextmanager
def _naming_file(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, InvalidValueError):
        raise
    except Exception as error:  # NumPy lets through whatever its parsers of headers and archives raise
        message = f"must be numbers; {path.name} cannot be read: {error}"
        raise InvalidValueError(message, argument="scores") from error


def _read_csv(path: Path) -> tuple[NDArray[Any], tuple[str, ...] | None]:
    """Rows of numbers; or rows that begin with a name. A first line without any number is a heading."""
    lines = StringIO(read_text(path), newline="")
    rows = [row for row in csv.reader(lines) if any(cell.strip() for cell in row)]
    # A heading with an empty corner is a frame's: its first column is an index.
    indexed = bool(rows) and len(rows[0]) > 1 and not rows[0][0].strip()
    if rows and (indexed or not any(map(_is_number, rows[0]))):
        rows = rows[1:]
    if not rows:
        raise InvalidValueError(argument="scores", must=f"be numbers; {path.name} has none")
    named = indexed or not all(_is_number(row[0]) for row in rows)
    names = tuple(row[0].strip() for row in rows) if named else None
    values = np.array([[float(cell) for cell in row[int(named) :]] for row in rows])
    return values.ravel() if 1 in values.shape else values, names


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
