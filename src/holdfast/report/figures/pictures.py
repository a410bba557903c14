"""An image and its explanation → axes: what is selected, what was added, what is hidden."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidValueError
from holdfast.report.figures.style import COLOURS, as_axes, bare
from holdfast.validation import check_numbers, drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HIDDEN = (0.89, 0.92, 0.97)
"""The colour of what is hidden: a pale blue that no grey image has."""


@drawing
def plot_example_image(
    image: Any, selected: Any = None, *, groups: Any = None, added: Any = (), title: str = "", ax: Axes | None = None
) -> Axes:
    """Draw an image, or what an explanation shows of it.

    Parameters
    ----------
    image : array (height, width), or (height, width, channels)
        Stretched from its darkest to its brightest value.
    selected : Boolean array (n_features,), optional
        The explanation: its features are outlined in blue, all others hidden. The whole image if left out.
    groups : whole numbers (height, width)
        The feature each pixel belongs to; -1 for none. Needed with ``selected``.
    added : sequence of int
        Features that were revealed besides: shown, outlined in orange and hatched.

    Examples
    --------
    >>> picture, features = np.eye(2), np.array([[0, 1], [2, 3]])
    >>> drawn = plot_example_image(picture, np.array([True, False, False, True]), groups=features, added=[1])
    >>> len(drawn.patches)
    1
    """
    axes = as_axes(ax, size=(2.4, 2.6))
    pixels = _stretched(image)
    if selected is None:
        axes.imshow(pixels, interpolation="nearest", vmin=0, vmax=1)
        return bare(axes, title)
    features = _check_groups(groups, pixels.shape[:2])
    chosen = np.flatnonzero(np.asarray(selected, dtype=bool))
    seen = np.isin(features, [*chosen, *added]) | (features < 0)
    axes.imshow(np.where(seen[..., None], pixels, HIDDEN), interpolation="nearest", vmin=0, vmax=1)
    _outline(axes, np.isin(features, chosen), COLOURS["blue"])
    if len(added):
        fresh = np.isin(features, list(added))
        _outline(axes, fresh, COLOURS["orange"])
        _hatch(axes, fresh)
    return bare(axes, title)


def _stretched(image: Any) -> NDArray[np.float64]:
    """Values from 0 to 1, (height, width, 3); grey has one value thrice."""
    values = check_numbers(image, "image")
    values = values[..., None] if values.ndim == 2 else values
    low, high = values.min(), values.max()
    scaled = (values - low) / (high - low) if high > low else np.zeros_like(values)
    return scaled[..., :3] if scaled.shape[2] >= 3 else np.repeat(scaled[..., :1], 3, axis=2)


def _check_groups(groups: Any, shape: tuple[int, ...]) -> NDArray[np.intp]:
    features = np.asarray(-1 if groups is None else groups)
    if features.shape != shape:
        raise InvalidValueError(
            argument="groups", must=f"have the image's height and width, {shape}", got=features.shape
        )
    return features


def _outline(axes: Axes, where: NDArray[np.bool_], colour: str) -> None:
    """Lines along every edge between a pixel of the set and one outside."""
    padded = np.pad(where, 1)
    drawn: dict[str, Any] = {"color": colour, "lw": 1.6, "clip_on": False}  # a line at the border is drawn in full
    across = np.argwhere(padded[1:, 1:-1] != padded[:-1, 1:-1])
    down = np.argwhere(padded[1:-1, 1:] != padded[1:-1, :-1])
    axes.hlines(across[:, 0] - 0.5, across[:, 1] - 0.5, across[:, 1] + 0.5, **drawn)
    axes.vlines(down[:, 1] - 0.5, down[:, 0] - 0.5, down[:, 0] + 0.5, **drawn)


def _hatch(axes: Axes, where: NDArray[np.bool_]) -> None:
    """Stripes, so that additions are not told by colour alone."""
    from matplotlib.patches import Rectangle

    for row, column in np.argwhere(where):
        axes.add_patch(
            Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, hatch="///", ec=COLOURS["orange"], lw=0, alpha=0.9)
        )
