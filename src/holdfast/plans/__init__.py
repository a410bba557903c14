"""Tolerance and confidence → how many masks to draw, when to look, when to stop.

Every plan keeps one contract: with rate = n_agreed / n_evaluated,
P(|rate - true rate| > tolerance) ≤ 1 - confidence for every true rate, the stopping included.
"""

from holdfast.plans.decision import RateTest, rate_test
from holdfast.plans.design import Design
from holdfast.plans.plan import (
    PLANS,
    RATE_KINDS,
    Plan,
    PlannedSamples,
    is_valid_design,
    make_plan,
    most_rows,
    parts_of,
    plan_for,
    plan_samples,
    share_risk,
)

__all__ = [
    "PLANS",
    "RATE_KINDS",
    "Design",
    "Plan",
    "PlannedSamples",
    "RateTest",
    "is_valid_design",
    "make_plan",
    "most_rows",
    "parts_of",
    "plan_for",
    "plan_samples",
    "rate_test",
    "share_risk",
]
