"""A folder → the experiment whose results it holds, and whether there is something to go on with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from holdfast.errors import InvalidTypeError, InvalidValueError, StoreError
from holdfast.experiments.accuracy import PARTS
from holdfast.experiments.experiment import Experiment
from holdfast.experiments.files import FINDINGS, heading
from holdfast.experiments.registry import EXPERIMENTS
from holdfast.study.store import Store
from holdfast.validation import check_path, shown

_Q4 = next(experiment for experiment in EXPERIMENTS if experiment.id == "q4-accuracy")


def check_folder(experiment: Experiment, folder: Any) -> Path:
    """A folder that holds results of no other experiment; it need not be there yet.

    Other results of the same experiment, such as those of another number of inputs, may be there.
    """
    must = f"be a folder for {experiment.id}"
    if not isinstance(folder, (str, Path)):
        raise InvalidTypeError(argument="output", must=must, got=shown(folder))
    if not str(folder).strip():
        raise InvalidValueError(argument="output", must=must, got="an empty name")
    path = check_path(folder, "output")
    if path.exists() and not path.is_dir():
        raise InvalidValueError(argument="output", must=must, got=f"{shown(str(folder))}, which is a file")
    for other, file in owners(path):
        if other.id != experiment.id:
            got = f"{shown(str(folder))}, which holds results of {other.id} ({file.name})"
            raise InvalidValueError(argument="output", must=f"{must} alone", got=got, hint="Name another.")
    return path


def owners(folder: Path) -> Iterator[tuple[Experiment, Path]]:
    """Every experiment that left findings, a study or parts in this folder, with the file that says so."""
    findings = folder / FINDINGS
    if findings.is_file():
        with findings.open(encoding="utf-8", errors="replace") as file:
            first = file.readline().rstrip("\n")
        yield from ((experiment, findings) for experiment in EXPERIMENTS if heading(experiment) == first)
    for path in sorted(folder.glob("*.db")):
        name = _study_name(path)
        yield from ((experiment, path) for experiment in EXPERIMENTS if name.startswith(f"{experiment.id}, "))
    if any((folder / PARTS).glob("*.json")):
        yield _Q4, folder / PARTS


def _study_name(path: Path) -> str:
    """What the study in a file is called; nothing if there is none, or none that was run."""
    with suppress(StoreError), Store(path) as store:
        return str(store.spec["name"])
    return ""


def is_begun(folder: Path) -> bool:
    """Whether something is stored that the same command goes on with: an item of a study, or a part."""
    return any((folder / PARTS).glob("*.json")) or any(_has_items(path) for path in folder.glob("*.db"))


def _has_items(path: Path) -> bool:
    with suppress(StoreError), Store(path) as store:
        return next(store.query("SELECT 1 FROM items LIMIT 1"), None) is not None
    return False
