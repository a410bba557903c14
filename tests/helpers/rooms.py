"""Public names that are in rooms of ``holdfast``, not at its top level."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

ROOMS = {
    "agreement": "Agreement same_labels same_side same_top_class same_top_set within within_percent",
    "bounds": "anytime_interval clopper_pearson hoeffding",
    "certification": "CalibrationPlan Difference FillSensitivity MeanRate ProbabilityCurve RadiusStep Recheck "
    "Reexplanation SizeStep StableSelection plan_calibration",
    "distributions": "Bernoulli Grouped NeighborhoodCheck Weighted check_neighborhood",
    "errors": "InvalidTypeError InvalidValueError MissingExtraError ModelError",
    "judging": "Judge JudgeErrors accepted_answers entails judge judge_errors llm_judge read_citations same_answer "
    "same_meaning same_number",
    "masking": "column_groups columns segments windows",
    "masking.context": "ContextModel",
    "neighborhood": "Additions Removals Swaps",
    "plans": "PlannedSamples",
    "smoothing": "SmoothedAccuracy SmoothedModel adaptive_keep selective_keep",
    "types": "Answering Completing Deciding Differentiable Inspectable Provenance",
    "witness": "StabilityBracket",
}

OTHER_ROOMS = ("boolean", "data", "models", "study")
"""Rooms whose names are listed in their ``__all__``."""


def names_in_rooms() -> Iterator[tuple[str, str]]:
    """Each room with each of its names."""
    return ((room, name) for room, names in ROOMS.items() for name in names.split())


def public_object(name: str) -> Any:
    """What a public name of the top level or of a room in ``ROOMS`` stands for."""
    room = next((room for room, public in names_in_rooms() if public == name), None)
    return getattr(import_module("holdfast" if room is None else f"holdfast.{room}"), name)
