"""Words or segments of a text → the text as it is written with some of them hidden."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import accumulate
from typing import Any, Protocol

from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.types import Mask
from holdfast.validation import check_name

Span = tuple[int, int]
"""First and past-the-last character of a part in its text."""

DEFAULT_JOIN = "\n"

_REPLACE = "replace:"
_PREVIEW = 40


class Parts(Protocol):
    """A text that can be written with some of its parts hidden."""

    @property
    def names(self) -> tuple[str, ...]:
        """What each part says, shortened."""
        ...

    def write(self, mask: Mask, fill: str | None) -> str:
        """The text with hidden parts left out, or written as ``fill``."""
        ...


@dataclass(frozen=True)
class PartsInText:
    """Parts at fixed places of a text; everything between them is always shown.

    A part that is left out takes along the white space before it, or, at the very beginning, the
    white space after it. With every part shown the text is what it was, to the letter.
    """

    text: str
    spans: tuple[Span, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(preview(self.text[start:end]) for start, end in self.spans)

    def write(self, mask: Mask, fill: str | None) -> str:
        if mask.all():
            return self.text
        pieces, position = [], 0
        for (start, end), shown in zip(self.spans, mask, strict=True):
            between = self.text[position:start]
            hidden = between.rstrip() if fill is None else between + fill
            pieces.append(between + self.text[start:end] if shown else hidden)
            position = end
        text = "".join([*pieces, self.text[position:]])
        opens_with_hidden_part = not mask[0] and not self.text[: self.spans[0][0]].strip()
        return text.lstrip() if fill is None and opens_with_hidden_part else text


@dataclass(frozen=True)
class JoinedParts:
    """Parts that are joined anew for every mask."""

    parts: tuple[str, ...]
    join: Callable[[list[str]], str]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(preview(part) for part in self.parts)

    def write(self, mask: Mask, fill: str | None) -> str:
        kept = [
            part if shown else fill
            for part, shown in zip(self.parts, mask, strict=True)
            if shown or fill is not None  # deletion: hidden parts never reach the join
        ]
        return self.join([part for part in kept if part is not None])


def word_parts(text: str) -> PartsInText:
    """The words of a text: whatever stands between white space."""
    return PartsInText(text, tuple(match.span() for match in re.finditer(r"\S+", text)))


def segment_parts(text: str | None, segments: Sequence[str], join: Any) -> Parts:
    """Segments at their places in ``text``, or, without a text, joined anew for every mask."""
    if text is not None:
        return PartsInText(text, locate(text, segments))
    return JoinedParts(tuple(segments), as_join(join))


def locate(text: str, segments: Sequence[str]) -> tuple[Span, ...]:
    """Where each segment stands in the text, searched from left to right."""
    spans, position = [], 0
    for i, segment in enumerate(segments):
        start = text.find(segment, position)
        if start < 0:
            raise InvalidValueError(
                f"`segments` must stand in `text` in their order; segment {i} ({preview(segment)!r}) was not found "
                f"after character {position}. Leave out `text` to join the segments anew."
            )
        position = start + len(segment)
        spans.append((start, position))
    return tuple(spans)


def join_segments(segments: Sequence[str], separator: str) -> tuple[str, tuple[Span, ...]]:
    """The joined text, and where each segment stands in it."""
    ends = [end + i * len(separator) for i, end in enumerate(accumulate(map(len, segments)))]
    spans = tuple((end - len(segment), end) for segment, end in zip(segments, ends, strict=True))
    return separator.join(segments), spans


def as_join(join: Any) -> Callable[[list[str]], str]:
    """A function of the shown segments from a separator, a function, or None."""
    if join is None or isinstance(join, str):
        return (DEFAULT_JOIN if join is None else join).join
    return _Join(join)


@dataclass(frozen=True)
class _Join:
    function: Callable[[list[str]], Any]

    def __call__(self, shown: list[str]) -> str:
        text = self.function(shown)
        if not isinstance(text, str):
            raise InvalidTypeError(f"`join` must return a string, got {text!r}.")
        return text


def read_fill(fill: str | None) -> str | None:
    """What is written for a hidden part: nothing ("delete"), or all that follows "replace:"."""
    if isinstance(fill, str) and fill.startswith(_REPLACE):
        return fill.removeprefix(_REPLACE)
    if isinstance(fill, str) and fill in ("drop", "mask", "pad"):
        raise InvalidValueError(
            f"`fill={fill!r}` hides tokens, and a callable on strings has none. "
            'Use "delete", or "replace:[…]" to write […] for whatever is hidden.'
        )
    check_name("delete" if fill is None else fill, "fill", ["delete", "replace:…"])
    return None


def check_segments(segments: Any) -> tuple[str, ...]:
    """At least one segment, each a string that says something."""
    if isinstance(segments, str) or not isinstance(segments, Sequence):
        raise InvalidTypeError(f"`segments` must be a list of strings, got {preview(repr(segments))}.")
    if len(segments) == 0:
        raise InvalidValueError("`segments` must hold at least one segment, got none.")
    for i, segment in enumerate(segments):
        if not isinstance(segment, str):
            raise InvalidTypeError(f"`segments` must be a list of strings, got {segment!r} as segment {i}.")
        if not segment.strip():
            raise InvalidValueError(f"`segments` must not be empty, but segment {i} is {segment!r}.")
        check_unicode(segment, "segments")
    return tuple(segments)


def check_unicode(text: str, name: str) -> None:
    """A text that can be encoded: halves of surrogate pairs, left over from a bad decoding, cannot."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidValueError(
            f"`{name}` must be valid Unicode, got {text[error.start]!r} at character {error.start}. "
            "Read the file with the encoding it was written in."
        ) from error


def fingerprint_text(*parts: str) -> str:
    """SHA-256 of a text, or of its parts with their lengths."""
    if len(parts) == 1:
        return sha256(parts[0].encode()).hexdigest()
    encoded = [part.encode() for part in parts]
    return sha256(b"".join(b"%d:%s" % (len(part), part) for part in encoded)).hexdigest()


def preview(text: str) -> str:
    """The text on one line, shortened."""
    line = " ".join(text.split())
    return line if len(line) <= _PREVIEW else line[: _PREVIEW - 1].rstrip() + "…"
