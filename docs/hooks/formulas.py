"""Pages as HTML → the same with indices and exponents set as such, and how early search lists them; a hook of mkdocs.

Formulas are written as text, τ_r and λ^{|T|}, so that they can be read in the source. Code is left alone.
"""

from __future__ import annotations

import re
from typing import Any

MARKS = "\u0300-\u036f"  # the hat of τ̂ and the tilde of h̃ stand after their letter
CODE = re.compile(r"(<(pre|code|script|style|svg|h[1-6])\b.*?</\2>|<[^>]+>)", re.DOTALL)
BRACED = re.compile(r"([_^])\{([^{}<>]*)\}")
BASE = rf"(?<![\w.])(?:[^\W\d_][{MARKS}]?|1|max|argmax|Var|agree|mask)|[α-ω]"
INDEX = re.compile(rf"({BASE})_([α-ω½¼\d]|(?:cert|people|judge|[A-Za-z])(?![A-Za-z\d_α-ω]))")
EXPONENT = re.compile(rf"(?<=[\w)½¼{MARKS}>])\^([A-Za-z\d])(?![\w{{])")


def typeset(html: str) -> str:
    """Set the formulas of a page.

    Examples
    --------
    >>> typeset("<p>τ_r(M_λh) ≤ λ^{|T|}, <code>n_features^2</code></p>")
    '<p>τ<sub>r</sub>(M<sub>λ</sub>h) ≤ λ<sup>|T|</sup>, <code>n_features^2</code></p>'
    """
    pieces = CODE.split(html)
    return "".join(_set(piece) if i % 3 == 0 else piece if i % 3 == 1 else "" for i, piece in enumerate(pieces))


def _set(text: str) -> str:
    text = BRACED.sub(lambda found: _tag("sub" if found[1] == "_" else "sup", found[2]), text)
    text = INDEX.sub(lambda found: found[1] + _tag("sub", found[2]), text)
    return EXPONENT.sub(lambda found: _tag("sup", found[1]), text)


def _tag(name: str, text: str) -> str:
    return f"<{name}>{text}</{name}>"


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Called by mkdocs for the source of every page: search lists how-to pages before all others."""
    for folder, boost in {"adr/": 0.2, "theory/": 0.5, "notebooks/": 0.3, "api.md": 0.5}.items():
        if page.file.src_uri.startswith(folder):
            page.meta["search"] = {"boost": boost}
    return markdown


def on_page_content(html: str, **_: Any) -> str:
    """Called by mkdocs for the content of every page."""
    return typeset(html)
