"""Inputs of every kind → a :class:`~holdfast.types.MaskedModel`; here, what their features can be."""

from typing import TYPE_CHECKING

from holdfast.lazy import load_lazily

if TYPE_CHECKING:
    from holdfast.masking import context as context
    from holdfast.masking.image.pixels import segments as segments
    from holdfast.masking.table.columns import column_groups as column_groups
    from holdfast.masking.table.columns import columns as columns
    from holdfast.masking.table.columns import windows as windows
else:
    __getattr__, __dir__, __all__ = load_lazily(
        __name__,
        {
            "image.pixels": "segments",
            "table.columns": "column_groups columns windows",
        },
        {"context": "holdfast.masking.context"},
    )
