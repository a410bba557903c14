"""Tell whether the explanation of a prediction holds fast.

Certify how often a model's prediction survives when more features are revealed than an explanation
selected. ``import holdfast as hf``; see the README for a first example.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast import boolean as boolean
    from holdfast import study as study
    from holdfast.agreement import Agreement, same_top_class, same_top_set, within
    from holdfast.attribution.external import from_array, from_captum, from_shap
    from holdfast.attribution.lime import from_lime
    from holdfast.attribution.methods import attribute
    from holdfast.attribution.scores import Attribution
    from holdfast.attribution.shapley import as_shapiq_game
    from holdfast.bounds import Interval, anytime_interval, clopper_pearson, hoeffding
    from holdfast.certification.certificate import Certificate, certify
    from holdfast.certification.comparison import Comparison, Difference, compare
    from holdfast.certification.curve import StabilityCurve, certify_radii
    from holdfast.certification.fill_sensitivity import FillSensitivity, fill_sensitivity
    from holdfast.certification.hard import HardCertificate, certify_hard
    from holdfast.certification.mean_curve import MeanCurve, MeanRate, mean_curve
    from holdfast.certification.radius import RadiusCertificate, RadiusStep, certified_radius
    from holdfast.certification.reexplain import Reexplanation, reexplain
    from holdfast.certification.stabilize import SizeStep, StableSelection, stabilize
    from holdfast.certification.verify import Recheck, recheck
    from holdfast.errors import HoldfastError, InvalidTypeError, InvalidValueError, MissingExtraError, ModelError
    from holdfast.evaluation import Evaluator, Tally
    from holdfast.inputs import data as data
    from holdfast.inputs import models as models
    from holdfast.inputs.inputs import Inputs, bind
    from holdfast.masking.function import lookup_table, mask_function
    from holdfast.masking.image.groups import grid, segments, superpixels
    from holdfast.masking.image.mask_image import mask_image
    from holdfast.masking.table.columns import column_groups, columns, windows
    from holdfast.masking.table.mask_tabular import mask_tabular
    from holdfast.masking.text.mask_text import mask_text
    from holdfast.mus import certify_mus, mus_model
    from holdfast.neighborhood import Additions, Neighborhood, Removals, Swaps
    from holdfast.plans import PlannedSamples, plan_samples
    from holdfast.selection import above, positive, top, top_fraction
    from holdfast.smoothing import (
        SmoothedAccuracy,
        SmoothedModel,
        adaptive_keep,
        selective_keep,
        smooth,
        smoothed_accuracy,
    )
    from holdfast.types import Deciding, Differentiable, Mask, MaskedModel, Provenance
    from holdfast.witness import StabilityBracket, Witness, find_witness, stability_bracket

__version__ = "0.1.0"

__all__ = [
    "Additions",
    "Agreement",
    "Attribution",
    "Certificate",
    "Comparison",
    "Deciding",
    "Difference",
    "Differentiable",
    "Evaluator",
    "FillSensitivity",
    "HardCertificate",
    "HoldfastError",
    "Inputs",
    "Interval",
    "InvalidTypeError",
    "InvalidValueError",
    "Mask",
    "MaskedModel",
    "MeanCurve",
    "MeanRate",
    "MissingExtraError",
    "ModelError",
    "Neighborhood",
    "PlannedSamples",
    "Provenance",
    "RadiusCertificate",
    "RadiusStep",
    "Recheck",
    "Reexplanation",
    "Removals",
    "SizeStep",
    "SmoothedAccuracy",
    "SmoothedModel",
    "StabilityBracket",
    "StabilityCurve",
    "StableSelection",
    "Swaps",
    "Tally",
    "Witness",
    "above",
    "adaptive_keep",
    "anytime_interval",
    "as_shapiq_game",
    "attribute",
    "bind",
    "certified_radius",
    "certify",
    "certify_hard",
    "certify_mus",
    "certify_radii",
    "clopper_pearson",
    "column_groups",
    "columns",
    "compare",
    "fill_sensitivity",
    "find_witness",
    "from_array",
    "from_captum",
    "from_lime",
    "from_shap",
    "grid",
    "hoeffding",
    "lookup_table",
    "mask_function",
    "mask_image",
    "mask_tabular",
    "mask_text",
    "mean_curve",
    "mus_model",
    "plan_samples",
    "positive",
    "recheck",
    "reexplain",
    "same_top_class",
    "same_top_set",
    "segments",
    "selective_keep",
    "smooth",
    "smoothed_accuracy",
    "stability_bracket",
    "stabilize",
    "superpixels",
    "top",
    "top_fraction",
    "windows",
    "within",
]

_MODULES = {"boolean": "boolean", "data": "inputs.data", "models": "inputs.models", "study": "study"}

_NAMES = {
    "agreement": "Agreement same_top_class same_top_set within",
    "attribution.external": "from_array from_captum from_shap",
    "attribution.lime": "from_lime",
    "attribution.methods": "attribute",
    "attribution.scores": "Attribution",
    "attribution.shapley": "as_shapiq_game",
    "bounds": "Interval anytime_interval clopper_pearson hoeffding",
    "certification.certificate": "Certificate certify",
    "certification.comparison": "Comparison Difference compare",
    "certification.curve": "StabilityCurve certify_radii",
    "certification.fill_sensitivity": "FillSensitivity fill_sensitivity",
    "certification.hard": "HardCertificate certify_hard",
    "certification.mean_curve": "MeanCurve MeanRate mean_curve",
    "certification.radius": "RadiusCertificate RadiusStep certified_radius",
    "certification.reexplain": "Reexplanation reexplain",
    "certification.stabilize": "SizeStep StableSelection stabilize",
    "certification.verify": "Recheck recheck",
    "errors": "HoldfastError InvalidTypeError InvalidValueError MissingExtraError ModelError",
    "evaluation": "Evaluator Tally",
    "inputs.inputs": "Inputs bind",
    "masking.function": "lookup_table mask_function",
    "masking.image.groups": "grid segments superpixels",
    "masking.image.mask_image": "mask_image",
    "masking.table.columns": "column_groups columns windows",
    "masking.table.mask_tabular": "mask_tabular",
    "masking.text.mask_text": "mask_text",
    "mus": "certify_mus mus_model",
    "neighborhood": "Additions Neighborhood Removals Swaps",
    "plans": "PlannedSamples plan_samples",
    "selection": "above positive top top_fraction",
    "smoothing": "SmoothedAccuracy SmoothedModel adaptive_keep selective_keep smooth smoothed_accuracy",
    "types": "Deciding Differentiable Mask MaskedModel Provenance",
    "witness": "StabilityBracket Witness find_witness stability_bracket",
}
"""Where each public name comes from; a module is imported when one of its names is first asked for."""

_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """A public name, imported now and kept."""
    if name in _MODULES:
        value: Any = import_module(f"holdfast.{_MODULES[name]}")
    elif name in _MODULE_OF:
        value = getattr(import_module(f"holdfast.{_MODULE_OF[name]}"), name)
    else:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Public names, loaded or not: what editors and notebooks offer as completions."""
    return sorted({*__all__, *_MODULES, *(name for name in globals() if name.startswith("__"))})
