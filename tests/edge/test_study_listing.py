"""Numbers in a file of results keep meaning the same inputs, whatever happens to the data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from holdfast.errors import StoreError, StudyError
from holdfast.study.merge import merge_studies
from holdfast.study.session import Moment, run_study
from holdfast.study.spec import CertifySpec, DataSpec, MaskingSpec, MethodSpec, ModelSpec, StudySpec
from holdfast.study.status import study_status
from holdfast.study.store import Store
from tests.helpers.study_support import make_spec, write_texts


def brightness() -> object:
    """A factory of a model of images."""
    return lambda images: np.stack([images.mean(axis=(1, 2, 3)), np.full(len(images), 60.0)], axis=1)


def sums() -> object:
    """A factory of a model of rows."""
    return lambda rows: np.stack([rows.to_numpy().sum(axis=1), 3.0 - rows.to_numpy().sum(axis=1)], axis=1)


def study(factory: str, kind: str, data: DataSpec) -> StudySpec:
    return StudySpec(
        ModelSpec(f"python:{__name__}:{factory}", {"kind": kind}),
        data,
        (MethodSpec("random"),),
        masking=MaskingSpec((2, 4) if kind == "image" else None),
        certify=CertifySpec((1, 2)),
    )


def paint(folder: Path, *names: str) -> None:
    folder.mkdir(exist_ok=True)
    for name in names:
        Image.fromarray(np.full((8, 8, 3), ord(name), dtype=np.uint8)).save(folder / f"{name}.png")


def numbers(path: Path) -> dict[int, str]:
    with Store(path) as store:
        return dict(store.query("SELECT input, name FROM inputs ORDER BY input"))


def test_an_image_that_is_added_in_front_is_refused_and_at_the_end_is_not(tmp_path: Path) -> None:
    folder, path = tmp_path / "photos", tmp_path / "a.db"
    spec = study("brightness", "image", DataSpec(f"images:{folder}"))
    paint(folder, *"bcde")
    assert run_study(spec, path).status.complete
    paint(folder, "a")
    with pytest.raises(StudyError, match=r"Input 0 was 'b\.png' and is now 'a\.png'.*at the end, or use an"):
        run_study(spec, path)
    assert numbers(path) == dict(enumerate(["b.png", "c.png", "d.png", "e.png"]))
    (folder / "a.png").unlink()
    paint(folder, "f")
    assert run_study(spec, path).status.complete
    assert numbers(path) == dict(enumerate(["b.png", "c.png", "d.png", "e.png", "f.png"]))


def test_a_line_that_is_added_in_front_is_refused_and_at_the_end_is_not(tmp_path: Path) -> None:
    texts, path = write_texts(tmp_path / "texts", 3), tmp_path / "a.db"
    spec = make_spec(texts)
    run_study(spec, path)
    lines, labels = texts / "test_text.txt", texts / "test_labels.txt"
    before = lines.read_text()
    labels.write_text(labels.read_text() + "0\n")
    lines.write_text("a new day\n" + before)
    with pytest.raises(StudyError, match=r"Input 0 was 'test line 1' \(content \w+\) and is now 'test line 1' \(cont"):
        run_study(spec, path)
    lines.write_text(before + "a new day\n")
    assert run_study(spec, path).n_new == 8


def test_a_text_that_is_there_twice_is_two_inputs(tmp_path: Path) -> None:
    texts = write_texts(tmp_path / "texts", 2)
    (texts / "test_text.txt").write_text("not a good day\nnot a good day\n")
    assert run_study(make_spec(texts), tmp_path / "a.db").status.complete


def test_a_row_that_is_added_in_front_is_refused(tmp_path: Path) -> None:
    table, path = tmp_path / "t.csv", tmp_path / "a.db"
    (tmp_path / "background.csv").write_text("a,b,c\n0,0,0\n1,1,1\n")
    options = {"target": "label", "background": str(tmp_path / "background.csv")}
    spec = study("sums", "table", DataSpec(f"table:{table}", options=options))
    table.write_text("a,b,c,label\n3,1,0,0\n0,0,1,1\n")
    run_study(spec, path)
    table.write_text("a,b,c,label\n9,9,9,1\n3,1,0,0\n0,0,1,1\n")
    with pytest.raises(StudyError, match="Input 0 was"):
        run_study(spec, path)
    table.write_text("a,b,c,label\n3,1,0,0\n0,0,1,1\n9,9,9,1\n")
    assert run_study(spec, path).status.complete


def test_inputs_that_have_no_items_yet_may_change(tmp_path: Path) -> None:
    folder, path = tmp_path / "photos", tmp_path / "a.db"
    spec = study("brightness", "image", DataSpec(f"images:{folder}"))
    paint(folder, *"ace")
    run_study(spec, path, inputs=[0])
    paint(folder, "b")
    assert run_study(spec, path).status.complete
    assert list(numbers(path).values()) == ["a.png", "b.png", "c.png", "e.png"]


def test_parts_over_shifted_data_are_not_merged(tmp_path: Path) -> None:
    folder, parts = tmp_path / "photos", [tmp_path / "1.db", tmp_path / "2.db"]
    spec = study("brightness", "image", DataSpec(f"images:{folder}"))
    paint(folder, *"bcd")
    run_study(spec, parts[0], inputs=[0, 1])
    paint(folder, "a")
    run_study(spec, parts[1], inputs=[2, 3])
    with pytest.raises(StudyError, match=r"Input 0 was 'b\.png' \(content \w+\) and is now 'a\.png'"):
        merge_studies(parts, tmp_path / "all.db")
    assert not (tmp_path / "all.db").exists()


def digests(path: Path) -> list[bool]:
    with Store(path) as store:
        return [listed.digest is not None for listed in store.listing().values()]


def test_what_image_files_held_is_stored_when_they_are_explained_and_kept_ever_after(tmp_path: Path) -> None:
    folder, parts = tmp_path / "photos", [tmp_path / "1.db", tmp_path / "2.db"]
    spec = study("brightness", "image", DataSpec(f"images:{folder}"))
    paint(folder, *"bcd")
    run_study(spec, parts[0], inputs=[0])
    assert digests(parts[0]) == [True, False, False]
    run_study(spec, parts[0], inputs=[0, 2])
    assert digests(parts[0]) == [True, False, True]
    run_study(spec, parts[1], inputs=[1])
    merge_studies(parts, tmp_path / "all.db")
    assert digests(tmp_path / "all.db") == [True, True, True]


def test_a_file_that_changed_before_it_was_explained_is_known_as_it_was_explained(tmp_path: Path) -> None:
    folder, path = tmp_path / "photos", tmp_path / "a.db"
    spec = study("brightness", "image", DataSpec(f"images:{folder}"))
    paint(folder, *"bc")
    run_study(spec, path, inputs=[0])
    with Store(path) as store:
        before = store.listing()[0].digest
    (folder / "b.png").write_bytes((folder / "c.png").read_bytes())
    run_study(spec, path)
    with Store(path) as store:
        assert store.listing()[0].digest == before
        assert store.listing()[1].digest not in (before, None)


def test_a_link_to_a_file_that_is_being_written_is_refused(tmp_path: Path) -> None:
    texts, path, link = write_texts(tmp_path / "texts", 1), tmp_path / "a.db", tmp_path / "b.db"
    run_study(make_spec(texts), path)
    link.symlink_to(path)

    def second(moment: object) -> None:
        run_study(make_spec(texts), link)

    wider = make_spec(texts, top_fractions=(0.25, 0.5, 0.75))
    with pytest.raises(StoreError, match=r"b\.db' is being written by another process"):
        run_study(wider, path, progress=second)
    assert run_study(wider, link).status.complete


def test_no_name_stands_for_a_database_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = write_texts(tmp_path / "texts", 1)
    monkeypatch.chdir(tmp_path)
    run_study(make_spec(texts), ":memory:")
    assert run_study(make_spec(texts), ":memory:").n_new == 0
    assert (tmp_path / ":memory:").is_file()


def test_items_stored_before_an_input_was_left_out_are_counted_once(tmp_path: Path) -> None:
    folder, path = tmp_path / "photos", tmp_path / "a.db"
    data = DataSpec(f"images:{folder}", skip_unreadable=True)
    spec = study("brightness", "image", data)
    paint(folder, *"abc")
    run_study(spec, path)
    (folder / "b.png").write_bytes(b"broken")
    moments: list[Moment] = []
    wider = replace(spec, methods=(MethodSpec("random"), MethodSpec("occlusion")))
    status = run_study(wider, path, progress=moments.append).status
    assert (status.n_items, status.n_done, status.n_left_out, status.n_to_do) == (6, 5, 1, 0)
    assert status.complete
    assert (moments[-1].n_done, moments[-1].n_items) == (5, 5)
    assert "5 of 6 items of 3 inputs, complete" in str(status)
    status = run_study(spec, path).status
    assert (status.n_done, status.n_left_out, status.skips, status.complete) == (3, 0, {}, True)


def test_a_merge_keeps_why_an_input_has_not_all_its_items(tmp_path: Path) -> None:
    folder, parts = tmp_path / "photos", [tmp_path / "1.db", tmp_path / "2.db"]
    spec = study("brightness", "image", DataSpec(f"images:{folder}", skip_unreadable=True))
    paint(folder, *"ab")
    run_study(spec, parts[0])
    (folder / "b.png").write_bytes(b"broken")
    run_study(replace(spec, methods=(MethodSpec("occlusion"),)), parts[1])
    merge_studies(parts, tmp_path / "all.db")
    status = study_status(tmp_path / "all.db")
    assert (status.n_items, status.n_done, status.n_left_out, status.complete) == (4, 3, 1, True)
    assert list(status.skips) == [1]
    # Where the other file has everything of the input, nothing was left out.
    run_study(spec, tmp_path / "3.db")
    merge_studies([tmp_path / "3.db", parts[0]], tmp_path / "both.db")
    status = study_status(tmp_path / "both.db")
    assert (status.n_done, status.skips, status.complete) == (2, {}, True)
