"""A chat endpoint on this machine that does as it is told: answers, waits, fails, hangs up or talks nonsense."""

from __future__ import annotations

import hashlib
import json
import select
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.helpers.waiting import PATIENCE


@dataclass(frozen=True)
class Reply:
    """What becomes of a request: by default, an answer that depends on the whole of it and on nothing else."""

    text: str | None = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    """Sent as it is, in place of JSON."""
    drop: bool = False
    """Hang up without a word."""
    gate: threading.Event | None = None
    """Answer once this is set."""
    delay: float = 0.0
    """Seconds; for benchmarks."""
    usage: Mapping[str, Any] | None = field(default_factory=lambda: {"prompt_tokens": 10, "completion_tokens": 5})
    finish_reason: str = "stop"


Script = Callable[[int, dict[str, Any]], Reply]
"""The number of a request, from 1, and its body → what becomes of it."""


def answer_to(body: Mapping[str, Any]) -> str:
    """What the model says unless it is told otherwise."""
    return hashlib.sha256(json.dumps(body["messages"]).encode()).hexdigest()[:8]


def every(step: int, reply: Reply) -> Script:
    """Each ``step``-th request fares like this; the others are answered."""
    return lambda number, body: reply if number % step == 0 else Reply()


class ChatServer:
    """Serves ``/v1/chat/completions`` on 127.0.0.1 while it is entered, and keeps account of what came.

    With ``n_together``, nothing is answered before so many requests have been in flight at once.
    """

    def __init__(self, script: Script | None = None, *, n_together: int = 0) -> None:
        self.script: Script = script or (lambda number, body: Reply())
        self.n_together = n_together
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.answered: Counter[str] = Counter()
        self.n_hung_up = self.n_in_flight = self.peak = 0
        self._together, self._lock = threading.Event(), threading.Lock()
        if n_together == 0:
            self._together.set()
        self._server = _Server(("127.0.0.1", 0), handler_of(self))
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    @property
    def spec(self) -> str:
        return f"openai:{self.url}#tiny"

    @property
    def n_requests(self) -> int:
        return len(self.bodies)

    def __enter__(self) -> ChatServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def handle(self, handler: BaseHTTPRequestHandler) -> None:
        """Answer one request as the script says."""
        body = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
        with self._lock:
            self.bodies.append(body)
            self.headers.append(dict(handler.headers))
            number = len(self.bodies)
            self.n_in_flight += 1
            self.peak = max(self.peak, self.n_in_flight)
            if self.peak >= self.n_together:
                self._together.set()
        try:
            reply = self.script(number, body)
            time.sleep(reply.delay)
            for gate in (self._together, reply.gate):
                if gate is not None and not _wait(gate, handler.connection):
                    reply = Reply(drop=True)
                    with self._lock:
                        self.n_hung_up += 1
                    break
        finally:
            with self._lock:  # before the answer is read: the client may send the next request at once
                self.n_in_flight -= 1
        if reply.drop:
            handler.close_connection = True
            handler.connection.shutdown(socket.SHUT_RDWR)
            return
        if reply.status == 200 and reply.body is None:
            with self._lock:
                self.answered[json.dumps(body, sort_keys=True)] += 1
        content = _content(reply, body) if reply.body is None else reply.body
        lines = [f"HTTP/1.1 {reply.status} {handler.responses.get(reply.status, ('?',))[0]}"]
        lines += [f"{name}: {value}" for name, value in {**reply.headers, "Content-Length": len(content)}.items()]
        handler.wfile.write("\r\n".join([*lines, "", ""]).encode() + content)


def _content(reply: Reply, body: dict[str, Any]) -> bytes:
    if reply.status != 200:
        return json.dumps({"error": {"message": reply.text or "no luck today"}}).encode()
    message = {"role": "assistant", "content": answer_to(body) if reply.text is None else reply.text}
    usage = {} if reply.usage is None else {"usage": reply.usage}
    return json.dumps({"choices": [{"message": message, "finish_reason": reply.finish_reason}], **usage}).encode()


def _wait(gate: threading.Event, connection: socket.socket) -> bool:
    """Whether a gate opened before the client hung up."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        is_open = gate.wait(0.005)
        if select.select([connection], [], [], 0)[0]:
            try:
                if not connection.recv(1, socket.MSG_PEEK):
                    return False
            except ConnectionError:
                return False
        if is_open:
            return True
    return False


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed while it was answered is nothing to speak of."""


def handler_of(server: ChatServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            if self.path == "/v1/chat/completions":
                server.handle(self)
            else:
                self.send_error(404)

        def log_message(self, *_: Any) -> None:
            pass

    return Handler
