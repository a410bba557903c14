"""A real classifier of real texts, MiniLM on TweetEval's emotions, against calls on inputs masked by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from holdfast import certify
from holdfast.inputs.models import load
from holdfast.masking.text.mask_text import mask_text
from tests.helpers.contracts import check_masked_model
from tests.helpers.tiny_texts import ask_directly
from tests.helpers.zoo_support import zoo_path

torch.set_num_threads(1)

FOLDER = "minilm-tweeteval-emotion"
N_TEXTS = 5
N_MASKS = {"drop": 1000, "mask": 200, "pad": 200, "delete": 200}
"""The default as often as the paper draws; the other fills often enough to tell them apart."""


@pytest.fixture(scope="module")
def minilm() -> Any:
    return AutoModelForSequenceClassification.from_pretrained(zoo_path(FOLDER), dtype=torch.float32)


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return AutoTokenizer.from_pretrained(zoo_path(FOLDER))


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """The first few short ones, so that a thousand masks of them take seconds."""
    lines = zoo_path("tweeteval/emotion/val_text.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if 30 < len(line) < 70][:N_TEXTS]


def by_hand(tokenizer: Any, text: str, mask: NDArray[np.bool_], fill: str) -> tuple[list[int], list[int]]:
    """Ids and attention of a masked text, token by token."""
    ids, attention = [], []
    shown = iter(mask)
    for token in tokenizer(text)["input_ids"]:
        special = token in (tokenizer.cls_token_id, tokenizer.sep_token_id)
        keep = special or next(shown)
        if keep or fill != "delete":
            stand_in = {"mask": tokenizer.mask_token_id, "pad": tokenizer.pad_token_id}.get(fill, token)
            ids.append(token if keep else stand_in)
            attention.append(int(keep or fill != "drop"))
    return ids, attention


def ask_by_hand(module: Any, tokenizer: Any, text: str, masks: NDArray[np.bool_], fill: str) -> NDArray[Any]:
    """Logits of rows masked by hand; rows of the same length go together, so that nothing is padded."""
    rows = [by_hand(tokenizer, text, mask, fill) for mask in masks]
    lengths = np.array([len(ids) for ids, _ in rows])
    scores = np.empty((len(masks), module.config.num_labels), dtype=np.float32)
    for length in np.unique(lengths):
        own = np.flatnonzero(lengths == length)
        ids, attention = ([rows[i][part] for i in own] for part in (0, 1))
        scores[own] = ask_directly(module, input_ids=ids, attention_mask=attention, token_type_ids=np.zeros_like(ids))
    return scores


@pytest.mark.parametrize("fill", N_MASKS)
def test_masks_get_the_scores_of_inputs_masked_by_hand(
    minilm: Any, tokenizer: Any, texts: list[str], fill: str
) -> None:
    rng, n = np.random.default_rng(0), N_MASKS[fill] // N_TEXTS
    for text in texts:
        model = mask_text(minilm, text, tokenizer=tokenizer, fill=fill)
        masks = rng.random((n, model.n_features)) < rng.random((n, 1))
        found, wanted = model(masks), ask_by_hand(minilm, tokenizer, text, masks, fill)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-3)
        np.testing.assert_array_equal(found.argmax(axis=1), wanted.argmax(axis=1))


def test_masks_change_what_the_model_predicts(minilm: Any, tokenizer: Any, texts: list[str]) -> None:
    """The comparison above would be idle if every mask got the same class."""
    classes = set()
    for text in texts:
        model = mask_text(minilm, text, tokenizer=tokenizer)
        masks = np.random.default_rng(1).random((40, model.n_features)) < 0.5
        classes |= set(model(masks).argmax(axis=1).tolist())
    assert len(classes) >= 3


def test_words_of_real_tweets_take_their_sub_tokens_along(minilm: Any, tokenizer: Any, texts: list[str]) -> None:
    n_saved = 0
    for text in texts:
        words = mask_text(minilm, text, tokenizer=tokenizer, features="words")
        tokens = mask_text(minilm, text, tokenizer=tokenizer)
        inner = words.groups[words.groups >= 0]  # type: ignore[union-attr]
        assert words.n_features == inner.max() + 1
        n_saved += tokens.n_features - words.n_features
        assert "".join(words.feature_names).lower() == "".join(text.split()).lower()
        masks = np.random.default_rng(2).random((20, words.n_features)) < 0.5
        np.testing.assert_allclose(words(masks), tokens(masks[:, inner]), rtol=0, atol=1e-4)
    assert n_saved >= 5  # some words do have several sub-tokens


def test_the_real_model_keeps_the_contract_and_certifies(minilm: Any, tokenizer: Any, texts: list[str]) -> None:
    model: Any = mask_text(minilm, texts[0], tokenizer=tokenizer)
    check_masked_model(model, tolerance=1e-4)
    scores, slope = model.gradient(np.stack([model.elements, model.baseline]), 0)
    np.testing.assert_allclose(scores[0], model(np.ones((1, model.n_features), dtype=bool))[0], atol=1e-4)
    assert np.isfinite(slope).all()
    cert = certify(model, np.arange(model.n_features) % 2 == 0, radius=2, rng=0)
    assert cert.n_evaluated > 0
    assert cert.provenance.masking == "tokens, fill attention drop"


# -- loaded by name -----------------------------------------------------------------------------------

RECORDED_ACCURACY = 0.791
"""Of MiniLM on all 374 texts of the validation split (the zoo's README). On the first 100 it is 0.78."""


def tweets() -> tuple[list[str], NDArray[np.intp]]:
    folder = zoo_path("tweeteval/emotion")
    texts, labels = (
        (folder / f"val_{name}.txt").read_text(encoding="utf-8").splitlines() for name in ("text", "labels")
    )
    return texts, np.array(labels, dtype=int)


def test_the_zoos_minilm_loads_as_float32_and_scores_as_transformers_does(minilm: Any, tokenizer: Any) -> None:
    folder, (texts, labels) = zoo_path(FOLDER), tweets()
    classifier = load(f"hf:{folder}")
    assert {p.dtype for p in classifier.engine.runner.module.parameters()} == {torch.float32}
    assert classifier.classes == ("anger", "joy", "optimism", "sadness")
    with torch.inference_mode():
        truth = [minilm(**tokenizer(text, return_tensors="pt")).logits[0].numpy() for text in texts[:100]]
    scores = classifier.predict(texts[:100])
    np.testing.assert_allclose(scores, np.array(truth), atol=1e-4)
    assert (scores.argmax(axis=1) == labels[:100]).mean() == 0.78


@pytest.mark.slow
def test_the_zoos_minilm_reaches_its_recorded_accuracy() -> None:
    folder, (texts, labels) = zoo_path(FOLDER), tweets()
    assert len(texts) == 374
    accuracy = (load(f"hf:{folder}").predict(texts).argmax(axis=1) == labels).mean()
    assert abs(accuracy - RECORDED_ACCURACY) < 0.001
