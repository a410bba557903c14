"""A classifier of any framework → a function from tables of rows to scores (b, n_classes) or labels (b,)."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MethodType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidTypeError, InvalidValueError, ModelError
from holdfast.masking.onnx import is_session, open_session, run_in_size
from holdfast.masking.table.palettes import columns_without_numbers
from holdfast.masking.torch import SCORE_NAMES, is_module, on_rows, to_numpy
from holdfast.outputs import answers_of
from holdfast.types import Outputs
from holdfast.validation import shown

_METHODS = ("predict_proba", "predict_log_proba", "decision_function", "predict")
_ONNX_TYPES = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16}


@dataclass(frozen=True, eq=False)
class Predictor:
    """Scores or labels of the rows of a table, an array (b, ...) or a frame; one real number per row is one score.

    ``labels`` are the columns it was made for, in order, and ``n_columns`` how many, if it knows; where it asks an
    estimator, ``estimator`` and ``method`` say what.
    """

    function: Callable[[Any], Any]
    takes_frames: bool = False
    labels: tuple[Hashable, ...] | None = None
    n_columns: int | None = None
    estimator: Any = None
    method: str | None = None

    def __call__(self, rows: Any, /) -> Outputs:
        return _row_outputs(self.function(rows), len(rows))


def as_predictor(classifier: Any, *, device: Any = None, dtype: Any = None) -> Predictor:
    """Find out how this classifier is to be asked."""
    if is_module(classifier):
        return Predictor(on_rows(classifier, device, dtype))
    if device is not None or dtype is not None:
        message = f"and `dtype` must be None unless the classifier is a torch module, got {device!r} and {dtype!r}."
        raise InvalidValueError(message, argument="device")
    if isinstance(classifier, (str, Path)):
        if Path(classifier).suffix != ".onnx":
            must = "be an ONNX file (.onnx) if it is a file name"
            raise InvalidValueError(argument="classifier", must=must, got=shown(str(classifier)))
        return _ask_session(open_session(classifier))
    if is_session(classifier):
        return _ask_session(classifier)
    if isinstance(classifier, MethodType) and classifier.__name__ in _METHODS and _is_estimator(classifier.__self__):
        return _ask_estimator(classifier.__self__, classifier.__name__)
    if _is_estimator(classifier):
        return _ask_estimator(classifier)
    if not callable(classifier):
        must = "be a callable on rows, an estimator, a torch module, or an ONNX session or file"
        raise InvalidTypeError(argument="classifier", must=must, got=type(classifier).__name__)
    return Predictor(classifier, takes_frames=True)


def _row_outputs(raw: Any, n_rows: int) -> Outputs:
    """Scores (b, k) or labels (b,) for b rows; one real number per row becomes a column."""
    outputs = answers_of(to_numpy(raw) if hasattr(raw, "detach") else raw)
    if outputs.ndim not in (1, 2) or len(outputs) != n_rows:
        wanted = f"scores ({n_rows}, n_classes) or labels ({n_rows},) for {n_rows} rows"
        raise ModelError(f"The classifier must return {wanted}, got shape {outputs.shape}.")
    return outputs[:, None] if outputs.ndim == 1 and outputs.dtype.kind == "f" else outputs


def _ask_session(session: Any) -> Predictor:
    """An ONNX Runtime session with one input of rows; scores are preferred to labels."""
    inputs, outputs = session.get_inputs(), session.get_outputs()
    if len(inputs) != 1 or inputs[0].type not in _ONNX_TYPES or len(inputs[0].shape) not in (2, 3):
        got = ", ".join(f"{entry.name}: {entry.type} {entry.shape}" for entry in inputs)
        raise InvalidValueError(f"The ONNX model must have one input of floats, rows × columns, got {got}.")
    # The output that is named like scores, else the first with a score per class, else the first.
    named = [output.name for output in outputs if output.name in (*SCORE_NAMES, "output_probability")]
    scored = [output.name for output in outputs if output.type in _ONNX_TYPES or output.type.startswith("seq(map(")]
    n_columns = inputs[0].shape[1] if len(inputs[0].shape) == 2 else None
    run = partial(_run_session, session, (named or scored or [outputs[0].name])[0])
    return Predictor(run, n_columns=n_columns if isinstance(n_columns, int) else None)


def _run_session(session: Any, output_name: str, rows: Any) -> Outputs:
    (entry,) = session.get_inputs()

    def run(batch: NDArray[Any]) -> Outputs:
        raw = session.run([output_name], {entry.name: batch})[0]
        if isinstance(raw, list) and raw and isinstance(raw[0], dict):
            # Dictionaries class → probability, as converters from scikit-learn write them.
            raw = np.array([list(row.values()) for row in raw])
        return _row_outputs(raw, len(batch))

    size = entry.shape[0] if isinstance(entry.shape[0], int) else None
    return run_in_size(run, np.ascontiguousarray(rows, dtype=_ONNX_TYPES[entry.type]), size)


def _is_estimator(value: Any) -> bool:
    return not isinstance(value, type) and any(callable(getattr(value, name, None)) for name in _METHODS)


def _ask_estimator(estimator: Any, method: str | None = None) -> Predictor:
    """By the given method, else for probabilities, else for the scores of classes, else for labels.

    One that was fitted on frames gets frames, one on arrays gets arrays.
    """
    # Whether its decision function has one column per pair of more than two classes, at any depth of a pipeline.
    scores_pairs = len(getattr(estimator, "classes_", ())) > 2 and any(
        name.endswith("decision_function_shape") and value == "ovo"
        for name, value in (estimator.get_params() if hasattr(estimator, "get_params") else {}).items()
    )
    if method is None:
        scores_classes = hasattr(estimator, "decision_function") and hasattr(estimator, "classes_") and not scores_pairs
        others = "decision_function" if scores_classes else "predict"
        method = "predict_proba" if hasattr(estimator, "predict_proba") else others
    elif method == "decision_function" and scores_pairs:
        got = "a one-vs-one decision function, which scores pairs of classes"
        hint = "Use the estimator itself, its `predict`, or decision_function_shape='ovr'."
        raise InvalidValueError(argument="classifier", must="score classes", got=got, hint=hint)
    labels, n_columns = (getattr(estimator, name, None) for name in ("feature_names_in_", "n_features_in_"))
    known, n = None if labels is None else tuple(labels), None if n_columns is None else int(n_columns)
    return Predictor(partial(_run_estimator, estimator, method), True, known, n, estimator, method)


def _run_estimator(estimator: Any, method: str, rows: Any) -> Outputs:
    try:
        raw = getattr(estimator, method)(rows)
    except (TypeError, ValueError) as error:
        if words := columns_without_numbers(rows):
            raise InvalidTypeError(
                f"The model refused the rows: {shown(str(error))} Not numbers: {words}. Leave such columns out, "
                "turn them into numbers as for training, or save the pipeline that encodes them as the model."
            ) from error
        raise
    outputs = _row_outputs(raw, len(rows))
    if getattr(estimator, "classes_", None) is None or outputs.ndim == 1 or outputs.shape[1] > 1:
        return outputs
    if method == "decision_function":
        return np.concatenate([-outputs, outputs], axis=1)
    # Labels of a classifier that was fitted on 0.0 and 1.0: the same numbers, as whole ones.
    whole = outputs[:, 0].astype(np.int64)
    return whole if method == "predict" and (whole == outputs[:, 0]).all() else outputs
