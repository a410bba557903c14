"""A workbench → a server of its page on the loopback address; whatever asks a model runs off the request path."""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict
from functools import partial
from importlib.resources import files
from typing import Any

from holdfast.errors import ArgumentError, HoldfastError, InvalidValueError, MissingExtraError, ModelError
from holdfast.explore.jobs import TIMEOUT, Job, JobQueue, describe_error
from holdfast.explore.questions import Questions, write_python
from holdfast.explore.requests import CHOICES, CITED, KINDS, View, check_object, read_options
from holdfast.explore.scheduling import Caller, Priority, PriorityLock
from holdfast.explore.workbench import Workbench
from holdfast.report.html import assemble, shared_asset
from holdfast.validation import check_name, shown

try:
    import uvicorn
    from anyio import CapacityLimiter, to_thread
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, Response, StreamingResponse
    from starlette.routing import Route
except ImportError as missing:
    how = "pip install 'holdfast[explore]', or [all] for every bundled model"
    raise MissingExtraError(f"Exploring needs starlette and uvicorn: {how}") from missing

from holdfast.explore.guard import Connection, Guard, PlainJSONResponse, error_response

ADDRESS = "127.0.0.1"  # nobody on another machine can reach it
SHARED = ("theme.js", "dom.js", "code.js", "chart.js", "picture.js")  # scripts of the report that the page builds on

SCRIPTS = (
    *("memory.js", "server.js", "jobs.js", "tiles.js", "verdict.js", "certify.js", "witness.js"),
    *("curve.js", "exports.js", "side.js", "setup.js", "cards.js", "explore.js"),
)
"""Its own, in the order in which they build on each other."""

_WORDS = {
    "Not Found": "There is nothing at this address.",
    "Method Not Allowed": "This address does not take that HTTP method.",
}
_MOST_LISTED = 200
_MOST_CONNECTIONS = 512
_MOST_CLICKS = 64  # clicks that are answered at a time
_BETWEEN_SWEEPS = 0.2
_SWITCH_SECONDS = 0.0005


def serve(workbench: Workbench, *, port: int = 0, on_ready: Callable[[str], object] = lambda url: None) -> None:
    """Serve the page on a port (0 for any that is free) until Ctrl-C; jobs are then cancelled.

    ``on_ready`` is called with the address of the page, token included, as soon as it can be opened.
    """
    interval = sys.getswitchinterval()
    with listen(port) as sock:
        server, url = make_server(workbench, sock)
        on_ready(url)
        sys.setswitchinterval(_SWITCH_SECONDS)  # a click need not wait while a job runs Python
        try:
            server.run(sockets=[sock])
        finally:
            sys.setswitchinterval(interval)


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
        must = f"be free; {port} is not ({error.strerror})"
        raise InvalidValueError(argument="port", must=must, hint="Use 0 for any free port.") from error
    return sock


def make_server(
    workbench: Workbench, sock: socket.socket, *, timeout: float = TIMEOUT, token: str | None = None
) -> tuple[uvicorn.Server, str]:
    """A server for this socket, and the address of its page; every request must carry the token, a new one if None.

    A job that nobody listens to is cancelled after ``timeout`` seconds.
    """
    token, port = token or secrets.token_urlsafe(24), int(sock.getsockname()[1])
    api = Api(workbench, timeout=timeout)

    async def keep_sweeping() -> None:
        while not server.should_exit:
            api.jobs.sweep()
            await asyncio.sleep(_BETWEEN_SWEEPS)
        api.jobs.close()  # before the server waits for its streams, which would hold it up

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        sweeping = asyncio.create_task(keep_sweeping())
        try:
            yield
        finally:
            sweeping.cancel()
            await to_thread.run_sync(partial(api.jobs.close, seconds=5.0))

    handlers = {HTTPException: _on_error, HoldfastError: _on_error}
    app = Starlette(routes=api.routes(), lifespan=lifespan, exception_handlers=handlers)
    app.router.redirect_slashes = False
    config = uvicorn.Config(
        Guard(app, token, port),
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
    server = uvicorn.Server(config)
    return server, f"http://{ADDRESS}:{port}/?token={token}"


class Api:
    """Where requests are read and answered."""

    def __init__(self, workbench: Workbench, *, timeout: float) -> None:
        lock = PriorityLock()
        self.workbench, self.questions = workbench, Questions(workbench, lock)
        self.jobs = JobQueue(lock, timeout=timeout)
        self._clicks = CapacityLimiter(_MOST_CLICKS)

    def routes(self) -> list[Route]:
        return [
            Route("/", lambda request: HTMLResponse(explore_page()), methods=["GET"]),
            Route("/api/workbench", self.describe, methods=["GET"]),
            Route("/api/inputs", self.inputs, methods=["GET"]),
            Route("/api/jobs", self._posted(self.submit, "kind", "view", "options"), methods=["POST"]),
            Route("/api/jobs/{job}", self.job, methods=["GET", "DELETE"]),
            Route("/api/jobs/{job}/events", self.events, methods=["GET"]),
            Route("/api/reveal", self._posted(self.reveal, "view", "shown"), methods=["POST"]),
            Route("/api/export/python", self._posted(self.export_python, "view", *KINDS["certify"]), methods=["POST"]),
            Route("/api/export/png", self._posted(self.export_png, "view", "shown"), methods=["POST"]),
        ]

    def describe(self, request: Request) -> Response:
        """What can be explored, and the choices there are."""
        models = [entry.describe() for entry in self.workbench.entries.values()]
        first = max(models, key=lambda model: model["n_inputs"] > 0)
        names = [method["name"] for method in first["methods"]]
        method = CITED if CITED in names else View.method
        defaults = asdict(View(first["spec"], 0, method)) | {"input": "0"}
        return PlainJSONResponse({"version": 1, "models": models, "defaults": defaults, **CHOICES})

    def inputs(self, request: Request) -> Response:
        entries = self.workbench.entries
        entry = entries[check_name(request.query_params.get("model"), "model", entries)]
        first, count, total = _number(request, "from", 0), _number(request, "count", 50), len(entry.inputs)
        numbers = range(first, min(total, first + count, first + _MOST_LISTED))
        return PlainJSONResponse({"inputs": [entry.preview(number) for number in numbers], "total": total})

    def submit(self, request: Request, body: dict[str, Any]) -> Response:
        kind = check_name(body.get("kind"), "kind", KINDS)
        options, view = read_options(kind, body.get("options")), self.workbench.read_view(body.get("view"))
        ask = getattr(self.questions, kind)
        job = self.jobs.submit(_tab(request), kind, lambda caller, report: ask(view, caller, report, **options))
        return PlainJSONResponse({"job": job.id}, 202)

    async def job(self, request: Request) -> Response:
        """How far a job is; cancelled first, if it is to be deleted."""
        job = self._job(request)
        if request.method == "DELETE":
            self.jobs.cancel(job)
        return PlainJSONResponse(job.plain())

    async def events(self, request: Request) -> Response:
        """What a job reports, as it does; with ``seconds``, only for so long."""
        job, after = self._job(request), _number(request, "after", 0)
        seconds = _number(request, "seconds", 0) if "seconds" in request.query_params else None
        return StreamingResponse(job.stream(after, seconds=seconds), media_type="text/event-stream")

    def reveal(self, request: Request, body: dict[str, Any]) -> Response:
        """The prediction when some features are shown."""
        view, caller = self.workbench.read_view(body.get("view")), Caller(_tab(request), Priority.CLICK)
        return PlainJSONResponse(self.questions.reveal(view, body.get("shown"), caller))

    def export_python(self, request: Request, body: dict[str, Any]) -> Response:
        """The Python that repeats a view and its certificate."""
        view = self.workbench.read_view(body.pop("view", None))
        question = read_options("certify", body)
        return PlainJSONResponse({"code": write_python(view, self.workbench.entries[view.model], **question)})

    def export_png(self, request: Request, body: dict[str, Any]) -> Response:
        view, caller = self.workbench.read_view(body.get("view")), Caller(_tab(request), Priority.CLICK)
        return Response(self.questions.draw(view, body.get("shown"), caller), media_type="image/png")

    def _job(self, request: Request) -> Job:
        job = self.jobs.get(request.path_params["job"])
        if job is None:
            raise HTTPException(404, "Job not found: the server was restarted or the job has expired.")
        return job

    def _posted(self, answer: Callable[[Request, dict[str, Any]], Response], *names: str) -> Any:
        """An endpoint that reads a JSON object with no other than these names, and answers in a thread."""

        def refuse(constant: str) -> None:
            raise ValueError(f"{constant} is not valid JSON")

        async def endpoint(request: Request) -> Response:
            kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind != "application/json":
                raise HTTPException(415, f"A request must be application/json, got {kind[:80]!r}.")
            try:
                body = json.loads(await request.body(), parse_constant=refuse)
            except (ValueError, RecursionError) as error:
                raise InvalidValueError(f"The request must be a JSON object: {str(error)[:200]}") from error
            check_object(body, "request", names=names)
            # One change of threads and no more: a click should cost little beside its forward pass.
            return await to_thread.run_sync(attempt, request, body, limiter=self._clicks)

        def attempt(request: Request, body: dict[str, Any]) -> Response:
            try:
                return answer(request, body)
            except HoldfastError:
                raise
            except BaseException as error:  # not even a model that exits may end the server
                raise ModelError(describe_error(error)["message"]) from error

        return endpoint


def _number(request: Request, name: str, default: int) -> int:
    text = request.query_params.get(name, str(default))
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise InvalidValueError(argument=name, must="be a whole number ≥ 0", got=repr(text[:40]))
    return int(text)


def _tab(request: Request) -> str:
    """Who asks; a tab that does not say so shares its turns with all that do not."""
    tab = request.headers.get("x-holdfast-tab", "-")
    if not re.fullmatch(r"[A-Za-z0-9-]{1,64}", tab):
        raise InvalidValueError(argument="X-Holdfast-Tab", must="be up to 64 letters, digits and -", got=repr(tab[:80]))
    return tab


def _on_error(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        return error_response(error.status_code, _WORDS.get(error.detail, error.detail), headers=error.headers)
    status = 400 if isinstance(error, ArgumentError) else 500
    return error_response(status, str(error), type(error).__name__)


def explore_page() -> str:
    """The page as it is sent: every script and style inside it, no data and no token, which is in its address."""
    own = {file.name: file.read_text(encoding="utf-8") for file in (files("holdfast.explore") / "assets").iterdir()}
    scripts = [*map(shared_asset, SHARED), *(own[name] for name in SCRIPTS)]
    style, parts = shared_asset("page.css") + own["explore.css"], {"title": "holdfast explore"}
    return assemble(own["explore.html"], scripts, style, parts=parts, connect="'self'")
