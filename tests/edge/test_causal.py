"""Language models that run here: one pass says what generation would say, whatever the batch; draws are exact."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("transformers")
import torch
from transformers import LlamaForCausalLM

from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.masking.context.causal import CausalModel
from holdfast.masking.torch import notes_of
from tests.helpers.tiny_hub import TinyHub, point_client_at, running
from tests.helpers.tiny_language import language_model, language_tokenizer, logits_of, random_conversations

torch.set_num_threads(1)

KINDS = [(kind, chat) for kind in ("llama", "gpt2") for chat in (True, False)]
NEAR_TIE = 1e-3
HALF = "\ufffd"  # what half a letter is decoded as


def make(kind: str, chat: bool, seed: int = 0, **options: Any) -> CausalModel:
    module = sharing(language_model(kind, seed))
    return CausalModel(module, language_tokenizer(chat=chat), **{"max_tokens": 6, **options})


def sharing(module: Any) -> Any:
    """As in a large model, a pass more costs little compared with some tokens more."""
    notes_of(module)["pass overhead"] = 3.0
    return module


def ask(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def prompt_ids(model: CausalModel, conversation: list[dict[str, str]]) -> list[int]:
    """Written out by hand."""
    (message,) = conversation
    text = message["content"]
    if model.tokenizer.chat_template:
        text = f"<|user|>{text}<|end|><|assistant|>"
    return list(model.tokenizer(text, add_special_tokens=False)["input_ids"])


def write_greedily(model: CausalModel, conversation: list[dict[str, str]]) -> tuple[list[int], float]:
    """Greedy decoding by plain passes of one row, and the least lead of a token over the next."""
    prompt, tokens, lead = prompt_ids(model, conversation), list[int](), np.inf
    while len(tokens) < model.max_tokens:
        scores = logits_of(model.module, prompt + tokens)[-1]
        first, second = scores.topk(2).values.tolist()
        lead = min(lead, first - second)
        if int(scores.argmax()) in model.ends:
            break
        tokens.append(int(scores.argmax()))
    return tokens, lead


@pytest.mark.parametrize(("kind", "chat"), KINDS)
def test_answers_are_those_of_plain_greedy_passes(kind: str, chat: bool) -> None:
    n_compared = 0
    for seed in range(3):
        model = make(kind, chat, seed)
        conversations = random_conversations(20, np.random.default_rng(seed))
        for conversation, answer in zip(conversations, model(conversations), strict=True):
            tokens, lead = write_greedily(model, conversation)
            if lead > NEAR_TIE:
                n_compared += 1
                assert answer.text == model.tokenizer.decode(tokens, skip_special_tokens=True).strip()
                has_ended = len(tokens) < model.max_tokens
                assert answer.finish_reason == ("stop" if has_ended else "length")
                assert answer.completion_tokens == len(tokens) + has_ended
                assert answer.prompt_tokens == len(prompt_ids(model, conversation))
    assert n_compared > 50


def compare_passes(kind: str, chat: bool, n_seeds: int) -> Counter[tuple[bool, bool]]:
    """One pass says what generation says: how often, by (is the answer the reference, is the margin positive)."""
    outcomes: Counter[tuple[bool, bool]] = Counter()
    n_near = 0
    for seed in range(n_seeds):
        model = make(kind, chat, seed, max_tokens=3 + seed % 4)
        conversations = random_conversations(24, np.random.default_rng(seed))
        texts = [answer.text for answer in model(conversations)]
        for reference in [text for text, _ in Counter(text for text in texts if text.strip(HALF)).most_common(6)]:
            passes = model.passes(conversations, reference)
            for text, gives, margin in zip(texts, passes.gives, passes.margins, strict=True):
                if abs(margin) < NEAR_TIE:
                    n_near += 1
                else:
                    assert gives == (text == reference), (reference, text, margin)
                    outcomes[bool(gives), bool(margin > 0)] += 1
                    is_cut = len(model.tokenizer(f" {reference}")["input_ids"]) > model.max_tokens or HALF in reference
                    assert gives or margin < 0 or is_cut
    print(f"{kind}, chat {chat}: {dict(outcomes)}, {n_near} near-ties")
    assert n_near < 0.02 * outcomes.total()
    return outcomes


@pytest.mark.parametrize(("kind", "chat"), KINDS)
def test_one_pass_says_what_generation_says(kind: str, chat: bool) -> None:
    outcomes = compare_passes(kind, chat, n_seeds=2)  # more in tests/house
    assert outcomes[True, False] + outcomes[True, True] > 0
    assert outcomes[False, False] > 100


@pytest.mark.parametrize(("kind", "chat"), KINDS)
def test_answers_and_passes_do_not_depend_on_batch_size_or_order(kind: str, chat: bool) -> None:
    conversations = random_conversations(20, np.random.default_rng(1))
    alone = make(kind, chat, batch_size=1)
    texts = [answer.text for answer in alone(conversations)]
    reference = next(text for text in texts if text)
    passes = alone.passes(conversations, reference)
    order = np.random.default_rng(2).permutation(len(conversations))
    shuffled = [conversations[i] for i in order]
    for batch_size in (3, 16, 64):
        model = make(kind, chat, batch_size=batch_size)
        assert [answer.text for answer in model(shuffled)] == [texts[i] for i in order]
        others = model.passes(shuffled, reference)
        np.testing.assert_array_equal(others.gives, passes.gives[order])
        np.testing.assert_allclose(others.margins, passes.margins[order], atol=2e-4)
        np.testing.assert_allclose(others.log_probabilities, passes.log_probabilities[order], atol=2e-4)
        assert verdicts(model.module) == {True}
    assert verdicts(alone.module) == {True}


@pytest.mark.parametrize(("kind", "chat"), KINDS)
@pytest.mark.parametrize("max_tokens", [2, 3, 20])
def test_log_probabilities_and_margins_are_sums_and_minima_of_plain_passes(
    kind: str, chat: bool, max_tokens: int
) -> None:
    model = make(kind, chat, max_tokens=max_tokens)
    conversations, reference = random_conversations(12, np.random.default_rng(3)), "cab"
    passes = model.passes(conversations, reference)
    for i, conversation in enumerate(conversations):
        prompt = prompt_ids(model, conversation)
        gap = "" if chat or conversation[0]["content"].endswith("\n") else " "
        answer = model.tokenizer(gap + reference, add_special_tokens=False)["input_ids"]
        assert len(answer) == (3 if gap else 2)
        scores = logits_of(model.module, prompt + answer)[len(prompt) - 1 :].double()
        logs, steps = scores.log_softmax(dim=1), [*({token} for token in answer), set(model.ends)]
        total, margin = 0.0, np.inf
        for step, (row, log, wanted) in enumerate(zip(scores.tolist(), logs.exp().tolist(), steps, strict=True)):
            total += np.log(sum(log[token] for token in wanted))
            best = max(row[token] for token in wanted)
            lead = best - max(score for token, score in enumerate(row) if token not in wanted)
            margin = min(margin, lead) if step < max_tokens else margin  # what is later is not written
        assert passes.log_probabilities[i] == pytest.approx(total, abs=1e-3)
        assert passes.margins[i] == pytest.approx(margin, abs=1e-3)
    np.testing.assert_array_equal(model.log_probability(conversations, reference), passes.log_probabilities)
    np.testing.assert_array_equal(model.margins(conversations, reference), passes.margins)
    np.testing.assert_array_equal(model.gives(conversations, f" {reference}\n"), passes.gives)


class Forgetful(LlamaForCausalLM):
    """Computes without what it was given of the past."""

    @wraps(LlamaForCausalLM.forward)
    def forward(self, input_ids: Any = None, **inputs: Any) -> Any:
        if has_past(inputs):
            inputs |= {"past_key_values": None, "attention_mask": None}
        return super().forward(input_ids, **inputs)


class Refusing(LlamaForCausalLM):
    """Goes on from the past by one token at a time."""

    @wraps(LlamaForCausalLM.forward)
    def forward(self, input_ids: Any = None, **inputs: Any) -> Any:
        if has_past(inputs) and input_ids.shape[1] > 1:
            raise ValueError("one at a time")
        return super().forward(input_ids, **inputs)


def has_past(inputs: dict[str, Any]) -> bool:
    past = inputs.get("past_key_values")
    return past is not None and past.get_seq_length() > 0


@pytest.mark.parametrize("kind", [Forgetful, Refusing])
def test_a_model_that_cannot_share_prompts_is_asked_row_by_row(kind: Any) -> None:
    sound = sharing(language_model("llama"))
    broken = sharing(kind(sound.config))
    broken.load_state_dict(sound.state_dict())
    tokenizer, conversations = language_tokenizer(chat=True), random_conversations(32, np.random.default_rng(0))
    truth = CausalModel(sound, tokenizer, max_tokens=6).passes(conversations, "abc")
    passes = CausalModel(broken, tokenizer, max_tokens=6).passes(conversations, "abc")
    np.testing.assert_allclose(passes.log_probabilities, truth.log_probabilities, atol=1e-3)
    assert verdicts(sound) == {True}
    assert verdicts(broken) == {False}


class Hungry(LlamaForCausalLM):
    """Has memory for four rows."""

    @wraps(LlamaForCausalLM.forward)
    def forward(self, input_ids: Any = None, **inputs: Any) -> Any:
        if len(input_ids) > 4:
            raise torch.OutOfMemoryError("out of memory")
        return super().forward(input_ids, **inputs)


def test_lack_of_memory_is_raised_as_torch_does_and_nothing_is_concluded_from_it() -> None:
    module, tokenizer = Hungry(language_model("llama").config), language_tokenizer(chat=True)
    conversations = random_conversations(32, np.random.default_rng(0))
    for work in (lambda model: model(conversations), lambda model: model.gives(conversations, "ab")):
        with pytest.raises(torch.OutOfMemoryError, match="out of memory"):
            work(CausalModel(module, tokenizer, max_tokens=6, batch_size=16))
        work(CausalModel(module, tokenizer, max_tokens=6, batch_size=4))
    assert False not in notes_of(module).values()


def verdicts(module: Any) -> set[bool]:
    """What was found of whether prompts can share what they begin with."""
    return {note for kind, note in notes_of(module).items() if kind[0] == "batch of prompts" and kind[-1]}


def test_defaults_of_the_generation_config_change_nothing_and_stay_as_they_are() -> None:
    plain, model = make("llama", True), make("llama", True)
    settings = {"do_sample": True, "temperature": 3.0, "top_k": 2, "repetition_penalty": 5.0, "no_repeat_ngram_size": 1}
    settings |= {"suppress_tokens": [7, 8], "min_new_tokens": 4, "num_return_sequences": 2}
    model.module.generation_config.update(**settings)
    conversations = random_conversations(24, np.random.default_rng(0))
    state = torch.get_rng_state()
    assert model(conversations) == plain(conversations)
    assert torch.equal(torch.get_rng_state(), state)
    assert {name: getattr(model.module.generation_config, name) for name in settings} == settings
    assert model.module.training


def test_changed_weights_are_seen() -> None:
    model, conversations = make("gpt2", True), random_conversations(8, np.random.default_rng(0))
    before = model.log_probability(conversations, "ab"), model.fingerprint
    with torch.no_grad():
        model.module.transformer.wte.weight.mul_(2)
    after = model.log_probability(conversations, "ab"), model.fingerprint
    assert abs(before[0] - after[0]).max() > 0.1
    assert before[1] != after[1]


@pytest.mark.parametrize(("kind", "chat"), KINDS)
def test_draws_have_the_probabilities_of_the_model(kind: str, chat: bool) -> None:
    n_draws, temperature = 3_000, 2.5
    model = make(kind, chat, max_tokens=2, temperature=temperature, batch_size=500)
    conversation = ask("abc?")
    prompt = prompt_ids(model, conversation)
    first = (logits_of(model.module, prompt)[-1].double() / temperature).softmax(dim=0)
    expected: Counter[str] = Counter()
    for token, probability in enumerate(first.tolist()):
        if token in model.ends:
            expected[""] += probability
            continue
        second = (logits_of(model.module, [*prompt, token])[-1].double() / temperature).softmax(dim=0)
        for after, share in enumerate(second.tolist()):
            path = [token] if after in model.ends else [token, after]
            expected[model.tokenizer.decode(path, skip_special_tokens=True).strip()] += probability * share
    drawn = Counter(answer.text for answer in model([conversation] * n_draws, samples=range(n_draws)))
    assert set(drawn) <= set(expected)
    assert len([text for text, share in expected.items() if share > 0.01]) > 3
    for text, share in expected.items():
        deviation = (n_draws * share * (1 - share)) ** 0.5
        assert abs(drawn[text] - n_draws * share) <= 4.5 * deviation + 3, text  # about one in 10⁵ for each of some 300


def test_a_draw_depends_on_its_conversation_and_number_alone() -> None:
    model = make("llama", True, temperature=1.5, batch_size=4)
    conversations = random_conversations(12, np.random.default_rng(0))
    state = torch.get_rng_state()
    texts = [answer.text for answer in model(conversations, samples=range(12))]
    assert torch.equal(torch.get_rng_state(), state)
    alone = make("llama", True, temperature=1.5, batch_size=1)
    assert [alone([conversations[i]], samples=[i])[0].text for i in range(12)] == texts
    assert [answer.text for answer in model(conversations, samples=range(1, 13))] != texts
    assert model(conversations) == model(conversations, samples=[0] * 12)
    assert len({answer.text for answer in model([conversations[0]] * 20, samples=range(20))}) > 5
    assert len({answer.text for answer in model([ask(f"a{'b' * i}?") for i in range(20)])}) > 5


def test_a_special_token_in_a_reference_is_no_answer() -> None:
    model, conversations = make("llama", True), random_conversations(24, np.random.default_rng(0))
    assert not model.gives(conversations, "<|end|>").any()
    texts = {answer.text for answer in model(conversations) if answer.text}
    assert not any(model.gives(conversations, f"{text}<|end|>{text}").any() for text in texts)


def test_identical_conversations_are_answered_once() -> None:
    model = make("llama", True)
    first, second, third = model([ask("ab"), ask("cd"), ask("ab")])
    assert (first.cached, second.cached, third.cached) == (False, False, True)
    assert third == first._replace(cached=True)
    assert model([]) == []
    assert model.gives([], "ab").shape == (0,)


@pytest.mark.parametrize(("kind", "chat"), KINDS)
def test_a_saved_model_answers_the_same_when_it_is_loaded_again(kind: str, chat: bool, tmp_path: Path) -> None:
    model = make(kind, chat)
    model.module.save_pretrained(tmp_path)
    model.tokenizer.save_pretrained(tmp_path)
    conversations = random_conversations(16, np.random.default_rng(0))
    first, second = (CausalModel.load(f"hf:{tmp_path}", max_tokens=6) for _ in range(2))
    assert first.fingerprint == second.fingerprint
    assert first.ends == model.ends
    assert first(conversations) == second(conversations) == model(conversations)
    np.testing.assert_array_equal(
        first.log_probability(conversations, "ab"), second.log_probability(conversations, "ab")
    )
    others = [CausalModel.load(str(tmp_path), max_tokens=6, temperature=1.0), CausalModel.load(str(tmp_path))]
    assert len({first.fingerprint, *(other.fingerprint for other in others)}) == 3


@pytest.mark.slow
def test_another_process_answers_and_draws_the_same(tmp_path: Path) -> None:
    model = make("llama", True, temperature=1.0)
    model.module.save_pretrained(tmp_path)
    model.tokenizer.save_pretrained(tmp_path)
    code = f"""
from holdfast.masking.context.causal import CausalModel
model = CausalModel.load("hf:{tmp_path}", max_tokens=6, temperature=1.0)
answers = model([[{{"role": "user", "content": "abc?"}}]] * 20, samples=range(20))
print([answer.text for answer in answers], model.fingerprint)
"""
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120).stdout
        for _ in range(2)
    ]
    texts = [answer.text for answer in model([ask("abc?")] * 20, samples=range(20))]
    assert runs[0] == runs[1]
    assert runs[0].startswith(f"{texts} ")


def test_a_hub_id_brings_its_chat_template_and_its_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = make("llama", True)
    model.module.generation_config.eos_token_id = [0, 3]
    model.module.save_pretrained(tmp_path / "model")
    model.tokenizer.save_pretrained(tmp_path / "model")
    with running(TinyHub()) as hub:
        point_client_at(hub.endpoint, tmp_path / "cache", monkeypatch)
        hub.repositories["tiny/llama"] = {"main": tmp_path / "model"}
        loaded = CausalModel.load("hf:tiny/llama", max_tokens=6)
        with pytest.raises(InvalidValueError, match="may not be downloaded"):
            CausalModel.load("hf:tiny/other", download=False)
    assert loaded.ends == {0, 1, 3}
    assert loaded.fingerprint == CausalModel.load(f"hf:{tmp_path / 'model'}", max_tokens=6).fingerprint


def test_pickled_weights_are_refused(tmp_path: Path) -> None:
    model = make("llama", True)
    model.module.save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / "pytorch_model.bin")
    with pytest.raises(InvalidValueError, match="only pickled weights"):
        CausalModel.load(f"hf:{tmp_path}")


def test_what_cannot_be_answered_is_refused() -> None:
    model = make("llama", True)
    with pytest.raises(InvalidValueError, match="leave room for an answer of 6 tokens within the model's 128"):
        model([ask("a" * 200)])
    with pytest.raises(InvalidValueError, match="leave room for an answer of 6 tokens"):
        model.gives([ask("d" * 124)], "dd")
    with pytest.raises(
        InvalidValueError, match=r"`reference` must fit after a prompt of .* tokens within the model's 128"
    ):
        model.log_probability([ask("d" * 100)], "c" * 40)
    for reference in ("", " \n"):
        with pytest.raises(InvalidValueError, match="`reference` must not be blank"):
            model.gives([ask("a")], reference)
    with pytest.raises(InvalidTypeError, match="`reference` must be a text"):
        model.gives([ask("a")], 3)  # type: ignore[arg-type]
    with pytest.raises(InvalidValueError, match="one whole number ≥ 0 for each conversation, got 1 for 2"):
        model([ask("a"), ask("b")], samples=[0])
    with pytest.raises(InvalidTypeError, match="`conversations` must"):
        model(["a"])  # type: ignore[list-item]
    tokenizer = language_tokenizer(chat=True)
    tokenizer.chat_template = "{{ raise_exception('no system message') }}"
    with pytest.raises(InvalidValueError, match="suit the chat template of the tokenizer, got no system message"):
        CausalModel(model.module, tokenizer)([ask("a")])


def test_a_tokenizer_without_an_end_is_refused() -> None:
    module, tokenizer = language_model("llama"), language_tokenizer(chat=False)
    tokenizer.eos_token = None
    module.generation_config.eos_token_id = None
    with pytest.raises(InvalidValueError, match="`tokenizer` must have a token that ends an answer, got none"):
        CausalModel(module, tokenizer)
    with pytest.raises(InvalidTypeError, match="`module` must be a model of Transformers"):
        CausalModel(torch.nn.Linear(2, 2), language_tokenizer(chat=False))
