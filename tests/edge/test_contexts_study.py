"""Studies of contexts: citations are certified like explanations, and an endpoint is paid for each answer once."""

from __future__ import annotations

import json
import re
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast as hf
from holdfast.cli import main
from holdfast.errors import BudgetError, InvalidValueError, StudyError, StudyMismatchError
from holdfast.judging import normal_form
from holdfast.masking.context.endpoint import Endpoint
from holdfast.study import MethodSpec, Store, parse_spec, plan_study, run_study, study_status
from holdfast.study.spec import Trust, commented_example
from tests.helpers.chat_server import ChatServer, Reply
from tests.helpers.readers import read, says, uncited
from tests.helpers.study_support import unmeasured
from tests.helpers.waiting import PATIENCE, wait_until

METHODS = ["cited", "citations", "occlusion", "random"]
N_BOXES, N_PASSAGES = 100, 4


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Any:
    inputs = hf.bind(read, "bundled:contexts", template="citing")[:10]
    path = tmp_path_factory.mktemp("study") / "study.db"
    return hf.study.run(inputs, METHODS, store=path, radii=[1, 2], witness=True)


def rate_of(context: Any, selected: Any, radius: int) -> float:
    """The share of additions up to a radius that keep what the reader says, by enumeration."""
    free, kept = np.flatnonzero(~selected), []
    for size in range(radius + 1):
        for added in combinations(free, size):
            mask = selected.copy()
            mask[list(added)] = True
            kept.append(normal_form(uncited(says(context, mask))) == normal_form(context.answer))
    return float(np.mean(kept))


def test_every_rate_is_that_of_enumeration(study: Any) -> None:
    with Store(study.path) as store:
        results = list(store.results())
    assert len(results) == 10 * len(METHODS)
    assert {result.method for result in results} == set(METHODS)
    for result in results:
        context = study.inputs.raw(result.input)
        assert [point.rate for point in result.curve] == [rate_of(context, result.selected, r) for r in (1, 2)]
        if result.method == "cited":
            assert result.selected.tolist() == context.cited_mask().tolist()
        if result.method == "citations":
            answer = says(context, np.ones(len(context.passages), dtype=bool))
            assert result.selected.tolist() == hf.judging.read_citations(answer, len(context.passages)).tolist()


def test_citations_are_cut_at_no_fraction(study: Any) -> None:
    groups = {group.method: group for group in study.summary().groups}
    assert [groups[name].masks for name in METHODS] == [True, True, False, False]
    spec = parse_spec('model = "a:b"\ndata = "c:d"\nmethods = ["cited", "lime"]\ntop_fractions = [0.25, 0.5]')
    assert [group.name for group in spec.groups] == ["cited/0.25/1.0", "lime/0.25/1.0", "lime/0.5/1.0"]
    with pytest.raises(InvalidValueError, match=r"`methods\.n_samples` must be left out for 'citations'"):
        MethodSpec("citations", n_samples=5)


def test_an_input_without_citations_loses_its_own_items_and_says_why(tmp_path: Path) -> None:
    contexts = [
        {"question": "a?", "passages": ["a", "b"], "cited": [1]},
        {"question": "b?", "passages": ["a", "b"]},
    ]
    inputs = hf.bind(lambda prompt: "yes [2]" if "a?" in prompt else "yes", contexts, template="citing")
    status = hf.study.run(inputs, METHODS, store=tmp_path / "study.db", radii=[1]).status
    assert (status.n_done, sum(len(reason) > 0 for reason in status.failures.values())) == (6, 1)
    assert "`cited` must name at least one passage of this context, got none" in status.failures[1]
    assert "The model cites no passage" in status.failures[1]


def test_an_answer_that_cites_only_a_passage_that_is_not_there_loses_its_item(tmp_path: Path) -> None:
    inputs = hf.bind(lambda prompt: "yes [9]", [{"question": "a?", "passages": ["a", "b"]}], template="citing")
    status = hf.study.run(inputs, ["citations", "random"], store=tmp_path / "study.db", radii=[1]).status
    assert "The model cites no passage" in status.failures[0]


def test_citations_are_for_contexts_alone(tmp_path: Path) -> None:
    inputs = hf.bind("bundled:vader", "bundled:sentences")[:1]
    with pytest.raises(StudyError, match="must be different for texts: 'cited' is for contexts"):
        hf.study.run(inputs, ["cited"], store=tmp_path / "study.db", radii=[1])


def write_boxes(path: Path) -> Path:
    """Contexts each of which holds the code of one box, in the passage that is cited."""
    with path.open("w", encoding="utf-8") as file:
        for box in range(N_BOXES):
            passages = [f"Box {box} has {place} handles." for place in range(N_PASSAGES)]
            passages[box % N_PASSAGES] = f"The code of box {box} is {1000 + box}."
            context = {"id": f"box {box}", "question": f"What is the code of box {box}?", "passages": passages}
            file.write(json.dumps(context | {"cited": [1 + box % N_PASSAGES], "answer": str(1000 + box)}) + "\n")
    return path


def find_code(body: dict[str, Any]) -> str:
    prompt = body["messages"][-1]["content"]
    code = re.search(r"The code of box \d+ is (\d+)", prompt.partition("Question:")[0])
    return code[1] if code else "unknown"


def replying(number: int, body: dict[str, Any]) -> Reply:
    return Reply(text=find_code(body))


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer(replying) as running:
        yield running


def write_study(folder: Path, server: ChatServer, *, n: int = N_BOXES, order: str = "first", **options: Any) -> Path:
    boxes = folder / "boxes.jsonl"
    if not boxes.exists():
        write_boxes(boxes)
    settings = {"cache": str(folder / "answers.db"), "backoff": 0.0, **options}
    listed = ", ".join(f"{key} = {json.dumps(value)}" for key, value in settings.items() if value is not None)
    path = folder / "study.toml"
    path.write_text(
        f'methods = ["cited", "occlusion"]\n'
        f'model = {{ spec = "{server.spec}", options = {{ {listed} }} }}\n'
        f'data = {{ spec = "contexts:{boxes}", n = {n}, order = "{order}" }}\n'
        f"certify = {{ radii = [1, 2] }}\n",
        encoding="utf-8",
    )
    return path


def digests(path: Path) -> dict[str, str]:
    with Store(path) as store:
        return {result.key: result.digest for result in store.results()}


def n_stored(cache: Path) -> int:
    if not cache.exists():
        return 0
    try:
        with closing(sqlite3.connect(f"{cache.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            (count,) = connection.execute("SELECT count(*) FROM answers").fetchone()
            return int(count)
    except sqlite3.OperationalError:  # it is being made
        return 0


def start(study: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "holdfast", "study", "run", str(study), "--output", str(study.with_suffix(".db"))]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=unmeasured())


@pytest.mark.slow
def test_a_killed_study_of_a_hundred_contexts_repeats_no_paid_request(server: ChatServer, tmp_path: Path) -> None:
    study, cache, gate = write_study(tmp_path, server), tmp_path / "answers.db", threading.Event()
    for n_answered in (150, 500):
        # Once so many are answered and stored, further requests hang until the study is killed.
        server.script = lambda number, body, most=n_answered: Reply(
            text=find_code(body), gate=gate if len(server.answered) >= most else None
        )
        with start(study) as victim:
            wait_until(
                lambda most=n_answered: (  # type: ignore[misc]
                    victim.poll() is not None
                    or (
                        len(server.answered) >= most
                        and server.n_in_flight > 0
                        and n_stored(cache) == sum(server.answered.values())
                    )
                )
            )
            victim.send_signal(signal.SIGKILL)
            assert victim.stderr is not None
            said = victim.stderr.read().decode()
        assert victim.returncode == -signal.SIGKILL, said
        wait_until(lambda: server.n_in_flight == 0)
    stored = study_status(study.with_suffix(".db")).n_done
    assert 0 < stored < 2 * N_BOXES
    server.script = replying
    with start(study) as process:
        _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors.decode()
    assert study_status(study.with_suffix(".db")).complete
    assert n_stored(cache) == sum(server.answered.values())  # whatever was answered was paid for once
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    undisturbed = write_study(fresh, server)
    run_study(hf.study.read_spec(undisturbed), undisturbed.with_suffix(".db"))
    assert digests(study.with_suffix(".db")) == digests(undisturbed.with_suffix(".db"))


def test_a_budget_stops_a_study_with_everything_kept_and_another_goes_on(server: ChatServer, tmp_path: Path) -> None:
    results = tmp_path / "study.db"
    spec = hf.study.read_spec(write_study(tmp_path, server, n=8, budget_calls=30))
    with pytest.raises(StudyError, match="BudgetError") as caught:
        run_study(spec, results)
    assert isinstance(caught.value.cause, BudgetError)
    n_paid, kept = server.n_requests, digests(results)
    assert n_paid == 30
    assert 0 < len(kept) < 16
    more = hf.study.read_spec(write_study(tmp_path, server, n=8, budget_calls=1000, n_at_once=3))
    assert run_study(more, results).status.complete
    done = digests(results)
    assert {key: done[key] for key in kept} == kept
    assert n_stored(tmp_path / "answers.db") == sum(server.answered.values())
    n_all = server.n_requests
    whole = hf.study.read_spec(write_study(tmp_path, server, n=8, cache=str(tmp_path / "other.db")))
    run_study(whole, tmp_path / "whole.db")
    assert done == digests(tmp_path / "whole.db")
    assert server.n_requests - n_all == n_all


def test_a_budget_that_ends_in_a_method_of_ones_own_costs_no_item(server: ChatServer, tmp_path: Path) -> None:
    def alone(model: Any, raw: Any) -> Any:
        return model(np.eye(model.n_features, dtype=bool)) == raw.answer

    endpoint = Endpoint(server.url, "tiny", key_variable=None, budget_calls=2, cache=tmp_path / "answers.db")
    inputs = hf.bind(endpoint, f"contexts:{write_boxes(tmp_path / 'boxes.jsonl')}")[:1]
    methods = {"alone": {"spec": alone, "masks": True}}
    with pytest.raises(StudyError, match="BudgetError"):
        hf.study.run(inputs, methods, store=tmp_path / "study.db", radii=[1])
    assert study_status(tmp_path / "study.db").failures == {}


@pytest.mark.parametrize("option", ["max_tokens", "temperature", "seed"])
def test_another_way_of_answering_is_another_study(server: ChatServer, tmp_path: Path, option: str) -> None:
    run_study(hf.study.read_spec(write_study(tmp_path, server, n=1)), tmp_path / "study.db")
    other = hf.study.read_spec(write_study(tmp_path, server, n=1, **{option: 1}))
    with pytest.raises(StudyMismatchError, match=rf"`model\.options\.{option}` is null in the stored study"):
        run_study(other, tmp_path / "study.db")


def test_planning_a_study_sends_nothing(server: ChatServer, tmp_path: Path) -> None:
    plan = plan_study(hf.study.read_spec(write_study(tmp_path, server)))
    assert (plan.n_items, plan.seconds_per_call, server.n_requests) == (200, None, 0)
    assert plan.costs[0].name == "occlusion"


def test_answers_are_guaranteed_to_rest_on_their_citations(
    server: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study, results = str(write_study(tmp_path, server, n=40, order="random")), str(tmp_path / "study.db")
    assert main(["study", "run", study, "--output", results]) == 0
    n_paid = server.n_requests
    capsys.readouterr()
    words = ["study", "guarantee", results, "--method", "cited", "--radius", "2", "--min-rate", "0.9", "--json"]
    assert main(words) == 0
    guarantee = json.loads(capsys.readouterr().out)
    assert (guarantee["n_inputs"], guarantee["n_certified"]) == (40, 40)
    assert guarantee["share"] >= 0.8
    assert server.n_requests == n_paid  # every answer that fresh draws need is in the cache
    assert main(["study", "summary", results]) == 0
    assert "cited, as selected: 40 inputs" in capsys.readouterr().out


def test_workers_find_what_one_process_finds(tmp_path: Path) -> None:
    text = 'model = { spec = "python:tests.helpers.readers:make", options = { kind = "context" } }\n'
    text += 'data = { spec = "bundled:contexts", n = 4 }\nmethods = ["cited", "citations"]\ncertify = { radii = [1] }\n'
    spec = parse_spec(text + 'masking = { options = { template = "citing" } }\n', trust=Trust(code=True))
    run_study(spec, tmp_path / "one.db")
    run_study(spec, tmp_path / "two.db", workers=2)
    assert digests(tmp_path / "one.db") == digests(tmp_path / "two.db")
    assert len(digests(tmp_path / "one.db")) == 8


def test_the_commented_example_for_contexts_is_a_study_of_citations() -> None:
    spec = parse_spec(commented_example(model="openai:http://127.0.0.1:8000/v1#m", data="contexts:qa.jsonl"))
    assert [method.name for method in spec.methods] == ["cited", "occlusion", "random"]
    assert spec.masking.groups is None


def test_lists_and_guarantees_of_random_answers_ask_anew(tmp_path: Path) -> None:
    """At a true rate of .8, nothing is listed at .95; remembered answers would be, in every third study."""
    rng = np.random.default_rng(0)
    contexts = [{"question": f"{i}?", "passages": ["a", "b", "c"], "cited": [1], "answer": "yes"} for i in range(8)]
    inputs = hf.bind(lambda prompt: "yes" if rng.random() < 0.8 else "no", contexts)
    study = hf.study.run(inputs, ["cited"], store=tmp_path / "study.db", radii=[1], answers="random")
    trusted = study.trusted(min_rate=0.95, radius=1, method="cited")
    assert len(trusted) == 0
    assert trusted.n_calls > 8 * 5
    assert {result.witness for result in Store(study.path).results()} == {None}
