"""Tiny random Hugging Face models, saved as folders with their preprocessing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    PreTrainedTokenizerFast,
    ResNetConfig,
    ResNetForImageClassification,
    RobertaConfig,
    RobertaForSequenceClassification,
    ViTConfig,
    ViTForImageClassification,
)
from transformers.models.convnext.image_processing_pil_convnext import ConvNextImageProcessorPil
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

WORDS = ("<s>", "<pad>", "</s>", "<unk>", "<mask>", "what", "a", "good", "bad", "day", "night", "!")
MAX_TOKENS = 16
SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
COLOURS = ("red", "green", "blue")
MOODS = ("joy", "anger", "fear", "hope")


def save_vit(folder: Path, *, seed: int = 0, **changes: Any) -> Path:
    """A vision transformer on 16 × 16 pixels."""
    config = ViTConfig(image_size=16, patch_size=4, initializer_range=0.5, **_labels(COLOURS), **SMALL, **changes)
    return _save(folder, seed, lambda: ViTForImageClassification(config), ViTImageProcessorPil(size=_square(16)))


def save_resnet(folder: Path, *, seed: int = 0) -> Path:
    """A residual network on 24 × 24 pixels."""
    config = ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", num_channels=3, **_labels(COLOURS)
    )
    processor = ConvNextImageProcessorPil(size={"shortest_edge": 24}, image_mean=[0.4] * 3, image_std=[0.3] * 3)
    return _save(folder, seed, lambda: ResNetForImageClassification(config), processor)


def save_roberta(folder: Path, *, seed: int = 0) -> Path:
    """A RoBERTa that counts positions from its padding index."""
    sizes = {"vocab_size": len(WORDS), "max_position_embeddings": MAX_TOKENS + 2, "pad_token_id": 1}
    config = RobertaConfig(type_vocab_size=1, initializer_range=0.5, **sizes, **_labels(MOODS), **SMALL)
    return _save(folder, seed, lambda: RobertaForSequenceClassification(config), word_tokenizer())


def save_bert(folder: Path, *, seed: int = 0, n_labels: int = 4) -> Path:
    """A BERT with segments."""
    sizes = {"vocab_size": len(WORDS), "max_position_embeddings": MAX_TOKENS, "pad_token_id": 1}
    config = BertConfig(initializer_range=0.5, **sizes, **_labels(MOODS[:n_labels]), **SMALL)
    return _save(folder, seed, lambda: BertForSequenceClassification(config), word_tokenizer())


SAVERS = {"vit": save_vit, "resnet": save_resnet, "roberta": save_roberta, "bert": save_bert}


def word_tokenizer() -> PreTrainedTokenizerFast:
    """One token per known word, framed as RoBERTa does."""
    words = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    names = {"bos_token": "<s>", "eos_token": "</s>", "cls_token": "<s>", "sep_token": "</s>"}
    more = {"pad_token": "<pad>", "unk_token": "<unk>", "mask_token": "<mask>"}
    return PreTrainedTokenizerFast(tokenizer_object=words, **names, **more)


def _save(folder: Path, seed: int, make: Any, preprocessing: Any) -> Path:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        make().save_pretrained(folder)
    preprocessing.save_pretrained(folder)
    return folder


def _labels(names: tuple[str, ...]) -> dict[str, Any]:
    return {"id2label": dict(enumerate(names)), "label2id": {name: i for i, name in enumerate(names)}}


def _square(size: int) -> dict[str, int]:
    return {"height": size, "width": size}
