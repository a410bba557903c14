"""A masked model, an explanation and a radius → a hard certificate: a proof, a refutation or Theorem 2 of the paper.

The hard certificates of smoothed models, by votes (``mus``), have the same form.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Unpack

import numpy as np

from holdfast.bounds import Interval, smallest_power_within
from holdfast.certification.question import PrecisionKeywords, Procedure, asks, radii_asked
from holdfast.certification.reference import MOST_READ, PredictionClaim, Reference, check_proof, portions
from holdfast.errors import InvalidValueError
from holdfast.exact.countable import PROOFS, NearestChange
from holdfast.neighborhood import Neighborhood
from holdfast.types import MaskedModel
from holdfast.validation import check_name, check_share, check_whole, shown
from holdfast.words import (
    NOT_RIGHT,
    counted,
    event,
    kept,
    lower_first,
    outward,
    percent,
    proof_label,
    quoted,
    share_of,
    unlike,
)

SMALLEST_TOLERANCE = Fraction(1, 10_000)

_PORTION = 256
"""Masks enumerated before looking for a change; not the batch size, which must not matter."""

VOTED = ("mus", "bernoulli")
"""Methods that prove stability of a smoothed model from its votes."""


@dataclass(frozen=True, eq=False, kw_only=True)
class HardCertificate(PredictionClaim, schema="holdfast.hard_certificate"):
    """How far an explanation can be changed with no change of the prediction at all.

    Attributes
    ----------
    method : str
        "enumeration" (a proof), the name of a proof from inside the model such as "branch and bound", "sampling"
        (Theorem 2 of the paper: a probability), "mus" or "bernoulli" (a proof about the smoothed model, from votes).
    stable : bool
        No mask that was evaluated changes the prediction.
    radius : int
        The radius this certificate vouches for; 0 if it vouches for none.
    requested_radius, effective_radius : int
        As asked; and clamped to the features that can change. Votes are not asked for a radius.
    tolerance, confidence : float or None
        For "sampling", a fresh random mask changes the prediction with probability
        at most ``tolerance``, at this confidence; None for a proof.
    n_agreed, n_evaluated : int
        Masks that agreed and masks evaluated; for votes, those for the prediction and all. Of a proof from inside the
        model, the masks within ``radius``, all of which agree, and these with the one that changes the prediction.
    consistent : bool or None
        Whether the full input gets the same prediction; None if that was not asked.
    removal_radius : int or None
        For votes: how many selected features can be hidden.
    input_removal_radius : int or None
        For votes: how many features of the full input can be hidden; None if the full input is
        predicted differently, or if that was not asked.
    keep_probability : float or tuple of float or None
        For votes: the share with which features were kept, one per feature if they differ.
    n_levels : int or None
        For votes: the number of masks that voted.
    criterion : str or None
        For votes: "votes" or "lipschitz".
    prediction, prediction_name, selected, counterexample, n_calls, n_repeated, rng_key, provenance
        See ``PredictionClaim``.
    """

    method: str
    stable: bool
    radius: int
    requested_radius: int
    effective_radius: int
    tolerance: float | None = None
    confidence: float | None = None
    n_agreed: int
    n_evaluated: int
    consistent: bool | None
    removal_radius: int | None = None
    input_removal_radius: int | None = None
    keep_probability: float | tuple[float, ...] | None = None
    n_levels: int | None = None
    criterion: str | None = None

    def check(self) -> None:
        """Raise if the fields contradict each other."""
        super().check()
        check_name(self.method, "method", ["enumeration", "sampling", *VOTED, *PROOFS])
        if self.answers == "random" and self.method != "sampling":
            raise InvalidValueError(argument="method", must="be 'sampling' for random answers", got=shown(self.method))
        for name in ("radius", "requested_radius", "effective_radius"):
            check_whole(getattr(self, name), name)
        n_agreed, n_evaluated = check_proof(self, self.method if self.method in PROOFS else None)
        known_change = self.counterexample is not None
        all_agreed = n_agreed == n_evaluated or self.method in VOTED
        if self.stable == known_change or (self.stable and not all_agreed):
            must = "be false exactly if a mask that changes the prediction is known"
            raise InvalidValueError(argument="stable", must=must)
        if self.radius != self.requested_radius if self.stable else self.radius >= max(1, self.requested_radius):
            raise InvalidValueError(argument="radius", must="be the requested one if stable, and smaller if not")
        if self.method in VOTED:
            return
        # As many masks as the claim needs: all there are for a proof, Theorem 2's for a probability.
        nearby, reach = self.nearby(self.requested_radius), self.reach(self.requested_radius)
        if self.effective_radius != reach:
            raise InvalidValueError(argument="effective_radius", must=f"be {reach}")
        is_inside = nearby is not None and nearby.contains(np.ones_like(self.selected))
        if self.stable and self.consistent is False and self.reference is None and is_inside:
            must = "be true if nothing within a radius that includes the full input changes the prediction"
            raise InvalidValueError(argument="consistent", must=must)
        if self.method in PROOFS:
            within = self.nearby(self.radius)
            size = 0 if within is None else within.size
            if (n_agreed, n_evaluated) != (size, size + (not self.stable)):
                must = f"be the masks within radius {self.radius}, which all agree, and the one that does not, if any"
                raise InvalidValueError(argument="n_evaluated", must=must, got=shown(n_evaluated))
            return
        if self.method == "enumeration":
            if nearby is not None and nearby.is_larger_than(MOST_READ):
                raise InvalidValueError(argument="n_evaluated", must=f"be all masks, at most {MOST_READ} of them")
            needed = n_evaluated if nearby is None else nearby.size
        else:
            tolerance = check_share(self.tolerance, "tolerance")
            if tolerance < SMALLEST_TOLERANCE:
                raise InvalidValueError(argument="tolerance", must=f"be at least {float(SMALLEST_TOLERANCE)}")
            needed = smallest_power_within(1 - tolerance, 1 - check_share(self.confidence, "confidence"))
        if n_evaluated > needed or (self.stable and n_evaluated < needed):
            must = f"be {needed} for what is claimed"
            raise InvalidValueError(argument="n_evaluated", must=must, got=self.n_evaluated)

    @property
    def exact(self) -> bool:
        """Whether the answer is a proof."""
        return self.method != "sampling" or (not self.stable and self.answers == "fixed")

    def __str__(self) -> str:
        voted = self.method in VOTED
        rate = self.radius > 0 if voted else self.n_agreed / self.n_evaluated
        wrong = f"; {unlike(rate, self)}" if self.consistent is False else ""
        claim, counts, scope = self._said_by_votes() if voted else self._said_by_masks()
        return f"{claim} ({counts}, {self._cost}){wrong}; it is {scope}, {NOT_RIGHT}."

    def _said_by_votes(self) -> tuple[str, str, str]:
        """The changes that the votes vouch for; a radius of 0 is no change, and is said to be none."""
        what = f"the prediction {quoted(self.prediction, self.prediction_name)} of the smoothed model"
        changes = [
            lower_first(event("additions", "uniform", self.radius)) if self.radius else "",
            lower_first(event("removals", "uniform", self.removal_radius)) if self.removal_radius else "",
            f"hiding up to {self.input_removal_radius} of the full input" if self.input_removal_radius else "",
        ]
        first, *others = [change for change in changes if change] or [""]
        claim = f"For certain, {first} never changes {what}" + "".join(f", nor does {change}" for change in others)
        if not first:
            claim = f"Nothing is certain: the votes leave open whether revealing or hiding one feature changes {what}"
        elif not self.radius:
            claim += "; whether revealing one more feature does is left open"
        keep = self.keep_probability
        share = f"{keep:g}" if isinstance(keep, float) else "one per feature"
        votes = f"{self.n_agreed} of {self.n_evaluated} votes, keep probability {share}, {self.criterion} criterion"
        scope = "a fact about the smoothed model, not about the model that was smoothed, for this input and masking"
        return claim, votes, scope

    def _said_by_masks(self) -> tuple[str, str, str]:
        change, what = self.change(self.effective_radius), kept(self)
        counts, scope = f"{self.n_agreed} of {self.n_evaluated} agreed", "a fact about this model, input and masking"
        scope = "about one random answer of this model" if self.answers == "random" else scope
        if self.method in PROOFS:
            masks = f"{share_of(self.n_agreed, self.n_agreed)} masks within radius {self.radius} keep it, "
            counts = masks if self.radius else ""  # the explanation itself is no change
            counts += f"proven from inside the model, by {proof_label(self.method)}"
        if self.counterexample is not None:
            changed = counted(int((self.counterexample != self.selected).sum()), "feature")
            drawn = "" if self.completion is None else f" with completion {self.completion}"
            nearer = f", none within radius {self.radius} does" if self.radius else ""
            return f"{change} can change {what}: a mask that differs in {changed} does{drawn}{nearer}", counts, scope
        if self.method != "sampling":
            return f"{change} never changes {what}", counts, scope
        claim = f"With confidence {self.confidence}, {lower_first(change)} at random changes {what} with probability"
        no_proof = "a statement about probability, no proof that no such change exists"
        most, judged = f"at most {self.tolerance}", ""
        if self.judge_errors is not None and self.tolerance is not None and self.confidence is not None:
            widened, sure = self.by_people(Interval(1 - self.tolerance, 1.0), self.confidence)
            judged = f", {percent(1 - outward(widened).low)} and confidence {sure:g} with the judge's errors"
        return f"{claim} {most}{judged}", counts, no_proof


@asks(PrecisionKeywords)
def certify_hard(
    model: MaskedModel,
    selected: Any,
    *,
    radius: int | None = None,
    max_enumerated: int | None = None,
    **keywords: Unpack[PrecisionKeywords],
) -> HardCertificate:
    """Certify that no change within ``radius`` was found to alter the prediction (Theorem 2).

    If all of n draws agree, n the smallest with (1 - tolerance)ⁿ ≤ 1 - confidence, a fresh random
    mask changes the prediction with probability at most ``tolerance``, at this confidence. That is a
    statement about probability, not a proof. If the neighbourhood has at most ``max_enumerated``
    masks (by default, as many as would be drawn), all are evaluated, nearest first, and the answer
    is a proof. One mask that changes the prediction settles the question either way. Where the structure of the model
    is known, as of trees on a row of a table, the answer is a proof at any radius (``method`` says by what).

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import certify_hard, mask_function
    >>> model = mask_function(lambda masks: masks[:, 0], n_features=20)
    >>> hard = certify_hard(model, np.arange(20) < 4, radius=1, rng=0)
    >>> hard.method, hard.stable, hard.radius
    ('enumeration', True, 1)
    """
    procedure = Procedure.check(certify_hard, "hard", keywords, radii=radii_asked(radius, keywords))
    question = procedure.question
    tolerance, confidence = question.tolerance, question.confidence
    if tolerance < SMALLEST_TOLERANCE:
        must = f"be at least {float(SMALLEST_TOLERANCE)}"
        raise InvalidValueError(argument="tolerance", must=must, got=keywords.get("tolerance"))
    n_draws = smallest_power_within(1 - tolerance, 1 - confidence)
    affordable = n_draws if max_enumerated is None else check_whole(max_enumerated, "max_enumerated")
    with procedure.about(model, selected) as (evaluator, mask, procedure):
        question = procedure.question
        nearby = question.neighborhood_of(mask, radius)
        proof = question.enumerates(nearby, affordable)
        evaluator.expect(nearby.size if proof else n_draws)
        reference = Reference(evaluator, mask, procedure)
        lists = proof and reference.lists(nearby)
        # What is found from inside the model is about every mask; some distributions begin further off.
        known = not lists and nearby.smallest == 0
        nearest = reference.nearest_change(max_radius=nearby.effective_radius) if known else None
        if nearest is not None and (nearest.mask is not None or nearest.proven):
            return _by_proof(nearest, nearby, reference, procedure)
        masks = nearby.enumerate(_PORTION) if proof else portions(nearby, n_draws, procedure.own_stream(mask))
        tally = reference.count(masks, until_changed=True)
        changing = reference.counterexample_in(nearby)
        vouched = nearby.radius if changing is None else 0
        if changing is not None and proof:  # enumeration goes outwards, so all nearer masks were seen
            vouched = max(0, min(nearby.distance(changing), *map(nearby.distance, reference.last_changes)) - 1)
        return HardCertificate(
            method="enumeration" if proof else "sampling",
            stable=changing is None,
            radius=vouched,
            requested_radius=nearby.radius,
            effective_radius=nearby.effective_radius,
            tolerance=None if proof else float(tolerance),
            confidence=None if proof else float(confidence),
            n_agreed=tally.n_agreed,
            n_evaluated=tally.n_evaluated,
            consistent=reference.consistent,
            **reference.claim(procedure, nearby),
        )


def _by_proof(
    nearest: NearestChange, nearby: Neighborhood, reference: Reference, procedure: Procedure
) -> HardCertificate:
    """What the structure of the model proves: that nothing changes the prediction, or what does."""
    stable = nearest.mask is None
    within = nearby if stable else procedure.question.neighborhood_of(nearby.selected, nearest.cleared)
    return HardCertificate(
        method=nearest.method,
        stable=stable,
        radius=within.radius,
        requested_radius=nearby.radius,
        effective_radius=nearby.effective_radius,
        n_agreed=within.size,
        n_evaluated=within.size + (not stable),
        consistent=reference.consistent,
        **reference.claim(procedure, nearby),
    )
