"""Answers of language models: in order, many at once, through bad weather, paid for once, and never with the key."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import pickle
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast.errors import (
    BudgetError,
    HoldfastError,
    InvalidTypeError,
    InvalidValueError,
    MissingExtraError,
    ModelError,
    StoreError,
)
from holdfast.masking.context.endpoint import AnswerCache, Completion, Endpoint, Usage, _retry_after
from tests.helpers.chat_server import ChatServer, Reply, Script, answer_to, every
from tests.helpers.waiting import PATIENCE, wait_until

pytest.importorskip("httpx")

N = 26
KEY = "sk-not-to-be-seen-0123456789"
LONG = 3600.0
"""Seconds that no test could wait."""


def ask(text: object) -> list[dict[str, str]]:
    return [{"role": "user", "content": str(text)}]


QUESTIONS = [ask(f"question {i}") for i in range(N)]
TRUTH = [answer_to({"messages": question}) for question in QUESTIONS]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer() as server:
        yield server


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Opened at the end, whatever happens, so that nothing waits for it."""
    gate = threading.Event()
    yield gate
    gate.set()


def texts(answers: list[Completion]) -> list[str]:
    return [answer.text for answer in answers]


def n_stored(cache: Path) -> int:
    if not cache.exists():
        return 0
    with closing(sqlite3.connect(cache, timeout=PATIENCE)) as connection:
        (n_tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        return int(connection.execute("SELECT count(*) FROM answers").fetchone()[0]) if n_tables else 0


def endpoint_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "holdfast-endpoint"]


# -- asking -----------------------------------------------------------------------------------------


def test_answers_come_in_the_order_of_the_conversations(server: ChatServer) -> None:
    gates = [threading.Event() for _ in range(4)]

    def backwards(number: int, body: dict[str, Any]) -> Reply:
        """The last of four conversations is answered first, and each lets the one before it be answered."""
        place = [ask(i) for i in range(4)].index(body["messages"])
        if place == 3:
            gates[3].set()
        assert gates[place].wait(PATIENCE)
        if place:
            gates[place - 1].set()
        return Reply(text=str(place))

    server.script = backwards
    answers = Endpoint.from_spec(server.spec)([ask(i) for i in range(4)])
    assert texts(answers) == ["0", "1", "2", "3"]
    assert answers[0] == Completion("0", prompt_tokens=10, completion_tokens=5, cached=False, finish_reason="stop")


@pytest.mark.parametrize("n_at_once", [1, 3, 16])
def test_as_many_requests_are_in_flight_as_may_be_and_no_more(n_at_once: int) -> None:
    """Nothing is answered before so many have come: with fewer at once, all would end by their timeout."""
    with ChatServer(n_together=n_at_once) as server:
        assert texts(Endpoint.from_spec(server.spec, n_at_once=n_at_once)(QUESTIONS)) == TRUTH
    assert (server.n_requests, server.peak) == (N, n_at_once)


def test_a_request_holds_what_was_asked_for_and_nothing_else(server: ChatServer) -> None:
    options = {"temperature": 0.5, "max_tokens": 7, "seed": 3, "extra": {"top_p": 0.9, "stop": ["\n"]}}
    conversation = [{"role": "system", "content": "Be brief."}, *ask("Wie heißt du? 🙂")]
    Endpoint.from_spec(server.spec, **options)([conversation], samples=[2])
    body = {"model": "tiny", "messages": conversation, "top_p": 0.9, "stop": ["\n"]}
    assert server.bodies == [body | {"temperature": 0.5, "max_tokens": 7, "seed": 5}]  # sample 2 has seed 3 + 2
    assert "Authorization" not in server.headers[0]
    Endpoint(server.url, "tiny", temperature=None, max_tokens=None)([conversation])
    assert server.bodies[1] == {"model": "tiny", "messages": conversation}


def test_identical_conversations_are_sent_once(server: ChatServer) -> None:
    endpoint = Endpoint.from_spec(server.spec)
    answers = endpoint([ask("a"), ask("b"), ask("a"), ask("a")])
    assert server.n_requests == 2
    assert [answer.cached for answer in answers] == [False, False, True, True]
    assert answers[0].text == answers[2].text == answers[3].text != answers[1].text
    assert endpoint.usage == Usage(n_calls=2, n_cached=2, prompt_tokens=20, completion_tokens=10)


def test_samples_are_draws_of_their_own_and_at_temperature_zero_the_same_request_again(
    server: ChatServer, tmp_path: Path
) -> None:
    server.script = lambda number, body: Reply(text=f"draw {number}")
    hot = Endpoint.from_spec(server.spec, temperature=1.0, cache=tmp_path / "answers.db")
    draws = hot([ask("a")] * 5, samples=[0, 1, 2, 1, 0])
    assert server.n_requests == 3
    assert len({draw.text for draw in draws}) == 3
    assert texts(draws)[:2] == [draws[4].text, draws[3].text]
    assert texts(hot([ask("a")] * 2, samples=[2, 1])) == [draws[2].text, draws[1].text]
    assert texts(hot([ask("a")] * 2)) == [draws[0].text] * 2  # draw 0, if nothing is said
    assert server.n_requests == 3
    cold = replace(hot, temperature=0.0)
    assert len(set(texts(cold([ask("a")] * 5, samples=range(5))))) == 5  # of an endpoint that is random all the same
    assert len({json.dumps(body) for body in server.bodies[3:]}) == 1
    assert server.n_requests == 8


def test_it_works_inside_a_running_event_loop(server: ChatServer) -> None:
    async def notebook() -> list[Completion]:
        return Endpoint.from_spec(server.spec)(QUESTIONS)

    assert texts(asyncio.run(notebook())) == TRUTH


def test_threads_share_the_budget_and_what_is_in_flight(server: ChatServer, tmp_path: Path) -> None:
    endpoint = Endpoint.from_spec(server.spec, n_at_once=4, cache=tmp_path / "answers.db", budget_calls=N)
    with ThreadPoolExecutor(6) as pool:
        calls = [pool.submit(endpoint, QUESTIONS[::step]) for step in (1, -1, 1, -1, 1, -1)]
    for call, step in zip(calls, (1, -1) * 3, strict=True):
        assert texts(call.result()) == TRUTH[::step]
    assert server.n_requests == endpoint.usage.n_calls == N
    assert endpoint.usage.n_cached == 5 * N


def test_threads_share_the_limit(server: ChatServer, gate: threading.Event) -> None:
    """Nothing is answered before all threads have called, so that each could have sent its own."""
    server.script = lambda number, body: Reply(gate=gate)
    endpoint = Endpoint.from_spec(server.spec, n_at_once=2)
    with ThreadPoolExecutor(5) as pool:
        calls = [pool.submit(endpoint, QUESTIONS[start::5]) for start in range(5)]
        wait_until(lambda: endpoint._state.n_callers == 5 and server.n_requests >= 2)
        gate.set()
    assert [texts(call.result()) for call in calls] == [TRUTH[start::5] for start in range(5)]
    assert (server.n_requests, server.peak) == (N, 2)


def test_a_call_that_fails_takes_no_answer_from_a_call_that_waits_for_the_same(
    server: ChatServer, gate: threading.Event
) -> None:
    server.script = lambda number, body: Reply(gate=gate) if body["messages"] == ask("shared") else Reply(status=400)
    endpoint = Endpoint.from_spec(server.spec)
    with ThreadPoolExecutor(1) as pool:
        first: Future[list[Completion]] = pool.submit(endpoint, [ask("shared")])
        wait_until(lambda: server.n_requests == 1)
        with pytest.raises(ModelError, match="refused the request: status 400"):
            endpoint([ask("shared"), ask("bad")])
        gate.set()
        assert first.result()[0].text == answer_to({"messages": ask("shared")})
    assert (server.n_requests, server.n_hung_up) == (2, 0)


def test_nothing_is_left_behind_by_a_call(server: ChatServer) -> None:
    endpoint = Endpoint.from_spec(server.spec)
    assert endpoint([]) == []
    assert (endpoint.usage, server.n_requests) == (Usage(), 0)
    endpoint(QUESTIONS[:2])
    assert endpoint_threads() == []


FORK = """
import os, sys, threading
from holdfast.masking.context.endpoint import Endpoint
endpoint = Endpoint.from_spec(sys.argv[1])
ask = lambda text: [[{"role": "user", "content": text}]]
thread = threading.Thread(target=endpoint, args=(ask("parent"),), daemon=True)
thread.start()
sys.stdin.readline()
child = os.fork()
if child == 0:
    print(endpoint(ask("child"))[0].text, endpoint.usage.n_calls, flush=True)
    os._exit(0)
os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_asks_by_itself_while_its_parent_waits(server: ChatServer, gate: threading.Event) -> None:
    server.script = lambda number, body: Reply(gate=gate if body["messages"] == ask("parent") else None)
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", FORK, server.spec],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        wait_until(lambda: server.n_requests == 1 or process.poll() is not None)
        out, _ = process.communicate("fork\n", timeout=PATIENCE)
    assert (process.returncode, out) == (0, f"{answer_to({'messages': ask('child')})} 1\n")


# -- bad weather ------------------------------------------------------------------------------------


def alternating(number: int, body: dict[str, Any]) -> Reply:
    """Of ten requests, two are answered with 503 and two with silence."""
    return {0: Reply(status=503), 5: Reply(status=503), 3: Reply(drop=True), 8: Reply(drop=True)}.get(
        number % 10, Reply()
    )


@pytest.mark.parametrize(
    ("script", "share"),
    [
        (every(5, Reply(status=503)), 0.2),
        (every(5, Reply(status=429, headers={"Retry-After": "0"})), 0.2),
        (every(5, Reply(drop=True)), 0.2),
        (every(5, Reply(body=b'{"choices": [{"mess')), 0.2),
        (every(5, Reply(body=b"\xff\xfe no text at all")), 0.2),
        (every(5, Reply(body=b'{"choices": []}')), 0.2),
        (every(5, Reply(body=b'{"choices": [{"message": {"content": 7}}]}')), 0.2),
        (every(5, Reply(body=b"[" * 100_000)), 0.2),
        (every(5, Reply(headers={"Content-Encoding": "gzip"}, body=b"not zipped")), 0.2),
        (alternating, 0.4),
    ],
    ids=["503", "429", "dropped", "broken", "binary", "empty", "number", "nested", "zip", "mixed"],
)
def test_answers_are_the_same_through_bad_weather(script: Script, share: float) -> None:
    with ChatServer(script) as server:
        endpoint = Endpoint.from_spec(server.spec, backoff=0.0, max_tries=20)
        assert texts(endpoint(QUESTIONS)) == TRUTH
    usage = endpoint.usage
    n_failed = sum(script(number, {}) != Reply() for number in range(1, server.n_requests + 1))
    assert usage.n_calls == server.n_requests == N + n_failed
    assert usage.n_retries == n_failed >= share * N
    assert (usage.prompt_tokens, usage.completion_tokens) == (10 * N, 5 * N)


@pytest.mark.parametrize("header", ["0", "Wed, 21 Oct 2015 07:28:00 GMT"])
@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_is_waited_for_in_place_of_the_back_off(server: ChatServer, status: int, header: str) -> None:
    """The back-off would take an hour."""
    server.script = lambda number, body: (
        Reply(status=status, headers={"Retry-After": header}) if number == 1 else Reply()
    )
    assert texts(Endpoint.from_spec(server.spec, backoff=LONG)(QUESTIONS[:1])) == TRUTH[:1]
    assert server.n_requests == 2


def test_an_endpoint_that_asks_for_an_hour_is_given_up(server: ChatServer) -> None:
    server.script = lambda number, body: Reply(status=429, headers={"Retry-After": "3600"})
    with pytest.raises(ModelError, match=r"no answer in 1 try.*status 429 Too Many Requests.*asks to wait 3600 s"):
        Endpoint.from_spec(server.spec)(QUESTIONS[:1])


def test_retry_after_is_read_as_seconds_or_as_a_date() -> None:
    assert (_retry_after("2.5"), _retry_after("-3"), _retry_after(None)) == (2.5, 0.0, None)
    assert (_retry_after("nan"), _retry_after("soon")) == (None, None)
    moment = datetime.fromtimestamp(datetime.now(UTC).timestamp() + LONG, UTC)
    for header in (format_datetime(moment, usegmt=True), format_datetime(moment.replace(tzinfo=None))):
        seconds = _retry_after(header)
        assert seconds is not None
        assert LONG - PATIENCE < seconds <= LONG


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply(status=503, text="the cat sat on it."), "status 503 Service Unavailable: the cat sat on it"),
        (Reply(status=500, body=b"<h1>oh\x1b[2J\n no</h1>"), "status 500 Internal Server Error: <h1>oh [2J no</h1>"),
        (Reply(status=502, body=b""), "status 502 Bad Gateway"),
        (Reply(status=500, body=b'{"detail": [1]}'), "status 500 Internal Server Error: [1]"),
        (Reply(body=b"nonsense"), "the answer was not a chat completion: nonsense"),
        (Reply(body=b'{"error": {"message": "out of memory"}}'), "the answer was not a chat completion: out of memory"),
        (Reply(drop=True), "RemoteProtocolError: Server disconnected without sending a response"),
    ],
)
def test_it_gives_up_after_so_many_tries_and_says_why(server: ChatServer, reply: Reply, reason: str) -> None:
    server.script = lambda number, body: reply
    endpoint = Endpoint.from_spec(server.spec, backoff=0.0, max_tries=3)
    with pytest.raises(ModelError) as caught:
        endpoint(QUESTIONS[:1])
    target = f"{server.url}/chat/completions"
    advice = "Set a `cache` to keep the answers and to continue from them."
    assert str(caught.value) == f"{target} gave no answer in 3 tries. Last error: {reason}. {advice}"
    assert (server.n_requests, endpoint.usage) == (3, Usage(n_calls=3, n_retries=2))


def test_a_request_that_takes_too_long_is_ended_and_sent_again(server: ChatServer, gate: threading.Event) -> None:
    server.script = lambda number, body: Reply(gate=gate)
    endpoint = Endpoint.from_spec(server.spec, timeout=0.2, backoff=0.0, max_tries=2)
    with pytest.raises(ModelError, match=r"no answer in 2 tries. Last error: no answer within `timeout` = 0.2 s\."):
        endpoint(QUESTIONS[:1])
    wait_until(lambda: server.n_hung_up == 2)


def test_a_server_that_is_not_there_is_named(server: ChatServer) -> None:
    with ChatServer() as gone:
        pass
    with pytest.raises(ModelError, match=rf"^{gone.url}/chat/completions gave no answer in 2 tries.*ConnectError"):
        Endpoint.from_spec(gone.spec, max_tries=2, backoff=0.0)(QUESTIONS)


@pytest.mark.parametrize(
    ("status", "hint"),
    [
        (400, ""),
        (401, " Put the right key into the environment variable OPENAI_API_KEY."),
        (403, ""),
        (404, " Check the name of the model, and that the base URL ends in '/v1'."),
        (422, ""),
        (301, ""),
    ],
)
def test_a_refusal_raises_at_once_with_the_words_of_the_endpoint(server: ChatServer, status: int, hint: str) -> None:
    server.script = lambda number, body: Reply(status=status, text="no such\nthing.")
    with pytest.raises(ModelError) as caught:
        Endpoint.from_spec(server.spec, backoff=LONG)(QUESTIONS[:1])
    assert str(caught.value).startswith(f"{server.url}/chat/completions refused the request: status {status} ")
    assert str(caught.value).endswith(f": no such thing.{hint}")
    assert server.n_requests == 1


def test_a_refusal_cancels_what_is_in_flight_and_keeps_what_was_answered(
    server: ChatServer, gate: threading.Event, tmp_path: Path
) -> None:
    cache = tmp_path / "answers.db"

    def script(number: int, body: dict[str, Any]) -> Reply:
        place = QUESTIONS.index(body["messages"])
        if place == 7:
            wait_until(lambda: n_stored(cache) == 4 and server.n_requests == 8)
            return Reply(status=400)
        return Reply(gate=gate if place >= 4 else None)

    server.script = script
    with pytest.raises(ModelError, match="status 400"):
        Endpoint.from_spec(server.spec, n_at_once=4, cache=cache)(QUESTIONS)
    wait_until(lambda: server.n_hung_up == 3)
    assert (server.n_requests, n_stored(cache), endpoint_threads()) == (8, 4, [])


def test_a_long_message_is_cut(server: ChatServer) -> None:
    server.script = lambda number, body: Reply(status=400, text="x" * 10_000)
    with pytest.raises(ModelError, match=r": x{300}…\.$"):
        Endpoint.from_spec(server.spec)(QUESTIONS[:1])


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        ({"content": None}, Completion("", 1, 2, False, "length")),  # all tokens went into thinking
        ({"content": "half \ud83d"}, Completion("half ?", 1, 2, False, "length")),
    ],
)
def test_odd_answers_are_read_and_stored(
    server: ChatServer, body: dict[str, Any], answer: Completion, tmp_path: Path
) -> None:
    usage = {"prompt_tokens": 1, "completion_tokens": 2}
    whole = json.dumps({"choices": [{"message": body, "finish_reason": "length"}], "usage": usage}).encode()
    server.script = lambda number, body: Reply(body=whole)
    endpoint = Endpoint.from_spec(server.spec, cache=tmp_path / "answers.db")
    assert endpoint(QUESTIONS[:1]) == [answer]
    assert endpoint(QUESTIONS[:1]) == [answer._replace(cached=True)]


@pytest.mark.parametrize(
    "usage", [None, {}, {"prompt_tokens": "many", "completion_tokens": -1}, {"prompt_tokens": 1.5}]
)
def test_tokens_that_are_not_reported_are_not_made_up(server: ChatServer, usage: Any, tmp_path: Path) -> None:
    server.script = lambda number, body: Reply(usage=usage)
    endpoint = Endpoint.from_spec(server.spec, cache=tmp_path / "answers.db")
    for cached in (False, True):
        assert endpoint(QUESTIONS[:1]) == [Completion(TRUTH[0], None, None, cached, "stop")]
    assert endpoint.usage == Usage(n_calls=1, n_cached=1)
    with pytest.raises(ModelError, match=r"does not report `usage`, which `budget_tokens` needs"):
        replace(endpoint, budget_tokens=100)(QUESTIONS[1:2])


def test_the_jitter_of_the_back_off_leaves_global_generators_alone(server: ChatServer) -> None:
    server.script = every(2, Reply(status=503))
    before = random.getstate(), np.random.get_state()  # noqa: NPY002
    Endpoint.from_spec(server.spec, backoff=0.001, max_tries=50)(QUESTIONS)
    after = random.getstate(), np.random.get_state()  # noqa: NPY002
    assert before[0] == after[0]
    np.testing.assert_equal(before[1], after[1])


# -- the cache --------------------------------------------------------------------------------------


def test_a_second_run_sends_nothing(server: ChatServer, tmp_path: Path) -> None:
    cache = tmp_path / "answers.db"
    first = Endpoint.from_spec(server.spec, cache=cache)(QUESTIONS)
    again = Endpoint.from_spec(f"openai:{server.url}/#tiny", cache=str(cache))
    assert again(QUESTIONS) == [answer._replace(cached=True) for answer in first]
    assert again.usage == Usage(n_cached=N)
    assert server.n_requests == N


@pytest.mark.parametrize(
    "change",
    [{"model": "other"}, {"temperature": 0.1}, {"max_tokens": 65}, {"seed": 0}, {"extra": {"top_p": 0.5}}],
    ids=lambda change: next(iter(change)),
)
def test_another_request_is_another_answer(server: ChatServer, change: dict[str, Any], tmp_path: Path) -> None:
    server.script = lambda number, body: Reply(text=f"draw {number}")
    endpoint = Endpoint.from_spec(server.spec, cache=tmp_path / "answers.db")
    endpoint(QUESTIONS[:1])
    assert texts(replace(endpoint, **change)(QUESTIONS[:1])) == ["draw 2"]
    assert texts(replace(endpoint, timeout=1e3, n_at_once=2, max_tries=9)(QUESTIONS[:1])) == ["draw 1"]


def test_another_server_is_another_answer(server: ChatServer, tmp_path: Path) -> None:
    endpoint = Endpoint.from_spec(server.spec, cache=tmp_path / "answers.db")
    endpoint(QUESTIONS)
    with ChatServer() as other:
        replace(endpoint, url=other.url)(QUESTIONS)
    assert other.n_requests == N


RUN = """
import sys
from holdfast.masking.context.endpoint import Endpoint
endpoint = Endpoint.from_spec(sys.argv[1], cache=sys.argv[2], n_at_once=4)
answers = endpoint([[{"role": "user", "content": f"question {i}"}] for i in range(26)])
print(endpoint.usage.n_calls, *(answer.text for answer in answers))
"""


def start(server: ChatServer, cache: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", RUN, server.spec, str(cache)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_a_killed_process_repeats_no_request_that_was_paid_for(
    server: ChatServer, gate: threading.Event, tmp_path: Path
) -> None:
    cache = tmp_path / "answers.db"
    server.script = lambda number, body: Reply(gate=gate if number > 8 else None)
    with start(server, cache) as victim:
        wait_until(lambda: (n_stored(cache) == 8 and server.n_requests == 12) or victim.poll() is not None)
        victim.send_signal(signal.SIGKILL)
    assert victim.returncode == -signal.SIGKILL
    wait_until(lambda: server.n_hung_up == 4)
    gate.set()
    with start(server, cache) as process:
        out, _ = process.communicate(timeout=PATIENCE)
    assert out.split() == [str(N - 8), *TRUTH]
    assert set(server.answered.values()) == {1}
    assert (len(server.answered), server.n_requests) == (N, N + 4)


def test_processes_that_share_a_file_return_the_same_answers(server: ChatServer, tmp_path: Path) -> None:
    server.script = lambda number, body: Reply(text=f"draw-{number}")
    cache = tmp_path / "answers.db"
    with start(server, cache) as first, start(server, cache) as second:
        outs = [process.communicate(timeout=PATIENCE)[0].split() for process in (first, second)]
    assert outs[0][1:] == outs[1][1:]
    assert len(outs[0]) == N + 1
    assert int(outs[0][0]) + int(outs[1][0]) == server.n_requests
    assert n_stored(cache) == N


@pytest.fixture
def hurried_threads() -> Iterator[None]:
    """Threads take turns often, so that they meet in the middle of things."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("hurried_threads")
def test_many_open_a_new_file_at_once(tmp_path: Path) -> None:
    for number in range(30):
        path, barrier = tmp_path / f"{number}.db", threading.Barrier(8)

        def store(text: str, path: Path = path, barrier: threading.Barrier = barrier) -> Completion:
            barrier.wait(PATIENCE)
            with closing(AnswerCache(path)) as cache:
                return cache.put("the same", Completion(text, None, None, False, None))

        with ThreadPoolExecutor(8) as pool:
            answers = set(pool.map(store, "abcdefgh"))
        assert len(answers) == 1
        with closing(AnswerCache(path)) as cache:
            assert cache.get("the same") == answers.pop()._replace(cached=True)
            assert cache.get("another") is None


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("n_others", [0, 1])
def test_ctrl_c_cancels_what_is_in_flight_and_keeps_what_was_answered(
    server: ChatServer, gate: threading.Event, n_others: int, tmp_path: Path
) -> None:
    """The call of another thread is none of its business, and goes on."""
    cache = tmp_path / "answers.db"

    def script(number: int, body: dict[str, Any]) -> Reply:
        if number == n_others + 12:
            wait_until(lambda: n_stored(cache) == 8)
            os.kill(os.getpid(), signal.SIGINT)
        return Reply(gate=None if n_others < number <= n_others + 8 else gate)

    server.script = script
    endpoint = Endpoint.from_spec(server.spec, n_at_once=4 + n_others, cache=cache)
    with ThreadPoolExecutor(1) as pool:
        others = [pool.submit(endpoint, [ask("other")]) for _ in range(n_others)]
        wait_until(lambda: server.n_requests == n_others)
        with pytest.raises(KeyboardInterrupt):
            endpoint(QUESTIONS)
        wait_until(lambda: server.n_hung_up == 4)
        assert (n_stored(cache), server.n_requests) == (8, n_others + 12)
        gate.set()
        assert [texts(call.result()) for call in others] == [[answer_to({"messages": ask("other")})]] * n_others
    assert endpoint_threads() == []
    assert texts(endpoint(QUESTIONS)) == TRUTH
    assert set(server.answered.values()) == {1}


def foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE answers (mine TEXT)")


def newer(path: Path) -> None:
    AnswerCache(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (foreign, "another database, not a cache"),
        (newer, "by a newer holdfast"),
        (lambda path: path.write_text("a poem, and a long one" * 99), "cannot be used: file is not a database"),
        (lambda path: path.mkdir(), "cannot be used"),
    ],
    ids=["foreign", "newer", "text", "folder"],
)
def test_a_file_that_is_no_cache_is_refused_and_left_as_it_is(
    server: ChatServer, make: Any, words: str, tmp_path: Path
) -> None:
    path = tmp_path / "answers.db"
    make(path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(StoreError, match=words):
        Endpoint.from_spec(server.spec, cache=path)(QUESTIONS)
    assert before == (path.read_bytes() if path.is_file() else None)
    assert (server.n_requests, endpoint_threads()) == (0, [])


def test_a_folder_that_is_not_there_is_named_before_anything_is_sent(server: ChatServer, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"The folder of the cache '.*nowhere/answers\.db' does not exist\."):
        Endpoint.from_spec(server.spec, cache=tmp_path / "nowhere" / "answers.db")(QUESTIONS)
    assert server.n_requests == 0


# -- the budget -------------------------------------------------------------------------------------


def test_a_budget_of_calls_stops_with_everything_kept_and_goes_on_later(server: ChatServer, tmp_path: Path) -> None:
    cache = tmp_path / "answers.db"
    endpoint = Endpoint.from_spec(server.spec, cache=cache, budget_calls=10)
    with pytest.raises(BudgetError) as caught:
        endpoint(QUESTIONS)
    assert str(caught.value).startswith("The budget `budget_calls` = 10 is spent: 10 requests were sent, for ")
    assert str(caught.value).endswith(
        f" completion tokens. Answers so far are in the cache {str(cache)!r}. Run again to continue from there. "
        "Each new endpoint has its own budget."
    )
    assert isinstance(caught.value, RuntimeError)
    assert (server.n_requests, n_stored(cache), endpoint.usage.n_calls) == (10, 10, 10)
    assert texts(endpoint(QUESTIONS[:10])) == TRUTH[:10]  # what is stored needs no budget
    assert texts(replace(endpoint, budget_calls=16)(QUESTIONS)) == TRUTH
    assert server.n_requests == N


def test_a_budget_of_tokens_stops_once_it_is_spent(server: ChatServer, tmp_path: Path) -> None:
    cache = tmp_path / "answers.db"
    endpoint = Endpoint.from_spec(server.spec, cache=cache, budget_tokens=40, n_at_once=1)
    with pytest.raises(BudgetError, match=r"`budget_tokens` = 40 is spent: 3 requests .* 30 prompt and 15 completion"):
        endpoint(QUESTIONS)
    assert (server.n_requests, n_stored(cache)) == (3, 3)


def test_a_request_in_flight_is_answered_and_stored_when_the_budget_is_spent(tmp_path: Path) -> None:
    """All ten wait for each other; the rest learn that the budget is spent as soon as the first are through."""
    cache = tmp_path / "answers.db"
    with ChatServer(n_together=10) as server, pytest.raises(BudgetError):
        Endpoint.from_spec(server.spec, cache=cache, budget_calls=10)(QUESTIONS)
    assert (server.n_requests, sum(server.answered.values()), n_stored(cache)) == (10, 10, 10)


def test_tries_that_failed_count_as_calls(server: ChatServer) -> None:
    server.script = lambda number, body: Reply(status=503)
    with pytest.raises(BudgetError, match=r"4 requests were sent, for 0 prompt and 0 completion tokens\. Set a "):
        Endpoint.from_spec(server.spec, budget_calls=4, backoff=0.0)(QUESTIONS)
    assert server.n_requests == 4


# -- the key ----------------------------------------------------------------------------------------


def chain_of(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def everything_said(error: BaseException) -> str:
    parts = ["".join(traceback.format_exception(error))]
    for link in chain_of(error):
        parts += [repr(link), str(link), repr(vars(link)), str(vars(getattr(link, "request", link)))]
    return "\n".join(parts)


@pytest.mark.parametrize(
    "reply",
    [
        Reply(),
        Reply(status=401, text=f"Incorrect API key: {KEY}."),
        Reply(status=503, text=f"No room for {KEY}"),
        Reply(body=f"Hello {KEY}".encode()),
        Reply(drop=True),
    ],
    ids=["answer", "401", "503", "nonsense", "dropped"],
)
def test_the_key_is_sent_and_shown_nowhere(
    server: ChatServer, reply: Reply, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("MY_KEY", f"{KEY}\n")
    server.script = lambda number, body: reply if number > 1 else Reply()
    endpoint = Endpoint.from_spec(
        server.spec, key_variable="MY_KEY", cache=tmp_path / "answers.db", max_tries=2, backoff=0.0
    )
    said = [repr(endpoint(QUESTIONS[:1]))]
    try:
        said.append(repr(endpoint(QUESTIONS)))
    except HoldfastError as error:
        said.append(everything_said(error))
    said += [repr(endpoint), str(endpoint), str(vars(endpoint)), str(pickle.dumps(endpoint)), caplog.text]
    said += [path.read_bytes().decode("latin-1") for path in tmp_path.iterdir()]
    assert {headers["Authorization"] for headers in server.headers} == {f"Bearer {KEY}"}
    assert [text for text in said if KEY in text] == []
    assert "POST" in caplog.text  # the log was listened to


def test_no_key_is_sent_that_is_not_asked_for(server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    Endpoint.from_spec(server.spec, key_variable=None)(QUESTIONS[:1])
    assert "Authorization" not in server.headers[0]
    Endpoint.from_spec(server.spec)(QUESTIONS[:1])
    assert server.headers[1]["Authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("key", ["sk-\nX-Evil: 1", "sk-schlüssel"])
def test_a_key_that_cannot_be_sent_is_refused_and_not_shown(
    server: ChatServer, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(InvalidValueError) as caught:
        Endpoint.from_spec(server.spec)(QUESTIONS)
    assert (
        str(caught.value) == "The environment variable OPENAI_API_KEY must hold a key of ASCII characters on one line."
    )
    assert server.n_requests == 0


# -- bad input --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (7, "`spec` must start with one of openai:, got 7."),
        (
            "http://127.0.0.1/v1#m",
            "must start with one of openai:, got 'http://127.0.0.1/v1#m'. Write it like",
        ),
        ("openai:http://127.0.0.1/v1", "`spec` must name a model after '#', got 'openai:http://127.0.0.1/v1'. Write"),
        ("openai:http://127.0.0.1/v1#", "`spec` must name a model after '#'"),
        ("openai:ftp://127.0.0.1/v1#m", "`spec` must be a base URL that starts with http:// or https://, got 'ftp:"),
        ("openai:#m", "`spec` must be a base URL"),
        ("openai:http://#m", "`spec` must be a base URL"),
        ("openai:http://a:99999/#m", "`spec` must be a base URL"),
        ("openai:http://a b/#m", "`spec` must be a base URL"),
        (f"openai:http://me:{KEY}@a/v1#m", "got a URL with a password, a query or a fragment. Keys belong in"),
        (f"openai:http://a/v1?key={KEY}#m", "got a URL with a password, a query or a fragment."),
        ("openai:http://a/v1#two\nlines", "`model` must be printable on one line"),
    ],
)
def test_a_spec_that_names_no_endpoint_is_refused(spec: Any, words: str) -> None:
    with pytest.raises((InvalidValueError, InvalidTypeError)) as caught:
        Endpoint.from_spec(spec)
    assert words in str(caught.value)
    assert KEY not in everything_said(caught.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"url": 7}, "`url` must be a base URL"),
        ({"model": 7}, "`model` must be the name of a model, got 7."),
        ({"model": " "}, "`model` must be the name of a model, got ' '."),
        ({"n_at_once": 0}, "`n_at_once` must be a whole number ≥ 1, got 0."),
        ({"timeout": 0}, "`timeout` must be a number > 0, got 0."),
        ({"max_tries": 0}, "`max_tries` must be a whole number ≥ 1, got 0."),
        ({"backoff": -1}, "`backoff` must be a number ≥ 0, got -1."),
        ({"temperature": -0.1}, "`temperature` must be a number ≥ 0, got -0.1."),
        ({"max_tokens": "many"}, "`max_tokens` must be a whole number ≥ 1, got 'many'."),
        ({"seed": 1.5}, "`seed` must be a whole number ≥ 0, got 1.5."),
        ({"budget_calls": 0}, "`budget_calls` must be a whole number ≥ 1, got 0."),
        ({"budget_tokens": True}, "`budget_tokens` must be a whole number ≥ 1, got True."),
        ({"cache": 7}, "`cache` must be the name of a file, got 7."),
        ({"extra": [1]}, "`extra` must map names of further fields to values that JSON can hold, got [1]."),
        (
            {"extra": {"stop": {1}}},
            "must map names of further fields to values that JSON can hold, got {'stop': {1}}.",
        ),
        (
            {"extra": {"n": 2}},
            "must hold none of model, messages, temperature, max_tokens, seed, stream, n, got 'n'.",
        ),
        (
            {"key_variable": KEY},
            "`key_variable` must be the name of an environment variable, or None. Never pass the key",
        ),
    ],
)
def test_an_option_that_cannot_be_used_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises((InvalidValueError, InvalidTypeError)) as caught:
        Endpoint(**{"url": "http://127.0.0.1/v1", "model": "tiny"} | options)
    assert words in str(caught.value)
    assert KEY not in everything_said(caught.value)


@pytest.mark.parametrize(
    ("conversations", "samples", "words"),
    [
        ("Hello", None, "`conversations` must be a list of conversations, got 'Hello'."),
        (["Hello"], None, "`conversations` must hold lists of messages such as {'role': 'user', 'content': 'Hello'}"),
        ([[]], None, "got one without messages."),
        ([[{"role": "user"}]], None, "got {'role': 'user'}."),
        ([[{"role": "user", "content": 7}]], None, "got {'role': 'user', 'content': 7}."),
        (
            [ask("a")],
            [0, 1],
            "`samples` must hold one whole number ≥ 0 for each conversation, got 2 for 1",
        ),
        ([ask("a")], [-1], "`samples` must be a whole number ≥ 0, got -1."),
        ([ask("a")], 3, "`samples` must hold one whole number ≥ 0 for each conversation, got 3."),
    ],
)
def test_conversations_that_cannot_be_sent_are_refused(
    server: ChatServer, conversations: Any, samples: Any, words: str
) -> None:
    with pytest.raises((InvalidValueError, InvalidTypeError)) as caught:
        Endpoint.from_spec(server.spec)(conversations, samples)
    assert words in str(caught.value)
    assert server.n_requests == 0


def test_an_endpoint_is_a_value() -> None:
    extra = {"stop": ["a"]}
    endpoint = Endpoint.from_spec("openai:https://127.0.0.1/v1/#org/model#7", seed=1, extra=extra)
    extra["stop"].append("b")
    assert (endpoint.url, endpoint.model, endpoint.extra) == ("https://127.0.0.1/v1", "org/model#7", {"stop": ["a"]})
    copy = pickle.loads(pickle.dumps(endpoint))
    assert copy == endpoint == replace(endpoint)
    assert hash(copy) == hash(endpoint)
    assert endpoint != replace(endpoint, extra={})
    with pytest.raises(AttributeError):
        endpoint.seed = 2  # type: ignore[misc]


def test_a_missing_client_is_named_with_its_extra(server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    words = r"^Endpoints of language models need httpx: pip install 'holdfast\[llm\]'$"
    with pytest.raises(MissingExtraError, match=words):
        Endpoint.from_spec(server.spec)(QUESTIONS)
