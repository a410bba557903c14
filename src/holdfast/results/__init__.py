"""Values that restate what was certified: frozen, comparable, JSON both ways, readable."""

from holdfast.results.certificate import Certificate
from holdfast.results.hard import HardCertificate

__all__ = ["Certificate", "HardCertificate"]
