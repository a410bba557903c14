"""What names a model without a scheme → what to write or do instead, as far as its name tells."""

from __future__ import annotations

from pathlib import Path

from holdfast.inputs.models.bundled import bundled_names

PICKLES = (".joblib", ".pickle", ".pkl")
"""What files are called that run code when they are loaded."""

SAVE = "Save the estimator with `skops.io.dump(estimator, 'model.skops')` and load 'skops:model.skops'."

_SCHEMES = {".onnx": "onnx", ".skops": "skops"}


def advise(place: str) -> str | None:
    """A sentence of advice for the place of a model whose scheme is missing or unknown.

    Examples
    --------
    >>> advise("vader"), advise("my/model.onnx"), advise("vgg")
    ("Did you mean 'bundled:vader'?", "Did you mean 'onnx:my/model.onnx'?", None)
    """
    suffix = Path(place).suffix.lower()
    if suffix in PICKLES:
        return refuse_pickle(place)
    if place in bundled_names():
        return f"Did you mean 'bundled:{place}'?"
    scheme = "hf" if place and Path(place).expanduser().is_dir() else _SCHEMES.get(suffix)
    return f"Did you mean '{scheme}:{place}'?" if scheme else None


def refuse_pickle(place: str) -> str:
    """Why a pickle is refused, and what to save instead."""
    return f"{place!r} is a pickle, which runs code when loaded, and is refused. {SAVE}"
