"""The progress hook and the bar on the terminal."""

from __future__ import annotations

import io
import threading
from contextlib import redirect_stderr
from typing import Any

import numpy as np
import pytest

from holdfast import Evaluator, calibrate, certify, certify_hard, mean_curve
from holdfast.errors import InvalidTypeError
from holdfast.terminal import TerminalBar, as_progress, search_bar, watching_search, without_bars
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


class Terminal(io.StringIO):
    """What was written, and that someone looks at it."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bars that nobody asked for do not wait."""
    monkeypatch.setattr("holdfast.terminal.SECONDS_BEFORE_BAR", 1e-9)
    monkeypatch.setenv("TERM", "xterm")


def test_a_bar_that_nobody_asked_for_appears_after_two_seconds_and_vanishes() -> None:
    out, now = io.StringIO(), [0.0]
    bar = TerminalBar(out, after=2.0, clock=lambda: now[0])
    for seconds in (0.5, 1.0, 1.99):
        now[0] = seconds
        bar(round(10 * seconds), 100)
    assert out.getvalue() == ""
    now[0] = 2.0
    bar(20, 100)
    assert "20/100 masks, 10/s, ≤ 8 s left" in out.getvalue()
    bar(100, 100)
    assert out.getvalue().endswith("\r\x1b[K")


def test_what_ends_within_two_seconds_draws_nothing() -> None:
    out = io.StringIO()
    bar = TerminalBar(out, after=2.0, clock=lambda: 1.0)
    bar(5, 10)
    bar(10, 10)
    assert out.getvalue() == ""


@pytest.mark.usefixtures("at_once")
def test_on_a_terminal_a_bar_appears_by_itself_and_false_silences_it() -> None:
    ask, seen, silent = certified("uniform"), Terminal(), Terminal()
    with redirect_stderr(seen):
        shown = ask(batch_size=3)
    with redirect_stderr(silent):
        assert ask(progress=False, batch_size=3) == shown
        certify(Evaluator(score_table(12), progress=False), SELECTED, radius=4, rng=0, batch_size=3)
    assert "masks" in seen.getvalue()
    assert seen.getvalue().endswith("\r\x1b[K")
    assert silent.getvalue() == ""


@pytest.mark.usefixtures("at_once")
def test_an_evaluator_draws_no_bar_before_a_question_is_asked() -> None:
    evaluator, terminal = Evaluator(score_table(4), batch_size=8), Terminal()
    with redirect_stderr(terminal):
        evaluator(all_masks(4)[:5])
        assert terminal.getvalue() == ""
        certify(evaluator, [True, False, False, False], radius=2, batch_size=1, rng=0)
    assert "masks" in terminal.getvalue()


@pytest.mark.usefixtures("at_once")
def test_a_question_made_of_many_has_one_bar() -> None:
    terminal = Terminal()
    with redirect_stderr(terminal):
        mean_curve([lambda: (score_table(12), SELECTED)] * 3, radii=[1, 2], half_width=0.3, batch_size=3, rng=0)
        calibrate([score_table(6)] * 4, [np.arange(6.0)] * 4, radius=1, min_rate=0.3, share=0.3, batch_size=2, rng=0)
    lines = [line.split() for line in terminal.getvalue().split("\r\x1b[K") if line]
    assert {line[2].rstrip(",") for line in lines} == {"inputs", "tests"}, "and no masks of one of them"


@pytest.mark.usefixtures("at_once")
def test_no_bar_appears_by_itself_in_pipes_threads_and_parts_of_something_larger(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[Any] = []
    with redirect_stderr(Terminal()):
        assert as_progress(None) is not None
        with without_bars():
            assert as_progress(None) is None
            assert as_progress(True) is not None
        thread = threading.Thread(target=lambda: seen.append(as_progress(None)))
        thread.start()
        thread.join()
        monkeypatch.setenv("TERM", "dumb")
        seen.append(as_progress(None))
    for other in (io.StringIO(), None):
        with redirect_stderr(other):
            seen.append(as_progress(None))
    assert seen == [None] * 4


@pytest.mark.usefixtures("at_once")
def test_a_search_has_a_bar_of_its_own_unless_someone_watches_it() -> None:
    terminal = Terminal()
    with redirect_stderr(terminal):
        certify(score_table(12), SELECTED, radius=4, tolerance=0.083, confidence=0.77, batch_size=3, rng=0)
        with watching_search(Reports()):
            assert search_bar() is None
    assert "steps of the search" in terminal.getvalue()
