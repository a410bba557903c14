"""The tables of a file of results → one digest each, kept in the file: what was changed, lost or added is noticed.

A digest is the sum of the hashes of all rows, so that each transaction updates it by its own rows alone. It guards
against damage and careless edits; whoever forges a file on purpose can forge its digests as well.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections import Counter
from typing import Any

_OF_ITEMS = ("rates", "items", "inputs", "attributions", "mean_curves", "answers")
TABLES = (*_OF_ITEMS, "skips", "failures", "listing", "meta", "sessions")
"""All tables of a file of results but that of the digests; a change is named after the first."""

_MODULUS = 2**256


class Sealing:
    """Counts the rows that one connection writes or deletes, until ``keep`` adds them to the digests in the file."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._changes: Counter[str] = Counter()
        connection.create_function("seal", -1, self._count)
        # Without it, rows that "INSERT OR REPLACE" deletes are not told to triggers.
        connection.execute("PRAGMA recursive_triggers = ON")
        for table in TABLES:
            columns = [name for (name,) in connection.execute("SELECT name FROM pragma_table_info(?)", (table,))]
            for statement in _triggers(table, columns):
                connection.execute(statement)

    def _count(self, table: str, sign: int, *row: Any) -> None:
        # SQLite stores no negative zero.
        self._changes[table] += sign * _hash(tuple(value + 0.0 if isinstance(value, float) else value for value in row))

    def begin(self) -> None:
        """Forget what a transaction that failed had counted."""
        self._changes.clear()

    def keep(self) -> None:
        """Bring the digests up to date, in the transaction that changed the rows."""
        for table, change in self._changes.items():
            (digest,) = self._connection.execute("SELECT digest FROM seals WHERE name = ?", (table,)).fetchone()
            _put(self._connection, table, int(digest, 16) + change)


def _triggers(table: str, columns: list[str]) -> list[str]:
    """Statements that let this connection alone tell ``seal`` of every row it inserts, deletes or updates."""
    old, new = (
        f"SELECT seal('{table}', {sign}, {', '.join(f'{row}.{name}' for name in columns)});"
        for sign, row in ((-1, "OLD"), (1, "NEW"))
    )
    return [
        f"CREATE TEMP TRIGGER seal_{table}_{event} AFTER {event} ON {table} BEGIN {body} END"
        for event, body in (("INSERT", new), ("DELETE", old), ("UPDATE", old + new))
    ]


def seal_all(connection: sqlite3.Connection) -> None:
    """Compute every digest from the rows that are there."""
    for table in TABLES:
        _put(connection, table, _sum(connection, table))


def broken_seals(connection: sqlite3.Connection) -> list[str]:
    """The tables whose rows are not those that were written."""
    stored = dict(connection.execute("SELECT name, digest FROM seals"))
    changed = [table for table in TABLES if stored.get(table) != _in_hex(_sum(connection, table))]
    return changed + sorted(stored.keys() - set(TABLES))


def _sum(connection: sqlite3.Connection, table: str) -> int:
    statement = f"SELECT * FROM {table}"
    return sum(map(_hash, connection.execute(statement)))


def _hash(row: tuple[Any, ...]) -> int:
    """A number that any change of the row changes."""
    return int.from_bytes(hashlib.sha256(repr(row).encode()).digest())


def _put(connection: sqlite3.Connection, table: str, total: int) -> None:
    connection.execute("INSERT OR REPLACE INTO seals VALUES (?, ?)", (table, _in_hex(total)))


def _in_hex(total: int) -> str:
    return f"{total % _MODULUS:064x}"
