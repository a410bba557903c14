"""A classifier of any framework → a function from tables of rows to scores (b, n_classes) or labels (b,)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from pathlib import Path
from types import MethodType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidTypeError, InvalidValueError, ModelError
from holdfast.masking.onnx import SCORE_NAMES, is_session, open_session, run_in_size
from holdfast.masking.table.palettes import columns_without_numbers
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


class Predictor(ABC):
    """Scores or labels of the rows of a table: an array (b, ...) or a frame."""

    takes_frames = False
    """Whether it can be given data frames."""

    @property
    def labels(self) -> tuple[Hashable, ...] | None:
        """The columns it was made for, in order, if it knows."""
        return None

    @property
    def n_columns(self) -> int | None:
        """How many columns it was made for, if it knows."""
        return None

    @abstractmethod
    def __call__(self, rows: Any, /) -> Outputs: ...


def as_predictor(classifier: Any, *, device: Any = None, dtype: Any = None) -> Predictor:
    """Find out how this classifier is to be asked."""
    if is_module(classifier):
        if dtype is None:
            warn_if_half(classifier, device)
        return ModulePredictor(classifier, device_of(classifier, device), dtype_of(classifier, dtype))
    if device is not None or dtype is not None:
        raise InvalidValueError(
            f"and `dtype` must be None unless the classifier is a torch module, got {device!r} and {dtype!r}.",
            argument="device",
        )
    if isinstance(classifier, (str, Path)):
        if Path(classifier).suffix != ".onnx":
            must = "be an ONNX file (.onnx) if it is a file name"
            raise InvalidValueError(argument="classifier", must=must, got=shown(str(classifier)))
        return SessionPredictor(open_session(classifier))
    if is_session(classifier):
        return SessionPredictor(classifier)
    if isinstance(classifier, MethodType) and classifier.__name__ in _METHODS and _is_estimator(classifier.__self__):
        return _ask_estimator(classifier.__self__, classifier.__name__)
    if _is_estimator(classifier):
        return _ask_estimator(classifier)
    if not callable(classifier):
        must = "be a callable on rows, an estimator, a torch module, or an ONNX session or file"
        raise InvalidTypeError(argument="classifier", must=must, got=type(classifier).__name__)
    return CallablePredictor(classifier)


@dataclass(frozen=True, eq=False)
class CallablePredictor(Predictor):
    """Any function of rows; one real number per row is one score, not a class."""

    function: Callable[[Any], Any]
    takes_frames = True

    def __call__(self, rows: Any, /) -> Outputs:
        return _row_outputs(self.function(rows), len(rows))


@dataclass(frozen=True, eq=False)
class EstimatorPredictor(Predictor):
    """One method of a fitted estimator; a frame-fitted one gets frames, an array-fitted one arrays."""

    estimator: Any
    method: str
    takes_frames = True

    @property
    def asked(self) -> Callable[[Any], Any]:
        """The method itself."""
        method: Callable[[Any], Any] = getattr(self.estimator, self.method)
        return method

    @property
    def labels(self) -> tuple[Hashable, ...] | None:
        known = getattr(self.estimator, "feature_names_in_", None)
        return None if known is None else tuple(known)

    @property
    def n_columns(self) -> int | None:
        known = getattr(self.estimator, "n_features_in_", None)
        return None if known is None else int(known)

    def __call__(self, rows: Any, /) -> Outputs:
        try:
            raw = self.asked(rows)
        except (TypeError, ValueError) as error:
            if words := columns_without_numbers(rows):
                raise InvalidTypeError(
                    f"The model refused the rows: {shown(str(error))} Not numbers: {words}. Leave such columns out, "
                    "turn them into numbers as for training, or save the pipeline that encodes them as the model."
                ) from error
            raise
        outputs = _row_outputs(raw, len(rows))
        if getattr(self.estimator, "classes_", None) is None or outputs.ndim == 1 or outputs.shape[1] > 1:
            return outputs
        if self.method == "decision_function":
            return np.concatenate([-outputs, outputs], axis=1)
        # Labels of a classifier that was fitted on 0.0 and 1.0: the same numbers, as whole ones.
        whole = outputs[:, 0].astype(np.int64)
        return whole if self.method == "predict" and (whole == outputs[:, 0]).all() else outputs


@dataclass(frozen=True, eq=False)
class ModulePredictor(Predictor):
    """A torch module on tensors of floats."""

    module: Any
    device: Any
    dtype: Any

    def __call__(self, rows: Any, /) -> Outputs:
        batch = import_torch().as_tensor(rows).to(device=self.device, dtype=self.dtype)
        with evaluating_module(self.module):
            return _row_outputs(to_numpy(score_tensor(self.module(batch))), len(rows))


@dataclass(frozen=True, eq=False)
class SessionPredictor(Predictor):
    """An ONNX Runtime session with one input of rows; scores are preferred to labels."""

    session: Any

    def __post_init__(self) -> None:
        inputs = self.session.get_inputs()
        if len(inputs) != 1 or inputs[0].type not in _ONNX_TYPES or len(inputs[0].shape) not in (2, 3):
            got = ", ".join(f"{entry.name}: {entry.type} {entry.shape}" for entry in inputs)
            raise InvalidValueError(f"The ONNX model must have one input of floats, rows × columns, got {got}.")

    @property
    def n_columns(self) -> int | None:
        shape = self.session.get_inputs()[0].shape
        return shape[1] if len(shape) == 2 and isinstance(shape[1], int) else None

    def __call__(self, rows: Any, /) -> Outputs:
        (entry,) = self.session.get_inputs()
        size = entry.shape[0] if isinstance(entry.shape[0], int) else None
        # The output that is named like scores, else the first with a score per class, else the first.
        outputs = self.session.get_outputs()
        named = [output.name for output in outputs if output.name in (*SCORE_NAMES, "output_probability")]
        scored = [output.name for output in outputs if output.type in _ONNX_TYPES or output.type.startswith("seq(map(")]
        name = (named or scored or [outputs[0].name])[0]

        def run(batch: NDArray[Any]) -> Outputs:
            raw = self.session.run([name], {entry.name: batch})[0]
            if isinstance(raw, list) and raw and isinstance(raw[0], dict):
                # Dictionaries class → probability, as converters from scikit-learn write them.
                raw = np.array([list(row.values()) for row in raw])
            return _row_outputs(raw, len(batch))

        return run_in_size(run, np.ascontiguousarray(rows, dtype=_ONNX_TYPES[entry.type]), size)


def _row_outputs(raw: Any, n_rows: int) -> Outputs:
    """Scores (b, k) or labels (b,) for b rows; one real number per row becomes a column."""
    outputs = answers_of(to_numpy(raw) if hasattr(raw, "detach") else raw)
    if outputs.ndim not in (1, 2) or len(outputs) != n_rows:
        raise ModelError(
            f"The classifier must return scores ({n_rows}, n_classes) or labels ({n_rows},) "
            f"for {n_rows} rows, got shape {outputs.shape}."
        )
    return outputs[:, None] if outputs.ndim == 1 and outputs.dtype.kind == "f" else outputs


def _is_estimator(value: Any) -> bool:
    return not isinstance(value, type) and any(callable(getattr(value, name, None)) for name in _METHODS)


def _ask_estimator(estimator: Any, method: str | None = None) -> EstimatorPredictor:
    """By the given method, else for probabilities, else for the scores of classes, else for labels."""
    # Whether its decision function has one column per pair of more than two classes, at any depth of a pipeline.
    scores_pairs = len(getattr(estimator, "classes_", ())) > 2 and any(
        name.endswith("decision_function_shape") and value == "ovo"
        for name, value in (estimator.get_params() if hasattr(estimator, "get_params") else {}).items()
    )
    if method is None:
        scores_classes = hasattr(estimator, "decision_function") and hasattr(estimator, "classes_") and not scores_pairs
        others = "decision_function" if scores_classes else "predict"
        return EstimatorPredictor(estimator, "predict_proba" if hasattr(estimator, "predict_proba") else others)
    if method == "decision_function" and scores_pairs:
        raise InvalidValueError(
            argument="classifier",
            must="score classes",
            got="a one-vs-one decision function, which scores pairs of classes",
            hint="Use the estimator itself, its `predict`, or decision_function_shape='ovr'.",
        )
    return EstimatorPredictor(estimator, method)
