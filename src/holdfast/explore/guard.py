"""Connections and requests → those that may come in: of this machine's own page, with the right token, not too large.

The server listens on the loopback address alone, but every page in a browser on this machine can send
requests there. So the name in ``Host`` must be the loopback's own (a foreign name that is made to point here
is refused), a request must carry a token that only the printed address has, in a header that other sites
cannot set, and one that a browser says comes from another site is refused.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

import h11
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from holdfast.words import shortened

MOST_BYTES = 1 << 20  # of a request's body
BODY_TIMEOUT = 10.0  # seconds between two parts of a body
HEADER_TIMEOUT = 10.0
"""Seconds from the opening of a connection, or from the first byte of a later request, to the end of its headers."""

MOST_SILENT = 64  # connections that may wait for their headers at a time; of more, the oldest is closed
_MOST_LETTERS = 1000

HEADERS = {
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "content-security-policy": "frame-ancestors 'none'",
}
"""Of every response, refusals included."""


@dataclass(frozen=True)
class Guard:
    """An application behind a check of every request, which must carry the token and name the server's own port."""

    app: ASGIApp
    token: str
    port: int

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            raise RuntimeError(f"Only HTTP is served here, got {scope['type']!r}.")

        async def send_closed(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        try:
            self._check(scope)
        except HTTPException as refusal:  # told to a person in plain text, to a page in JSON
            answer: Response = error_response(refusal.status_code, refusal.detail)
            if scope["path"] == "/":
                answer = PlainTextResponse(f"{refusal.detail}\n", refusal.status_code)
            answer.headers["connection"] = "close"
            await answer(scope, receive, send_closed)
            return
        await self.app(scope, _limited(receive), send_closed)

    def _check(self, scope: Scope) -> None:
        names = ("127.0.0.1", "localhost")
        hosts = {f"{name}:{self.port}" for name in names} | (set(names) if self.port == 80 else set())
        if _header(scope, "host") not in hosts:
            raise HTTPException(421, f"This server answers only to the name 127.0.0.1:{self.port}.")
        origin, site = _header(scope, "origin"), _header(scope, "sec-fetch-site")
        is_page = scope["path"] == "/"
        is_foreign = origin not in {None, *(f"http://{host}" for host in hosts)}
        if is_foreign or not (is_page or site in (None, "same-origin")):
            raise HTTPException(403, "Requests from other sites are refused.")
        token = _token_in_query(scope) if is_page else _header(scope, "x-holdfast-token")
        if token is None or not secrets.compare_digest(token.encode("utf-8", "replace"), self.token.encode()):
            where = "Use the address that `holdfast explore` printed; it changes with every start."
            raise HTTPException(403, f"The token is missing or wrong. {where}")
        length = _header(scope, "content-length")
        if length is not None and (not length.isascii() or not length.isdigit() or int(length) > MOST_BYTES):
            raise HTTPException(413, f"A request may have at most {MOST_BYTES:,} bytes, got {length[:20]}.")


def error_response(
    status: int, message: str, kind: str = "Refused", headers: Mapping[str, str] | None = None
) -> Response:
    """An error as the page reads it; what was sent is not sent back at length."""
    return PlainJSONResponse({"error": {"message": shortened(message, _MOST_LETTERS), "kind": kind}}, status, headers)


class PlainJSONResponse(JSONResponse):
    """JSON in ASCII: names of files may hold halves of characters, which cannot be encoded."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, allow_nan=False).encode()


def _header(scope: Scope, name: str) -> str | None:
    """A header of a request; one that is sent twice is as good as wrong."""
    values = Headers(scope=scope).getlist(name)
    if len(values) > 1:
        raise HTTPException(400, f"The header {name} must be sent once, got {len(values)}.")
    return values[0] if values else None


def _token_in_query(scope: Scope) -> str | None:
    """The token of an address; one that says more than any address of the page has none."""
    try:
        tokens = parse_qs(scope["query_string"].decode("latin-1"), max_num_fields=16).get("token", [])
    except ValueError:
        return None
    return tokens[0] if len(tokens) == 1 else None


def _limited(receive: Receive) -> Receive:
    """A body that is refused where it grows too large, whatever its length was said to be, or comes too slowly."""
    n_bytes, complete = 0, False

    async def receive_limited() -> Message:
        nonlocal n_bytes, complete
        if complete:
            return await receive()  # nothing but the end of the connection is still to come
        try:
            message = await asyncio.wait_for(receive(), BODY_TIMEOUT)
        except TimeoutError:
            refusal = f"The request timed out: no data for {BODY_TIMEOUT:g} seconds."
            raise HTTPException(408, refusal) from None
        n_bytes += len(message.get("body", b""))
        complete = not message.get("more_body", False)
        if n_bytes > MOST_BYTES:
            raise HTTPException(413, f"A request may have at most {MOST_BYTES:,} bytes; this one has more.")
        return message

    return receive_limited


class Connection(H11Protocol):
    """A connection that is closed unless the headers of a request arrive in time.

    All peers are on this machine and share one address, so what is limited is silence: a request of the page sends its
    headers at once, and can be kept out neither by few connections that stay silent for long nor by many.
    """

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop_waiting()
        elif self._deadline is None:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._deadline = self.loop.call_later(HEADER_TIMEOUT, self._close)
        peers = [peer for peer in self.connections if isinstance(peer, Connection)]
        deadlines = {peer: peer._deadline.when() for peer in peers if peer._deadline is not None}
        if len(deadlines) > MOST_SILENT:
            min(deadlines, key=deadlines.__getitem__)._close()

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _close(self) -> None:
        self._stop_waiting()
        self.transport.close()
