"""An ONNX file → a ``Classifier`` through ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidValueError
from holdfast.extras import import_extra
from holdfast.fingerprints import canonical, digest_files, fingerprint, name_of
from holdfast.inputs.models.classifier import KINDS, Classifier, make_classifier
from holdfast.inputs.models.engines import FunctionOnTexts, PredictorOnRows, SessionOnImages
from holdfast.masking.onnx import external_files
from holdfast.masking.table.predictors import as_predictor
from holdfast.validation import check_name, check_whole, shown

_TEXT = "tensor(string)"
_AXES = {4: "image", 2: "table"}
_PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}
_ERRORS_ONLY = 3
_WHY = "onnx: models need"


def load_onnx(
    place: str,
    *,
    device: str | None = None,
    kind: str | None = None,
    classes: Any = None,
    preprocess: Callable[[Any], Any] | None = None,
    threads: int = 1,
) -> Classifier:
    """Load a classifier from an ONNX file.

    Parameters
    ----------
    place : str
        The file. Weights may lie in other files of the same folder, and nowhere else.
    device : {"cpu", "cuda"}, optional
        Where to compute.
    kind : {"image", "text", "table"}, optional
        What it classifies; by default an input of four axes is images, of two a table, of strings texts.
    classes : sequence of str, optional
        The names of its classes; by default their numbers.
    preprocess : callable, optional
        For images: one image → an array in the layout the model takes. By default pixels are scaled
        to [0, 1] and not resized.
    threads : int
        Threads per operation. One by default: shares of a machine are then easy to plan.
    """
    path = Path(place).expanduser()
    if not path.is_file():
        raise InvalidValueError(argument="onnx:", must="be followed by an existing file", got=shown(str(path)))
    beside = external_files(path)
    session = _open(path, _provider(device), check_whole(threads, "threads", minimum=1))
    decided = _kind(session) if kind is None else check_name(kind, "kind", KINDS)
    names = _numbers_of_classes(session) if classes is None else tuple(classes)
    return make_classifier(
        _engine(session, decided, preprocess),
        kind=decided,
        classes=names,
        fingerprint=_fingerprint(path, beside, preprocess),
    )


def _open(path: Path, provider: str, threads: int) -> Any:
    runtime = import_extra("onnxruntime", _WHY)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = _ERRORS_ONLY
    try:
        return runtime.InferenceSession(str(path), sess_options=options, providers=[provider])
    except Exception as error:  # ONNX Runtime's errors have no common base
        raise InvalidValueError(f"The ONNX file {str(path)!r} cannot be read: {error}") from error


def _provider(device: str | None) -> str:
    name = check_name("cpu" if device is None else str(device).partition(":")[0], "device", _PROVIDERS)
    if _PROVIDERS[name] not in import_extra("onnxruntime", _WHY).get_available_providers():
        raise InvalidValueError(argument="device", must="be one this ONNX Runtime has", got=shown(device))
    return _PROVIDERS[name]


def _kind(session: Any) -> str:
    inputs = session.get_inputs()
    if len(inputs) == 1 and inputs[0].type == _TEXT:
        return "text"
    if len(inputs) == 1 and len(inputs[0].shape) in _AXES:
        return _AXES[len(inputs[0].shape)]
    takes = ", ".join(f"{one.name} {one.type} {one.shape}" for one in inputs)
    raise InvalidValueError(
        f"An ONNX classifier must have one input: images (four axes), rows (two axes) or strings; it takes {takes}. "
        f"Wrap others in a callable, with 'python:<module>:<factory>'."
    )


def _engine(session: Any, kind: str, preprocess: Any) -> Any:
    if kind == "image":
        return SessionOnImages(session, preprocess)
    if preprocess is not None:
        raise InvalidValueError(argument="preprocess", must=f"be left out for a {kind} model: it is for images")
    return (
        FunctionOnTexts(StringSession(session)) if kind == "text" else PredictorOnRows(session, as_predictor(session))
    )


class StringSession:
    """A session on strings as a function of a list of texts."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.input = session.get_inputs()[0]
        self.output = _score_output(session).name

    def __call__(self, texts: list[str], /) -> NDArray[Any]:
        column = np.array(texts, dtype=object)
        batch = column if len(self.input.shape) == 1 else column[:, None]
        return np.asarray(self.session.run([self.output], {self.input.name: batch})[0])


def _score_output(session: Any) -> Any:
    """The first output of floats with one column per class, else the first."""
    outputs = session.get_outputs()
    return next((one for one in outputs if "float" in one.type and len(one.shape or ()) == 2), outputs[0])


def _numbers_of_classes(session: Any) -> tuple[str, ...]:
    shape = list(_score_output(session).shape or ())
    return tuple(map(str, range(shape[1]))) if len(shape) == 2 and isinstance(shape[1], int) else ()


def _fingerprint(path: Path, beside: list[Path], preprocess: Any) -> str:
    """Over the bytes of all files, whatever the main one is called, and the name of a preprocessing function."""
    (model,) = digest_files([path]).values()
    settings = canonical({"preprocess": name_of(preprocess)})
    return fingerprint(digest_files(beside) | {"model": model, "settings": settings})
