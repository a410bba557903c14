"""Bundled models: time to load, accuracy on their test inputs, and a certificate from end to end."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator

import numpy as np

import holdfast as hf
from benchmarks.figures import Figure, best_seconds
from holdfast.inputs.models import BundledModel, Classifier, available

NEEDED = ("torch", "transformers", "skops", "vaderSentiment")
LOAD_SECONDS = 2.0
DIGITS_ACCURACY = 0.97
MASKED_GAIN = 0.15

COLD = """
import time
start = time.perf_counter()
import holdfast
holdfast.models.load({spec!r})
print(time.perf_counter() - start)
"""


def run() -> Iterator[Figure]:
    missing = [package for package in NEEDED if importlib.util.find_spec(package) is None]
    if missing:
        print(f"  LEFT OUT: bundled models (no {', '.join(missing)})")
        return
    import torch

    torch.set_num_threads(1)
    for card in available():
        yield from _figures(card)
    yield from _gains()


def _figures(card: BundledModel) -> Iterator[Figure]:
    spec = f"bundled:{card.name}"
    classifier = hf.models.load(spec)
    seconds = best_seconds(lambda: hf.models.load(spec), repeats=3)
    yield Figure(f"{card.name}: load, its framework imported", seconds, "s", at_most=LOAD_SECONDS)
    yield Figure(f"{card.name}: load in a new process, imports included", _cold_seconds(spec), "s")
    least = DIGITS_ACCURACY if card.data == "bundled:digits" else None
    yield Figure(f"{card.name}: accuracy", _accuracy(card, classifier), at_least=least)
    yield _certificate(card, classifier)


def _cold_seconds(spec: str) -> float:
    found = subprocess.run([sys.executable, "-c", COLD.format(spec=spec)], check=True, capture_output=True, text=True)
    return float(found.stdout)


def _accuracy(card: BundledModel, classifier: Classifier) -> float:
    data = hf.data.load(card.data)
    found = float((classifier.predict(data.inputs).argmax(axis=1) == data.labels).mean())
    n_tested = len(data)
    if abs(found - card.accuracy) * n_tested > 1.5:
        raise AssertionError(f"{card.name}: {found:.4f} of {n_tested} are right, its card says {card.accuracy:.4f}")
    return found


def _certificate(card: BundledModel, classifier: Classifier) -> Figure:
    model = classifier.bind(hf.data.load(card.data).inputs[0])
    selected = hf.top(np.random.default_rng(0).random(model.n_features), max(1, model.n_features // 4))
    certificate = hf.certify(model, selected, radius=3, rng=0)
    seconds = best_seconds(lambda: hf.certify(model, selected, radius=3, rng=0), repeats=3)
    return Figure(
        f"{card.name}: a certificate ({model.n_features} features, {certificate.n_calls} calls)", seconds, "s"
    )


def _gains() -> Iterator[Figure]:
    """What training with hidden pixels is good for, as the cards record it and the tests find it again."""
    cards = {card.name: card for card in available()}
    plain, masked = cards["digits-vit"].counts, cards["digits-vit-masked"].counts
    for what in plain:
        if "hidden" in what:
            gain = masked[what][0] / masked[what][1] - plain[what][0] / plain[what][1]
            yield Figure(f"digits-vit-masked over digits-vit, {what}: accuracy gained", gain, at_least=MASKED_GAIN)
