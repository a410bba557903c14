"""Examples run, and say only what their numbers show."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def training() -> ModuleType:
    pytest.importorskip("torch")
    spec = importlib.util.spec_from_file_location("training_example", EXAMPLES / "stability_regularized_training.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module


def made_up(training: ModuleType, *, rate: float, n: int = 300) -> object:
    """A network that is right on every image, with explanations of one rate."""
    rates = np.full((n, len(training.RADII)), rate)
    one = training.Measured(np.ones(n, bool), rates, np.full(n, rate >= training.MIN_RATE))
    return training.Network(np.ones(n, bool), dict.fromkeys(training.EXPLANATIONS, one))


def test_the_quick_training_experiment_runs_and_tells_every_training(training: ModuleType) -> None:
    lines: list[str] = []
    found = training.run(training.QUICK, watch=lines.append)
    assert list(found) == ["plain", "masked", "penalty", "both"]
    assert len(lines) == 4
    for [network] in found.values():
        assert network.correct.mean() > 0.5
        for measured in network.explained.values():
            assert measured.rates.shape == (training.QUICK.n_images, len(training.RADII))
            assert ((measured.rates >= 0) & (measured.rates <= 1)).all()
    told = "\n".join(training.tell(found))
    # Four images show nothing, and the experiment says so.
    assert re.findall(r"(random|occlusion), τ at r = 8 .*(higher|lower)", told) == []
    assert told.count("cannot be told apart") >= 6


@pytest.mark.parametrize(("rate", "word"), [(0.95, "higher"), (0.3, "lower"), (0.7, "cannot be told apart")])
def test_verdicts_follow_from_the_intervals(training: ModuleType, rate: float, word: str) -> None:
    found = {"plain": [made_up(training, rate=0.7)], "penalty": [made_up(training, rate=rate)]}
    told = [line for line in training.tell_differences(found) if "τ at r = 8" in line]
    assert [line.split("  ")[-1] for line in told] == [word, word]
    accuracy = next(line for line in training.tell_differences(found) if "accuracy" in line)
    assert accuracy.endswith("cannot be told apart")


def test_hidden_pixels_are_grey_and_the_penalty_is_zero_for_a_network_that_sees_nothing(training: ModuleType) -> None:
    import torch

    images, _ = training.load("test")
    assert (training.hide(images[:2], torch.zeros(2, 64, dtype=torch.bool)) == 0).all()
    blind = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
    torch.nn.init.zeros_(blind[1].weight)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        assert float(training.disagreement(blind, images[:8], generator)) == pytest.approx(0, abs=1e-6)
        torch.nn.init.normal_(blind[1].weight, generator=generator)
        assert float(training.disagreement(blind, images[:8], generator)) > 0


@pytest.mark.slow
def test_the_picture_of_the_readme_is_made_and_says_what_is_true_of_the_cat(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = importlib.util.spec_from_file_location("photograph_example", EXAMPLES / "photograph.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.main(tmp_path / "header.png")
    told = capsys.readouterr().out
    assert (tmp_path / "header.png").stat().st_size > 50_000
    assert "keeps the prediction 'Egyptian cat' in exactly 30 of 38 cases" in told
    assert "changes the prediction 'Egyptian cat' to 'cheetah'; no smaller addition does" in told
