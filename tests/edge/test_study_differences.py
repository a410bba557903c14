"""Paired differences between methods, and rankings that claim only what is certified."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from holdfast.bounds import Interval, betting_mean
from holdfast.study.session import run_study
from holdfast.study.spec import MethodSpec, MusSpec, SmoothingSpec
from holdfast.study.summary import DifferenceAt, PairedDifference, StudySummary, summarize_study
from tests.helpers.mixed_texts import items
from tests.helpers.study_support import edit, make_spec, write_texts


def test_differences_are_paired_by_input(mixed: Path, tmp_path: Path) -> None:
    """An input that only one method has is in no difference."""
    path = tmp_path / "less.db"
    shutil.copy(mixed, path)
    which = "item = (SELECT min(item) FROM items WHERE input = 7 AND method = 'lime')"
    edit(path, f"DELETE FROM rates WHERE {which}")
    edit(path, f"DELETE FROM items WHERE {which}")
    summary = summarize_study(path)
    assert summary.n_to_do == 1
    for fraction in (0.25, 0.5):
        first = {one.input: one.curve for one in items(path, "lime", fraction)}
        second = {one.input: one.curve for one in items(path, "occlusion", fraction)}
        both = sorted(first.keys() & second.keys())
        found = summary.difference("lime", "occlusion", top_fraction=fraction)
        assert found.n_inputs == len(both)
        for at in found:
            values = [first[i][at.radius].rate_unbiased - second[i][at.radius].rate_unbiased for i in both]
            assert at.mean == pytest.approx(np.mean(values), abs=1e-12)
            assert at.guaranteed == pytest.approx(betting_mean(values, confidence=0.95, low=-1, high=1)[0], abs=1e-12)
    assert {one.n_inputs for one in summary.differences} == {8, 9}


def test_a_difference_reads_the_same_from_both_sides(mixed: Path) -> None:
    summary = summarize_study(mixed)
    there = summary.difference("lime", "occlusion", top_fraction=0.25)
    back = summary.difference("occlusion", "lime", top_fraction=0.25)
    assert (back.first, back.second) == ("occlusion", "lime")
    assert [(one.mean, one.joint) for one in back] == [
        (-one.mean, Interval(-one.joint.high, -one.joint.low)) for one in there
    ]


def constructed(values: dict[tuple[str, str], tuple[Interval, Interval]], whole: StudySummary) -> StudySummary:
    """A summary with these (approximate, joint) intervals of differences at radius 1."""
    rows = {pair: (DifferenceAt(1, sum(joint) / 2, near, joint, joint),) for pair, (near, joint) in values.items()}
    differences = tuple(PairedDifference(*pair, 0.25, 1.0, 0.95, 9, row) for pair, row in rows.items())
    return replace(whole, differences=differences)


def test_a_ranking_claims_only_what_the_joint_intervals_show(mixed: Path) -> None:
    near = Interval(0.01, 0.2)
    values = {
        ("a", "b"): (near, Interval(0.02, 0.3)),
        ("a", "c"): (near, Interval(-0.02, 0.3)),
        ("b", "c"): (Interval(-0.2, -0.01), Interval(-0.3, -0.02)),
    }
    summary = constructed(values, summarize_study(mixed))
    assert summary.ranking(1) == (("a", "b"), ("c", "b"))
    assert summary.ranking(1, approximate=True) == (("a", "b"), ("a", "c"), ("c", "b"))
    assert "certified at radius 1, top 0.25: a > b, c > b" in str(summary)


def test_joint_intervals_share_the_risk_among_the_pairs(tmp_path: Path) -> None:
    folder = write_texts(tmp_path / "texts", 5)
    methods = (MethodSpec("lime", n_samples=40), MethodSpec("occlusion"), MethodSpec("random"))
    spec = make_spec(folder, methods=methods, top_fractions=(0.25,), smoothing=SmoothingSpec((1.0,)), mus=MusSpec())
    run_study(spec, tmp_path / "a.db")
    summary = summarize_study(tmp_path / "a.db", confidence=0.94)
    assert [(one.first, one.second) for one in summary.differences] == [
        ("lime", "occlusion"),
        ("lime", "random"),
        ("occlusion", "random"),
    ]
    first, second = (
        np.array([one.curve[3].rate_unbiased for one in items(tmp_path / "a.db", name, 0.25)])
        for name in ("occlusion", "random")
    )
    found = summary.difference("occlusion", "random")[3]
    assert found.joint == pytest.approx(betting_mean(first - second, confidence=0.98, low=-1, high=1)[0], abs=1e-12)
    assert found.joint.low <= found.guaranteed.low <= found.guaranteed.high <= found.joint.high
