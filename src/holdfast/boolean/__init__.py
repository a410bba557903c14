"""Boolean analysis of a function of masks: tables and spectra in, operators, bounds and indices out.

A function h of n features is a table (2ⁿ,), or k functions side by side (2ⁿ, k); the row of a mask is
Σ mask_i 2^i, and so is the row of a set of features in a list of coefficients. ``tabulate`` makes the
table of a model. See docs/theory/boolean.md, and docs/errata.md for what the paper has wrong.
"""

from holdfast.boolean import figures as figures
from holdfast.boolean.bases import (
    biased,
    biased_to_biased,
    biased_to_fourier,
    biased_to_monotone,
    fourier,
    fourier_to_biased,
    fourier_to_monotone,
    inverse_biased,
    inverse_fourier,
    inverse_monotone,
    monotone,
    monotone_to_biased,
    monotone_to_fourier,
)
from holdfast.boolean.estimation import Estimate, estimate_coefficients, estimate_level_weights
from holdfast.boolean.low_degree import LowDegreeWeights, low_degree_weights
from holdfast.boolean.operators import (
    condition,
    conditional_weights,
    flip_operator,
    hide,
    mask_operator,
    mask_operator_rebiased,
    reveal,
)
from holdfast.boolean.profiles import (
    banzhaf,
    degree_mass,
    degree_weight,
    gram_matrix,
    influences,
    interactions,
    noise_stability,
    shapley,
    smoothed_mass_bound,
    smoothed_variance_bound,
    tail_mass,
    variance,
)
from holdfast.boolean.stability import (
    exact_rate,
    exact_rates,
    hard_bound,
    hard_radius,
    inclusion_probabilities,
    smoothed_stability_bound,
    stability_bound,
)
from holdfast.boolean.tables import by_degree, degrees, features_of, index_of, tabulate

__all__ = [
    "Estimate",
    "LowDegreeWeights",
    "banzhaf",
    "biased",
    "biased_to_biased",
    "biased_to_fourier",
    "biased_to_monotone",
    "by_degree",
    "condition",
    "conditional_weights",
    "degree_mass",
    "degree_weight",
    "degrees",
    "estimate_coefficients",
    "estimate_level_weights",
    "exact_rate",
    "exact_rates",
    "features_of",
    "flip_operator",
    "fourier",
    "fourier_to_biased",
    "fourier_to_monotone",
    "gram_matrix",
    "hard_bound",
    "hard_radius",
    "hide",
    "inclusion_probabilities",
    "index_of",
    "influences",
    "interactions",
    "inverse_biased",
    "inverse_fourier",
    "inverse_monotone",
    "low_degree_weights",
    "mask_operator",
    "mask_operator_rebiased",
    "monotone",
    "monotone_to_biased",
    "monotone_to_fourier",
    "noise_stability",
    "reveal",
    "shapley",
    "smoothed_mass_bound",
    "smoothed_stability_bound",
    "smoothed_variance_bound",
    "stability_bound",
    "tabulate",
    "tail_mass",
    "variance",
]
