"""Pools: what a worker that dies, lingers or never starts costs; no input is told of twice."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from holdfast.study import local
from holdfast.study.local import DONE, EVENT, READY, Message, Pool, PoolWorker, Processes, WorkerDied
from holdfast.study.records import Task, tasks_of
from holdfast.study.session import run_study
from holdfast.study.worker import Skipped
from tests.helpers.study_support import load_lingering, make_spec, write_texts

ROOT = Path(__file__).parents[2]


class Scripted(PoolWorker):
    """A worker that says what it was told to say, and dies."""

    def __init__(self, script: list[Message]) -> None:
        self._script = script

    def send(self, task: Task) -> None:
        pass

    def request_stop(self) -> None:
        pass

    def receive(self) -> list[Message]:
        if not self._script:
            raise WorkerDied("told to")
        return [self._script.pop(0)]

    def end(self, seconds: float = 0) -> None:
        pass


class Stage:
    """Where each worker has its part; there is none for a worker too many."""

    def __init__(self, *parts: list[Message]) -> None:
        self._parts = list(parts)

    def start(self) -> Scripted:
        return Scripted(self._parts.pop(0))

    def wait(self, workers: list[Scripted], seconds: float) -> Iterable[Scripted]:
        return list(workers)


def test_an_input_that_was_left_out_is_not_left_out_again_when_its_worker_dies(tmp_path: Path) -> None:
    spec = make_spec(write_texts(tmp_path, 2))
    tasks = tasks_of(spec, [0, 1], frozenset())
    first, second = Skipped(0, "short"), Skipped(1, "short")
    stage = Stage([(READY, None), (EVENT, first)], [(READY, None), (EVENT, second), (DONE, None)])
    pool = Pool(Processes(1), tasks, start=stage.start, wait=stage.wait)
    assert list(pool.run(lambda: False)) == [first, second]


def test_a_worker_that_does_not_end_by_itself_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "_SECONDS_TO_LEAVE", 0.2)
    spec = make_spec(write_texts(tmp_path / "texts", 1))
    assert run_study(spec, tmp_path / "a.db", engine=Processes(1, load=load_lingering)).status.complete


SCRIPT = """
from holdfast.study import run_study
from tests.helpers.study_support import Path, make_spec

run_study(make_spec(Path({texts!r})), {path!r}, workers=1)
"""


def test_a_script_without_a_guard_is_told_so(tmp_path: Path) -> None:
    texts, script = write_texts(tmp_path / "texts", 1), tmp_path / "script.py"
    script.write_text(SCRIPT.format(texts=str(texts), path=str(tmp_path / "a.db")), encoding="utf-8")
    places = os.environ | {"PYTHONPATH": os.pathsep.join(place for place in sys.path if place)}
    places["PYTHONPATH"] += os.pathsep + os.getcwd()
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False, env=places)
    assert done.returncode == 1
    assert 'Put the code of your script under `if __name__ == "__main__":`.' in done.stderr
    assert "is being written by another process" not in done.stderr
