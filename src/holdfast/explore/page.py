"""Nothing → the text of the page that `holdfast explore` serves."""

from __future__ import annotations


def explore_page() -> str:
    """The page."""
    return "<!doctype html><title>holdfast explore</title>"
