"""A model of XGBoost, LightGBM or CatBoost → how it is asked, the columns that it knows, and what identifies it.

Both forms of a model are known: native boosters and the classes for scikit-learn. No library is imported: a model that
is there has brought its own.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.errors import InvalidValueError
from holdfast.fingerprints import canonical
from holdfast.types import Outputs

_MODELS = {"xgboost": ("Booster", "XGBModel"), "lightgbm": ("Booster", "LGBMModel"), "catboost": ("CatBoost",)}


def library_of(model: Any) -> str | None:
    """The library that a live model is of, or None for all others."""
    for kind in type(model).__mro__:
        library = kind.__module__.partition(".")[0]
        if kind.__name__ in _MODELS.get(library, ()):
            return library
    return None


def is_native(model: Any) -> bool:
    """Whether it is a booster itself and no estimator of scikit-learn: ``Booster``, or plain ``CatBoost``."""
    return type(model).__name__ in ("Booster", "CatBoost") and library_of(model) is not None


def is_fitted(model: Any) -> bool:
    """Whether a model of these libraries can predict."""
    if library_of(model) == "catboost":
        return bool(model.is_fitted())
    return is_native(model) or bool(model.__sklearn_is_fitted__())


def head_of(estimator: Any) -> Any:
    """What gets the rows first: the first step of a pipeline, the estimator that a search has chosen, or itself."""
    steps = getattr(estimator, "steps", None)
    inner = steps[0][1] if isinstance(steps, list) and steps else getattr(estimator, "best_estimator_", None)
    return estimator if inner is None else head_of(inner)


def booster_of(model: Any) -> Any:
    """The trees that a model predicts with: after early stopping, XGBoost's estimators use those up to the best."""
    library = library_of(model)
    if library == "catboost" or is_native(model):
        return model
    if library == "lightgbm":
        return model.booster_
    return best_rounds(model.get_booster())


def best_rounds(booster: Any) -> Any:
    """An XGBoost booster up to the round at which early stopping found it best."""
    best = booster.attr("best_iteration")
    if best is None or json.loads(booster.save_config())["learner"]["gradient_booster"]["name"] == "gblinear":
        return booster  # linear models have no rounds to choose from
    return booster[: int(best) + 1]


def fitted_columns(model: Any) -> tuple[tuple[str, ...] | None, int | None]:
    """The names of the columns that a model was fitted on, None if they had none, and how many they were."""
    if not is_fitted(model):
        return None, None
    library, booster = library_of(model), booster_of(model)
    if library == "xgboost":
        names = booster.feature_names
        return None if names is None else tuple(names), int(booster.num_features())
    names = list(booster.feature_name() if library == "lightgbm" else booster.feature_names_)
    made_up = [f"Column_{place}" if library == "lightgbm" else str(place) for place in range(len(names))]
    return None if names == made_up else tuple(names), len(names)


def spelled(library: str | None, label: Hashable) -> Hashable:
    """What a library calls a column: a text; LightGBM puts underscores in place of spaces."""
    if library is None:
        return label
    return str(label).replace(" ", "_") if library == "lightgbm" else str(label)


def category_names(model: Any) -> frozenset[str]:
    """The columns of CatBoost's categories, which take no missing values."""
    if library_of(model) != "catboost" or not is_fitted(model):
        return frozenset()
    return frozenset(model.feature_names_[place] for place in model.get_cat_feature_indices())


@dataclass(frozen=True, eq=False)
class NativeBooster:
    """A native booster as a function of rows; its objective decides what it answers.

    ``form`` is "probability" (p becomes the columns 1 - p, p), "margin" (s becomes -s, s), "labels", or "scores" (as
    they are: probabilities of many classes, or one column of a regression). ``classes`` is empty for a regression.
    """

    model: Any
    library: str
    form: str
    classes: tuple[str, ...]

    @classmethod
    def of(cls, model: Any) -> NativeBooster:
        """Find out what the booster was trained for."""
        library = library_of(model) or ""
        if not is_fitted(model):
            must = "be fitted"
            raise InvalidValueError(argument="classifier", must=must, got=f"an unfitted {type(model).__name__}")
        if library == "catboost":
            return cls(model, library, "scores", tuple(map(str, model.classes_)))
        if library == "lightgbm":
            match = re.search(r"^objective=(\w+)", model.model_to_string(num_iteration=1), re.MULTILINE)
            objective = match[1] if match else ""
            forms = {"binary": "probability"}
            n_classes = model.num_model_per_iteration() if objective in ("multiclass", "multiclassova") else 0
        else:
            settings = json.loads(model.save_config())["learner"]
            objective = settings["objective"]["name"]
            forms = {"binary:logistic": "probability", "binary:logitraw": "margin"}
            forms |= {"binary:hinge": "labels", "multi:softmax": "labels"}
            n_classes = int(settings["learner_model_param"]["num_class"]) if objective.startswith("multi:") else 0
        n_classes = 2 if objective.startswith("binary") else n_classes
        return cls(model, library, forms.get(objective, "scores"), tuple(map(str, range(n_classes))))

    def __call__(self, rows: Any, /) -> Outputs:
        """Scores (b, k), or labels (b,), of rows: an array, or a data frame with the columns in the booster's order."""
        if self.library == "catboost":
            outputs = self.model.predict(rows, prediction_type="Probability" if self.classes else "RawFormulaVal")
        elif self.library == "lightgbm":
            outputs = self.model.predict(rows)
        else:
            types = None if hasattr(rows, "iloc") else self.model.feature_types
            matrix = sys.modules["xgboost"].DMatrix(rows, feature_types=types, enable_categorical=True)
            outputs = self.model.predict(matrix)
        if self.form == "labels":
            return np.asarray(outputs).astype(np.int64)
        if self.form == "scores":
            return np.asarray(outputs)
        # As the libraries' own estimators put it together, to the last bit.
        return np.stack([1.0 - outputs if self.form == "probability" else -outputs, outputs], axis=1)


def probability_threshold(model: Any) -> float | None:
    """From which probability on CatBoost gives the label of class 1, if a user has set one."""
    known = getattr(model, "get_probability_threshold", None)
    threshold = None if known is None or not is_fitted(model) or len(model.classes_) != 2 else known()
    return None if threshold is None or threshold == 0.5 else float(threshold)


def booster_parts(model: Any) -> dict[str, bytes] | None:
    """What identifies a model of these libraries, by the library's own form of saving; None for all others.

    The same for the model in memory, in a file, as an estimator and as a booster, as long as they answer alike. When
    and where it was trained does not count.
    """
    library = library_of(model)
    if library is None or not is_fitted(model):
        return None
    booster = booster_of(model)
    if library == "lightgbm":
        return {library: hashlib.sha256(booster.model_to_string().encode()).digest()}
    if library == "xgboost":
        if booster.attr("scikit_learn") is not None:  # which only files have
            booster = booster.copy()
            booster.set_attr(scikit_learn=None)
        own = getattr(model, "missing", None)
        missing = repr(float(np.nan if own is None else own)).encode()
        return {library: hashlib.sha256(booster.save_raw(raw_format="ubj")).digest(), "missing": missing}
    bare = booster.copy()
    notes = bare.get_metadata()
    for name in list(notes.keys()):
        del notes[name]
    loss = str(booster.get_all_params().get("loss_function"))
    answers = "raw" if is_native(model) and len(model.classes_) == 0 else ""
    digest = hashlib.sha256(bare._serialize_model()).digest()  # what `save_model` writes
    return {library: digest, "settings": canonical({"loss": loss, "answers": answers})}
