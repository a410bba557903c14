"""Scores that users already have: arrays, maps of elements, files, and what cannot be read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from holdfast import Evaluator, from_array, from_captum, from_lime, from_shap, mask_image, top
from holdfast.errors import InvalidTypeError, InvalidValueError
from tests.helpers.fakes import score_table

GROUPS = np.array([[0, 0, 1], [2, -1, 1]])
MAP = np.arange(12.0).reshape(2, 3, 2)


def reduced_by_hand(values: Any, how: Any) -> list[float]:
    return [float(how(values[np.equal(GROUPS, feature)])) for feature in range(3)]


@pytest.mark.parametrize(("reduce", "how"), [("sum", np.sum), ("mean", np.mean), ("max", np.max)])
def test_maps_are_reduced_over_the_elements_of_each_feature(reduce: str, how: Any) -> None:
    for values in (MAP, -MAP, MAP[..., 0], MAP[None], MAP[None, None]):
        wanted = reduced_by_hand(values.reshape(2, 3, -1), how)
        assert from_array(values, groups=GROUPS, reduce=reduce).scores.tolist() == pytest.approx(wanted)
    tensor = torch.from_numpy(MAP.transpose(2, 0, 1).copy())
    for given in (tensor, tensor[None], tensor.float().requires_grad_()):
        assert from_array(given, groups=GROUPS, reduce=reduce).scores.tolist() == pytest.approx(
            reduced_by_hand(MAP, how)
        )


def test_arrays_have_their_channels_last_and_tensors_first_where_both_would_fit() -> None:
    groups = np.arange(9).reshape(3, 3)
    cube = np.random.default_rng(0).random((3, 3, 3))
    np.testing.assert_allclose(from_array(cube, groups=groups).scores, cube.sum(axis=2).ravel())
    np.testing.assert_allclose(from_array(torch.from_numpy(cube), groups=groups).scores, cube.sum(axis=0).ravel())
    np.testing.assert_allclose(from_captum(cube[None], groups=groups).scores, cube.sum(axis=0).ravel())


def test_the_groups_of_a_model_are_used_and_its_number_of_features_is_checked() -> None:
    picture = np.random.default_rng(0).random((6, 6, 3))
    model = mask_image(lambda batch: batch.mean(axis=(1, 2)), picture, groups=(3, 3))
    heat = np.random.default_rng(1).random((6, 6))
    wanted = [heat[np.equal(model.groups, i)].sum() for i in range(9)]
    for given in (model, Evaluator(model)):
        np.testing.assert_allclose(from_array(heat, given).scores, wanted)
        assert from_array(np.arange(9), given).scores.tolist() == list(range(9))
    with pytest.raises(
        InvalidValueError, match=r"^`scores` must be 9 numbers or a map of elements \(6, 6\), got shape"
    ):
        from_array(np.arange(8), model)
    with pytest.raises(InvalidValueError, match=r"^`scores` must be 5 numbers, or a map together with `groups`"):
        from_array(np.arange(4), score_table(5))


def test_scores_are_kept_as_they_are_with_names_and_target() -> None:
    found = from_array([1, -2, 3], target="cat", feature_names=["a", "b", "c"], method="mine")
    assert (found.scores.tolist(), found.target, found.method) == ([1.0, -2.0, 3.0], "cat", "mine")
    assert (found.feature_names, found.n_calls, found.rng_key) == (("a", "b", "c"), 0, None)
    assert top(found, 1).tolist() == [False, False, True]


# -- files ------------------------------------------------------------------------------------------


def test_files_of_scores_are_read(tmp_path: Path) -> None:
    scores = np.array([0.5, -1.0, 2.0])
    np.save(tmp_path / "a.npy", scores)
    np.savez(tmp_path / "one.npz", scores)
    np.savez(tmp_path / "two.npz", scores=scores, other=np.zeros(5))
    np.save(tmp_path / "map.npy", MAP)
    for name in ("a.npy", "one.npz", "two.npz"):
        assert from_array(tmp_path / name).scores.tolist() == scores.tolist()
    assert from_array(str(tmp_path / "a.npy")).scores.tolist() == scores.tolist()
    found = from_array(tmp_path / "map.npy", groups=GROUPS).scores.tolist()
    assert found == reduced_by_hand(MAP, np.sum)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("0.5\n-1\n2e0\n", None),
        ("0.5,-1,2\n", None),
        ("score\n0.5\n\n-1\n2\n", None),
        ("feature,score\near,0.5\n tail ,-1\n'x',2\n", ("ear", "tail", "'x'")),
        ("ear,0.5\ntail,-1\npaw,2\n", ("ear", "tail", "paw")),
    ],
)
def test_tables_of_scores_are_read(tmp_path: Path, text: str, names: tuple[str, ...] | None) -> None:
    path = tmp_path / "scores.csv"
    path.write_text(text, encoding="utf-8")
    found = from_array(path)
    assert found.scores.tolist() == [0.5, -1.0, 2.0]
    assert found.feature_names == names
    assert from_array(path, feature_names="abc").feature_names == ("a", "b", "c")


def test_a_table_can_be_a_map(tmp_path: Path) -> None:
    path = tmp_path / "map.csv"
    path.write_text("\n".join(",".join(map(str, row)) for row in MAP[..., 0]), encoding="utf-8")
    assert from_array(path, groups=GROUPS).scores.tolist() == reduced_by_hand(MAP[..., 0], np.sum)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"1", r"^`scores` must be a \.npy, \.npz, \.csv file, got 'a\.txt'"),
        ("a.csv", b"", r"a\.csv has none"),
        ("a.csv", b"x,y\nz,w\n", r"a\.csv cannot be read"),
        ("a.csv", b"1,2\n3\n", r"a\.csv cannot be read"),
        ("a.csv", b"\xff\xfe1", r"a\.csv' must be text in UTF-8"),
        ("a.npy", b"no array", r"a\.npy cannot be read"),
    ],
)
def test_files_that_hold_no_scores_are_refused(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InvalidValueError, match=message):
        from_array(path)


def test_pickles_are_never_opened_and_archives_must_be_clear(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(InvalidValueError, match=r"a\.npy cannot be read"):
        from_array(tmp_path / "a.npy")
    np.savez(tmp_path / "b.npz", x=np.zeros(2), y=np.zeros(2))
    with pytest.raises(InvalidValueError, match=r"one called 'scores'; b\.npz has x, y"):
        from_array(tmp_path / "b.npz")
    with pytest.raises(FileNotFoundError):
        from_array(tmp_path / "none.npy")


# -- shapes of the packages -------------------------------------------------------------------------


def test_values_of_shap_come_in_many_shapes() -> None:
    one = np.array([0.1, 0.2, 0.3])
    assert from_shap(one, target=1).scores.tolist() == one.tolist()
    assert from_shap(one[None], target=1).scores.tolist() == one.tolist()
    assert from_shap([one], target=1).scores.tolist() == one.tolist()
    two = np.stack([one, -one], axis=1)
    for values in (two, two[None]):
        assert from_shap(values, target=1).scores.tolist() == (-one).tolist()
    assert from_shap([one, -one], target=1).scores.tolist() == (-one).tolist()
    rows = np.stack([one, 2 * one, 3 * one, 4 * one])
    assert from_shap(rows, row=2, target=1).scores.tolist() == (3 * one).tolist()
    assert from_shap(np.stack([two, 2 * two]), row=1, target=0).scores.tolist() == (2 * one).tolist()
    maps = np.stack([MAP, -MAP], axis=-1)
    for values in (maps, maps[None]):
        assert from_shap(values, target=1, groups=GROUPS).scores.tolist() == reduced_by_hand(-MAP, np.sum)
    assert from_shap(MAP[..., 0], target=1, groups=GROUPS).scores.tolist() == reduced_by_hand(MAP[..., 0], np.sum)
    with pytest.raises(InvalidTypeError, match=r"^`target` must be a whole number from 0 to 1, got None"):
        from_shap(two)
    with pytest.raises(InvalidValueError, match=r"^`row` must be a whole number from 0 to 3, got 4"):
        from_shap(rows, row=4)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: from_array([1.0, np.nan]), InvalidValueError, "`scores` must hold real numbers, got NaN"),
        (lambda: from_array(["a"]), InvalidTypeError, "`scores` must hold real numbers"),
        (lambda: from_array([]), InvalidTypeError, "`scores` must hold real numbers"),
        (lambda: from_array([[1.0], [2.0, 3.0]]), InvalidValueError, "`scores` must hold real numbers, got rows"),
        (lambda: from_array(MAP), InvalidValueError, "`scores` must be one number per feature, or a map"),
        (lambda: from_array(MAP, groups=GROUPS[:1]), InvalidValueError, "`groups` must hold|`scores` must be"),
        (lambda: from_array(MAP, groups=GROUPS * 2), InvalidValueError, "`groups` must give the feature"),
        (lambda: from_array(MAP, groups=GROUPS * 1.0), InvalidTypeError, "`groups` must give the feature"),
        (lambda: from_array(MAP, groups=GROUPS, reduce="min"), InvalidValueError, "`reduce` must be one of sum, mean"),
        (lambda: from_array([1.0], feature_names=["a", "b"]), InvalidValueError, "`feature_names` must be one per"),
        (
            lambda: from_shap([np.ones(2), np.ones(3)], target=0),
            InvalidValueError,
            "one array of the same shape per class",
        ),
        (lambda: from_shap(1.0, row=0), InvalidValueError, "`row` must be left out for a single number, got 0"),
        (lambda: from_captum((1, 2)), InvalidValueError, "`attributions` must belong to one input tensor, got 2"),
        (lambda: from_lime(3), InvalidTypeError, "`explanation` must be an explanation from lime, got int"),
    ],
)
def test_what_is_no_explanation_is_refused(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_explanations_of_lime_need_a_number_of_features_that_fits() -> None:
    class Explained:
        local_exp = {0: [(4, 1.0)]}  # noqa: RUF012

    assert from_lime(Explained(), n_features=5).scores.tolist() == [0, 0, 0, 0, 1.0]
    assert from_lime(Explained(), score_table(6), target=0).n_features == 6
    with pytest.raises(InvalidTypeError, match=r"^`n_features` must be given"):
        from_lime(Explained())
    with pytest.raises(InvalidValueError, match=r"^`explanation` must be about features 0 to 3, got feature 4"):
        from_lime(Explained(), n_features=4)


def test_texts_are_never_read_with_their_channels_first() -> None:
    square = np.arange(16.0).reshape(1, 4, 4)
    assert from_captum(square, groups=np.arange(4)).scores.tolist() == [6.0, 22.0, 38.0, 54.0]


def test_groups_that_reorder_features_are_followed() -> None:
    assert from_array([10.0, 20.0, 30.0], groups=[2, 0, 1]).scores.tolist() == [20.0, 30.0, 10.0]


def test_groups_must_name_all_features_of_the_model() -> None:
    with pytest.raises(ValueError, match="must have the 5 features of the model, got 3"):
        from_array(np.ones(6), score_table(5), groups=[0, 0, 1, 1, 2, 2])


def test_rows_of_shap_are_not_taken_for_features() -> None:
    class Explained:
        values, data = np.arange(20.0).reshape(5, 4), np.ones((5, 4))

    with pytest.raises(TypeError, match="`row` must say which of the 5 explained inputs"):
        from_shap(Explained(), target=1)
    assert from_shap(Explained(), row=2, output=1).scores.tolist() == [8.0, 9.0, 10.0, 11.0]


@pytest.mark.parametrize("heading", [b",0", b",score"])
def test_a_series_written_by_pandas_is_read_with_its_index_as_names(tmp_path: Path, heading: bytes) -> None:
    path = tmp_path / "scores.csv"
    path.write_bytes(heading + b"\n0,0.5\n1,-0.25\n")
    read = from_array(path)
    assert read.scores.tolist() == [0.5, -0.25]
    assert read.feature_names == ("0", "1")


def test_a_regression_explained_by_lime_keeps_its_sign() -> None:
    class Explained:
        mode, top_labels = "regression", None
        local_exp = {1: [(0, 2.0)], 0: [(0, -2.0)]}  # noqa: RUF012

    assert from_lime(Explained(), n_features=1).scores.tolist() == [2.0]
