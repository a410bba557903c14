"""A short specification of a data set → a ``Dataset`` of inputs and labels."""

from holdfast.inputs.data.dataset import Dataset, load

__all__ = ["Dataset", "load"]
