"""Packages that come with extras → imported, or one error that names all that are missing and how to get them."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

from holdfast.errors import MissingExtraError

EXTRAS = {
    "torch": ("torch", "hf"),
    "transformers": ("hf",),
    "PIL": ("image", "hf"),
    "skimage": ("image",),
    "onnxruntime": ("onnx",),
    "sklearn": ("sklearn",),
    "skops": ("sklearn",),
    "vaderSentiment": ("text",),
    "matplotlib": ("report",),
    "pandas": ("report",),
    "pyarrow": ("report",),
    "shapiq": ("explain",),
    "datasets": ("datasets",),
    "ray": ("ray",),
    "starlette": ("explore",),
    "uvicorn": ("explore",),
}
"""What is imported → the extras that bring it, the smallest first."""

_CALLED = {
    "PIL": "Pillow",
    "onnxruntime": "ONNX Runtime",
    "ray": "Ray",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
}
"""Packages that are not called what is imported."""

_NETWORK = ("torch", "transformers")
_MODELS = {"hf": _NETWORK, "onnx": ("onnxruntime",), "skops": ("skops", "sklearn")}
_DATA = {"images": ("PIL",), "table": ("pandas",), "hf": ("datasets",)}
_BUNDLED_MODELS = {
    "cancer-forest": ("skops", "sklearn"),
    "digits-resnet": (*_NETWORK, "PIL"),
    "digits-vit": (*_NETWORK, "PIL"),
    "digits-vit-masked": (*_NETWORK, "PIL"),
    "lexicon-roberta": _NETWORK,
    "vader": ("vaderSentiment",),
}
_BUNDLED_DATA = {"digits": ("sklearn",), "cancer": ("sklearn",)}


def needed(model: str | None = None, data: str | None = None) -> tuple[str, ...]:
    """The packages that a model and its data need, as they are imported; nothing is loaded.

    Parameters
    ----------
    model, data : str, optional
        What ``holdfast.models.load`` and ``holdfast.data.load`` take. What names nothing needs nothing: whoever
        loads it says so.

    Examples
    --------
    >>> needed("skops:forest.skops", "table:rows.csv")
    ('skops', 'sklearn', 'pandas')
    >>> needed("python:my_models:make")
    ()
    """
    of_model, of_data = _find(model, _MODELS, _BUNDLED_MODELS), _find(data, _DATA, _BUNDLED_DATA)
    return tuple(dict.fromkeys((*of_model, *of_data)))


def _find(
    spec: str | None, schemes: Mapping[str, tuple[str, ...]], bundled: Mapping[str, tuple[str, ...]]
) -> tuple[str, ...]:
    scheme, _, place = str(spec or "").partition(":")
    return bundled.get(place, ()) if scheme == "bundled" else schemes.get(scheme, ())


def check_installed(what: str, packages: Iterable[str]) -> None:
    """Every package is there, or an error names all that are missing and the one command that brings them.

    Packages are looked for and not imported.

    Parameters
    ----------
    what : str
        What needs them, in words.
    packages : iterable of str
        As they are imported, such as those of ``needed``.
    """
    missing = [package for package in dict.fromkeys(packages) if _is_missing(package)]
    if missing:
        raise _missing(f"{what} needs", missing)


def import_extra(module: str, why: str) -> Any:
    """A module of a package that an extra brings, or an error that says how to get it.

    Parameters
    ----------
    module : str
        The module, such as "matplotlib.figure".
    why : str
        What needs it, with the verb: "Figures need".

    Examples
    --------
    >>> import_extra("PIL.Image", "Image files need").__name__
    'PIL.Image'
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise _missing(why, [module.partition(".")[0]]) from error


def _missing(why: str, packages: list[str]) -> MissingExtraError:
    names = ", ".join(_CALLED.get(package, package) for package in packages)
    return MissingExtraError(f"{why} {names}: pip install 'holdfast[{','.join(extras_for(packages))}]'")


def _is_missing(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is None
    except ValueError:  # something stands in for it that was never imported
        return False


def extras_for(packages: Iterable[str]) -> list[str]:
    """Extras that bring the packages, without those whose part another has already.

    Examples
    --------
    >>> extras_for(["PIL"]), extras_for(["torch", "PIL"]), extras_for(["PIL", "transformers", "sklearn"])
    (['image'], ['image', 'torch'], ['hf', 'sklearn'])
    """
    ways = sorted((EXTRAS[package] for package in packages), key=len)
    chosen: set[str] = set()
    for way in ways:
        if chosen.isdisjoint(way):
            chosen.add(way[0])
    return sorted(chosen)
