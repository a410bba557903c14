"""A factory in an importable Python module → a ``Classifier`` of what it returns."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.fingerprints import canonical, digest_module, name_of
from holdfast.fingerprints import fingerprint as make_fingerprint
from holdfast.inputs.models.classifier import KINDS, Classifier, Engine, make_classifier
from holdfast.inputs.models.engines import (
    FunctionOnImages,
    FunctionOnTexts,
    ModuleOnImages,
    ModuleOnTexts,
    PredictorOnRows,
)
from holdfast.inputs.models.estimators import estimator_classifier, is_estimator
from holdfast.inputs.models.torch_settings import check_device, check_dtype
from holdfast.masking.speed import Acceleration
from holdfast.masking.table.predictors import as_predictor
from holdfast.masking.torch import device_of, dtype_of, is_module
from holdfast.validation import check_name, shown


def load_python(
    place: str,
    *,
    device: Any = None,
    dtype: Any = None,
    kind: str | None = None,
    classes: Any = None,
    preprocess: Callable[[Any], Any] | None = None,
    tokenizer: Any = None,
    max_length: int | None = None,
    autocast: str | None = None,
    compile: bool | str = False,  # noqa: A002
    fingerprint: str | None = None,
) -> Classifier:
    """Import a module, call its factory without arguments, and make a classifier of the result.

    Parameters
    ----------
    place : str
        ``<module>:<factory>``; the module is one that ``import`` finds.
    device, dtype : optional
        Where to move a torch module, and its number type; by default it stays as it is.
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
        What identifies it. A torch module has one of its own, over its weights and the name of
        ``preprocess``; a callable or an estimator shows no weights, and has none unless it is given.
    """
    acceleration = Acceleration.check(autocast, compile)
    made = _call(_find(place), place)
    _check_acceleration(acceleration, made, kind)
    if isinstance(made, Classifier):
        if kind not in (None, made.kind):
            raise InvalidValueError(f"`kind` must be {made.kind!r} for 'python:{place}', got {kind!r}.")
        return made
    if is_estimator(made):
        return estimator_classifier(made, kind=kind, classes=classes, fingerprint=fingerprint)
    decided = _check_kind(kind, place)
    if is_module(made):
        moved = _moved(made, device, dtype)
        engine = _module_engine(moved, decided, preprocess, tokenizer, max_length, acceleration)
        settings = canonical({"preprocess": name_of(preprocess), "max_length": max_length})
        own = fingerprint or make_fingerprint(digest_module(moved) | {"settings": settings})
        return make_classifier(engine, kind=decided, classes=_names(moved, classes), fingerprint=own)
    if not callable(made):
        raise InvalidTypeError(
            f"'python:{place}' must return a Classifier, a torch module, an estimator or a callable, got {made!r}."
        )
    engine = _function_engine(made, decided, preprocess)
    return make_classifier(engine, kind=decided, classes=_names(made, classes), fingerprint=fingerprint)


def _find(place: str) -> Callable[[], Any]:
    """The factory that the spec names."""
    name, _, factory = place.partition(":")
    if not factory or not all(part.isidentifier() for part in [*name.split("."), factory]):
        raise InvalidValueError(argument="model", must="be python:<module>:<factory>", got=shown(f"python:{place}"))
    module = _import(name)
    found = getattr(module, factory, None)
    if not callable(found):
        public = ", ".join(sorted(key for key, value in vars(module).items() if inspect.isfunction(value)))
        raise InvalidValueError(
            f"The module {name!r} must have a factory {factory!r}; its functions: {public or 'none'}."
        )
    return found  # type: ignore[no-any-return]


def _import(name: str) -> Any:
    try:
        known = find_spec(name) is not None
    except ModuleNotFoundError:
        known = False
    except Exception as error:  # a parent package that raises while it is imported
        raise InvalidValueError(_raised(name, "on import", error)) from error
    if not known:
        raise InvalidValueError(
            f"`python:` must be followed by a module that can be imported, got {name!r}. "
            f"Install it, or add its folder to PYTHONPATH."
        )
    try:
        return import_module(name)
    except Exception as error:  # whatever the caller's module raises
        raise InvalidValueError(_raised(name, "on import", error)) from error


def _call(factory: Callable[[], Any], place: str) -> Any:
    try:
        return factory()
    except Exception as error:  # whatever the caller's factory raises
        raise InvalidValueError(_raised(place, "when called", error)) from error


def _raised(name: str, when: str, error: Exception) -> str:
    return f"'python:{name}' raised {type(error).__name__} {when}: {error}"


def _check_kind(kind: str | None, place: str) -> str:
    if kind is None:
        raise InvalidValueError(f"`kind` must be given for 'python:{place}': {', '.join(KINDS)}.")
    return check_name(kind, "kind", KINDS)


def _moved(module: Any, device: Any, dtype: Any) -> Any:
    """The module, which the factory made for this call, where and as the caller asks."""
    where = device_of(module) if device is None else check_device(device)
    number_type = dtype_of(module) if dtype is None else check_dtype(dtype)
    return module.to(where, number_type).eval()


def _check_acceleration(acceleration: Acceleration, made: Any, kind: str | None) -> None:
    """Options that would have no effect are an error, never ignored."""
    for name, value in acceleration.options.items():
        if not is_module(made) or kind == "table":
            raise InvalidTypeError(f"`{name}` works only with a torch module on images or texts, got {value!r}.")


def _module_engine(
    module: Any, kind: str, preprocess: Any, tokenizer: Any, max_length: int | None, acceleration: Acceleration
) -> Engine:
    where, number_type = device_of(module), dtype_of(module)
    if kind == "image":
        return ModuleOnImages(module, preprocess, where, number_type, acceleration)
    if kind == "table":
        return PredictorOnRows(module, as_predictor(module))
    if tokenizer is None:
        raise InvalidValueError("`tokenizer` must be given for a torch module on texts, got None.")
    return ModuleOnTexts(module, tokenizer, max_length, where, number_type, acceleration)


def _function_engine(function: Callable[[Any], Any], kind: str, preprocess: Any) -> Engine:
    if kind == "image":
        return FunctionOnImages(function, preprocess)
    return FunctionOnTexts(function) if kind == "text" else PredictorOnRows(function, as_predictor(function))


def _names(made: Any, classes: Any) -> tuple[str, ...]:
    """The names given, or those the model carries, or none."""
    if classes is not None:
        return tuple(str(name) for name in classes)
    labels = getattr(getattr(made, "config", None), "id2label", None)
    if labels:
        return tuple(str(labels[key]) for key in sorted(labels))
    own = getattr(made, "classes", ())
    return tuple(str(name) for name in own) if isinstance(own, (tuple, list)) else ()
