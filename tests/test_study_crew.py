"""Crews: what a worker that dies, lingers or never starts costs; no input is told of twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from holdfast.study.engines import Processes, processes
from holdfast.study.engines.crew import DONE, EVENT, READY, Crew, Died, Hand, Message
from holdfast.study.items import Task, tasks_of
from holdfast.study.run import run_study
from holdfast.study.work import Skipped
from tests.study_support import load_lingering, make_spec, unmeasured, write_texts

ROOT = Path(__file__).parents[1]


class Scripted(Hand):
    """A worker that says what it was told to say, and dies."""

    def __init__(self, said: list[Message]) -> None:
        self._said = said

    def give(self, task: Task) -> None:
        pass

    def stop(self) -> None:
        pass

    def hear(self) -> Message:
        if not self._said:
            raise Died("told to")
        return self._said.pop(0)

    def end(self) -> None:
        pass


class Stage:
    """Where each worker has its part; there is none for a worker too many."""

    def __init__(self, *parts: list[Message]) -> None:
        self._parts = list(parts)

    def hire(self) -> Scripted:
        return Scripted(self._parts.pop(0))

    def wait(self, hands: list[Scripted], seconds: float) -> Iterable[Scripted]:
        return list(hands)


def test_an_input_that_was_left_out_is_not_left_out_again_when_its_worker_dies(tmp_path: Path) -> None:
    spec = make_spec(write_texts(tmp_path, 2))
    tasks = tasks_of(spec, [0, 1], frozenset())
    first, second = Skipped(0, "short"), Skipped(1, "short")
    stage = Stage([(READY, None), (EVENT, first)], [(READY, None), (EVENT, second), (DONE, None)])
    crew = Crew(stage, tasks, n_workers=1, max_tries=3)
    assert list(crew.work(lambda: False)) == [first, second]


def test_a_worker_that_does_not_end_by_itself_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_SECONDS_TO_LEAVE", 0.2)
    spec = make_spec(write_texts(tmp_path / "texts", 1))
    assert run_study(spec, tmp_path / "a.db", engine=Processes(1, load=load_lingering)).status.complete


SCRIPT = """
from holdfast.study import run_study
from tests.study_support import Path, make_spec

run_study(make_spec(Path({texts!r})), {path!r}, workers=1)
"""


def test_a_script_without_a_guard_is_told_so(tmp_path: Path) -> None:
    texts, script = write_texts(tmp_path / "texts", 1), tmp_path / "script.py"
    script.write_text(SCRIPT.format(texts=str(texts), path=str(tmp_path / "a.db")), encoding="utf-8")
    places = os.environ | {"PYTHONPATH": os.pathsep.join(place for place in sys.path if place)}
    places["PYTHONPATH"] += os.pathsep + os.getcwd()
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False, env=places)
    assert done.returncode == 1
    assert 'Put what the script does under `if __name__ == "__main__":`.' in done.stderr
    assert "is being written by another process" not in done.stderr


def test_coverage_sees_what_only_workers_run(tmp_path: Path) -> None:
    pytest.importorskip("coverage")
    texts, report = write_texts(tmp_path / "texts", 1), tmp_path / "coverage.json"
    environment = unmeasured() | {"COVERAGE_FILE": str(tmp_path / ".coverage")}
    for command in (
        ["run", "-m", "tests.study_runner", str(texts), str(tmp_path / "a.db"), "1"],
        ["combine", "--quiet"],
        ["json", "--quiet", "--include=*/engines/serve.py", "-o", str(report)],
    ):
        subprocess.run([sys.executable, "-m", "coverage", *command], cwd=ROOT, env=environment, check=True)
    (file,) = json.loads(report.read_text())["files"].values()
    assert file["functions"]["_answer"]["executed_lines"]
