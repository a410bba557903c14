"""A live object, a user's own or what a factory of an importable module returns → a ``Classifier``."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.fingerprints import canonical, digest_module, name_of
from holdfast.fingerprints import fingerprint as fingerprint_of
from holdfast.inputs.models.classifier import KINDS, Classifier, ClassifierEngine, make_classifier
from holdfast.inputs.models.engines import (
    FunctionOnImages,
    FunctionOnTexts,
    ModuleOnImages,
    ModuleOnTexts,
    PredictorOnRows,
    check_device,
    check_dtype,
)
from holdfast.inputs.source import check_options
from holdfast.masking.table.predictors import as_predictor
from holdfast.masking.torch import device_of, dtype_of, is_module
from holdfast.validation import check_name, shown


def load_python(place: str, *, device: Any = None, dtype: Any = None, **options: Any) -> Classifier:
    """Import ``<module>``, call its ``<factory>`` without arguments, and make a classifier of the result.

    A torch module is moved to ``device`` and ``dtype``, if they are given, and has a fingerprint over its weights and
    the name of ``preprocess``. A callable or an estimator shows no weights, and has none unless it is given. Further
    options are those of ``classify_with``.
    """
    check_options(classify_with, options, "python: models")
    name, _, factory = place.partition(":")
    if not factory or not all(part.isidentifier() for part in [*name.split("."), factory]):
        raise InvalidValueError(argument="model", must="be python:<module>:<factory>", got=shown(f"python:{place}"))
    module = _import(name)
    make = getattr(module, factory, None)
    if not callable(make):
        public = ", ".join(sorted(key for key, value in vars(module).items() if inspect.isfunction(value)))
        raise InvalidValueError(
            f"The module {name!r} must have a factory {factory!r}; its functions: {public or 'none'}."
        )
    try:
        model = make()
    except Exception as error:  # whatever the caller's factory raises
        raise InvalidValueError(_raised(place, "when called", error)) from error
    if not (callable(model) or isinstance(model, Classifier) or is_estimator(model)):
        raise InvalidTypeError(
            f"'python:{place}' must return a Classifier, a torch module, an estimator or a callable, "
            f"got {shown(model)}."
        )
    if is_module(model):  # which the factory made for this call
        where = device_of(model) if device is None else check_device(device)
        model = model.to(where, dtype_of(model) if dtype is None else check_dtype(dtype)).eval()
        settings = canonical(
            {"preprocess": name_of(options.get("preprocess")), "max_length": options.get("max_length")}
        )
        own = options.get("fingerprint") or fingerprint_of(digest_module(model) | {"settings": settings})
        options["fingerprint"] = own
    return classify_with(model, f"'python:{place}'", **options)


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

    Parameters
    ----------
    name : str
        What errors call the model.
    kind : {"image", "text", "table"}, optional
        What it classifies; needed for torch modules and callables.
    classes : sequence of str, optional
        The names of its classes.
    preprocess : callable, optional
        For images: one image → what the model takes of it.
    tokenizer, max_length : optional
        For a torch module on texts.
    autocast, compile
        For a torch module on images or texts, as in :func:`holdfast.mask_image`.
    fingerprint : str, optional
        What identifies it; without it masked models have the one that ``mask_image`` and the like find.
    """
    from holdfast.masking.speed import Acceleration

    acceleration = Acceleration.check(autocast, compile)
    for option, value in acceleration.options.items():
        if not is_module(model) or kind == "table":
            raise InvalidTypeError(
                f"works only with a torch module on images or texts, got {value!r}.", argument=option
            )
    if isinstance(model, Classifier):
        if kind not in (None, model.kind):
            raise InvalidValueError(argument="kind", must=f"be {model.kind!r} for {name}", got=shown(kind))
        return model
    if is_estimator(model):
        return estimator_classifier(model, kind=kind, classes=classes, fingerprint=fingerprint)
    if not callable(model):
        must = "be a Classifier, a torch module, an estimator or a callable"
        raise InvalidTypeError(argument="model", must=must, got=shown(model))
    if kind is None:
        raise InvalidValueError(argument="kind", must=f"be given for {name}: {', '.join(KINDS)}")
    check_name(kind, "kind", KINDS)
    if kind == "table":
        engine: ClassifierEngine = PredictorOnRows(model, as_predictor(model))
    elif is_module(model):
        place, numbers = device_of(model), dtype_of(model)
        if kind == "image":
            engine = ModuleOnImages(model, preprocess, place, numbers, acceleration)
        elif tokenizer is None:
            raise InvalidValueError(argument="tokenizer", must="be given for a torch module on texts", got="None")
        else:
            engine = ModuleOnTexts(model, tokenizer, max_length, place, numbers, acceleration)
    else:
        engine = FunctionOnImages(model, preprocess) if kind == "image" else FunctionOnTexts(model)
    if classes is None:  # the model may carry its own
        labels = getattr(getattr(model, "config", None), "id2label", None)
        own = [labels[key] for key in sorted(labels)] if labels else getattr(model, "classes", ())
        classes = own if isinstance(own, (tuple, list)) else ()
    return make_classifier(engine, kind=kind, classes=classes, fingerprint=fingerprint)


def _import(name: str) -> Any:
    try:
        known = find_spec(name) is not None
    except ModuleNotFoundError:
        known = False
    except Exception as error:  # a parent package that raises while it is imported
        raise InvalidValueError(_raised(name, "on import", error)) from error
    if not known:
        must = "be followed by a module that can be imported"
        hint = "Install it, or add its folder to PYTHONPATH."
        raise InvalidValueError(argument="python:", must=must, got=repr(name), hint=hint)
    try:
        return import_module(name)
    except Exception as error:  # whatever the caller's module raises
        raise InvalidValueError(_raised(name, "on import", error)) from error


def _raised(name: str, when: str, error: Exception) -> str:
    return f"'python:{name}' raised {type(error).__name__} {when}: {error}"


def is_estimator(value: Any) -> bool:
    """Whether it is a fitted or unfitted estimator of scikit-learn, and no class."""
    return not isinstance(value, type) and hasattr(value, "get_params") and hasattr(value, "predict")


def estimator_classifier(estimator: Any, *, kind: str | None, classes: Any, fingerprint: str | None) -> Classifier:
    """A classifier that asks the estimator for probabilities, else scores, else labels.

    A pipeline that starts with a vectoriser of texts takes texts, others rows, unless ``kind`` says otherwise.
    """
    if not is_estimator(estimator) or not hasattr(estimator, "classes_"):
        raise InvalidTypeError(f"The estimator must be a fitted classifier, got {type(estimator).__name__}.")
    steps = getattr(estimator, "steps", None)
    own_kind = "text" if steps and hasattr(steps[0][1], "build_analyzer") else "table"
    decided = own_kind if kind is None else check_name(kind, "kind", ("table", "text"))
    own, predictor = tuple(estimator.classes_), as_predictor(estimator)
    engine = FunctionOnTexts(predictor) if decided == "text" else PredictorOnRows(estimator, predictor, own)
    return make_classifier(engine, kind=decided, classes=own if classes is None else classes, fingerprint=fingerprint)
