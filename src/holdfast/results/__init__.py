"""Values that restate what was certified: frozen, comparable, JSON both ways, readable."""

from holdfast.results.certificate import Certificate
from holdfast.results.comparison import Comparison, Difference
from holdfast.results.curve import StabilityCurve
from holdfast.results.hard import HardCertificate
from holdfast.results.radius import RadiusCertificate, RadiusStep
from holdfast.results.recheck import Recheck
from holdfast.results.sensitivity import FillSensitivity

__all__ = [
    "Certificate",
    "Comparison",
    "Difference",
    "FillSensitivity",
    "HardCertificate",
    "RadiusCertificate",
    "RadiusStep",
    "Recheck",
    "StabilityCurve",
]
