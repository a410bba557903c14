"""Every kind of file that is read, spoilt in every way: it is read or refused in holdfast's words, and left alone."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
import tempfile
import zipfile
from argparse import ArgumentTypeError
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast as hf
from holdfast import data, models, study
from holdfast.cli import main
from holdfast.errors import StoreError
from holdfast.plans import find_plan
from holdfast.study import Store, study_status
from holdfast.study.records import pack_text, unpack_text
from tests.edge.test_fuzz_functions import CASES, MANY, READ_FROM_JSON
from tests.helpers.fuzz_files import FORMATS, RESULTS, Format, hub_folder, results, skops_bytes, spoil, store_bytes
from tests.helpers.fuzzing import peak_megabytes, settle

pytest.importorskip("skops")
pytest.importorskip("onnxruntime")

FEW_FILES, MANY_FILES, MANY_SLOW = 4, 80, 25


def fuzz(kind: Format, n_cases: int) -> int:
    """Read so many spoilt files of a kind; the number that were read or refused."""
    content, n_run = kind.make(), 0

    @settings(max_examples=n_cases)
    @given(st.integers(0, 10**9))
    def one(seed: int) -> None:
        nonlocal n_run
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "file"
            path.write_bytes(spoil(content, seed))
            settle(lambda: kind.read(path), (OSError,))
        n_run += 1

    one()
    return n_run


def n_many(kind: Format) -> int:
    return MANY_SLOW if kind.slow else MANY_FILES


by_name = pytest.mark.parametrize("kind", FORMATS, ids=lambda kind: kind.name)


@by_name
def test_a_whole_file_is_read(kind: Format, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(kind.make())
    assert settle(lambda: kind.read(tmp_path / "file")) == "answered"


@by_name
def test_a_spoilt_file_is_read_or_refused(kind: Format) -> None:
    assert fuzz(kind, FEW_FILES) >= FEW_FILES


@pytest.mark.slow
@by_name
def test_many_spoilt_files_are_read_or_refused(kind: Format) -> None:
    assert fuzz(kind, n_many(kind)) >= n_many(kind)


def test_all_fuzzing_together_is_more_than_ten_thousand_cases() -> None:
    functions = sum(MANY for case in CASES.values() if case.can_be_spoilt)
    assert functions + sum(map(n_many, FORMATS)) >= 10_000


def test_every_result_that_can_be_read_has_a_format() -> None:
    assert {name.rpartition(".")[2] for name in READ_FROM_JSON} == RESULTS


# -- what fuzzing found, one by one -----------------------------------------------------------------


@pytest.mark.parametrize("where", [0, 17, 100, 2000, -1])
def test_a_damaged_file_of_results_is_refused_and_left_as_it_is(where: int, tmp_path: Path) -> None:
    content = store_bytes()
    path = tmp_path / "study.db"
    path.write_bytes(content[:where] if where >= 0 else content[: len(content) // 2])
    before = path.read_bytes()
    with pytest.raises(StoreError):
        study_status(path)
    assert path.read_bytes() == before
    assert [other.name for other in tmp_path.iterdir()] == ["study.db"]


def test_an_item_whose_bytes_were_changed_is_a_damaged_file(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    path.write_bytes(store_bytes())
    connection = sqlite3.connect(path)
    connection.execute("UPDATE items SET curve = X'00FF'")
    connection.commit()
    connection.close()
    with pytest.raises(StoreError, match=r"the item 0/lime/0\.25/0\.75 differs from what was stored"):
        Store(path)


def design_files(folder: Path) -> list[Path]:
    return list(folder.rglob("*.json"))


@pytest.mark.parametrize("seed", range(12))
def test_a_cached_design_that_was_spoilt_is_searched_anew(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path))
    asked: dict[str, Any] = {"tolerance": 0.41, "confidence": 0.7, "plan": "exact"}
    find_plan.cache_clear()
    right = hf.plan_samples(**asked)
    (file,) = design_files(tmp_path)
    file.write_bytes(spoil(file.read_bytes(), seed))
    find_plan.cache_clear()
    assert settle(lambda: None) == "answered"
    assert hf.plan_samples(**asked) == right


# -- files and settings without end ------------------------------------------------------------------


def refused(call: Callable[[], Any], words: str, *, megabytes: float = 60) -> None:
    """The call is refused in these words, soon, and with little memory."""

    def run() -> None:
        with pytest.raises(hf.HoldfastError, match=words):
            call()

    assert peak_megabytes(run) < megabytes


STUDY = 'model = "python:tests.helpers.study_support:moods"\ndata = "bundled:sentences"\nmethods = ["random"]\n'


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("seed = " + "9" * 5000, "must be TOML"),
        (f'certify = {{ radii = "1-{"9" * 5000}" }}', "`certify.radii` must be radii such as 1,5,10 or 1-10"),
        ('certify = { radii = "1-1000000000" }', "`certify.radii` must be at most 10000 radii"),
        (f"certify = {{ radii = {list(range(20_000))} }}", "`certify.radii` must be a list of at most 10000 entries"),
        (f"top_fractions = {[i / 10**5 for i in range(1, 20_000)]}", "`top_fractions` must be a list of at most 10000"),
        (f"top_fractions = {[0.5] * 9999}", "`top_fractions` must have distinct entries, got 0.5 more than once"),
        ("mus = { keep_probabilities = [0.5], n_levels = 1099511627776 }", "`n_levels` must be at most 1000000"),
        ('masking = { options = { input = "x" } }', "`masking.options` must not contain `input`"),
        ("masking = { options = { groups = 3 } }", "`masking.options` must not contain `groups`"),
        ("a = " + "[" * 10**5, "must be TOML"),
    ],
    ids=range(10),
)
def test_settings_without_end_are_refused_at_once(lines: str, words: str) -> None:
    refused(lambda: study.parse_spec(STUDY + lines), words)


@pytest.mark.parametrize("part", ["model", "data"])
def test_an_option_cannot_take_the_place_of_a_key(part: str) -> None:
    text = STUDY.replace(f"{part} = ", f"{part}.options.spec = 'x'\n{part}.spec = ")
    refused(
        lambda: study.parse_spec(text), f"`{part}.options` must not contain `spec`, which is not an option, got 'x'"
    )


def test_ten_thousand_fractions_are_checked_at_once() -> None:
    fractions = [i / 10**5 for i in range(1, 10**4)]
    assert len(study.parse_spec(f"{STUDY}top_fractions = {fractions}").top_fractions) == 9999


TEXT = ["--model", "bundled:vader", "--input", "text:what a good day"]
ASK = ["--radius", "1", "--method", "lime", "--top", "1"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["certify", *TEXT, "--explanation", "/dev/zero", "--radius", "1"], "must be a regular file"),
        (["certify", *TEXT, "--explanation", "/dev/zero", "--top", "1", "--radius", "1"], "must be a regular file"),
        (["verify", "/dev/zero", *TEXT], "must be a regular file"),
        (["study", "plan", "/dev/zero"], "must be a regular file"),
        (["certify", "--model", "skops:a", "--input", "table:/dev/zero#0", *ASK], "A table must be a .csv"),
        (["certify", "--model", "skops:a", "--input", "http://a.b/c.csv#0", *ASK], "No such file"),
        (["study", "status", "/dev/zero"], "/dev/zero"),
        (["certify", "--model", "skops:/dev/zero", "--input", "text:a", *ASK], "existing file"),
        (["certify", "--model", "onnx:/dev/zero", "--input", "text:a", *ASK], "existing file"),
        (
            ["certify", "--model", "bundled:vader", "--input", f"bundled:sentences#{'9' * 5000}", *ASK],
            "`--input` must end with the number of an input",
        ),
        (["compare", *TEXT, "--method", "lime", "--top", "1", "--radii", "1-1000000000"], "at most 10000 radii"),
        (["compare", *TEXT, "--method", "lime", "--top", "1", "--radii", "9" * 5000], "must be radii such as"),
        (["study", "run", "x.toml", "--inputs", f"0:{'9' * 5000}"], "must be a span"),
    ],
    ids=range(13),
)
def test_options_without_end_are_refused_at_once(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def run() -> None:
        try:
            code = main(arguments)
        except SystemExit as ended:
            code = int(ended.code or 0)
        assert code == 3

    assert peak_megabytes(run) < 100
    said = capsys.readouterr().err
    assert words in said
    assert "Traceback" not in said
    assert len(said) < 5000


def test_a_grid_of_thousands_of_digits_is_refused() -> None:
    from holdfast.cli.options import parse_features

    with pytest.raises(ArgumentTypeError, match="must look like 14x14"):
        parse_features("9" * 5000 + "x3")


def bomb(name: str, *beside: tuple[str, bytes]) -> bytes:
    """An archive of few bytes that says it unpacks to two gigabytes; whoever unpacks it asks for as much."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for other, content in [*beside, (name, b"x" * 1000)]:
            archive.writestr(other, content)
        archive.infolist()[-1].file_size = 2**31
    return buffer.getvalue()


@pytest.mark.parametrize("inside", ["schema.json", "array_1.npy"])
def test_a_skops_file_that_unpacks_to_gigabytes_is_refused_unread(inside: str, tmp_path: Path) -> None:
    whole = zipfile.ZipFile(io.BytesIO(skops_bytes()))
    beside = [(name, whole.read(name)) for name in whole.namelist() if name != inside]
    (tmp_path / "a.skops").write_bytes(bomb(inside, *beside))
    refused(lambda: models.load(f"skops:{tmp_path / 'a.skops'}"), "must unpack to at most 1073741824 bytes")


def test_scores_that_unpack_to_gigabytes_are_refused_unread(tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_bytes(bomb("scores.npy"))
    refused(lambda: hf.from_array(tmp_path / "a.npz"), "must unpack to at most 1073741824 bytes")


def test_a_stored_text_that_unpacks_to_too_much_is_damaged(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = pack_text("x" * 10**6)
    monkeypatch.setattr("holdfast.study.records._MOST_UNPACKED", 10**6)
    assert len(unpack_text(packed)) == 10**6
    monkeypatch.setattr("holdfast.study.records._MOST_UNPACKED", 10**6 - 1)
    refused(lambda: unpack_text(packed), "unpacks to more than is safe")


def test_an_onnx_file_of_ones_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "a.onnx").write_bytes(b"\xff" * (1 << 20))
    refused(lambda: models.load(f"onnx:{tmp_path / 'a.onnx'}"), "it is incomplete")


def test_a_configuration_that_is_nested_too_deep_is_refused(tmp_path: Path) -> None:
    for name, content in hub_folder().items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "config.json").write_text('{"a":' * 10**5 + "1" + "}" * 10**5)
    refused(lambda: models.load(f"hf:{tmp_path}"), "config.json' must be valid JSON")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("file,label\na.png,é\n".encode("latin-1"), "must be text in UTF-8"),
        (b"file,label\na.png," + b"x" * (csv.field_size_limit() + 1), "cannot be read: field larger than field limit"),
        (b"file,label\n" + b"x" * 200 + b".png,cat\n", "line 2 of .* names no existing file"),
        (b"", "must be a CSV file with the columns"),
        (None, "which is not a file"),
    ],
    ids=["latin-1", "huge field", "long name", "empty", "missing"],
)
def test_labels_that_cannot_be_read_are_refused(content: bytes | None, words: str, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"")
    if content is not None:
        (tmp_path / "labels.csv").write_bytes(content)
    refused(lambda: data.load(f"images:{tmp_path}", labels=str(tmp_path / "labels.csv")), words)


def test_a_label_of_thousands_of_digits_is_a_name(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"age,label\n1,x{'9' * 5000}\n2,{'9' * 5000}\n")
    assert len(data.load(f"table:{tmp_path / 'a.csv'}", target="label").classes) == 2
    from holdfast.inputs.data.dataset import number_labels

    assert number_labels(["9" * 5000, "3"])[1] == ("3", "9" * 5000)


@pytest.mark.parametrize("value", ["{", "[]", "3", "{}", '{"model": 3}', "[" * 10**5, "9" * 5000])
@pytest.mark.parametrize("name", ["spec", "methods", "n_inputs"])
def test_facts_of_a_study_that_are_no_json_are_a_damaged_file(name: str, value: str, tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    path.write_bytes(store_bytes())
    connection = sqlite3.connect(path)
    connection.execute("UPDATE meta SET value = ? WHERE name = ?", (value, name))
    connection.commit()
    connection.close()
    for read in (study.study_status, lambda file: study.merge_studies([file], tmp_path / "merged.db")):
        settle(lambda read=read: read(path))
    if name == "spec":
        refused(lambda: study.study_status(path), "damaged")


@pytest.mark.parametrize(
    ("table", "column"), [("items", "prediction"), ("inputs", "prediction"), ("failures", "items"), ("items", "mus")]
)
def test_values_of_a_study_that_are_no_json_are_a_damaged_file(table: str, column: str, tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    path.write_bytes(store_bytes())
    connection = sqlite3.connect(path)
    connection.execute("INSERT INTO failures VALUES (0, '', 'why', 1, '[]', 1)")
    connection.execute(f"UPDATE {table} SET {column} = 'no JSON'")
    connection.commit()
    connection.close()
    with pytest.raises(StoreError, match="damaged"), Store(path) as store:
        list(store.rows()), list(store.results()), list(store.failures())


def edited(name: str, **changes: Any) -> str:
    return json.dumps(json.loads(results()[name].to_json()) | changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"design": {"looks": [10**9], "limits": [10**9]}}, "`design.looks` must be at most 10000000"),
        ({"selected": {"n_features": 10**9, "shown": [0]}}, "`n_features` must be at most 10000000"),
        ({"radius": int("9" * 4000)}, "whole number|clamped|valid"),
    ],
    ids=["looks", "features", "digits"],
)
def test_a_certificate_that_asks_for_too_much_is_refused_when_it_is_read(changes: dict[str, Any], words: str) -> None:
    certificate = hf.certify(hf.mask_function(lambda m: m[:, :2], n_features=40), np.arange(40) < 3, radius=20, rng=0)
    text = json.dumps(json.loads(certificate.to_json()) | changes)
    refused(lambda: hf.Certificate.from_json(text), words)


def test_a_certificate_whose_design_does_not_stop_there_is_refused() -> None:
    certificate = hf.certify(hf.mask_function(lambda m: m[:, :2], n_features=40), np.arange(40) < 3, radius=20, rng=0)
    fields = json.loads(certificate.to_json())
    fields["design"] = {"looks": [fields["n_evaluated"] + 1], "limits": [fields["n_evaluated"]]}
    refused(lambda: hf.Certificate.from_json(json.dumps(fields)), "`design` must stop at")


def test_a_parquet_file_of_billions_of_cells_is_refused_unread(tmp_path: Path) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    column = pyarrow.nulls(10**7)
    parquet.write_table(pyarrow.table({f"c{i}": column for i in range(11)}), tmp_path / "a.parquet")
    refused(lambda: data.load(f"table:{tmp_path / 'a.parquet'}"), "must have at most 100000000 cells")
