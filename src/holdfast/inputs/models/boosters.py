"""A live booster of XGBoost, LightGBM or CatBoost, or a file that its library saved → a ``Classifier`` on tables.

The files hold trees and no program. Whether one is cut off is checked here: over such files LightGBM may end the
process, and XGBoost may read for ever.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from holdfast.errors import HoldfastError, InvalidValueError
from holdfast.extras import import_extra
from holdfast.inputs.models.classifier import Classifier, PredictorOnRows
from holdfast.inputs.source import PICKLES, refuse_pickle
from holdfast.masking.table.boosters import NativeBooster, best_rounds
from holdfast.masking.table.mask_tabular import as_predictor
from holdfast.masking.torch import fingerprint_live
from holdfast.validation import MOST_UNPACKED, check_classes, check_file, check_name, shown

_LIGHTGBM_REST = rb"end of trees\n.*\nend of parameters\n\s*(pandas_categorical:[^\n]*\n)?"
_CUT = "it is cut off"
_CALLED = {"xgboost": "XGBoost", "lightgbm": "LightGBM", "catboost": "CatBoost"}


def load_xgboost(place: str, *, kind: str | None = None, classes: Any = None) -> Classifier:
    """Load what ``save_model`` of XGBoost wrote, a ``.json`` or ``.ubj`` file.

    It answers as what was saved: a file of an estimator is asked up to its best round, one of a booster for all.
    """
    path = _check_place(place, "xgboost")
    if path.suffix.lower() not in (".json", ".ubj"):
        must = "be followed by a .json or .ubj file"
        raise InvalidValueError(argument="xgboost:", must=must, got=shown(place), hint=_save("xgboost"))
    with _reading(path, "xgboost"):
        if path.suffix.lower() == ".ubj" and _skip_ubj(content := path.read_bytes(), 0) != len(content):
            raise ValueError(_CUT)
        booster = import_extra("xgboost", "xgboost: models need").Booster(model_file=path)
        if booster.attr("scikit_learn") is not None:
            booster = best_rounds(booster)
        return booster_classifier(booster, kind=kind, classes=classes)


def load_lightgbm(place: str, *, kind: str | None = None, classes: Any = None) -> Classifier:
    """Load what ``save_model`` of a LightGBM booster wrote, a text file."""
    path = _check_place(place, "lightgbm")
    content = path.read_bytes()
    with _reading(path, "lightgbm"):
        start = content.find(b"\nTree=0") + 1
        sizes = re.search(rb"^tree_sizes=([\d ]+)\r?$", content[:start], re.MULTILINE)
        if not content.startswith(b"tree") or sizes is None:
            raise ValueError("it does not begin as one")
        for number, size in enumerate(map(int, sizes[1].split())):
            if (
                not content.startswith(b"Tree=%d\n" % number, start)
                or content[start + size - 1 : start + size] != b"\n"
            ):
                raise ValueError(f"tree {number} is damaged or cut off")
            start += size
        if not re.fullmatch(_LIGHTGBM_REST, content[start:], re.DOTALL):
            raise ValueError(_CUT)
        booster = import_extra("lightgbm", "lightgbm: models need").Booster(model_str=content.decode())
        return booster_classifier(booster, kind=kind, classes=classes)


def load_catboost(place: str, *, kind: str | None = None, classes: Any = None) -> Classifier:
    """Load what ``save_model`` of CatBoost wrote, a ``.cbm`` file; it knows the names of its classes."""
    path = _check_place(place, "catboost")
    with _reading(path, "catboost"):
        with path.open("rb") as file:
            if file.read(4) != b"CBM1":
                raise ValueError("it does not begin as one")
        catboost = import_extra("catboost", "catboost: models need")
        model = catboost.CatBoost().load_model(str(path))
        if len(model.classes_) == 0:  # whose answers are those of a regressor, such as exp(s) for a Poisson loss
            model = catboost.CatBoostRegressor().load_model(str(path))
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


@contextmanager
def _reading(path: Path, scheme: str) -> Iterator[None]:
    """Whatever is wrong with a file, told in one sentence; damaged files fail in many ways."""
    try:
        yield
    except HoldfastError:
        raise
    except Exception as error:
        first = _CUT if isinstance(error, IndexError) else str(error).partition("\n")[0]
        line = re.sub(r"^\[[\d:]+\] \S+: ", "", first).rstrip(" .:")
        raise InvalidValueError(
            f"{str(path)!r} is not a complete {_CALLED[scheme]} model: {line}. {_save(scheme)}"
        ) from error


_SIZES = dict(zip(b"TFNZiUCIlLdD", (0, 0, 0, 0, 1, 1, 1, 2, 4, 8, 4, 8), strict=True))
"""The bytes that a value of Universal Binary JSON takes after the letter of its type."""


def _skip_ubj(content: bytes, at: int) -> int:
    """Where a value of Universal Binary JSON that begins at ``at`` ends; an error if it is cut off."""
    marker, at = content[at], at + 1
    if marker in _SIZES:
        return at + _SIZES[marker]
    if marker == ord("S"):
        return _skip_sized(content, at)
    if marker not in b"[{":
        raise ValueError(f"byte {at - 1} has an unknown type")
    if content[at] == ord("$"):  # numbers of one type: the type, "#", how many
        n_numbers = int.from_bytes(content[at + 4 : at + 12], "big")
        return at + 12 + n_numbers * _SIZES[content[at + 1]]
    n_left = -1
    if content[at] == ord("#"):
        n_left, at = int.from_bytes(content[at + 2 : at + 10], "big"), at + 10
    while n_left and not (n_left < 0 and content[at] == marker + 2):  # "[" and "]", "{" and "}" are two apart
        at = _skip_ubj(content, _skip_sized(content, at) if marker == ord("{") else at)
        n_left -= 1
    return at + (n_left < 0)


def _skip_sized(content: bytes, at: int) -> int:
    """Where a text ends, whose length comes before it as a whole number of eight bytes."""
    return at + 9 + int.from_bytes(content[at + 1 : at + 9], "big")
