"""Results → one SQLite file, one transaction per item: what was stored survives whatever happens to the process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from holdfast.errors import HoldfastError, StoreError
from holdfast.results.attribution import Attribution
from holdfast.results.mean_curve import MeanCurve
from holdfast.study.items import Item
from holdfast.study.listing import Listed
from holdfast.study.question import Plain
from holdfast.study.results import ItemResult, StoredItem, decode, stored_json, unpack_text
from holdfast.study.schema import check_store, connect_reading, wrapping_errors
from holdfast.study.spec_file import spec_from_plain
from holdfast.validation import check_path

CURVE_KEY = "method, top_fraction, keep_probability"

_STORED = """
SELECT i.input, i.method, i.top_fraction, i.keep_probability, i.selected, i.curve, i.mus, i.witness, i.n_calls,
    i.n_computed, i.seconds, x.name, x.label, x.prediction, x.n_features, a.content, a.seconds
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

    @property
    def spec(self) -> Plain:
        """The study as it was last run, plain."""
        plain: Plain = stored_json(self.meta("spec"), dict)
        try:
            spec_from_plain(plain)
        except HoldfastError as error:
            raise StoreError(f"{str(self.path)!r} is damaged: it holds no study. {error}") from error
        return plain

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
        for row in self.query(_STORED, *((0, _LARGEST) if index is None else (index, index))):
            yield decode(StoredItem(*row))

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
        if self._one("SELECT 1 FROM sqlite_master WHERE name = 'listing'") is None:
            return {}  # made by an earlier version, and not run since
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
