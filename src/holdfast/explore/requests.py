"""What a page sends → a view and the options of a job, checked before any model call."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from holdfast.certification.question import FIELDS, Question
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.plans.catalog import DIVISORS, SHIPPED_RISKS, SHIPPED_TOLERANCES
from holdfast.validation import check_list, check_whole, shown

OWN = "own"  # the method of those who choose the features themselves
CITED = "cited"  # the passages of a context that the data cite

TOLERANCES = tuple(map(float, SHIPPED_TOLERANCES))
CONFIDENCES = tuple(float(1 - risk) for risk in sorted(SHIPPED_RISKS, reverse=True))
"""What plans exist for; others would have to be searched, which takes minutes and cannot be cancelled."""

SHARED_PRECISIONS = ((0.1, 0.9), (0.05, 0.95))  # the same for many radii at once
LEAST_TOLERANCE = 0.01
"""Below, the plan of the paper draws so many masks that cancelling takes effect only when they are drawn."""

CHOICES = {
    "fractions": (0.125, 0.25, 0.375, 0.5),
    "keep_probabilities": (1.0, 0.9, 0.75, 0.5, 0.25),
    "tolerances": TOLERANCES,
    "confidences": CONFIDENCES,
    "radius_default": 5,
    "tolerance": FIELDS["tolerance"].default,
    "confidence": FIELDS["confidence"].default,
}
"""What the page offers, and where it begins."""

MOST_RADII = 256

KINDS = {
    "explain": (),
    "certify": ("radius", "tolerance", "confidence"),
    "witness": ("max_radius",),
    "curve": ("radii", "tolerance", "confidence"),
}
"""What a job can be, and its options."""


@dataclass(frozen=True)
class View:
    """One explanation of one input, and the model it is about.

    ``model`` is the name that the model is loaded by, ``input`` counts the inputs of the data from 0. The explanation
    is the top ``fraction`` of the scores of a ``method``, for the method "own" the features ``selected``, and for
    "cited" the passages that the data cite. ``fill``
    is the name of a choice of the entry, None for the default. At a ``keep_probability`` below 1, predictions are those
    of the smoothed model; the method explains the model itself. ``seed`` is that of all draws.
    """

    model: str
    input: int
    method: str = "lime"
    fraction: float = 0.25
    fill: str | None = None
    keep_probability: float = 1.0
    seed: int = 0
    selected: tuple[int, ...] = ()


def check_object(plain: Any, name: str, *, names: Iterable[str]) -> dict[str, Any]:
    """A JSON object with no other than these names."""
    if not isinstance(plain, dict):
        raise InvalidTypeError(argument=name, must="be an object", got=shown(plain))
    for key in plain.keys() - set(names):
        raise InvalidValueError(argument=name, must=f"have only the fields {', '.join(names)}", got=shown(key))
    return plain


def check_features(value: Any, name: str, *, n_features: int | None = None) -> tuple[int, ...]:
    """Numbers of features, each once, in increasing order."""
    numbers = check_list(value, name, "be a list of numbers of features")
    features = tuple(sorted({check_whole(feature, name) for feature in numbers}))
    if n_features is not None and features and features[-1] >= n_features:
        raise InvalidValueError(argument=name, must=f"be features from 0 to {n_features - 1}", got=shown(features[-1]))
    return features


def read_options(kind: str, plain: Any) -> dict[str, Any]:
    """The settings of a job of this kind, defaults included, if a plan for them begins at once."""
    options = check_object({} if plain is None else plain, "options", names=KINDS[kind])
    if kind not in ("certify", "curve"):
        return {name: check_whole(value, name) for name, value in options.items()}
    if kind == "certify":
        radii = [check_whole(options.get("radius", CHOICES["radius_default"]), "radius")]
    else:
        radii = check_list(options.get("radii", [1, 2, 4, 8, 16]), "radii", "be whole numbers", most=MOST_RADII)
    question = Question.check(options | {"radii": radii, "simultaneous": kind == "curve"})
    tolerance, confidence = float(question.tolerance), float(question.confidence)
    precision = {"tolerance": tolerance, "confidence": confidence, "plan": "sequential"}
    if tolerance < LEAST_TOLERANCE:
        must, hint = f"be at least {LEAST_TOLERANCE} here", "For smaller values use `holdfast certify`."
        raise InvalidValueError(argument="tolerance", must=must, got=tolerance, hint=hint)
    if kind == "curve":
        # Radii that hold at once share the risk; designs for that ship at the most common settings alone.
        n_radii = len(question.radii)
        ships = (tolerance, confidence) in SHARED_PRECISIONS and n_radii <= DIVISORS[-1]
        if not ships and (n_radii > 1 or tolerance not in TOLERANCES or confidence not in CONFIDENCES):
            precision["plan"] = "hoeffding"
        return {"radii": list(question.radii), "simultaneous": True} | precision
    for name, known in (("tolerance", TOLERANCES), ("confidence", CONFIDENCES)):
        if precision[name] not in known:
            must = f"be one of {', '.join(map(str, known))} here"
            hint = "Other values need a plan that is searched first: use `holdfast certify`."
            raise InvalidValueError(argument=name, must=must, got=precision[name], hint=hint)
    return {"radius": radii[0]} | precision
