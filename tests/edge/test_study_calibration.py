"""Sizes that methods need, from the certificates of a study: they follow from what is stored, and claim no more."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast as hf
from holdfast.certification.selector import CalibrationGoal
from holdfast.cli import main
from holdfast.errors import InvalidTypeError, InvalidValueError, StudyError
from holdfast.report.figures import plot_sizes
from holdfast.report.page import write_report
from holdfast.study import StudyCalibration, calibrate_study
from tests.helpers.report_support import payload_of
from tests.helpers.study_support import edit

N = 40
FRACTIONS = (0.25, 0.5, 0.75)


def scores_of(rows: Any) -> Any:
    return np.stack([rows[:, 0] + rows[:, 1], np.full(len(rows), 0.5)], axis=1)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows whose first two columns decide; one method ranks them first, one last, one gives masks."""
    rows = np.random.default_rng(0).uniform(1, 2, size=(N, 8))
    methods = {
        "first": np.tile(np.arange(8, 0, -1.0), (N, 1)),
        "last": np.tile(np.arange(8.0), (N, 1)),
        "mine": np.tile(np.arange(8) < 2, (N, 1)),
    }
    path = tmp_path_factory.mktemp("calibration") / "study.db"
    hf.study.run(hf.bind(scores_of, rows, fill=0.0), methods, store=path, top_fractions=FRACTIONS, radii=[1, 3])
    return path


def needed(calibration: StudyCalibration) -> dict[tuple[str, int], float | None]:
    return {(size.method, size.radius): size.top_fraction for size in calibration}


def test_a_method_that_ranks_what_decides_first_needs_fewer_features(results: Path) -> None:
    calibration = calibrate_study(results, min_rate=0.9)
    assert needed(calibration) == {("first", 1): 0.25, ("first", 3): 0.25, ("last", 1): None, ("last", 3): None}
    assert len(calibration) == 4
    assert calibration == hf.study.Study(results).calibrate(min_rate=0.9)
    assert str(calibration) == (
        "Features needed so that ≥80% of such inputs are stable in ≥90% of cases (90% confidence each).\n"
        "  radius  1                 3\n"
        "  first   top 0.25 (37/37)  top 0.25 (37/37)\n"
        "  last    all (0/37)        all (0/37)"
    )
    assert "In brackets: inputs that passed" in calibration.explain()
    assert "revealing up to r more features keeps the prediction in at least 90% of cases" in calibration.explain()
    frame = calibration.to_frame()
    assert frame["top_fraction"].isna().tolist() == [False, False, True, True]


def test_sizes_follow_from_stored_intervals_at_the_level_of_their_confidence(results: Path) -> None:
    calibration = calibrate_study(results, min_rate=0.9, share=0.7, confidence=0.95)
    assert calibration.level == pytest.approx(0.1)
    goal = CalibrationGoal("new inputs", Fraction("0.7") + Fraction("0.03"), Fraction("0.05"))
    assert {size.group.n_needed for size in calibration} == {goal.n_needed(N)}
    frame = hf.study.study_frame(results)
    for size in calibration:
        n_passed = []
        for fraction in sorted(FRACTIONS, reverse=True):
            rows = frame[
                (frame.method == size.method) & (frame.top_fraction == fraction) & (frame.radius == size.radius)
            ]
            n_passed.append(int(((rows.low >= 0.9) & rows.consistent).sum()))
        enough = [n >= (size.group.n_needed or 0) for n in n_passed]
        n_steps = enough.index(False) if False in enough else len(enough)
        assert size.top_fraction == (sorted(FRACTIONS, reverse=True)[n_steps - 1] if n_steps else None)


def test_the_calibration_is_read_back_and_refused_if_edited(results: Path) -> None:
    calibration = calibrate_study(results, min_rate=0.9)
    assert StudyCalibration.from_json(calibration.to_json()) == calibration
    for name, value in (("share", 0.99), ("min_rate", 1.5), ("top_fractions", [0.5, 0.25])):
        data = json.loads(calibration.to_json()) | {name: value}
        with pytest.raises(InvalidValueError, match="not a valid holdfast"):
            StudyCalibration.from_json(json.dumps(data))


def test_too_few_inputs_are_said_to_be_too_few(results: Path) -> None:
    calibration = calibrate_study(results, min_rate=0.9, share=0.99)
    assert set(needed(calibration).values()) == {None}
    assert "too few inputs" in str(calibration)


def test_inputs_without_all_of_their_explanations_do_not_count(results: Path, tmp_path: Path) -> None:
    copy = tmp_path / "study.db"
    copy.write_bytes(results.read_bytes())
    edit(copy, "DELETE FROM items WHERE method = 'first' AND top_fraction = 0.5 AND input < 10")
    calibration = calibrate_study(copy, min_rate=0.9)
    assert {size.method: size.group.n_inputs for size in calibration} == {"first": N - 10, "last": N}
    assert "; incomplete)." in str(calibration)
    assert "holds only if what is missing does not depend on the results" in calibration.explain()
    edit(copy, "DELETE FROM items")
    with pytest.raises(StudyError, match="no input with all explanations yet"):
        calibrate_study(copy, min_rate=0.9)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"top_fractions": [0.5]}, "has one fraction only. Run the study with several"),
        ({"precision": "data-set", "half_width": 0.3}, "has no certificates of single inputs"),
    ],
)
def test_a_study_that_cannot_tell_says_what_is_needed(tmp_path: Path, changes: Any, message: str) -> None:
    rows = np.random.default_rng(0).uniform(1, 2, size=(4, 8))
    asked: dict[str, Any] = {"top_fractions": FRACTIONS, "radii": [1]} | changes
    study = hf.study.run(hf.bind(scores_of, rows, fill=0.0), ["occlusion"], store=tmp_path / "study.db", **asked)
    with pytest.raises(StudyError, match=message):
        study.calibrate(min_rate=0.9)


def test_the_first_inputs_of_the_data_calibrate_nothing(tmp_path: Path) -> None:
    inputs = hf.bind("bundled:vader", "bundled:sentences", features="words")[:4]
    study = hf.study.run(inputs, ["occlusion"], store=tmp_path / "study.db", top_fractions=FRACTIONS, radii=[1])
    with pytest.raises(StudyError, match=r"say nothing of others\. Set data\.order = 'random'"):
        study.calibrate(min_rate=0.9)


def test_the_command_line_prints_what_the_library_says(results: Path, capsys: Any) -> None:
    assert main(["study", "summary", str(results), "--calibrate", "0.9,0.7,0.95"]) == 0
    calibration = calibrate_study(results, min_rate=0.9, share=0.7, confidence=0.95)
    assert capsys.readouterr().out == f"{calibration}\n"
    assert main(["study", "summary", str(results), "--calibrate", "0.9", "--json"]) == 0
    assert StudyCalibration.from_json(capsys.readouterr().out) == calibrate_study(results, min_rate=0.9)


@pytest.mark.parametrize("text", ["1.5", "much", "0.9,0.9,0.9,0.9", "", "0.9,"])
def test_shares_that_make_no_sense_are_refused(results: Path, text: str, capsys: Any) -> None:
    with pytest.raises(SystemExit):
        main(["study", "summary", str(results), "--calibrate", text])
    assert "one to three shares" in capsys.readouterr().err


def test_the_page_has_a_table_of_sizes_if_asked(results: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    write_report(results, page, use_model=False, calibrate={"min_rate": 0.9})
    section = payload_of(page)["studies"][0]["sizes"]
    assert section["radii"] == [1, 3]
    assert section["rows"] == [
        {"name": "first", "cells": ["top 0.25", "top 0.25"]},
        {"name": "last", "cells": ["all", "all"]},
    ]
    assert section["lead"].startswith("Features needed so that")
    write_report(results, page, use_model=False)
    assert payload_of(page)["studies"][0]["sizes"] is None
    with pytest.raises(InvalidTypeError, match="`calibrate` must map `min_rate`"):
        write_report(results, page, calibrate={"share": 0.9})  # type: ignore[dict-item]


def test_the_figure_shows_the_fraction_by_radius(results: Path) -> None:
    axes = plot_sizes(calibrate_study(results, min_rate=0.9))
    drawn = {line.get_label(): line.get_ydata().tolist() for line in axes.get_lines()}
    assert drawn == {"first": [0.25, 0.25], "last": [1.0, 1.0]}
    assert axes.get_ylabel() == "features needed (fraction)"


def test_equal_inputs_with_a_canonical_seed_are_no_independent_evidence(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).uniform(1, 2, size=(30, 24))
    rows[7] = rows[3]

    def most(batch: Any) -> Any:
        return (batch > 0).sum(axis=1) > 14

    methods = {"own": np.tile(np.arange(24, 0, -1.0), (30, 1))}
    asked: dict[str, Any] = {"top_fractions": [0.5, 0.25], "radii": [12]}
    for seed, refused in (("canonical", True), (0, False)):
        path = tmp_path / f"{seed}.db"
        hf.study.run(hf.bind(most, rows, fill=0.0), methods, store=path, seed=seed, **asked)
        if refused:
            with pytest.raises(StudyError, match="has equal inputs, which a canonical seed gives the same draws"):
                calibrate_study(path, min_rate=0.8)
        else:
            assert len(calibrate_study(path, min_rate=0.8)) == 1
