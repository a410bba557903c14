"""Tell whether the explanation of a prediction holds fast.

Certify how often a model's prediction survives when more features are revealed than an explanation
selected. ``import holdfast as hf``; see the README for a first example.

Bind a model to an input
    bind                   a model and its data
    Inputs                 what bind returns; ``inputs[i]`` is one input
    mask_image             an image; features are segments
    mask_text              a text; features are tokens or words
    mask_tabular           a row of a table; features are columns
    mask_context           a prompt; features are passages
    mask_function          any function of masks
    lookup_table           a model that is a table of answers
    Endpoint               a language model behind a server
    CausalModel            a language model of Transformers, run here
    grid, superpixels      segments of an image
    resample               hide by random values, not by a constant
    MaskedModel, Mask      what a bound model is, and a mask

Explain
    attribute              score features: LIME, SHAP, gradients and more
    Attribution            scores, one per feature
    from_array, from_shap, from_captum, from_lime
                           scores made elsewhere
    as_shapiq_game         a model as a game for shapiq

Select
    top, top_fraction      the highest scores
    above, positive        the scores above a threshold, or above zero
    stabilize              cut a ranking where it is still stable
    calibrate, Selector    how many features new inputs need

Certify
    certify, Certificate   how often the prediction stays the same
    certify_radii, StabilityCurve
                           the same at many radii
    certify_probabilities  the same at many probabilities of revealing
    certified_radius, RadiusCertificate
                           the largest radius that is stable enough
    certify_hard, HardCertificate
                           whether any change alters the prediction
    find_witness, Witness  the fewest features that change the prediction
    stability_bracket      how many features can never change it
    certify_citations, CitationCertificate
                           whether cited passages are enough, and needed
    plan_samples           what a certificate will cost
    Neighborhood           the masks that a certificate is about
    Interval               a lower and an upper bound

Compare
    compare, Comparison    which explanation of an input is stabler
    fill_sensitivity       whether the answer depends on the fill
    reexplain              how much the method's own randomness changes
    recheck                ask again, and compare every field

Look inside
    Evaluator              a model that computes each mask once
    Tally                  how many draws agreed
    smooth, smoothed_accuracy
                           a smoothed model, and what smoothing costs
    mus_model, certify_mus
                           a smoothed model with a provable radius

Many inputs
    mean_curve, MeanCurve  the mean stability of many inputs

All errors are a HoldfastError.

Modules with further names (``hf.agreement.within``):
    agreement              when two outputs count as the same
    boolean                Boolean analysis of functions of masks
    bounds                 confidence intervals with a proof
    certification          parts of results, and rarer results
    data                   load data
    distributions          other ways to reveal features
    errors                 the errors by kind
    judging                when two answers in words say the same
    masking                more kinds of features
    models                 load models
    neighborhood           additions, removals and swaps
    plans                  what plan_samples returns
    smoothing              smoothed models and what they keep
    study                  studies of many inputs and methods
    types                  what a model of your own can offer
    witness                what stability_bracket returns
"""

from typing import TYPE_CHECKING

from holdfast.lazy import load_lazily

__version__ = "0.1.0"

if TYPE_CHECKING:
    from holdfast import agreement as agreement
    from holdfast import boolean as boolean
    from holdfast import bounds as bounds
    from holdfast import certification as certification
    from holdfast import distributions as distributions
    from holdfast import errors as errors
    from holdfast import judging as judging
    from holdfast import masking as masking
    from holdfast import neighborhood as neighborhood
    from holdfast import plans as plans
    from holdfast import smoothing as smoothing
    from holdfast import study as study
    from holdfast import types as types
    from holdfast import witness as witness
    from holdfast.attribution.external import from_array as from_array
    from holdfast.attribution.external import from_captum as from_captum
    from holdfast.attribution.external import from_shap as from_shap
    from holdfast.attribution.lime import from_lime as from_lime
    from holdfast.attribution.methods import Attribution as Attribution
    from holdfast.attribution.methods import attribute as attribute
    from holdfast.attribution.shapley import as_shapiq_game as as_shapiq_game
    from holdfast.bounds import Interval as Interval
    from holdfast.certification.calibrate import calibrate as calibrate
    from holdfast.certification.certificate import Certificate as Certificate
    from holdfast.certification.certificate import certify as certify
    from holdfast.certification.citations import CitationCertificate as CitationCertificate
    from holdfast.certification.citations import certify_citations as certify_citations
    from holdfast.certification.comparison import Comparison as Comparison
    from holdfast.certification.comparison import compare as compare
    from holdfast.certification.curve import StabilityCurve as StabilityCurve
    from holdfast.certification.curve import certify_radii as certify_radii
    from holdfast.certification.fill_sensitivity import fill_sensitivity as fill_sensitivity
    from holdfast.certification.hard import HardCertificate as HardCertificate
    from holdfast.certification.hard import certify_hard as certify_hard
    from holdfast.certification.mean_curve import MeanCurve as MeanCurve
    from holdfast.certification.mean_curve import mean_curve as mean_curve
    from holdfast.certification.probabilities import certify_probabilities as certify_probabilities
    from holdfast.certification.radius import RadiusCertificate as RadiusCertificate
    from holdfast.certification.radius import certified_radius as certified_radius
    from holdfast.certification.reexplain import reexplain as reexplain
    from holdfast.certification.selector import Selector as Selector
    from holdfast.certification.stabilize import stabilize as stabilize
    from holdfast.certification.verify import recheck as recheck
    from holdfast.errors import HoldfastError as HoldfastError
    from holdfast.evaluation import Evaluator as Evaluator
    from holdfast.evaluation import Tally as Tally
    from holdfast.inputs import data as data
    from holdfast.inputs import models as models
    from holdfast.inputs.inputs import Inputs as Inputs
    from holdfast.inputs.inputs import bind as bind
    from holdfast.masking.context.causal import CausalModel as CausalModel
    from holdfast.masking.context.endpoint import Endpoint as Endpoint
    from holdfast.masking.context.mask_context import mask_context as mask_context
    from holdfast.masking.function import lookup_table as lookup_table
    from holdfast.masking.function import mask_function as mask_function
    from holdfast.masking.image.mask_image import mask_image as mask_image
    from holdfast.masking.image.pixels import grid as grid
    from holdfast.masking.image.pixels import superpixels as superpixels
    from holdfast.masking.resampling import resample as resample
    from holdfast.masking.table.mask_tabular import mask_tabular as mask_tabular
    from holdfast.masking.text.mask_text import mask_text as mask_text
    from holdfast.mus import certify_mus as certify_mus
    from holdfast.mus import mus_model as mus_model
    from holdfast.neighborhood import Neighborhood as Neighborhood
    from holdfast.plans import plan_samples as plan_samples
    from holdfast.selection import above as above
    from holdfast.selection import positive as positive
    from holdfast.selection import top as top
    from holdfast.selection import top_fraction as top_fraction
    from holdfast.smoothing import smooth as smooth
    from holdfast.smoothing import smoothed_accuracy as smoothed_accuracy
    from holdfast.types import Mask as Mask
    from holdfast.types import MaskedModel as MaskedModel
    from holdfast.witness import Witness as Witness
    from holdfast.witness import find_witness as find_witness
    from holdfast.witness import stability_bracket as stability_bracket
else:
    __getattr__, __dir__, __all__ = load_lazily(
        __name__,
        {
            "attribution.external": "from_array from_captum from_shap",
            "attribution.lime": "from_lime",
            "attribution.methods": "Attribution attribute",
            "attribution.shapley": "as_shapiq_game",
            "bounds": "Interval",
            "certification.calibrate": "calibrate",
            "certification.certificate": "Certificate certify",
            "certification.citations": "CitationCertificate certify_citations",
            "certification.comparison": "Comparison compare",
            "certification.curve": "StabilityCurve certify_radii",
            "certification.fill_sensitivity": "fill_sensitivity",
            "certification.hard": "HardCertificate certify_hard",
            "certification.mean_curve": "MeanCurve mean_curve",
            "certification.probabilities": "certify_probabilities",
            "certification.radius": "RadiusCertificate certified_radius",
            "certification.reexplain": "reexplain",
            "certification.selector": "Selector",
            "certification.stabilize": "stabilize",
            "certification.verify": "recheck",
            "errors": "HoldfastError",
            "evaluation": "Evaluator Tally",
            "inputs.inputs": "Inputs bind",
            "masking.context.causal": "CausalModel",
            "masking.context.endpoint": "Endpoint",
            "masking.context.mask_context": "mask_context",
            "masking.function": "lookup_table mask_function",
            "masking.image.pixels": "grid superpixels",
            "masking.image.mask_image": "mask_image",
            "masking.resampling": "resample",
            "masking.table.mask_tabular": "mask_tabular",
            "masking.text.mask_text": "mask_text",
            "mus": "certify_mus mus_model",
            "neighborhood": "Neighborhood",
            "plans": "plan_samples",
            "selection": "above positive top top_fraction",
            "smoothing": "smooth smoothed_accuracy",
            "types": "Mask MaskedModel",
            "witness": "Witness find_witness stability_bracket",
        },
        {
            "agreement": "holdfast.agreement",
            "boolean": "holdfast.boolean",
            "bounds": "holdfast.bounds",
            "certification": "holdfast.certification",
            "data": "holdfast.inputs.data",
            "distributions": "holdfast.distributions",
            "errors": "holdfast.errors",
            "judging": "holdfast.judging",
            "masking": "holdfast.masking",
            "models": "holdfast.inputs.models",
            "neighborhood": "holdfast.neighborhood",
            "plans": "holdfast.plans",
            "smoothing": "holdfast.smoothing",
            "study": "holdfast.study",
            "types": "holdfast.types",
            "witness": "holdfast.witness",
        },
    )
