"""Text from anywhere → text that a terminal only shows: names cannot move the cursor, change colours or hide lines."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any, TextIO, cast

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""What terminals obey, but for tabs and line feeds; what turns the direction of writing; halves of characters."""


def neutral(text: str) -> str:
    r"""The text with control characters written out.

    Examples
    --------
    >>> print(neutral("cat\x1b[2J\r"))
    cat\x1b[2J\r
    """
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape", "backslashreplace").decode(), text)


class Neutral:
    """A stream on which control characters are written out; ``unescaped`` is the stream itself, for bars and colour."""

    def __init__(self, stream: TextIO) -> None:
        self.unescaped = stream

    def write(self, text: str, /) -> int:
        """Write the text, what the stream's encoding lacks as escapes."""
        encoding = self.unescaped.encoding or "utf-8"
        self.unescaped.write(neutral(text).encode(encoding, "backslashreplace").decode(encoding))
        return len(text)

    def writelines(self, lines: Iterable[str], /) -> None:
        """Write all of them."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unescaped, name)


def unescaped(stream: TextIO) -> TextIO:
    """The stream itself, for control characters of our own."""
    return cast(TextIO, getattr(stream, "unescaped", stream))


@contextmanager
def neutral_streams() -> Iterator[None]:
    """Whatever is printed inside reaches stdout and stderr without control characters."""
    streams = (cast(TextIO, Neutral(unescaped(stream))) for stream in (sys.stdout, sys.stderr))
    with redirect_stdout(next(streams)), redirect_stderr(next(streams)):
        yield
