"""Colour is for people at a terminal who want it; nothing else that a terminal obeys is printed."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from holdfast.cli import SearchNotice, main
from holdfast.cli.options import paint_path
from holdfast.terminal import Neutral, neutral, neutral_streams, unescaped


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_terminals_get_colour_unless_they_or_the_user_decline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert paint_path("here", Terminal()) == "\x1b[4;36mhere\x1b[0m"
    assert paint_path("here", io.StringIO()) == "here"
    monkeypatch.setenv("NO_COLOR", "1")
    assert paint_path("here", Terminal()) == "here"
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert paint_path("here", Terminal()) == "here"


HOSTILE = "\x1b[2J\x1b]0;owned\x07\r\x9b5m\u202egnp"


def test_what_terminals_obey_is_written_out_and_all_else_kept() -> None:
    assert neutral(HOSTILE) == r"\x1b[2J\x1b]0;owned\x07\r\x9b5m\u202egnp"
    assert neutral("a\tb\nשלום 👩‍👩‍👧 é") == "a\tb\nשלום 👩‍👩‍👧 é"
    assert neutral("\udcff") == r"\udcff"


def test_what_a_stream_cannot_encode_is_written_out() -> None:
    raw = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    stream = Neutral(raw)
    stream.writelines(["≥ ", "1\x07"])
    raw.flush()
    assert raw.buffer.getvalue() == rb"\u2265 1\x07"
    assert stream.isatty() is False
    assert unescaped(stream) is raw


def test_painted_text_holds_no_codes_but_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert paint_path(HOSTILE, Terminal()) == f"\x1b[4;36m{neutral(HOSTILE)}\x1b[0m"


TEXT = ["--model", "bundled:vader", "--input", "text:what a good day"]
CERTIFY = ["certify", *TEXT, "--radius", "1"]


@pytest.mark.parametrize(
    "arguments",
    [
        [
            "certify",
            "--model",
            f"skops:{HOSTILE}",
            "--input",
            "text:a day",
            "--radius",
            "1",
            "--method",
            "lime",
            "--top",
            "1",
        ],
        [*CERTIFY, "--explanation", f"{HOSTILE}.json"],
        [*CERTIFY, "--method", HOSTILE, "--top", "1"],
        [*CERTIFY, "--method", "lime", "--top", "1", f"--{HOSTILE}"],
        ["study", "status", f"{HOSTILE}.db"],
        ["study", "plan", f"{HOSTILE}.toml"],
        ["verify", HOSTILE, *TEXT],
        [HOSTILE],
    ],
    ids=range(8),
)
def test_names_cannot_command_the_terminal(
    arguments: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        code = main(arguments)
    except SystemExit as ended:
        code = int(ended.code or 0)
    said = capsys.readouterr()
    assert code == 3
    assert not set(said.out + said.err) & set("\x1b\x07\r\x9b\u202e")
    assert "x1b[2J" in said.err


def test_names_of_explanations_cannot_command_the_terminal(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s.json").write_text("[3, 1, 0, 2]")
    ask = ["compare", *TEXT, "--method", "lime", "--top", "1"]
    assert main([*ask, "--explanation", f"{HOSTILE}=s.json", "--radii", "1", "--tolerance", "0.2"]) == 3
    said = capsys.readouterr().err
    assert "`explanations` must be printable on one line" in said
    assert "x1b[2J" in said
    assert not set(said) & set("\x1b\x07\r\x9b\u202e")


def test_a_long_message_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["certify", "--model", "bundled:vader", "--input", "text:a", "--radius", "9" * 10**5])
    assert len(capsys.readouterr().err) < 4000


def test_a_search_is_announced_once_and_drawn_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream, has_bar in ((io.StringIO(), False), (Terminal(), True)):
        monkeypatch.setattr(sys, "stderr", stream)
        notice = SearchNotice()
        for done in (0, 500, 1000):
            notice(done, 1000)
        assert stream.getvalue().count("Searching for a stopping design") == 1
        assert ("0/1000 steps" in stream.getvalue()) is has_bar
        notice(1, 1)
        assert stream.getvalue().count("Searching for a stopping design") == 1


def test_streams_are_given_back() -> None:
    before = sys.stdout, sys.stderr
    with neutral_streams():
        assert isinstance(sys.stdout, Neutral)
    assert (sys.stdout, sys.stderr) == before
