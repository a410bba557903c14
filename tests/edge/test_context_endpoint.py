"""Contexts behind an endpoint: the same certificate through bad weather, and no answer paid for twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast as hf
from holdfast.errors import BudgetError, InvalidValueError
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
    assert said(cited) == "84 metres"


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


def test_an_endpoint_is_named_by_its_address() -> None:
    context = hf.mask_context("openai:http://127.0.0.1:9/v1#reader", PASSAGES, question=QUESTION)
    assert context.provenance.model == "openai:http://127.0.0.1:9/v1#reader"
    with pytest.raises(InvalidValueError, match="`batched` must be left out for an endpoint"):
        hf.mask_context("openai:http://127.0.0.1:9/v1#reader", PASSAGES, question=QUESTION, batched=True)
