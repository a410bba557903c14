"""An image of any kind → what a Hugging Face image processor takes: a Pillow image of 8-bit channels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidValueError
from holdfast.masking.image.pixels import import_pillow, is_picture, open_picture, pixels

_DEEP_MODES = ("I", "F", "I;16")


def as_picture(image: Any, mode: str = "RGB") -> Any:
    """A Pillow image in the given mode.

    Arrays (height, width, channels) and tensors (channels, height, width) hold bytes, or fractions
    from 0 to 1, which are rounded to bytes.
    """
    opened = open_picture(image)
    if not is_picture(opened):
        opened = import_pillow().fromarray(_as_bytes(pixels(opened)))
    if opened.mode in _DEEP_MODES:
        raise InvalidValueError(
            f"An image must have 8 bits per channel, got mode {opened.mode}. Scale it to 0…255 first."
        )
    return opened.convert(mode)


def _as_bytes(values: NDArray[Any]) -> NDArray[np.uint8]:
    n_channels = values.shape[2]
    if n_channels not in (1, 3, 4):
        raise InvalidValueError(f"An image must have 1, 3 or 4 channels, got {n_channels}.")
    plain = values[:, :, 0] if n_channels == 1 else values
    if plain.dtype == np.uint8:
        return np.ascontiguousarray(plain)
    low, high = plain.min(), plain.max()
    if plain.dtype.kind != "f" or low < 0 or high > 1:
        raise InvalidValueError(
            f"An image must hold bytes, or fractions from 0 to 1, got {plain.dtype} from {low} to {high}."
        )
    return np.asarray(np.rint(plain * 255), dtype=np.uint8)
