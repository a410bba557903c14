"""Linear and naive Bayes models, and explainable boosting machines → one small tree per feature, in exact fractions.

Their scores are sums with one term per column. Terms are products of two floats, entries of tables, or logarithms,
which fractions hold exactly; the model itself rounds each product and each sum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.exact.arrays import NotNumbersError, complete_numbers, is_unpatched
from holdfast.exact.ensembles import MaskScorer, TreeEnsemble
from holdfast.exact.limits import SumScoring
from holdfast.exact.sums import Units
from holdfast.exact.trees import Leaf
from holdfast.types import MaskedModel

_REGRESSIONS = (
    *("LinearRegression", "Ridge", "RidgeCV", "Lasso", "LassoCV", "ElasticNet", "ElasticNetCV", "BayesianRidge"),
    *("HuberRegressor", "SGDRegressor", "LinearSVR", "ARDRegression", "Lars", "LarsCV", "LassoLars", "LassoLarsCV"),
    *("OrthogonalMatchingPursuit", "QuantileRegressor", "TheilSenRegressor"),
)
_CLASSIFIERS = (
    *("LogisticRegression", "LogisticRegressionCV", "LinearSVC", "RidgeClassifier", "RidgeClassifierCV"),
    *("SGDClassifier", "Perceptron", "LinearDiscriminantAnalysis"),
)

Terms = list[list[list[Fraction]]]
"""What each column of some rows adds to each score: [row][score][column]."""


@dataclass(frozen=True, eq=False)
class AdditiveParts:
    """A model whose raw scores are sums over columns: they begin at ``base`` and add what ``terms`` makes of rows."""

    scoring: SumScoring
    base: tuple[float, ...]
    terms: Callable[[Any], Terms]

    def bind(self, model: MaskedModel, rows: Any, of_column: NDArray[np.intp]) -> TreeEnsemble | None:
        """The sum over features on one row (2, d): as it is, and with every column hidden."""
        shown, hidden = self.terms(rows)
        if len(shown[0]) != len(of_column):
            return None
        n_features, n_raw = model.n_features, len(self.base)
        base = [Fraction(part) for part in self.base]
        pairs = [[[Fraction(0)] * n_raw for _ in range(2)] for _ in range(n_features)]
        sizes = [abs(part) for part in base]
        for column, feature in enumerate(of_column.tolist()):
            for score in range(n_raw):
                sizes[score] += max(abs(shown[score][column]), abs(hidden[score][column]))
                if feature < 0:
                    base[score] += shown[score][column]
                else:
                    pairs[feature][0][score] += hidden[score][column]
                    pairs[feature][1][score] += shown[score][column]
        trees = [
            [Leaf(0, 1 << feature, 2 * feature), Leaf(1 << feature, 0, 2 * feature + 1)]
            for feature in range(n_features)
        ]
        values = [scores for pair in pairs for scores in pair]
        pieces = [part for terms in (shown, hidden) for line in terms for part in line]
        units = Units.of_fractions(
            values,
            base,
            trees,
            sizes=sizes,
            pieces=pieces,
            n_sums=2 * len(of_column) + 16,
            roundoff=self.scoring.roundoff,
        )
        floats = np.array([[float(part) for part in scores] for scores in values])
        scorer = MaskScorer.of(trees, floats, n_features, base=np.array([float(part) for part in base]))
        return TreeEnsemble(model, [trees], floats, base, self.scoring, (scorer,), straight=False, own_units=units)


def read_additive(estimator: Any, method: str | None) -> AdditiveParts | None:
    """A fitted model as a sum over columns; None if it is none."""
    name, module = type(estimator).__name__, type(estimator).__module__
    if not is_unpatched(estimator):
        return None
    if module.startswith("interpret.") and name in ("ExplainableBoostingClassifier", "ExplainableBoostingRegressor"):
        return _read_boosting_machine(estimator, method)
    if not module.startswith("sklearn."):
        return None
    if name in _NAIVE_BAYES and method in ("predict_proba", "predict"):
        tables = getattr(estimator, "feature_log_prob_", ())
        if not all(np.isfinite(table).all() for table in tables):
            return None  # without smoothing, what was never seen rules a class out
        base, terms = _NAIVE_BAYES[name](estimator)
        scoring = SumScoring("softmax", len(estimator.classes_), classes=_labels(estimator, method))
        return AdditiveParts(scoring, tuple(base.tolist()), terms)
    if name not in (*_REGRESSIONS, *_CLASSIFIERS) or np.ndim(getattr(estimator, "coef_", 0)) == 0:
        return None
    weights = np.atleast_2d(np.asarray(estimator.coef_, dtype=np.float64))
    base = np.broadcast_to(np.ravel(np.asarray(estimator.intercept_, dtype=np.float64)), len(weights))
    if name in _REGRESSIONS:
        link = "identity" if method == "predict" and len(weights) == 1 else None
    elif len(estimator.classes_) != max(2, len(weights)):
        return None
    else:
        link = _link(estimator, method, len(weights))
    if link is None:
        return None
    roundoff = 2.0**-53 if np.asarray(estimator.coef_).dtype.itemsize > 4 else 2.0**-24
    scoring = SumScoring(link, len(weights), roundoff=roundoff, classes=_labels(estimator, method))
    return AdditiveParts(scoring, tuple(base.tolist()), _products(weights))


def _labels(estimator: Any, method: str | None) -> tuple[Any, ...] | None:
    """The labels that ``predict`` of a classifier gives, as plain values."""
    is_label = method == "predict" and hasattr(estimator, "classes_")
    return tuple(np.asarray(estimator.classes_).tolist()) if is_label else None


def _link(estimator: Any, method: str | None, n_raw: int) -> str | None:
    """How a linear classifier answers by a method; None if it is in another way than by a known link."""
    if method in ("decision_function", "predict"):
        return "signed" if n_raw == 1 else "identity"
    if method != "predict_proba":
        return None
    if type(estimator).__name__ == "SGDClassifier":  # of other losses, and of several classes, by other links
        return "logistic" if n_raw == 1 and estimator.loss == "log_loss" else None
    return "logistic" if n_raw == 1 else "softmax"


def _products(weights: NDArray[np.float64], prepare: Callable[[Any], Any] = complete_numbers) -> Callable[[Any], Terms]:
    """Terms w·x of weights (n_scores, d)."""
    exact = [[Fraction(w) for w in line] for line in weights.tolist()]

    def terms(rows: Any) -> Terms:
        values = [[Fraction(x) for x in row] for row in prepare(rows).tolist()]
        return [[[w * x for w, x in zip(line, row, strict=True)] for line in exact] for row in values]

    return terms


Parts = tuple[NDArray[np.float64], Callable[[Any], Terms]]
"""Where the scores of the classes begin, and their terms."""


def _gaussian(estimator: Any) -> Parts:
    """Terms -(x - mean)² / (2 variance), the logarithms of densities but for a constant."""
    base = np.log(estimator.class_prior_) - 0.5 * np.sum(np.log(2.0 * np.pi * estimator.var_), axis=1)
    densities = [
        [(Fraction(m), 2 * Fraction(v)) for m, v in zip(means, variances, strict=True)]
        for means, variances in zip(estimator.theta_.tolist(), estimator.var_.tolist(), strict=True)
    ]

    def terms(rows: Any) -> Terms:
        values = [[Fraction(x) for x in row] for row in complete_numbers(rows).tolist()]
        return [
            [[-((x - m) ** 2) / v for x, (m, v) in zip(row, line, strict=True)] for line in densities] for row in values
        ]

    return base, terms


def _multinomial(estimator: Any) -> Parts:
    return estimator.class_log_prior_, _products(estimator.feature_log_prob_)


def _complement(estimator: Any) -> Parts:
    return np.zeros(len(estimator.classes_)), _products(estimator.feature_log_prob_)


def _bernoulli(estimator: Any) -> Parts:
    """Columns are 0 or 1; one that is 0 counts too."""
    absent = np.log(1 - np.exp(estimator.feature_log_prob_))

    def prepare(rows: Any) -> Any:
        values = complete_numbers(rows)
        return values if estimator.binarize is None else (values > estimator.binarize).astype(np.float64)

    weights = _products(estimator.feature_log_prob_ - absent, prepare)
    return estimator.class_log_prior_ + absent.sum(axis=1), weights


def _categorical(estimator: Any) -> Parts:
    """Terms are entries of a table for each column."""
    tables = estimator.feature_log_prob_

    def terms(rows: Any) -> Terms:
        values = complete_numbers(rows).astype(np.intp)
        if any(not 0 <= kind < table.shape[1] for row in values for kind, table in zip(row, tables, strict=True)):
            raise NotNumbersError  # a category that the model does not know, and refuses
        return [
            [
                [Fraction(float(table[score, kind])) for kind, table in zip(row, tables, strict=True)]
                for score in range(len(estimator.classes_))
            ]
            for row in values.tolist()
        ]

    return estimator.class_log_prior_, terms


_NAIVE_BAYES: dict[str, Callable[[Any], Parts]] = {
    "GaussianNB": _gaussian,
    "MultinomialNB": _multinomial,
    "ComplementNB": _complement,
    "BernoulliNB": _bernoulli,
    "CategoricalNB": _categorical,
}


def _read_boosting_machine(estimator: Any, method: str | None) -> AdditiveParts | None:
    """An explainable boosting machine without pairs: what each term adds to a row, as the machine itself says."""
    columns = [features[0] for features in estimator.term_features_ if len(features) == 1]
    methods = {"identity": ("predict",), "logit": ("predict_proba", "predict"), "mlogit": ("predict_proba", "predict")}
    if len(columns) < len(estimator.term_features_) or method not in methods.get(estimator.link_, ()):
        return None
    base = np.ravel(estimator.intercept_)

    def terms(rows: Any) -> Terms:
        parts = estimator.eval_terms(rows).reshape(len(rows), len(columns), len(base))
        whole = np.zeros((len(rows), len(base), estimator.n_features_in_))
        whole[:, :, columns] = parts.transpose(0, 2, 1)
        return [[[Fraction(part) for part in line] for line in row] for row in whole.tolist()]

    link = {"identity": "identity", "logit": "logistic", "mlogit": "softmax"}[estimator.link_]
    scoring = SumScoring(link, len(base), classes=_labels(estimator, method))
    return AdditiveParts(scoring, tuple(base.tolist()), terms)
