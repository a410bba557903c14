"""Judges made of real models: an embedding in torch, and a language model behind an endpoint."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import holdfast as hf
from holdfast.errors import ModelError
from holdfast.masking.context.endpoint import Endpoint
from tests.helpers.chat_server import ChatServer, Reply


def answers(*texts: str) -> Any:
    return np.array(texts, dtype=object)


class TinyEmbedding(torch.nn.Module):
    """The mean of random vectors of the words of each text, in any order of the words."""

    def __init__(self) -> None:
        super().__init__()
        self.words = torch.nn.EmbeddingBag(1009, 32)

    @torch.no_grad()
    def encode(self, texts: list[str]) -> torch.Tensor:
        words = [[sum(map(ord, word)) % 1009 for word in text.split()] for text in texts]
        starts = np.cumsum([0, *map(len, words)])[:-1]
        return self.words(torch.tensor([word for row in words for word in row]), torch.tensor(starts))


def test_an_embedding_in_torch_tells_what_is_meant() -> None:
    torch.manual_seed(0)
    same = hf.judging.same_meaning(TinyEmbedding().encode, 0.99)
    assert same.name == "same_meaning(TinyEmbedding.encode, 0.99)"
    assert same(answers("tall 84 metres", "84 metres", "wide 12 feet"), "84 metres tall").tolist() == [
        True,
        False,
        False,
    ]
    assert hf.judging.same_meaning(TinyEmbedding().encode, -1)(answers("wide 12 feet"), "84 metres tall").all()


def judging(number: int, body: dict[str, Any]) -> Reply:
    """Says yes if both answers have the same number."""
    prompt = body["messages"][-1]["content"]
    first, second = re.findall(r"answer: .*?(\d+|$)", prompt, re.MULTILINE)
    return Reply("**Yes**, they do." if first == second else "no")


def test_a_language_model_behind_an_endpoint_judges_each_pair_once() -> None:
    with ChatServer(judging) as server:
        same = hf.judging.llm_judge(server.spec, question="How tall is the tower?")
        judged = same(answers("It is 84 m tall", "80 m", "84 METRES.", "80 m", "not known"), "84 metres")
        assert judged.tolist() == [True, False, True, False, False]
        assert same(answers("80 m", "It is 84 m tall"), "84 metres").tolist() == [False, True]
        assert server.n_requests == 3
        assert same.name == f"llm_judge({server.spec})"
        prompts = [body["messages"][0]["content"] for body in server.bodies]
    assert all('to the question "How tall is the tower?"' in prompt for prompt in prompts)
    assert sum("First answer: 80 m\n" in prompt and "Second answer: 84 metres\n" in prompt for prompt in prompts) == 1


def test_an_endpoint_with_a_cache_is_paid_once_for_a_verdict(tmp_path: Path) -> None:
    with ChatServer(judging) as server:
        for _ in range(2):
            endpoint = Endpoint(server.url, "tiny", cache=tmp_path / "verdicts.db")
            assert hf.judging.llm_judge(endpoint)(answers("84 m"), "84 metres").all()
        assert server.n_requests == 1


class Local:
    """Called as an endpoint is, and no endpoint."""

    def __call__(self, conversations: Any, samples: Any = None) -> list[Reply]:
        return [judging(1, {"messages": messages}) for messages in conversations]


def test_anything_that_is_called_as_an_endpoint_judges() -> None:
    same = hf.judging.llm_judge(Local())
    assert same(answers("84 m", "80 m"), "84 metres").tolist() == [True, False]
    assert same.name == "llm_judge(Local)"


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [("Yes.", True), (" NO!", False), ("yes, since …", True), ('"No"', False), ("_yes_", True), ("No: 5 m", False)],
)
def test_yes_or_no_is_read_at_the_beginning(reply: str, verdict: bool) -> None:
    assert hf.judging.llm_judge(lambda prompt: reply)(answers("a"), "b").tolist() == [verdict]


@pytest.mark.parametrize("reply", ["Not the same", "Yesterday", "none", "I think yes", "", "?", None, True])
def test_any_other_reply_is_quoted(reply: Any) -> None:
    with pytest.raises(ModelError, match=r"^The judge must reply yes or no, got ") as caught:
        hf.judging.llm_judge(lambda prompt: reply)(answers("a"), "b")
    assert repr(reply) in str(caught.value)


def test_a_prompt_of_ones_own_is_filled_in_as_it_is() -> None:
    asked: list[str] = []

    def ask(prompt: str) -> str:
        asked.append(prompt)
        return "yes"

    same = hf.judging.llm_judge(ask, question="{answer}?", prompt="{{Q}} {question} A {answer} R {reference}")
    assert same(answers("{reference}"), "{0}").all()
    assert asked == ["{Q} {answer}? A {reference} R {0}"]


def test_an_answer_of_a_language_model_is_certified_by_another() -> None:
    def ask(prompt: str) -> str:
        passages = prompt.split("Question")[0]
        return "80 m" if "annex" in passages else "It is 84 m tall" if "rain" in passages else "84 metres"

    passages = ["The tower is 84 m tall.", "There is much rain.", "The annex is 80 m tall."]
    context = hf.mask_context(ask, passages, question="How tall is the tower?")
    with ChatServer(judging) as server:
        certificate = hf.certify(context, [0], radius=2, agree=hf.judging.llm_judge(server.spec))
        assert certificate.rate == 0.5
        assert server.n_requests == 2
    assert certificate.agree == f"llm_judge({server.spec})"
