"""Values that restate what was certified: frozen, comparable, JSON both ways, readable."""

from holdfast.results.accuracy import SmoothedAccuracy
from holdfast.results.attribution import Attribution
from holdfast.results.certificate import Certificate
from holdfast.results.comparison import Comparison, Difference
from holdfast.results.curve import StabilityCurve
from holdfast.results.hard import HardCertificate
from holdfast.results.mean_curve import MeanCurve, MeanRate
from holdfast.results.radius import RadiusCertificate, RadiusStep
from holdfast.results.recheck import Recheck
from holdfast.results.reexplanation import Reexplanation
from holdfast.results.sensitivity import FillSensitivity
from holdfast.results.stable import SizeStep, StableSelection
from holdfast.results.witness import StabilityBracket, Witness

__all__ = [
    "Attribution",
    "Certificate",
    "Comparison",
    "Difference",
    "FillSensitivity",
    "HardCertificate",
    "MeanCurve",
    "MeanRate",
    "RadiusCertificate",
    "RadiusStep",
    "Recheck",
    "Reexplanation",
    "SizeStep",
    "SmoothedAccuracy",
    "StabilityBracket",
    "StabilityCurve",
    "StableSelection",
    "Witness",
]
