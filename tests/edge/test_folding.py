"""Batch normalisations folded into convolutions: where that is right, where it is not, what others see meanwhile."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional
from transformers import ResNetForImageClassification

from holdfast import certify
from holdfast.errors import HoldfastError
from holdfast.masking.image.mask_image import mask_image
from tests.helpers.tiny_models import save_resnet

torch.set_num_threads(1)

SIZE, N_FEATURES = 12, 9
CLOSE = 1e-5


def lively(module: nn.Module, seed: int = 0) -> Any:
    """The module in evaluation mode, with weights and statistics that make every step matter."""
    numbers = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, values in [*module.named_parameters(), *module.named_buffers()]:
            if values.is_floating_point():
                drawn = torch.randn(values.shape, generator=numbers)
                values.copy_(drawn.abs() + 0.5 if "running_var" in name else drawn)
    return module.eval()


class Block(nn.Module):
    """A convolution, its normalisation and what else a test wants to come between or beside them."""

    def __init__(self, between: Callable[[Any, Any], Any] | None = None, *, bias: bool = False, **options: Any) -> None:
        super().__init__()
        options = {"padding": 1} | options
        self.conv, self.norm = nn.Conv2d(3, 6, 3, bias=bias, **options), nn.BatchNorm2d(6)
        self.last, self.between = nn.Linear(6, 4), between

    def forward(self, images: Any) -> Any:
        maps = self.norm(self.conv(images)) if self.between is None else self.between(self, images)
        return self.last(maps.relu().mean(dim=(2, 3)))


def bind(module: Any, **options: Any) -> Any:
    picture = np.random.default_rng(0).random((SIZE, SIZE, 3), dtype=np.float32)
    return mask_image(module, picture, groups=(3, 3), **options)


def some_masks(n: int = 8, seed: int = 0) -> Any:
    return np.random.default_rng(seed).random((n, N_FEATURES)) < 0.5


def plain_scores(module: Any, model: Any, masks: Any) -> Any:
    """The module on the same images, called by hand."""
    with torch.no_grad():
        return module(model.batches.fresh(masks)).numpy()


@pytest.fixture
def normalized(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Grows by what is normalised by itself."""
    seen, usual = [], functional.batch_norm

    def spy(images: Any, *values: Any, **fields: Any) -> Any:
        seen.append(images.shape)
        return usual(images, *values, **fields)

    monkeypatch.setattr(functional, "batch_norm", spy)
    return seen


def check_scores(module: Any, model: Any, normalized: list[Any], *, folds: bool, seed: int = 0) -> None:
    """Scores are those of the module by hand, whether folded or not, once the module is known."""
    model(some_masks())
    normalized.clear()
    scores = model(some_masks(seed=seed))
    assert (len(normalized) == 0) is folds
    wanted = plain_scores(module, model, some_masks(seed=seed))
    np.testing.assert_allclose(scores, wanted, rtol=0, atol=CLOSE * np.abs(wanted).max())
    assert np.ptp(wanted, axis=0).max() > 100 * CLOSE * np.abs(wanted).max()


# -- where it is right -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bias": True},
        {"stride": 2, "padding": 0},
        {"groups": 3},
        {"dilation": 2, "padding": "same"},
        {"batch_size": 8},
    ],
)
def test_a_normalisation_is_folded_into_the_convolution_before_it(
    options: dict[str, Any], normalized: list[Any]
) -> None:
    sizes = {name: options.pop(name) for name in ("batch_size",) if name in options}
    module = lively(Block(**options))
    check_scores(module, bind(module, **sizes), normalized, folds=True)


def test_a_residual_network_of_transformers_is_folded(tmp_path: Path, normalized: list[Any]) -> None:
    module = lively(ResNetForImageClassification.from_pretrained(save_resnet(tmp_path)))
    model, masks = bind(module), some_masks(200)
    model(masks)
    normalized.clear()
    scores = model(masks)
    assert normalized == []
    with torch.no_grad():
        wanted = module(model.batches.fresh(masks)).logits.numpy()
    np.testing.assert_allclose(scores, wanted, rtol=0, atol=CLOSE * np.abs(wanted).max())


@given(seed=st.integers(0, 10_000), eps=st.sampled_from([1e-5, 1e-3, 0.5]), n_rows=st.integers(1, 20))
def test_folded_scores_are_the_plain_ones(seed: int, eps: float, n_rows: int) -> None:
    module = lively(nn.Sequential(Block().conv, nn.BatchNorm2d(6, eps=eps), nn.ReLU(inplace=True), nn.Flatten()), seed)
    model, masks = bind(module), some_masks(n_rows, seed)
    scores, wanted = model(masks), plain_scores(module, model, masks)
    np.testing.assert_allclose(scores, wanted, rtol=0, atol=CLOSE * np.abs(wanted).max())


def test_with_large_weights_and_few_images_nothing_is_folded(normalized: list[Any]) -> None:
    module = lively(nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Conv2d(3, 64, 2), nn.BatchNorm2d(64), nn.Flatten()))
    model = bind(module)
    for n_rows, folds in ((8, False), (64, True)):  # 12 numbers per image, 768 weights
        model(some_masks(n_rows))
        normalized.clear()
        model(some_masks(n_rows))
        assert (normalized == []) is folds


# -- where it is not ---------------------------------------------------------------------------------------


def used_twice(block: Any, images: Any) -> Any:
    maps = block.conv(images)
    return block.norm(maps) + maps


def used_by_numpy(block: Any, images: Any) -> Any:
    maps = block.conv(images)
    return block.norm(maps) * float(np.abs(maps.numpy()).mean())


def called_twice(block: Any, images: Any) -> Any:
    return block.norm(block.conv(images)) + block.norm(block.conv(images.flip(3)))


def both_before(block: Any, images: Any) -> Any:
    first, second = block.conv(images), block.conv(images.flip(3))
    return block.norm(first) + block.norm(second)


def shared_weights(block: Any, images: Any) -> Any:
    return block.norm(block.conv(images)) + functional.conv2d(images, block.conv.weight, padding=1)


def not_at_once(block: Any, images: Any) -> Any:
    return block.norm(block.conv(images).relu())


def changed_meanwhile(block: Any, images: Any) -> Any:
    maps = block.conv(images)
    maps += 1
    return block.norm(maps)


@pytest.mark.parametrize(
    "between", [used_twice, used_by_numpy, called_twice, both_before, not_at_once, changed_meanwhile]
)
def test_what_is_used_otherwise_is_not_folded(between: Any, normalized: list[Any]) -> None:
    module = lively(Block(between))
    check_scores(module, bind(module), normalized, folds=False)


def test_weights_that_are_used_elsewhere_are_as_they_were(normalized: list[Any]) -> None:
    module = lively(Block(shared_weights))
    check_scores(module, bind(module), normalized, folds=True)


@pytest.mark.parametrize(
    "norm",
    [
        nn.BatchNorm2d(6, affine=False),
        nn.BatchNorm2d(6, track_running_stats=False),
        nn.InstanceNorm2d(6),
        type("Own", (nn.BatchNorm2d,), {})(6),
    ],
)
def test_other_normalisations_are_left_alone(norm: Any, normalized: list[Any]) -> None:
    module = Block()
    module.norm = norm
    model = bind(lively(module))
    for _ in range(2):
        scores = model(some_masks())
    np.testing.assert_allclose(scores, plain_scores(module, model, some_masks()), rtol=0, atol=CLOSE * 100)


def test_the_padding_of_others_is_left_alone(normalized: list[Any]) -> None:
    module = lively(Block(padding_mode="circular"))
    check_scores(module, bind(module), normalized, folds=False)


def test_a_part_that_somebody_looks_into_is_computed_as_ever(normalized: list[Any]) -> None:
    module = lively(Block())
    model = bind(module)
    check_scores(module, model, normalized, folds=True)
    seen: list[Any] = []
    handle = module.conv.register_forward_hook(lambda _conv, _inputs, output: seen.append(output.clone()))
    check_scores(module, model, normalized, folds=False)
    with torch.no_grad():
        wanted = functional.conv2d(model.batches.fresh(some_masks()), module.conv.weight, padding=1)
    torch.testing.assert_close(seen[1], wanted)
    handle.remove()
    check_scores(module, model, normalized, folds=True)


@pytest.mark.parametrize("options", [{"autocast": "bf16"}, {"compile": "eager"}])
def test_mixed_precision_and_compilers_do_it_their_way(options: dict[str, Any], normalized: list[Any]) -> None:
    module = lively(Block())
    model = bind(module, **options)
    for _ in range(2):
        scores = model(some_masks())
    assert normalized
    wanted = plain_scores(module, model, some_masks())
    np.testing.assert_allclose(scores, wanted, rtol=0, atol=0.05 * np.abs(wanted).max())


def test_a_module_that_compiles_a_part_of_itself_is_computed_right() -> None:
    class Compiling(Block):
        @torch.compile(backend="eager")
        def forward(self, images: Any) -> Any:
            return super().forward(images)

    module = lively(Compiling())
    model = bind(module)
    wanted = plain_scores(module, model, some_masks())
    for _ in range(3):
        np.testing.assert_allclose(model(some_masks()), wanted, rtol=0, atol=CLOSE * np.abs(wanted).max())


def test_half_precision_is_computed_as_ever(normalized: list[Any]) -> None:
    module = lively(Block()).bfloat16()
    model = bind(module, dtype="bfloat16")
    model(some_masks())
    model(some_masks())
    assert len(normalized) == 2


def test_an_error_of_the_module_comes_through_and_leaves_it_as_it_was() -> None:
    def fail(block: Any, images: Any) -> Any:
        maps = block.norm(block.conv(images))
        if block.fails:
            raise ValueError("the module says so")
        return maps

    module = lively(Block(fail))
    module.fails = True
    model = bind(module)
    for fails in (True, False, True):
        module.fails = fails
        if fails:
            with pytest.raises((ValueError, HoldfastError), match="the module says so"):
                model(some_masks())
        else:
            model(some_masks())
        assert type(module.conv) is nn.Conv2d
        assert type(module.norm) is nn.BatchNorm2d


# -- what its owner changes --------------------------------------------------------------------------------


def change_data(block: Any) -> None:
    block.conv.weight.data.mul_(-1)


def change_statistics(block: Any) -> None:
    block.norm.running_mean.data.add_(1)


def replace_weights(block: Any) -> None:
    block.norm.weight = nn.Parameter(torch.linspace(-1, 1, 6))


def replace_convolution(block: Any) -> None:
    block.conv = lively(nn.Conv2d(3, 6, 3, padding=1), 5)


def replace_normalization(block: Any) -> None:
    block.norm = lively(nn.BatchNorm2d(6), 5)


def remove_normalization(block: Any) -> None:
    block.norm = nn.Identity()


def change_its_way(block: Any) -> None:
    block.between = both_before


@pytest.mark.parametrize(
    "change",
    [
        change_data,
        change_statistics,
        replace_weights,
        replace_convolution,
        replace_normalization,
        remove_normalization,
        change_its_way,
    ],
)
def test_what_its_owner_changes_is_seen_at_the_next_call(change: Any) -> None:
    module = lively(Block())
    model, masks = bind(module), some_masks()
    before = model(masks)
    change(module)
    scores, wanted = model(masks), plain_scores(module, model, masks)
    assert np.abs(before - wanted).max() > 1000 * CLOSE
    np.testing.assert_allclose(scores, wanted, rtol=0, atol=CLOSE * np.abs(wanted).max())


def test_a_way_that_depends_on_the_images_is_followed() -> None:
    """Rows with much shown are normalised, others are not: a convolution waits in vain."""

    def sometimes(block: Any, images: Any) -> Any:
        maps = block.conv(images)
        return block.norm(maps) if images.mean() > 0.2 else maps

    module = lively(Block(sometimes))
    model = bind(module)
    for share in (0.9, 0.1, 0.9, 0.0):
        masks = np.random.default_rng(0).random((8, N_FEATURES)) < share
        wanted = plain_scores(module, model, masks)
        np.testing.assert_allclose(model(masks), wanted, rtol=0, atol=CLOSE * np.abs(wanted).max())


# -- what others see meanwhile -----------------------------------------------------------------------------


def test_other_threads_use_copy_and_pickle_the_module_as_it_is(normalized: list[Any]) -> None:
    inside, over = threading.Event(), threading.Event()

    def waiting(block: Any, images: Any) -> Any:
        maps = block.conv(images)
        if block.stops and threading.current_thread() is worker:
            inside.set()
            assert over.wait(60)
        return block.norm(maps)

    module = lively(Block(waiting))
    module.stops = False
    model, masks, found = bind(module), some_masks(), list[Any]()
    model(masks)
    wanted = plain_scores(module, model, masks)
    module.stops = True
    normalized.clear()
    worker = threading.Thread(target=lambda: found.append(model(masks)))
    worker.start()
    assert inside.wait(60)
    try:
        np.testing.assert_array_equal(plain_scores(module, model, masks), wanted)  # by hand, meanwhile
        assert len(normalized) == 1
        beside = model(masks)  # a second thread of the library
        assert len(normalized) == 1
        copies = [copy.deepcopy(module.conv), pickle.loads(pickle.dumps(module.conv)), copy.copy(module.norm)]
    finally:
        over.set()
        worker.join(60)
    assert [type(part) for part in copies] == [nn.Conv2d, nn.Conv2d, nn.BatchNorm2d]
    assert torch.equal(copies[0].weight, module.conv.weight)
    assert type(module.conv) is nn.Conv2d
    np.testing.assert_array_equal(found[0], beside)
    np.testing.assert_allclose(beside, wanted, rtol=0, atol=CLOSE * np.abs(wanted).max())


def test_torchs_generator_stays_as_it_was() -> None:
    module = lively(Block(lambda block, images: functional.dropout(block.norm(block.conv(images)), 0.5, training=True)))
    model, state = bind(module), torch.get_rng_state()
    first = model(some_masks())
    assert torch.equal(torch.get_rng_state(), state)
    np.testing.assert_array_equal(model(some_masks()), first)


def test_certificates_are_the_same_folded_or_not() -> None:
    module = lively(Block())
    watched = copy.deepcopy(module)
    watched.conv.register_forward_hook(lambda *_call: None)  # so that nothing is folded
    selected = np.arange(N_FEATURES) < 3
    asked = {"radius": 3, "plan": "sequential", "tolerance": 0.2, "rng": 0}
    both = [certify(bind(which), selected, **asked) for which in (module, watched)]
    assert both[0].to_json() == both[1].to_json()
