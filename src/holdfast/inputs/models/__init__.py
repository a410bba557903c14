"""A short specification of a model → a ``Classifier``, without running foreign code.

Weights are safetensors, ONNX, skops or boosters' own: files that hold numbers, not programs. Only ``python:`` runs
code, and only code that the caller's own interpreter can already import.
"""

from holdfast.inputs.models.bundled import BundledModel, available
from holdfast.inputs.models.classifier import Classifier, load

__all__ = ["BundledModel", "Classifier", "available", "load"]
