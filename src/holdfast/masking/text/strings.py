"""A callable on strings and the words or segments of one text → a ``MaskedModel`` of scores, labels or answers."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from itertools import accumulate
from typing import Any, Protocol

import numpy as np

from holdfast.errors import InvalidTypeError, InvalidValueError, ModelError
from holdfast.fingerprints import function_key, name_of
from holdfast.masking.torch import to_numpy
from holdfast.outputs import check_answered, split_rows
from holdfast.terminal import Bound
from holdfast.types import Mask, Masks, Outputs, Provenance
from holdfast.validation import check_masks, check_name, shown

Span = tuple[int, int]
"""First and past-the-last character of a part in its text."""

_DEFAULT_JOIN = "\n"
_PREVIEW = 40


@dataclass(frozen=True, eq=False)
class TextModel(Bound):
    """A callable on strings and one text, as a function of which parts are shown.

    ``answer`` gives scores (b, n_classes) or b answers for b texts. ``fill`` is written in place of each hidden part;
    None leaves it out. ``normalise`` turns an answer into the one it counts as; None leaves answers as they are.
    """

    answer: Callable[[list[str]], Any]
    parts: Parts
    fill: str | None
    normalise: Callable[[Any], Hashable] | None
    batch_size: int | None
    provenance: Provenance
    classes: tuple[str, ...] | None = None
    _labels: dict[Hashable, str | int] = field(default_factory=dict, repr=False)

    @property
    def n_features(self) -> int:
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
        texts = self._texts(masks)
        try:
            answers = self.answer(texts)
        except (AttributeError, TypeError) as error:
            if not isinstance(self.answer, partial):  # a function of one text would fail like this
                error.add_note("The function got a list of texts. If it takes one text, pass `batched=False`.")
            raise
        return self._read(answers, len(texts))

    @property
    def join_key(self) -> Hashable | None:
        """What texts have in common that can be answered together: the callable."""
        return function_key(self.answer)

    def score_jointly(self, parts: Sequence[tuple[TextModel, Masks]], /) -> list[Outputs]:
        """Scores or labels of texts of one callable, each under masks of its own, in one call."""
        written = [model._texts(masks) for model, masks in parts]
        answers = split_rows(self.answer([text for texts in written for text in texts]), list(map(len, written)))
        return [model._read(own, len(own)) for (model, _), own in zip(parts, answers, strict=True)]

    def _texts(self, masks: Masks) -> list[str]:
        return [self.parts.write(mask, self.fill) for mask in check_masks(masks, self.n_features)]

    def _read(self, answers: Any, n_texts: int) -> Outputs:
        """What a callable said of so many texts."""
        scores = _as_scores(answers)
        if scores is not None:
            return scores
        if len(answers) != n_texts:
            got = f"{len(answers)} for {n_texts} texts"
            raise ModelError(f"`classifier` must return one answer per text, got {got}.")
        labels = np.empty(n_texts, dtype=object)
        labels[:] = [self.label_of(answer) for answer in answers]
        return labels

    def label_of(self, answer: Any) -> str | int:
        """One label for all equal answers: themselves if strings or whole numbers, else how the first is written."""
        check_answered(answer)
        plain = answer.item() if isinstance(answer, np.generic) else answer
        known = plain if self.normalise is None else self.normalise(plain)
        if self.normalise is None and isinstance(known, float):
            advice = "Return a single score as a row of one, for `agree=within(margin)` or `same_side(threshold)`."
            kinds = "scores (b, n_classes) or labels that are not floats"
            raise ModelError(f"`classifier` must return {kinds}, got {known!r}. {advice}")
        try:
            hash(known)
        except TypeError as error:  # a tuple of lists has the method but not the ability
            kinds = "scores (a list or array of numbers) or a hashable answer for each text"
            got = f"{preview(repr(known))}. Give `normalise=` to make it one."
            raise ModelError(f"`classifier` must return {kinds}, got {got}") from error
        if known not in self._labels:
            label = known if isinstance(known, (str, int)) else repr(known)
            if label in self._labels.values():
                problem = f"Two different answers are both written {label!r}, so they cannot be told apart."
                raise ModelError(f"{problem} Give `normalise=` to make each answer a string.")
            self._labels[known] = label
        return self._labels[known]


def ask_one_by_one(answer: Callable[[str], Any], texts: list[str]) -> list[Any]:
    """The answers of a callable on one text to a list of texts."""
    return [answer(text) for text in texts]


def normalise_answer(answer: Any) -> Any:
    """Strings without outer, repeated or otherwise differing white space, in one case; all else as it is."""
    return " ".join(answer.split()).casefold() if isinstance(answer, str) else answer


def _as_scores(answers: Any) -> Outputs | None:
    """An array of scores, one row per text, or None if these are labels."""
    if inspect.iscoroutine(answers):
        check_answered(answers)
    if isinstance(answers, (list, tuple)):
        are_rows = (isinstance(row, list) or (hasattr(row, "__array__") and np.ndim(row) > 0) for row in answers)
        if not answers or not all(are_rows):
            return None
        answers = [to_numpy(row) if hasattr(row, "detach") else row for row in answers]
    elif not hasattr(answers, "__array__"):
        wanted = "scores (b, n_classes) or a list of b answers for a list of b texts"
        got = f"{preview(repr(answers))}. If it takes one text at a time, pass `batched=False`."
        raise ModelError(f"`classifier` must return {wanted}, got {got}")
    try:
        array = np.asarray(to_numpy(answers) if hasattr(answers, "detach") else answers)
    except ValueError as error:
        raise ModelError(
            "`classifier` must return the same number of scores for every text, got unequal rows."
        ) from error
    return array if array.ndim != 1 or array.dtype.kind == "f" else None


@dataclass(frozen=True)
class PartsInText:
    """Parts at fixed places of a text; everything between them is always shown.

    A part that is left out takes along the white space before it, or, at the very beginning, the white space after it.
    With every part shown the text is what it was, to the letter.
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
        for (start, end), is_shown in zip(self.spans, mask, strict=True):
            between = self.text[position:start]
            hidden = between.rstrip() if fill is None else between + fill
            pieces.append(between + self.text[start:end] if is_shown else hidden)
            position = end
        text = "".join([*pieces, self.text[position:]])
        opens_with_hidden_part = not mask[0] and not self.text[: self.spans[0][0]].strip()
        return text.lstrip() if fill is None and opens_with_hidden_part else text


@dataclass(frozen=True)
class JoinedParts:
    """Parts that are joined anew for every mask, by a separator or by a function of those shown."""

    parts: tuple[str, ...]
    join: str | Callable[[list[str]], Any]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(preview(part) for part in self.parts)

    def write(self, mask: Mask, fill: str | None) -> str:
        written = [part if is_shown else fill for part, is_shown in zip(self.parts, mask, strict=True)]
        kept = [part for part in written if part is not None]  # deletion: hidden parts never reach the join
        text = self.join.join(kept) if isinstance(self.join, str) else self.join(kept)
        if not isinstance(text, str):
            raise InvalidTypeError(argument="join", must="return a string", got=shown(text))
        return text


class OtherParts(Protocol):
    """Parts of some other kind of text, such as the passages of a prompt."""

    @property
    def names(self) -> tuple[str, ...]: ...

    def write(self, mask: Mask, fill: str | None) -> str: ...


Parts = PartsInText | JoinedParts | OtherParts
"""A text that can be written with some of its parts left out, or with a fill in place of each."""


@dataclass(frozen=True)
class TextSource:
    """The text and what its features are, as the caller wrote them; segments without a text are joined."""

    text: str | None
    features: str | None
    segments: tuple[str, ...] | None = None
    join: str | Callable[[list[str]], str] = _DEFAULT_JOIN

    def parts(self) -> Parts:
        """What texts for a callable are written of."""
        if self.text is None:
            return JoinedParts(self.segments or (), self.join)
        if self.segments is not None:
            return PartsInText(self.text, locate(self.text, self.segments))
        if self.features == "tokens":
            message = "needs a torch module and its tokenizer, got a callable."
            raise InvalidValueError(message, argument="features='tokens'")
        return PartsInText(self.text, tuple(match.span() for match in re.finditer(r"\S+", self.text)))

    def spans(self) -> tuple[str, str | tuple[Span, ...]]:
        """The whole text for a tokenizer, and its features: their kind, or their places."""
        if self.text is not None:
            return self.text, self.features or "tokens" if self.segments is None else locate(self.text, self.segments)
        if not isinstance(self.join, str):
            hint = "Pass the whole `text` instead."
            raise InvalidTypeError(argument="join", must="be a string for a torch module", hint=hint)
        segments = self.segments or ()
        ends = [end + i * len(self.join) for i, end in enumerate(accumulate(map(len, segments)))]
        spans = tuple((end - len(segment), end) for segment, end in zip(segments, ends, strict=True))
        return self.join.join(segments), spans

    def provenance(self, kind: str, *notes: str | None, fingerprint: str | None) -> Provenance:
        """What is hidden and how, in words, and what identifies model and text, or the text and each segment."""
        joined = None
        if self.text is None:
            joined = f"joined by {repr(self.join) if isinstance(self.join, str) else name_of(self.join)}"
        words = ", ".join(note for note in (kind, joined, *notes) if note)
        parts = [part.encode() for part in (self.text, *(self.segments or ())) if part is not None]
        content = parts[0] if len(parts) == 1 else b"".join(b"%d:%s" % (len(part), part) for part in parts)
        return Provenance(masking=words, model=fingerprint, input=sha256(content).hexdigest())


def read_source(text: Any, segments: Any, join: Any, features: Any) -> TextSource:
    """The text or the segments of a caller, checked."""
    if text is None and segments is None:
        raise InvalidTypeError(argument="text", must="be a string", got="None", hint="Pass a text, or its `segments=`.")
    if text is not None and not isinstance(text, str):
        raise InvalidTypeError(argument="text", must="be a string", got=preview(repr(text)))
    if text is not None and not text.strip():
        raise InvalidValueError(argument="text", must="not be empty", got=shown(text))
    _check_unicode(text or "", "text")
    if features is not None:
        check_name(features, "features", ["tokens", "words"])
    if segments is None:
        refuse("segments", join=join)
        return TextSource(text, features)
    if features is not None:
        raise InvalidValueError(argument="features", must="be left out when `segments` are given", got=shown(features))
    if text is not None and join is not None:
        raise InvalidValueError(argument="join", must="be left out when `text` already holds the segments")
    must = "be a list of strings"
    if isinstance(segments, str) or not isinstance(segments, Sequence):
        raise InvalidTypeError(argument="segments", must=must, got=preview(repr(segments)))
    if len(segments) == 0:
        raise InvalidValueError(argument="segments", must="hold at least one segment", got="none")
    for i, segment in enumerate(segments):
        if not isinstance(segment, str):
            raise InvalidTypeError(argument="segments", must=must, got=f"{shown(segment)} as segment {i}")
        if not segment.strip():
            raise InvalidValueError(argument="segments", must=f"not be empty, but segment {i} is {segment!r}")
        _check_unicode(segment, "segments")
    if join is not None and not isinstance(join, str) and not callable(join):
        raise InvalidTypeError(argument="join", must="be a string or a function of a list of strings", got=shown(join))
    return TextSource(text, None, tuple(segments), _DEFAULT_JOIN if join is None else join)


def _check_unicode(text: str, name: str) -> None:
    """A text that can be encoded: halves of surrogate pairs, left over from a bad decoding, cannot."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        got = f"{text[error.start]!r} at character {error.start}"
        hint = "Read the file with the encoding it was written in."
        raise InvalidValueError(argument=name, must="be valid Unicode", got=got, hint=hint) from error


def locate(text: str, segments: Sequence[str]) -> tuple[Span, ...]:
    """Where each segment stands in the text, searched from left to right."""
    spans, position = [], 0
    for i, segment in enumerate(segments):
        start = text.find(segment, position)
        if start < 0:
            missing = f"segment {i} ({preview(segment)!r}) was not found after character {position}"
            must, hint = f"occur in `text` in their order; {missing}", "Leave out `text` to join the segments anew."
            raise InvalidValueError(argument="segments", must=must, hint=hint)
        position = start + len(segment)
        spans.append((start, position))
    return tuple(spans)


def preview(text: str) -> str:
    """The text on one line, shortened."""
    line = " ".join(text.split())
    return line if len(line) <= _PREVIEW else line[: _PREVIEW - 1].rstrip() + "…"


def refuse(owner: str, **options: Any) -> None:
    """Options that would have no effect are an error, never ignored."""
    for name, value in options.items():
        if value is not None:
            raise InvalidTypeError(f"works only with {owner}, got {preview(repr(value))}.", argument=name)
