"""Export and merge: tables say what certificates say, JSON is complete, and files that contradict are refused."""

from __future__ import annotations

import csv
import json
from cProfile import Profile
from pathlib import Path
from pstats import Stats
from typing import Any

import pandas
import pytest
from pyarrow import parquet

from holdfast.errors import HoldfastError, InvalidValueError, StoreError, StudyError
from holdfast.study.export import COLUMNS, export_study, study_frame
from holdfast.study.merge import merge_studies
from holdfast.study.records import ItemResult
from holdfast.study.session import run_study
from holdfast.study.spec import DataSpec, MethodSpec
from holdfast.study.status import study_status
from holdfast.study.store import Store
from tests.helpers.study_support import edit, make_spec, write_texts

N_INPUTS = 3


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_texts(tmp_path_factory.mktemp("texts"), N_INPUTS)


@pytest.fixture(scope="module")
def whole(texts: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "study.db"
    run_study(make_spec(texts, witness=True), path)
    return path


def results_of(path: Path) -> dict[str, ItemResult]:
    with Store(path) as store:
        return {one.key: one for one in store.results()}


def key_of(row: dict[str, Any]) -> str:
    fraction, keep = float(row["top_fraction"]), float(row["keep_probability"])
    return f"{row['input']}/{row['method']}/{fraction!r}/{keep!r}"


def check_table(rows: list[dict[str, Any]], results: dict[str, ItemResult]) -> None:
    assert len(rows) == 2 * len(results) == 48
    assert len({(key_of(row), int(row["radius"])) for row in rows}) == 48
    for row in rows:
        one = results[key_of(row)]
        certificate = one.curve[int(row["radius"])]
        assert float(row["rate"]) == certificate.rate
        assert (float(row["low"]), float(row["high"])) == tuple(certificate.interval)
        assert (int(row["n_agreed"]), int(row["n_evaluated"])) == (certificate.n_agreed, certificate.n_evaluated)
        assert str(row["exact"]) == str(certificate.exact)
        assert json.loads(row["prediction"]) == certificate.prediction
        assert json.loads(row["full_prediction"]) == one.prediction
        assert int(row["label"]) == one.label
        assert (int(row["n_calls"]), row["name"]) == (one.n_calls, one.name)


def test_csv_has_a_row_per_item_and_radius(whole: Path, tmp_path: Path) -> None:
    assert export_study(whole, tmp_path / "out.csv") == 48
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == list(COLUMNS)
    check_table(rows, results_of(whole))


def test_parquet_has_the_same_rows_with_types(whole: Path, tmp_path: Path) -> None:
    assert export_study(whole, tmp_path / "out.parquet") == 48
    table = parquet.read_table(tmp_path / "out.parquet")
    assert {field.name: str(field.type) for field in table.schema} == {
        name: {"float64": "double"}.get(kind, kind) for name, kind in COLUMNS.items()
    }
    check_table(table.to_pylist(), results_of(whole))


PREDICTIONS = ("prediction", "full_prediction")  # in files as JSON, in frames as they are


def test_a_frame_has_the_same_rows(whole: Path) -> None:
    frame = study_frame(whole)
    assert isinstance(frame, pandas.DataFrame)
    rows = [{**row, **{name: json.dumps(row[name]) for name in PREDICTIONS}} for row in frame.to_dict("records")]
    check_table(rows, results_of(whole))


def test_json_holds_everything_and_can_be_read_back(whole: Path, tmp_path: Path) -> None:
    assert export_study(whole, tmp_path / "out.json") == 24
    content = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert content["study"]["seed"] == 11
    results = results_of(whole)
    again = [ItemResult.from_json(json.dumps(one)) for one in content["items"]]
    assert {one.key: one for one in again} == results
    assert content["left_out"] == content["given_up"] == {}


def test_stored_items_become_the_json_of_their_results_and_no_design_is_proven_anew(
    whole: Path, tmp_path: Path
) -> None:
    """Proofs for the certificates of 20,000 items took over a minute."""
    with Store(whole) as store:
        texts_of_items, results = [record.to_json() for record in store.records()], list(store.results())
    assert [json.loads(text) for text in texts_of_items] == [json.loads(result.to_json()) for result in results]
    assert results[0].witness is not None
    tracer = Profile()
    tracer.runcall(export_study, whole, tmp_path / "out.json")
    assert not any("verification.py" in file for file, _, _ in Stats(tracer).stats)  # type: ignore[attr-defined]


def test_a_failed_export_leaves_the_old_file(whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    out.write_text("old")
    broken = tmp_path / "broken.db"
    broken.write_bytes(whole.read_bytes()[:40000])
    with pytest.raises(HoldfastError):
        export_study(broken, out)
    assert out.read_text() == "old"
    assert {one.name for one in tmp_path.iterdir()} == {"out.csv", "broken.db"}


def test_wrong_kinds_and_places_are_refused(whole: Path, tmp_path: Path) -> None:
    with pytest.raises(
        InvalidValueError, match=r"`kind` must be one of parquet, csv, json, got 'cvs'. Did you mean 'csv'"
    ):
        export_study(whole, tmp_path / "out.cvs")
    with pytest.raises(StoreError, match="Cannot write to the folder"):
        export_study(whole, tmp_path / "nowhere" / "out.csv")
    with pytest.raises(InvalidValueError, match="`out` must be a different file from the results"):
        export_study(whole, whole, kind="csv")


def test_parts_by_inputs_and_by_methods_merge_into_the_whole(texts: Path, whole: Path, tmp_path: Path) -> None:
    spec = make_spec(texts, witness=True)
    parts = [tmp_path / name for name in ("a.db", "b.db", "c.db")]
    run_study(spec, parts[0], inputs=[0])
    run_study(make_spec(texts, witness=True, methods=(MethodSpec("occlusion"),)), parts[1])
    run_study(make_spec(texts, witness=True, methods=spec.methods[:1]), parts[2], inputs=range(1, 3))
    before = [path.read_bytes() for path in parts]
    merged = merge_studies(parts, tmp_path / "all.db")
    # Input 0 was explained by occlusion twice.
    assert (merged.n_items, merged.n_repeated) == (24, 4)
    assert [path.read_bytes() for path in parts] == before
    assert results_of(tmp_path / "all.db").keys() == results_of(whole).keys()
    with Store(tmp_path / "all.db") as store, Store(whole) as truth:
        assert store.digests().items() == truth.digests().items()
    assert study_status(tmp_path / "all.db").complete
    assert run_study(spec, tmp_path / "all.db").n_new == 0
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.db", "all.db", "b.db", "c.db"]


def test_a_merged_store_can_be_extended(texts: Path, whole: Path, tmp_path: Path) -> None:
    spec = make_spec(texts, witness=True)
    run_study(spec, tmp_path / "a.db", inputs=[2])
    merge_studies([tmp_path / "a.db"], tmp_path / "b.db")
    run = run_study(spec, tmp_path / "b.db")
    assert run.n_new == 16
    with Store(tmp_path / "b.db") as store, Store(whole) as truth:
        assert store.digests() == truth.digests()


def test_files_of_different_questions_are_not_merged(texts: Path, whole: Path, tmp_path: Path) -> None:
    run_study(make_spec(texts, witness=True, seed=12), tmp_path / "a.db", inputs=[0])
    with pytest.raises(StudyError, match="`seed` is 11 in the stored study and 12 in this one"):
        merge_studies([whole, tmp_path / "a.db"], tmp_path / "all.db")
    assert not (tmp_path / "all.db").exists()


def test_files_that_contradict_each_other_are_not_merged(texts: Path, whole: Path, tmp_path: Path) -> None:
    run_study(make_spec(texts, witness=True), tmp_path / "a.db", inputs=[0])
    edit(tmp_path / "a.db", "UPDATE items SET digest = 'other' WHERE item = 3")
    with pytest.raises(StudyError, match=r"The item 0/lime/.* differs between"):
        merge_studies([whole, tmp_path / "a.db"], tmp_path / "all.db")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.db"]


def test_a_merge_writes_over_nothing(whole: Path, tmp_path: Path) -> None:
    (tmp_path / "all.db").write_text("precious")
    with pytest.raises(StoreError, match="already exists; a merge needs a new file"):
        merge_studies([whole], tmp_path / "all.db")
    with pytest.raises(InvalidValueError, match="`paths` must name at least one file"):
        merge_studies([], tmp_path / "other.db")
    assert (tmp_path / "all.db").read_text() == "precious"


def test_what_is_left_out_in_one_part_and_done_in_another_is_done(texts: Path, whole: Path, tmp_path: Path) -> None:
    data = DataSpec(f"tweeteval:{texts}")
    run_study(make_spec(texts, witness=True, data=data), tmp_path / "a.db", inputs=[0])
    edit(tmp_path / "a.db", "INSERT INTO skips VALUES (1, 'unreadable: there', 1)")
    edit(tmp_path / "a.db", "INSERT INTO skips VALUES (2, 'unreadable: everywhere', 1)")
    edit(tmp_path / "a.db", """INSERT INTO failures VALUES (1, '', 'died', 3, '["1/lime/0.25/1.0"]', 1)""")
    run_study(make_spec(texts, witness=True, data=data), tmp_path / "b.db", inputs=[1])
    merge_studies([tmp_path / "a.db", tmp_path / "b.db"], tmp_path / "all.db")
    status = study_status(tmp_path / "all.db")
    assert status.skips == {2: "unreadable: everywhere"}
    assert status.failures == {}
    assert (status.n_done, status.n_left_out, status.complete) == (16, 8, True)


@pytest.mark.parametrize("inputs", [[3], [-1], []])
def test_inputs_that_the_study_does_not_have_are_refused(texts: Path, tmp_path: Path, inputs: list[int]) -> None:
    with pytest.raises(InvalidValueError, match="`inputs` must be"):
        run_study(make_spec(texts), tmp_path / "a.db", inputs=inputs)
    assert not (tmp_path / "a.db").exists()
