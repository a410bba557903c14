"""Curves: model calls against 150 per radius at the same per-radius guarantee, on a real network."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import holdfast as hf
from benchmarks import zoo
from benchmarks.figures import Figure
from holdfast.plans import make_plan

N_SELECTED, N_UNSELECTED = 16, 48
RADII = {"16 radii": range(3, 49, 3), "48 radii": range(1, 49)}
PROMISED = {
    ("16 radii", "random"): 4.7,
    ("48 radii", "random"): 7.2,
    ("16 radii", "LIME"): 5.5,
    ("48 radii", "LIME"): 8.2,
}
N_IMAGES = {0.1: 20, 0.05: 20}


def run() -> Iterator[Figure]:
    folder = zoo.find_zoo()
    if folder is None:
        print("  LEFT OUT: needs torch and the zoo (HOLDFAST_ZOO).")
        return
    network = zoo.load_resnet20(folder)
    images = zoo.load_images(folder, N_IMAGES[0.1])
    rng = np.random.default_rng(0)
    models = [zoo.bind_image(network, image) for image in images]
    selections = {"random": [_random(rng) for _ in models], "LIME": [_lime(model, i) for i, model in enumerate(models)]}
    for level in (0.1, 0.05):
        paper = make_plan("hoeffding", tolerance=level, confidence=1 - level).max_draws
        for how, chosen in selections.items():
            for name, radii in RADII.items():
                yield from _curves(level, paper, how, name, radii, models, chosen)


def _curves(level, paper, how, name, radii, models, chosen) -> Iterator[Figure]:
    n = N_IMAGES[level]
    curves = [
        hf.certify_radii(m, s, radii=radii, tolerance=level, confidence=1 - level, batch_size=8192, rng=i)
        for i, (m, s) in enumerate(zip(models[:n], chosen[:n], strict=True))
    ]
    label = f"ε=δ={level:g}, {name}, {how} selections, {n} images"
    factor = paper * len(radii) * n / sum(curve.n_calls for curve in curves)
    at_least = PROMISED.get((name, how)) if level == 0.1 else None
    yield Figure(f"{label}: {paper} per radius over our calls", factor, "×", at_least=at_least)
    yield Figure(f"{label}: mean rate", float(np.mean([curve.rates for curve in curves])))
    rounds = max(curve.n_rounds for curve in curves)
    yield Figure(f"{label}: most rounds (model batches) of a curve", rounds, at_most=12 if level == 0.1 else None)


def _random(rng: np.random.Generator) -> hf.Mask:
    mask = np.zeros(N_SELECTED + N_UNSELECTED, dtype=bool)
    mask[rng.permutation(len(mask))[:N_SELECTED]] = True
    return mask


def _lime(model: hf.MaskedModel, seed: int) -> hf.Mask:
    """The patches that LIME with its 1,000 masks finds most important."""
    return hf.top(hf.attribute(model, "lime", batch_size=512, rng=seed), N_SELECTED)
