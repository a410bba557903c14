"""A masked row of a table → what its classifier can prove, read from its structure and checked against its answers."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.evaluation import bare_model
from holdfast.exact.arrays import NotNumbersError, ReadTrees, is_unpatched, numbers
from holdfast.exact.countable import Countable
from holdfast.exact.ensembles import MaskScorer, TreeEnsemble, merged_trees
from holdfast.exact.linear import read_additive
from holdfast.exact.readers import is_readable, read_trees
from holdfast.exact.trees import CountableTree, Leaf
from holdfast.masking.table.columns import positions_of
from holdfast.masking.table.mask_tabular import TabularModel
from holdfast.masking.table.palettes import FramePalette
from holdfast.masking.torch import fingerprint_live
from holdfast.types import MaskedModel, Masks

_COLUMNWISE = (
    *("StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler", "PowerTransformer", "QuantileTransformer"),
    *("SimpleImputer", "MissingIndicator", "OneHotEncoder", "OrdinalEncoder", "TargetEncoder", "KBinsDiscretizer"),
    *("Binarizer", "SplineTransformer", "SelectKBest", "SelectPercentile", "VarianceThreshold"),
    *("ColumnTransformer", "FeatureUnion", "Pipeline"),  # of such steps
)
"""Steps of scikit-learn that make every column of one column of the rows they get."""

_N_CHECKED = 12
_MOST_READ = 64
_MOST_LEAVES = 100_000
"""Most leaves that masks of a row can reach, over all trees and fills: more take longer than draws."""
_read: OrderedDict[tuple[str, str | None], ReadTrees | None] = OrderedDict()
"""Trees that were read, by fingerprint of the model and method."""


def countable_of(model: MaskedModel) -> Countable | None:
    """What a masked model can prove from its structure; None if that is not known.

    It is known for rows of a table (``mask_tabular``) whose classifier is a decision tree, a forest, bagged or boosted
    trees of scikit-learn, XGBoost, LightGBM or CatBoost, a linear or naive Bayes model of scikit-learn, or an
    explainable boosting machine without pairs, alone or behind steps that act column by column. What is read is
    checked: it must give the model's own answers on a few masks.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import mask_function
    >>> countable_of(mask_function(lambda masks: masks[:, 0], n_features=3)) is None
    True
    """
    countable = read_structure(model)
    if countable is None or countable is model:
        return countable
    is_sum = not isinstance(countable, TreeEnsemble) or countable.is_sum
    return countable if is_sum and answers_alike(model, countable) else None


def read_structure(model: MaskedModel) -> Countable | None:
    """The same before it is checked; the model is not asked, and is the one to be asked where rounding decides."""
    inner = getattr(bare_model(model), "structured", bare_model(model))
    if isinstance(inner, Countable):
        return inner
    if not isinstance(inner, TabularModel) or inner.softmax or inner.predictor.estimator is None:
        return None
    try:
        countable = _bind(inner)
    except (NotNumbersError, ValueError, TypeError, KeyError, IndexError, AttributeError):
        # What other versions save otherwise, and what users made of a model, is not known: masks are drawn then. Tests
        # that a model is read say so themselves.
        return None
    return None if countable is None else replace(countable, model=model)


def _bind(model: TabularModel) -> CountableTree | TreeEnsemble | None:
    table = _PipelineEnd.of(model)
    if table is None:
        return None
    # Not a matter of what is saved of a model, by which trees are known.
    trees = _read_once(model, table.estimator) if is_readable(table.estimator, model.predictor.method) else None
    if trees is not None:
        return _bind_trees(model, trees, table)
    parts = read_additive(table.estimator, model.predictor.method) if model.n_fills == 1 else None
    return None if parts is None else parts.bind(model, table.rows, table.of_column)


class _PipelineEnd:
    """The estimator at the end of a pipeline, the rows it gets with all shown and with all hidden, and its features."""

    def __init__(self, estimator: Any, rows: Any, of_column: NDArray[np.intp]) -> None:
        self.estimator, self.rows, self.of_column = estimator, rows, of_column

    @classmethod
    def of(cls, model: TabularModel) -> _PipelineEnd | None:
        """None if a step of the pipeline may mix columns."""
        estimator, steps = model.predictor.estimator, []
        while type(estimator).__name__ == "Pipeline" and type(estimator).__module__.startswith("sklearn."):
            if not is_unpatched(estimator):
                return None
            steps += [step for _, step in estimator.steps[:-1] if step not in (None, "passthrough")]
            estimator = estimator.steps[-1][1]
        if not all(map(_acts_by_column, steps)):
            return None
        n_columns, n_rows = len(model.features.of_column), 1 + model.n_fills
        hideable = model.features.hideable
        whole = np.where(hideable, np.arange(n_rows)[:, None], 0)
        if not steps:
            of_column = model.features.of_column
            if isinstance(model.palette, FramePalette):
                places = positions_of(model.palette.frame.columns)
                of_column = of_column[[places[label] for label in model.palette.order]]
            return cls(estimator, model.palette.take(whole), of_column)
        # One feature hidden at a time tells which columns behind the steps are its own.
        alone = [
            np.where(model.features.of_column == feature, row, 0)
            for row in range(1, n_rows)
            for feature in range(model.n_features)
        ]
        rows = model.palette.take(np.concatenate([whole, np.array(alone).reshape(-1, n_columns)]))
        for step in steps:
            rows = step.transform(rows)
        final, rows = rows.iloc[:n_rows] if hasattr(rows, "iloc") else rows[:n_rows], numbers(rows)
        changed = ~((rows[n_rows:] == rows[0]) | (np.isnan(rows[n_rows:]) & np.isnan(rows[0])))
        owners = changed.reshape(model.n_fills, model.n_features, -1).any(axis=0)
        if (owners.sum(axis=0) > 1).any():
            return None
        return cls(estimator, final, np.where(owners.any(axis=0), owners.argmax(axis=0), -1))


def _acts_by_column(step: Any) -> bool:
    if not type(step).__module__.startswith("sklearn.") or type(step).__name__ not in _COLUMNWISE:
        return False
    if not is_unpatched(step):
        return False
    inner = [
        part[1]
        for part in getattr(step, "transformers_", getattr(step, "steps", getattr(step, "transformer_list", [])))
    ]
    return all(isinstance(part, str) or part is None or _acts_by_column(part) or _is_identity(part) for part in inner)


def _is_identity(step: Any) -> bool:
    return type(step).__name__ == "FunctionTransformer" and step.func is None and is_unpatched(step)


def _read_once(model: TabularModel, estimator: Any) -> ReadTrees | None:
    """The trees of a model, read once for all rows.

    They are known by the fingerprint of the estimator itself: one that a user gave may stand for several models.
    """
    method, known = model.predictor.method, fingerprint_live(estimator)
    if known is None:
        return read_trees(estimator, method)
    key = (known, method)
    if key not in _read:
        _read[key] = read_trees(estimator, method)
        if len(_read) > _MOST_READ:
            _read.popitem(last=False)
    _read.move_to_end(key)
    return _read[key]


def _bind_trees(model: TabularModel, trees: ReadTrees, table: _PipelineEnd) -> CountableTree | TreeEnsemble | None:
    rows = trees.prepare(table.rows)
    forest, scoring = trees.forest, trees.scoring
    if rows.shape[1] != len(table.of_column):
        return None
    of_column = table.of_column if trees.order is None else table.of_column[trees.order]
    fills: list[list[list[Leaf]]] = []
    n_left = _MOST_LEAVES
    for fill in range(1, len(rows)):
        leaves_of_trees = forest.leaves(rows[[0, fill]], of_column, n_left)
        if leaves_of_trees is None:
            return None
        n_left -= sum(map(len, leaves_of_trees))
        fills.append(leaves_of_trees)
    if len(fills) == 1 and len(forest.roots) == 1 and scoring.link == "identity" and not any(trees.base):
        (leaves,) = fills[0]
        outputs = scoring.outputs(forest.values[[leaf.node for leaf in leaves]])
        return CountableTree(model, leaves, outputs)
    if len(fills) > 1 and scoring.classes is not None:
        return None  # fills vote
    base = np.array([float(part) for part in trees.base])
    scorers = []
    for part in fills:
        # Behind exp the last bits differ from the library's anyway; without it, sums in its order do not.
        own, values = (part, forest.values) if scoring.link == "identity" else merged_trees(part, forest.values)
        settings: dict[str, Any] = {"base": base, "base_last": trees.base_last, "dtype": trees.dtype}
        scorers.append(MaskScorer.of(own, values, model.n_features, **settings))
    return TreeEnsemble(model, fills, forest.values, trees.base, scoring, tuple(scorers), trees.n_roundings)


def answers_alike(model: MaskedModel, countable: Countable, masks: Masks | None = None) -> bool:
    """Whether the model itself answers as what was read of it, but for rounding, on some masks or a few of its own."""
    if masks is None:
        masks = checked_masks(model.n_features)
    theirs = np.asarray(model(masks))
    if isinstance(countable, TreeEnsemble):
        return countable.is_alike(countable.scores(masks), theirs)
    ours = np.asarray(countable(masks))
    return theirs.shape == ours.shape and bool((theirs == ours).all())


def checked_masks(n_features: int) -> Masks:
    """All shown, all hidden, and some between: (12, n_features)."""
    shares = np.linspace(0, 1, _N_CHECKED)[:, None]
    masks = np.random.default_rng(0).random((_N_CHECKED, n_features)) < shares
    masks[0], masks[-1] = False, True
    return masks
