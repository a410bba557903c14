"""Several explanations of one input are compared from the command line as they are from Python."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast as hf
from holdfast.certification.question import parse_radii
from holdfast.cli import main
from tests.helpers.oracles import exact_rate

WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven"]

FACTORY = f"""
WORDS = {WORDS!r}

def key_or_crowd():
    def model(texts):
        shown = [text.split() for text in texts]
        return [str("zero" in words or len(words) > 6) for words in shown]
    return model
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "compared_models_of_this_test.py").write_text(FACTORY)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "with_key.txt").write_text(" ".join(str(int(i < 4)) for i in range(12)))
    (tmp_path / "without.txt").write_text(" ".join(str(int(i >= 8)) for i in range(12)))
    np.save(tmp_path / "scores.npy", np.arange(12)[::-1].astype(float))
    return tmp_path


def compare(*rest: Any) -> int:
    model = ["--model", "python:compared_models_of_this_test:key_or_crowd", "--set", "kind=text"]
    return main(["compare", *model, "--input", "text:" + " ".join(WORDS), *map(str, rest)])


def masked_model() -> hf.MaskedModel:
    namespace: dict[str, Any] = {}
    exec(FACTORY, namespace)
    return hf.mask_text(namespace["key_or_crowd"](), " ".join(WORDS))


def test_the_command_says_what_the_library_says(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--explanation", "a=with_key.txt", "--explanation", "b=without.txt", "--radii", "2,3", "--set", "rng=7"]
    assert compare(*given, "--output", "found.json") == 0
    masks = {"a": np.arange(12) < 4, "b": np.arange(12) >= 8}
    wanted = hf.compare(masked_model(), masks, [2, 3], rng=7)
    assert capsys.readouterr().out == f"{wanted}\n"
    assert hf.Comparison.from_json((folder / "found.json").read_text()) == wanted


def test_the_ranking_is_true_by_enumeration(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compare("--explanation", "with_key.txt", "--explanation", "without.txt", "--radii", "3", "--json") == 0
    found = hf.Comparison.from_json(capsys.readouterr().out)
    assert found.names == ("with_key", "without")
    rates = [exact_rate(masked_model(), mask, 3) for mask in (np.arange(12) < 4, np.arange(12) >= 8)]
    assert rates[0] > rates[1]
    assert found.ranking(3) == (("with_key", "without"),)


def test_methods_scores_and_masks_are_compared_together(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = [
        "--method",
        "occlusion",
        "--method",
        "random",
        "--explanation",
        "ours=scores.npy",
        "--explanation",
        "with_key.txt",
    ]
    assert compare(*given, "--top", 4, "--radii", "1-2", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["names"] == ["occlusion", "random", "ours", "with_key"]
    ours, with_key = found["curves"][2], found["curves"][3]
    assert ours["certificates"][0]["selected"] == with_key["certificates"][0]["selected"]


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        (["--method", "lime", "--radii", "1", "--top", "2"], "at least two"),
        (["--method", "lime", "--method", "shap", "--radii", "1"], "`--method` must come with `--top`"),
        (["--method", "lime", "--method", "lime", "--radii", "1", "--top", "2"], "distinct names, got 'lime'"),
        (
            ["--explanation", "with_key.txt", "--explanation", "with_key=scores.npy", "--radii", "1", "--top", "2"],
            "'with_key'",
        ),
        (["--method", "lime", "--method", "sharp", "--radii", "1", "--top", "2"], "Did you mean 'shap'"),
    ],
    ids=str,
)
def test_what_cannot_be_compared_is_an_error(
    folder: Path, capsys: pytest.CaptureFixture[str], rest: list[str], message: str
) -> None:
    assert compare(*rest) == 3
    assert message in capsys.readouterr().err


def test_radii_are_numbers_and_spans() -> None:
    assert parse_radii("1-3, 10") == [1, 2, 3, 10]
    with pytest.raises(SystemExit) as stopped:
        compare("--method", "lime", "--method", "shap", "--radii", "few")
    assert stopped.value.code == 3
