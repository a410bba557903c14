"""The heart: start-up, sampler against a loop, overhead of certify over the model itself."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np

import holdfast as hf
from benchmarks.figures import Figure, best_seconds

N_FEATURES, N_SELECTED, N_MASKS = 196, 49, 15_000


def run() -> Iterator[Figure]:
    yield Figure("import holdfast (fresh interpreter, best of 5)", _import_seconds(), "s", at_most=0.3)
    for radius in (5, 50, 147):
        yield Figure(
            f"sampler vs a Python loop, n=196, 15,000 masks, r={radius}", _sampler_ratio(radius), "×", at_least=20
        )
    for plan in ("sequential", "hoeffding"):
        ratio, _ = _overhead(plan, seconds_per_mask=1e-3)
        yield Figure(f"certify vs bare model calls, 1 ms per mask, {plan}", ratio, "×", at_most=1.03)
        _, micros = _overhead(plan, seconds_per_mask=0.0)
        yield Figure(f"overhead per draw, {plan}", micros, "µs", at_most=50)


def _import_seconds() -> float:
    code = "import time; t = time.perf_counter(); import holdfast; print(time.perf_counter() - t)"
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(5)]
    return min(float(run.stdout) for run in runs)


def _sampler_ratio(radius: int) -> float:
    selected = np.arange(N_FEATURES) < N_SELECTED
    nearby = hf.neighborhood.Additions(selected, radius)
    rng = np.random.Generator(np.random.Philox(0))
    ours = best_seconds(lambda: nearby.sample(N_MASKS, rng), repeats=7)
    fewer = N_MASKS // 10
    return 10 * best_seconds(lambda: _loop_sampler(selected, radius, fewer), repeats=3) / ours


def _loop_sampler(selected: hf.Mask, radius: int, n: int) -> list[hf.Mask]:
    """What one writes first: a size, then positions, mask by mask."""
    rng = np.random.Generator(np.random.Philox(0))
    unselected = np.flatnonzero(~selected)
    weights = np.array(
        [hf.neighborhood.Additions(selected, k).exactly(k).size for k in range(radius + 1)], dtype=object
    )
    probability = np.array([float(w) for w in weights / int(weights.sum())])
    masks = []
    for _ in range(n):
        mask = selected.copy()
        mask[rng.choice(unselected, rng.choice(radius + 1, p=probability), replace=False)] = True
        masks.append(mask)
    return masks


class _TimedModel:
    """Takes a given time per mask and remembers how long it was busy in all.

    Its prediction holds fast, so the sequential plan stops at its first look: the fewest draws that
    the fixed cost of a certificate can be spread over.
    """

    n_features = N_FEATURES

    def __init__(self, seconds_per_mask: float) -> None:
        self.seconds_per_mask, self.busy = seconds_per_mask, 0.0

    def __call__(self, masks: hf.Mask, /) -> np.ndarray:
        start = time.perf_counter()
        scores = np.stack([masks[:, :N_SELECTED].sum(axis=1), np.full(len(masks), N_SELECTED - 1)], axis=1)
        while time.perf_counter() - start < self.seconds_per_mask * len(masks):
            pass
        self.busy += time.perf_counter() - start
        return scores


def _overhead(plan: str, *, seconds_per_mask: float) -> tuple[float, float]:
    """Wall time over model time, and microseconds per draw outside the model; best of several runs."""
    selected = np.arange(N_FEATURES) < N_SELECTED
    ratios, micros = [], []
    for seed in range(40):
        model = _TimedModel(seconds_per_mask)
        start = time.perf_counter()
        cert = hf.certify(model, selected, radius=40, plan=plan, rng=seed)
        wall = time.perf_counter() - start
        ratios.append(wall / model.busy)
        micros.append(1e6 * (wall - model.busy) / cert.n_evaluated)
    return min(ratios), min(micros)
