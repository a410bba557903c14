"""What tests of several explainers share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest


@pytest.fixture
def seeded() -> Iterator[None]:
    """Shap draws from NumPy's global generator, which is put back afterwards."""
    state = np.random.get_state()  # noqa: NPY002
    np.random.seed(0)  # noqa: NPY002
    yield
    np.random.set_state(state)  # noqa: NPY002


@pytest.fixture(scope="session")
def forest() -> Any:
    """A small forest of three classes on 13 measurements, and its rows."""
    from sklearn.datasets import load_wine
    from sklearn.ensemble import RandomForestClassifier

    rows, labels = load_wine(return_X_y=True)
    return RandomForestClassifier(5, random_state=0).fit(rows, labels), rows
