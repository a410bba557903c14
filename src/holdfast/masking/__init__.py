"""Inputs of every kind → a :class:`~holdfast.types.MaskedModel`."""

from holdfast.masking.function import lookup_table, mask_function

__all__ = ["lookup_table", "mask_function"]
