"""Many neighbourhoods of some explanations → counts for each of them, from masks that they share.

For every size k there is one list of independent uniform masks of that size, drawn lazily. Draw j
of a neighbourhood has a size given by the j-th run of a chain (shared by all of them) and takes the
next mask of that size's list that this neighbourhood has not used. Each therefore sees independent
uniform draws of its own, and which masks it uses depends neither on the others nor on their answers;
but most masks serve many neighbourhoods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from holdfast.certification.question import Procedure
from holdfast.certification.reference import Outcome, Reference, asks_together, draw_all, reference_masks
from holdfast.completions import nearby_rows
from holdfast.evaluation import Evaluator, Tally
from holdfast.neighborhood import Additions, Indices, Neighborhood, PoolFlips, uniform
from holdfast.plans import Plan, Stops, looks_left
from holdfast.types import Mask, Masks

if TYPE_CHECKING:  # needed only where a call has a price
    from holdfast.prices import Ahead

Streams = Callable[[str], np.random.Generator]
Floats = NDArray[np.float64]

_MOST_DISTRIBUTIONS = 1024

_ROUNDINGS = 64
"""Rounding units per radius by which products and sums of shares may differ: each step has a few."""

_FEW_RADII, _DRAWS_AT_A_TIME = 128, 64
"""For so few radii, stepping from radius to radius takes least, for so many draws at a time."""

_FEW_LEFT = 64
"""Numbers that are looked at one by one."""

_MOST_WORDS = 1 << 22
"""Most random words that are held for sizes at a time."""


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
        masks = getattr(widest, "masks", widest)  # completions are drawn beside them
        flips = masks if isinstance(masks, PoolFlips) and self._least == 0 else None
        self._is_short = flips is not None and self._reach <= _FEW_RADII
        self._shares = flips.shares_within() if flips is not None and self._is_short else None
        self._nearer = flips.shares_nearer() if flips is not None and not self._is_short else None
        self._steps = [] if self._nearer is None else self._nearer.tolist()
        self._sizes: NDArray[np.int32] = np.zeros((0, self._reach + 1), dtype=np.int32)

    def sizes(self, radius: int, start: int, stop: int) -> Indices:
        width = (self._reach + 1) * (max(1, self._reach) if self._is_short else 1)
        step, parts = max(1, _MOST_WORDS // width), [self._sizes]
        most = -(-stop // _DRAWS_AT_A_TIME) * _DRAWS_AT_A_TIME if self._is_short else stop
        for drawn in range(len(self._sizes), most if stop > len(self._sizes) else 0, step):
            words = self._rng.integers(0, 2**64, size=(min(step, most - drawn), self._reach + 1), dtype=np.uint64)
            parts.append(self._by_steps(words) if self._nearer is None else self._by_jumps(words, self._nearer))
        self._sizes = np.concatenate(parts) if len(parts) > 1 else self._sizes
        return self._sizes[start:stop, radius].astype(np.intp)

    def _by_steps(self, words: NDArray[np.uint64]) -> NDArray[np.int32]:
        """The sizes of draws at all radii, from radius to radius."""
        sizes = np.zeros(words.shape, dtype=np.int32)
        size = np.full(len(words), self._reach + 1, dtype=np.intp)
        fresh = None if self._shares is None else (self._shares <= uniform(words)[:, :, None]).sum(axis=2)
        for within in range(self._reach, self._least, -1):
            beyond = size > within
            if fresh is not None:
                size = np.where(beyond, fresh[:, within], size)
            elif beyond.any():
                size[beyond] = self._distribution(within).distances(words[beyond, within])
            sizes[:, within] = size
        return sizes

    def _by_jumps(self, words: NDArray[np.uint64], nearer: Floats) -> NDArray[np.int32]:
        """The same from fresh size to fresh size, in time that grows as the number of radii.

        A fresh size at radius w is k if its random number lies between the shares S(k - 1) / S(w) and S(k) / S(w), S(k)
        masks being within k. Shares are products of ``nearer``. A number so near to one that rounding could decide is
        left to the distribution itself, which sums up all sizes.
        """
        numbers, slack = uniform(words), _ROUNDINGS * (self._reach + 1) * np.finfo(float).eps
        may_fall = numbers < nearer * (1 + slack)
        sizes = np.tile(np.arange(self._reach + 1, dtype=np.int32), (len(words), 1))
        for row, size in enumerate(self._distribution(self._reach).distances(words[:, self._reach]).tolist()):
            sizes[row, size:] = size
            falls = np.flatnonzero(may_fall[row, 1:size])[::-1] + 1  # at other radii a fresh size is the radius itself
            fresh = self._fresh_sizes(falls, numbers[row, falls], nearer, slack)
            taken = []
            for i, (within, drawn) in enumerate(zip(falls.tolist(), fresh.tolist(), strict=True)):
                if within < size:  # else the last size fits into it
                    size = drawn
                    if drawn < 0:
                        size = fresh[i] = self._distribution(within).distances(words[row, within : within + 1])[0]
                    taken.append(i)
            starts = fresh[taken]
            lengths = falls[taken] + 1 - starts
            at = np.repeat(starts, lengths)  # a size at all radii that it fits into
            sizes[row, at + np.arange(len(at)) - np.repeat(lengths.cumsum() - lengths, lengths)] = at
        sizes[:, 0] = 0
        return sizes

    def _fresh_sizes(self, radii: Indices, numbers: Floats, nearer: Floats, slack: float) -> Indices:
        """The size at each radius that its random number stands for; -1 where rounding could decide."""
        sizes, shares, left = radii.copy(), nearer[radii], np.arange(len(radii))
        while len(left) > _FEW_LEFT:
            known = numbers[left] > shares[left] * (1 + slack)
            falls = numbers[left] < shares[left] * (1 - slack)
            sizes[left[~known & ~falls]] = -1
            left = left[falls]
            sizes[left] -= 1
            shares[left] *= nearer[sizes[left]]
        for i in left.tolist():
            number, size, share = float(numbers[i]), int(sizes[i]), float(shares[i])
            while number < share * (1 - slack):
                size -= 1
                share *= self._steps[size]
            sizes[i] = size if number > share * (1 + slack) else -1
        return sizes

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
    """One list of masks per size, and how many of the first ones keep the prediction.

    Neighbourhoods are those of one distribution at several radii or, if ``many_distributions``, of several whose rings
    are alike.
    """

    def __init__(self, widest: Neighborhood, streams: Streams, *, many_distributions: bool = False) -> None:
        n_sizes = widest.effective_radius + 1
        self._widest, self._streams = widest, streams
        self._rings: dict[int, tuple[Neighborhood, np.random.Generator]] = {}
        self._drawn: dict[int, Masks] = {}  # of each size, masks without an answer
        self.lengths: Indices = np.zeros(n_sizes, dtype=np.intp)
        self._n_agreed: NDArray[np.int32] = np.zeros((n_sizes, 1), dtype=np.int32)  # of the first 0, 1, … of each size
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
        """The masks that are missing for lists of these lengths, size by size; nothing is used up."""
        sizes, nothing = np.flatnonzero(lengths > self.lengths).tolist(), self._widest.selected[None][:0]
        n_missing = {k: int(lengths[k] - self.lengths[k]) for k in sizes}
        short = {k: n for k, n in n_missing.items() if n > len(self._drawn.get(k, nothing))}
        for k in short:
            if k not in self._rings:
                self._rings[k] = (self._widest.exactly(k), self._streams(f"size {k}"))
        self._drawn.update(draw_all({k: (*self._rings[k], self._drawn.get(k, nothing), n) for k, n in short.items()}))
        return np.concatenate([self._drawn[k][:n] for k, n in n_missing.items()]) if sizes else nothing

    def record(self, lengths: Indices, agreed: Mask) -> None:
        """Enter the answers for the masks that ``extend(lengths)`` returned, in the same order."""
        width = self._n_agreed.shape[1]
        if lengths.max(initial=0) >= width:
            self._n_agreed = np.pad(self._n_agreed, ((0, 0), (0, max(int(lengths.max()) + 1 - width, width))))
        start = 0
        for k in np.flatnonzero(lengths > self.lengths).tolist():
            before, after = int(self.lengths[k]), int(lengths[k])
            stop = start + after - before
            self._drawn[k] = self._drawn[k][stop - start :]
            self._n_agreed[k, before + 1 : after + 1] = self._n_agreed[k, before] + np.cumsum(agreed[start:stop])
            self.lengths[k], start = after, stop

    def n_agreed(self, used: Indices, more: Indices) -> int:
        """How many of the next masks of each size, so many after those used, keep the prediction."""
        sizes = np.flatnonzero(more)
        first = used[sizes]
        return int((self._n_agreed[sizes, first + more[sizes]] - self._n_agreed[sizes, first]).sum())


class DrawSequence:
    """The draws of one neighbourhood in order, up to the look at which they stop."""

    def __init__(self, nearby: Neighborhood, looks: Sequence[int], stops: Stops, lists: MaskLists) -> None:
        self.nearby, self._looks, self._stops, self._lists = nearby, looks, stops, lists
        self.tally, self.is_open = Tally(), True
        self.looks_left = looks_left(looks, stops, 0, 0)  # from the first at which the draws can stop
        self._used: Indices = np.zeros(len(lists.lengths), dtype=np.intp)
        self._next: Indices = self._used  # how many masks of each size the next look takes

    def needs(self) -> Indices:
        """How long each list must be for the next look."""
        sizes = self._lists.sizes(self.nearby, self.tally.n_evaluated, self.looks_left[0])
        self._next = np.bincount(sizes, minlength=len(self._used))
        return self._used + self._next

    def needs_at_looks(self, room: int) -> Indices:
        """How long each list must be for every look that is left, (n_looks, n_sizes), up to the first that is too far.

        That is one for which more than ``room`` masks are missing, and what is said of it is just that.
        """
        n, width, looks = self.tally.n_evaluated, len(self._used), self.looks_left
        most = n + room + int((self._lists.lengths - self._used).sum())  # every draw takes another mask of the lists
        fitting = [look for look in looks if look <= max(most, looks[0])]
        place = np.repeat(np.arange(len(fitting)), np.diff([n, *fitting]))
        sizes = self._lists.sizes(self.nearby, n, fitting[-1])
        counts = np.bincount(place * width + sizes, minlength=len(fitting) * width)
        needs = self._used + counts.reshape(-1, width).cumsum(axis=0)
        too_far = np.maximum(needs[-1:], self._lists.lengths) + room + 1
        return np.asarray(needs if len(fitting) == len(looks) else np.concatenate([needs, too_far]))

    def expected_needs(self, before: Tally, room: int) -> Indices | None:
        """How long each list must be for all draws that are expected; None if more than ``room`` masks are missing."""
        needs, last = self.needs_at_looks(room), self.n_expected(before)
        fits = last < len(needs) and int(np.maximum(needs[last] - self._lists.lengths, 0).sum()) <= room
        return needs[last] if fits else None

    def n_expected(self, before: Tally) -> int:
        """How many looks will come after the next one, if draws go on as they began, or as those before them did."""
        looks, tally = self.looks_left, self.tally if self.tally.n_evaluated else before
        if tally.n_evaluated == 0:
            return 0
        agreed = (look * tally.n_agreed // tally.n_evaluated for look in looks)
        ends = (j for j, (look, k) in enumerate(zip(looks, agreed, strict=True)) if self._stops(look, k))
        return next(ends, len(looks) - 1)

    def advance(self) -> None:
        """Take the draws that were needed, and decide whether to go on."""
        n, n_agreed = self.looks_left[0], self.tally.n_agreed + self._lists.n_agreed(self._used, self._next)
        self.tally = Tally(n_agreed, n)
        self._used = self._used + self._next
        self.is_open = n < self._looks[-1] and not self._stops(n, n_agreed)
        if self.is_open:
            self.looks_left = looks_left(self._looks, self._stops, n, n_agreed)


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
        self.upcoming: Callable[[], Iterable[DrawSequence]] = tuple  # what may be opened next, in order
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
    def last_tally(self) -> Tally:
        """What was counted last, before sequences that have no draws yet."""
        drawn = (sequence.tally for sequence in reversed(self.sequences.values()) if sequence.tally.n_evaluated)
        return next(drawn, Tally())

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
            masks = np.concatenate(rows)
            ahead = self._evaluator.ahead(masks)
            later = [] if ahead is None else self._later(lengths, ahead)
            if later:
                self._evaluator.compute_ahead(np.concatenate([masks, *later]))
            self._evaluator(masks)
        for explanation, length, masks in zip(self.explanations, lengths, missing, strict=True):
            reference = explanation.refer(self._evaluator, self._procedure)
            explanation.lists.record(length, reference.judge(masks) if len(masks) else np.zeros(0, dtype=bool))
            for sequence in explanation.open_sequences:
                sequence.advance()
        self.n_rounds += 1

    def _later(self, lengths: list[Indices], ahead: Ahead) -> list[Masks]:
        """Masks up to the looks after the next one, if some are worth computing in the same call.

        A look that comes costs a call. So each look that is expected may take along as many masks as cost one; so may
        all neighbourhoods together whose turn may come next, and so may all other looks together. What is computed in
        vain then takes no longer than the calls that it was to save.
        """
        if not any(draws.open_sequences for draws in self.explanations):  # all masks are listed, and asked for
            return []
        tables = [[seq.needs_at_looks(ahead.room) for seq in draws.open_sequences] for draws in self.explanations]
        lasts = [[seq.n_expected(draws.last_tally) for seq in draws.open_sequences] for draws in self.explanations]
        n_looks = max(len(table) for row in tables for table in row)

        def needs(j: int, lasts: list[list[int]]) -> list[list[Indices]]:
            """What is needed j looks after the next one by sequences that last so many looks."""
            rows = (zip(row, last, strict=True) for row, last in zip(tables, lasts, strict=True))
            return [[table[min(j, end, len(table) - 1)] for table, end in row] for row in rows]

        def upcoming() -> Iterator[list[list[Indices]]]:
            for i, draws in enumerate(self.explanations):
                for sequence in draws.upcoming():
                    needed = sequence.expected_needs(draws.last_tally, ahead.room)
                    if needed is None:
                        break
                    yield [[needed] if i == k else [] for k in range(len(tables))]

        n_expected = max(last for row in lasts for last in row)
        expected = ([needs(j, lasts)] for j in range(1, n_expected + 1))
        others = (needs(j, [[n_looks] * len(row) for row in tables]) for j in range(1, n_looks))
        chosen = lengths
        for stage in (*expected, upcoming(), others):  # each may cost a call
            start = chosen
            for rows in stage:
                longer = [np.max([own, *row], axis=0) for own, row in zip(chosen, rows, strict=True)]
                if _n_added(longer, start) > ahead.worth or _n_added(longer, lengths) > ahead.room:
                    break
                chosen = longer
        if chosen is lengths:
            return []
        return [draws.lists.extend(longer) for draws, longer in zip(self.explanations, chosen, strict=True)]


def _n_added(longer: list[Indices], lengths: list[Indices]) -> int:
    """How many masks lists of one length lack to be as long as others."""
    return sum(int((long - short).sum()) for long, short in zip(longer, lengths, strict=True))
