"""Studies that ask for the mean curve over the data set only."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.bounds import Interval
from holdfast.cli import main
from holdfast.errors import StudyError
from holdfast.study import session, worker
from holdfast.study.export import export_study, study_frame
from holdfast.study.merge import merge_studies
from holdfast.study.session import StoredAnswers, run_means, run_study
from holdfast.study.spec import (
    CertifySpec,
    DataSpec,
    GroupKey,
    MaskingSpec,
    MethodSpec,
    ModelSpec,
    MusSpec,
    SmoothingSpec,
    StudySpec,
    write_spec,
)
from holdfast.study.status import study_status
from holdfast.study.store import Store, StoreWriter
from holdfast.study.worker import Skipped, item_rng, study_inputs
from tests.helpers.study_support import edit, write_texts
from tests.helpers.study_support import make_spec as support_spec


def make_spec(n: int = 6, **certify: object) -> StudySpec:
    asked = {"radii": (1, 3, 8), "precision": "data-set", "half_width": 0.2, "confidence": 0.9} | certify
    return StudySpec(
        ModelSpec("python:tests.helpers.reproduce_support:halves", {"kind": "image", "classes": ["left", "right"]}),
        DataSpec("bundled:digits", n=n, order="first"),
        (MethodSpec("random"), MethodSpec("occlusion")),
        masking=MaskingSpec(groups=(4, 4)),
        smoothing=SmoothingSpec((1.0, 0.8), n_samples=5),
        certify=CertifySpec(**asked),
        seed=3,
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("means") / "whole.db"
    done = run_study(make_spec(), path)
    assert done.status.complete
    assert len(done.status.means) == 4
    assert "mean rate" in str(done)
    return path


def test_a_stored_mean_is_what_the_library_computes(finished: Path) -> None:
    spec = make_spec()
    inputs = study_inputs(spec)
    with Store(finished) as store:
        stored = store.mean_curves()[GroupKey("occlusion", 0.25, 1.0)]
        chosen = [hf.top_fraction(store.attribution(i, "occlusion"), 0.25) for i in range(6)]
    direct = hf.mean_curve(
        [lambda i=i: (inputs[i], chosen[i]) for i in range(6)],
        radii=(1, 3, 8),
        half_width=0.2,
        confidence=0.9,
        rng=item_rng(spec, "mean", "occlusion", "0.25", "1.0"),
    )
    assert stored == direct


def test_running_again_computes_nothing(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "mean_curve", lambda *_, **__: pytest.fail("a stored curve was computed again"))
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
        n_whole = sum(1 for _ in whole.query("SELECT 1 FROM answers"))
    # Every input was asked once in every round of every curve, whatever came in between.
    assert n_stored == n_answers == n_whole


def test_more_inputs_make_a_new_mean(tmp_path: Path) -> None:
    path = tmp_path / "grown.db"
    run_study(make_spec(3), path)
    run_study(make_spec(5), path)
    with Store(path) as store:
        assert {curve.n_inputs for curve in store.mean_curves().values()} == {5}


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


def text_spec(folder: Path, n: int | None = None, **certify: object) -> StudySpec:
    """Two mean curves over texts that a test can change."""
    asked = {"radii": (1, 3), "precision": "data-set", "half_width": 0.2} | certify
    return support_spec(
        folder,
        data=DataSpec(f"tweeteval:{folder}", n=n, skip_unreadable=True, order="first"),
        methods=(MethodSpec("random"), MethodSpec("occlusion")),
        top_fractions=(0.25,),
        smoothing=SmoothingSpec((1.0,)),
        mus=MusSpec(),
        certify=CertifySpec(**asked),
    )


@pytest.fixture
def explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[StudySpec, Path]:
    """A study that was killed before its mean curves."""
    spec, path = text_spec(write_texts(tmp_path / "texts", 3)), tmp_path / "a.db"
    with monkeypatch.context() as patch:
        patch.setattr(session, "run_means", lambda *_, **__: 0)
        run_study(spec, path)
    return spec, path


def test_a_study_without_its_means_is_not_complete(explained: tuple[StudySpec, Path], tmp_path: Path) -> None:
    spec, path = explained
    status = study_status(path)
    assert (status.n_to_do, status.n_curves, status.complete) == (0, 2, False)
    assert "6 of 6 items of 3 inputs, mean curves: 0 of 2;" in str(status)
    assert "radius 0" not in str(status)
    assert [method.mean_rate for method in status.methods] == [None, None]
    with pytest.raises(StudyError, match="has no mean curve yet"):
        export_study(path, tmp_path / "a.csv")
    with pytest.raises(StudyError, match="has no mean curve yet"):
        study_frame(path)
    assert run_study(spec, path).status.complete
    assert "complete" in str(study_status(path))


def test_intervals_of_a_status_are_rounded_outwards(finished: Path) -> None:
    status = study_status(finished)
    key, curve = next(iter(status.means.items()))
    close = replace(curve, intervals=(Interval(0.40049, 0.60051),) * len(curve))
    assert "[0.400, 0.601] at radius" in str(replace(status, means={key: close}))


@pytest.mark.usefixtures("ctrl_c")
def test_a_mean_curve_over_fewer_inputs_than_are_explained_is_missing(tmp_path: Path) -> None:
    folder, path = write_texts(tmp_path / "texts", 3), tmp_path / "a.db"
    run_study(text_spec(folder, 2), path)
    stopped = run_study(text_spec(folder), path, inputs=[2], progress=lambda _: os.kill(os.getpid(), signal.SIGINT))
    assert (stopped.stopped, stopped.status.complete) == (True, False)
    assert "mean curves: 1 of 2" in str(stopped.status)


def test_fewer_inputs_and_methods_have_means_of_their_own(tmp_path: Path) -> None:
    folder, path = write_texts(tmp_path / "texts", 3), tmp_path / "a.db"
    run_study(text_spec(folder), path)
    status = run_study(text_spec(folder, 2), path).status
    assert [curve.n_inputs for curve in status.means.values()] == [2, 2]
    assert set(study_frame(path)["n_inputs"]) == {2}
    fewer = replace(text_spec(folder, 2), methods=(MethodSpec("random"),))
    status = run_study(fewer, path).status
    assert [key.method for key in status.means] == ["random"]
    assert set(study_frame(path)["method"]) == {"random"}
    with Store(path) as store:
        assert len(store.mean_curves()) == 2


def test_merged_parts_say_that_the_means_are_to_be_computed(tmp_path: Path) -> None:
    spec, parts = text_spec(write_texts(tmp_path / "texts", 3)), [tmp_path / "1.db", tmp_path / "2.db"]
    for part, inputs in zip(parts, (range(2), range(2, 3)), strict=True):
        run_study(spec, part, inputs=inputs)
    merged = merge_studies(parts, tmp_path / "all.db")
    assert str(merged).endswith("Run the study with this file to compute its 2 mean curves.")
    assert not study_status(tmp_path / "all.db").complete
    assert run_study(spec, tmp_path / "all.db").status.complete


def change_texts(folder: Path, at: int, text: str) -> None:
    lines = (folder / "test_text.txt").read_text().splitlines()
    (folder / "test_text.txt").write_text("\n".join([*lines[:at], text, *lines[at + 1 :]]) + "\n")


def test_means_are_of_the_inputs_that_were_explained(
    explained: tuple[StudySpec, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, path = explained
    change_texts(tmp_path / "texts", 1, " ".join(["other"] * 12))
    monkeypatch.setattr(session, "check_listing", lambda *_: None)  # as for inputs that are read only when needed
    with pytest.raises(StudyError, match=r"^Input 1: the input differs from the one that was explained \(it was"):
        run_study(spec, path)


def test_means_are_of_the_model_that_was_explained(
    explained: tuple[StudySpec, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, path = explained
    edit(path, "UPDATE inputs SET model_fingerprint = 'another'")
    with pytest.raises(StudyError, match=r"^Input 0: the model differs from the one that was explained \(it was an"):
        run_study(spec, path)


def test_an_explained_input_that_would_be_left_out_now_is_named(
    explained: tuple[StudySpec, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, path = explained
    bind = worker.bind_input
    monkeypatch.setattr(
        worker, "bind_input", lambda *given: Skipped(2, "unreadable") if given[2] == 2 else bind(*given)
    )
    with pytest.raises(StudyError, match=r"^Input 2: its explanation is stored, but .* left out now \(unreadable\)"):
        run_study(spec, path)


def test_errors_of_the_model_name_the_input(explained: tuple[StudySpec, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    spec, path = explained
    answered = StoredAnswers.__setitem__

    def failing(self: StoredAnswers, key: str, answer: object) -> None:
        if len(self) == 1:
            raise OSError("no memory")
        answered(self, key, answer)

    monkeypatch.setattr(StoredAnswers, "__setitem__", failing)
    with pytest.raises(StudyError, match=r"^Input 1: OSError: no memory"):
        run_study(spec, path)


def test_errors_before_any_input_is_read_name_the_first_of_their_own_mean(explained: tuple[StudySpec, Path]) -> None:
    spec, path = explained
    edit(path, "DELETE FROM items WHERE input = 0")
    bars = iter([None])

    def progress() -> Any:
        for bar in bars:
            return bar
        raise OSError("no terminal")

    with Store(path) as store:
        assert store.group_inputs(spec.mean_groups[0]) == (1, 2)
    inputs = study_inputs(spec)
    for _ in range(2):  # at the second mean, and at the first that is left
        with (
            StoreWriter(path, spec, settings={}, versions={}) as writer,
            pytest.raises(StudyError, match=r"^Input 1: OSError: no terminal"),
        ):
            run_means(spec, writer, inputs, stop=lambda: False, progress=progress)


def test_json_of_a_study_about_means(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec, study = text_spec(write_texts(tmp_path / "texts", 2)), tmp_path / "moods.toml"
    write_spec(spec, study)
    assert main(["study", "run", str(study), "--trust", "code", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[0]["means"] == {}
    assert lines[-1]["status"]["complete"] is True
    assert main(["study", "status", str(study.with_suffix(".db")), "--json"]) == 0
    status = json.loads(capsys.readouterr().out)
    assert status["means"] == lines[-1]["status"]["means"]
    assert list(status["means"]) == ["random/0.25/1.0", "occlusion/0.25/1.0"]
    with Store(study.with_suffix(".db")) as store:
        stored = store.mean_curves()[GroupKey("random", 0.25, 1.0)]
    assert hf.MeanCurve.from_json(json.dumps(status["means"]["random/0.25/1.0"])) == stored
