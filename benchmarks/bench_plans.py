"""Plans: draws against the paper's number at the same guarantee, and the proven miss probability."""

from __future__ import annotations

import time
from collections.abc import Iterator
from fractions import Fraction

from benchmarks.figures import Figure
from holdfast.plans import make_plan
from holdfast.plans.proof import bound_miss_probability
from holdfast.plans.search import RATE_WEIGHTS, TYPICAL_RATES, Goal, search_sequential

LIMITS = {(0.1, 0.9): {1.0: 24, 0.98: 27.5, 0.9: 43, 0.5: 72}, (0.05, 0.95): {1.0: 65, 0.98: 90, 0.9: 189, 0.5: 392}}
RATES = (1.0, 0.98, 0.95, 0.9, 0.8, 0.5)


def run() -> Iterator[Figure]:
    for (tolerance, confidence), limits in LIMITS.items():
        label = f"ε={tolerance:g}, δ={1 - confidence:.2g}"
        paper = make_plan("hoeffding", tolerance=tolerance, confidence=confidence).max_draws
        yield Figure(f"{label}: draws of the paper (Hoeffding)", paper)
        exact = make_plan("exact", tolerance=tolerance, confidence=confidence)
        yield Figure(f"{label}: draws of the exact fixed plan", exact.max_draws)
        plan = make_plan("sequential", tolerance=tolerance, confidence=confidence)
        for rate in RATES:
            draws = plan.design.expected_draws(rate)
            yield Figure(f"{label}: expected draws at τ={rate:g}, sequential", draws, at_most=limits.get(rate))
            yield Figure(f"{label}: the paper's draws over ours at τ={rate:g}", paper / draws, "×")
        proven = bound_miss_probability(plan.design, plan.tolerance, target=float(1 - plan.confidence))
        yield Figure(f"{label}: proven bound on P(miss), sequential", proven.bound, at_most=float(1 - plan.confidence))
        yield Figure(f"{label}: largest P(miss) met, sequential", proven.seen)
    for n_looks in (1, 3, 6, 12, 24, 48):
        design = search_sequential(Goal(Fraction(1, 10), Fraction(1, 10)), n_looks=n_looks)
        mean = float(RATE_WEIGHTS @ [design.expected_draws(rate) for rate in TYPICAL_RATES])
        yield Figure(f"ε=δ=.1, {len(design.looks)} looks: mean draws over typical rates (short search)", mean)
    start = time.perf_counter()
    search_sequential(Goal(Fraction(2, 100), Fraction(3, 100)))
    yield Figure("search of an unshipped design, ε=.02, δ=.03", time.perf_counter() - start, "s", at_most=30)
