"""An image, or a map of labels → a map of whole numbers (H, W): the feature each pixel belongs to.

Features are numbered 0 … n-1 without gaps; -1 is a pixel that belongs to none and is always shown.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.extras import import_extra
from holdfast.masking.image.pixels import digest_pixels, open_picture, pixels
from holdfast.validation import as_array, check_amount, check_size, check_whole

Groups = NDArray[np.intp]
"""(H, W): the feature of each pixel, or -1."""


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
    if as_array(groups, "groups", "be whole numbers (H, W), or (rows, cols)").shape == (2,):
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
    array = as_array(value, name, must)
    if array.dtype.kind not in "iu":
        raise InvalidTypeError(argument=name, must=must, got=array.dtype)
    if array.ndim != 2 or 0 in array.shape:
        raise InvalidValueError(argument=name, must=must, got=f"shape {array.shape}")
    if array.min() < -1 or array.max() < 0:
        raise InvalidValueError(argument=name, must=must, got=f"values from {array.min()} to {array.max()}")
    return array
