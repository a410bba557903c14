"""Memory that a process keeps: what is set, and where nothing is."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from typing import Any

import pytest

from holdfast.memory import keep_memory

# Whether fetching a large array again needs pages from the system again, which the system counts.
_FETCH_AGAIN = """
import resource
import sys
import numpy as np
from holdfast.memory import keep_memory

kept = sys.argv[1] == "keep" and keep_memory()
for _ in range(2):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    np.ones(1 << 24)
print(kept, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


class Library:
    """The C library of a system: what it was told, and what it answers."""

    def __init__(self, *, is_gnu: bool = True, answer: int = 1) -> None:
        self.told: dict[int, int] = {}
        self._answer = answer
        if is_gnu:
            self.gnu_get_libc_version = bytes

    def mallopt(self, name: int, value: int) -> int:
        self.told[name] = value
        return self._answer


def _keep(monkeypatch: pytest.MonkeyPatch, library: Library, *, platform: str = "linux", **environment: str) -> bool:
    for name in [name for name in os.environ if name.startswith(("MALLOC_", "GLIBC_"))]:
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: library)
    return keep_memory.__wrapped__()


def test_the_gnu_library_is_told_to_keep_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library()
    assert _keep(monkeypatch, library)
    assert library.told == {-4: 0, -1: 2**31 - 1, -2: 2**26}


def test_what_the_library_refuses_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not _keep(monkeypatch, Library(answer=0))


@pytest.mark.parametrize(
    "elsewhere",
    [
        {"platform": "darwin"},
        {"platform": "win32"},
        {"library": Library(is_gnu=False)},
        {"MALLOC_ARENA_MAX": "2"},
        {"GLIBC_TUNABLES": "glibc.malloc.trim_threshold=1"},
    ],
    ids=lambda elsewhere: next(iter(elsewhere)),
)
def test_elsewhere_memory_stays_as_it_is(monkeypatch: pytest.MonkeyPatch, elsewhere: dict[str, Any]) -> None:
    settings = {"library": Library()} | elsewhere
    assert not _keep(monkeypatch, **settings)
    assert not settings["library"].told


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux is asked to keep memory")
def test_an_array_that_is_fetched_again_takes_memory_that_was_kept() -> None:
    answers = {}
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    for word in ("keep", "usual"):
        command = [sys.executable, "-c", _FETCH_AGAIN, word]
        kept, n_pages = subprocess.run(command, capture_output=True, text=True, check=True, env=clean).stdout.split()
        answers[word] = kept == "True", int(n_pages)
    if not answers["keep"][0]:
        pytest.skip("another C library than GNU's")
    assert answers["keep"][1] * 10 < answers["usual"][1]
