"""``digits-vit-masked``: ``digits-vit``, trained on with images some of whose pixels are hidden."""

from __future__ import annotations

from typing import Any

import torch
from torch import Generator, Tensor
from transformers import ViTForImageClassification

from holdfast.inputs.models.bundled import BOX
from training.digits import SIDE, make

N_CELLS = (8, 4)
"""Half of the images lose single pixels, half lose patches of 2 × 2."""

WHOLE, LEAST_SHOWN = 0.35, 0.2
"""The share of images that stay whole; the smallest share of a masked image that is shown, the largest being all."""


def network() -> Any:
    return ViTForImageClassification.from_pretrained(BOX / "digits-vit")


def hide(pixels: Tensor, generator: Generator) -> Tensor:
    """Pixels (b, 1, 8, 8) with a random share of each image set to 0, the mean grey."""
    n = len(pixels)
    share = LEAST_SHOWN + (1 - LEAST_SHOWN) * torch.rand(n, 1, 1, 1, generator=generator)
    is_whole = torch.rand(n, 1, 1, 1, generator=generator) < WHOLE
    fine, coarse = (torch.rand(n, 1, cells, cells, generator=generator) < share for cells in N_CELLS)
    scale = SIDE // N_CELLS[1]
    patches = coarse.repeat_interleave(scale, dim=2).repeat_interleave(scale, dim=3)
    is_fine = torch.rand(n, 1, 1, 1, generator=generator) < 0.5
    return pixels * (is_whole | torch.where(is_fine, fine, patches))


def main() -> None:
    description = "the same vision transformer, trained on with random pixels hidden"
    make("digits-vit-masked", network, description, epochs=60, rate=2e-3, hide=hide)
