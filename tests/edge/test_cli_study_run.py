"""``holdfast study run|status|export|merge``: exit codes, what is printed, and where it goes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.cli import main
from holdfast.study.records import GivenUp
from holdfast.study.spec import DataSpec, write_spec
from holdfast.study.store import Store, StoreWriter
from tests.helpers.study_support import HELD, edit, make_spec, write_texts
from tests.helpers.waiting import PATIENCE, wait_until


@pytest.fixture
def study(tmp_path: Path) -> Path:
    texts = write_texts(tmp_path / "texts", 2)
    write_spec(make_spec(texts), tmp_path / "moods.toml")
    return tmp_path / "moods.toml"


def test_a_study_is_run_looked_at_and_exported(
    study: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    results = study.with_suffix(".db")
    assert main(["study", "run", str(study), "--trust", "code"]) == 0
    assert "16 items stored" in capsys.readouterr().out
    assert main(["study", "run", str(study), "--trust", "code", "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    assert main(["study", "status", str(results), "--json"]) == 0
    status = json.loads(capsys.readouterr().out)
    assert (status["n_done"], status["complete"], status["n_sessions"]) == (16, True, 2)
    assert main(["study", "status", str(results)]) == 0
    assert "16 of 16 items of 2 inputs, complete" in capsys.readouterr().out
    assert main(["study", "export", str(results), str(study.with_suffix(".csv"))]) == 0
    assert capsys.readouterr().out == f"Wrote 32 rows to {study.with_suffix('.csv')}.\n"


def test_parts_are_run_by_inputs_and_merged(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parts = [str(study.with_name(name)) for name in ("a.db", "b.db")]
    for part, span in zip(parts, ("0:1", "1:2"), strict=True):
        assert main(["study", "run", str(study), "--trust", "code", "--output", part, "--inputs", span, "--quiet"]) == 0
    assert main(["study", "merge", *parts, "--output", str(study.with_name("all.db"))]) == 0
    assert "16 items in" in capsys.readouterr().out
    with Store(study.with_name("all.db")) as store:
        assert len(store.keys()) == 16


def test_json_mode_prints_one_object_per_line(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "run", str(study), "--trust", "code", "--json"]) == 0
    out, err = capsys.readouterr()
    lines = [json.loads(line) for line in out.splitlines()]
    assert len(err.splitlines()) == 1
    assert err.startswith("holdfast: Loading the model 'python:tests.")
    assert [line["n_done"] for line in lines[:-1]] == list(range(1, 17))
    assert lines[-1]["status"]["n_done"] == 16
    assert lines[-1]["stopped"] is False


def test_errors_end_with_three_and_one_line(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study.with_suffix(".db").write_text("notes")
    assert main(["study", "run", str(study), "--trust", "code"]) == 3
    assert capsys.readouterr().err.splitlines()[-1].startswith("holdfast: '")
    assert main(["study", "status", str(study.with_name("none.db"))]) == 3
    assert "does not exist; it must be a file of results" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        main(["study", "run", str(study), "--trust", "code", "--inputs", "5:2"])
    assert ended.value.code == 3


def test_an_export_says_what_is_not_in_it(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts, out = study.with_name("texts"), str(study.with_name("a.csv"))
    spec = replace(make_spec(texts), data=DataSpec(f"tweeteval:{texts}", skip_unreadable=True))
    (texts / "test_text.txt").write_text("not a good day at all\n\n")
    write_spec(spec, study)
    assert main(["study", "run", str(study), "--trust", "code", "--quiet"]) == 0
    assert main(["study", "export", str(study.with_suffix(".db")), out]) == 0
    assert "Not in it: 8 items of 1 inputs that were left out.\n" in capsys.readouterr().out
    with StoreWriter(study.with_suffix(".db"), spec, settings={}, versions={}) as store:
        store.give_up(GivenUp(1, "", "it died", 3, ("1/lime/0.25/1.0",)))
    edit(study.with_suffix(".db"), "DELETE FROM skips")
    assert main(["study", "export", str(study.with_suffix(".db")), out]) == 0
    told = capsys.readouterr().out
    assert "Not in it: 1 items of 1 inputs that failed.\n" in told
    assert "Not in it: 7 items not computed yet.\n" in told


@pytest.mark.usefixtures("ctrl_c")
def test_a_second_interrupt_ends_with_one_line(study: Path, tmp_path: Path) -> None:
    write_spec(make_spec(study.with_name("texts"), factory="held_moods"), study)
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast", "study", "run", str(study), "--trust", "code"],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {HELD: str(tmp_path)},
    )
    wait_until((tmp_path / "asked").exists)
    process.send_signal(signal.SIGINT)
    time.sleep(1.2)
    while process.poll() is None:  # a process that could not run meanwhile takes both for one
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(PATIENCE / 4)
    out, err = process.communicate()
    assert (process.returncode, out) == (130, "")
    assert err.splitlines()[1:] == [
        "holdfast: Interrupted. Stored items are kept; the same command continues from there."
    ]
