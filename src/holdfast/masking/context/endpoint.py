"""Conversations → answers of a language model behind an OpenAI-compatible chat endpoint; nothing is paid for twice.

Requests run in one event loop, in a thread of its own. A pool of threads would be a little shorter, but a thread that
waits for a socket cannot be cancelled, nor held to a time in all; a task can. And a thread of its own works wherever
it is called from, notebooks included, where a loop is already running. Calls from several threads share the loop, so
that the limit, the budget and the requests in flight are those of the endpoint, without locks. The thread and its
connections end with the last call under way: an endpoint is a plain value that is never closed.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import os
import random
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field, fields
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache, partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from holdfast.errors import BudgetError, InvalidTypeError, InvalidValueError, ModelError, StoreError
from holdfast.extras import import_extra
from holdfast.validation import (
    check_amount,
    check_label,
    check_list,
    check_path,
    check_size,
    check_whole,
    shown,
    split_spec,
)

_OWN_FIELDS = ("model", "messages", "temperature", "max_tokens", "seed", "stream", "n")
"""Fields of a request that have options of their own, or would make it return something else than one answer."""

KEY_VARIABLE = "OPENAI_API_KEY"
"""The environment variable that holds the API key, unless another one is named."""

_ANSWER_DEFAULTS: Mapping[str, Any] = {"temperature": 0.0, "max_tokens": 64, "seed": None, "extra": {}}
"""Options that decide answers, and their defaults."""

_LONGEST_BACK_OFF, _LONGEST_WAIT = 60.0, 300.0
"""Seconds: the most that is waited unasked, and the most that is waited because the endpoint says so."""

_MOST_SAID = 300  # letters of what an endpoint says that are quoted
_MOST_TOKENS = 1 << 53

_APPLICATION_ID, _VERSION = 0x68666163, 1
_BUSY_SECONDS = 30.0


class Completion(NamedTuple):
    """What a model said. ``cached`` answers needed no request of their own; tokens are None if none were reported."""

    text: str
    prompt_tokens: int | None
    completion_tokens: int | None
    cached: bool
    finish_reason: str | None


class Usage(NamedTuple):
    """What an endpoint was asked so far, by this process.

    ``n_calls`` counts every request that was sent, ``n_retries`` those that repeat a failed one, ``n_cached`` the
    answers that needed none: from the cache, or shared with an identical conversation. Tokens are those paid for.
    """

    n_calls: int = 0
    n_cached: int = 0
    n_retries: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


@dataclass(frozen=True)
class Endpoint:
    """A language model behind any OpenAI-compatible endpoint: conversations in, answers out, in the same order.

    Every answer is stored as it comes. A run that was killed, interrupted or out of budget goes on where it stopped,
    and pays for no stored answer again. Answers are what the endpoint returned: nothing makes it deterministic, not
    even ``temperature=0`` with a ``seed``; only the cache repeats an answer for certain.

    Parameters
    ----------
    url : str
        Base URL, usually ending in ``/v1``; requests go to ``/chat/completions`` below it.
    model : str
        Name of the model there.
    n_at_once : int
        Most requests in flight, of all threads together.
    timeout : float
        Seconds that one request may take in all.
    max_tries : int
        Most times that a request is sent, if the endpoint answers with status 429, with 5xx, with no chat completion,
        not in time or not at all. Every other status of failure raises at once.
    backoff : float
        Seconds before the second try, doubled for each further one up to a minute and shortened at random by up to
        half. ``Retry-After`` is waited for instead, if the endpoint sends it.
    temperature : float, optional
        0 by default. None leaves it to the endpoint, and counts as above zero.
    max_tokens : int, optional
        Most tokens of an answer; None leaves it to the endpoint.
    seed : int, optional
        Sent with every request; sample number s is sent with ``seed + s``, or all samples would be the same.
    extra : mapping, optional
        Further fields of the body, such as ``{"max_completion_tokens": 64}``.
    budget_calls, budget_tokens : int, optional
        Send no request once this endpoint has sent so many, or has paid for so many tokens. Requests in flight are
        waited for, so that tokens may exceed the budget by those of ``n_at_once - 1`` requests.
    cache : path, optional
        SQLite file that keeps every answer, made if there is none; several processes may share it. It holds digests
        of requests, no prompts. An answer survives the end of the process; a power cut may lose the latest.
    key_variable : str, optional
        Environment variable that holds the API key, read at each call and kept nowhere. The key is sent to the server
        that ``url`` names, whichever that is. None sends no key, nor does a variable that is not set.

    Examples
    --------
    >>> endpoint = Endpoint.from_spec("openai:http://127.0.0.1:8000/v1#qwen3", max_tokens=8, cache="answers.db")
    >>> endpoint.url, endpoint.model, endpoint.usage.n_calls
    ('http://127.0.0.1:8000/v1', 'qwen3', 0)
    """

    url: str
    model: str
    _: KW_ONLY
    n_at_once: int = 16
    timeout: float = 60.0
    max_tries: int = 6
    backoff: float = 0.5
    temperature: float | None = _ANSWER_DEFAULTS["temperature"]
    max_tokens: int | None = _ANSWER_DEFAULTS["max_tokens"]
    seed: int | None = _ANSWER_DEFAULTS["seed"]
    extra: Mapping[str, Any] = field(default_factory=dict, hash=False)
    budget_calls: int | None = None
    budget_tokens: int | None = None
    cache: str | Path | None = None
    key_variable: str | None = KEY_VARIABLE
    _state: _State = field(default_factory=lambda: _State(), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        checked: dict[str, Any] = {
            "url": _check_url(self.url),
            "model": _check_model(self.model),
            "n_at_once": check_size(self.n_at_once, "n_at_once", most=10_000),
            "timeout": check_amount(self.timeout, "timeout"),
            "max_tries": check_whole(self.max_tries, "max_tries", minimum=1),
            "backoff": check_amount(self.backoff, "backoff", may_be_zero=True),
            "extra": _check_extra(self.extra),
        }
        if self.temperature is not None:
            checked["temperature"] = check_amount(self.temperature, "temperature", may_be_zero=True)
        for name, minimum in {"max_tokens": 1, "seed": 0, "budget_calls": 1, "budget_tokens": 1}.items():
            if getattr(self, name) is not None:
                checked[name] = check_whole(getattr(self, name), name, minimum=minimum)
        if self.cache is not None:
            checked["cache"] = check_path(self.cache, "cache")
        variable: object = self.key_variable
        if variable is not None and not (isinstance(variable, str) and variable.isidentifier()):
            # What is no name may be the key itself, and is not shown.
            must = "be the name of an environment variable, or None"
            raise InvalidValueError(argument="key_variable", must=must, hint="Never pass the key itself.")
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @classmethod
    def from_spec(cls, spec: str, **options: Any) -> Endpoint:
        """The endpoint that ``openai:<base url>#<model>`` names."""
        example = "Write it like 'openai:http://127.0.0.1:8000/v1#my-model'."
        _, place = split_spec(spec, "spec", ("openai",), lambda place: example)
        url, _, model = place.partition("#")
        _check_url(url, argument="spec", hint=example)
        if not model.strip():
            raise InvalidValueError(argument="spec", must="name a model after '#'", got=shown(spec), hint=example)
        return cls(url, model, **options)

    @property
    def fingerprint(self) -> str:
        """``openai:<base url>#<model>``, and a digest of the options that decide answers unless all are the defaults.

        Neither the key nor how requests are sent, stored and paid for counts.

        >>> Endpoint("http://127.0.0.1:8000/v1", "qwen3", timeout=5).fingerprint
        'openai:http://127.0.0.1:8000/v1#qwen3'
        >>> Endpoint("http://127.0.0.1:8000/v1", "qwen3", temperature=1).fingerprint
        'openai:http://127.0.0.1:8000/v1#qwen3 with options f1bdaaf89ef2c12d'
        """
        settings = {name: getattr(self, name) for name in _ANSWER_DEFAULTS}
        place = f"openai:{self.url}#{self.model}"
        if settings == _ANSWER_DEFAULTS:
            return place
        return f"{place} with options {hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]}"

    @property
    def usage(self) -> Usage:
        """What was sent and paid for so far, by this object and in this process."""
        return self._state.usage

    def __call__(
        self, conversations: Sequence[Sequence[Mapping[str, str]]], samples: Sequence[int] | None = None
    ) -> list[Completion]:
        """Answers to conversations, in their order; each is a list of messages with a ``role`` and a ``content``.

        ``samples`` says for each conversation which draw it is: another number is another draw, the same number the
        same one, now and from the cache. Without it all are draw 0. At temperature 0 another draw is the same request,
        sent once more.

        Raises
        ------
        ModelError
            The endpoint refused a request, or gave no answer in ``max_tries`` tries. What is in flight is cancelled.
        BudgetError
            The budget is spent. What was in flight is answered and stored.
        StoreError
            The cache cannot be used.
        """
        requests = self._requests(conversations, samples)
        if not requests:
            return []
        with self._session() as session:
            future = asyncio.run_coroutine_threadsafe(session.answer_all(requests), session.loop)
            try:
                return future.result()
            except BaseException:  # Ctrl-C reaches this thread, not the one of the loop
                future.cancel()
                raise

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies, in other processes too, have the same options and have used nothing."""
        options = {option.name: getattr(self, option.name) for option in fields(self) if option.init}
        return partial(Endpoint, **options), ()

    def _requests(self, conversations: Any, samples: Any) -> list[_ChatRequest]:
        entries = check_list(conversations, "conversations", "be a list of conversations")
        numbers = [0] * len(entries)
        if samples is not None:
            must = "hold one whole number ≥ 0 for each conversation"
            numbers = [check_whole(number, "samples") for number in check_list(samples, "samples", must)]
            if len(numbers) != len(entries):
                got = f"{len(numbers)} for {len(entries)} conversations"
                raise InvalidValueError(argument="samples", must=must, got=got)
        return [self._request(check_messages(entry), number) for entry, number in zip(entries, numbers, strict=True)]

    def _request(self, messages: list[dict[str, str]], sample: int) -> _ChatRequest:
        is_random = self.temperature is None or self.temperature > 0
        seed = self.seed if self.seed is None or not is_random else self.seed + sample
        options = {"temperature": self.temperature, "max_tokens": self.max_tokens, "seed": seed}
        body = {"model": self.model, "messages": messages, **self.extra}
        body |= {name: value for name, value in options.items() if value is not None}
        whole = {"url": self.url, "body": body, "sample": sample}
        digest = hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()
        return _ChatRequest(digest, json.dumps(body).encode())

    @contextmanager
    def _session(self) -> Iterator[_ChatLoop]:
        """The session that all calls under way share; the first one opens it and the last one closes it."""
        state = self._state
        if state.process != os.getpid():  # a fork has the session of its parent, but not its thread
            state = _State()
            object.__setattr__(self, "_state", state)
        with state.lock:
            session = state.session = state.session or _ChatLoop(self, state)
            state.n_callers += 1
        try:
            yield session
        finally:
            with state.lock:
                state.n_callers -= 1
                if state.n_callers == 0:
                    state.session = None
                    session.close()


class _State:
    """What changes about an endpoint: what it has used, and the session of the calls under way."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.usage = Usage()
        self.lock = threading.Lock()
        self.session: _ChatLoop | None = None
        self.n_callers = 0


class _ChatRequest(NamedTuple):
    """What is sent, and the digest of all that the answer depends on."""

    digest: str
    body: bytes


@dataclass
class _Flight:
    """A request on its way, and how many calls wait for its answer."""

    task: asyncio.Task[Completion]
    n_waiting: int = 0


class _ChatLoop:
    """An event loop in a thread of its own, with a client and the cache; all that awaits runs in that thread."""

    def __init__(self, endpoint: Endpoint, state: _State) -> None:
        self._httpx = import_extra("httpx", "Endpoints of language models need")
        self._endpoint, self._state = endpoint, state
        self._key = _read_key(endpoint.key_variable)
        self._target = f"{endpoint.url}/chat/completions"
        limits = self._httpx.Limits(max_connections=None, max_keepalive_connections=endpoint.n_at_once)
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {self._key}"} if self._key else {})
        # Time is limited for a request as a whole: the client's own limits begin anew with every byte.
        self._client = self._httpx.AsyncClient(verify=_tls(), limits=limits, headers=headers, timeout=None)
        self._cache = None if endpoint.cache is None else AnswerCache(Path(endpoint.cache))
        self._slots = asyncio.Semaphore(endpoint.n_at_once)
        self._flights: dict[str, _Flight] = {}
        self._rng = random.Random()
        self._ended = asyncio.Event()
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="holdfast-endpoint", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Cancel what is in flight, and end the thread."""
        self.loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()
        if self._cache is not None:
            self._cache.close()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        async with self._client:
            await self._ended.wait()
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def answer_all(self, requests: list[_ChatRequest]) -> list[Completion]:
        """Answers in order. A budget that is spent is told when nothing is in flight any more, other errors at once."""
        waiting = deque({request.digest: request for request in requests}.values())
        answers: dict[str, Completion] = {}
        failures: list[Exception] = []

        async def work() -> None:
            while waiting:
                request = waiting.popleft()
                try:
                    answers[request.digest] = await self._answer(request)
                except BudgetError as error:
                    failures.append(error)  # of what is waiting, some may be in the cache

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(self._endpoint.n_at_once, len(waiting))):
                    group.create_task(work())
        except ExceptionGroup as errors:
            failures = [*errors.exceptions]
        if failures:
            raise failures[0]
        ordered = []
        for request in requests:
            ordered.append(answers[request.digest])
            answers[request.digest] = ordered[-1]._replace(cached=True)  # whoever asks the same pays nothing
        self._count(n_cached=sum(answer.cached for answer in ordered))
        return ordered

    async def _answer(self, request: _ChatRequest) -> Completion:
        """The answer to a request, which is sent once however many calls wait for it, and cancelled once none does."""
        flight = self._flights.get(request.digest)
        is_shared = flight is not None
        if flight is None:
            flight = self._flights[request.digest] = _Flight(asyncio.create_task(self._fetch(request)))
        flight.n_waiting += 1
        try:
            answer = await asyncio.shield(flight.task)
        finally:
            flight.n_waiting -= 1
            if flight.n_waiting == 0:
                flight.task.cancel()
                del self._flights[request.digest]
        return answer._replace(cached=is_shared or answer.cached)

    async def _fetch(self, request: _ChatRequest) -> Completion:
        async with self._slots:
            # Looked up as late as this: another process may have stored it a moment ago.
            stored = None if self._cache is None else self._cache.get(request.digest)
            if stored is not None:
                return stored
            answer = await self._send(request.body)
            self._count(prompt_tokens=answer.prompt_tokens or 0, completion_tokens=answer.completion_tokens or 0)
            if self._cache is not None:
                answer = self._cache.put(request.digest, answer)
        if self._endpoint.budget_tokens is not None and None in (answer.prompt_tokens, answer.completion_tokens):
            message = f"{self._target} does not report `usage`, which `budget_tokens` needs. Use `budget_calls`."
            raise ModelError(message)
        return answer

    async def _send(self, body: bytes) -> Completion:
        """The answer to one request, sent again while that may help."""
        endpoint = self._endpoint
        for n_tries in range(1, endpoint.max_tries + 1):
            self._spend(n_tries)
            wait = min(endpoint.backoff * 2 ** min(n_tries - 1, 32), _LONGEST_BACK_OFF) * self._rng.uniform(0.5, 1)
            # Errors are raised outside of handlers: those of the client lead to a request, and that to the key.
            try:
                async with asyncio.timeout(endpoint.timeout):
                    response = await self._client.post(self._target, content=body)
            except TimeoutError:
                reason = f"no answer within `timeout` = {endpoint.timeout:g} s"
            except self._httpx.HTTPError as error:
                reason = self._quoted(f"{type(error).__name__}: {error}")
            else:
                status = response.status_code
                answer = _read_answer(response.content) if status == HTTPStatus.OK else None
                if answer is not None:
                    return answer
                reason = self._said(response)
                if status not in (HTTPStatus.OK, HTTPStatus.TOO_MANY_REQUESTS) and status < 500:
                    hint = _HINTS.get(status, "").format(variable=endpoint.key_variable)
                    raise ModelError(f"{self._target} refused the request: {reason}.{hint}")
                asked = _retry_after(response.headers.get("Retry-After"))
                if asked is not None:
                    wait = asked * self._rng.uniform(1, 1.25)  # not all at the same moment
                    if asked > _LONGEST_WAIT:
                        reason += f" (asks to wait {asked:.0f} s)"
                        break
            if n_tries < endpoint.max_tries:
                await asyncio.sleep(wait)
        tries = "1 try" if n_tries == 1 else f"{n_tries} tries"
        raise ModelError(f"{self._target} gave no answer in {tries}. Last error: {reason}. {self._advice()}")

    def _spend(self, n_tries: int) -> None:
        """Count a request that is about to be sent, unless the budget is spent."""
        usage, endpoint = self._state.usage, self._endpoint
        n_tokens = usage.prompt_tokens + usage.completion_tokens
        for name, spent in {"budget_calls": usage.n_calls, "budget_tokens": n_tokens}.items():
            limit = getattr(endpoint, name)
            if limit is not None and spent >= limit:
                raise BudgetError(
                    f"The budget `{name}` = {limit} is spent: {usage.n_calls} requests were sent, for "
                    f"{usage.prompt_tokens} prompt and {usage.completion_tokens} completion tokens. {self._advice()} "
                    "Each new endpoint has its own budget."
                )
        self._count(n_calls=1, n_retries=int(n_tries > 1))

    def _advice(self) -> str:
        if self._endpoint.cache is None:
            return "Set a `cache` to keep the answers and to continue from them."
        return f"Answers so far are in the cache {str(self._endpoint.cache)!r}. Run again to continue from there."

    def _count(self, **more: int) -> None:
        usage = self._state.usage
        self._state.usage = usage._replace(**{name: getattr(usage, name) + n for name, n in more.items()})

    def _said(self, response: Any) -> str:
        """The status and the endpoint's own message, on one line."""
        try:
            content = json.loads(response.content)
        except (ValueError, RecursionError):
            content = response.text
        for name in ("error", "message", "detail"):
            content = content.get(name, content) if isinstance(content, dict) else content
        words = self._quoted(content if isinstance(content, str) else json.dumps(content))
        status = f"status {response.status_code} {response.reason_phrase}".rstrip()
        if response.status_code == HTTPStatus.OK:
            status = "the answer was not a chat completion"
        return f"{status}: {words}" if words else status

    def _quoted(self, text: str) -> str:
        """A foreign text on one line, cut where it is long, without the key and without a full stop."""
        text = text.replace(self._key, "***") if self._key else text
        line = "".join(letter if letter.isprintable() else " " for letter in " ".join(text.split()))
        return (line if len(line) <= _MOST_SAID else f"{line[:_MOST_SAID]}…").rstrip(" .")


_HINTS = {
    HTTPStatus.UNAUTHORIZED: " Put the right key into the environment variable {variable}.",
    HTTPStatus.NOT_FOUND: " Check the name of the model, and that the base URL ends in '/v1'.",
}


class AnswerCache:
    """Answers in an SQLite file, by the digest of their request: each is stored in a transaction of its own.

    Several processes may use it at once. Of two answers to one request the first is kept, and is that of both.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        if not path.parent.is_dir():
            raise StoreError(f"The folder of the cache {str(path)!r} does not exist.")
        with self._wrapping_errors():
            # Opened in the thread of a call, and used in that of the loop alone.
            self._connection = sqlite3.connect(
                path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
        try:
            with self._wrapping_errors():
                self._open()
        except BaseException:
            self._connection.close()
            raise

    def _open(self) -> None:
        connection = self._connection
        connection.execute("BEGIN")  # another process may be making the file: all of it is seen, or nothing
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (n_tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        connection.execute("COMMIT")
        if application not in (0, _APPLICATION_ID) or (application == 0 and n_tables):
            raise StoreError(f"{str(self._path)!r} is another database, not a cache. It was not changed.")
        if version > _VERSION:
            raise StoreError(f"The cache {str(self._path)!r} was written by a newer holdfast. Upgrade holdfast.")
        until = time.monotonic() + _BUSY_SECONDS
        while True:  # SQLite lets one process turn a new file to WAL, and refuses the others without waiting
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                break
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                    raise
                time.sleep(0.01)
        connection.execute("PRAGMA synchronous = NORMAL")
        if version < _VERSION:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(
                "CREATE TABLE IF NOT EXISTS answers (digest TEXT PRIMARY KEY, text TEXT NOT NULL, "
                "prompt_tokens INTEGER, completion_tokens INTEGER, finish_reason TEXT) WITHOUT ROWID"
            )
            connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {_VERSION}")
            connection.execute("COMMIT")

    def get(self, digest: str) -> Completion | None:
        """The answer that is stored, if there is one."""
        columns = "SELECT text, prompt_tokens, completion_tokens, 1, finish_reason FROM answers WHERE digest = ?"
        with self._wrapping_errors():
            row = self._connection.execute(columns, (digest,)).fetchone()
        return None if row is None else Completion(*row)._replace(cached=True)

    def put(self, digest: str, answer: Completion) -> Completion:
        """Store an answer unless another process has stored one; the answer that is stored now."""
        values = (digest, answer.text, answer.prompt_tokens, answer.completion_tokens, answer.finish_reason)
        with self._wrapping_errors():
            cursor = self._connection.execute("INSERT OR IGNORE INTO answers VALUES (?, ?, ?, ?, ?)", values)
        stored = None if cursor.rowcount else self.get(digest)
        return answer if stored is None else stored._replace(cached=False)

    def close(self) -> None:
        """Close the file; nothing is pending."""
        self._connection.close()

    @contextmanager
    def _wrapping_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            message = f"The cache {str(self._path)!r} cannot be used: {error}. Answers stored before are intact."
            raise StoreError(message) from error


@lru_cache(maxsize=1)
def _tls() -> Any:
    """Certificates of authorities: reading them takes longer than most requests."""
    return import_extra("httpx", "Endpoints of language models need").create_ssl_context()


def _check_url(url: Any, *, argument: str = "url", hint: str | None = None) -> str:
    """A base URL without a slash at its end, and without anything secret."""
    must = "be a base URL that starts with http:// or https://"
    if not isinstance(url, str):
        raise InvalidTypeError(argument=argument, must=must, got=shown(url))
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise InvalidValueError(argument=argument, must=must, got=shown(url), hint=hint) from error
    if parts.username is not None or parts.query or parts.fragment:
        got = "a URL with a password, a query or a fragment"
        raise InvalidValueError(argument=argument, must=must, got=got, hint="Keys belong in an environment variable.")
    if parts.scheme not in ("http", "https") or not host or not url.isprintable() or " " in url:
        raise InvalidValueError(argument=argument, must=must, got=shown(url), hint=hint)
    return url.rstrip("/")


def _check_model(model: Any) -> str:
    must = "be the name of a model"
    if not isinstance(model, str):
        raise InvalidTypeError(argument="model", must=must, got=shown(model))
    if not model.strip():
        raise InvalidValueError(argument="model", must=must, got=shown(model))
    return check_label(model, "model")


def _check_extra(extra: Any) -> dict[str, Any]:
    """Further fields of a request, copied, so that nobody changes them later."""
    must = "map names of further fields to values that JSON can hold"
    if not isinstance(extra, Mapping):
        raise InvalidTypeError(argument="extra", must=must, got=shown(extra))
    try:
        copied: dict[str, Any] = json.loads(json.dumps(dict(extra), allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidValueError(argument="extra", must=must, got=shown(extra)) from error
    for name in _OWN_FIELDS:
        if name in copied:
            must = f"hold none of {', '.join(_OWN_FIELDS)}"
            raise InvalidValueError(argument="extra", must=must, got=shown(name), hint="Use the option of that name.")
    return copied


def check_messages(conversation: Any) -> list[dict[str, str]]:
    """A list of messages, each with a role and a content."""
    must = "hold lists of messages such as {'role': 'user', 'content': 'Hello'}"
    messages = check_list(conversation, "conversations", must)
    for message in messages:
        if not isinstance(message, Mapping) or not all(
            isinstance(part, str) for pair in message.items() for part in pair
        ):
            raise InvalidTypeError(argument="conversations", must=must, got=shown(message))
        if not {"role", "content"} <= message.keys():
            raise InvalidValueError(argument="conversations", must=must, got=shown(message))
    if not messages:
        raise InvalidValueError(argument="conversations", must=must, got="one without messages")
    return [dict(message) for message in messages]


def _read_key(variable: str | None) -> str:
    """The key, or nothing where none is set."""
    key = "" if variable is None else os.environ.get(variable, "").strip()
    if not (key.isascii() and key.isprintable()):
        raise InvalidValueError(f"The environment variable {variable} must hold a key of ASCII characters on one line.")
    return key


def _read_answer(content: bytes) -> Completion | None:
    """The answer that a body holds, or None if it is no chat completion."""
    try:
        body = json.loads(content)
        choice = body["choices"][0]
        text, reason, usage = choice["message"]["content"], choice.get("finish_reason"), body.get("usage") or {}
        # A model that spent all its tokens on thinking has no content.
        if not isinstance(text, str | None) or not isinstance(reason, str | None):
            return None
        counts = [usage.get(name) for name in ("prompt_tokens", "completion_tokens")]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
    tokens = [n if isinstance(n, int) and 0 <= n < _MOST_TOKENS else None for n in counts]
    # Half a surrogate pair, which JSON can hold, is no text that can be stored.
    text, reason = (None if part is None else part.encode("utf-8", "replace").decode() for part in (text, reason))
    return Completion(text or "", tokens[0], tokens[1], False, reason)


def _retry_after(header: str | None) -> float | None:
    """Seconds that a ``Retry-After`` asks for, given as seconds or as a date; None if it cannot be read."""
    if header is None:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            moment = parsedate_to_datetime(header)
        except ValueError:
            return None
        moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        seconds = (moment - datetime.now(UTC)).total_seconds()
    return max(seconds, 0.0) if math.isfinite(seconds) else None
