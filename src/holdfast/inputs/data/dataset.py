"""Inputs, their labels and what the labels are called: one frozen value, loaded by a name.

The data that come with holdfast, or with scikit-learn, are loaded here. Which of their rows are the test split is
written down in ``box``, with a digest of the data it was written for.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, is_dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidValueError
from holdfast.extras import import_extra
from holdfast.inputs.source import load_source
from holdfast.validation import check_list, check_name, shown

UNKNOWN = -1
"""The label of an input of which nobody says what it is."""

_MOST_DIGITS = 6  # whole numbers of so many digits are taken for names, not for numbers of classes


BOX = Path(__file__).parent / "box"
"""Where the splits, the sentences, the contexts and the table of tumours are."""

SPLITS = ("test", "train")

SENTIMENTS = ("negative", "neutral", "positive")
"""The classes of the sentences."""

TUMOURS = ("malignant", "benign")
"""The classes of the table of tumours, in the order of their numbers."""

NAMES = ("digits", "sentences", "cancer", "contexts", "photos")
"""The data sets that come with holdfast."""

PHOTOS = {
    "chelsea": "tabby",
    "coffee": "espresso",
    "china": "palace",
    "rocket": None,
    "astronaut": None,
    "flower": None,
}
"""The photographs of scikit-image and scikit-learn, each with the class of ImageNet that it shows, if there is one."""

PHOTO_GRID = (7, 7)
"""Rows and columns of patches that photographs are cut into where nothing else is asked: large enough to be told."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """Inputs of one kind with their labels; iterating gives pairs (input, label).

    Attributes
    ----------
    name : str
        What it is loaded by.
    kind : {"image", "text", "table", "context"}
        What the inputs are.
    inputs : array (n, height, width, channels), array (n, n_columns), or sequence of n inputs
        What a ``Classifier`` of the kind takes. Arrays are read-only. Images in files are opened when
        they are asked for, each time anew; one that cannot be read raises an error that names it.
    labels : whole numbers (n,)
        The right class of each input, as an index into ``classes``; -1 where it is not known.
    classes : tuple of str
        The names of the classes.
    names : tuple of n str, optional
        What each input is called, such as the name of its file.
    background : array (m, n_columns) or data frame, optional
        Of a table: rows that hidden columns are filled from.

    Examples
    --------
    >>> data = Dataset("moods", "text", ("fine", "awful"), np.array([1, 0]), ("bad", "good"))
    >>> [(text, data.classes[label]) for text, label in data]
    [('fine', 'good'), ('awful', 'bad')]
    """

    name: str
    kind: str
    inputs: Sequence[Any] | NDArray[Any] = field(repr=False)
    labels: NDArray[np.intp] = field(repr=False)
    classes: tuple[str, ...]
    names: tuple[str, ...] | None = field(default=None, repr=False)
    background: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for name, entries in (("labels", self.labels), ("names", self.names)):
            if entries is not None and len(entries) != len(self.inputs):
                must = f"have one entry per input, {len(self.inputs)}"
                raise InvalidValueError(argument=name, must=must, got=len(entries))
        for name, values in (("inputs", self.inputs), ("labels", self.labels)):
            if isinstance(values, np.ndarray):  # a view is locked: the caller's own array stays as it is
                view = values.view()
                view.setflags(write=False)
                object.__setattr__(self, name, view)

    def __len__(self) -> int:
        return len(self.labels)

    def __iter__(self) -> Iterator[tuple[Any, int]]:
        return zip(self.inputs, (int(label) for label in self.labels), strict=True)

    def take(self, places: Sequence[int]) -> Dataset:
        """Some of the inputs, by their places, under the names that they have."""
        at = list(places)
        if isinstance(self.inputs, np.ndarray):
            chosen: Any = self.inputs[at]
        elif hasattr(self.inputs, "take"):
            chosen = self.inputs.take(at)
        else:
            chosen = tuple(self.inputs[place] for place in at)
        names = tuple(self.name_of(place) for place in at)
        return replace(self, inputs=chosen, labels=self.labels[at], names=names)

    @property
    def in_files(self) -> bool:
        """Whether each input is in a file of its own, which is opened when it is asked for."""
        return bool(getattr(self.inputs, "in_files", False))

    def digest(self, index: int) -> str | None:
        """What tells whether an input is still the same, read from its file if it has one; None if nothing does."""
        if hasattr(self.inputs, "digest"):
            return cast("str | None", self.inputs.digest(index))
        value = self.inputs[index]
        if isinstance(value, str) or is_dataclass(value):  # a text, or a question with its passages
            return digest_bytes((value if isinstance(value, str) else repr(value)).encode())
        if hasattr(value, "detach"):  # a tensor
            value = value.detach().cpu().numpy()
        return digest_bytes(np.ascontiguousarray(value).tobytes()) if hasattr(value, "__array__") else None

    def name_of(self, index: int) -> str:
        """What an input is called, or its number."""
        return str(index) if self.names is None else self.names[index]

    def label_of(self, index: int, classes: tuple[str, ...] = ()) -> int | None:
        """The right class of an input, or None if it is not known.

        In ``classes`` of another order, such as a classifier's, it is looked up by its name; its number is kept
        where the names do not match.
        """
        label = int(self.labels[index])
        if label < 0:
            return None
        return classes.index(self.classes[label]) if classes and set(self.classes) <= set(classes) else label

    def number_of(self, index: int) -> float | None:
        """The number that the label of an input says, for a model that gives numbers; None if it says none."""
        label = int(self.labels[index])
        if label < 0:
            return None
        with suppress(ValueError):
            number = float(self.classes[label] if self.classes else label)
            if math.isfinite(number):
                return number + 0.0  # files of results hold no negative zero
        return None


def load(spec: str, **options: Any) -> Dataset:
    """Load inputs with their labels from what names them.

    Parameters
    ----------
    spec : str
        ``bundled:digits``, ``bundled:sentences``, ``bundled:cancer``, ``bundled:contexts`` or ``bundled:photos``:
        the inputs that come with holdfast. ``images:<folder>``: image files, in a folder per class.
        ``tweeteval:<folder>``: texts and labels, line by line. ``table:<file>``: rows of a ``.csv`` or
        ``.parquet`` file. ``contexts:<file>``: questions with their passages, a JSON object per line.
        ``hf:<folder>``: what the ``datasets`` library saved to disk.
    **options
        ``bundled``: ``split`` ("test": inputs no bundled model was trained on; or "train").
        ``images``: ``labels`` (a CSV file with the columns file and label), ``classes``.
        ``tweeteval``: ``split``. ``table``: ``target`` (the column of labels), ``drop``,
        ``background`` (a file with rows that hidden columns are filled from), ``classes``. ``hf``:
        ``split``, ``input`` and ``label`` (columns). ``classes`` are the names of the classes in the
        order of the model's.

    Returns
    -------
    dataset : Dataset
        Inputs, labels and the names of the classes, always in the same order. Images are opened when
        they are asked for, and not kept.

    Examples
    --------
    >>> sentences = load("bundled:sentences")
    >>> sentences.kind, sentences.classes, len(sentences)
    ('text', ('negative', 'neutral', 'positive'), 200)
    """
    dataset: Dataset = load_source(spec, "data", options)
    return dataset


def load_bundled(name: str, *, split: str = "test") -> Dataset:
    """The data set of this name, its test split or the rest: handwritten digits as grey bytes (n, 8, 8, 1), sentences
    labelled by those who wrote them for holdfast, questions over passages with the citations that they call for,
    six photographs, or measurements (n, 30) of cell nuclei in breast masses.
    """
    check_name(name, "data", NAMES)
    check_name(split, "split", SPLITS)
    if name in ("sentences", "contexts", "photos") and split != "test":
        must = f"be 'test' for bundled:{name}, which has no training split"
        raise InvalidValueError(argument="split", must=must, got=repr(split))
    if name == "contexts":
        from holdfast.inputs.data.contexts import load_contexts  # which makes data sets itself

        return replace(load_contexts(str(BOX / "contexts.jsonl")), name="bundled:contexts")
    if name == "photos":
        return _load_photos()
    if name == "sentences":
        lines = (BOX / "sentences.tsv").read_text(encoding="utf-8").splitlines()
        labels, texts = zip(*(line.split("\t") for line in lines), strict=True)
        numbers = np.array([SENTIMENTS.index(label) for label in labels], dtype=np.intp)
        return Dataset("bundled:sentences", "text", texts, numbers, SENTIMENTS)
    if name == "digits":
        data = import_extra("sklearn.datasets", "This data needs").load_digits()
        values, targets, classes = data.data, data.target, tuple("0123456789")
    else:
        table = np.loadtxt(BOX / "cancer.csv", delimiter=",", skiprows=1)
        values, targets, classes = table[:, :-1], table[:, -1].astype(np.intp), TUMOURS
    record = json.loads((BOX / f"{name}.json").read_text(encoding="utf-8"))
    if digest_arrays(values, targets) != record["sha256"]:
        rule = f"bundled:{name} must be unchanged"
        place = (
            "this version of scikit-learn ships different data"
            if name == "digits"
            else "its file was changed: install holdfast again"
        )
        raise InvalidValueError(f"{rule}; {place}.")
    test = np.array(record["test"], dtype=np.intp)
    rows = test if split == "test" else np.setdiff1d(np.arange(len(targets)), test)
    kind, inputs = "table", values[rows]
    if name == "digits":  # grey levels 0…16
        kind, inputs = "image", np.rint(inputs.reshape(-1, 8, 8, 1) * (255 / 16)).astype(np.uint8)
    return Dataset(f"bundled:{name}", kind, inputs, np.asarray(targets[rows], dtype=np.intp), classes)


def _load_photos() -> Dataset:
    """Six photographs in colour, each an array of bytes (height, width, 3) of its own size."""
    why = "bundled:photos needs"
    pictures, samples = import_extra("skimage.data", why), import_extra("sklearn.datasets", why)
    images = tuple(
        getattr(pictures, name)() if hasattr(pictures, name) else samples.load_sample_image(f"{name}.jpg")
        for name in PHOTOS
    )
    classes = tuple(label for label in PHOTOS.values() if label)
    labels = np.array([classes.index(label) if label else UNKNOWN for label in PHOTOS.values()], dtype=np.intp)
    return Dataset("bundled:photos", "image", images, labels, classes, tuple(PHOTOS))


def digest_arrays(*arrays: Any) -> str:
    """SHA-256 of numbers as little-endian float64, whatever type they came in."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array, dtype="<f8").tobytes())
    return digest.hexdigest()


def digest_bytes(content: bytes) -> str:
    """The first 16 digits of the SHA-256."""
    return hashlib.sha256(content).hexdigest()[:16]


def number_labels(words: Sequence[str], classes: Any = None) -> tuple[NDArray[np.intp], tuple[str, ...]]:
    """Labels (n,) as numbers, and the names of the classes.

    Where ``classes`` gives the names in order, a label is its place there. Otherwise labels that are all
    whole numbers are the numbers of their classes, and other labels are numbered in alphabetical order.
    """
    distinct = sorted(set(words))
    if classes is not None:
        must = "be a list of distinct names"
        names = tuple(map(str, check_list(classes, "classes", must)))
        if not names or len(set(names)) < len(names):
            raise InvalidValueError(argument="classes", must=must, got=shown(classes))
    elif all(len(word) < _MOST_DIGITS and word.isdecimal() and word == str(int(word)) for word in distinct):
        names = tuple(str(number) for number in range(1 + max(map(int, distinct), default=-1)))
    else:
        names = tuple(distinct)
    place = {name: number for number, name in enumerate(names)}
    strange = next((word for word in words if word not in place), None)
    if strange is not None:
        got = f"no {strange!r} among its {len(names)} classes"
        raise InvalidValueError(argument="classes", must="name every label", got=got)
    return np.array([place[word] for word in words], dtype=np.intp), names


def no_labels(n: int) -> NDArray[np.intp]:
    """The labels of n inputs of which nobody says what they are."""
    return np.full(n, UNKNOWN, dtype=np.intp)
