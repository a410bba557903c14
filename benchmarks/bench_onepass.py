"""Language models that run here: one pass against generation, on a real model of 135 million weights, one thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product

import numpy as np
from tests.helpers.smollm2 import COMMAND, conversation, missing, questions, smollm2

from benchmarks.figures import Figure
from holdfast.masking.context.causal import CausalModel
from holdfast.masking.torch import notes_of

ROUNDS, MAX_TOKENS = 3, 8


def run() -> Iterator[Figure]:
    if missing():
        print(f"  LEFT OUT: everything ({COMMAND})")
        return
    import torch

    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield from _figures()
    finally:
        torch.set_num_threads(n_threads)


def _figures() -> Iterator[Figure]:
    model = CausalModel.load(f"hf:{smollm2()}", max_tokens=MAX_TOKENS)
    question, passages = questions()[0]
    masks = np.array([*product([True, False], repeat=len(passages))])
    conversations = [conversation(question, passages, mask) for mask in masks]
    some = [conversations[i] for i in np.random.default_rng(0).permutation(len(masks))[:16]]
    reference = model(conversations[:1])[0].text
    notes = notes_of(model.module)

    def pass_alone() -> None:
        """Without sharing: passes that cost very much are as few and as full as they can be."""
        overhead, notes["pass overhead"] = notes["pass overhead"], 1e9
        model.gives(conversations, reference)
        notes["pass overhead"] = overhead

    single = replace(model, batch_size=1)
    medians = _interleaved(
        {
            "generated": (len(conversations), lambda: model(conversations)),
            "generated one by one": (len(some), lambda: single(some)),
            "passed": (len(conversations), lambda: model.gives(conversations, reference)),
            "passed without sharing": (len(conversations), pass_alone),
        }
    )
    for name, seconds in medians.items():
        yield Figure(f"{name}: CPU seconds per prompt of {len(masks)} masks of {len(passages)} passages", seconds, "s")
    passed = medians["passed"]
    yield Figure("one pass, times faster than 8 tokens one by one", medians["generated one by one"] / passed, "×", 3.0)
    yield Figure("one pass, times faster than 8 tokens in batches of 16", medians["generated"] / passed, "×")
    yield Figure("shared beginnings, times faster than without", medians["passed without sharing"] / passed, "×")


def _interleaved(work: dict[str, tuple[int, Callable[[], object]]]) -> dict[str, float]:
    """Median CPU seconds per prompt; each round runs all of them, so that other work on the machine meets all alike."""
    times: dict[str, list[float]] = {name: [] for name in work}
    for name, (_, function) in work.items():
        if name == "passed":
            function()  # which also checks once whether sharing is exact
    for _ in range(ROUNDS):
        for name, (n, function) in work.items():
            start = time.process_time()
            function()
            times[name].append((time.process_time() - start) / n)
    return {name: float(np.median(seconds)) for name, seconds in times.items()}
