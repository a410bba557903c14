"""A real server on the loopback address, on models that are lookup tables, or as slow or as broken as a test needs."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import httpx
import numpy as np

import holdfast as hf
from holdfast.explore.jobs import TIMEOUT
from holdfast.explore.server import listen, make_server
from holdfast.explore.workbench import Entry, FillChoice, Workbench
from holdfast.inputs.data.dataset import Dataset
from holdfast.inputs.models.classifier import Classifier
from tests.helpers.waiting import PATIENCE

N_FEATURES = 12
TEXT = " ".join(f"word{i}" for i in range(N_FEATURES))
TEXTS = (TEXT, "</script><script>alert(1)</script> " + TEXT, " ", "a b c")
CLASSES = ("no", "yes")


def decide(masks: Any) -> Any:
    """Scores (b, 2): "yes" for the first word, unless words 5 and 7 are both shown."""
    yes = masks[:, 0] & ~(masks[:, 5] & masks[:, 7])
    weight = masks @ (np.arange(1, masks.shape[1] + 1) / 128)
    return np.stack([np.where(yes, 0.0, 2.0), np.where(yes, 2.0, 0.0) + weight], axis=1)


@dataclass
class Slow:
    """The same, but every call takes a while, and waits until ``free``; counts calls, and how many run at once."""

    seconds: float = 0.02
    function: Callable[[Any], Any] = decide
    free: threading.Event = field(default_factory=threading.Event)
    n_calls: int = 0
    at_once: int = 0
    most_at_once: int = 0
    times: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.free.set()

    def __call__(self, masks: Any) -> Any:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        self.n_calls += 1
        time.sleep(self.seconds)
        assert self.free.wait(PATIENCE)
        self.times.append(time.monotonic())
        self.at_once -= 1
        return self.function(masks)


def broken(masks: Any) -> Any:
    """A model that does not work."""
    raise KeyError("no such <b>layer</b>")


def empty_handed(masks: Any) -> Any:
    """A model that breaks its contract."""
    return np.full((len(masks), 2), np.nan)


@dataclass(frozen=True)
class Engine:
    """Any function of masks as a classifier of texts."""

    function: Callable[[Any], Any]

    def score(self, inputs: Any, /) -> Any:
        raise NotImplementedError

    def bind(self, one: Any, /, **settings: Any) -> Any:
        if settings.get("fill") == "unfit":
            raise hf.errors.InvalidValueError("`fill` must fit the model, got 'unfit'.")
        return hf.mask_function(self.function, n_features=len(one.split()), classes=settings.get("classes"))


def fake_inputs(function: Callable[[Any], Any], texts: Any = TEXTS) -> hf.Inputs:
    """A function of masks as a model of texts."""
    data = Dataset("fake", "text", texts, np.array([1, 0, -1, 0][: len(texts)]), CLASSES)
    return hf.bind(Classifier("text", CLASSES, None, Engine(function)), data)


def fake_workbench(texts: Any = TEXTS, **functions: Callable[[Any], Any]) -> Workbench:
    """A workbench of functions of masks by name."""
    fills = (FillChoice("delete", "deleted", None), FillChoice("unfit", "no good", "unfit"))
    entries = []
    for name, function in functions.items():
        inputs = replace(fake_inputs(function, texts), model_name=f"test:{name}", data_name=f"data:{name}")
        entries.append(Entry(inputs, "a test", gives=("masks",), fills=fills))
    return Workbench(entries)


@dataclass(frozen=True)
class Visitor:
    """A tab: requests with the token and a name."""

    http: httpx.Client
    url: str

    def post(self, path: str, body: Any, tab: str = "one", **more: Any) -> httpx.Response:
        return self.http.post(path, json=body, headers={"X-Holdfast-Tab": tab}, **more)

    def get(self, path: str, **query: Any) -> httpx.Response:
        return self.http.get(path, params=query)

    def submit(self, kind: str, view: Any, tab: str = "one", **options: Any) -> str:
        answer = self.post("/api/jobs", {"kind": kind, "view": view, "options": options}, tab)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["job"])

    def events(self, job: str, after: int = 0) -> Iterator[tuple[int, str, Any]]:
        """(number, name, data) of a job as they come, up to its end."""
        with self.http.stream("GET", f"/api/jobs/{job}/events", params={"after": after}) as answer:
            assert answer.status_code == 200
            number, name = 0, ""
            for line in answer.iter_lines():
                kind, _, value = line.partition(": ")
                if kind == "id":
                    number = int(value)
                elif kind == "event":
                    name = value
                elif kind == "data":
                    yield number, name, json.loads(value)

    def ask(self, kind: str, view: Any, tab: str = "one", **options: Any) -> Any:
        """The result of a job that succeeds."""
        *_, (_, name, data) = self.events(self.submit(kind, view, tab, **options))
        assert name == "done", data
        return data["result"]

    def reveal(self, view: Any, shown: Any) -> Any:
        answer = self.post("/api/reveal", {"view": view, "shown": shown})
        assert answer.status_code == 200, answer.text
        return answer.json()


@contextmanager
def serving(workbench: Workbench, *, timeout: float = TIMEOUT) -> Iterator[Visitor]:
    """A server of the workbench, and a visitor who has its address."""
    with listen(0) as sock:
        server, url = make_server(workbench, sock, timeout=timeout)
        thread = threading.Thread(target=lambda: server.run(sockets=[sock]))
        thread.start()
        base, token = url.split("/?token=")
        with httpx.Client(base_url=base, headers={"X-Holdfast-Token": token}, timeout=PATIENCE) as http:
            try:
                yield Visitor(http, url)
            finally:
                server.should_exit = True
                thread.join(PATIENCE)
                assert not thread.is_alive()


def job_threads() -> list[str]:
    """Names of the threads that carry out jobs."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("holdfast-")]
