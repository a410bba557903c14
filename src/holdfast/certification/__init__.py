"""A masked model and an explanation → certificates: one radius, whole curves, decisions, comparisons."""

from holdfast.certification.hard import certify_hard
from holdfast.certification.single import certify

__all__ = ["certify", "certify_hard"]
