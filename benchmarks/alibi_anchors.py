"""Rows and a network in a file → anchors of alibi and their precision, as JSON; run by a Python that has alibi.

``python alibi_anchors.py question.npz``: rows are whole numbers, categories from 0 in every column. Printed last is a
list with, for each row, the columns of its anchor, the precision that the search ended with, and how many of
``n_samples`` further draws of alibi's own sampler keep the prediction.
"""

from __future__ import annotations

import json
import sys
import warnings

import numpy as np


def main(path: str) -> None:
    warnings.simplefilter("ignore")
    from alibi.explainers import AnchorTabular

    question = np.load(path)
    train, rows, n_samples = question["train"], question["rows"], int(question["n_samples"])
    n_levels = int(train.max()) + 1

    def predict(table):
        hot = (np.asarray(table)[:, :, None] == np.arange(n_levels)).reshape(len(table), -1)
        hidden = np.maximum(hot @ question["first"] + question["first_bias"], 0)
        return (hidden @ question["second"] + question["second_bias"]).argmax(axis=1)

    names = [f"column {at}" for at in range(train.shape[1])]
    levels = {at: [str(level) for level in range(n_levels)] for at in range(train.shape[1])}
    explainer = AnchorTabular(predict, names, categorical_names=levels, seed=0)
    explainer.fit(train)
    anchors = []
    for row in rows:
        explanation = explainer.explain(row, threshold=0.9)
        columns = [int(at) for at in explanation.raw["feature"]]
        sampler = explainer.samplers[0]  # as the search left it: it knows this row
        encoded = tuple(code for code, at in sampler.enc2feat_idx.items() if at in columns)
        samples, _, _ = sampler.perturbation(encoded, n_samples)
        kept = int((predict(samples) == predict(row[None])[0]).sum())
        assert (samples[:, columns] == row[columns]).all()
        anchors.append({"columns": columns, "precision": float(explanation.precision), "n_kept": kept})
    print(json.dumps(anchors))


if __name__ == "__main__":
    main(sys.argv[1])
