"""Worker processes of a study: the same items as one process has, deaths noticed, given up what kills."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.errors import StudyError
from holdfast.study.local import Processes
from holdfast.study.session import run_study
from holdfast.study.status import study_status
from holdfast.study.store import Store
from tests.edge.test_study_engine import N_INPUTS, check_interrupted_scores
from tests.edge.test_study_means import make_spec as spec_of_means
from tests.helpers.contracts import check_engine
from tests.helpers.study_support import DEADLY, digests, load_mortal, load_stillborn, make_spec, write_texts


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_texts(tmp_path_factory.mktemp("texts"), N_INPUTS)


@pytest.fixture(scope="module")
def truth(texts: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    path = tmp_path_factory.mktemp("truth") / "study.db"
    assert run_study(make_spec(texts), path).status.complete
    with Store(path) as store:
        return store.digests()


def test_the_engine_of_worker_processes_keeps_the_contract(texts: Path) -> None:
    check_engine(Processes(2), make_spec(texts), N_INPUTS)


def test_scores_are_the_same_bit_for_bit_after_interruptions_of_workers(texts: Path, tmp_path: Path) -> None:
    check_interrupted_scores(texts, tmp_path, workers=2)


def test_workers_make_no_difference_to_means(tmp_path: Path) -> None:
    for workers in (0, 2):
        assert run_study(spec_of_means(), tmp_path / f"{workers}.db", workers=workers).status.complete
    with Store(tmp_path / "0.db") as alone, Store(tmp_path / "2.db") as shared:
        assert len(alone.mean_curves()) == 4
        assert alone.mean_curves() == shared.mean_curves()
        assert alone.digests() == shared.digests()


def test_a_worker_that_dies_is_replaced_and_nothing_is_lost(
    texts: Path, truth: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deadly = tmp_path / "deadly"
    deadly.mkdir()
    (deadly / "once").touch()
    monkeypatch.setenv(DEADLY, str(deadly))
    run = run_study(make_spec(texts), tmp_path / "a.db", engine=Processes(2, load=load_mortal))
    assert list(deadly.iterdir()) == []
    assert run.status.complete
    assert run.status.failures == {}
    assert digests(tmp_path / "a.db") == truth


def test_a_task_that_keeps_killing_workers_is_given_up_and_named(
    texts: Path, truth: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deadly, path = tmp_path / "deadly", tmp_path / "a.db"
    deadly.mkdir()
    for name in "abcdef":
        (deadly / name).touch()
    monkeypatch.setenv(DEADLY, str(deadly))
    run = run_study(make_spec(texts), path, engine=Processes(1, load=load_mortal, max_tries=2))
    status = run.status
    assert status.failures == {2: "its worker died (SIGKILL, perhaps out of memory)"}
    # Each of the two workers stored one item of input 2 before it died at the next.
    assert (status.n_given_up, status.n_done, status.complete) == (6, len(truth) - 6, False)
    assert "given up: input 2" in str(status)
    assert run_study(make_spec(texts), path).status.complete
    assert study_status(path).failures == {}
    assert digests(path) == truth


def test_workers_that_die_while_loading_stop_the_study(texts: Path, tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"2 workers in a row died while they loaded .* \(SIGKILL"):
        run_study(make_spec(texts), tmp_path / "a.db", engine=Processes(1, load=load_stillborn, max_tries=2))
