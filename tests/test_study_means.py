"""Studies that ask for the mean curve over the data set only."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.study import means
from holdfast.study.export import export_study, study_frame
from holdfast.study.means import StoredAnswers
from holdfast.study.run import run_study
from holdfast.study.spec import CertifySpec, DataSpec, MaskingSpec, MethodSpec, ModelSpec, SmoothingSpec, StudySpec
from holdfast.study.store import CurveKey, Store
from holdfast.study.work import item_rng, load_worker


def make_spec(n: int = 6, **certify: object) -> StudySpec:
    asked = {"radii": (1, 3, 8), "precision": "data-set", "half_width": 0.1, "confidence": 0.9} | certify
    return StudySpec(
        ModelSpec("bundled:digits-resnet"),
        DataSpec("bundled:digits", n=n),
        (MethodSpec("random"), MethodSpec("occlusion")),
        masking=MaskingSpec(groups=(4, 4)),
        smoothing=SmoothingSpec((1.0, 0.8), n_samples=5),
        certify=CertifySpec(**asked),
        seed=3,
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("means") / "whole.db"
    run = run_study(make_spec(), path)
    assert run.status.complete
    assert len(run.status.means) == 4
    assert "mean rate" in str(run)
    return path


def test_a_stored_mean_is_what_the_library_computes(finished: Path) -> None:
    spec = make_spec()
    worker = load_worker(spec)
    with Store(finished) as store:
        stored = store.mean_curves()[CurveKey("occlusion", 0.25, 1.0)]
        chosen = [hf.top_fraction(store.attribution(i, "occlusion"), 0.25) for i in range(6)]
    direct = hf.mean_curve(
        [lambda i=i: (worker.bind(i), chosen[i]) for i in range(6)],
        radii=(1, 3, 8),
        half_width=0.1,
        confidence=0.9,
        rng=item_rng(spec, "mean", "occlusion", "0.25", "1.0"),
    )
    assert stored == direct


def test_running_again_computes_nothing(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(means, "mean_curve", lambda *_, **__: pytest.fail("a stored curve was computed again"))
    assert run_study(make_spec(), finished).n_new == 0


def test_an_interrupted_mean_goes_on_and_ends_the_same(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, n_stored = tmp_path / "cut.db", 0
    store_answer = StoredAnswers.__setitem__

    def interrupted(self: StoredAnswers, key: str, answer: object) -> None:
        nonlocal n_stored
        store_answer(self, key, answer)
        n_stored += 1
        if n_stored in (3, 9, 16):
            raise KeyboardInterrupt

    monkeypatch.setattr(StoredAnswers, "__setitem__", interrupted)
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            run_study(make_spec(), path)
    run_study(make_spec(), path)
    with Store(finished) as whole, Store(path) as cut:
        assert cut.mean_curves() == whole.mean_curves()
        n_answers = sum(1 for _ in cut.query("SELECT 1 FROM answers"))
    # Every input was asked once for every curve, whatever came in between.
    assert n_stored == n_answers == 4 * 6


def test_more_inputs_make_a_new_mean(tmp_path: Path) -> None:
    path = tmp_path / "grown.db"
    run_study(make_spec(3), path)
    run_study(make_spec(5), path)
    with Store(path) as store:
        assert {curve.n_inputs for curve in store.mean_curves().values()} == {5}


def test_workers_and_processes_make_no_difference(finished: Path, tmp_path: Path) -> None:
    path = tmp_path / "workers.db"
    run_study(make_spec(), path, workers=2)
    with Store(finished) as one, Store(path) as two:
        assert one.mean_curves() == two.mean_curves()
        assert one.digests() == two.digests()


def test_means_are_exported(finished: Path, tmp_path: Path) -> None:
    frame = study_frame(finished)
    assert len(frame) == 4 * 3
    assert set(frame["radius"]) == {1, 3, 8}
    assert export_study(finished, tmp_path / "means.csv") == 12
    assert export_study(finished, tmp_path / "means.parquet") == 12
    export_study(finished, tmp_path / "means.json")
    assert len(json.loads((tmp_path / "means.json").read_text())["means"]) == 4


def test_a_part_of_the_inputs_has_no_mean_yet(tmp_path: Path) -> None:
    path = tmp_path / "part.db"
    run_study(make_spec(), path, inputs=range(3))
    with Store(path) as store:
        assert store.mean_curves() == {}
