"""Boolean analysis of a function of masks: tables and spectra in, operators, bounds and indices out.

A function h of n features is a table (2ⁿ,), or k functions side by side (2ⁿ, k); the row of a mask is
Σ mask_i 2^i, and so is the row of a set of features in a list of coefficients. ``tabulate`` makes the
table of a model. See docs/theory/boolean.md, and docs/errata.md for what the paper has wrong.
"""

from typing import TYPE_CHECKING

from holdfast.lazy import load_lazily

if TYPE_CHECKING:
    from holdfast.boolean.bases import *  # noqa: F403
    from holdfast.boolean.estimation import *  # noqa: F403
    from holdfast.boolean.operators import *  # noqa: F403
    from holdfast.boolean.profiles import *  # noqa: F403
    from holdfast.boolean.stability import *  # noqa: F403
    from holdfast.boolean.tables import *  # noqa: F403
    from holdfast.report.figures import boolean_plots

    figures = boolean_plots

_NAMES = {
    "bases": "biased biased_to_biased biased_to_fourier biased_to_monotone fourier fourier_to_biased "
    "fourier_to_monotone inverse_biased inverse_fourier inverse_monotone monotone monotone_to_biased "
    "monotone_to_fourier",
    "estimation": "Estimate LowDegreeWeights estimate_coefficients estimate_level_weights low_degree_weights",
    "operators": "condition conditional_weights flip_operator hide mask_operator mask_operator_rebiased reveal",
    "profiles": "banzhaf degree_mass degree_weight gram_matrix influences interactions noise_stability shapley "
    "smoothed_mass_bound smoothed_variance_bound tail_mass variance",
    "stability": "exact_rate exact_rates hard_bound hard_radius inclusion_probabilities smoothed_stability_bound "
    "stability_bound",
    "tables": "by_degree degrees features_of index_of tabulate",
}
"""Where each public name comes from; a module is imported when one of its names is first asked for."""

if not TYPE_CHECKING:  # pragma: no branch  # type checkers read the imports above
    _FIGURES = "holdfast.report.figures.boolean_plots"  # they are with all else that is drawn
    __getattr__, __dir__, __all__ = load_lazily(__name__, _NAMES, {"figures": _FIGURES})
