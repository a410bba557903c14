"""A study → its items, model calls and time, before anything runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from statistics import median_low
from typing import ClassVar, NamedTuple

import numpy as np

from holdfast.attribution.methods import GRADIENT_METHODS
from holdfast.bounds import hoeffding_draws
from holdfast.certification.serialization import Value
from holdfast.study.costs import Calls, attribution_calls, mean_calls, most_masks, try_curve, try_witness, witness_calls
from holdfast.study.items import items_of
from holdfast.study.probing import Probe, probe_study
from holdfast.study.spec import StudySpec, check_spec
from holdfast.types import Mask
from holdfast.validation import check_flag, check_share
from holdfast.words import duration

WITNESSES = "witnesses"

_ROWS_PER_INPUT = 2
"""The full input, and a row that is repeated to see whether the model changes its mind."""


@dataclass(frozen=True, eq=False)
class PlannedCost(Value):
    """Model calls of one part of a study over all inputs, and the time they take if it was measured."""

    name: str
    expected_calls: float
    most_calls: int
    seconds: float | None
    most_seconds: float | None

    schema: ClassVar[str] = "holdfast.planned_cost"


@dataclass(frozen=True, eq=False)
class StudyPlan(Value):
    """What a study will cost.

    Calls are counted for inputs with the usual number of features, as seen on a few. ``expected``
    assumes that predictions are kept at ``assumed_rate`` and that integrated gradients need no
    refinement. Certificates of true rates near one half cost most, and searches for witnesses that find
    none. Time is that of one worker.

    Attributes
    ----------
    n_inputs, n_items : int
        Inputs, and items: inputs × methods × fractions × keep probabilities.
    n_features : int
        The usual number of features, of ``n_looked_at`` inputs; ``n_skipped`` of these would be left out.
    costs : tuple of PlannedCost
        One per explanation method, then certification, hard certificates and witnesses.
    paper_calls : int
        What certification takes with the paper's number of draws for every item and radius.
    seconds_per_call : float or None
        Measured on one input; None if it was not to be measured.
    """

    name: str
    n_inputs: int
    n_items: int
    n_features: int
    n_looked_at: int
    n_skipped: int
    assumed_rate: float
    precision: str
    costs: tuple[PlannedCost, ...]
    paper_calls: int
    seconds_per_call: float | None

    schema: ClassVar[str] = "holdfast.study_plan"

    @property
    def expected_calls(self) -> float:
        """Model calls of the whole study, as expected."""
        return sum(cost.expected_calls for cost in self.costs)

    @property
    def most_calls(self) -> int:
        """The most model calls of the whole study."""
        return sum(cost.most_calls for cost in self.costs)

    @property
    def seconds(self) -> float | None:
        """Expected time of one worker, if calls were timed."""
        return _sum(cost.seconds for cost in self.costs)

    @property
    def most_seconds(self) -> float | None:
        """The most time of one worker, if calls were timed."""
        return _sum(cost.most_seconds for cost in self.costs)

    def __str__(self) -> str:
        return "\n".join([*self._head(), *self._table(), *self._foot()])

    def _head(self) -> Iterator[str]:
        yield f"{self.name}: {self.n_items:,} items of {self.n_inputs:,} inputs with about {self.n_features} features"
        if self.n_skipped:
            yield f"{self.n_skipped} of {self.n_looked_at} inputs that were looked at would be left out."

    def _table(self) -> Iterator[str]:
        width = max(len(cost.name) for cost in self.costs)
        yield f"{'model calls':<{width}}  {'expected':>14}  {'at most':>14}"
        for cost in self.costs:
            yield f"{cost.name:<{width}}  {cost.expected_calls:>14,.0f}  {cost.most_calls:>14,}"
        yield f"{'all':<{width}}  {self.expected_calls:>14,.0f}  {self.most_calls:>14,}"

    def _foot(self) -> Iterator[str]:
        paper = f"the paper's number of draws would be {self.paper_calls:,}"
        yield f"Expected for certification if predictions are kept at a rate of {self.assumed_rate:g}; {paper}."
        if any(cost.name == WITNESSES for cost in self.costs):
            yield "A search for a witness that finds none takes its whole budget, which is counted in “at most”."
        if self.seconds is not None and self.most_seconds is not None and self.seconds_per_call is not None:
            each = f"{1000 * self.seconds_per_call:.3g} ms per call, measured on one input"
            about, most = (duration(max(1.0, seconds)) for seconds in (self.seconds, self.most_seconds))
            yield f"About {about} with one worker, at most {most} ({each})."


def plan_study(spec: StudySpec, *, timed: bool = True, assumed_rate: float = 0.9) -> StudyPlan:
    """Tell how many items and model calls a study has, and about how long it will take.

    The model and the data are loaded and a few inputs are bound. Nothing is explained or certified; if
    ``timed``, the model is called on random masks of one input for about a second.

    Parameters
    ----------
    spec : StudySpec
        The study.
    timed : bool
        Whether to measure how long a model call takes.
    assumed_rate : float
        The true stability rate that expected calls are told for.

    Returns
    -------
    StudyPlan
        Items, calls and seconds; printing it gives a table.
    """
    rate = float(check_share(assumed_rate, "assumed_rate"))
    probe = probe_study(check_spec(spec), timed=check_flag(timed, "timed"))
    n_features = median_low(probe.n_features)
    certifying = _certification if spec.certify.precision == "per-input" else _means
    rest = certifying(spec, n_features, rate, probe)
    n_items = sum(1 for _ in items_of(spec, range(probe.n_inputs)))
    draws = hoeffding_draws(Fraction(str(spec.certify.tolerance)), Fraction(str(spec.certify.confidence)))
    return StudyPlan(
        name=spec.name,
        n_inputs=probe.n_inputs,
        n_items=n_items,
        n_features=n_features,
        n_looked_at=len(probe.n_features) + probe.n_skipped,
        n_skipped=probe.n_skipped,
        assumed_rate=rate,
        precision=spec.certify.precision,
        costs=(*_attribution(spec, n_features, probe), *rest),
        paper_calls=draws * len(spec.certify.radii) * n_items,
        seconds_per_call=probe.seconds_per_call,
    )


def _attribution(spec: StudySpec, n_features: int, probe: Probe) -> Iterator[PlannedCost]:
    for method in spec.methods:
        per_call = probe.seconds_per_gradient if method.name in GRADIENT_METHODS else probe.seconds_per_call
        yield _cost(method.name, attribution_calls(method, n_features).times(probe.n_inputs), per_call)


class _Setting(NamedTuple):
    """One fraction and one keep probability."""

    selected: Mask
    keep: float


def _certification(spec: StudySpec, n_features: int, rate: float, probe: Probe) -> Iterator[PlannedCost]:
    """Certificates of all items, then hard certificates and witnesses if they are asked for."""
    n_explanations = probe.n_inputs * len(spec.methods)
    sizes = [int(Fraction(str(fraction)) * n_features) for fraction in spec.top_fractions]
    masks = [np.arange(n_features) < size for size in sizes]
    settings = [_Setting(mask, keep) for mask, keep in product(masks, spec.smoothing.keep_probabilities)]
    curves, overhead = _curves(spec, settings, rate)
    own = Calls(_ROWS_PER_INPUT, _ROWS_PER_INPUT).times(probe.n_inputs)
    calls = curves.times(n_explanations)
    total = Calls(calls.expected + own.expected, calls.most + own.most)
    yield _cost("certification", total, probe.seconds_per_small_call, overhead * n_explanations)
    n_items = n_explanations * len(settings)
    if n_hard := len(spec.mus.keep_probabilities):
        levels = spec.mus.n_levels
        at_most = 2 * levels * n_hard * n_items
        # Votes on the full input are the same for all items of an input.
        shared = min(at_most, levels * n_hard * (n_explanations * len(masks) + probe.n_inputs))
        yield _cost("hard certificates", Calls(shared, at_most), probe.seconds_per_call)
    if spec.witness:
        searches = [_witness(spec, setting, rate) for setting in settings]
        each = Calls(sum(one.expected for one in searches), sum(one.most for one in searches))
        yield _cost(WITNESSES, each.times(n_explanations), probe.seconds_per_call)


def _means(spec: StudySpec, n_features: int, rate: float, probe: Probe) -> Iterator[PlannedCost]:
    """The mean curves of all methods, fractions and keep probabilities."""
    expected, most = 0.0, 0
    for fraction, keep in product(spec.top_fractions, spec.smoothing.keep_probabilities):
        selected = np.arange(n_features) < int(Fraction(str(fraction)) * n_features)
        rows = 1 if keep == 1 else spec.smoothing.n_samples
        one = mean_calls(spec.certify, selected, n_inputs=probe.n_inputs, rate=rate, rows=rows)
        expected, most = expected + one.expected * len(spec.methods), most + one.most * len(spec.methods)
    own = _ROWS_PER_INPUT * probe.n_inputs
    yield _cost("mean curves", Calls(expected + own, most + own), probe.seconds_per_call)


def _curves(spec: StudySpec, settings: list[_Setting], rate: float) -> tuple[Calls, float]:
    """Calls of the curves of one explanation, and the seconds they take beside the model."""
    expected, most, seconds = 0, 0, 0.0
    for setting in settings:
        trial = try_curve(spec.certify, spec.smoothing, setting.selected, keep=setting.keep, rate=rate)
        rows = 1 if setting.keep == 1 else spec.smoothing.n_samples
        expected += trial.n_calls
        seconds += trial.seconds
        most += rows * most_masks(spec.certify, setting.selected)
    return Calls(expected, most), seconds


def _witness(spec: StudySpec, setting: _Setting, rate: float) -> Calls:
    rows = 1 if setting.keep == 1 else spec.smoothing.n_samples
    most = witness_calls(int((~setting.selected).sum()), rows)
    expected = try_witness(spec.smoothing, setting.selected, keep=setting.keep, rate=rate)
    return Calls(min(expected, most), most)


def _cost(name: str, calls: Calls, per_call: float | None, overhead: float = 0.0) -> PlannedCost:
    expected, most = (None if per_call is None else n * per_call + overhead for n in calls)
    return PlannedCost(name, float(calls.expected), int(calls.most), expected, most)


def _sum(values: Iterator[float | None]) -> float | None:
    known = list(values)
    return None if None in known else float(sum(value for value in known if value is not None))
