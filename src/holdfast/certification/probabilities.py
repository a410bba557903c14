"""A masked model, an explanation and many probabilities → a curve over how likely other features are revealed."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Unpack

from holdfast.certification.certificate import make_certificate
from holdfast.certification.curve import CertificateCurve
from holdfast.certification.question import PlanKeywords, Procedure, asks
from holdfast.certification.shared_draws import ExplanationDraws, SharedDraws
from holdfast.distributions.distribution import Bernoulli, as_neighborhood
from holdfast.errors import InvalidValueError
from holdfast.plans import most_rows, share_risk
from holdfast.types import MaskedModel
from holdfast.validation import MOST_ENTRIES, check_list, check_number, check_whole, shown


@dataclass(frozen=True, eq=False)
class ProbabilityCurve(CertificateCurve, schema="holdfast.probability_curve"):
    """Stability rates over the probability that each other feature is revealed, from shared model calls.

    If ``simultaneous``, all intervals contain their true rates at once with probability at least ``confidence``. If
    not, each has that probability on its own, and a reader who picks one after seeing the curve has no guarantee.

    Attributes
    ----------
    certificates : tuple of Certificate
        One ``Certificate`` per probability asked for, in increasing order. Their ``n_calls`` is that of the whole
        curve.
    n_calls : int
        Rows the model computed for the whole curve.
    n_rounds : int
        How many times masks were sent to the model together.
    """

    unit, units = "probability", "probabilities"

    def check(self) -> None:
        """Raise if the certificates are not one curve."""
        distributions = [as_neighborhood(certificate.neighborhood) for certificate in self]
        if not all(isinstance(distribution, Bernoulli) and distribution.rings for distribution in distributions):
            raise InvalidValueError(argument="certificates", must="reveal each feature with one probability")
        super().check()
        if len({certificate.radius for certificate in self}) > 1:
            raise InvalidValueError(argument="certificates", must="have one radius")

    @property
    def probabilities(self) -> tuple[float, ...]:
        """The probabilities asked for."""
        return tuple(json.loads(cert.neighborhood.removeprefix("bernoulli(").removesuffix(")")) for cert in self)

    @property
    def places(self) -> tuple[float, ...]:
        """The probabilities asked for."""
        return self.probabilities

    @property
    def _doing(self) -> list[str]:
        first = self.certificates[0]
        most = f" (at most {first.radius})" if first.radius < int((~first.selected).sum()) else ""
        drawn = "" if first.n_completions is None else " with random fills"
        return [f"revealing each other feature with this probability{most}{drawn}", f"drawing by it{most}{drawn}"]

    def to_frame(self) -> Any:
        """The curve as a pandas ``DataFrame``, one row per certificate, with its probability."""
        frame = super().to_frame()
        frame.insert(0, "probability", self.probabilities)
        return frame


@asks(PlanKeywords)
def certify_probabilities(
    model: MaskedModel,
    selected: Any,
    *,
    probabilities: Iterable[float],
    radius: int | None = None,
    simultaneous: bool = False,
    **keywords: Unpack[PlanKeywords],
) -> ProbabilityCurve:
    """Certify how often the prediction survives when each other feature is revealed with a probability, for many.

    Each probability keeps the guarantee of ``certify`` with ``neighborhood=Bernoulli(probability)``: its draws are
    independent, of its own distribution, and do not depend on which others are asked for. Masks of the same size are
    shared.

    Parameters
    ----------
    probabilities : iterable of float
        From 0 to 1, in any order.
    radius : int, optional
        Most features to be revealed; see ``certify`` for the other parameters.
    simultaneous : bool
        All intervals hold at once with probability ``confidence``: each at its share of the risk.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import certify_probabilities, mask_function
    >>> model = mask_function(lambda masks: masks[:, 0] & ~masks[:, 19], n_features=20)
    >>> curve = certify_probabilities(model, np.arange(20) < 4, probabilities=[0, 0.1, 0.5], rng=0)
    >>> curve[0].rate, curve[0.1].holds(0.7)
    (1.0, True)
    """
    must = "be numbers from 0 to 1, at least one"
    numbers = check_list(probabilities, "probabilities", must, most=MOST_ENTRIES)
    for number in numbers:
        check_number(number, "probabilities", must, lambda p: 0 <= p <= 1)
    if not numbers:
        raise InvalidValueError(argument="probabilities", must=must, got="none")
    if "neighborhood" in keywords:
        must = "be left out: it is that of the probabilities"
        raise InvalidValueError(argument="neighborhood", must=must, got=shown(keywords["neighborhood"]))
    distributions = sorted({Bernoulli(number) for number in numbers}, key=lambda distribution: distribution.probability)
    limit = None if radius is None else check_whole(radius, "radius")
    fixed = {"radii": [0], "simultaneous": simultaneous, "neighborhood": distributions[0]}
    procedure = Procedure.check(certify_probabilities, "pooled", keywords, **fixed)
    with procedure.about(model, selected) as (evaluator, mask, procedure):
        nearby = [procedure.of(distribution).question.neighborhood_of(mask, limit) for distribution in distributions]
        plan = procedure.question.make_plan()
        plan = share_risk(plan, len(nearby)) if simultaneous else plan
        before = evaluator.n_calls
        evaluator.expect(most_rows(nearby, plan))
        streams = partial(procedure.own_stream, mask)
        draws = ExplanationDraws.by_plan(plan, nearby, streams, evaluator, procedure, many_distributions=True)
        shared = SharedDraws(evaluator, procedure, [draws])
        shared.run()
        evaluator.settle()
        n_calls = evaluator.n_calls - before
        certificates = tuple(
            make_certificate(draws.reference, near, draws.outcome(near), procedure.of(distribution), n_calls=n_calls)
            for distribution, near in zip(distributions, nearby, strict=True)
        )
        return ProbabilityCurve(certificates, simultaneous, n_calls, shared.n_rounds)
