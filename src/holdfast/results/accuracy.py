"""Correct answers per keep probability → accuracies with exact intervals (question 4 of the paper)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from holdfast.bounds import Interval, check_counts, clopper_pearson
from holdfast.certification.serialization import Value, make_frame
from holdfast.errors import InvalidValueError
from holdfast.validation import check_share


@dataclass(frozen=True, eq=False)
class SmoothedAccuracy(Value):
    """How often a smoothed classifier is right, for several keep probabilities.

    Every input is smoothed with random masks of its own. Each interval on its own contains, with
    probability ``confidence`` over independent inputs and masks (Clopper–Pearson), the probability that
    a new input of the same kind, smoothed with new masks, is predicted as labelled.

    Attributes
    ----------
    keep_probabilities : tuple of float
        As asked; 1 is the model itself.
    n_correct : tuple of int
        Inputs predicted as labelled, for each.
    n_inputs : int
        Inputs in all.
    n_samples : int
        Random masks that voted.
    n_calls : int
        Rows the model computed in all.
    """

    keep_probabilities: tuple[float, ...]
    n_correct: tuple[int, ...]
    n_inputs: int
    n_samples: int
    confidence: float
    n_calls: int
    rng_key: int

    schema: ClassVar[str] = "holdfast.smoothed_accuracy"

    def check(self) -> None:
        """Raise if the fields contradict each other."""
        check_share(self.confidence, "confidence")
        if len(self.keep_probabilities) != len(self.n_correct):
            raise InvalidValueError("`n_correct` must have one entry per keep probability.")
        for n_correct in self.n_correct:
            check_counts(n_correct, self.n_inputs)

    @property
    def accuracies(self) -> tuple[float, ...]:
        """Share of correct answers per keep probability."""
        return tuple(n / self.n_inputs for n in self.n_correct)

    @property
    def intervals(self) -> tuple[Interval, ...]:
        """Exact binomial intervals."""
        return tuple(clopper_pearson(n, self.n_inputs, confidence=self.confidence) for n in self.n_correct)

    def __iter__(self) -> Iterator[tuple[float, float, Interval]]:
        return zip(self.keep_probabilities, self.accuracies, self.intervals, strict=True)

    def __len__(self) -> int:
        return len(self.keep_probabilities)

    def to_frame(self) -> Any:
        """A data frame with one row per keep probability."""
        return make_frame(
            [
                {"keep_probability": keep, "accuracy": accuracy, "low": interval.low, "high": interval.high}
                for keep, accuracy, interval in self
            ]
        )

    def __str__(self) -> str:
        head = f"Accuracy of the smoothed classifier on {self.n_inputs} inputs ({self.n_samples} masks each):"
        rows = [f"  keep {keep:5.3g}  {accuracy:6.1%}  [{low:.1%}, {high:.1%}]" for keep, accuracy, (low, high) in self]
        return "\n".join([head, *rows])
