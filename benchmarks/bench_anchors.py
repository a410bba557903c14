"""Anchors: alibi's precision of its own anchors beside the rate at radius 0 with random fills, on the same rows.

alibi's sampler draws whole training rows and puts the anchor's values into them. Where all columns are categories that
is ``resample(train)`` at radius 0, whose rate over all rows is known exactly. The precision that its search states is
another number: as its code reads, draws for shorter anchors that happen to have a further value count for the longer
one, and these are rows that have it by themselves. alibi is run by a Python of its own, which ``HOLDFAST_ALIBI`` names.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

import holdfast as hf
from benchmarks.figures import Figure
from holdfast.bounds import clopper_pearson

N_ROWS, N_SAMPLES, N_LEVELS, N_SEEDS = 20, 2_000, 4, 50


def run() -> Iterator[Figure]:
    python = os.environ.get("HOLDFAST_ALIBI")
    if not python or not Path(python).exists():
        print("  LEFT OUT: no alibi (set HOLDFAST_ALIBI to the Python of an environment that has it)")
        return
    question = _network()
    anchors = _anchors(python, question)
    exact, matching, drawn = [], [], []
    for row, anchor in zip(question["rows"], anchors, strict=True):
        selected = np.isin(np.arange(len(row)), anchor["columns"])
        n_matching = int((question["train"] == row)[:, selected].all(axis=1).sum())
        exact.append(_exact_rate(question, row, selected))
        matching.append(_exact_rate(question, row, selected, nearest=n_matching) if n_matching else None)
        model = hf.mask_tabular(_classifier(question), row, fill=hf.resample(question["train"]))
        drawn.append([hf.certify(model, selected, radius=0, rng=seed) for seed in range(N_SEEDS)])
    yield Figure(f"columns per anchor, {N_ROWS} rows", float(np.mean([len(anchor["columns"]) for anchor in anchors])))
    yield from _agreement(exact, [int(anchor["n_kept"]) for anchor in anchors])
    missed = [
        not certificate.interval.low <= rate <= certificate.interval.high
        for rate, certificates in zip(exact, drawn, strict=True)
        for certificate in certificates
    ]
    name = f"our intervals (±0.1 at 0.9) that miss the exact rate, of {len(missed)}"
    yield Figure(name, float(np.mean(missed)), at_most=0.1)
    n_calls = [certificate.n_calls for certificates in drawn for certificate in certificates]
    yield Figure("model calls of such a certificate", float(np.mean(n_calls)))
    stated = [float(anchor["precision"]) for anchor in anchors]
    beyond = np.array(stated) - np.array(exact, dtype=float)
    yield Figure("precision that alibi's search states, above the exact rate: mean", float(beyond.mean()))
    yield Figure("the same: largest", float(beyond.max()))
    known = [abs(said - float(rate)) for said, rate in zip(stated, matching, strict=True) if rate is not None]
    yield Figure(
        f"the same, from the rate over rows with these values ({len(known)} anchors): mean", float(np.mean(known))
    )


def _exact_rate(question: dict[str, Any], row: Any, selected: Any, nearest: int | None = None) -> Fraction:
    """The rate at radius 0 over all training rows, or over the nearest, which are those with the anchor's values."""
    fill = hf.resample(question["train"], nearest=nearest)
    certificate = hf.certify(
        hf.mask_tabular(_classifier(question), row, fill=fill), selected, radius=0, tolerance=0.02, rng=0
    )
    assert certificate.exact
    return Fraction(certificate.n_agreed, certificate.n_evaluated)


def _agreement(exact: list[Fraction], kept: list[int]) -> Iterator[Figure]:
    """alibi's sampler against the exact rate: two-sided exact intervals, which all hold with probability .99."""
    level = 1 - Fraction(1, 100) / len(exact)
    intervals = [clopper_pearson(count, N_SAMPLES, confidence=level) for count in kept]
    outside = [not low <= rate <= high for rate, (low, high) in zip(exact, intervals, strict=True)]
    yield Figure(f"anchors whose exact rate is outside alibi's interval of {N_SAMPLES} draws", sum(outside), at_most=0)
    gaps = [abs(count / N_SAMPLES - float(rate)) for count, rate in zip(kept, exact, strict=True)]
    yield Figure("largest difference of alibi's draws from the exact rate", max(gaps))


def _network() -> dict[str, Any]:
    """A table of categories, 20 of its rows, and a small network on them, as plain arrays."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.neural_network import MLPClassifier

    values, labels = load_breast_cancer(return_X_y=True)
    values = values[:, :10]
    cuts = np.quantile(values, np.arange(1, N_LEVELS) / N_LEVELS, axis=0)
    table = (values[:, None, :] > cuts).sum(axis=1)
    order = np.random.default_rng(0).permutation(len(table))
    train, rest = order[:400], order[400:]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        network = MLPClassifier((16,), max_iter=400, random_state=0).fit(_one_hot(table[train]), labels[train])
    first, second = network.coefs_
    biases = network.intercepts_
    # One score of the second class becomes two.
    second, bias = np.concatenate([-second, second], axis=1), np.concatenate([-biases[1], biases[1]])
    arrays = {"first": first, "first_bias": biases[0], "second": second, "second_bias": bias}
    return arrays | {"train": table[train], "rows": table[rest[:N_ROWS]], "n_samples": np.array(N_SAMPLES)}


def _one_hot(table: Any) -> Any:
    return (np.asarray(table)[:, :, None] == np.arange(N_LEVELS)).reshape(len(table), -1)


def _classifier(question: dict[str, Any]) -> Any:
    def scores(table: Any) -> Any:
        hidden = np.maximum(_one_hot(table) @ question["first"] + question["first_bias"], 0)
        return hidden @ question["second"] + question["second_bias"]

    return scores


def _anchors(python: str, question: dict[str, Any]) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "question.npz"
        np.savez(path, **question)
        script = Path(__file__).with_name("alibi_anchors.py")
        own = {"PATH": os.environ.get("PATH", ""), "OMP_NUM_THREADS": "1", "HOME": folder}
        done = subprocess.run(
            [python, str(script), str(path)], capture_output=True, text=True, check=True, cwd=folder, env=own
        )
    anchors: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return anchors
