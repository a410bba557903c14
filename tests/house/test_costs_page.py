"""The counts on the page about costs are what the library counts."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from holdfast.study.plan import attribution_calls, try_curve
from holdfast.study.spec import CertifySpec, MethodSpec, SmoothingSpec

PAGE = (Path(__file__).parents[2] / "docs" / "costs.md").read_text(encoding="utf-8")
KINDS = [(196, range(1, 101)), (30, range(1, 24))]


def row(start: str) -> list[int]:
    """The whole numbers of a line of the table."""
    [line] = [line for line in PAGE.splitlines() if line.startswith(f"| {start}")]
    return [int(number.replace(",", "")) for number in re.findall(r"\| ([\d,]+) (?=\|)", line)]


@pytest.mark.parametrize(
    ("start", "rate"), [("model calls to certify the curve, τ = 1 ", 1.0), ("τ = 0.9 ", 0.9), ("τ = 0.5,", 0.5)]
)
def test_calls_of_certification_are_counted(start: str, rate: float) -> None:
    counted = []
    for n, radii in KINDS:
        asked = CertifySpec(radii=tuple(radii))
        counted.append(try_curve(asked, SmoothingSpec(), np.arange(n) < n // 4, keep=1.0, rate=rate)[0])
    assert row(start) == counted


@pytest.mark.parametrize(
    ("start", "method"),
    [
        ("calls to explain by LIME", "lime"),
        ("by SHAP", "shap"),
        ("gradients by Integrated Gradients", "integrated_gradients"),
        ("gradients by MFABA", "mfaba"),
    ],
)
def test_calls_of_explanations_are_counted(start: str, method: str) -> None:
    assert row(start) == [attribution_calls(MethodSpec(method), n).expected for n, _ in KINDS]


def test_the_arithmetic_uses_the_numbers_of_the_table() -> None:
    [line] = [line for line in PAGE.splitlines() if line.startswith("certifying =")]
    assert [int(number.replace("_", "")) for number in re.findall(r": ([\d_]+)", line)] == row("τ = 0.5,")
    assert row("the paper's 150 draws") == [150 * len(radii) for _, radii in KINDS]
