"""Networks on 8 × 8 pixels: data, distortions, hidden pixels, the training loop and the folder that is written.

Pixels are normalised so that 0 is the mean grey: what is hidden is neither ink nor paper.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor
from torch.nn.functional import affine_grid, cross_entropy, grid_sample

from holdfast import data
from holdfast.inputs.models.hf import load_folder
from training.box import count_correct, count_correct_masked, empty_folder, write_card

SIDE, BATCH = 8, 64
MEAN, STD = 0.3, 0.375
LABELS = {"id2label": {i: str(i) for i in range(10)}, "label2id": {str(i): i for i in range(10)}}

Hide = Callable[[Tensor, Generator], Tensor]


def make(
    name: str, network: Callable[[], Any], description: str, *, epochs: int, rate: float, hide: Hide | None = None
) -> None:
    """Train a network from seed 0 and put it into the box."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    module = train(network(), epochs=epochs, rate=rate, hide=hide)
    folder = empty_folder(name)
    module.save_pretrained(folder)
    write_preprocessor(folder)
    classifier, test = load_folder(str(folder)), data.load("bundled:digits")
    write_card(
        folder,
        kind="image",
        data="bundled:digits",
        description=description,
        counts={
            "test split": count_correct(classifier, test),
            "test split, half of 64 pixels hidden": count_correct_masked(
                lambda image: classifier.bind(image, groups=(8, 8)), test
            ),
            "test split, half of 16 patches hidden": count_correct_masked(
                lambda image: classifier.bind(image, groups=(4, 4)), test
            ),
        },
        made_with=("torch", "transformers", "scikit-learn"),
    )


def train(module: Any, *, epochs: int, rate: float, hide: Hide | None) -> Any:
    """AdamW with one warm-up and one decay of its rate; every draw is from a generator of this training alone."""
    split = data.load("bundled:digits", split="train")
    images, labels = torch.tensor(split.inputs[..., 0] / 255, dtype=torch.float32), torch.tensor(split.labels)
    n_batches = len(labels) // BATCH
    optimizer = torch.optim.AdamW(module.parameters(), lr=rate, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=rate, total_steps=epochs * n_batches)
    generator = Generator().manual_seed(0)
    module.train()
    for _ in range(epochs):
        for chosen in torch.randperm(len(labels), generator=generator)[: n_batches * BATCH].split(BATCH):
            pixels = (distort(images[chosen], generator) - MEAN) / STD
            seen = pixels if hide is None else hide(pixels, generator)
            loss = cross_entropy(module(pixel_values=seen).logits, labels[chosen], label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return module.eval()


def distort(images: Tensor, generator: Generator) -> Tensor:
    """Images (b, 8, 8) a little turned, scaled, slanted and moved, as (b, 1, 8, 8)."""
    n = len(images)

    def draw(*shape: int, width: float) -> Tensor:
        return (torch.rand(n, *shape, generator=generator) - 0.5) * width

    angle, scale, slant, move = draw(width=0.2), 1 + draw(2, width=0.15), draw(width=0.2), draw(2, width=0.2)
    maps = torch.zeros(n, 2, 3)
    maps[:, 0, 0], maps[:, 0, 1] = angle.cos() * scale[:, 0], slant - angle.sin()
    maps[:, 1, 0], maps[:, 1, 1] = angle.sin(), angle.cos() * scale[:, 1]
    maps[:, :, 2] = move
    return grid_sample(images[:, None], affine_grid(maps, [n, 1, SIDE, SIDE], align_corners=False), align_corners=False)


def write_preprocessor(folder: Path) -> None:
    """Grey pixels 0…255, resized if they are not 8 × 8; the class is one that every version of transformers knows."""
    settings = {
        "image_processor_type": "ViTImageProcessor",
        "do_resize": True,
        "size": {"height": SIDE, "width": SIDE},
        "resample": 2,
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": [MEAN],
        "image_std": [STD],
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")
