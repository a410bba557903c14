"""An image of any kind, or the name of a file → its pixels (H, W, C), and the feature that each belongs to (H, W).

Features are numbered 0 … n-1 without gaps; -1 is a pixel that belongs to none and is always shown.
"""

from __future__ import annotations

import hashlib
import warnings
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.extras import import_extra
from holdfast.masking.torch import import_torch, to_numpy
from holdfast.validation import as_array, check_amount, check_size, check_whole, shown

Pixels = NDArray[Any]
"""(H, W, C): rows, columns, channels; whole numbers or floats."""

Groups = NDArray[np.intp]
"""(H, W): the feature of each pixel, or -1."""

_PLAIN_MODES = ("L", "LA", "RGB", "RGBA", "F", "I", "I;16")
"""Pillow modes whose array is the picture; palettes and other colour spaces become RGB."""

_MAX_COLOURS = 4  # more channels than this at one end and fewer at the other is an image with its axes swapped


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


def grid(image: Any, rows: int, cols: int) -> Groups:
    """Cut an image into rows × cols rectangles, one feature each.

    Rectangles of one grid differ by at most one pixel in height and width, so any image can be cut.

    Parameters
    ----------
    image : image, file name, or shape (H, W)
        A torch tensor (C, H, W), a NumPy array (H, W, C) or (H, W), a Pillow image; only its size counts.
    rows, cols : int
        At most one per pixel.

    Returns
    -------
    groups : intp array (H, W)
        Features are numbered row by row from the top left.

    Examples
    --------
    >>> grid((2, 5), 1, 2)
    array([[0, 0, 0, 1, 1],
           [0, 0, 0, 1, 1]])
    """
    is_shape = isinstance(image, (tuple, list)) and len(image) == 2 and not np.ndim(image[0])
    height, width = image if is_shape else pixels(open_picture(image)).shape[:2]
    height, width = check_whole(height, "height", minimum=1), check_whole(width, "width", minimum=1)
    down = _cut(height, check_whole(rows, "rows", minimum=1), "rows")
    across = _cut(width, n_cols := check_whole(cols, "cols", minimum=1), "cols")
    return down[:, None] * n_cols + across


def segments(label_map: ArrayLike) -> Groups:
    """Make each label of a map one feature, in the order of the labels' values.

    Parameters
    ----------
    label_map : whole numbers (H, W)
        Any segmentation. Pixels labelled -1 belong to no feature.

    Returns
    -------
    groups : intp array (H, W)
        The labels renumbered 0 … n-1; -1 stays.

    Examples
    --------
    >>> segments([[7, 7, -1], [3, 3, 9]])
    array([[ 1,  1, -1],
           [ 0,  0,  2]])
    """
    labels = _whole_map(label_map, "label_map")
    values, ranks = np.unique(labels, return_inverse=True)
    return ranks.reshape(labels.shape).astype(np.intp) - int(values[0] == -1)


def superpixels(image: Any, n_segments: int = 100, *, compactness: float = 10.0, sigma: float = 0.0) -> Groups:
    """Cut an image into patches of like colour (SLIC, from scikit-image), one feature each.

    The same image always gives the same patches.

    Parameters
    ----------
    image : image or file name
        A torch tensor (C, H, W), a NumPy array (H, W, C) or (H, W), a Pillow image.
    n_segments : int
        About how many patches; SLIC decides how many there are.
    compactness : float
        Large values make square patches, small ones follow the colours.
    sigma : float
        Width of the blur before the cut, in pixels.

    Returns
    -------
    groups : intp array (H, W)
    """
    slic = import_extra("skimage.segmentation", "Superpixels need").slic
    wanted = check_size(n_segments, "n_segments")
    weight, width = check_amount(compactness, "compactness"), check_amount(sigma, "sigma", may_be_zero=True)
    values = np.ascontiguousarray(pixels(open_picture(image)))
    return segments(slic(values, n_segments=wanted, compactness=weight, sigma=width, start_label=0, channel_axis=-1))


def check_groups(groups: Any, shape: tuple[int, int]) -> Groups:
    """The map of an image of this shape, copied and read-only; two numbers (rows, cols) are a grid."""
    given = as_array(groups, "groups", "be whole numbers (H, W), or (rows, cols)")
    if given.ndim == 0:
        must = "be (rows, columns) of a grid, or a map (H, W) with the feature of each pixel"
        raise InvalidValueError(argument="groups", must=must, got=shown(groups))
    if given.shape == (2,):
        rows, cols = groups
        return grid(shape, rows, cols)
    checked = _whole_map(groups, "groups").astype(np.intp)
    if checked.shape != shape:
        must = f"have one entry per pixel of the model's input, {shape[0]}×{shape[1]}"
        raise InvalidValueError(argument="groups", must=must, got=f"{checked.shape[0]}×{checked.shape[1]}")
    sizes = np.bincount(checked[checked >= 0])
    if 0 in sizes:
        must = f"number features without gaps, but feature {int(np.argmin(sizes))} of {len(sizes)} has no pixel"
        raise InvalidValueError(argument="groups", must=must, hint="Renumber them with `segments(groups)`.")
    checked.setflags(write=False)
    return checked


def describe_groups(groups: Groups) -> str:
    """A name that tells maps apart: ``grid 8×8``, or the number of segments and a digest of the map."""
    rows, cols = (1 + int((np.diff(edge) != 0).sum()) for edge in (groups[:, 0], groups[0]))
    if np.array_equal(groups, grid(groups.shape, rows, cols)):
        return f"grid {rows}×{cols}"
    return f"{int(groups.max()) + 1} segments (map {digest_pixels(groups)[:32]})"


def _cut(length: int, n_parts: int, name: str) -> Groups:
    if n_parts > length:
        raise InvalidValueError(argument=name, must=f"be at most the number of pixels, {length}", got=n_parts)
    return np.arange(length, dtype=np.intp) * n_parts // length


def _whole_map(value: Any, name: str) -> NDArray[Any]:
    must = "be whole numbers (H, W): a feature per pixel, or -1 for none"
    array = as_array(value, name, must, kinds="iu")
    if array.ndim != 2 or 0 in array.shape:
        raise InvalidValueError(argument=name, must=must, got=f"shape {array.shape}")
    if array.min() < -1 or array.max() < 0:
        raise InvalidValueError(argument=name, must=must, got=f"values from {array.min()} to {array.max()}")
    return array
