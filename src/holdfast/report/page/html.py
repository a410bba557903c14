"""Plain data → the text of one HTML page, with every script and style inside it and nothing else allowed to run."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Iterable
from importlib.resources import files
from typing import Any

from holdfast import __version__

_ASSETS = files("holdfast.report.page") / "assets"

SCRIPTS = ("dom.js", "chart.js", "curves.js", "picture.js", "gallery.js", "detail.js", "table.js", "page.js")
"""In the order in which they build on each other; together they are one script."""


def render_page(payload: dict[str, Any]) -> str:
    """The page of a payload.

    Data reach it as JSON in an element that browsers do not run, and its scripts put them on the page
    as text. The policy allows the one script and the one style by their digests, images inside the page, and
    no connection at all.

    Examples
    --------
    >>> page = render_page({"title": "</script><b>", "findings": [], "studies": []})
    >>> "</script><b>" in page, "&lt;/script&gt;&lt;b&gt;" in page
    (False, True)
    """
    script = '"use strict";\n(() => {\n' + "\n".join(map(_asset, SCRIPTS)) + "})();\n"
    style = _asset("page.css")
    parts = {
        "policy": _policy(script, style),
        "version": html.escape(__version__),
        "title": html.escape(payload["title"]),
        "findings": "".join(f"<li>{html.escape(one)}</li>" for one in payload["findings"]),
        "style": style,
        "data": embed_json(payload),
        "script": script,
    }
    # One pass: what is put in is not searched again.
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _asset("page.html"))


def embed_json(payload: Any) -> str:
    r"""JSON that can stand in a ``script`` element: no ``<``, and no character that ends a line.

    Examples
    --------
    >>> print(embed_json({"text": "</script>"}))
    {"text":"\u003c/script>"}
    """
    text = json.dumps(payload, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def as_bytes(page: str) -> bytes:
    """The page in UTF-8; halves of characters, as in names of files that are no text, stay escaped in the JSON."""
    return page.encode("utf-8", "backslashreplace")


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")


def _policy(*inline: str) -> str:
    script, style = (f"'sha256-{base64.b64encode(hashlib.sha256(one.encode()).digest()).decode()}'" for one in inline)
    rules: Iterable[tuple[str, str]] = (
        ("default-src", "'none'"),
        ("script-src", script),
        ("style-src", style),
        ("img-src", "data:"),
        ("base-uri", "'none'"),
        ("form-action", "'none'"),
    )
    return "; ".join(f"{name} {value}" for name, value in rules)
