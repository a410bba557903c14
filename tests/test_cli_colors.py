"""Colour is for people at a terminal who want it."""

from __future__ import annotations

import io

import pytest

from holdfast.commands.colors import paint


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_terminals_get_colour_unless_they_or_the_user_decline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert paint("here", "bold", Terminal()) == "\x1b[1mhere\x1b[0m"
    assert paint("here", "bold", io.StringIO()) == "here"
    monkeypatch.setenv("NO_COLOR", "1")
    assert paint("here", "bold", Terminal()) == "here"
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert paint("here", "bold", Terminal()) == "here"
