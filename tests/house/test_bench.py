"""What `holdfast bench` measures is what happened: the masks, the calls and the time of the model."""

from __future__ import annotations

import time

import numpy as np
import pytest

import holdfast as hf
from holdfast.cli import main
from holdfast.cli.bench import BATCH_SIZES, measure

SELECTED = np.arange(12) < 3


def parity() -> hf.MaskedModel:
    return hf.lookup_table([i.bit_count() % 2 for i in range(2**12)], n_features=12)


def test_each_plan_is_measured_on_its_own_certificate() -> None:
    found = measure(parity(), SELECTED, radius=6, rng=3)
    wanted = [hf.certify(parity(), SELECTED, radius=6, plan=cost.plan, rng=3) for cost in found.costs]
    assert [cost.certificate for cost in found.costs] == wanted
    assert found.calls_saved == wanted[2].n_calls / wanted[0].n_calls > 1


def test_the_models_own_time_is_part_of_the_whole() -> None:
    found = measure(parity(), SELECTED, radius=6)
    assert all(0 < cost.model_seconds < cost.seconds and cost.overhead > 1 for cost in found.costs)
    assert list(found.seconds_per_mask) == list(BATCH_SIZES)


def test_a_slow_model_is_timed_as_slow() -> None:
    def slow(masks: hf.Mask) -> np.ndarray:
        time.sleep(0.002 * len(masks))
        return masks.sum(axis=1) % 2

    found = measure(hf.mask_function(slow, n_features=12), SELECTED, radius=6)
    assert min(found.seconds_per_mask.values()) >= 0.002
    assert all(cost.model_seconds >= 0.002 * cost.certificate.n_calls for cost in found.costs)


def test_a_model_that_takes_too_long_is_not_given_larger_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.cli.bench._PATIENCE", 0.0)
    assert list(measure(parity(), SELECTED, radius=6).seconds_per_mask) == [1]


def test_small_questions_are_answered_exactly_and_said_so() -> None:
    found = measure(parity(), SELECTED, radius=1)
    assert found.costs[0].certificate.exact
    assert str(found).endswith("All masks within the radius were evaluated, so there was nothing to draw.")


def test_the_command_measures_a_bundled_model_by_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["bench", "--model", "bundled:cancer-forest", "--input", "bundled:cancer#0", "--set", "batch_size=64"])
        == 0
    )
    told = capsys.readouterr().out
    assert told.startswith("bundled:cancer-forest, 30 features, revealing up to 5 more\n")
    assert "sequential" in told
    assert "times fewer than the paper's plan" in told


@pytest.mark.parametrize("given", [["--model", "bundled:vader"], ["--input", "text:what a day"]])
def test_a_model_without_an_input_is_refused(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *given]) == 3
    assert "go together" in capsys.readouterr().err
