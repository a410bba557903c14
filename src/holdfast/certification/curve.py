"""A masked model, an explanation and many radii → a stability curve from shared model calls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from holdfast.bounds import Interval
from holdfast.certification.pooling import PooledSubject, run_pooled
from holdfast.certification.single import worst_of
from holdfast.certification.subject import Outcome, Settings, make_certificate
from holdfast.errors import InvalidValueError
from holdfast.evaluation import Evaluator, evaluating
from holdfast.neighborhood import NEIGHBORHOODS, Neighborhood
from holdfast.plans import Plan, parts_of, plan_for, share_risk
from holdfast.results.certificate import Certificate
from holdfast.results.curve import StabilityCurve
from holdfast.types import Mask, MaskedModel, Progress, Rng
from holdfast.validation import MOST_ENTRIES, check_flag, check_list, check_selection, check_whole

_FLOAT_SLACK = 1e-12


def certify_radii(
    model: MaskedModel,
    selected: Any,
    *,
    radii: Iterable[int],
    tolerance: float = 0.1,
    confidence: float = 0.9,
    plan: str = "sequential",
    agree: Any = "same_top_class",
    neighborhood: str = "additions",
    rate_kind: str = "uniform",
    simultaneous: bool = False,
    batch_size: int | None = None,
    progress: Progress | bool | None = None,
    check_determinism: bool = True,
    rng: Rng = None,
) -> StabilityCurve:
    """Certify the stability rate at many radii, from model calls that the radii share.

    Each radius keeps the guarantee of ``certify``: its draws are independent and uniform on its own
    neighbourhood and do not depend on which other radii are asked for, and it stops on its own
    counts. With ``simultaneous=True`` all intervals hold at once with probability ``confidence`` (each
    radius at an R-th of the risk, R the number of distinct radii, then tightened by what
    neighbouring radii imply); without, each holds on its own. A ``worst_size`` curve always holds
    as a whole.

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
    asked = check_radii(radii)
    check_flag(simultaneous, "simultaneous")
    settings = Settings.check(
        "pooled",
        tolerance=tolerance,
        confidence=confidence,
        neighborhood=neighborhood,
        agree=agree,
        check_determinism=check_determinism,
        rng=rng,
        plan=plan,
        rate_kind=rate_kind,
    )
    with evaluating(model, batch_size=batch_size, progress=progress) as evaluator:
        mask = check_selection(selected, "selected", evaluator)
        settings = settings.keyed(evaluator.provenance, mask)
        nearby = [NEIGHBORHOODS[neighborhood](mask, radius) for radius in asked]
        made = settings.make_plan()
        if rate_kind == "worst_size":
            return _worst_size_curve(evaluator, mask, nearby, made, settings)
        distinct = {one.effective_radius: one for one in nearby}
        if simultaneous:
            made = share_risk(made, len(distinct))
        if rate_kind == "exactly":
            distinct = {r: one.exactly(r) for r, one in distinct.items()}
        run = _Run(evaluator, mask, list(distinct.values()), made, settings)
        outcomes = [run.pooled.outcome(distinct[one.effective_radius]) for one in nearby]
        curve = run.curve(nearby, outcomes, simultaneous=simultaneous)
        return _tightened(curve, nearby) if simultaneous and rate_kind == "uniform" else curve


def check_radii(radii: Any) -> list[int]:
    """Distinct whole numbers in increasing order, at least one."""
    given = check_list(radii, "radii", "be whole numbers such as range(1, 11)", most=MOST_ENTRIES)
    asked = sorted({check_whole(radius, "radii") for radius in given})
    if not asked:
        raise InvalidValueError("`radii` must name at least one radius, got none.")
    return asked


class _Run:
    """Pooled answers about several neighbourhoods of one explanation."""

    def __init__(
        self, evaluator: Evaluator, mask: Mask, nearby: Sequence[Neighborhood], plan: Plan, settings: Settings
    ) -> None:
        self._evaluator, self._settings, self._before = evaluator, settings, evaluator.n_calls
        self.pooled = PooledSubject(mask, nearby, plan, lambda purpose: settings.own_stream(mask, purpose))
        self._n_rounds = run_pooled([self.pooled], evaluator, settings)

    def curve(
        self, nearby: Sequence[Neighborhood], outcomes: Sequence[Outcome], *, simultaneous: bool
    ) -> StabilityCurve:
        self._evaluator.settle()
        n_calls = self._evaluator.n_calls - self._before
        certificates = tuple(
            make_certificate(self.pooled.subject, one, outcome, self._settings, n_calls=n_calls)
            for one, outcome in zip(nearby, outcomes, strict=True)
        )
        return StabilityCurve(certificates, simultaneous, n_calls, self._n_rounds)


def _worst_size_curve(
    evaluator: Evaluator, mask: Mask, nearby: Sequence[Neighborhood], plan: Plan, settings: Settings
) -> StabilityCurve:
    """Certify every size once, all at once; each radius then takes the worst of its sizes."""
    rings = parts_of(nearby[-1], "worst_size")
    run = _Run(evaluator, mask, rings, plan_for(rings, plan), settings)
    by_size = [run.pooled.outcome(ring) for ring in rings]
    outcomes = [worst_of(by_size[: one.effective_radius + 1]) for one in nearby]
    return run.curve(nearby, outcomes, simultaneous=True)


def _tightened(curve: StabilityCurve, nearby: Sequence[Neighborhood]) -> StabilityCurve:
    """Use that the masks within r are among those within r′ > r, a share ρ of them.

    Hence ρ τ_r ≤ τ_r′ ≤ ρ τ_r + 1 - ρ. All intervals hold at once, so what they imply for each
    other holds as well. Going up and down the radii once carries every implication along.
    """
    intervals = [one.interval for one in curve]
    shares = [small.size / large.size for small, large in pairwise(nearby)]
    for i, share in enumerate(shares):
        intervals[i + 1] = _meet(intervals[i + 1], share * intervals[i].low, share * intervals[i].high + 1 - share)
    for i, share in reversed(list(enumerate(shares))):
        low, high = intervals[i + 1]
        if share > 0:
            intervals[i] = _meet(intervals[i], 1 - (1 - low) / share, high / share)
    pairs = zip(curve, intervals, strict=True)
    return replace(curve, certificates=tuple(_with_interval(one, interval) for one, interval in pairs))


def _meet(interval: Interval, low: float, high: float) -> Interval:
    """The common part; the interval itself if there is none (some interval has missed) or it is a point."""
    met = Interval(max(interval.low, low - _FLOAT_SLACK), min(interval.high, high + _FLOAT_SLACK))
    return met if met.low <= met.high and interval.low < interval.high else interval


def _with_interval(certificate: Certificate, interval: Interval) -> Certificate:
    return certificate if interval == certificate.interval else replace(certificate, interval=interval)
