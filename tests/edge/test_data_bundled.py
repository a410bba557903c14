"""Bundled inputs are scikit-learn's own and our sentences, split once and for all."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn")
from sklearn.datasets import load_breast_cancer, load_digits

import holdfast as hf
from holdfast.errors import InvalidValueError
from holdfast.inputs.data import Dataset, dataset

SOURCES = {"digits": load_digits, "cancer": load_breast_cancer}
SIZES = {"digits": (450, 1347), "cancer": (143, 426)}


def grey(inputs: Any) -> Any:
    """The rows of scikit-learn that digits were made of: 0…16, flat."""
    return np.rint(inputs[..., 0] / 255 * 16).reshape(len(inputs), 64)


@pytest.mark.parametrize("name", SOURCES)
def test_the_splits_are_disjoint_parts_of_the_data_of_scikit_learn(name: str) -> None:
    rows, labels = SOURCES[name](return_X_y=True)
    test, train = (hf.data.load(f"bundled:{name}", split=split) for split in ("test", "train"))
    assert (len(test), len(train)) == SIZES[name]
    both = [grey(part.inputs) if name == "digits" else part.inputs for part in (test, train)]
    found = np.column_stack([np.concatenate(both), np.concatenate([test.labels, train.labels])])
    truth = np.column_stack([rows, labels])
    np.testing.assert_array_equal(found[np.lexsort(found.T)], truth[np.lexsort(truth.T)])


@pytest.mark.parametrize("name", SOURCES)
def test_a_quarter_of_every_class_is_for_testing(name: str) -> None:
    _, labels = SOURCES[name](return_X_y=True)
    test = hf.data.load(f"bundled:{name}")
    share = np.bincount(test.labels) / np.bincount(labels)
    assert np.abs(share - 0.25).max() < 0.01


@pytest.mark.parametrize("name", SOURCES)
def test_the_split_is_the_one_that_is_written_down(name: str) -> None:
    rows, labels = SOURCES[name](return_X_y=True)
    recorded = json.loads((dataset.BOX / f"{name}.json").read_text(encoding="utf-8"))["test"]
    test = hf.data.load(f"bundled:{name}")
    np.testing.assert_array_equal(grey(test.inputs) if name == "digits" else test.inputs, rows[recorded])
    np.testing.assert_array_equal(test.labels, labels[recorded])


def test_the_recorded_splits_can_be_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from training import splits

    monkeypatch.setattr(splits, "BOX", tmp_path)
    splits.main()
    for name in ("digits.json", "cancer.json", "cancer.csv"):
        assert (tmp_path / name).read_bytes() == (dataset.BOX / name).read_bytes()


def test_digits_are_grey_bytes_and_show_the_digit() -> None:
    digits = hf.data.load("bundled:digits")
    assert (digits.kind, digits.inputs.shape, digits.inputs.dtype) == ("image", (450, 8, 8, 1), np.uint8)  # type: ignore[union-attr]
    assert digits.classes == tuple("0123456789")
    assert (digits.inputs.min(), digits.inputs.max()) == (0, 255)  # type: ignore[union-attr]


def test_cancer_rows_are_numbers_with_two_classes() -> None:
    cancer = hf.data.load("bundled:cancer")
    assert (cancer.kind, cancer.classes, cancer.inputs.shape) == ("table", ("malignant", "benign"), (143, 30))  # type: ignore[union-attr]


def test_the_sentences_are_about_200_all_different_and_of_every_class() -> None:
    sentences = hf.data.load("bundled:sentences")
    assert 190 <= len(sentences) <= 220
    assert len({text.lower() for text in sentences.inputs}) == len(sentences)
    assert np.bincount(sentences.labels, minlength=3).min() >= 50
    assert all(text == text.strip() and text[0].isupper() and text[-1] in ".!?" for text in sentences.inputs)


@pytest.mark.parametrize(
    ("words", "least"),
    [
        (("not", "never", "no", "nothing", "nobody", "without", "neither", "cannot"), 25),
        (("but", "yet", "despite"), 15),
        (("very", "really", "so", "extremely", "absolutely", "completely", "deeply"), 15),
    ],
)
def test_the_sentences_have_negations_contrasts_and_intensifiers(words: tuple[str, ...], least: int) -> None:
    texts = [
        set(text.lower().replace(",", " ").rstrip(".!").split()) for text in hf.data.load("bundled:sentences").inputs
    ]
    assert sum(bool(text & set(words)) for text in texts) >= least


def test_inputs_and_labels_cannot_be_written_to_and_come_in_pairs() -> None:
    digits = hf.data.load("bundled:digits")
    with pytest.raises(ValueError, match="read-only"):
        digits.inputs[0] = 0  # type: ignore[index]
    with pytest.raises(ValueError, match="read-only"):
        digits.labels[0] = 0
    image, label = next(iter(digits))
    np.testing.assert_array_equal(image, digits.inputs[0])
    assert (label, type(label)) == (digits.labels[0], int)
    assert sum(1 for _ in digits) == len(digits)


def test_a_dataset_leaves_the_callers_array_as_it_is() -> None:
    rows = np.zeros((2, 3))
    mine = Dataset("mine", "table", rows, np.array([0, 1]), ("a", "b"))
    rows[0] = 1
    assert rows.tolist() == [[1, 1, 1], [0, 0, 0]]
    assert np.asarray(mine.inputs[1]).tolist() == [0, 0, 0]


def test_labels_must_be_as_many_as_inputs() -> None:
    with pytest.raises(InvalidValueError, match="`labels` must have one entry per input, 1, got 2"):
        Dataset("mine", "text", ("one",), np.array([0, 1]), ("a", "b"))


def test_other_data_than_the_split_was_chosen_from_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(dataset.BOX, tmp_path / "box")
    record = json.loads((tmp_path / "box" / "digits.json").read_text(encoding="utf-8"))
    (tmp_path / "box" / "digits.json").write_text(json.dumps(record | {"sha256": "0" * 64}))
    monkeypatch.setattr(dataset, "BOX", tmp_path / "box")
    with pytest.raises(InvalidValueError, match="this version of scikit-learn ships different data"):
        hf.data.load("bundled:digits")


def test_a_changed_table_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(dataset.BOX, tmp_path / "box")
    table = (tmp_path / "box" / "cancer.csv").read_text(encoding="utf-8")
    (tmp_path / "box" / "cancer.csv").write_text(table.replace("17.99,", "17.98,", 1))
    monkeypatch.setattr(dataset, "BOX", tmp_path / "box")
    with pytest.raises(InvalidValueError, match="its file was changed: install holdfast again"):
        hf.data.load("bundled:cancer")


@pytest.mark.parametrize(
    ("spec", "options", "message"),
    [
        (
            "bundled:digit",
            {},
            r"one of digits, sentences, cancer, contexts, photos, got 'digit'\. Did you mean 'digits'\?",
        ),
        ("bundled:", {}, "must be bundled:<name>"),
        ("bundled:digits", {"split": "validation"}, "`split` must be one of test, train"),
        ("bundled:sentences", {"split": "train"}, "`split` must be 'test' for bundled:sentences"),
    ],
)
def test_specs_that_name_nothing_are_refused(spec: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidValueError, match=message):
        hf.data.load(spec, **options)
