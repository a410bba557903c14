"""A live object, a user's own or what a factory of an importable module returns → a ``Classifier``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.fingerprints import canonical, digest_module, name_of
from holdfast.fingerprints import fingerprint as fingerprint_of
from holdfast.inputs.models.classifier import KINDS, Classifier, ClassifierEngine
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
    specification = None
    with _naming(name, "on import"), suppress(ModuleNotFoundError):  # which a parent package can raise, or be
        specification = find_spec(name)
    if specification is None:
        must, hint = "be followed by a module that can be imported", "Install it, or add its folder to PYTHONPATH."
        raise InvalidValueError(argument="python:", must=must, got=repr(name), hint=hint)
    with _naming(name, "on import"):
        module = import_module(name)
    make = getattr(module, factory, None)
    if not callable(make):
        public = ", ".join(sorted(key for key, value in vars(module).items() if inspect.isfunction(value))) or "none"
        raise InvalidValueError(f"The module {name!r} must have a factory {factory!r}; its functions: {public}.")
    with _naming(place, "when called"):
        model = make()
    if not (callable(model) or isinstance(model, Classifier) or is_estimator(model)):
        raise InvalidTypeError(
            f"'python:{place}' must return a Classifier, a torch module, an estimator or a callable, "
            f"got {shown(model)}."
        )
    if is_module(model):  # which the factory made for this call
        where = device_of(model) if device is None else check_device(device)
        model = model.to(where, dtype_of(model) if dtype is None else check_dtype(dtype)).eval()
        settings = {"preprocess": name_of(options.get("preprocess")), "max_length": options.get("max_length")}
        parts = digest_module(model) | {"settings": canonical(settings)}
        options["fingerprint"] = options.get("fingerprint") or fingerprint_of(parts)
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

    Errors call it by ``name``. Torch modules and callables need a ``kind``; ``preprocess`` is for images, the
    ``tokenizer`` and ``max_length`` for a torch module on texts, ``autocast`` and ``compile`` for any torch module.
    Without a ``fingerprint``, masked models have the one that ``mask_image`` and the like find.
    """
    from holdfast.masking.speed import Acceleration, Runner

    acceleration = Acceleration.check(autocast, compile)
    for option, value in acceleration.options.items():
        if not is_module(model) or kind == "table":
            rule = f"works only with a torch module on images or texts, got {value!r}."
            raise InvalidTypeError(rule, argument=option)
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
        runner, place = Runner(model, acceleration), device_of(model)
        if kind == "image":
            engine = ModuleOnImages(runner, preprocess, place, dtype_of(model))
        elif tokenizer is None:
            raise InvalidValueError(argument="tokenizer", must="be given for a torch module on texts", got="None")
        else:
            engine = ModuleOnTexts(runner, tokenizer, max_length, place)
    else:
        engine = FunctionOnImages(model, preprocess) if kind == "image" else FunctionOnTexts(model)
    if classes is None:  # the model may carry its own
        labels = getattr(getattr(model, "config", None), "id2label", None)
        own = [labels[key] for key in sorted(labels)] if labels else getattr(model, "classes", ())
        classes = own if isinstance(own, (tuple, list)) else ()
    return Classifier(kind, tuple(map(str, classes)), fingerprint, engine)


@contextmanager
def _naming(name: str, when: str) -> Iterator[None]:
    """Whatever the caller's module raises is told with its name."""
    try:
        yield
    except Exception as error:
        raise InvalidValueError(f"'python:{name}' raised {type(error).__name__} {when}: {error}") from error


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
    return Classifier(decided, tuple(map(str, own if classes is None else classes)), fingerprint, engine)
