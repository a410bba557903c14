"""A masked model and an explanation → certificates: one radius, whole curves, decisions, comparisons."""

from holdfast.certification.bracket import stability_bracket
from holdfast.certification.comparison import compare
from holdfast.certification.curve import certify_radii
from holdfast.certification.hard import certify_hard
from holdfast.certification.mean_curve import mean_curve
from holdfast.certification.radius import certified_radius
from holdfast.certification.recheck import recheck
from holdfast.certification.sensitivity import fill_sensitivity
from holdfast.certification.single import certify

__all__ = [
    "certified_radius",
    "certify",
    "certify_hard",
    "certify_radii",
    "compare",
    "fill_sensitivity",
    "mean_curve",
    "recheck",
    "stability_bracket",
]
