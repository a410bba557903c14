"""``cancer-forest``: a random forest on scikit-learn's breast cancer table, the same skops file every time."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from typing import Any

import skops.io
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

from holdfast import data
from holdfast.inputs.models.bundled import FOREST, load_forest
from training.box import count_correct, empty_folder, write_card

N_TREES = 100
_EPOCH = (1980, 1, 1, 0, 0, 0)


def main() -> None:
    train, test = data.load("bundled:cancer", split="train"), data.load("bundled:cancer")
    forest = RandomForestClassifier(n_estimators=N_TREES, random_state=0).fit(train.inputs, train.labels)
    folder = empty_folder("cancer-forest")
    write_skops(forest, folder / FOREST)
    columns = [str(name) for name in load_breast_cancer().feature_names]
    settings: dict[str, Any] = {
        "classes": list(test.classes),
        "means": dict(zip(columns, train.inputs.mean(axis=0).tolist(), strict=True)),
    }
    write_card(
        folder,
        kind="table",
        data="bundled:cancer",
        description="random forest on 30 measurements of cell nuclei",
        counts={"test split": count_correct(load_forest(folder, **settings), test)},
        made_with=("scikit-learn", "skops"),
        **settings,
    )


def write_skops(estimator: Any, path: Path) -> None:
    """Write a skops file whose objects are numbered from 0 instead of by memory address, without the time of day."""
    skops.io.dump(estimator, path)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    schema = parts.pop("schema.json").decode()
    numbers: dict[str, str] = {}
    schema = re.sub(r'(?<="__id__": )\d+|(?<=")\d+(?=\.npy")', lambda m: _number(numbers, m.group()), schema)
    renamed = {f"{numbers[name.removesuffix('.npy')]}.npy": content for name, content in parts.items()}
    with zipfile.ZipFile(path, "w") as archive:
        for name in sorted(renamed, key=lambda name: int(name.removesuffix(".npy"))):
            _add(archive, name, renamed[name])
        _add(archive, "schema.json", schema.encode())


def _number(numbers: dict[str, str], address: str) -> str:
    return numbers.setdefault(address, str(len(numbers)))


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    archive.writestr(zipfile.ZipInfo(name, _EPOCH), content, zipfile.ZIP_DEFLATED, 9)
