"""A classifier of any framework → a function from tables of rows to scores (b, n_classes) or labels (b,)."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from pathlib import Path
from types import MethodType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidTypeError, InvalidValueError, ModelError
from holdfast.masking.onnx import SCORE_NAMES, is_session, open_session
from holdfast.masking.table.tables import columns_without_numbers
from holdfast.masking.torch import (
    device_of,
    dtype_of,
    evaluating_module,
    import_torch,
    is_module,
    score_tensor,
    to_numpy,
    warn_if_half,
)
from holdfast.outputs import answers_of
from holdfast.types import Outputs
from holdfast.validation import shown

_METHODS = ("predict_proba", "predict_log_proba", "decision_function", "predict")
_ONNX_TYPES = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16}


class Predictor(Protocol):
    """Scores or labels of the rows of a table: an array (b, ...) or a frame."""

    def __call__(self, rows: Any, /) -> Outputs: ...

    @property
    def takes_frames(self) -> bool:
        """Whether it can be given data frames."""
        ...

    @property
    def labels(self) -> tuple[Hashable, ...] | None:
        """The columns it was made for, in order, if it knows."""
        ...

    @property
    def n_columns(self) -> int | None:
        """How many columns it was made for, if it knows."""
        ...


def as_predictor(classifier: Any, *, device: Any = None, dtype: Any = None) -> Predictor:
    """Find out how this classifier is to be asked."""
    if is_module(classifier):
        if dtype is None:
            warn_if_half(classifier, device)
        return ModulePredictor(classifier, device_of(classifier, device), dtype_of(classifier, dtype))
    if device is not None or dtype is not None:
        raise InvalidValueError(
            f"`device` and `dtype` must be None unless the classifier is a torch module, got {device!r} and {dtype!r}."
        )
    if isinstance(classifier, (str, Path)):
        return _open_onnx(Path(classifier))
    if is_session(classifier):
        return SessionPredictor(classifier)
    owner = getattr(classifier, "__self__", None)
    if isinstance(classifier, MethodType) and classifier.__name__ in _METHODS and _is_estimator(owner):
        return _ask_estimator(owner, classifier.__name__)
    if _is_estimator(classifier):
        return _ask_estimator(classifier, _best_method(classifier))
    if not callable(classifier):
        raise InvalidTypeError(
            "`classifier` must be a callable on rows, an estimator, a torch module, or an ONNX session or file, "
            f"got {type(classifier).__name__}."
        )
    return CallablePredictor(classifier)


@dataclass(frozen=True, eq=False)
class CallablePredictor:
    """Any function of rows; one real number per row is one score, not a class."""

    function: Callable[[Any], Any]
    takes_frames: bool = True
    labels: None = None
    n_columns: None = None

    def __call__(self, rows: Any, /) -> Outputs:
        return checked_outputs(self.function(rows), len(rows))


@dataclass(frozen=True, eq=False)
class EstimatorPredictor:
    """One method of a fitted estimator; a frame-fitted one gets frames, an array-fitted one arrays."""

    estimator: Any
    method: str
    takes_frames: bool = True

    @property
    def labels(self) -> tuple[Hashable, ...] | None:
        """The columns it was fitted on."""
        known = getattr(self.estimator, "feature_names_in_", None)
        return None if known is None else tuple(known)

    @property
    def n_columns(self) -> int | None:
        """How many columns it was fitted on."""
        known = getattr(self.estimator, "n_features_in_", None)
        return None if known is None else int(known)

    def __call__(self, rows: Any, /) -> Outputs:
        try:
            raw = getattr(self.estimator, self.method)(rows)
        except (TypeError, ValueError) as error:
            if words := columns_without_numbers(rows):
                raise InvalidTypeError(_refused(words, error)) from error
            raise
        outputs = checked_outputs(raw, len(rows))
        classes = getattr(self.estimator, "classes_", None)
        if classes is None or outputs.ndim == 1 or outputs.shape[1] > 1:
            return outputs
        if self.method == "decision_function":
            return np.concatenate([-outputs, outputs], axis=1)
        return _whole_labels(outputs) if self.method == "predict" else outputs


def _refused(words: str, error: Exception) -> str:
    """What an estimator that takes numbers says to texts or dates, and what to do."""
    return (
        f"The model refused the rows: {shown(str(error))} Not numbers: {words}. Leave such columns out, turn them into "
        "numbers as for training, or save the pipeline that encodes them as the model."
    )


@dataclass(frozen=True, eq=False)
class ModulePredictor:
    """A torch module on tensors of floats."""

    module: Any
    device: Any
    dtype: Any
    takes_frames: bool = False
    labels: None = None
    n_columns: None = None

    def __call__(self, rows: Any, /) -> Outputs:
        torch = import_torch()
        batch = torch.as_tensor(rows).to(device=self.device, dtype=self.dtype)
        with evaluating_module(self.module):
            return checked_outputs(to_numpy(score_tensor(self.module(batch))), len(rows))


@dataclass(frozen=True, eq=False)
class SessionPredictor:
    """An ONNX Runtime session with one input of rows; scores are preferred to labels."""

    session: Any
    takes_frames: bool = False
    labels: None = None

    def __post_init__(self) -> None:
        inputs = self.session.get_inputs()
        if len(inputs) != 1 or inputs[0].type not in _ONNX_TYPES or len(inputs[0].shape) not in (2, 3):
            got = ", ".join(f"{one.name}: {one.type} {one.shape}" for one in inputs)
            raise InvalidValueError(f"The ONNX model must have one input of floats, rows × columns, got {got}.")

    @property
    def n_columns(self) -> int | None:
        """How many columns it was exported for."""
        shape = self.session.get_inputs()[0].shape
        return shape[1] if len(shape) == 2 and isinstance(shape[1], int) else None

    def __call__(self, rows: Any, /) -> Outputs:
        given = self.session.get_inputs()[0]
        batch = np.ascontiguousarray(rows, dtype=_ONNX_TYPES[given.type])
        if not isinstance(given.shape[0], int):
            return self._run(given.name, batch)
        size = given.shape[0]
        parts = (batch[start : start + size] for start in range(0, len(batch), size))
        return np.concatenate([self._run(given.name, _filled_up(part, size))[: len(part)] for part in parts])

    def _run(self, name: str, batch: NDArray[Any]) -> Outputs:
        raw = self.session.run([_score_output(self.session)], {name: batch})[0]
        return checked_outputs(_without_zipmap(raw), len(batch))


def checked_outputs(raw: Any, n_rows: int) -> Outputs:
    """Scores (b, k) or labels (b,) for b rows; one real number per row becomes a column."""
    if hasattr(raw, "detach"):
        raw = to_numpy(raw)
    outputs = answers_of(raw)
    if outputs.ndim not in (1, 2) or len(outputs) != n_rows:
        raise ModelError(
            f"The classifier must return scores ({n_rows}, n_classes) or labels ({n_rows},) "
            f"for {n_rows} rows, got shape {outputs.shape}."
        )
    return outputs[:, None] if outputs.ndim == 1 and outputs.dtype.kind == "f" else outputs


def _is_estimator(value: Any) -> bool:
    return not isinstance(value, type) and any(callable(getattr(value, name, None)) for name in _METHODS)


def _best_method(estimator: Any) -> str:
    """Probabilities, else the scores of classes, else labels."""
    if hasattr(estimator, "predict_proba"):
        return "predict_proba"
    has_scores = hasattr(estimator, "decision_function") and hasattr(estimator, "classes_")
    if has_scores and not _is_one_vs_one(estimator):
        return "decision_function"
    return "predict"


def _whole_labels(column: Outputs) -> Outputs:
    """Labels (b,) of a classifier that was fitted on 0.0 and 1.0: the same numbers, as whole ones."""
    whole = column[:, 0].astype(np.int64)
    return whole if (whole == column[:, 0]).all() else column


def _ask_estimator(estimator: Any, method: str) -> EstimatorPredictor:
    if method == "decision_function" and _is_one_vs_one(estimator):
        raise InvalidValueError(
            "`classifier` must score classes, got a one-vs-one decision function, which scores pairs of classes. "
            "Use the estimator itself, its `predict`, or decision_function_shape='ovr'."
        )
    return EstimatorPredictor(estimator, method)


def _is_one_vs_one(estimator: Any) -> bool:
    """Whether its decision function has one column per pair of more than two classes, at any depth of a pipeline."""
    if len(getattr(estimator, "classes_", ())) <= 2 or not hasattr(estimator, "get_params"):
        return False
    return any(
        name.endswith("decision_function_shape") and value == "ovo" for name, value in estimator.get_params().items()
    )


def _open_onnx(path: Path) -> SessionPredictor:
    if path.suffix != ".onnx":
        raise InvalidValueError(f"`classifier` must be an ONNX file (.onnx) if it is a file name, got {str(path)!r}.")
    return SessionPredictor(open_session(path))


def _filled_up(part: NDArray[Any], size: int) -> NDArray[Any]:
    """The rows, and zeros up to the number of rows the model was exported for."""
    return np.concatenate([part, np.zeros((size - len(part), *part.shape[1:]), part.dtype)])


def _score_output(session: Any) -> str:
    """The output that is named like scores, else the first with a score per class, else the first."""
    outputs = session.get_outputs()
    named = [one.name for one in outputs if one.name in (*SCORE_NAMES, "output_probability")]
    scored = [one.name for one in outputs if one.type in _ONNX_TYPES or one.type.startswith("seq(map(")]
    return str((named or scored or [outputs[0].name])[0])


def _without_zipmap(raw: Any) -> Any:
    """A list of dictionaries class → probability, as converters from scikit-learn write it, as columns."""
    if isinstance(raw, list) and raw and isinstance(raw[0], dict):
        return np.array([list(row.values()) for row in raw])
    return raw


def softmaxed(scores: NDArray[Any]) -> NDArray[Any]:
    """Scores as probabilities."""
    if scores.ndim == 1 or scores.shape[1] < 2:
        raise InvalidValueError("`softmax` must be False for a classifier that gives labels or a single score.")
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))
