"""Studies and results of strangers: every command opens them, says what they name, and runs nothing of it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast import study
from holdfast.cli import main
from holdfast.errors import StudyError
from holdfast.report.page import write_report
from holdfast.study.spec import ModelSpec, Trust, write_spec
from holdfast.study.store import Store
from tests.helpers.study_support import edit, make_spec, write_texts
from tests.helpers.tiny_hub import TinyHub, running

TRAP = "trap_of_these_tests"

GUARANTEE = ["guarantee", "--method", "occlusion", "--radius", "1", "--min-rate", "0.5"]
LOADING = [
    ["plan", "{toml}"],
    ["plan", "{toml}", "--untimed"],
    ["run", "{toml}", "--results", "{new}"],
    ["run", "{toml}", "--results", "{new}", "--workers", "1"],
    ["report", "{db}", "--output", "{page}"],
    ["report", "{db}", "--output", "{page}", "--no-model", "--set", "accuracy=1"],
    [*GUARANTEE, "{db}"],
]
"""Commands that load the model that a file names."""

READING = [
    ["report", "{db}", "--output", "{page}", "--no-model"],
    [*GUARANTEE, "{db}", "--stored"],
    ["status", "{db}"],
    ["summary", "{db}"],
    ["export", "{db}", "{csv}"],
    ["merge", "{db}", "--output", "{new}"],
]
"""Commands that only read."""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    asked = {"methods": (study.MethodSpec("occlusion"),), "top_fractions": (0.25,), "smoothing": study.SmoothingSpec()}
    spec = make_spec(write_texts(folder / "texts", 2), **asked)
    study.run_study(spec, folder / "s.db")
    write_spec(spec, folder / "s.toml")
    return folder


@pytest.fixture
def files(finished: Path, tmp_path: Path) -> dict[str, str]:
    """A study and its results, both made by a stranger who can choose every byte."""
    for name in ("s.db", "s.toml"):
        shutil.copy(finished / name, tmp_path)
    names = {"toml": "s.toml", "db": "s.db", "new": "new.db", "page": "page.html", "csv": "s.csv"}
    return {key: str(tmp_path / name) for key, name in names.items()}


def forge(files: dict[str, str], model: str, options: dict[str, Any], data: str | None = None) -> None:
    """Name another model in both files, as an editor of texts and of databases would."""
    with Store(files["db"]) as store:
        spec = json.loads(store.meta("spec"))
    spec["model"] = {"spec": model, "options": options}
    spec["data"]["spec"] = data or spec["data"]["spec"]
    edit(Path(files["db"]), "UPDATE meta SET value = ? WHERE name = 'spec'", json.dumps(spec))
    lines = [f"{name} = {json.dumps(value)}" for name, value in options.items()]
    Path(files["toml"]).write_text(
        f"data = {json.dumps(spec['data']['spec'])}\nmethods = ['occlusion']\ncertify = {{ radii = [1, 3] }}\n"
        f"model.spec = {json.dumps(model)}\n[model.options]\n" + "\n".join(lines),
        encoding="utf-8",
    )


def told(words: list[str], files: dict[str, str]) -> list[str]:
    return ["study", *(word.format(**files) for word in words)]


@pytest.fixture
def trap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A module that can be imported and makes a folder when it is, or when its factory is called."""
    place = tmp_path / "code-was-run"
    code = f"import os\nos.makedirs({str(place)!r}, exist_ok=True)\ndef make():\n    return lambda texts: None\n"
    (tmp_path / f"{TRAP}.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield place
    sys.modules.pop(TRAP, None)


@pytest.mark.parametrize("words", LOADING, ids=" ".join)
def test_code_that_a_file_names_is_not_run_unless_the_command_line_says_so(
    words: list[str], files: dict[str, str], trap: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    forge(files, f"python:{TRAP}:make", {"kind": "text"})
    assert main(told(words, files)) == 3
    loading, error = capsys.readouterr().err.splitlines()
    assert f"Loading the model 'python:{TRAP}:make' and the data 'tweeteval:" in loading
    assert f"'python:{TRAP}:make', which a file names, would run code." in error
    assert "`--trust code`" in error
    assert not trap.exists()
    assert not Path(files["new"]).exists()
    main(told([*words, "--trust", "code"], files))
    assert trap.is_dir()


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_commands_that_only_read_load_no_model(words: list[str], files: dict[str, str], trap: Path) -> None:
    forge(files, f"python:{TRAP}:make", {"kind": "text", "trusted": ["os.system"]})
    assert main(told(words, files)) == 0
    assert not trap.exists()


EVERY_COMMAND = """
import sys
from holdfast.cli import main
from holdfast.errors import StudyError
for words in {commands!r}:
    assert main(words) == 3, words
print("alive")
"""


@pytest.mark.parametrize("model", ["python:os:abort", "python:http.server:test"])
def test_no_command_is_killed_or_opens_a_port(model: str, files: dict[str, str]) -> None:
    forge(files, model, {"kind": "text"})
    script = EVERY_COMMAND.format(commands=[told(words, files) for words in LOADING])
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=300)
    assert (ended.returncode, ended.stdout) == (0, "alive\n"), ended.stderr
    assert ended.stderr.count("would run code") == len(LOADING)


def test_a_study_that_was_trusted_runs_in_workers_too(files: dict[str, str]) -> None:
    words = ["study", "run", files["toml"], "--results", files["new"], "--trust", "code", "--workers", "2", "--quiet"]
    assert main(words) == 0
    assert study.study_status(files["new"]).complete


# -- types of skops files ---------------------------------------------------------------------------


def spring(table: Any) -> Any:
    """A type that no stranger may have created: it is known by what it leaves behind."""
    Path(SPRUNG[0]).mkdir(exist_ok=True)
    return table


SPRUNG: list[str] = []
SPRING = f"{__name__}.spring"


@pytest.fixture
def estimator(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A skops file that calls ``spring`` when it predicts, and what that makes."""
    skops = pytest.importorskip("skops.io")
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.naive_bayes import MultinomialNB
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    place = tmp_path / "sprung"
    SPRUNG[:] = [str(tmp_path / "while-made")]
    model = make_pipeline(CountVectorizer(), FunctionTransformer(spring), MultinomialNB())
    skops.dump(model.fit(["good day", "bad day", "fine", "awful"], [1, 0, 1, 0]), tmp_path / "model.skops")
    SPRUNG[:] = [str(place)]
    yield f"skops:{tmp_path / 'model.skops'}", place
    SPRUNG.clear()


@pytest.mark.parametrize("words", LOADING[4:], ids=" ".join)
def test_types_that_results_name_as_trusted_are_not(
    words: list[str], files: dict[str, str], estimator: tuple[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    model, place = estimator
    forge(files, model, {"trusted": [SPRING]})
    assert main(told(words, files)) == 3
    assert f"types that are not trusted: {SPRING}." in (error := capsys.readouterr().err)
    assert "`--trust TYPE`" in error
    assert not place.exists()


@pytest.mark.parametrize("words", LOADING[:4], ids=" ".join)
def test_a_study_that_names_trusted_types_is_refused_and_says_where_to_name_them(
    words: list[str], files: dict[str, str], estimator: tuple[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    model, place = estimator
    forge(files, model, {"trusted": [SPRING]})
    assert main(told(words, files)) == 3
    assert (
        "`model.options` must not contain `trusted`: a file may not grant that. Use `--trust TYPE`"
        in capsys.readouterr().err
    )
    forge(files, model, {})
    assert main(told(words, files)) == 3
    assert f"types that are not trusted: {SPRING}." in capsys.readouterr().err
    assert not place.exists()


def test_types_are_trusted_by_the_command_line_and_python_and_never_stored(
    files: dict[str, str], estimator: tuple[str, Path]
) -> None:
    model, place = estimator
    forge(files, model, {})
    words = ["study", "run", files["toml"], "--results", files["new"], "--trust", SPRING]
    assert main(words) == 0
    assert place.is_dir()
    assert SPRING not in Path(files["new"]).read_bytes().decode("latin-1")
    assert main([*words, "--quiet"]) == 0
    asked: dict[str, Any] = {"method": "occlusion", "radius": 1, "min_rate": 0.5}
    with pytest.raises(hf.errors.InvalidValueError, match="not trusted"):
        study.study_guarantee(files["new"], **asked)
    assert study.study_guarantee(files["new"], **asked, trust=Trust(types=(SPRING,))).n_inputs == 2
    with pytest.raises(StudyError, match="not trusted"):
        write_report(files["new"], files["page"])
    write_report(files["new"], files["page"], trust=Trust(types=(SPRING,)))


def test_results_of_an_earlier_version_that_stored_trusted_types_can_be_resumed(
    files: dict[str, str], estimator: tuple[str, Path]
) -> None:
    forge(files, estimator[0], {})
    words = ["study", "run", files["toml"], "--results", files["new"], "--trust", SPRING, "--quiet"]
    assert main(words) == 0
    with Store(files["new"]) as store:
        spec = json.loads(store.meta("spec"))
    spec["model"]["options"]["trusted"] = [SPRING]
    edit(Path(files["new"]), "UPDATE meta SET value = ? WHERE name = 'spec'", json.dumps(spec))
    assert main(words) == 0


# -- the hub ----------------------------------------------------------------------------------------


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TinyHub]:
    pytest.importorskip("transformers")
    from tests.helpers.tiny_hub import point_client_at

    with running(TinyHub()) as served:
        point_client_at(served.endpoint, tmp_path / "cache", monkeypatch)
        yield served


@pytest.mark.parametrize("words", [words for words in LOADING if "--workers" not in words], ids=" ".join)
def test_a_hub_id_that_a_file_names_is_not_asked_for_unless_the_command_line_says_so(
    words: list[str], files: dict[str, str], hub: TinyHub, capsys: pytest.CaptureFixture[str]
) -> None:
    forge(files, "hf:stranger/model", {})
    assert main(told(words, files)) == 3
    loading, error = capsys.readouterr().err.splitlines()
    assert "Loading the model 'hf:stranger/model'" in loading
    assert "'stranger/model' is not in the local cache and may not be downloaded." in error
    assert "`--trust download`" in error
    assert hub.asked == []
    assert main(told([*words, "--trust", "download"], files)) == 3  # there is no such model
    assert any("stranger/model" in path for path in hub.asked)


def test_no_file_can_ask_for_a_download(files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    forge(files, "hf:stranger/model", {"download": True})
    assert main(["study", "plan", files["toml"]]) == 3
    assert "must not contain `download`: a file may not grant that. Use `--trust download`" in capsys.readouterr().err


# -- what is said, and what Python says -------------------------------------------------------------


def test_what_is_loaded_is_said_without_control_characters(
    files: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    forge(files, "onnx:\x1b[2Ja", {}, data="images:\x1b]0;owned\x07")
    for words in LOADING:
        assert main(told(words, files)) == 3
        loading = capsys.readouterr().err.splitlines()[0]
        assert "Loading the model 'onnx:\\x1b[2Ja' and the data 'images:\\x1b]0;owned\\x07' from " in loading
    assert main(["study", "report", files["db"], "--no-model", "--output", files["page"]]) == 0
    assert "Loading the data 'images:\\x1b]0;owned\\x07' from " in capsys.readouterr().err


def test_python_code_trusts_what_it_names_itself_and_not_what_it_reads(tmp_path: Path) -> None:
    spec = make_spec(write_texts(tmp_path / "texts", 1))
    write_spec(spec, tmp_path / "s.toml")
    assert study.plan_study(spec, timed=False).n_inputs == 1
    stranger = study.read_spec(tmp_path / "s.toml")
    assert stranger == spec
    for use in (lambda: study.plan_study(stranger), lambda: study.run_study(stranger, tmp_path / "a.db")):
        with pytest.raises(hf.errors.InvalidValueError, match=r"would run code.*trust=Trust\(code=True\)"):
            use()
    moved = replace(stranger, seed=2, model=replace(stranger.model, spec="python:os:abort"))
    with pytest.raises(hf.errors.InvalidValueError, match="would run code"):
        study.plan_study(moved)
    trusted = study.read_spec(tmp_path / "s.toml", trust=Trust(code=True))
    assert study.plan_study(trusted, timed=False).n_inputs == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ModelSpec("onnx:a", {"trusted": []}), "must not contain `trusted`"),
        (lambda: ModelSpec("onnx:a", trust=True), "`trust` must be a Trust, got True"),  # type: ignore[arg-type]
        (lambda: Trust(code="yes"), "`trust.code` must be true or false, got 'yes'"),  # type: ignore[arg-type]
        (lambda: Trust(types="os.system"), "`trust.types` must be a list"),  # type: ignore[arg-type]
        (lambda: study.read_spec("none.toml", trust="all"), "`trust` must be a Trust"),  # type: ignore[arg-type]
    ],
)
def test_trust_is_spelled_out(make: Any, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("none.toml").write_text('model = "onnx:a"\ndata = "bundled:digits"\nmethods = ["lime"]\n')
    with pytest.raises(hf.HoldfastError, match=message):
        make()
