"""Tell whether the explanation of a prediction holds fast.

Certify how often a model's prediction survives when more features are revealed than an explanation
selected. ``import holdfast as hf``; see the README for a first example.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast import boolean as boolean
    from holdfast import study as study
    from holdfast.agreement import Agreement as Agreement
    from holdfast.agreement import same_labels as same_labels
    from holdfast.agreement import same_side as same_side
    from holdfast.agreement import same_top_class as same_top_class
    from holdfast.agreement import same_top_set as same_top_set
    from holdfast.agreement import within as within
    from holdfast.agreement import within_percent as within_percent
    from holdfast.attribution.external import from_array as from_array
    from holdfast.attribution.external import from_captum as from_captum
    from holdfast.attribution.external import from_shap as from_shap
    from holdfast.attribution.lime import from_lime as from_lime
    from holdfast.attribution.methods import Attribution as Attribution
    from holdfast.attribution.methods import attribute as attribute
    from holdfast.attribution.shapley import as_shapiq_game as as_shapiq_game
    from holdfast.bounds import Interval as Interval
    from holdfast.bounds import anytime_interval as anytime_interval
    from holdfast.bounds import clopper_pearson as clopper_pearson
    from holdfast.bounds import hoeffding as hoeffding
    from holdfast.certification.calibrate import CalibrationPlan as CalibrationPlan
    from holdfast.certification.calibrate import calibrate as calibrate
    from holdfast.certification.calibrate import plan_calibration as plan_calibration
    from holdfast.certification.certificate import Certificate as Certificate
    from holdfast.certification.certificate import certify as certify
    from holdfast.certification.citations import CitationCertificate as CitationCertificate
    from holdfast.certification.citations import certify_citations as certify_citations
    from holdfast.certification.comparison import Comparison as Comparison
    from holdfast.certification.comparison import Difference as Difference
    from holdfast.certification.comparison import compare as compare
    from holdfast.certification.curve import StabilityCurve as StabilityCurve
    from holdfast.certification.curve import certify_radii as certify_radii
    from holdfast.certification.fill_sensitivity import FillSensitivity as FillSensitivity
    from holdfast.certification.fill_sensitivity import fill_sensitivity as fill_sensitivity
    from holdfast.certification.hard import HardCertificate as HardCertificate
    from holdfast.certification.hard import certify_hard as certify_hard
    from holdfast.certification.mean_curve import MeanCurve as MeanCurve
    from holdfast.certification.mean_curve import MeanRate as MeanRate
    from holdfast.certification.mean_curve import mean_curve as mean_curve
    from holdfast.certification.probabilities import ProbabilityCurve as ProbabilityCurve
    from holdfast.certification.probabilities import certify_probabilities as certify_probabilities
    from holdfast.certification.radius import RadiusCertificate as RadiusCertificate
    from holdfast.certification.radius import RadiusStep as RadiusStep
    from holdfast.certification.radius import certified_radius as certified_radius
    from holdfast.certification.reexplain import Reexplanation as Reexplanation
    from holdfast.certification.reexplain import reexplain as reexplain
    from holdfast.certification.selector import Selector as Selector
    from holdfast.certification.stabilize import SizeStep as SizeStep
    from holdfast.certification.stabilize import StableSelection as StableSelection
    from holdfast.certification.stabilize import stabilize as stabilize
    from holdfast.certification.verify import Recheck as Recheck
    from holdfast.certification.verify import recheck as recheck
    from holdfast.errors import HoldfastError as HoldfastError
    from holdfast.errors import InvalidTypeError as InvalidTypeError
    from holdfast.errors import InvalidValueError as InvalidValueError
    from holdfast.errors import MissingExtraError as MissingExtraError
    from holdfast.errors import ModelError as ModelError
    from holdfast.evaluation import Evaluator as Evaluator
    from holdfast.evaluation import Tally as Tally
    from holdfast.inputs import data as data
    from holdfast.inputs import models as models
    from holdfast.inputs.inputs import Inputs as Inputs
    from holdfast.inputs.inputs import bind as bind
    from holdfast.judging import Judge as Judge
    from holdfast.judging import JudgeErrors as JudgeErrors
    from holdfast.judging import accepted_answers as accepted_answers
    from holdfast.judging import entails as entails
    from holdfast.judging import judge as judge
    from holdfast.judging import judge_errors as judge_errors
    from holdfast.judging import read_citations as read_citations
    from holdfast.judging import same_answer as same_answer
    from holdfast.judging import same_meaning as same_meaning
    from holdfast.judging import same_number as same_number
    from holdfast.laws.contract import NeighborhoodCheck as NeighborhoodCheck
    from holdfast.laws.contract import check_neighborhood as check_neighborhood
    from holdfast.laws.law import Bernoulli as Bernoulli
    from holdfast.laws.law import Grouped as Grouped
    from holdfast.laws.law import Weighted as Weighted
    from holdfast.masking.context.causal import CausalModel as CausalModel
    from holdfast.masking.context.endpoint import Endpoint as Endpoint
    from holdfast.masking.context.llm_judge import llm_judge as llm_judge
    from holdfast.masking.context.mask_context import ContextModel as ContextModel
    from holdfast.masking.context.mask_context import mask_context as mask_context
    from holdfast.masking.function import lookup_table as lookup_table
    from holdfast.masking.function import mask_function as mask_function
    from holdfast.masking.image.mask_image import mask_image as mask_image
    from holdfast.masking.image.pixels import grid as grid
    from holdfast.masking.image.pixels import segments as segments
    from holdfast.masking.image.pixels import superpixels as superpixels
    from holdfast.masking.resampling import resample as resample
    from holdfast.masking.table.columns import column_groups as column_groups
    from holdfast.masking.table.columns import columns as columns
    from holdfast.masking.table.columns import windows as windows
    from holdfast.masking.table.mask_tabular import mask_tabular as mask_tabular
    from holdfast.masking.text.mask_text import mask_text as mask_text
    from holdfast.mus import certify_mus as certify_mus
    from holdfast.mus import mus_model as mus_model
    from holdfast.neighborhood import Additions as Additions
    from holdfast.neighborhood import Neighborhood as Neighborhood
    from holdfast.neighborhood import Removals as Removals
    from holdfast.neighborhood import Swaps as Swaps
    from holdfast.plans import PlannedSamples as PlannedSamples
    from holdfast.plans import plan_samples as plan_samples
    from holdfast.selection import above as above
    from holdfast.selection import positive as positive
    from holdfast.selection import top as top
    from holdfast.selection import top_fraction as top_fraction
    from holdfast.smoothing import SmoothedAccuracy as SmoothedAccuracy
    from holdfast.smoothing import SmoothedModel as SmoothedModel
    from holdfast.smoothing import adaptive_keep as adaptive_keep
    from holdfast.smoothing import selective_keep as selective_keep
    from holdfast.smoothing import smooth as smooth
    from holdfast.smoothing import smoothed_accuracy as smoothed_accuracy
    from holdfast.types import Answering as Answering
    from holdfast.types import Completing as Completing
    from holdfast.types import Deciding as Deciding
    from holdfast.types import Differentiable as Differentiable
    from holdfast.types import Inspectable as Inspectable
    from holdfast.types import Mask as Mask
    from holdfast.types import MaskedModel as MaskedModel
    from holdfast.types import Provenance as Provenance
    from holdfast.witness import StabilityBracket as StabilityBracket
    from holdfast.witness import Witness as Witness
    from holdfast.witness import find_witness as find_witness
    from holdfast.witness import stability_bracket as stability_bracket

__version__ = "0.1.0"

_MODULES = {"boolean": "boolean", "data": "inputs.data", "models": "inputs.models", "study": "study"}

_NAMES = {
    "agreement": "Agreement same_labels same_side same_top_class same_top_set within within_percent",
    "attribution.external": "from_array from_captum from_shap",
    "attribution.lime": "from_lime",
    "attribution.methods": "Attribution attribute",
    "attribution.shapley": "as_shapiq_game",
    "bounds": "Interval anytime_interval clopper_pearson hoeffding",
    "certification.calibrate": "CalibrationPlan calibrate plan_calibration",
    "certification.certificate": "Certificate certify",
    "certification.citations": "CitationCertificate certify_citations",
    "certification.comparison": "Comparison Difference compare",
    "certification.curve": "StabilityCurve certify_radii",
    "certification.fill_sensitivity": "FillSensitivity fill_sensitivity",
    "certification.hard": "HardCertificate certify_hard",
    "certification.mean_curve": "MeanCurve MeanRate mean_curve",
    "certification.probabilities": "ProbabilityCurve certify_probabilities",
    "certification.radius": "RadiusCertificate RadiusStep certified_radius",
    "certification.reexplain": "Reexplanation reexplain",
    "certification.selector": "Selector",
    "certification.stabilize": "SizeStep StableSelection stabilize",
    "certification.verify": "Recheck recheck",
    "errors": "HoldfastError InvalidTypeError InvalidValueError MissingExtraError ModelError",
    "evaluation": "Evaluator Tally",
    "inputs.inputs": "Inputs bind",
    "judging": "Judge JudgeErrors accepted_answers entails judge judge_errors read_citations same_answer same_meaning "
    "same_number",
    "laws.contract": "NeighborhoodCheck check_neighborhood",
    "laws.law": "Bernoulli Grouped Weighted",
    "masking.context.llm_judge": "llm_judge",
    "masking.context.causal": "CausalModel",
    "masking.context.endpoint": "Endpoint",
    "masking.context.mask_context": "ContextModel mask_context",
    "masking.function": "lookup_table mask_function",
    "masking.image.pixels": "grid segments superpixels",
    "masking.image.mask_image": "mask_image",
    "masking.resampling": "resample",
    "masking.table.columns": "column_groups columns windows",
    "masking.table.mask_tabular": "mask_tabular",
    "masking.text.mask_text": "mask_text",
    "mus": "certify_mus mus_model",
    "neighborhood": "Additions Neighborhood Removals Swaps",
    "plans": "PlannedSamples plan_samples",
    "selection": "above positive top top_fraction",
    "smoothing": "SmoothedAccuracy SmoothedModel adaptive_keep selective_keep smooth smoothed_accuracy",
    "types": "Answering Completing Deciding Differentiable Inspectable Mask MaskedModel Provenance",
    "witness": "StabilityBracket Witness find_witness stability_bracket",
}
"""Where each public name comes from; a module is imported when one of its names is first asked for."""

_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names.split()}

if not TYPE_CHECKING:  # type checkers read the imports above
    __all__ = sorted(_MODULE_OF)


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
    return sorted({*_MODULE_OF, *_MODULES, *(name for name in globals() if name.startswith("__"))})
