"""Every kind of data goes through a study: bound, explained, certified, with its label and its name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from holdfast.errors import StudyError
from holdfast.study import CertifySpec, DataSpec, MaskingSpec, MethodSpec, ModelSpec, StudySpec, plan_study
from holdfast.study.records import ItemResult, tasks_of
from holdfast.study.worker import Skipped, load_worker

FACTORY = """
import numpy as np

def brightness():
    return lambda images: np.stack([images.mean(axis=(1, 2, 3)), np.full(len(images), 60.0)], axis=1)

def reads_words():
    return lambda texts: ["good" if "good" in text else "bad" for text in texts]

def sums():
    return lambda rows: np.stack([rows.to_numpy().sum(axis=1), 3.0 - rows.to_numpy().sum(axis=1)], axis=1)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "studied_models_of_this_test.py").write_text(FACTORY)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def study(factory: str, kind: str, data: DataSpec, groups: Any = None, classes: tuple[str, ...] = ()) -> StudySpec:
    options = {"kind": kind} | ({"classes": classes} if classes else {})
    return StudySpec(
        model=ModelSpec(f"python:studied_models_of_this_test:{factory}", options),
        data=data,
        methods=(MethodSpec("occlusion"),),
        masking=MaskingSpec(groups),
        certify=CertifySpec((1, 2)),
    )


def run(spec: StudySpec, n: int) -> list[ItemResult | Skipped]:
    worker = load_worker(spec)
    return [one for task in tasks_of(spec, range(n), frozenset()) for one in worker.run(task)]


def facts(found: list[ItemResult | Skipped]) -> list[tuple[str | None, int | None, Any]]:
    return [(one.name, one.label, one.prediction) for one in found if isinstance(one, ItemResult)]


def paint(path: Path, grey: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((8, 8, 3), grey, dtype=np.uint8)).save(path)


def test_images_of_a_folder(folder: Path) -> None:
    paint(folder / "photos/dark/a.png", 10)
    paint(folder / "photos/light/b.png", 200)
    spec = study("brightness", "image", DataSpec("images:photos"), (2, 4), ("light", "dark"))
    assert facts(run(spec, 2)) == [("dark/a.png", 1, 1), ("light/b.png", 0, 0)]
    assert (plan_study(spec, timed=False).n_inputs, plan_study(spec, timed=False).n_features) == (2, 8)


def test_an_image_that_cannot_be_read_stops_the_study_or_is_left_out_and_counted(folder: Path) -> None:
    paint(folder / "photos/a.png", 10)
    (folder / "photos/b.png").write_bytes(b"broken")
    paint(folder / "photos/c.png", 200)
    with pytest.raises(StudyError, match=r"b\.png' cannot be read"):
        run(study("brightness", "image", DataSpec("images:photos"), (2, 4)), 3)
    found = run(study("brightness", "image", DataSpec("images:photos", skip_unreadable=True), (2, 4)), 3)
    assert [name for name, _, _ in facts(found)] == ["a.png", "c.png"]
    assert [(one.input, "b.png" in one.reason) for one in found if isinstance(one, Skipped)] == [(1, True)]


def test_lines_of_text(folder: Path) -> None:
    (folder / "test_text.txt").write_text("a good day for all of us\nshort\nnot so nice a day\n")
    (folder / "test_labels.txt").write_text("1\n0\n0\n")
    (folder / "mapping.txt").write_text("0\tbad\n1\tgood\n")
    found = run(study("reads_words", "text", DataSpec("tweeteval:.", min_features=2)), 3)
    assert facts(found) == [("test line 1", 1, "good"), ("test line 3", 0, "bad")]
    assert [one.reason for one in found if isinstance(one, Skipped)] == ["1 features, fewer than 2"]


@pytest.mark.parametrize("fill", [None, "background"])
def test_rows_of_a_table_are_filled_from_the_table(folder: Path, fill: str | None) -> None:
    (folder / "table.csv").write_text("a,b,c,label\n3,1,0,0\n0,0,1,1\n0,1,0,1\n")
    spec = study("sums", "table", DataSpec("table:table.csv", options={"target": "label"}))
    found = run(StudySpec(spec.model, spec.data, spec.methods, masking=MaskingSpec(fill=fill), certify=spec.certify), 3)
    assert facts(found) == [(f"table.csv row {i}", label, label) for i, label in enumerate([0, 1, 1])]
