"""A masked model, an explanation and a minimum rate → the radius up to which it is certified."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Unpack

from holdfast.bounds import Interval
from holdfast.certification.question import JudgeKeywords, Procedure, asks
from holdfast.certification.reference import MOST_READ, PredictionClaim, Reference, check_proof, possible_rates
from holdfast.certification.serialization import Value
from holdfast.certification.shared_draws import DrawSequence, ExplanationDraws, SharedDraws
from holdfast.errors import InvalidValueError
from holdfast.evaluation import Evaluator, Tally
from holdfast.neighborhood import Neighborhood
from holdfast.plans import RateTest, rate_test
from holdfast.terminal import Plotted
from holdfast.types import Mask, MaskedModel, Masks
from holdfast.validation import check_share
from holdfast.words import (
    FIXED_BEFORE,
    NO_PROOF,
    but_unlike,
    by_judge,
    changes_of,
    fitted,
    keeps,
    outward,
    paragraph,
    percent,
    proof_label,
    sure,
    terms,
)

_MOST_AHEAD = 32
"""Radii whose draws may be computed before it is known whether their turn comes."""

_MOST_DRAWS = 5_000
"""Tests of more draws are not computed anew when a file is read, which would take minutes; ``recheck`` does so."""


@dataclass(frozen=True, eq=False)
class RadiusStep(Value, schema="holdfast.radius_step"):
    """What was found at one tested radius.

    ``answer`` is True if the minimum rate was certified, False if a smaller rate was, None if the
    draws could not tell. ``proof`` says what counted every mask from inside the model, if anything did.
    """

    radius: int
    effective_radius: int
    answer: bool | None
    n_agreed: int
    n_evaluated: int
    exact: bool
    proof: str | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class RadiusCertificate(Plotted, PredictionClaim, schema="holdfast.radius_certificate"):
    """Up to which radius the stability rate is certified to be at least ``min_rate``.

    With probability at least ``confidence``, every tested radius up to ``radius`` has a rate of at
    least ``min_rate``. This does not say that larger radii have a smaller rate: rates are not
    monotone in the radius, and the first radius that was not certified ended the search.

    Attributes
    ----------
    radius : int
        The last tested radius that was certified; 0 if the first was not. Where radius 0 itself is tested, ``trail``
        says whether it was certified.
    trail : tuple of RadiusStep
        One ``RadiusStep`` per tested radius, in order.
    max_draws : int
        Most draws per radius: with ``min_rate`` and ``confidence`` it decides when each test looks and stops.
    prediction, prediction_name, selected, counterexample, n_calls, n_repeated, rng_key, provenance
        See ``PredictionClaim``.
    """

    radius: int
    min_rate: float
    confidence: float
    trail: tuple[RadiusStep, ...]
    max_draws: int
    consistent: bool

    def check(self) -> None:
        """Raise if the fields contradict each other."""
        super().check()
        check_share(self.min_rate, "min_rate")
        check_share(self.confidence, "confidence")
        if not 1 <= self.max_draws <= MOST_READ or (1 - self.min_rate) * MOST_READ < 1:
            raise InvalidValueError(argument="max_draws", must=f"be from 1 to {MOST_READ}, and enough for `min_rate`")
        test = rate_test(self.min_rate, self.confidence, self.max_draws) if self.max_draws <= _MOST_DRAWS else None
        for step in self.trail:
            check_proof(step, step.proof)
            nearby, least = self.nearby(step.radius), Fraction(str(self.min_rate))
            reached = bool(step.n_agreed >= least * step.n_evaluated)
            if step.exact and self.answers == "random":
                raise InvalidValueError(argument="exact", must="be false for random answers")
            if step.exact:
                follows = any(step.answer is bool(rate >= least) for rate in possible_rates(nearby, step) or ())
            elif step.proof is not None:
                follows = False
            elif test is None:
                follows = step.answer is None or step.answer is reached
            else:
                follows = step.n_evaluated in test.looks and step.answer is test.answer(step.n_evaluated, step.n_agreed)
            if step.effective_radius != self.reach(step.radius) or not follows:
                raise InvalidValueError(argument="answer", must=f"follow from the counts at radius {step.radius}")
        answers = [step.answer for step in self.trail]
        if not answers or False in map(bool, answers[:-1]):
            raise InvalidValueError(argument="trail", must="end at the first radius that is not certified")
        if self.radius != max((step.radius for step in self._certified()), default=0):
            raise InvalidValueError(argument="radius", must="be the last certified one of the trail")

    def stability(self) -> str:
        """The least rate and how sure it is, in words: 'at least 90% of cases (90% confidence)'."""
        least = f"at least {sure(self.min_rate)} of cases"
        if self.is_certain:
            return f"{least} ({'proven' if all(step.proof for step in self._certified()) else 'exact'})"
        interval, joint = self.by_people(Interval(self.min_rate, 1.0), self.confidence)
        if self.judge_errors is None:
            return f"{least} ({sure(joint)} confidence)"
        least = percent(outward(interval).low)
        return f"at least {least} of cases ({sure(joint)} confidence, judge's errors included)"

    @property
    def is_certain(self) -> bool:
        """Whether every mask of every certified radius was counted, so that nothing is left to chance."""
        certified = self._certified()
        return bool(certified) and all(step.exact for step in certified) and self.judge_errors is None

    def __str__(self) -> str:
        certified, last = self._certified(), self.trail[-1]
        if not certified:
            drawn = "random answers" if self.answers == "random" else "draws"
            reason = f"the rate at radius {last.radius} is smaller"
            if not last.exact:
                reason = (
                    f"{'not enough' if last.answer is None else 'too few agreeing'} {drawn} at radius {last.radius}"
                )
            return fitted(
                "No radius is certified {keeps} in at least {rate} of cases: {reason}{but}.",
                rate=[sure(self.min_rate)],
                reason=[reason],
                but=but_unlike(self),
                keeps=keeps("to keep", self),
            )
        # The radius is what is told, even where it is no limit.
        changes, every = changes_of(self, "uniform", certified[-1].effective_radius), len(certified) > 1
        return fitted(
            "{stable}: {change} {keeps}{also}{but}.",
            change=changes,
            stable=[f"Stable in {self.stability()}", f"Stable in {self.stability().replace(' of cases', '')}"],
            but=but_unlike(self),
            also=[", as at all smaller radii tested" if every else "", ""],
            keeps=keeps("in random answers keeps" if self.answers == "random" else "keeps", self),
        )

    def explain(self) -> str:
        """What was asked, what is guaranteed and what is not, in plain words."""
        certified, last = self._certified(), self.trail[-1]
        said = [
            f"Up to which radius is the rate at which masks {keeps('keep', self)[0]} at least {sure(self.min_rate)}?"
        ]
        said.append(
            f"Radii were tested in increasing order, until one failed or none was left ({len(self.trail)} tested)."
        )
        if not last.answer:
            why = "its rate is smaller" if last.exact else "too few draws kept it"
            why = "there were not enough draws to tell" if last.answer is None else why
            said.append(f"Radius {last.radius} was not certified: {why}.")
        proof = next((step.proof for step in self.trail if step.proof), None)
        if proof is not None:
            said.append(f"Masks were counted from inside the model, by {proof_label(proof)}.")
        is_drawn = not all(step.exact for step in self.trail)
        if is_drawn:
            chance = f"with probability at least {sure(self.confidence)} over the draws"
            said.append(f"All certified radii have such a rate, {chance}." if certified else "")
            said += [FIXED_BEFORE, NO_PROOF]
        said.append(by_judge(self, Interval(self.min_rate, 1.0), self.confidence) if certified else "")
        said.append("It says nothing about larger or untested radii.")
        return paragraph(*said, terms(self, rate=self.min_rate if certified else 0.0, drawn=is_drawn))

    def _certified(self) -> list[RadiusStep]:
        return [step for step in self.trail if step.answer]


@asks(JudgeKeywords)
def certified_radius(
    model: MaskedModel,
    selected: Any,
    *,
    min_rate: float,
    confidence: float = 0.9,
    radii: Iterable[int] | None = None,
    max_draws: int | None = None,
    **keywords: Unpack[JudgeKeywords],
) -> RadiusCertificate:
    """Find the radius up to which the stability rate is certified to be at least ``min_rate``.

    The radii are tested in increasing order, each by a one-sided exact sequential test at the full
    risk, and the first that is not certified ends the search. With probability at least
    ``confidence`` every tested radius up to the returned one has a rate of at least ``min_rate``:
    a false claim needs a false "yes" at the first radius whose rate is too small. If every draw
    agrees, about a fifth more draws than any valid test needs suffice for each radius.

    Parameters
    ----------
    min_rate : float
        Strictly between 0 and 1; for a rate of 1 see ``certify_hard``.
    radii : iterable of int
        The radii to test, fixed in advance; 1, 2, 3, … by default.
    max_draws : int, optional
        Most draws per radius before the answer is "cannot tell".

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import certified_radius, mask_function
    >>> model = mask_function(lambda masks: masks.sum(axis=1) < 10, n_features=20)
    >>> certified_radius(model, np.arange(20) < 4, min_rate=0.9, rng=0).radius
    5
    """
    test = rate_test(min_rate, confidence, max_draws)
    fixed = {"radii": [1] if radii is None else radii, "confidence": confidence}
    procedure = Procedure.check(certified_radius, "decision", keywords, **fixed)
    with procedure.about(model, selected) as (evaluator, mask, procedure):
        widest = procedure.question.widest(mask)
        reach = range(max(1, widest.smallest), max(1, widest.effective_radius) + 1)
        tested = reach if radii is None else procedure.question.radii
        evaluator.expect(len(tested) * test.max_draws)
        reference = Reference(evaluator, mask, procedure)
        trail = decide_in_order(tested, test, evaluator, reference, procedure)
        return make_radius_certificate(reference, trail, test, procedure)


def make_radius_certificate(
    reference: Reference, trail: list[RadiusStep], test: RateTest, procedure: Procedure
) -> RadiusCertificate:
    """Write down what was asked and what was decided."""
    nearby = procedure.question.neighborhood_of(reference.selected, trail[-1].radius)
    return RadiusCertificate(
        radius=max((step.radius for step in trail if step.answer), default=0),
        min_rate=float(test.min_rate),
        confidence=float(test.confidence),
        trail=tuple(trail),
        max_draws=test.max_draws,
        consistent=reference.consistent,
        **reference.claim(procedure, nearby),
    )


def expected_draws(
    selected: Mask, nearby: Neighborhood, test: RateTest, procedure: Procedure, *, before: Tally, room: int
) -> Masks | None:
    """The masks that a test at one radius takes, if as many agree as of those before; None if they have no room."""
    draws = ExplanationDraws(nearby, lambda purpose: procedure.own_stream(selected, purpose))
    needed = draws.open(nearby, test.looks, test.stops).expected_needs(before, room)
    return None if needed is None else draws.lists.extend(needed)


def decide_in_order(
    radii: Sequence[int], test: RateTest, evaluator: Evaluator, reference: Reference, procedure: Procedure
) -> list[RadiusStep]:
    """Fixed-sequence testing: go on while the answer is yes."""
    selected, question = reference.selected, procedure.question
    widest = question.neighborhood_of(selected, radii[-1])
    draws = ExplanationDraws(widest, lambda purpose: procedure.own_stream(selected, purpose), reference)
    shared = SharedDraws(evaluator, procedure, [draws])
    trail: list[RadiusStep] = []

    def upcoming() -> Iterator[DrawSequence]:
        """What is drawn after the radius that is being tested, if that is certified."""
        place = radii.index(radius) + 1
        for later in radii[place : place + _MOST_AHEAD]:
            yield DrawSequence(question.neighborhood_of(selected, later), test.looks, test.stops, draws.lists)

    draws.upcoming = upcoming
    for radius in radii:
        nearby = question.neighborhood_of(selected, radius)
        if trail and trail[-1].effective_radius == nearby.effective_radius:  # the same masks
            trail.append(replace(trail[-1], radius=radius))
            continue
        outcome = reference.counted(nearby)
        if outcome is not None:
            counts, reached = outcome.tally, bool(outcome.rate >= test.min_rate)
            step = (radius, nearby.effective_radius, reached, counts.n_agreed, counts.n_evaluated, True, outcome.proof)
            trail.append(RadiusStep(*step))
            if not reached:
                break
            continue
        # Enumerate what is no dearer than the earliest yes; else draw, and enumerate if draws cannot tell.
        exact = question.enumerates(nearby, test.fewest_for_yes)
        if not exact:
            sequence = draws.open(nearby, test.looks, test.stops)
            while sequence.is_open:
                shared.round()
            tally = sequence.tally
            answer = test.answer(tally.n_evaluated, tally.n_agreed)
            exact = answer is None and question.enumerates(nearby, test.max_draws)
        if exact:
            listed = reference.enumerated(nearby, test.max_draws)
            tally, answer = listed.tally, bool(listed.rate >= test.min_rate)
        trail.append(RadiusStep(radius, nearby.effective_radius, answer, tally.n_agreed, tally.n_evaluated, exact))
        if not answer:
            break
    return trail
