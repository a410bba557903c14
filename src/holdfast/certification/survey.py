"""Many explained inputs → agreements by the number of changed features, each input asked in its turn.

For every number k of changed features the draws go to the inputs of a random order, round after round.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.certification.mean_variance import Tally, total_variance, variance_of_mean, within_variance
from holdfast.certification.subject import Settings, Subject, decides_early, reference_masks
from holdfast.errors import InvalidTypeError
from holdfast.evaluation import evaluating
from holdfast.neighborhood import NEIGHBORHOODS, Neighborhood
from holdfast.types import Mask, MaskedModel, Masks, Progress
from holdfast.validation import check_selection

Floats = NDArray[np.float64]
Explained = tuple[MaskedModel, Any]
Subjects = Sequence[Callable[[], Explained]]
Group = tuple[int, ...]
"""How many features can change, in each pool of the neighbourhood: inputs alike in this share all laws."""

Cell = tuple[Group, int]
"""A group of inputs, and how many features change."""


class Answer(NamedTuple):
    """What one input said when it was asked: agreements, in the order of the sizes, and what it cost."""

    n_agreed: tuple[int, ...]
    consistent: bool
    n_calls: int


@dataclass(frozen=True)
class Means:
    """The mean at each radius as a weighted sum over cells; ``constant`` is what needs no draws."""

    cells: list[Cell]
    weights: Floats
    constant: Floats


class Survey:
    """The inputs, and for each cell how many draws were made and how many agreed."""

    def __init__(
        self,
        subjects: Subjects,
        settings: Settings,
        memory: MutableMapping[str, Answer],
        batch_size: int | None,
        progress: Progress | None,
    ) -> None:
        self._subjects, self._settings, self._memory = subjects, settings, memory
        self._kind, self.agree, self.key = NEIGHBORHOODS[settings.neighborhood], settings.agree, settings.key
        self._batch_size, self._progress = batch_size, progress
        self._drawn: defaultdict[Cell, int] = defaultdict(int)
        self._tallies: dict[Cell, Tally] = {}
        self._consistent: dict[int, bool] = {}
        self.n_calls = 0
        self._members: defaultdict[Group, list[int]] = defaultdict(list)
        for i, subject in enumerate(subjects):
            self._members[self._group(_explained(subject)[1])].append(i)

    @property
    def n_inputs(self) -> int:
        return len(self._subjects)

    @property
    def n_consistent(self) -> int:
        return sum(self._consistent.values())

    @property
    def n_draws(self) -> int:
        return sum(self._drawn.values())

    def _group(self, selected: Mask) -> Group:
        return tuple(len(pool) for pool in self._kind(selected, 0).pools)

    def means(self, radii: Sequence[int]) -> Means:
        """The weights of all cells in the mean at each radius."""
        shares: dict[Cell, Floats] = {}
        constant = np.zeros(len(radii))
        for group, members in self._members.items():
            for row, radius in enumerate(radii):
                rings = [math.prod(math.comb(n, k) for n in group) for k in range(min(radius, *group) + 1)]
                law = [len(members) / self.n_inputs * (ring / sum(rings)) for ring in rings]
                constant[row] += law[0]
                for size, weight in enumerate(law[1:], start=1):
                    shares.setdefault((group, size), np.zeros(len(radii)))[row] = weight
        cells = sorted(shares)
        weights = np.stack([shares[cell] for cell in cells], axis=1) if cells else np.zeros((len(radii), 0))
        return Means(cells, weights, constant)

    def rates(self, means: Means) -> Floats:
        """The mean rate at each radius."""
        tallies = [self._tallies[cell].sum(axis=1) for cell in means.cells]
        by_cell = np.array([n_agreed / n_drawn for n_drawn, n_agreed in tallies])
        return np.asarray(means.constant + means.weights @ by_cell)

    def n_members(self, cells: Sequence[Cell]) -> NDArray[np.int64]:
        """Inputs that share each cell."""
        return np.array([len(self._members[group]) for group, _ in cells], dtype=np.int64)

    def spreads(self, cells: Sequence[Cell], n_draws: NDArray[np.int64]) -> Floats:
        """Estimated variance of each cell's mean after so many draws, times their number."""
        return np.array([int(n) * self._variance(cell, int(n)) for cell, n in zip(cells, n_draws, strict=True)])

    def _variance(self, cell: Cell, n: int) -> float:
        group, size = cell
        own = self._tallies[cell]
        near = [self._tallies[other] for other in ((group, size - 1), (group, size + 1)) if other in self._tallies]
        within = within_variance(own, near)
        return variance_of_mean(n, own.shape[1], within=within, total=total_variance(own))

    def ask(self, wanted: dict[Cell, int]) -> None:
        """Draw in every cell up to the number wanted; each input gets all its draws in one call."""
        portions = self._portions(wanted)
        for done, (i, portion) in enumerate(sorted(portions.items())):
            self._ask_one(i, portion)
            if self._progress is not None:
                self._progress(done + 1, len(portions))
        for cell, n in wanted.items():
            self._drawn[cell] = max(self._drawn[cell], int(n))

    def _portions(self, wanted: dict[Cell, int]) -> dict[int, dict[Cell, tuple[int, int]]]:
        """For each input and cell, its draws from which to which number; every input is asked for its prediction."""
        portions: dict[int, dict[Cell, tuple[int, int]]] = {
            i: {} for i in range(self.n_inputs) if i not in self._consistent
        }
        for cell, n in wanted.items():
            before, after = (self._turns(cell, count) for count in (self._drawn[cell], int(n)))
            for place, member in enumerate(self._members[cell[0]]):
                if after[place] > before[place]:
                    portions.setdefault(member, {})[cell] = (int(before[place]), int(after[place]))
        return portions

    def _turns(self, cell: Cell, n: int) -> NDArray[np.int64]:
        """How many of the first n draws of a cell go to each of its inputs."""
        members = self._members[cell[0]]
        order = self._stream("order", repr(cell)).permutation(len(members))
        turns = np.full(len(members), n // len(members), dtype=np.int64)
        turns[order[: n % len(members)]] += 1
        return turns

    def _ask_one(self, i: int, portion: dict[Cell, tuple[int, int]]) -> None:
        spans = [f"{size}:{start}-{stop}" for (_, size), (start, stop) in portion.items()]
        key = " ".join([str(self.key), self._kind.name, self.agree.name, str(i), *spans])
        answer = self._memory.get(key)
        if answer is None:
            answer = self._memory[key] = self._compute(i, portion)
        self._consistent[i] = answer.consistent
        self.n_calls += answer.n_calls
        for (cell, (start, stop)), n_agreed in zip(portion.items(), answer.n_agreed, strict=True):
            place = self._members[cell[0]].index(i)
            self._tally(cell)[:, place] += (stop - start, n_agreed)

    def _tally(self, cell: Cell) -> Tally:
        return self._tallies.setdefault(cell, np.zeros((2, len(self._members[cell[0]])), dtype=np.int64))

    def _compute(self, i: int, portion: dict[Cell, tuple[int, int]]) -> Answer:
        model, mask = _explained(self._subjects[i])
        full = self._kind(mask, len(mask))
        drawn = [self._masks(i, full, cell[1], *span) for cell, span in portion.items()]
        with evaluating(model, batch_size=self._batch_size) as evaluator:
            before = evaluator.n_calls
            if not decides_early(evaluator, self.agree):
                evaluator(np.concatenate([reference_masks(mask), *drawn]))
            subject = Subject(evaluator, mask, self._settings)
            n_agreed = tuple(int(subject.judge(masks).sum()) for masks in drawn)
            return Answer(n_agreed, subject.consistent, evaluator.n_calls - before)

    def _masks(self, i: int, full: Neighborhood, size: int, start: int, stop: int) -> Masks:
        """Draws start, …, stop - 1 of an input at one size."""
        return full.exactly(size).sample(stop, self._stream("masks", str(i), str(size)))[start:]

    def _stream(self, *purpose: str) -> np.random.Generator:
        return self._settings.stream(*purpose)


def _explained(subject: Callable[[], Explained]) -> tuple[MaskedModel, Mask]:
    """The model and the checked explanation of one input."""
    given = subject()
    if not isinstance(given, tuple) or len(given) != 2 or not isinstance(given[0], MaskedModel):
        raise InvalidTypeError(f"`subjects` must return pairs (model, selected), got {given!r}.")
    return given[0], check_selection(given[1], "selected", given[0])
