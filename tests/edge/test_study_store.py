"""The store: what goes in comes out, one writer, nothing half written, and nothing foreign touched."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import HoldfastError, InvalidTypeError, StoreError, StudyError
from holdfast.study import schema
from holdfast.study.local import InProcess
from holdfast.study.records import GivenUp, ItemResult, Record, items_of, tasks_of
from holdfast.study.session import Moment, run_study
from holdfast.study.spec import CertifySpec, GroupKey, MaskingSpec, MethodSpec, SmoothingSpec
from holdfast.study.store import Store, StoreWriter
from holdfast.study.worker import load_worker
from tests.helpers.study_support import edit, make_spec, unmeasured, write_texts

N_INPUTS = 2


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_texts(tmp_path_factory.mktemp("texts"), N_INPUTS)


@pytest.fixture(scope="module")
def results(texts: Path) -> list[ItemResult]:
    spec = make_spec(texts, witness=True)
    worker = load_worker(spec)
    found = [one for task in tasks_of(spec, range(N_INPUTS), frozenset()) for one in worker.run(task)]
    assert all(isinstance(one, ItemResult) for one in found)
    return found  # type: ignore[return-value]


@pytest.fixture
def records(results: list[ItemResult]) -> list[Record]:
    return [Record.of(one) for one in results]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "study.db"


def writer(path: Path, texts: Path, **changes: Any) -> StoreWriter:
    return StoreWriter(path, (make_spec(texts, witness=True, **changes)), settings={}, versions={})


@pytest.fixture
def filled(path: Path, texts: Path, records: list[Record]) -> Path:
    with writer(path, texts) as store:
        store.expect(range(N_INPUTS), n_there=N_INPUTS)
        for record in records:
            store.add(record)
    return path


def test_what_is_stored_is_read_back_in_full(filled: Path, results: list[ItemResult]) -> None:
    with Store(filled) as store:
        stored = {one.key: one for one in store.results()}
    assert len(stored) == len(results) == 16
    assert all(one.witness is not None and len(one.mus) == 1 for one in results)
    for one in results:
        again = stored[one.key]
        assert again.curve == one.curve
        assert again.digest == one.digest
        assert (again.n_computed, again.seconds) == (one.n_computed, one.seconds)


def test_the_digest_changes_with_everything_but_time_and_shared_work(results: list[ItemResult]) -> None:
    from dataclasses import replace

    one = results[0]
    assert replace(one, seconds=9.0, n_computed=1, attribution_seconds=3.0).digest == one.digest
    for changes in ({"n_calls": 1}, {"label": 5}, {"curve": results[1].curve}, {"prediction": 7}, {"mus": ()}):
        assert replace(one, **changes).digest != one.digest


def test_flat_rows_say_what_the_certificates_say(filled: Path, results: list[ItemResult]) -> None:
    with Store(filled) as store:
        rows = list(store.rows())
    assert len(rows) == 2 * len(results)
    by_key = {one.key: one for one in results}
    for row in rows:
        key = f"{row['input']}/{row['method']}/{row['top_fraction']!r}/{row['keep_probability']!r}"
        certificate = by_key[key].curve[row["radius"]]
        assert (row["rate"], row["low"], row["high"]) == (certificate.rate, *certificate.interval)
        assert (row["n_agreed"], row["n_evaluated"]) == (certificate.n_agreed, certificate.n_evaluated)
        assert row["prediction"] == certificate.prediction
        assert row["consistent"] is certificate.consistent


def test_a_stored_item_is_not_stored_twice(path: Path, texts: Path, records: list[Record]) -> None:
    with writer(path, texts) as store:
        store.add(records[0])
        before = store.digests()
        with pytest.raises(StoreError, match="already; nothing was changed"):
            store.add(records[0])
        assert store.digests() == before
        assert next(store.query("SELECT count(*) FROM rates"))[0] == 2


def test_an_item_is_stored_whole_or_not_at_all(path: Path, texts: Path, records: list[Record]) -> None:
    broken = records[0]._replace(rates=(records[0].rates[0], (None,) * 9))
    with writer(path, texts) as store:
        with pytest.raises(sqlite3.IntegrityError):
            store.add(broken)
        for table in ("inputs", "attributions", "items", "rates"):
            assert next(store.query(f"SELECT count(*) FROM {table}"))[0] == 0
        store.add(records[0])
        assert store.keys() == {records[0].key}


def test_a_second_writer_is_refused_until_the_first_has_closed(path: Path, texts: Path, records: list[Record]) -> None:
    with writer(path, texts) as store:
        store.add(records[0])
        with pytest.raises(StoreError, match=f"written by another process .process id {os.getpid()}."):
            writer(path, texts)
        with Store(path) as reader:
            assert reader.keys() == {records[0].key}
    with writer(path, texts) as store:
        store.add(records[1])
    assert sorted(one.name for one in path.parent.iterdir()) == ["study.db"]


HOLD = """
import sys
from pathlib import Path
from holdfast.study.store import WriterLock
lock = WriterLock(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(path: Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_the_lock_of_a_killed_process_dies_with_it(path: Path, texts: Path, holder: subprocess.Popen[str]) -> None:
    with pytest.raises(StoreError, match=f"process id {holder.pid}"):
        writer(path, texts)
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert path.with_name("study.db.lock").exists()
    writer(path, texts).close()


def test_a_lock_that_is_a_link_is_refused_and_what_it_leads_to_is_left_alone(
    path: Path, texts: Path, tmp_path: Path
) -> None:
    precious = tmp_path / "precious.txt"
    precious.write_text("notes")
    for link in (os.symlink, os.link):
        link(precious, f"{path}.lock")
        with pytest.raises(StoreError, match=r"study\.db\.lock' must be a lock file, but is a link to another file"):
            writer(path, texts)
        Path(f"{path}.lock").unlink()
    os.symlink(tmp_path / "nothing", f"{path}.lock")
    with pytest.raises(StoreError, match="must be a lock file, but is a link"):
        writer(path, texts)
    assert precious.read_text() == "notes"
    assert not (tmp_path / "nothing").exists()


def test_two_names_of_one_file_never_have_two_writers(path: Path, texts: Path, records: list[Record]) -> None:
    other = path.with_name("other.db")
    with writer(path, texts) as store:
        store.add(records[0])
        os.link(path, other)
        with pytest.raises(StoreError, match=r"other\.db' has a second name, a hard link"):
            writer(other, texts)
        store.add(records[1])
    other.unlink()
    with writer(path, texts) as store:
        assert len(store.keys()) == 2
    path.with_name("link.db").symlink_to(path)
    with writer(path, texts), pytest.raises(StoreError, match=r"link\.db' is being written by another process"):
        writer(path.with_name("link.db"), texts)


def replaced(path: Path) -> None:
    other = path.with_name("other.db")
    shutil.copy(path, other)
    other.replace(path)


@pytest.mark.parametrize(
    "lose", [Path.unlink, replaced, lambda path: path.rename(path.with_name("moved.db"))], ids=["del", "new", "moved"]
)
@pytest.mark.parametrize("n_before", [1, 15, 16])
def test_a_file_that_is_lost_during_a_run_is_noticed(
    path: Path, texts: Path, lose: Callable[[Path], object], n_before: int
) -> None:
    def watch(moment: Moment) -> None:
        if moment.n_done == n_before:
            lose(path)

    with pytest.raises(StoreError, match=r"study\.db' was deleted, moved or replaced while it was being written"):
        run_study(make_spec(texts), path, progress=watch)


def test_a_file_that_was_moved_during_a_run_has_all_that_was_stored(path: Path, texts: Path) -> None:
    moved = path.with_name("moved.db")
    with pytest.raises(StoreError, match="What this run stored is in the file that was moved"):
        run_study(make_spec(texts), path, progress=lambda moment: path.rename(moved) if moment.n_done == 5 else None)
    with Store(moved) as store:
        assert len(store.keys()) == 5
    assert run_study(make_spec(texts), moved).status.complete


COUNT = """
import sys
from pathlib import Path
from holdfast.errors import StoreError
from holdfast.study.store import WriterLock
path, left = Path(sys.argv[1]), 150
while left:
    try:
        lock = WriterLock(path)
    except StoreError:
        continue
    path.write_text(str(int(path.read_text()) + 1))
    lock.release()
    left -= 1
"""


def test_no_two_processes_hold_the_lock_at_once(path: Path) -> None:
    path.write_text("0")
    counting = [subprocess.Popen([sys.executable, "-c", COUNT, str(path)]) for _ in range(3)]
    assert [one.wait() for one in counting] == [0, 0, 0]
    assert path.read_text() == "450"


def digest_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def refused(path: Path, texts: Path, message: str) -> None:
    before = digest_of(path)
    with pytest.raises(StoreError, match=message):
        writer(path, texts)
    with pytest.raises(StoreError, match=message):
        Store(path)
    assert digest_of(path) == before


def test_a_file_that_is_no_database_is_refused_and_left_alone(path: Path, texts: Path) -> None:
    path.write_text("precious notes\n" * 100)
    refused(path, texts, "it is not a SQLite database")


def test_a_foreign_database_is_refused_and_left_alone(path: Path, texts: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE items (precious TEXT)")
    connection.execute("INSERT INTO items VALUES ('notes')")
    connection.commit()
    connection.close()
    refused(path, texts, "another SQLite database")


def test_a_store_of_a_newer_version_is_refused_and_left_alone(filled: Path, texts: Path) -> None:
    connection = sqlite3.connect(filled)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    refused(filled, texts, "has version 99, written by a newer holdfast")


def test_the_tables_of_files_that_are_out_there_are_never_edited() -> None:
    """Files of 0.1.0 have version 3: whoever edits its statements cannot open them any more."""
    released = hashlib.sha256(repr(schema.UPGRADES[:3]).encode()).hexdigest()
    assert released == "f2e0c4a5089204c364a2e806936e1a05ee94f8f67f6f72c54834aef0480629f4"


def test_a_store_without_digests_is_refused_and_left_alone(path: Path, texts: Path) -> None:
    with sqlite3.connect(path) as connection:
        for statement in (*schema.UPGRADES[0], *schema.UPGRADES[1]):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
        connection.execute("PRAGMA user_version = 2")
    connection.close()
    refused(path, texts, "has version 2, without the digests that show whether results were changed")


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER t AFTER INSERT ON items BEGIN DELETE FROM rates; END",
        "CREATE VIEW v AS SELECT * FROM items",
        "ALTER TABLE rates RENAME COLUMN low TO high2",
        "DROP TABLE skips",
    ],
)
def test_a_store_with_other_tables_than_ours_is_refused_and_left_alone(
    filled: Path, texts: Path, statement: str
) -> None:
    with sqlite3.connect(filled) as connection:
        connection.execute(statement)
    connection.close()
    refused(filled, texts, "its tables differ from those of a file of results")


def test_every_table_has_a_digest(path: Path, texts: Path) -> None:
    with writer(path, texts) as store:
        tables = {name for (name,) in store.query("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert tables == {*schema.TABLES, "seals"}


def test_digests_follow_whatever_a_writer_does(path: Path, texts: Path, records: list[Record]) -> None:
    with writer(path, texts) as store:
        store.expect(range(N_INPUTS), n_there=N_INPUTS)
        store.skip(0, "unreadable")
        store.skip(0, "still unreadable")
        store.give_up(GivenUp(1, "", "died", 3, ("a",)))
        store.add(records[0])
        with pytest.raises(StoreError, match="already"):
            store.add(records[0])
        store.add_answer("scope", "question", "-0.0")
        store.add_answer("scope", "question", "1")
        store.add_mean_curve(GroupKey("lime", 1, -0.0), "{}", (0, 1))  # whole numbers and zeros that SQLite changes
        Store(path).close()
    Store(path).close()


@pytest.mark.parametrize("share", [0.02, 0.3, 0.5, 0.9])
def test_a_store_that_was_cut_short_is_refused_and_left_alone(filled: Path, texts: Path, share: float) -> None:
    content = filled.read_bytes()
    filled.write_bytes(content[: max(100, int(share * len(content)))])
    before = digest_of(filled)
    with pytest.raises(StoreError, match="damaged"):
        writer(filled, texts)
    assert digest_of(filled) == before


def test_a_damaged_page_is_noticed_before_anything_is_written(filled: Path, texts: Path) -> None:
    content = bytearray(filled.read_bytes())
    content[2 * 4096 : 3 * 4096] = b"\xff" * 4096
    filled.write_bytes(bytes(content))
    with pytest.raises(StoreError, match="damaged"):
        writer(filled, texts)
    assert filled.read_bytes() == bytes(content)


def test_what_a_kill_at_birth_leaves_is_taken_over(path: Path, texts: Path) -> None:
    path.touch()
    writer(path, texts).close()
    path.unlink()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    assert path.stat().st_size > 0
    writer(path, texts).close()
    assert schema.check_store(path)


def test_an_older_store_is_upgraded_with_its_items(
    filled: Path, texts: Path, records: list[Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    step = ("ALTER TABLE sessions ADD COLUMN note TEXT", "UPDATE sessions SET note = 'old'")
    monkeypatch.setattr(schema, "UPGRADES", [*schema.UPGRADES, step])
    with writer(filled, texts) as store:
        assert store.keys() == {record.key for record in records}
        assert next(store.query("SELECT note FROM sessions"))[0] == "old"
        assert next(store.query("PRAGMA user_version"))[0] == len(schema.UPGRADES)


def test_an_upgrade_that_fails_leaves_the_old_version(
    filled: Path, texts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = list(schema.UPGRADES)
    monkeypatch.setattr(schema, "UPGRADES", [*old, ("ALTER TABLE sessions ADD COLUMN note TEXT", "SELECT nonsense")])
    with pytest.raises(StoreError):
        writer(filled, texts)
    monkeypatch.setattr(schema, "UPGRADES", old)
    with writer(filled, texts) as store:
        assert len(store.keys()) == 16
        assert "note" not in [row[1] for row in store.query("PRAGMA table_info(sessions)")]


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"seed": 12}, "seed"),
        ({"certify": CertifySpec(radii=(1, 2))}, "certify.radii"),
        ({"methods": (MethodSpec("lime", n_samples=90),)}, "methods.lime.n_samples"),
        ({"smoothing": SmoothingSpec((1.0,), n_samples=9)}, "smoothing.n_samples"),
    ],
)
def test_items_of_another_question_are_refused_with_the_key_named(
    filled: Path, texts: Path, changes: dict[str, Any], key: str
) -> None:
    with pytest.raises(StudyError, match=f"`{key}` is .* in the stored study"):
        writer(filled, texts, **changes)
    with Store(filled) as store:
        assert len(store.keys()) == 16


def test_what_no_result_depends_on_may_change(filled: Path, texts: Path, tmp_path: Path) -> None:
    changed = CertifySpec(radii=(1, 3), half_width=0.5)
    with writer(filled, texts, certify=changed) as store:
        assert len(store.keys()) == 16
    mean, other = (
        make_spec(texts, certify=CertifySpec((1, 3), precision="data-set", half_width=0.2, **changes))
        for changes in ({}, {"plan": "exact", "tolerance": 0.3})
    )
    run_study(mean, tmp_path / "mean.db", inputs=[0])
    assert run_study(other, tmp_path / "mean.db", inputs=[0]).n_new == 0
    run_study(other, tmp_path / "other.db", inputs=[0])
    with Store(tmp_path / "mean.db") as one, Store(tmp_path / "other.db") as two:
        assert one.digests() == two.digests()
    with pytest.raises(StudyError, match=r"`certify.half_width` is .* in the stored study"):
        run_study(replace(mean, certify=replace(mean.certify, half_width=0.3)), tmp_path / "mean.db")


def test_a_method_that_was_left_out_for_a_while_is_still_known(filled: Path, texts: Path) -> None:
    writer(filled, texts, methods=(MethodSpec("random"),)).close()
    with pytest.raises(StudyError, match=r"`methods\.lime\.n_samples`"):
        writer(filled, texts, methods=(MethodSpec("lime", n_samples=90),))


def test_a_store_without_items_may_change_its_question(path: Path, texts: Path) -> None:
    writer(path, texts, seed=1).close()
    writer(path, texts, seed=2).close()
    with Store(path) as store:
        assert store.spec.seed == 2


def test_results_of_another_model_or_input_are_refused(path: Path, texts: Path, records: list[Record]) -> None:
    with writer(path, texts) as store:
        store.add(records[0])
        other_input = records[1]._replace(input_fingerprint="other")
        with pytest.raises(StudyError, match="was stored as another input"):
            store.add(other_input)
        last = records[-1]
        other_model = last._replace(model_fingerprint="other")
        with pytest.raises(StudyError, match="are of another model"):
            store.add(other_model)
        assert store.keys() == {records[0].key}


def test_a_spec_that_no_file_can_hold_is_refused(texts: Path) -> None:
    with pytest.raises(InvalidTypeError, match=r"`masking\.groups` must be something a file can hold"):
        make_spec(texts, masking=MaskingSpec(groups=object())).plain()


RUN = [sys.executable, "-m", "tests.helpers.study_runner"]


def test_a_full_disk_is_said_clearly_and_keeps_what_was_stored(path: Path, texts: Path) -> None:
    full = subprocess.run([*RUN, str(texts), str(path), "0", "200000"], capture_output=True, text=True)
    assert full.returncode != 0
    assert "StoreError" in full.stderr
    assert "Stored items are intact" in full.stderr
    n_told = full.stderr.count('"key"')
    with Store(path) as store:
        assert 0 < len(store.keys()) == n_told < 16
    spec = make_spec(texts, factory="slow_moods")
    run = run_study(spec, path)
    assert run.n_new == 16 - n_told
    fresh = run_study(spec, path.with_name("fresh.db"))
    assert fresh.n_new == 16
    with Store(path) as store, Store(path.with_name("fresh.db")) as other:
        assert store.digests() == other.digests()
        assert next(store.query("PRAGMA integrity_check"))[0] == "ok"


AS_NOBODY = """
import os, sys
from pathlib import Path
from holdfast.errors import StoreError
from holdfast.study.store import WriterLock
from holdfast.study.store import Store
if os.getuid() == 0:  # who may write anywhere
    os.setgid(65534)
    os.setuid(65534)
try:
    WriterLock(Path(sys.argv[1]))
except StoreError as error:
    print(error)
print(len(Store(sys.argv[1]).keys()))
"""


def test_a_read_only_folder_can_be_read_and_is_refused_clearly_for_writing(filled: Path) -> None:
    with tempfile.TemporaryDirectory() as name:  # pytest's own folders can be entered by their owner alone
        folder = Path(name)
        copied = Path(shutil.copy(filled, folder))
        copied.chmod(0o644)
        folder.chmod(0o555)
        command = [sys.executable, "-c", AS_NOBODY, str(copied)]
        told = subprocess.run(command, capture_output=True, text=True, env=unmeasured())  # nobody can write it down
        folder.chmod(0o755)
    assert told.stderr == ""
    assert "Cannot write to the folder" in told.stdout
    assert told.stdout.endswith("\n16\n")


def test_a_store_that_does_not_exist_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="does not exist; it must be a file of results"):
        Store(tmp_path / "nothing.db")
    assert not (tmp_path / "nothing.db").exists()


def test_items_have_distinct_keys(texts: Path) -> None:
    keys = [item.key for item in items_of(make_spec(texts), range(N_INPUTS))]
    assert len(set(keys)) == len(keys) == 16


def test_decoding_refuses_an_edited_certificate(filled: Path, texts: Path) -> None:
    import zlib

    with Store(filled) as store:
        (curve,) = next(store.query("SELECT curve FROM items WHERE item = 1"))
    edited = zlib.compress(zlib.decompress(curve).replace(b'"confidence": 0.', b'"confidence": 1.'))
    edit(filled, "UPDATE items SET curve = ? WHERE item = 1", edited)
    with Store(filled) as store, pytest.raises(HoldfastError, match="must"):
        list(store.results())


def test_the_engine_in_this_process_gives_what_its_worker_finds(texts: Path, results: list[ItemResult]) -> None:
    spec = make_spec(texts, witness=True)
    events = list(InProcess().run(spec, tasks_of(spec, range(N_INPUTS), frozenset()), lambda: False))
    events.sort(key=lambda event: event.input)  # several inputs are open; items of one come in their order
    assert [event.key for event in events if isinstance(event, Record)] == [one.key for one in results]
    assert [event.digest for event in events if isinstance(event, Record)] == [one.digest for one in results]
