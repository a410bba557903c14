"""Hidden patches removed from the sequence of a vision transformer, against attention masks written by hand."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch import nn
from transformers import (
    DeiTConfig,
    DeiTForImageClassification,
    DeiTForImageClassificationWithTeacher,
    ResNetConfig,
    ResNetForImageClassification,
    ViTConfig,
    ViTForImageClassification,
)

from holdfast import Evaluator, certify
from holdfast.errors import InvalidTypeError, InvalidValueError, ModelError
from holdfast.masking.image.mask_image import mask_image
from holdfast.masking.image.pixels import segments
from holdfast.types import Differentiable
from tests.helpers.contracts import check_masked_model
from tests.helpers.fakes import spread

torch.set_num_threads(1)

SIZE, PATCH, N_CLASSES = 16, 4, 4
CLOSE = 2e-6
SIZES = {
    "image_size": SIZE,
    "patch_size": PATCH,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "num_labels": N_CLASSES,
}
KINDS = {
    "vit": (ViTConfig, ViTForImageClassification),
    "deit": (DeiTConfig, DeiTForImageClassification),
    "deit with teacher": (DeiTConfig, DeiTForImageClassificationWithTeacher),
}


def make(kind: str = "vit", **changes: Any) -> Any:
    """A small transformer with lively random weights, in training mode as a careless caller might leave it."""
    config, network = KINDS[kind]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = network(config(**(SIZES | changes)))
        with torch.no_grad():
            for name, weight in module.named_parameters():
                if weight.ndim >= 2:
                    weight.normal_(std=1.0 if "embeddings" in name or "token" in name else 0.3)
    return module.train()


def picture(*, height: int = SIZE, width: int = SIZE, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).random((3, height, width), dtype=np.float32))


def attended_by_hand(module: Any, image: torch.Tensor, shown: Any) -> Any:
    """Logits of the whole sequence with attention of -inf to hidden patches (n_patches,), block by block."""
    module.eval()
    base = module.base_model
    with torch.no_grad():
        hidden = base.embeddings(image[None])
        n_special = hidden.shape[1] - len(shown)
        open_to = torch.tensor([True] * n_special + list(map(bool, shown)))
        for block in base.layers:
            hidden = hidden + _attend(block.attention, block.layernorm_before(hidden), open_to)
            inner = block.mlp.fc1(block.layernorm_after(hidden))
            hidden = hidden + block.mlp.fc2(nn.functional.gelu(inner))
        final = base.layernorm(hidden)
        if hasattr(module, "classifier"):
            return module.classifier(final[:, 0])[0].numpy()
        heads = module.cls_classifier(final[:, 0]), module.distillation_classifier(final[:, 1])
        return ((heads[0] + heads[1]) / 2)[0].numpy()


def _attend(attention: Any, tokens: Any, open_to: Any) -> Any:
    n_heads, width = attention.num_attention_heads, attention.head_dim
    query, key, value = (
        part(tokens)[0].view(-1, n_heads, width).transpose(0, 1)
        for part in (attention.q_proj, attention.k_proj, attention.v_proj)
    )
    weights = (query @ key.transpose(1, 2) / width**0.5).masked_fill(~open_to, -torch.inf).softmax(dim=-1)
    return attention.o_proj((weights @ value).transpose(0, 1).reshape(1, -1, n_heads * width))


class OnlyPixels(nn.Module):
    """A transformer that cannot be told what to attend to, as in earlier releases."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner, self.config = inner, inner.config

    def forward(self, pixel_values: Any) -> Any:
        return self.inner(pixel_values=pixel_values)


# -- what it computes ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_removed_patches_are_patches_that_nothing_attends_to(kind: str) -> None:
    module, image = make(kind), picture()
    model = mask_image(module, image, fill="drop")
    masks = spread()
    wanted = np.stack([attended_by_hand(module, image, mask) for mask in masks])
    np.testing.assert_allclose(model(masks), wanted, rtol=0, atol=CLOSE)
    assert np.ptp(wanted, axis=0).max() > 0.5, "every mask got the same scores"


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_cannot_be_filled_up_go_with_others_of_their_length(kind: str) -> None:
    module, image = make(kind), picture()
    whole, plain = (mask_image(one, image, fill="drop") for one in (module, OnlyPixels(module)))
    assert whole.patches.overhead > 0  # type: ignore[attr-defined]
    assert plain.patches.overhead == 0  # type: ignore[attr-defined]
    np.testing.assert_allclose(plain(spread()), whole(spread()), rtol=0, atol=CLOSE)
    with counting(module) as shapes:
        plain(spread())
    assert sorted(tokens for _, tokens in shapes) == sorted({tokens for _, tokens in shapes})
    assert sum(rows for rows, _ in shapes) == 40


@pytest.mark.parametrize("kind", KINDS)
def test_with_every_patch_kept_it_is_the_plain_module(kind: str) -> None:
    module, image = make(kind), picture()
    model = mask_image(module, image, fill="drop")
    with torch.no_grad():
        direct = module.eval()(pixel_values=image[None]).logits.numpy()
    np.testing.assert_allclose(model(np.ones((1, 16), dtype=bool)), direct, rtol=0, atol=CLOSE)


def test_it_keeps_the_contract_and_is_another_question_than_zeros() -> None:
    module, image = make(), picture()
    dropped, zeroed = (mask_image(module, image, groups=(4, 4), fill=fill) for fill in ("drop", 0.0))
    check_masked_model(dropped, tolerance=CLOSE)
    assert dropped.provenance.masking == "grid 4×4, fill patch drop"
    assert zeroed.provenance.masking == "grid 4×4, fill constant 0.0"
    assert np.abs(dropped(spread()) - zeroed(spread())).max() > 0.1
    cert = certify(dropped, np.arange(16) < 4, radius=3, rng=0)
    assert cert.provenance == dropped.provenance


def test_features_are_unions_of_patches_and_the_rest_is_always_kept() -> None:
    module, image = make(), picture()
    labels = np.array([[0, 0, 1, 1], [0, 2, 2, 1], [-1, -1, 3, 3], [0, -1, 3, 1]])
    model = mask_image(module, image, groups=segments(labels.repeat(PATCH, axis=0).repeat(PATCH, axis=1)), fill="drop")
    masks = spread(4, 12)
    wanted = [attended_by_hand(module, image, [one < 0 or mask[one] for one in labels.ravel()]) for mask in masks]
    np.testing.assert_allclose(model(masks), wanted, rtol=0, atol=CLOSE)


def test_the_default_features_are_the_models_patches_in_oblong_images_too() -> None:
    module, image = make(image_size=(8, 24), patch_size=4), picture(height=8, width=24)
    model = mask_image(module, image, fill="drop")
    assert model.n_features == 12
    assert model.provenance.masking == "grid 2×6, fill patch drop"
    masks = spread(12, 12)
    wanted = [attended_by_hand(module, image, mask) for mask in masks]
    np.testing.assert_allclose(model(masks), wanted, rtol=0, atol=CLOSE)


class Shuffled(nn.Module):
    """Embeddings whose patches stand in another order."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner, self.patch_embeddings = inner, inner.patch_embeddings
        self.order = [0, *(1 + np.random.default_rng(0).permutation(16)).tolist()]

    def forward(self, pixel_values: Any, **options: Any) -> Any:
        return self.inner(pixel_values, **options)[:, self.order]


def test_which_token_belongs_to_which_patch_is_found_out_and_not_assumed() -> None:
    module, image = make(), picture()
    wanted = [attended_by_hand(module, image, mask) for mask in spread()]
    module.vit.embeddings = Shuffled(module.vit.embeddings)
    np.testing.assert_allclose(mask_image(module, image, fill="drop")(spread()), wanted, rtol=0, atol=CLOSE)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_number_types_are_computed_in_themselves(dtype: Any) -> None:
    module, image = make(), picture()
    exact = mask_image(module, image, fill="drop")(spread())
    model = mask_image(make().to(dtype), image, fill="drop", dtype=dtype)
    np.testing.assert_allclose(model(spread()), exact, rtol=0, atol=0.3 if dtype == torch.bfloat16 else CLOSE)


def test_softmax_and_gradients_work_as_for_other_fills() -> None:
    module, image = make(), picture()
    raw, soft = (mask_image(module, image, fill="drop", softmax=on) for on in (False, True))
    powers = np.exp(raw(spread()))
    np.testing.assert_allclose(soft(spread()), powers / powers.sum(axis=1, keepdims=True), atol=CLOSE)
    assert isinstance(raw, Differentiable)
    assert not raw.baseline.any()
    scores, slope = raw.gradient(raw.elements[None], 1)
    np.testing.assert_allclose(scores, raw(np.ones((1, 16), dtype=bool)), atol=CLOSE)
    assert slope.any()


# -- what it costs, and what it leaves behind -----------------------------------------------------------


@contextmanager
def counting(module: Any) -> Iterator[list[tuple[int, int]]]:
    """The shapes (rows, tokens) that reach the first block of a transformer."""
    shapes: list[tuple[int, int]] = []
    first = module.base_model.layers[0]
    hook = first.register_forward_pre_hook(lambda _block, given: shapes.append(tuple(given[0].shape[:2])))
    yield shapes
    hook.remove()


def test_hidden_patches_are_not_computed() -> None:
    module = make(image_size=32, hidden_size=128, intermediate_size=256)
    model = mask_image(module, picture(height=32, width=32), fill="drop")
    masks = np.random.default_rng(0).random((64, 64)) < 0.25
    with counting(module) as shapes:
        model(masks)
    assert sum(rows for rows, _ in shapes) == 64
    computed, kept = sum(rows * tokens for rows, tokens in shapes), int(masks.sum()) + 64
    assert kept <= computed <= 1.3 * kept


def test_what_was_learnt_of_a_module_serves_its_next_image() -> None:
    module = make()
    with counting(module) as shapes:
        mask_image(module, picture(), fill="drop")
        first = len(shapes)
        mask_image(module, picture(seed=1), groups=(2, 2), fill="drop")
    assert len(shapes) == first
    assert sum(rows * tokens for rows, tokens in shapes) <= 6 * 8 + 7 * 17, "about as much as eight images"


def test_nothing_of_the_callers_changes_even_after_an_error() -> None:
    module = make()
    module.classifier.eval()
    modes = [part.training for part in module.modules()]
    state = torch.get_rng_state()
    model = mask_image(module, picture(), fill="drop")
    model(spread())
    with pytest.raises(InvalidTypeError):
        mask_image(make_beit(), picture(), fill="drop")
    assert [part.training for part in module.modules()] == modes
    assert not any(part._forward_hooks for part in module.modules())
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.is_grad_enabled()


def test_threads_do_not_see_each_others_patches() -> None:
    module, image = make(), picture()
    dropped, zeroed = (mask_image(module.eval(), image, groups=(4, 4), fill=fill) for fill in ("drop", 0.0))
    questions = [(model, spread(seed=seed)) for seed in range(12) for model in (dropped, zeroed)]
    wanted = [model(masks) for model, masks in questions]
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda question: question[0](question[1]), questions))
    for found, right in zip(answers, wanted, strict=True):
        np.testing.assert_allclose(found, right, rtol=0, atol=CLOSE)


def test_a_bound_image_survives_a_copy_to_another_process() -> None:
    model = mask_image(make(), picture(), fill="drop")
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model))(spread()), model(spread()))


# -- what is refused --------------------------------------------------------------------------------------


def make_beit(**options: Any) -> Any:
    config = transformers.BeitConfig(**SIZES, **options)
    with torch.random.fork_rng(devices=[]):
        return transformers.BeitForImageClassification(config)


def make_swin() -> Any:
    config = transformers.SwinConfig(
        image_size=SIZE, patch_size=2, embed_dim=8, depths=[1, 1], num_heads=[1, 1], window_size=2
    )
    return transformers.SwinForImageClassification(config)


def make_resnet() -> Any:
    config = ResNetConfig(embedding_size=8, hidden_sizes=[8, 8], depths=[1, 1], layer_type="basic")
    return ResNetForImageClassification(config)


class Blurred(nn.Module):
    """Embeddings of a blurred image: each token knows its neighbours."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner, self.patch_embeddings = inner, inner.patch_embeddings

    def forward(self, pixel_values: Any, **options: Any) -> Any:
        return self.inner(nn.functional.avg_pool2d(pixel_values, 3, 1, 1), **options)


class Reading(nn.Module):
    """A block that adds to each token something of its place in the sequence."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, hidden: Any, *given: Any, **options: Any) -> Any:
        places = torch.arange(hidden.shape[1])[None, :, None] * torch.eye(hidden.shape[2])[0]
        return self.inner(hidden + 0.01 * places, *given, **options)


def make_odd(part: str) -> Any:
    module = make()
    if part == "embeddings":
        module.vit.embeddings = Blurred(module.vit.embeddings)
    else:
        module.vit.layers[0] = Reading(module.vit.layers[0])
    return module


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (make_resnet, "it has no part with `patch_embeddings`"),
        (make_swin, "its embeddings are not a sequence of tokens"),
        (lambda: make_beit(use_relative_position_bias=True), "it does not run on fewer tokens"),
        (make_beit, "it has no answer when every patch is hidden"),  # the mean over patches
        (lambda: make_odd("embeddings"), "its tokens are not one per patch"),
        (lambda: make_odd("block"), "its answer depends on the order of its tokens"),
    ],
    ids=["convolutions", "windows", "relative positions", "mean", "overlapping patches", "positions in blocks"],
)
def test_modules_whose_patches_cannot_be_removed_are_refused_with_the_reason(module: Any, reason: str) -> None:
    with pytest.raises(
        InvalidTypeError, match=rf"^`fill='drop'` needs a vision transformer .*this module is not: {reason}"
    ):
        mask_image(module(), picture(), fill="drop")


def test_a_module_that_embeds_twice_is_refused() -> None:
    class Twice(OnlyPixels):
        def forward(self, pixel_values: Any) -> Any:
            return self.inner(pixel_values=pixel_values).logits + self.inner(pixel_values=pixel_values).logits

    with pytest.raises(InvalidTypeError, match="it does not embed every image once"):
        mask_image(Twice(make()), picture(), fill="drop")


def test_a_module_that_stops_embedding_is_found_out() -> None:
    class Fickle(OnlyPixels):
        answer: Any = None

        def forward(self, pixel_values: Any) -> Any:
            return self.inner(pixel_values=pixel_values).logits if self.answer is None else self.answer

    module = Fickle(make())
    model = mask_image(module, picture(), fill="drop")
    module.answer = torch.zeros(40, N_CLASSES)
    with pytest.raises(ModelError, match=r"^The module must compute its embeddings once per call, got 0 times\."):
        model(spread())


@pytest.mark.parametrize("groups", [(2, 3), (8, 8), (5, 4)])
def test_features_that_cut_through_patches_are_refused_before_any_call(groups: tuple[int, int]) -> None:
    module = make()
    with (
        counting(module) as shapes,
        pytest.raises(
            InvalidValueError,
            match=r"^`groups` must be unions of the model's patches of 4×4 pixels .* row \d, column \d .*"
            r"Use `groups=\(4, 4\)`\.",
        ),
    ):
        mask_image(module, picture(), groups=groups, fill="drop")
    assert shapes == []


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"image": picture(height=18)},
            InvalidValueError,
            r"`image` must divide into patches of 4×4 pixels .* 18×16\.",
        ),
        ({"compile": True}, InvalidValueError, r"`compile` must be False for `fill='drop'`"),
        (
            {"preprocess": lambda image: image, "fill_stage": "before"},
            InvalidValueError,
            r"`fill_stage` must be left out for `fill='drop'`, got 'before'\.",
        ),
        ({"classifier": lambda batch: batch}, InvalidTypeError, r"`fill='drop'` works only with a vision transformer"),
    ],
)
def test_options_that_do_not_go_with_it_are_refused(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    given = {"classifier": make(), "image": picture()} | options
    with pytest.raises(error, match=f"^{message}"):
        mask_image(given.pop("classifier"), given.pop("image"), fill="drop", **given)


def test_rows_of_like_length_go_together_over_all_that_is_asked_at_once() -> None:
    module = make(hidden_size=128, intermediate_size=256)
    model = mask_image(module, picture(), fill="drop")
    masks = spread(16, 96)
    with counting(module) as shapes:
        answers = Evaluator(model, batch_size=12)(masks)
    lengths = [tokens for _, tokens in shapes]
    assert lengths == sorted(lengths)
    assert sum(rows for rows, _ in shapes) == len({tuple(mask) for mask in masks.tolist()})
    np.testing.assert_allclose(answers, model(masks), rtol=0, atol=3e-5)
    assert mask_image(module, picture(), groups=(4, 4)).row_costs is None  # type: ignore[attr-defined]


def compiled_in_place(module: Any) -> Any:
    module.compile(backend="eager")
    return module


def with_compiled_layers(module: Any) -> Any:
    for layer in module.vit.layers:
        layer.compile(backend="eager")
    return module


@pytest.mark.parametrize(
    "compiled",
    [lambda module: torch.compile(module, backend="eager"), compiled_in_place, with_compiled_layers],
    ids=["wrapped", "in place", "layers"],
)
def test_patches_are_removed_from_compiled_modules_too(compiled: Any) -> None:
    image = picture()
    module = compiled(make())
    model, plain = mask_image(module, image, fill="drop"), mask_image(make(), image, fill="drop")
    np.testing.assert_allclose(model(spread()), plain(spread()), rtol=0, atol=CLOSE)
    inner = getattr(module, "_orig_mod", module)
    with counting(inner) as shapes:
        mask_image(module, image, fill="drop")(np.arange(16)[None] < 4)
    assert shapes[-1] == (1, 5), "the class token and four patches"
    assert len(shapes) == 1, "checked once"
    assert all(part.training for part in inner.modules()), "as the caller left it"


def test_a_module_compiled_as_a_whole_has_the_fingerprint_of_what_is_computed() -> None:
    dropped = [
        mask_image(module, picture(), fill="drop") for module in (make(), torch.compile(make(), backend="eager"))
    ]
    assert dropped[0].provenance == dropped[1].provenance


def test_new_weights_of_a_module_compiled_in_place_are_used() -> None:
    module, image = compiled_in_place(make()), picture()
    mask_image(module, image, fill="drop")
    with torch.no_grad():
        module.classifier.weight.mul_(2)
    direct = attended_by_hand(module, image, np.ones(16, dtype=bool))
    found = mask_image(module, image, fill="drop")(np.ones((1, 16), dtype=bool))
    np.testing.assert_allclose(found[0], direct, rtol=0, atol=CLOSE)


def test_embeddings_inside_a_compiled_part_are_refused_since_every_patch_would_be_computed() -> None:
    wrapped, in_place, embedding = make(), make(), make()
    wrapped.vit = torch.compile(wrapped.vit, backend="eager")
    in_place.vit.compile(backend="eager")
    embedding.vit.embeddings.compile(backend="eager")
    for module in (wrapped, in_place, embedding):
        with pytest.raises(InvalidTypeError, match=r"^`classifier` must keep its embeddings uncompiled"):
            mask_image(module, picture(), fill="drop")


def test_a_preprocessing_comes_before_the_removal() -> None:
    module, image = make(), picture()
    model = mask_image(module, image * 2 + 1, preprocess=lambda given: (given - 1) / 2, fill="drop")
    assert model.provenance.masking == "grid 4×4, fill patch drop"
    plain = mask_image(module, (image * 2 + 1 - 1) / 2, fill="drop")
    np.testing.assert_array_equal(model(spread()), plain(spread()))
