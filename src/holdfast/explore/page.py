"""Scripts, styles and a template → the text of the one page that `holdfast explore` serves; it shares the report's."""

from __future__ import annotations

import re
from importlib.resources import files

from holdfast.report.page.html import assemble, shared_asset

_ASSETS = files("holdfast.explore") / "assets"

SHARED = ("theme.js", "dom.js", "code.js", "chart.js", "picture.js")
"""Scripts of the report that the page builds on."""

SCRIPTS = (
    "memory.js",
    "server.js",
    "jobs.js",
    "tiles.js",
    "verdict.js",
    "certify.js",
    "witness.js",
    "curve.js",
    "exports.js",
    "side.js",
    "setup.js",
    "cards.js",
    "explore.js",
)
"""Its own, in the order in which they build on each other."""


def explore_page() -> str:
    """The page as it is sent: every script and style inside it, no data, and requests to its own server alone.

    The page reads the token from its own address; nothing here depends on it.

    Examples
    --------
    >>> page = explore_page()
    >>> "connect-src 'self'" in page, "<title>holdfast explore</title>" in page
    (True, True)
    """
    scripts = [*map(shared_asset, SHARED), *map(_own_asset, SCRIPTS)]
    style = shared_asset("page.css") + _own_asset("explore.css")
    return assemble(_own_asset("explore.html"), scripts, style, parts={"mark": _mark()}, connect="'self'")


def _mark() -> str:
    """The drawing of the report's header."""
    found = re.search(r'<svg [^>]*class="mark".*?</svg>', shared_asset("page.html"), re.DOTALL)
    if found is None:
        raise LookupError("The report's template has no drawing of the class `mark`.")
    return found[0]


def _own_asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")
