"""Results → one SQLite file, one transaction per item: what was stored survives whatever happens to the process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from holdfast.attribution.task import Attribution
from holdfast.certification.mean_curve import MeanCurve
from holdfast.errors import HoldfastError, StoreError
from holdfast.study.items import Item
from holdfast.study.listing import Listed
from holdfast.study.question import Plain
from holdfast.study.results import ItemResult, Row, StoredItem, as_json, decode, stated_rates, stored_json, unpack_text
from holdfast.study.schema import check_sound, check_store, connect_reading, wrapping_errors
from holdfast.study.seals import broken_seals
from holdfast.study.spec import without_trust
from holdfast.study.spec_file import spec_from_plain
from holdfast.validation import check_path

CURVE_KEY = "method, top_fraction, keep_probability"

OF_STUDY = "input IN (SELECT value FROM json_each(?))"
"""Whether an input is one of ``Store.inputs``, which are given as JSON: a file may hold items of others too."""

_STORED = """
SELECT i.item, i.input, i.method, i.top_fraction, i.keep_probability, i.selected, i.curve, i.mus, i.witness, i.n_calls,
    i.n_computed, i.seconds, i.digest, x.name, x.label, x.prediction, x.n_features, a.content, a.seconds
FROM items i JOIN inputs x USING (input) JOIN attributions a ON a.input = i.input AND a.method = i.method
WHERE i.input BETWEEN ? AND ? ORDER BY i.input, i.method, i.top_fraction, i.keep_probability
"""

_LARGEST = 2**63 - 1

_ROWS = """
SELECT i.input, x.name, x.label, x.prediction AS full_prediction, x.n_features, i.method, i.top_fraction,
    i.keep_probability, i.n_selected, i.prediction, i.consistent, r.radius, r.effective_radius, r.rate, r.rate_unbiased,
    r.low, r.high, r.n_agreed, r.n_evaluated, r.exact, i.n_calls, i.n_computed, i.seconds,
    a.n_calls AS attribution_calls, a.seconds AS attribution_seconds, x.model_fingerprint, x.input_fingerprint
FROM items i JOIN inputs x USING (input) JOIN attributions a ON a.input = i.input AND a.method = i.method
    JOIN rates r ON r.item = i.item
ORDER BY i.input, i.method, i.top_fraction, i.keep_probability, r.radius
"""


class CurveKey(NamedTuple):
    """What a mean curve is about."""

    method: str
    top_fraction: float
    keep_probability: float

    @property
    def name(self) -> str:
        """Such as ``lime/0.25/1.0``."""
        return f"{self.method}/{self.top_fraction!r}/{self.keep_probability!r}"


class Store:
    """A file of results, open for reading; a writer may be at work at the same time.

    Examples
    --------
    >>> Store("no such file.db")
    Traceback (most recent call last):
    ...
    holdfast.errors.StoreError: 'no such file.db' must be a file of results; there is none.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = check_path(path, "path")
        if not check_store(self.path):
            raise StoreError(f"{str(path)!r} must be a file of results; there is none.")
        with wrapping_errors(self.path):
            self._connection = connect_reading(self.path)
        try:
            with self.snapshot():
                self._check()
        except BaseException:
            self.close()
            raise

    def _check(self) -> None:
        """Raise unless what is stored is what was written."""
        check_sound(self._connection, self.path)
        tables = broken_seals(self._connection)
        if tables:
            raise StoreError(
                f"{str(self.path)!r} was changed or damaged since holdfast wrote it: {self._first_changed(tables)} "
                "is not as it was stored. The file was left as it is; go on from a copy of it."
            )
        self._check_rates()

    def _check_rates(self) -> None:
        """Raise unless the rates, which are shown without reading certificates, are those that certificates state."""
        statement = "SELECT item, curve, input, method, top_fraction, keep_probability FROM items"
        for item, packed, *key in self.query(statement):
            if stated_rates(packed) != self._rates(item):
                raise StoreError(
                    f"The rates of item {Item(*key).key} in {str(self.path)!r} are not those that its certificates "
                    "state. The file was changed or damaged, and was left as it is; go on from a copy of it."
                )

    def _first_changed(self, tables: list[str]) -> str:
        """The first item that contradicts its digest or its certificates, if one does; otherwise a table."""
        for stored in self._stored():
            try:
                decode(stored)
            except (HoldfastError, ArithmeticError, LookupError, TypeError, ValueError):
                return f"the item {stored.key}"
        return f"the table {tables[0]!r}"

    @property
    def spec(self) -> Plain:
        """The study as it was last run, plain; whom to trust is nothing that a file can say."""
        plain: Plain = without_trust(stored_json(self.meta("spec"), dict))
        try:
            spec_from_plain(plain)
        except HoldfastError as error:
            raise StoreError(f"{str(self.path)!r} is damaged: it holds no study. {error}") from error
        return plain

    def sources(self) -> dict[str, list[str]]:
        """What the study reads: the specs of its model and of its data."""
        return {f"the study's {name}": [str(self.spec[name]["spec"])] for name in ("model", "data")}

    def inputs(self) -> list[int]:
        """The inputs of the study by their numbers in the data, in the order in which they are computed."""
        numbers: list[int] | None = stored_json(self.meta("inputs"))
        return list(range(self.n_inputs)) if numbers is None else numbers

    @property
    def n_there(self) -> int:
        """How many inputs the data had."""
        return int(stored_json(self.meta("n_there"), int))

    @property
    def speaks_of_population(self) -> bool:
        """Whether the inputs may stand for others: all of the data, or drawn from them at random, not the first few."""
        data = self.spec["data"]
        is_all = data["n"] is None or self.n_inputs == self.n_there
        return is_all or data["order"] == "random"

    @property
    def n_inputs(self) -> int:
        """How many inputs the study has."""
        return int(stored_json(self.meta("n_inputs"), int))

    def meta(self, name: str) -> str:
        """A fact about the whole study."""
        found = self._one("SELECT value FROM meta WHERE name = ?", name)
        if found is None:
            raise StoreError(f"{str(self.path)!r} was made but never run: it has no {name}.")
        return str(found[0])

    def keys(self) -> frozenset[str]:
        """The items that are stored."""
        rows = self.query("SELECT input, method, top_fraction, keep_probability FROM items")
        return frozenset(Item(*row).key for row in rows)

    def digests(self) -> dict[str, str]:
        """For each item stored, what must be equal in every run of the same study."""
        rows = self.query("SELECT input, method, top_fraction, keep_probability, digest FROM items ORDER BY item")
        return {Item(*row[:4]).key: row[4] for row in rows}

    def attribution(self, index: int, method: str) -> Attribution | None:
        """The scores stored for an input and a method, if any of its items is."""
        found = self.packed_attribution(index, method)
        return None if found is None else Attribution.from_json(unpack_text(found))

    def packed_attribution(self, index: int, method: str) -> bytes | None:
        """The same as compressed JSON."""
        found = self._one("SELECT content FROM attributions WHERE input = ? AND method = ?", index, method)
        return None if found is None else bytes(found[0])

    def results(self, index: int | None = None) -> Iterator[ItemResult]:
        """Every item, or those of one input, in full and one at a time; each certificate is checked as it is read."""
        return map(decode, self._stored(index))

    def results_json(self) -> Iterator[str]:
        """Every item as the JSON of its ``ItemResult``, as it is stored: who reads it checks it."""
        return map(as_json, self._stored())

    def _stored(self, index: int | None = None) -> Iterator[StoredItem]:
        for item, *row in self.query(_STORED, *((0, _LARGEST) if index is None else (index, index))):
            yield StoredItem._make((*row, self._rates(item)))

    def _rates(self, item: int) -> list[Row]:
        return [tuple(row[1:]) for row in self.query("SELECT * FROM rates WHERE item = ? ORDER BY radius", item)]

    def rows(self) -> Iterator[dict[str, Any]]:
        """One flat row per item and radius, by input."""
        with wrapping_errors(self.path):
            cursor = self._connection.execute(_ROWS)
            names = [column[0] for column in cursor.description]
            for row in cursor:
                yield _readable(dict(zip(names, row, strict=True)))

    def mean_curves(self) -> dict[CurveKey, MeanCurve]:
        """Every mean curve that is stored, for these inputs or for others; see ``current_means``."""
        rows = self.query(f"SELECT {CURVE_KEY}, content FROM mean_curves ORDER BY {CURVE_KEY}")
        return {CurveKey(*row[:3]): MeanCurve.from_json(row[3]) for row in rows}

    def answer(self, scope: str, question: str) -> str | None:
        """What an input answered for a mean curve, if it was asked."""
        found = self._one("SELECT content FROM answers WHERE scope = ? AND question = ?", scope, question)
        return None if found is None else str(found[0])

    def answers(self, scope: str) -> Iterator[str]:
        """The questions that were answered for a mean curve."""
        return (question for (question,) in self.query("SELECT question FROM answers WHERE scope = ?", scope))

    def listing(self) -> dict[int, Listed]:
        """What the inputs of the data set were called and held when the study was last run."""
        return {index: Listed(*row) for index, *row in self.query("SELECT * FROM listing ORDER BY input")}

    def names(self) -> dict[int, Listed]:
        """The names of the inputs that have items."""
        return {index: Listed(name, None) for index, name in self.query("SELECT input, name FROM inputs")}

    def skips(self) -> dict[int, str]:
        """The inputs that were left out, and why."""
        return dict(self.query("SELECT input, reason FROM skips ORDER BY input"))

    def failures(self) -> dict[int, str]:
        """The inputs that were given up, and why."""
        return dict(self.query("SELECT input, reason FROM failures ORDER BY input"))

    def given_up(self) -> dict[int, tuple[str, ...]]:
        """The items that were given up, by input."""
        rows = list(self.query("SELECT input, items FROM failures ORDER BY input"))
        return {index: tuple(stored_json(items, list)) for index, items in rows}

    def query(self, statement: str, *values: Any) -> Iterator[Any]:
        """Rows of any question asked in SQL."""
        with wrapping_errors(self.path):
            yield from self._connection.execute(statement, values)

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """All questions inside are answered by the file as it is now, whatever a writer adds meanwhile.

        Within another one, it is that one.
        """
        if self._connection.in_transaction:
            yield
            return
        with wrapping_errors(self.path):
            self._connection.execute("BEGIN")
            try:
                yield
            finally:
                self._connection.execute("ROLLBACK")

    def _one(self, statement: str, *values: Any) -> Any:
        with wrapping_errors(self.path):
            return self._connection.execute(statement, values).fetchone()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def _readable(row: dict[str, Any]) -> dict[str, Any]:
    """Predictions as what they are and flags as Booleans."""
    flags = {name: bool(row[name]) for name in ("consistent", "exact")}
    predictions = {name: stored_json(row[name]) for name in ("prediction", "full_prediction")}
    return row | flags | predictions
