"""The paper's batching table: seconds per forward pass at batch sizes 1, 5, 10, 15 and the one that is found.

Full-size models with random weights, one thread; for each input the same 30 masks, half of the
features shown, and the batch sizes in turns, beginning with another one for each input. Each cell is
the mean ± standard deviation over inputs of the time per mask, with the speed-up over one mask at a
time in parentheses. Time is that of the processor, which with one thread is what a clock on the wall
would show on an idle machine. "auto" is what holdfast does when no batch size is given, its probing
included.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bench_speed import resnet, roberta_base, vit_base
from benchmarks.figures import Figure
from holdfast.masking.image.mask_image import mask_image
from holdfast.masking.text.mask_text import mask_text
from holdfast.reproduce.measures import N_MASKS, Bind, Times, time_batches
from holdfast.reproduce.measures import SIZES as BATCH_SIZES

SIZES: tuple[int | None, ...] = (*BATCH_SIZES, None)
N_INPUTS = 3
"""The paper has 100; full-size models on one core would take hours for them."""

N_TOKENS = 25
"""About as many as a tweet has."""


def run() -> Iterator[Figure]:
    missing = [name for name in ("torch", "transformers") if importlib.util.find_spec(name) is None]
    if missing:
        print(f"  LEFT OUT: the batching table ({', '.join(missing)} missing)")
        return
    import torch

    torch.set_num_threads(1)
    lines = [_header()]
    print(lines[0])
    for name, bind in _models():
        times = time_batches(bind, SIZES, n_inputs=N_INPUTS, n_masks=N_MASKS)
        lines.append(_row(name, times))
        print(lines[-1], flush=True)
        best = min(np.mean(times[size]) for size in SIZES if size is not None)
        yield Figure(f"batch size found vs the best of 1, 5, 10, 15, {name}", best / np.mean(times[None]), "×")
    Path("build/bench").mkdir(parents=True, exist_ok=True)
    Path("build/bench/batching.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _models() -> Iterator[tuple[str, Bind]]:
    """One at a time, so that no two are in memory."""
    yield "ViT-B/16", _image_binder(vit_base())
    yield "ResNet50", _image_binder(resnet("bottleneck", [3, 4, 6, 3], [256, 512, 1024, 2048]))
    yield "ResNet18", _image_binder(resnet("basic", [2, 2, 2, 2], [64, 128, 256, 512]))
    yield "RoBERTa", _text_binder(*roberta_base())


def _image_binder(module: Any) -> Bind:
    import torch

    def bind(number: int) -> Any:
        return mask_image(module, torch.rand((3, 224, 224), generator=torch.Generator().manual_seed(number)))

    return bind


def _text_binder(module: Any, tokenizer: Any) -> Bind:
    def bind(number: int) -> Any:
        words = np.random.default_rng(number).integers(0, 50, N_TOKENS)
        text = " ".join(f"word{word}" for word in words)
        return mask_text(module, text, tokenizer=tokenizer, max_length=N_TOKENS)

    return bind


def _header() -> str:
    names = ["auto" if size is None else f"batch {size}" for size in SIZES]
    return f"  {'ms per pass':<10}" + "".join(f"{name:>24}" for name in names)


def _row(name: str, times: Times) -> str:
    alone = np.mean(times[1])
    cells = [
        f"{1e3 * np.mean(seconds):.1f} ± {1e3 * np.std(seconds, ddof=1):.1f} ({alone / np.mean(seconds):.2f}×)"
        for seconds in times.values()
    ]
    return f"  {name:<10}" + "".join(f"{cell:>24}" for cell in cells)
