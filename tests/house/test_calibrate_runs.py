"""Calibrated selections in thousands of seeded repetitions, on populations whose truth is known."""

from __future__ import annotations

import math

import pytest
from benchmarks.bench_calibrate import CONFIDENCE, drawn_misses, known

N_RUNS = 2_000


def most_misses(allowed: float) -> float:
    """A miss rate that one this likely exceeds by three standard errors."""
    return allowed + 3 * math.sqrt(allowed * (1 - allowed) / N_RUNS)


@pytest.mark.slow
def test_calibrations_of_lookup_tables_miss_no_more_often_than_they_may() -> None:
    missed = drawn_misses(N_RUNS) / N_RUNS
    print(f"lookup tables: {missed:.4f} missed")
    assert 0.02 < missed <= most_misses(1 - CONFIDENCE)


@pytest.mark.slow
@pytest.mark.parametrize("guarantee", ["new inputs", "one input"])
@pytest.mark.parametrize("kind", ["digits", "table"])
def test_calibrations_of_digits_and_tables_miss_no_more_often_than_they_may(kind: str, guarantee: str) -> None:
    missed, allowed = known(kind).misses(guarantee, {"new inputs": 300, "one input": 150}[guarantee], N_RUNS)
    print(f"{kind}, {guarantee}: {missed:.4f} missed, {allowed:.4f} allowed")
    assert 0 < missed <= most_misses(allowed)
