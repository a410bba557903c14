"""``holdfast verify`` and ``show``: what is confirmed, what is not, and what a file says about itself."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.cli import main
from holdfast.study.store import Store

ROW = ["--model", "bundled:cancer-forest", "--input", "bundled:cancer#13"]
ASK = ["--method", "occlusion", "--top", "3", "--radius", "3"]
"""What is asked of the forest is proven from inside it."""

DIGIT = ["--model", "bundled:digits-resnet", "--input", "bundled:digits#3"]
"""What is asked of the network is drawn."""


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("verify") / "cert.json"
    assert main(["certify", *ROW, *ASK, "--output", str(file)]) == 0
    return file


def verdict(file: Path, *options: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    capsys.readouterr()
    return main(["verify", str(file), *(options or ROW)]), capsys.readouterr().out


def test_a_certificate_is_confirmed_with_its_sentence_and_its_key(
    certificate: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = verdict(certificate, capsys=capsys)
    assert code == 0
    assert out.startswith("Confirmed: asked again, the model gives the same result.\nStable in ")
    assert "revealing up to 3 more features keeps the prediction 'malignant' in 3304 of" in out
    assert "The key" not in out
    drawn = tmp_path / "drawn.json"
    assert main(["certify", *DIGIT, *ASK, "--output", str(drawn)]) == 0
    code, out = verdict(drawn, *DIGIT, capsys=capsys)
    assert code == 0
    assert out.startswith(
        "Confirmed: asked again, the model gives the same result; the seed follows from the question."
    )
    assert "(90% confidence): revealing up to 3 more features kept the prediction" in out
    assert "The key follows from the question" in out
    assert "Not checked: date, holdfast, model, input, explanation, top. `holdfast show` prints them." in out


def test_the_same_question_gives_the_same_file_but_for_the_date(certificate: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.json"
    assert main(["certify", *ROW, *ASK, "--output", str(again)]) == 0
    first, second = (json.loads(file.read_text()) for file in (certificate, again))
    first["about"].pop("date")
    second["about"].pop("date")
    assert first == second


def test_a_file_says_what_people_want_to_read(certificate: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = certificate.read_text()
    about = json.loads(text)["about"]
    assert text.startswith('{\n  "schema_version"')
    assert about["explanation"] == "occlusion"
    assert about["classes"] == ["malignant", "benign"]
    assert len(about["feature_names"]) == 30
    assert len(about["selected_names"]) == about["top"] == 3
    capsys.readouterr()
    assert main(["show", str(certificate)]) == 0
    out = capsys.readouterr().out
    assert "keeps the prediction 'malignant'" in out
    assert "It does not say that the explanation or the prediction is right." in out
    assert "classes: malignant, benign" in out
    assert "Nothing of this was verified" in out


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("classes", ["benign", "malignant"]),
        ("selected_names", ["age", "income"]),
        ("feature_names", ["age"]),
    ],
)
def test_other_names_are_not_confirmed(
    certificate: Path, tmp_path: Path, name: str, value: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    data = json.loads(certificate.read_text())
    data["about"][name] = value
    forged = tmp_path / "forged.json"
    forged.write_text(json.dumps(data))
    code, out = verdict(forged, capsys=capsys)
    assert code == 1
    assert f"Not confirmed: {name} in the file differ from those of the model." in out


def test_another_input_or_another_fill_is_not_confirmed(certificate: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = verdict(certificate, *ROW[:3], "bundled:cancer#14", capsys=capsys)
    assert (code, "provenance.input is" in out and "in the file, but" in out) == (1, True)
    code, out = verdict(certificate, *ROW, "--set", "fill=0", capsys=capsys)
    assert (code, "provenance.masking is" in out and "in the file, but" in out) == (1, True)


def test_a_comparison_and_a_gate_are_confirmed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compared, gate = tmp_path / "compared.json", tmp_path / "gate.json"
    methods = ["--method", "occlusion", "--method", "random", "--top", "3"]
    assert main(["compare", *DIGIT, *methods, "--radii", "2,3", "--output", str(compared)]) == 0
    assert main(["check", *DIGIT, *ASK, "--min-rate", "0.1", "--output", str(gate)]) in (0, 1)
    for file in (compared, gate):
        code, out = verdict(file, *DIGIT, capsys=capsys)
        assert (code, out[:10], "The key follows from the question" in out) == (0, "Confirmed:", True)


@pytest.mark.parametrize(
    "changes", [{"answer": "does not hold"}, {"exit_code": 1}, {"reason": "all is well"}, {"needs_consistent": 1}]
)
def test_the_answer_of_a_gate_must_follow_from_its_certificate(
    tmp_path: Path, changes: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    gate = tmp_path / "gate.json"
    assert main(["check", *ROW, *ASK, "--min-rate", "0.8", "--consistent", "--output", str(gate)]) == 0
    data = json.loads(gate.read_text())
    gate.write_text(json.dumps(data | changes))
    code, out = verdict(gate, capsys=capsys)
    if "needs_consistent" in changes:  # this explanation is consistent: the answer is the same
        assert code == 0
    else:
        assert (code, f"Not confirmed: {next(iter(changes))} of the gate" in out) == (1, True)
    capsys.readouterr()
    assert main(["show", str(gate)]) == 0
    assert "explanation: " in capsys.readouterr().out


def test_a_model_that_says_the_same_of_nothing_is_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["certify", "--model", "bundled:vader", "--method", "occlusion", "--top", "1", "--radius", "1", "--input"]
    assert main([*asked, "text:the table is a table"]) == 0
    assert capsys.readouterr().out.endswith("The prediction is the same when nothing is shown.\n")
    assert main([*asked, "text:a good day"]) == 0
    assert "nothing is shown" not in capsys.readouterr().out


def test_json_says_whether_it_is_confirmed(certificate: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = verdict(certificate, *ROW, "--json", capsys=capsys)
    assert (code, json.loads(out)["confirmed"]) == (0, True)


def test_a_model_and_an_input_must_be_named(certificate: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(certificate), *ROW[:2]]) == 3
    assert "`--model` and `--input` must be given." in capsys.readouterr().err


def test_trust_is_refused_where_it_has_no_effect(certificate: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(certificate), *ROW, "--trust", "code"]) == 3
    assert "`--trust` must be left out: only a data-set guarantee loads" in capsys.readouterr().err


STUDY = """
top_fractions = [0.2]
model = { spec = "bundled:cancer-forest" }
data = { spec = "bundled:cancer", n = 6 }
methods = [{ name = "occlusion" }]
certify = { radii = [2] }
"""


def test_a_certificate_that_was_counted_is_confirmed_without_a_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "counted.json"
    assert main(["certify", *ROW, "--method", "occlusion", "--top", "5", "--radius", "3", "--output", str(file)]) == 0
    code, out = verdict(file, capsys=capsys)
    assert (code, "(proven)" in out, "random key" in out) == (0, True, False)


def test_a_curve_of_a_study_is_confirmed_and_its_key_is_canonical(tmp_path: Path) -> None:
    study = tmp_path / "s.toml"
    study.write_text(STUDY)
    assert main(["study", "run", str(study), "--quiet"]) == 0
    with Store(tmp_path / "s.db") as store:
        items = list(store.results())
    classifier, rows = hf.models.load("bundled:cancer-forest"), hf.data.load("bundled:cancer")
    for item in items:
        bound = classifier.bind(rows.inputs[item.input])
        verdict = hf.recheck(bound, item.curve)
        assert verdict.differences == ()
        assert verdict.canonical is (None if item.curve.certificates[0].exact else True)
        assert item.curve.certificates[0].n_repeated > 0
    assert len(items) == 6


def test_a_guarantee_is_confirmed_by_its_study(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study, results, file = tmp_path / "s.toml", tmp_path / "s.db", tmp_path / "guarantee.json"
    study.write_text(STUDY)
    assert main(["study", "run", str(study), "--quiet"]) == 0
    ask = ["study", "guarantee", str(results), "--method", "occlusion", "--radius", "2", "--min-rate", "0.8", "--json"]
    for stored in ([], ["--stored"]):
        capsys.readouterr()
        assert main([*ask, *stored]) == 0
        file.write_text(capsys.readouterr().out)
        code, out = verdict(file, "--study", str(results), capsys=capsys)
        assert (code, out[:10]) == (0, "Confirmed:")
        forged = json.loads(file.read_text()) | {"data": "bundled:digits"}
        file.write_text(json.dumps(forged))
        code, out = verdict(file, "--study", str(results), capsys=capsys)
        assert (code, 'data is "bundled:digits" in the file, but' in out) == (1, True)
        code, out = verdict(file, "--study", str(results), "--json", capsys=capsys)
        assert (code, json.loads(out)["confirmed"]) == (1, False)
    assert main(["verify", str(file)]) == 3
    assert "`--study` must name" in capsys.readouterr().err
    # A process that made no guarantee itself can read one.
    command = [sys.executable, "-m", "holdfast", "show", str(file)]
    assert "Nothing of this was verified" in subprocess.run(command, capture_output=True, text=True, check=True).stdout
