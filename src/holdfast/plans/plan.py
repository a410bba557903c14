"""A plan's name, tolerance and confidence → its design and what it will cost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from holdfast.bounds import hoeffding_draws
from holdfast.completions import nearby_rows
from holdfast.distributions.distribution import as_neighborhood
from holdfast.errors import InvalidValueError
from holdfast.neighborhood import NEIGHBORHOODS, Neighborhood
from holdfast.plans.catalog import DIVISORS, find_design
from holdfast.plans.design import Design
from holdfast.plans.search import Goal, fixed_design
from holdfast.terminal import Shown, as_progress, watching_search
from holdfast.types import Progress
from holdfast.validation import check_name, check_share, check_whole
from holdfast.words import paragraph, sure

PLANS = ("sequential", "exact", "hoeffding")
RATE_KINDS = ("uniform", "exactly", "worst_size", "worst_size_lower")
WORST = RATE_KINDS[2:]
"""The smallest rate over sizes, with an interval around it, or bounded from below alone."""

SMALLEST_SEARCHED_TOLERANCE = Fraction(1, 200)
SMALLEST_SEARCHED_RISK = Fraction(1, 10**7)

_MOST_PROVEN_DRAWS = 50_000
_MOST_SEARCHED_DRAWS = {"sequential": 40_000, "exact": 100_000}
"""Draws that the paper takes for the finest goals that are searched: two minutes of one core, more elsewhere."""
_SHOWN_RATES = (1.0, 0.98, 0.95, 0.9, 0.8, 0.5)


@dataclass(frozen=True)
class Plan:
    """When to look and stop so that the rate is within ``tolerance`` at ``confidence``."""

    name: str
    tolerance: Fraction
    confidence: Fraction
    design: Design

    @property
    def max_draws(self) -> int:
        """The most draws a run can take."""
        return self.design.max_draws


@lru_cache(maxsize=256)
def is_valid_design(design: Design, goal: Goal) -> bool:
    """Whether the design keeps the goal: as many fixed draws as Theorem 1 asks for, or a proof.

    A stored study has thousands of curves with one design: it is proven once.
    """
    if len(design.looks) == 1 and design.max_draws >= hoeffding_draws(goal.tolerance, 1 - goal.risk):
        return True
    return design.max_draws <= _MOST_PROVEN_DRAWS and goal.is_proven_for(design)


def make_plan(name: str, *, tolerance: Any, confidence: Any) -> Plan:
    """The plan of that name; a design that does not ship is searched once and cached on disk."""
    check_name(name, "plan", PLANS)
    return find_plan(name, check_share(tolerance, "tolerance"), check_share(confidence, "confidence"))


@lru_cache(maxsize=256)
def find_plan(name: str, eps: Fraction, sure: Fraction) -> Plan:
    """The plan of that name, for a tolerance and a confidence that were checked."""
    if name == "hoeffding":
        return Plan(name, eps, sure, fixed_design(hoeffding_draws(eps, sure)))
    if eps < SMALLEST_SEARCHED_TOLERANCE:
        must = f"be at least {float(SMALLEST_SEARCHED_TOLERANCE)} for plan {name!r}"
        received = f"{float(eps)}: the search for a design would take hours"
        raise InvalidValueError(argument="tolerance", must=must, got=received, hint="Use plan='hoeffding'.")
    if 1 - sure < SMALLEST_SEARCHED_RISK:
        must = f"be at most 1 - {float(SMALLEST_SEARCHED_RISK):g} for plan {name!r}"
        received = f"{float(sure)}, which is beyond numerical precision"
        raise InvalidValueError(argument="confidence", must=must, got=received, hint="Use plan='hoeffding'.")
    most, paper = _MOST_SEARCHED_DRAWS[name], hoeffding_draws(eps, sure)
    if paper > most:
        must = f"be larger for plan {name!r} at confidence {float(sure)}"
        received = f"{float(eps)}, for which the paper draws {paper}; the search stops at {most}"
        raise InvalidValueError(argument="tolerance", must=must, got=received, hint="Use plan='hoeffding'.")
    return Plan(name, eps, sure, find_design(name, Goal(eps, 1 - sure)))


def share_risk(plan: Plan, n_rates: int) -> Plan:
    """The plan at so small a risk that ``n_rates`` rates hold all at once.

    The risk is divided by the next divisor that designs exist for, so a little more than needed.
    """
    if n_rates <= 1:
        return plan
    scale = 1
    while DIVISORS[-1] * scale < n_rates:
        scale *= DIVISORS[-1]
    divisor = next(d * scale for d in (1, *DIVISORS) if d * scale >= n_rates)
    return find_plan(plan.name, plan.tolerance, 1 - (1 - plan.confidence) / divisor)


def parts_of(nearby: Neighborhood, rate_kind: str) -> list[Neighborhood]:
    """The neighbourhoods whose rates make up the one asked for."""
    if rate_kind == "uniform":
        return [nearby]
    if rate_kind == "exactly":
        return [nearby.exactly(nearby.radius)]
    return [nearby.exactly(k) for k in range(nearby.effective_radius + 1)]


def plan_for(parts: Iterable[Neighborhood], plan: Plan, rate_kind: str, *, all_sampled: bool = False) -> Plan:
    """The plan at which all parts hold at once: those that must be sampled share the risk.

    The smallest of their rates is then within tolerance of the smallest true one. That it is not too large needs no
    sharing: then the rate of the one size whose true rate is the smallest is too large.
    """
    parts = list(parts)
    if len(parts) <= 1 or rate_kind == "worst_size_lower":
        return plan
    n_sampled = len(parts) if all_sampled else _count_larger(parts, plan.max_draws)
    shared = share_risk(plan, n_sampled)
    # A plan of less risk draws more, so no part that was enumerated is now sampled; if one were, it shares too.
    return shared if _count_larger(parts, shared.max_draws) <= n_sampled else share_risk(plan, len(parts))


def _count_larger(parts: list[Neighborhood], limit: int) -> int:
    return sum(part.is_larger_than(limit) for part in parts)


def most_rows(nearby: Iterable[Neighborhood], plan: Plan) -> int:
    """The most draws or enumerated masks that estimating these rates can take."""
    most = plan.max_draws
    return sum(most if part.is_larger_than(most) else part.size for part in nearby)


@dataclass(frozen=True)
class PlannedSamples(Shown):
    """What a certificate will cost, known before anything runs.

    ``expected_draws`` gives, for a few true rates, the mean number of draws (masks that are
    enumerated count as draws). Two or three further rows are computed for the explanation itself,
    the full input and the determinism check.
    """

    plan: str
    tolerance: float
    confidence: float
    max_draws: int
    expected_draws: tuple[tuple[float, float], ...]
    paper_draws: int
    exact: bool

    def __str__(self) -> str:
        if self.exact:
            return f"All {self.max_draws} masks are evaluated: the rate is exact (the paper draws {self.paper_draws})."
        costs = ", ".join(
            f"{draws:.0f} at rate {rate:g}" for rate, draws in self.expected_draws[:: len(self.expected_draws) - 1]
        )
        known = f"±{self.tolerance:g}, {sure(self.confidence)} confidence"
        return (
            f"Plan {self.plan}: at most {self.max_draws} draws ({known}), on average {costs}; the paper draws "
            f"{self.paper_draws}."
        )

    def explain(self) -> str:
        """What a certificate will cost, and what may change that, in plain words."""
        costs = ", ".join(f"{draws:.1f} at rate {rate:g}" for rate, draws in self.expected_draws)
        return paragraph(
            "How many masks will a certificate evaluate?",
            "All of them, so its rate is exact." if self.exact else f"At most {self.max_draws} random masks.",
            "" if self.exact else f"On average, by the true rate, which nobody knows yet: {costs}.",
            f"The plan of the paper draws {self.paper_draws}.",
            "Draws are counted, not model calls: two to seven rows come on top, for predictions and for repeats.",
            "No model was called for this: the numbers follow from tolerance, confidence and plan.",
            "Where the model can be seen through, as trees on tables, nothing is drawn at all.",
        )


def plan_samples(
    *,
    tolerance: float = 0.1,
    confidence: float = 0.9,
    plan: str = "sequential",
    selected: Any = None,
    radius: int | None = None,
    neighborhood: Any = "additions",
    rate_kind: str = "uniform",
    n_completions: int | None = None,
    progress: Progress | bool | None = None,
) -> PlannedSamples:
    """Tell how many draws a certificate will take, before any model call.

    With ``selected`` and ``radius`` it also tells whether the neighbourhood is small enough to be
    enumerated instead; the cost of a worst size can only be told with them. Of a model that draws what is hidden, give
    the number of its completions: what is enumerated are then pairs of a mask and a completion. It knows no model:
    where the structure of one tells the counts, as of trees on tables, ``certify`` draws nothing, and this is the most
    it could draw.

    A design that does not ship is searched, once, and kept on disk. For a tolerance of .02 or more that takes
    seconds; for a finer one up to a few minutes, which ``progress`` shows (True for a bar, or a function of
    (steps done, all steps)). What would take longer is refused.

    Examples
    --------
    >>> print(plan_samples(plan="exact"))
    Plan exact: at most 70 draws (±0.1, 90% confidence), on average 70 at rate 1, 70 at rate 0.5; the paper draws 150.
    """
    kind = as_neighborhood(neighborhood)
    check_name(rate_kind, "rate_kind", RATE_KINDS)
    if kind.name in NEIGHBORHOODS and (selected is None) != (radius is None):
        raise InvalidValueError("and `radius` must be given together or not at all.", argument="selected")
    if rate_kind in WORST and radius is None:
        raise InvalidValueError(f"and `radius` must be given for rate_kind={rate_kind!r}.", argument="selected")
    drawn = None if n_completions is None else check_whole(n_completions, "n_completions", minimum=1)
    parts = [] if selected is None else parts_of(nearby_rows(kind(selected, radius), drawn), rate_kind)
    with watching_search(as_progress(progress, what="steps of the search")):
        single = make_plan(plan, tolerance=tolerance, confidence=confidence)
        shared = plan_for(parts, single, rate_kind)
    sampled = _count_larger(parts, shared.max_draws) if parts else 1
    enumerated = sum(part.size for part in parts if not part.is_larger_than(shared.max_draws))
    expect = shared.design.expected_draws
    return PlannedSamples(
        plan=plan,
        tolerance=float(single.tolerance),
        confidence=float(single.confidence),
        max_draws=sampled * shared.max_draws + enumerated,
        expected_draws=tuple((rate, sampled * expect(rate) + enumerated) for rate in _SHOWN_RATES),
        paper_draws=hoeffding_draws(single.tolerance, single.confidence),
        exact=sampled == 0,
    )
