"""Hypothesis strategies: explanations, radii, batches of masks and lookup tables."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from holdfast import MaskedModel, lookup_table

KINDS = ("additions", "removals", "swaps")

kinds = st.sampled_from(KINDS)


def masks(min_features: int = 1, max_features: int = 8) -> st.SearchStrategy[NDArray[np.bool_]]:
    """One mask, empty and full ones included."""
    return st.lists(st.booleans(), min_size=min_features, max_size=max_features).map(lambda bits: np.array(bits))


def radii(max_radius: int = 10) -> st.SearchStrategy[int]:
    """A radius, also far beyond the number of features."""
    return st.integers(0, max_radius) | st.just(10**6)


def mask_batches(n_features: int, max_rows: int = 40) -> st.SearchStrategy[NDArray[np.bool_]]:
    """Masks (b, n_features) with many repeats; possibly a single row."""
    codes = st.lists(st.integers(0, 2**n_features - 1), min_size=1, max_size=max_rows)
    return codes.map(lambda rows: (np.array(rows)[:, None] >> np.arange(n_features) & 1).astype(bool))


def score_rows(n_classes: int, min_size: int, max_size: int) -> st.SearchStrategy[NDArray[np.float64]]:
    """Scores (b, n_classes) of few distinct values, so that ties are common."""
    value = st.sampled_from([-2.0, -0.5, 0.0, 0.5, 1.0])
    row = st.lists(value, min_size=n_classes, max_size=n_classes)
    return st.lists(row, min_size=min_size, max_size=max_size).map(np.array)


def score_tables(n_features: int, n_classes: int = 3) -> st.SearchStrategy[MaskedModel]:
    """A lookup table of scores, with ties."""
    rows = score_rows(n_classes, 2**n_features, 2**n_features)
    return rows.map(lambda values: lookup_table(values, n_features=n_features))


def label_tables(n_features: int, labels: tuple[Any, ...] = ("cat", "dog", "")) -> st.SearchStrategy[MaskedModel]:
    """A lookup table of labels."""
    rows = st.lists(st.sampled_from(labels), min_size=2**n_features, max_size=2**n_features)
    return rows.map(lambda values: lookup_table(values, n_features=n_features))


def tables(n_features: int) -> st.SearchStrategy[MaskedModel]:
    """A lookup table of scores or of labels."""
    return score_tables(n_features) | label_tables(n_features)


@st.composite
def questions(draw: st.DrawFn, max_features: int = 6) -> tuple[MaskedModel, NDArray[np.bool_], int]:
    """A table, an explanation and a radius that belong together."""
    selected = draw(masks(max_features=max_features))
    return draw(tables(len(selected))), selected, draw(radii(max_features + 2))
