"""Tiny causal language models with random weights, and a tokenizer made on the spot: nothing is downloaded."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from tests.helpers.tiny_texts import seeded

CHAT = (
    "{% for message in messages %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
SPECIAL = ["<|endoftext|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>"]
MERGES = [("a", "b"), ("Ġ", "a")]
"""Some texts have several ways to be written in tokens."""

LETTERS = "abcdé "
N_POSITIONS = 128


def language_tokenizer(*, chat: bool) -> PreTrainedTokenizerFast:
    """Bytes and a few merges, as GPT-2 has it; few enough that random answers are short and come again."""
    split = pre_tokenizers.ByteLevel(add_prefix_space=False)
    letters = sorted({letter for word, _ in split.pre_tokenize_str(LETTERS + "?\n") for letter in word})
    vocabulary = {token: i for i, token in enumerate([*SPECIAL, *letters, *("".join(pair) for pair in MERGES)])}
    tokenizer = Tokenizer(models.BPE(vocabulary, MERGES))
    tokenizer.pre_tokenizer = split
    tokenizer.decoder = decoders.ByteLevel()
    names: dict[str, Any] = {"eos_token": SPECIAL[0], "additional_special_tokens": SPECIAL[1:]}
    made = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)
    made.chat_template = CHAT if chat else None
    return made


def language_model(kind: str, seed: int = 0, **changes: Any) -> Any:
    """A "llama" or a "gpt2" of two layers, in training mode as a careless caller might leave it."""
    n_tokens = len(language_tokenizer(chat=False))
    with seeded(seed):
        if kind == "llama":
            sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
            config: Any = LlamaConfig(
                vocab_size=n_tokens, **sizes, num_key_value_heads=2, max_position_embeddings=N_POSITIONS,
                initializer_range=0.6, bos_token_id=None, eos_token_id=0, **changes,
            )  # fmt: skip
            return LlamaForCausalLM(config).train()
        config = GPT2Config(
            vocab_size=n_tokens, n_embd=16, n_layer=2, n_head=2, n_positions=N_POSITIONS, initializer_range=0.6,
            bos_token_id=None, eos_token_id=0, **changes,
        )  # fmt: skip
        return GPT2LMHeadModel(config).train()


def random_conversations(n: int, rng: np.random.Generator) -> list[list[dict[str, str]]]:
    """Questions that begin with some of the same few passages, as masks of a context do."""
    passages = ["".join(rng.choice([*LETTERS], size=12)) for _ in range(4)]
    head = "".join(rng.choice([*LETTERS], size=20))
    shown = rng.random((n, 4)) < 0.5
    ends = rng.choice(["?", "?\n"], size=n)
    contents = [
        f"a{head}{''.join(passages[i] for i in np.flatnonzero(row))}{end}" for row, end in zip(shown, ends, strict=True)
    ]
    return [[{"role": "user", "content": content}] for content in contents]


def logits_of(module: Any, ids: list[int]) -> torch.Tensor:
    """Logits (T, vocabulary) of a plain call in evaluation mode."""
    modes = [part.training for part in module.modules()]
    module.eval()
    with torch.no_grad():
        logits = module(input_ids=torch.tensor([ids])).logits[0]
    for part, mode in zip(module.modules(), modes, strict=True):
        part.training = mode
    return logits
