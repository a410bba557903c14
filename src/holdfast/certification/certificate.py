"""A masked model, an explanation and a radius → a certificate (Theorem 1 of the paper, with fewer calls)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Unpack

import numpy as np

from holdfast.bounds import Interval, anytime_interval, hoeffding_draws
from holdfast.certification.question import Procedure, RateKeywords, asks, radii_asked
from holdfast.certification.reference import (
    MOST_READ,
    NOTHING_DRAWN,
    Drawn,
    Outcome,
    PredictionClaim,
    Reference,
    asks_together,
    check_proof,
    drawn_to,
    most_drawn,
    n_ahead,
    possible_rates,
    reference_masks,
    worst_of,
)
from holdfast.distributions.distribution import UNEQUAL
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.evaluation import Evaluator
from holdfast.neighborhood import NEIGHBORHOODS, Neighborhood
from holdfast.plans import PLANS, RATE_KINDS, WORST, Plan, most_rows, parts_of
from holdfast.plans.design import Design
from holdfast.types import MaskedModel, Outputs
from holdfast.validation import check_mask, check_name, check_share, check_size, check_whole, is_number, shown
from holdfast.words import (
    FIXED_BEFORE,
    NO_PROOF,
    but_unlike,
    by_judge,
    exact_share,
    fitted,
    keeps,
    outward,
    paragraph,
    percent,
    proof_label,
    share_of,
    shares,
    sure,
    terms,
)

DRAWS = ("single", "pooled", "paired")
"""Whom the draws were made for: one radius alone, a curve, or a comparison. They name the random stream."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Certificate(PredictionClaim, schema="holdfast.certificate"):
    """How often a prediction survives random changes to its explanation, with a guarantee.

    Before drawing, the probability that the whole procedure (stopping included) ends with
    |rate - true rate| ≤ tolerance was at least ``confidence`` (for ``rate_kind="worst_size_lower"``, with
    rate - true rate ≤ tolerance). It is about random masks near this
    explanation, of this model, input and masking. It is not a proof that no mask changes the
    prediction, does not say that the prediction is right, and is void if the seed or the settings
    were chosen after seeing results.

    Attributes
    ----------
    rate : float
        n_agreed / n_evaluated; of all masks, where they are not equally likely, the probability of those that agreed.
    rate_unbiased : float or None
        An exactly unbiased estimate, for averages over many inputs (a stopped rate leans
        towards its stopping boundary); None for the worst of several sizes, where none is known.
    interval : Interval
        Where the true rate lies at this confidence; a point if ``exact``.
    n_agreed, n_evaluated : int
        Draws that agreed, draws counted (repeats count each time); of a ``proof``, all masks, however many.
    exact : bool
        Every mask of the neighbourhood was evaluated, or counted by a ``proof``; nothing was drawn.
    proof : str or None
        What counted every mask from inside the model, such as "paths of a tree"; None if masks were evaluated.
    consistent : bool
        Whether the full input gets the same prediction. An explanation can be stably wrong.
    radius, effective_radius : int
        As asked; and clamped to the number of features that can change. Without a limit, all of them.
    design : Design or None
        When the plan looked and stopped; None if every mask was evaluated.
    draws : str
        "single" for draws made for this radius alone, "pooled" for draws shared by a curve,
        "paired" for draws shared by a comparison.
    prediction, prediction_name, selected, counterexample, n_calls, n_repeated, rng_key, provenance
        See ``PredictionClaim``.
    """

    rate: float
    rate_unbiased: float | None
    interval: Interval
    n_agreed: int
    n_evaluated: int
    exact: bool
    radius: int
    effective_radius: int
    tolerance: float
    confidence: float
    plan: str
    design: Design | None
    consistent: bool
    rate_kind: str
    draws: str
    proof: str | None = None

    def check(self) -> None:
        """Raise if the fields contradict each other."""
        super().check()
        n_agreed, n_evaluated = check_proof(self, self.proof)
        check_share(self.tolerance, "tolerance")
        check_share(self.confidence, "confidence")
        check_name(self.rate_kind, "rate_kind", RATE_KINDS)
        check_name(self.plan, "plan", PLANS)
        check_name(self.draws, "draws", DRAWS)
        nearby = self.nearby(self.radius)
        if self.effective_radius != self.reach(self.radius) or self.exact != (self.design is None):
            raise InvalidValueError("and `exact` must follow from the question.", argument="effective_radius")
        if self.exact and self.answers == "random":
            raise InvalidValueError(argument="exact", must="be false for random answers, which no list of masks proves")
        if self.design is not None:
            check_size(self.design.max_draws, "design.looks", most=MOST_READ)
            fewest = hoeffding_draws(Fraction(str(self.tolerance)), Fraction(str(self.confidence)))
            if self.plan == "hoeffding" and self.design.max_draws < fewest:
                raise InvalidValueError(argument="design", must=f"draw {fewest} times for plan 'hoeffding'")
            alone = self.draws == "single" and self.rate_kind not in WORST
            if alone and not (n_evaluated in self.design.looks and self.design.stops(n_evaluated, n_agreed)):
                raise InvalidValueError(argument="design", must=f"stop at {n_agreed} of {n_evaluated}")
        is_listed = self.exact and self.n_completions is not None and nearby is not None
        if self.proof is not None or is_listed:
            parts = [] if nearby is None else parts_of(nearby, self.rate_kind)
            if not self.exact or n_evaluated not in [part.size for part in parts]:
                raise InvalidValueError(argument="n_evaluated", must="be all masks for a proof", got=n_evaluated)
        slack = Fraction(0 if self.exact else str(self.tolerance))
        own, rate = interval_around(n_agreed, n_evaluated, slack, self.rate_kind), n_agreed / n_evaluated
        if self.exact and self.neighborhood.startswith(UNEQUAL):
            # Which masks agreed is not told: the rate is one that so many of them can have.
            listed = [nearby] if nearby is None else parts_of(nearby, self.rate_kind)
            ends = [float(end) for part in listed for end in possible_rates(part, self) or ()]
            if not ends:
                raise InvalidValueError(argument="n_evaluated", must="be all masks", got=n_evaluated)
            rate = min(max(self.rate, min(ends)), max(ends))
            own = Interval(rate, rate)
        inside = own.low <= self.interval.low <= self.interval.high <= own.high
        if self.rate != rate or not inside or (self.draws == "single" and self.interval != own):
            raise InvalidValueError(f"and `interval` must follow from {n_agreed} of {n_evaluated}.", argument="rate")
        unbiased: float | None = self.rate
        if self.design is not None:
            is_worst = self.rate_kind in WORST
            unbiased = None if is_worst else self.design.unbiased_rate(n_evaluated, n_agreed)
        stated = self.rate_unbiased
        if (stated is None) != (unbiased is None) or abs((stated or 0) - (unbiased or 0)) > 1e-9:
            raise InvalidValueError(argument="rate_unbiased", must=f"follow from {n_agreed} of {n_evaluated}")
        changing = self.counterexample
        if changing is not None and not (nearby is None or nearby.contains(check_mask(changing, "counterexample"))):
            raise InvalidValueError(argument="counterexample", must="lie within the radius")
        if changing is not None and self.exact and n_agreed == n_evaluated:
            raise InvalidValueError(argument="counterexample", must="be none where every mask agrees")

    def holds(self, rate: float) -> bool:
        """Whether the certificate shows that the true rate is at least ``rate``.

        False means "not shown", not "shown to be false". To ask about one rate from the start, a
        one-sided test is cheaper than this two-sided certificate.
        """
        if not is_number(rate):
            raise InvalidTypeError(argument="rate", must="be a number from 0 to 1", got=shown(rate))
        asked = Fraction(int(rate)) if rate in (0, 1) else check_share(rate, "rate")
        if self.exact and self.judge_errors is None and not self.neighborhood.startswith(UNEQUAL):
            return Fraction(self.n_agreed, self.n_evaluated) >= asked  # of huge counts floats are rounded to 1
        return Fraction(repr(self.true_interval.low)) >= asked

    @property
    def true_interval(self) -> Interval:
        """Where the rate lies by the judgement of people: the interval, widened by what the judge's errors may be."""
        return self.by_people(self.interval, 1.0 if self.exact else self.confidence)[0]

    @property
    def true_confidence(self) -> float:
        """With which confidence ``true_interval`` holds: the risks of draws and of the judge, added up."""
        return self.by_people(self.interval, 1.0 if self.exact else self.confidence)[1]

    def interval_if_picked(self, n_certificates: int) -> Interval:
        """Where the true rate lies if this certificate was picked for its result, from so many.

        ``interval`` is not about a certificate that is picked because it is the lowest or the highest: of many, that
        is the one that missed. This one holds for all at once with probability at least ``confidence``, so for
        whichever is picked. A point if ``exact``; not known for the worst of several sizes.
        """
        n = check_whole(n_certificates, "n_certificates", minimum=1)
        if self.exact:
            return self.interval
        if self.rate_kind in WORST:  # another size than the one whose counts are here may be the worst
            raise InvalidValueError(argument="rate_kind", must="be that of one rate", got=shown(self.rate_kind))
        return anytime_interval(
            self.n_agreed, self.n_evaluated, confidence=1 - (1 - Fraction(str(self.confidence))) / n
        )

    @property
    def stability(self) -> tuple[str, str]:
        """How often the prediction is kept, and how that is known: 'exactly 62.5% of cases' and 'proven'."""
        worst = " at worst" if self.rate_kind in WORST else ""
        if self.exact and self.judge_errors is None:
            share = exact_share(known_rate(self)).removeprefix("" if self.n_repeated or self.proof else "exactly ")
            return share + worst, "proven" if self.proof else ""
        share = shares(self.true_interval)
        if self.rate_kind == "worst_size_lower":
            share = f"at least {percent(outward(self.true_interval).low)}"
        judged = "" if self.judge_errors is None else ", judge's errors included"
        return f"{share} of cases{worst}", f"{sure(self.true_confidence)} confidence{judged}"

    def __str__(self) -> str:
        counts, (share, known) = share_of(self.n_agreed, self.n_evaluated), self.stability
        evidence = [f" in {counts} random draws", f" in {counts} draws", ""]
        if self.answers == "random":
            evidence = [f" in {counts} random answers", " in random answers"]
        elif self.exact and self.neighborhood.startswith(UNEQUAL):  # masks are no cases
            evidence = [", all masks weighed by probability", ""]
        elif self.exact:
            counted = ", counted, not drawn" if self.proof is None else ""
            evidence = [f" in {counts} masks{counted}", counted, ""]
        known = known and f" ({known})"
        none = ", with nothing selected," if self.n_completions is None and not self.selected.any() else ""
        return fitted(
            "Stable in {share}: {change} {keeps}{evidence}{but}.",
            change=[change + none for change in self.changes(self.effective_radius, self.rate_kind)],
            share=[share + known, share.replace(" of cases", "") + known],
            but=but_unlike(self),
            keeps=keeps("keeps" if self.exact else "kept", self),
            evidence=evidence,
        )

    def explain(self) -> str:
        """What was asked, what is guaranteed and what is not, in plain words."""
        counts = share_of(self.n_agreed, self.n_evaluated)
        said = [f"How often does {self.changes(self.effective_radius, self.rate_kind)[0]} {keeps('keep', self)[0]}?"]
        if self.exact:
            how = "evaluated" if self.proof is None else f"counted from inside the model, by {proof_label(self.proof)}"
            each = "" if self.n_completions is None else " with every fill"
            said.append(f"Every mask was {how}{each}, and {counts} keep it: nothing was left to chance.")
            if self.neighborhood.startswith(UNEQUAL):
                said.append("Masks count by their probability.")
        else:
            said.append(f"{counts} random masks kept it.")
            what = "the interval contains the true rate"
            if self.rate_kind == "worst_size_lower":
                what = "the true rate is not below the lower end"
            said.append(f"Over these draws, {what} with probability at least {sure(self.confidence)}.")
            said += [FIXED_BEFORE, NO_PROOF]
        if self.rate_kind in WORST:
            said.append("It is the rate at the worst size.")
        said.append(by_judge(self, self.interval, 1.0 if self.exact else self.confidence))
        if not self.selected.any() and self.n_completions is None:
            everywhere = ": the model says the same for every mask, the full input included"
            is_constant = self.consistent and self.n_agreed == self.n_evaluated
            said.append(f"No feature is selected{everywhere if is_constant else ''}.")
        is_asked = self.neighborhood in NEIGHBORHOODS or self.radius != int((~self.selected).sum())
        if self.effective_radius < self.radius and is_asked:
            said.append(f"Radius {self.radius} was clamped to {self.effective_radius}, the largest there is.")
        return paragraph(*said, terms(self, rate=self.rate, drawn=not self.exact))


def known_rate(certificate: Certificate) -> float:
    """An exact rate: 1 only if all masks agree, and 0 only if none does, however many there are."""
    if certificate.rate == 1 and certificate.n_agreed < certificate.n_evaluated:
        return math.nextafter(1, 0)
    return math.nextafter(0, 1) if certificate.rate == 0 and certificate.n_agreed else certificate.rate


def interval_around(n_agreed: int, n_evaluated: int, tolerance: Fraction, rate_kind: str = "uniform") -> Interval:
    """The rate ± tolerance within [0, 1], rounded once at the very end; without an upper end if none is asked for."""
    slack, scale = tolerance.numerator * n_evaluated, tolerance.denominator * n_evaluated
    agreed = n_agreed * tolerance.denominator
    high = scale if tolerance and rate_kind == "worst_size_lower" else min(agreed + slack, scale)
    return Interval(max(agreed - slack, 0) / scale, high / scale)


@dataclass(frozen=True)
class Look:
    """How far a certification is: masks that kept the prediction, masks counted, and the most that may be.

    If ``exact``, masks are listed one and all, and not drawn: the counts are then no random sample.
    """

    n_agreed: int
    n_evaluated: int
    n_most: int
    exact: bool


OnLook = Callable[[Look], None]


@asks(RateKeywords)
def certify(
    model: MaskedModel,
    selected: Any,
    *,
    radius: int | None = None,
    on_look: OnLook | None = None,
    **keywords: Unpack[RateKeywords],
) -> Certificate:
    """Certify how often the prediction survives when up to ``radius`` more features are revealed.

    The stability rate τ is the share of all masks within the radius on which the model agrees with
    its prediction on ``selected``. With probability at least ``confidence`` over the draws, the
    returned ``rate`` is within ``tolerance`` of τ. When there are no more masks than the plan could
    draw, all are evaluated and the rate is exact. It is exact as well, with nothing drawn, where all masks can be
    counted from inside the model, as for a tree on a row of a table (``proof`` says how).

    This is a statement about random masks: rare changes that flip the prediction may exist (see
    ``counterexample``), and a stable explanation may still belong to a wrong prediction
    (see ``consistent``).

    Parameters
    ----------
    model : MaskedModel
        Function of masks (b, n_features); see ``mask_function``.
    selected : Boolean array of shape (n_features,), or list of names or indices
        The explanation: which features are selected.
    radius : int
        Largest number of changes; clamped to the number of features that can change. It may be left out where
        ``neighborhood`` is an object, for as far as that goes.
    tolerance, confidence : float
        The rate is to be within ``tolerance`` of the true one with probability ``confidence``.
    plan : str
        "sequential" (fewest calls), "exact" (fixed number), "hoeffding" (the paper's number).
    agree : str, Agreement or callable
        "same_top_class" (default) or ``same_top_set(k)`` for classes, ``same_side(threshold)`` for a decision at a
        cut-off, ``same_labels(thresholds)`` for several labels, ``within(margin)`` or ``within_percent(percent)``
        for numbers, or a function of (outputs (b, ...), reference) that returns Boolean (b,).
    reference : str, int, bool, float or array, optional
        What to agree with, in place of the model's prediction on ``selected``: the answer or label that a user saw,
        a class by its name or number, or scores. ``consistent`` then says whether ``selected`` alone gives it.
    neighborhood : str or object
        "additions", "removals" or "swaps", whose masks are equally likely. ``Bernoulli(0.3)`` reveals each other
        feature with a probability, ``Weighted`` sets of features by their weights, ``Grouped`` groups of features; and
        any object with ``sample(selected, n, rng)`` draws its own masks (see ``check_neighborhood``).
    answers : str
        "fixed" if the model gives the same mask the same answer. "random" asks it anew for every draw, remembers
        nothing and enumerates nothing: the rate is then the probability that a random mask gets a random answer that
        agrees. Give a ``reference``, or one answer on ``selected`` becomes it.
    rate_kind : str
        "uniform" (all masks within the radius), "exactly" (``radius`` changes exactly), "worst_size" (the
        smallest rate over the sizes 0 … radius) or "worst_size_lower" (the same with no upper end to its
        interval, and fewer draws where there are many sizes: they need not share the risk).
    batch_size : int, optional
        Most rows per model call; never changes the result.
    progress : bool or callable, optional
        True for a bar, False for none, or a function of (rows computed, most rows expected). On a terminal and in a
        notebook a bar appears by itself after two seconds.
    on_look : callable, optional
        Told a ``Look`` (``n_agreed``, ``n_evaluated``, ``n_most``, ``exact``) after every batch, for "worst_size"
        of each size in turn. It changes nothing. The interval of the certificate belongs to the end alone:
        counts seen on the way need an interval of their own, valid at every look.
    check_determinism : bool
        Compute a few rows twice (two of 25, five of 64 or more) and raise if an answer differs. If False, a
        random model is certified as the function that happens to be drawn.
    rng : Generator, int, "canonical" or None
        Seed, generator or None; ``rng_key`` of the certificate repeats the draws. "canonical" derives the key
        from model, input, explanation and question, so that nobody can try seeds until one pleases.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import certify, mask_function
    >>> model = mask_function(lambda masks: masks[:, 0] | (masks.sum(axis=1) > 15), n_features=20)
    >>> selected = np.arange(20) < 4
    >>> cert = certify(model, selected, radius=5, rng=0)
    >>> cert.rate, cert.holds(0.9)
    (1.0, True)
    """
    if on_look is not None and not callable(on_look):
        raise InvalidTypeError(argument="on_look", must="be a function of a Look, or None", got=shown(on_look))
    procedure = Procedure.check(certify, "single", keywords, radii=radii_asked(radius, keywords))
    with procedure.about(model, selected) as (evaluator, mask, procedure):
        question = procedure.question
        nearby = question.neighborhood_of(mask, radius)
        parts = parts_of(nearby, question.rate_kind)
        plan = question.plan_for(parts, question.make_plan())
        if evaluator.progress is not None:
            evaluator.expect(most_rows(parts, plan))
        before, streams = evaluator.n_calls, [procedure.own_stream(mask, str(part.smallest)) for part in parts]
        outputs, first_looks = _compute_first(parts, plan, streams, evaluator, procedure)
        reference = Reference(evaluator, mask, procedure, outputs=outputs, calls_before=before)
        lists = reference.lists(nearby)
        outcomes = [
            _enumerate_or_sample(part, plan, reference, procedure, on_look, rng=rng, drawn=drawn, lists=lists)
            for part, rng, drawn in zip(parts, streams, first_looks, strict=True)
        ]
        outcome = worst_of(outcomes) if question.rate_kind in WORST else outcomes[0]
        return make_certificate(reference, nearby, outcome, procedure)


def _compute_first(
    parts: list[Neighborhood],
    plan: Plan,
    streams: list[np.random.Generator],
    evaluator: Evaluator,
    procedure: Procedure,
) -> tuple[Outputs | None, list[Drawn]]:
    """Compute the masks of all first looks with the explanation; later ones too if that may save the second call.

    Gives the outputs of the reference masks, if it computed them, and what was drawn of each part. What the structure
    of the model may tell is not drawn, and what has few masks is all evaluated. A model that answers in words, for
    which each row is paid, is asked about the explanation first: a reference may not fit it.
    """
    selected, question, looks = parts[0].selected, procedure.question, plan.design.looks
    is_sampled = [not question.enumerates(part, plan.max_draws) for part in parts]
    fits = 0 < sum(is_sampled) * looks[0] <= most_drawn(parts[0])
    known = procedure.structure is not None and procedure.structure.countable is not None
    if not fits or known or not asks_together(evaluator, question) or evaluator.answering is not None:
        return None, [NOTHING_DRAWN] * len(parts)
    n, n_sent, places = looks[0], looks[0], [place for place, draws in enumerate(is_sampled) if draws]
    drawn = {place: drawn_to(n, None, parts[place], streams[place]) for place in places}
    references = reference_masks(selected, question.n_completions)
    rows = np.concatenate([references, *(masks[:n] for masks in drawn.values())])
    if len(places) == 1 and not procedure.check_determinism:  # else a second call comes anyway, with repeated rows
        only = places[0]
        n_sent += n_ahead(evaluator, rows, plan.design, looks, most=most_drawn(parts[0]) - n)
        if n_sent > n:
            drawn[only] = drawn_to(n_sent, drawn[only], parts[only], streams[only])
            evaluator.compute_ahead(np.concatenate([references, drawn[only][:n_sent]]))
    outputs, starts = evaluator(rows), range(len(references), len(rows), n)
    first_looks = {
        p: Drawn(drawn[p], n_sent, outputs[start : start + n]) for p, start in zip(places, starts, strict=True)
    }
    return outputs[: len(references)], [first_looks.get(place, NOTHING_DRAWN) for place in range(len(parts))]


def _enumerate_or_sample(
    nearby: Neighborhood,
    plan: Plan,
    reference: Reference,
    procedure: Procedure,
    on_look: OnLook | None,
    *,
    rng: np.random.Generator,
    drawn: Drawn,
    lists: bool,
) -> Outcome:
    """Count every mask if the model's structure tells; evaluate every mask if there are few; else follow the plan.

    If ``lists``, there are so few that counting would take more calls.
    """
    outcome = None if lists else reference.counted(nearby)
    if outcome is not None:
        return outcome
    exact = lists or procedure.question.enumerates(nearby, plan.max_draws)
    most = nearby.size if exact else plan.max_draws
    on_count = None if on_look is None else lambda tally: on_look(Look(tally.n_agreed, tally.n_evaluated, most, exact))
    if exact:
        return reference.enumerated(nearby, plan.max_draws, on_count=on_count)
    return reference.sampled(nearby, plan, rng, drawn=drawn, on_count=on_count)


def make_certificate(
    reference: Reference, nearby: Neighborhood, outcome: Outcome, procedure: Procedure, *, n_calls: int | None = None
) -> Certificate:
    """Write down what was asked and what was seen."""
    tally, exact, question = outcome.tally, outcome.plan is None, procedure.question
    reach = nearby.exactly(nearby.radius) if question.rate_kind == "exactly" else nearby
    slack = Fraction(0) if exact else question.tolerance
    rate, interval = float(outcome.rate), interval_around(tally.n_agreed, tally.n_evaluated, slack, question.rate_kind)
    if outcome.weighted_rate is not None:
        interval = Interval(rate, rate)
    return Certificate(
        rate=rate,
        rate_unbiased=outcome.rate_unbiased,
        interval=interval,
        n_agreed=tally.n_agreed,
        n_evaluated=tally.n_evaluated,
        exact=exact,
        radius=nearby.radius,
        effective_radius=nearby.effective_radius,
        tolerance=float(question.tolerance),
        confidence=float(question.confidence),
        plan=question.plan,
        design=outcome.plan.design if outcome.plan else None,
        consistent=reference.consistent,
        rate_kind=question.rate_kind,
        draws=procedure.draws,
        proof=outcome.proof,
        **reference.claim(procedure, reach, n_calls=n_calls),
    )
