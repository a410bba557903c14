"""Data sets that the ``datasets`` library saved to disk are read as they are, entry by entry."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import holdfast as hf
from holdfast.errors import InvalidValueError, StudyError
from holdfast.study.records import check_listing, list_inputs
from tests.helpers.tiny_hub import TinyHub, running

datasets = pytest.importorskip("datasets", reason="needs the datasets library: pip install 'holdfast[datasets]'")


@pytest.fixture
def texts(tmp_path: Path) -> str:
    kinds = datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["bad", "good"])})
    made = datasets.Dataset.from_dict({"text": ["fine", "awful", None], "label": [1, 0, 1]}, features=kinds)
    datasets.DatasetDict({"test": made, "train": made.select([1])}).save_to_disk(tmp_path / "texts")
    return f"hf:{tmp_path / 'texts'}"


def pictures(folder: Path) -> Any:
    grey = [Image.fromarray(np.full((4, 4, 3), level, dtype=np.uint8)) for level in (10, 20)]
    kinds = datasets.Features({"photo": datasets.Image(), "name": datasets.Value("string")})
    return datasets.Dataset.from_dict({"photo": grey, "name": ["b", "a"]}, features=kinds)


def test_texts_and_class_labels_are_found_by_their_type(texts: str) -> None:
    data = hf.data.load(texts)
    assert (data.kind, data.classes, len(data)) == ("text", ("bad", "good"), 3)
    assert [data.inputs[i] for i in range(2)] == ["fine", "awful"]
    assert [data.label_of(i) for i in range(3)] == [1, 0, 1]
    assert data.inputs[:2] == ["fine", "awful"]


def test_an_entry_that_cannot_be_read_is_named(texts: str) -> None:
    with pytest.raises(InvalidValueError, match=r"Entry 2 of 'text' .*cannot be read: it is empty"):
        hf.data.load(texts).inputs[2]
    with pytest.raises(IndexError, match="has 3 entries, got 3"):
        hf.data.load(texts).inputs[3]


def test_another_split_can_be_asked_for(texts: str) -> None:
    data = hf.data.load(texts, split="train")
    assert list(data) == [("awful", 0)]
    with pytest.raises(InvalidValueError, match="Did you mean 'train'"):
        hf.data.load(texts, split="trian")


def test_images_are_decoded_and_labels_may_be_words(tmp_path: Path) -> None:
    pictures(tmp_path).save_to_disk(tmp_path / "photos")
    data = hf.data.load(f"hf:{tmp_path / 'photos'}", label="name")
    assert (data.kind, data.classes, data.labels.tolist()) == ("image", ("a", "b"), [1, 0])
    assert [int(np.asarray(image)[0, 0, 0]) for image, _ in data] == [10, 20]
    assert hf.data.load(f"hf:{tmp_path / 'photos'}").label_of(0) is None


def test_a_broken_image_is_named_and_leaves_the_others(tmp_path: Path) -> None:
    kinds = datasets.Features({"photo": {"bytes": datasets.Value("binary"), "path": datasets.Value("string")}})
    Image.fromarray(np.full((4, 4, 3), 10, dtype=np.uint8)).save(tmp_path / "a.png")
    entries = [{"bytes": b"no image", "path": None}, {"bytes": (tmp_path / "a.png").read_bytes(), "path": None}]
    made = datasets.Dataset.from_dict({"photo": entries}, features=kinds).cast_column("photo", datasets.Image())
    made.save_to_disk(tmp_path / "photos")
    data = hf.data.load(f"hf:{tmp_path / 'photos'}")
    with pytest.raises(InvalidValueError, match=r"Entry 0 of 'photo' .*cannot be read"):
        data.inputs[0]
    assert np.asarray(data.inputs[1]).shape == (4, 4, 3)


def with_paths(folder: Path, *paths: str) -> Any:
    """A data set whose images are named and not stored, which ``save_to_disk`` itself does not write."""
    kinds = datasets.Features({"photo": {"bytes": datasets.Value("binary"), "path": datasets.Value("string")}})
    entries = [{"bytes": None, "path": path} for path in paths]
    datasets.Dataset.from_dict({"photo": entries}, features=kinds).save_to_disk(folder)
    info = json.loads((folder / "dataset_info.json").read_text())
    info["features"] = {"photo": {"_type": "Image"}}
    (folder / "dataset_info.json").write_text(json.dumps(info))
    return hf.data.load(f"hf:{folder}")


def test_images_are_never_fetched(tmp_path: Path) -> None:
    with running(TinyHub()) as hub:
        addresses = [f"{hub.endpoint}/a.png", f"zip://a.png::{hub.endpoint}/a.zip", "hf://datasets/a/b/c.png"]
        data = with_paths(tmp_path / "photos", *addresses)
        for at in range(3):
            with pytest.raises(InvalidValueError, match="is an address, and nothing is downloaded"):
                data.inputs[at]
        listed = list_inputs(data, range(3))
        hf.data.load(f"hf:{tmp_path / 'photos'}", label="photo")
        assert hub.asked == []
    assert [listed[at].digest for at in range(3)] == [None] * 3


def test_images_lie_in_the_folder_of_their_data_set(tmp_path: Path) -> None:
    Image.fromarray(np.full((4, 4, 3), 10, dtype=np.uint8)).save(tmp_path / "secret.png")
    folder = tmp_path / "photos"
    (folder / "files").mkdir(parents=True)
    (folder / "link.png").symlink_to(tmp_path / "secret.png")
    (folder / "files" / "a.png").write_bytes((tmp_path / "secret.png").read_bytes())
    paths = ["files/a.png", str(folder / "files" / "a.png"), "../secret.png", str(tmp_path / "secret.png"), "link.png"]
    data = with_paths(folder, *paths)
    assert [np.asarray(data.inputs[at])[0, 0, 0] for at in range(2)] == [10, 10]
    for at in range(2, 5):
        with pytest.raises(InvalidValueError, match="Data must be inside"):
            data.inputs[at]


def test_the_mode_that_a_data_set_names_is_kept(tmp_path: Path) -> None:
    kinds = datasets.Features({"photo": datasets.Image(mode="L")})
    colour = Image.fromarray(np.full((4, 4, 3), 10, dtype=np.uint8))
    datasets.Dataset.from_dict({"photo": [colour]}, features=kinds).save_to_disk(tmp_path / "photos")
    assert hf.data.load(f"hf:{tmp_path / 'photos'}").inputs[0].mode == "L"


def test_tables_and_splits_lie_in_the_folder_too(texts: str, tmp_path: Path) -> None:
    datasets.Dataset.from_dict({"text": ["secret"]}).save_to_disk(tmp_path / "other")
    mine = tmp_path / "texts" / "test" / "state.json"
    state = json.loads(mine.read_text())
    for outside in ("../../other/data-00000-of-00001.arrow", str(tmp_path / "other" / "data-00000-of-00001.arrow")):
        mine.write_text(json.dumps(state | {"_data_files": [{"filename": outside}]}))
        with pytest.raises(InvalidValueError, match=r"Data must be inside|that `save_to_disk` wrote"):
            hf.data.load(texts)
    for split in ("../other", str(tmp_path / "other"), "test::http://127.0.0.1:9/x", ".."):
        (tmp_path / "texts" / "dataset_dict.json").write_text(json.dumps({"splits": [split]}))
        with pytest.raises(InvalidValueError, match="must be names of folders in it"):
            hf.data.load(texts, split=split)


def test_a_column_that_is_neither_text_nor_image_is_refused(texts: str) -> None:
    with pytest.raises(InvalidValueError, match="it is neither a text nor an image, but int"):
        hf.data.load(texts, input="label").inputs[0]


def test_what_is_open_must_be_said(tmp_path: Path) -> None:
    datasets.Dataset.from_dict({"a": ["x"], "b": ["y"]}).save_to_disk(tmp_path / "two")
    with pytest.raises(InvalidValueError, match=r"`input` must name a column of .* candidates: a, b"):
        hf.data.load(f"hf:{tmp_path / 'two'}")
    assert hf.data.load(f"hf:{tmp_path / 'two'}", input="b").inputs[0] == "y"
    with pytest.raises(InvalidValueError, match="`split` must be left out"):
        hf.data.load(f"hf:{tmp_path / 'two'}", split="test", input="b")
    with pytest.raises(InvalidValueError, match="save_to_disk"):
        hf.data.load(f"hf:{tmp_path / 'nowhere'}")
    with pytest.raises(InvalidValueError, match="save_to_disk"):
        hf.data.load(f"hf:{tmp_path}")


def test_entries_have_contents_that_tell_them_apart_without_being_decoded(texts: str, tmp_path: Path) -> None:
    lines = list_inputs(hf.data.load(texts), range(3))
    assert len({one.digest for one in lines.values()}) == 3
    made = pictures(tmp_path)
    made.save_to_disk(tmp_path / "photos")
    made.select([1, 0]).save_to_disk(tmp_path / "turned")
    photos, turned = (list_inputs(hf.data.load(f"hf:{tmp_path / name}"), range(2)) for name in ("photos", "turned"))
    assert (photos[0].digest, photos[1].digest) == (turned[1].digest, turned[0].digest)
    assert photos[0].digest != photos[1].digest
    with pytest.raises(StudyError, match="Input 0 was 'photos row 0'"):
        check_listing(photos, turned)
