"""A callable on strings and the parts of one text → a ``MaskedModel`` of scores, labels or answers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from holdfast.errors import ModelError
from holdfast.masking.text_segments import Parts, PartsInText, Span, preview
from holdfast.masking.torch_support import to_numpy
from holdfast.outputs import check_answered
from holdfast.types import Masks, Outputs, Provenance
from holdfast.validation import check_masks


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
