"""Folders of images, text lines and tables become data sets; what cannot be read is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import holdfast as hf
from holdfast import HoldfastError
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.inputs.data.dataset import Dataset, number_labels


def paint(path: Path, grey: int = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((4, 6, 3), grey, dtype=np.uint8)).save(path)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for grey, name in enumerate(["cats/b.png", "cats/a.png", "dogs/deep/c.png"]):
        paint(tmp_path / "photos" / name, grey)
    (tmp_path / "photos" / "notes.txt").write_text("no image")
    return tmp_path / "photos"


def first_grey(picture: Any) -> int:
    return int(np.asarray(picture)[0, 0, 0])


def test_folders_are_classes_and_files_come_in_the_order_of_their_names(photos: Path) -> None:
    data = hf.data.load(f"images:{photos}")
    assert data.names == ("cats/a.png", "cats/b.png", "dogs/deep/c.png")
    assert [(first_grey(image), data.classes[label]) for image, label in data] == [
        (1, "cats"),
        (0, "cats"),
        (2, "dogs"),
    ]
    assert (data.kind, data.name_of(2), data.label_of(2)) == ("image", "dogs/deep/c.png", 1)


def test_images_are_opened_when_asked_for_and_not_kept(photos: Path) -> None:
    data = hf.data.load(f"images:{photos}")
    paint(photos / "cats/a.png", 77)
    assert first_grey(data.inputs[0]) == 77
    assert data.inputs[0] is not data.inputs[0]
    assert [first_grey(image) for image in data.inputs[1:]] == [0, 2]


def test_an_image_that_cannot_be_read_is_named_and_leaves_the_others(photos: Path) -> None:
    (photos / "cats/a.png").write_bytes(b"not an image")
    data = hf.data.load(f"images:{photos}")
    with pytest.raises(InvalidValueError, match=r"a\.png' cannot be read"):
        data.inputs[0]
    assert first_grey(data.inputs[1]) == 0


def test_a_list_of_files_and_labels_replaces_the_folders(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("file,label\ndogs/deep/c.png,7\ncats/a.png,3\n")
    data = hf.data.load(f"images:{photos}", labels=str(tmp_path / "labels.csv"))
    assert (data.names, data.labels.tolist()) == (("dogs/deep/c.png", "cats/a.png"), [7, 3])


def test_images_in_no_inner_folder_have_no_label(tmp_path: Path) -> None:
    paint(tmp_path / "a.png")
    data = hf.data.load(f"images:{tmp_path}")
    assert (data.labels.tolist(), data.label_of(0), data.classes) == ([-1], None, ())


def test_classes_may_be_given_in_the_order_of_the_model(photos: Path) -> None:
    data = hf.data.load(f"images:{photos}", classes=["dogs", "birds", "cats"])
    assert data.labels.tolist() == [2, 2, 0]
    with pytest.raises(InvalidValueError, match="`classes` must name every label, got no 'cats'"):
        hf.data.load(f"images:{photos}", classes=["dogs"])


def test_labels_are_looked_up_among_the_classes_of_a_model_by_name(photos: Path) -> None:
    data = hf.data.load(f"images:{photos}")
    assert [data.label_of(i, ("dogs", "cats")) for i in range(3)] == [1, 1, 0]
    assert [data.label_of(i, ("tench", "goldfish")) for i in range(3)] == [0, 0, 1]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda photos: "images:nowhere", "must be followed by a folder, got 'nowhere'"),
        (lambda photos: f"images:{photos.parent / 'empty'}", "has none"),
        (lambda photos: f"images:{photos.parent / 'mixed'}", "must have either all images in folders"),
    ],
)
def test_a_folder_that_is_no_folder_of_images_is_refused(photos: Path, make: Any, message: str) -> None:
    (photos.parent / "empty").mkdir()
    paint(photos.parent / "mixed" / "a.png")
    paint(photos.parent / "mixed" / "cats" / "b.png")
    with pytest.raises(InvalidValueError, match=message):
        hf.data.load(make(photos))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name,label\na.png,1\n", "columns file and label"),
        ("file,label\n", "at least one row"),
        ("file,label\ncats/a.png,1\ncats/z.png,1\n", "line 3 .*names no existing file: 'cats/z.png'"),
        ("file,label\ncats/a.png\n", "line 2 .*names no existing file: 'cats/a.png', None"),
    ],
)
def test_a_list_of_files_that_cannot_be_used_is_refused_with_the_line(
    photos: Path, tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "labels.csv").write_text(text)
    with pytest.raises(InvalidValueError, match=message):
        hf.data.load(f"images:{photos}", labels=str(tmp_path / "labels.csv"))


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """An image that lies in no folder of the data."""
    paint(tmp_path / "elsewhere" / "secret.png")
    return tmp_path / "elsewhere" / "secret.png"


def test_a_list_names_no_file_outside_the_folder(photos: Path, secret: Path, tmp_path: Path) -> None:
    (photos / "cats" / "link.png").symlink_to(secret)
    (photos / "away").symlink_to(secret.parent)
    outside = f"../elsewhere/{secret.name}"
    for file in (outside, f"cats/../{outside}", str(secret), "cats/link.png", "away/secret.png", "a\0b.png"):
        (tmp_path / "labels.csv").write_text(f"file,label\ncats/a.png,1\n{file},1\n")
        with pytest.raises(InvalidValueError, match=r"Data must be inside .*photos'"):
            hf.data.load(f"images:{photos}", labels=str(tmp_path / "labels.csv"))


def test_a_link_in_a_folder_of_images_leads_to_no_other_folder(photos: Path, secret: Path) -> None:
    (photos / "cats" / "inner.png").symlink_to(photos / "cats" / "a.png")
    assert "cats/inner.png" in (hf.data.load(f"images:{photos}").names or ())
    (photos / "cats" / "link.png").symlink_to(secret)
    with pytest.raises(InvalidValueError, match=r"'cats/link\.png' is not\. Copy it there\."):
        hf.data.load(f"images:{photos}")
    (photos / "cats" / "link.png").unlink()
    (photos.parent / "shortcut").symlink_to(photos)
    assert len(hf.data.load(f"images:{photos.parent / 'shortcut'}")) == 4


def test_texts_lie_in_the_folder_too(tmp_path: Path) -> None:
    for name in ("elsewhere", "texts"):
        (tmp_path / name).mkdir()
    tweets(tmp_path / "elsewhere")
    place = tweets(tmp_path / "texts")
    with pytest.raises(InvalidValueError, match="Data must be inside"):
        hf.data.load(place, split="../elsewhere/test")


def tweets(folder: Path, texts: str = "what a day\nso it goes\n", labels: str = "2\n1\n") -> str:
    (folder / "test_text.txt").write_bytes(texts.encode())
    (folder / "test_labels.txt").write_text(labels)
    (folder / "mapping.txt").write_text("0\tnegative\n1\tneutral\n2\tpositive\n")
    return f"tweeteval:{folder}"


def test_texts_and_labels_come_line_by_line(tmp_path: Path) -> None:
    data = hf.data.load(tweets(tmp_path))
    assert [(text, data.classes[label]) for text, label in data] == [
        ("what a day", "positive"),
        ("so it goes", "neutral"),
    ]
    assert (data.kind, data.name_of(1)) == ("text", "test line 2")


def test_only_line_feeds_end_a_text(tmp_path: Path) -> None:
    data = hf.data.load(tweets(tmp_path, "one\u2028two\x85three\r\nfour"))
    assert data.inputs == ("one\u2028two\x85three", "four")


@pytest.mark.parametrize(
    ("texts", "labels", "message"),
    [
        ("a\nb\n", "1\n", "got 2 texts and 1 labels"),
        ("a\nb\n", "1\n3\n", "Line 2 of test_labels.txt must be a label of mapping.txt, got '3'"),
        ("a\n", "x\n", "Line 1 of test_labels.txt"),
    ],
)
def test_texts_without_their_labels_are_refused(tmp_path: Path, texts: str, labels: str, message: str) -> None:
    with pytest.raises(InvalidValueError, match=message):
        hf.data.load(tweets(tmp_path, texts, labels))


def test_a_split_that_is_not_there_is_answered_with_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(InvalidValueError, match=r"train_text\.txt.*It has the splits test"):
        hf.data.load(tweets(tmp_path), split="train")
    (tmp_path / "mapping.txt").write_text("one\n")
    with pytest.raises(InvalidValueError, match=r"mapping\.txt' must have a number"):
        hf.data.load(f"tweeteval:{tmp_path}")
    (tmp_path / "mapping.txt").unlink()
    with pytest.raises(InvalidValueError, match=r"a folder with mapping\.txt"):
        hf.data.load(f"tweeteval:{tmp_path}")
    (tmp_path / "test_text.txt").write_bytes(b"\xff")
    with pytest.raises(InvalidValueError, match="must be text in UTF-8"):
        hf.data.load(f"tweeteval:{tmp_path}")


TABLE = "age,colour,kind,id\n31,red,yes,1\n52,green,no,2\n18,red,no,3\n"


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_rows_of_a_table_keep_the_types_of_their_columns(tmp_path: Path, suffix: str) -> None:
    import io

    import pandas

    path = tmp_path / f"table.{suffix}"
    frame = pandas.read_csv(io.StringIO(TABLE))
    frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path)
    data = hf.data.load(f"table:{path}", target="kind", drop=["id"])
    row, label = data.inputs[1], data.labels[1]
    assert (row["age"].dtype.kind, row.iloc[0].tolist(), data.classes[label]) == ("i", [52, "green"], "no")
    assert (len(data), list(data.background.columns)) == (3, ["age", "colour"])
    assert data.name_of(0) == f"table.{suffix} row 0"


def test_rows_of_a_table_are_bound_and_predicted(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("a,b,label\n3,1,0\n0,0,1\n0,1,1\n")
    data = hf.data.load(f"table:{tmp_path / 'table.csv'}", target="label")
    model = hf.mask_tabular(lambda rows: rows.to_numpy() @ np.eye(2), data.inputs[0], background=data.background)
    assert model(np.array([[True, True], [False, True]])).tolist() == [[3.0, 1.0], [1.0, 1.0]]
    assert data.labels.tolist() == [0, 1, 1]
    assert data.inputs.iloc[0:2].shape == (2, 2)  # type: ignore[union-attr]
    assert len(data.inputs[1:]) == 2


def test_hidden_columns_may_be_filled_from_another_table(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("a,b,label\n3,1,0\n")
    (tmp_path / "train.csv").write_text("b,a\n1,7\n1,9\n")
    data = hf.data.load(f"table:{tmp_path}/table.csv", target="label", background=str(tmp_path / "train.csv"))
    assert data.background["a"].tolist() == [7, 9]


def test_labels_stored_as_floats_are_whole_numbers(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("a,label\n3,2.0\n0,0.0\n")
    assert hf.data.load(f"table:{tmp_path}/table.csv", target="label").labels.tolist() == [2, 0]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (TABLE, {"target": "kinds"}, "Did you mean 'kind'"),
        (TABLE, {"drop": ["idd"]}, "Did you mean 'id'"),
        ("a,b\n", {}, "at least one row"),
        ("a,label\n1,\n", {"target": "label"}, "is empty in row 0"),
        ("a\n1\n", {"target": "a"}, "must have a column besides 'a'"),
        (TABLE, {"background": "other.csv"}, "has no 'age'"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, options: dict[str, Any], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("table.csv").write_text(text)
    Path("other.csv").write_text("x\n1\n")
    with pytest.raises(InvalidValueError, match=message):
        hf.data.load("table:table.csv", **options)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("table.xlsx", b"", "must be a .csv or .parquet file"),
        ("table.parquet", b"not parquet", "cannot be read"),
        ("table.csv", b"", "cannot be read"),
        ("missing.csv", None, "No such file"),
    ],
)
def test_a_file_that_is_no_table_is_named(tmp_path: Path, name: str, content: bytes | None, message: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidValueError, match=message):
        hf.data.load(f"table:{tmp_path / name}")


@pytest.mark.parametrize(
    ("spec", "options", "error", "message"),
    [
        ("image:a", {}, InvalidValueError, "Did you mean 'images:a'?"),
        ("digits", {}, InvalidValueError, "must start with one of bundled:"),
        ("images:", {}, InvalidValueError, "must be images:<folder>"),
        (3, {}, InvalidTypeError, "got 3"),
        ("bundled:digits", {"target": "y"}, InvalidTypeError, "`target` must be an option of bundled: data"),
    ],
)
def test_what_names_no_data_is_refused(spec: Any, options: Any, error: type[HoldfastError], message: str) -> None:
    with pytest.raises(error, match=message):
        hf.data.load(spec, **options)


@pytest.mark.parametrize(
    ("file", "scheme"),
    [
        ("cats/1.PNG", "images"),
        ("flat.jpg", "images"),
        ("test_text.txt", "tweeteval"),
        ("dataset_info.json", "hf"),
        ("dataset_dict.json", "hf"),
        ("readme.md", None),
    ],
)
def test_a_folder_of_data_without_its_scheme_is_recognised_by_what_is_in_it(
    tmp_path: Path, file: str, scheme: str | None
) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).touch()
    with pytest.raises(InvalidValueError) as caught:
        hf.data.load(str(tmp_path))
    hint = f" Did you mean '{scheme}:{tmp_path}'?" if scheme else ""
    assert str(caught.value).endswith(f", got {str(tmp_path)!r}.{hint}")


@pytest.mark.parametrize("spec", ["rows.csv", "rows.PARQUET", "csv:rows.csv", "digits"])
def test_a_table_without_its_scheme_is_recognised_by_its_name(spec: str) -> None:
    meant = "bundled:digits" if spec == "digits" else f"table:{spec.removeprefix('csv:')}"
    with pytest.raises(InvalidValueError, match=rf"Did you mean '{meant}'\?$"):
        hf.data.load(spec)


def test_words_are_numbered_in_alphabetical_order_and_numbers_stand_for_themselves() -> None:
    assert number_labels(["b", "a", "b"])[0].tolist() == [1, 0, 1]
    assert number_labels(["10", "2"])[0].tolist() == [10, 2]
    assert number_labels(["10", "02"])[1] == ("02", "10")
    for bad in ("ab", ["a", "a"], [], 3):
        with pytest.raises(HoldfastError, match="`classes` must be a list of distinct names"):
            number_labels(["a"], bad)


def test_every_input_needs_a_name_or_none_has_one() -> None:
    with pytest.raises(InvalidValueError, match="`names` must have one entry per input, 1, got 2"):
        Dataset("a", "text", ("x",), np.array([0]), ("c",), names=("p", "q"))
    assert Dataset("a", "text", ("x",), np.array([0]), ("c",)).name_of(0) == "0"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"drop": 3}, "`drop` must be a list of texts, got 3"),
        ({"drop": ["a", 3]}, r"`drop` must be a list of texts, got \['a', 3\]"),
        ({"background": 3}, "`background` must be a text, got 3"),
        ({"target": ["a"]}, r"`target` must be a text, got \['a'\]"),
    ],
    ids=str,
)
def test_options_of_the_wrong_kind_are_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    (tmp_path / "t.csv").write_text("a,b,c\n1,2,3\n")
    with pytest.raises(InvalidTypeError, match=message):
        hf.data.load(f"table:{tmp_path / 't.csv'}", **options)
    assert len(hf.data.load(f"table:{tmp_path / 't.csv'}", drop="a", target=None)) == 1
