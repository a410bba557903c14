"""The name of a data set that comes with holdfast, or with scikit-learn → a ``Dataset``.

Which rows are the test split is written down in ``box``, with a digest of the data it was written for.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.errors import InvalidValueError
from holdfast.extras import import_extra
from holdfast.inputs.data.dataset import Dataset
from holdfast.validation import check_name

BOX = Path(__file__).parent / "box"
"""Where the splits and the sentences are."""

SPLITS = ("test", "train")

SENTIMENTS = ("negative", "neutral", "positive")
"""The classes of the sentences."""

NAMES = ("digits", "sentences", "cancer")
"""The data sets that come with holdfast."""


def load_bundled(name: str, *, split: str = "test") -> Dataset:
    """The data set of this name, its test split or the rest: handwritten digits as grey bytes (n, 8, 8, 1), sentences
    labelled by those who wrote them for holdfast, or measurements (n, 30) of cell nuclei in breast masses.
    """
    check_name(name, "data", NAMES)
    check_name(split, "split", SPLITS)
    if name == "sentences":
        if split != "test":
            must = "be 'test' for bundled:sentences, which no model is trained on"
            raise InvalidValueError(argument="split", must=must, got=repr(split))
        lines = (BOX / "sentences.tsv").read_text(encoding="utf-8").splitlines()
        labels, texts = zip(*(line.split("\t") for line in lines), strict=True)
        numbers = np.array([SENTIMENTS.index(label) for label in labels], dtype=np.intp)
        return Dataset("bundled:sentences", "text", texts, numbers, SENTIMENTS)
    source = import_extra("sklearn.datasets", "This data needs")
    data = source.load_digits() if name == "digits" else source.load_breast_cancer()
    record = json.loads((BOX / f"{name}.json").read_text(encoding="utf-8"))
    if digest_arrays(data.data, data.target) != record["sha256"]:
        rule = f"bundled:{name} must be the data its test split was chosen from"
        raise InvalidValueError(f"{rule}; this scikit-learn has other data.")
    test = np.array(record["test"], dtype=np.intp)
    rows = test if split == "test" else np.setdiff1d(np.arange(len(data.target)), test)
    kind, inputs = "table", data.data[rows]
    if name == "digits":  # grey levels 0…16
        kind, inputs = "image", np.rint(data.images[rows] * (255 / 16)).astype(np.uint8)[..., None]
    classes = tuple(str(label) for label in data.target_names)
    return Dataset(f"bundled:{name}", kind, inputs, np.asarray(data.target[rows], dtype=np.intp), classes)


def digest_arrays(*arrays: Any) -> str:
    """SHA-256 of numbers as little-endian float64, whatever type they came in."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array, dtype="<f8").tobytes())
    return digest.hexdigest()
