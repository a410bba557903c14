"""Files that holdfast writes: whole or not at all, whoever raises, is killed, or writes at the same time."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from holdfast import Certificate
from holdfast.atomic import replacing, write_whole
from holdfast.certification.serialization import read_about
from holdfast.cli import main
from holdfast.errors import InvalidValueError, StoreError
from holdfast.report.page import write_report
from holdfast.study.export import export_study
from holdfast.study.session import run_study
from holdfast.study.spec import MethodSpec
from tests.helpers.study_support import HELD, make_spec, write_texts
from tests.helpers.waiting import PATIENCE, wait_until

SRC = Path(__file__).parents[2] / "src" / "holdfast"

WRITERS = {"write_text", "write_bytes", "savefig", "to_parquet", "dump", "save", "savez", "tofile"}
"""Methods that write a file by its name."""

OWN_WAY = {
    "plans/catalog.py",  # a temporary folder beside the cache; and a script for developers
    "study/on_ray.py",  # Ray's log, which grows
    "cli/__init__.py",  # what is thrown away
    "explore/questions.py",  # into memory, for the page to offer
}


def writing_calls(tree: ast.AST) -> list[str]:
    """Calls that open a file for writing or write one by its name."""
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        given = [
            part.value for part in [*node.args, *(k.value for k in node.keywords)] if isinstance(part, ast.Constant)
        ]
        modes = [one for one in given[:2] if isinstance(one, str) and set(one) <= set("rwxabt+")]
        opened = name == "open" and any(set(mode) & set("wax+") for mode in modes)
        low_level = name == "open" and "O_WRONLY" in ast.dump(node)
        if name in WRITERS or opened or low_level:
            found.append(f"{name} in line {node.lineno}")
    return found


def test_every_place_that_writes_a_file_replaces_it_whole_or_is_known_not_to() -> None:
    writers = {str(path.relative_to(SRC)) for path in SRC.rglob("*.py") if writing_calls(ast.parse(path.read_text()))}
    careful = {name for name in writers if "replacing(" in (SRC / name).read_text()}
    assert {"study/export.py", "report/page.py"} <= careful
    assert writers - careful == OWN_WAY


def test_the_search_for_writing_calls_finds_them() -> None:
    code = "Path(a).write_text(b)\nopen(a, 'w')\nopen(a)\npath.open('rb')\nframe.to_parquet(a)\nopen(a, mode='a')"
    assert [call.rpartition(" ")[2] for call in writing_calls(ast.parse(code))] == ["1", "2", "5", "6"]


def test_a_file_that_could_not_be_finished_leaves_the_old_one_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "result.json"
    target.write_text("old")
    with pytest.raises(UnicodeEncodeError), replacing(target) as unfinished:
        unfinished.write_text("half \ud800", encoding="utf-8")
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]
    assert target.read_text() == "old"


def test_a_finished_file_replaces_the_old_one_behind_links_too(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text("old")
    (tmp_path / "link.json").symlink_to("real.json")
    write_whole(tmp_path / "link.json", "new")
    assert (tmp_path / "link.json").is_symlink()
    assert (tmp_path / "real.json").read_text() == "new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.json", "real.json"]


def test_the_longest_name_a_file_can_have_can_be_written(tmp_path: Path) -> None:
    target = tmp_path / ("ä" * 120 + ".json")
    write_whole(target, "new")
    assert target.read_text() == "new"


def test_what_is_no_file_is_written_and_stays_what_it_is(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    heard: list[str] = []
    reader = threading.Thread(target=lambda: heard.append(pipe.read_text()))
    reader.start()
    write_whole(pipe, "through the pipe")
    reader.join(PATIENCE)
    assert heard == ["through the pipe"]
    assert pipe.is_fifo()


def test_a_folder_that_is_not_there_or_is_the_target_is_an_error_of_files(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="Cannot write to the folder"):
        write_whole(tmp_path / "missing" / "a.json", "text")
    with pytest.raises(OSError, match="directory"):
        write_whole(tmp_path, "text")


KILLED = """
import os, signal, sys
from pathlib import Path
from holdfast.atomic import replacing
with replacing(Path(sys.argv[1])) as unfinished:
    with unfinished.open("w") as file:
        file.write("half")
        file.flush()
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_process_that_is_killed_while_it_writes_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "result.json"
    target.write_text("old")
    done = subprocess.run([sys.executable, "-c", KILLED, str(target)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert target.read_text() == "old"


def test_what_killed_writers_left_is_removed_by_the_next(tmp_path: Path) -> None:
    target = tmp_path / "result.json"
    for _ in range(2):
        subprocess.run([sys.executable, "-c", KILLED, str(target)], check=False)
    assert len(list(tmp_path.iterdir())) == 1, "the second writer has removed what the first left"
    write_whole(target, "new")
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


LIVING = """
import sys
from pathlib import Path
from holdfast.atomic import replacing
with replacing(Path(sys.argv[1])) as unfinished:
    unfinished.write_text("slowly")
    print("begun", flush=True)
    sys.stdin.read()
"""


def test_what_living_writers_and_others_have_is_left_alone(tmp_path: Path) -> None:
    others = [
        tmp_path / ".holdfast-notes.txt",
        tmp_path / ".holdfast-12345678",
        tmp_path / ".holdfast-abcdefgh" / "notes",
    ]
    for path in others:
        path.parent.mkdir(exist_ok=True)
        path.write_text("precious")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "unfinished").write_text("precious")
    (tmp_path / ".holdfast-linklink").symlink_to("elsewhere")
    command = [sys.executable, "-c", LIVING, str(tmp_path / "slow.json")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as living:
        assert living.stdout is not None
        assert living.stdout.readline() == "begun\n"
        write_whole(tmp_path / "quick.json", "quickly")
        living.communicate()
    assert (tmp_path / "slow.json").read_text() == "slowly"
    assert all(path.read_text() == "precious" for path in (*others, tmp_path / "elsewhere" / "unfinished"))
    left = {"slow.json", "quick.json", "elsewhere", ".holdfast-linklink", *(path.name for path in others[:2])}
    assert {path.name for path in tmp_path.iterdir()} == left | {".holdfast-abcdefgh"}


def test_a_merge_that_was_killed_leaves_nothing_for_long(tmp_path: Path) -> None:
    killed = KILLED.replace('unfinished.open("w")', "open(f'{unfinished}-wal', 'w')")
    subprocess.run([sys.executable, "-c", killed, str(tmp_path / "all.db")], check=False)
    (folder,) = tmp_path.iterdir()
    assert {path.name for path in folder.iterdir()} == {"lock", "unfinished", "unfinished-wal"}
    write_whole(tmp_path / "a.json", "new")
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def certify_into(output: Path, rng: int) -> list[str]:
    asked = [
        "--model",
        "python:tests.helpers.study_support:moods",
        "--set",
        "kind=text",
        "--input",
        "text:good not bad fine day",
    ]
    question = ["--method", "occlusion", "--top", "2", "--radius", "2", "--set", f"rng={rng}"]
    return ["certify", *asked, *question, "--output", str(output)]


def test_a_certificate_that_many_write_at_once_is_always_whole(tmp_path: Path) -> None:
    output = tmp_path / "cert.json"
    assert main(certify_into(output, 0)) == 0
    short = output.read_text()
    assert Certificate.from_json(short).to_json(read_about(short)) + "\n" == short
    stop, seen = threading.Event(), set[str]()

    def watch() -> None:
        while not stop.is_set():
            seen.add(output.read_text())

    def write(text: str) -> None:
        for _ in range(300):
            write_whole(output, text)

    watcher = threading.Thread(target=watch)
    writers = [threading.Thread(target=write, args=(text,)) for text in (short, short * 40)]
    for thread in (watcher, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    stop.set()
    watcher.join()
    assert seen == {short, short * 40}
    assert [path.name for path in tmp_path.iterdir()] == ["cert.json"]


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of files that commands read."""
    for name in ("a.png", "a.csv", "a.npy", "a.onnx", "model/config.json", "photos/cat.png", "maker.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("precious")
    (tmp_path / "link.json").symlink_to("a.png")
    os.link(tmp_path / "a.png", tmp_path / "hard.json")
    monkeypatch.chdir(tmp_path)
    return tmp_path


CERTIFY = "certify --model bundled:digits-resnet --radius 1 --method random --top 2"
CHECK = "check --radius 1 --min-rate 0.5 --method random --top 2"


@pytest.mark.parametrize(
    ("command", "named"),
    [
        (f"{CERTIFY} --input a.png --output a.png", "`--output` must be a different file from `--input`, got 'a.png'"),
        (f"{CERTIFY} --input a.png --output ./photos/../a.png", "a different file from `--input`"),
        (f"{CERTIFY} --input a.png --output link.json", "a different file from `--input`"),
        (f"{CERTIFY} --input a.png --output hard.json", "a different file from `--input`"),
        (f"{CERTIFY} --input a.csv#0 --output a.csv", "a different file from `--input`"),
        (f"{CERTIFY} --input images:photos#0 --output photos/cat.png", "a different file from `--input`"),
        (f"{CERTIFY} --input table:a.csv#0 --output a.csv", "a different file from `--input`"),
        (f"{CHECK} --model onnx:a.onnx --input a.png --output a.onnx", "a different file from `--model`"),
        (
            f"{CHECK} --model onnx:a.onnx --input a.png --output a.png",
            "`--output` must be a different file from `--input`",
        ),
        (f"{CHECK} --model hf:model --input a.png --output model/config.json", "a different file from `--model`"),
        (f"{CHECK} --model python:maker:make --input a.png --output maker.py", "a different file from `--model`"),
        (f"{CHECK} --model onnx:a.onnx --input a.png --output x --output ./x", "`--output` must name each file once"),
        (
            "compare --model onnx:a.onnx --input a.png --explanation mine=a.npy --radii 1 --output a.npy",
            "a different file from `--explanation`",
        ),
        ("study merge a.csv a.npy --output a.csv", "a different file from `RESULTS`"),
        ("study export a.csv a.csv", "a different file from `RESULTS`"),
        ("study report a.csv --output a.csv", "a different file from `RESULTS`"),
        ("study init a.onnx --force --model onnx:a.onnx", "`FILE` must be a different file from `--model`"),
    ],
)
def test_no_command_writes_over_what_it_reads(
    place: Path, command: str, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = files_in(place)
    assert main(command.split()) == 3
    assert named in capsys.readouterr().err
    assert files_in(place) == before


def test_what_a_study_reads_is_not_written_over_by_its_page_or_its_tables(tmp_path: Path) -> None:
    texts = write_texts(tmp_path / "texts", 1)
    run_study(make_spec(texts, methods=(MethodSpec("occlusion"),)), tmp_path / "study.db")
    before = files_in(texts)
    with pytest.raises(InvalidValueError, match="`out` must be a different file from the study's data"):
        export_study(tmp_path / "study.db", texts / "test_text.txt", kind="csv")
    with pytest.raises(InvalidValueError, match="`output` must be a different file from the study's data"):
        write_report(tmp_path / "study.db", texts / "mapping.txt")
    assert files_in(texts) == before


def test_a_result_may_be_written_over_an_older_one(tmp_path: Path) -> None:
    for rng in (1, 2):
        assert main(certify_into(tmp_path / "cert.json", rng)) == 0
    assert Certificate.from_json((tmp_path / "cert.json").read_text()).rng_key == 2


def run_cli(*arguments: str, **more: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "holdfast", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)


def test_two_commands_that_write_one_certificate_leave_one_of_theirs(tmp_path: Path) -> None:
    output = tmp_path / "cert.json"
    both = [run_cli(*certify_into(output, rng)) for rng in (1, 2)]
    assert [process.communicate(timeout=PATIENCE) and process.returncode for process in both] == [0, 0]
    assert Certificate.from_json(output.read_text()).rng_key in (1, 2)
    assert [path.name for path in tmp_path.iterdir()] == ["cert.json"]


STUDY = """
data = "tweeteval:{folder}"
methods = ["occlusion"]
certify = {{ radii = [1, 2] }}

[model]
spec = "python:tests.helpers.study_support:held_moods"
options = {{ kind = "text", classes = ["bad", "good"] }}
"""


def test_of_two_studies_that_run_into_one_file_one_is_refused_and_the_other_is_complete(tmp_path: Path) -> None:
    study = tmp_path / "study.toml"
    study.write_text(STUDY.format(folder=write_texts(tmp_path / "texts", 6)))
    held = os.environ | {HELD: str(tmp_path)}
    first = run_cli("study", "run", str(study), "--trust", "code", "--quiet", env=held)
    wait_until((tmp_path / "asked").exists)
    second = run_cli("study", "run", str(study), "--trust", "code", "--quiet", env=held)
    told = second.communicate(timeout=PATIENCE)[1]
    assert second.returncode == 3
    assert "is being written by another process" in told
    (tmp_path / "go").touch()
    assert first.communicate(timeout=PATIENCE)[1] == ""
    assert first.returncode == 0
    assert main(["study", "status", str(tmp_path / "study.db")]) == 0
