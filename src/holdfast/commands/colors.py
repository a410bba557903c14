"""Words → the same words, emphasised where a person reads them on a terminal."""

from __future__ import annotations

import os
import sys
from typing import TextIO

from holdfast.terminal import neutral

_CODES = {"bold": "1", "path": "4;36"}


def paint(text: str, how: str, stream: TextIO | None = None) -> str:
    """The text in bold or as a path on a terminal; as it is in files and pipes, and where ``NO_COLOR`` is set.

    To be printed on the ``unescaped`` stream; control characters inside the text are written out.

    Examples
    --------
    >>> import io
    >>> paint("report.html", "path", io.StringIO())
    'report.html'
    """
    out = stream or sys.stdout
    plain = not out.isatty() or bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    return neutral(text) if plain else f"\x1b[{_CODES[how]}m{neutral(text)}\x1b[0m"
