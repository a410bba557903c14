"""A masked model → scores of its features, by LIME, Shapley values, gradients, occlusion, or whatever users have."""

from holdfast.attribution.external import from_array, from_captum, from_shap
from holdfast.attribution.lime import from_lime
from holdfast.attribution.methods import METHODS, attribute
from holdfast.attribution.shapley import as_shapiq_game

__all__ = ["METHODS", "as_shapiq_game", "attribute", "from_array", "from_captum", "from_lime", "from_shap"]
