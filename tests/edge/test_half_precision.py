"""Models in half precision: what is left out changes scores by no more than the model's own rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from transformers import BertConfig, BertForSequenceClassification, ViTConfig, ViTForImageClassification

from holdfast import certify
from holdfast.errors import InvalidTypeError
from holdfast.masking.image.mask_image import mask_image
from holdfast.masking.speed import same_scores
from holdfast.masking.text.mask_text import mask_text
from tests.helpers.fakes import spread
from tests.helpers.tiny_texts import bert_tokenizer, lively, seeded, sizes

torch.set_num_threads(1)

HALVES = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "fp16"])
TEXT = " ".join(["the goodness of a unhappy day . not bad !"] * 3)
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}


def make_bert(dtype: Any, *, scale: float = 4.0) -> Any:
    with seeded(0):
        module = BertForSequenceClassification(BertConfig(**sizes(), max_position_embeddings=200, pad_token_id=1))
    return lively(module, scale).eval().to(dtype)


def make_vit(dtype: Any, *, scale: float = 4.0) -> Any:
    with seeded(0):
        module = ViTForImageClassification(ViTConfig(image_size=32, patch_size=8, num_labels=4, **SIZES))
    return lively(module, scale).eval().to(dtype)


def rounding_of(plain: Any, exact: Any, dtype: Any) -> float:
    """How far the plain computation in half precision is from that in float32, and a few steps of rounding at least."""
    steps = 4 * torch.finfo(dtype).eps * np.abs(exact).max()
    return float(max(np.abs(plain - exact).max(), steps))


def check_like_plain(found: Any, plain: Any, exact: Any, dtype: Any) -> None:
    """About as near to the exact scores as the plain ones, and with their top classes but for near ties."""
    rounding = rounding_of(plain, exact, dtype)
    assert np.abs(found - exact).max() <= 2 * rounding
    assert np.abs(found - plain).max() <= 3 * rounding
    two = np.sort(exact, axis=1)[:, -2:]
    clear = two[:, 1] - two[:, 0] > 4 * rounding
    assert clear.mean() > 0.2, "every row is a near tie"
    np.testing.assert_array_equal(found[clear].argmax(axis=1), plain[clear].argmax(axis=1))


def masked_by_hand(module: Any, model: Any, masks: Any) -> Any:
    """Logits of the whole text, one row at a time, with attention only to what is shown."""
    rows = []
    for mask in masks:
        shown = torch.tensor([[bool(group < 0 or mask[group]) for group in model.groups]])
        fields = {name: row[None] for name, row in model.tokens.fields.items()}
        with torch.no_grad():
            rows.append(module(**fields | {"attention_mask": shown.long()}).logits.float().numpy())
    return np.concatenate(rows)


@HALVES
def test_removed_tokens_differ_from_masked_ones_by_the_rounding_of_the_model(dtype: Any) -> None:
    half, full = make_bert(dtype), make_bert(dtype).float()  # the same weights
    model: Any = mask_text(half, TEXT, tokenizer=bert_tokenizer(), dtype=dtype)
    assert model.removes_tokens
    masks = spread(model.n_features, 60)
    plain, exact = masked_by_hand(half, model, masks), masked_by_hand(full, model, masks)
    check_like_plain(model(masks), plain, exact, dtype)
    together, alone = model(masks), np.concatenate([model(mask[None]) for mask in masks])
    check_like_plain(together, alone, exact, dtype)


@HALVES
def test_removed_patches_differ_from_unattended_ones_by_the_rounding_of_the_model(dtype: Any) -> None:
    half, full = make_vit(dtype), make_vit(dtype).float()
    image = torch.from_numpy(np.random.default_rng(0).random((3, 32, 32), dtype=np.float32))
    model, exact_model = (
        mask_image(module, image.to(kind), fill="drop", dtype=kind) for module, kind in ((half, dtype), (full, None))
    )
    masks = spread(16, 60)
    exact, columns = exact_model(masks), np.concatenate([np.ones((60, 1), dtype=bool), masks], axis=1)
    with torch.no_grad():
        plain = half(image.to(dtype).expand(60, -1, -1, -1), attention_mask=torch.from_numpy(columns).long())
    check_like_plain(model(masks), plain.logits.float().numpy(), exact, dtype)


@HALVES
def test_a_certificate_in_half_precision_counts_what_the_plain_computation_counts(dtype: Any) -> None:
    half = make_bert(dtype)
    model: Any = mask_text(half, "good day", tokenizer=bert_tokenizer(), dtype=dtype)
    certificate = certify(model, np.zeros(2, dtype=bool), radius=2, rng=0)
    masks = np.array([[False, False], [True, False], [False, True], [True, True]])
    classes = masked_by_hand(half, model, masks).argmax(axis=1)
    assert certificate.exact
    assert certificate.n_agreed == (classes == classes[0]).sum()


class OwnPositions(nn.Module):
    """Takes positions and does not use them; its scores hardly vary, so that half precision alone cannot tell."""

    def __init__(self, dtype: Any) -> None:
        super().__init__()
        self.inner = make_bert(dtype, scale=0.5)
        self.config = self.inner.config

    def forward(self, input_ids: Any, attention_mask: Any, position_ids: Any = None) -> Any:
        return self.inner(input_ids=input_ids, attention_mask=attention_mask)


@HALVES
def test_what_rounding_would_hide_is_found_in_full_precision(dtype: Any) -> None:
    module = OwnPositions(dtype)
    model: Any = mask_text(module, TEXT, tokenizer=bert_tokenizer(), dtype=dtype)
    assert not model.removes_tokens
    masks = spread(model.n_features, 8)
    np.testing.assert_allclose(model(masks), masked_by_hand(module, model, masks), rtol=0, atol=0.02)
    assert dtype in {weight.dtype for weight in module.parameters()}, "the module itself stays as it is"


class OrderedLayer(nn.Module):
    """A layer in which a token sees a little of the one before it."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, hidden: Any, *args: Any, **fields: Any) -> Any:
        return self.inner(hidden + 0.02 * hidden.roll(1, dims=1), *args, **fields)


@HALVES
def test_a_vision_transformer_with_an_order_that_rounding_would_hide_is_refused(dtype: Any) -> None:
    module = make_vit(dtype)
    module.vit.layers[0] = OrderedLayer(module.vit.layers[0])
    with pytest.raises(InvalidTypeError, match="its answer depends on the order of its tokens"):
        mask_image(module, torch.rand(3, 32, 32).to(dtype), fill="drop", dtype=dtype)


@HALVES
def test_in_half_precision_classes_may_change_places_only_as_near_as_its_rounding(dtype: Any) -> None:
    step = torch.finfo(dtype).eps
    wanted = torch.tensor([[1.0, 1.0 + step], [0.0, 1.0]], dtype=dtype)
    near, far = wanted.clone(), wanted.clone()
    near[0] = torch.tensor([1.0 + step, 1.0])
    far[1] = torch.tensor([1.0, 0.0])
    assert same_scores(near, wanted)
    assert not same_scores(far, wanted)
    assert not same_scores(torch.full_like(wanted, torch.nan), wanted)
