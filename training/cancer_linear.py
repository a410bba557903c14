"""``cancer-linear``: a logistic regression on the table of tumours, fitted and applied with NumPy alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast import data
from holdfast.inputs.data.dataset import BOX
from holdfast.inputs.models.bundled import load_linear
from training.box import count_correct, empty_folder, write_card

RIDGE = 1.0
"""The penalty on squared weights of standardised columns, as scikit-learn's default."""

N_STEPS = 25
"""Newton's method is at its fixed point long before."""


def main() -> None:
    train, test = data.load("bundled:cancer", split="train"), data.load("bundled:cancer")
    columns = (BOX / "cancer.csv").read_text(encoding="utf-8").splitlines()[0].split(",")[:-1]
    rows = np.asarray(train.inputs)
    means, spreads = rows.mean(axis=0), rows.std(axis=0)
    *standardised, constant = fit((rows - means) / spreads, train.labels == 0)
    weights = np.array(standardised) / spreads
    settings: dict[str, Any] = {
        "classes": list(test.classes),
        "means": dict(zip(columns, means.tolist(), strict=True)),
        "weights": [float(f"{weight:.6g}") for weight in weights],
        "bias": float(f"{constant - weights @ means:.6g}"),
    }
    write_card(
        empty_folder("cancer-linear"),
        kind="table",
        data="bundled:cancer",
        description="logistic regression on the same measurements, in NumPy",
        counts={"test split": count_correct(load_linear(**settings), test)},
        made_with=("numpy",),
        **settings,
    )


def fit(rows: NDArray[np.float64], positive: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The weights of the columns, and a constant, by Newton's method."""
    design = np.c_[rows, np.ones(len(rows))]
    penalty = RIDGE * np.append(np.ones(rows.shape[1]), 0.0)
    weights = np.zeros(design.shape[1])
    for _ in range(N_STEPS):
        share = 1 / (1 + np.exp(-design @ weights))
        gradient = design.T @ (share - positive) + penalty * weights
        curvature = (design * (share * (1 - share))[:, None]).T @ design + np.diag(penalty)
        weights -= np.linalg.solve(curvature, gradient)
    return weights
