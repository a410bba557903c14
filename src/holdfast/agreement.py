"""Outputs and a reference → which of them count as the same prediction."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidTypeError, InvalidValueError, ModelError
from holdfast.judging import AnswerRule, JudgeErrors, accepted_answers, same_answer, same_number
from holdfast.types import Agreement as Agreement
from holdfast.types import Mask, Outputs
from holdfast.validation import (
    as_array,
    check_amount,
    check_list,
    check_name,
    check_number,
    check_whole,
    is_number,
    shown,
)

FOR_NUMBERS = "`within(margin)`, `within_percent(percent)` or `same_side(threshold)`"
"""The agreements for a model that gives a single score, for advice."""


@dataclass(frozen=True)
class SameTopClass(Agreement):
    """The same class has the largest score; a tie goes to the class with the lowest index.

    Labels agree when they are equal.
    """

    name: str = "same_top_class"

    def __call__(self, outputs: Outputs, reference: Any, /) -> Mask:
        if outputs.ndim == 1:
            return np.asarray(outputs == reference, dtype=bool)
        if outputs.shape[1] == 1:
            raise ModelError(
                "`same_top_class` needs scores of at least 2 classes, got 1 column. "
                f"Set `agree` to {FOR_NUMBERS} for a single score, or return labels (b,)."
            )
        return np.asarray(outputs.argmax(axis=1) == reference.argmax())

    def gaps(self, outputs: Outputs, reference: Any, /) -> NDArray[Any]:
        if outputs.ndim == 1:
            return np.zeros(len(outputs))
        top = int(reference.argmax())
        return np.asarray(outputs[:, top] - np.delete(outputs, top, axis=1).max(axis=1))


@dataclass(frozen=True)
class SameTopSet(Agreement):
    """The same k classes have the largest scores, in any order; ties go to the lowest index."""

    k: int

    @property
    def name(self) -> str:
        return f"same_top_set({self.k})"

    def __call__(self, outputs: Outputs, reference: Any, /) -> Mask:
        _need_scores(outputs, self.name)
        if outputs.shape[1] <= self.k:
            statement = f"needs k below the number of classes ({outputs.shape[1]}), got {self.k}."
            raise InvalidValueError(statement, argument="same_top_set(k)")
        return np.asarray((self._tops(outputs) == self._tops(reference[None])).all(axis=1))

    def _tops(self, outputs: Outputs) -> Outputs:
        order = np.argsort(-outputs, axis=1, kind="stable")
        return np.sort(order[:, : self.k], axis=1)


@dataclass(frozen=True)
class SameSide(Agreement):
    """One score stays on its side of a threshold; a score equal to the threshold is on the upper side.

    ``class_`` is the column of the score. None is the only column, or class 1 of two.
    """

    threshold: float
    class_: int | None = None

    @property
    def name(self) -> str:
        return f"same_side({self.threshold!r}{'' if self.class_ is None else f', {self.class_}'})"

    def __call__(self, outputs: Outputs, reference: Any, /) -> Mask:
        return np.asarray((self._scores(outputs) >= self.threshold) == self._is_upper(reference))

    def describe(self, output: Any, classes: Sequence[str] | None = None, /) -> str:
        words = f"{'at least' if self._is_upper(output) else 'below'} {repr(self.threshold).removesuffix('.0')}"
        return words if classes is None else f"{classes[self._column(len(output))]} {words}"

    def gaps(self, outputs: Outputs, reference: Any, /) -> NDArray[Any]:
        above = self._scores(outputs) - self.threshold
        return above if self._is_upper(reference) else -above

    def explained(self, output: Any) -> tuple[int, int]:
        """The column whose score speaks for the side that an output is on, and 1, or -1 if a low score does."""
        column, is_upper = self._column(len(output)), self._is_upper(output)
        if len(output) == 2 and not is_upper:
            return 1 - column, 1
        return column, 1 if is_upper else -1

    def _is_upper(self, output: Any) -> bool:
        return bool(self._scores(output[None])[0] >= self.threshold)

    def _scores(self, outputs: Outputs) -> NDArray[np.float64]:
        _need_scores(outputs, self.name)
        return outputs[:, self._column(outputs.shape[1])].astype(np.float64)

    def _column(self, n_columns: int) -> int:
        column = n_columns - 1 if self.class_ is None else self.class_
        if column >= n_columns or (self.class_ is None and n_columns > 2):
            example = f"same_side({self.threshold!r}, class_={n_columns - 1})"
            must = f"name one of the {n_columns} columns of scores, such as {example}"
            raise InvalidValueError(argument="agree", must=must, got=self.name)
        return column


@dataclass(frozen=True)
class SameLabels(Agreement):
    """The same labels have scores at or above their thresholds: one for all, or one per label."""

    thresholds: float | tuple[float, ...] = 0.5

    @property
    def name(self) -> str:
        shown = self.thresholds if isinstance(self.thresholds, float) else [*self.thresholds]
        return f"same_labels({shown!r})"

    def __call__(self, outputs: Outputs, reference: Any, /) -> Mask:
        return np.asarray((self._are_on(outputs) == self._are_on(reference[None])).all(axis=1))

    def describe(self, output: Any, classes: Sequence[str] | None = None, /) -> str:
        labels = np.flatnonzero(self._are_on(output[None])).tolist()
        return ", ".join(str(label) if classes is None else classes[label] for label in labels) or "none"

    def gaps(self, outputs: Outputs, reference: Any, /) -> NDArray[Any]:
        above = outputs - np.array(self.thresholds)
        return np.asarray(np.where(self._are_on(reference[None]), above, -above).min(axis=1))

    def _are_on(self, outputs: Outputs) -> NDArray[np.bool_]:
        _need_scores(outputs, self.name)
        if isinstance(self.thresholds, tuple) and len(self.thresholds) != outputs.shape[1]:
            must = f"have one threshold for all labels, or one for each of {outputs.shape[1]}"
            raise InvalidValueError(argument="agree", must=must, got=self.name)
        return np.asarray(outputs.astype(np.float64) >= np.array(self.thresholds))


@dataclass(frozen=True)
class Within(Agreement):
    """Every score moved by strictly less than ``margin``."""

    margin: float

    @property
    def name(self) -> str:
        return f"within({self.margin!r})"

    def __call__(self, outputs: Outputs, reference: Any, /) -> Mask:
        return np.asarray(self._moves(outputs, reference) < self.margin)

    def gaps(self, outputs: Outputs, reference: Any, /) -> NDArray[Any]:
        return self.margin - self._moves(outputs, reference)

    def _moves(self, outputs: Outputs, reference: Any) -> NDArray[Any]:
        _need_scores(outputs, self.name)
        return np.asarray(np.abs(outputs - reference).max(axis=1))


@dataclass(frozen=True)
class WithinPercent(Agreement):
    """Every score moved by strictly less than ``percent`` hundredths of the reference's size, or not at all."""

    percent: float

    @property
    def name(self) -> str:
        return f"within_percent({self.percent!r})"

    def __call__(self, outputs: Outputs, reference: Any, /) -> Mask:
        return np.asarray(((outputs == reference) | (self._room(outputs, reference) > 0)).all(axis=1))

    def gaps(self, outputs: Outputs, reference: Any, /) -> NDArray[Any]:
        return np.asarray(self._room(outputs, reference).min(axis=1))

    def _room(self, outputs: Outputs, reference: Any) -> NDArray[np.float64]:
        """By how much more each score could move, in hundredths, (b, n_classes)."""
        _need_scores(outputs, self.name)
        old = reference.astype(np.float64)
        return np.asarray(self.percent * np.abs(old) - 100 * np.abs(outputs - old))


@dataclass(frozen=True)
class UserAgreement(Agreement):
    """A user's own notion of the same prediction."""

    function: Callable[[Outputs, Any], Any]

    @property
    def name(self) -> str:
        known = (getattr(self.function, label, None) for label in ("name", "__qualname__"))
        return next((label for label in known if isinstance(label, str)), type(self.function).__qualname__)

    @property
    def errors(self) -> JudgeErrors | None:
        errors = getattr(self.function, "errors", None)
        return errors if isinstance(errors, JudgeErrors) else None

    def __call__(self, outputs: Outputs, reference: Any, /) -> Mask:
        answer = as_array(self.function(outputs, reference), "agree", "return Boolean (b,)")
        if answer.shape != (len(outputs),) or answer.dtype != np.bool_:
            must, got = f"return a Boolean vector of shape ({len(outputs)},)", f"{answer.dtype} of shape {answer.shape}"
            raise InvalidTypeError(argument="agree", must=must, got=got)
        return answer


same_top_class = SameTopClass()
"""The same class has the largest score (lowest index on ties), or the labels are equal."""


def same_top_set(k: int) -> SameTopSet:
    """Agree when the same k classes lead, in any order (ties go to the lowest index)."""
    return SameTopSet(check_whole(k, "k", minimum=1))


def same_side(threshold: float, class_: int | None = None) -> SameSide:
    """Agree when a score stays on its side of ``threshold``: a decision at a cut-off.

    The score is that of class ``class_``, by its number; if None, the only one, or that of class 1 of two. A score
    equal to the threshold is on the upper side. The prediction of a certificate is "at least 0.3" or "below 0.3".

    Examples
    --------
    >>> import numpy as np
    >>> same_side(0.3)(np.array([[0.65, 0.35], [0.75, 0.25]]), np.array([0.7, 0.3])).tolist()
    [True, False]
    """
    return SameSide(_finite(threshold, "threshold"), None if class_ is None else check_whole(class_, "class_"))


def same_labels(thresholds: float | Sequence[float] = 0.5) -> SameLabels:
    """Agree when the same labels have scores at or above their thresholds, for inputs that may have several labels.

    ``thresholds`` is one number for all labels, or one per label. The prediction of a certificate lists the labels.

    Examples
    --------
    >>> import numpy as np
    >>> same_labels([0.5, 0.3])(np.array([[0.9, 0.3], [0.9, 0.2]]), np.array([0.6, 0.4])).tolist()
    [True, False]
    """
    if isinstance(thresholds, (int, float, np.number)):
        return SameLabels(_finite(thresholds, "thresholds"))
    must = "be a number, or a list of one number per label"
    limits = check_list(thresholds, "thresholds", must)
    if not limits:
        raise InvalidValueError(argument="thresholds", must=must, got="none")
    return SameLabels(tuple(_finite(limit, "thresholds") for limit in limits))


def within(margin: float) -> Within:
    """Agree when every score moved by strictly less than ``margin``."""
    return Within(check_amount(margin, "margin"))


def within_percent(percent: float) -> WithinPercent:
    """Agree when every score moved by strictly less than ``percent`` percent of its size; equal scores always agree.

    Examples
    --------
    >>> import numpy as np
    >>> within_percent(5)(np.array([[104.0], [105.0]]), np.array([100.0])).tolist()
    [True, False]
    """
    return WithinPercent(check_amount(percent, "percent"))


_OWN = (SameTopClass, SameTopSet, SameSide, SameLabels, Within, WithinPercent, AnswerRule, UserAgreement)
_MAKERS: Mapping[str, Callable[..., Agreement]] = {
    make.__name__: make
    for make in (same_top_set, same_side, same_labels, within, within_percent, same_number, accepted_answers)
}
_NAMED: Mapping[str, Agreement] = {agree.name: agree for agree in (same_top_class, same_answer)}
NAMES = (*_NAMED, *(f"{name}({', '.join(signature(make).parameters)})" for name, make in _MAKERS.items()))
"""How every agreement that has a name is written."""
_CALL = r"""(\w+)\((?:[\w\s.,=+\-\[\]]|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")*\)"""
"""A call with numbers and quoted texts, and no more."""


def as_reference(value: Any, name: str = "reference") -> Any:
    """An answer, label, class or scores to agree with, as what JSON can hold; None for the model's own."""
    if value is None:
        return None
    plain = value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
    plain = list(plain) if isinstance(plain, tuple) else plain
    numbers = plain if isinstance(plain, list) else [plain]
    are_numbers = bool(numbers) and all(is_number(number) for number in numbers)
    if not (are_numbers or isinstance(plain, (str, bool))):
        raise InvalidTypeError(argument=name, must="be a label, a class or scores", got=shown(value))
    if are_numbers and not np.isfinite(numbers).all():
        raise InvalidValueError(argument=name, must="be finite", got=shown(value))
    return plain


def reference_output(reference: Any, outputs: Outputs, agree: Agreement, classes: Sequence[str] | None) -> Any:
    """A reference as the output that others are compared with: a label, or scores of which its class leads."""
    if outputs.ndim == 1:
        if type(reference) is not type(outputs[0]):
            must = f"be a label of the model, such as {outputs[0]!r}"
            raise InvalidTypeError(argument="reference", must=must, got=shown(reference))
        return reference
    n_scores, numbers = outputs.shape[1], reference if isinstance(reference, list) else [reference]
    if agree is not same_top_class:
        if len(numbers) != n_scores or not all(is_number(number) for number in numbers):
            must = f"be a list of {n_scores} scores for {agree.name}"
            raise InvalidValueError(argument="reference", must=must, got=shown(reference))
        return np.asarray(numbers, dtype=np.float64)
    names = [] if classes is None else list(classes)
    number = names.index(reference) if reference in names else reference
    if type(number) is not int or not 0 <= number < n_scores:
        must = f"be a class: a name, or a number from 0 to {n_scores - 1}"
        raise InvalidValueError(argument="reference", must=must, got=shown(reference))
    return np.eye(n_scores)[number]


def as_agreement(agree: Any, name: str = "agree") -> Agreement:
    """An agreement from its name, such as ``"same_top_class"`` or ``"within(0.1)"``, or a callable."""
    if not isinstance(agree, str):
        if isinstance(agree, _OWN):
            return agree
        if callable(agree):
            return UserAgreement(agree)
        raise InvalidTypeError(argument=name, must="be a name or a callable on (outputs, reference)", got=shown(agree))
    if agree in _NAMED:
        return _NAMED[agree]
    match = re.fullmatch(_CALL, agree)
    if match and match[1] in _MAKERS and agree not in NAMES:
        try:
            call = cast("ast.Call", ast.parse(agree, mode="eval").body)
            named = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
            return _MAKERS[match[1]](*map(ast.literal_eval, call.args), **named)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError) as error:
            must = "be a name such as same_top_set(3) or within(0.1)"
            rule = "write classes by their numbers and put texts in quotation marks."
            what = rule if type(error) is ValueError else str(error)
            hint = f"It cannot be read: {what}"
            raise InvalidValueError(argument=name, must=must, got=shown(agree), hint=hint) from error
    check_name(agree, name, NAMES)
    raise InvalidValueError(argument=name, must="have a number in the brackets", got=shown(agree))


def says_in_words(name: str) -> bool:
    """Whether predictions under the agreement of this name are its own words, not classes, labels or numbers."""
    return name.startswith(("same_side(", "same_labels("))


def _finite(value: Any, name: str) -> float:
    return float(check_number(value, name, "be a finite number", math.isfinite))


def _need_scores(outputs: Outputs, name: str) -> None:
    if outputs.ndim == 1:
        raise ModelError(f"`{name}` needs scores (b, n_classes), but the model returns labels. Use `same_top_class`.")
