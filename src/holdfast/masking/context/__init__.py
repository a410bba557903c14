"""Prompts: features are parts of the context that a language model answers from."""

from typing import TYPE_CHECKING

from holdfast.lazy import load_lazily

if TYPE_CHECKING:
    from holdfast.masking.context.mask_context import ContextModel as ContextModel
else:
    __getattr__, __dir__, __all__ = load_lazily(
        __name__,
        {
            "mask_context": "ContextModel",
        },
    )
