"""The four questions on real models: a CIFAR-10 ResNet and a MiniLM that reads tweets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from holdfast.cli import main
from tests.helpers.reproduce_support import read_rows
from tests.helpers.zoo_support import zoo_folder, zoo_images, zoo_path

QUESTIONS = ("q1-sca-vs-mus", "q2-methods", "q3-smoothing", "q4-accuracy")


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two photos of two classes, in a folder per class; the zoo's module can be imported."""
    zoo_path("cifar10-resnet20.safetensors")
    monkeypatch.syspath_prepend(str(zoo_folder()))
    images, labels = zoo_images()
    for number in (0, 20):
        place = tmp_path / "photos" / str(labels[number])
        place.mkdir(parents=True)
        Image.fromarray(images[number]).save(place / f"{number}.png")
    return tmp_path / "photos"


def check(folder: Path, n_inputs: int, models: set[str]) -> None:
    for name in QUESTIONS:
        tables = [path for path in (folder / name).glob("*.csv") if path.stem in ("curves", "accuracy")]
        [rows] = [read_rows(path) for path in tables]
        assert {row["model"] for row in rows} == models
        assert {row["n_inputs"] for row in rows} == {str(n_inputs)}
        assert (folder / name / "figure.svg").stat().st_size > 5000
        assert "The paper" in (folder / name / "findings.md").read_text(encoding="utf-8")


def ask(folder: Path, *given: Any) -> None:
    words = [str(word) for word in given]
    for name, more in (
        ("q1", ["--methods", "lime,random", "--radii", "1,4"]),
        ("q2", ["--methods", "lime,mfaba,random", "--radii", "1,20"]),
        ("q3", ["--radii", "1,10", "--keep", "1,.5", "--set", "min_tokens=2"]),
        ("q4", ["--keep", "1,.5,.25"]),
    ):
        full = next(one for one in QUESTIONS if one.startswith(name))
        assert main(["reproduce", name, *words, *more, "--output", str(folder / full)]) == 0


@pytest.mark.slow
def test_the_four_questions_run_on_a_cifar_resnet(tmp_path: Path, photos: Path) -> None:
    out = tmp_path / "out"
    ask(
        out,
        "--model",
        "python:zoo:cifar10_resnet20",
        "--set",
        "kind=image",
        "--grid",
        "8x8",
        "--data",
        f"images:{photos}",
    )
    check(out, 2, {"cifar10_resnet20"})


@pytest.mark.slow
def test_the_four_questions_run_on_a_minilm(tmp_path: Path) -> None:
    model, data = zoo_path("minilm-tweeteval-emotion"), zoo_path("tweeteval/emotion")
    assert json.loads((model / "config.json").read_text())["architectures"] == ["BertForSequenceClassification"]
    out = tmp_path / "out"
    ask(out, "--model", f"hf:{model}", "--data", f"tweeteval:{data}", "--set", "split=val", "--n", 2)
    check(out, 2, {"minilm-tweeteval-emotion"})
