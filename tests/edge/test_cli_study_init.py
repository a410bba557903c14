"""``holdfast study init`` writes a study that can be read, and never over somebody's work."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.cli import main
from holdfast.study.spec import commented_example, parse_spec, read_spec


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_example_is_written_where_asked(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "init", "mine.toml", "--model", "onnx:a.onnx", "--data", "images:photos"]) == 0
    spec = read_spec(folder / "mine.toml")
    assert (spec.model.spec, spec.data.spec) == ("onnx:a.onnx", "images:photos")
    assert "holdfast study plan mine.toml\n" in capsys.readouterr().out
    assert main(["study", "init", "code.toml", "--model", "python:a:b", "--data", "images:photos"]) == 0
    assert "holdfast study plan code.toml --trust code\n" in capsys.readouterr().out


def test_a_file_that_is_there_is_left_alone(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "study.toml").write_text("mine")
    assert main(["study", "init"]) == 3
    assert (folder / "study.toml").read_text() == "mine"
    assert "--force" in capsys.readouterr().err
    assert main(["study", "init", "--force"]) == 0
    assert (folder / "study.toml").read_text() == commented_example()


def test_the_example_can_be_printed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "init", "-"]) == 0
    assert parse_spec(capsys.readouterr().out) == parse_spec(commented_example())
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("command", [["study"], ["study", "init"], ["study", "plan"], ["compare"], ["check"]], ids=str)
def test_help_teaches(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([*command, "--help"])
    assert stopped.value.code == 0
    assert "usage: holdfast" in capsys.readouterr().out


def test_the_example_for_texts_plans_and_runs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "init", "--model", "bundled:vader", "--data", "bundled:sentences"]) == 0
    text = (folder / "study.toml").read_text()
    assert "\n# groups = [8, 8]\n" in text
    assert main(["study", "plan", "--untimed"]) == 0
    (folder / "study.toml").write_text(text.replace("n = 20", "n = 2"))
    assert main(["study", "run"]) == 0
    assert "6 of 6 items of 2 inputs, complete" in capsys.readouterr().out


def test_images_keep_their_grid() -> None:
    assert parse_spec(commented_example(data="images:photos")).masking.groups == (8, 8)
    assert parse_spec(commented_example(data="table:a.csv")).masking.groups is None
