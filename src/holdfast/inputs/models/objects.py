"""A model as an object, a user's own, made by a factory of a module, or in a skops or ONNX file → a ``Classifier``.

Of a skops file nothing is created that scikit-learn does not own or the caller does not trust.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.extras import import_extra
from holdfast.fingerprints import canonical, digest_files, digest_module, name_of
from holdfast.fingerprints import fingerprint as fingerprint_of
from holdfast.inputs.models import classifier as engines
from holdfast.inputs.models.classifier import KINDS, Classifier, ClassifierEngine
from holdfast.inputs.source import PICKLES, SAVE, check_options, import_function, refuse_pickle, retelling
from holdfast.masking.onnx import external_files, open_session
from holdfast.masking.speed import Acceleration, Runner
from holdfast.masking.table.boosters import is_native, library_of
from holdfast.masking.table.mask_tabular import as_predictor
from holdfast.masking.torch import check_device, check_dtype, device_of, dtype_of, fingerprint_live, is_module
from holdfast.validation import check_name, check_unpacked, check_whole, shown

_AXES = {4: "image", 2: "table"}
_PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}


def load_python(place: str, *, device: Any = None, dtype: Any = None, **options: Any) -> Classifier:
    """Import ``<module>``, call its ``<factory>`` without arguments, and make a classifier of the result.

    A torch module is moved to ``device`` and ``dtype``, if they are given, and has a fingerprint over its weights and
    the name of ``preprocess``. A callable or an estimator shows no weights, and has none unless it is given. Further
    options are those of ``classify_with``.
    """
    check_options(classify_with, options, "python: models")
    make = import_function(place, "model", "factory")
    with retelling(f"'python:{place}' raised ", " when called"):
        model = make()
    if not (callable(model) or isinstance(model, Classifier) or is_estimator(model) or is_native(model)):
        rule = f"'python:{place}' must return a Classifier, a torch module, an estimator, a booster or a callable"
        raise InvalidTypeError(f"{rule}, got {shown(model)}.")
    if is_module(model):  # which the factory made for this call
        where = device_of(model) if device is None else check_device(device)
        model = model.to(where, dtype_of(model) if dtype is None else check_dtype(dtype)).eval()
        settings = {"preprocess": name_of(options.get("preprocess")), "max_length": options.get("max_length")}
        parts = digest_module(model) | {"settings": canonical(settings)}
        options["fingerprint"] = options.get("fingerprint") or fingerprint_of(parts)
    return classify_with(model, f"'python:{place}'", **options)


def load_skops(
    place: str, *, kind: str | None = None, trusted: tuple[str, ...] = (), classes: Any = None
) -> Classifier:
    """Load a scikit-learn estimator or pipeline; ``trusted`` names what it may create besides what skops trusts.

    A pipeline that starts with a text vectoriser takes texts, others tables, unless ``kind`` says otherwise.
    ``classes`` are names in place of the estimator's own.
    """
    path = Path(place).expanduser()
    if not path.is_file():
        raise InvalidValueError(argument="skops:", must="be followed by an existing file", got=shown(str(path)))
    if not zipfile.is_zipfile(path):
        is_pickle = path.suffix.lower() in PICKLES or path.read_bytes()[:1] == b"\x80"
        problem = f"{str(path)!r} is not a skops file, or is cut off. {SAVE}"
        raise InvalidValueError(refuse_pickle(str(path)) if is_pickle else problem)
    check_unpacked(path)
    io = import_extra("skops.io", "skops: models need")
    unreadable = f"The skops file {str(path)!r} cannot be read: "  # a damaged archive fails in many ways
    with retelling(unreadable):
        unknown = [name for name in io.get_untrusted_types(file=path) if name not in trusted]
    if unknown:
        names = ", ".join(repr(name) for name in [*trusted, *unknown])
        raise InvalidValueError(
            f"{str(path)!r} would create {len(unknown)} types that are not trusted: {', '.join(unknown)}. If you know "
            "them to be harmless, name each with `--set trusted=TYPE`, or in a study with `--trust TYPE` (in Python: "
            f"`trusted=[{names}]`, in a study `trust=Trust(types=[…])`)."
        )
    with retelling(unreadable):
        estimator = io.load(path, trusted=list(trusted))
    (digest,) = digest_files([path]).values()  # of the bytes, whatever the file is called
    return estimator_classifier(estimator, kind=kind, classes=classes, fingerprint=fingerprint_of({"skops": digest}))


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
        raise InvalidValueError(argument="device", must="be a device of this ONNX Runtime", got=shown(device))
    session = open_session(path, provider=provider, threads=check_whole(threads, "threads", minimum=1))
    inputs, outputs = session.get_inputs(), session.get_outputs()
    # The first output of floats with one column per class, else the first.
    scores = next((out for out in outputs if "float" in out.type and len(out.shape or ()) == 2), outputs[0])
    if kind is not None:
        decided = check_name(kind, "kind", KINDS)
    elif len(inputs) == 1 and inputs[0].type == "tensor(string)":
        decided = "text"
    elif len(inputs) == 1 and len(inputs[0].shape) in _AXES:
        decided = _AXES[len(inputs[0].shape)]
    else:
        takes = ", ".join(f"{taken.name} {taken.type} {taken.shape}" for taken in inputs)
        rule = "An ONNX classifier must have one input: images (four axes), rows (two axes) or strings"
        hint = "Wrap others in a callable, with 'python:<module>:<factory>'."
        raise InvalidValueError(f"{rule}; it takes {takes}. {hint}")

    def score_texts(texts: list[str]) -> NDArray[Any]:
        column = np.array(texts, dtype=object)
        batch = column if len(inputs[0].shape) == 1 else column[:, None]
        return np.asarray(session.run([scores.name], {inputs[0].name: batch})[0])

    if preprocess is not None and decided != "image":
        raise InvalidValueError(argument="preprocess", must=f"be left out for a {decided} model: it is for images")
    engine: ClassifierEngine = engines.SessionOnImages(session, preprocess)
    if decided == "text":
        engine = engines.FunctionOnTexts(score_texts)
    elif decided == "table":
        engine = engines.PredictorOnRows(session, as_predictor(session))
    if classes is None:
        shape = list(scores.shape or ())
        n_columns = shape[1] if len(shape) == 2 and isinstance(shape[1], int) else 1
        classes = range(n_columns) if n_columns > 1 else ()  # a single score is a number, and no class
    (model,) = digest_files([path]).values()  # of the bytes, whatever the file is called
    settings = canonical({"preprocess": name_of(preprocess)})
    own = fingerprint_of(digest_files(beside) | {"model": model, "settings": settings})
    return Classifier(decided, tuple(map(str, classes)), own, engine)


def classify_with(
    model: Any,
    name: str = "this model",
    *,
    kind: str | None = None,
    classes: Any = None,
    preprocess: Callable[[Any], Any] | None = None,
    tokenizer: Any = None,
    max_length: int | None = None,
    autocast: str | None = None,
    compile: bool | str = False,  # noqa: A002
    fingerprint: str | None = None,
) -> Classifier:
    """A classifier of a torch module, an estimator or a callable; what is a ``Classifier`` already stays as it is.

    Errors call it by ``name``. Torch modules and callables need a ``kind``; of kind "context" it is whatever
    ``mask_context`` takes, such as a function of a prompt or an ``Endpoint``. ``preprocess`` is for images, the
    ``tokenizer`` and ``max_length`` for a torch module on texts, ``autocast`` and ``compile`` for any torch module.
    Without a ``fingerprint``, masked models have the one that ``mask_image`` and the like find.
    """
    acceleration = Acceleration.check(autocast, compile)
    for option, value in acceleration.options.items():
        if not is_module(model) or kind == "table":
            rule = f"works only with a torch module on images or texts, got {value!r}."
            raise InvalidTypeError(rule, argument=option)
    if isinstance(model, Classifier):
        if kind not in (None, model.kind):
            raise InvalidValueError(argument="kind", must=f"be {model.kind!r} for {name}", got=shown(kind))
        return model
    if is_native(model):
        from holdfast.inputs.models.boosters import booster_classifier  # few models are boosters

        return booster_classifier(model, kind=kind, classes=classes, fingerprint=fingerprint)
    if library_of(model) == "catboost" and fingerprint is None:
        fingerprint = fingerprint_live(model)  # which costs a copy of the model: once, and not per row
    if is_estimator(model):
        return estimator_classifier(model, kind=kind, classes=classes, fingerprint=fingerprint)
    if kind == "context":
        from holdfast.inputs.models.language import language_model  # few models answer from contexts

        return language_model(model, name, fingerprint=fingerprint)
    if not callable(model):
        must = "be a Classifier, a torch module, an estimator, a booster or a callable"
        raise InvalidTypeError(argument="model", must=must, got=shown(model))
    if kind is None:
        raise InvalidValueError(argument="kind", must=f"be given for {name}: {', '.join(KINDS)}")
    check_name(kind, "kind", KINDS)
    if kind == "table":
        engine: ClassifierEngine = engines.PredictorOnRows(model, as_predictor(model))
    elif is_module(model):
        runner, place = Runner(model, acceleration), device_of(model)
        if kind == "image":
            engine = engines.ModuleOnImages(runner, preprocess, place, dtype_of(model))
        elif tokenizer is None:
            raise InvalidValueError(argument="tokenizer", must="be given for a torch module on texts", got="None")
        else:
            engine = engines.ModuleOnTexts(runner, tokenizer, max_length, place)
    else:
        engine = engines.FunctionOnImages(model, preprocess) if kind == "image" else engines.FunctionOnTexts(model)
    if classes is None:  # the model may carry its own
        labels = getattr(getattr(model, "config", None), "id2label", None)
        own = [labels[key] for key in sorted(labels)] if labels else getattr(model, "classes", ())
        classes = own if isinstance(own, (tuple, list)) else ()
    return Classifier(kind, tuple(map(str, classes)), fingerprint, engine)


def is_estimator(value: Any) -> bool:
    """Whether it is a fitted or unfitted estimator of scikit-learn, and no class."""
    return not isinstance(value, type) and hasattr(value, "get_params") and hasattr(value, "predict")


def _is_fitted(estimator: Any) -> bool:
    """Whether an estimator without classes was fitted: it says so, or has what fitting leaves, names that end in _."""
    says = getattr(estimator, "__sklearn_is_fitted__", None) or getattr(estimator, "is_fitted", None)
    return bool(says()) if callable(says) else any(re.search("[a-z0-9]_$", name) for name in vars(estimator))


def estimator_classifier(estimator: Any, *, kind: str | None, classes: Any, fingerprint: str | None) -> Classifier:
    """A classifier that asks the estimator for probabilities, else scores, else labels, or a regressor's number."""
    known = getattr(estimator, "classes_", None)
    own = () if known is None else tuple(known)
    if not is_estimator(estimator) or not (own or _is_fitted(estimator)):
        kind_of = type(estimator).__name__
        raise InvalidTypeError(f"The estimator must be a fitted classifier or regressor, got {kind_of}.")
    steps = getattr(estimator, "steps", None)
    own_kind = "text" if steps and hasattr(steps[0][1], "build_analyzer") else "table"
    decided = own_kind if kind is None else check_name(kind, "kind", ("table", "text"))
    predictor = as_predictor(estimator)
    engine: ClassifierEngine = engines.FunctionOnTexts(predictor)
    if decided == "table":
        engine = engines.PredictorOnRows(estimator, predictor, own)
    return Classifier(decided, tuple(map(str, own if classes is None else classes)), fingerprint, engine)
