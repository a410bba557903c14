"""Studies with models that keep ever more memory: workers are replaced after some inputs, and nothing else changes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.study.local import DONE, EVENT, READY, Pool, Processes
from holdfast.study.records import tasks_of
from holdfast.study.session import make_engine, run_study
from holdfast.study.spec import StudySpec
from holdfast.study.worker import Skipped, Worker, load_worker
from tests.helpers.study_support import digests, make_spec, write_texts
from tests.house.test_study_pool import Stage

MEGABYTES = 64


@dataclass(frozen=True)
class Leaking:
    """Loads a worker that keeps memory with every input, and writes down how much its process then has."""

    folder: str

    def __call__(self, spec: StudySpec) -> Worker:
        worker = load_worker(spec)
        run, kept = worker.run, []

        def leak(task: Any) -> Any:
            kept.append(bytearray(os.urandom(1) * (MEGABYTES << 20)))
            name = f"{task.input}-{os.getpid()}"
            (Path(self.folder) / name).write_text(str(len(kept) * MEGABYTES), encoding="utf-8")
            return run(task)

        worker.run = leak  # type: ignore[method-assign]
        return worker


def test_workers_are_replaced_after_their_share_of_inputs_and_results_stay_the_same(tmp_path: Path) -> None:
    spec = make_spec(write_texts(tmp_path / "texts", 5))
    run_study(spec, tmp_path / "truth.db")
    (tmp_path / "told").mkdir()
    engine = Processes(1, load=Leaking(str(tmp_path / "told")), inputs_per_worker=2)
    done = run_study(spec, tmp_path / "a.db", engine=engine)
    told = {file.name: int(file.read_text(encoding="utf-8")) for file in (tmp_path / "told").iterdir()}
    assert done.status.complete
    assert digests(tmp_path / "a.db") == digests(tmp_path / "truth.db")
    assert len(told) == 5
    assert len({name.partition("-")[2] for name in told}) == 3
    assert max(told.values()) == 2 * MEGABYTES


def test_a_worker_that_has_had_its_share_is_followed_by_another(tmp_path: Path) -> None:
    spec = make_spec(write_texts(tmp_path, 3))
    left_out = [Skipped(i, "short") for i in range(3)]
    parts = [[(READY, None), (EVENT, one), (DONE, None)] for one in left_out]
    stage, tasks = Stage(*parts), tasks_of(spec, [0, 1, 2], frozenset())
    pool = Pool(Processes(1, inputs_per_worker=1), tasks, start=stage.start, wait=stage.wait)
    assert list(pool.run(lambda: False)) == left_out


def test_only_workers_can_be_replaced() -> None:
    with pytest.raises(InvalidValueError, match="`inputs_per_worker` must come with worker processes"):
        make_engine("local", 0, inputs_per_worker=3)
    with pytest.raises(InvalidValueError, match="`inputs_per_worker` must be a whole number ≥ 1, got 0"):
        make_engine("local", 2, inputs_per_worker=0)
    with pytest.raises(InvalidTypeError, match="`inputs_per_worker` must be a whole number ≥ 1, got 'two'"):
        make_engine("local", 2, inputs_per_worker="two")  # type: ignore[arg-type]
    assert make_engine("local", 2, inputs_per_worker=3) == Processes(2, inputs_per_worker=3)
