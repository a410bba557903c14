"""An image → its baseline: the image of the same shape that is seen where pixels are hidden.

A fill has a ``name`` that tells it from all others and enters every certificate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.masking.image.pixels import (
    Pixels,
    array_of,
    digest_pixels,
    is_picture,
    is_tensor,
    open_picture,
    pixels,
    scale_bytes,
)
from holdfast.masking.resampling import Resample
from holdfast.randomness import stream
from holdfast.validation import check_amount, check_name, check_number, check_whole, is_number, shown


@runtime_checkable
class ImageFill(Protocol):
    """What hidden pixels look like."""

    @property
    def name(self) -> str:
        """Words that no other fill has."""
        ...

    def __call__(self, image: Pixels, /) -> Pixels:
        """The baseline (H, W, C) of an image (H, W, C), of the same number type."""
        ...


@dataclass(frozen=True)
class Constant:
    """One colour everywhere: a number for all channels, or one per channel, in the units of the image to be filled."""

    value: float | tuple[float, ...] = 0.0

    def __post_init__(self) -> None:
        parts = self.value if isinstance(self.value, tuple) else (self.value,)
        for part in parts:
            check_number(part, "fill", "be a finite number, or one per channel", math.isfinite)
        colour = tuple(float(part) for part in parts)
        object.__setattr__(self, "value", colour if isinstance(self.value, tuple) else colour[0])

    @property
    def name(self) -> str:
        return f"constant {self.value}"

    def __call__(self, image: Pixels, /) -> Pixels:
        n_channels = image.shape[2]
        colour = self.value if isinstance(self.value, tuple) else (self.value,) * n_channels
        if len(colour) != n_channels:
            must = f"have one number per channel: the image has {n_channels}"
            raise InvalidValueError(argument="fill", must=must, got=len(colour))
        if image.dtype.kind != "f":
            limits = np.iinfo(image.dtype)
            if any(part != math.floor(part) or not limits.min <= part <= limits.max for part in colour):
                must = f"be whole numbers from {limits.min} to {limits.max}, as the image has {image.dtype} pixels"
                raise InvalidValueError(argument="fill", must=must, got=colour)
        return np.broadcast_to(np.array(colour, dtype=image.dtype), image.shape).copy()


@dataclass(frozen=True)
class Mean:
    """The image's own mean colour everywhere."""

    name = "mean"

    def __call__(self, image: Pixels, /) -> Pixels:
        return _as_type_of(np.broadcast_to(image.mean(axis=(0, 1), dtype=np.float64), image.shape), image)


@dataclass(frozen=True)
class Blur:
    """The image itself, blurred by a Gaussian of width ``sigma`` in pixels; edges are continued by reflection."""

    sigma: float = 10.0

    def __post_init__(self) -> None:
        check_amount(self.sigma, "sigma")

    @property
    def name(self) -> str:
        return f"blur of sigma {float(self.sigma)}"

    def __call__(self, image: Pixels, /) -> Pixels:
        from scipy.ndimage import gaussian_filter

        return _as_type_of(gaussian_filter(image.astype(np.float64), (self.sigma, self.sigma, 0)), image)


@dataclass(frozen=True)
class Noise:
    """Independent random pixels, uniform over each channel's range in the image.

    The same seed and the same image always give the same noise; the seed is part of the name.
    """

    seed: int = 0

    def __post_init__(self) -> None:
        check_whole(self.seed, "seed")

    @property
    def name(self) -> str:
        return f"noise of seed {self.seed}"

    def __call__(self, image: Pixels, /) -> Pixels:
        low, high = (bound.astype(np.float64) for bound in (image.min(axis=(0, 1)), image.max(axis=(0, 1))))
        return _as_type_of(low + stream(self.seed, "image fill").random(image.shape) * (high - low), image)


@dataclass(frozen=True, eq=False)
class Picture:
    """Another image of the same size, a torch tensor, an array or a Pillow image.

    Bytes are scaled to [0, 1] if the image that is filled has floats. Arrays are (H, W, C), or (C, H, W) if only that
    fits: what a preprocessing returns.
    """

    image: Any

    @property
    def name(self) -> str:
        return f"image {digest_pixels(array_of(self.image, 'fill'))[:32]}"

    def __call__(self, image: Pixels, /) -> Pixels:
        height, width, n_channels = image.shape
        turned = np.shape(self.image)[-3:] == (n_channels, height, width) != image.shape
        values = pixels(self.image, "fill", channels_first=turned)
        if values.shape != image.shape:
            must = f"have the image's shape (H, W, C) = {image.shape}"
            raise InvalidValueError(argument="fill", must=must, got=values.shape)
        if image.dtype.kind == "f":
            values = scale_bytes(values)
        elif values.dtype != image.dtype:
            must = f"hold the image's number type, {image.dtype}"
            raise InvalidTypeError(argument="fill", must=must, got=values.dtype)
        return np.ascontiguousarray(values, dtype=image.dtype)


@dataclass(frozen=True)
class Drop:
    """No pixels at all: patches are removed from the sequence of a vision transformer.

    No image equals one with patches removed; zeros are the customary stand-in where one is needed.
    """

    name = "patch drop"

    def __call__(self, image: Pixels, /) -> Pixels:
        return np.zeros_like(image)


def drawn_images(fill: Resample) -> list[Picture]:
    """The images that hidden pixels are drawn from."""
    if fill.nearest is not None:
        must = "be left out for images: distance in pixels says little"
        raise InvalidValueError(argument="nearest", must=must, got=fill.nearest)
    try:
        images = [] if fill.background is None else [Picture(open_picture(image)) for image in fill.background]
    except TypeError as error:
        raise InvalidTypeError(argument="background", must="be images", got=shown(fill.background)) from error
    if not images:
        hint = "Pass resample(images)."
        raise InvalidValueError(argument="background", must="be images to draw from", got="none", hint=hint)
    return images


_NAMED: dict[str, type[Mean | Blur | Noise | Drop]] = {"mean": Mean, "blur": Blur, "noise": Noise, "drop": Drop}


def as_fill(fill: Any) -> ImageFill:
    """The fill meant by a number, a tuple of numbers, a name, an image, or a fill itself."""
    if isinstance(fill, str):
        return _NAMED[check_name(fill, "fill", _NAMED)]()
    if is_number(fill):
        return Constant(fill)
    if isinstance(fill, (tuple, list, np.ndarray)) and _is_flat(fill):
        return Constant(tuple(fill))
    if isinstance(fill, np.ndarray) or is_tensor(fill) or is_picture(fill):
        return Picture(fill)
    if isinstance(fill, ImageFill) and not isinstance(fill, type):
        return fill
    kinds = f"a number, one number per channel, one of {', '.join(_NAMED)}, an image, or a fill such as Blur(sigma=5)"
    raise InvalidTypeError(argument="fill", must=f"be {kinds}", got=shown(fill))


def _is_flat(values: Any) -> bool:
    """Whether the values are in a row; what cannot be an array is not."""
    try:
        return np.ndim(values) == 1
    except ValueError:
        return False


def _as_type_of(values: NDArray[Any], image: Pixels) -> Pixels:
    return np.ascontiguousarray(values if image.dtype.kind == "f" else np.rint(values), dtype=image.dtype)
