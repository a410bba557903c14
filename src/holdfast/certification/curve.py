"""A masked model, an explanation and many radii → a stability curve from shared model calls."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar, Unpack

from holdfast.bounds import Interval
from holdfast.certification.certificate import Certificate, make_certificate
from holdfast.certification.question import Procedure, RateKeywords, asks
from holdfast.certification.reference import worst_of
from holdfast.certification.serialization import Value, make_frame
from holdfast.certification.shared_draws import ExplanationDraws, SharedDraws
from holdfast.distributions.distribution import UNEQUAL
from holdfast.errors import InvalidValueError
from holdfast.neighborhood import Neighborhood, share_of_masks
from holdfast.plans import WORST, is_valid_design, most_rows, parts_of, share_risk
from holdfast.plans.search import Goal
from holdfast.terminal import Plotted
from holdfast.types import MaskedModel
from holdfast.validation import shown
from holdfast.words import (
    MOST_READABLE,
    NO_PROOF,
    ON_ITS_OWN,
    bracket,
    but_unlike,
    counted,
    fitted,
    keeps,
    paragraph,
    proof_label,
    share_of,
    sure,
    terms,
)

_FLOAT_SLACK = 1e-12
_BARS = "▁▂▃▄▅▆▇█"
_MOST_ROWS = 24


@dataclass(frozen=True, eq=False)
class CertificateCurve(Plotted, Value):
    """Certificates of one explanation that share model calls, in the order of what they differ in."""

    unit: ClassVar[str]
    units: ClassVar[str]
    """What they differ in, one of it and several."""

    certificates: tuple[Certificate, ...]
    simultaneous: bool
    n_calls: int
    n_rounds: int

    def check(self) -> None:
        """Raise if the certificates are not one curve."""
        if not self.certificates:
            raise InvalidValueError(argument="certificates", must="not be empty")
        for certificate in self:
            certificate.check()
        questions = {(cert.rng_key, cert.tolerance, cert.confidence, cert.rate_kind) for cert in self}
        if len(questions) > 1 or list(self.places) != sorted(set(self.places)):
            raise InvalidValueError(argument="certificates", must=f"answer one question at increasing {self.units}")
        designs = [certificate.design for certificate in self if certificate.design is not None]
        if len(set(designs)) > 1:
            raise InvalidValueError(argument="design", must=f"be the same at every {self.unit}")
        risk = (1 - Fraction(str(self.certificates[0].confidence))) / (max(1, len(designs)) if self.simultaneous else 1)
        goal = Goal(Fraction(str(self.certificates[0].tolerance)), risk)
        if not all(is_valid_design(design, goal) for design in set(designs)):
            raise InvalidValueError(argument="design", must=f"be proven for the risk that each {self.unit} has")

    @property
    @abstractmethod
    def places(self) -> tuple[float, ...]:
        """The radii or probabilities asked for."""

    @property
    def rates(self) -> tuple[float, ...]:
        """The rate at each of them."""
        return tuple(certificate.rate for certificate in self)

    def __iter__(self) -> Iterator[Certificate]:
        return iter(self.certificates)

    def __len__(self) -> int:
        return len(self.certificates)

    def __getitem__(self, place: float) -> Certificate:
        """The certificate of one radius or probability."""
        if place in self.places:
            return self.certificates[self.places.index(place)]
        must = f"be one of {', '.join(map(str, self.places))}"
        raise InvalidValueError(argument=self.unit, must=must, got=shown(place))

    def to_frame(self) -> Any:
        """The curve as a pandas ``DataFrame``, one row per certificate."""
        left_out = ("interval", "design", "selected", "counterexample")
        names = [field.name for field in fields(Certificate) if field.name not in left_out]
        return make_frame([{name: getattr(cert, name) for name in names} | cert.interval._asdict() for cert in self])

    @property
    def scope(self) -> str:
        """Whether the guarantee is about the whole curve, in words."""
        return f"for all {self.units} at once" if self.simultaneous else f"for each {self.unit}"

    @property
    @abstractmethod
    def _doing(self) -> list[str]:
        """What is done at each radius or probability, in several lengths."""

    @property
    def sentence(self) -> str:
        """What the curve says of its last point; which one is said is fixed before any result is seen."""
        last = self.certificates[-1]
        share, known = last.stability
        drawn = next((certificate for certificate in self if not certificate.exact), None)
        if drawn is not None:
            known = f"{drawn.stability[1]} {self.scope}"
        at = f" at {self.unit} {self.places[-1]:g}"
        known = known and f" ({known})"
        return fitted(
            "Stable in {share}: {doing} {keeps}{but}.",
            doing=self._doing,
            share=[
                share + at + known,
                share.replace(" of cases", "") + at + known.replace(f"for each {self.unit}", "each"),
            ],
            but=but_unlike(last),
            keeps=keeps("keeps" if last.exact else "kept", last),
        )

    def explain(self) -> str:
        """What was asked, what is guaranteed and what is not, in plain words."""
        last, n_drawn = self.certificates[-1], sum(not certificate.exact for certificate in self)
        places = f"one {self.unit}" if len(self) == 1 else f"{len(self)} {self.units}"
        said = [f"How often does {self._doing[0]} {keeps('keep', last)[0]}, at {places}?"]
        if n_drawn:
            together = "each interval contains its true rate"
            if self.simultaneous:
                together = "all intervals contain their true rates at once"
            said.append(f"Over the draws, {together} with probability at least {sure(last.confidence)}.")
            said += ["" if self.simultaneous else ON_ITS_OWN, NO_PROOF]
        if n_drawn < len(self):
            which, n_exact = "All rates are exact", len(self) - n_drawn
            if n_drawn:
                which = f"{counted(n_exact, 'rate')} {'is' if n_exact == 1 else 'are'} exact"
            proof = next((certificate.proof for certificate in self if certificate.proof), None)
            how = "every mask was evaluated" if proof is None else f"masks were counted by {proof_label(proof)}"
            said.append(f"{which}; {how}.")
        if last.judge_errors is not None:
            below, above = last.judge_errors.upper_false_yes, last.judge_errors.upper_false_no
            joint = sure(min(certificate.true_confidence for certificate in self))
            said.append(f"The judge's errors of -{below:.3f} and +{above:.3f} are included, at {joint} confidence.")
        return paragraph(*said, terms(last, rate=last.rate, drawn=n_drawn > 0))

    def __str__(self) -> str:
        unit = self.unit
        step = -(-len(self) // _MOST_ROWS)
        rows = [f"  (every {step}{'nd' if step == 2 else 'rd' if step == 3 else 'th'} {unit})"] if step > 1 else []
        for place, cert in list(zip(self.places, self, strict=True))[::-step][::-1]:
            counts = f"{cert.n_agreed:>6}/{cert.n_evaluated:<6}"
            if cert.n_evaluated >= MOST_READABLE:
                counts = f"   {share_of(cert.n_agreed, cert.n_evaluated)}"
            if _is_weighed(cert):
                counts = " " * (0 if all(map(_is_weighed, self)) else 13)
            counts += " exact" if cert.exact else ""
            rows.append(
                f"{place:>{max(7, len(unit))}}  {cert.rate:6.3f}  {bracket(cert.true_interval):<16}  {counts}".rstrip()
            )
        of = "masks" if all(cert.exact for cert in self) else "drawn"
        title = f"{unit:>7}    rate  interval"
        title += "" if all(map(_is_weighed, self)) else f"          agreed/{of}"
        return "\n".join([self.sentence, sparkline(self.rates), title, *rows])


@dataclass(frozen=True, eq=False)
class StabilityCurve(CertificateCurve, schema="holdfast.stability_curve"):
    """Stability rates over radii, from shared model calls.

    If ``simultaneous``, all intervals contain their true rates at once with probability at least
    ``confidence``; the curve may be read as a whole. If not, each radius has that probability on
    its own, and a reader who picks a radius after seeing the curve has no guarantee.

    Attributes
    ----------
    certificates : tuple of Certificate
        One ``Certificate`` per radius asked for, by increasing radius. Their ``n_calls``
        is that of the whole curve.
    n_calls : int
        Rows the model computed for the whole curve.
    n_rounds : int
        How many times masks were sent to the model together.
    """

    unit, units = "radius", "radii"

    @property
    def radii(self) -> tuple[int, ...]:
        """The radii asked for."""
        return tuple(certificate.radius for certificate in self)

    @property
    def places(self) -> tuple[int, ...]:
        """The radii asked for."""
        return self.radii

    @property
    def _doing(self) -> list[str]:
        last = self.certificates[-1]
        return last.changes("r", last.rate_kind)


def _is_weighed(certificate: Certificate) -> bool:
    """Whether every mask counted by its probability: then how many agreed says little."""
    return certificate.exact and certificate.neighborhood.startswith(UNEQUAL)


def sparkline(rates: tuple[float, ...]) -> str:
    """Rates in [0, 1] as a row of bars, such as ▁▅█ for 0, 0.5 and 1."""
    return "".join(_BARS[min(len(_BARS) - 1, int(rate * len(_BARS)))] for rate in rates)


@asks(RateKeywords)
def certify_radii(
    model: MaskedModel,
    selected: Any,
    *,
    radii: Iterable[int],
    simultaneous: bool = False,
    **keywords: Unpack[RateKeywords],
) -> StabilityCurve:
    """Certify the stability rate at many radii, from model calls that the radii share.

    Each radius keeps the guarantee of ``certify``: its draws are independent and uniform on its own
    neighbourhood and do not depend on which other radii are asked for, and it stops on its own
    counts. With ``simultaneous=True`` all intervals hold at once with probability ``confidence`` (each
    radius at an R-th of the risk, R the number of distinct radii, then tightened by what
    neighbouring radii imply); without, each holds on its own. A ``worst_size`` curve always holds
    as a whole; one of ``worst_size_lower`` only with ``simultaneous=True``.

    Parameters
    ----------
    radii : iterable of int
        The radii, in any order; see ``certify`` for the other parameters.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import certify_radii, mask_function
    >>> model = mask_function(lambda masks: masks[:, 0] | (masks.sum(axis=1) > 15), n_features=20)
    >>> curve = certify_radii(model, np.arange(20) < 4, radii=range(1, 17), rng=0)
    >>> curve[16].rate, curve.n_calls < 16 * 150
    (1.0, True)
    """
    procedure = Procedure.check(certify_radii, "pooled", keywords, radii=radii, simultaneous=simultaneous)
    with procedure.about(model, selected) as (evaluator, mask, procedure):
        question = procedure.question
        nearby = [question.neighborhood_of(mask, radius) for radius in question.radii]
        plan = question.make_plan()
        sampled = {near.effective_radius: near for near in nearby}
        together = question.rate_kind == "worst_size"
        plan = share_risk(plan, len(sampled)) if simultaneous and not together else plan
        if question.rate_kind in WORST:  # every size is certified once; each radius takes the worst of its sizes
            sampled = dict(enumerate(parts_of(nearby[-1], question.rate_kind)))
            plan = question.plan_for(sampled.values(), plan)
        else:
            if question.rate_kind == "exactly":
                sampled = {radius: near.exactly(radius) for radius, near in sampled.items()}
        before = evaluator.n_calls
        evaluator.expect(most_rows(sampled.values(), plan))
        streams = partial(procedure.own_stream, mask)
        draws = ExplanationDraws.by_plan(plan, list(sampled.values()), streams, evaluator, procedure)
        shared = SharedDraws(evaluator, procedure, [draws])
        shared.run()
        outcomes = {radius: draws.outcome(near) for radius, near in sampled.items()}
        if question.rate_kind in WORST:
            outcomes = {radius: worst_of([outcomes[size] for size in range(radius + 1)]) for radius in outcomes}
        evaluator.settle()
        n_calls = evaluator.n_calls - before
        certificates = tuple(
            make_certificate(draws.reference, near, outcomes[near.effective_radius], procedure, n_calls=n_calls)
            for near in nearby
        )
        curve = StabilityCurve(certificates, simultaneous or together, n_calls, shared.n_rounds)
        nested = question.rate_kind == "uniform" and all(near.is_uniform for near in nearby)
        return _tightened(curve, nearby) if simultaneous and nested else curve


def _tightened(curve: StabilityCurve, nearby: Sequence[Neighborhood]) -> StabilityCurve:
    """Use that the masks within r are among those within r′ > r, a share ρ of them.

    Hence ρ τ_r ≤ τ_r′ ≤ ρ τ_r + 1 - ρ. All intervals hold at once, so what they imply for each
    other holds as well. Going up and down the radii once carries every implication along.
    """
    intervals = [certificate.interval for certificate in curve]
    shares = [share_of_masks(small, large) for small, large in pairwise(nearby)]
    for i, share in enumerate(shares):
        intervals[i + 1] = _meet(intervals[i + 1], share * intervals[i].low, share * intervals[i].high + 1 - share)
    for i, share in reversed(list(enumerate(shares))):
        low, high = intervals[i + 1]
        if share > 0:
            intervals[i] = _meet(intervals[i], 1 - (1 - low) / share, high / share)
    certificates = (replace(certificate, interval=met) for certificate, met in zip(curve, intervals, strict=True))
    return replace(curve, certificates=tuple(certificates))


def _meet(interval: Interval, low: float, high: float) -> Interval:
    """The common part; the interval itself if there is none (some interval has missed) or it is a point."""
    met = Interval(max(interval.low, low - _FLOAT_SLACK), min(interval.high, high + _FLOAT_SLACK))
    return met if met.low <= met.high and interval.low < interval.high else interval
