"""Tiny text classifiers with random weights, and tokenizers made on the spot: nothing is downloaded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaForSequenceClassification,
)

TEXT = "the goodness of a unhappy day"
"""Tokenised as: the good ##ness of a un ##happy day."""

PIECES = ["the", "good", "##ness", "of", "a", "un", "##happy", "day", "not", "bad", ".", "!"]
N_POSITIONS = 24


def bert_tokenizer(**changes: Any) -> PreTrainedTokenizerFast:
    """[CLS] … [SEP], with token types."""
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    types = ["input_ids", "token_type_ids", "attention_mask"]
    return _tokenizer({**names, "mask_token": "[MASK]", **changes}, start="[CLS]", end="[SEP]", model_input_names=types)


def roberta_tokenizer(**changes: Any) -> PreTrainedTokenizerFast:
    """<s> … </s>, with the pad token at 1, as RoBERTa has it."""
    names = {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    return _tokenizer({**names, "mask_token": "<mask>", **changes}, start="<s>", end="</s>")


def byte_tokenizer(**names: str) -> PreTrainedTokenizerFast:
    """One token per byte, but one for a space with a "b" after it, as GPT-2 and RoBERTa have it; none is special."""
    letters = [*sorted(pre_tokenizers.ByteLevel.alphabet()), "Ġb"]
    tokenizer = Tokenizer(models.BPE({letter: i for i, letter in enumerate(letters)}, [("Ġ", "b")]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)


def _tokenizer(names: dict[str, str | None], *, start: str, end: str, **options: Any) -> PreTrainedTokenizerFast:
    special = [start, "[PAD]" if start == "[CLS]" else "<pad>", end]
    rest = ["[UNK]", "[MASK]"] if start == "[CLS]" else ["<unk>", "<mask>"]
    vocabulary = {word: i for i, word in enumerate([*special, *rest, *PIECES])}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token=rest[0]))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    frame = [(start, vocabulary[start]), (end, vocabulary[end])]
    tokenizer.post_processor = processors.TemplateProcessing(single=f"{start} $A {end}", special_tokens=frame)
    known = {kind: name for kind, name in names.items() if name is not None}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **known, **options)


def bert(seed: int = 0) -> BertForSequenceClassification:
    """Two layers, three classes, in training mode as a careless caller might leave it."""
    config = BertConfig(**sizes(), max_position_embeddings=N_POSITIONS, pad_token_id=1)
    with seeded(seed):
        return lively(BertForSequenceClassification(config))


def roberta(seed: int = 0) -> RobertaForSequenceClassification:
    """As ``bert``; positions are counted from behind the padding index, 1."""
    config = RobertaConfig(**sizes(), max_position_embeddings=N_POSITIONS + 2, pad_token_id=1, type_vocab_size=1)
    with seeded(seed):
        return lively(RobertaForSequenceClassification(config))


def sizes() -> dict[str, int]:
    """Of the smallest networks that have everything."""
    return {
        "vocab_size": 300,
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "num_labels": 3,
    }


def lively(model: Any, scale: float = 12.0) -> Any:
    """Larger weights than a fresh model's, so that every token matters, and dropout switched on."""
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim == 2:
                weight.mul_(scale)
    return model.train()


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Random weights that are the same every time; torch's own generator is left alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def ask_directly(module: Any, **batch: Any) -> np.ndarray[Any, Any]:
    """Logits of a plain call in evaluation mode."""
    modes = [part.training for part in module.modules()]
    module.eval()
    with torch.no_grad():
        logits = module(**{name: torch.as_tensor(rows) for name, rows in batch.items()}).logits.numpy()
    for part, mode in zip(module.modules(), modes, strict=True):
        part.training = mode
    return logits
