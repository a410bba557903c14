"""What cannot be carried out is refused before anything runs: requests, and folders of other experiments."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.reproduce import EXPERIMENTS, Request, find_experiment, reproduce
from holdfast.reproduce.catalog import check_folder, what_is_kept
from holdfast.reproduce.experiment import PlannedRun
from holdfast.study.spec import MusSpec
from tests.helpers.reproduce_support import contents, request, texts_subject


@pytest.mark.parametrize(
    ("name", "asked", "words"),
    [
        ("masking", {"n": 3}, "`request` must be a Request, got dict."),
        ("masking", {}, "`request` must be a Request, got dict."),
        ("masking", 3, "`request` must be a Request, got int."),
        ("q4", Request(keep=0.5), "`keep` must be a tuple of numbers, got 0.5."),  # type: ignore[arg-type]
        ("q4", Request(keep=("1/2",)), "`keep` must be numbers above 0 and at most 1, got '1/2'."),  # type: ignore[arg-type]
        ("q4", Request(keep=(True,)), "`keep` must be numbers above 0 and at most 1, got True."),
        ("q2", Request(radii=5), "`radii` must be a tuple of whole numbers, got 5."),  # type: ignore[arg-type]
        ("q2", Request(radii=("5",)), "`radii` must be a whole number ≥ 0, got '5'."),  # type: ignore[arg-type]
        ("q2", Request(methods="lime"), "`methods` must be a tuple of names, got 'lime'."),  # type: ignore[arg-type]
        ("q2", Request(methods=(1,)), "`methods.name` must be a text, got 1"),  # type: ignore[arg-type]
        ("q2", Request(subjects="bundled:vader"), "`subjects` must be a tuple of Subjects, got 'bundled:vader'."),  # type: ignore[arg-type]
        ("q2", Request(subjects=("vader",)), "`subjects` must be a tuple of Subjects, got 'vader' in it."),  # type: ignore[arg-type]
        ("q2", Request(n="3"), "`n` must be a whole number ≥ 1, got '3'."),  # type: ignore[arg-type]
        (5, Request(), "`id` must be one of q1-sca-vs-mus,"),
    ],
)
def test_what_has_the_wrong_type_is_refused_in_words(name: Any, asked: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidTypeError, match=re.escape(words)):
        reproduce(name, asked, output=tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "asked", "words"),
    [
        ("q2", Request(radii=(1, 2, 1)), "`radii` must name each radius once, got 1, 2, 1."),
        ("q2", Request(radii=(-1,)), "`radii` must be a whole number ≥ 0, got -1."),
        ("q4", Request(keep=(0.5, 1 / 2)), "`keep` must name each keep probability once, got 0.5, 0.5."),
        ("q4", Request(keep=(float("nan"),)), "`keep` must be numbers above 0 and at most 1, got nan."),
        (
            "q1",
            Request(keep=(0.3,)),
            "`keep` must be multiples of 1/64 for q1-sca-vs-mus, got 0.3; the nearest is 19/64.",
        ),
        ("mus-by", Request(keep=(0.5, 0.001)), "for mus-by-lambda, got 0.001; the nearest is 1/64."),
    ],
)
def test_what_has_the_wrong_value_is_refused_in_words(name: str, asked: Request, words: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidValueError, match=re.escape(words)):
        reproduce(name, asked, output=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_lists_will_do_for_tuples() -> None:
    find_experiment("q1").check(Request(methods=["lime"], radii=[1, 2], keep=[0.5]))  # type: ignore[arg-type]


def test_keep_probabilities_that_votes_cannot_have_are_those_that_a_study_refuses() -> None:
    q1 = find_experiment("q1")
    for levels in range(1, 65):
        q1.check(Request(keep=(levels / 64,)))
        MusSpec((levels / 64,))
    for keep in (0.3, 1 / 3, float(Fraction(1, 128)), 0.5 + 1e-9):
        for ask in (lambda keep=keep: q1.check(Request(keep=(keep,))), lambda keep=keep: MusSpec((keep,))):
            with pytest.raises(InvalidValueError, match="1/64"):
                ask()
    find_experiment("q3").check(Request(keep=(0.3,)))


def test_titles_tell_experiments_apart() -> None:
    assert len({one.title for one in EXPERIMENTS}) == len(EXPERIMENTS)


SMALL: dict[str, dict[str, Any]] = {
    "q2-methods": {"methods": ("random",), "radii": (1,)},
    "topk-ablation": {"methods": ("random",), "radii": (1,)},
    "q4-accuracy": {"keep": (1.0,)},
    "example-unstable": {"methods": ("occlusion",)},
}


def all_files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("first", SMALL)
def test_a_folder_with_results_of_another_experiment_is_refused_and_left_alone(first: str, tmp_path: Path) -> None:
    subject = texts_subject(tmp_path / "texts", 2)
    reproduce(first, request(subject, **SMALL[first]), output=tmp_path / "out")
    before = all_files(tmp_path / "out")
    for second in SMALL.keys() - {first}:
        words = f"`output` must be a folder for {second} only, got .*, which holds results of {first} "
        with pytest.raises(InvalidValueError, match=words):
            reproduce(second, request(subject, **SMALL[second]), output=tmp_path / "out")
    assert all_files(tmp_path / "out") == before


@pytest.mark.parametrize("first", ["q2-methods", "q4-accuracy"])
def test_a_folder_of_another_experiment_is_recognised_before_it_has_findings(first: str, tmp_path: Path) -> None:
    subject = texts_subject(tmp_path / "texts", 2)
    reproduce(first, request(subject, **SMALL[first]), output=tmp_path / "out")
    for path in contents(tmp_path / "out"):
        (tmp_path / "out" / path).unlink()
    assert "continues from there" in what_is_kept(PlannedRun(find_experiment(first), Request(), tmp_path / "out"))
    with pytest.raises(InvalidValueError, match=f"holds results of {first}"):
        check_folder(find_experiment("topk"), tmp_path / "out")
    check_folder(find_experiment(first), tmp_path / "out")


@pytest.mark.parametrize("name", SMALL)
def test_the_same_experiment_may_be_asked_again_for_another_number_of_inputs(name: str, tmp_path: Path) -> None:
    subject = texts_subject(tmp_path / "texts", 3)
    for n in (2, 3):
        reproduce(name, request(subject, n=n, **SMALL[name]), output=tmp_path / "out")
    reproduce(name, request(subject, n=3, **SMALL[name]), output=tmp_path / "fresh")
    assert contents(tmp_path / "out") == contents(tmp_path / "fresh")


def test_files_of_others_are_nobody_s_results(tmp_path: Path) -> None:
    (tmp_path / "notes.db").write_bytes(b"no database")
    (tmp_path / "findings.md").write_bytes(b"# My findings \xff\n")
    assert check_folder(find_experiment("q2"), tmp_path) == tmp_path
    assert "stored nothing" in what_is_kept(PlannedRun(find_experiment("q2"), Request(), tmp_path))


@pytest.mark.parametrize(
    ("output", "error", "words"),
    [
        ("", InvalidValueError, "`output` must be a folder for masking-vs-flipping, got an empty name."),
        (5, InvalidTypeError, "`output` must be a folder for masking-vs-flipping, got 5."),
    ],
)
def test_what_is_no_folder_is_refused(output: Any, error: type[Exception], words: str, tmp_path: Path) -> None:
    with pytest.raises(error, match=re.escape(words)):
        reproduce("masking", output=output)
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(InvalidValueError, match="which is a file"):
        reproduce("masking", output=tmp_path / "file")
