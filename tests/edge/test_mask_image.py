"""Images bound to classifiers of every kind."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from PIL import Image
from torch import nn
from transformers import ResNetConfig, ResNetForImageClassification, ViTConfig, ViTForImageClassification

from holdfast import Evaluator, certify, mask_tabular
from holdfast.errors import InvalidTypeError, InvalidValueError, ModelError
from holdfast.masking.image.fills import Blur
from holdfast.masking.image.mask_image import mask_image
from holdfast.masking.image.models import TensorBatches
from holdfast.masking.image.pixels import grid, segments
from holdfast.masking.onnx import ImageSession
from holdfast.types import Differentiable, MaskedModel
from tests.helpers.contracts import check_masked_model

torch.set_num_threads(1)

SIZE, N_CLASSES = 16, 4
TOLERANCE = 1e-5


def _image(seed: int = 0, *, n_channels: int = 3, height: int = SIZE, width: int = SIZE) -> Any:
    """Floats (H, W, C)."""
    return np.random.default_rng(seed).random((height, width, n_channels), dtype=np.float32)


def _tensor(seed: int = 0, **size: int) -> torch.Tensor:
    return torch.from_numpy(_image(seed, **size).transpose(2, 0, 1).copy())


def _masks(n_features: int, n: int = 12, seed: int = 1) -> Any:
    masks = np.random.default_rng(seed).random((n, n_features)) < 0.5
    masks[0], masks[1] = True, False
    return masks


def _by_hand(masks: Any, groups: Any, image: Any, baseline: Any) -> Any:
    """Masked images (b, H, W, C), pixel by pixel."""
    batch = np.empty((len(masks), *image.shape), dtype=image.dtype)
    for b, mask in enumerate(masks):
        for row in range(image.shape[0]):
            for col in range(image.shape[1]):
                shown = groups[row, col] < 0 or mask[groups[row, col]]
                batch[b, row, col] = (image if shown else baseline)[row, col]
    return batch


def _network(n_channels: int = 3, seed: int = 0) -> nn.Module:
    """A small network with everything that behaves differently in training."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Conv2d(n_channels, 6, 3, padding=1),
            nn.BatchNorm2d(6),
            nn.Tanh(),
            nn.Dropout(0.5),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
            nn.Linear(24, N_CLASSES),
        )


def _vit(**options: Any) -> Any:
    config = ViTConfig(
        image_size=SIZE,
        patch_size=4,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        num_labels=N_CLASSES,
        **options,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return ViTForImageClassification(config)


def _resnet(**options: Any) -> Any:
    config = ResNetConfig(
        embedding_size=8,
        hidden_sizes=[8, 12],
        depths=[1, 1],
        layer_type="basic",
        num_labels=N_CLASSES,
        **options,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return ResNetForImageClassification(config)


class _Wrapped(nn.Module):
    """A network whose answer is wrapped up."""

    def __init__(self, wrap: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.network, self.wrap = _network(), wrap

    def forward(self, batch: torch.Tensor) -> Any:
        return self.wrap(self.network(batch))


def _onnx_file(
    path: Path, shape: list[Any], *, kind: int = TensorProto.FLOAT, output: str = "logits", n_inputs: int = 1
) -> Path:
    """scores = the mean over pixels of each channel, times fixed weights."""
    channels_first = shape[1] == 3 or not isinstance(shape[3], int)
    axes = np.array([2, 3] if channels_first else [1, 2], dtype=np.int64)
    weights = np.random.default_rng(0).normal(size=(3, N_CLASSES)).astype(np.float32)
    nodes = [
        helper.make_node("Cast", ["image"], ["floats"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMean", ["floats", "axes"], ["means"], keepdims=0),
        helper.make_node("MatMul", ["means", "weights"], [output]),
    ]
    extra = [helper.make_tensor_value_info(f"more{i}", TensorProto.FLOAT, [1]) for i in range(n_inputs - 1)]
    graph = helper.make_graph(
        nodes,
        "means",
        [helper.make_tensor_value_info("image", kind, shape), *extra],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, [shape[0], N_CLASSES])],
        [numpy_helper.from_array(axes, "axes"), numpy_helper.from_array(weights, "weights")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path


def _array_function(batch: Any) -> Any:
    weights = np.random.default_rng(0).normal(size=(batch.shape[3], N_CLASSES))
    return batch.astype(np.float64).mean(axis=(1, 2)) @ weights


def _tensor_function(batch: torch.Tensor) -> torch.Tensor:
    weights = torch.from_numpy(np.random.default_rng(0).normal(size=(batch.shape[1], N_CLASSES)))
    return batch.double().mean(dim=(2, 3)) @ weights


def _labels(batch: Any) -> Any:
    return _array_function(batch).argmax(axis=1)


# -- the contract, for every kind of classifier -------------------------------------------------------

MODULES: dict[str, Callable[[], Any]] = {
    "tensor": _network,
    "tuple": lambda: _Wrapped(lambda scores: (scores, scores * 0)),
    "dict": lambda: _Wrapped(lambda scores: {"features": scores * 0, "logits": scores}),
    "vit": _vit,
    "resnet": _resnet,
    "resnet of tuples": lambda: _resnet(return_dict=False),
}


@pytest.mark.parametrize("kind", MODULES)
@pytest.mark.parametrize("fill", [0.0, (0.1, 0.2, 0.3), "mean", "blur", "noise"])
def test_a_module_bound_to_an_image_keeps_the_contract(kind: str, fill: Any) -> None:
    model = mask_image(MODULES[kind](), _tensor(), groups=grid((SIZE, SIZE), 4, 4), fill=fill)
    check_masked_model(model, tolerance=TOLERANCE)
    assert isinstance(model, Differentiable)
    assert model(_masks(16)).dtype == np.float32


@pytest.mark.parametrize(
    "shape", [["b", 3, SIZE, SIZE], ["b", SIZE, SIZE, 3], ["b", "c", "h", "w"], [1, 3, SIZE, SIZE]]
)
def test_an_onnx_model_bound_to_an_image_keeps_the_contract(shape: list[Any], tmp_path: Path) -> None:
    path = _onnx_file(tmp_path / "model.onnx", shape)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    wanted = int(_array_function(_image()[None])[0].argmax())
    for classifier in (path, str(path), session):
        for image in (_image(), _tensor()):
            model = mask_image(classifier, image, groups=grid((SIZE, SIZE), 3, 5))
            check_masked_model(model, tolerance=TOLERANCE, full_prediction=wanted)
            assert not isinstance(model, Differentiable)


@pytest.mark.parametrize("function", [_array_function, _labels])
def test_a_callable_on_arrays_bound_to_an_image_keeps_the_contract(function: Any) -> None:
    image = _image(n_channels=2)
    wanted = int(_labels(image[None])[0])
    check_masked_model(mask_image(function, image), full_prediction=wanted, tolerance=TOLERANCE)
    check_masked_model(mask_image(function, Image.fromarray(np.uint8(255 * _image()))), tolerance=1e-3)


def test_a_callable_on_tensors_bound_to_an_image_keeps_the_contract() -> None:
    wanted = int(_tensor_function(_tensor()[None])[0].argmax())
    model = mask_image(_tensor_function, _tensor())
    check_masked_model(model, full_prediction=wanted, tolerance=TOLERANCE)
    assert not isinstance(model, Differentiable)
    back_to_arrays = mask_image(lambda batch: _tensor_function(batch).numpy(), _tensor())
    np.testing.assert_array_equal(back_to_arrays(_masks(196)), model(_masks(196)))


# -- what the classifier sees ------------------------------------------------------------------------

GROUPS = {
    "even": grid((SIZE, SIZE), 4, 4),
    "uneven": grid((SIZE, SIZE), 3, 5),
    "with pixels of no feature": segments(np.where(np.eye(SIZE, dtype=bool), -1, grid((SIZE, SIZE), 2, 3))),
}


@pytest.mark.parametrize("name", GROUPS)
@pytest.mark.parametrize("fill", [0.0, "noise", "blur"])
def test_every_classifier_sees_the_images_masked_by_hand(name: str, fill: Any, tmp_path: Path) -> None:
    image, groups = _image(), GROUPS[name]
    seen: list[Any] = []
    as_array = mask_image(lambda batch: [seen.append(batch), batch[:, 0, 0]][1], image, groups=groups, fill=fill)
    masks = _masks(as_array.n_features)
    by_hand = _by_hand(masks, groups, image, as_array.baseline)
    as_array(masks)
    np.testing.assert_array_equal(seen[0], by_hand)
    flat = mask_image(nn.Flatten(), _tensor(), groups=groups, fill=fill)
    np.testing.assert_array_equal(flat(masks), by_hand.transpose(0, 3, 1, 2).reshape(len(masks), -1))
    as_tensor = mask_image(lambda batch: batch.flatten(1), _tensor(), groups=groups, fill=fill)
    np.testing.assert_array_equal(as_tensor(masks), flat(masks))
    session = mask_image(_onnx_file(tmp_path / "m.onnx", ["b", 3, SIZE, SIZE]), image, groups=groups, fill=fill)
    np.testing.assert_allclose(session(masks), _array_function(by_hand), atol=TOLERANCE)


def test_the_full_mask_is_the_unmasked_input_bit_for_bit() -> None:
    image = _tensor() * 1e3 - 500
    model = mask_image(nn.Flatten(), image, fill="noise")
    full = np.ones((3, model.n_features), dtype=bool)
    for row in model(full):
        assert row.tobytes() == image.numpy().tobytes()


def test_answers_do_not_change_when_the_buffer_is_used_again() -> None:
    model = mask_image(nn.Flatten(), _tensor(), groups=(2, 2))
    first = model(np.ones((4, 4), dtype=bool))
    kept = first.copy()
    model(np.zeros((2, 4), dtype=bool))
    model(np.zeros((9, 4), dtype=bool))
    np.testing.assert_array_equal(first, kept)


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("lowest", [0, -1])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_masked_batches_have_the_very_bits_of_image_and_baseline(
    dtype: torch.dtype, lowest: int, channels_last: bool
) -> None:
    """Also of what is not a number, infinite, or zero with a sign, and where elements belong to no feature."""
    rng = np.random.default_rng(0)
    image, baseline = rng.normal(size=(2, 6, 7, 3))
    image[0, :3, 0], baseline[1, :3, 0] = (np.nan, np.inf, -0.0), (-np.inf, np.nan, 0.0)
    groups = rng.integers(lowest, 5, (6, 7))
    groups[5, :5] = range(5)
    batches = TensorBatches(image, baseline, groups, device=torch.device("cpu"), dtype=dtype)
    for n_rows in (9, 1, 0):
        masks = rng.random((n_rows, 5)) < 0.5
        batch = batches.empty(n_rows, channels_last=channels_last)
        batches.write(masks, batch, channels_last=channels_last)
        shown = torch.from_numpy((groups < 0) | masks[:, np.maximum(groups, 0)])[:, None]
        wanted = torch.where(shown, batches.image, batches.baseline)
        whole = {2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize]
        assert torch.equal(batch.contiguous().view(whole), wanted.contiguous().view(whole))


def test_the_buffer_is_reused_and_grows() -> None:
    addresses = []

    class Spy(nn.Module):
        def forward(self, batch: torch.Tensor) -> torch.Tensor:
            addresses.append(batch.data_ptr())
            return batch.flatten(1)

    model = mask_image(Spy(), _tensor(), groups=(2, 2))
    for n_rows in (5, 5, 3):
        model(np.ones((n_rows, 4), dtype=bool))
    assert len(set(addresses)) == 1
    assert model(np.ones((8, 4), dtype=bool)).shape == (8, 3 * SIZE * SIZE)


def test_threads_do_not_share_a_buffer() -> None:
    model = mask_image(nn.Flatten(), _tensor(), groups=(2, 2))
    questions = [np.full((40, 4), row % 2 == 0) for row in range(40)]
    wanted = [model(masks).copy() for masks in questions]
    with ThreadPoolExecutor(4) as pool:
        for found, right in zip(pool.map(model, questions), wanted, strict=True):
            np.testing.assert_array_equal(found, right)


def test_no_masks_get_no_rows(tmp_path: Path) -> None:
    nothing = np.ones((0, 4), dtype=bool)
    assert mask_image(nn.Flatten(), _tensor(), groups=(2, 2))(nothing).shape == (0, 3 * SIZE * SIZE)
    assert mask_image(_array_function, _image(), groups=(2, 2))(nothing).shape == (0, N_CLASSES)
    path = _onnx_file(tmp_path / "m.onnx", ["b", 3, SIZE, SIZE])
    assert mask_image(path, _image(), groups=(2, 2))(nothing).shape == (0, N_CLASSES)


def test_an_onnx_model_of_a_fixed_batch_gives_the_same_scores(tmp_path: Path) -> None:
    free = mask_image(_onnx_file(tmp_path / "free.onnx", ["b", 3, SIZE, SIZE]), _image())
    masks = _masks(196, 11)
    for size in (1, 4, 11, 16):
        fixed = mask_image(_onnx_file(tmp_path / f"{size}.onnx", [size, 3, SIZE, SIZE]), _image())
        np.testing.assert_allclose(fixed(masks), free(masks), atol=1e-6)


def test_an_onnx_export_of_a_network_agrees_with_the_network(tmp_path: Path) -> None:
    """A convolution written with onnx.helper from the weights of a torch module."""
    network = nn.Sequential(nn.Conv2d(3, N_CLASSES, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    convolution: Any = network[0]
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w", "b"], ["c"]),
            helper.make_node("GlobalAveragePool", ["c"], ["p"]),
            helper.make_node("Flatten", ["p"], ["y"]),
        ],
        "convolution",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, "h", "w"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", N_CLASSES])],
        [
            numpy_helper.from_array(convolution.weight.detach().numpy(), "w"),
            numpy_helper.from_array(convolution.bias.detach().numpy(), "b"),
        ],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), tmp_path / "network.onnx"
    )
    masks = _masks(196)
    exported = mask_image(tmp_path / "network.onnx", _tensor())
    np.testing.assert_allclose(exported(masks), mask_image(network, _tensor())(masks), atol=TOLERANCE)


# -- images of every kind ----------------------------------------------------------------------------


def test_bytes_are_scaled_for_models_and_left_alone_for_callables(tmp_path: Path) -> None:
    picture = np.random.default_rng(0).integers(0, 256, size=(SIZE, SIZE, 3), dtype=np.uint8)
    Image.fromarray(picture).save(tmp_path / "picture.png")
    floats = picture.astype(np.float32) / np.float32(255)
    tensor = torch.from_numpy(picture.transpose(2, 0, 1).copy())
    onnx_path = _onnx_file(tmp_path / "m.onnx", ["b", 3, SIZE, SIZE])
    bytes_path = _onnx_file(tmp_path / "bytes.onnx", ["b", 3, SIZE, SIZE], kind=TensorProto.UINT8)
    for image in (picture, Image.fromarray(picture), tensor, tmp_path / "picture.png", str(tmp_path / "picture.png")):
        for classifier in (nn.Flatten(), onnx_path):
            model = mask_image(classifier, image)
            assert model.elements.dtype == np.float32
            np.testing.assert_array_equal(model.elements, floats)
        assert mask_image(bytes_path, image).elements.dtype == np.uint8
        assert mask_image(lambda batch: batch, image).elements.dtype == np.uint8
    np.testing.assert_array_equal(mask_image(nn.Flatten(), floats * 300).elements, floats * 300)


def test_grey_images_have_one_channel() -> None:
    grey = _image()[:, :, 0]
    shapes: list[tuple[int, ...]] = []

    def spy(batch: Any) -> Any:
        shapes.append(tuple(batch.shape))
        return batch.reshape(len(batch), -1)

    for image in (grey, Image.fromarray(np.uint8(255 * grey)), torch.from_numpy(grey)):
        mask_image(spy, image, groups=(2, 2))(np.ones((5, 4), dtype=bool))
    assert shapes == [(5, SIZE, SIZE, 1), (5, SIZE, SIZE, 1), (5, 1, SIZE, SIZE)]
    check_masked_model(mask_image(_network(1), grey), tolerance=TOLERANCE)


@pytest.mark.parametrize(("mode", "n_channels"), [("1", 1), ("L", 1), ("LA", 2), ("P", 3), ("RGBA", 4), ("CMYK", 3)])
def test_pillow_images_of_every_mode_have_the_channels_one_expects(mode: str, n_channels: int, tmp_path: Path) -> None:
    picture = Image.fromarray(np.uint8(255 * _image())).convert(mode)
    assert mask_image(_array_function, picture).elements.shape == (SIZE, SIZE, n_channels)


def test_files_are_turned_upright(tmp_path: Path) -> None:
    picture = Image.fromarray(np.uint8(255 * _image(height=SIZE, width=20)))
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by a quarter
    picture.save(tmp_path / "turned.png", exif=exif)
    assert mask_image(_array_function, tmp_path / "turned.png").elements.shape == (20, SIZE, 3)


def test_the_default_features_are_the_papers_grid_or_fewer() -> None:
    def n_features(height: int, width: int) -> int:
        return mask_image(_array_function, _image(height=height, width=width)).n_features

    assert n_features(16, 30) == 14 * 14
    assert n_features(14, 14) == 14 * 14
    assert n_features(5, 30) == 5 * 14
    assert n_features(5, 3) == 15


def test_a_bound_image_is_a_copy_and_read_only() -> None:
    image, groups, baseline = _image(), np.array(grid((SIZE, SIZE), 2, 2)), _image(1)
    model = mask_image(_array_function, image, groups=groups, fill=baseline)
    tensor = _tensor()
    bound = mask_image(_network(), tensor, groups=groups)
    before = model(_masks(4)), bound(_masks(4))
    image[:], groups[:], baseline[:] = 0, 0, 0
    tensor.zero_()
    np.testing.assert_array_equal(model(_masks(4)), before[0])
    np.testing.assert_array_equal(bound(_masks(4)), before[1])
    for array in (model.elements, model.baseline, model.groups, bound.elements):
        assert not array.flags.writeable


# -- preprocessing and fills -------------------------------------------------------------------------

MEAN, STD = np.float32([0.5, 0.4, 0.3]), np.float32([0.2, 0.3, 0.4])


def _normalise(image: Any) -> Any:
    """Bytes (H, W, C) → floats (C, H, W), as image processors do."""
    pixels = np.asarray(image).astype(np.float32) / np.float32(255)
    return ((pixels - MEAN) / STD).transpose(2, 0, 1)


def _bytes() -> Any:
    return np.random.default_rng(3).integers(0, 256, size=(SIZE, SIZE, 3), dtype=np.uint8)


@pytest.mark.parametrize("fill", [0, (10, 20, 30), "mean", "noise", Blur(2)], ids=str)
def test_filling_before_equals_preprocessing_the_masked_image(fill: Any) -> None:
    """Exact for a normalisation pixel by pixel: where(m, f(x), f(y)) = f(where(m, x, y))."""
    image, groups = _bytes(), grid((SIZE, SIZE), 4, 4)
    raw_baseline = mask_image(lambda batch: batch, image, groups=groups, fill=fill).baseline
    for kind in (image, Image.fromarray(image)):
        model = mask_image(nn.Flatten(), kind, groups=groups, fill=fill, preprocess=_normalise, fill_stage="before")
        masks = _masks(16)
        by_hand = [_normalise(masked).ravel() for masked in _by_hand(masks, groups, image, raw_baseline)]
        np.testing.assert_array_equal(model(masks), by_hand)


def test_filling_after_fills_what_the_model_sees() -> None:
    model = mask_image(nn.Flatten(), _bytes(), groups=(2, 2), fill=0.0, preprocess=_normalise)
    assert (model.baseline == 0).all()
    np.testing.assert_array_equal(model.elements, _normalise(_bytes()).transpose(1, 2, 0))
    given = mask_image(nn.Flatten(), _bytes(), groups=(2, 2), fill=_normalise(255 - _bytes()), preprocess=_normalise)
    np.testing.assert_array_equal(given.baseline, _normalise(255 - _bytes()).transpose(1, 2, 0))


def test_features_of_a_preprocessing_that_resizes_are_those_of_the_models_input() -> None:
    def shrink(picture: Image.Image) -> Any:
        return _normalise(picture.resize((8, 8)))

    picture = Image.fromarray(_bytes())
    for stage in ("before", "after"):
        model = mask_image(nn.Flatten(), picture, groups=(4, 4), preprocess=shrink, fill_stage=stage)
        assert model.groups.shape == (8, 8)
        np.testing.assert_array_equal(model(np.ones((1, 16), dtype=bool))[0], shrink(picture).ravel())
        np.testing.assert_array_equal(
            model(np.zeros((1, 16), dtype=bool))[0], model.baseline.transpose(2, 0, 1).ravel()
        )
    with pytest.raises(InvalidValueError, match=r"^`groups` must have one entry per pixel of the model's input, 8×8"):
        mask_image(nn.Flatten(), picture, groups=grid(picture, 4, 4), preprocess=shrink)


def test_preprocessing_may_return_what_image_processors_return() -> None:
    wanted = mask_image(_resnet(), _bytes(), preprocess=_normalise)(_masks(196))
    wrappers: list[Callable[[Any], Any]] = [
        lambda image: {"pixel_values": [_normalise(image)]},
        lambda image: {"pixel_values": torch.from_numpy(_normalise(image).copy())[None]},
        lambda image: torch.from_numpy(_normalise(image).copy()),
    ]
    for wrapper in wrappers:
        np.testing.assert_array_equal(mask_image(_resnet(), _bytes(), preprocess=wrapper)(_masks(196)), wanted)


def test_a_hugging_face_processor_is_a_preprocessing() -> None:
    from transformers import ViTImageProcessorPil as Processor

    processor = Processor(size={"height": SIZE, "width": SIZE}, image_mean=[0.5] * 3, image_std=[0.5] * 3)
    picture = Image.fromarray(np.uint8(255 * _image(height=40, width=30)))
    network = _vit().eval()
    model = mask_image(network, picture, groups=(4, 4), fill=0, preprocess=processor, fill_stage="before")
    with torch.inference_mode():
        direct = network(**processor(picture, return_tensors="pt")).logits
        black = network(**processor(Image.new("RGB", picture.size), return_tensors="pt")).logits
    both = model(np.array([[True] * 16, [False] * 16]))
    np.testing.assert_allclose(both, torch.cat([direct, black]).numpy(), atol=TOLERANCE)


def test_a_raw_tensor_is_filled_as_a_tensor() -> None:
    kinds: list[Any] = []

    def preprocess(image: torch.Tensor) -> torch.Tensor:
        kinds.append((image.dtype, tuple(image.shape)))
        return image.float() / 255

    tensor = torch.from_numpy(_bytes()).permute(2, 0, 1)
    model = mask_image(nn.Flatten(), tensor, fill=51, preprocess=preprocess, fill_stage="before", groups=(2, 2))
    assert kinds == [(torch.uint8, (3, SIZE, SIZE))] * 2
    np.testing.assert_array_equal(model.baseline, np.full((SIZE, SIZE, 3), np.float32(0.2)))


# -- provenance, options -----------------------------------------------------------------------------


def test_provenance_says_what_the_features_are_and_how_hidden_ones_look() -> None:
    model = mask_image(_network(), _tensor(), groups=(8, 8), fingerprint="network-1")
    assert model.provenance.masking == "grid 8×8, fill constant 0.0"
    assert model.provenance.model == "network-1"
    after = mask_image(nn.Flatten(), _bytes(), groups=(8, 8), preprocess=_normalise)
    assert after.provenance.masking == "grid 8×8, fill constant 0.0 after normalisation"
    before = mask_image(nn.Flatten(), _bytes(), groups=(8, 8), fill="mean", preprocess=_normalise, fill_stage="before")
    assert before.provenance.masking == "grid 8×8, fill mean before normalisation"
    softly = mask_image(_network(), _tensor(), fill="noise", softmax=True)
    assert softly.provenance.masking == "grid 14×14, fill noise of seed 0, softmax"
    cert = certify(model, np.arange(64) < 60, radius=2, rng=0)
    assert cert.provenance == model.provenance


def test_the_input_is_identified_by_what_the_model_sees() -> None:
    def identity(image: Any) -> str | None:
        return mask_image(_network(), image).provenance.input

    assert identity(_image()) == identity(_tensor()) == identity(torch.from_numpy(_image().transpose(2, 0, 1)))
    assert identity(_image()) != identity(_image(1))
    assert identity(_bytes()) == identity(_bytes().astype(np.float32) / np.float32(255))


def test_softmax_turns_scores_into_probabilities(tmp_path: Path) -> None:
    path = _onnx_file(tmp_path / "m.onnx", ["b", 3, SIZE, SIZE])
    pairs: list[tuple[Any, Any]] = [(_network(), _tensor()), (path, _image()), (_array_function, _image())]
    for classifier, image in [*pairs, (_tensor_function, _tensor())]:
        raw, soft = (mask_image(classifier, image, softmax=on)(_masks(196)) for on in (False, True))
        powers = np.exp(raw.astype(np.float64))
        np.testing.assert_allclose(soft, powers / powers.sum(axis=1, keepdims=True), atol=1e-6)
    with pytest.raises(ModelError, match=r"^`softmax` needs scores \(b, n_classes\); the model returned int64 \(12,\)"):
        mask_image(_labels, _image(), softmax=True)(_masks(196))


def test_the_offered_batch_size_shrinks_for_large_images_and_is_used() -> None:
    assert mask_image(_array_function, _image()).batch_size == 256
    assert mask_image(_array_function, np.zeros((1024, 1024, 3), dtype=np.float32)).batch_size == 2
    assert mask_image(_array_function, np.zeros((3000, 1000, 3), dtype=np.float32)).batch_size == 1
    assert Evaluator(mask_image(_array_function, _image(), batch_size=7)).batch_size == 7


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16, "float64"])
def test_batches_have_the_modules_number_type_or_the_one_asked_for(dtype: Any) -> None:
    kinds: list[Any] = []

    class Spy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(()))

        def forward(self, batch: torch.Tensor) -> torch.Tensor:
            kinds.append(batch.dtype)
            return batch.flatten(1)[:, :5] * self.weight

    wanted = getattr(torch, dtype) if isinstance(dtype, str) else dtype
    is_half = wanted in (torch.bfloat16, torch.float16)
    with pytest.warns(UserWarning, match="many times slower") if is_half else nullcontext():
        own = mask_image(Spy().to(wanted), _image().astype(np.float64), groups=(2, 2))
    asked = mask_image(Spy(), _image(), groups=(2, 2), dtype=dtype)
    for model in (own, asked):
        assert model(_masks(4)).dtype == (np.float64 if wanted is torch.float64 else np.float32)
    assert kinds == [wanted, wanted]


def test_float64_images_do_not_make_float64_batches() -> None:
    model = mask_image(_network(), _image().astype(np.float64))
    assert model.elements.dtype == np.float32
    assert model(_masks(196)).dtype == np.float32


def test_a_bound_image_survives_a_copy_to_another_process() -> None:
    model = mask_image(_network(), _tensor(), groups=(2, 2))
    before = model(_masks(4, 1000))
    packed = pickle.dumps(model)
    assert len(packed) < 100_000, "the buffer of 1,000 images travelled too"
    np.testing.assert_array_equal(pickle.loads(packed)(_masks(4, 1000)), before)


# -- nothing of the caller's changes -----------------------------------------------------------------


class _Drawing(nn.Module):
    """Draws random numbers even in evaluation."""

    def __init__(self) -> None:
        super().__init__()
        self.network = _network()

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        torch.rand(7)
        return self.network(batch)


@pytest.mark.parametrize("make", [_network, _vit, _resnet, _Drawing])
def test_nothing_of_the_callers_model_or_global_state_changes(make: Callable[[], Any]) -> None:
    network = make()
    network.train()
    next(iter(network.children())).eval()
    modes = [part.training for part in network.modules()]
    weights = {name: value.clone() for name, value in network.state_dict().items()}
    image, state, numpy_state = _tensor(), torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    kept = image.clone()
    model = mask_image(network, image, fill="noise", groups=(4, 4))
    model(_masks(16))
    assert isinstance(model, Differentiable)
    model.gradient(model.elements[None], 1)
    assert [part.training for part in network.modules()] == modes
    for name, value in network.state_dict().items():
        assert torch.equal(value, weights[name]), name
    assert all(parameter.grad is None and parameter.requires_grad for parameter in network.parameters())
    assert torch.equal(image, kept)
    assert torch.is_grad_enabled()
    assert not torch.is_inference_mode_enabled()
    assert torch.equal(torch.get_rng_state(), state)
    np.testing.assert_array_equal(np.random.get_state()[1], numpy_state)  # noqa: NPY002


def test_the_models_mode_is_restored_after_an_error_too() -> None:
    network = _network().train()
    model = mask_image(network, _tensor(n_channels=4), groups=(2, 2))
    with pytest.raises(
        InvalidValueError, match=r"^`image` must have the number of channels that the model takes, got 4: "
    ):
        model(_masks(4))
    assert all(part.training for part in network.modules())


def test_dropout_is_switched_off_whatever_mode_the_model_is_in() -> None:
    training = mask_image(_network().train(), _tensor())(_masks(196))
    evaluating = mask_image(_network().eval(), _tensor())(_masks(196))
    np.testing.assert_array_equal(training, evaluating)


# -- gradients ---------------------------------------------------------------------------------------


def _differentiable(softmax: bool = False) -> Any:
    return mask_image(_network().double(), _tensor().double(), groups=(4, 4), fill="mean", softmax=softmax)


@pytest.mark.parametrize("softmax", [False, True])
def test_gradients_agree_with_finite_differences(softmax: bool) -> None:
    model = _differentiable(softmax)
    point, step = (model.elements + model.baseline) / 2, 1e-3 if softmax else 1e-6
    scores, gradient = model.gradient(point[None], 2)
    assert gradient.shape == (1, SIZE, SIZE, 3)
    for place in [(0, 0, 0), (3, 7, 1), (15, 15, 2), (8, 2, 0)]:
        moved = np.stack([point, point])
        moved[(0, *place)] += step
        moved[(1, *place)] -= step
        above, below = model.gradient(moved, 2)[0][:, 2]
        tolerance = 2e-4 if softmax else 1e-8
        np.testing.assert_allclose(gradient[(0, *place)], (above - below) / (2 * step), atol=tolerance)
    assert scores.shape == (1, N_CLASSES)


@pytest.mark.parametrize("make", [_network, _vit, _resnet])
def test_gradients_agree_with_autograd_by_hand(make: Callable[[], Any]) -> None:
    network = make().eval()
    model: Any = mask_image(network, _tensor(), groups=(4, 4))
    points = np.stack([_image(seed) for seed in range(3)])
    batch = torch.from_numpy(points.transpose(0, 3, 1, 2).copy()).requires_grad_()
    output = network(batch)
    logits = output if isinstance(output, torch.Tensor) else output.logits
    logits[:, 3].sum().backward()
    assert batch.grad is not None
    scores, gradient = model.gradient(points, 3)
    np.testing.assert_allclose(scores, logits.detach().numpy(), atol=TOLERANCE)
    np.testing.assert_allclose(gradient, batch.grad.permute(0, 2, 3, 1).numpy(), atol=1e-6)


def test_scores_at_the_image_and_the_baseline_are_those_of_the_full_and_empty_mask() -> None:
    model = _differentiable()
    scores, _ = model.gradient(np.stack([model.elements, model.baseline]), 0)
    np.testing.assert_allclose(scores, model(np.array([[True] * 16, [False] * 16])), atol=1e-12)


def test_gradients_work_for_callers_without_gradients() -> None:
    model = _differentiable()
    wanted = model.gradient(model.elements[None], 1)[1]
    with torch.no_grad():
        np.testing.assert_array_equal(model.gradient(model.elements[None], 1)[1], wanted)
    with torch.inference_mode():
        np.testing.assert_array_equal(model.gradient(model.elements[None], 1)[1], wanted)


def test_impossible_gradients_are_refused() -> None:
    model = _differentiable()
    with pytest.raises(InvalidValueError, match=r"^`target` must be a column of scores \(1, 4\), got 4\."):
        model.gradient(model.elements[None], 4)
    with pytest.raises(InvalidValueError, match=r"^`target` must be a whole number ≥ 0, got -1\."):
        model.gradient(model.elements[None], -1)
    with pytest.raises(InvalidValueError, match=r"^`points` must have shape \(b, \*\(16, 16, 3\)\), got \(16, 16, 3\)"):
        model.gradient(model.elements, 0)
    detached: Any = mask_image(_Wrapped(lambda scores: scores.detach()), _tensor())
    with pytest.raises(ModelError, match=r"^The module's scores have no gradient"):
        detached.gradient(detached.elements[None], 0)


# -- bad input ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"image": _image() * np.nan},
            InvalidValueError,
            r"^`image` must hold finite numbers, got NaN .* 768 of 768\.",
        ),
        ({"image": np.zeros((3, 32, 32))}, InvalidValueError, r"32 channels.*transpose"),
        ({"image": _image()[..., :2]}, InvalidValueError, r"^`image` must have 3 channels for this model, got 2\."),
        ({"image": _tensor(n_channels=1)}, InvalidValueError, r"^`image` must have 3 channels for this model, got 1\."),
        (
            {"image": np.zeros((SIZE, SIZE, 3), dtype=int)},
            InvalidTypeError,
            r"^`image` must hold bytes .*, got int64\.",
        ),
        ({"image": 3}, InvalidTypeError, r"^`image` must be a torch tensor, a NumPy array or a Pillow image, got 3\."),
        (
            {"groups": grid((8, 8), 2, 2)},
            InvalidValueError,
            r"^`groups` must have one entry per pixel .*16×16, got 8×8",
        ),
        ({"groups": np.full((SIZE, SIZE), -1)}, InvalidValueError, r"^`groups` must be whole numbers"),
        ({"groups": np.full((SIZE, SIZE), 1)}, InvalidValueError, r"^`groups` must number features without gaps"),
        ({"groups": 4}, InvalidValueError, r"^`groups` must be \(rows, columns\) of a grid, .*, got 4\."),
        ({"groups": (17, 2)}, InvalidValueError, r"^`rows` must be at most the number of pixels, 16, got 17\."),
        ({"fill": (0.0, 1.0)}, InvalidValueError, r"^`fill` must have one number per channel"),
        ({"fill": lambda image: image}, InvalidTypeError, r"^`fill` must be a number"),
        ({"fill_stage": "before"}, InvalidValueError, r"^`fill_stage` must be 'after' unless `preprocess` is given"),
        ({"fill_stage": "between"}, InvalidValueError, r"^`fill_stage` must be one of after, before, got 'between'\."),
        ({"preprocess": 3}, InvalidTypeError, r"^`preprocess` must be callable on one image, got 3\."),
        (
            {"preprocess": lambda image: {"x": image}},
            InvalidValueError,
            r"^`preprocess` must return an image or .* x\.",
        ),
        ({"preprocess": lambda image: None}, InvalidTypeError, r"^`preprocess\(image\)` must "),
        ({"preprocess": lambda image: np.zeros((2, 3, 9, 9))}, InvalidValueError, r"got shape \(2, 3, 9, 9\)"),
        ({"batch_size": 0}, InvalidValueError, r"^`batch_size` must be a whole number ≥ 1, got 0\."),
        ({"device": "meta"}, InvalidValueError, r"^`device` must be the device of the module, cpu, got 'meta'\."),
        (
            {"dtype": "float33"},
            InvalidTypeError,
            r"^`dtype` must be a torch number type, e\.g\. 'float16', got 'float33'",
        ),
        ({"fingerprint": 3}, InvalidTypeError, r"^`fingerprint` must be a string or None, got 3\."),
        ({"classifier": None}, InvalidTypeError, r"^`classifier` must be a torch module"),
        (
            {"classifier": "nowhere.onnx"},
            InvalidValueError,
            r"^`classifier` must be an existing \.onnx file, got 'nowhere",
        ),
    ],
)
def test_bad_input_is_refused_before_any_call(options: Any, error: type[Exception], message: str) -> None:
    given = {"classifier": _vit(), "image": _tensor()} | options
    with pytest.raises(error, match=message):
        mask_image(given.pop("classifier"), given.pop("image"), **given)


@pytest.mark.parametrize(
    ("shape", "options", "error", "message"),
    [
        (["b", 3, 8, 8], {}, InvalidValueError, r"the ONNX model takes, 3 × 8 × 8, got 16×16 pixels with 3 channels"),
        (["b", 3, "h", "w"], {"image": _image(n_channels=4)}, InvalidValueError, r"3 × any × any, got 16×16 .* 4 chan"),
        (["b", 3, "h", "w"], {"dtype": "float16"}, InvalidValueError, r"^`dtype` of an ONNX model is fixed"),
    ],
)
def test_onnx_models_refuse_what_they_cannot_take(
    shape: Any, options: Any, error: type[Exception], message: str, tmp_path: Path
) -> None:
    given = {"image": _image()} | options
    with pytest.raises(error, match=message):
        mask_image(_onnx_file(tmp_path / "m.onnx", shape), given.pop("image"), **given)


def test_onnx_models_of_more_than_one_input_are_refused(tmp_path: Path) -> None:
    path = _onnx_file(tmp_path / "m.onnx", ["b", 3, "h", "w"], n_inputs=2)
    with pytest.raises(
        InvalidValueError, match=r"^The ONNX model must take one batch of images with four axes; it takes "
    ):
        mask_image(path, _image())


def test_broken_onnx_files_are_named(tmp_path: Path) -> None:
    whole = _onnx_file(tmp_path / "whole.onnx", ["b", 3, "h", "w"]).read_bytes()
    for name, content in {"empty": b"", "noise": b"not a model", "truncated": whole[: len(whole) // 2]}.items():
        path = tmp_path / f"{name}.onnx"
        path.write_bytes(content)
        with pytest.raises(InvalidValueError, match=rf"^The ONNX file '.*{name}\.onnx' cannot be read: "):
            mask_image(path, _image())


def test_broken_image_files_are_named(tmp_path: Path) -> None:
    whole = {}
    for kind in ("png", "jpg", "gif", "bmp", "tiff"):
        Image.fromarray(_bytes()).save(tmp_path / f"whole.{kind}")
        whole[kind] = (tmp_path / f"whole.{kind}").read_bytes()
        (tmp_path / f"truncated.{kind}").write_bytes(whole[kind][: len(whole[kind]) * 2 // 3])
    broken = bytearray(whole["png"])
    broken[60:70] = b"\x00" * 10
    (tmp_path / "corrupt.png").write_bytes(broken)
    (tmp_path / "empty.png").write_bytes(b"")
    (tmp_path / "text.png").write_text("not an image")
    names = [f"truncated.{kind}" for kind in whole if kind != "gif"]
    for name in [*names, "corrupt.png", "empty.png", "text.png", "missing.png"]:
        with pytest.raises(InvalidValueError, match=rf"^The image file '.*{name}' cannot be read: "):
            mask_image(_array_function, tmp_path / name)
    with pytest.raises(InvalidValueError, match=r"^The image file '.*' cannot be read: "):
        grid(tmp_path, 2, 2)


@pytest.mark.parametrize("excess", [1.5, 3])
def test_decompression_bombs_are_refused(excess: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow warns above its limit and raises above twice its limit: both are refusals here."""
    Image.fromarray(_bytes()).save(tmp_path / "bomb.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", int(SIZE * SIZE / excess))
    refused = pytest.raises(
        InvalidValueError, match=r"^The image file '.*bomb\.png' unpacks to more pixels than is safe"
    )
    with warnings.catch_warnings(), refused:
        warnings.simplefilter("ignore")  # as for users, whose warnings are not errors
        mask_image(_array_function, tmp_path / "bomb.png")


def test_masks_that_are_not_boolean_are_refused() -> None:
    model: MaskedModel = mask_image(_network(), _tensor(), groups=(2, 2))
    with pytest.raises(InvalidTypeError, match=r"^`masks` must be Boolean, got float64\."):
        model(np.ones((1, 4)))
    with pytest.raises(InvalidValueError, match=r"^`masks` must have shape \(b, 4\), got \(4,\)\."):
        model(np.ones(4, dtype=bool))


def test_a_certificate_of_an_image_is_that_of_the_images_masked_by_hand() -> None:
    groups = grid((SIZE, SIZE), 3, 3)
    model = mask_image(_array_function, _image(), groups=groups)

    class ByHand:
        n_features = 9

        def __call__(self, masks: Any, /) -> Any:
            return _array_function(_by_hand(masks, groups, _image(), np.zeros_like(_image())))

    selected = np.arange(9) % 2 == 0
    ours, theirs = (certify(bound, selected, radius=3, rng=0) for bound in (model, ByHand()))
    assert (ours.rate, ours.n_calls, ours.prediction) == (theirs.rate, theirs.n_calls, theirs.prediction)


def test_a_pipeline_brings_its_module_and_its_processor() -> None:
    transformers = pytest.importorskip("transformers")
    from PIL import Image

    config = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, image_size=32, patch_size=8
    )
    torch.manual_seed(0)
    module = transformers.ViTForImageClassification(config).eval()
    processor = transformers.models.vit.image_processing_pil_vit.ViTImageProcessorPil(size={"height": 32, "width": 32})
    pipeline = transformers.pipeline("image-classification", model=module, image_processor=processor)
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (48, 40, 3), dtype=np.uint8))
    model = mask_image(pipeline, image, groups=(4, 4))
    with torch.inference_mode():
        direct = module(**processor(images=image, return_tensors="pt")).logits.numpy()
    assert model.n_features == 16
    assert np.allclose(model(np.ones((1, 16), dtype=bool)), direct, atol=1e-5)
    with pytest.raises(InvalidValueError, match="`preprocess` must be left out for a pipeline"):
        mask_image(pipeline, image, preprocess=lambda picture: picture)


@pytest.mark.filterwarnings("ignore:.*torch.jit.trace:DeprecationWarning")
def test_a_traced_module_answers_as_the_module_does() -> None:
    torch.manual_seed(0)
    plain = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 3)).eval()
    image = torch.rand(3, 2, 2)
    traced = torch.jit.trace(plain, image[None])
    masks = np.array([[True, False, True, False], [True] * 4])
    expected = mask_image(plain, image, groups=(2, 2))(masks)
    np.testing.assert_allclose(mask_image(traced, image, groups=(2, 2))(masks), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("takes", "given", "wanted"),
    [
        (
            ["b", 3, 8, 8],
            (8, 8, 1),
            "1 channel. Change it to 3 channels (Pillow: `image.convert('RGB')`) first, or in ",
        ),
        (
            ["b", 8, 8, 3],
            (8, 8, 1),
            "1 channel. Change it to 3 channels (Pillow: `image.convert('RGB')`) first, or in ",
        ),
        (["b", 1, 8, 8], (8, 8, 3), "3 channels. Change it to 1 channel (Pillow: `image.convert('L')`) first, or in "),
        (["b", 2, "h", "w"], (8, 8, 3), "3 channels. Change it to 2 channels first, or in "),
        (["b", 3, 9, "w"], (8, 8, 3), "3 channels. Change it to 9×any pixels first, or in "),
        (["b", 3, 9, 8], (8, 8, 1), "`image.convert('RGB')`) and to 9×8 pixels first, or in "),
    ],
)
def test_an_image_of_other_axes_than_an_onnx_model_takes_is_refused_with_what_to_do(
    takes: list[Any], given: tuple[int, int, int], wanted: str
) -> None:
    sizes = tuple(size if isinstance(size, int) else None for size in takes)
    session = ImageSession(None, "image", "logits", sizes, np.dtype(np.float32))
    with pytest.raises(InvalidValueError) as caught:
        session.layout_for(given)
    assert str(caught.value).endswith(f"{wanted}your own `preprocess`.")


def test_a_grey_image_converted_as_advised_suits_an_onnx_model_of_three_channels(tmp_path: Path) -> None:
    file = _onnx_file(tmp_path / "m.onnx", ["b", 3, SIZE, SIZE])
    grey = Image.fromarray(np.zeros((SIZE, SIZE), dtype=np.uint8))
    with pytest.raises(InvalidValueError, match=r"got \d+×\d+ pixels with 1 channel\. .*`image\.convert\('RGB'\)`"):
        mask_image(file, grey)
    assert mask_image(file, grey.convert("RGB")).n_features > 0


def test_floats_of_bytes_are_refused_unless_they_are_meant() -> None:
    module = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(3, 2))
    picture = np.random.default_rng(0).integers(0, 256, (8, 8, 3)).astype(np.uint8)
    floats = picture.astype(np.float32)
    shown = np.ones((1, 16), dtype=bool)
    with pytest.raises(
        InvalidValueError, match=r"^`image` must hold floats from 0 to 1, or bytes, .* Divide by 255; if"
    ):
        mask_image(module, floats, groups=(4, 4))
    np.testing.assert_allclose(
        mask_image(module, floats / 255, groups=(4, 4))(shown), mask_image(module, picture, groups=(4, 4))(shown)
    )
    planes = torch.from_numpy(floats).permute(2, 0, 1)
    meant = mask_image(module, planes, groups=(4, 4), preprocess=lambda image: image)
    np.testing.assert_allclose(meant(shown), module(planes[None]).detach().numpy(), rtol=1e-5)
    assert mask_image(lambda batch: batch.mean(axis=(1, 2)), floats, groups=(4, 4))(shown).max() > 32
    mask_image(module, floats - 128, groups=(4, 4))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_on_a_cpu_is_warned_of_once_unless_asked_for(dtype: Any) -> None:
    def half() -> Any:
        return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 2)).to(dtype)

    module, picture = half(), torch.rand(3, 2, 2)
    with pytest.warns(UserWarning, match=r"on a CPU, which can be many times slower than float32\. Call `model\.float"):
        mask_image(module, picture, groups=(2, 2))
    mask_image(module, picture, groups=(2, 2))
    mask_image(half(), picture, groups=(2, 2), dtype=dtype)
    mask_image(half().float(), picture, groups=(2, 2))
    with pytest.warns(UserWarning, match="many times slower"):
        mask_tabular(half(), np.zeros(12), fill=0.0)
