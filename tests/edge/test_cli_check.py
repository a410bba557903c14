"""The gate: its exit code is its answer, and nothing else ever has the code of an answer."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import holdfast as hf
from holdfast.cli import main
from holdfast.cli.check import Verdict, printable
from holdfast.plans.decision import rate_test
from tests.helpers.oracles import exact_rate
from tests.helpers.stopping_oracle import Answers

WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven"]

FACTORY = f"""
WORDS = {WORDS!r}

def parity_of_late_words():
    return lambda texts: [str(sum(word in WORDS[9:] for word in text.split()) % 2) for text in texts]

def many_words():
    return lambda texts: [str(len(text.split()) > 9) for text in texts]

def first_word():
    return lambda texts: [str("zero" in text.split()) for text in texts]

def breaks():
    def model(texts):
        raise ZeroDivisionError("model broke")
    return model

def exits():
    def model(texts):
        raise KeyError("x\\x00y")
    return model
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "gated_models_of_this_test.py").write_text(FACTORY)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "first.txt").write_text("1" + " 0" * 11)
    return tmp_path


def check(factory: str, *rest: Any, min_rate: float = 0.9, radius: int = 5) -> int:
    asked = ["--input", "text:" + " ".join(WORDS), "--min-rate", min_rate, "--radius", radius, *rest]
    if not {"--explanation", "--method"} & set(rest):
        asked += ["--explanation", "first.txt"]
    return main(
        ["check", "--model", f"python:gated_models_of_this_test:{factory}", "--set", "kind=text", *map(str, asked)]
    )


def true_rate(factory: str, radius: int) -> Fraction:
    """The rate by enumeration of every mask."""
    namespace: dict[str, Any] = {}
    exec(FACTORY, namespace)
    classify = namespace[factory]()

    def model(masks: Any) -> Any:
        texts = [" ".join(word for word, shown in zip(WORDS, mask, strict=True) if shown) for mask in masks]
        return np.array(classify(texts))

    return Fraction(exact_rate(hf.mask_function(model, n_features=12), np.arange(12) < 1, radius))


def test_the_answers_are_true_by_enumeration(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert true_rate("first_word", 5) == 1
    assert check("first_word") == 0
    assert capsys.readouterr().out.startswith("Holds: ")
    assert true_rate("parity_of_late_words", 5) < Fraction(9, 10)
    assert check("parity_of_late_words") == 1
    assert capsys.readouterr().out.startswith("Does not hold: ")


def test_a_rate_at_the_threshold_cannot_be_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert abs(true_rate("parity_of_late_words", 5) - Fraction(48, 100)) < Fraction(1, 100)
    assert check("parity_of_late_words", "--set", "max_draws=100", "--set", "rng=1", min_rate=0.48) == 2
    said = capsys.readouterr().out
    assert said.startswith("Cannot tell: ")
    assert "--set max_draws=N" in said


def test_small_neighbourhoods_are_decided_exactly(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rate = true_rate("parity_of_late_words", 1)
    assert rate == Fraction(9, 12)
    assert check("parity_of_late_words", "--set", "rng=0", radius=1, min_rate=0.75) == 0
    assert check("parity_of_late_words", "--set", "rng=0", radius=1, min_rate=0.76) == 1
    assert (
        "9 of 12 masks keep the prediction at radius 1, below 0.76: all masks were counted" in capsys.readouterr().out
    )


def test_wrong_answers_are_as_rare_as_promised_at_the_threshold() -> None:
    test = rate_test(0.9, 0.9)
    yes, no, _, _ = Answers(test).at(Fraction(9, 10))
    assert 0 < yes <= Fraction(1, 10)
    assert 0 < no <= Fraction(1, 10)


def test_the_same_check_gives_the_same_answer_again(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check("parity_of_late_words", "--json")
    first = json.loads(capsys.readouterr().out)
    check("parity_of_late_words", "--json")
    again = json.loads(capsys.readouterr().out)
    for certificate in (first["certificate"], again["certificate"]):
        del certificate["about"]["date"]
    assert first["certificate"] == again["certificate"]


def test_json_carries_the_certificate(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check("first_word", "--json", "--output", "verdict.json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told == json.loads((folder / "verdict.json").read_text())
    assert (told["answer"], told["exit_code"]) == ("holds", 0)
    certificate = hf.RadiusCertificate.from_json(json.dumps(told["certificate"]))
    assert (certificate.radius, certificate.min_rate, certificate.trail[0].answer) == (5, 0.9, True)


@pytest.mark.parametrize(
    ("factory", "code", "failures", "errors", "element"),
    [
        ("first_word", 0, "0", "0", "system-out"),
        ("parity_of_late_words", 1, "1", "0", "failure"),
        ("exits", 3, "0", "1", "error"),
    ],
)
def test_junit_reports_count_what_failed(
    folder: Path, factory: str, code: int, failures: str, errors: str, element: str
) -> None:
    assert check(factory, "--output", "report.xml", "--set", "name=cat <&> dog") == code
    suite = ElementTree.parse(folder / "report.xml").getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("1", failures, errors)
    assert [case.get("name") for case in suite] == ["cat <&> dog"]
    assert [child.tag for child in suite[0]] == [element]


def test_cannot_tell_is_no_success_in_junit(folder: Path) -> None:
    assert (
        check(
            "parity_of_late_words", "--set", "max_draws=100", "--set", "rng=1", "--output", "report.xml", min_rate=0.48
        )
        == 2
    )
    suite = ElementTree.parse(folder / "report.xml").getroot()
    assert suite.get("failures") == "1"
    assert [child.get("type") for child in suite[0]] == ["cannot tell"]


def test_a_model_that_breaks_is_an_error_not_an_answer(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check("breaks", "--json") == 3
    printed = capsys.readouterr()
    assert "ZeroDivisionError: model broke" in printed.err
    told = json.loads(printed.out)
    assert (told["answer"], told["exit_code"], told["certificate"]) == ("error", 3, None)


@pytest.mark.parametrize(
    "rest",
    [
        ["--min-rate", "1.5"],
        ["--min-rate", "0.9", "--set", "max_draws=3"],
        ["--min-rate", "0.9", "--explanation", "missing.npy"],
        ["--min-rate", "0.9", "--method", "lime"],
    ],
    ids=str,
)
def test_what_cannot_be_used_is_an_error(folder: Path, capsys: pytest.CaptureFixture[str], rest: list[str]) -> None:
    common = [
        "check",
        "--model",
        "python:gated_models_of_this_test:first_word",
        "--input",
        "text:" + " ".join(WORDS),
        "--set",
        "kind=text",
    ]
    explained = {"--explanation", "--method"} & set(rest)
    own = [] if explained else ["--explanation", "first.txt"]
    assert main([*common, "--radius", "5", *rest, *own]) == 3
    printed = capsys.readouterr()
    assert printed.err.startswith("holdfast: `") or "missing.npy" in printed.err
    assert printed.out == ""


@pytest.mark.parametrize("rest", [["--min-rat", "0.9"], ["--min-rate", "lots"], ["--radius", "4"], []], ids=str)
def test_wrong_usage_never_has_the_code_of_cannot_tell(rest: list[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(
            [
                "check",
                "--model",
                "python:a:b",
                "--input",
                "text:a",
                "--radius",
                "5",
                "--explanation",
                "first.txt",
                *rest,
                "--oops",
            ]
        )
    assert stopped.value.code == 3


def test_a_method_explains_before_the_check(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check("first_word", "--method", "occlusion", "--top", 1, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["certificate"]["selected"]["shown"] == [0]


def test_a_stable_explanation_of_another_prediction_fails_only_if_asked(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check("many_words", radius=2) == 0
    capsys.readouterr()
    assert check("many_words", "--consistent", radius=2) == 1
    assert "the full input another prediction" in capsys.readouterr().out


def test_the_code_reaches_the_shell(folder: Path) -> None:
    code = "import sys; from holdfast.cli import main; sys.exit(main(sys.argv[1:]))"
    question = [
        "--input",
        "text:" + " ".join(WORDS),
        "--set",
        "kind=text",
        "--min-rate",
        "0.9",
        "--radius",
        "5",
        "--explanation",
        "first.txt",
    ]
    model = ["--model", "python:gated_models_of_this_test:parity_of_late_words"]
    run = subprocess.run([sys.executable, "-c", code, "check", *model, *question], capture_output=True, text=True)
    assert (run.returncode, run.stdout[:13]) == (1, "Does not hold"), run.stderr


def test_xml_holds_any_text() -> None:
    nasty = "a\x00b\x1b[31m\ud800\ufffe é <&>"
    suite = ElementTree.fromstring(Verdict(nasty, "error", nasty, 0.0).to_junit().encode())
    assert suite[0].get("name") == printable(nasty)
    assert "é <&>" in printable(nasty)


@pytest.mark.parametrize("name", ["report.xml", "verdict.json"])
def test_the_answer_is_told_even_if_its_file_cannot_be_written(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("holdfast.atomic.tempfile.mkdtemp", refuse)
    assert check("first_word", "--output", folder / name) == 3
    out, err = capsys.readouterr()
    assert out.startswith("Holds: ")
    assert "Cannot write to the folder" in err
    assert "No space left on device." in err
