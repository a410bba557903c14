"""Outputs and a reference → which of them count as the same prediction."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from holdfast.errors import InvalidTypeError, InvalidValueError, ModelError
from holdfast.types import Mask, Outputs
from holdfast.validation import as_array, check_amount, check_name, check_whole, shown


class Agreement(Protocol):
    """Says which outputs agree with a reference output; an output always agrees with itself."""

    @property
    def name(self) -> str: ...

    def __call__(self, outputs: Outputs, reference: Any, /) -> Mask:
        """Boolean (b,) for outputs (b, n_classes) or (b,) and one reference of the same kind."""
        ...


@dataclass(frozen=True)
class SameTopClass:
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
                "Use `agree=within(margin)` for a single score, or return labels (b,)."
            )
        return np.asarray(outputs.argmax(axis=1) == reference.argmax())


@dataclass(frozen=True)
class SameTopSet:
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
class Within:
    """Every score moved by strictly less than ``margin``."""

    margin: float

    @property
    def name(self) -> str:
        return f"within({self.margin!r})"

    def __call__(self, outputs: Outputs, reference: Any, /) -> Mask:
        _need_scores(outputs, self.name)
        return np.asarray(np.abs(outputs - reference).max(axis=1) < self.margin)


@dataclass(frozen=True)
class UserAgreement:
    """A user's own notion of the same prediction."""

    function: Callable[[Outputs, Any], Any]

    @property
    def name(self) -> str:
        known = (getattr(self.function, label, None) for label in ("name", "__qualname__"))
        return next((label for label in known if isinstance(label, str)), type(self.function).__qualname__)

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


def within(margin: float) -> Within:
    """Agree when every score moved by strictly less than ``margin``."""
    return Within(check_amount(margin, "margin"))


def as_agreement(agree: Any, name: str = "agree") -> Agreement:
    """An agreement from its name, such as ``"same_top_class"`` or ``"within(0.1)"``, or a callable."""
    if isinstance(agree, (SameTopClass, SameTopSet, Within, UserAgreement)):
        return agree
    if callable(agree):
        return UserAgreement(agree)
    if not isinstance(agree, str):
        raise InvalidTypeError(argument=name, must="be a name or a callable on (outputs, reference)", got=shown(agree))
    if agree == "same_top_class":
        return same_top_class
    names = ["same_top_class", "same_top_set(k)", "within(margin)"]
    match = re.fullmatch(r"(same_top_set|within)\((.*)\)", agree)
    if match and agree not in names:
        try:
            return same_top_set(int(match[2])) if match[1] == "same_top_set" else within(float(match[2]))
        except ValueError as error:
            must, hint = "be a name such as same_top_set(3) or within(0.1)", f"It cannot be read: {error}"
            raise InvalidValueError(argument=name, must=must, got=shown(agree), hint=hint) from error
    check_name(agree, name, names)
    raise InvalidValueError(argument=name, must="have a number in place of the letters", got=shown(agree))


def prediction_of(output: Any) -> Any:
    """Class index of scores, the label of a label-only model, or the value of a single score."""
    if not isinstance(output, np.ndarray):
        return output
    return int(output.argmax()) if len(output) > 1 else float(output[0])


def _need_scores(outputs: Outputs, name: str) -> None:
    if outputs.ndim == 1:
        raise ModelError(f"`{name}` needs scores (b, n_classes), but the model returns labels. Use `same_top_class`.")
