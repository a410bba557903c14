"""Claims: how often seeded runs say something false at the hardest points; the promise is at most δ.

A run count of 2,000 gives a standard error of .0067 at a true rate of .1, so a valid procedure that
sits exactly at its limit is seen above .12 less than once in 700 such figures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

import holdfast as hf
from benchmarks.figures import Figure

N_RUNS, RISK = 2_000, 0.1
SEEN_LIMIT = RISK + 3 * (RISK * (1 - RISK) / N_RUNS) ** 0.5
N = 12
MASKS = (np.arange(2**N)[:, None] >> np.arange(N) & 1).astype(bool)
FIRST, SECOND = np.arange(N) < 2, (np.arange(N) >= 2) & (np.arange(N) < 4)


def run() -> Iterator[Figure]:
    below = _model_with_rates({2: 1.0, 3: 0.899})
    yield _figure(
        "certified_radius: false claims, rate just below t at the first radius",
        lambda seed: hf.certified_radius(below, FIRST, min_rate=0.9, radii=[3], rng=seed).radius > 0,
    )
    yield _figure(
        "certified_radius: false claims, rate just below t at the second radius",
        lambda seed: hf.certified_radius(below, FIRST, min_rate=0.9, radii=[2, 3], rng=seed).radius > 2,
    )
    curve_rates = {r: _rate(below, r) for r in range(1, 11)}
    yield _figure(
        "certify_radii: per-radius miss, worst of 10 radii",
        lambda seed: _misses(below, curve_rates, seed, simultaneous=False),
        per_radius=True,
    )
    yield _figure(
        "certify_radii(simultaneous=True): any of 10 radii missed",
        lambda seed: any(_misses(below, curve_rates, seed, simultaneous=True)),
    )
    for plan in ("exact", "sequential"):
        yield _figure(
            f"compare, plan {plan}: a ranking claimed between equal rates", lambda seed, p=plan: _ranks(p, seed)
        )


def _figure(name: str, is_false: Callable[[int], object], *, per_radius: bool = False) -> Figure:
    answers = np.array([is_false(seed) for seed in range(N_RUNS)])
    share = float(answers.mean(axis=0).max()) if per_radius else float(answers.mean())
    return Figure(f"{name} ({N_RUNS} runs)", share, at_most=round(SEEN_LIMIT, 4))


def _model_with_rates(rates: dict[int, float]) -> hf.MaskedModel:
    """Labels such that Δ_r of FIRST keeps at most the given share: the flips sit in the largest ring."""
    rng = np.random.default_rng(0)
    labels = np.zeros(2**N, dtype=int)
    for radius, rate in rates.items():
        ring = np.flatnonzero(MASKS[:, FIRST].all(axis=1) & (MASKS.sum(axis=1) == FIRST.sum() + radius))
        size = hf.neighborhood.Additions(FIRST, radius).size
        labels[rng.permutation(ring)[: int(np.ceil(size * (1 - rate) - 1e-9))]] = 1
    far = MASKS.sum(axis=1) > FIRST.sum() + max(rates)
    labels[far] = rng.random(far.sum()) < 0.12
    return hf.lookup_table(labels, n_features=N)


def _rate(model: hf.MaskedModel, radius: int) -> float:
    masks = next(hf.neighborhood.Additions(FIRST, radius).enumerate(2**N))
    return float(np.mean(model(masks) == model(FIRST[None])))


def _misses(model: hf.MaskedModel, rates: dict[int, float], seed: int, *, simultaneous: bool) -> list[bool]:
    curve = hf.certify_radii(model, FIRST, radii=rates, simultaneous=simultaneous, rng=seed)
    return [not one.interval.low - 1e-9 <= rates[one.radius] <= one.interval.high + 1e-9 for one in curve]


def _symmetric_model() -> hf.MaskedModel:
    """A random model that cannot tell FIRST from SECOND: their rates are equal at every radius."""
    swapped = MASKS[:, [2, 3, 0, 1, *range(4, N)]] @ (1 << np.arange(N))
    values = np.random.default_rng(1).random(2**N)
    labels = (values + values[swapped] > 0.8).astype(int)
    return hf.lookup_table(labels, n_features=N)


EQUAL = _symmetric_model()


def _ranks(plan: str, seed: int) -> bool:
    table = hf.compare(EQUAL, {"a": FIRST, "b": SECOND}, [4], plan=plan, rng=seed)
    return len(table.ranking(4)) > 0
