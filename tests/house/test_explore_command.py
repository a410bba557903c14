"""The command `holdfast explore`: what it prints, what it refuses, and how it ends."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import httpx
import pytest

from holdfast.cli import main
from holdfast.explore.server import listen, make_server
from holdfast.explore.workbench import open_workbench
from tests.helpers.explore_support import TEXT, Visitor, decide, fake_workbench, serving
from tests.helpers.waiting import PATIENCE

SCRIPT = [sys.executable, "-m", "holdfast", "explore"]


@pytest.mark.usefixtures("ctrl_c")
def test_the_command_prints_one_address_and_ends_cleanly_with_its_jobs() -> None:
    with subprocess.Popen(
        [*SCRIPT, "--model", "bundled:vader"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.fullmatch(r"Explore at (http://127\.0\.0\.1:\d+)/\?token=([\w-]{32}) \(Ctrl-C ends it\)\n", line)
        assert found, line
        with httpx.Client(base_url=found[1], headers={"X-Holdfast-Token": found[2]}, timeout=PATIENCE) as http:
            visitor = Visitor(http, line)
            assert [one["spec"] for one in visitor.get("/api/workbench").json()["models"]] == ["bundled:vader"]
            view = {"model": "bundled:vader", "input": "0", "method": "own", "selected": []}
            job = visitor.submit("witness", view)
            events = visitor.events(job)
            next(events)
            process.send_signal(signal.SIGINT)
            names = [name for _, name, _ in events]
            assert names[-1] in ("cancelled", "done")
        assert process.wait(PATIENCE) == 0
        assert process.stdout.read() == "Stopped.\n"
        assert process.stderr is not None
        assert process.stderr.read() == ""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--data", "bundled:digits"], "`--data` must come with `--model`"),
        (["--model", "onnx:x.onnx"], "`--data` must be given with `--model`"),
        (["--model", "bundled:vadr"], "Did you mean 'bundled:vader'?"),
        (["--model", "bundled:vader", "--data", "bundled:cancer"], "`--model` must be a model for tables"),
        (["--model", "bundled:vader", "--port", "70000"], "`--port` must be a whole number from 0 to 65535"),
        (["--grid", "7x7"], "`--grid` must come with `--model`"),
    ],
    ids=range(6),
)
def test_what_cannot_be_explored_is_said_at_once(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explore", *options]) == 3
    assert message in capsys.readouterr().err


def test_features_that_are_none_are_said_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="3"):
        main(["explore", "--grid", "7"])
    assert (
        "must look like 14x14, or be one of tokens, words, passages, sentences, messages, got '7'"
        in capsys.readouterr().err
    )


def test_a_port_that_is_taken_is_said_so(capsys: pytest.CaptureFixture[str]) -> None:
    with listen(0) as taken:
        port = taken.getsockname()[1]
        assert main(["explore", "--model", "bundled:vader", "--port", str(port)]) == 3
    assert f"`--port` must be free; {port} is not" in capsys.readouterr().err


def test_the_address_can_be_opened_as_soon_as_it_is_told() -> None:
    """Whoever is quicker than the server waits for its answer, and is not sent away."""
    with listen(0) as sock:
        _, url = make_server(fake_workbench(quick=decide), sock)
        port = int(url.split(":")[2].split("/")[0])
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as client:
            assert client.getpeername() == ("127.0.0.1", port)


def test_help_says_what_the_address_is_for(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["explore", "--help"])
    told = capsys.readouterr().out
    assert "token" in told
    assert "Ctrl-C" in told


@pytest.mark.parametrize(("groups", "n_inputs"), [(None, 200), ("words", 200)])
def test_one_bundled_model_brings_its_own_data(groups: str | None, n_inputs: int) -> None:
    workbench = open_workbench("bundled:vader", groups=groups)
    assert [len(entry.inputs) for entry in workbench.entries.values()] == [n_inputs]
    assert workbench.entries["bundled:vader"].inputs.features == "words"


def test_a_model_of_ones_own_is_explored_on_its_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shouting.py").write_text(
        "import numpy as np\n"
        "def make():\n"
        "    return lambda texts: np.array([[1.0, 2.0 * text.count('!')] for text in texts])\n"
    )
    for name, text in {"test_text.txt": f"hey ! you\n{TEXT}\n", "test_labels.txt": "1\n0\n"}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "mapping.txt").write_text("0\tcalm\n1\tloud\n")
    monkeypatch.syspath_prepend(tmp_path)
    workbench = open_workbench("python:shouting:make", f"tweeteval:{tmp_path}", kind="text")
    with serving(workbench) as one:
        entry = one.get("/api/workbench").json()["models"][0]
        assert entry["name"] == "shouting:make"
        view = {"model": entry["spec"], "input": "0", "method": "own", "selected": [0]}
        assert one.reveal(view, [0, 1])["agrees"] is False
        code = one.post("/api/export/python", {"view": view, "radius": 1}).json()["code"]
        assert f"hf.bind('python:shouting:make', 'tweeteval:{tmp_path}', kind='text')" in code


def test_without_its_packages_the_command_says_which(capsys: pytest.CaptureFixture[str]) -> None:
    hide = "import sys; sys.modules['uvicorn'] = None; from holdfast.cli import main; sys.exit(main(['explore']))"
    done = subprocess.run([sys.executable, "-c", hide], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 3
    assert "needs starlette and uvicorn: pip install 'holdfast[explore]'" in done.stderr


def test_importing_holdfast_does_not_import_the_server() -> None:
    ask = (
        "import sys, holdfast, holdfast.cli; print([m for m in ('starlette', 'uvicorn', 'anyio') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert done.stdout.strip() == "[]"
    assert find_spec("uvicorn") is not None
    assert os.environ.get("HOLDFAST_CACHE")
