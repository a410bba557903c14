"""A fitted model of scikit-learn, XGBoost, LightGBM or CatBoost → its trees in arrays, and how it adds them up.

No library is imported: a model that is there has brought its own. What cannot be read as plain trees (linear leaves,
categories by target statistics, custom losses, weighted medians) is None, never an approximation.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from holdfast.exact.arrays import ReadTrees, Rows, complete_numbers, is_unpatched, joined, label_classes, numbers
from holdfast.exact.boosted import answers_plainly, read_booster
from holdfast.exact.limits import SumScoring
from holdfast.masking.table.boosters import library_of


def is_readable(estimator: Any, method: str | None) -> bool:
    """Whether a model is of a class that is known, with its methods as they are there and no setting that matters."""
    is_known = type(estimator).__module__.startswith("sklearn.")
    if library_of(estimator) is not None:
        is_known = answers_plainly(estimator, method)
    return is_known and is_unpatched(estimator)


def read_trees(estimator: Any, method: str | None) -> ReadTrees | None:
    """The trees of a readable model that answers by ``method``, None for native boosters; None if it has none."""
    if library_of(estimator) is not None:
        return read_booster(estimator, method)
    name = type(estimator).__name__
    if name in _ONE_TREE:
        return _read_sklearn_tree(estimator, method)
    if name in _FORESTS:
        return _read_sklearn_forest(estimator, method)
    if name in ("GradientBoostingClassifier", "GradientBoostingRegressor"):
        return _read_gradient_boosting(estimator, method)
    if name in ("HistGradientBoostingClassifier", "HistGradientBoostingRegressor"):
        return _read_histogram_boosting(estimator, method)
    if name in ("BaggingClassifier", "BaggingRegressor"):
        return _read_bagging(estimator, method)
    return _read_adaboost(estimator, method) if name == "AdaBoostClassifier" else None


_ONE_TREE = ("DecisionTreeClassifier", "DecisionTreeRegressor", "ExtraTreeClassifier", "ExtraTreeRegressor")
_FOREST_METHODS = ("predict", "predict_proba")
_FORESTS = ("RandomForestClassifier", "RandomForestRegressor", "ExtraTreesClassifier", "ExtraTreesRegressor")


def _tree_rows(estimator: Any) -> Callable[[Any], Rows]:
    """How trees and forests of scikit-learn read rows: with missing values, unless their settings rule them out."""
    refuses = estimator.criterion == "absolute_error" or getattr(estimator, "monotonic_cst", None) is not None
    return complete_numbers if refuses else numbers


def _sklearn_tree(estimator: Any, scale: float = 1.0) -> dict[str, Any]:
    tree = estimator.tree_
    return {
        "column": tree.feature,
        "left": tree.children_left,
        "right": tree.children_right,
        "threshold": tree.threshold,
        "missing_left": tree.missing_go_to_left.astype(bool),
        "values": scale * tree.value[:, 0, :],
    }


def _read_sklearn_tree(estimator: Any, method: str | None) -> ReadTrees | None:
    is_classifier = hasattr(estimator, "classes_")
    if estimator.n_outputs_ != 1 or method not in _FOREST_METHODS:
        return None
    forest = joined([_sklearn_tree(estimator)])
    n_raw = forest.values.shape[1]
    classes = label_classes(estimator, method) if is_classifier else None
    return ReadTrees(
        forest, SumScoring("identity", n_raw, classes=classes), (Fraction(0),) * n_raw, _tree_rows(estimator)
    )


def _read_sklearn_forest(estimator: Any, method: str | None) -> ReadTrees | None:
    is_classifier = hasattr(estimator, "classes_")
    if estimator.n_outputs_ != 1 or method not in _FOREST_METHODS:
        return None
    forest = joined([_sklearn_tree(tree) for tree in estimator.estimators_])
    n_raw = forest.values.shape[1]
    classes = label_classes(estimator, method) if is_classifier else None
    scoring = SumScoring("identity", n_raw, divisor=len(estimator.estimators_), classes=classes)
    return ReadTrees(forest, scoring, (Fraction(0),) * n_raw, _tree_rows(estimator))


def _are_trees(estimator: Any) -> bool:
    """Whether all parts are single trees with one output that know as many classes as the whole."""
    n_classes = len(getattr(estimator, "classes_", ()))
    return all(
        type(part).__module__.startswith("sklearn.")
        and type(part).__name__ in _ONE_TREE
        and part.n_outputs_ == 1
        and len(getattr(part, "classes_", ())) == n_classes
        for part in estimator.estimators_
    )


def _read_bagging(estimator: Any, method: str | None) -> ReadTrees | None:
    """The mean of trees, each on columns of its own."""
    if not _are_trees(estimator) or method not in _FOREST_METHODS:
        return None
    trees = []
    for part, columns in zip(estimator.estimators_, estimator.estimators_features_, strict=True):
        arrays = _sklearn_tree(part)
        trees.append(arrays | {"column": np.take(columns, np.maximum(arrays["column"], 0))})
    forest = joined(trees)
    n_raw = forest.values.shape[1]
    classes = label_classes(estimator, method) if hasattr(estimator, "classes_") else None
    scoring = SumScoring("identity", n_raw, divisor=len(trees), classes=classes)
    return ReadTrees(forest, scoring, (Fraction(0),) * n_raw, _tree_rows(estimator.estimators_[0]))


def _read_adaboost(estimator: Any, method: str | None) -> ReadTrees | None:
    """Trees that vote for classes with weights; a vote counts -1 / (n_classes - 1) for all other classes."""
    if not _are_trees(estimator):
        return None
    n_classes = len(estimator.classes_)
    n_raw = 1 if n_classes == 2 else n_classes
    scoring = _boosted_scoring(estimator, method, n_raw)
    if scoring is None:
        return None
    weights = np.asarray(estimator.estimator_weights_[: len(estimator.estimators_)], dtype=np.float64)
    weights = weights / weights.sum() / (n_classes - 1 if scoring.link == "softmax" and method != "predict" else 1)
    trees = []
    for part, weight in zip(estimator.estimators_, weights.tolist(), strict=True):
        arrays = _sklearn_tree(part)
        votes = np.eye(n_classes)[arrays["values"].argmax(axis=1)]
        shares = weight * np.where(votes > 0, 1.0, -1.0 / (n_classes - 1))
        trees.append(arrays | {"values": 2 * shares[:, 1:] if n_raw == 1 else shares})
    rows = _tree_rows(estimator.estimators_[0])
    return ReadTrees(joined(trees), scoring, (Fraction(0),) * n_raw, rows, n_roundings=8)


def _boosted_scoring(estimator: Any, method: str | None, n_raw: int, roundoff: float = 2.0**-53) -> SumScoring | None:
    """How a boosted model of scikit-learn's form answers: by probabilities, raw scores or labels."""
    if not hasattr(estimator, "classes_"):
        return SumScoring("identity", 1, roundoff=roundoff) if method == "predict" else None
    classes = label_classes(estimator, method)
    if n_raw == 1:
        links = {"predict_proba": "logistic", "decision_function": "signed", "predict": "logistic"}
    else:
        links = {"predict_proba": "softmax", "decision_function": "identity", "predict": "softmax"}
    return SumScoring(links[method], n_raw, roundoff=roundoff, classes=classes) if method in links else None


def _read_gradient_boosting(estimator: Any, method: str | None) -> ReadTrees | None:
    loss = type(estimator._loss).__name__
    known = ("HalfBinomialLoss", "HalfMultinomialLoss", "HalfSquaredError", "AbsoluteError", "HuberLoss", "PinballLoss")
    is_constant = estimator.init_ == "zero" or type(estimator.init_).__name__.startswith("Dummy")
    if loss not in known or not is_constant:
        return None
    n_raw = estimator.estimators_.shape[1]
    trees = []
    for stage in estimator.estimators_:
        for column, tree in enumerate(stage):
            arrays = _sklearn_tree(tree, estimator.learning_rate)
            arrays["values"] = arrays["values"] * (np.arange(n_raw) == column)
            trees.append(arrays)
    base = estimator._raw_predict_init(np.zeros((1, estimator.n_features_in_), dtype=np.float32))[0]
    scoring = _boosted_scoring(estimator, method, n_raw)
    if scoring is None:
        return None
    return ReadTrees(joined(trees), scoring, tuple(map(Fraction, base.tolist())), complete_numbers)


def _read_histogram_boosting(estimator: Any, method: str | None) -> ReadTrees | None:
    loss = type(estimator._loss).__name__
    if loss not in ("HalfBinomialLoss", "HalfMultinomialLoss", "HalfSquaredError", "AbsoluteError", "PinballLoss"):
        return None
    n_raw = estimator.n_trees_per_iteration_
    trees = []
    for stage in estimator._predictors:
        for column, predictor in enumerate(stage):
            nodes = predictor.nodes
            is_leaf = nodes["is_leaf"].astype(bool)
            missing_left = nodes["missing_go_to_left"].astype(bool)
            # Categories that were never seen are missing values by the time that `prepare` is done with them.
            categories = {
                node: _members(predictor.raw_left_cat_bitsets[nodes["bitset_idx"][node]])
                for node in np.flatnonzero(nodes["is_categorical"].astype(bool) & ~is_leaf).tolist()
            }
            values = nodes["value"][:, None] * (np.arange(n_raw) == column)
            trees.append(
                {
                    "column": nodes["feature_idx"],
                    "left": np.where(is_leaf, -1, nodes["left"].astype(np.int64)),
                    "right": np.where(is_leaf, -1, nodes["right"].astype(np.int64)),
                    "threshold": nodes["num_threshold"],
                    "missing_left": missing_left,
                    "values": values,
                    "categories": categories,
                }
            )
    scoring = _boosted_scoring(estimator, method, n_raw)
    if scoring is None:
        return None
    base = tuple(Fraction(float(part)) for part in np.ravel(estimator._baseline_prediction))

    def prepare(rows: Any) -> Rows:
        return np.asarray(estimator._preprocess_X(rows, reset=False), dtype=np.float64)

    order = None
    if getattr(estimator, "_preprocessor", None) is not None:  # which puts categories first
        order = np.argsort(~np.asarray(estimator.is_categorical_), kind="stable")
    return ReadTrees(joined(trees, dtype=np.float64), scoring, base, prepare, order=order)


def _members(bitset: Any) -> frozenset[int]:
    """The numbers in a set of eight 32-bit words."""
    return frozenset(32 * at + bit for at, word in enumerate(bitset.tolist()) for bit in range(32) if word >> bit & 1)
