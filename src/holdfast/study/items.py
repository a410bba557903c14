"""A study → its items: the smallest pieces of work that are finished, stored and resumed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product

from holdfast.study.spec import StudySpec


@dataclass(frozen=True, order=True)
class Item:
    """One input, explained by one method, cut at one fraction, certified under one smoothing.

    ``key`` names it in the store and in its random streams; nothing else about the study enters
    there, so that an item keeps its draws when methods, inputs or radii are added.
    """

    input: int
    method: str
    top_fraction: float
    keep_probability: float

    @property
    def key(self) -> str:
        """Such as ``12/lime/0.25/1.0``."""
        return f"{self.input}/{self.method}/{self.top_fraction!r}/{self.keep_probability!r}"


@dataclass(frozen=True)
class Task:
    """What a worker is given at a time: one input and those of its items that are not stored yet.

    ``attributions`` are pairs of a method and its packed scores, where items of this input and method
    are stored already: all items of a method are cut from the same scores, whatever came between.
    """

    input: int
    items: tuple[Item, ...]
    attributions: tuple[tuple[str, bytes], ...] = ()

    def after(self, key: str, method: str, packed: bytes) -> Task:
        """What is left when one item is done, and its method's scores are known."""
        left = tuple(item for item in self.items if item.key != key)
        return Task(self.input, left, tuple((dict(self.attributions) | {method: packed}).items()))


def items_of(spec: StudySpec, inputs: Iterable[int]) -> Iterator[Item]:
    """Every item of a study, input by input."""
    names = [method.name for method in spec.methods]
    for index, name, fraction, keep in product(inputs, names, spec.top_fractions, spec.smoothing.keep_probabilities):
        yield Item(index, name, fraction, keep)


def tasks_of(spec: StudySpec, inputs: Iterable[int], done: frozenset[str]) -> Iterator[Task]:
    """One task per input that has items left to do."""
    for index in inputs:
        left = tuple(item for item in items_of(spec, [index]) if item.key not in done)
        if left:
            yield Task(index, left)
