"""On a real language model, one pass says what generation says, for hundreds of random masks of real questions."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

pytest.importorskip("transformers")
import torch

from holdfast.masking.context.causal import CausalModel
from tests.helpers.smollm2 import conversation, questions, smollm2

torch.set_num_threads(1)

NEAR_TIE = 1e-3
N_MASKS, MAX_TOKENS = 25, 10


@pytest.mark.slow
def test_one_pass_says_what_generation_says_on_a_real_model() -> None:
    model = CausalModel.load(f"hf:{smollm2()}", max_tokens=MAX_TOKENS)
    rng, n_masks, n_near, outcomes = np.random.default_rng(0), 0, 0, Counter[bool]()
    for question, passages in questions()[:21]:
        masks = rng.random((N_MASKS, len(passages))) < 0.6
        conversations = [conversation(question, passages, mask) for mask in masks]
        texts = [answer.text for answer in model(conversations)]
        reference = Counter(texts).most_common(1)[0][0]
        passes = model.passes(conversations, reference)
        n_masks += len(masks)
        for text, gives, margin in zip(texts, passes.gives, passes.margins, strict=True):
            outcomes[bool(gives)] += 1
            if abs(margin) < NEAR_TIE:
                n_near += 1
                print(f"near-tie ({margin:.1e}): {text!r} for {reference!r}, one pass says {gives}")
            else:
                assert gives == (text == reference), (question, reference, text, margin)
    print(f"{n_masks} masks, {dict(outcomes)}, {n_near} near-ties")
    assert n_masks >= 500
    assert min(outcomes[True], outcomes[False]) > 50
    assert n_near <= 0.02 * n_masks


@pytest.mark.slow
def test_the_real_model_answers_a_question_of_general_knowledge() -> None:
    model = CausalModel.load(f"hf:{smollm2()}", max_tokens=16)
    question = [{"role": "user", "content": "What is the capital of France?"}]
    (answer,) = model([question])
    assert answer.text == "The capital of France is Paris."
    assert (answer.finish_reason, answer.prompt_tokens, answer.completion_tokens) == ("stop", 37, 8)
    assert model.gives([question], answer.text)[0]
    assert not model.gives([question], "Paris")[0]
    assert model.log_probability([question], answer.text)[0] > model.log_probability([question], "Paris")[0]
