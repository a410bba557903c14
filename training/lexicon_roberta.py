"""``lexicon-roberta``: a RoBERTa of two layers that imitates VADER on sentences made of VADER's lexicon."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors
from torch.nn.functional import cross_entropy
from transformers import PreTrainedTokenizerFast, RobertaConfig, RobertaForSequenceClassification

from holdfast import data
from holdfast.inputs.data import Dataset
from holdfast.inputs.models import Classifier
from holdfast.inputs.models.bundled import SENTIMENTS, load_vader
from holdfast.inputs.models.hf import load_folder
from training.box import count_correct, empty_folder, write_card
from training.lexicon_sentences import PUNCTUATION, SUFFIXES, Words, labelled

N_TRAIN, N_POOL, BATCH = 90 * 4096, 4096, 64
RATE, RATE_OF_WORDS = 1e-3, 1e-2
"""A word is met about a hundred times, the layers at every step."""

N_TEST, TEST_SEED = 2000, 1
MAX_TOKENS = 64
FRAME = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
LABELS = {"id2label": dict(enumerate(SENTIMENTS)), "label2id": {name: i for i, name in enumerate(SENTIMENTS)}}


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    tokenizer = make_tokenizer()
    module = train(network(len(tokenizer)), tokenizer)
    folder = empty_folder("lexicon-roberta")
    module.half().save_pretrained(folder)
    save_tokenizer(make_tokenizer(), folder)  # the one in use remembers how it padded and cut
    describe(folder)


def describe(folder: Path) -> None:
    write_card(
        folder,
        kind="text",
        data="bundled:sentences",
        description="RoBERTa of two layers that imitates VADER, trained on sentences generated from its lexicon",
        counts=measure(load_folder(str(folder))),
        made_with=("torch", "transformers", "tokenizers", "vaderSentiment"),
    )


def measure(classifier: Classifier) -> dict[str, tuple[int, int]]:
    """Against those who wrote the sentences, and against VADER, on them and on generated ones it has not seen."""
    written, vader = data.load("bundled:sentences"), load_vader()
    texts, labels = zip(*islice(labelled(TEST_SEED), N_TEST), strict=True)
    generated = Dataset("generated", "text", texts, torch.tensor(labels).numpy(), SENTIMENTS)
    judged = Dataset("judged", "text", written.inputs, vader.predict(written.inputs).argmax(axis=1), SENTIMENTS)
    return {
        "sentences": count_correct(classifier, written),
        "sentences, as VADER labels them": count_correct(classifier, judged),
        "generated sentences, as VADER labels them": count_correct(classifier, generated),
    }


def network(n_tokens: int) -> Any:
    config = RobertaConfig(
        vocab_size=n_tokens,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        max_position_embeddings=MAX_TOKENS + 2,
        type_vocab_size=1,
        pad_token_id=FRAME.index("<pad>"),
        bos_token_id=FRAME.index("<s>"),
        eos_token_id=FRAME.index("</s>"),
        initializer_range=0.05,
        hidden_dropout_prob=0.0,  # no sentence is seen twice
        attention_probs_dropout_prob=0.0,
        **LABELS,
    )
    return RobertaForSequenceClassification(config)


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Lower-case words of the vocabulary, with endings as pieces of their own; all other words are unknown."""
    pieces = [*FRAME, *PUNCTUATION, *Words.of_vader().vocabulary(), *(f"##{ending}" for ending in SUFFIXES)]
    made = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(pieces)}, unk_token="<unk>"))
    made.normalizer = normalizers.Sequence([normalizers.Replace("’", "'"), normalizers.Lowercase()])
    made.pre_tokenizer = pre_tokenizers.Split(
        Regex(r"\p{L}+(?:'\p{L}+)*|\p{N}+|[^\s\p{L}\p{N}]"), "removed", invert=True
    )
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    names = {"bos_token": "<s>", "eos_token": "</s>", "cls_token": "<s>", "sep_token": "</s>"}
    more = {"pad_token": "<pad>", "unk_token": "<unk>", "mask_token": "<mask>"}
    return PreTrainedTokenizerFast(tokenizer_object=made, model_max_length=MAX_TOKENS, **names, **more)


def save_tokenizer(tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Its files: the larger one without white space, the other with a class that every transformers knows."""
    tokenizer.save_pretrained(folder)
    (folder / "tokenizer.json").write_text(tokenizer.backend_tokenizer.to_str(pretty=False), encoding="utf-8")
    path = folder / "tokenizer_config.json"
    settings = json.loads(path.read_text(encoding="utf-8")) | {"tokenizer_class": "PreTrainedTokenizerFast"}
    settings.pop("backend", None)
    path.write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")


def train(module: Any, tokenizer: PreTrainedTokenizerFast) -> Any:
    """Every sentence is seen once; AdamW with one warm-up and one decay of its rate."""
    words = list(module.roberta.embeddings.parameters())
    layers = [*module.roberta.encoder.parameters(), *module.classifier.parameters()]
    rates = [RATE, RATE_OF_WORDS]
    groups = [{"params": part, "lr": rate} for part, rate in zip((layers, words), rates, strict=True)]
    optimizer = torch.optim.AdamW(groups, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=rates, total_steps=N_TRAIN // BATCH)
    module.train()
    for texts, labels in batches():
        encoding = tokenizer(texts, padding=True, truncation=True, return_tensors="pt")
        loss = cross_entropy(module(**encoding).logits, torch.tensor(labels))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return module.eval()


def batches() -> Iterator[tuple[list[str], list[int]]]:
    """Sentences of like length together, the batches of each pool in random order; none that is tested on."""
    tested = {text for text, _ in islice(labelled(TEST_SEED), N_TEST)}
    fresh = (pair for pair in labelled(0) if pair[0] not in tested)
    rng = Random(0)
    for _ in range(N_TRAIN // N_POOL):
        pool = sorted(islice(fresh, N_POOL), key=lambda pair: len(pair[0]))
        parts = [pool[start : start + BATCH] for start in range(0, len(pool), BATCH)]
        for part in sorted(parts, key=lambda _: rng.random()):
            yield [text for text, _ in part], [label for _, label in part]
