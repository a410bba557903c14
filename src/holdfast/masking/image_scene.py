"""An image, a fill and a preprocessing → what the classifier sees of all features, and of none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.masking.fills import Drop, Fill
from holdfast.masking.onnx_support import ImageSession
from holdfast.masking.pictures import Pixels, pixels, repaint, scale_bytes
from holdfast.masking.torch_support import is_module

_DARKEST_BYTES, _WHITE = 32, 255
"""Floats without a sign whose largest is in between are bytes: normalised images have signs and are smaller."""


@dataclass(frozen=True)
class Scene:
    """What the classifier would see: everything, and nothing; both (H, W, C)."""

    model_input: Any
    elements: Pixels
    baseline: Pixels
    fill: str


def look(target: Any, picture: Any, fill: Fill, *, preprocess: Any, fill_stage: str) -> Scene:
    """The image and its baseline as the classifier would see them."""
    if preprocess is None:
        elements = _numbers_for(target, pixels(picture))
        _check_scale(target, elements)
        return Scene(picture, elements, _filled(fill, elements), fill.name)
    model_input = _unwrapped(preprocess(picture))
    elements = _read_input(target, model_input)
    if fill_stage == "after":
        baseline = _filled(fill, elements)
    else:
        baseline = _read_input(target, _unwrapped(preprocess(repaint(_filled(fill, pixels(picture)), picture))))
    if baseline.shape != elements.shape:
        raise InvalidValueError(
            f"`preprocess` must give the image and its baseline one shape, got {elements.shape} and {baseline.shape}."
        )
    words = fill.name if isinstance(fill, Drop) else f"{fill.name} {fill_stage} normalisation"
    return Scene(model_input, elements, baseline, words)


def _check_scale(target: Any, values: Pixels) -> None:
    """Refuse bytes that were turned into floats without being scaled; what ``preprocess`` returns is meant."""
    takes_floats = is_module(target) or isinstance(target, ImageSession)
    if takes_floats and values.dtype.kind == "f" and values.min() >= 0 and _DARKEST_BYTES < values.max() <= _WHITE:
        raise InvalidValueError(
            f"`image` must hold floats from 0 to 1, or bytes, for this model, got floats up to {values.max():g}. "
            "Divide by 255; if the model takes 0 to 255, pass `preprocess=lambda image: image`."
        )


def _filled(fill: Fill, values: Pixels) -> Pixels:
    baseline = pixels(fill(values), "fill")
    if baseline.shape != values.shape:
        raise InvalidValueError(f"`fill` must keep the image's shape, {values.shape}, got {baseline.shape}.")
    return baseline


def _unwrapped(prepared: Any) -> Any:
    """The model's input in what a Hugging Face image processor returns."""
    if not isinstance(prepared, Mapping):
        return prepared
    if "pixel_values" not in prepared:
        raise InvalidValueError(f"`preprocess` must return an image or `pixel_values`, got {', '.join(prepared)}.")
    return prepared["pixel_values"]


def _read_input(target: Any, model_input: Any) -> Pixels:
    """Preprocessed arrays have the layout the classifier takes; tensors and Pillow images have their own."""
    first = target.channels_first if isinstance(target, ImageSession) else is_module(target)
    return _numbers_for(target, pixels(model_input, "preprocess(image)", channels_first=first))


def _numbers_for(target: Any, values: Pixels) -> Pixels:
    """Floats for torch modules and most ONNX models; callables get what was given."""
    if not (is_module(target) or isinstance(target, ImageSession)):
        return values
    takes_bytes = isinstance(target, ImageSession) and target.dtype == np.uint8
    if values.dtype != np.uint8 and (takes_bytes or values.dtype.kind != "f"):
        wanted = "bytes (uint8)" if takes_bytes else "bytes (uint8) or floats"
        raise InvalidTypeError(f"`image` must hold {wanted} for this model, got {values.dtype}.")
    return values if takes_bytes else scale_bytes(values)
