"""A fitted model of XGBoost, LightGBM or CatBoost → its trees in arrays, from the library's own form of saving."""

from __future__ import annotations

import json
import math
import os
import tempfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.exact.arrays import ReadTrees, joined, label_classes, plain_numbers
from holdfast.exact.limits import SumScoring
from holdfast.exact.trees import NAN_IS_MISSING, NAN_IS_ZERO, ZERO_IS_MISSING
from holdfast.masking.table.boosters import booster_of, probability_threshold

_KINDS = {
    "xgboost": ("Booster", "XGBClassifier", "XGBRegressor", "XGBRFClassifier", "XGBRFRegressor"),
    "lightgbm": ("Booster", "LGBMClassifier", "LGBMRegressor"),
    "catboost": ("CatBoost", "CatBoostClassifier", "CatBoostRegressor"),
}


def answers_plainly(estimator: Any, method: str | None) -> bool:
    """Whether a model of these libraries answers as its trees do, by its class and its settings.

    A class that is derived from theirs may answer in its own way. LightGBM may stop early for rows that it is sure of,
    and CatBoost may give labels by another probability than 0.5.
    """
    library = type(estimator).__module__.partition(".")[0]
    if type(estimator).__name__ not in _KINDS.get(library, ()):
        return False
    if library == "lightgbm":
        settings = {*getattr(booster_of(estimator), "params", {}), *getattr(estimator, "_other_params", {})}
        return not any(part in name for name in settings for part in _LIGHTGBM_ANSWERS)
    return library != "catboost" or method != "predict" or probability_threshold(estimator) is None


def read_booster(estimator: Any, method: str | None) -> ReadTrees | None:
    """The trees of a model of these libraries; None if they are none that are known."""
    readers = {"xgboost": _read_xgboost, "lightgbm": _read_lightgbm, "catboost": _read_catboost}
    return readers[type(estimator).__module__.partition(".")[0]](estimator, method)


def _read_xgboost(estimator: Any, method: str | None) -> ReadTrees | None:
    missing = getattr(estimator, "missing", math.nan)
    if missing is not None and missing == missing:
        return None  # another number stands for missing values
    learner = json.loads(bytes(booster_of(estimator).save_raw("json")))["learner"]
    booster, objective = learner["gradient_booster"], learner["objective"]["name"]
    model = booster.get("gbtree", booster).get("model", {})  # dart has a weight for each tree beside them
    if objective not in _XGBOOST_LINKS or not model.get("trees"):
        return None
    if objective == "binary:logitraw" and method is not None:
        return None  # the estimator takes raw scores for probabilities
    parameters = learner["learner_model_param"]
    if int(parameters.get("num_target", "1")) > 1:
        return None
    n_raw = max(1, int(parameters["num_class"]))
    native_label = method is None and objective == "multi:softmax"
    classes = tuple(range(n_raw)) if native_label else None
    if method == "predict" and hasattr(estimator, "classes_"):
        classes = label_classes(estimator, method)
    score = np.ravel(np.array(json.loads(f"[{parameters['base_score'].strip('[]')}]"), dtype=np.float32))
    if objective == "binary:logistic":
        score = -np.log(np.float32(1) / score - np.float32(1))  # in float32 step by step, as the library does
    base = np.broadcast_to(score, n_raw)
    n_trees = len(model["trees"])
    if getattr(estimator, "early_stopping_rounds", None) and getattr(estimator, "best_iteration", None) is not None:
        n_trees = model["iteration_indptr"][estimator.best_iteration + 1]
    weights = booster.get("weight_drop", [1.0] * n_trees)
    parts = list(zip(model["trees"], model["tree_info"], weights, strict=False))[:n_trees]
    trees = [_xgboost_tree(tree, n_raw, group, weight) for tree, group, weight in parts]
    if any(tree is None for tree in trees):
        return None
    scoring = SumScoring(_XGBOOST_LINKS[objective], n_raw, roundoff=2.0**-24, classes=classes)
    base32 = tuple(map(Fraction, base.tolist()))
    forest = joined([tree for tree in trees if tree is not None], strict=True)
    return ReadTrees(forest, scoring, base32, plain_numbers, dtype=np.float32, n_roundings=4)


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
    objective, *settings = dump.get("objective", "custom").split()
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
    classes = label_classes(estimator, method) if is_label else None
    if method not in (None, "predict", "predict_proba"):
        return None
    forest = joined(trees, dtype=np.float64)
    scoring = SumScoring(_LIGHTGBM_LINKS[objective], n_raw, classes=classes)
    n_roundings = 0 if n_averaged == 1 else 4
    return ReadTrees(forest, scoring, (Fraction(0),) * n_raw, plain_numbers, n_roundings=n_roundings)


_LIGHTGBM_ANSWERS = ("pred", "raw_score", "rawscore", "leaf_index", "contrib", "start_iteration", "iteration_predict")
"""What settings are called that change how it answers: early stopping for sure rows, raw scores, other rounds."""

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
    scoring = SumScoring(link, n_raw, classes=label_classes(estimator, method) if is_label else None)
    base = tuple(map(Fraction, bias)) if len(bias) == n_raw else (Fraction(0),) * n_raw
    forest = joined([tree for tree in trees if tree is not None])
    return ReadTrees(forest, scoring, base, plain_numbers, base_last=True, n_roundings=4)


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
