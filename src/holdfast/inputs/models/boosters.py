"""A live booster of XGBoost, LightGBM or CatBoost, or a file that its library saved → a ``Classifier`` on tables.

The files hold trees and no program. Each is checked before its library reads it, which may end the process over a file
that is cut off.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from holdfast.errors import InvalidValueError
from holdfast.extras import import_extra
from holdfast.inputs.models.classifier import Classifier, PredictorOnRows
from holdfast.inputs.source import PICKLES, refuse_pickle
from holdfast.masking.table.boosters import NativeBooster, best_rounds
from holdfast.masking.table.mask_tabular import as_predictor
from holdfast.masking.torch import fingerprint_live
from holdfast.validation import MOST_UNPACKED, check_classes, check_file, check_name, shown

_CALLED = {"xgboost": "XGBoost", "lightgbm": "LightGBM", "catboost": "CatBoost"}


def load_xgboost(place: str, *, kind: str | None = None, classes: Any = None) -> Classifier:
    """Load what ``save_model`` of XGBoost wrote, a ``.json`` or ``.ubj`` file.

    It answers as what was saved: a file of an estimator is asked up to its best round, one of a booster for all.
    """
    path = _check_place(place, "xgboost")
    if path.suffix.lower() not in (".json", ".ubj"):
        must = "be followed by a .json or .ubj file"
        raise InvalidValueError(argument="xgboost:", must=must, got=shown(place), hint=_save("xgboost"))
    try:
        booster = import_extra("xgboost", "xgboost: models need").Booster(model_file=path)
    except ValueError as error:  # of which XGBoost's own is one
        raise _unreadable(path, "xgboost", error) from error
    if booster.attr("scikit_learn") is not None:
        booster = best_rounds(booster)
    return booster_classifier(booster, kind=kind, classes=classes)


def load_lightgbm(place: str, *, kind: str | None = None, classes: Any = None) -> Classifier:
    """Load what ``save_model`` of a LightGBM booster wrote, a text file."""
    path = _check_place(place, "lightgbm")
    content = path.read_bytes()
    sizes = re.search(rb"^tree_sizes=([\d ]+)\r?$", content[: content.find(b"\nTree=0") + 1], re.MULTILINE)
    if not content.startswith(b"tree") or sizes is None:
        raise _unreadable(path, "lightgbm", "it does not begin as one")
    # LightGBM reads the trees in threads, each from where its header says, and an error in one ends the process.
    at = content.find(b"\nTree=0") + 1
    for number, size in enumerate(map(int, sizes[1].split())):
        if not content.startswith(b"Tree=%d\n" % number, at) or content[at + size - 1 : at + size] != b"\n":
            raise _unreadable(path, "lightgbm", f"tree {number} is damaged or cut off")
        at += size
    if not content.startswith(b"end of trees", at):
        raise _unreadable(path, "lightgbm", "its trees do not end where they should")
    lightgbm = import_extra("lightgbm", "lightgbm: models need")
    try:
        booster = lightgbm.Booster(model_str=content.decode())
    except (lightgbm.basic.LightGBMError, ValueError) as error:
        raise _unreadable(path, "lightgbm", error) from error
    return booster_classifier(booster, kind=kind, classes=classes)


def load_catboost(place: str, *, kind: str | None = None, classes: Any = None) -> Classifier:
    """Load what ``save_model`` of CatBoost wrote, a ``.cbm`` file; it knows the names of its classes."""
    path = _check_place(place, "catboost")
    with path.open("rb") as file:
        if file.read(4) != b"CBM1":
            raise _unreadable(path, "catboost", "it does not begin as one")
    catboost = import_extra("catboost", "catboost: models need")
    try:
        model = catboost.CatBoost().load_model(str(path))
        if len(model.classes_) == 0:  # whose answers are those of a regressor, such as exp(s) for a Poisson loss
            model = catboost.CatBoostRegressor().load_model(str(path))
    except (catboost.CatBoostError, ValueError, TypeError) as error:
        raise _unreadable(path, "catboost", error) from error
    return booster_classifier(model, kind=kind, classes=classes)


def booster_classifier(model: Any, *, kind: str | None, classes: Any, fingerprint: str | None = None) -> Classifier:
    """A classifier that asks a booster; of a regression, with one score and without classes."""
    check_name("table" if kind is None else kind, "kind", ("table",))
    predictor, names = as_predictor(model), check_classes(classes)
    if names is not None and predictor.classes and len(names) != len(predictor.classes):
        must = f"name the {len(predictor.classes)} classes of the model"
        raise InvalidValueError(argument="classes", must=must, got=len(names))
    booster = predictor.function
    is_labels = isinstance(booster, NativeBooster) and booster.form == "labels"
    engine = PredictorOnRows(model, predictor, tuple(map(int, predictor.classes)) if is_labels else ())
    known = fingerprint_live(model) if fingerprint is None else fingerprint
    return Classifier("table", predictor.classes if names is None else names, known, engine)


def _check_place(place: str, scheme: str) -> Path:
    """The file of a model, which is there and no pickle."""
    path = Path(place).expanduser()
    if not path.is_file():
        raise InvalidValueError(argument=f"{scheme}:", must="be followed by an existing file", got=shown(str(path)))
    if path.suffix.lower() in PICKLES:
        raise InvalidValueError(refuse_pickle(str(path)).partition(" Save")[0] + f" {_save(scheme)}")
    return check_file(path, most=MOST_UNPACKED)


def _save(scheme: str) -> str:
    file = {"xgboost": "model.ubj", "lightgbm": "model.txt", "catboost": "model.cbm"}[scheme]
    owner = "model.booster_" if scheme == "lightgbm" else "model"
    return f"Save it with `{owner}.save_model('{file}')`."


def _unreadable(path: Path, scheme: str, reason: object) -> InvalidValueError:
    line = re.sub(r"^\[[\d:]+\] \S+: ", "", str(reason).partition("\n")[0]).rstrip(".")
    return InvalidValueError(f"{str(path)!r} is no whole {_CALLED[scheme]} model: {line}. {_save(scheme)}")
