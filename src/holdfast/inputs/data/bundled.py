"""The name of a data set that comes with holdfast, or with scikit-learn → a ``Dataset``.

Which rows are the test split is written down in ``box``, with a digest of the data it was written for.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidValueError
from holdfast.extras import import_extra
from holdfast.inputs.data.dataset import Dataset
from holdfast.validation import check_name

BOX = Path(__file__).parent / "box"
"""Where the splits and the sentences are."""

SPLITS = ("test", "train")

SENTIMENTS = ("negative", "neutral", "positive")
"""The classes of the sentences."""

_BRIGHTEST = 16
"""Digits are grey levels 0…16."""


def load_bundled(name: str, *, split: str = "test") -> Dataset:
    """The data set of this name: its test split, or the rest."""
    make = _MAKERS[check_name(name, "bundled:", _MAKERS)]
    return make(check_name(split, "split", SPLITS))


def digest_arrays(*arrays: Any) -> str:
    """SHA-256 of numbers as little-endian float64, whatever type they came in."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array, dtype="<f8").tobytes())
    return digest.hexdigest()


def _digits(split: str) -> Dataset:
    """Handwritten digits as grey bytes (n, 8, 8, 1)."""
    data = import_extra("sklearn.datasets", "This data needs").load_digits()
    rows = split_rows("digits", split, data.data, data.target)
    bytes_ = np.rint(data.images[rows] * (255 / _BRIGHTEST)).astype(np.uint8)[..., None]
    return _dataset("digits", "image", bytes_, data.target[rows], data.target_names)


def _cancer(split: str) -> Dataset:
    """Measurements (n, 30) of cell nuclei in breast masses."""
    data = import_extra("sklearn.datasets", "This data needs").load_breast_cancer()
    rows = split_rows("cancer", split, data.data, data.target)
    return _dataset("cancer", "table", data.data[rows], data.target[rows], data.target_names)


def _sentences(split: str) -> Dataset:
    """Sentences written for holdfast, labelled by those who wrote them."""
    if split != "test":
        must = "be 'test' for bundled:sentences, which no model is trained on"
        raise InvalidValueError(argument="split", must=must, got=repr(split))
    lines = (BOX / "sentences.tsv").read_text(encoding="utf-8").splitlines()
    labels, texts = zip(*(line.split("\t") for line in lines), strict=True)
    return _dataset("sentences", "text", texts, [SENTIMENTS.index(label) for label in labels], SENTIMENTS)


_MAKERS: dict[str, Callable[[str], Dataset]] = {"digits": _digits, "sentences": _sentences, "cancer": _cancer}

NAMES = tuple(_MAKERS)
"""The data sets that come with holdfast."""


def split_rows(name: str, split: str, inputs: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.intp]:
    """The rows of a split, after a check that the data are those the split was written for."""
    record = json.loads((BOX / f"{name}.json").read_text(encoding="utf-8"))
    if digest_arrays(inputs, labels) != record["sha256"]:
        raise InvalidValueError(
            f"bundled:{name} must be the data its test split was chosen from; this scikit-learn has other data."
        )
    test = np.array(record["test"], dtype=np.intp)
    return test if split == "test" else np.setdiff1d(np.arange(len(labels)), test)


def _dataset(name: str, kind: str, inputs: Any, labels: Any, classes: Any) -> Dataset:
    return Dataset(f"bundled:{name}", kind, inputs, np.asarray(labels, dtype=np.intp), tuple(map(str, classes)))
