"""Results at the prompt and in notebooks: one short line, and a sentence in a box."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import unescape
from typing import Any

import numpy as np
import pytest

import holdfast as hf
from holdfast.boolean.estimation import estimate_coefficients, low_degree_weights
from holdfast.certification.serialization import _KINDS, Value
from holdfast.study.merge import Merged
from holdfast.study.session import StudyRun
from holdfast.study.status import MethodStatus, StudyStatus
from holdfast.terminal import Shown
from tests.helpers.fakes import score_table

MODEL = score_table(8, n_classes=2)
SELECTED = np.arange(8) < 3


def results() -> dict[str, Any]:
    """One of each result that takes no study."""
    certificate = hf.certify(MODEL, SELECTED, radius=3, rng=0)
    scores = hf.attribute(MODEL, "shap")
    return {
        "certificate": certificate,
        "curve": hf.certify_radii(MODEL, SELECTED, radii=[1, 2], rng=0),
        "hard": hf.certify_hard(MODEL, SELECTED, radius=2, rng=0),
        "mus": hf.certify_mus(MODEL, SELECTED, keep_probability=0.25, rng=0),
        "radius": hf.certified_radius(MODEL, SELECTED, min_rate=0.5, rng=0),
        "comparison": hf.compare(MODEL, {"a": SELECTED, "b": ~SELECTED}, [1, 2], rng=0),
        "witness": hf.find_witness(MODEL, SELECTED, rng=0),
        "bracket": hf.stability_bracket(MODEL, SELECTED, rng=0),
        "attribution": scores,
        "stable": hf.stabilize(MODEL, scores, min_rate=0.5, radius=1, rng=0),
        "reexplanation": hf.reexplain(MODEL, "lime", n_repeats=3, n_samples=50, radius=1, rng=0),
        "fills": hf.fill_sensitivity(lambda fill: MODEL, SELECTED, {"x": 0}, radius=1, rng=0),
        "mean curve": hf.mean_curve([lambda: (MODEL, SELECTED)] * 3, radii=[1, 2], half_width=0.2, rng=0),
        "recheck": hf.recheck(MODEL, certificate),
        "planned": hf.plan_samples(),
        "selector": hf.calibrate([MODEL] * 4, [scores] * 4, radius=1, min_rate=0.3, share=0.3, rng=0),
        "planned calibration": hf.certification.plan_calibration(30, min_rate=0.9, share=0.8),
        "estimates": estimate_coefficients(MODEL, [[0]], n_samples=10, score_range=(-5, 5), rng=0)[0],
        "weights": low_degree_weights(MODEL, SELECTED, degree=2),
    }


RESULTS = results()


@pytest.mark.parametrize("name", RESULTS)
def test_every_result_is_one_short_line_and_a_box(name: str) -> None:
    result = RESULTS[name]
    line = repr(result)
    assert line.startswith(type(result).__name__ + "(")
    assert line.endswith(")")
    assert len(line) <= 120
    assert "\n" not in line
    box = result._repr_html_()
    assert box.startswith("<div style=")
    assert box.endswith("</div>")
    assert "<script" not in box


@pytest.mark.parametrize("name", ["witness", "hard", "radius", "recheck", "planned", "stable"])
def test_a_box_holds_the_sentence(name: str) -> None:
    text = re.sub(r"<[^>]+>", "", RESULTS[name]._repr_html_())
    assert unescape(text) == f"{RESULTS[name]}What this says{RESULTS[name].explain()}"


def test_every_kind_of_value_has_both() -> None:
    assert len(_KINDS) > 20
    for kind in _KINDS.values():
        assert issubclass(kind, Value)
        assert kind.__repr__ is Shown.__repr__


def test_what_is_told_of_studies_has_both() -> None:
    merged = Merged("all.db", 3, 0)
    assert repr(merged) == "Merged(path='all.db', n_items=3, n_repeated=0, n_curves=0)"
    assert str(merged) in merged._repr_html_()
    assert all(issubclass(kind, Shown) for kind in (StudyRun, StudyStatus, MethodStatus))


@dataclass(frozen=True)
class Odd(Shown):
    """A result with fields of every kind."""

    text: str
    number: float
    mask: Any
    many: Any
    other: Any

    def __str__(self) -> str:
        return f"<b>{self.text}</b>"


def test_fields_are_shortened_and_texts_escaped() -> None:
    inner = Odd("a", 1 / 3, SELECTED, list(range(99)), None)
    assert repr(inner) == "Odd(text='a', number=0.3333, mask=<3 of 8 features>, many=<99 entries>, other=None)"
    assert repr(Odd("x" * 99, 1.0, None, None, inner)).startswith(f"Odd(text='{'x' * 38}…, number=1, mask=None")
    assert "other=Odd(…)" in repr(Odd("a", 1.0, None, None, inner))
    assert len(repr(Odd("x" * 99, 1.0, "y" * 99, "z" * 99, None))) <= 120
    assert "&lt;b&gt;&lt;i&gt;&lt;/b&gt;" in Odd("<i>", 1.0, None, None, None)._repr_html_()
