"""A masked model → the average of what it says under many random masks: smoother, and still a ``MaskedModel``."""

from holdfast.smoothing.accuracy import smoothed_accuracy
from holdfast.smoothing.keep import adaptive_keep, selective_keep
from holdfast.smoothing.model import SmoothedModel, smooth

__all__ = ["SmoothedModel", "adaptive_keep", "selective_keep", "smooth", "smoothed_accuracy"]
