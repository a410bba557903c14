"""Contexts behind an endpoint: the same certificate through bad weather, and no answer paid for twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast as hf
from holdfast.errors import BudgetError, InvalidValueError, ModelError
from holdfast.masking.context.endpoint import Endpoint
from tests.core.test_mask_context import PASSAGES, QUESTION, reads, said
from tests.helpers.chat_server import ChatServer, Reply


def replying(number: int, body: dict[str, Any]) -> Reply:
    """The reader of the core tests, behind a server."""
    return Reply(text=reads(body["messages"][-1]["content"]))


def stormy(number: int, body: dict[str, Any]) -> Reply:
    """The same, but every fifth request fails and every seventh is dropped."""
    return Reply(status=503) if number % 5 == 0 else Reply(drop=True) if number % 7 == 0 else replying(number, body)


def certified(server: ChatServer, **options: Any) -> Any:
    endpoint = Endpoint(server.url, "reader", backoff=0.0, key_variable=None, **options)
    context = hf.mask_context(endpoint, PASSAGES, question=QUESTION, system="Be brief.")
    return hf.certify(context, [1], radius=3, reference="84 metres", rng=0)


def test_a_certificate_through_failures_is_the_same() -> None:
    with ChatServer(replying) as calm, ChatServer(stormy) as rough:
        first, second = certified(calm), certified(rough)
        assert rough.n_requests > calm.n_requests
    assert first.n_agreed == second.n_agreed
    assert first.provenance.input == second.provenance.input
    cited = np.arange(5) == 1
    assert first.consistent
    assert "84" in said(cited)


def test_a_second_certificate_pays_for_nothing(tmp_path: Path) -> None:
    with ChatServer(replying) as server:
        first = certified(server, cache=tmp_path / "answers.db")
        n_paid = server.n_requests
        again = certified(server, cache=tmp_path / "answers.db")
        assert server.n_requests == n_paid > 0
    assert first == again


def test_a_budget_stops_with_what_was_answered_kept(tmp_path: Path) -> None:
    with ChatServer(replying) as server:
        with pytest.raises(BudgetError):
            certified(server, cache=tmp_path / "answers.db", budget_calls=6)
        n_paid = server.n_requests
        done = certified(server, cache=tmp_path / "answers.db")
        assert n_paid == 6
        fresh = certified(server)
        assert done.n_agreed == fresh.n_agreed


def unsteady(number: int, body: dict[str, Any]) -> Reply:
    """Every third answer is another, whatever the temperature."""
    return Reply(text="who knows") if number % 3 == 0 else replying(number, body)


@pytest.mark.parametrize("is_cached", [False, True])
def test_an_endpoint_that_is_random_at_temperature_zero_is_seen_through_its_cache(
    tmp_path: Path, is_cached: bool
) -> None:
    other_each_time = ChatServer(lambda number, body: Reply(text=f"answer {number}"))
    with other_each_time as server, pytest.raises(ModelError, match=r"at temperature 0.*`answers=\"random\"`"):
        certified(server, **({"cache": tmp_path / "answers.db"} if is_cached else {}))


def test_random_answers_are_asked_for_draw_by_draw_and_repeated_from_the_cache(tmp_path: Path) -> None:
    def ask(server: ChatServer, rng: int) -> Any:
        endpoint = Endpoint(server.url, "reader", temperature=1.0, key_variable=None, cache=tmp_path / "answers.db")
        endpoint([[{"role": "user", "content": "warm"}]])
        context = hf.mask_context(endpoint, PASSAGES, question=QUESTION, reference="84 metres")
        return hf.certify(context, [1], radius=3, answers="random", rng=rng)

    with ChatServer(unsteady) as server:
        first = ask(server, 0)
        n_paid = server.n_requests
        assert n_paid == first.n_calls + 1  # no prompt was answered from memory, though few differ
        assert ask(server, 0) == first
        assert server.n_requests == n_paid
        assert ask(server, 1).n_evaluated + n_paid < server.n_requests


def test_citations_behind_an_endpoint_say_how_many_tokens_they_cost() -> None:
    with ChatServer(replying) as server:
        endpoint = Endpoint(server.url, "reader", key_variable=None)
        context = hf.mask_context(endpoint, PASSAGES, question=QUESTION, reference="84 metres")
        result = hf.certify_citations(context, "84 metres [2]", rng=0)
        usage = endpoint.usage
    assert (result.prompt_tokens, result.completion_tokens) == (usage.prompt_tokens, usage.completion_tokens)
    assert result.n_calls == usage.n_calls
    assert f"{usage.prompt_tokens:,} tokens read" in result.explain()


def test_an_endpoint_is_another_where_an_option_decides_answers_and_only_there(tmp_path: Path) -> None:
    def known(**options: Any) -> str | None:
        endpoint = Endpoint("http://127.0.0.1:9/v1", "reader", **options)
        return hf.mask_context(endpoint, PASSAGES, question=QUESTION).provenance.model

    deciding: list[dict[str, Any]] = [
        *({"temperature": 1.0}, {"temperature": None}, {"max_tokens": 65}, {"max_tokens": None}, {"seed": 0}),
        *({"extra": {"top_p": 0.1}}, {"extra": {"top_p": 0.2}}),
    ]
    names = [known(), *(known(**options) for options in deciding)]
    assert len(set(names)) == len(names)
    assert known(temperature=1) == known(temperature=1.0)
    others = {"key_variable": "MY_KEY", "cache": tmp_path / "a.db", "budget_calls": 3, "budget_tokens": 9}
    assert known(**others, timeout=3, n_at_once=2, max_tries=2, backoff=0.1, temperature=0) == known()
    assert known(seed=3, **others) == known(seed=3)


def test_an_endpoint_is_named_by_its_address() -> None:
    context = hf.mask_context("openai:http://127.0.0.1:9/v1#reader", PASSAGES, question=QUESTION)
    assert context.provenance.model == "openai:http://127.0.0.1:9/v1#reader"
    with pytest.raises(InvalidValueError, match="`batched` must be left out for a language model"):
        hf.mask_context("openai:http://127.0.0.1:9/v1#reader", PASSAGES, question=QUESTION, batched=True)
