"""Language models behind an endpoint: seconds for many answers at once, and for the same ones from the cache."""

from __future__ import annotations

import importlib.util
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.helpers.chat_server import ChatServer, Reply

from benchmarks.figures import Figure, best_seconds
from holdfast.masking.context.endpoint import Endpoint

N_CALLS, N_CACHED, SECONDS = 26, 2_000, 0.2


def run() -> Iterator[Figure]:
    if importlib.util.find_spec("httpx") is None:
        print("  LEFT OUT: everything (pip install 'holdfast[llm]')")
        return
    os.environ["NO_PROXY"] = "127.0.0.1"
    with ChatServer(lambda number, body: Reply(delay=SECONDS)) as server:
        endpoint = Endpoint.from_spec(server.spec, n_at_once=16, key_variable=None)
        seconds = best_seconds(lambda: endpoint(_questions(N_CALLS)), repeats=3)
    yield Figure(f"{N_CALLS} answers that take {SECONDS:g} s each, 16 at once", seconds, "s", at_most=1.0)
    with ChatServer() as server, tempfile.TemporaryDirectory() as folder:
        endpoint = Endpoint.from_spec(server.spec, cache=Path(folder) / "answers.db", key_variable=None)
        endpoint(_questions(N_CACHED))
        cached = best_seconds(lambda: endpoint(_questions(N_CACHED)), repeats=3)
    yield Figure("answers per second from the cache", N_CACHED / cached, "/s")


def _questions(n: int) -> list[list[dict[str, str]]]:
    return [[{"role": "user", "content": f"question {i}"}] for i in range(n)]
