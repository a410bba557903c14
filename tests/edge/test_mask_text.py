"""Texts as functions of masks: torch classifiers with tokenizers, pipelines, and callables on strings."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest
import torch
from transformers import FeatureExtractionPipeline, TextClassificationPipeline
from transformers.tokenization_python import PythonBackend

from holdfast import certify
from holdfast.errors import InvalidTypeError, InvalidValueError, ModelError
from holdfast.masking.text.mask_text import mask_text
from holdfast.types import Differentiable
from tests.helpers.contracts import bits, check_masked_model
from tests.helpers.fakes import all_masks
from tests.helpers.tiny_texts import (
    N_POSITIONS,
    TEXT,
    ask_directly,
    bert,
    bert_tokenizer,
    byte_tokenizer,
    roberta,
    roberta_tokenizer,
)

torch.set_num_threads(1)

FILLS = ("drop", "mask", "pad", "delete")
KINDS = {"bert": (bert, bert_tokenizer), "roberta": (roberta, roberta_tokenizer)}
CLOSE = 2e-5
"""Rows computed in batches of different shapes differ by float noise."""

PAD, UNK, MASK = 1, 3, 4
IDS = [0, 5, 6, 7, 8, 9, 10, 11, 12, 2]
"""TEXT by hand: start, the good ##ness of a un ##happy day, end."""

SHOWN = "10010110"
KEPT = [1, 1, 0, 0, 1, 0, 1, 1, 0, 1]
"""The tokens that SHOWN shows, with the special ones."""


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    make, make_tokenizer = KINDS[request.param]
    return make(), make_tokenizer()


def by_hand(module: Any, ids: Any, attention: Any) -> np.ndarray[Any, Any]:
    """Logits of one row of ids, with token types where the model has them."""
    types = {"token_type_ids": [[0] * len(ids)]} if module.config.model_type == "bert" else {}
    return ask_directly(module, input_ids=[ids], attention_mask=[attention], **types)


# -- fills ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("features", ["tokens", "words"])
def test_every_fill_keeps_the_contract(kind: tuple[Any, Any], fill: str, features: str) -> None:
    module, tokenizer = kind
    model = mask_text(module, TEXT, tokenizer=tokenizer, fill=fill, features=features)
    direct = ask_directly(module, **tokenizer(TEXT, return_tensors="pt"))
    check_masked_model(model, full_prediction=direct[0].argmax(), tolerance=CLOSE)


@pytest.mark.parametrize("fill", FILLS)
def test_the_full_mask_is_the_direct_call_to_the_last_bit(kind: tuple[Any, Any], fill: str) -> None:
    module, tokenizer = kind
    model = mask_text(module, TEXT, tokenizer=tokenizer, fill=fill)
    direct = ask_directly(module, **tokenizer(TEXT, return_tensors="pt"))
    np.testing.assert_array_equal(model(np.ones((1, 8), dtype=bool)), direct)


@pytest.mark.parametrize(
    ("fill", "ids", "attention"),
    [
        ("drop", IDS, KEPT),
        ("mask", [i if kept else MASK for i, kept in zip(IDS, KEPT, strict=True)], [1] * 10),
        ("pad", [i if kept else PAD for i, kept in zip(IDS, KEPT, strict=True)], [1] * 10),
        ("delete", [0, 5, 8, 10, 11, 2], [1] * 6),
    ],
)
def test_each_fill_is_what_one_would_write_by_hand(
    kind: tuple[Any, Any], fill: str, ids: list[int], attention: list[int]
) -> None:
    module, tokenizer = kind
    model = mask_text(module, TEXT, tokenizer=tokenizer, fill=fill)
    # To the last bit, but for the fill that leaves out what one would write and not attend to.
    noise = 1e-6 if fill == "drop" else 0.0
    np.testing.assert_allclose(model(bits(SHOWN)[None]), by_hand(module, ids, attention), rtol=0, atol=noise)


def test_no_two_fills_are_the_same_question(kind: tuple[Any, Any]) -> None:
    module, tokenizer = kind
    models = [mask_text(module, TEXT, tokenizer=tokenizer, fill=fill) for fill in FILLS]
    scores = np.stack([model(bits(SHOWN)[None])[0] for model in models])
    gaps = np.abs(scores[:, None] - scores[None]).max(axis=2) + 9 * np.eye(4)
    assert gaps.min() > 1e-3


def test_deleted_rows_of_unequal_length_are_padded_and_the_padding_is_not_seen(kind: tuple[Any, Any]) -> None:
    module, tokenizer = kind
    model = mask_text(module, TEXT, tokenizer=tokenizer, fill="delete")
    masks = all_masks(8)[::5]
    wanted = np.concatenate([by_hand(module, ids := _kept_ids(mask), [1] * len(ids)) for mask in masks])
    np.testing.assert_allclose(model(masks), wanted, atol=CLOSE)


def _kept_ids(mask: Any) -> list[int]:
    inner = [token for token, shown in zip(IDS[1:-1], mask, strict=True) if shown]
    return [IDS[0], *inner, IDS[-1]]


def test_a_tokenizer_that_pads_on_the_left_does_so_for_deleted_rows() -> None:
    module, tokenizer = bert(), bert_tokenizer(padding_side="left")
    model = mask_text(module, TEXT, tokenizer=tokenizer, fill="delete")
    scores = model(np.stack([np.ones(8, dtype=bool), bits(SHOWN)]))
    wanted = by_hand(module, [PAD] * 4 + [0, 5, 8, 10, 11, 2], [0] * 4 + [1] * 6)
    np.testing.assert_allclose(scores[1:], wanted, atol=CLOSE)


def test_token_types_reach_the_model() -> None:
    module, tokenizer = bert(), bert_tokenizer()
    model = mask_text(module, TEXT, tokenizer=tokenizer)
    assert set(model.tokens.fields) == {"input_ids", "token_type_ids", "attention_mask"}  # type: ignore[union-attr]


def test_inputs_the_module_does_not_take_are_left_out() -> None:
    class Plain(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.nn.Embedding(300, 4)

        def forward(self, input_ids: Any, attention_mask: Any) -> dict[str, Any]:
            return {"scores": (self.table(input_ids) * attention_mask[..., None]).sum(dim=1)}

    module = Plain()
    model = mask_text(module, TEXT, tokenizer=bert_tokenizer())
    check_masked_model(model, tolerance=CLOSE)
    wanted = module.table.weight[[0, 5, 8, 10, 11, 2]].sum(dim=0).detach().numpy()
    np.testing.assert_allclose(model(bits(SHOWN)[None])[0], wanted, atol=CLOSE)
    with pytest.raises(InvalidTypeError, match=r"^Gradients need a module with `get_input_embeddings`"):
        _ = model.elements  # type: ignore[union-attr]


def test_softmax_makes_probabilities_of_the_same_scores(kind: tuple[Any, Any]) -> None:
    module, tokenizer = kind
    raw = mask_text(module, TEXT, tokenizer=tokenizer)(all_masks(8)[:9])
    share = mask_text(module, TEXT, tokenizer=tokenizer, softmax=True)(all_masks(8)[:9])
    np.testing.assert_allclose(share, np.exp(raw) / np.exp(raw).sum(axis=1, keepdims=True), atol=1e-6)


# -- features ---------------------------------------------------------------------------------------


def test_every_token_but_the_special_ones_is_a_feature(kind: tuple[Any, Any]) -> None:
    module, tokenizer = kind
    model = mask_text(module, TEXT, tokenizer=tokenizer)
    assert model.n_features == 8
    assert model.feature_names == ("the", "good", "##ness", "of", "a", "un", "##happy", "day")
    assert model.groups.tolist() == [-1, 0, 1, 2, 3, 4, 5, 6, 7, -1]  # type: ignore[union-attr]


def test_words_take_all_their_sub_tokens_along(kind: tuple[Any, Any]) -> None:
    module, tokenizer = kind
    words = mask_text(module, TEXT.title(), tokenizer=tokenizer, features="words")
    assert words.feature_names == ("The", "Goodness", "Of", "A", "Unhappy", "Day")
    assert words.groups.tolist() == [-1, 0, 1, 1, 2, 3, 4, 4, 5, -1]  # type: ignore[union-attr]
    tokens = mask_text(module, TEXT, tokenizer=tokenizer)
    masks = all_masks(6)
    np.testing.assert_allclose(words(masks), tokens(masks[:, [0, 1, 1, 2, 3, 4, 4, 5]]), atol=CLOSE)


def test_unknown_words_are_features_and_special_tokens_in_the_text_are_not() -> None:
    tokenizer = bert_tokenizer()
    for features in ("tokens", "words"):
        model = mask_text(bert(), "good zebra [SEP] day [MASK]", tokenizer=tokenizer, features=features)
        assert model.groups.tolist() == [-1, 0, 1, -1, 2, 3, -1]  # type: ignore[union-attr]
    assert model.feature_names == ("good", "zebra", "day", "[MASK]")


def test_a_token_that_ends_texts_and_stands_for_unknown_words_is_a_feature_where_the_text_has_it() -> None:
    shared = byte_tokenizer(eos_token="x", unk_token="x")
    assert mask_text(bert(), "axe", tokenizer=shared).feature_names == ("a", "x", "e")
    assert mask_text(bert(), "axe", tokenizer=byte_tokenizer(eos_token="x")).feature_names == ("a", "e")


def test_words_made_of_bytes_are_called_by_their_letters() -> None:
    model = mask_text(bert(), "né 😀 !", tokenizer=byte_tokenizer(), features="words")
    assert model.feature_names == ("né", "😀", "!")
    assert np.bincount(model.groups).tolist() == [3, 5, 2]  # type: ignore[union-attr]


def test_segments_of_a_text_group_the_tokens_of_a_module(kind: tuple[Any, Any]) -> None:
    module, tokenizer = kind
    text = "not the goodness . a unhappy day !"
    model = mask_text(module, text, tokenizer=tokenizer, segments=["the goodness .", "a unhappy day"])
    assert model.groups.tolist() == [-1, -1, 0, 0, 0, 0, 1, 1, 1, 1, -1, -1]  # type: ignore[union-attr]
    assert model.feature_names == ("the goodness .", "a unhappy day")
    check_masked_model(model, tolerance=CLOSE)
    joined = mask_text(module, tokenizer=tokenizer, segments=["the goodness .", "a unhappy day"], join=" ! ")
    assert joined.groups.tolist() == [-1, 0, 0, 0, 0, -1, 1, 1, 1, 1, -1]  # type: ignore[union-attr]
    assert joined.provenance.masking == "segments, joined by ' ! ', fill attention drop"


def test_a_token_that_starts_with_the_space_before_a_segment_belongs_to_it() -> None:
    model = mask_text(bert(), "a bc d", tokenizer=byte_tokenizer(), segments=["bc", "d"])
    # a, space with b, c, space, d: a space of its own lies outside of the segments and is always shown.
    assert model.groups.tolist() == [-1, 0, 0, -1, 1]  # type: ignore[union-attr]


# -- the caller's world -----------------------------------------------------------------------------


def test_nothing_of_the_callers_changes(kind: tuple[Any, Any]) -> None:
    module, tokenizer = kind
    module.classifier.eval()  # a mixture of modes must come back as such
    modes = [part.training for part in module.modules()]
    weights = {name: weight.clone() for name, weight in module.state_dict().items()}
    state = torch.get_rng_state()
    model = mask_text(module, TEXT, tokenizer=tokenizer)
    model(all_masks(8))
    model.gradient(model.elements[None], 0)  # type: ignore[union-attr]
    assert [part.training for part in module.modules()] == modes
    assert any(modes)
    assert not all(modes)
    assert torch.is_grad_enabled()
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(weight, weights[name]) for name, weight in module.state_dict().items())
    assert all(weight.grad is None for weight in module.parameters())


def test_another_number_type_is_computed_on_a_copy(kind: tuple[Any, Any]) -> None:
    module, tokenizer = kind
    narrow = mask_text(module, TEXT, tokenizer=tokenizer, dtype="bfloat16")
    assert {weight.dtype for weight in module.parameters()} == {torch.float32}
    assert {weight.dtype for weight in narrow.module.parameters()} == {torch.bfloat16}  # type: ignore[union-attr]
    scores, wanted = narrow(all_masks(8)[:3]), mask_text(module, TEXT, tokenizer=tokenizer)(all_masks(8)[:3])
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, wanted, atol=0.5)
    assert narrow.provenance.masking == "tokens, fill attention drop, computed in bfloat16"
    same = mask_text(module, TEXT, tokenizer=tokenizer, dtype=torch.float32, device="cpu")
    assert same.module is module  # type: ignore[union-attr]


def test_certificates_know_what_was_asked(kind: tuple[Any, Any]) -> None:
    module, tokenizer = kind
    model = mask_text(module, TEXT, tokenizer=tokenizer, fill="mask", fingerprint="tiny", batch_size=7)
    cert = certify(model, bits(SHOWN), radius=2, rng=0)
    assert cert.provenance.masking == "tokens, fill mask token"
    assert cert.provenance.model == "tiny"
    assert cert.provenance.input == hashlib.sha256(TEXT.encode()).hexdigest()
    assert model.batch_size == 7


def test_a_pipeline_brings_model_and_tokenizer(kind: tuple[Any, Any]) -> None:
    module, tokenizer = kind
    pipeline = TextClassificationPipeline(model=module.eval(), tokenizer=tokenizer, device="cpu")
    model = mask_text(pipeline, TEXT)
    np.testing.assert_array_equal(model(all_masks(8)), mask_text(module, TEXT, tokenizer=tokenizer)(all_masks(8)))
    best = pipeline(TEXT)[0]["label"]
    assert module.config.id2label[int(model(np.ones((1, 8), dtype=bool)).argmax())] == best


# -- gradients --------------------------------------------------------------------------------------


def test_elements_are_the_embeddings_and_give_the_full_scores(kind: tuple[Any, Any]) -> None:
    module, tokenizer = kind
    model: Any = mask_text(module, TEXT, tokenizer=tokenizer)
    assert isinstance(model, Differentiable)
    table = module.get_input_embeddings().weight.detach().numpy()
    np.testing.assert_array_equal(model.elements, table[IDS])
    scores, slope = model.gradient(model.elements[None], 1)
    assert slope.shape == (1, 10, 16)
    np.testing.assert_allclose(scores, model(np.ones((1, 8), dtype=bool)), atol=CLOSE)


@pytest.mark.parametrize(("fill", "token"), [("drop", PAD), ("mask", MASK), ("pad", PAD), ("delete", PAD)])
def test_the_baseline_holds_the_fills_token_and_keeps_special_tokens(
    kind: tuple[Any, Any], fill: str, token: int
) -> None:
    module, tokenizer = kind
    model: Any = mask_text(module, TEXT, tokenizer=tokenizer, fill=fill)
    table = module.get_input_embeddings().weight.detach().numpy()
    np.testing.assert_array_equal(model.baseline, table[[0, *[token] * 8, 2]])


def test_the_baseline_without_a_pad_token_is_zero() -> None:
    model: Any = mask_text(bert(), "good", tokenizer=bert_tokenizer(pad_token=None))
    np.testing.assert_array_equal(model.baseline[1], np.zeros(16))
    assert model.baseline[0].any()


@pytest.mark.parametrize("softmax", [False, True])
def test_gradients_are_those_of_autograd(kind: tuple[Any, Any], softmax: bool) -> None:
    module, tokenizer = kind
    model: Any = mask_text(module, TEXT, tokenizer=tokenizer, softmax=softmax)
    points = np.stack([model.elements, model.baseline, (model.elements + model.baseline) / 2])
    scores, slope = model.gradient(points, 2)
    module.eval()
    for i in range(3):
        place = torch.tensor(points[i : i + 1], requires_grad=True)
        logits = module(inputs_embeds=place, attention_mask=torch.ones(1, 10, dtype=torch.long)).logits
        wanted = logits.softmax(dim=-1) if softmax else logits
        wanted[0, 2].backward()
        np.testing.assert_allclose(scores[i], wanted[0].detach().numpy(), atol=CLOSE)
        np.testing.assert_allclose(slope[i], place.grad[0].numpy(), atol=1e-4)  # type: ignore[index]


def test_gradients_are_the_limits_of_differences(kind: tuple[Any, Any]) -> None:
    module, tokenizer = kind
    model: Any = mask_text(module.double(), TEXT, tokenizer=tokenizer)
    point, rng = model.elements, np.random.default_rng(0)
    assert point.dtype == np.float64
    _, slope = model.gradient(point[None], 0)
    for _ in range(5):
        step = rng.normal(size=point.shape) * 1e-5
        ahead, behind = model.gradient(np.stack([point + step, point - step]), 0)[0][:, 0]
        assert (ahead - behind) / 2 == pytest.approx((slope[0] * step).sum(), rel=1e-4, abs=1e-9)


def test_gradients_work_where_the_caller_switched_them_off(kind: tuple[Any, Any]) -> None:
    module, tokenizer = kind
    wanted = mask_text(module, TEXT, tokenizer=tokenizer).gradient(np.zeros((2, 10, 16)), 0)  # type: ignore[union-attr]
    for off in (torch.no_grad, torch.inference_mode):
        with off():
            model: Any = mask_text(module, TEXT, tokenizer=tokenizer)
            found = model.gradient(np.zeros((2, 10, 16)), 0)
            assert not torch.is_grad_enabled()
        np.testing.assert_array_equal(found[1], wanted[1])


def test_points_and_targets_are_checked(kind: tuple[Any, Any]) -> None:
    module, tokenizer = kind
    model: Any = mask_text(module, TEXT, tokenizer=tokenizer)
    with pytest.raises(InvalidValueError, match=r"^`points` must have shape \(b, 10, 16\), got \(10, 16\)\."):
        model.gradient(model.elements, 0)
    with pytest.raises(InvalidValueError, match=r"^`target` must be a class below 3, got 3\."):
        model.gradient(model.elements[None], 3)


# -- length -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [N_POSITIONS - 2, N_POSITIONS - 1])
def test_a_text_that_is_too_long_is_never_cut_silently(kind: tuple[Any, Any], words: int) -> None:
    module, tokenizer = kind
    text = " ".join(["good"] * words)
    if words + 2 <= N_POSITIONS:
        assert mask_text(module, text, tokenizer=tokenizer).n_features == words
        return
    wanted = rf"^`text` must have at most {N_POSITIONS} tokens, the model's limit, got {words + 2} .*max_length=24"
    with pytest.raises(InvalidValueError, match=wanted):
        mask_text(module, text, tokenizer=tokenizer)


def test_the_tokenizers_limit_counts_too() -> None:
    with pytest.raises(InvalidValueError, match=r"^`text` must have at most 6 tokens, .*, got 10 "):
        mask_text(bert(), TEXT, tokenizer=bert_tokenizer(model_max_length=6))


def test_cutting_is_explicit_and_recorded(kind: tuple[Any, Any]) -> None:
    module, tokenizer = kind
    model = mask_text(module, "good " * 50, tokenizer=tokenizer, max_length=7)
    assert model.n_features == 5
    assert model.provenance.masking == "tokens, fill attention drop, cut to 7 of 52 tokens"
    np.testing.assert_array_equal(model(np.ones((1, 5), dtype=bool)), by_hand(module, [0, *[6] * 5, 2], [1] * 7))
    uncut = mask_text(module, TEXT, tokenizer=tokenizer, max_length=10)
    assert uncut.n_features == 8
    assert uncut.provenance.masking == "tokens, fill attention drop"


@pytest.mark.parametrize(
    ("max_length", "got"),
    [(25, "must be at most 24"), (2, "must be larger than the number of special tokens, 2"), (0, "must be a whole")],
)
def test_impossible_lengths_are_refused(kind: tuple[Any, Any], max_length: int, got: str) -> None:
    module, tokenizer = kind
    with pytest.raises(InvalidValueError, match=f"^`max_length` {got}"):
        mask_text(module, "good " * 50, tokenizer=tokenizer, max_length=max_length)


# -- refusals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "  \n"])
def test_an_empty_text_is_refused(text: str) -> None:
    for classifier, options in ((bert(), {"tokenizer": bert_tokenizer()}), (list, {})):
        with pytest.raises(InvalidValueError, match=r"^`text` must not be empty"):
            mask_text(classifier, text, **options)


@pytest.mark.parametrize("text", ["[SEP]", "[CLS] [PAD]"])
def test_a_text_of_special_tokens_has_no_features(text: str) -> None:
    with pytest.raises(InvalidValueError, match=r"^`text` must have at least one token that is not special"):
        mask_text(bert(), text, tokenizer=bert_tokenizer())


@pytest.mark.parametrize(("fill", "token"), [("mask", "mask"), ("pad", "pad"), ("delete", "pad")])
def test_a_fill_whose_token_is_missing_is_refused(fill: str, token: str) -> None:
    tokenizer = bert_tokenizer(**{f"{token}_token": None})
    with pytest.raises(InvalidValueError, match=rf"^`fill='{fill}'` needs a tokenizer with a {token} token"):
        mask_text(bert(), TEXT, tokenizer=tokenizer, fill=fill)
    check_masked_model(mask_text(bert(), TEXT, tokenizer=tokenizer), tolerance=CLOSE)


class SpacedWords(PythonBackend):
    """A slow tokenizer: words between spaces, numbered by their length."""

    vocab_size = 300

    def get_vocab(self) -> dict[str, int]:
        return {"x" * i: i for i in range(300)}

    def _tokenize(self, text: str, **kwargs: Any) -> list[str]:
        return text.split()

    def _convert_token_to_id(self, token: str) -> int:
        return len(token) + 5

    def _convert_id_to_token(self, index: int) -> str:
        return "x" * (index - 5)


def test_slow_tokenizers_know_tokens_but_no_words() -> None:
    tokenizer = SpacedWords()
    model = mask_text(bert(), "a bb ccc", tokenizer=tokenizer)
    assert model.feature_names == ("x", "xx", "xxx")
    check_masked_model(model, tolerance=CLOSE)
    with pytest.raises(InvalidTypeError, match=r"^`features='words'` needs a fast tokenizer.*got SpacedWords"):
        mask_text(bert(), "a bb ccc", tokenizer=tokenizer, features="words")
    with pytest.raises(InvalidTypeError, match=r"^`segments=` needs a fast tokenizer"):
        mask_text(bert(), "a bb ccc", tokenizer=tokenizer, segments=["a bb", "ccc"])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"tokenizer": None}, InvalidTypeError, "`tokenizer` must be given for a torch module, got None"),
        ({"tokenizer": str}, InvalidTypeError, "`tokenizer` must be a tokenizer of Transformers"),
        ({"fill": "dorp"}, InvalidValueError, r"`fill` must be one of drop, mask, pad, delete, .* 'drop'\?"),
        ({"features": "letters"}, InvalidValueError, "`features` must be one of tokens, words, got 'letters'"),
        ({"batch_size": 0}, InvalidValueError, "`batch_size` must be a whole number ≥ 1"),
        ({"normalise": str}, InvalidTypeError, "`normalise` works only with a callable on strings"),
        ({"batched": True}, InvalidTypeError, "`batched` works only with a callable on strings"),
        ({"join": " "}, InvalidTypeError, "`join` works only with segments"),
        ({"text": None}, InvalidTypeError, "`text` must be a string, got None"),
        ({"text": ["a", "b"]}, InvalidTypeError, r"`text` must be a string, got \['a', 'b'\]"),
        ({"text": None, "segments": ["a", "b"], "join": " ".join}, InvalidTypeError, "`join` must be a string for a"),
    ],
)
def test_bad_options_for_a_module_are_named(options: dict[str, Any], error: type[Exception], message: str) -> None:
    given = {"text": TEXT, "tokenizer": bert_tokenizer(), **options}
    with pytest.raises(error, match=f"^{message}"):
        mask_text(bert(), given.pop("text"), **given)


def test_a_pipeline_for_something_else_is_refused() -> None:
    pipeline = FeatureExtractionPipeline(model=bert(), tokenizer=bert_tokenizer(), device="cpu")
    with pytest.raises(InvalidTypeError, match=r"^`classifier` must be a text-class.* got a FeatureExtractionPipeline"):
        mask_text(pipeline, TEXT)


def test_a_callable_that_happens_to_hold_a_module_is_a_callable() -> None:
    class Wrapped:
        model, tokenizer = bert(), bert_tokenizer()

        def __call__(self, texts: list[str]) -> list[int]:
            return [len(text) for text in texts]

    assert mask_text(Wrapped(), "a bb")(all_masks(2)).tolist() == [0, 1, 2, 4]


def test_a_module_that_takes_no_tokens_is_refused() -> None:
    with pytest.raises(InvalidTypeError, match=r"^`classifier` must be a module that takes `input_ids` and"):
        mask_text(torch.nn.Linear(2, 2), TEXT, tokenizer=bert_tokenizer())


def test_a_tokenizer_of_another_model_is_refused() -> None:
    module = bert()
    module.resize_token_embeddings(12)
    assert mask_text(module, "the goodness", tokenizer=bert_tokenizer()).n_features == 3
    with pytest.raises(InvalidValueError, match=r"^`tokenizer` must be the model's own; it makes token 12, .* only 12"):
        mask_text(module, TEXT, tokenizer=bert_tokenizer())
    module.resize_token_embeddings(4)
    with pytest.raises(InvalidValueError, match=r"it makes token 4, but the model has only 4\."):
        mask_text(module, "zebra", tokenizer=bert_tokenizer(), fill="mask")


@pytest.mark.parametrize("options", [{"text": "a \ud800"}, {"text": "b", "segments": ["a \ud800"]}])
def test_broken_unicode_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(
        InvalidValueError, match=r"^`(text|segments)` must be valid Unicode, got '\\ud800' at character 2"
    ):
        mask_text(echo, **options)


# -- callables on strings ---------------------------------------------------------------------------


def count_letters(texts: list[str]) -> np.ndarray[Any, Any]:
    """Scores: how many letters, how many spaces."""
    return np.array([[len(text.replace(" ", "")), text.count(" ")] for text in texts], dtype=float)


def echo(texts: list[str]) -> list[str]:
    """The texts themselves, as labels."""
    return texts


@pytest.mark.parametrize("fill", ["delete", "replace:[…]", "replace:"])
@pytest.mark.parametrize("classifier", [count_letters, echo, lambda texts: [len(text) % 3 for text in texts]])
def test_callables_on_strings_keep_the_contract(classifier: Any, fill: str) -> None:
    check_masked_model(mask_text(classifier, " what a  fine\tday \n", fill=fill))


def test_the_full_text_is_kept_to_the_letter() -> None:
    text = "\t what  a\nday \n"
    for fill in ("delete", "replace:x"):
        assert mask_text(echo, text, fill=fill)(np.ones((1, 3), dtype=bool)).tolist() == [text]


@pytest.mark.parametrize(
    ("mask", "deleted", "replaced"),
    [
        ("111", " not  so bad\n", " not  so bad\n"),
        ("011", "so bad\n", " ?  so bad\n"),
        ("101", " not bad\n", " not  ? bad\n"),
        ("110", " not  so\n", " not  so ?\n"),
        ("001", "bad\n", " ?  ? bad\n"),
        ("100", " not\n", " not  ? ?\n"),
    ],
)
def test_a_deleted_word_takes_its_white_space_along_and_a_replaced_one_stays(
    mask: str, deleted: str, replaced: str
) -> None:
    text = " not  so bad\n"
    assert mask_text(echo, text)(bits(mask)[None]).tolist() == [deleted]
    assert mask_text(echo, text, fill="replace:?")(bits(mask)[None]).tolist() == [replaced]


def test_words_of_callables_stand_between_white_space() -> None:
    model = mask_text(count_letters, "what's\u00a0this,  now?", features="words", fingerprint="count", batch_size=3)
    assert model.feature_names == ("what's", "this,", "now?")
    assert model.provenance.masking == "words, fill deletion"
    assert model.provenance.model == "count"
    assert model.provenance.input == hashlib.sha256("what's\u00a0this,  now?".encode()).hexdigest()
    assert model.batch_size == 3
    replaced = mask_text(count_letters, "a b", fill="replace:[…]")
    assert replaced.provenance.masking == "words, fill text '[…]'"


def test_labels_of_words_stay_as_they_are_unless_asked() -> None:
    full = np.ones((1, 2), dtype=bool)
    assert mask_text(echo, "Good Day")(full).tolist() == ["Good Day"]
    assert mask_text(echo, "Good Day", normalise=str.lower)(full).tolist() == ["good day"]


@pytest.mark.parametrize("one", [lambda text: [1.0, len(text)], lambda text: torch.tensor([1.0, len(text)])])
def test_a_callable_on_one_text_may_return_a_row_of_scores(one: Any) -> None:
    scores = mask_text(one, "a bb", batched=False)(all_masks(2))
    np.testing.assert_array_equal(scores, [[1, 0], [1, 1], [1, 2], [1, 4]])


def test_tensors_are_scores_like_any_other() -> None:
    weights = torch.tensor([[1.0, 2.0]], requires_grad=True)
    scores = mask_text(lambda texts: weights.repeat(len(texts), 1), "a bb")(all_masks(2))
    np.testing.assert_array_equal(scores, [[1, 2]] * 4)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (
            lambda texts: "yes",
            r"`classifier` must return scores \(b, n_classes\) or a list of b answers.*batched=False",
        ),
        (lambda texts: ["yes"], "`classifier` must return one answer per text, got 1 for 4 texts"),
        (lambda texts: [0.5] * len(texts), r"`classifier` must return scores .* not floats, got 0\.5"),
        (lambda texts: [{"label": "x"}] * len(texts), "`classifier` must return scores .*hashable answer"),
        (lambda texts: [([],)] * len(texts), "`classifier` must return scores .*hashable answer"),
        (
            lambda texts: [[1.0] * (len(t) + 1) for t in texts],
            "`classifier` must return the same number of scores for every",
        ),
    ],
)
def test_answers_that_cannot_be_used_are_named(answer: Any, message: str) -> None:
    with pytest.raises(ModelError, match=f"^{message}"):
        mask_text(answer, "a bb")(all_masks(2))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"fill": "drop"}, InvalidValueError, "`fill='drop'` hides tokens, and a callable on strings has none"),
        ({"fill": "delte"}, InvalidValueError, r"`fill` must be one of delete, replace:…, got 'delte'\. Did you"),
        ({"fill": 0}, InvalidTypeError, "`fill` must be one of delete, replace:…, got 0"),
        ({"features": "tokens"}, InvalidValueError, "`features='tokens'` needs a torch module and its tokenizer"),
        ({"tokenizer": str}, InvalidTypeError, "`tokenizer` works only with a torch module"),
        ({"device": "cpu"}, InvalidTypeError, "`device` works only with a torch module"),
        ({"dtype": "float32"}, InvalidTypeError, "`dtype` works only with a torch module"),
        ({"max_length": 9}, InvalidTypeError, "`max_length` works only with a torch module"),
        ({"softmax": True}, InvalidTypeError, "`softmax` works only with a torch module"),
        ({"batched": 1}, InvalidTypeError, "`batched` must be True or False, got 1"),
        ({"classifier": "bert"}, InvalidTypeError, "`classifier` must be a torch module, .* got 'bert'"),
    ],
)
def test_bad_options_for_a_callable_are_named(options: dict[str, Any], error: type[Exception], message: str) -> None:
    given = {"classifier": echo, **options}
    with pytest.raises(error, match=f"^{message}"):
        mask_text(given.pop("classifier"), "a b", **given)


async def later(text: Any) -> str:
    return "good"


@pytest.mark.parametrize("batched", [True, False])
def test_a_text_that_is_not_answered_is_no_answer(batched: bool) -> None:
    with pytest.raises(ModelError, match=r"got a coroutine\. Wrap the asynchronous function"):
        mask_text(later, "a b", batched=batched)(np.ones((1, 2), dtype=bool))
    with pytest.raises(ModelError, match=r"^The model must return an answer, got None\."):
        mask_text(lambda text: None, "a b", batched=False)(np.ones((1, 2), dtype=bool))


def test_the_places_of_features_in_the_text_are_known_to_fast_tokenizers(kind: tuple[Any, Any]) -> None:
    module, tokenizer = kind
    for features in ("tokens", "words"):
        model = mask_text(module, TEXT, tokenizer=tokenizer, features=features)
        text, spans = model.located  # type: ignore[misc]
        assert text == TEXT
        assert len(spans) == model.n_features
        if features == "words":
            assert tuple(text[start:end].strip() for start, end in spans) == model.feature_names


def test_a_function_of_one_text_that_fails_on_a_list_is_told_how_to_be_asked() -> None:
    model = mask_text(lambda text: [len(text.lower()), 1.0], "good day")
    with pytest.raises(AttributeError) as caught:
        model(np.ones((1, 2), dtype=bool))
    assert "pass `batched=False`" in caught.value.__notes__[0]
    asked_singly = mask_text(lambda text: [float(len(text.lower())), 1.0], "good day", batched=False)
    assert asked_singly(np.ones((1, 2), dtype=bool)).tolist() == [[8.0, 1.0]]
    broken = mask_text(lambda text: text.missing, "good day", batched=False)
    with pytest.raises(AttributeError) as caught:
        broken(np.ones((1, 2), dtype=bool))
    assert not hasattr(caught.value, "__notes__")
