"""Choose the test splits of the bundled data, a quarter of each class, and write them down."""

from __future__ import annotations

import json

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import train_test_split

from holdfast.inputs.data.dataset import BOX, digest_arrays


def main() -> None:
    for name, read in {"digits": load_digits, "cancer": load_breast_cancer}.items():
        inputs, labels = read(return_X_y=True)
        _, test = train_test_split(np.arange(len(labels)), test_size=0.25, stratify=labels, random_state=0)
        record = {"sha256": digest_arrays(inputs, labels), "test": test.tolist()}
        (BOX / f"{name}.json").write_text(json.dumps(record) + "\n", encoding="utf-8")
        print(f"{name}: {len(test)} of {len(labels)} rows are for testing")
