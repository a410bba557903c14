"""What studies cost: calls and time per item, measured; the paper's setting and ImageNet-1k, by arithmetic from them.

Measured: model calls of certifying one explanation of an image of 196 patches and of a text of 30 tokens, on stand-ins
that keep their prediction at a given rate; the time that holdfast itself takes for it; the time of a pass and of a
gradient of full-size models with random weights, on one core. Explanations are counted by formula. Arithmetic: all of
this times the numbers of inputs, methods and models, divided by PUBLISHED passes per second of a GPU: timm's figure of
ViT-B/16 on an RTX 3090. There was no GPU here to repeat it: set HOLDFAST_GPU_PASSES to what yours does.
"""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import holdfast as hf
from benchmarks.figures import Figure
from holdfast.evaluation import Evaluator
from holdfast.study.plan import attribution_calls, mean_calls, try_curve
from holdfast.study.spec import CertifySpec, MethodSpec, SmoothingSpec

METHODS = ("lime", "shap", "integrated_gradients", "mfaba", "random")
GRADIENTS = ("integrated_gradients", "mfaba")
PAPER_DRAWS = 150
RATES = (1.0, 0.9, 0.5)
ASSUMED_RATE = 0.5
"""What the arithmetic takes for the rate: the dearest, so that real studies cost less."""

GPU_PASSES = float(os.environ.get("HOLDFAST_GPU_PASSES", "1572"))
"""Passes per second of one GPU: vit_base_patch16_224 in timm's benchmark-infer-amp-nhwc-pt240-cu124-rtx3090.csv."""

GRADIENT_PASSES = 3
"""ASSUMED passes that a gradient costs on a GPU: one forward, and about two for the way back."""

N_GPUS = (1, 8, 64)


@dataclass(frozen=True)
class Kind:
    """A kind of input: how many features, and which radii are asked for."""

    name: str
    n_features: int
    radii: range

    @property
    def selected(self) -> np.ndarray:
        return np.arange(self.n_features) < self.n_features // 4


IMAGES, TEXTS = Kind("image", 196, range(1, 101)), Kind("text", 30, range(1, 24))


@dataclass(frozen=True)
class Setting:
    """A whole study: so many inputs of a kind, each explained by all methods for each of the models."""

    name: str
    kind: Kind
    n_inputs: int
    n_models: int


SETTINGS = (
    Setting("paper: 2,000 images × 5 methods × 3 models", IMAGES, 2_000, 3),
    Setting("paper: 10,653 texts × 5 methods × 1 model", TEXTS, 10_653, 1),
    Setting("ImageNet-1k validation: 50,000 × 5 methods × 4 models", IMAGES, 50_000, 4),
    Setting("ImageNet-1k training: 1,281,167 × 5 methods × 4 models", IMAGES, 1_281_167, 4),
)


def run() -> Iterator[Figure]:
    print("  MEASURED: one explanation, top 25 %, tolerance .1, confidence .9; one core")
    calls: dict[Kind, float] = {}
    for kind in (IMAGES, TEXTS):
        yield from _certification(kind, calls)
        yield from _explanations(kind)
    yield from _passes()
    lines = list(_arithmetic(calls))
    print("\n".join(lines), flush=True)
    folder = Path("build/bench")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "costs.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


# -- measured ---------------------------------------------------------------------------------------


def _certification(kind: Kind, calls: dict[Kind, float]) -> Iterator[Figure]:
    what = f"{kind.name}, {kind.n_features} features, radii 1-{kind.radii[-1]}"
    asked = CertifySpec(radii=tuple(kind.radii))
    for rate in RATES:
        start = time.process_time()
        n_calls, _ = try_curve(asked, SmoothingSpec(), kind.selected, keep=1.0, rate=rate)
        seconds = time.process_time() - start
        yield Figure(f"{what}, τ = {rate:g}: model calls", n_calls)
        if rate == ASSUMED_RATE:
            calls[kind] = n_calls
            yield Figure(f"{what}, τ = {rate:g}: time of holdfast itself", 1e3 * seconds, "ms")
            fewer = PAPER_DRAWS * len(kind.radii) / n_calls
            yield Figure(f"{what}, τ = {rate:g}: {PAPER_DRAWS} per radius over our calls", fewer, "×", at_least=3)


def _explanations(kind: Kind) -> Iterator[Figure]:
    for name in METHODS:
        n_calls = attribution_calls(MethodSpec(name), kind.n_features).expected
        unit = "gradients" if name in GRADIENTS else "calls"
        yield Figure(f"{kind.name}, {kind.n_features} features: {unit} to explain by {name}", n_calls)


def _passes() -> Iterator[Figure]:
    missing = [name for name in ("torch", "transformers") if importlib.util.find_spec(name) is None]
    if missing:
        print(f"  LEFT OUT: times of full-size models ({', '.join(missing)} missing)")
        return
    import torch

    from benchmarks.bench_speed import resnet, roberta_base, vit_base

    torch.set_num_threads(1)
    image = torch.rand((3, 224, 224), generator=torch.Generator().manual_seed(0))
    yield from _timed("ViT-B/16", hf.mask_image(vit_base(), image))
    yield from _timed("ResNet50", hf.mask_image(resnet("bottleneck", [3, 4, 6, 3], [256, 512, 1024, 2048]), image))
    module, tokenizer = roberta_base()
    text = " ".join(f"word{i}" for i in range(TEXTS.n_features))
    yield from _timed("RoBERTa-base", hf.mask_text(module, text, tokenizer=tokenizer, max_length=TEXTS.n_features))


def _timed(name: str, model: Any, *, n_masks: int = 16) -> Iterator[Figure]:
    """CPU time per pass on random masks with half of the features, the first pass aside; and per gradient."""
    masks = np.random.default_rng(0).random((n_masks, model.n_features)) < 0.5
    Evaluator(model)(masks[:2])
    start = time.process_time()
    Evaluator(model)(masks[2:])
    yield Figure(f"{name}: CPU time of a pass", 1e3 * (time.process_time() - start) / (n_masks - 2), "ms")
    points = np.repeat(np.asarray(model.elements)[None], 2, axis=0)
    start = time.process_time()
    model.gradient(points, 0)
    yield Figure(f"{name}: CPU time of a gradient", 1e3 * (time.process_time() - start) / 2, "ms")


# -- arithmetic -------------------------------------------------------------------------------------


def passes_per_input(kind: Kind, certification: float) -> float:
    """Passes for one input and one model: every method explains once and is certified once."""
    explained = sum(
        (GRADIENT_PASSES if name in GRADIENTS else 1) * attribution_calls(MethodSpec(name), kind.n_features).expected
        for name in METHODS
    )
    return explained + len(METHODS) * certification


def _arithmetic(calls: dict[Kind, float]) -> Iterator[str]:
    yield ""
    yield f"  ARITHMETIC, with τ = {ASSUMED_RATE:g} everywhere: {GPU_PASSES:,.0f} passes per second and GPU. ASSUMED: a"
    yield f"  gradient costs {GRADIENT_PASSES} passes; GPUs add up, as inputs are independent of each other."
    heads = "".join(f"{f'{n} GPU' + 's' * (n > 1):>12}" for n in N_GPUS)
    yield f"  {'hours':<52}{'passes':>12}{heads}"
    for setting in SETTINGS:
        yield f"  {setting.name}"
        for how, n_passes in _ways(setting, calls[setting.kind]):
            hours = "".join(f"{n_passes / GPU_PASSES / 3600 / n:>12,.1f}" for n in N_GPUS)
            yield f"    {how:<50}{n_passes:>12.3g}{hours}"


def _ways(setting: Setting, certification: float) -> Iterator[tuple[str, float]]:
    """The paper's number of draws, certificates of every input, and mean curves only."""
    n, kind = setting.n_inputs * setting.n_models, setting.kind
    yield "150 draws per radius, as the paper", n * passes_per_input(kind, PAPER_DRAWS * len(kind.radii))
    yield "every input certified", n * passes_per_input(kind, certification)
    asked = CertifySpec(radii=tuple(kind.radii), precision="data-set", half_width=0.01, confidence=0.95)
    means = mean_calls(asked, kind.selected, n_inputs=setting.n_inputs, rate=ASSUMED_RATE, rows=1).expected
    explained = n * passes_per_input(kind, 0.0)
    yield "mean curves within ±.01 at 95 %, guaranteed", explained + setting.n_models * len(METHODS) * means
    yield "  of which explanations", explained
