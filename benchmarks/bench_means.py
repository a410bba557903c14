"""Means: model calls of a data set's mean curve within ±.01 against 150 per input and radius.

A thousand handwritten digits, 64 features, explanations of 16, all 48 radii: by LIME, whose rates are near 1, and
random ones, whose rates are anywhere. The digits are the test split and the first of the training split. Then inputs
alike at one radius, against the draws of Hoeffding's inequality.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

import holdfast as hf
from benchmarks.figures import Figure

N_INPUTS, N_RADII, PAPER, HALF, RISK = 1000, 48, 150, 0.01, 0.05
PROMISED = {"lime": 60, "random": 40}
GAINS = {0.5: 0.95, 0.9: 2.2, 0.95: 3.4, 0.99: 8.0}
"""Of Hoeffding's draws over ours, by the rate of all inputs."""


def run() -> Iterator[Figure]:
    import torch

    from holdfast import data

    torch.set_num_threads(1)
    classifier = hf.models.load("bundled:digits-resnet")
    images = np.concatenate([data.load("bundled:digits", split=split).inputs for split in ("test", "train")])
    for method, at_least in PROMISED.items():
        n_samples = {"lime": 500}.get(method)
        chosen = [
            hf.top(hf.attribute(classifier.bind(image, groups=(8, 8)), method, n_samples=n_samples, rng=i), 16)
            for i, image in enumerate(images[:N_INPUTS])
        ]
        subjects = [
            lambda image=image, selected=selected: (classifier.bind(image, groups=(8, 8)), selected)
            for image, selected in zip(images[:N_INPUTS], chosen, strict=True)
        ]
        curve = hf.mean_curve(subjects, radii=range(1, N_RADII + 1), half_width=HALF, batch_size=256, rng=0)
        label = f"{method}, ±.01 at 95 %"
        ratio = PAPER * N_RADII * N_INPUTS / curve.n_calls
        yield Figure(f"{label}: model calls", curve.n_calls)
        yield Figure(f"{label}: {PAPER} per input and radius over our calls", ratio, "×", at_least=at_least)
        ends = [(mean.rate, *mean.interval) for mean in curve]
        widest = max(max(rate - low, high - rate) for rate, low, high in ends)
        yield Figure(f"{label}: farthest end of an interval from its rate", widest, at_most=HALF)
        yield Figure(f"{label}: half-width for the population at r = 24", curve[24].population.high - curve[24].rate)
    for rate, at_least in GAINS.items():
        yield Figure(f"all inputs at {rate:g}: Hoeffding's draws over ours", _gain(rate), "×", at_least=at_least)


def _gain(rate: float) -> float:
    """The mean of five runs over fifty inputs, each of whose masks but the explanation agrees with this probability."""
    rng, selected = np.random.default_rng(0), np.arange(14) < 1
    subjects = []
    for _ in range(50):
        labels = rng.random(2**14) < rate
        labels[1] = True  # the explanation itself
        table = hf.lookup_table(labels, n_features=14)
        subjects.append(lambda table=table: (table, selected))
    asked = {"radii": [13], "half_width": HALF, "confidence": 1 - RISK}
    draws = [hf.mean_curve(subjects, rng=seed, **asked).n_draws for seed in range(5)]
    return math.log(2 / RISK) / (2 * HALF**2) / float(np.mean(draws))
