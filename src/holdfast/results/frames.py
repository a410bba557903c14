"""Rows → a pandas ``DataFrame``, for those who have pandas."""

from __future__ import annotations

from typing import Any

from holdfast.errors import MissingExtraError


def make_frame(rows: list[dict[str, Any]]) -> Any:
    """A data frame with one row per dictionary."""
    try:
        import pandas
    except ImportError as error:
        raise MissingExtraError("`to_frame` needs pandas: pip install 'holdfast[report]'") from error
    return pandas.DataFrame(rows)
