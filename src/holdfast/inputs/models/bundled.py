"""The name of a model that comes with holdfast → a ``Classifier``, after a check that its files are whole.

Every model has a folder in ``box`` with a ``card.json``: what it is, how many test inputs it gets right,
and the SHA-256 of the other files. The scripts in ``training`` write all of it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.errors import InvalidValueError
from holdfast.inputs.models.classifier import Classifier
from holdfast.validation import check_name

BOX = Path(__file__).parent / "box"
"""Where the models are, one folder each."""

CARD = "card.json"


@dataclass(frozen=True)
class BundledModel:
    """What is known of a model that comes with holdfast.

    Attributes
    ----------
    name : str
        ``holdfast.models.load("bundled:<name>")`` loads it.
    kind : {"image", "text", "table"}
        What it classifies.
    data : str
        The inputs it goes with, for ``holdfast.data.load``.
    description : str
        What it is, in one line.
    counts : mapping of str to (int, int)
        What was measured → how many were right, of how many. The first is the test split as it is.
    """

    name: str
    kind: str
    data: str
    description: str
    counts: Mapping[str, tuple[int, int]]
    files: Mapping[str, str] = field(repr=False)
    settings: Mapping[str, Any] = field(repr=False)

    @property
    def accuracy(self) -> float:
        """The share of the test inputs it gets right."""
        n_correct, n_tested = next(iter(self.counts.values()))
        return n_correct / n_tested

    def __str__(self) -> str:
        return f"bundled:{self.name} ({self.kind}): {self.description}"


def available() -> tuple[BundledModel, ...]:
    """List the models that come with holdfast.

    Returns
    -------
    models : tuple of BundledModel
        In the order of their names.

    Examples
    --------
    >>> for model in available():
    ...     if model.kind == "table":
    ...         print(model)
    bundled:cancer-forest (table): random forest on 30 measurements of cell nuclei
    """
    return tuple(read_card(name) for name in bundled_names())


def load_bundled(
    place: str,
    *,
    device: Any = None,
    dtype: Any = None,
    kind: str | None = None,
    max_length: int | None = None,
    autocast: str | None = None,
    compile: bool | str = False,  # noqa: A002
) -> Classifier:
    """Load a bundled model by its name.

    Parameters
    ----------
    place : str
        The name.
    kind : {"image", "text", "table"}, optional
        What the caller expects it to classify.
    device, dtype, max_length, autocast, compile : optional
        For the torch models among them, as for any Hugging Face folder.
    """
    card = read_card(check_name(place, "bundled:", bundled_names()))
    if max_length is not None and card.kind != "text":
        raise InvalidValueError(f"`max_length` must be left out for bundled:{card.name}: it is for texts.")
    if kind not in (None, card.kind):
        raise InvalidValueError(f"`kind` must be {card.kind!r} for bundled:{card.name}, got {kind!r}.")
    given = {"device": device, "dtype": dtype, "max_length": max_length, "autocast": autocast, "compile": compile}
    asked = {name: value for name, value in given.items() if value is not None and value is not False}
    check_files(BOX / card.name, card)
    loader: Callable[..., Classifier] = _LOADERS.get(card.name, _load_torch)
    return loader(card, **asked)


def read_card(name: str) -> BundledModel:
    """What is written on the card of a model."""
    card = json.loads((BOX / name / CARD).read_text(encoding="utf-8"))
    counts = {what: (int(correct), int(tested)) for what, (correct, tested) in card["counts"].items()}
    return BundledModel(
        name=name,
        kind=card["kind"],
        data=card["data"],
        description=card["description"],
        counts=counts,
        files=card["files"],
        settings=card["settings"],
    )


def check_files(folder: Path, card: BundledModel) -> None:
    """Every file is there, and is the one the card was written for."""
    for name, wanted in card.files.items():
        problem = _problem(folder / name, wanted)
        if problem is not None:
            raise InvalidValueError(
                f"The files of bundled:{card.name} must be as they were shipped, but {str(folder / name)!r} {problem}. "
                f"Install holdfast again."
            )


def _problem(path: Path, wanted: str) -> str | None:
    if not path.is_file():
        return "is missing"
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    return None if found == wanted else f"is damaged or was changed (SHA-256 {found[:12]}…, not {wanted[:12]}…)"


def bundled_names() -> list[str]:
    """The names of the models that come with holdfast."""
    return sorted(path.parent.name for path in BOX.glob(f"*/{CARD}"))


def _load_torch(card: BundledModel, **asked: Any) -> Classifier:
    from holdfast.inputs.models.hf import load_folder

    return load_folder(str(BOX / card.name), **asked)


def _load_forest(card: BundledModel, **asked: Any) -> Classifier:
    from holdfast.inputs.models.bundled_rows import load_rows

    _refuse(card, asked)
    return load_rows(BOX / card.name, **card.settings)


def _load_vader(card: BundledModel, **asked: Any) -> Classifier:
    from holdfast.inputs.models.vader import load_vader

    _refuse(card, asked)
    return load_vader()


def _refuse(card: BundledModel, asked: dict[str, Any]) -> None:
    for name, value in asked.items():
        raise InvalidValueError(
            f"`{name}` must be left out for bundled:{card.name}, which is no torch model, got {value!r}."
        )


_LOADERS: dict[str, Callable[..., Classifier]] = {"cancer-forest": _load_forest, "vader": _load_vader}
"""What loads a model that is no Hugging Face folder."""
