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

_NAMES = ("theme", "dom", "code", "chart", "curves", "picture", "gallery", "detail", "table", "page")
SCRIPTS = tuple(f"{name}.js" for name in _NAMES)
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

    In the template ``{{name}}`` stands for one of ``parts``, escaped already, or for what all pages have: it begins
    with ``{{head.html}}``. What one script declares, the next ones see, and nothing else does. Requests may be sent
    to where ``connect`` says, as the policy writes it.

    Examples
    --------
    >>> assemble("<b>{{what}}</b><script>{{script}}</script>", ["f();"], "", parts={"what": "{{script}}"})
    '<b>{{script}}</b><script>"use strict";\n(() => {\nf();})();\n</script>'
    """
    script = '"use strict";\n(() => {\n' + "\n".join(scripts) + "})();\n"
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (script, style)]
    policy = (
        f"default-src 'none'; script-src 'sha256-{digests[0]}'; style-src 'sha256-{digests[1]}'; img-src data:; "
        f"connect-src {connect}; base-uri 'none'; form-action 'none'"
    )
    known = {"policy": policy, "version": html.escape(__version__), "style": style} | dict(parts) | {"script": script}
    for name in ("head.html", "mark.svg"):
        template = template.replace(f"{{{{{name}}}}}", shared_asset(name))
    # One pass: what is put in is not searched again.
    return re.sub(r"\{\{(\w+)\}\}", lambda found: known[found[1]], template)


def embed_json(payload: Any) -> str:
    """JSON that can stand in a ``script`` element: no ``<``, and no character that ends a line."""
    text = json.dumps(payload, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def as_bytes(page: str) -> bytes:
    """The page in UTF-8; halves of characters, as in names of files that are no text, stay escaped in the JSON."""
    return page.encode("utf-8", "backslashreplace")


def shared_asset(name: str) -> str:
    """A script, style or template of the report, by the name of its file."""
    return (files("holdfast.report") / "assets" / name).read_text(encoding="utf-8")
