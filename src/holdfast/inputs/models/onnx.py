"""An ONNX file → a ``Classifier`` through ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidValueError
from holdfast.extras import import_extra
from holdfast.fingerprints import canonical, digest_files, fingerprint, name_of
from holdfast.inputs.models.classifier import KINDS, Classifier, ClassifierEngine
from holdfast.inputs.models.engines import FunctionOnTexts, PredictorOnRows, SessionOnImages
from holdfast.masking.onnx import external_files
from holdfast.masking.table.predictors import as_predictor
from holdfast.validation import check_name, check_whole, shown

_AXES = {4: "image", 2: "table"}
_PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}


def load_onnx(
    place: str,
    *,
    device: str | None = None,
    kind: str | None = None,
    classes: Any = None,
    preprocess: Callable[[Any], Any] | None = None,
    threads: int = 1,
) -> Classifier:
    """Load a classifier from an ONNX file; weights may lie in other files of the same folder, and nowhere else.

    An input of four axes is images, of two a table, of strings texts, unless ``kind`` says otherwise. Classes are
    called by their numbers unless they are named. ``preprocess`` makes of one image an array in the layout that the
    model takes; without it pixels are scaled to [0, 1] and not resized. ``threads`` is per operation: with one, shares
    of a machine are easy to plan.
    """
    path = Path(place).expanduser()
    if not path.is_file():
        raise InvalidValueError(argument="onnx:", must="be followed by an existing file", got=shown(str(path)))
    runtime, beside = import_extra("onnxruntime", "onnx: models need"), external_files(path)
    provider = _PROVIDERS[check_name(str(device or "cpu").partition(":")[0], "device", _PROVIDERS)]
    if provider not in runtime.get_available_providers():
        raise InvalidValueError(argument="device", must="be one this ONNX Runtime has", got=shown(device))
    options = runtime.SessionOptions()
    options.intra_op_num_threads = check_whole(threads, "threads", minimum=1)
    options.inter_op_num_threads = 1
    options.log_severity_level = 3  # errors only
    try:
        session = runtime.InferenceSession(str(path), sess_options=options, providers=[provider])
    except Exception as error:  # ONNX Runtime's errors have no common base
        raise InvalidValueError(f"The ONNX file {str(path)!r} cannot be read: {error}") from error
    decided = _kind(session) if kind is None else check_name(kind, "kind", KINDS)
    if preprocess is not None and decided != "image":
        raise InvalidValueError(argument="preprocess", must=f"be left out for a {decided} model: it is for images")
    engine: ClassifierEngine = SessionOnImages(session, preprocess)
    if decided == "text":
        engine = FunctionOnTexts(partial(_score_texts, session))
    elif decided == "table":
        engine = PredictorOnRows(session, as_predictor(session))
    if classes is None:
        shape = list(_score_output(session).shape or ())
        classes = range(shape[1]) if len(shape) == 2 and isinstance(shape[1], int) else ()
    (model,) = digest_files([path]).values()  # of the bytes, whatever the file is called
    settings = canonical({"preprocess": name_of(preprocess)})
    own = fingerprint(digest_files(beside) | {"model": model, "settings": settings})
    return Classifier(decided, tuple(map(str, classes)), own, engine)


def _kind(session: Any) -> str:
    inputs = session.get_inputs()
    if len(inputs) == 1 and inputs[0].type == "tensor(string)":
        return "text"
    if len(inputs) == 1 and len(inputs[0].shape) in _AXES:
        return _AXES[len(inputs[0].shape)]
    takes = ", ".join(f"{taken.name} {taken.type} {taken.shape}" for taken in inputs)
    raise InvalidValueError(
        f"An ONNX classifier must have one input: images (four axes), rows (two axes) or strings; it takes {takes}. "
        f"Wrap others in a callable, with 'python:<module>:<factory>'."
    )


def _score_texts(session: Any, texts: list[str]) -> NDArray[Any]:
    taken, column = session.get_inputs()[0], np.array(texts, dtype=object)
    batch = column if len(taken.shape) == 1 else column[:, None]
    return np.asarray(session.run([_score_output(session).name], {taken.name: batch})[0])


def _score_output(session: Any) -> Any:
    """The first output of floats with one column per class, else the first."""
    outputs = session.get_outputs()
    return next((out for out in outputs if "float" in out.type and len(out.shape or ()) == 2), outputs[0])
