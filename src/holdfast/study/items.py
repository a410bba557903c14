"""A study → its items: the smallest pieces of work that are finished, stored and resumed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from holdfast.errors import InvalidValueError
from holdfast.randomness import stream
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


def inputs_of(spec: StudySpec, n_there: int) -> Sequence[int]:
    """The inputs of a study by their numbers in the data: all, the first n, or n at random in a random order."""
    n = spec.data.n
    if n is not None and n > n_there:
        raise InvalidValueError(argument="data.n", must=f"be at most the number of inputs there are, {n_there}", got=n)
    if n is None or n == n_there:
        return range(n_there)
    return ordered(spec, n_there)[:n]


def ordered(spec: StudySpec, n_there: int) -> Sequence[int]:
    """All numbers of inputs in the order in which a study takes some of them: as they come, or shuffled by its seed.

    Each input has a random number of its own, so that neither the size of a sample nor later inputs
    shuffle those that are there.

    Examples
    --------
    >>> from holdfast.study.spec import DataSpec, MethodSpec, ModelSpec
    >>> spec = StudySpec(ModelSpec("onnx:a"), DataSpec("bundled:digits", n=3), (MethodSpec("lime"),))
    >>> ordered(spec, 6), inputs_of(spec, 6)
    ([2, 3, 5, 4, 0, 1], [2, 3, 5])
    """
    if spec.data.order == "first":
        return range(n_there)
    keys = stream(spec.seed, "study", "inputs").bit_generator.random_raw(n_there)
    order: list[int] = np.argsort(keys, kind="stable").tolist()
    return order


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
