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
    NO_PROOF,
    but_unlike,
    by_judge,
    counted,
    fitted,
    keeps,
    outward,
    paragraph,
    percent,
    proof_label,
    share_of,
    sure,
    terms,
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
        if self.method in VOTED:
            return self._said_by_votes()
        parts: dict[str, list[str]] = {"change": self.changes(self.effective_radius), "but": but_unlike(self)}
        counts = share_of(self.n_agreed, self.n_evaluated)
        if self.counterexample is not None:
            changed = counted(int((self.counterexample != self.selected).sum()), "changed feature")
            answer = "a random answer" if self.answers == "random" else "a mask"
            parts["nearer"] = [f"; none within radius {self.radius} does", f", not within {self.radius}"]
            parts |= {} if self.radius else {"nearer": [""]}
            parts["does"] = [f", as {answer} with {changed} shows", ""]
            return fitted("Not stable: {change} {keeps}{does}{nearer}{but}.", **parts, keeps=keeps("can change", self))
        if self.method != "sampling" and self.judge_errors is None:
            evidence = ["" if self.method in PROOFS else f", {counts} masks counted", ""]
            keys = keeps("never changes", self)
            return fitted("Proven: {change} {keeps}{evidence}{but}.", **parts, keeps=keys, evidence=evidence)
        tolerance, confidence = self._judged
        interval, joint = self.by_people(Interval(1 - tolerance, 1.0), confidence)
        judged = "" if self.judge_errors is None else ", judge's errors included"
        most = sure(tolerance) if self.judge_errors is None else percent(1 - outward(interval).low)
        drawn = (
            "random answers" if self.answers == "random" else "random draws" if self.method == "sampling" else "masks"
        )
        parts["change"] = [change[0].upper() + change[1:] for change in parts["change"]]
        return fitted(
            "{change} {keeps} in at most {most}{evidence}{but}.",
            most=[f"{most} of cases ({sure(joint)} confidence{judged})"],
            **parts,
            keeps=keeps("changes", self),
            evidence=[f": {counts} {drawn} kept it", f" of {drawn}" if self.answers == "random" else ""],
        )

    @property
    def _judged(self) -> tuple[float, float]:
        """How often a mask changes the prediction at most, by the judge, and how sure that is."""
        return (self.tolerance or 0.0, self.confidence or 0.0) if self.method == "sampling" else (0.0, 1.0)

    def _said_by_votes(self) -> str:
        """The changes that the votes vouch for; a radius of 0 is no change, and is said to be none."""
        hidden = [f"{self.removal_radius} selected"] if self.removal_radius else []
        hidden += [f"{self.input_removal_radius} of all"] if self.input_removal_radius else []
        changes = [f"revealing up to {self.radius} more"] if self.radius else []
        changes += [f"hiding up to {' or '.join(hidden)}"] if hidden else []
        is_one = not self.input_removal_radius and (self.removal_radius or self.radius) == 1
        noun = "feature" if is_one else "features"
        said, claim = "Proven for the smoothed model", f"{' or '.join(changes)} {noun} {{keeps}}{{open}}{{but}}."
        if not changes:
            said, claim = (
                "Nothing is proven for the smoothed model",
                "revealing or hiding one feature {keeps}{open}{but}.",
            )
        is_open = bool(changes) and not self.radius
        return fitted(
            f"{{said}}: {claim}",
            said=[said, said.replace("for the ", "of the ")],
            but=but_unlike(self),
            open=["; whether revealing one does is open" if is_open else "", "; revealing is open" if is_open else ""],
            keeps=keeps("never changes" if changes else "may change", self),
        )

    def explain(self) -> str:
        """What was asked, what is guaranteed and what is not, in plain words."""
        counts, said = share_of(self.n_agreed, self.n_evaluated), []
        if self.method in VOTED:
            keep = self.keep_probability
            share = f"{keep:g}" if isinstance(keep, float) else "one per feature"
            said.append(f"How far can features be revealed or hidden before {keeps('votes change', self)[0]}?")
            said.append(f"{counts} votes were for it (keep probability {share}, {self.criterion} criterion).")
            said.append("What the votes prove is certain for the smoothed model, not for the model that was smoothed.")
            return paragraph(*said, terms(self, rate=float(self.radius > 0), drawn=False))
        said.append(f"Does {self.changes(self.effective_radius)[0]} ever {keeps('change', self)[0]}?")
        if self.counterexample is not None:
            drawn = "" if self.completion is None else f", with fill {self.completion}"
            said.append(f"Yes: a mask was found that does{drawn}.")
            if self.answers == "random":
                said.append("That is one random answer; another one may differ.")
            elif self.radius:
                said.append(f"No mask within radius {self.radius} does.")
        elif self.method != "sampling":
            chance = "nothing was left to chance" if self.judge_errors is None else "none was drawn"
            said.append(f"No: every mask within the radius keeps it, and {chance}.")
        else:
            tolerance, confidence = self._judged
            said.append(f"{counts} random masks kept it. A fresh one changes it with probability at most {tolerance}.")
            said.append(f"This holds with probability at least {sure(confidence)} over the draws.")
            said.append(NO_PROOF)
        if self.counterexample is None:
            said.append(by_judge(self, Interval(1 - self._judged[0], 1.0), self._judged[1]))
        if self.method in PROOFS:
            said.append(f"It is proven from inside the model, by {proof_label(self.method)}.")
        elif self.exact:
            said.append(f"{counts} masks that were evaluated keep it.")
        return paragraph(*said, terms(self, rate=float(self.stable), drawn=not self.exact))


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
