"""Results of one session → the file of results, item by item, by one writer at a time."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from holdfast.errors import StoreError, StudyError
from holdfast.study.listing import Listed
from holdfast.study.lock import WriterLock
from holdfast.study.question import Plain, check_same_question
from holdfast.study.results import Record, Row, stored_json
from holdfast.study.schema import check_store, connect_writing, transaction, wrapping_errors
from holdfast.study.seals import Sealing
from holdfast.study.store import CurveKey, Store

_ITEM_COLUMNS = (
    "input, method, top_fraction, keep_probability, selected, n_selected, prediction, consistent, curve, mus, witness, "
    "n_calls, n_computed, seconds, digest, session"
)


class StoreWriter(Store):
    """A file of results, open for one writer; made if there is none.

    Parameters
    ----------
    path : str or Path
        The file.
    spec : dict
        The study, plain. A file that holds items of another question is refused.
    settings, versions : mapping
        How this session computes, and with what; kept with the items it stores.
    """

    def __init__(
        self, path: str | Path, spec: Plain, *, settings: Mapping[str, Any], versions: Mapping[str, Any]
    ) -> None:
        self.path = Path(path)
        self._lock = WriterLock(self.path)
        try:
            if check_store(self.path):
                Store(self.path).close()  # which checks all that is stored
            self._connection = connect_writing(self.path)
            self._sealing = Sealing(self._connection)
            self._identity = self.path.stat()
            with self._writing():
                self._keep_question(spec)
                self._session = self._begin(settings, versions)
        except BaseException:
            if hasattr(self, "_connection"):
                self._connection.close()
            self._lock.release()
            raise

    def _keep_question(self, spec: Plain) -> None:
        known = dict(self.query("SELECT name, value FROM meta"))
        stored = {name for (name,) in self.query("SELECT DISTINCT method FROM attributions")}
        methods = {name: one for name, one in stored_json(known.get("methods", "{}"), dict).items() if name in stored}
        if "spec" in known and self._one("SELECT 1 FROM items LIMIT 1") is not None:
            check_same_question(self.spec | {"methods": list(methods.values())}, spec)
        self._put("spec", spec)
        self._put("methods", methods | {method["name"]: method for method in spec["methods"]})

    def _begin(self, settings: Mapping[str, Any], versions: Mapping[str, Any]) -> int:
        values = (time.time(), json.dumps(dict(settings)), json.dumps(dict(versions)))
        cursor = self._connection.execute("INSERT INTO sessions (started, settings, versions) VALUES (?, ?, ?)", values)
        return int(cursor.lastrowid or 0)

    def _put(self, name: str, value: Any) -> None:
        self._connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, json.dumps(value)))

    def expect(self, inputs: Sequence[int], *, n_there: int) -> None:
        """Remember which inputs the study has, of how many in the data."""
        with self._writing():
            self._put("n_inputs", len(inputs))
            self._put("inputs", None if list(inputs) == list(range(len(inputs))) else list(inputs))
            self._put("n_there", n_there)

    def list_inputs(self, listed: Mapping[int, Listed]) -> None:
        """Remember which inputs the numbers stand for; the caller has checked those that have items."""
        known = self.listing()
        full = {index: one.knowing(known.get(index)) for index, one in listed.items()}
        new = [(index, *one) for index, one in full.items() if known.get(index) != one]
        with self._writing():
            self._connection.executemany("INSERT OR REPLACE INTO listing VALUES (?, ?, ?)", new)

    def note_content(self, index: int, digest: str) -> None:
        """Remember what an input held when its first item was computed; what items are about is not changed."""
        with self._writing():
            self._connection.execute(
                "UPDATE listing SET digest = ? WHERE input = ? AND "
                "(digest IS NULL OR NOT EXISTS (SELECT 1 FROM items WHERE items.input = listing.input))",
                (digest, index),
            )

    def add(self, record: Record) -> None:
        """Store one item: all of it or nothing. An item that is stored already is refused."""
        with self._writing():
            self._add_input(record.input)
            self._add_attribution(record)
            marks = ", ".join("?" * 16)
            cursor = self._connection.execute(
                f"INSERT OR IGNORE INTO items ({_ITEM_COLUMNS}) VALUES ({marks})", (*record.item, self._session)
            )
            if cursor.rowcount == 0:
                raise StoreError(f"The item {record.key} is in {str(self.path)!r} already; nothing was changed.")
            rates = [(cursor.lastrowid, *rate) for rate in record.rates]
            self._connection.executemany("INSERT INTO rates VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rates)
            self._connection.execute("DELETE FROM skips WHERE input = ?", record.input[:1])
            self._connection.execute("DELETE FROM failures WHERE input = ?", record.input[:1])

    def _add_input(self, row: Row) -> None:
        """Store what is known of the input, or check that it is the same input and model as before."""
        known = self._one("SELECT * FROM inputs WHERE input = ?", row[0])
        if known is None:
            self._check_model(row[5])
            self._connection.execute("INSERT INTO inputs VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        elif (known[4], known[6]) != (row[4], row[6]):
            raise StudyError(
                f"Input {row[0]} was stored as another input (fingerprint {known[6]}, now {row[6]}). "
                "The file holds results of one model and one data set."
            )
        else:
            self._check_model(row[5])

    def _check_model(self, fingerprint: str | None) -> None:
        """All inputs have the model of the first."""
        first = self._one("SELECT model_fingerprint FROM inputs LIMIT 1")
        if first is not None and first[0] != fingerprint:
            raise StudyError(
                f"The results in {str(self.path)!r} are of another model (fingerprint {first[0]}, now {fingerprint}). "
                "The file holds results of one model and one data set."
            )

    def _add_attribution(self, record: Record) -> None:
        known = self.packed_attribution(record.input[0], record.method)
        if known is None:
            self._connection.execute("INSERT INTO attributions VALUES (?, ?, ?, ?, ?)", record.attribution)
        elif known != record.attribution[2]:
            raise StudyError(
                f"Input {record.input[0]} has other {record.method} scores than those its stored items were cut from."
            )

    def add_answer(self, scope: str, question: str, content: str) -> None:
        """Store what an input answered for a mean curve."""
        with self._writing():
            self._connection.execute("INSERT OR REPLACE INTO answers VALUES (?, ?, ?)", (scope, question, content))

    def add_mean_curve(self, key: CurveKey, content: str, inputs: tuple[int, ...]) -> None:
        """Store a mean curve; one over other inputs is replaced."""
        values = (*key, content, json.dumps(inputs), self._session)
        with self._writing():
            self._connection.execute("INSERT OR REPLACE INTO mean_curves VALUES (?, ?, ?, ?, ?, ?)", values)

    def skip(self, index: int, reason: str) -> None:
        """Remember that an input was left out."""
        with self._writing():
            self._connection.execute("INSERT OR REPLACE INTO skips VALUES (?, ?, ?)", (index, reason, self._session))

    def give_up(self, index: int, reason: str, *, n_tries: int, items: tuple[str, ...]) -> None:
        """Remember that the items of an input could not be computed."""
        values = (index, reason, n_tries, json.dumps(items), self._session)
        with self._writing():
            self._connection.execute("INSERT OR REPLACE INTO failures VALUES (?, ?, ?, ?, ?)", values)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        self._check_in_place()
        with wrapping_errors(self.path), transaction(self._connection):
            self._sealing.begin()
            yield
            self._sealing.keep()

    def _check_in_place(self) -> None:
        """Raise where another file, or none, has taken the name: SQLite would write on into one that nobody sees."""
        if not (self.path.exists() and os.path.samestat(self.path.stat(), self._identity)):
            # Its log has the old name: what is in there is brought to where the file is now.
            with suppress(sqlite3.Error):
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            raise StoreError(
                f"{str(self.path)!r} was deleted, moved or replaced while it was being written. What this run stored "
                "is in the file that was moved, or lost with the one that was deleted. Run the study again."
            )

    def close(self) -> None:
        """End the session and let go of the file; its log is merged into it."""
        try:
            with self._writing():
                now = (time.time(), self._session)
                self._connection.execute("UPDATE sessions SET ended = ? WHERE session = ?", now)
        finally:
            self._connection.close()
            self._lock.release()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            self.close()
        except StoreError:
            # A full disk refuses this note as well; the error that is on its way says so already.
            if error is None:
                raise
