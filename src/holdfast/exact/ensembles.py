"""Sums of trees on one row → scores of masks straight from the trees, counts, and the nearest change.

Forests, boosted trees and additive models are all sums of trees over masks: an additive model has one tree per feature.
Masks are scored without building rows: the leaves of a tree are the bits of a word, each feature clears those that its
state rules out, and the one that is left is the leaf.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.agreement import Agreement, SameSide, SameTopClass
from holdfast.errors import InvalidValueError
from holdfast.exact.additive import count_additive, least_sums
from holdfast.exact.countable import Counts, Flips, NearestChange
from holdfast.exact.limits import Limit, SumScoring
from holdfast.exact.nearest import BreakSearch, BudgetSpentError, SearchBudget, Words, packed
from holdfast.exact.sums import Condition, Judge, SetCounts, SumTable, Units
from holdfast.exact.trees import Cube, Leaf, merged_cubes
from holdfast.types import Mask, MaskedModel, Masks, Outputs

MOST_TABLED = 22
"""Most features of which all sets of flips are listed; fewer where several classes are near."""

_TABLE_WORK = 1 << 27  # additions for a table that are worth it: about a second
_QUICK_TABLE = 1 << 22  # and that are faster than a search
_FAR_TOO_MUCH = 1 << 62
_FIRST_SEARCH = 30_000  # nodes searched before a large table is made
_MOST_NODES = 1_000_000
_SEARCH_WORK = 1 << 26  # words of leaves that a search looks at: about two seconds
_BYTE, _LONG_ROW = 8, 64
_CELLS = 1 << 16  # pairs of a mask and a word of leaves that are scored at a time


@dataclass(frozen=True, eq=False)
class MaskScorer:
    """Trees as a function of masks.

    ``tables`` (n_bytes, 256, n_words) hold the leaves left by each state of eight features; ``values``
    (n_words, 65, n_own) what the leaf at bit b adds, in column b + 1, to the ``n_own`` scores of its tree: all, or one,
    ``score_of``. Sums run over the trees in their order, in ``dtype``, as libraries add.
    """

    tables: Words
    values: NDArray[Any]
    score_of: NDArray[np.intp] | None
    base: NDArray[Any]
    base_last: bool

    @classmethod
    def of(
        cls,
        trees: Sequence[Sequence[Leaf]],
        values: NDArray[np.float64],
        n_features: int,
        *,
        base: NDArray[np.float64],
        base_last: bool = False,
        dtype: Any = np.float64,
    ) -> MaskScorer:
        """The scorer of trees whose leaves have values (n, n_scores)."""
        n_words = sum(-(-len(tree) // 64) for tree in trees)
        shown, hidden = (np.zeros((64 * n_words, n_features), dtype=bool) for _ in range(2))
        there, node_at = np.zeros(64 * n_words, dtype=bool), np.zeros(64 * n_words, dtype=np.intp)
        first, tree_of = 0, []
        n_bytes = -(-n_features // _BYTE)
        for number, tree in enumerate(trees):
            slots = slice(first, first + len(tree))
            for table, bits in ((shown, [leaf.shown for leaf in tree]), (hidden, [leaf.hidden for leaf in tree])):
                raw = np.frombuffer(b"".join(part.to_bytes(n_bytes, "little") for part in bits), dtype=np.uint8)
                table[slots] = np.unpackbits(raw.reshape(-1, n_bytes), axis=1, bitorder="little")[:, :n_features]
            there[slots], node_at[slots] = True, [leaf.node for leaf in tree]
            words = -(-len(tree) // 64)
            tree_of += [number] * words
            first += 64 * words
        alive, if_shown, if_hidden = packed(there), packed(~hidden), packed(~shown)
        tables = np.empty((n_bytes, 1 << _BYTE, n_words), dtype=np.uint64)
        for byte in range(n_bytes):
            rows = alive[None, :]
            for feature in range(_BYTE * byte, _BYTE * (byte + 1)):
                if feature < n_features:
                    rows = np.concatenate([rows & if_hidden[:, feature], rows & if_shown[:, feature]])
                else:
                    rows = np.concatenate([rows, rows])
            tables[byte] = rows
        own = np.where(there[:, None], values[node_at], 0.0).reshape(n_words, 64, -1)
        used = (own != 0).any(axis=1)  # (n_words, n_scores)
        score_of = None
        if own.shape[2] > 1 and (used.sum(axis=1) <= 1).all():
            score_of = used.argmax(axis=1)
            own = np.take_along_axis(own, score_of[:, None, None], axis=2)
        padded = np.concatenate([np.zeros((n_words, 1, own.shape[2])), own], axis=1).astype(dtype)
        return cls(tables, padded, score_of, base.astype(dtype), base_last)

    def raw(self, masks: Masks) -> NDArray[Any]:
        """Raw scores (b, n_scores) of masks (b, n_features), so many masks at a time that caches hold them."""
        size = max(_LONG_ROW, _CELLS // self.tables.shape[2])
        if len(masks) <= size:
            return self._raw(masks)
        return np.concatenate([self._raw(masks[start : start + size]) for start in range(0, len(masks), size)])

    def _raw(self, masks: Masks) -> NDArray[Any]:
        states = np.packbits(masks, axis=1, bitorder="little")
        words = self.tables[0].take(states[:, 0], axis=0)
        for byte in range(1, len(self.tables)):
            words &= self.tables[byte].take(states[:, byte], axis=0)
        bits = np.frexp(words.T.astype(np.float64))[1]  # (n_words, b): 0 for none, else the place of the leaf + 1
        bits += 65 * np.arange(len(bits), dtype=bits.dtype)[:, None]
        parts = self.values.reshape(-1, self.values.shape[2]).take(bits, axis=0)  # (n_words, b, n_own)
        start = np.zeros_like(self.base) if self.base_last else self.base
        if self.score_of is None:
            sums = _add_in_order(start, parts)
        else:
            columns = [_add_in_order(start[c : c + 1], parts[self.score_of == c]) for c in range(len(self.base))]
            sums = np.concatenate(columns, axis=1)
        return sums + self.base if self.base_last else sums


def _add_in_order(start: NDArray[Any], parts: NDArray[Any]) -> NDArray[Any]:
    """The start, plus parts[0], plus parts[1], and so on, in this order; the parts are used up."""
    if len(parts) == 0:
        return np.array(np.broadcast_to(start, parts.shape[1:]))
    parts[0] += start
    if parts[0].size >= _LONG_ROW:  # NumPy adds whole rows in order; along one short row it would add in pairs
        return np.asarray(np.add.reduce(parts.reshape(len(parts), -1), axis=0)).reshape(parts.shape[1:])
    for part in parts[1:]:
        parts[0] += part
    return np.asarray(parts[0])


def merged_trees(
    trees: Sequence[Sequence[Leaf]], values: NDArray[np.float64]
) -> tuple[list[list[Leaf]], NDArray[np.float64]]:
    """Fewer trees with the same sum: neighbours that add to one and the same score, as long as one word holds them.

    A leaf of two trees together is a leaf of each, if no feature must be both shown and hidden. Sums are the same but
    for rounding.
    """
    groups: dict[int, list[Sequence[Cube[float]]]] = {}
    for tree in trees:
        columns = np.flatnonzero((values[[leaf.node for leaf in tree]] != 0).any(axis=0))
        if len(columns) > 1:
            return [list(own) for own in trees], values
        score = int(columns[0]) if len(columns) else 0
        own = [(leaf.shown, leaf.hidden, float(values[leaf.node, score])) for leaf in tree]
        groups.setdefault(score, []).append(own)
    merged: list[list[Leaf]] = []
    rows: list[tuple[int, float]] = []
    for score, group in groups.items():
        for own in merged_cubes(group):
            merged.append([Leaf(shown, hidden, len(rows) + at) for at, (shown, hidden, _) in enumerate(own)])
            rows += [(score, value) for _, _, value in own]
    sums = np.zeros((len(rows), values.shape[1]))
    sums[np.arange(len(rows)), [score for score, _ in rows]] = [value for _, value in rows]
    return merged, sums


@dataclass(frozen=True, eq=False)
class TreeEnsemble:
    """A sum of trees on one row.

    Attributes
    ----------
    model : MaskedModel
        The model as its library computes it: asked where rounding decides.
    fills : sequence
        For each row of fill, the trees over masks: lists of leaves, whose nodes are rows of ``values``.
    values : float64 array (n, n_scores)
        What leaves add to raw scores.
    base : sequence of Fraction
        Where raw scores begin.
    scoring : SumScoring
        How raw scores become outputs; of several fills, the mean of the outputs.
    scorer : tuple of MaskScorer
        One for each fill.
    n_roundings : int
        Roundings on the way to a raw score besides one for each tree.
    straight : bool
        Whether masks are scored from the trees; by the model itself if not.
    own_units : Units or None
        The values in whole units, if they are not those of ``values``.
    """

    model: MaskedModel
    fills: Sequence[Sequence[Sequence[Leaf]]]
    values: NDArray[np.float64]
    base: Sequence[Fraction]
    scoring: SumScoring
    scorer: tuple[MaskScorer, ...]
    n_roundings: int = 0
    straight: bool = True
    own_units: Units | None = None

    @property
    def n_features(self) -> int:
        return self.model.n_features

    def __call__(self, masks: Masks, /) -> Outputs:
        """Outputs of masks (b, n_features)."""
        return self.scores(masks) if self.straight else np.asarray(self.model(masks))

    def scores(self, masks: Masks) -> Outputs:
        """Outputs of masks (b, n_features), straight from the trees."""
        return self.scoring.labels(self._class_scores(masks))

    def _class_scores(self, masks: Masks) -> NDArray[Any]:
        """Scores (b, k), also where outputs are labels."""
        outputs = [self.scoring.scores(scorer.raw(masks)) for scorer in self.scorer]
        if len(outputs) == 1:
            return outputs[0]
        first = outputs[0]
        return np.asarray(first + (np.stack(outputs, axis=1) - first[:, None]).mean(axis=1))

    @cached_property
    def _tolerance(self) -> tuple[float, float]:
        """How far scores from the trees can be from the model's: a number, and a share of the score."""
        relative = 32 * self.scoring.roundoff
        return relative + 2 * self.units.tolerance / (len(self.fills) * self.scoring.divisor), relative

    def is_alike(self, ours: Outputs, theirs: Outputs) -> bool:
        """Whether outputs from the trees are those of the model, but for rounding."""
        if ours.shape != theirs.shape:
            return False
        if theirs.ndim == 1:
            return bool((theirs == ours).all())
        absolute, relative = self._tolerance
        return bool((np.abs(ours - theirs) <= absolute + relative * np.abs(theirs)).all())

    def settles(self, agree: Agreement) -> bool:
        """Whether it can be told of single outputs from the trees that rounding does not change who agrees."""
        return self.straight and isinstance(agree, (SameTopClass, SameSide))

    def settled(self, masks: Masks, agree: Agreement) -> tuple[Outputs, Mask]:
        """Outputs of masks straight from the trees, and for which of them rounding cannot change who agrees.

        That is so if the lead of the top class, or the distance from the threshold, is more than rounding can take.
        """
        scores = self._class_scores(masks)
        absolute, relative = self._tolerance
        if isinstance(agree, SameSide):
            gaps = np.abs(agree.gaps(scores, scores[0]))
        else:
            best = np.partition(scores, -2, axis=1)
            gaps = best[:, -1] - best[:, -2]
        rounding = absolute + relative * np.abs(scores).max(axis=1)
        return self.scoring.labels(scores), np.asarray(gaps > 4 * rounding)  # two scores, and room

    @property
    def is_repeatable(self) -> bool:
        """Whether a mask gets the same output in any batch: trees are added one by one, and exact sums do not round.

        Matrix products round otherwise in another batch, so that what their rounding decides stays undecided.
        """
        return self.straight or (max(self.units.rounding) == 0 and self.units.error == 0)

    @property
    def is_sum(self) -> bool:
        """Whether outputs follow from one sum: the mean of probabilities behind a link is none of scores."""
        return len(self.fills) == 1 or self.scoring.link in ("identity", "signed")

    @cached_property
    def _trees(self) -> list[Sequence[Leaf]]:
        return [tree for trees in self.fills for tree in trees]

    @cached_property
    def units(self) -> Units:
        """The values of leaves in whole units."""
        if self.own_units is not None:
            return self.own_units
        n_fills = len(self.fills)
        # Means over fills are taken of differences from the first, which may be the largest by far.
        extra = self.n_roundings + (0 if n_fills == 1 else n_fills * (n_fills + 2) + 8)
        base = [part * n_fills for part in self.base]
        return Units.of(self.values, base, self._trees, roundoff=self.scoring.roundoff, extra_roundings=extra)

    @cached_property
    def _whole_scoring(self) -> SumScoring:
        """The scoring of the sum over all fills."""
        scoring, n_fills = self.scoring, len(self.fills)
        if n_fills == 1:
            return scoring
        return SumScoring(scoring.link, scoring.n_raw, scoring.divisor * n_fills, scoring.roundoff, scoring.classes)

    def _limits(self, agree: Agreement, reference: Any) -> list[Limit] | str:
        """The prediction as limits of sums, or in words why it cannot be put so."""
        if not self.is_sum:
            return "probabilities are averaged over background rows"
        return self._whole_scoring.limits(agree, reference)

    def reasons_against(self, agree: Agreement, reference: Any) -> str | None:
        """Why this agreement cannot be judged from sums; None if it can."""
        limits = self._limits(agree, reference)
        return limits if isinstance(limits, str) else None

    def _conditions(self, flips: Flips, agree: Agreement, reference: Any) -> list[Condition]:
        """The conditions that some mask might break."""
        limits = self._limits(agree, reference)
        if isinstance(limits, str):
            raise InvalidValueError(
                argument="agree", must="be decidable from sums of scores", got=agree.name, hint=f"Here {limits}."
            )
        key = (flips.shown, flips.pool_bits, tuple(limits))
        if key not in self._known_conditions:
            conditions = [self.units.condition(limit, self._trees, flips) for limit in limits]
            self._known_conditions[key] = [part for part in conditions if part.least < part.keep_from]
        return self._known_conditions[key]

    @cached_property
    def _known_conditions(self) -> dict[tuple[Any, ...], list[Condition]]:
        return {}

    def _judge(self, agree: Agreement, reference: Any) -> Judge:
        return lambda masks: agree(np.asarray(self.model(masks)), reference)

    def count(self, selected: Mask, neighborhood: str, agree: Agreement, reference: Any) -> Counts | None:
        """Counts at every distance: by a table of all sums of up to 22 features that matter, else if additive."""
        flips = Flips.of(selected, neighborhood)
        conditions = self._conditions(flips, agree, reference)
        sets: SetCounts | None = None
        if not conditions:
            zero = (0,) * len(flips.pools)
            sets = SetCounts({zero: 1}, {}, zero, "no sum reaches a limit")
        elif _table_work(conditions) <= _TABLE_WORK:
            table = SumTable.of(conditions, flips)
            if self.is_repeatable:
                table.settle(self._judge(agree, reference))
            sets = table.counts()
        elif all(condition.is_additive for condition in conditions):
            sets = count_additive(conditions, flips)
        if sets is None:
            return None
        agreed, undecided = (flips.spread(part, sets.used) for part in (sets.agreed, sets.undecided))
        return Counts(agreed, undecided, flips.sizes(), sets.method)

    def nearest_change(
        self,
        selected: Mask,
        neighborhood: str,
        agree: Agreement,
        reference: Any,
        *,
        max_radius: int | None = None,
        seconds: float | None = None,
        max_nodes: int | None = None,
    ) -> NearestChange:
        """The nearest mask that loses the prediction: by sorting, by a table, or by branch and bound.

        Once ``seconds`` or ``max_nodes`` (a million if neither is given, fewer of large ensembles) are used up, the
        answer is a bracket.
        """
        flips = Flips.of(selected, neighborhood)
        largest = flips.largest if max_radius is None else min(max_radius, flips.largest)
        judge = self._judge(agree, reference)
        if not judge(flips.selected[None])[0]:
            return NearestChange(-1, 0, flips.selected, largest, "the explanation itself")
        conditions = self._conditions(flips, agree, reference)
        budget = SearchBudget(seconds, _MOST_NODES if seconds is None and max_nodes is None else max_nodes)
        nearest = self._search(conditions, flips, judge, largest, budget)
        if nearest.proven or nearest.distance is not None or budget.n_nodes == 0:
            return nearest
        mask = self._some_change(flips, agree, reference, judge, largest)
        n_flipped = None if mask is None else int((mask != flips.selected).sum()) // len(flips.pools)
        return replace(nearest, distance=n_flipped, mask=mask)

    def cleared(
        self, selected: Mask, neighborhood: str, agree: Agreement, reference: Any, *, radius: int, max_nodes: int
    ) -> tuple[int, str]:
        """Up to which distance, at most ``radius``, nothing loses what the explanation keeps, and what proves it.

        The model is not asked: what rounding decides counts as lost.
        """
        flips = Flips.of(selected, neighborhood)
        conditions, largest = self._conditions(flips, agree, reference), min(radius, flips.largest)
        budget = SearchBudget(None, max_nodes)
        nearest = self._search(conditions, flips, lambda masks: np.zeros(len(masks), dtype=bool), largest, budget)
        return nearest.cleared, nearest.method

    def _search(
        self, conditions: list[Condition], flips: Flips, judge: Judge, largest: int, budget: SearchBudget
    ) -> NearestChange:
        """The nearest change by the quickest way that there is; a bracket without a mask once the budget is spent."""
        # Sums that no flip changes are as they are for the explanation, which keeps the prediction.
        conditions = [condition for condition in conditions if condition.trees]
        if not conditions:
            return NearestChange(largest, None, None, largest, "no sum reaches a limit")
        if all(condition.is_additive for condition in conditions):
            nearest = _nearest_additive(conditions, flips, judge if self.is_repeatable else None, largest)
            if nearest.proven or not self.is_repeatable:
                return nearest  # else sums are within rounding, and the model is to be asked about each
        work = _table_work(conditions)
        if work <= _QUICK_TABLE:
            return _nearest_in_table(conditions, flips, judge, largest)
        searches = [BreakSearch(condition, flips, judge) for condition in conditions]
        if budget.max_nodes is not None:
            n_words = max(len(search.words.values) for search in searches)
            budget.max_nodes = min(budget.max_nodes, _SEARCH_WORK // n_words)
        tabled = work <= _TABLE_WORK
        cleared = 0
        try:
            for distance in range(1, largest + 1):
                for search in searches:
                    mask = search.at(distance, budget)
                    if mask is not None:
                        return NearestChange(cleared, distance, mask, largest, "branch and bound", budget.n_nodes)
                cleared = distance
                if tabled and budget.n_nodes > _FIRST_SEARCH:
                    return _nearest_in_table(conditions, flips, judge, largest)
        except BudgetSpentError:
            return NearestChange(cleared, None, None, largest, "branch and bound", budget.n_nodes)
        return NearestChange(largest, None, None, largest, "branch and bound", budget.n_nodes)

    def _some_change(self, flips: Flips, agree: Agreement, reference: Any, judge: Judge, largest: int) -> Mask | None:
        """A mask that loses the prediction, by flipping what narrows the gap most, one feature of each pool a step."""
        mask = flips.selected.copy()
        for _ in range(largest):
            for pool in flips.pools:
                candidates = pool[mask[pool] == flips.selected[pool]]
                masks = np.repeat(mask[None], len(candidates), axis=0)
                masks[np.arange(len(candidates)), candidates] ^= True
                mask = masks[int(np.argmin(agree.gaps(self(masks), reference)))]
            if not agree(self(mask[None]), reference)[0] and not judge(mask[None])[0]:
                return mask
        return None


def _table_work(conditions: Sequence[Condition]) -> int:
    """Additions that a table of all sums takes; more than any limit if it is too large."""
    bits = 0
    for condition in conditions:
        bits |= condition.bits
    n = bits.bit_count()
    return (n + 1) * len(conditions) << n if n <= MOST_TABLED else _FAR_TOO_MUCH


def _nearest_in_table(conditions: Sequence[Condition], flips: Flips, judge: Judge, largest: int) -> NearestChange:
    table = SumTable.of(conditions, flips)
    table.settle(judge)
    lost, open_ = table.nearest(table.lost), table.nearest(~table.kept)
    cleared = largest if open_ is None else min(largest, open_[0] - 1)
    n_sets = len(table.kept)
    if lost is None or lost[0] > largest:
        return NearestChange(cleared, None, None, largest, "table of all sums", n_sets)
    mask = _fill_up(flips, table, lost)
    return NearestChange(cleared, lost[0], mask, largest, "table of all sums", n_sets)


def _fill_up(flips: Flips, table: SumTable, nearest: tuple[int, int]) -> Mask:
    """The mask of a set of flips, with flips of features that do not matter up to its distance."""
    distance, index = nearest
    mask = table.mask(index)
    for pool in flips.pools:
        spare = np.setdiff1d(pool, table.features)
        mask[spare[: distance - int((mask[pool] != flips.selected[pool]).sum())]] ^= True
    return mask


def _nearest_additive(
    conditions: Sequence[Condition], flips: Flips, judge: Judge | None, largest: int
) -> NearestChange:
    """The most adverse features first, for every condition; where rounding decides, a judge is asked, if any."""
    cleared, method = largest, "most adverse features first"
    runs = [least_sums(condition, flips) for condition in conditions]
    for distance in range(1, largest + 1):
        for condition, (sums, orders) in zip(conditions, runs, strict=True):
            if sums[distance] >= condition.keep_from:
                continue
            cleared = min(cleared, distance - 1)
            mask = flips.mask(sum(1 << feature for order in orders for feature in order[:distance]))
            is_lost = sums[distance] <= condition.lose_to if judge is None else not judge(mask[None])[0]
            if is_lost:
                return NearestChange(cleared, distance, mask, largest, method, distance)
    return NearestChange(cleared, None, None, largest, method, largest)
