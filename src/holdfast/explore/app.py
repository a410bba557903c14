"""Requests → answers, as plain data; whatever asks a model runs off the request path."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Route

from holdfast.errors import HoldfastError, InvalidTypeError, InvalidValueError, ModelError
from holdfast.explore.asking import (
    CONFIDENCES,
    DEFAULT_CONFIDENCE,
    DEFAULT_RADIUS,
    DEFAULT_TOLERANCE,
    KINDS,
    TOLERANCES,
    read_options,
)
from holdfast.explore.exports import draw_png, write_python
from holdfast.explore.guard import App, Guard, Refusal, as_error
from holdfast.explore.jobs import PATIENCE, Board, Job, complaint
from holdfast.explore.page import explore_page
from holdfast.explore.questions import Questions, as_mask
from holdfast.explore.turns import Errand, Gate
from holdfast.explore.view import View, check_features, check_object, read_view
from holdfast.explore.workbench import Workbench
from holdfast.validation import check_name

FRACTIONS = (0.125, 0.25, 0.375, 0.5)
KEEP_PROBABILITIES = (1.0, 0.9, 0.75, 0.5, 0.25)

_MOST_LISTED = 200
_MOST_AT_ONCE = 64
"""Clicks that are answered at a time."""

_BETWEEN_SWEEPS = 0.2

Answer = TypeVar("Answer")


def make_app(
    workbench: Workbench,
    *,
    token: str,
    port: int,
    patience: float = PATIENCE,
    is_stopping: Callable[[], bool] = lambda: False,
) -> App:
    """The application behind its guard.

    Parameters
    ----------
    workbench : Workbench
        What can be explored.
    token : str
        What every request must carry.
    port : int
        Where the server listens.
    patience : float
        Seconds after which a job that nobody listens to is cancelled.
    is_stopping : callable
        Whether the server is about to end: jobs are then cancelled, so that no stream holds it up.
    """
    desk = Desk(workbench, patience=patience)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        sweeping = asyncio.create_task(desk.keep_sweeping(is_stopping))
        try:
            yield
        finally:
            sweeping.cancel()
            await to_thread.run_sync(partial(desk.board.close, seconds=5.0))

    app = Starlette(routes=desk.routes(), lifespan=lifespan, exception_handlers=_HANDLERS)
    app.router.redirect_slashes = False
    return Guard(app, token, port)


class Desk:
    """Where requests are read and answered."""

    def __init__(self, workbench: Workbench, *, patience: float) -> None:
        gate = Gate()
        self.workbench, self.questions = workbench, Questions(workbench, gate)
        self.board = Board(gate, patience=patience)
        self._clicks = CapacityLimiter(_MOST_AT_ONCE)

    def routes(self) -> list[Route]:
        """What can be asked for."""
        return [
            Route("/", self.page, methods=["GET"]),
            Route("/api/workbench", self.describe, methods=["GET"]),
            Route("/api/inputs", self.inputs, methods=["GET"]),
            Route("/api/jobs", self.submit, methods=["POST"]),
            Route("/api/jobs/{job}", self.state, methods=["GET"]),
            Route("/api/jobs/{job}", self.cancel, methods=["DELETE"]),
            Route("/api/jobs/{job}/events", self.events, methods=["GET"]),
            Route("/api/reveal", self.reveal, methods=["POST"]),
            Route("/api/export/python", self.export_python, methods=["POST"]),
            Route("/api/export/png", self.export_png, methods=["POST"]),
        ]

    async def keep_sweeping(self, is_stopping: Callable[[], bool]) -> None:
        """Cancel what nobody listens to, and everything when the server stops."""
        while not is_stopping():
            self.board.sweep()
            await asyncio.sleep(_BETWEEN_SWEEPS)
        self.board.close()

    async def page(self, request: Request) -> Response:
        """The page itself."""
        return HTMLResponse(explore_page())

    async def describe(self, request: Request) -> Response:
        """What can be explored, and the choices there are."""
        models = await to_thread.run_sync(self.workbench.describe)
        first = max(models, key=lambda model: model["n_inputs"] > 0)
        defaults = {"model": first["spec"], "input": "0", "method": "lime", "fraction": 0.25, "fill": None}
        return _json(
            {
                "version": 1,
                "models": models,
                "fractions": FRACTIONS,
                "keep_probabilities": KEEP_PROBABILITIES,
                "tolerances": TOLERANCES,
                "confidences": CONFIDENCES,
                "defaults": defaults | {"keep_probability": 1.0, "seed": 0},
                "radius_default": DEFAULT_RADIUS,
                "tolerance": DEFAULT_TOLERANCE,
                "confidence": DEFAULT_CONFIDENCE,
            }
        )

    async def inputs(self, request: Request) -> Response:
        """Some inputs of a model."""
        asked = request.query_params
        spec = check_name(asked.get("model"), "model", self.workbench.entries)
        first, count = _number(asked.get("from", "0"), "from"), _number(asked.get("count", "50"), "count")
        listed = partial(self.workbench.list_inputs, spec, first, min(count, _MOST_LISTED))
        return _json(await to_thread.run_sync(listed))

    async def submit(self, request: Request) -> Response:
        """Queue a job."""
        given = check_object(await _body(request), "request", names=("kind", "view", "options"))
        kind = check_name(given.get("kind"), "kind", KINDS)
        options = read_options(kind, given.get("options"))
        view = await self._view(given.get("view"))
        ask = getattr(self.questions, kind)
        job = self.board.submit(_tab(request), kind, lambda errand, tell: ask(view, errand, tell, **options))
        return _json({"job": job.id}, status=202)

    async def state(self, request: Request) -> Response:
        """How far a job is."""
        return _json(self._job(request).plain())

    async def cancel(self, request: Request) -> Response:
        """Cancel a job."""
        job = self._job(request)
        self.board.cancel(job)
        return _json(job.plain())

    async def events(self, request: Request) -> Response:
        """What a job tells, as it tells it; with ``seconds``, only for so long."""
        job, asked = self._job(request), request.query_params
        seconds = _number(asked["seconds"], "seconds") if "seconds" in asked else None
        return StreamingResponse(
            _encoded(job, _number(asked.get("after", "0"), "after"), seconds), media_type="text/event-stream"
        )

    async def reveal(self, request: Request) -> Response:
        """The prediction when some features are shown."""
        given = check_object(await _body(request), "request", names=("view", "shown"))
        errand = Errand(_tab(request), urgent=True)
        # One change of threads and no more: a click should cost little beside its forward pass.
        return _json(
            await self._off_path(
                lambda: self.questions.reveal(self._read(given.get("view")), given.get("shown"), errand)
            )
        )

    async def export_python(self, request: Request) -> Response:
        """The Python that repeats a view and its certificate."""
        given = check_object(
            await _body(request), "request", names=("view", "radius", "tolerance", "confidence", "plan")
        )
        view = await self._view(given.pop("view", None))
        entry, question = self.workbench.entries[view.model], read_options("certify", given)
        return _json({"code": write_python(view, entry, **question)})

    async def export_png(self, request: Request) -> Response:
        """A picture of a view."""
        given = check_object(await _body(request), "request", names=("view", "shown"))
        view = await self._view(given.get("view"))
        work = partial(self._draw, view, given.get("shown"), Errand(_tab(request), urgent=True))
        return Response(await self._off_path(work), media_type="image/png")

    def _draw(self, view: View, shown: Any, errand: Errand) -> bytes:
        selected = self.questions.select(view, errand)
        n_features = len(selected)
        given = (
            selected if shown is None else as_mask(check_features(shown, "shown", n_features=n_features), n_features)
        )
        told = self.questions.reveal(view, [i for i in range(n_features) if given[i]], errand)
        one = self.workbench.inputs(view.model).raw(view.input)
        return draw_png(
            one, self.questions.bound(view, errand), selected, given, title=_title(told, int(selected.sum()))
        )

    async def _off_path(self, work: Callable[[], Answer]) -> Answer:
        """The answer of a thread; a model may raise anything, which is told like all that goes wrong."""
        return await to_thread.run_sync(partial(_attempt, work), limiter=self._clicks)

    async def _view(self, plain: Any) -> View:
        """The view of a request; data are read off the request path."""
        return await to_thread.run_sync(self._read, plain)

    def _read(self, plain: Any) -> View:
        return read_view(plain, self.workbench.entries, count=lambda spec: len(self.workbench.inputs(spec)))

    def _job(self, request: Request) -> Job:
        job = self.board.get(request.path_params["job"])
        if job is None:
            raise Refusal(404, "There is no such job: it was of another start, or is long over.")
        return job


def _attempt(work: Callable[[], Answer]) -> Answer:
    """What the work gives, or an error of holdfast: not even a model that exits may end the server."""
    try:
        return work()
    except HoldfastError:
        raise
    except BaseException as error:
        raise ModelError(complaint(error)["message"]) from error


def _title(told: dict[str, Any], n_selected: int) -> str:
    """The prediction on what is shown, and what that is."""
    changes = [(told["n_added"], "added"), (told["n_hidden"], "hidden again")]
    words = [f"{n_selected} selected", *(f"{count} {what}" for count, what in changes if count)]
    return f"“{told['prediction']}”: {', '.join(words)}"


def _json(data: Any, *, status: int = 200) -> Response:
    return Response(json.dumps(data, allow_nan=False), status_code=status, media_type="application/json")


async def _encoded(job: Job, after: int, seconds: float | None) -> AsyncIterator[bytes]:
    async for event in job.follow(after, seconds=seconds):
        yield b": still here\n\n" if event is None else event.encode()


async def _body(request: Request) -> Any:
    """The JSON of a request."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refusal(415, f"A request must be application/json, got {kind[:80]!r}.")
    try:
        return json.loads(await request.body(), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise InvalidValueError(f"The request must be a JSON object: {str(error)[:200]}") from error


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _number(text: str, name: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise InvalidValueError(argument=name, must="be a whole number ≥ 0", got=repr(text[:40]))
    return int(text)


def _tab(request: Request) -> str:
    """Who asks; a tab that does not say so shares its turns with all that do not."""
    tab = request.headers.get("x-holdfast-tab", "-")
    if not re.fullmatch(r"[A-Za-z0-9-]{1,64}", tab):
        raise InvalidValueError(argument="X-Holdfast-Tab", must="be up to 64 letters, digits and -", got=repr(tab[:80]))
    return tab


def _on_refusal(request: Request, error: Exception) -> Response:
    status = error.status if isinstance(error, Refusal) else 500
    return Response(as_error(str(error)), status_code=status, media_type="application/json")


def _on_http(request: Request, error: Exception) -> Response:
    known = {404: "There is nothing at this address.", 405: "This address cannot be asked in that way."}
    status = error.status_code if isinstance(error, HTTPException) else 500
    return Response(
        as_error(known.get(status, str(error))),
        status_code=status,
        headers=getattr(error, "headers", None),
        media_type="application/json",
    )


def _on_error(request: Request, error: Exception) -> Response:
    told = complaint(error)
    status = 400 if isinstance(error, (InvalidValueError, InvalidTypeError)) else 500
    return Response(as_error(told["message"], told["kind"]), status_code=status, media_type="application/json")


_HANDLERS: dict[Any, Any] = {Refusal: _on_refusal, HTTPException: _on_http, HoldfastError: _on_error}
