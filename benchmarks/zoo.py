"""Real models and inputs for benchmarks, if they are at hand.

The folder is named by the environment variable HOLDFAST_ZOO, or is ``shared/zoo`` beside the
checkout. Without it the figures that need it are left out, and said to be.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

import numpy as np

import holdfast as hf

N_PATCHES = 8


def find_zoo() -> Path | None:
    folder = Path(os.environ.get("HOLDFAST_ZOO") or Path(__file__).parents[2] / "shared" / "zoo")
    return folder if (folder / "zoo.py").is_file() and importlib.util.find_spec("torch") else None


def load_resnet20(folder: Path) -> Any:
    """CIFAR-10 ResNet-20 as a function of RGB images (b, 3, 32, 32) in [0, 1]."""
    import torch

    torch.set_num_threads(1)
    spec = importlib.util.spec_from_file_location("holdfast_zoo", folder / "zoo.py")
    assert spec is not None
    assert spec.loader is not None
    zoo = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(zoo)
    return zoo.cifar10_resnet20()


def load_images(folder: Path, n: int) -> np.ndarray:
    """Images (n, 3, 32, 32) in [0, 1], classes in turn."""
    return load_labelled_images(folder, n)[0]


def load_labelled_images(folder: Path, n: int) -> tuple[np.ndarray, list[int]]:
    """Images (n, 3, 32, 32) in [0, 1], classes in turn, and their classes."""
    sample = np.load(folder / "cifar10-sample.npz")
    order = np.arange(len(sample["images"])).reshape(10, -1).T.ravel()[:n]
    images = sample["images"][order].transpose(0, 3, 1, 2).astype(np.float32) / 255
    return images, [int(label) for label in sample["labels"][order]]


def load_tweets(folder: Path, n: int) -> tuple[list[str], list[int]]:
    """The first n tweets of the emotion validation split, and their classes."""
    place = folder / "tweeteval" / "emotion"
    texts, labels = (
        (place / f"val_{kind}.txt").read_text(encoding="utf-8").splitlines() for kind in ("text", "labels")
    )
    return [text.strip() for text in texts[:n]], [int(label) for label in labels[:n]]


def bind_image(network: Any, image: np.ndarray) -> hf.MaskedModel:
    """4×4-pixel patches as 64 features; a hidden patch is black."""
    import torch

    pixels = torch.from_numpy(image)

    def predict(masks: np.ndarray) -> np.ndarray:
        grid = torch.from_numpy(masks.reshape(-1, 1, N_PATCHES, N_PATCHES).astype(np.float32))
        shown = grid.repeat_interleave(4, dim=2).repeat_interleave(4, dim=3)
        with torch.inference_mode():
            return network(pixels * shown).numpy()

    return hf.mask_function(predict, n_features=N_PATCHES**2)
