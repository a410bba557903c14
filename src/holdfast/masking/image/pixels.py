"""An image of any kind, or the name of a file → its pixels (H, W, C) as a NumPy array."""

from __future__ import annotations

import hashlib
import warnings
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.extras import import_extra
from holdfast.masking.torch import import_torch, to_numpy
from holdfast.validation import as_array, shown

Pixels = NDArray[Any]
"""(H, W, C): rows, columns, channels; whole numbers or floats."""

_PLAIN_MODES = ("L", "LA", "RGB", "RGBA", "F", "I", "I;16")
"""Pillow modes whose array is the picture; palettes and other colour spaces become RGB."""

_MAX_COLOURS = 4
"""More channels than this at one end and fewer at the other is an image with its axes swapped."""


def open_picture(image: Any) -> Any:
    """The image as it was given, or the picture in the file that it names, or in a file's content.

    Files are turned upright as their EXIF data say; palettes and rare colour spaces become RGB.
    Pillow's limit against decompression bombs stays in force.
    """
    if isinstance(image, BytesIO):
        image = _read_picture(image, "The image")
    elif isinstance(image, (str, Path)):
        image = _read_picture(Path(image), f"The image file {str(image)!r}")
    if not is_picture(image) or image.mode in _PLAIN_MODES:
        return image
    return image.convert("L" if image.mode == "1" else "RGB")


def _read_picture(file: Path | BytesIO, name: str) -> Any:
    pillow = import_pillow()
    from PIL import ImageOps

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pillow.DecompressionBombWarning)
            with pillow.open(file) as picture:
                picture.load()
                return ImageOps.exif_transpose(picture)
    except (pillow.DecompressionBombWarning, pillow.DecompressionBombError) as error:
        advice = "Make it smaller, or open it yourself and pass the pixels."
        raise InvalidValueError(f"{name} unpacks to more pixels than is safe: {error} {advice}") from error
    # Decoders of broken files raise all sorts of errors: OSError, SyntaxError, struct.error, …
    except Exception as error:
        raise InvalidValueError(f"{name} cannot be read: {error}") from error


def pixels(image: Any, name: str = "image", *, channels_first: bool = False) -> Pixels:
    """The pixels (H, W, C) of one image, its number type kept (half precisions become float32).

    Tensors are (C, H, W), Pillow images (H, W, C), and arrays as ``channels_first`` says. Two axes are a grey
    image of one channel; a leading axis of length one is a batch of one and is dropped. ``name`` is for errors.
    """
    array = array_of(image, name)
    first = is_tensor(image) or (channels_first and not is_picture(image))
    if array.ndim == 4 and len(array) == 1:
        array = array[0]
    if array.ndim == 2:
        array = array[None] if first else array[:, :, None]
    must = f"be one image {'(C, H, W)' if first else '(H, W, C)'} or (H, W)"
    if array.ndim != 3 or 0 in array.shape:
        raise InvalidValueError(argument=name, must=must, got=f"shape {array.shape}")
    n_channels, other_end = (array.shape[0], array.shape[2]) if first else (array.shape[2], array.shape[0])
    if n_channels > _MAX_COLOURS >= other_end:
        hint = "Torch tensors are (C, H, W), NumPy arrays (H, W, C): transpose the image."
        raise InvalidValueError(argument=name, must=must, got=f"shape {array.shape}: {n_channels} channels", hint=hint)
    if array.dtype.kind not in "fiu":
        raise InvalidTypeError(argument=name, must="hold bytes or floats", got=array.dtype)
    n_bad = array.size - int(np.isfinite(array).sum())
    if n_bad:
        got = f"NaN or infinity in {n_bad} of {array.size}"
        raise InvalidValueError(argument=name, must="hold finite numbers", got=got)
    return array.transpose(1, 2, 0) if first else array


def array_of(image: Any, name: str) -> NDArray[Any]:
    """The numbers of an image of any kind, in the layout it was given."""
    if is_tensor(image):
        return to_numpy(image)
    must = "be a torch tensor, a NumPy array or a Pillow image"
    array = as_array(image, name, must)
    if array.ndim == 0:
        raise InvalidTypeError(argument=name, must=must, got=shown(image))
    return array


def repaint(values: Pixels, image: Any) -> Any:
    """The pixels (H, W, C) as an image of the same kind, layout and number type as the given one."""
    if is_picture(image):
        return import_pillow().fromarray(values[:, :, 0] if len(image.getbands()) == 1 else values)
    if not is_tensor(image):
        array = np.asarray(image)
        return values.astype(array.dtype, copy=False).reshape(array.shape)
    planes = import_torch().from_numpy(np.ascontiguousarray(values.transpose(2, 0, 1)))
    return planes.to(device=image.device, dtype=image.dtype).reshape(image.shape)


def scale_bytes(values: Pixels) -> Pixels:
    """Bytes 0…255 as float32 in [0, 1]; floats as they are."""
    return values.astype(np.float32) / np.float32(255) if values.dtype == np.uint8 else values


def digest_pixels(values: Pixels) -> str:
    """A short digest of the numbers, their type and their shape."""
    digest = hashlib.blake2b(f"{values.dtype.str} {values.shape}".encode(), digest_size=16)
    digest.update(np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()


def is_tensor(value: Any) -> bool:
    """Whether the value is a torch tensor; asks without importing torch."""
    return any(kind.__module__ == "torch" and kind.__name__ == "Tensor" for kind in type(value).__mro__)


def is_picture(value: Any) -> bool:
    """Whether the value is a Pillow image; asks without importing Pillow."""
    return any(kind.__module__ == "PIL.Image" and kind.__name__ == "Image" for kind in type(value).__mro__)


def import_pillow() -> Any:
    """Pillow's module of images, or an error that says how to get it."""
    return import_extra("PIL.Image", "Image files need")
