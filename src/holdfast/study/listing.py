"""A data set → what its inputs are called and hold, so that stored numbers keep meaning the same inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.errors import StudyMismatchError
from holdfast.evaluation import Evaluator
from holdfast.inputs.data.dataset import Dataset
from holdfast.types import MaskedModel

if TYPE_CHECKING:
    from holdfast.study.store import Store


class Listed(NamedTuple):
    """What is known of an input without binding it; None where it has no name, or is read only when it is needed."""

    name: str | None
    digest: str | None

    def differs(self, other: Listed) -> bool:
        """Whether they are two inputs for sure: what one of them does not say is no difference."""
        return any(mine is not None and its is not None and mine != its for mine, its in zip(self, other, strict=True))

    def knowing(self, other: Listed | None) -> Listed:
        """The same, with the digest that another listing has for this name, if this one has none."""
        if other is None or other.name != self.name or self.digest is not None:
            return self
        return other

    def __str__(self) -> str:
        return repr(self.name) if self.digest is None else f"{self.name!r} (content {self.digest[:8]})"


def list_inputs(data: Dataset, numbers: Sequence[int]) -> dict[int, Listed]:
    """Some inputs of a data set by number; files are not opened.

    Examples
    --------
    >>> import numpy as np
    >>> data = Dataset("moods", "text", ("fine", "awful"), np.array([1, 0]), ("bad", "good"))
    >>> print(list_inputs(data, [0])[0])
    None (content d14a58ba)
    """
    return {
        number: Listed(
            name=None if data.names is None else data.names[number],
            digest=None if data.in_files else data.digest(number),
        )
        for number in numbers
    }


def check_listing(before: Mapping[int, Listed], now: Mapping[int, Listed]) -> None:
    """Raise where a number stands for another input than before."""
    for number in sorted(before.keys() & now.keys()):
        if before[number].differs(now[number]):
            raise StudyMismatchError(
                f"Input {number} was {before[number]} and is now {now[number]}: the numbers in the file of results "
                "would mean other inputs. Put new inputs after the old ones, or use another file."
            )


def first_difference(store: Store, index: int, bound: MaskedModel) -> tuple[str, Any, Any] | None:
    """What is another than when the input was explained: its name, what it was and what it is; None if nothing is."""
    statement = "SELECT model_fingerprint, input_fingerprint, n_features FROM inputs WHERE input = ?"
    stored, now = next(store.query(statement, index)), Evaluator(bound).provenance
    parts = zip(("model", "input", "number of features"), stored, (now.model, now.input, bound.n_features), strict=True)
    return next((part for part in parts if part[1] != part[2]), None)
