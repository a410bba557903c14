"""A study that is small, exact and quick to load: words with weights, no framework."""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
import time
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.study import schema
from holdfast.study.schema import seal_all
from holdfast.study.session import run_study
from holdfast.study.spec import (
    CertifySpec,
    DataSpec,
    MethodSpec,
    ModelSpec,
    MusSpec,
    SmoothingSpec,
    StudySpec,
    Trust,
)
from holdfast.study.store import Store
from holdfast.study.worker import Worker, load_worker
from tests.helpers.waiting import wait_until

WEIGHTS = {"good": 2.0, "fine": 1.0, "bad": -2.0, "awful": -3.0, "not": -0.5, "very": 0.25, "day": 0.1}
TRUST = Trust(code=True)
"""For files of results that these tests made, of ``python:`` models."""

SLOW = "HOLDFAST_TEST_SECONDS"
"""Seconds that a call of ``slow_moods`` takes, as an environment variable: workers inherit it."""


def moods() -> Any:
    """A factory for ``python:`` models: scores (b, 2) that depend on each text alone, bit for bit."""
    return _score


def slow_moods() -> Any:
    """The same, slowly enough to be interrupted."""

    def score(texts: list[str]) -> Any:
        time.sleep(float(os.environ.get(SLOW, "0.005")))
        return _score(texts)

    return score


HELD = "HOLDFAST_TEST_HELD"
"""Names a folder: ``held_moods`` leaves a file ``asked`` in it, and answers once there is one called ``go``."""


def held_moods() -> Any:
    """The same, which answers when a test lets it."""

    def score(texts: list[str]) -> Any:
        folder = Path(os.environ[HELD])
        (folder / "asked").touch()
        wait_until((folder / "go").exists)
        return _score(texts)

    return score


def _score(texts: list[str]) -> Any:
    sums = np.array([_sum(text.split()) for text in texts])
    return np.stack([-sums, sums], axis=1)


def _sum(words: list[str]) -> float:
    """Words after a "not" count the other way round, so that revealing one word can change the prediction."""
    sign, total = 1.0, 0.0
    for word in words:
        total += sign * _weight(word)
        sign = -sign if word == "not" else sign
    return total


def _weight(word: str) -> float:
    return WEIGHTS.get(word, (sum(word.encode()) % 17 - 8) / 16)


def write_texts(folder: Path, n: int, *, n_words: int = 12) -> Path:
    """Texts of known words in random order, in the layout of TweetEval."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(5)
    words = np.array([*WEIGHTS, *(f"word{i}" for i in range(12))])
    texts = [" ".join(rng.permutation(words)[:n_words]) for _ in range(n)]
    (folder / "test_text.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    (folder / "test_labels.txt").write_text("\n".join(str(i % 2) for i in range(n)) + "\n", encoding="utf-8")
    (folder / "mapping.txt").write_text("0\tbad\n1\tgood\n", encoding="utf-8")
    return folder


def make_spec(folder: Path, *, factory: str = "moods", **changes: Any) -> StudySpec:
    """Two methods, two fractions, two smoothings; hard certificates and witnesses."""
    asked: dict[str, Any] = {
        "model": ModelSpec(
            f"python:tests.helpers.study_support:{factory}", {"kind": "text", "classes": ["bad", "good"]}
        ),
        "data": DataSpec(f"tweeteval:{folder}"),
        "methods": (MethodSpec("lime", n_samples=80), MethodSpec("occlusion")),
        "top_fractions": (0.25, 0.5),
        "certify": CertifySpec(radii=(1, 3)),
        "smoothing": SmoothingSpec((1.0, 0.75), n_samples=8),
        "mus": MusSpec((0.25,), n_levels=8),
        "witness": False,
        "seed": 11,
    }
    return StudySpec(**(asked | changes))


def mean_spec(folder: Path, **changes: Any) -> StudySpec:
    """Two mean curves over all texts."""
    certify = CertifySpec(radii=(1, 3), precision="data-set", half_width=0.2)
    return make_spec(folder, methods=(MethodSpec("occlusion"),), top_fractions=(0.25,), certify=certify, **changes)


@dataclass(frozen=True)
class Slowly:
    """Loads a worker whose calls of ``slow_moods`` take so long, in processes that inherit nothing from this one."""

    seconds: float

    def __call__(self, spec: StudySpec) -> Worker:
        os.environ[SLOW] = str(self.seconds)
        return load_worker(spec)


DEADLY = "HOLDFAST_TEST_DEADLY"
"""Names a folder: input 2 kills its worker as long as there is a file in it, and takes one away."""


def load_mortal(spec: StudySpec) -> Worker:
    """A worker that dies at its second item of input 2, as often as ``DEADLY`` has files."""
    worker = load_worker(spec)
    run = worker.run

    def mortal(task: Any) -> Any:
        for n_found, found in enumerate(run(task)):
            if task.input == 2 and n_found == 1:
                _die_if_told()
            yield found

    worker.run = mortal  # type: ignore[method-assign]
    return worker


def load_stillborn(spec: StudySpec) -> Worker:
    """A worker that is killed while it loads."""
    os.kill(os.getpid(), signal.SIGKILL)
    return load_worker(spec)


def load_lingering(spec: StudySpec) -> Worker:
    """A worker whose model has started a thread that never ends, as servers and watchers do."""
    threading.Thread(target=time.sleep, args=(3600,)).start()
    return load_worker(spec)


def _die_if_told() -> None:
    left = sorted(Path(os.environ[DEADLY]).iterdir())
    if left:
        left[0].unlink()
        os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class MortalIn:
    """Loads a worker that dies at the second item of an input, once for each file ``<input>-…`` in the folder."""

    folder: str

    def __call__(self, spec: StudySpec) -> Worker:
        worker = load_worker(spec)
        run = worker.run

        def mortal(task: Any) -> Any:
            for n_found, found in enumerate(run(task)):
                if n_found == 1:
                    self._die_if_told(task.input)
                yield found

        worker.run = mortal  # type: ignore[method-assign]
        return worker

    def _die_if_told(self, index: int) -> None:
        for file in sorted(Path(self.folder).glob(f"{index}-*"))[:1]:
            file.unlink()
            os.kill(os.getpid(), signal.SIGKILL)


def unmeasured() -> dict[str, str]:
    """The environment of a process whose coverage is not measured."""
    return {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}


def edit(path: Path, statement: str, *values: Any) -> None:
    """Change a file of results in SQL and recompute its digests, as nobody does by accident."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement, values)
        seal_all(connection)


def as_version_3(path: Path, old: Path) -> None:
    """The same results in a new file of version 3, as 0.1.0 wrote it."""
    with closing(sqlite3.connect(old, isolation_level=None)) as connection:
        for statement in chain(*schema.UPGRADES[:3]):
            connection.execute(statement)
        connection.execute("ATTACH ? AS new", (str(path),))
        for table in schema.TABLES:
            names = [name for (name,) in connection.execute("SELECT name FROM pragma_table_info(?, 'main')", (table,))]
            columns = ", ".join(names)
            connection.execute(f"INSERT INTO main.{table} ({columns}) SELECT {columns} FROM new.{table}")
        connection.execute("DETACH new")
        seal_all(connection)
        connection.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
        connection.execute("PRAGMA user_version = 3")


def digests(path: Path) -> dict[str, str]:
    """The digest of every item that is stored."""
    with Store(path) as store:
        return store.digests()


def undisturbed(texts: Path, path: Path) -> dict[str, str]:
    """Digests of every item of the study of texts, run at full speed by the engine without workers."""
    import pytest  # here, because workers import this file and start twice as fast without

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SLOW, "0")
        assert run_study(make_spec(texts, factory="slow_moods"), path).status.complete
    return digests(path)


def rounding_moods() -> Any:
    """Moods whose last digits depend on how many texts are asked together, as those of networks do."""
    return lambda texts: _score(texts) * (1 + len(texts) * 2.0**-50)


def stored_scores(path: Path) -> dict[tuple[int, str], bytes]:
    """Every stored attribution, bit for bit."""
    with Store(path) as store:
        rows = store.query("SELECT input, method, content FROM attributions ORDER BY input, method")
        return {(index, method): content for index, method, content in rows}
