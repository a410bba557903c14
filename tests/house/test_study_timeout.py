"""Studies with a limit of time: a worker that hangs is replaced, its input tried again, and at last given up."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import StudyError
from holdfast.study.local import DONE, EVENT, READY, Message, Pool, Processes
from holdfast.study.records import tasks_of
from holdfast.study.session import make_engine, run_study
from holdfast.study.spec import CertifySpec, MethodSpec, ModelSpec, MusSpec, StudySpec
from holdfast.study.status import study_status
from holdfast.study.worker import Skipped, Worker, load_worker
from tests.helpers.own_methods import HANGING
from tests.helpers.study_support import digests, make_spec, moods, write_texts
from tests.house.test_study_pool import Scripted, Stage

LONG = 3600.0
LIMIT = 10.0
"""Seconds that an item takes on no machine, however busy, unless it hangs."""


@dataclass(frozen=True)
class HangingIn:
    """Loads a worker that hangs at the second item of an input, once for each file ``<input>-…`` in the folder."""

    folder: str

    def __call__(self, spec: StudySpec) -> Worker:
        worker = load_worker(spec)
        run = worker.run

        def slow(task: Any) -> Iterator[Any]:
            for n_found, found in enumerate(run(task)):
                if n_found == 1:
                    self._hang_if_told(task.input)
                yield found

        worker.run = slow  # type: ignore[method-assign]
        return worker

    def _hang_if_told(self, index: int) -> None:
        for file in sorted(Path(self.folder).glob(f"{index}-*"))[:1]:
            file.unlink()
            time.sleep(LONG)


def told(folder: Path, *names: str) -> Path:
    folder.mkdir()
    for name in names:
        (folder / name).touch()
    return folder


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_texts(tmp_path_factory.mktemp("texts"), 3)


@pytest.fixture(scope="module")
def truth(texts: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    path = tmp_path_factory.mktemp("truth") / "study.db"
    run_study(make_spec(texts), path)
    return digests(path)


def test_an_input_that_hangs_once_is_tried_again_and_the_study_is_as_if_nothing_happened(
    texts: Path, truth: dict[str, str], tmp_path: Path
) -> None:
    engine = Processes(2, load=HangingIn(str(told(tmp_path / "hangs", "1-a"))))
    done = run_study(make_spec(texts), tmp_path / "study.db", engine=engine, timeout=LIMIT)
    assert done.status.complete
    assert digests(tmp_path / "study.db") == truth


def test_an_input_that_always_hangs_is_given_up_by_name_and_the_others_are_done(
    texts: Path, truth: dict[str, str], tmp_path: Path
) -> None:
    hangs = told(tmp_path / "hangs", *(f"1-{i}" for i in range(9)))
    engine = Processes(2, load=HangingIn(str(hangs)), max_tries=2)
    done = run_study(make_spec(texts), tmp_path / "study.db", engine=engine, timeout=LIMIT)
    assert not done.stopped
    assert list(done.status.failures) == [1]
    assert "it took too long (no item finished within 10 s)" in str(done.status.failures[1])
    found = digests(tmp_path / "study.db")
    # What the input sent before it hung is stored, and nothing of the others is missing.
    missing = truth.keys() - found.keys()
    assert missing
    assert {key.split("/")[0] for key in missing} == {"1"}
    assert found.items() <= truth.items()
    for file in hangs.iterdir():
        file.unlink()
    assert run_study(make_spec(texts), tmp_path / "study.db").status.complete
    assert digests(tmp_path / "study.db") == truth


def test_a_method_that_hangs_loses_its_own_items_and_no_others(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(HANGING, str(told(tmp_path / "hangs", "a")))
    own = MethodSpec("own", spec="python:tests.helpers.own_methods:hangs")
    spec = make_spec(texts, methods=(MethodSpec("lime", n_samples=40), own, MethodSpec("occlusion")))
    path, engine = tmp_path / "study.db", Processes(2, max_tries=1)
    status = run_study(spec, path, engine=engine, timeout=LIMIT).status
    lines = (texts / "test_text.txt").read_text(encoding="utf-8").splitlines()
    hung = [index for index, line in enumerate(lines) if sum(line.encode()) % 2]
    assert hung
    assert status.failures == dict.fromkeys(hung, "own: it took too long (no item finished within 10 s)")
    done = {method.name: method.n_done for method in status.methods}
    assert done == {"lime": 12, "own": 12 - 4 * len(hung), "occlusion": 12}
    (tmp_path / "hangs" / "a").unlink()
    assert run_study(spec, path, engine=engine, timeout=LIMIT).status.complete


def test_a_worker_that_has_spoken_while_nobody_listened_is_not_late(texts: Path) -> None:
    """The stage always has something to say: however long ago it was heard, it is heard first."""
    tasks = tasks_of(make_spec(texts), [0], frozenset())
    said: list[Message] = [(READY, None), (EVENT, Skipped(0, "short")), (DONE, None)]
    stage = Stage(said)
    pool = Pool(Processes(1, max_tries=1, timeout=1e-9), tasks, start=stage.start, wait=stage.wait)
    assert list(pool.run(lambda: False)) == [Skipped(0, "short")]


class Mute(Stage):
    """Workers that are loaded, begin, and are never heard again."""

    def wait(self, workers: list[Scripted], seconds: float) -> Any:
        return [worker for worker in workers if not worker.is_ready]


def test_a_worker_that_is_silent_for_too_long_is_given_up_after_its_tries(texts: Path) -> None:
    tasks = tasks_of(make_spec(texts), [0], frozenset())
    stage = Mute([(READY, None)], [(READY, None)])
    pool = Pool(Processes(1, max_tries=2, timeout=0.01), tasks, start=stage.start, wait=stage.wait)
    (event,) = pool.run(lambda: False)
    assert event.input == 0  # type: ignore[union-attr]
    assert event.n_tries == 2  # type: ignore[union-attr]
    assert event.reason == "it took too long (no item finished within 0.01 s)"  # type: ignore[union-attr]


def slow_outside_workers() -> Any:
    """A ``python:`` model that workers are quick with, and the process that started them is not."""

    def score(texts: list[str]) -> Any:
        if multiprocessing.parent_process() is None:
            time.sleep(3)
        return moods()(texts)

    return score


def test_a_mean_curve_is_held_to_the_limit_call_by_call(texts: Path, tmp_path: Path) -> None:
    asked = CertifySpec(radii=(1, 3), precision="data-set", half_width=0.2)
    spec = make_spec(texts, certify=asked, top_fractions=(0.25,), mus=MusSpec())
    model = ModelSpec("python:tests.house.test_study_timeout:slow_outside_workers", spec.model.options)
    before = set(threading.enumerate())
    with pytest.raises(StudyError, match=r"Input \d: ModelError: The model gave no answer for \d+ masks within"):
        run_study(replace(spec, model=model), tmp_path / "study.db", workers=1, timeout=2)
    assert study_status(tmp_path / "study.db").settled
    for thread in set(threading.enumerate()) - before:
        thread.join()  # the call that was given up


def test_the_limit_reaches_the_engine_that_is_given() -> None:
    assert make_engine("local", 2, 7) == Processes(2, timeout=7.0)
    assert make_engine(Processes(3, timeout=4), 0, None) == Processes(3, timeout=4)
