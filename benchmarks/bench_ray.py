"""Studies on Ray: overhead per item over local workers, items per second of one driver, memory over many items."""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import pickle
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import mean, median
from typing import Any

from benchmarks.bench_study import RADII, _texts, _write_images
from benchmarks.figures import Figure
from benchmarks.zoo import find_zoo
from holdfast.study import Ray, Store, run_study
from holdfast.study.local import Engine, Processes
from holdfast.study.records import Record, Task
from holdfast.study.session import Moment
from holdfast.study.spec import MethodSpec, StudySpec

N_ITEMS, N_ACTORS = 10_000, 2
N_SAMPLES = 1_500
"""Draws of an explanation: enough that an item takes more than a second."""


def run() -> Iterator[Figure]:
    if importlib.util.find_spec("ray") is None:
        print("  LEFT OUT: everything (pip install 'holdfast[ray]')")
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        yield from _driver(folder)
        zoo = find_zoo()
        if zoo is None or importlib.util.find_spec("PIL") is None:
            print("  LEFT OUT: Ray over local workers (no zoo at HOLDFAST_ZOO)")
            return
        yield from _overhead(_write_images(zoo, folder), folder)


# -- the driver -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Canned:
    """Loads a worker that sends one record under many names: items that cost nothing, of the usual size."""

    path: str

    def __call__(self, spec: StudySpec) -> Any:
        with Store(self.path) as store:
            return CannedWorker(next(store.records()))


@dataclass(frozen=True)
class CannedWorker:
    record: Record

    def run(self, task: Task) -> Iterator[Record]:
        for item in task.items:
            yield self.record._replace(**item._asdict())


def _driver(folder: Path) -> Iterator[Figure]:
    one = _texts(folder / "one", n=1, n_words=16, radii=RADII)
    run_study(one, folder / "one.db")
    spec = replace(one, data=_texts(folder / "many", n=N_ITEMS // 2, n_words=16, radii=RADII).data)
    canned = Canned(str(folder / "one.db"))
    rates = {}
    for name, engine in (("local", Processes(N_ACTORS, load=canned)), ("ray", Ray(N_ACTORS, load=canned))):
        watcher = _Watcher()
        run_study(spec, folder / f"driver-{name}.db", engine=engine, progress=watcher)
        rates[name] = watcher.rate
    yield Figure("items per second that a driver stores from 2 actors, 5 radii", rates["ray"], "/s", at_least=200)
    yield Figure("the same from 2 local workers", rates["local"], "/s")
    grown = watcher.held[N_ITEMS] - watcher.held[N_ITEMS // 10]
    yield Figure(f"memory that {N_ITEMS:,} items leave in the driver, the first tenth aside", grown, "MiB", at_most=16)


class _Watcher:
    """The rate from the first stored item to the last, and what the driver's two processes hold."""

    def __init__(self) -> None:
        self.first: Moment | None = None
        self.held: dict[int, float] = {}
        self.rate = 0.0

    def __call__(self, moment: Moment) -> None:
        self.first = self.first or moment
        if moment.n_new in (N_ITEMS // 10, N_ITEMS):
            self.held[moment.n_new] = sum(map(_resident, [os.getpid(), *_children()]))
        if moment.n_new > 1:
            self.rate = (moment.n_new - 1) / (moment.seconds - self.first.seconds)


def _children() -> list[int]:
    return [child.pid for child in multiprocessing.active_children() if child.pid is not None]


def _resident(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


# -- the overhead -----------------------------------------------------------------------------------


def _overhead(spec: StudySpec, folder: Path) -> Iterator[Figure]:
    """Time between items of one input that no item accounts for: on Ray, less that of a local worker.

    What the items themselves take varies with whatever else the machine does, and is the same work on both sides.
    """
    heavy = replace(spec, methods=(MethodSpec("lime", n_samples=N_SAMPLES), MethodSpec("shap", n_samples=N_SAMPLES)))
    local, seconds = _idle(heavy, folder / "overhead-local.db", Processes(1))
    ray, _ = _idle(heavy, folder / "overhead-ray.db", Ray(1))
    with Store(folder / "overhead-ray.db") as store:
        size = sum(len(pickle.dumps(record)) for record in store.records()) / len(store.keys()) / 1024
    yield Figure("seconds per item, ResNet-20, 64 features", seconds, "s", at_least=1)
    yield Figure("time that Ray adds to a local worker, per item", 1000 * (ray - local), "ms")
    yield Figure("the same as a share of the item", 100 * (ray - local) / seconds, "%", at_most=10)
    yield Figure("size of a record on its way to the driver", size, "KiB")


def _idle(spec: StudySpec, path: Path, engine: Engine) -> tuple[float, float]:
    """Seconds outside the items, the median over those that follow another of their input; mean seconds inside."""
    moments: list[Moment] = []
    run_study(spec, path, engine=engine, progress=moments.append)
    with Store(path) as store:
        taken = {one.key: one.seconds + one.attribution_seconds for one in store.results()}
    pairs = [(one, other) for one, other in pairwise(moments) if _input(one) == _input(other)]
    outside = [other.seconds - one.seconds - taken[str(other.key)] for one, other in pairs]
    return median(outside), mean(taken.values())


def _input(moment: Moment) -> str:
    return str(moment.key).split("/")[0]
