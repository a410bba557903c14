"""Batch normalisations folded into convolutions: where that is right, where it is not, what others see meanwhile."""

from __future__ import annotations

import contextlib
import copy
import gc
import pickle
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrizations, parametrize
from transformers import ResNetForImageClassification

from holdfast import certify
from holdfast.errors import HoldfastError
from holdfast.masking.image import folding
from holdfast.masking.image.mask_image import mask_image
from holdfast.masking.torch import fingerprint_live, notes_of
from tests.helpers.tiny_models import save_resnet

torch.set_num_threads(1)

SIZE, N_FEATURES = 12, 9
CLOSE = 1e-5


@pytest.fixture(scope="module", autouse=True)
def small_images_are_folded_too() -> Iterator[None]:
    with patch.object(folding, "_LEAST_NUMBERS", 0), patch.object(folding, "_LEAST_ROWS", 1):
        yield


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
        return module(model.batches.fresh(masks)).float().numpy()


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
    assert any(isinstance(note, folding.Folding) and len(note._pairs) == 1 for note in notes_of(module).values())
    np.testing.assert_allclose(scores, wanted, rtol=0, atol=CLOSE * np.abs(wanted).max())


def test_with_large_weights_and_few_images_nothing_is_folded(normalized: list[Any]) -> None:
    module = lively(nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Conv2d(3, 64, 2), nn.BatchNorm2d(64), nn.Flatten()))
    model = bind(module)
    for n_rows, folds in ((8, False), (64, True)):  # 12 numbers per image, 768 weights
        model(some_masks(n_rows))
        normalized.clear()
        model(some_masks(n_rows))
        assert (normalized == []) is folds


def test_where_twins_take_as_long_as_they_save_nothing_is_folded(normalized: list[Any]) -> None:
    module = lively(Block())
    model = bind(module)
    model(some_masks())
    for limit, most in (("_LEAST_NUMBERS", 8 * 3 * SIZE**2), ("_LEAST_ROWS", 8)):
        with patch.object(folding, limit, most):
            for n_rows, folds in ((7, False), (8, True)):
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


def wasted(block: Any, images: Any) -> Any:
    block.conv(images.flip(3))
    return block.norm(block.conv(images))


def of_another(block: Any, images: Any) -> Any:
    return block.norm(block.conv(images).flip(3)) + block.norm(images.new_ones(()).expand(len(images), 6, SIZE, SIZE))


def normalized_twice(block: Any, images: Any) -> Any:
    maps = block.conv(images)
    return block.norm(maps).relu_() - block.norm(maps)


def not_at_once(block: Any, images: Any) -> Any:
    return block.norm(block.conv(images).relu())


def changed_meanwhile(block: Any, images: Any) -> Any:
    maps = block.conv(images)
    maps += 1
    return block.norm(maps)


SAFE_WAYS = [called_twice, both_before, wasted]
OTHER_WAYS = [used_twice, used_by_numpy, of_another, normalized_twice, not_at_once, changed_meanwhile]


@pytest.mark.parametrize("between", [*SAFE_WAYS, *OTHER_WAYS])
def test_what_is_used_otherwise_is_not_folded(between: Any, normalized: list[Any]) -> None:
    module = lively(Block(between))
    check_scores(module, bind(module), normalized, folds=between in SAFE_WAYS)


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
    handle = module.norm.register_forward_pre_hook(lambda _norm, inputs: seen.append(inputs[0].clone()))
    check_scores(module, model, normalized, folds=False)
    torch.testing.assert_close(seen[-1], wanted)
    handle.remove()


def test_with_hooks_on_every_module_all_is_computed_as_ever(normalized: list[Any]) -> None:
    module, seen = lively(Block()), list[Any]()
    model = bind(module)
    check_scores(module, model, normalized, folds=True)
    handle = nn.modules.module.register_module_forward_hook(lambda part, *_values: seen.append(type(part)))
    try:
        check_scores(module, model, normalized, folds=False)
    finally:
        handle.remove()
    assert nn.BatchNorm2d in seen


def test_what_a_module_keeps_of_a_pass_is_what_it_computed() -> None:
    def keeping(block: Any, images: Any) -> Any:
        block.maps = block.conv(images)
        return block.norm(block.maps)

    module = lively(Block())
    model = bind(module)
    model(some_masks())
    module.between = keeping
    model(some_masks())
    with torch.no_grad():
        torch.testing.assert_close(module.maps.clone(), module.conv(model.batches.fresh(some_masks())))


def test_parts_may_be_called_by_the_names_of_torch(normalized: list[Any]) -> None:
    module = lively(Block(lambda block, images: block.norm(input=block.conv(input=images))))
    check_scores(module, bind(module), normalized, folds=True)


def test_autocast_around_a_call_is_followed() -> None:
    module = lively(Block())
    model = bind(module, batch_size=8)
    model(some_masks())
    with torch.autocast("cpu", torch.bfloat16):
        scores, wanted = model(some_masks()), plain_scores(module, model, some_masks())
    np.testing.assert_allclose(scores, wanted, rtol=0, atol=CLOSE * np.abs(wanted).max())


@pytest.mark.parametrize("which", ["whole", "forward", "another method"])
def test_nothing_is_compiled_twice_because_of_folding(which: str) -> None:
    compiled: list[Any] = []

    def backend(graph: Any, _inputs: Any) -> Any:
        compiled.append(graph)
        return graph.forward

    class Compiling(Block):
        @torch.compile(backend=backend)
        def forward(self, images: Any) -> Any:
            return super().forward(images)

    class CompilingSome(Block):
        @torch.compile(backend=backend)
        def maps(self, images: Any) -> Any:
            return self.norm(self.conv(images))

    some = partial(CompilingSome, lambda block, images: block.maps(images))
    module = lively({"whole": Block, "forward": Compiling, "another method": some}[which]())
    model = bind(torch.compile(module, backend=backend) if which == "whole" else module, batch_size=8)
    for _ in range(3):
        model(some_masks())
    assert len(compiled) == 1


@pytest.mark.parametrize("options", [{"autocast": "bf16"}, {"compile": "eager"}])
def test_mixed_precision_and_compilers_do_it_their_way(options: dict[str, Any], normalized: list[Any]) -> None:
    module = lively(Block())
    model = bind(module, **options)
    model(some_masks())
    normalized.clear()
    scores = model(some_masks())
    assert len(normalized) == 1
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


def remove_statistics(block: Any) -> None:
    block.norm.running_mean = block.norm.running_var = None


def remove_scale(block: Any) -> None:
    block.norm.weight = block.norm.bias = None


def unregister_weights(block: Any) -> None:
    weights = -block.conv.weight.detach()
    del block.conv.weight
    block.conv.weight = weights


def unregister_scale(block: Any) -> None:
    scale = -block.norm.weight.detach()
    del block.norm.weight
    block.norm.weight = scale


def pad_otherwise(block: Any) -> None:
    block.conv.padding_mode = "circular"


def convolve_otherwise(block: Any) -> None:
    usual = block.conv._conv_forward
    block.conv._conv_forward = lambda images, weights, bias: -usual(images, weights, bias)


def train_always(block: Any) -> None:
    block.train = lambda mode=True: block
    block.norm.training, block.norm.momentum = True, 0.0


def wrap_and_hook(block: Any) -> None:
    block.conv = nn.Sequential(block.conv)
    block.conv.register_forward_hook(lambda _part, _inputs, output: output.mul_(-2))


def another_way(way: Any) -> Any:
    def change(block: Any) -> None:
        block.between = way

    change.__name__ = f"{way.__name__}_later"
    return change


@pytest.mark.parametrize(
    "change",
    [
        change_data,
        change_statistics,
        replace_weights,
        replace_convolution,
        replace_normalization,
        remove_normalization,
        remove_statistics,
        remove_scale,
        unregister_weights,
        unregister_scale,
        pad_otherwise,
        convolve_otherwise,
        train_always,
        wrap_and_hook,
        *map(another_way, [*SAFE_WAYS, *OTHER_WAYS]),
    ],
)
def test_what_its_owner_changes_is_seen_at_the_next_call(change: Any) -> None:
    module = lively(Block())
    model, masks = bind(module), some_masks()
    before = model(masks)
    change(module)
    scores, wanted = model(masks), plain_scores(module, model, masks)
    if change.__name__ != "wasted_later":
        assert np.abs(before - wanted).max() > 1000 * CLOSE
    np.testing.assert_allclose(scores, wanted, rtol=0, atol=CLOSE * np.abs(wanted).max())


def test_a_module_that_took_another_way_is_called_once_from_then_on() -> None:
    n_calls: list[int] = []

    def counting(block: Any, images: Any) -> Any:
        n_calls.append(len(images))
        return block.between_later(block, images)

    module = lively(Block(counting))
    module.between_later = lambda block, images: block.norm(block.conv(images))
    model = bind(module, batch_size=8)
    for _ in range(2):
        model(some_masks())
    assert n_calls == [4, 2, 4, 8, 8], "ten rows, once"
    module.between_later = used_twice
    for _ in range(2):
        model(some_masks())
    assert n_calls[5:] == [8, 8, 8]


def test_a_folding_that_gives_other_scores_is_not_taken(monkeypatch: pytest.MonkeyPatch, normalized: list[Any]) -> None:
    right = folding._fold
    bent = lambda pairs: {conv: (norm, scale * 1.01, shift) for conv, (norm, scale, shift) in right(pairs).items()}  # noqa: E731
    monkeypatch.setattr(folding, "_fold", bent)
    module = lively(Block())
    check_scores(module, bind(module), normalized, folds=False)


def test_images_of_another_shape_are_another_matter(normalized: list[Any]) -> None:
    def choosy(block: Any, images: Any) -> Any:
        if images.shape[2] < SIZE:
            raise ValueError("the images are too small")
        return block.norm(block.conv(images))

    module = lively(Block(choosy))
    with pytest.raises((ValueError, HoldfastError), match="too small"):
        mask_image(module, np.zeros((6, 6, 3), dtype=np.float32), groups=(3, 3))(some_masks())
    check_scores(module, bind(module), normalized, folds=True)


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


# -- what would go unseen if it were not looked for ----------------------------------------------------------


def swallowing(use: Callable[[Any], Any]) -> Any:
    """A way that does something with what a convolution computed, and takes no notice of errors."""

    def way(block: Any, images: Any) -> Any:
        maps, used = block.conv(images), 0.0
        with contextlib.suppress(Exception):
            used = use(maps)
        return block.norm(maps) + used

    return way


USES: dict[str, Callable[[Any], Any]] = {
    "mean": lambda maps: float(maps.mean()),
    "operator": lambda maps: float((maps * 2).max()),
    "operator from the right": lambda maps: float((1 - maps).max()),
    "function": lambda maps: float(torch.relu(maps).max()),
    "list of tensors": lambda maps: float(torch.cat([maps, maps]).max()),
    "in place": lambda maps: maps.clamp_(-0.5, 0.5) and 0.0,
    "numpy": lambda maps: float(np.asarray(maps).max()),
    "type": lambda maps: float(isinstance(maps, torch.Tensor)),
    "is_tensor": lambda maps: float(torch.is_tensor(maps)),
    "length": lambda maps: float(len(maps)),
    "item": lambda maps: float(maps[0].max()),
    "truth": lambda maps: float(bool(maps is not None and maps.any())),
    "comparison": lambda maps: float((maps == maps).all()),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("from_the_start", [True, False])
def test_a_use_whose_error_is_swallowed_is_seen_all_the_same(use: str, from_the_start: bool) -> None:
    way = swallowing(USES[use])
    module = lively(Block(way if from_the_start else None))
    model, masks = bind(module), some_masks()
    if not from_the_start:
        model(masks)
        module.between = way
    wanted = plain_scores(module, model, masks)
    for _ in range(2):
        np.testing.assert_allclose(model(masks), wanted, rtol=0, atol=CLOSE * np.abs(wanted).max())


class Stem(nn.Module):
    """A convolution inside a part, whose normalisation is outside."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm = nn.Sequential(nn.Conv2d(3, 6, 3)), nn.BatchNorm2d(6)

    def forward(self, images: Any) -> Any:
        return self.norm(self.stem(images)).relu().mean(dim=(2, 3))


def test_what_looks_at_the_part_around_a_convolution_sees_what_it_computed(normalized: list[Any]) -> None:
    module = lively(Stem())
    model = bind(module)
    check_scores(module, model, normalized, folds=True)
    ablation = torch.tensor([0.0, 1, 1, 1, 1, 1]).view(1, -1, 1, 1)

    def ablate(_part: Any, _inputs: Any, output: Any) -> Any:
        return output * ablation if isinstance(output, torch.Tensor) else None

    handle = module.stem.register_forward_hook(ablate)
    check_scores(module, model, normalized, folds=False)
    handle.remove()
    check_scores(module, model, normalized, folds=True)


def test_what_looks_at_the_whole_module_sees_images_and_scores(normalized: list[Any]) -> None:
    module, seen = lively(Block()), list[Any]()
    model = bind(module)
    module.register_forward_hook(lambda _part, inputs, output: seen.append((inputs[0].clone(), output.clone())))
    check_scores(module, model, normalized, folds=True)
    torch.testing.assert_close(seen[-2][1], seen[-1][1])


def by_class(block: Any, images: Any) -> Any:
    maps = block.norm(block.conv(images))
    return maps * 2 if type(block.conv) is nn.Conv2d else maps


def film(block: Any, images: Any) -> Any:
    """Numbers of the normalisation that depend on the images, written past torch's count of changes."""
    maps = block.conv(images)
    block.norm.bias.data.copy_(images.mean(dim=(0, 2, 3)).repeat(2) * 10)
    return block.norm(maps)


def counted_film(block: Any, images: Any) -> Any:
    maps = block.conv(images)
    block.norm.bias.copy_(images.mean(dim=(0, 2, 3)).repeat(2) * 10)
    return block.norm(maps)


def trained_by_size(block: Any, images: Any) -> Any:
    maps = block.conv(images)
    block.norm.train(len(images) > 4)
    block.norm.momentum = 0.0
    return block.norm(maps)


def with_new_numbers(block: Any, images: Any) -> Any:
    maps = block.conv(images)
    block.norm.running_mean = block.norm.running_mean + 1
    scores = block.norm(maps)
    block.norm.running_mean = block.norm.running_mean - 1
    return scores


@pytest.mark.parametrize("way", [by_class, film, counted_film, trained_by_size, with_new_numbers])
def test_ways_that_change_what_is_folded_are_followed(way: Any) -> None:
    module = lively(Block(way))
    model = bind(module)
    for seed in range(3):
        masks = some_masks(seed=seed)
        wanted = plain_scores(module, model, masks)
        np.testing.assert_allclose(model(masks), wanted, rtol=0, atol=CLOSE * np.abs(wanted).max())
        module.norm.eval()


def test_large_layers_are_looked_at_before_they_are_folded() -> None:
    """They are folded only in large batches, and were never compared in small ones."""

    class Large(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.pool, self.conv, self.norm = nn.AdaptiveAvgPool2d(2), nn.Conv2d(3, 64, 2), nn.BatchNorm2d(64)

        def forward(self, images: Any) -> Any:
            maps = self.conv(self.pool(images))
            with contextlib.suppress(Exception):
                maps.clamp_(-1, 1)
            return self.norm(maps).flatten(1)

    module = lively(Large())
    model, masks = bind(module, batch_size=256), some_masks(200)
    wanted = plain_scores(module, model, masks)
    np.testing.assert_allclose(model(masks), wanted, rtol=0, atol=CLOSE * np.abs(wanted).max())


def test_what_was_found_out_in_mixed_precision_is_another_matter(normalized: list[Any]) -> None:
    module = lively(Block(swallowing(lambda maps: maps.clamp_(-1, 1) and 0.0)))
    bind(module, autocast="bf16")(some_masks())
    check_scores(module, bind(module), normalized, folds=False)


def patched(owner: Any, name: str, change: Callable[[Any], Any]) -> Any:
    """Another method in place of one of torch, whose output it changes."""
    usual = getattr(owner, name)
    return patch.object(owner, name, lambda *values, **fields: change(usual(*values, **fields)))


class Doubling(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, function: Any, _types: Any, values: Any = (), fields: Any = None) -> Any:
        output = function(*values, **(fields or {}))
        return output * 2 if function is functional.batch_norm else output


@pytest.mark.parametrize(
    "change",
    [
        lambda: patched(nn.BatchNorm2d, "forward", lambda output: output * 2),
        lambda: patched(nn.Conv2d, "_conv_forward", lambda output: output * 2),
        Doubling,
    ],
    ids=["normalisations", "convolutions", "functions"],
)
def test_what_somebody_makes_of_torch_is_followed(change: Any, normalized: list[Any]) -> None:
    module = lively(Block())
    model, masks = bind(module), some_masks()
    check_scores(module, model, normalized, folds=True)
    before = model(masks)
    with change():
        wanted = plain_scores(module, model, masks)
        np.testing.assert_allclose(model(masks), wanted, rtol=0, atol=CLOSE * np.abs(wanted).max())
    assert np.abs(before - wanted).max() > 1000 * CLOSE


def test_numbers_that_compute_in_their_own_way_do_so(normalized: list[Any]) -> None:
    class Negated(nn.Parameter):
        @classmethod
        def __torch_function__(cls, function: Any, types: Any, values: Any = (), fields: Any = None) -> Any:
            with torch._C.DisableTorchFunctionSubclass():
                output = function(*values, **(fields or {}))
                return -output if function is torch.conv2d else output

    module = lively(Block())
    model = bind(module)
    check_scores(module, model, normalized, folds=True)
    module.conv.weight = Negated(module.conv.weight.data)
    check_scores(module, model, normalized, folds=False)


def test_numbers_that_do_not_fit_are_refused_as_ever() -> None:
    module = lively(Block())
    model = bind(module)
    model(some_masks())
    module.norm.running_mean = torch.zeros(1)
    with pytest.raises(RuntimeError, match="running_mean should contain"):
        model(some_masks())
    module.norm.running_mean = torch.zeros(6)
    model(some_masks())
    module.norm.running_mean.data = torch.zeros(1)
    with pytest.raises(RuntimeError, match="running_mean should contain"):
        model(some_masks())


def test_an_error_that_has_nothing_to_do_with_folding_is_raised_at_once() -> None:
    n_calls = 0

    def failing(block: Any, images: Any) -> Any:
        nonlocal n_calls
        n_calls += 1
        maps = block.norm(block.conv(images))
        if block.fails:
            raise RuntimeError("interrupted from outside")
        return maps

    module = lively(Block(failing))
    module.fails = False
    model = bind(module)
    model(some_masks())
    module.fails, n_calls = True, 0
    with pytest.raises(RuntimeError, match="interrupted from outside"):
        model(some_masks())
    assert n_calls == 1


def test_attributes_that_cannot_be_read_are_not() -> None:
    class Unready:
        def __getattr__(self, name: str) -> Any:
            raise RuntimeError("not configured yet")

    module = lively(Block())
    type(module).settings = Unready()
    try:
        model = bind(module)
        np.testing.assert_allclose(model(some_masks()), plain_scores(module, model, some_masks()), rtol=0, atol=1e-3)
    finally:
        del type(module).settings


# -- what the module keeps -----------------------------------------------------------------------------------


def test_what_a_module_writes_into_its_attributes_stays(normalized: list[Any]) -> None:
    def writing(block: Any, images: Any) -> Any:
        block.n_calls += 1
        block.seen = {"shape": images.shape}
        vars(block)["itself"], block.bound = block, block.extra_repr
        if block.late is None:
            block.late = nn.Linear(6, 6)  # made at the first call
            block.register_buffer("mark", torch.ones(1))
        if hasattr(block, "passing"):
            del block.passing
        return block.norm(block.conv(images))

    module = lively(Block(writing))
    module.n_calls, module.late, module.passing = 0, None, 1
    model = bind(module)
    model(some_masks())
    late, n_calls = module.late, module.n_calls
    normalized.clear()
    model(some_masks(5))
    assert normalized == [], "folded"
    assert module.n_calls == n_calls + 1
    assert isinstance(late, nn.Linear)
    assert module.late is late
    assert module.seen["shape"][0] == 5
    assert module.itself is module
    assert not hasattr(module, "passing")
    assert "mark" in dict(module.named_buffers())
    assert getattr(module, "bound", module.extra_repr).__self__ is module


def test_a_method_that_is_replaced_for_a_while_is_that_of_the_module_afterwards() -> None:
    def recording(block: Any, images: Any) -> Any:
        usual, seen = block.norm.forward, list[Any]()
        block.norm.forward = lambda maps: seen.append(usual(maps)) or seen[-1]
        maps = block.norm(block.conv(images))
        block.norm.forward = usual
        return maps + seen[0]

    module = lively(Block(recording))
    model = bind(module)
    wanted = plain_scores(module, model, some_masks())
    del module.norm.forward
    for _ in range(3):
        np.testing.assert_allclose(model(some_masks()), wanted, rtol=0, atol=CLOSE * np.abs(wanted).max())
        assert type(getattr(module.norm.forward, "__self__", None)) is nn.BatchNorm2d


def test_a_part_that_was_kept_computes_as_ever_after_its_call() -> None:
    def keeping(block: Any, images: Any) -> Any:
        kept.append(block.conv)
        return block.norm(block.conv(images))

    kept: list[Any] = []
    module = lively(Block(keeping))
    model = bind(module)
    model(some_masks())
    model(some_masks())
    images = torch.ones(1, 3, 4, 4)
    for conv in kept:
        torch.testing.assert_close(conv(images), module.conv(images))


def test_a_state_that_begins_with_the_first_images_is_a_real_one(normalized: list[Any]) -> None:
    """Only images of the user's and what hides them are ever computed, never noise: here its logarithm is NaN."""

    class Scaled(Block):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("scale", torch.zeros(()))

        def forward(self, images: Any) -> Any:
            if not self.scale:
                self.scale.copy_(images.log1p().mean())
            return super().forward(images / self.scale)

    module = lively(Scaled())
    module.scale.zero_()
    check_scores(module, bind(module), normalized, folds=True)


def test_classes_that_clean_up_or_keep_their_state_elsewhere_have_no_twins(normalized: list[Any]) -> None:
    ended: list[int] = []

    class Cleaning(Block):
        def __del__(self) -> None:
            ended.append(1)

    class Slotted(Block):
        __slots__ = ("share",)

        def forward(self, images: Any) -> Any:
            return super().forward(images) * self.share

    modules = [lively(Cleaning()), lively(Slotted())]
    for module in modules:
        if isinstance(module, Slotted):
            object.__setattr__(module, "share", 2.0)
        check_scores(module, bind(module), normalized, folds=False)
    assert ended == []


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
    module.stops, text, fingerprint = False, repr(module), fingerprint_live(module)
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
        assert fingerprint_live(copy.deepcopy(module)) == fingerprint
        assert fingerprint_live(module) == fingerprint
        assert repr(module) == text
        assert [type(part) for part in module.modules()] == [Block, nn.Conv2d, nn.BatchNorm2d, nn.Linear]
        assert "conv2d" in torch.fx.symbolic_trace(module.conv).code
        copies = [copy.deepcopy(module.conv), pickle.loads(pickle.dumps(module.conv)), copy.copy(module.norm)]
    finally:
        over.set()
        worker.join(60)
    assert [type(part) for part in copies] == [nn.Conv2d, nn.Conv2d, nn.BatchNorm2d]
    assert torch.equal(copies[0].weight, module.conv.weight)
    assert type(module.conv) is nn.Conv2d
    np.testing.assert_array_equal(found[0], beside)
    np.testing.assert_allclose(beside, wanted, rtol=0, atol=CLOSE * np.abs(wanted).max())


def test_threads_may_share_a_module_and_its_parts() -> None:
    backbone = lively(Block())
    models = [bind(backbone), bind(nn.Sequential(backbone, nn.Identity()).eval())]
    masks, changed = some_masks(), list[Any]()
    wanted = models[0](masks)
    np.testing.assert_array_equal(models[1](masks), wanted)

    def ask(number: int) -> Any:
        scores = models[number % 2](masks)
        changed.append(not np.array_equal(scores, wanted))
        return changed[-1]

    with ThreadPoolExecutor(4) as pool:
        assert not any(pool.map(ask, range(400)))
    assert type(backbone.conv) is nn.Conv2d


def test_a_part_whose_class_was_changed_meanwhile_keeps_it() -> None:
    def changing(block: Any, images: Any) -> Any:
        maps = block.norm(block.conv(images))
        if module.changes and not parametrize.is_parametrized(module.conv):
            parametrizations.weight_norm(module.conv)
        return maps

    module = lively(Block(changing))
    module.changes = False
    model = bind(module)
    wanted = model(some_masks())
    module.changes = True
    for _ in range(3):
        np.testing.assert_allclose(model(some_masks()), wanted, rtol=0, atol=CLOSE * np.abs(wanted).max())
    assert parametrize.is_parametrized(module.conv)
    assert type(module.norm) is nn.BatchNorm2d


def test_nothing_keeps_a_module_alive() -> None:
    module = lively(Block())
    model, conv = bind(module), weakref.ref(module.conv)
    model(some_masks())
    model(some_masks())
    gc.disable()
    try:
        del module, model
        assert conv() is None
    finally:
        gc.enable()


def test_what_is_folded_does_not_depend_on_the_first_image(normalized: list[Any]) -> None:
    module = lively(Block())
    bind_flat = mask_image(module, np.full((SIZE, SIZE, 3), 0.25, dtype=np.float32), groups=(3, 3), fill=0.25)
    bind_flat(some_masks())
    check_scores(module, bind(module), normalized, folds=True)


def test_other_pictures_are_folded_too(normalized: list[Any]) -> None:
    module = lively(Block())
    model = bind(module)
    pictures = np.random.default_rng(1).random((8, SIZE, SIZE, 3), dtype=np.float32)
    model.score_images(pictures)
    normalized.clear()
    scores = model.score_images(pictures)
    assert normalized == []
    with torch.no_grad():
        wanted = module(torch.from_numpy(pictures).permute(0, 3, 1, 2)).numpy()
    np.testing.assert_allclose(scores, wanted, rtol=0, atol=CLOSE * np.abs(wanted).max())


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
