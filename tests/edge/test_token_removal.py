"""Hidden tokens left out: the scores of attention masking, checked for every architecture, never assumed."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from holdfast import Evaluator, certify
from holdfast.masking.speed import group_by_length, pass_overhead, same_scores
from holdfast.masking.text.mask_text import mask_text
from holdfast.masking.torch import notes_of
from tests.helpers.contracts import bits, check_masked_model
from tests.helpers.fakes import spread
from tests.helpers.tiny_texts import (
    TEXT,
    ask_directly,
    bert,
    bert_tokenizer,
    byte_tokenizer,
    lively,
    roberta,
    roberta_tokenizer,
    seeded,
    sizes,
)

torch.set_num_threads(1)

LONG = " ".join(["the goodness of a unhappy day . not bad !"] * 6)
"""74 tokens."""

CLOSE = 3e-6
SIZES = sizes() | {"max_position_embeddings": 200, "pad_token_id": 1}


def make(name: str, *, scale: float = 12.0, **changes: Any) -> Any:
    """A small classifier of this architecture with lively random weights."""
    config = getattr(transformers, f"{name}Config")(**(SIZES | changes))
    with seeded(0):
        module = getattr(transformers, f"{name}ForSequenceClassification")(config)
    return lively(module, scale).eval()


def bind(module: Any, text: str = TEXT, **options: Any) -> Any:
    return mask_text(module, text, tokenizer=bert_tokenizer(), **options)


def masked_by_hand(module: Any, model: Any, masks: Any) -> Any:
    """Logits of a plain call on the whole text, with attention only to what is shown."""
    fields = {name: row.repeat(len(masks), 1) for name, row in model.tokens.fields.items()}
    shown = [[group < 0 or mask[group] for group in model.groups] for mask in masks]
    return ask_directly(module, **fields | {"attention_mask": torch.tensor(shown).long()})


@contextmanager
def counting(module: Any) -> Iterator[list[tuple[int, int]]]:
    """The shapes (rows, tokens) of every call of a module."""
    shapes: list[tuple[int, int]] = []
    hook = module.register_forward_pre_hook(
        lambda _module, _args, fields: shapes.append(tuple(fields["input_ids"].shape)), with_kwargs=True
    )
    yield shapes
    hook.remove()


# -- exact or not at all ----------------------------------------------------------------------------

EXACT: dict[str, dict[str, Any]] = {
    "Bert": {},
    "Roberta": {},
    "XLMRoberta": {},
    "Electra": {"embedding_size": 16},
    "Albert": {"embedding_size": 8},
    "MegatronBert": {},
}
INEXACT: dict[str, dict[str, Any]] = {
    "MPNet": {},  # relative positions, counted along the sequence
    "DebertaV2": {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]},
    "GPT2": {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 200},  # classifies by the last token
    "ConvBert": {"embedding_size": 16, "head_ratio": 1},  # convolutions over neighbours
    "RoFormer": {"embedding_size": 16},  # takes no positions
    "Longformer": {"attention_window": 4},
    "BigBird": {"block_size": 4, "num_random_blocks": 1, "attention_type": "block_sparse"},
}


@pytest.mark.parametrize("text", [TEXT, LONG], ids=["short", "long"])
@pytest.mark.parametrize("name", EXACT)
def test_removed_tokens_give_the_scores_of_attention_masking(name: str, text: str) -> None:
    module = make(name, **EXACT[name])
    model = bind(module, text)
    masks = spread(model.n_features)
    found, wanted = model(masks), masked_by_hand(module, model, masks)
    assert model.removes_tokens
    np.testing.assert_allclose(found, wanted, rtol=0, atol=CLOSE)
    assert np.ptp(wanted, axis=0).max() > 0.05, "every mask got the same scores"


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # DeBERTa's own
@pytest.mark.parametrize("name", INEXACT)
def test_where_removal_is_not_exact_tokens_are_masked(name: str) -> None:
    module = make(name, **INEXACT[name])
    model = bind(module, LONG)
    masks = spread(model.n_features, 8)
    assert not model.removes_tokens
    np.testing.assert_array_equal(model(masks), masked_by_hand(module, model, masks))


class OwnPositions(nn.Module):
    """Takes positions and does not use them: those that it counts itself are wrong for fewer tokens."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.inner = make("Bert", scale=scale)
        self.config = self.inner.config

    def forward(self, input_ids: Any, attention_mask: Any, position_ids: Any = None) -> Any:
        return self.inner(input_ids=input_ids, attention_mask=attention_mask)


@pytest.mark.parametrize("scale", [1.0, 12.0])
def test_a_module_that_ignores_positions_is_found_out_however_little_its_scores_vary(scale: float) -> None:
    assert not bind(OwnPositions(scale), LONG).removes_tokens
    assert bind(make("Bert", scale=scale), LONG).removes_tokens


def test_attention_in_windows_is_found_out_at_the_length_where_it_matters() -> None:
    own = {"cls_token_id": 0, "sep_token_id": 2, "bos_token_id": 0, "eos_token_id": 2}
    module = make("ModernBert", local_attention=32, global_attn_every_n_layers=2, **own)
    short, long = bind(module), bind(module, LONG)
    assert [short.removes_tokens, long.removes_tokens, short.removes_tokens] == [True, False, True]
    for model in (short, long):
        masks = spread(model.n_features)
        np.testing.assert_allclose(model(masks), masked_by_hand(module, model, masks), rtol=0, atol=2e-5)


def test_a_check_that_would_change_the_module_is_not_made() -> None:
    module = make("BigBird", **INEXACT["BigBird"])
    bind(module, LONG)(spread(72, 4))
    assert module.bert.attention_type == "block_sparse"


def test_a_padding_token_in_the_text_is_masked_the_slow_way() -> None:
    module, tokenizer = roberta(), roberta_tokenizer()
    model: Any = mask_text(module, "good <pad> bad day", tokenizer=tokenizer)
    assert 1 in model.tokens.fields["input_ids"]
    assert not model.removes_tokens
    masks = spread(model.n_features)
    np.testing.assert_array_equal(model(masks), masked_by_hand(module, model, masks))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_warned_of_and_checked(dtype: Any) -> None:
    with pytest.warns(UserWarning, match=r"on a CPU, which can be many times slower .* `model\.float\(\)`"):
        assert bind(bert().to(dtype)).removes_tokens
    assert bind(bert().double()).removes_tokens


@pytest.mark.parametrize("fill", ["mask", "pad", "delete"])
def test_only_tokens_that_are_not_attended_to_are_removed(fill: str) -> None:
    model = bind(bert(), fill=fill)
    assert not model.removes_tokens


def test_a_text_whose_first_token_may_be_hidden_is_masked_for_models_that_classify_by_it() -> None:
    module = bert()
    model: Any = mask_text(module, "a bc d", tokenizer=byte_tokenizer())
    assert not model.removes_tokens
    masks = spread(model.n_features)
    np.testing.assert_array_equal(model(masks), masked_by_hand(module, model, masks))


class MeanOfTokens(nn.Module):
    """The mean over the tokens attended to; over none of them it is what stands first in the text."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.words, self.places = nn.Embedding(300, 3), nn.Embedding(99, 3)

    def forward(self, input_ids: Any, attention_mask: Any, position_ids: Any = None) -> Any:
        places = torch.arange(input_ids.shape[1])[None] if position_ids is None else position_ids
        tokens = self.words(input_ids) * self.places(places)
        mean = (tokens * attention_mask[..., None]).sum(1) / attention_mask.sum(1, keepdim=True).clamp(min=1)
        return torch.where(attention_mask.any(1, keepdim=True), mean, tokens[:, 0])


def test_a_text_without_special_tokens_keeps_its_answer_to_the_empty_mask() -> None:
    """Nothing is attended to then, which has no shorter form."""
    module = MeanOfTokens()
    model: Any = mask_text(module, "a bc d", tokenizer=byte_tokenizer())
    assert model.removes_tokens
    masks = spread(model.n_features)
    ids, places = model.tokens.fields["input_ids"], torch.arange(len(model.groups))
    tokens = (module.words(ids) * module.places(places)).detach().numpy()
    wanted = [tokens[mask].mean(axis=0) if mask.any() else tokens[0] for mask in masks]
    np.testing.assert_allclose(model(masks), wanted, rtol=0, atol=CLOSE)
    check_masked_model(model, tolerance=CLOSE)


def test_softmax_and_words_and_segments_are_the_same_without_hidden_tokens() -> None:
    module = make("Roberta")
    for options in ({"softmax": True}, {"features": "words"}, {"segments": ["the goodness", "a unhappy day"]}):
        model = bind(module, **options)
        masks = spread(model.n_features)
        wanted = masked_by_hand(module, model, masks)
        if "softmax" in options:
            wanted = np.exp(wanted) / np.exp(wanted).sum(axis=1, keepdims=True)
        np.testing.assert_allclose(model(masks), wanted, rtol=0, atol=CLOSE)


# -- each mask on its own ----------------------------------------------------------------------------


def test_an_answer_does_not_depend_on_the_masks_it_is_asked_with() -> None:
    module = make("Bert")
    model = bind(module, LONG)
    check_masked_model(model, tolerance=CLOSE)
    masks = spread(model.n_features, 60)
    alone = np.concatenate([model(mask[None]) for mask in masks])
    order = np.random.default_rng(1).permutation(60)
    np.testing.assert_allclose(model(masks), alone, rtol=0, atol=CLOSE)
    np.testing.assert_allclose(model(masks[order]), alone[order], rtol=0, atol=CLOSE)


def test_certificates_are_those_of_attention_masking() -> None:
    module, selected = make("Roberta"), np.arange(8) % 3 == 0
    removing, masking = bind(module), bind(_Plain(module))
    assert removing.removes_tokens
    assert not masking.removes_tokens
    ours, theirs = (certify(model, selected, radius=3, rng=0) for model in (removing, masking))
    assert ours.provenance.masking == theirs.provenance.masking
    assert replace(ours, provenance=theirs.provenance) == theirs, "counts, calls and prediction"


class _Plain(nn.Module):
    """A module behind a signature without positions."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner, self.config = inner, inner.config

    def forward(self, input_ids: Any, attention_mask: Any) -> Any:
        return self.inner(input_ids=input_ids, attention_mask=attention_mask)


# -- what it costs -----------------------------------------------------------------------------------


def test_hidden_tokens_are_not_computed() -> None:
    module = make("Bert", hidden_size=128, intermediate_size=256)
    model = bind(module, LONG)
    masks = np.random.default_rng(0).random((64, model.n_features)) < 0.25
    assert model.removes_tokens
    with counting(module) as shapes:
        model(masks)
    assert sum(rows for rows, _ in shapes) == 64
    computed = sum(rows * tokens for rows, tokens in shapes)
    shown = int(masks.sum()) + 2 * 64
    assert shown <= computed <= 1.3 * shown
    assert computed < 0.4 * 64 * 74


def test_rows_of_like_length_go_together_over_all_that_is_asked_at_once() -> None:
    """Within batches of 16 rows alone, more tokens would be filled up, and there would be more passes."""
    module = make("Bert", hidden_size=128, intermediate_size=256)
    model = bind(module, LONG)
    masks = np.random.default_rng(0).random((128, model.n_features)) < np.random.default_rng(1).random((128, 1))
    assert model.row_costs is None, "nothing is known before the first call, and no call is made to find out"
    as_drawn = np.concatenate([model(masks[start : start + 16]) for start in range(0, 128, 16)])
    computed = []
    for ask in (Evaluator(model, batch_size=16), lambda masks: [model(masks[i : i + 16]) for i in range(0, 128, 16)]):
        with counting(module) as shapes:
            answers = ask(masks)
        passes = len(shapes) * pass_overhead(module, module.device)
        computed.append(passes + sum(rows * tokens for rows, tokens in shapes))
        assert sum(rows for rows, _ in shapes) == 128
        np.testing.assert_allclose(
            np.reshape(answers, (128, -1)), as_drawn, rtol=0, atol=2e-5
        )  # rounded in other shapes
    assert computed[0] < 0.95 * computed[1]


def test_the_check_is_made_once_per_module_and_again_for_longer_texts_only() -> None:
    module = make("Bert")
    with counting(module) as shapes:
        bind(module)(spread(8, 3))
        first = len(shapes)
        bind(module, "the day")(np.ones((3, 2), dtype=bool))
        bind(module, LONG, features="words")
        assert len(shapes) == first + 1
        bind(module, LONG)(np.ones((3, 72), dtype=bool))
        assert len(shapes) == first + 1 + 6 + 1, "four masks at full length, then without their hidden tokens"
    assert sum(rows * tokens for rows, tokens in shapes[:first]) <= 4 * 10 + 4 * 8 + 2 + 3 * 10
    assert bind(make("Bert")).removes_tokens, "another module has its own check"


def test_notes_about_a_module_go_with_it() -> None:
    module = make("Bert")
    bind(module)(spread(8, 2))
    assert notes_of(module)
    gone = weakref.ref(module)
    del module
    gc.collect()
    assert gone() is None


def test_a_module_that_cannot_be_a_key_is_checked_every_time() -> None:
    class Unhashable(_Plain):
        __hash__ = None  # type: ignore[assignment]

    notes_of(Unhashable(make("Bert")))["x"] = 1
    assert notes_of(Unhashable(make("Bert"))) == {}


# -- groups of rows ----------------------------------------------------------------------------------


def cheapest(lengths: list[int], overhead: float) -> float:
    """The least cost over all ways to cut the sorted rows into runs."""
    rows = sorted(lengths)
    costs = [
        sum((b - a) * rows[b - 1] + overhead for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True))
        for number in range(2 ** (len(rows) - 1))
        for cuts in [[i for i in range(1, len(rows)) if number >> (i - 1) & 1]]
    ]
    return min(costs)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 12), min_size=1, max_size=9), st.sampled_from([0.0, 1.0, 5.5, 30.0]))
def test_rows_are_grouped_as_cheaply_as_possible(lengths: list[int], overhead: float) -> None:
    sizes = np.array(lengths)
    groups = group_by_length(sizes, overhead)
    assert sorted(np.concatenate(groups).tolist()) == list(range(len(lengths)))
    cost = sum(len(rows) * sizes[rows].max() + overhead for rows in groups)
    assert cost == pytest.approx(cheapest(lengths, overhead))
    if overhead == 0:
        assert all(len(set(sizes[rows])) == 1 for rows in groups)


def test_passes_through_small_modules_cost_many_tokens_and_through_large_ones_few() -> None:
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    small, large = pass_overhead(nn.Linear(8, 8), cpu), pass_overhead(nn.Linear(2000, 2000), cpu)
    assert small > 1000 > 100 > large > 10
    assert pass_overhead(nn.Linear(2000, 2000), gpu) > 500


# -- what counts as the same ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "moved", "same"),
    [
        ([[0.0, 1.0], [5.0, 2.0]], 9e-5, True),
        ([[0.0, 1.0], [5.0, 2.0]], 6e-4, False),
        ([[0.0, 1000.0], [500.0, 2.0]], 6e-2, True),
        ([[0.0, 1.0], [0.0, 1.001]], 9e-5, False),  # as large as a tenth of what the scores vary by
        ([[0.0, 1.0], [0.0, 1.001]], 5e-7, True),
        ([[1.0, 1.00001], [5.0, 2.0]], -2e-5, False),  # another top class
        ([[0.0, 1.0], [5.0, 2.0]], float("nan"), False),
    ],
)
def test_scores_are_the_same_if_nothing_but_rounding_moved_them(
    wanted: list[list[float]], moved: float, same: bool
) -> None:
    scores = torch.tensor(wanted)
    found = scores.clone()
    found[:, 1] += moved
    assert same_scores(found, scores) is same


def test_the_certificate_of_a_selection_is_kept_for_small_texts() -> None:
    model = bind(make("Bert"), "good")
    assert model.removes_tokens
    assert certify(model, bits("0"), radius=1, rng=0).exact


# -- a verdict is not carried over ------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
def test_features_that_hide_little_do_not_speak_for_others() -> None:
    module = make("DebertaV2", relative_attention=True, position_biased_input=False, pos_att_type=["c2p", "p2c"])
    words = TEXT.split()
    tail = " ".join(words[-2:])
    # Leaving out a tail shifts nothing; leaving out tokens in between does.
    mask_text(module, text=TEXT, segments=[tail], tokenizer=bert_tokenizer())(np.array([[True], [False]]))
    model = bind(module)
    masks = spread(model.n_features)
    np.testing.assert_allclose(model(masks), masked_by_hand(module, model, masks), atol=1e-3)
    assert (
        model.removes_tokens
        == bind(
            make("DebertaV2", relative_attention=True, position_biased_input=False, pos_att_type=["c2p", "p2c"])
        ).removes_tokens
    )


@pytest.mark.parametrize("name", ["Bert", "Roberta"])
def test_scores_that_never_change_do_not_settle_the_question(name: str) -> None:
    module = make(name)
    head = module.classifier if name == "Bert" else module.classifier.out_proj
    kept = {key: value.clone() for key, value in head.state_dict().items()}
    with torch.no_grad():
        for weight in head.parameters():
            weight.zero_()
    silent = bind(module)
    silent(spread(silent.n_features))
    assert not silent.removes_tokens
    head.load_state_dict(kept)
    model = bind(module)
    masks = spread(model.n_features)
    np.testing.assert_allclose(model(masks), masked_by_hand(module, model, masks), atol=1e-3)
    assert model.removes_tokens


def test_other_weights_are_checked_anew() -> None:
    module = make("Bert")
    bind(module)(spread(bind(module).n_features, n=4))
    with counting(module) as shapes:
        bind(module)(spread(bind(module).n_features, n=4))
    n_known = len(shapes)
    with torch.no_grad():
        module.classifier.weight.mul_(2)
    with counting(module) as shapes:
        bind(module)(spread(bind(module).n_features, n=4))
    assert len(shapes) > n_known


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
def test_precision_around_the_check_does_not_loosen_it() -> None:
    module = make("DebertaV2", relative_attention=True, position_biased_input=False, pos_att_type=["c2p", "p2c"])
    with torch.autocast("cpu", torch.bfloat16):
        inside = bind(module)
        inside(spread(inside.n_features, n=4))
    assert (
        inside.removes_tokens
        == bind(
            make("DebertaV2", relative_attention=True, position_biased_input=False, pos_att_type=["c2p", "p2c"])
        ).removes_tokens
    )
