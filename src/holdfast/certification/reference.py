"""An explanation and a model → the prediction that is to survive, who agrees with it, and counts of both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple, cast

import numpy as np

from holdfast.agreement import Agreement, as_reference, reference_output, same_top_class, says_in_words
from holdfast.bounds import Interval, check_counts
from holdfast.certification.question import ANSWERS, Procedure, Question
from holdfast.certification.serialization import Value
from holdfast.certification.structure import Structure
from holdfast.completions import nearby_rows, numbers_of, with_completions
from holdfast.distributions.distribution import as_neighborhood, check_distribution_name
from holdfast.distributions.own import MOST_LISTED, OWN, OwnDistribution
from holdfast.errors import InvalidValueError
from holdfast.evaluation import Evaluator, Tally
from holdfast.exact.countable import PROOFS, Counts, NearestChange
from holdfast.judging import JudgeErrors
from holdfast.neighborhood import NEIGHBORHOODS, Neighborhood, PoolFlips
from holdfast.plans import Design, Plan, cheapest_look, looks_left
from holdfast.terminal import Pictured
from holdfast.types import Mask, Masks, Outputs, Provenance
from holdfast.validation import check_class_name, check_mask, check_name, check_whole, shown
from holdfast.words import changes_of, class_name

NOTHING = Tally()
"""The tally before the first draw."""

MOST_READ = 10**7
"""Most masks of a result that can be read: each is a model call, so more would take weeks to repeat."""

_NODES_FOR_EXAMPLE = 20_000
"""Most parts of the space of masks that are searched only to show a change beside a count: a second at most."""

_DRAWN_AT_ONCE, _FEW_FEATURES = 72, 256
"""Of so few features, the number of masks drawn is rounded up to a multiple of this, shared among the lists drawn. The
default plan draws at most 71."""

_PORTION_BYTES = 1 << 26
"""Most memory for masks drawn at a time."""


@dataclass(frozen=True, eq=False, kw_only=True)
class PredictionClaim(Pictured, Value):
    """What every certificate restates of the explanation, its prediction and the draws.

    Attributes
    ----------
    prediction : int, str, bool or float
        On the selected features: class index, label, or the number of a single score. Under ``same_side`` the side,
        such as "at least 0.3"; under ``same_labels`` the labels, such as "0, 2", or "none". Where a ``reference`` was
        given, the prediction that it stands for.
    reference : str, int, bool, float, list or None
        What was given to agree with, in place of the model's prediction on the selected features; None if nothing was.
    answers : {"fixed", "random"}
        Whether the model gives a mask the same answer each time, or every draw asked it anew. If random, ``consistent``
        and ``counterexample`` are about single answers, and another one may differ.
    judge_errors : JudgeErrors or None
        What is known of the errors of the judge that says which answers agree; rates and intervals are those of the
        judge, ``by_people`` allows for its errors.
    prediction_name : str or None
        The same by the model's names of its classes; None if it does not say.
    selected : Boolean array (n_features,)
        The explanation.
    counterexample : Boolean array or None
        The nearest mask seen that changes the prediction, or None.
    n_calls : int
        Rows this certificate needs when nothing is known before, the explanation, the full input and
        repeated rows included. Of a smoothed model, rows that its votes did not know before.
    n_repeated : int
        Rows computed twice to see whether the model is deterministic; 0 if that is assumed.
    rng_key : int
        Give it back as ``rng`` to repeat the draws.
    provenance : Provenance
        The masking, model and input, as far as the masked model tells.
    n_completions : int or None
        If hidden features are drawn, how many completions there are; None if one fill hides them. Rates are then about
        pairs of a mask and a completion, and the prediction to be kept is that of the full input, unless a
        ``reference`` is given; ``consistent`` says whether the full input has it.
    completion : int or None
        The number of the completion with which ``counterexample`` changes the prediction.
    """

    prediction: Any
    prediction_name: str | None
    selected: Mask
    counterexample: Mask | None = None
    neighborhood: str
    agree: str
    n_calls: int
    n_repeated: int
    rng_key: int
    provenance: Provenance
    reference: Any = None
    answers: str = "fixed"
    judge_errors: JudgeErrors | None = None
    n_completions: int | None = None
    completion: int | None = None

    def check(self) -> None:
        """Raise if the fields contradict each other."""
        check_mask(self.selected, "selected")
        check_distribution_name(self.neighborhood)
        check_prediction(self.prediction, self.prediction_name, self.agree)
        as_reference(self.reference)
        check_name(self.answers, "answers", ANSWERS)
        check_completion(self.n_completions, self.completion, self.counterexample)
        if self.n_completions is not None and self.answers == "random":
            raise InvalidValueError(argument="answers", must="be 'fixed' where completions are drawn")
        for name in ("n_calls", "n_repeated"):
            check_whole(getattr(self, name), name)

    def nearby(self, radius: int) -> Neighborhood | None:
        """The masks within a radius of the explanation; None if an object of the user's drew them."""
        if self.neighborhood.startswith(OWN):
            return None
        return nearby_rows(as_neighborhood(self.neighborhood)(self.selected, radius), self.n_completions)

    def reach(self, radius: int) -> int:
        """The radius, or the largest distance there is if that is smaller; of the user's own masks, all features."""
        nearby = self.nearby(radius)
        return len(self.selected) if nearby is None else nearby.effective_radius

    def changes(self, radius: int | str, rate_kind: str = "uniform") -> list[str]:
        """What is changed, in words of two lengths, up to a radius if that is a limit."""
        is_limit = self.neighborhood in NEIGHBORHOODS or rate_kind == "exactly" or isinstance(radius, str)
        is_limit = is_limit or int(radius) < self.reach(len(self.selected))
        return changes_of(self, rate_kind, radius if is_limit else None)

    def by_people(self, interval: Interval, confidence: float) -> tuple[Interval, float]:
        """An interval of the judge's rate, widened by what its errors may be, and with which confidence it holds."""
        if self.judge_errors is None:
            return interval, confidence
        risk = 2 - Fraction(str(confidence)) - Fraction(str(self.judge_errors.confidence))
        return self.judge_errors.widen(interval), max(0.0, float(1 - risk))


class Drawn(NamedTuple):
    """Masks that were drawn before a plan begins: the first ``n_sent`` were sent to the model, with these outputs."""

    masks: Any = ()
    n_sent: int = 0
    outputs: Any = ()


NOTHING_DRAWN = Drawn()


class Reference:
    """What the model says of ``selected``, or what was given, who agrees with it, and the nearest mask that does not.

    ``consistent`` says whether the full input has the prediction of ``selected``; of a reference that was given,
    whether ``selected`` alone has it. ``last_changes`` are the masks of the last batch with a change that have one.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        selected: Mask,
        procedure: Procedure,
        *,
        outputs: Outputs | None = None,
        calls_before: int | None = None,
    ) -> None:
        self._evaluator, self._agree, self.selected = evaluator, procedure.question.agree, selected
        self._calls_before = evaluator.n_calls if calls_before is None else calls_before
        self._repeated_before = evaluator.n_repeated
        self.counterexample: Mask | None = None
        self.completion: int | None = None
        self.last_changes: Masks = selected[None][:0]
        self._cleared = (-1, -1, "")  # the radius that was asked about, what is cleared of it, and by what
        rows, self._given = reference_masks(selected, procedure.question.n_completions), procedure.question.reference
        outputs = evaluator(rows) if outputs is None else outputs
        self._output = outputs[0]
        if not self._agree(outputs, self._output)[0]:
            must = "hold between an output and itself"
            raise InvalidValueError(argument="agree", must=f"{must}; {self._agree.name} does not")
        if self._given is not None:
            given = evaluator.label_of(self._given)
            self._output = reference_output(given, outputs, self._agree, evaluator.classes)
        self._alone_agrees, self._full_agrees = self._agree(outputs, self._output).tolist()
        self.consistent = self._full_agrees if self._given is None else self._alone_agrees
        self.prediction, self.prediction_name = prediction_of(self._output, self._agree, evaluator.classes)
        self._decides = decides_early(evaluator, self._agree)
        self._rings, self._structure = procedure.question.neighborhood.rings, procedure.structure
        # An object of the user's may list nothing: then it is known to draw the full input once that was judged.
        self._is_own, self._drew_full = isinstance(procedure.question.neighborhood, OwnDistribution), False
        if procedure.check_determinism:
            evaluator.check_determinism(rows[0], outputs[0])
        if self._structure is not None:
            self._structure.score_masks(self._agree)

    def judge(self, masks: Masks, outputs: Outputs | None = None) -> Mask:
        """Which masks (b, n_features) keep the prediction, Boolean (b,); their outputs may be known."""
        if self._decides:
            agreed = self._evaluator.keeps_top_class(masks, self.prediction)
        else:
            agreed = self._agree(self._evaluator(masks) if outputs is None else outputs, self._output)
        if not agreed.all():
            n, nearest = len(self.selected), self.counterexample
            changing = masks[~agreed]
            self.last_changes = changing[:, :n]
            if self._is_own:
                self._drew_full |= bool(self.last_changes.all(axis=1).any())
            distance = (self.last_changes != self.selected).sum(axis=1)
            if nearest is None or distance.min() < np.count_nonzero(nearest != self.selected):
                row = changing[distance.argmin()]
                self.counterexample, self.completion = row[:n].copy(), int(numbers_of(row[None], n)[0])
                self.counterexample.setflags(write=False)
        return agreed

    def count(
        self,
        batches: Iterable[Masks],
        *,
        after: Tally = NOTHING,
        until_changed: bool = False,
        on_count: Callable[[Tally], None] | None = None,
    ) -> Tally:
        """Tally the agreements after those known, if asked only up to the batch where the first change is seen."""
        tally = after
        if on_count is not None:  # whoever watches sees each batch that the model takes counted
            size = self._evaluator.batch_size
            batches = (masks[start : start + size] for masks in batches for start in range(0, len(masks), size))
        for masks in batches:
            tally += Tally(int(np.count_nonzero(self.judge(masks))), len(masks))
            if on_count is not None:
                on_count(tally)
            if until_changed and self.counterexample is not None:
                break
        return tally

    def sampled(
        self,
        nearby: Neighborhood,
        plan: Plan,
        rng: np.random.Generator,
        *,
        drawn: Drawn = NOTHING_DRAWN,
        on_count: Callable[[Tally], None] | None = None,
    ) -> Outcome:
        """The outcome of a plan: draws from look to look, until it stops. Those ``drawn`` before are the first.

        Where a call takes long, masks of later looks are computed in the same call, if that takes less on average.
        """
        design, most, tally, (masks, n_sent, outputs) = plan.design, most_drawn(nearby), NOTHING, drawn
        while not tally.n_evaluated or not design.stops(tally.n_evaluated, tally.n_agreed):
            looks = looks_left(design.looks, design.stops, tally.n_evaluated, tally.n_agreed)
            n = looks[0] - tally.n_evaluated
            if n <= most:
                masks = drawn_to(n, masks, nearby, rng)
            if n_sent < n <= most:  # nothing is computed ahead of more
                n_sent = n + n_ahead(self._evaluator, masks[:n], design, looks, after=tally, most=most - n)
                if n_sent > n:
                    masks = drawn_to(n_sent, masks, nearby, rng)
                    self._evaluator.compute_ahead(masks[:n_sent])
            if len(outputs) == n and on_count is None:
                tally = Tally(int(np.count_nonzero(self.judge(masks[:n], outputs))), n)
            else:
                batches = chain([masks[:n]] if len(masks) else [], portions(nearby, n - len(masks), rng))
                tally = self.count(batches, after=tally, on_count=on_count)
            masks, n_sent, outputs = masks[n:], max(0, n_sent - n), ()
        return Outcome(tally, plan)

    def enumerated(
        self, nearby: Neighborhood, batch: int, *, on_count: Callable[[Tally], None] | None = None
    ) -> Outcome:
        """The exact outcome, from evaluating every mask; each counts by its probability."""
        if nearby.is_uniform:
            return Outcome(self.count(nearby.enumerate(batch), on_count=on_count), None)
        tally, kept, total = NOTHING, Fraction(0), Fraction(0)
        for masks in nearby.enumerate(self._evaluator.batch_size if on_count else batch):
            agreed, masses = self.judge(masks), nearby.masses(masks)
            kept += sum(mass for mass, agrees in zip(masses, agreed.tolist(), strict=True) if agrees)
            total += sum(masses)
            tally += Tally(int(agreed.sum()), len(masks))
            if on_count is not None:
                on_count(tally)
        return Outcome(tally, None, weighted_rate=kept / total)

    def lists(self, nearby: Neighborhood) -> bool:
        """Whether there are so few masks that evaluating all is cheaper than checking what is known of the model."""
        return self._structure is not None and not nearby.is_larger_than(self._structure.n_checked)

    def counted(self, nearby: Neighborhood) -> Outcome | None:
        """The exact outcome, if the structure of the model tells it; then no mask need be drawn."""
        structure, rings, counts = self._structure, self._rings, self._counts
        if structure is None or rings is None or nearby.rings is None:
            return None
        agreed, undecided, size = (
            (0, 1, 1) if counts is None else counts.tally(nearby.effective_radius, nearby.smallest)
        )
        if counts is None or undecided:
            proof = self._proof_of_stability(structure, rings, nearby.effective_radius) if self._alone_agrees else None
            if proof is None:
                return None
            rate = None if nearby.is_uniform else Fraction(1)
            return Outcome(Tally(nearby.size, nearby.size), None, proof=proof, weighted_rate=rate)
        # What counts as known must be what the model itself says, on a few masks and on the change that is shown.
        is_known = structure.is_faithful(self.selected, rings)
        if not is_known or (agreed < size and not self._shows_change):
            return None
        rate = None if nearby.is_uniform else counts.weighted_rate(nearby.effective_radius, nearby.odds)
        return Outcome(Tally(agreed, size), None, proof=counts.method, weighted_rate=rate)

    def _proof_of_stability(self, structure: Structure, rings: str, radius: int) -> str | None:
        """What proves that no mask within a radius loses the prediction; None if nothing does."""
        asked, cleared, proof = self._cleared
        if asked < radius and cleared == asked:  # else the search stopped before
            cleared, proof = structure.clears(self.selected, rings, self._agree, self._output, radius=radius)
            self._cleared = radius, cleared, proof
        is_known = radius <= cleared and structure.is_faithful(self.selected, rings)
        return proof if is_known else None

    def nearest_change(self, **limits: int) -> NearestChange | None:
        """How near the nearest change is, if the structure of the model tells something of it."""
        if self._structure is None or self._rings is None:
            return None
        nearest = self._structure.nearest_change(self.selected, self._rings, self._agree, self._output, **limits)
        if nearest is not None and nearest.mask is not None:
            self.judge(nearest.mask[None])
        return nearest

    @cached_property
    def _counts(self) -> Counts | None:
        """What the structure of the model tells of the masks at every distance."""
        if self._structure is None or self._rings is None:
            return None
        return self._structure.counts(self.selected, self._rings, self._agree, self._output)

    @cached_property
    def _shows_change(self) -> bool:
        """Whether the model itself changes its prediction where its structure says so; what is seen is remembered."""
        if not self._alone_agrees:
            return not self.judge(self.selected[None])[0]
        return self.nearest_change(max_nodes=_NODES_FOR_EXAMPLE) is not None

    def claim(self, procedure: Procedure, nearby: Neighborhood, *, n_calls: int | None = None) -> dict[str, Any]:
        """The fields that every certificate has; the evaluation ends where its rows are not counted elsewhere."""
        if n_calls is None:
            self._evaluator.settle()
        changing, completion = self.counterexample_in(nearby), None
        if changing is not None and procedure.question.n_completions is not None:
            completion = self.completion if changing is self.counterexample else 0
        return {
            "prediction": self.prediction,
            "prediction_name": self.prediction_name,
            "selected": self.selected,
            "counterexample": changing,
            "neighborhood": procedure.question.neighborhood.name,
            "agree": procedure.question.agree.name,
            "n_calls": self._evaluator.n_calls - self._calls_before if n_calls is None else n_calls,
            "n_repeated": self._evaluator.n_repeated - (self._repeated_before if n_calls is None else 0),
            "rng_key": procedure.key,
            "provenance": self._evaluator.provenance,
            "reference": self._given,
            "answers": procedure.question.answers,
            "judge_errors": getattr(self._agree, "errors", None),
            "n_completions": procedure.question.n_completions,
            "completion": completion,
        }

    def counterexample_in(self, nearby: Neighborhood) -> Mask | None:
        """The nearest mask known to change the prediction, if it lies in the neighbourhood."""
        full = np.ones_like(self.selected)
        full.setflags(write=False)
        for changing in (self.counterexample, None if self._full_agrees else full):
            if changing is not None and (nearby.contains(changing) or (self._drew_full and changing.all())):
                return changing
        return None


@dataclass(frozen=True)
class Outcome:
    """A tally and the plan it was drawn by; no plan means that every mask was evaluated, or counted by a ``proof``.

    Of the worst of several sizes no unbiased estimate is known, unless all were evaluated. Where masks that were
    evaluated or counted are not equally likely, ``weighted_rate`` is the probability of those that agree.
    """

    tally: Tally
    plan: Plan | None
    is_worst: bool = False
    proof: str | None = None
    weighted_rate: Fraction | None = None

    @property
    def rate(self) -> Fraction:
        if self.weighted_rate is not None:
            return self.weighted_rate
        return Fraction(self.tally.n_agreed, self.tally.n_evaluated)

    @property
    def rate_unbiased(self) -> float | None:
        if self.plan is None:
            return float(self.rate)
        return None if self.is_worst else self.plan.design.unbiased_rate(self.tally.n_evaluated, self.tally.n_agreed)


def prediction_of(output: Any, agree: Agreement, classes: Sequence[str] | None = None) -> tuple[Any, str | None]:
    """What an output predicts under an agreement, and the same by the names of classes, if they are known.

    Where the agreement has no words of its own, it is the class index of scores, the label of a label-only model, or
    the value of a single score.
    """
    words = agree.describe(output)
    if words is not None:
        has_names = (
            classes is not None and len(classes) == len(output) and list(classes) != [*map(str, range(len(output)))]
        )
        return words, agree.describe(output, classes) if has_names else None
    if not isinstance(output, np.ndarray):
        return output, None
    prediction = int(output.argmax()) if len(output) > 1 else float(output[0])
    return prediction, class_name(prediction, classes)


def check_prediction(prediction: Any, name: str | None, agree: str, argument: str = "prediction_name") -> None:
    """Raise unless the prediction, if there is one, is of the kind that the agreement makes, and the name fits it."""
    in_words = says_in_words(agree)
    check_class_name(prediction, name, argument, in_words=in_words)
    if in_words and not isinstance(prediction, str | None):
        raise InvalidValueError(argument="prediction", must=f"be in words for {agree}", got=shown(prediction))


def check_completion(n_completions: int | None, completion: int | None, mask: Mask | None) -> None:
    """Raise unless a completion is named exactly where a mask is and completions are drawn, and is one of them."""
    if n_completions is not None:
        check_whole(n_completions, "n_completions", minimum=1)
    if (completion is not None) != (mask is not None and n_completions is not None):
        raise InvalidValueError(argument="completion", must="be known exactly if a mask with it is", got=completion)
    if completion is not None and not 0 <= completion < (n_completions or 0):
        raise InvalidValueError(argument="completion", must=f"be from 0 to below {n_completions}", got=completion)


def check_proof(counts: Any, proof: str | None) -> tuple[int, int]:
    """Counts that make sense: as many as can be evaluated, or, of a proof that is known, as many as there are."""
    if proof is None:
        return check_counts(counts.n_agreed, counts.n_evaluated)
    check_name(proof, "proof", PROOFS)
    return check_counts(counts.n_agreed, counts.n_evaluated, most=None)


def possible_rates(nearby: Neighborhood | None, counts: Any) -> tuple[Fraction, Fraction] | None:
    """The least and the most that a rate can be, where so many of all masks agreed; None if these are not all masks.

    They are one number if all masks are equally likely. Of masks of the user's own nothing is known but their number.
    """
    n_agreed, n_masks = counts.n_agreed, counts.n_evaluated
    if nearby is not None and (nearby.is_larger_than(n_masks) or nearby.size != n_masks):
        return None
    if nearby is None or (nearby.rings is None and not nearby.is_uniform and n_masks > MOST_LISTED):
        return Fraction(n_agreed == n_masks), Fraction(n_agreed > 0)
    groups = [(Fraction(1), n_masks)] if nearby.is_uniform else nearby.mass_counts()
    total, ends = sum(mass * n for mass, n in groups), []
    for ordered in (sorted(groups), sorted(groups, reverse=True)):
        left, part = n_agreed, Fraction(0)
        for mass, n in ordered:
            part += mass * min(n, left)
            left -= min(n, left)
        ends.append(part / total)
    return ends[0], ends[1]


def decides_early(evaluator: Evaluator, agree: Agreement) -> bool:
    """Whether the model can tell who agrees without computing its scores in full."""
    return agree is same_top_class and evaluator.deciding is not None


def asks_together(evaluator: Evaluator, question: Question) -> bool:
    """Whether masks of several explanations may go to the model at once, to be judged from memory.

    A model that decides early is asked by each explanation for its own; random answers are not remembered.
    """
    return question.answers == "fixed" and not decides_early(evaluator, question.agree)


def reference_masks(selected: Mask, n_completions: int | None = None) -> Masks:
    """The explanation and the full input; where what is hidden is drawn, the explanation predicts nothing by itself."""
    full = np.ones(len(selected), dtype=bool)
    if n_completions is None:
        return np.array([selected, full])
    return with_completions(np.stack([full, full]), 0, n_completions)


def worst_of(outcomes: list[Outcome]) -> Outcome:
    """The smallest rate; among equal ones the one with most draws."""
    worst = min(outcomes, key=lambda outcome: (outcome.rate, -outcome.tally.n_evaluated))
    plan = next((outcome.plan for outcome in outcomes if outcome.plan), None)
    proof = None if plan else next((outcome.proof for outcome in outcomes if outcome.proof), None)
    return Outcome(worst.tally, plan, is_worst=True, proof=proof, weighted_rate=worst.weighted_rate)


def most_drawn(nearby: Neighborhood) -> int:
    """How many masks fit into the memory that they may take at a time."""
    return max(1, _PORTION_BYTES // len(nearby.selected))


def drawn_to(n: int, drawn: Masks | None, nearby: Neighborhood, rng: np.random.Generator) -> Masks:
    """Masks that were drawn, and more if they are fewer than n: some to spare where that costs next to nothing."""
    return draw_all({0: (nearby, rng, drawn, n)})[0] if drawn is None or n > len(drawn) else drawn


def draw_all(lists: Mapping[int, tuple[Neighborhood, np.random.Generator, Masks | None, int]]) -> dict[int, Masks]:
    """Lists of masks, each with more drawn by its own generator until it has at least so many.

    All are from one distribution around one explanation, at several radii or distances. Masks of few features are made
    all at once, if they are few, and some to spare: their draws do not depend on how they are cut.
    """
    n_missing, words, distances = {}, [], []
    for k, (nearby, _, drawn, n) in lists.items():
        is_cheap = isinstance(nearby, PoolFlips) and len(nearby.selected) <= _FEW_FEATURES
        at_once = -(-_DRAWN_AT_ONCE // len(lists)) if is_cheap else 1
        n_missing[k] = -(-(n if drawn is None else n - len(drawn)) // at_once) * at_once
    some = next((nearby for nearby, *_ in lists.values()), None)
    if len(lists) > 1 and isinstance(some, PoolFlips) and sum(n_missing.values()) <= some.n_at_once:
        for k, (nearby, rng, _, _) in lists.items():
            words.append(some.draw_words(n_missing[k], rng))
            distances.append(cast(PoolFlips, nearby).distances(words[-1][:, 0]))
        masks = some.flipped(np.concatenate(words), np.concatenate(distances))
        more = dict(zip(lists, np.split(masks, np.cumsum(list(n_missing.values()))[:-1]), strict=True))
    else:
        more = {k: nearby.sample(n_missing[k], rng) for k, (nearby, rng, _, _) in lists.items()}
    known = {k: drawn for k, (_, _, drawn, _) in lists.items() if drawn is not None and len(drawn)}
    return {k: np.concatenate([known[k], masks]) if k in known else masks for k, masks in more.items()}


def n_ahead(
    evaluator: Evaluator, masks: Masks, design: Design, looks: Sequence[int], *, after: Tally = NOTHING, most: int
) -> int:
    """How many draws beyond the next of these looks the call for its masks should take along, ``most`` at most."""
    ahead = evaluator.ahead(masks)
    if ahead is None:
        return 0
    best = cheapest_look(design, after.n_evaluated, after.n_agreed, ahead.worth)
    last = max(looks[0], min(best, looks[0] + min(ahead.room, most)))
    return max(look for look in looks if look <= last) - looks[0]


def portions(nearby: Neighborhood, n: int, rng: np.random.Generator) -> Iterator[Masks]:
    """Draw in portions that fit into memory; how they are cut does not change them."""
    most = most_drawn(nearby)
    for start in range(0, n, most):
        yield nearby.sample(min(most, n - start), rng)
