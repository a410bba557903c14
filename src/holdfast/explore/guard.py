"""Requests → those that may come in: of this machine's own page, with the right token, and not too large.

The server listens on the loopback address alone, but every page in a browser on this machine can send
requests there. So the name in ``Host`` must be the loopback's own (a foreign name that is made to point here
is refused), a request must carry a token that only the printed address has, in a header that other sites
cannot set, and one that a browser says comes from another site is refused.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

MOST_BYTES = 1 << 20
"""Of a request's body."""

PATIENCE = 10.0
"""Seconds between two parts of a body."""

_MOST_LETTERS = 1000

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

HEADERS = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"content-security-policy", b"frame-ancestors 'none'"),
)
"""Of every response, refusals included."""


class Refusal(Exception):  # noqa: N818 - an answer, not an accident
    """A request that is not let in: the status of the response and the sentence for people."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


@dataclass(frozen=True)
class Guard:
    """An application behind a check of every request.

    Parameters
    ----------
    app : ASGI application
        What answers the requests that are let in.
    token : str
        What they must carry.
    port : int
        Where the server listens.
    """

    app: App
    token: str
    port: int

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            raise RuntimeError(f"Only HTTP is served here, got {scope['type']!r}.")
        closed = _closing(send)
        try:
            self._check(scope)
        except Refusal as refusal:
            await _refuse(closed, refusal, plain=scope["path"] == "/")
            return
        await self.app(scope, _limited(receive), closed)

    def _check(self, scope: Scope) -> None:
        headers = _Headers(scope)
        if headers.one("host") not in self._hosts:
            raise Refusal(421, f"This server is called 127.0.0.1:{self.port}, and answers to no other name.")
        origin = headers.one("origin")
        if origin is not None and origin not in {f"http://{host}" for host in self._hosts}:
            raise Refusal(403, "Requests of other sites are refused.")
        if scope["path"] == "/":
            self._check_token(_in_query(scope))
        else:
            if headers.one("sec-fetch-site") not in (None, "same-origin"):
                raise Refusal(403, "Requests of other sites are refused.")
            self._check_token(headers.one("x-holdfast-token"))
        _check_size(headers.one("content-length"))

    @property
    def _hosts(self) -> set[str]:
        names = ("127.0.0.1", "localhost")
        return {f"{name}:{self.port}" for name in names} | (set(names) if self.port == 80 else set())

    def _check_token(self, given: str | None) -> None:
        if given is None or not secrets.compare_digest(given.encode("utf-8", "replace"), self.token.encode()):
            raise Refusal(
                403,
                "The token is missing or wrong. `holdfast explore` printed the right address where it was started; "
                "every start has another one.",
            )


class _Headers:
    """The headers of a request; one that is sent twice is as good as wrong."""

    def __init__(self, scope: Scope) -> None:
        self._pairs = [(name.lower(), value.decode("latin-1")) for name, value in scope["headers"]]

    def one(self, name: str) -> str | None:
        found = [value for key, value in self._pairs if key == name.encode()]
        if len(found) > 1:
            raise Refusal(400, f"The header {name} must be sent once, got {len(found)}.")
        return found[0] if found else None


def _in_query(scope: Scope) -> str | None:
    """The token of an address; one that says more than any address of the page has none."""
    try:
        given = parse_qs(scope["query_string"].decode("latin-1"), max_num_fields=16).get("token", [])
    except ValueError:
        return None
    return given[0] if len(given) == 1 else None


def _check_size(length: str | None) -> None:
    if length is not None and (not length.isascii() or not length.isdigit() or int(length) > MOST_BYTES):
        raise Refusal(413, f"A request may have {MOST_BYTES:,} bytes, got {length[:20]}.")


def _limited(receive: Receive) -> Receive:
    """A body that is refused where it grows too large, whatever its length was said to be, or comes too slowly."""
    n_bytes, complete = 0, False

    async def checked() -> Message:
        nonlocal n_bytes, complete
        if complete:
            return await receive()  # nothing but the end of the connection is still to come
        try:
            message = await asyncio.wait_for(receive(), PATIENCE)
        except TimeoutError:
            raise Refusal(408, f"The request must arrive within {PATIENCE:g} seconds of its last part.") from None
        n_bytes += len(message.get("body", b""))
        complete = not message.get("more_body", False)
        if n_bytes > MOST_BYTES:
            raise Refusal(413, f"A request may have {MOST_BYTES:,} bytes, and this one has more.")
        return message

    return checked


def _closing(send: Send) -> Send:
    """Every response with the headers that close it to other sites."""

    async def closed(message: Message) -> None:
        if message["type"] == "http.response.start":
            own = {name for name, _ in HEADERS}
            kept = [pair for pair in message.get("headers", []) if pair[0].lower() not in own]
            message = {**message, "headers": [*kept, *HEADERS]}
        await send(message)

    return closed


def as_error(message: str, kind: str = "Refused") -> bytes:
    """An error as the page reads it; what was sent is not sent back at length."""
    told = message if len(message) <= _MOST_LETTERS else f"{message[:_MOST_LETTERS]}…"
    return json.dumps({"error": {"message": told, "kind": kind}}).encode()


async def _refuse(send: Send, refusal: Refusal, *, plain: bool) -> None:
    """Tell a person in plain text, a page in JSON."""
    kind, body = b"application/json", as_error(refusal.message)
    if plain:
        kind, body = b"text/plain; charset=utf-8", f"{refusal.message}\n".encode()
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode()), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
