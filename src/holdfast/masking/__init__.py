"""Inputs of every kind → a :class:`~holdfast.types.MaskedModel`."""
