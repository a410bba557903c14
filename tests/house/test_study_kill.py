"""SIGKILL at random moments, again and again: nothing lost, nothing doubled, the same items in the end."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast.study.session import run_study
from holdfast.study.status import study_status
from holdfast.study.store import Store
from tests.helpers.study_support import SLOW, mean_spec, undisturbed, unmeasured, write_texts
from tests.helpers.waiting import wait_until

N_INPUTS, PER_INPUT = 6, 8


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_texts(tmp_path_factory.mktemp("texts"), N_INPUTS)


@pytest.fixture(scope="module")
def truth(texts: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return undisturbed(texts, tmp_path_factory.mktemp("truth") / "study.db")


class Victim:
    """A run in a process of its own, and what it told."""

    def __init__(
        self,
        texts: Path,
        path: Path,
        workers: int,
        seconds: float,
        *,
        precision: str = "per-input",
        grouped: bool = False,
    ) -> None:
        command = [
            sys.executable,
            "-m",
            "tests.helpers.study_runner",
            str(texts),
            str(path),
            str(workers),
            "0",
            precision,
        ]
        self._grouped = grouped
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            # Coverage that is killed while it writes would complain on stderr, where items are told.
            env=unmeasured() | {SLOW: str(seconds)},
            start_new_session=grouped,
        )
        self.told: list[str] = []

    def hear(self, n_items: int) -> None:
        """Wait until it has stored so many items, or has ended."""
        assert self.process.stderr is not None
        while len(self.told) < n_items and (line := self.process.stderr.readline()):
            self.told.append(_key(line))

    def kill(self) -> None:
        """SIGKILL, of the whole process group where it has its own; otherwise workers must end without being told."""
        children = self._children()
        if self._grouped:
            os.killpg(self.process.pid, signal.SIGKILL)
        else:
            self.process.send_signal(signal.SIGKILL)
        self.finish()
        _wait_until_gone(children)

    def finish(self) -> int:
        """Its exit code, once it has told everything."""
        self.hear(10**9)
        assert self.process.stderr is not None
        self.process.stderr.close()
        return self.process.wait()

    def _children(self) -> list[int]:
        try:
            pid = self.process.pid
            return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        except FileNotFoundError:
            return []


def _key(line: str) -> str:
    """The item a line tells of; anything else on stderr is an error of the run."""
    try:
        return str(json.loads(line)["key"])
    except ValueError:
        # The last line of a killed process may be cut short.
        assert line.startswith("{"), line
        return ""


def _wait_until_gone(processes: list[int]) -> None:
    wait_until(lambda: not any(map(_is_alive, processes)))  # workers must not outlive their parent


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def survive(
    texts: Path,
    path: Path,
    truth: dict[str, str],
    *,
    workers: int,
    n_kills: int,
    seed: int,
    grouped: bool = False,
    precision: str = "per-input",
) -> None:
    """Kill runs into one file, each at a random moment, then let one finish: every item is there once, and right."""
    rng = np.random.default_rng(seed)
    told: Counter[str] = Counter()
    for _ in range(n_kills):
        victim = Victim(texts, path, workers, seconds=0.004, precision=precision, grouped=grouped)
        # After some items, or anywhere between the start of the process and its first item.
        victim.hear(int(rng.integers(0, 4)))
        time.sleep(float(rng.uniform(0, 0.05 if victim.told else 1.5)))
        victim.kill()
        told.update(filter(None, victim.told))
        if path.exists() and path.stat().st_size and told:
            assert study_status(path).n_done >= sum(told.values())
    last = Victim(texts, path, workers, seconds=0.0, precision=precision)
    assert last.finish() == 0
    told.update(last.told)
    _check_final(path, truth, told)


def _check_final(path: Path, truth: dict[str, str], told: Counter[str]) -> None:
    assert max(told.values()) == 1, "an item was stored twice"
    with Store(path) as store:
        assert store.digests() == truth
        assert next(store.query("PRAGMA integrity_check"))[0] == "ok"
        assert list(store.query("PRAGMA foreign_key_check")) == []
        counts = [next(store.query(f"SELECT count(*) FROM {table}"))[0] for table in ("items", "rates", "inputs")]
        assert counts == [N_INPUTS * PER_INPUT, 2 * N_INPUTS * PER_INPUT, N_INPUTS]
        for result in store.results():
            assert result.digest == truth[result.key]


def test_kills_in_process_lose_and_double_nothing(texts: Path, truth: dict[str, str], tmp_path: Path) -> None:
    survive(texts, tmp_path / "study.db", truth, workers=0, n_kills=5, seed=1)


def test_kills_with_workers_lose_and_double_nothing(texts: Path, truth: dict[str, str], tmp_path: Path) -> None:
    survive(texts, tmp_path / "study.db", truth, workers=2, n_kills=2, seed=2)


def test_kills_of_the_whole_process_group_lose_and_double_nothing(
    texts: Path, truth: dict[str, str], tmp_path: Path
) -> None:
    survive(texts, tmp_path / "study.db", truth, workers=2, n_kills=3, seed=3, grouped=True)


@pytest.mark.parametrize(("precision", "workers"), [("own", 0), ("own", 2), ("live", 0)])
def test_kills_with_own_methods_lose_and_double_nothing(
    texts: Path, tmp_path: Path, precision: str, workers: int
) -> None:
    undisturbed_run = Victim(texts, tmp_path / "truth.db", 0, seconds=0.0, precision=precision)
    assert undisturbed_run.finish() == 0
    with Store(tmp_path / "truth.db") as store:
        truth = store.digests()
    survive(texts, tmp_path / "study.db", truth, workers=workers, n_kills=3, seed=5, precision=precision)


@pytest.fixture(scope="module")
def means(texts: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    path = tmp_path_factory.mktemp("means") / "study.db"
    assert run_study(mean_spec(texts), path).status.complete
    return _means(path)


def _means(path: Path) -> list[Any]:
    """All that a study about means stores, time aside."""
    with Store(path) as store:
        answers = sorted(store.query("SELECT scope, question, content FROM answers"))
        assert len(answers) > 10
        return [store.digests(), {key: curve.to_json() for key, curve in store.mean_curves().items()}, answers]


def _wait_for(path: Path, statement: str, count: int, victim: Victim) -> None:
    """Until so many rows are stored, or the run has ended."""
    while victim.process.poll() is None:
        with (
            suppress(sqlite3.OperationalError),
            closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection,
        ):
            if connection.execute(statement).fetchone()[0] >= count:
                return
        time.sleep(0.005)


def survive_means(texts: Path, path: Path, means: list[Any], *, workers: int, seed: int, n_kills: int) -> None:
    """Kill runs while they compute mean curves, each some answers after the last, then let one finish."""
    rng, n_answers = np.random.default_rng(seed), 0
    for _ in range(n_kills):
        victim = Victim(texts, path, workers, seconds=0.02, precision="data-set", grouped=True)
        n_answers += int(rng.integers(1, len(means[2]) // n_kills))
        _wait_for(path, "SELECT count(*) FROM answers", n_answers, victim)
        victim.kill()
        assert victim.process.returncode == -signal.SIGKILL
        assert study_status(path).n_done == N_INPUTS * 2
        with Store(path) as store:
            stored = sorted(store.query("SELECT scope, question, content FROM answers"))
        assert n_answers <= len(stored) <= len(means[2])
        assert set(stored) <= set(means[2])
    last = Victim(texts, path, workers, seconds=0.0, precision="data-set")
    assert last.finish() == 0
    assert last.told == []
    assert _means(path) == means


def test_kills_during_mean_curves_lose_and_double_nothing(texts: Path, means: list[Any], tmp_path: Path) -> None:
    survive_means(texts, tmp_path / "study.db", means, workers=0, n_kills=3, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("workers", [0, 2])
def test_many_kills_during_mean_curves_lose_and_double_nothing(
    texts: Path, means: list[Any], tmp_path: Path, seed: int, workers: int
) -> None:
    survive_means(texts, tmp_path / "study.db", means, workers=workers, n_kills=5, seed=10 + seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_many_kills_of_process_groups_lose_and_double_nothing(
    texts: Path, truth: dict[str, str], tmp_path: Path, seed: int
) -> None:
    survive(texts, tmp_path / "study.db", truth, workers=2, n_kills=5, seed=300 + seed, grouped=True)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_many_kills_in_process_lose_and_double_nothing(
    texts: Path, truth: dict[str, str], tmp_path: Path, seed: int
) -> None:
    survive(texts, tmp_path / "study.db", truth, workers=0, n_kills=6, seed=100 + seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_many_kills_with_workers_lose_and_double_nothing(
    texts: Path, truth: dict[str, str], tmp_path: Path, seed: int
) -> None:
    survive(texts, tmp_path / "study.db", truth, workers=2, n_kills=5, seed=200 + seed)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_ends_a_run_with_workers_after_the_items_that_had_begun(
    texts: Path, truth: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "study.db"
    victim = Victim(texts, path, 2, seconds=0.05)
    victim.hear(2)
    victim.process.send_signal(signal.SIGINT)
    assert victim.finish() == 1
    # How many are on their way depends on how busy the machine is; `check_engine` counts the tasks begun.
    assert 2 <= len(victim.told) < N_INPUTS * PER_INPUT
    assert study_status(path).n_done == len(victim.told)
    last = Victim(texts, path, 0, seconds=0.0)
    assert last.finish() == 0
    _check_final(path, truth, Counter([*victim.told, *last.told]))
