"""Means: model calls of a data set's mean curve within ±.01 against 150 per input and radius.

A thousand handwritten digits, 64 features, random explanations of 16, all 48 radii. The digits are the
test split and the first of the training split: calls do not depend on which.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import holdfast as hf
from benchmarks.figures import Figure

N_INPUTS, N_RADII, PAPER = 1000, 48, 150
PROMISED = {"hoeffding": 30, "normal": 80}


def run() -> Iterator[Figure]:
    import torch

    from holdfast import data

    torch.set_num_threads(1)
    classifier = hf.models.load("bundled:digits-resnet")
    images = np.concatenate([data.load("bundled:digits", split=split).inputs for split in ("test", "train")])
    rng = np.random.default_rng(0)
    chosen = [rng.permutation(64) < 16 for _ in range(N_INPUTS)]

    def subject(i: int) -> tuple[hf.MaskedModel, hf.Mask]:
        return classifier.bind(images[i], groups=(8, 8)), chosen[i]

    subjects = [lambda i=i: subject(i) for i in range(N_INPUTS)]
    curves = {}
    for bound, at_least in PROMISED.items():
        curves[bound] = curve = hf.mean_curve(subjects, radii=range(1, N_RADII + 1), bound=bound, batch_size=256, rng=0)
        label = f"±.01 at 95 %, {bound}"
        yield Figure(f"{label}: model calls", curve.n_calls)
        yield Figure(
            f"{label}: {PAPER} per input and radius over our calls",
            PAPER * N_RADII * N_INPUTS / curve.n_calls,
            "×",
            at_least=at_least,
        )
        yield Figure(f"{label}: largest half-width", max(high - low for low, high in curve.intervals) / 2, at_most=0.01)
        yield Figure(f"{label}: half-width for the population at r = 24", curve[24].population.high - curve[24].rate)
    gap = max(abs(a - b) for a, b in zip(curves["hoeffding"].rates, curves["normal"].rates, strict=True))
    yield Figure("largest difference of the two estimates", gap, at_most=0.02)
