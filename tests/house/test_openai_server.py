"""A real OpenAI-compatible server, on a real model, answers an ``Endpoint`` as the model answers here."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

pytest.importorskip("transformers")
import httpx
import torch

from holdfast.masking.context.causal import CausalModel
from holdfast.masking.context.endpoint import Endpoint
from tests.helpers.smollm2 import conversation, questions, smollm2
from tests.helpers.waiting import wait_until

torch.set_num_threads(1)

NEEDED = ("fastapi", "uvicorn", "openai", "pydantic")
MAX_TOKENS = 8


@pytest.fixture(scope="module")
def folder() -> Path:
    lacking = [name for name in NEEDED if find_spec(name) is None]
    if lacking:
        pytest.skip(
            f"`transformers serve` IS NOT TESTED: {', '.join(lacking)}. Run: pip install 'transformers[serving]'"
        )
    return smollm2()


@pytest.fixture(scope="module")
def url(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The base URL of a server on a free port of this machine, which ends with the tests."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "transformers.cli.transformers", "serve", str(folder), "--host", "127.0.0.1"]
    command += ["--port", str(port), "--device", "cpu", "--dtype", "float32"]
    log = tmp_path_factory.mktemp("server") / "log.txt"
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "NO_PROXY": "127.0.0.1"}
    with log.open("w") as output:
        server = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment)

    def is_ready() -> bool:
        assert server.poll() is None, log.read_text()
        try:
            return httpx.get(f"http://127.0.0.1:{port}/health", timeout=5, trust_env=False).status_code == 200
        except httpx.TransportError:
            return False

    try:
        wait_until(is_ready, seconds=240)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.terminate()
        server.wait(timeout=60)


@pytest.mark.slow
def test_a_real_server_answers_as_the_model_does_here(
    url: str, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    question, passages = questions()[0]
    conversations = [conversation(question, passages, [i == 2 or i == shown for i in range(6)]) for shown in (0, 2)]
    conversations.append([{"role": "user", "content": "What is the capital of France?"}])
    options = {"max_tokens": MAX_TOKENS, "timeout": 240.0, "n_at_once": 1, "key_variable": None}
    endpoint = Endpoint(url, str(folder), cache=tmp_path / "answers.db", **options)
    answers = endpoint(conversations)
    model = CausalModel.load(f"hf:{folder}", max_tokens=MAX_TOKENS)
    assert [answer.text.strip() for answer in answers] == [answer.text for answer in model(conversations)]
    assert [answer.prompt_tokens for answer in answers] == [answer.prompt_tokens for answer in model(conversations)]
    assert endpoint(conversations) == [answer._replace(cached=True) for answer in answers]
    assert endpoint.usage.n_calls == len(conversations)
