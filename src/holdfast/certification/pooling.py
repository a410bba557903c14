"""Many questions about one explanation → answers from shared masks, pooled by size.

For every size k there is one list of independent uniform masks of that size, drawn lazily. Draw j
of a question has a size given by the j-th run of a chain (shared by all questions) and takes the
next mask of that size's list that this question has not used. Each question therefore sees
independent uniform draws of its own neighbourhood, and which masks it uses depends neither on the
other questions nor on their answers; but most masks serve many questions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from holdfast.certification.subject import Outcome, Settings, Subject, decides_early, reference_masks
from holdfast.evaluation import Evaluator, Tally
from holdfast.neighborhood import NEIGHBORHOODS, Indices, Neighborhood
from holdfast.plans import Plan
from holdfast.types import Mask, Masks

Streams = Callable[[str], np.random.Generator]

_MOST_LAWS = 1024


class SizeChain:
    """The sizes of all draws at all radii: at each radius independent and of its own law, and as equal as can be.

    Every draw starts with a size for the largest radius there is. The next smaller radius keeps the
    size if it fits, and gets a fresh one of its own law if not. A size that fits is distributed by
    the smaller radius's law, so both give it. Equal sizes are as likely as any coupling can make
    them, and, draw for draw, a size used at some radius is used at all smaller radii it fits into:
    the list of size k need be no longer than radius k alone would have it.

    The chain always runs over all radii, so that no radius's sizes depend on which others are asked for.
    """

    def __init__(self, nearby: Neighborhood, rng: np.random.Generator) -> None:
        self._kind, self._selected, self._rng = NEIGHBORHOODS[nearby.name], nearby.selected, rng
        self._laws: dict[int, Neighborhood] = {}
        self._reach = self._law(len(nearby.selected)).effective_radius
        self._sizes: Indices = np.zeros((0, self._reach + 1), dtype=np.intp)

    def sizes(self, radius: int, start: int, stop: int) -> Indices:
        """The sizes of draws start, …, stop - 1 at one radius."""
        if stop > len(self._sizes):
            self._sizes = np.concatenate([self._sizes, self._run(stop - len(self._sizes))])
        return self._sizes[start:stop, radius]

    def _run(self, n: int) -> Indices:
        words = self._rng.integers(0, 2**64, size=(n, self._reach + 1), dtype=np.uint64)
        sizes = np.zeros((n, self._reach + 1), dtype=np.intp)
        size = np.full(n, self._reach + 1, dtype=np.intp)
        for radius in range(self._reach, 0, -1):
            beyond = size > radius
            if beyond.any():
                size[beyond] = self._law(radius).distances(words[beyond, radius])
            sizes[:, radius] = size
        return sizes

    def _law(self, radius: int) -> Neighborhood:
        known = self._laws.get(radius)
        if known is None:
            known = self._kind(self._selected, radius)
            # Each law knows every feature: for thousands of features they are made again instead.
            if len(self._selected) <= _MOST_LAWS:
                self._laws[radius] = known
        return known


class SizePool:
    """The lists of masks per size, and for each mask whether it keeps the prediction."""

    def __init__(self, widest: Neighborhood, streams: Streams) -> None:
        n_sizes = widest.effective_radius + 1
        self._widest, self._streams = widest, streams
        self._rings: dict[int, tuple[Neighborhood, np.random.Generator]] = {}
        self._length: Indices = np.zeros(n_sizes, dtype=np.intp)
        self._agreed: Masks = np.zeros((n_sizes, 0), dtype=bool)
        self._chain = SizeChain(widest, streams("sizes"))

    @property
    def n_sizes(self) -> int:
        """Number of sizes, zero included."""
        return len(self._length)

    def sizes(self, nearby: Neighborhood, start: int, stop: int) -> Indices:
        """The sizes of draws start, …, stop - 1 of a question about ``nearby``."""
        if nearby.smallest == nearby.effective_radius:
            return np.full(stop - start, nearby.smallest, dtype=np.intp)
        return self._chain.sizes(nearby.effective_radius, start, stop)

    def draw(self, wanted: Indices) -> list[Masks]:
        """Make every list at least as long as wanted; returns the new masks, size by size."""
        short = np.flatnonzero(wanted > self._length)
        return [self._draw_ring(int(k), int(wanted[k] - self._length[k])) for k in short]

    def _draw_ring(self, k: int, n: int) -> Masks:
        if k not in self._rings:
            self._rings[k] = (self._widest.exactly(k), self._streams(f"size {k}"))
        ring, rng = self._rings[k]
        return ring.sample(n, rng)

    def record(self, wanted: Indices, agreed: Mask) -> None:
        """Enter the answers for the masks that ``draw(wanted)`` returned, in the same order."""
        room = int(wanted.max(initial=0)) - self._agreed.shape[1]
        if room > 0:
            self._agreed = np.pad(self._agreed, ((0, 0), (0, max(room, self._agreed.shape[1]))))
        start = 0
        for k in np.flatnonzero(wanted > self._length):
            stop = start + int(wanted[k] - self._length[k])
            self._agreed[k, self._length[k] : wanted[k]] = agreed[start:stop]
            self._length[k], start = wanted[k], stop

    def answers(self, sizes: Indices, used: Indices) -> Mask:
        """Answers of the next unused masks of these sizes, in the order of the draws."""
        return np.asarray(self._agreed[sizes, used[sizes] + _ranks(sizes)])


class Question:
    """One neighbourhood asked of a pool: its draws in order, and when it stops."""

    def __init__(self, nearby: Neighborhood, looks: Sequence[int], stops: Callable[[int, int], bool]) -> None:
        self.nearby, self._looks, self._stops = nearby, looks, stops
        self.agreed: Mask = np.zeros(0, dtype=bool)
        self.done = False
        self._used: Indices = np.zeros(0, dtype=np.intp)
        self._sizes: Indices = np.zeros(0, dtype=np.intp)

    @property
    def tally(self) -> Tally:
        """Draws so far."""
        return Tally(int(self.agreed.sum()), len(self.agreed))

    def wants(self, pool: SizePool) -> Indices:
        """How long each list must be for the next look."""
        if not len(self._used):
            self._used = np.zeros(pool.n_sizes, dtype=np.intp)
        n = len(self.agreed)
        self._sizes = pool.sizes(self.nearby, n, next(look for look in self._looks if look > n))
        return self._used + np.bincount(self._sizes, minlength=pool.n_sizes)

    def take(self, pool: SizePool) -> None:
        """Consume the draws that ``wants`` asked for and decide whether to go on."""
        self.agreed = np.concatenate([self.agreed, pool.answers(self._sizes, self._used)])
        self._used += np.bincount(self._sizes, minlength=pool.n_sizes)
        n, k = len(self.agreed), int(self.agreed.sum())
        self.done = n == self._looks[-1] or self._stops(n, k)


class PooledSubject:
    """One explanation, the questions about it, and the pool that answers them."""

    def __init__(self, selected: Mask, nearby: Sequence[Neighborhood], plan: Plan, streams: Streams) -> None:
        self.selected, self._plan = selected, plan
        widest = max(nearby, key=lambda one: one.effective_radius)
        self.pool = SizePool(widest, streams)
        self._enumerated = [one for one in nearby if not one.is_larger_than(plan.max_draws)]
        self._questions = {
            id(one): Question(one, plan.design.looks, plan.design.stops)
            for one in nearby
            if one.is_larger_than(plan.max_draws)
        }
        self._wanted: Indices | None = None
        self._subject: Subject | None = None

    @property
    def subject(self) -> Subject:
        """The prediction that is to survive; known from the first round on."""
        if self._subject is None:
            raise RuntimeError("No round has been run yet.")
        return self._subject

    @property
    def most_rows(self) -> int:
        """The most rows that may be needed."""
        return len(self._questions) * self._plan.max_draws + sum(one.size for one in self._enumerated)

    def first_masks(self) -> list[Masks]:
        """What is needed whatever happens: the references and all masks of small neighbourhoods."""
        small = [masks for one in self._enumerated for masks in one.enumerate(self._plan.max_draws)]
        return [reference_masks(self.selected), *small]

    def draw(self) -> list[Masks]:
        """The masks missing for the next look of every open question."""
        open_questions = [question for question in self._questions.values() if not question.done]
        if not open_questions:
            self._wanted = None
            return []
        self._wanted = np.max([question.wants(self.pool) for question in open_questions], axis=0)
        return self.pool.draw(self._wanted)

    def absorb(self, drawn: list[Masks], evaluator: Evaluator, settings: Settings) -> None:
        """Judge the masks just drawn and move every open question to its next look."""
        if self._subject is None:
            self._subject = Subject(evaluator, self.selected, settings)
        if self._wanted is None:
            return
        agreed = self.subject.judge(np.concatenate(drawn)) if drawn else np.zeros(0, dtype=bool)
        self.pool.record(self._wanted, agreed)
        for question in self._questions.values():
            if not question.done:
                question.take(self.pool)

    @property
    def done(self) -> bool:
        """Whether every question has its answer."""
        return all(question.done for question in self._questions.values())

    def outcome(self, nearby: Neighborhood) -> Outcome:
        """The answer about one of the neighbourhoods."""
        if id(nearby) in self._questions:
            return Outcome(self._questions[id(nearby)].tally, self._plan)
        return Outcome(self.subject.count(nearby.enumerate(self._plan.max_draws)), None)

    def draws(self, nearby: Neighborhood) -> NDArray[np.bool_] | None:
        """Draw by draw, whether the prediction was kept; None if every mask was evaluated."""
        question = self._questions.get(id(nearby))
        return None if question is None else question.agreed


def run_pooled(subjects: Sequence[PooledSubject], evaluator: Evaluator, settings: Settings) -> int:
    """Answer all questions of all explanations; returns the number of rounds.

    In each round the masks missing for every open question go to the model together; a model that
    decides early is asked by each explanation for its own.
    """
    together = not decides_early(evaluator, settings.agree)
    evaluator.expect(sum(subject.most_rows for subject in subjects))
    first = [masks for subject in subjects for masks in subject.first_masks()]
    n_rounds = 0
    while n_rounds == 0 or not all(subject.done for subject in subjects):
        drawn = [subject.draw() for subject in subjects]
        missing = [masks for portion in drawn for masks in portion] + (first if n_rounds == 0 else [])
        if missing and together:
            evaluator(np.concatenate(missing))
        for subject, portion in zip(subjects, drawn, strict=True):
            subject.absorb(portion, evaluator, settings)
        n_rounds += 1
    return n_rounds


def _ranks(values: Indices) -> Indices:
    """For each entry, how many equal entries stand before it."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    ranks = np.empty(len(values), dtype=np.intp)
    ranks[order] = np.arange(len(values)) - np.searchsorted(ordered, ordered)
    return ranks
