"""Calls that take too long: what is raised, what is kept, and that nothing else changes."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast as hf
from holdfast.calls import Deadline
from holdfast.cli import main
from holdfast.cli.options import EXIT_ERROR
from holdfast.study.spec import write_spec
from tests.helpers.fakes import Recorded, all_masks, score_table
from tests.helpers.study_support import make_spec, write_texts

SOON = 1.0
LONG = 600.0
SELECTED = np.arange(8) < 3


class Hanging:
    """A model that hangs at one of its calls, until it is released."""

    def __init__(self, *, at: int) -> None:
        self.n_features = 8
        self._table, self._at, self._n = score_table(8), at, 0
        self.release = threading.Event()

    def __call__(self, masks: Any, /) -> Any:
        self._n += 1
        if self._n == self._at:
            self.release.wait(LONG)
        return self._table(masks)


def test_a_call_that_takes_too_long_raises_in_time_and_keeps_what_was_computed() -> None:
    model = Hanging(at=3)
    evaluator = hf.Evaluator(model, batch_size=4, timeout=SOON)
    masks, start = all_masks(8), time.monotonic()
    with pytest.raises(
        hf.errors.ModelError, match=r"no answer for 4 masks within `timeout` = 1 s\. Answers that came "
    ):
        evaluator(masks[:12])
    assert time.monotonic() - start < LONG / 2
    np.testing.assert_array_equal(evaluator.masks, masks[:8])
    np.testing.assert_array_equal(evaluator.outputs, score_table(8)(masks[:8]))
    assert evaluator.n_calls == 8
    model.release.set()


def test_a_model_that_still_hangs_is_not_asked_again_and_one_that_came_back_is() -> None:
    model = Hanging(at=1)
    evaluator = hf.Evaluator(model, timeout=SOON)
    with pytest.raises(hf.errors.ModelError, match="no answer for 2 masks"):
        hf.certify(evaluator, SELECTED, radius=2, rng=0)
    with pytest.raises(hf.errors.ModelError, match="a call that was given up is still running"):
        hf.certify(evaluator, SELECTED, radius=2, rng=0)
    model.release.set()
    for thread in threading.enumerate():
        if thread.name == "holdfast-model":
            thread.join()
    bare = hf.mask_function(lambda masks: score_table(8)(masks), n_features=8)
    assert hf.certify(evaluator, SELECTED, radius=2, rng=0) == hf.certify(bare, SELECTED, radius=2, rng=0)


@pytest.mark.parametrize("make", [lambda m: m, lambda m: hf.smooth(m, 0.5, 8, rng=1)], ids=["plain", "smoothed"])
def test_a_limit_that_is_kept_changes_nothing(make: Any) -> None:
    plain, limited = make(score_table(8)), make(hf.Evaluator(score_table(8), timeout=LONG))
    assert hf.certify(limited, SELECTED, radius=3, rng=0) == hf.certify(plain, SELECTED, radius=3, rng=0)
    over = hf.Evaluator(plain, timeout=LONG)
    assert hf.certify(over, SELECTED, radius=3, rng=0).rate == hf.certify(plain, SELECTED, radius=3, rng=0).rate


@pytest.mark.parametrize("error", [KeyError("no such layer"), SystemExit(4), hf.errors.ModelError("mine")], ids=repr)
def test_what_the_model_raises_comes_through_as_it_is(error: BaseException) -> None:
    def fail(n_batches: int, masks: Any) -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        hf.Evaluator(Recorded(score_table(8), fail), timeout=LONG)(all_masks(8))
    assert caught.value is error


def test_memory_that_runs_out_in_the_thread_still_halves_the_batch() -> None:
    def fail(n_batches: int, masks: Any) -> None:
        if len(masks) > 16:
            raise MemoryError

    model = Recorded(score_table(8), fail)
    evaluator = hf.Evaluator(model, timeout=LONG)
    np.testing.assert_array_equal(evaluator(all_masks(8)), score_table(8)(all_masks(8)))
    assert evaluator.batch_size == 16


def test_settings_of_the_caller_hold_in_the_thread() -> None:
    def divide() -> Any:
        return np.ones(1) / np.zeros(1)

    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        Deadline(LONG).call(divide, "for 1 mask")
    with np.errstate(divide="ignore"):
        assert Deadline(LONG).call(divide, "for 1 mask") == np.inf


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="signals of POSIX")
@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_ends_the_wait_for_a_model_that_hangs() -> None:
    model = Hanging(at=1)
    threading.Timer(SOON, os.kill, (os.getpid(), signal.SIGINT)).start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt) as caught:
        hf.certify(hf.Evaluator(model, timeout=LONG), SELECTED, radius=2, rng=0)
    assert time.monotonic() - start < LONG / 2
    assert caught.value.__notes__ == ["Stopped after 0 model calls."]
    model.release.set()


class Steep:
    """Gradients that take longer than anybody waits, until they are released; values that do not."""

    n_features = 3
    elements = np.ones(3)
    baseline = np.zeros(3)
    groups = np.arange(3)

    def __init__(self) -> None:
        self.release = threading.Event()

    def __call__(self, masks: Any, /) -> Any:
        return np.c_[masks.sum(axis=1), np.zeros(len(masks))].astype(float)

    def gradient(self, points: Any, target: int) -> Any:
        self.release.wait(LONG)
        return np.zeros((len(points), 2)), np.ones_like(points)


@pytest.mark.parametrize("wrap", [lambda e: e, hf.Evaluator], ids=["itself", "another on top"])
def test_gradients_are_held_to_the_same_limit(wrap: Any) -> None:
    model = Steep()
    evaluator = wrap(hf.Evaluator(model, timeout=SOON))
    with pytest.raises(hf.errors.ModelError, match=r"no answer for \d+ gradients within `timeout` = 1 s"):
        hf.attribute(evaluator, "integrated_gradients", n_samples=4)
    model.release.set()
    unlimited = hf.attribute(hf.Evaluator(model), "integrated_gradients", n_samples=4)
    np.testing.assert_allclose(unlimited.scores, 1.0)


def test_decisions_of_a_smoothed_model_are_held_to_the_limit_of_either_evaluator() -> None:
    for outer, inner in ((SOON, None), (None, SOON)):
        model = Hanging(at=2)
        smoothed = hf.smooth(hf.Evaluator(model, timeout=inner), 0.5, 16, rng=0)
        with pytest.raises(hf.errors.ModelError, match=r"within `timeout` = 1 s"):
            hf.certify(hf.Evaluator(smoothed, timeout=outer), SELECTED, radius=2, rng=0)
        model.release.set()


@pytest.mark.parametrize(
    ("value", "error"),
    [
        *((value, hf.errors.InvalidValueError) for value in (0, -1, float("nan"), -np.inf)),
        *((value, hf.errors.InvalidTypeError) for value in ("5", True, [5], 5j)),
    ],
    ids=repr,
)
def test_a_limit_that_is_no_number_of_seconds_is_refused(value: Any, error: Any) -> None:
    with pytest.raises(error, match=r"^`timeout` must be a number of seconds > 0, or None, got "):
        hf.Evaluator(score_table(3), timeout=value)


def test_a_limit_beyond_what_a_clock_can_count_is_no_limit() -> None:
    assert len(hf.Evaluator(score_table(3), timeout=np.inf)(all_masks(3))) == 8


def hanging() -> Any:
    """A ``python:`` model of texts that never answers."""

    def score(texts: list[str]) -> Any:
        time.sleep(LONG)

    return score


ASKED = [
    "--model",
    "python:tests.edge.test_timeout:hanging",
    "--set",
    "kind=text",
    "--input",
    "text:a b c d",
    "--set",
    "rng=0",
]
EXPLAINED = ["--method", "occlusion", "--top", "1", "--set", "timeout=1"]


@pytest.mark.parametrize(
    "command", [["certify", "--radius", "1"], ["check", "--radius", "1", "--min-rate", "0.9"]], ids=lambda c: c[0]
)
def test_commands_end_with_an_error_when_a_call_takes_too_long(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    start = time.monotonic()
    assert main([*command, *ASKED, *EXPLAINED]) == EXIT_ERROR
    assert time.monotonic() - start < LONG / 2
    assert "holdfast: The model gave no answer for 5 masks within `timeout` = 1 s." in capsys.readouterr().err


def test_a_study_run_takes_a_limit_only_with_workers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_spec(make_spec(write_texts(tmp_path, 2)), tmp_path / "study.toml")
    assert main(["study", "run", str(tmp_path / "study.toml"), "--trust", "code", "--set", "timeout=5"]) == EXIT_ERROR
    assert "`--set timeout` must come with worker processes: set" in capsys.readouterr().err
    assert not (tmp_path / "study.db").exists()
