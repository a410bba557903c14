"""A classifier → the names of its classes in the order of its scores, as a caller gives them or as it knows them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MethodType
from typing import Any

import numpy as np

from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.validation import check_label, check_list, shown

_SCORING = ("predict_proba", "predict_log_proba", "decision_function")
"""Methods of estimators with a score per class; others return the labels themselves."""


def check_classes(classes: Any) -> tuple[str, ...] | None:
    """Distinct names of one line each, or None."""
    if classes is None:
        return None
    must = "be a list of distinct names of classes, in the order of the scores"
    names = check_list(classes, "classes", must)
    for name in names:
        if not isinstance(name, str):
            raise InvalidTypeError(argument="classes", must=must, got=f"{shown(name)} among them")
        check_label(name, "classes")
        if names.count(name) > 1:
            raise InvalidValueError(argument="classes", must=must, got=f"{shown(name)} more than once")
    if not names:
        raise InvalidValueError(argument="classes", must=must, got="none")
    return tuple(str(name) for name in names)


def classes_of(classifier: Any, classes: Any = None) -> tuple[str, ...] | None:
    """The names given, or those that a module of Transformers or a scoring method of an estimator knows."""
    if classes is not None:
        return check_classes(classes)
    labels = getattr(getattr(classifier, "config", None), "id2label", None)
    if isinstance(labels, Mapping):
        return telling_names(labels.get(column) for column in range(len(labels)))
    if isinstance(classifier, MethodType) and classifier.__name__ in _SCORING:
        known = getattr(classifier.__self__, "classes_", None)
        if isinstance(known, (list, tuple, np.ndarray)) and all(np.ndim(label) == 0 for label in known):
            return telling_names(known)
    return None


def telling_names(names: Iterable[Any]) -> tuple[str, ...] | None:
    """The names, if they tell classes apart and somebody chose them: those that Transformers makes up say nothing."""
    texts = tuple("" if name is None else str(name) for name in names)
    made_up = tuple(f"LABEL_{column}" for column in range(len(texts)))
    is_clear = len(set(texts)) == len(texts) and all(text and text.isprintable() for text in texts)
    return texts if texts and is_clear and texts != made_up else None
