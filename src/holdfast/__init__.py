"""Tell whether the explanation of a prediction holds fast.

Certify how often a model's prediction survives when more features are revealed than an explanation
selected. ``import holdfast as hf``; see the README for a first example.
"""

from holdfast.agreement import Agreement, same_top_class, same_top_set, within
from holdfast.bounds import Interval, clopper_pearson, hoeffding
from holdfast.certification import certified_radius, certify, certify_hard, certify_radii, compare, recheck
from holdfast.errors import HoldfastError, InvalidTypeError, InvalidValueError, MissingExtraError, ModelError
from holdfast.evaluation import Evaluator, Tally
from holdfast.masking import lookup_table, mask_function
from holdfast.neighborhood import Additions, Neighborhood, Removals, Swaps
from holdfast.plans import PlannedSamples, plan_samples
from holdfast.results import (
    Certificate,
    Comparison,
    Difference,
    HardCertificate,
    RadiusCertificate,
    RadiusStep,
    Recheck,
    StabilityCurve,
)
from holdfast.types import Differentiable, Mask, MaskedModel, Provenance

__version__ = "0.1.0"

__all__ = [
    "Additions",
    "Agreement",
    "Certificate",
    "Comparison",
    "Difference",
    "Differentiable",
    "Evaluator",
    "HardCertificate",
    "HoldfastError",
    "Interval",
    "InvalidTypeError",
    "InvalidValueError",
    "Mask",
    "MaskedModel",
    "MissingExtraError",
    "ModelError",
    "Neighborhood",
    "PlannedSamples",
    "Provenance",
    "RadiusCertificate",
    "RadiusStep",
    "Recheck",
    "Removals",
    "StabilityCurve",
    "Swaps",
    "Tally",
    "certified_radius",
    "certify",
    "certify_hard",
    "certify_radii",
    "clopper_pearson",
    "compare",
    "hoeffding",
    "lookup_table",
    "mask_function",
    "plan_samples",
    "recheck",
    "same_top_class",
    "same_top_set",
    "within",
]
