"""Images: wall time of masked evaluation over bare forward passes of the same inputs, masked beforehand."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import holdfast as hf
from benchmarks.figures import Figure
from benchmarks.zoo import find_zoo, load_images, load_resnet20
from holdfast.masking.image.mask_image import mask_image
from holdfast.masking.image.pixels import grid

REPEATS = 20
"""Many short runs: the best of them is one that nothing else on the machine disturbed."""


def run() -> Iterator[Figure]:
    if importlib.util.find_spec("torch") is None:
        print("  LEFT OUT: masked images over bare forward passes (no torch)")
        return
    import torch

    torch.set_num_threads(1)
    folder = find_zoo()
    if folder is None:
        print("  LEFT OUT: ResNet-20@32 (no zoo at HOLDFAST_ZOO or ../shared/zoo)")
    else:
        image = torch.from_numpy(load_images(folder, 1)[0])
        yield _figure("ResNet-20@32, 64 features", load_resnet20(folder), image, rows=8, n_masks=64, batch_size=32)
    if importlib.util.find_spec("transformers") is None:
        print("  LEFT OUT: ResNet-18@224 (no transformers)")
        return
    image = torch.rand((3, 224, 224), generator=torch.Generator().manual_seed(0))
    yield _figure("ResNet-18@224, 196 features", _resnet18(), image, rows=14, n_masks=4, batch_size=2)


def _figure(name: str, network: Any, image: Any, *, rows: int, n_masks: int, batch_size: int) -> Figure:
    masks = np.random.default_rng(0).random((n_masks, rows * rows)) < 0.5
    groups = grid(image, rows, rows)
    model = mask_image(network, image, groups=groups, batch_size=batch_size)
    ready = _masked_beforehand(image, masks, groups)

    def ours() -> np.ndarray:
        return hf.Evaluator(model)(masks)

    def bare() -> np.ndarray:
        return _forward(network, ready, batch_size)

    np.testing.assert_allclose(ours(), bare(), atol=1e-3)
    return Figure(f"masked evaluation vs bare forward, {name}", _ratio(ours, bare), "×", at_most=1.05)


def _ratio(ours: Callable[[], object], bare: Callable[[], object]) -> float:
    """Best time over best time, measured in turns so that both meet the same machine."""
    times: dict[Callable[[], object], list[float]] = {ours: [], bare: []}
    for _ in range(REPEATS):
        for work, taken in times.items():
            start = time.perf_counter()
            work()
            taken.append(time.perf_counter() - start)
    return min(times[ours]) / min(times[bare])


def _masked_beforehand(image: Any, masks: np.ndarray, groups: np.ndarray) -> Any:
    import torch

    return image * torch.from_numpy(masks[:, groups])[:, None]


def _forward(network: Any, batch: Any, batch_size: int) -> np.ndarray:
    import torch

    with torch.inference_mode():
        outputs = [network(part) for part in batch.split(batch_size)]
    return torch.cat([getattr(output, "logits", output) for output in outputs]).numpy()


def _resnet18() -> Any:
    from transformers import ResNetConfig, ResNetForImageClassification

    config = ResNetConfig(
        embedding_size=64, hidden_sizes=[64, 128, 256, 512], depths=[2, 2, 2, 2], layer_type="basic", num_labels=1000
    )
    return ResNetForImageClassification(config).eval()
