"""The progress hook and the bar on the terminal."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

from holdfast import Evaluator, certify, certify_hard
from holdfast.errors import InvalidTypeError
from holdfast.terminal import TerminalBar, as_progress
from tests.helpers.fakes import all_masks, score_table

SELECTED = np.arange(12) < 2


class Reports(list[tuple[int, int]]):
    """A hook that remembers what it was told."""

    def __call__(self, done: int, total: int) -> None:
        self.append((done, total))


def certified(rate_kind: str) -> Any:
    return lambda **kwargs: certify(score_table(12), SELECTED, radius=4, rate_kind=rate_kind, rng=0, **kwargs)


QUESTIONS = {
    "uniform": certified("uniform"),
    "exactly": certified("exactly"),
    "worst_size": certified("worst_size"),
    "enumerated": lambda **kwargs: certify(score_table(5), [True] + [False] * 4, radius=2, rng=0, **kwargs),
    "hard": lambda **kwargs: certify_hard(score_table(12), SELECTED, radius=4, rng=0, **kwargs),
    "proof": lambda **kwargs: certify_hard(score_table(12), SELECTED, radius=1, max_enumerated=99, rng=0, **kwargs),
}

questions = pytest.mark.parametrize("ask", QUESTIONS.values(), ids=QUESTIONS)


@questions
@pytest.mark.parametrize("batch_size", [1, 7, None])
def test_rows_done_never_fall_and_the_last_report_says_all_are(ask: Any, batch_size: int | None) -> None:
    reports = Reports()
    cert = ask(progress=reports, batch_size=batch_size)
    done = [report[0] for report in reports]
    assert done == sorted(done)
    assert all(n <= total for n, total in reports)
    assert reports[-1] == (cert.n_calls, cert.n_calls)


@questions
def test_a_total_is_never_less_than_what_is_computed_in_the_end(ask: Any) -> None:
    """The hook is promised (rows computed so far, most rows that may be needed)."""
    reports = Reports()
    cert = ask(progress=reports, batch_size=1)
    assert min(total for _, total in reports) >= cert.n_calls


@questions
def test_a_hook_does_not_change_the_answer(ask: Any) -> None:
    assert ask(progress=Reports()) == ask()


def test_the_hook_of_a_question_is_called_when_the_model_is_an_evaluator_already() -> None:
    reports = Reports()
    cert = certify(Evaluator(score_table(12)), SELECTED, radius=4, progress=reports, rng=0)
    assert reports[-1] == (cert.n_calls, cert.n_calls)


def test_known_masks_are_not_reported_again() -> None:
    reports = Reports()
    evaluator = Evaluator(score_table(4), batch_size=8, progress=reports)
    evaluator(all_masks(4))
    evaluator(all_masks(4))
    assert [done for done, _ in reports] == [8, 16]


def test_an_error_in_the_hook_is_the_users_and_finished_work_is_kept() -> None:
    def cancel(done: int, total: int) -> None:
        raise InterruptedError(f"{done} of {total}")

    evaluator = Evaluator(score_table(4), batch_size=8, progress=cancel)
    with pytest.raises(InterruptedError):
        evaluator(all_masks(4))
    assert len(evaluator.masks) == len(evaluator.outputs) == evaluator.n_calls == 8


def test_a_bar_shows_the_share_done_and_vanishes_in_the_end() -> None:
    out = io.StringIO()
    bar = TerminalBar(out)
    bar(20, 60)
    assert out.getvalue().startswith("\r")
    assert "20/60" in out.getvalue()
    assert out.getvalue().count("█") * 2 == out.getvalue().count("░") > 0
    bar(60, 60)
    assert out.getvalue().endswith("\r\x1b[K")
    assert "\n" not in out.getvalue()


def test_a_bar_is_not_redrawn_for_every_batch() -> None:
    out = io.StringIO()
    bar = TerminalBar(out)
    for done in range(1000):
        bar(done, 1000)
    assert out.getvalue().count("\r") < 500


def test_true_draws_on_stderr_and_never_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    certify(score_table(12), SELECTED, radius=4, progress=True, rng=0, batch_size=5)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.endswith("\r\x1b[K")


@pytest.mark.parametrize("silent", [None, False])
def test_silence_is_silent(silent: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert as_progress(silent) is None
    certify(score_table(12), SELECTED, radius=4, progress=silent, rng=0)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("progress", ["yes", 1, 0, [], {}])
def test_what_cannot_be_called_is_no_hook(progress: Any) -> None:
    with pytest.raises(
        InvalidTypeError, match=r"^`progress` must be True, False, None or a function of \(done, total\)"
    ):
        as_progress(progress)
