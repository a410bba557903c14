"""``holdfast reproduce``: names, options, what is printed, and that a killed run goes on."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from holdfast.cli import main
from holdfast.cli.reproduce import parse_shares
from holdfast.reproduce import Request, make_subject, plan_runs, reproduce
from holdfast.reproduce.catalog import IDS
from tests.helpers.reproduce_support import INTERRUPTS, contents, read_rows, texts_subject
from tests.helpers.study_support import SLOW, write_texts


def arguments(folder: Path, output: Path, factory: str = "tests.helpers.study_support:moods") -> list[str]:
    """Options for two methods on four texts."""
    return [
        *("--model", f"python:{factory}", "--set", "kind=text", "--data", f"tweeteval:{folder}"),
        *("--methods", "occlusion,random", "--radii", "1-3", "--output", str(output)),
    ]


def test_list_names_every_experiment(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(IDS)


def test_several_experiments_go_into_folders_of_their_own_and_print_their_findings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_texts(tmp_path / "texts", 4)
    assert main(["reproduce", "q2", "mus-by", *arguments(folder, tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    for name in ("q2-methods", "mus-by-lambda"):
        findings = (tmp_path / "out" / name / "findings.md").read_text(encoding="utf-8")
        assert " ".join(findings.split("\n\n", 1)[1].split()) in " ".join(said.split())


def test_one_experiment_goes_into_the_folder_itself(tmp_path: Path) -> None:
    assert main(["reproduce", "masking", "--n", "3", "--keep", "1,1/2", "--output", str(tmp_path)]) == 0
    rows = read_rows(tmp_path / "spectra.csv")
    assert len(rows) == 2 * 2 * 13
    assert {row["amount"] for row in rows} == {"1.0", "0.5"}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["q9"], "must be one of"),
        (["q2-method", "--n", "x"], "invalid int value"),
        (["topk-ablatoin"], "Did you mean 'topk-ablation'?"),
        (["list", "q1"], "`list` must be the only name"),
        (["q4", "--radii", "1,2"], "`--radii` is not an option of q4-accuracy"),
        (["q1", "--set", "kind=text"], "`--set kind` must come with `--model`"),
        (["q4", "--set", "target=label"], "`--set target` must come with `--model` and `--data`"),
        (
            ["q1", "--keep", "0.3"],
            "`--keep` must be multiples of 1/64 for q1-sca-vs-mus, got 0.3; the nearest is 19/64",
        ),
        (["q1", "--model", "bundled:vader"], "`--data` must be given with `--model`"),
        (["q1", "--keep", "half"], "must be numbers such as 1/2,0.25"),
        (["q1", "--model", "bundled:vader", "--data", "bundled:sentences", "--grid", "4"], "must look like 14x14"),
        (["q2", "--methods", "limes", "--n", "1"], "Did you mean 'lime'?"),
        (["q2", "--methods", ""], "`--methods` must not be empty"),
        (["q4", "--keep", "2"], "`--keep` must be numbers above 0 and at most 1, got 2"),
        (["example-similar", "--methods", "lime,lime"], "`--methods` must name each method once, got lime, lime"),
        (
            ["q2", "example-unstable", "--methods", "lime,shap"],
            "`--methods` must name exactly one for example-unstable",
        ),
    ],
)
def test_what_cannot_be_used_is_an_error_in_words(
    given: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main(["reproduce", *given, "--output", str(tmp_path / "out")])
    except SystemExit as ended:
        code = int(ended.code or 0)
    assert code == 3
    assert words in capsys.readouterr().err
    assert not (tmp_path / "out" / "findings.md").exists()


@pytest.mark.parametrize("output", ["", "  "])
@pytest.mark.parametrize("ids", [["masking"], ["masking", "q4"]])
def test_a_folder_without_a_name_is_an_error(ids: list[str], output: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", *ids, "--output", output]) == 3
    assert "`--output` must name a folder, got" in capsys.readouterr().err


def test_findings_are_as_wide_as_the_terminal_and_the_folder_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for width in (60, 140, None):
        monkeypatch.delenv("COLUMNS", raising=False)
        if width is not None:
            monkeypatch.setenv("COLUMNS", str(width))
        assert main(["reproduce", "masking", "--n", "20", "--output", str(tmp_path)]) == 0
        said = capsys.readouterr().out
        shown, files = re.split(r"Written to\s", said.split("\n", 1)[1])
        at_most = width or 100
        sentences = [line for line in shown.splitlines() if not line.startswith("|")]
        assert at_most - 25 < max(map(len, sentences)) <= at_most
        findings = (tmp_path / "findings.md").read_text(encoding="utf-8").split("\n\n", 1)[1]
        assert shown.split() == findings.split()
        assert "\n" not in findings.strip().split("\n\n")[-1], "the file is not wrapped"
        told = " ".join(files.split())
        tables = ", ".join(rf"{name}\.csv, {name}\.parquet" for name in ("spectra", "differences", "claims"))
        names = rf"{tables}, figure\.svg, figure\.png, findings\.md"
        assert re.fullmatch(rf"{re.escape(str(tmp_path))} after \d+ s: {names}", told)


def test_options_that_are_repeated_are_added(tmp_path: Path) -> None:
    folder = write_texts(tmp_path / "texts", 2)
    subject = [
        "--model",
        "python:tests.helpers.study_support:moods",
        "--set",
        "kind=text",
        "--data",
        f"tweeteval:{folder}",
    ]
    methods = ["--methods", "occlusion", "--methods", "random", "--radii", "4", "--radii", "1-2"]
    keep = ["--keep", "1", "--keep", "1/2,1/4", "--set", "min_tokens=2"]
    assert main(["reproduce", "q3", *subject, *methods, *keep, "--output", str(tmp_path / "out")]) == 0
    rows = read_rows(tmp_path / "out" / "certificates.csv")
    assert {row["method"] for row in rows} == {"occlusion", "random"}
    assert {row["radius"] for row in rows} == {"1", "2", "4"}
    assert {row["keep_probability"] for row in rows} == {"1.0", "0.5", "0.25"}


def test_another_experiment_in_the_same_folder_is_refused_before_any_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(["reproduce", "masking", "--n", "2", "--output", str(out / "q4-accuracy")]) == 0
    capsys.readouterr()
    assert main(["reproduce", "masking", "q4", "--n", "2", "--output", str(out)]) == 3
    said = capsys.readouterr()
    assert "which holds results of masking-vs-flipping (findings.md). Choose another folder." in said.err
    assert said.out == ""
    assert [path.name for path in out.iterdir()] == ["q4-accuracy"]


Q1, Q4 = ["q1", "--methods", "occlusion", "--radii", "1,2"], ["q4", "--keep", "1,1/2"]
AGAIN = "stored nothing; the same command starts it again."


@pytest.mark.parametrize(
    ("given", "presses", "code", "words"),
    [
        (
            Q1,
            {25: 0.0},
            1,
            r"Stopped\. \d+ items? (is|are) stored in .*moods\.db; the same command continues from there\.",
        ),
        (Q1, {24: 1.1, 25: 0.0}, 130, r"Interrupted\. What q1-sca-vs-mus stored is kept; .* continues from there\."),
        (Q1, {1: 1.1, 2: 0.0}, 130, rf"Interrupted\. q1-sca-vs-mus {AGAIN}"),
        (Q4, {3: 0.0}, 130, rf"Interrupted\. q4-accuracy {AGAIN}"),
        (
            Q4,
            {150: 0.0},
            130,
            r"Interrupted\. What q4-accuracy stored is kept; the same command continues from there\.",
        ),
        (["example-unstable", "--methods", "occlusion"], {40: 0.0}, 130, rf"Interrupted\. example-unstable {AGAIN}"),
    ],
)
@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_says_what_is_kept_and_the_same_command_ends_with_the_same_files(
    given: list[str],
    presses: dict[int, float],
    code: int,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = write_texts(tmp_path / "texts", 30 if given is Q4 else 6)
    model = ["--model", "python:tests.helpers.reproduce_support:interrupting_moods", "--set", "kind=text"]
    command = ["reproduce", *given, *model, "--data", f"tweeteval:{folder}", "--output"]
    for call, seconds in presses.items():
        monkeypatch.setitem(INTERRUPTS, call, seconds)
    assert main([*command, str(tmp_path / "out")]) == code
    assert re.fullmatch(rf"holdfast: {words}\n", capsys.readouterr().err)
    assert not (tmp_path / "out" / "findings.md").exists()
    INTERRUPTS.clear()
    assert main([*command, str(tmp_path / "out")]) == 0
    if "continues" in words:
        assert main([*command, str(tmp_path / "fresh")]) == 0
        assert contents(tmp_path / "out") == contents(tmp_path / "fresh")


def test_tests_of_ctrl_c_pass_where_it_is_inherited_as_ignored() -> None:
    ignoring = "import signal, sys, pytest; signal.signal(signal.SIGINT, signal.SIG_IGN); sys.exit(pytest.main())"
    files = [__file__, str(Path(__file__).parents[1] / "edge" / "test_timeout.py")]
    chosen = ["-k", "ctrl_c and (example-unstable or hangs)", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-c", ignoring, *files, *chosen], capture_output=True, text=True, check=False
    )
    assert "2 passed" in done.stdout, done.stdout


@pytest.mark.parametrize(("precision", "words"), [("per-input", "\x1b[Kmoods █"), ("data-set", "masks of moods")])
def test_bars_name_their_model(precision: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = Request(
        subjects=(texts_subject(tmp_path / "texts", 40),), methods=("occlusion",), radii=(1, 2), precision=precision
    )
    reproduce("q2", asked, output=tmp_path / "out", progress=True)
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (
            "q1",
            "q1-sca-vs-mus needs matplotlib, pyarrow, torch, transformers, Pillow, scikit-learn: pip ",
        ),
        ("masking", "masking-vs-flipping needs matplotlib, pyarrow: pip install 'holdfast[report]'"),
    ],
)
def test_all_missing_packages_are_named_before_anything_runs(
    name: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda package: None)
    assert main(["reproduce", name, "--output", str(tmp_path / "out")]) == 3
    assert told in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_asked_of_all_what_does_not_fit_is_left_out_and_said() -> None:
    subjects = tuple(make_subject("bundled:vader", "bundled:sentences", device=name) for name in ("cuda", "cpu"))
    asked = Request(subjects=subjects, methods=("lime",))
    planned = {run.experiment.id: run for run in plan_runs(["all"], asked)}
    assert set(IDS) - planned.keys() == {"batching-table"}
    assert planned["example-unstable"].request == planned["q2-methods"].request == asked
    assert planned["example-similar"].request == Request(subjects=subjects[:1])
    notes = [note for run in planned.values() for note in run.notes]
    assert "example-similar: --methods is ignored, as it needs exactly 2." in notes
    assert "example-soft-vs-hard: only the first --model is used, as it takes 1." in notes
    assert "batching-table is left out: it measures processor time." in notes
    assert [run.experiment.id for run in plan_runs(["all"], Request(subjects=subjects[1:]))] == list(IDS)


def test_shares_are_numbers_or_fractions() -> None:
    assert parse_shares("1/2,3/8,.25,1") == (0.5, 0.375, 0.25, 1.0)


def test_two_models_of_one_name_keep_their_files_apart(tmp_path: Path) -> None:
    folder = write_texts(tmp_path / "texts", 3)
    given = arguments(folder, tmp_path / "out")
    again = ["--model", "python:tests.helpers.study_support:moods"]
    assert main(["reproduce", "q2", *given, *again]) == 0
    assert {path.name for path in (tmp_path / "out").glob("*.db")} == {"moods-1.db", "moods-2.db"}


@pytest.mark.slow
def test_a_run_that_was_killed_goes_on_and_ends_with_the_same_files(tmp_path: Path) -> None:
    folder = texts_subject(tmp_path / "texts", 12).data.spec.removeprefix("tweeteval:")
    given = arguments(Path(folder), tmp_path / "killed", "tests.helpers.study_support:slow_moods")
    command = [sys.executable, "-m", "holdfast", "reproduce", "q1", *given]
    process = subprocess.Popen(command, env=os.environ | {SLOW: "0.02"}, stdout=subprocess.DEVNULL)
    store = tmp_path / "killed" / "slow_moods.db"
    deadline = time.monotonic() + 120
    while not _has_items(store) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "killed" / "findings.md").exists()
    os.environ[SLOW] = "0"
    try:
        assert main(["reproduce", "q1", *given]) == 0
        fresh = arguments(Path(folder), tmp_path / "fresh", "tests.helpers.study_support:slow_moods")
        assert main(["reproduce", "q1", *fresh]) == 0
    finally:
        del os.environ[SLOW]
    assert contents(tmp_path / "killed") == contents(tmp_path / "fresh")


def _has_items(path: Path) -> bool:
    import sqlite3

    try:
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as connection:
            return bool(connection.execute("SELECT count(*) FROM items").fetchone()[0] >= 2)
    except sqlite3.Error:
        return False
