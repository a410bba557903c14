"""What hidden pixels look like."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.masking.image.fills import Blur, Constant, ImageFill, Mean, Noise, Picture, as_fill

torch.set_num_threads(1)

RNG = np.random.default_rng(0)
FLOATS = RNG.normal(size=(9, 7, 3)).astype(np.float32)
BYTES = RNG.integers(0, 256, size=(9, 7, 3), dtype=np.uint8)
FILLS = [0.0, 255, (1, 2, 3), "mean", "blur", Blur(1.5), "noise", Noise(seed=3)]


@pytest.mark.parametrize("fill", FILLS, ids=str)
@pytest.mark.parametrize("image", [FLOATS, FLOATS.astype(np.float64), BYTES], ids=["float32", "float64", "uint8"])
def test_a_baseline_has_the_shape_and_number_type_of_its_image(fill: Any, image: Any) -> None:
    given = image.copy()
    given.setflags(write=False)
    baseline = as_fill(fill)(given)
    assert baseline.shape == image.shape
    assert baseline.dtype == image.dtype
    assert not np.shares_memory(baseline, given)
    np.testing.assert_array_equal(as_fill(fill)(given), baseline)


def test_fills_are_fills_and_their_names_differ() -> None:
    many = [*FILLS, 1.0, Noise(seed=4), Blur(2), FLOATS, FLOATS + 1, BYTES, torch.from_numpy(FLOATS.transpose(2, 0, 1))]
    fills = [as_fill(fill) for fill in many]
    assert all(isinstance(fill, ImageFill) for fill in fills)
    assert len({fill.name for fill in fills}) == len(many)


def test_a_constant_is_one_colour_per_channel() -> None:
    np.testing.assert_array_equal(as_fill((0.25, 0, 1))(FLOATS)[4, 5], np.float32([0.25, 0, 1]))
    np.testing.assert_array_equal(as_fill(np.array([7, 8, 9]))(BYTES)[0, 0], [7, 8, 9])
    assert (as_fill(0.5)(FLOATS) == 0.5).all()
    assert as_fill((0.5,) * 3).name == "constant (0.5, 0.5, 0.5)"


def test_the_mean_is_the_mean_of_each_channel() -> None:
    baseline = Mean()(FLOATS)
    np.testing.assert_allclose(baseline[0, 0], FLOATS.reshape(-1, 3).mean(axis=0), rtol=1e-5)
    assert (baseline == baseline[0, 0]).all()
    np.testing.assert_array_equal(Mean()(BYTES)[3, 3], np.rint(BYTES.reshape(-1, 3).mean(axis=0)))


def test_a_blur_keeps_flat_images_and_the_channels_apart() -> None:
    flat = np.broadcast_to(np.float32([0.1, 0.5, 0.9]), (8, 8, 3))
    np.testing.assert_allclose(Blur(2)(flat), flat, rtol=1e-6)
    point = np.zeros((9, 9, 2))
    point[4, 4, 0] = 1
    blurred = Blur(1)(point)
    assert (blurred[..., 1] == 0).all()
    bell = np.exp(-(np.arange(-4, 5) ** 2) / 2)
    # The kernel ends four sigma out, where the image does: reflection adds nothing.
    np.testing.assert_allclose(blurred[..., 0], np.outer(bell, bell) / bell.sum() ** 2, rtol=1e-12)


def test_noise_fills_the_range_of_each_channel_and_belongs_to_its_seed() -> None:
    image = FLOATS * np.float32([1, 10, 100])
    noise = Noise(1)(image)
    assert (noise >= image.min(axis=(0, 1))).all()
    assert (noise <= image.max(axis=(0, 1))).all()
    assert len(np.unique(noise)) == noise.size
    assert not np.array_equal(noise, Noise(2)(image))
    np.testing.assert_array_equal(as_fill("noise")(image), Noise(0)(image))


def test_noise_leaves_the_global_generators_alone() -> None:
    before, torch_before = np.random.get_state()[1].copy(), torch.get_rng_state()  # noqa: NPY002
    Noise(5)(FLOATS)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), torch_before)


@pytest.mark.parametrize(
    "given",
    [BYTES, Image.fromarray(BYTES), torch.from_numpy(BYTES.transpose(2, 0, 1)), BYTES.transpose(2, 0, 1), BYTES[None]],
    ids=["array", "pillow", "tensor", "channels first", "batch of one"],
)
def test_a_picture_is_the_picture_whatever_holds_it(given: Any) -> None:
    np.testing.assert_array_equal(as_fill(given)(np.zeros_like(BYTES)), BYTES)
    np.testing.assert_array_equal(as_fill(given)(np.zeros_like(FLOATS)), BYTES.astype(np.float32) / np.float32(255))


@pytest.mark.parametrize(
    ("fill", "image", "error", "message"),
    [
        ((1, 2), FLOATS, InvalidValueError, r"one number per channel: the image has 3, got 2\."),
        (0.5, BYTES, InvalidValueError, r"whole numbers from 0 to 255, as the image has uint8 pixels, got \(0\.5, "),
        (-1, BYTES, InvalidValueError, r"whole numbers from 0 to 255"),
        (256, BYTES, InvalidValueError, r"whole numbers from 0 to 255"),
        (float("nan"), FLOATS, InvalidValueError, r"a finite number, or one per channel, got nan\."),
        ((0, float("inf"), 0), FLOATS, InvalidValueError, r"a finite number, or one per channel"),
        (("a", "b", "c"), FLOATS, InvalidTypeError, r"a finite number, or one per channel"),
        ("blurr", FLOATS, InvalidValueError, r"one of mean, blur, noise, drop, got 'blurr'\. Did you mean 'blur'\?"),
        (None, FLOATS, InvalidTypeError, r"a number, one number per channel, one of mean, blur, noise, drop, an image"),
        (Blur, FLOATS, InvalidTypeError, r"a fill such as Blur\(sigma=5\)"),
        (True, FLOATS, InvalidTypeError, r"a number"),
        (FLOATS[:5], FLOATS, InvalidValueError, r"image's shape \(H, W, C\) = \(9, 7, 3\), got \(5, 7, 3\)\."),
        (FLOATS * np.nan, FLOATS, InvalidValueError, r"finite numbers, got NaN or infinity in 189 of 189\."),
        (FLOATS, BYTES, InvalidTypeError, r"the image's number type, uint8, got float32\."),
    ],
)
def test_what_cannot_fill_an_image_is_refused(fill: Any, image: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"^`fill` must .*{message}"):
        as_fill(fill)(image)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Blur(0), r"^`sigma` must be a number > 0, got 0\."),
        (lambda: Blur(float("nan")), r"^`sigma` must be a number > 0, got nan\."),
        (lambda: Blur("wide"), r"^`sigma` must be a number > 0, got 'wide'\."),
        (lambda: Noise(-1), r"^`seed` must be a whole number ≥ 0, got -1\."),
        (lambda: Noise(0.5), r"^`seed` must be a whole number ≥ 0, got 0\.5\."),
    ],
)
def test_a_fill_with_impossible_options_is_refused(make: Any, message: str) -> None:
    with pytest.raises((InvalidValueError, InvalidTypeError), match=message):
        make()


def test_fills_of_equal_options_are_equal() -> None:
    assert as_fill(0) == Constant(0.0)
    assert as_fill("blur") == Blur()
    assert Noise(1) != Noise(2)
    assert Picture(FLOATS).name == Picture(FLOATS.copy()).name
