"""Tolerance and confidence → how many masks to draw, when to look, when to stop.

Every plan keeps one contract: with rate = n_agreed / n_evaluated,
P(|rate - true rate| > tolerance) ≤ 1 - confidence for every true rate, the stopping included.
"""

from holdfast.plans.decision import RateTest as RateTest
from holdfast.plans.decision import rate_test as rate_test
from holdfast.plans.design import Design as Design
from holdfast.plans.design import Stops as Stops
from holdfast.plans.design import cheapest_look as cheapest_look
from holdfast.plans.design import looks_left as looks_left
from holdfast.plans.plan import PLANS as PLANS
from holdfast.plans.plan import RATE_KINDS as RATE_KINDS
from holdfast.plans.plan import WORST as WORST
from holdfast.plans.plan import Plan as Plan
from holdfast.plans.plan import PlannedSamples as PlannedSamples
from holdfast.plans.plan import find_plan as find_plan
from holdfast.plans.plan import is_valid_design as is_valid_design
from holdfast.plans.plan import make_plan as make_plan
from holdfast.plans.plan import most_rows as most_rows
from holdfast.plans.plan import parts_of as parts_of
from holdfast.plans.plan import plan_for as plan_for
from holdfast.plans.plan import plan_samples as plan_samples
from holdfast.plans.plan import share_risk as share_risk
