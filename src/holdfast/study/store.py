"""Results ⇄ one SQLite file, one transaction per item: what was stored survives whatever happens to the process."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from holdfast.atomic import is_current, open_lock, try_lock
from holdfast.attribution.methods import Attribution
from holdfast.certification.mean_curve import MeanCurve
from holdfast.errors import HoldfastError, StoreError, StudyError
from holdfast.evaluation import Evaluator
from holdfast.study import schema
from holdfast.study.records import (
    GivenUp,
    Item,
    ItemResult,
    Listed,
    Record,
    Row,
    stated_rates,
    stored_json,
    unpack_text,
)
from holdfast.study.spec import GroupKey, MethodSpec, StudySpec, check_same_question, stored_spec
from holdfast.types import MaskedModel
from holdfast.validation import check_path

GROUP = "method, top_fraction, keep_probability"
"""The columns that are a ``GroupKey``."""

OF_STUDY = "input IN (SELECT value FROM json_each(?))"
"""Whether an input is one of ``Store.inputs``, which are given as JSON: a file may hold items of others too."""

_LARGEST = 2**63 - 1

_ITEMS = """(
    SELECT i.*, x.name, x.label, x.prediction AS full_prediction, x.n_features, x.model_fingerprint,
        x.input_fingerprint, a.content AS attribution, a.n_calls AS attribution_calls, a.seconds AS attribution_seconds
    FROM items i JOIN inputs x USING (input) JOIN attributions a USING (input, method)
)"""
"""Items with what is known of their inputs and scores, under the names of a ``Record``."""

_COLUMNS = """
input int64, name string, label float64, full_prediction string, n_features int64, method string, top_fraction float64,
keep_probability float64, n_selected int64, prediction string, consistent bool, radius int64, effective_radius int64,
rate float64, rate_unbiased float64, low float64, high float64, n_agreed int64, n_evaluated int64, exact bool,
n_calls int64, n_computed int64, seconds float64, attribution_calls int64, attribution_seconds float64,
model_fingerprint string, input_fingerprint string
"""
COLUMNS = dict(column.split() for column in _COLUMNS.split(","))
"""The columns of the flat table, one row per item and radius, and their types as Arrow calls them."""

_ROWS = f"SELECT {', '.join(COLUMNS)} FROM {_ITEMS} JOIN rates USING (item) ORDER BY input, {GROUP}, radius"

_RECORDS = f"""
SELECT item, {", ".join(Record._fields[:-1])} FROM {_ITEMS} WHERE input BETWEEN ? AND ? ORDER BY input, {GROUP}
"""

_ADD_INPUT = """
INSERT INTO inputs (input, name, label, prediction, n_features, model_fingerprint, input_fingerprint)
VALUES (:input, :name, :label, :full_prediction, :n_features, :model_fingerprint, :input_fingerprint)
"""

_ADD_ATTRIBUTION = """
INSERT INTO attributions VALUES (:input, :method, :attribution, :attribution_calls, :attribution_seconds)
"""

_ADD_ITEM = """
INSERT OR IGNORE INTO items VALUES
    (NULL, :input, :method, :top_fraction, :keep_probability, :selected, :n_selected, :prediction, :consistent, :curve,
    :mus, :witness, :n_calls, :n_computed, :seconds, :digest, :session)
"""

_NOTE_CONTENT = """
UPDATE listing SET digest = ? WHERE input = ? AND
    (digest IS NULL OR NOT EXISTS (SELECT 1 FROM items WHERE items.input = listing.input))
"""


class Store:
    """A file of results, open for reading; a writer may be at work at the same time.

    Examples
    --------
    >>> Store("no such file.db")
    Traceback (most recent call last):
    ...
    holdfast.errors.StoreError: 'no such file.db' does not exist; it must be a file of results.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = check_path(path, "path")
        if not schema.check_store(self.path):
            raise StoreError(f"{str(path)!r} does not exist; it must be a file of results.")
        with schema.wrapping_errors(self.path):
            self._connection = schema.connect_reading(self.path)
        try:
            with self.snapshot():
                schema.check_sound(self._connection, self.path)
                self._check_unchanged()
        except BaseException:
            self.close()
            raise

    def _check_unchanged(self) -> None:
        """Raise unless what is stored is what was written."""
        if tables := schema.broken_seals(self._connection):
            changed = f"the table {tables[0]!r}"
            for record in self.records():  # an item that contradicts its digest or its certificates says more
                try:
                    record.result()
                except (HoldfastError, ArithmeticError, LookupError, TypeError, ValueError):
                    changed = f"the item {record.key}"
                    break
            raise StoreError(
                f"{str(self.path)!r} was changed or damaged since holdfast wrote it: {changed} differs from what "
                "was stored. Continue from a backup."
            )
        # Rates, which are shown without reading certificates, are those that certificates state.
        for item, packed, *key in self.query(f"SELECT item, curve, input, {GROUP} FROM items"):
            if stated_rates(unpack_text(packed)) != self._rates(item):
                raise StoreError(
                    f"The rates of item {Item(*key).key} in {str(self.path)!r} differ from its certificates. "
                    "The file was changed or damaged; continue from a backup."
                )

    @property
    def spec(self) -> StudySpec:
        """The study as it was last run; whom to trust is nothing that a file can say."""
        plain = stored_json(self.meta("spec"), dict)
        try:
            return stored_spec(plain)
        except HoldfastError as error:
            raise StoreError(f"{str(self.path)!r} is damaged: it holds no study. {error}") from error

    def methods(self) -> dict[str, MethodSpec]:
        """Every method that the study ever had, by name."""
        methods = stored_json(self.meta("methods"), dict)
        try:
            return {name: MethodSpec(**settings) for name, settings in methods.items()}
        except (HoldfastError, TypeError) as error:
            raise StoreError(f"{str(self.path)!r} is damaged: it holds no methods. {error}") from error

    def sources(self) -> dict[str, list[str]]:
        """What the study reads: the specs of its model and of its data."""
        spec = self.spec
        return {"the study's model": [spec.model.spec], "the study's data": [spec.data.spec]}

    def inputs(self) -> list[int]:
        """The inputs of the study by their numbers in the data, in the order in which they are computed."""
        numbers: list[int] | None = stored_json(self.meta("inputs"))
        return list(range(self.n_inputs)) if numbers is None else numbers

    @property
    def n_inputs(self) -> int:
        """How many inputs the study has."""
        return int(stored_json(self.meta("n_inputs"), int))

    @property
    def n_there(self) -> int:
        """How many inputs the data had."""
        return int(stored_json(self.meta("n_there"), int))

    @property
    def speaks_of_population(self) -> bool:
        """Whether the inputs may stand for others: all of the data, or drawn from them at random, not the first few."""
        data = self.spec.data
        return data.n is None or data.order == "random" or self.n_inputs == self.n_there

    def meta(self, name: str) -> str:
        """A fact about the whole study."""
        for (value,) in self.query("SELECT value FROM meta WHERE name = ?", name):
            return str(value)
        raise StoreError(f"{str(self.path)!r} was made but never run: it has no {name}.")

    def keys(self) -> frozenset[str]:
        """The items that are stored."""
        return frozenset(self.digests())

    def digests(self) -> dict[str, str]:
        """For each item stored, what must be equal in every run of the same study."""
        rows = self.query(f"SELECT input, {GROUP}, digest FROM items ORDER BY item")
        return {Item(*row[:4]).key: row[4] for row in rows}

    def attribution(self, index: int, method: str) -> Attribution | None:
        """The scores stored for an input and a method, if any of its items is."""
        packed = self.packed_attribution(index, method)
        return None if packed is None else Attribution.from_json(unpack_text(packed))

    def attributions(self, method: str) -> list[tuple[int, Attribution]]:
        """All scores that are stored for a method, by input."""
        rows = self.query("SELECT input, content FROM attributions WHERE method = ? ORDER BY input", method)
        return [(index, Attribution.from_json(unpack_text(packed))) for index, packed in rows]

    def packed_attribution(self, index: int, method: str) -> bytes | None:
        """The same as compressed JSON."""
        rows = self.query("SELECT content FROM attributions WHERE input = ? AND method = ?", index, method)
        return next((bytes(content) for (content,) in rows), None)

    def records(self, index: int | None = None) -> Iterator[Record]:
        """Every item, or those of one input, as it is stored."""
        for item, *row in self.query(_RECORDS, *((0, _LARGEST) if index is None else (index, index))):
            yield Record._make((*row, self._rates(item)))

    def results(self, index: int | None = None) -> Iterator[ItemResult]:
        """Every item, or those of one input, in full and one at a time; each certificate is checked as it is read."""
        return (record.result() for record in self.records(index))

    def _rates(self, item: int) -> tuple[Row, ...]:
        return tuple(row[1:] for row in self.query("SELECT * FROM rates WHERE item = ? ORDER BY radius", item))

    def rows(self) -> Iterator[dict[str, Any]]:
        """One flat row per item and radius, by input; predictions as what they are and flags as Booleans."""
        for values in self.query(_ROWS):
            row = dict(zip(COLUMNS, values, strict=True))
            flags = {name: bool(row[name]) for name in ("consistent", "exact")}
            yield row | flags | {name: stored_json(row[name]) for name in ("prediction", "full_prediction")}

    def mean_curves(self) -> dict[GroupKey, MeanCurve]:
        """Every mean curve that is stored, for these inputs or for others."""
        rows = self.query(f"SELECT {GROUP}, content FROM mean_curves ORDER BY {GROUP}")
        return {GroupKey(*row[:3]): MeanCurve.from_json(row[3]) for row in rows}

    def means(self) -> dict[GroupKey, MeanCurve]:
        """The mean curves that the study asks for, those that are over exactly the inputs that are explained by now."""
        curves = ((group, self.mean(group)) for group in self.spec.mean_groups)
        return {group: curve for group, curve in curves if curve is not None}

    def mean(self, group: GroupKey) -> MeanCurve | None:
        """One of them, if it is stored."""
        statement = f"SELECT content, inputs FROM mean_curves WHERE ({GROUP}) = (?, ?, ?)"
        for content, inputs in self.query(statement, *group):
            if tuple(stored_json(inputs, list)) == self.group_inputs(group):
                return MeanCurve.from_json(content)
        return None

    def group_inputs(self, group: GroupKey) -> tuple[int, ...]:
        """The inputs of the study whose explanation of this kind is stored, in increasing order."""
        return tuple(index for (index,) in group_rows(self, group, "input"))

    def first_difference(self, index: int, bound: MaskedModel) -> tuple[str, Any, Any] | None:
        """What is another than when the input was explained: its name, what it was and what it is; None if nothing."""
        statement = "SELECT model_fingerprint, input_fingerprint, n_features FROM inputs WHERE input = ?"
        stored, now = next(self.query(statement, index)), Evaluator(bound).provenance
        names = ("model", "input", "number of features")
        parts = zip(names, stored, (now.model, now.input, bound.n_features), strict=True)
        return next((part for part in parts if part[1] != part[2]), None)

    def listing(self) -> dict[int, Listed]:
        """What the inputs of the data set were called and held when the study was last run."""
        return {index: Listed(*row) for index, *row in self.query("SELECT * FROM listing ORDER BY input")}

    def names(self) -> dict[int, Listed]:
        """The names of the inputs that have items."""
        return {index: Listed(name, None) for index, name in self.query("SELECT input, name FROM inputs")}

    def skips(self) -> dict[int, str]:
        """The inputs that were left out, and why."""
        return dict(self.query("SELECT input, reason FROM skips ORDER BY input"))

    def failures(self) -> Iterator[GivenUp]:
        """The items that were given up, and why, by input."""
        rows = self.query("SELECT input, method, reason, n_tries, items FROM failures ORDER BY input, method")
        for *known, items in rows:
            yield GivenUp._make((*known, tuple(stored_json(items, list))))

    def query(self, statement: str, *values: Any) -> Iterator[Any]:
        """Rows of any question asked in SQL."""
        with schema.wrapping_errors(self.path):
            yield from self._connection.execute(statement, values)

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """All questions inside are answered by the file as it is now, whatever a writer adds meanwhile.

        Within another one, it is that one.
        """
        if self._connection.in_transaction:
            yield
            return
        with schema.wrapping_errors(self.path):
            self._connection.execute("BEGIN")
            try:
                yield
            finally:
                self._connection.execute("ROLLBACK")

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close()


def group_rows(store: Store, group: GroupKey, columns: str, *, by_radius: bool = False) -> Iterator[Row]:
    """Some columns of the items of a group that are of the study's inputs, by input; with ``by_radius``, of rates."""
    table, order = (f"{_ITEMS} JOIN rates USING (item)", "input, radius") if by_radius else (_ITEMS, "input")
    statement = f"SELECT {columns} FROM {table} WHERE ({GROUP}) = (?, ?, ?) AND {OF_STUDY} ORDER BY {order}"
    return store.query(statement, *group, json.dumps(store.inputs()))


class WriterLock:
    """A lock on the file ``<path>.lock``, which the operating system drops with the process.

    Links to the path are followed, so that there is one lock by whatever link the file is reached. A lock file that
    a killed process left behind locks nothing. A file with two names in its folders (hard links) is refused: SQLite
    keeps its log by the name, so that what is written by one name is lost for the other.
    """

    def __init__(self, path: Path) -> None:
        real = path.resolve()
        self._path = real.with_name(real.name + ".lock")
        self._file = file = open_lock(self._path)
        # The holder removes the file before it lets go, so that a lock just won may be on a file nobody sees.
        while (is_mine := try_lock(file)) and not is_current(file, self._path):
            file.close()
            self._file = file = open_lock(self._path)
        file.seek(0)
        if not is_mine:
            owner = file.read().strip() or "unknown"
            file.close()
            raise StoreError(
                f"{str(path)!r} is being written by another process (process id {owner}). One study writes a file "
                "at a time: wait, stop the other, or give this one its own file and merge them later."
            )
        file.truncate()
        file.write(str(os.getpid()))
        file.flush()
        if real.exists() and real.stat().st_nlink > 1:
            self.release()
            raise StoreError(
                f"{str(path)!r} has a second name, a hard link, by which it could be written at the same time. "
                "Delete the other name, or write into a copy of the file."
            )

    def release(self) -> None:
        """Give up the right; harmless if done before."""
        if not self._file.closed:
            if sys.platform != "win32":  # where an open file cannot be removed
                self._path.unlink(missing_ok=True)
            self._file.close()


class StoreWriter(Store):
    """A file of results, open for one writer; made if there is none, and refused if it answers another question.

    ``settings`` and ``versions`` say how this session computes, and with what; they are kept with the items it stores.
    """

    def __init__(
        self, path: str | Path, spec: StudySpec, *, settings: Mapping[str, Any], versions: Mapping[str, Any]
    ) -> None:
        spec.plain()  # what no file can hold is refused before there is one
        self.path = Path(path)
        self._lock = WriterLock(self.path)
        try:
            if schema.check_store(self.path):
                Store(self.path).close()  # which checks all that is stored
            self._connection = schema.connect_writing(self.path)
            self._sealing = schema.Sealing(self._connection)
            self._identity = self.path.stat()
            with self._writing():
                methods: dict[str, MethodSpec] = {}
                if stored := {name for (name,) in self.query("SELECT DISTINCT method FROM attributions")}:
                    methods = {name: method for name, method in self.methods().items() if name in stored}
                    check_same_question(self.spec, spec, methods)
                methods |= {method.name: method for method in spec.methods}
                known = replace(spec, methods=tuple(methods.values()))
                self._put("spec", spec.plain())
                self._put("methods", {method["name"]: method for method in known.plain()["methods"]})
                self._session = self._execute(
                    "INSERT INTO sessions (started, settings, versions) VALUES (?, ?, ?)",
                    (time.time(), json.dumps(dict(settings)), json.dumps(dict(versions))),
                ).lastrowid
        except BaseException:
            if hasattr(self, "_connection"):
                self._connection.close()
            self._lock.release()
            raise

    def _execute(self, statement: str, values: Any) -> sqlite3.Cursor:
        return self._connection.execute(statement, values)

    def _write(self, statement: str, *values: Any) -> None:
        """One statement in a transaction of its own."""
        with self._writing():
            self._execute(statement, values)

    def _put(self, name: str, value: Any) -> None:
        self._execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, json.dumps(value)))

    def expect(self, inputs: Sequence[int], *, n_there: int) -> None:
        """Remember which inputs the study has, of how many in the data."""
        with self._writing():
            self._put("n_inputs", len(inputs))
            self._put("inputs", None if list(inputs) == list(range(len(inputs))) else list(inputs))
            self._put("n_there", n_there)

    def list_inputs(self, listed: Mapping[int, Listed]) -> None:
        """Remember which inputs the numbers stand for; the caller has checked those that have items."""
        known = self.listing()
        full = {index: entry.knowing(known.get(index)) for index, entry in listed.items()}
        new = [(index, *entry) for index, entry in full.items() if known.get(index) != entry]
        with self._writing():
            self._connection.executemany("INSERT OR REPLACE INTO listing VALUES (?, ?, ?)", new)

    def note_content(self, index: int, digest: str) -> None:
        """Remember what an input held when its first item was computed; what items are about is not changed."""
        self._write(_NOTE_CONTENT, digest, index)

    def add(self, record: Record) -> None:
        """Store one item: all of it or nothing. An item that is stored already is refused."""
        values = record._asdict() | {"session": self._session}
        del values["rates"]
        with self._writing():
            one_model = "The file holds results of one model and one data set."
            statement = "SELECT n_features, input_fingerprint FROM inputs WHERE input = ?"
            known = next(self.query(statement, record.input), None)
            if known not in (None, (record.n_features, record.input_fingerprint)):
                raise StudyError(
                    f"Input {record.input} was stored as another input (fingerprint {known[1]}, now "
                    f"{record.input_fingerprint}). {one_model}"
                )
            for (model,) in self.query("SELECT model_fingerprint FROM inputs LIMIT 1"):
                if model != record.model_fingerprint:
                    raise StudyError(
                        f"The results in {str(self.path)!r} are of another model (fingerprint {model}, now "
                        f"{record.model_fingerprint}). {one_model}"
                    )
            if known is None:
                self._execute(_ADD_INPUT, values)
            scores = self.packed_attribution(record.input, record.method)
            if scores is None:
                self._execute(_ADD_ATTRIBUTION, values)
            elif scores != record.attribution:
                raise StudyError(
                    f"Input {record.input} has other {record.method} scores than those its stored items were cut from."
                )
            cursor = self._execute(_ADD_ITEM, values)
            if cursor.rowcount == 0:
                raise StoreError(f"The item {record.key} is in {str(self.path)!r} already; nothing was changed.")
            rates = [(cursor.lastrowid, *rate) for rate in record.rates]
            self._connection.executemany("INSERT INTO rates VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rates)
            self._execute("DELETE FROM skips WHERE input = ?", (record.input,))
            self._execute("DELETE FROM failures WHERE input = ? AND method IN ('', ?)", (record.input, record.method))

    def add_answer(self, scope: str, question: str, content: str) -> None:
        """Store what an input answered for a mean curve."""
        self._write("INSERT OR REPLACE INTO answers VALUES (?, ?, ?)", scope, question, content)

    def add_mean_curve(self, group: GroupKey, content: str, inputs: tuple[int, ...]) -> None:
        """Store a mean curve; one over other inputs is replaced."""
        values = (*group, content, json.dumps(inputs), self._session)
        self._write("INSERT OR REPLACE INTO mean_curves VALUES (?, ?, ?, ?, ?, ?)", *values)

    def skip(self, index: int, reason: str) -> None:
        """Remember that an input was left out."""
        self._write("INSERT OR REPLACE INTO skips VALUES (?, ?, ?)", index, reason, self._session)

    def give_up(self, failure: GivenUp) -> None:
        """Remember that items of an input could not be computed."""
        *known, items = failure
        self._write(
            "INSERT OR REPLACE INTO failures VALUES (?, ?, ?, ?, ?, ?)", *known, json.dumps(items), self._session
        )

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """One transaction, in the file that was opened: SQLite would write on into one that nobody sees."""
        if not (self.path.exists() and os.path.samestat(self.path.stat(), self._identity)):
            # Its log has the old name: what is in there is brought to where the file is now.
            with suppress(sqlite3.Error):
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            raise StoreError(
                f"{str(self.path)!r} was deleted, moved or replaced while it was being written. What this run stored "
                "is in the file that was moved, or lost with the one that was deleted. Run the study again."
            )
        with schema.wrapping_errors(self.path), self._sealing.transaction():
            yield

    def close(self) -> None:
        """End the session and let go of the file; its log is merged into it."""
        try:
            self._write("UPDATE sessions SET ended = ? WHERE session = ?", time.time(), self._session)
        finally:
            self._connection.close()
            self._lock.release()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self.close()
        except StoreError:
            # A full disk refuses this note as well; the error that is on its way says so already.
            if kind is None:
                raise
