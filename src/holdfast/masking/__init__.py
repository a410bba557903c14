"""Inputs of every kind → a :class:`~holdfast.types.MaskedModel`."""

from holdfast.masking.columns import column_groups, columns, windows
from holdfast.masking.function import lookup_table, mask_function
from holdfast.masking.groups import grid, segments, superpixels
from holdfast.masking.image import mask_image
from holdfast.masking.tabular import mask_tabular
from holdfast.masking.text import mask_text

__all__ = [
    "column_groups",
    "columns",
    "grid",
    "lookup_table",
    "mask_function",
    "mask_image",
    "mask_tabular",
    "mask_text",
    "segments",
    "superpixels",
    "windows",
]
