"""A fitted scikit-learn estimator or pipeline → a ``Classifier`` on rows or on texts."""

from __future__ import annotations

from typing import Any

from holdfast.errors import InvalidTypeError
from holdfast.inputs.models.classifier import Classifier, make_classifier
from holdfast.inputs.models.engines import FunctionOnTexts, PredictorOnRows
from holdfast.masking.table.predictors import as_predictor
from holdfast.validation import check_name


def is_estimator(value: Any) -> bool:
    """Whether it is a fitted or unfitted estimator, and no class."""
    return not isinstance(value, type) and hasattr(value, "get_params") and hasattr(value, "predict")


def estimator_classifier(estimator: Any, *, kind: str | None, classes: Any, fingerprint: str | None) -> Classifier:
    """A classifier that asks the estimator for probabilities, else scores, else labels."""
    if not is_estimator(estimator) or not hasattr(estimator, "classes_"):
        raise InvalidTypeError(f"The estimator must be a fitted classifier, got {type(estimator).__name__}.")
    own = tuple(estimator.classes_)
    decided = _kind(estimator) if kind is None else check_name(kind, "kind", ("table", "text"))
    predictor = as_predictor(estimator)
    engine = FunctionOnTexts(predictor) if decided == "text" else PredictorOnRows(estimator, predictor, own)
    return make_classifier(engine, kind=decided, classes=own if classes is None else classes, fingerprint=fingerprint)


def _kind(estimator: Any) -> str:
    """Texts for a pipeline that starts with a vectoriser of texts, else tables."""
    steps = getattr(estimator, "steps", None)
    return "text" if steps and hasattr(steps[0][1], "build_analyzer") else "table"
