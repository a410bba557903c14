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
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from holdfast.errors import StoreError
from holdfast.study.status import study_status
from holdfast.study.store import Store
from tests.study_support import SLOW, undisturbed, write_texts
from tests.waiting import wait_until

N_INPUTS, PER_INPUT = 6, 8


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_texts(tmp_path_factory.mktemp("texts"), N_INPUTS)


@pytest.fixture(scope="module")
def truth(texts: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return undisturbed(texts, tmp_path_factory.mktemp("truth") / "study.db")


class Victim:
    """A run in a process of its own, and what it told."""

    def __init__(self, texts: Path, path: Path, workers: int, seconds: float, spec: str = "slow_spec") -> None:
        command = [sys.executable, "-m", "tests.study_runner", str(texts), str(path), str(workers), "0", spec]
        environment = os.environ | {SLOW: str(seconds)}
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=True,
        )
        self.told: list[str] = []

    def hear(self, n_items: int) -> None:
        """Wait until it has stored so many items, or has ended."""
        assert self.process.stderr is not None
        while len(self.told) < n_items and (line := self.process.stderr.readline()):
            self.told.append(_key(line))

    def kill(self, *, group: bool = False) -> None:
        """SIGKILL, to the whole process group or not: then workers must end without being told."""
        children = self._children()
        if group:
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
    texts: Path, path: Path, truth: dict[str, str], *, workers: int, n_kills: int, seed: int, group: bool = False
) -> None:
    """Kill runs into one file, each at a random moment, then let one finish: every item is there once, and right."""
    rng = np.random.default_rng(seed)
    told: Counter[str] = Counter()
    for _ in range(n_kills):
        victim = Victim(texts, path, workers, seconds=0.004)
        # After some items, or anywhere between the start of the process and its first item.
        victim.hear(int(rng.integers(0, 4)))
        time.sleep(float(rng.uniform(0, 0.05 if victim.told else 1.5)))
        victim.kill(group=group)
        told.update(filter(None, victim.told))
        if path.exists() and path.stat().st_size and told:
            assert study_status(path).n_done >= sum(told.values())
    last = Victim(texts, path, workers, seconds=0.0)
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


def test_kills_of_the_process_group_lose_and_double_nothing(texts: Path, truth: dict[str, str], tmp_path: Path) -> None:
    survive(texts, tmp_path / "study.db", truth, workers=2, n_kills=2, seed=3, group=True)


def count_answers(path: Path) -> int:
    with Store(path) as store:
        return int(next(store.query("SELECT count(*) FROM answers"))[0])


def has_answers(path: Path, n: int) -> bool:
    """Whether so many are stored; a file that has just been made may not be a store yet."""
    try:
        return path.exists() and count_answers(path) >= n
    except (StoreError, sqlite3.Error):
        return False


def test_kills_during_mean_curves_lose_nothing_and_ask_no_input_twice(texts: Path, tmp_path: Path) -> None:
    path, whole = tmp_path / "study.db", tmp_path / "whole.db"
    assert Victim(texts, whole, 0, seconds=0.0, spec="slow_means_spec").finish() == 0
    n_answers = count_answers(whole)
    assert n_answers == 2 * N_INPUTS
    for n_before in (2, 4, 6):
        victim = Victim(texts, path, 0, seconds=0.05, spec="slow_means_spec")
        wait_until(partial(has_answers, path, n_before))
        victim.kill()
        assert count_answers(path) >= n_before
    assert Victim(texts, path, 0, seconds=0.0, spec="slow_means_spec").finish() == 0
    assert count_answers(path) == n_answers
    with Store(path) as store, Store(whole) as other:
        assert store.mean_curves() == other.mean_curves()
        assert store.digests() == other.digests()


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
