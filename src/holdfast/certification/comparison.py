"""A masked model and several explanations → which of them is more stable, from paired draws."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Any, NamedTuple, Unpack

import numpy as np

from holdfast.bounds import Interval, clopper_pearson, sign_test
from holdfast.certification.certificate import Certificate, make_certificate
from holdfast.certification.curve import StabilityCurve, sparkline
from holdfast.certification.question import PlanKeywords, Procedure, asks
from holdfast.certification.reference import Outcome, Reference, asks_together, reference_masks
from holdfast.certification.serialization import Value, make_frame
from holdfast.certification.shared_draws import ExplanationDraws, SharedDraws
from holdfast.distributions.own import OwnDistribution
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.evaluation import Evaluator, Tally
from holdfast.neighborhood import Neighborhood
from holdfast.plans import Plan, most_rows, share_risk
from holdfast.terminal import Plotted
from holdfast.types import Mask, MaskedModel
from holdfast.validation import check_label, check_selection, check_share, check_whole, shown
from holdfast.words import (
    FIXED_BEFORE,
    NO_PROOF,
    NOT_RIGHT,
    at_most,
    counted,
    few_words,
    fitted,
    listed,
    outward,
    paragraph,
    proof_label,
    quoted,
    scope,
    sure,
    took,
    unlike,
)

_ROUNDING = 1e-9
"""By which the ends of an interval may differ where they are computed by another version of SciPy."""


@dataclass(frozen=True, eq=False)
class Difference(Value, schema="holdfast.difference"):
    """How much larger the rate of ``first`` is than that of ``second`` at one radius.

    Attributes
    ----------
    estimate : float
        Unbiased.
    interval : Interval
        From the draws on which the two disagree, or from the two rates' own intervals where draws were not made in
        pairs.
    first_only, second_only : int or None
        Draws that only the first, or only the second, explanation survives; None where they were not made in pairs.
    risk : float
        Of a false claim, in each direction.
    """

    first: str
    second: str
    radius: int
    estimate: float
    interval: Interval
    first_only: int | None
    second_only: int | None
    risk: float

    def check(self) -> None:
        """Raise if the fields contradict each other."""
        check_share(self.risk, "risk")
        if self.first_only is not None or self.second_only is not None:
            check_whole(self.first_only, "first_only")
            check_whole(self.second_only, "second_only")

    @property
    def better(self) -> str | None:
        """The explanation certified to be more stable, or None if the draws cannot tell.

        Of draws in pairs, by the exact sign test: if the first were not more stable, each draw on which the two
        disagree would be the first's with probability at most one half.
        """
        if self.first_only is None or self.second_only is None:
            return self.first if self.interval.low > 0 else self.second if self.interval.high < 0 else None
        if sign_test(self.first_only, self.second_only) <= self.risk:
            return self.first
        return self.second if sign_test(self.second_only, self.first_only) <= self.risk else None

    @property
    def worse(self) -> str | None:
        """The explanation certified to be less stable, or None if the draws cannot tell."""
        return None if self.better is None else self.second if self.better == self.first else self.first

    def __str__(self) -> str:
        low, high = outward(self.interval)
        claim = f"{few_words(self.first)} cannot be told from {few_words(self.second)}"
        if self.better is not None and self.worse is not None:
            claim = f"{few_words(self.better)} is more stable than {few_words(self.worse)}"
        by = f"first minus second {low:+.3f} to {high:+.3f}"
        return f"At radius {self.radius}, {claim} ({by}, risk {at_most(self.risk)} each way)."

    def explain(self) -> str:
        """What was asked, what is guaranteed and what is not, in plain words."""
        said = [f"Is {few_words(self.first)} or {few_words(self.second)} the more stable explanation at this radius?"]
        if self.first_only is not None:
            said.append(
                f"{self.first_only} draws kept the prediction of the first alone, {self.second_only} of the other."
            )
            said.append("An exact sign test on these draws decides.")
        else:
            said.append("The intervals of the two rates decide.")
        said.append(
            f"A claim is false with probability at most {at_most(self.risk)} in each direction, over the draws."
        )
        said.append("No claim means that the draws cannot tell, not that the two are equal.")
        return paragraph(
            *said, FIXED_BEFORE, scope("random masks", "these explanations of one model, input and fill"), NOT_RIGHT
        )


@dataclass(frozen=True, eq=False)
class Comparison(Plotted, Value, schema="holdfast.comparison"):
    """Which of several explanations of one prediction is more stable.

    With probability at least ``confidence`` every claim of ``ranking`` is true, at all radii. With that
    probability, too, all ``differences`` lie in their intervals at once. The rates' own intervals hold at
    that confidence each on its own, or all at once if the curves are ``simultaneous``.
    """

    names: tuple[str, ...]
    curves: tuple[StabilityCurve, ...]
    differences: tuple[Difference, ...]
    confidence: float
    n_calls: int
    n_rounds: int

    def check(self) -> None:
        """Raise if the parts do not belong together."""
        if len(self.names) != len(self.curves) or len(self.names) < 2:
            raise InvalidValueError(argument="curves", must="be one per name, at least two")
        for name in self.names:
            check_label(name, "names")
        for curve in self.curves:
            curve.check()
        pairs = {(difference.first, difference.second, difference.radius) for difference in self.differences}
        if pairs != {(a, b, radius) for a, b in combinations(self.names, 2) for radius in self.radii}:
            raise InvalidValueError(argument="differences", must="be one per pair and radius")
        risk = risk_per_claim(1 - Fraction(str(self.confidence)), len(pairs))
        for stated in self.differences:
            stated.check()
            first, second = (self.curve(name)[stated.radius] for name in (stated.first, stated.second))
            counts = None if stated.first_only is None else (stated.first_only, stated.second_only or 0)
            follows = make_difference(stated.first, stated.second, first, second, counts, risk)
            near = np.allclose(stated.interval, follows.interval, rtol=0, atol=_ROUNDING)
            if not near or (stated.estimate, stated.risk) != (follows.estimate, follows.risk):
                raise InvalidValueError(argument="differences", must="follow from the counts and the confidence")

    @property
    def radii(self) -> tuple[int, ...]:
        """The radii compared."""
        return self.curves[0].radii

    def curve(self, name: str) -> StabilityCurve:
        """The curve of one explanation."""
        if name not in self.names:
            raise InvalidValueError(argument="name", must=f"be one of {', '.join(self.names)}", got=shown(name))
        return self.curves[self.names.index(name)]

    def __iter__(self) -> Iterator[Difference]:
        return iter(self.differences)

    def __len__(self) -> int:
        return len(self.differences)

    def __getitem__(self, radius: int) -> tuple[Difference, ...]:
        """All differences at one radius."""
        if radius not in self.radii:
            must = f"be one of {', '.join(map(str, self.radii))}"
            raise InvalidValueError(argument="radius", must=must, got=shown(radius))
        return tuple(difference for difference in self.differences if difference.radius == radius)

    def ranking(self, radius: int) -> tuple[tuple[str, str], ...]:
        """All pairs (more stable, less stable) that are certified at this radius."""
        return tuple((pair.better, pair.worse) for pair in self[radius] if pair.better and pair.worse)

    def _are_equal(self, pair: Difference) -> bool:
        """Whether two rates are known to be the same."""
        first, second = (self.curve(name)[pair.radius] for name in (pair.first, pair.second))
        return first.exact and second.exact and first.interval == second.interval

    def to_frame(self) -> Any:
        """The differences as a pandas ``DataFrame``, one row per pair and radius."""
        names = ("first", "second", "radius", "estimate")
        return make_frame(
            {name: getattr(pair, name) for name in names} | pair.interval._asdict() | {"better": pair.better}
            for pair in self
        )

    def __str__(self) -> str:
        width = max(map(len, self.names))
        lines = [self.sentence, " " * width + "  " + "".join(f"{f'r={radius}':>8}" for radius in self.radii)]
        for name, curve in zip(self.names, self.curves, strict=True):
            first, rates = curve.certificates[0], "".join(f"{rate:8.3f}" for rate in curve.rates)
            wrong = "" if first.consistent else ", unlike the full input"
            predicts = f"predicts {quoted(first.prediction, first.prediction_name)}{wrong}"
            lines.append(f"{name:>{width}}  {rates}  {sparkline(curve.rates)}  {predicts}")
        lines += [f"r={radius}: {self._claims(radius) or 'cannot tell them apart'}" for radius in self.radii]
        return "\n".join(lines)

    def _claims(self, radius: int) -> str:
        """All that is certified at a radius: 'a > b, a = c'."""
        claims = [f"{better} > {worse}" for better, worse in self.ranking(radius)]
        claims += [f"{pair.first} = {pair.second}" for pair in self[radius] if self._are_equal(pair)]
        return ", ".join(claims)

    @property
    def _how_sure(self) -> str:
        certificates = [certificate for curve in self.curves for certificate in curve]
        if not all(certificate.exact for certificate in certificates):
            return f"{sure(self.confidence)} confidence for all claims at once"
        return "proven" if all(certificate.proof for certificate in certificates) else "exact: all masks counted"

    @property
    def sentence(self) -> str:
        """Which explanation is more stable at the largest radius, in a sentence."""
        radius = self.radii[-1]
        claims, n_told = self._claims(radius), len(self.ranking(radius))
        claims = claims.replace(" > ", " is more stable than ") if len(self[radius]) == 1 else claims
        told = f"{n_told} of {counted(len(self[radius]), 'pair')} of explanations can be told apart"
        if not claims:
            told = claims = "no explanation is shown to be more stable than another"
        return fitted(f"At radius {radius}, {{claims}} ({self._how_sure}).", claims=[claims, told])

    def explain(self) -> str:
        """What was asked, what is guaranteed and what is not, in plain words."""
        certificates = [certificate for curve in self.curves for certificate in curve]
        radii = "one radius" if len(self.radii) == 1 else f"{len(self.radii)} radii"
        said = [f"Which of {len(self.names)} explanations is more stable, at {radii}?"]
        is_exact = all(certificate.exact for certificate in certificates)
        if is_exact:
            proof = next((certificate.proof for certificate in certificates if certificate.proof), None)
            how = "evaluated" if proof is None else f"counted from inside the model, by {proof_label(proof)}"
            said.append(f"All rates are exact: every mask was {how}.")
            said.append("Differences are then facts, and rates that are equal are said to be.")
        else:
            said.append("All explanations faced the same random order of features.")
            said.append(f"All claims hold at once with probability at least {sure(self.confidence)} over the draws.")
            said.append("Where nothing is claimed, the draws cannot tell: the two need not be equal.")
            said += [FIXED_BEFORE, NO_PROOF]
        wrong = [
            name for name, curve in zip(self.names, self.curves, strict=True) if not curve.certificates[0].consistent
        ]
        if wrong:
            first, more = self.curve(wrong[0]).certificates[0], len(wrong) - 2
            names = [few_words(name) for name in wrong[:2]] + [f"{more} more"] * (more > 0)
            said.append(f"For {listed(names)}, {unlike(first)[0]}.")
        about = scope("" if is_exact else "random masks", "these explanations of one model, input and fill")
        return paragraph(*said, took(self.n_calls), about, NOT_RIGHT)


@asks(PlanKeywords, plan="exact")
def compare(
    model: MaskedModel, explanations: Mapping[str, Any], radii: Iterable[int], **keywords: Unpack[PlanKeywords]
) -> Comparison:
    """Compare the stability of several explanations of one input, claiming only what is certified.

    All explanations face the same random order of features and the same sizes, so that their
    differences vary less than their rates. Every rate has its interval as from ``certify_radii``.
    All claims that one is more stable than another are true at once with probability at least ``confidence``,
    and so are the intervals of all differences.

    Parameters
    ----------
    explanations : mapping of str to Boolean array
        Name → selected features as in ``certify``, at least two.
    radii : iterable of int
        The radii, in any order; see ``certify`` for the other parameters.
    plan : str
        With a fixed number of draws ("exact", "hoeffding") claims come from an exact sign test on the draws on
        which two explanations disagree, and differences from exact binomial intervals for these; with "sequential"
        both come from the two rates' own intervals, which then hold all at once and decide less. Ask a smaller
        ``tolerance`` to decide more.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import compare, mask_function
    >>> model = mask_function(lambda masks: masks[:, 0] | (masks.sum(axis=1) > 12), n_features=20)
    >>> with_key, without = np.arange(20) < 4, np.arange(20) >= 16
    >>> compare(model, {"a": with_key, "b": without}, [8], rng=0).ranking(8)
    (('a', 'b'),)
    """
    procedure = Procedure.check(compare, "paired", keywords, radii=radii)
    must = "map names to Boolean masks"
    if not isinstance(explanations, Mapping):
        raise InvalidTypeError(argument="explanations", must=must, got=type(explanations).__name__)
    for name in explanations:
        if not isinstance(name, str):
            raise InvalidTypeError(argument="explanations", must=must, got=f"the name {shown(name)}, no string")
        check_label(name, "explanations")
    if len(explanations) < 2:
        raise InvalidValueError(argument="explanations", must="have at least two entries", got=len(explanations))
    with procedure.evaluating(model) as evaluator:
        before = evaluator.n_calls
        masks = {name: check_selection(mask, name, evaluator) for name, mask in explanations.items()}
        procedure = procedure.bound(evaluator, *masks.values())
        question = procedure.question
        nearby = [[question.neighborhood_of(mask, radius) for radius in question.radii] for mask in masks.values()]
        run = _run_in_sequence if question.plan == "sequential" else _run_in_pairs
        answers, n_rounds = run(nearby, question.make_plan(), evaluator, procedure)
        evaluator.settle()
        n_calls = evaluator.n_calls - before
        curves = []
        for nears, answer in zip(nearby, answers, strict=True):
            certificates = (
                make_certificate(answer.reference, near, outcome, procedure, n_calls=n_calls)
                for near, outcome in zip(nears, answer.outcomes, strict=True)
            )
            curves.append(StabilityCurve(tuple(certificates), question.plan == "sequential", n_calls, n_rounds))
        differences = tuple(_differences(list(masks), curves, answers, 1 - question.confidence))
        return Comparison(tuple(masks), tuple(curves), differences, float(question.confidence), n_calls, n_rounds)


class _Answer(NamedTuple):
    """The outcomes of one explanation by radius; ``agreed`` says draw by draw what agreed."""

    reference: Reference
    outcomes: list[Outcome]
    agreed: Sequence[Mask | None]


def _run_in_sequence(
    nearby: list[list[Neighborhood]], plan: Plan, evaluator: Evaluator, procedure: Procedure
) -> tuple[list[_Answer], int]:
    """Each rate by the sequential plan, at a share of the risk that makes all hold at once."""
    plan = share_risk(plan, sum(map(len, nearby)))
    evaluator.expect(sum(most_rows(nears, plan) for nears in nearby))
    explanations = [ExplanationDraws.by_plan(plan, nears, procedure.stream, evaluator, procedure) for nears in nearby]
    shared = SharedDraws(evaluator, procedure, explanations)
    shared.run()
    return [
        _Answer(draws.reference, [draws.outcome(near) for near in nears], [None] * len(nears))
        for draws, nears in zip(explanations, nearby, strict=True)
    ], shared.n_rounds


def _run_in_pairs(
    nearby: list[list[Neighborhood]], plan: Plan, evaluator: Evaluator, procedure: Procedure
) -> tuple[list[_Answer], int]:
    """The same rows of random bits for every explanation and radius, all evaluated together."""
    question = procedure.question
    known = procedure.structure is not None and procedure.structure.countable is not None
    references = [Reference(evaluator, nears[0].selected, procedure) if known else None for nears in nearby]
    counted = [
        [None if reference is None else reference.counted(near) for near in nears]
        for reference, nears in zip(references, nearby, strict=True)
    ]
    masks = [
        [
            reference_masks(near.selected)[:0]
            if outcome is not None
            else np.concatenate(list(near.enumerate(plan.max_draws)))
            if question.enumerates(near, plan.max_draws)
            else near.sample(plan.max_draws, _rows_for(near, procedure))
            for near, outcome in zip(nears, outcomes, strict=True)
        ]
        for nears, outcomes in zip(nearby, counted, strict=True)
    ]
    rows = [part for parts in masks for part in parts]
    evaluator.expect(sum(map(len, rows)))
    if asks_together(evaluator, question):
        references_first = (reference_masks(nears[0].selected, question.n_completions) for nears in nearby)
        evaluator(np.concatenate([*references_first, *rows]))
    answers = []
    for nears, parts, exact, known_reference in zip(nearby, masks, counted, references, strict=True):
        reference = known_reference or Reference(evaluator, nears[0].selected, procedure)
        outcomes: list[Outcome] = []
        drawn: list[Mask | None] = []
        for near, part, outcome in zip(nears, parts, exact, strict=True):
            own = None if outcome is not None or question.enumerates(near, plan.max_draws) else plan
            if own is None:
                outcomes.append(outcome or reference.enumerated(near, plan.max_draws))
                drawn.append(None)
                continue
            agreed = reference.judge(part)
            outcomes.append(Outcome(Tally(int(agreed.sum()), len(part)), own))
            drawn.append(agreed)
        answers.append(_Answer(reference, outcomes, drawn))
    return answers, 1


def _rows_for(nearby: Neighborhood, procedure: Procedure) -> np.random.Generator:
    """The same random bits for every explanation, row by row; for masks of the user's own, which may take any number
    of them, bits of each explanation: rows that share some with other rows would make no independent pairs.
    """
    if isinstance(procedure.question.neighborhood, OwnDistribution):
        return procedure.own_stream(nearby.selected, "rows")
    return procedure.stream("rows")


def risk_per_claim(risk: Fraction, n_differences: int) -> Fraction:
    """What each difference may risk in each direction, so that no claim is false at once."""
    return risk / (2 * n_differences)


def make_difference(
    name: str, rival: str, first: Certificate, second: Certificate, counts: tuple[int, int] | None, risk: Fraction
) -> Difference:
    """How far the first is above the second; ``counts`` are the draws in pairs that only one of the two survives."""
    is_paired = [certificate.design is not None and certificate.plan != "sequential" for certificate in (first, second)]
    if counts is not None:
        n, gap = first.n_evaluated, first.n_agreed - second.n_agreed
        if not all(is_paired) or counts[0] - counts[1] != gap or counts[0] > first.n_agreed or sum(counts) > n:
            raise InvalidValueError(argument="first_only", must="agree with `second_only` and the rates")
        own, rivals = (clopper_pearson(count, n, confidence=1 - risk) for count in counts)
    else:  # a certificate's own interval, or an exact binomial one for draws made in pairs
        if all(is_paired):
            raise InvalidValueError(argument="first_only", must="be given for draws made in pairs")
        own, rivals = (
            clopper_pearson(certificate.n_agreed, certificate.n_evaluated, confidence=1 - 2 * risk)
            if paired
            else certificate.interval
            for certificate, paired in zip((first, second), is_paired, strict=True)
        )
    interval = Interval(own.low - rivals.high, own.high - rivals.low)
    estimate = (first.rate_unbiased or 0.0) - (second.rate_unbiased or 0.0)
    only = (None, None) if counts is None else counts
    return Difference(name, rival, first.radius, estimate, interval, only[0], only[1], float(risk))


def _differences(
    names: list[str], curves: list[StabilityCurve], answers: list[_Answer], risk: Fraction
) -> Iterator[Difference]:
    """All pairs at all radii, sharing the risk equally."""
    pairs = list(combinations(range(len(names)), 2))
    each = risk_per_claim(risk, len(pairs) * len(curves[0]))
    for a, b in pairs:
        for i in range(len(curves[0])):
            kept, other = answers[a].agreed[i], answers[b].agreed[i]
            counts = None
            if kept is not None and other is not None:
                counts = int((kept & ~other).sum()), int((~kept & other).sum())
            first, second = curves[a].certificates[i], curves[b].certificates[i]
            yield make_difference(names[a], names[b], first, second, counts, each)
