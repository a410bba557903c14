"""A workbench → a server on the loopback address, until it is interrupted."""

from __future__ import annotations

import os
import secrets
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from holdfast.errors import InvalidValueError, MissingExtraError
from holdfast.explore.workbench import Workbench
from holdfast.validation import shown

ADDRESS = "127.0.0.1"
"""Nobody on another machine can reach it."""

_MOST_CONNECTIONS = 512
_HOW = "Exploring needs starlette and uvicorn: pip install 'holdfast[explore]', or [all] for every bundled model"
_BYTES_OF_TOKEN = 24
_SWITCH_SECONDS = 0.0005


def serve(workbench: Workbench, *, port: int = 0, on_ready: Callable[[str], object] = lambda url: None) -> None:
    """Serve the page until Ctrl-C; jobs are then cancelled.

    Parameters
    ----------
    workbench : Workbench
        What can be explored.
    port : int
        Where to listen; 0 for any free port.
    on_ready : callable
        Told the address of the page, token included, as soon as it can be opened.
    """
    with listen(port) as sock:
        server, url = make_server(workbench, sock)
        on_ready(url)
        with switching_often():
            server.run(sockets=[sock])


@contextmanager
def switching_often() -> Iterator[None]:
    """Threads of this process give way to each other sooner: a click need not wait while a job runs Python."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def make_server(workbench: Workbench, sock: socket.socket, *, patience: float | None = None) -> tuple[Any, str]:
    """A server for this socket, and the address of its page."""
    uvicorn = import_server()
    from holdfast.explore.app import make_app
    from holdfast.explore.connections import Connection
    from holdfast.explore.jobs import PATIENCE

    token, port = secrets.token_urlsafe(_BYTES_OF_TOKEN), int(sock.getsockname()[1])
    server: Any = None
    app = make_app(
        workbench,
        token=token,
        port=port,
        patience=PATIENCE if patience is None else patience,
        is_stopping=lambda: server is not None and server.should_exit,
    )
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            http=Connection,
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,  # addresses hold the token
            server_header=False,
            proxy_headers=False,
            limit_concurrency=_MOST_CONNECTIONS,
            timeout_graceful_shutdown=3,
        )
    )
    return server, f"http://{ADDRESS}:{port}/?token={token}"


def listen(port: int) -> socket.socket:
    """A socket on the loopback address, which from now on holds who comes until the server answers."""
    if not isinstance(port, int) or not 0 <= port <= 65535:
        raise InvalidValueError(argument="port", must="be a whole number from 0 to 65535", got=shown(port))
    # Named as TCP, or asyncio leaves small packets to wait for each other: 40 ms per answer.
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    if os.name == "posix":  # elsewhere it would let others listen on the same port
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((ADDRESS, port))
        sock.listen(_MOST_CONNECTIONS)
    except OSError as error:
        sock.close()
        raise InvalidValueError(
            argument="port", must=f"be free, but {port} is not ({error.strerror})", hint="Use 0 for any."
        ) from error
    return sock


def import_server() -> Any:
    """The server, for those who have it."""
    try:
        import starlette  # noqa: F401
        import uvicorn
    except ImportError as error:
        raise MissingExtraError(_HOW) from error
    return uvicorn
