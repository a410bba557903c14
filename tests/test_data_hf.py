"""Data sets that the ``datasets`` library saved to disk are read as they are, entry by entry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import holdfast as hf
from holdfast import InvalidValueError
from holdfast.errors import StudyError
from holdfast.study.listing import check_listing, list_inputs

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


def test_what_is_open_must_be_said(tmp_path: Path) -> None:
    datasets.Dataset.from_dict({"a": ["x"], "b": ["y"]}).save_to_disk(tmp_path / "two")
    with pytest.raises(InvalidValueError, match=r"`input` must be given: the columns .* are a, b"):
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
