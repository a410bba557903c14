"""A vision transformer, an image and masks → scores with the hidden patches removed from its sequence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidValueError
from holdfast.masking.buckets import group_by_length, pass_overhead
from holdfast.masking.groups import Groups
from holdfast.masking.module_notes import notes_of, weights_mark
from holdfast.masking.patch_tokens import ALWAYS_KEPT, PatchTokens, Run, find_embeddings, learn_patches, run_on_tokens
from holdfast.masking.torch_support import import_torch
from holdfast.types import Masks


@dataclass(frozen=True, eq=False)
class PatchDrop:
    """One image (C, H, W) whose hidden patches are removed.

    ``features`` (T,) has the feature of each token, or -1. Rows of unlike length go together, filled
    up with tokens that are not attended to, where that costs less than another pass, ``overhead``
    tokens; it is 0 for modules whose rows cannot be filled up.
    """

    embeddings: Any
    image: Any
    features: NDArray[np.intp]
    overhead: float

    def scores(self, run: Run, masks: Masks) -> Any:
        """Scores (b, n_classes) of masks (b, n_features), in the order asked; ``run`` scores images."""
        torch = import_torch()
        if len(masks) == 0:
            return run(self.image[None])[:0]
        shown = masks[:, np.maximum(self.features, 0)] | (self.features == ALWAYS_KEPT)
        groups = group_by_length(shown.sum(axis=1), self.overhead)
        parts = [self._part(run, shown[rows]) for rows in groups]
        return torch.cat(parts)[torch.from_numpy(np.concatenate(groups).argsort()).to(self.image.device)]

    def _part(self, run: Run, shown: NDArray[np.bool_]) -> Any:
        columns = np.argsort(~shown, axis=1, kind="stable")[:, : shown.sum(axis=1).max()]
        attended = np.take_along_axis(shown, columns, axis=1)
        return run_on_tokens(run, self.embeddings, self.image[None], columns, None if attended.all() else attended)


def bind_patches(module: Any, run: Run, image: Any, groups: Groups) -> PatchDrop:
    """Remove hidden patches of this tensor (C, H, W), if removing patches has a meaning for the module.

    That is checked once per module and size of image. The module must be in evaluation mode, without
    gradients; ``run`` takes images (b, C, H, W).
    """
    grid = patch_grid(module, tuple(image.shape[1:]))
    owners = _features_of_patches(groups, grid)
    notes, question = notes_of(module), ("patches", weights_mark(module), tuple(image.shape), image.dtype)
    learnt: PatchTokens = notes.get(question) or learn_patches(module, run, image, grid)
    notes[question] = learnt
    features = np.where(learnt.patches == ALWAYS_KEPT, ALWAYS_KEPT, owners[learnt.patches])
    overhead = pass_overhead(module, image.device) if learnt.pads else 0.0
    return PatchDrop(find_embeddings(module), image, features, overhead)


def patch_grid(module: Any, size: tuple[int, ...]) -> tuple[int, int]:
    """Rows and columns of a vision transformer's patches in an image of this height and width."""
    cut = find_embeddings(module).patch_embeddings
    sides = getattr(cut, "patch_size", None) or getattr(getattr(module, "config", None), "patch_size", None) or 0
    height, width = (sides, sides) if isinstance(sides, int) else sides
    if not height or not width or size[0] % height or size[1] % width:
        raise InvalidValueError(
            f"`image` must be whole patches of {height}×{width} pixels for `fill='drop'`, got {size[0]}×{size[1]}."
        )
    return size[0] // height, size[1] // width


def _features_of_patches(groups: Groups, grid: tuple[int, int]) -> NDArray[np.intp]:
    """The feature of each patch in reading order, or -1; every feature must be a union of whole patches."""
    rows, cols = grid
    height, width = groups.shape[0] // rows, groups.shape[1] // cols
    cells = groups.reshape(rows, height, cols, width).swapaxes(1, 2).reshape(rows * cols, height * width)
    torn = np.flatnonzero((cells != cells[:, :1]).any(axis=1))
    if len(torn):
        row, col = divmod(int(torn[0]), cols)
        raise InvalidValueError(
            f"`groups` must be unions of the model's patches of {height}×{width} pixels for `fill='drop'`, but the "
            f"patch in row {row}, column {col} belongs to several features. Use `groups=({rows}, {cols})`."
        )
    return cells[:, 0]
