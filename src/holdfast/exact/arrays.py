"""Trees of any library as arrays, and rows as numbers: what the readers of models share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.exact.limits import SumScoring
from holdfast.exact.trees import NAN_IS_MISSING, Forest

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


def is_unpatched(estimator: Any) -> bool:
    """Whether neither an object nor its parts have methods of their own in place of those of their class."""
    parts = np.ravel(np.array(getattr(estimator, "estimators_", ()), dtype=object)).tolist()
    return all(
        not callable(getattr(type(part), name, None))
        for part in (estimator, *parts)
        for name in getattr(part, "__dict__", ())
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


def plain_numbers(rows: Any) -> Rows:
    """The same for libraries that read sparse rows, and types of columns that are not plain numbers, otherwise."""
    kinds = [
        getattr(kind, "kind", None) if isinstance(kind, np.dtype) else None for kind in getattr(rows, "dtypes", ())
    ]
    if hasattr(rows, "toarray") or not all(kind is not None and kind in "biuf" for kind in kinds):
        raise NotNumbersError
    return numbers(rows)


def complete_numbers(rows: Any) -> Rows:
    """The same for models that refuse missing values, and are to say so themselves."""
    values = numbers(rows)
    if np.isnan(values).any():
        raise NotNumbersError
    return values


def label_classes(estimator: Any, method: str | None) -> tuple[Any, ...] | None:
    """The labels that ``predict`` of a classifier gives, as plain values."""
    return tuple(np.asarray(estimator.classes_).tolist()) if method == "predict" else None
