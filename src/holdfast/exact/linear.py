"""Linear and naive Bayes models of scikit-learn → one small tree per feature, in exact fractions.

A linear score is Σ w·x. Its terms are products of two floats, which fractions hold exactly; the model itself rounds
each product and each sum.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.exact.ensembles import MaskScorer, TreeEnsemble
from holdfast.exact.limits import SumScoring
from holdfast.exact.sums import Units
from holdfast.exact.trees import Leaf
from holdfast.types import MaskedModel

_LINEAR = (
    *("LinearRegression", "Ridge", "RidgeCV", "Lasso", "LassoCV", "ElasticNet", "ElasticNetCV", "BayesianRidge"),
    *("HuberRegressor", "SGDRegressor", "LinearSVR", "LogisticRegression", "LogisticRegressionCV", "LinearSVC"),
    *("RidgeClassifier", "RidgeClassifierCV", "SGDClassifier", "Perceptron", "PassiveAggressiveClassifier"),
    "LinearDiscriminantAnalysis",
)


@dataclass(frozen=True, eq=False)
class AdditiveParts:
    """A model whose raw scores are sums over columns.

    They begin at ``base`` (n_scores,). A linear model has ``weights`` (n_scores, d); naive Bayes has ``densities``
    (n_scores, d, 2), a mean and a variance whose term is -(x - mean)² / (2 variance).
    """

    scoring: SumScoring
    base: tuple[float, ...]
    weights: NDArray[np.float64] | None = None
    densities: NDArray[np.float64] = field(default_factory=lambda: np.empty((0, 0, 2)))

    def terms(self, row: NDArray[np.float64]) -> list[list[Fraction]]:
        """What each column of a row adds to each score: [score][column]."""
        values = [Fraction(value) for value in row.tolist()]
        if self.weights is not None:
            return [[Fraction(w) * x for w, x in zip(line, values, strict=True)] for line in self.weights.tolist()]
        return [
            [-((x - Fraction(m)) ** 2) / (2 * Fraction(v)) for x, (m, v) in zip(values, line, strict=True)]
            for line in self.densities.tolist()
        ]

    def bind(self, model: MaskedModel, rows: NDArray[np.float64], of_column: NDArray[np.intp]) -> TreeEnsemble:
        """The sum over features on one row (2, d): as it is, and with every column hidden."""
        shown, hidden = self.terms(rows[0]), self.terms(rows[1])
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
            n_sums=2 * rows.shape[1] + 16,
            roundoff=self.scoring.roundoff,
        )
        floats = np.array([[float(part) for part in scores] for scores in values])
        scorer = MaskScorer.of(trees, floats, n_features, base=np.array([float(part) for part in base]))
        return TreeEnsemble(model, [trees], floats, base, self.scoring, (scorer,), straight=False, own_units=units)


def read_additive(estimator: Any, method: str | None) -> AdditiveParts | None:
    """A fitted linear or Gaussian naive Bayes model of scikit-learn as a sum over columns; None if it is none."""
    name = type(estimator).__name__
    if not type(estimator).__module__.startswith("sklearn."):
        return None
    if name == "GaussianNB" and method in ("predict_proba", "predict"):
        return _read_naive_bayes(estimator, method)
    if name not in _LINEAR or np.ndim(getattr(estimator, "coef_", 0)) == 0:
        return None
    weights = np.atleast_2d(np.asarray(estimator.coef_, dtype=np.float64))
    base = np.broadcast_to(np.ravel(np.asarray(estimator.intercept_, dtype=np.float64)), len(weights))
    roundoff = 2.0**-53 if np.asarray(estimator.coef_).dtype.itemsize > 4 else 2.0**-24
    if not hasattr(estimator, "classes_"):
        link = "identity" if method == "predict" and len(weights) == 1 else None
        return (
            None
            if link is None
            else AdditiveParts(SumScoring(link, 1, roundoff=roundoff), tuple(base.tolist()), weights)
        )
    if len(estimator.classes_) != max(2, len(weights)):
        return None
    classes = tuple(np.asarray(estimator.classes_).tolist()) if method == "predict" else None
    one = len(weights) == 1
    softmax = name in ("LogisticRegression", "LogisticRegressionCV", "LinearDiscriminantAnalysis")
    if name == "SGDClassifier" and method == "predict_proba":
        return None  # some of its losses have other links
    links = {
        "decision_function": "signed" if one else "identity",
        "predict": "signed" if one else "identity",
        "predict_proba": "logistic" if one else "softmax" if softmax else None,
    }
    found = links.get(method or "")
    if found is None:
        return None
    return AdditiveParts(
        SumScoring(found, len(weights), roundoff=roundoff, classes=classes), tuple(base.tolist()), weights
    )


def _read_naive_bayes(estimator: Any, method: str) -> AdditiveParts:
    """Log prior and log density of each class; the class with the largest sum leads, as behind a softmax."""
    classes = tuple(np.asarray(estimator.classes_).tolist()) if method == "predict" else None
    base = np.log(estimator.class_prior_) - 0.5 * np.sum(np.log(2.0 * np.pi * estimator.var_), axis=1)
    scoring = SumScoring("softmax", len(estimator.classes_), classes=classes)
    densities = np.stack([estimator.theta_, estimator.var_], axis=2)
    return AdditiveParts(scoring, tuple(base.tolist()), densities=densities)
