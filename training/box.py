"""A trained model and what was measured of it → its folder in the box, with a card."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.inputs.data import Dataset
from holdfast.inputs.models import Classifier
from holdfast.inputs.models.bundled import BOX, CARD

Counts = dict[str, tuple[int, int]]


def empty_folder(name: str) -> Path:
    """A new folder for the model, in place of an old one."""
    folder = BOX / name
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    return folder


def write_card(
    folder: Path, *, kind: str, data: str, description: str, counts: Counts, made_with: tuple[str, ...], **settings: Any
) -> None:
    """Write down what the model is, what was measured and the digests of its files."""
    files = sorted(path for path in folder.iterdir() if path.name != CARD)
    for path in files:
        path.chmod(0o644)  # safetensors writes for the owner alone
    card = {
        "kind": kind,
        "data": data,
        "description": description,
        "counts": counts,
        "settings": settings,
        "made_with": {package: version(package) for package in made_with},
        "files": {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files},
    }
    (folder / CARD).write_text(json.dumps(card, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    size = sum(path.stat().st_size for path in folder.iterdir())
    print(f"{folder.name}: {size / 1e6:.2f} MB")
    for what, (n_correct, n_tested) in counts.items():
        print(f"  {what}: {n_correct} of {n_tested} ({n_correct / n_tested:.1%})", flush=True)


def count_correct(classifier: Classifier, data: Dataset) -> tuple[int, int]:
    """How many inputs of a data set the classifier gets right."""
    return int((classifier.predict(data.inputs).argmax(axis=1) == data.labels).sum()), len(data)


def count_correct_masked(bind: Callable[[Any], Any], data: Dataset, *, keep: float = 0.5) -> tuple[int, int]:
    """The same with each feature of each input shown with probability ``keep``, from seed 0, in order."""
    rng, n_correct = np.random.default_rng(0), 0
    for one, label in data:
        model = bind(one)
        n_correct += int(model((rng.random(model.n_features) < keep)[None]).argmax() == label)
    return n_correct, len(data)
