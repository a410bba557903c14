"""The command line: what it prints, what it writes, how it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast as hf
from holdfast.cli import main

FACTORY = """
import numpy as np

def reads_words():
    return lambda texts: ["good" if "good" in t and "not" not in t else "bad" for t in texts]

def sums():
    return lambda rows: np.stack([rows.sum(axis=1), 3.0 - rows.sum(axis=1)], axis=1)

def brightness():
    return lambda images: np.stack([images.mean(axis=(1, 2, 3)), np.full(len(images), 60.0)], axis=1)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "factories_of_this_test.py").write_text(FACTORY)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def asked(command: str, factory: str, *rest: Any) -> list[str]:
    return [command, "--model", f"python:factories_of_this_test:{factory}", *map(str, rest)]


TEXT = "a good day is not a bad day at all my dear old friend said she"


def certify_text(folder: Path, *rest: Any) -> int:
    mask = [int(word == "good") for word in TEXT.split()]
    (folder / "mask.json").write_text(json.dumps(mask))
    question = ["--input", f"text:{TEXT}", "--explanation", "mask.json", "--radius", 6, "--set", "rng=1"]
    return main(asked("certify", "reads_words", *question, *rest))


def test_a_text_is_certified_and_the_certificate_is_written(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert certify_text(folder, "--output", "cert.json") == 0
    cert = hf.Certificate.from_json((folder / "cert.json").read_text())
    assert capsys.readouterr().out.strip() == str(cert)
    assert (cert.prediction, cert.consistent) == ("good", False)
    assert 0 < cert.rate < 1


@pytest.mark.parametrize(
    ("name", "told"),
    [("no/cert.json", "a folder that exists, got 'no/cert.json'"), (".", "a file, got '.'"), ("x" * 300, "got 'xxx")],
    ids=["nowhere", "folder", "long"],
)
@pytest.mark.parametrize("command", ["certify", "check"])
def test_a_file_that_cannot_be_written_is_an_error_before_anything_is_computed(
    command: str, name: str, told: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(asked(command, "reads_words", "--input", f"text:{TEXT}", "--radius", 6, "--output", name))
    assert ended.value.code == 3
    assert told in capsys.readouterr().err


def test_json_can_be_printed_instead_of_a_sentence(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert certify_text(folder, "--json") == 0
    assert hf.Certificate.from_json(capsys.readouterr().out).radius == 6


def test_a_written_certificate_is_verified_and_an_edited_one_is_not(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    certify_text(folder, "--output", "cert.json")
    verify = [*asked("verify", "reads_words", "--input", f"text:{TEXT}"), "cert.json"]
    assert main(verify) == 0
    assert "Confirmed" in capsys.readouterr().out
    data = json.loads((folder / "cert.json").read_text())
    data["n_agreed"] -= 1
    data["rate"] = data["n_agreed"] / data["n_evaluated"]
    (folder / "cert.json").write_text(json.dumps(data))
    assert main(verify) == 3
    assert "`rate` and `interval` must follow from" in capsys.readouterr().err
    certify_text(folder, "--output", "cert.json")
    data = json.loads((folder / "cert.json").read_text())
    (folder / "cert.json").write_text(json.dumps(data | {"consistent": not data["consistent"]}))
    assert main(verify) == 1
    assert "Not confirmed: " in capsys.readouterr().out


def test_a_row_of_a_table_is_certified(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "table.csv").write_text("a,b,c,label\n3,1,0,0\n0,0,1,1\n0,1,0,1\n")
    np.save(folder / "scores.npy", np.array([3.0, 1.0, 0.0]))
    rest = [
        "--input",
        "table.csv#0",
        "--set",
        "target=label",
        "--explanation",
        "scores.npy",
        "--top",
        1,
        "--radius",
        2,
    ]
    assert main(asked("certify", "sums", *rest)) == 0
    assert "in 4 of 4 masks, counted, not drawn." in capsys.readouterr().out


def test_a_target_that_is_no_column_is_an_error_that_names_the_columns(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "table.csv").write_text("a,b,c,label\n3,1,0,0\n0,0,1,1\n0,1,0,1\n")
    (folder / "rows.csv").write_text("a,b,c\n0,0,0\n0,1,1\n")
    np.save(folder / "scores.npy", np.array([3.0, 1.0, 0.0]))
    rest = ["--input", "table.csv#0", "--explanation", "scores.npy", "--top", 1, "--radius", 2]
    assert main(asked("certify", "sums", *rest, "--set", "target=lable")) == 3
    assert "`--set target` must be one of a, b, c, label, got 'lable'. Did you mean 'label'?" in capsys.readouterr().err
    # Rows that hidden columns are filled from may come without labels.
    assert main(asked("certify", "sums", *rest, "--set", "target=label", "--set", "background=rows.csv")) == 0


def test_an_image_is_certified(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from PIL import Image

    Image.fromarray(np.full((8, 8, 3), 200, dtype=np.uint8)).save(folder / "white.png")
    (folder / "mask.csv").write_text("1,1,0,0")
    rest = ["--input", "white.png", "--grid", "2x2", "--explanation", "mask.csv", "--radius", 2]
    assert main(asked("certify", "brightness", *rest)) == 0
    assert "keeps the prediction" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        (["--explanation", "missing.npy", "--radius", "2"], "missing.npy"),
        (["--explanation", "words.txt", "--radius", "2"], "words.txt must hold one number per feature"),
        (["--explanation", "twos.txt", "--radius", "2"], "only 0 and 1"),
        (["--explanation", "short.txt", "--radius", "2"], "one entry per feature"),
        (["--explanation", "scores.txt", "--top", "1", "--radius", "2"], "one score per feature"),
        (["--explanation", "scores.txt", "--radius", "2"], "hold only 0 and 1, or come with `--top`"),
        (["--explanation", "short.txt", "--top", "1", "--radius", "2"], "must have one score per feature: 16, got 2"),
        (["--explanation", "short.txt", "--set", "n_samples=9", "--radius", "2"], "`--set n_samples` must be left out"),
        (["--explanation", "lime", "--top", "1", "--radius", "2", "--set", "target=x"], "`--set target` must be left"),
        (["--explanation", "lime", "--top", "1", "--radius", "2", "--grid", "2x2"], "`--grid` must"),
        (["--explanation", "lime", "--radius", "2"], "`--explanation` must come with `--top`"),
        (["--explanation", "short.txt", "--radius", "-2"], "one entry per feature"),
    ],
    ids=str,
)
def test_what_cannot_be_used_ends_with_a_message_and_code_3(
    folder: Path, capsys: pytest.CaptureFixture[str], rest: list[str], message: str
) -> None:
    (folder / "words.txt").write_text("some words")
    (folder / "twos.txt").write_text("2 2")
    (folder / "scores.txt").write_text("2 0.5")
    (folder / "short.txt").write_text("1 0")
    assert main(asked("certify", "reads_words", "--input", f"text:{TEXT}", *rest)) == 3
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.err.startswith("holdfast: ")
    assert printed.out == ""


def test_a_truncated_certificate_is_an_error_not_a_refutation(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "cert.json").write_text('{"schema": "holdfast.cert')
    assert main([*asked("verify", "reads_words", "--input", f"text:{TEXT}"), "cert.json"]) == 3
    assert "is not a readable result" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command", [[], ["certify"], ["curve"], ["radius"], ["explain"], ["witness"], ["verify"], ["demo"]], ids=str
)
def test_help_teaches(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([*command, "--help"])
    assert stopped.value.code == 0
    printed = capsys.readouterr().out
    assert printed.startswith("usage: holdfast")
    assert "\nExample: holdfast " in printed


def test_without_a_command_the_help_is_printed_and_no_answer_given(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 3
    said = capsys.readouterr()
    assert (said.out, "certify one explanation" in said.err) == ("", True)


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    file = tmp_path / "certificate.json"
    file.write_text(hf.certify(hf.lookup_table([0, 1], n_features=1), [True], radius=1, rng=0).to_json())
    nobody_reads, pipe = os.pipe()
    os.close(nobody_reads)
    command = [sys.executable, "-u", "-m", "holdfast", "show", str(file)]
    run = subprocess.run(command, stdout=pipe, stderr=subprocess.PIPE, check=False)
    os.close(pipe)
    assert (run.returncode, run.stderr) == (0, b"")


def test_texts_for_a_model_of_numbers_are_an_error_that_names_the_column(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    skops, pandas = pytest.importorskip("skops.io"), pytest.importorskip("pandas")
    from sklearn.linear_model import LogisticRegression

    table = pandas.DataFrame({"age": [1.0, 2.0, 3.0, 4.0], "town": [0.0, 1.0, 0.0, 1.0]})
    skops.dump(LogisticRegression().fit(table, [0, 1, 0, 1]), "model.skops")
    table.assign(town=["Bonn", "Rome", "Bonn", "Rome"]).to_csv("table.csv", index=False)
    ask = ["certify", "--model", "skops:model.skops", "--input", "table.csv#0", "--radius", "1"]
    assert main([*ask, "--method", "occlusion", "--top", "1"]) == 3
    said = capsys.readouterr().err
    assert "Not numbers: 'town' ('Bonn'). Leave such columns out" in said
    assert "Traceback" not in said


STOPPED = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
def model():
    def score(texts):
        os.kill(os.getpid(), signal.SIGINT)
        return [[0.0, 1.0]] * len(texts)
    return score
if __name__ == "__main__":
    from holdfast.cli import main
    sys.exit(main(sys.argv[1:]))
"""


def test_ctrl_c_ends_a_command_with_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "stopped_in_this_test.py").write_text(STOPPED)
    ask = [
        "certify",
        "--model",
        "python:stopped_in_this_test:model",
        "--set",
        "kind=text",
        "--input",
        "text:a good day",
    ]
    done = subprocess.run(
        [sys.executable, "stopped_in_this_test.py", *ask, "--method", "occlusion", "--top", "1", "--radius", "1"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 130
    assert done.stderr.startswith("holdfast: Interrupted. Stopped after ")
    assert "Traceback" not in done.stderr


SEARCH = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
import holdfast.cli
class Stopping(holdfast.cli.SearchNotice):
    def __call__(self, done, total):
        super().__call__(done, total)
        os.kill(os.getpid(), signal.SIGINT)
holdfast.cli.SearchNotice = Stopping
sys.exit(holdfast.cli.main(sys.argv[1:]))
"""


def test_ctrl_c_ends_the_search_for_a_design(tmp_path: Path) -> None:
    ask = [
        "certify",
        "--model",
        "bundled:vader",
        "--input",
        "text:a good day is not a bad day",
        "--method",
        "occlusion",
    ]
    done = subprocess.run(
        [sys.executable, "-c", SEARCH, *ask, "--top", "1", "--radius", "3", "--tolerance", "0.013"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "HOLDFAST_CACHE": str(tmp_path)},
    )
    assert done.returncode == 130
    assert done.stderr.splitlines()[0].startswith("Searching for a stopping design; it is stored")
    assert done.stderr.splitlines()[1].startswith("holdfast: Interrupted.")
