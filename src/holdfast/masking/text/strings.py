"""A callable on strings and the words or segments of one text → a ``MaskedModel`` of scores, labels or answers."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import accumulate
from typing import Any, Protocol

import numpy as np

from holdfast.errors import InvalidTypeError, InvalidValueError, ModelError
from holdfast.masking.torch import to_numpy
from holdfast.outputs import check_answered
from holdfast.types import Mask, Masks, Outputs, Provenance
from holdfast.validation import check_masks, check_name


@dataclass(frozen=True, eq=False)
class TextModel:
    """A callable on strings and one text, as a function of which parts are shown.

    Parameters
    ----------
    answer : callable
        From the texts (b strings) to scores (b, n_classes) or b answers.
    parts : Parts
        The text and its parts.
    fill : str or None
        Written in place of each hidden part; None leaves it out.
    normalise : callable or None
        From an answer to the one it counts as; None leaves answers as they are.
    """

    answer: Callable[[list[str]], Any]
    parts: Parts
    fill: str | None
    normalise: Callable[[Any], Hashable] | None
    batch_size: int | None
    provenance: Provenance
    _labels: dict[Hashable, str | int] = field(default_factory=dict, repr=False)

    @property
    def n_features(self) -> int:
        """Number of words or segments."""
        return len(self.parts.names)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The words, or the beginning of each segment."""
        return self.parts.names

    @property
    def located(self) -> tuple[str, tuple[Span, ...]] | None:
        """The text, and the place of each feature in it; None if the segments are joined anew for every mask."""
        return (self.parts.text, self.parts.spans) if isinstance(self.parts, PartsInText) else None

    def __call__(self, masks: Masks, /) -> Outputs:
        texts = [self.parts.write(mask, self.fill) for mask in check_masks(masks, self.n_features)]
        answers = self.answer(texts)
        scores = _as_scores(answers)
        return scores if scores is not None else self._as_labels(list(answers), len(texts))

    def _as_labels(self, answers: list[Any], n_texts: int) -> Outputs:
        if len(answers) != n_texts:
            raise ModelError(f"`classifier` must return one answer per text, got {len(answers)} for {n_texts} texts.")
        labels = np.empty(n_texts, dtype=object)
        labels[:] = [self._label(answer) for answer in answers]
        return labels

    def _label(self, answer: Any) -> str | int:
        """One label for all equal answers: themselves if strings or whole numbers, else how the first is written."""
        check_answered(answer)
        plain = answer.item() if isinstance(answer, np.generic) else answer
        known = plain if self.normalise is None else self.normalise(plain)
        if self.normalise is None and isinstance(known, float):
            raise ModelError(
                f"`classifier` must return scores (b, n_classes) or labels that are no floats, got {known!r}. "
                "Return a single score as a row of one, and use `agree=within(margin)`."
            )
        if not _is_hashable(known):
            raise ModelError(
                f"`classifier` must return scores (a list or array of numbers) or a hashable answer for each text, "
                f"got {preview(repr(known))}. Give `normalise=` to make it one."
            )
        if known not in self._labels:
            self._labels[known] = self._new_label(known)
        return self._labels[known]

    def _new_label(self, answer: Hashable) -> str | int:
        label = answer if isinstance(answer, (str, int)) else repr(answer)
        if label in self._labels.values():
            raise ModelError(
                f"Two different answers are both written {label!r}, so that they could not be told apart. "
                "Give `normalise=` to make each answer a string."
            )
        return label


@dataclass(frozen=True)
class OneByOne:
    """A callable on one text, asked for each of a list of texts."""

    answer: Callable[[str], Any]

    def __call__(self, texts: list[str]) -> list[Any]:
        return [self.answer(text) for text in texts]


def normalise_answer(answer: Any) -> Any:
    r"""Strings without outer, repeated or otherwise differing white space, in one case; all else as it is.

    Examples
    --------
    >>> normalise_answer("  The\nRed  Lion ")
    'the red lion'
    """
    return " ".join(answer.split()).casefold() if isinstance(answer, str) else answer


def _as_scores(answers: Any) -> Outputs | None:
    """An array of scores, one row per text, or None if these are labels."""
    if inspect.iscoroutine(answers):
        check_answered(answers)
    if isinstance(answers, (list, tuple)):
        if not answers or not all(_is_row(answer) for answer in answers):
            return None
        answers = [_on_cpu(answer) for answer in answers]
    elif not hasattr(answers, "__array__"):
        raise ModelError(
            "`classifier` must return scores (b, n_classes) or a list of b answers for a list of b texts, "
            f"got {preview(repr(answers))}. If it takes one text at a time, pass `batched=False`."
        )
    try:
        array = np.asarray(_on_cpu(answers))
    except ValueError as error:
        raise ModelError("`classifier` must return as many scores for every text, got unequal rows.") from error
    return array if array.ndim != 1 or array.dtype.kind == "f" else None


def _on_cpu(answer: Any) -> Any:
    return to_numpy(answer) if hasattr(answer, "detach") else answer


def _is_row(answer: Any) -> bool:
    return isinstance(answer, list) or (hasattr(answer, "__array__") and np.ndim(answer) > 0)


def _is_hashable(answer: Any) -> bool:
    """Whether the answer can be a key; a tuple of lists has the method but not the ability."""
    try:
        hash(answer)
    except TypeError:
        return False
    return True


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
