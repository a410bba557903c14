"""Citations of a real language model of 135 million weights, certified: are they enough, and are they needed?

SmolLM2-135M-Instruct answers the bundled questions from their passages. Five explanations of its answers are compared:
the gold citations of the data, those that the model gives when asked, leave-one-out, LIME and random passages (as many
as the gold ones). Rates of one question are exact; their means over questions have guaranteed intervals, for questions
such as these. An answer counts as kept if it still holds the right answer in one of its accepted forms.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from tests.helpers.smollm2 import COMMAND, missing, smollm2

import holdfast as hf
from benchmarks.figures import Figure
from holdfast.bounds import betting_mean
from holdfast.judging import normal_form

RADIUS, MAX_TOKENS, LIME_SAMPLES, CONFIDENCE = 1, 12, 48, 0.9
METHODS = ("gold citations", "own citations", "leave-one-out", "lime", "random")


def run(n_questions: int | None = None) -> Iterator[Figure]:
    if missing():
        print(f"  LEFT OUT: everything ({', '.join(missing())} missing: {COMMAND})")
        return
    import torch

    torch.set_num_threads(1)
    model = hf.CausalModel.load(str(smollm2()), max_tokens=MAX_TOKENS)
    questions = hf.data.load("bundled:contexts").inputs[:n_questions]
    start, rates, n_right, n_cited = time.perf_counter(), {name: [] for name in METHODS}, 0, 0
    for number, context in enumerate(questions):
        certified = certify_all(model, context, number)
        n_right += certified is not None
        n_cited += certified is not None and "own citations" in certified
        for name, result in (certified or {}).items():
            rates[name].append((result.sufficiency.rate, result.necessity_rate))
    yield Figure("questions", len(questions))
    yield Figure("answered rightly with all passages shown", n_right)
    yield Figure("of these, with citations when asked for them", n_cited)
    print(f"  {'':<16} {'enough':>7} {'interval':>16} {'needed':>8} {'interval':>16}   questions")
    for name in METHODS:
        if rates[name]:
            enough, needed = (np.array(column) for column in zip(*rates[name], strict=True))
            row = " ".join(f"{values.mean():7.2f} {interval(values):>16}" for values in (enough, needed))
            print(f"  {name:<16} {row}   {len(enough)}")
            yield Figure(f"{name}: mean sufficiency, up to {RADIUS} more passage", float(enough.mean()))
            yield Figure(f"{name}: mean necessity", float(needed.mean()))
    yield Figure("minutes", (time.perf_counter() - start) / 60, "min")


def interval(values: Any) -> str:
    """Where the mean over questions such as these lies, at 90 % for each number on its own."""
    ((low, high),) = betting_mean(values, confidence=CONFIDENCE)
    return f"[{low:.2f}, {high:.2f}]"


def certify_all(model: hf.CausalModel, question: Any, number: int) -> dict[str, hf.CitationCertificate] | None:
    """Every explanation of the answer to one question; None if the answer is wrong."""
    passages, forms = question.passages, [normal_form(form) for form in (question.answer, *question.accepted)]
    says_it = hf.judging.judge(lambda answer, _: any(form in normal_form(answer) for form in forms), name="accepted")
    everything = np.ones((1, len(passages)), dtype=bool)
    seen = str(hf.mask_context(model, passages, question=question.question)(everything)[0])
    if not says_it(np.array([seen], dtype=object), question.answer)[0]:
        return None
    # Scores explain how likely the answer is that was seen; certificates ask for the right one, however it is worded.
    scored = hf.mask_context(model, passages, question=question.question, reference=seen)
    gold, n_gold = question.cited_mask(), len(question.cited)
    explanations = {
        "gold citations": gold,
        "own citations": scored.cite(),
        "leave-one-out": hf.top(hf.attribute(scored, "occlusion"), n_gold),
        "lime": hf.top(hf.attribute(scored, "lime", n_samples=LIME_SAMPLES, rng=number), n_gold),
        "random": hf.top(np.random.default_rng(number).random(len(passages)), n_gold),
    }
    asked = hf.Evaluator(hf.mask_context(model, passages, question=question.question, reference=question.answer))
    options: dict[str, Any] = {"radius": RADIUS, "min_rate": None, "witness": False, "agree": says_it, "rng": 0}
    return {
        name: hf.certify_citations(asked, mask, **options, check_determinism=False)
        for name, mask in explanations.items()
        if mask.any()
    }
