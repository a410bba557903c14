"""Maps from pixels to features: grids, segments, superpixels."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from holdfast.errors import InvalidTypeError, InvalidValueError, MissingExtraError
from holdfast.masking.image.pixels import check_groups, describe_groups, grid, segments, superpixels

torch.set_num_threads(1)


@given(height=st.integers(1, 40), width=st.integers(1, 40), data=st.data())
def test_a_grid_covers_the_image_with_rectangles_of_nearly_one_size(height: int, width: int, data: Any) -> None:
    rows = data.draw(st.integers(1, height))
    cols = data.draw(st.integers(1, width))
    groups = grid((height, width), rows, cols)
    assert groups.shape == (height, width)
    assert groups.dtype == np.intp
    tall, wide = set(), set()
    for feature in range(rows * cols):
        down, across = np.nonzero(groups == feature)
        assert len(down) == (np.ptp(down) + 1) * (np.ptp(across) + 1)
        tall.add(int(np.ptp(down)) + 1)
        wide.add(int(np.ptp(across)) + 1)
    assert tall <= {height // rows, -(-height // rows)}
    assert wide <= {width // cols, -(-width // cols)}


def test_a_grid_of_whole_patches_is_the_repeated_feature_number() -> None:
    by_hand = np.kron(np.arange(64).reshape(8, 8), np.ones((4, 4), dtype=int))
    np.testing.assert_array_equal(grid((32, 32), 8, 8), by_hand)


def test_a_grid_depends_only_on_the_size_of_the_image_whatever_holds_it(tmp_path: Path) -> None:
    array = np.zeros((10, 6, 3), dtype=np.uint8)
    Image.fromarray(array).save(tmp_path / "black.png")
    wanted = grid((10, 6), 3, 2)
    kinds = [array, array[:, :, 0], torch.zeros(3, 10, 6), torch.zeros(1, 3, 10, 6), torch.zeros(10, 6)]
    for image in [*kinds, Image.fromarray(array), tmp_path / "black.png", str(tmp_path / "black.png"), [10, 6]]:
        np.testing.assert_array_equal(grid(image, 3, 2), wanted)


@pytest.mark.parametrize(
    ("image", "rows", "cols", "message"),
    [
        ((4, 4), 5, 1, r"^`rows` must be at most the number of pixels, 4, got 5\."),
        ((4, 4), 1, 9, r"^`cols` must be at most the number of pixels, 4, got 9\."),
        ((4, 4), 0, 1, r"^`rows` must be a whole number ≥ 1, got 0\."),
        ((0, 4), 1, 1, r"^`height` must be a whole number ≥ 1, got 0\."),
        ((4, 2.5), 1, 1, r"^`width` must be a whole number ≥ 1, got 2\.5\."),
        (np.zeros((3, 32, 32)), 1, 1, r"32 channels\..*transpose the image"),
        (torch.zeros(32, 32, 3), 1, 1, r"32 channels\..*transpose the image"),
        (np.zeros((2, 8, 8, 3)), 1, 1, r"^`image` must be one image \(H, W, C\) or \(H, W\), got shape \(2, 8, 8, 3\)"),
        (np.zeros((0, 8, 3)), 1, 1, r"got shape \(0, 8, 3\)"),
    ],
)
def test_a_grid_that_cannot_be_cut_is_refused(image: Any, rows: Any, cols: Any, message: str) -> None:
    with pytest.raises(InvalidValueError, match=message):
        grid(image, rows, cols)


@pytest.mark.parametrize("image", [7, None, object(), np.zeros((4, 4), dtype=bool), np.full((4, 4), "a")])
def test_what_is_no_image_has_no_grid(image: Any) -> None:
    with pytest.raises(InvalidTypeError, match=r"^`image` must "):
        grid(image, 2, 2)


@given(labels=st.lists(st.lists(st.integers(-1, 9), min_size=3, max_size=3), min_size=1, max_size=4))
def test_segments_keep_the_partition_and_number_it_by_the_order_of_labels(labels: list[list[int]]) -> None:
    given_map = np.array(labels)
    if given_map.max() < 0:
        return
    groups = segments(given_map)
    present = [label for label in np.unique(given_map) if label >= 0]
    for feature, label in enumerate(present):
        np.testing.assert_array_equal(groups == feature, given_map == label)
    np.testing.assert_array_equal(groups == -1, given_map == -1)
    assert groups.max() == len(present) - 1


def test_unsigned_and_torch_label_maps_are_maps_too() -> None:
    np.testing.assert_array_equal(segments(np.array([[5, 200]], dtype=np.uint8)), [[0, 1]])
    np.testing.assert_array_equal(segments(torch.tensor([[5, 2]])), [[1, 0]])


@pytest.mark.parametrize(
    ("label_map", "error", "message"),
    [
        ([[-1, -1]], InvalidValueError, r"got values from -1 to -1\.$"),
        ([[-2, 1]], InvalidValueError, r"got values from -2 to 1\.$"),
        ([0, 1], InvalidValueError, r"got shape \(2,\)\.$"),
        (np.zeros((0, 3), dtype=int), InvalidValueError, r"got shape \(0, 3\)\.$"),
        ([[0, 1], [2]], InvalidValueError, r"got rows of unequal length\.$"),
        ([[0.0, 1.0]], InvalidTypeError, r"got float64\.$"),
        ([[True, False]], InvalidTypeError, r"got bool\.$"),
    ],
)
def test_a_map_without_features_is_refused(label_map: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=rf"^`label_map` must be whole numbers \(H, W\).*{message}"):
        segments(label_map)


def _two_halves() -> Any:
    image = np.zeros((24, 24, 3), dtype=np.uint8)
    image[:, 12:] = (250, 20, 20)
    return image


def test_superpixels_follow_colours_and_are_the_same_every_time() -> None:
    image = _two_halves()
    groups = superpixels(image, 16)
    assert groups.dtype == np.intp
    assert set(np.unique(groups)) == set(range(groups.max() + 1))
    assert not set(groups[:, :12].ravel()) & set(groups[:, 12:].ravel()), "a patch crosses the edge of colours"
    np.testing.assert_array_equal(superpixels(image, 16), groups)


def test_superpixels_do_not_depend_on_what_holds_the_image() -> None:
    image = _two_halves()
    wanted = superpixels(image, 16)
    np.testing.assert_array_equal(superpixels(Image.fromarray(image), 16), wanted)
    np.testing.assert_array_equal(superpixels(torch.from_numpy(image).permute(2, 0, 1), 16), wanted)
    assert superpixels(image[:, :, 0].astype(np.float32), 16).max() > 0


def test_superpixels_leave_the_image_and_the_global_generator_alone() -> None:
    image = _two_halves().astype(np.float32)
    before, state = image.copy(), np.random.get_state()[1].copy()  # noqa: NPY002
    superpixels(image, 9)
    np.testing.assert_array_equal(image, before)
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002


def test_no_superpixels_are_refused() -> None:
    with pytest.raises(InvalidValueError, match=r"^`n_segments` must be a whole number ≥ 1, got 0\."):
        superpixels(_two_halves(), 0)


def test_checked_groups_are_a_read_only_copy() -> None:
    given_map = np.array([[0, 1], [-1, 1]])
    checked = check_groups(given_map, (2, 2))
    given_map[:] = 0
    np.testing.assert_array_equal(checked, [[0, 1], [-1, 1]])
    assert not checked.flags.writeable


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (np.zeros((3, 2), dtype=int), r"one entry per pixel of the model's input, 2×2, got 3×2\."),
        ([[0, 2], [2, 2]], r"without gaps, but feature 1 of 3 has no pixel\. Renumber them with `segments\(groups\)`"),
        ([[1, 1], [2, 2]], r"without gaps, but feature 0 of 3 has no pixel"),
        ([[-1, -1], [-1, -1]], r"got values from -1 to -1"),
    ],
)
def test_groups_that_do_not_fit_the_image_are_refused(groups: Any, message: str) -> None:
    with pytest.raises(InvalidValueError, match=f"^`groups` must .*{message}"):
        check_groups(groups, (2, 2))


def test_maps_are_told_apart_by_their_names() -> None:
    shapes = [(r, c) for r in range(1, 5) for c in range(1, 5)]
    names = {describe_groups(grid((9, 7), rows, cols)) for rows, cols in shapes}
    assert names == {f"grid {rows}×{cols}" for rows, cols in shapes}
    one, other = np.array([[0, 1], [1, 0]]), np.array([[0, 1], [1, -1]])
    assert describe_groups(one).startswith("2 segments (map ")
    assert describe_groups(one) != describe_groups(other)


def test_superpixels_without_scikit_image_say_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "skimage.segmentation", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'holdfast\[image\]'"):
        superpixels(np.zeros((4, 4, 3)), 4)
