"""The name of a model that comes with holdfast → a ``Classifier``."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.errors import InvalidValueError
from holdfast.models.classifier import Classifier
from holdfast.validation import check_name

BUNDLED: dict[str, Callable[[], Classifier]] = {}
"""What is available: a name, and what makes the classifier."""


def load_bundled(place: str) -> Classifier:
    """Load a bundled model by its name."""
    if not BUNDLED:
        raise InvalidValueError(
            f"`bundled:` must be followed by a bundled model; this version has none, got {place!r}."
        )
    return BUNDLED[check_name(place, "bundled:", BUNDLED)]()
