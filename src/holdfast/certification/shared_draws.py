"""Many neighbourhoods of some explanations → counts for each of them, from masks that they share.

For every size k there is one list of independent uniform masks of that size, drawn lazily. Draw j
of a neighbourhood has a size given by the j-th run of a chain (shared by all of them) and takes the
next mask of that size's list that this neighbourhood has not used. Each therefore sees independent
uniform draws of its own, and which masks it uses depends neither on the others nor on their answers;
but most masks serve many neighbourhoods.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from holdfast.certification.question import Procedure
from holdfast.certification.reference import Outcome, Reference, asks_together, reference_masks
from holdfast.completions import nearby_rows
from holdfast.evaluation import Evaluator, Tally
from holdfast.neighborhood import Additions, Indices, Neighborhood
from holdfast.plans import Plan
from holdfast.types import Mask, Masks

Streams = Callable[[str], np.random.Generator]
Stops = Callable[[int, int], bool]

_MOST_DISTRIBUTIONS = 1024


class SizeChain:
    """The sizes of all draws at all radii: at each independent and of its own distribution, and as equal as can be.

    Every draw starts with a size for the largest radius there is. The next smaller radius keeps the
    size if it fits, and gets a fresh one of its own distribution if not. A size that fits is distributed by
    the smaller radius's distribution, so both give it. Equal sizes are as likely as any coupling can make
    them, and, draw for draw, a size used at some radius is used at all smaller radii it fits into:
    the list of size k need be no longer than radius k alone would have it.

    The chain always runs over all radii, so that no radius's sizes depend on which others are asked for.
    """

    def __init__(self, nearby: Neighborhood, rng: np.random.Generator) -> None:
        self._nearby, self._rng = nearby, rng
        self._distributions: dict[int, Neighborhood] = {}
        widest = self._distribution(len(nearby.selected))
        self._reach, self._least = widest.effective_radius, widest.smallest
        self._sizes: Indices = np.zeros((0, self._reach + 1), dtype=np.intp)

    def sizes(self, radius: int, start: int, stop: int) -> Indices:
        if stop > len(self._sizes):
            n = stop - len(self._sizes)
            words = self._rng.integers(0, 2**64, size=(n, self._reach + 1), dtype=np.uint64)
            sizes = np.zeros((n, self._reach + 1), dtype=np.intp)
            size = np.full(n, self._reach + 1, dtype=np.intp)
            for within in range(self._reach, self._least, -1):
                beyond = size > within
                if beyond.any():
                    size[beyond] = self._distribution(within).distances(words[beyond, within])
                sizes[:, within] = size
            self._sizes = np.concatenate([self._sizes, sizes])
        return self._sizes[start:stop, radius]

    def _distribution(self, radius: int) -> Neighborhood:
        distribution = self._distributions.get(radius) or self._nearby.within(radius)
        # Each distribution knows every feature: for thousands of features they are made again instead.
        if len(self._nearby.selected) <= _MOST_DISTRIBUTIONS:
            self._distributions[radius] = distribution
        return distribution


class SizeWords:
    """The sizes of all draws by all distributions: each reads the same random words by its own."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._words = np.zeros(0, dtype=np.uint64)

    def sizes(self, nearby: Neighborhood, start: int, stop: int) -> Indices:
        if stop > len(self._words):
            more = self._rng.integers(0, 2**64, size=stop - len(self._words), dtype=np.uint64)
            self._words = np.concatenate([self._words, more])
        return nearby.distances(self._words[start:stop])


class MaskLists:
    """One list of masks per size, and for each mask whether it keeps the prediction.

    Neighbourhoods are those of one distribution at several radii or, if ``many_distributions``, of several whose rings
    are alike.
    """

    def __init__(self, widest: Neighborhood, streams: Streams, *, many_distributions: bool = False) -> None:
        n_sizes = widest.effective_radius + 1
        self._widest, self._streams = widest, streams
        self._rings: dict[int, tuple[Neighborhood, np.random.Generator]] = {}
        self.lengths: Indices = np.zeros(n_sizes, dtype=np.intp)
        self._agreed: Masks = np.zeros((n_sizes, 0), dtype=bool)
        self._chain = None if many_distributions else SizeChain(widest, streams("sizes"))
        self._words = SizeWords(streams("sizes of all laws"))

    def sizes(self, nearby: Neighborhood, start: int, stop: int) -> Indices:
        """The sizes of draws start, …, stop - 1 of a neighbourhood."""
        if nearby.smallest == nearby.effective_radius:
            return np.full(stop - start, nearby.smallest, dtype=np.intp)
        if self._chain is None:
            return self._words.sizes(nearby, start, stop)
        return self._chain.sizes(nearby.effective_radius, start, stop)

    def extend(self, lengths: Indices) -> Masks:
        """The masks that are missing for lists of these lengths, size by size."""
        missing: list[Masks] = []
        for k in np.flatnonzero(lengths > self.lengths).tolist():
            if k not in self._rings:
                self._rings[k] = (self._widest.exactly(k), self._streams(f"size {k}"))
            ring, rng = self._rings[k]
            missing.append(ring.sample(int(lengths[k] - self.lengths[k]), rng))
        return np.concatenate(missing) if missing else self._widest.selected[None][:0]

    def record(self, lengths: Indices, agreed: Mask) -> None:
        """Enter the answers for the masks that ``extend(lengths)`` returned, in the same order."""
        room = int(lengths.max(initial=0)) - self._agreed.shape[1]
        if room > 0:
            self._agreed = np.pad(self._agreed, ((0, 0), (0, max(room, self._agreed.shape[1]))))
        start = 0
        for k in np.flatnonzero(lengths > self.lengths):
            stop = start + int(lengths[k] - self.lengths[k])
            self._agreed[k, self.lengths[k] : lengths[k]] = agreed[start:stop]
            self.lengths[k], start = lengths[k], stop

    def answers(self, sizes: Indices, used: Indices) -> Mask:
        """Answers of the next unused masks of these sizes, in the order of the draws."""
        order = np.argsort(sizes, kind="stable")
        ordered = sizes[order]
        ranks = np.empty(len(sizes), dtype=np.intp)  # how many equal sizes come before
        ranks[order] = np.arange(len(sizes)) - np.searchsorted(ordered, ordered)
        return np.asarray(self._agreed[sizes, used[sizes] + ranks])


class DrawSequence:
    """The draws of one neighbourhood in order, up to the look at which they stop."""

    def __init__(self, nearby: Neighborhood, looks: Sequence[int], stops: Stops, lists: MaskLists) -> None:
        self.nearby, self._looks, self._stops, self._lists = nearby, looks, stops, lists
        self.agreed: Mask = np.zeros(0, dtype=bool)
        self.is_open = True
        self._used: Indices = np.zeros(len(lists.lengths), dtype=np.intp)
        self._sizes: Indices = np.zeros(0, dtype=np.intp)

    @property
    def tally(self) -> Tally:
        return Tally(int(self.agreed.sum()), len(self.agreed))

    def needs(self) -> Indices:
        """How long each list must be for the next look."""
        n = len(self.agreed)
        self._sizes = self._lists.sizes(self.nearby, n, next(look for look in self._looks if look > n))
        return self._used + np.bincount(self._sizes, minlength=len(self._used))

    def advance(self) -> None:
        """Take the draws that were needed, and decide whether to go on."""
        self.agreed = np.concatenate([self.agreed, self._lists.answers(self._sizes, self._used)])
        self._used += np.bincount(self._sizes, minlength=len(self._used))
        n = len(self.agreed)
        self.is_open = n < self._looks[-1] and not self._stops(n, int(self.agreed.sum()))


class ExplanationDraws:
    """One explanation: its lists of masks, and the neighbourhoods that draw from them, are enumerated or counted."""

    def __init__(
        self,
        widest: Neighborhood,
        streams: Streams,
        reference: Reference | None = None,
        *,
        many_distributions: bool = False,
    ) -> None:
        self.selected, self.lists = widest.selected, MaskLists(widest, streams, many_distributions=many_distributions)
        self._reference = reference
        self.enumerated: list[Neighborhood] = []
        self._counted: dict[int, Outcome] = {}
        self.sequences: dict[int, DrawSequence] = {}
        self._plan: Plan | None = None

    @classmethod
    def by_plan(
        cls,
        plan: Plan,
        nearby: Sequence[Neighborhood],
        streams: Streams,
        evaluator: Evaluator,
        procedure: Procedure,
        *,
        many_distributions: bool = False,
    ) -> ExplanationDraws:
        """Count what the model's structure tells, enumerate what has few masks, and draw from the rest by the plan."""
        widest, question = max(nearby, key=lambda near: near.effective_radius), procedure.question
        if many_distributions:  # which all have rings of additions
            every = Additions(widest.selected, len(widest.selected))
            widest = nearby_rows(every, question.n_completions)
        known = procedure.structure is not None and procedure.structure.countable is not None
        draws = cls(
            widest,
            streams,
            Reference(evaluator, widest.selected, procedure) if known else None,
            many_distributions=many_distributions,
        )
        draws._plan = plan
        for near in nearby:
            outcome = draws.reference.counted(near) if known else None
            if outcome is not None:
                draws._counted[id(near)] = outcome
            elif question.enumerates(near, plan.max_draws):
                draws.enumerated.append(near)
            else:
                draws.open(near, plan.design.looks, plan.design.stops)
        return draws

    def open(self, nearby: Neighborhood, looks: Sequence[int], stops: Stops) -> DrawSequence:
        sequence = self.sequences[id(nearby)] = DrawSequence(nearby, looks, stops, self.lists)
        return sequence

    @property
    def open_sequences(self) -> list[DrawSequence]:
        return [sequence for sequence in self.sequences.values() if sequence.is_open]

    @property
    def reference(self) -> Reference:
        """The prediction that is to survive; known from the first round on."""
        return cast(Reference, self._reference)

    def refer(self, evaluator: Evaluator, procedure: Procedure) -> Reference:
        """The same, asked for where it is not known yet."""
        if self._reference is None:
            self._reference = Reference(evaluator, self.selected, procedure)
        return self._reference

    def outcome(self, nearby: Neighborhood) -> Outcome:
        if id(nearby) in self.sequences:
            return Outcome(self.sequences[id(nearby)].tally, self._plan)
        if id(nearby) in self._counted:
            return self._counted[id(nearby)]
        return self.reference.enumerated(nearby, nearby.size)


class SharedDraws:
    """Neighbourhoods of some explanations, brought from look to look by the same model calls."""

    def __init__(self, evaluator: Evaluator, procedure: Procedure, explanations: Sequence[ExplanationDraws]) -> None:
        self._evaluator, self._procedure, self.explanations = evaluator, procedure, explanations
        self.n_rounds = 0

    def run(self) -> None:
        """Rounds until nothing is open; at least one, which finds out the predictions."""
        self.round()
        while any(explanation.open_sequences for explanation in self.explanations):
            self.round()

    def round(self) -> None:
        """Draw the masks that are missing for the next look everywhere, ask the model once, and count."""
        lengths, missing = [], []
        for explanation in self.explanations:
            needs = [sequence.needs() for sequence in explanation.open_sequences]
            lengths.append(np.max([explanation.lists.lengths, *needs], axis=0))
            missing.append(explanation.lists.extend(lengths[-1]))
        rows = [masks for masks in missing if len(masks)]
        if self.n_rounds == 0:  # what is needed whatever happens
            for explanation in self.explanations:
                rows.append(reference_masks(explanation.selected, self._procedure.question.n_completions))
                for near in explanation.enumerated:
                    rows.extend(near.enumerate(near.size))
        if rows and asks_together(self._evaluator, self._procedure.question):
            self._evaluator(np.concatenate(rows))
        for explanation, length, masks in zip(self.explanations, lengths, missing, strict=True):
            reference = explanation.refer(self._evaluator, self._procedure)
            explanation.lists.record(length, reference.judge(masks) if len(masks) else np.zeros(0, dtype=bool))
            for sequence in explanation.open_sequences:
                sequence.advance()
        self.n_rounds += 1
