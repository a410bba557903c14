"""Tell whether the explanation of a prediction holds fast.

Certify how often a model's prediction survives when more features are revealed than an explanation
selected. ``import holdfast as hf``; see the README for a first example.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from holdfast.agreement import Agreement, same_top_class, same_top_set, within
from holdfast.bounds import Interval, anytime_interval, clopper_pearson, hoeffding
from holdfast.certification.certificate import Certificate, certify
from holdfast.certification.comparison import Comparison, Difference, compare
from holdfast.certification.curve import StabilityCurve, certify_radii
from holdfast.certification.fill_sensitivity import FillSensitivity, fill_sensitivity
from holdfast.certification.hard import HardCertificate, certify_hard
from holdfast.certification.mean_curve import MeanCurve, MeanRate, mean_curve
from holdfast.certification.radius import RadiusCertificate, RadiusStep, certified_radius
from holdfast.certification.stabilize import SizeStep, StableSelection, stabilize
from holdfast.certification.verify import Recheck, recheck
from holdfast.errors import HoldfastError, InvalidTypeError, InvalidValueError, MissingExtraError, ModelError
from holdfast.evaluation import Evaluator, Tally
from holdfast.masking import lookup_table, mask_function
from holdfast.mus import certify_mus, mus_model
from holdfast.neighborhood import Additions, Neighborhood, Removals, Swaps
from holdfast.plans import PlannedSamples, plan_samples
from holdfast.selection import above, positive, top, top_fraction
from holdfast.smoothing import SmoothedAccuracy, SmoothedModel, adaptive_keep, selective_keep, smooth, smoothed_accuracy
from holdfast.types import Deciding, Differentiable, Mask, MaskedModel, Provenance
from holdfast.witness import StabilityBracket, Witness, find_witness, stability_bracket

if TYPE_CHECKING:
    from holdfast import boolean as boolean
    from holdfast import study as study
    from holdfast.attribution import as_shapiq_game, attribute, from_array, from_captum, from_lime, from_shap
    from holdfast.attribution.scores import Attribution
    from holdfast.certification.reexplain import Reexplanation, reexplain
    from holdfast.inputs import data as data
    from holdfast.inputs import models as models
    from holdfast.inputs.inputs import Inputs, bind
    from holdfast.masking.image.groups import grid, segments, superpixels
    from holdfast.masking.image.mask_image import mask_image
    from holdfast.masking.table.columns import column_groups, columns, windows
    from holdfast.masking.table.mask_tabular import mask_tabular
    from holdfast.masking.text.mask_text import mask_text

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

_MODULES = {
    "boolean": "holdfast.boolean",
    "data": "holdfast.inputs.data",
    "models": "holdfast.inputs.models",
    "study": "holdfast.study",
}

_WHEN_ASKED_FOR = {
    "Attribution": "holdfast.attribution.scores",
    "Inputs": "holdfast.inputs.inputs",
    "as_shapiq_game": "holdfast.attribution",
    "attribute": "holdfast.attribution",
    "bind": "holdfast.inputs.inputs",
    "column_groups": "holdfast.masking.table.columns",
    "columns": "holdfast.masking.table.columns",
    "from_array": "holdfast.attribution",
    "from_captum": "holdfast.attribution",
    "from_lime": "holdfast.attribution",
    "from_shap": "holdfast.attribution",
    "grid": "holdfast.masking.image.groups",
    "mask_image": "holdfast.masking.image.mask_image",
    "mask_tabular": "holdfast.masking.table.mask_tabular",
    "mask_text": "holdfast.masking.text.mask_text",
    "Reexplanation": "holdfast.certification.reexplain",
    "reexplain": "holdfast.certification.reexplain",
    "segments": "holdfast.masking.image.groups",
    "superpixels": "holdfast.masking.image.groups",
    "windows": "holdfast.masking.table.columns",
}


def __getattr__(name: str) -> Any:
    """What only some users need is imported when it is first asked for."""
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name in _WHEN_ASKED_FOR:
        return getattr(import_module(_WHEN_ASKED_FOR[name]), name)
    raise AttributeError(f"module 'holdfast' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Public names, loaded or not: what editors and notebooks offer as completions."""
    return sorted({*__all__, *_MODULES, *(name for name in globals() if name.startswith("__"))})
