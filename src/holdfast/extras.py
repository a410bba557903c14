"""What names a model and its data → the packages they need, and one error that names all that are missing."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Mapping

from holdfast.errors import MissingExtraError

EXTRAS = {
    "torch": ("torch", "hf"),
    "transformers": ("hf",),
    "PIL": ("image", "hf"),
    "onnxruntime": ("onnx",),
    "sklearn": ("sklearn",),
    "skops": ("sklearn",),
    "vaderSentiment": ("text",),
    "matplotlib": ("report",),
    "pandas": ("report",),
    "pyarrow": ("report",),
    "datasets": ("datasets",),
    "ray": ("ray",),
    "starlette": ("explore",),
    "uvicorn": ("explore",),
}
"""What is imported → the extras that bring it, the smallest first."""

_CALLED = {"PIL": "Pillow", "onnxruntime": "ONNX Runtime", "ray": "Ray", "sklearn": "scikit-learn"}
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
    missing = [one for one in dict.fromkeys(packages) if _is_missing(one)]
    if missing:
        names = ", ".join(_CALLED.get(one, one) for one in missing)
        raise MissingExtraError(f"{what} needs {names}: pip install 'holdfast[{','.join(extras_for(missing))}]'")


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
    ways = sorted((EXTRAS[one] for one in packages), key=len)
    chosen: set[str] = set()
    for way in ways:
        if chosen.isdisjoint(way):
            chosen.add(way[0])
    return sorted(chosen)
