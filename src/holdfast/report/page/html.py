"""Plain data → the text of one HTML page, with every script and style inside it and nothing else allowed to run."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any

from holdfast import __version__

_ASSETS = files("holdfast.report.page") / "assets"

SCRIPTS = (
    "theme.js",
    "dom.js",
    "code.js",
    "chart.js",
    "curves.js",
    "picture.js",
    "gallery.js",
    "detail.js",
    "table.js",
    "page.js",
)
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
    parts = {
        "title": html.escape(payload["title"]),
        "findings": "".join(f"<li>{html.escape(one)}</li>" for one in payload["findings"]),
        "data": embed_json(payload),
    }
    return assemble(shared_asset("page.html"), map(shared_asset, SCRIPTS), shared_asset("page.css"), parts=parts)


def assemble(
    template: str, scripts: Iterable[str], style: str, *, parts: Mapping[str, str], connect: str = "'none'"
) -> str:
    r"""A template with its one script, its one style, and a policy that allows these by their digests and no others.

    Parameters
    ----------
    template : str
        HTML in which ``{{name}}`` stands for a part.
    scripts : iterable of str
        Joined to one script; what one declares, the next ones see, and nothing else does.
    style : str
        The style sheet.
    parts : mapping of str to str
        What to put in besides ``policy``, ``version``, ``style`` and ``script``; escaped already.
    connect : str, default "'none'"
        Where the script may send requests to, as the policy writes it.

    Examples
    --------
    >>> assemble("<b>{{what}}</b><script>{{script}}</script>", ["f();"], "", parts={"what": "{{script}}"})
    '<b>{{script}}</b><script>"use strict";\n(() => {\nf();})();\n</script>'
    """
    script = '"use strict";\n(() => {\n' + "\n".join(scripts) + "})();\n"
    always = {"policy": _policy(script, style, connect), "version": html.escape(__version__), "style": style}
    known = always | dict(parts) | {"script": script}
    # One pass: what is put in is not searched again.
    return re.sub(r"\{\{(\w+)\}\}", lambda found: known[found[1]], template)


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


def shared_asset(name: str) -> str:
    """A script, style or template of the report, by the name of its file."""
    return (_ASSETS / name).read_text(encoding="utf-8")


def _policy(script: str, style: str, connect: str) -> str:
    rules: Iterable[tuple[str, str]] = (
        ("default-src", "'none'"),
        ("script-src", _digest(script)),
        ("style-src", _digest(style)),
        ("img-src", "data:"),
        ("connect-src", connect),
        ("base-uri", "'none'"),
        ("form-action", "'none'"),
    )
    return "; ".join(f"{name} {value}" for name, value in rules)


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
