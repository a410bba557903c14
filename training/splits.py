"""Choose the test splits of the bundled data, a quarter of each class, and write them and the table of tumours down."""

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
        if name == "cancer":
            columns = [*(str(column) for column in read().feature_names), "benign"]
            rows = [[*map(repr, map(float, row)), str(label)] for row, label in zip(inputs, labels, strict=True)]
            lines = [",".join(fields) for fields in [columns, *rows]]
            (BOX / "cancer.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        print(f"{name}: {len(test)} of {len(labels)} rows are for testing")
