"""What the command line says of errors: options as they were typed, files and folders in words."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli import command_parser, main
from holdfast.cli.options import error_message, file_message
from holdfast.errors import InvalidValueError, ModelError, StoreError

TEXT = ["--model", "bundled:vader", "--input", "text:what a good day"]
LIME = ["--method", "lime", "--top", "1"]


def said(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What the command says on its way out."""
    assert main(arguments) == 3
    said = capsys.readouterr().err
    assert "Errno" not in said
    assert said.startswith("holdfast: ")
    return said.removeprefix("holdfast: ").removesuffix("\n")


@pytest.mark.parametrize(
    ("changed", "start"),
    [
        (["--method", "lime", "--top", "9"], "`--top` must be at most the number of features, 4, got 9."),
        (["--method", "lime", "--top", "3.5"], "`--top` must be a number strictly between 0 and 1"),
        (["--method", "LIME", "--top", "1"], "`--method` must be one of lime, "),
        ([*LIME, "--set", "n_samples=0"], "`--set n_samples` must be a whole number ≥ 1, got 0."),
        ([*LIME, "--set", "batch_size=0"], "`--set batch_size` must be a whole number ≥ 1, got 0."),
        ([*LIME, "--set", "fill=frog"], "`--set fill` must be one of "),
    ],
)
@pytest.mark.parametrize("command", [["certify"], ["check", "--min-rate", "0.9"]], ids=["certify", "check"])
def test_an_option_is_called_as_it_was_typed(
    command: list[str], changed: list[str], start: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said([*command, *TEXT, "--radius", "1", *changed], capsys).startswith(start)


def test_a_model_and_data_are_called_by_their_options(capsys: pytest.CaptureFixture[str]) -> None:
    ask = ["certify", "--radius", "1", *LIME]
    wanted = "must start with one of"
    assert said([*ask, "--model", "m.onnx", "--input", "text:fine"], capsys).startswith(f"`--model` {wanted}")
    assert said([*ask, "--model", "bundled:vader", "--input", "digits#3"], capsys).startswith(f"`--input` {wanted}")
    subject = ["reproduce", "q2", "--model", "bundled:vader", "--data"]
    assert said([*subject, "rows.csv"], capsys).startswith(f"`--data` {wanted}")


@pytest.mark.parametrize(
    ("command", "argument", "option"),
    [
        (["reproduce", "q2", "--n", "5"], "data.n", "--n"),
        (["reproduce", "q2"], "data.n", "data.n"),
        (["reproduce", "q2", "--methods", "x"], "methods.name", "--methods"),
        (["reproduce", "q2", "--set", "min_tokens=0"], "min-tokens", "--set min_tokens"),
        (["reproduce", "q2", "--set", "min_tokens=0"], "data.min_features", "--set min_tokens"),
        (["reproduce", "q2", "--model", "bundled:vader"], "model.spec", "--model"),
        (["study", "run", "s.toml"], "data.n", "data.n"),
        (["study", "export", "a.db", "b"], "output", "output"),
        (["bench", "--input", "bundled:digits#1"], "image", "image"),
        (["bench", "--input", "bundled:digits#1"], "data", "--input"),
        (["bench", "--input", "bundled:digits#1"], "--input", "--input"),
        (["bench"], "model", "model"),
        (["bench"], "method='mfaba'", "method='mfaba'"),
    ],
)
def test_only_what_was_typed_is_called_by_its_option(command: list[str], argument: str, option: str) -> None:
    options = command_parser().parse_args(command)
    by_fields = InvalidValueError(argument=argument, must="fit", got="x", hint="Try y.")
    assert error_message(by_fields, options) == f"`{option}` must fit, got x. Try y."
    in_words = InvalidValueError("and `k` must fit.", argument=argument)
    assert error_message(in_words, options) == f"`{option}` and `k` must fit."


def test_what_is_about_no_argument_is_said_as_it_is() -> None:
    options = command_parser().parse_args(["bench", "--set", "radius=0"])
    for error in (InvalidValueError("`radius` is a word here."), ModelError("The model returned NaN.")):
        assert error_message(error, options) == str(error)


def test_files_that_are_not_there_or_no_files_are_told_in_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, missing = tmp_path / "file.txt", tmp_path / "nope.npy"
    file.touch()
    assert said(["verify", str(missing), *TEXT], capsys) == f"No such file: {str(missing)!r}."
    assert said(["study", "plan", str(tmp_path)], capsys) == f"{str(tmp_path)!r} must be a file, but it is a folder."
    scores = ["--explanation", str(missing), "--top", "1", "--radius", "1"]
    assert said(["certify", *TEXT, *scores], capsys) == f"No such file: {str(missing)!r}."
    assert said(["check", *TEXT, *scores, "--min-rate", "0.9"], capsys) == f"No such file: {str(missing)!r}."
    assert said(["demo", "--output", str(file)], capsys) == f"{str(file)!r} must be a folder, but it is a file."
    under = str(file / "deep" / "er")
    assert said(["demo", "--output", under], capsys) == f"{str(file)!r} must be a folder, but it is a file."
    elsewhere = str(tmp_path / "no" / "x.json")
    assert said(["verify", elsewhere, *TEXT], capsys) == f"No such folder: {str(tmp_path / 'no')!r}."


@pytest.mark.parametrize(
    ("error", "wanted"),
    [
        (PermissionError(errno.EACCES, "Permission denied", "x"), "Permission denied: 'x'."),
        (FileExistsError(errno.EEXIST, "File exists", "."), "'.' already exists."),
        (OSError("the disk is gone"), "the disk is gone"),
    ],
)
def test_other_errors_of_files_keep_their_words(error: OSError, wanted: str) -> None:
    assert file_message(error) == wanted


def test_an_error_of_a_store_speaks_for_itself() -> None:
    options: Any = command_parser().parse_args(["bench"])
    assert error_message(StoreError("'a.db' is busy."), options) == "'a.db' is busy."


@pytest.mark.parametrize("text", ["5-1", "1,9-8"])
def test_a_span_of_radii_must_go_upwards(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["compare", *TEXT, "--method", "lime", "--method", "shap", "--top", "1", "--radii", text])
    assert stopped.value.code == 3
    upwards = "1-5" if text == "5-1" else "8-9"
    said = capsys.readouterr().err
    assert said.endswith(f"argument --radii: must have ranges that go up, such as {upwards}, got {text!r}\n")
