"""Exploring: 20 tabs that click twice a second for a minute; how long a click takes, alone and with jobs beside."""

from __future__ import annotations

import asyncio
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import numpy as np

from benchmarks.figures import Figure
from holdfast import data, models

N_TABS, SECONDS, CLICKS_PER_SECOND = 20, 60.0, 2.0
N_FEATURES = 64
MARGIN = 0.15
"""Seconds that a click may take besides one forward pass, in 95 of 100 cases."""

TABS_PER_JOB = 4
JOB = {"radius": 16, "tolerance": 0.02, "confidence": 0.98}


@dataclass
class Log:
    """What the tabs saw."""

    seconds: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    n_jobs: int = 0

    def percentile(self, share: float) -> float:
        return float(np.quantile(self.seconds, share))


def run() -> Iterator[Figure]:
    forward = forward_seconds()
    yield Figure("one forward pass of digits-vit, one mask, median", 1000 * forward, "ms")
    with server() as (base, token):
        for n_jobs, what in ((0, "20 tabs clicking"), (N_TABS // TABS_PER_JOB, "the same, 5 certify jobs beside")):
            log = asyncio.run(visit(base, token, n_jobs))
            if n_jobs:
                yield Figure(f"{what}: jobs done or running", log.n_jobs)
            yield Figure(f"{what}: clicks answered in {SECONDS:g} s", len(log.seconds))
            yield Figure(f"{what}: errors", len(log.errors), at_most=0)
            yield Figure(f"{what}: a click, median", 1000 * log.percentile(0.5), "ms")
            limit = 1000 * (MARGIN + forward)
            yield Figure(f"{what}: a click, 95 of 100", 1000 * log.percentile(0.95), "ms", at_most=limit)
            for error in log.errors[:5]:
                print(f"  {error}")


def forward_seconds() -> float:
    """How long the model takes for one mask in this process, while nothing else runs here."""
    bound = models.load("bundled:digits-vit").bind(data.load("bundled:digits").inputs[0])
    masks = np.random.default_rng(0).random((60, 1, N_FEATURES)) < 0.5
    times = []
    for mask in masks:
        start = time.perf_counter()
        bound(mask)
        times.append(time.perf_counter() - start)
    return statistics.median(times[10:])


@contextmanager
def server() -> Iterator[tuple[str, str]]:
    """The command itself, in a process of its own."""
    command = [sys.executable, "-m", "holdfast", "explore", "--model", "bundled:digits-vit"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            found = re.search(r"(http://\S+)/\?token=(\S+)", process.stdout.readline() if process.stdout else "")
            if found is None:
                raise RuntimeError("The server did not start.")
            yield found[1], found[2]
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(30)


async def visit(base: str, token: str, n_jobs: int) -> Log:
    """All tabs at once, each with a connection and an input of its own."""
    log = Log()
    tabs = [Tab(base, token, number, log) for number in range(N_TABS)]
    await asyncio.gather(*(tab.open() for tab in tabs))
    log.seconds.clear()
    await asyncio.gather(*(tab.live(tab.number < n_jobs) for tab in tabs))
    return log


class Tab:
    """Somebody who looks at an explanation and clicks, evenly and without waiting longer than for the answer."""

    def __init__(self, base: str, token: str, number: int, log: Log) -> None:
        self.number, self._log, self._rng = number, log, np.random.default_rng(number)
        self._view = {"model": "bundled:digits-vit", "input": str(number), "method": "random", "seed": number}
        headers = {"X-Holdfast-Token": token, "X-Holdfast-Tab": f"tab-{number}"}
        self._http = httpx.AsyncClient(base_url=base, headers=headers, timeout=60)

    async def open(self) -> None:
        """The model is loaded, the input bound and explained; this is not counted."""
        await self._click()

    async def live(self, has_jobs: bool) -> None:
        until = time.monotonic() + SECONDS
        jobs = asyncio.create_task(self._keep_certifying(until)) if has_jobs else None
        await asyncio.sleep(self._rng.random() / CLICKS_PER_SECOND)
        while (start := time.monotonic()) < until:
            await self._click()
            await asyncio.sleep(max(0.0, start + 1 / CLICKS_PER_SECOND - time.monotonic()))
        if jobs is not None:
            await jobs
        await self._http.aclose()

    async def _click(self) -> None:
        shown = np.flatnonzero(self._rng.random(N_FEATURES) < self._rng.random()).tolist()
        start = time.perf_counter()
        answer = await self._post("/api/reveal", {"view": self._view, "shown": shown})
        if answer is not None and "prediction" in answer:
            self._log.seconds.append(time.perf_counter() - start)

    async def _keep_certifying(self, until: float) -> None:
        seed = 0
        while time.monotonic() < until:
            seed += 1
            body = {"kind": "certify", "view": self._view | {"seed": 1000 * seed}, "options": JOB}
            job = (await self._post("/api/jobs", body) or {}).get("job", "none")
            self._log.n_jobs += 1
            left = max(1, int(until - time.monotonic()))
            told = await self._http.get(f"/api/jobs/{job}/events", params={"seconds": left})
            if "event: failed" in told.text:
                self._log.errors.append(told.text[-300:])
            await self._http.delete(f"/api/jobs/{job}")

    async def _post(self, path: str, body: Any) -> Any:
        try:
            answer = await self._http.post(path, json=body)
        except httpx.HTTPError as error:
            self._log.errors.append(repr(error))
            return None
        if answer.is_error:
            self._log.errors.append(answer.text[:300])
            return None
        return answer.json()
