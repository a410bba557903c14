"""Boolean analysis of a function of masks: tables and spectra in, operators, bounds and indices out.

A function h of n features is a table (2ⁿ,), or k functions side by side (2ⁿ, k); the row of a mask is
Σ mask_i 2^i, and so is the row of a set of features in a list of coefficients. ``tabulate`` makes the
table of a model. See docs/theory/boolean.md, and docs/errata.md for what the paper has wrong.
"""

from importlib import import_module
from typing import Any

from holdfast.boolean.bases import biased as biased
from holdfast.boolean.bases import biased_to_biased as biased_to_biased
from holdfast.boolean.bases import biased_to_fourier as biased_to_fourier
from holdfast.boolean.bases import biased_to_monotone as biased_to_monotone
from holdfast.boolean.bases import fourier as fourier
from holdfast.boolean.bases import fourier_to_biased as fourier_to_biased
from holdfast.boolean.bases import fourier_to_monotone as fourier_to_monotone
from holdfast.boolean.bases import inverse_biased as inverse_biased
from holdfast.boolean.bases import inverse_fourier as inverse_fourier
from holdfast.boolean.bases import inverse_monotone as inverse_monotone
from holdfast.boolean.bases import monotone as monotone
from holdfast.boolean.bases import monotone_to_biased as monotone_to_biased
from holdfast.boolean.bases import monotone_to_fourier as monotone_to_fourier
from holdfast.boolean.estimation import Estimate as Estimate
from holdfast.boolean.estimation import LowDegreeWeights as LowDegreeWeights
from holdfast.boolean.estimation import estimate_coefficients as estimate_coefficients
from holdfast.boolean.estimation import estimate_level_weights as estimate_level_weights
from holdfast.boolean.estimation import low_degree_weights as low_degree_weights
from holdfast.boolean.operators import condition as condition
from holdfast.boolean.operators import conditional_weights as conditional_weights
from holdfast.boolean.operators import flip_operator as flip_operator
from holdfast.boolean.operators import hide as hide
from holdfast.boolean.operators import mask_operator as mask_operator
from holdfast.boolean.operators import mask_operator_rebiased as mask_operator_rebiased
from holdfast.boolean.operators import reveal as reveal
from holdfast.boolean.profiles import banzhaf as banzhaf
from holdfast.boolean.profiles import degree_mass as degree_mass
from holdfast.boolean.profiles import degree_weight as degree_weight
from holdfast.boolean.profiles import gram_matrix as gram_matrix
from holdfast.boolean.profiles import influences as influences
from holdfast.boolean.profiles import interactions as interactions
from holdfast.boolean.profiles import noise_stability as noise_stability
from holdfast.boolean.profiles import shapley as shapley
from holdfast.boolean.profiles import smoothed_mass_bound as smoothed_mass_bound
from holdfast.boolean.profiles import smoothed_variance_bound as smoothed_variance_bound
from holdfast.boolean.profiles import tail_mass as tail_mass
from holdfast.boolean.profiles import variance as variance
from holdfast.boolean.stability import exact_rate as exact_rate
from holdfast.boolean.stability import exact_rates as exact_rates
from holdfast.boolean.stability import hard_bound as hard_bound
from holdfast.boolean.stability import hard_radius as hard_radius
from holdfast.boolean.stability import inclusion_probabilities as inclusion_probabilities
from holdfast.boolean.stability import smoothed_stability_bound as smoothed_stability_bound
from holdfast.boolean.stability import stability_bound as stability_bound
from holdfast.boolean.tables import by_degree as by_degree
from holdfast.boolean.tables import degrees as degrees
from holdfast.boolean.tables import features_of as features_of
from holdfast.boolean.tables import index_of as index_of
from holdfast.boolean.tables import tabulate as tabulate

__all__ = sorted(name for name, value in globals().items() if getattr(value, "__module__", "").startswith("holdfast."))


def __getattr__(name: str) -> Any:
    """``figures``, which is with all else that is drawn and imported when it is first asked for."""
    if name != "figures":
        raise AttributeError(f"module 'holdfast.boolean' has no attribute {name!r}")
    return import_module("holdfast.report.figures.boolean_plots")


def __dir__() -> list[str]:
    return sorted([*globals(), "figures"])
