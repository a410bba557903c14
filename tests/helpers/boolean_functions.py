"""Boolean functions to test with: any small table, and batches with an explanation each."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from hypothesis import strategies as st

from holdfast import boolean
from holdfast.boolean import tables
from tests.helpers.boolean_oracles import Array, Batch

FORMS = ("sharp", "termwise", "factor")


def basis_matrix(n: int, name: str, p: Any = 0.5) -> Array:
    """Value of the basis function of every set (columns) at every mask (rows), from the definitions."""
    bits = tables.all_masks(n).astype(float)
    share = np.broadcast_to(p, n)
    parts = {
        "fourier": 1 - 2 * bits,
        "monotone": bits,
        "biased": (share - bits) / np.sqrt(share - share**2),
    }[name]
    return np.where(bits[None, :, :] > 0, parts[:, None, :], 1.0).prod(axis=2)


@st.composite
def real_tables(draw: st.DrawFn, max_features: int = 8) -> Array:
    """Tables (2**n,) or (2**n, c) of small, usual or large numbers."""
    n = draw(st.integers(0, max_features))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    shape = (2**n,) if draw(st.booleans()) else (2**n, draw(st.integers(1, 3)))
    return rng.standard_normal(shape) * draw(st.sampled_from([1e-6, 1.0, 1e6]))


shares = st.floats(0.01, 0.99)


def mask_of(row: int, n: int) -> Array:
    """The mask of this row of a table."""
    return tables.all_masks(n, row, row + 1)[0]


@cache
def random_batches(n_batches: int, n_functions: int, seed: int) -> list[tuple[Batch, Array, float, float]]:
    """Functions with values in [0, 1], some smooth and some not, and an explanation that selects something."""
    rng, batches = np.random.default_rng(seed), []
    for _ in range(n_batches):
        n = int(rng.integers(2, 7))
        alpha = int(rng.integers(1, 2**n - 1))
        radius = int(rng.integers(1, n + 1))
        sizes = boolean.degrees(n)
        decay = rng.choice([0.2, 0.5, 1.0], size=n_functions)[:, None]
        weights = rng.standard_normal((n_functions, 2**n)) * decay ** sizes.astype(float)
        functions = boolean.inverse_monotone(weights.T).T
        functions -= functions.min(axis=1, keepdims=True)
        functions /= functions.max(axis=1, keepdims=True)
        margin, keep = float(rng.choice([0.1, 0.25, 0.5])), float(rng.random())
        batches.append((Batch(functions, alpha, radius), mask_of(alpha, n), margin, keep))
    return batches


def check_bounds(batches: list[tuple[Batch, Array, float, float]]) -> tuple[int, dict[str, int]]:
    """Every bound is the naive sum and at most the rate: how many functions, and how many bounds above 0 by form."""
    n_seen, positive = 0, dict.fromkeys(("plain", *FORMS), 0)
    for batch, selected, margin, lam in batches:
        size, smoothed = len(batch.near), batch.smoothed(lam)
        wanted = {
            "plain": (1 - batch.total() / (size * margin), 1 - batch.n_changed(margin, strict=True) / size),
            "sharp": (1 - smoothed.total() / (size * margin), 1 - smoothed.n_changed(margin, strict=True) / size),
        }
        for form in ("termwise", "factor"):
            wanted[form] = (1 - batch.total_of_all(lam, form) / (size * margin), wanted["sharp"][1])
        for row, h in enumerate(batch.functions):
            given_ = {"radius": batch.radius, "margin": margin}
            seen = {
                form: boolean.smoothed_stability_bound(h, selected, **given_, keep_probability=lam, form=form)
                for form in FORMS
            } | {"plain": boolean.stability_bound(h, selected, **given_)}
            for form, (reference, rate) in wanted.items():
                assert np.isclose(seen[form], reference[row], rtol=1e-9, atol=1e-9)
                assert seen[form] <= rate[row] + 1e-12
                positive[form] += seen[form] > 0
            n_seen += 1
    return n_seen, positive
