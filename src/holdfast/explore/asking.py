"""What a page asks of a job → settings of the library's own functions, checked before any model call."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from holdfast.certification.question import FIELDS, check_radii
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.explore.view import check_object
from holdfast.plans.catalog import DIVISORS, SHIPPED_RISKS, SHIPPED_TOLERANCES
from holdfast.validation import check_name, check_whole, shown

TOLERANCES = tuple(float(one) for one in SHIPPED_TOLERANCES)
CONFIDENCES = tuple(float(1 - one) for one in sorted(SHIPPED_RISKS, reverse=True))
"""What plans exist for; others would have to be searched, which takes minutes and cannot be cancelled."""

SHARED_PRECISIONS = ((0.1, 0.9), (0.05, 0.95))
"""The same for many radii at once."""

DEFAULT_RADIUS, DEFAULT_TOLERANCE, DEFAULT_CONFIDENCE = 5, 0.1, 0.9

MOST_RADII = 256

LEAST_TOLERANCE = 0.01
"""Below, the plan of the paper draws so many masks that cancelling takes effect only when they are drawn."""

_PRECISION = ("tolerance", "confidence", "plan")
_FIELDS = {
    "explain": (),
    "certify": ("radius", *_PRECISION),
    "witness": ("max_radius", "max_calls"),
    "curve": ("radii", "simultaneous", *_PRECISION),
}

KINDS = tuple(_FIELDS)
"""What a job can be."""


def read_options(kind: str, plain: Any) -> dict[str, Any]:
    """The settings of a job of this kind, defaults included.

    Examples
    --------
    >>> read_options("certify", {"radius": 3})
    {'radius': 3, 'tolerance': 0.1, 'confidence': 0.9, 'plan': 'sequential'}
    """
    given = check_object({} if plain is None else plain, "options", names=_FIELDS[check_name(kind, "kind", KINDS)])
    if kind == "certify":
        return {"radius": check_whole(given.get("radius", DEFAULT_RADIUS), "radius")} | _read_precision(given)
    if kind == "curve":
        return _check_shared(_with_plan(_read_curve(given) | _read_precision({"plan": "hoeffding"} | given), given))
    return {name: check_whole(value, name) for name, value in given.items() if value is not None}


def _read_curve(given: dict[str, Any]) -> dict[str, Any]:
    radii = given.get("radii", [1, 2, 4, 8, 16])
    if not isinstance(radii, list) or len(radii) > MOST_RADII:
        raise InvalidTypeError(argument="radii", must=f"be a list of at most {MOST_RADII} whole numbers")
    simultaneous = given.get("simultaneous", True)
    if not isinstance(simultaneous, bool):
        raise InvalidTypeError(argument="simultaneous", must="be true or false", got=shown(simultaneous))
    return {"radii": list(check_radii(radii)), "simultaneous": simultaneous}


def _with_plan(options: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """A curve that names no plan has the one with fewest draws of those that begin at once."""
    ships = options["tolerance"] in TOLERANCES and options["confidence"] in CONFIDENCES and not _is_searched(options)
    return options | {"plan": "sequential"} if "plan" not in given and ships else options


def _is_searched(options: dict[str, Any]) -> bool:
    """Radii that are to hold at once share the risk; designs for that ship at the most common settings alone."""
    pair, n_radii = (options["tolerance"], options["confidence"]), len(options["radii"])
    ships = pair in SHARED_PRECISIONS and n_radii <= DIVISORS[-1]
    return options["simultaneous"] and n_radii > 1 and not ships


def _check_shared(options: dict[str, Any]) -> dict[str, Any]:
    if options["plan"] != "hoeffding" and _is_searched(options):
        pair = (options["tolerance"], options["confidence"])
        known = " or ".join(f"{tolerance} with {confidence}" for tolerance, confidence in SHARED_PRECISIONS)
        raise InvalidValueError(
            f"and `confidence` must be {known} for up to {DIVISORS[-1]} radii at once, "
            f"got {pair[0]} with {pair[1]} for {len(options['radii'])}. "
            "Take each radius on its own, or the plan 'hoeffding'.",
            argument="tolerance",
        )
    return options


def _read_precision(given: dict[str, Any]) -> dict[str, Any]:
    plan, tolerance, confidence = (
        FIELDS[name].check(given.get(name, FIELDS[name].default), name) for name in ("plan", "tolerance", "confidence")
    )
    if float(tolerance) < LEAST_TOLERANCE:
        raise InvalidValueError(
            argument="tolerance",
            must=f"be at least {LEAST_TOLERANCE} here",
            got=float(tolerance),
            hint="For smaller ones use `holdfast certify`.",
        )
    if plan != "hoeffding":
        _check_shipped(tolerance, "tolerance", TOLERANCES)
        _check_shipped(confidence, "confidence", CONFIDENCES)
    return {"tolerance": float(tolerance), "confidence": float(confidence), "plan": plan}


def _check_shipped(value: Fraction, name: str, known: tuple[float, ...]) -> None:
    if float(value) not in known:
        raise InvalidValueError(
            argument=name,
            must=f"be one of {', '.join(map(str, known))} here",
            got=float(value),
            hint="Other values need a plan that is searched first: use `holdfast certify`, or the plan 'hoeffding'.",
        )
