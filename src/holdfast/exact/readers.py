"""A fitted model of scikit-learn, XGBoost, LightGBM or CatBoost → its trees in arrays, and how it adds them up.

No library is imported: a model that is there has brought its own. What cannot be read as plain trees (linear leaves,
categories by target statistics, custom losses, weighted medians) is None, never an approximation.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.exact.limits import SumScoring
from holdfast.exact.trees import NAN_IS_MISSING, NAN_IS_ZERO, ZERO_IS_MISSING, Forest
from holdfast.masking.table.boosters import booster_of, library_of

Rows = NDArray[Any]


@dataclass(frozen=True, eq=False)
class ReadTrees:
    """The trees of a model, and how outputs come from them.

    ``prepare`` makes numbers (b, d) of the rows that the model gets, with the columns in ``order`` (None if it keeps
    theirs); ``n_roundings`` are those besides one per tree; ``base_last`` says whether the base is added after the
    trees, ``dtype`` in which number type.
    """

    forest: Forest
    scoring: SumScoring
    base: tuple[Fraction, ...]
    prepare: Callable[[Any], Rows]
    base_last: bool = False
    dtype: Any = np.float64
    n_roundings: int = 0
    order: NDArray[np.intp] | None = None


def read_trees(estimator: Any, method: str | None) -> ReadTrees | None:
    """The trees of a fitted model that answers by ``method``, None for native boosters; None if it has none."""
    library = library_of(estimator)
    if library is not None:
        reader = {"xgboost": _read_xgboost, "lightgbm": _read_lightgbm, "catboost": _read_catboost}[library]
        return reader(estimator, method)
    if not type(estimator).__module__.startswith("sklearn."):
        return None
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


def joined(trees: Sequence[dict[str, Any]], *, strict: bool = False, dtype: Any = np.float32) -> Forest:
    """One forest of trees given by arrays ``column``, ``left``, ``right``, ``threshold``, ``values`` (n, n_scores), and
    perhaps ``missing_left``, ``missing`` and ``categories``.
    """
    starts = np.cumsum([0, *(len(tree["column"]) for tree in trees)])
    parts: dict[str, list[Any]] = {}
    categories: dict[int, frozenset[int]] = {}
    for start, tree in zip(starts.tolist(), trees, strict=False):
        n, is_leaf = len(tree["column"]), np.asarray(tree["left"]) < 0
        rows = {
            "column": np.where(is_leaf, 0, tree["column"]),
            "left": np.where(is_leaf, -1, np.asarray(tree["left"]) + start),
            "right": np.where(is_leaf, -1, np.asarray(tree["right"]) + start),
            "threshold": np.asarray(tree["threshold"], dtype=np.float64),
            "missing_left": tree.get("missing_left", np.zeros(n, dtype=bool)),
            "missing": tree.get("missing", np.full(n, NAN_IS_MISSING)),
            "values": np.where(is_leaf[:, None], tree["values"], 0.0),
        }
        for name, row in rows.items():
            parts.setdefault(name, []).append(row)
        categories |= {start + node: members for node, members in tree.get("categories", {}).items()}
    joint = {name: np.concatenate(rows) for name, rows in parts.items()}
    return Forest(
        starts[:-1].astype(np.intp),
        joint["column"].astype(np.intp),
        joint["left"].astype(np.intp),
        joint["right"].astype(np.intp),
        joint["threshold"],
        joint["missing_left"].astype(bool),
        joint["missing"].astype(np.uint8),
        joint["values"].astype(np.float64),
        strict,
        dtype,
        categories,
    )


class NotNumbersError(Exception):
    """Rows that a library turns into numbers in its own way."""


def numbers(rows: Any) -> Rows:
    """Rows of a table as numbers (b, d)."""
    if hasattr(rows, "toarray"):
        rows = rows.toarray()
    try:
        return np.asarray(rows.to_numpy() if hasattr(rows, "to_numpy") else rows, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise NotNumbersError from error


def complete_numbers(rows: Any) -> Rows:
    """The same for models that refuse missing values, and are to say so themselves."""
    values = numbers(rows)
    if np.isnan(values).any():
        raise NotNumbersError
    return values


def _tree_rows(estimator: Any) -> Callable[[Any], Rows]:
    """How trees and forests of scikit-learn read rows: with missing values, unless their settings rule them out."""
    refuses = estimator.criterion == "absolute_error" or getattr(estimator, "monotonic_cst", None) is not None
    return complete_numbers if refuses else numbers


def _label_classes(estimator: Any, method: str | None) -> tuple[Any, ...] | None:
    """The labels that ``predict`` of a classifier gives, as plain values."""
    return tuple(np.asarray(estimator.classes_).tolist()) if method == "predict" else None


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
    classes = _label_classes(estimator, method) if is_classifier else None
    return ReadTrees(
        forest, SumScoring("identity", n_raw, classes=classes), (Fraction(0),) * n_raw, _tree_rows(estimator)
    )


def _read_sklearn_forest(estimator: Any, method: str | None) -> ReadTrees | None:
    is_classifier = hasattr(estimator, "classes_")
    if estimator.n_outputs_ != 1 or method not in _FOREST_METHODS:
        return None
    forest = joined([_sklearn_tree(tree) for tree in estimator.estimators_])
    n_raw = forest.values.shape[1]
    classes = _label_classes(estimator, method) if is_classifier else None
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
    classes = _label_classes(estimator, method) if hasattr(estimator, "classes_") else None
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
    classes = _label_classes(estimator, method)
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


def _read_xgboost(estimator: Any, method: str | None) -> ReadTrees | None:
    if float(getattr(estimator, "missing", math.nan)) == float(getattr(estimator, "missing", math.nan)):
        return None  # another number stands for missing values
    learner = json.loads(bytes(booster_of(estimator).save_raw("json")))["learner"]
    booster, objective = learner["gradient_booster"], learner["objective"]["name"]
    model = booster.get("gbtree", booster).get("model", {})  # dart has a weight for each tree beside them
    if objective not in _XGBOOST_LINKS or "trees" not in model:
        return None
    parameters = learner["learner_model_param"]
    if int(parameters.get("num_target", "1")) > 1:
        return None
    n_raw = max(1, int(parameters["num_class"]))
    native_label = method is None and objective == "multi:softmax"
    classes = tuple(range(n_raw)) if native_label else None
    if method == "predict" and hasattr(estimator, "classes_"):
        classes = _label_classes(estimator, method)
    score = np.ravel(np.array(json.loads(f"[{parameters['base_score'].strip('[]')}]"), dtype=np.float32))
    base = np.broadcast_to(score, n_raw).astype(np.float64)
    if objective == "binary:logistic":
        base = -np.log(1 / base - 1)
    n_trees = len(model["trees"])
    if getattr(estimator, "early_stopping_rounds", None) and getattr(estimator, "best_iteration", None) is not None:
        n_trees = model["iteration_indptr"][estimator.best_iteration + 1]
    weights = booster.get("weight_drop", [1.0] * n_trees)
    parts = list(zip(model["trees"], model["tree_info"], weights, strict=False))[:n_trees]
    trees = [_xgboost_tree(tree, n_raw, group, weight) for tree, group, weight in parts]
    if any(tree is None for tree in trees):
        return None
    scoring = SumScoring(_XGBOOST_LINKS[objective], n_raw, roundoff=2.0**-24, classes=classes)
    base32 = tuple(Fraction(float(np.float32(part))) for part in base)
    forest = joined([tree for tree in trees if tree is not None], strict=True)
    return ReadTrees(forest, scoring, base32, numbers, dtype=np.float32, n_roundings=4)


_XGBOOST_LINKS = {
    "binary:logistic": "logistic",
    "binary:logitraw": "signed",
    "multi:softprob": "softmax",
    "multi:softmax": "softmax",
    "reg:squarederror": "identity",
    "reg:absoluteerror": "identity",
    "reg:pseudohubererror": "identity",
    "reg:quantileerror": "identity",
}


def _xgboost_tree(tree: dict[str, Any], n_raw: int, group: int, weight: float) -> dict[str, Any] | None:
    if int(tree["tree_param"]["size_leaf_vector"]) > 1:
        return None
    left, right = np.array(tree["left_children"]), np.array(tree["right_children"])
    missing_left = np.array(tree["default_left"], dtype=bool)
    conditions = np.array(tree["split_conditions"], dtype=np.float32).astype(np.float64)
    categories = {}
    for node, first, size in zip(
        tree["categories_nodes"], tree["categories_segments"], tree["categories_sizes"], strict=True
    ):
        # Categories of the set go right, all others left.
        categories[node] = frozenset(tree["categories"][first : first + size])
        left[node], right[node], missing_left[node] = right[node], left[node], not missing_left[node]
    values = weight * conditions[:, None] * (np.arange(n_raw) == group)
    arrays = {"column": np.array(tree["split_indices"]), "left": left, "right": right, "threshold": conditions}
    return arrays | {"missing_left": missing_left, "values": values, "categories": categories}


def _read_lightgbm(estimator: Any, method: str | None) -> ReadTrees | None:
    dump = booster_of(estimator).dump_model(num_iteration=_lightgbm_rounds(estimator))
    objective, *settings = dump.get("objective", "").split()
    n_raw = dump["num_tree_per_iteration"]
    if objective not in _LIGHTGBM_LINKS or (objective == "binary" and "sigmoid:1" not in settings):
        return None
    if "sqrt" in settings or dump.get("pandas_categorical") or '"leaf_coeff"' in json.dumps(dump["tree_info"]):
        return None
    n_averaged = len(dump["tree_info"]) // n_raw if dump["average_output"] else 1
    trees = [_lightgbm_tree(tree["tree_structure"], n_raw, at % n_raw) for at, tree in enumerate(dump["tree_info"])]
    for tree in trees:
        tree["values"] /= n_averaged
    is_label = method == "predict" and hasattr(estimator, "classes_")
    classes = _label_classes(estimator, method) if is_label else None
    if method not in (None, "predict", "predict_proba"):
        return None
    forest = joined(trees, dtype=np.float64)
    scoring = SumScoring(_LIGHTGBM_LINKS[objective], n_raw, classes=classes)
    n_roundings = 0 if n_averaged == 1 else 4
    return ReadTrees(forest, scoring, (Fraction(0),) * n_raw, numbers, n_roundings=n_roundings)


_LIGHTGBM_LINKS = {"binary": "logistic", "multiclass": "softmax"} | dict.fromkeys(
    ("regression", "regression_l1", "huber", "fair", "quantile", "mape"), "identity"
)


def _lightgbm_rounds(estimator: Any) -> int | None:
    """The rounds that LightGBM predicts with: up to the best, if training was stopped early."""
    best = booster_of(estimator).best_iteration
    return best if best and best > 0 else None


_LIGHTGBM_MISSING = {"None": NAN_IS_ZERO, "Zero": ZERO_IS_MISSING, "NaN": NAN_IS_MISSING}


def _lightgbm_tree(structure: dict[str, Any], n_raw: int, group: int) -> dict[str, Any]:
    rows: list[tuple[int, int, int, float, bool, int, float]] = []
    categories: dict[int, frozenset[int]] = {}

    def add(node: dict[str, Any]) -> int:
        at = len(rows)
        rows.append((0, -1, -1, 0.0, False, NAN_IS_MISSING, 0.0))
        if "leaf_value" in node:
            rows[at] = (0, -1, -1, 0.0, False, NAN_IS_MISSING, float(node["leaf_value"]))
            return at
        is_category = node["decision_type"] == "=="
        if is_category:
            categories[at] = frozenset(map(int, str(node["threshold"]).split("||")))
        missing = NAN_IS_MISSING if is_category else _LIGHTGBM_MISSING[node["missing_type"]]
        threshold = 0.0 if is_category else float(node["threshold"])
        left, right = add(node["left_child"]), add(node["right_child"])
        rows[at] = (node["split_feature"], left, right, threshold, node["default_left"] and not is_category, missing, 0)
        return at

    add(structure)
    column, left, right, threshold, missing_left, missing, value = map(np.array, zip(*rows, strict=True))
    arrays = {"column": column, "left": left, "right": right, "threshold": threshold, "missing_left": missing_left}
    values = value.astype(np.float64)[:, None] * (np.arange(n_raw) == group)
    return arrays | {"missing": missing, "values": values, "categories": categories}


def _read_catboost(estimator: Any, method: str | None) -> ReadTrees | None:
    handle, name = tempfile.mkstemp(suffix=".json")
    os.close(handle)
    try:
        estimator.save_model(name, format="json")
        model = json.loads(Path(name).read_text())
    finally:
        Path(name).unlink()
    if model["features_info"].get("categorical_features"):
        return None
    features = model["features_info"]["float_features"]
    n_classes = len(estimator.classes_)
    n_raw = n_classes if n_classes > 2 else 1
    link = _CATBOOST_LINKS.get(str(estimator.get_all_params().get("loss_function")).partition(":")[0])
    scale, bias = model["scale_and_bias"]
    if link is None or scale != 1 or method not in (None, "predict", "predict_proba"):
        return None
    columns = {feature["feature_index"]: feature["flat_feature_index"] for feature in features}
    treatments = {feature["feature_index"]: feature["nan_value_treatment"] for feature in features}
    if "oblivious_trees" in model:
        trees = [_oblivious_tree(tree, n_raw, columns, treatments) for tree in model["oblivious_trees"]]
    else:
        trees = [_uneven_tree(tree, n_raw, columns, treatments) for tree in model["trees"]]
    if any(tree is None for tree in trees):
        return None
    is_label = method == "predict" and n_classes > 0
    scoring = SumScoring(link, n_raw, classes=_label_classes(estimator, method) if is_label else None)
    base = tuple(map(Fraction, bias)) if len(bias) == n_raw else (Fraction(0),) * n_raw
    forest = joined([tree for tree in trees if tree is not None])
    return ReadTrees(forest, scoring, base, numbers, base_last=True, n_roundings=4)


_CATBOOST_LINKS = {"Logloss": "logistic", "CrossEntropy": "logistic", "MultiClass": "softmax"} | dict.fromkeys(
    ("RMSE", "MAE", "Quantile", "MAPE", "Huber", "Expectile"), "identity"
)


def _uneven_tree(
    tree: dict[str, Any], n_raw: int, columns: dict[int, int], treatments: dict[int, str]
) -> dict[str, Any] | None:
    """A tree whose nodes each have a test of their own: values above the border go right."""
    nodes: list[dict[str, Any]] = []
    children: list[tuple[int, int]] = []

    def add(node: dict[str, Any]) -> int:
        at = len(nodes)
        nodes.append(node)
        children.append((-1, -1))
        if "split" in node:
            children[at] = add(node["left"]), add(node["right"])
        return at

    add(tree)
    splits = [node.get("split", {}) for node in nodes]
    if any(split and split["split_type"] != "FloatFeature" for split in splits):
        return None
    places = [split.get("float_feature_index") for split in splits]
    left, right = np.array(children).T
    return {
        "column": np.array([columns.get(place, 0) for place in places]),
        "left": left,
        "right": right,
        "threshold": np.array([np.float32(split.get("border", 0)) for split in splits], dtype=np.float64),
        "missing_left": np.array([treatments.get(place) != "AsTrue" for place in places]),
        "values": np.array([np.broadcast_to(np.ravel(node.get("value", 0.0)), n_raw) for node in nodes]),
    }


def _oblivious_tree(
    tree: dict[str, Any], n_raw: int, columns: dict[int, int], treatments: dict[int, str]
) -> dict[str, Any] | None:
    """A tree with one test per level: leaf Σ 2^level of the levels whose value is above the border."""
    splits = tree["splits"]
    if any(split["split_type"] != "FloatFeature" for split in splits):
        return None
    depth = len(splits)
    n_inner = 2**depth - 1
    column, threshold, missing_left = (
        np.zeros(2 * n_inner + 1, int),
        np.zeros(2 * n_inner + 1),
        np.zeros(2 * n_inner + 1, bool),
    )
    left, right = np.full(2 * n_inner + 1, -1), np.full(2 * n_inner + 1, -1)
    values = np.zeros((2 * n_inner + 1, n_raw))
    leaf_values = np.array(tree["leaf_values"]).reshape(-1, n_raw)
    for node in range(2 * n_inner + 1):
        level = (node + 1).bit_length() - 1
        if level < depth:
            split = splits[level]
            place = split["float_feature_index"]
            column[node], threshold[node] = columns[place], np.float32(split["border"])
            missing_left[node] = treatments[place] != "AsTrue"
            left[node], right[node] = 2 * node + 1, 2 * node + 2
        else:
            path = node + 1 - 2**depth  # the first test is the highest bit of the path, the lowest of the leaf
            values[node] = leaf_values[sum((path >> (depth - 1 - at) & 1) << at for at in range(depth))]
    return {
        "column": column,
        "left": left,
        "right": right,
        "threshold": threshold,
        "missing_left": missing_left,
        "values": values,
    }
