"""A SQLite file → a store of this version: made, recognised, upgraded, or refused with its content untouched.

The file holds a digest of each of its tables, so that what was changed, lost or added is noticed. A digest is the sum
of the hashes of all rows, and each transaction updates it by its own rows alone. It guards against damage and careless
edits; whoever forges a file on purpose can forge its digests as well.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

from holdfast.errors import StoreError

APPLICATION_ID = 0x484F4C44  # "HOLD", in the header of the file
_MAGIC = b"SQLite format 3\x00"

UPGRADES: list[tuple[str, ...]] = [
    (
        "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
        """CREATE TABLE sessions (
            session INTEGER PRIMARY KEY, started REAL NOT NULL, ended REAL, settings TEXT NOT NULL,
            versions TEXT NOT NULL
        )""",
        """CREATE TABLE inputs (
            input INTEGER PRIMARY KEY, name TEXT, label INTEGER, prediction TEXT NOT NULL, n_features INTEGER NOT NULL,
            model_fingerprint TEXT, input_fingerprint TEXT
        )""",
        """CREATE TABLE attributions (
            input INTEGER NOT NULL REFERENCES inputs, method TEXT NOT NULL, content BLOB NOT NULL,
            n_calls INTEGER NOT NULL, seconds REAL NOT NULL, PRIMARY KEY (input, method)
        ) WITHOUT ROWID""",
        """CREATE TABLE items (
            item INTEGER PRIMARY KEY, input INTEGER NOT NULL, method TEXT NOT NULL, top_fraction REAL NOT NULL,
            keep_probability REAL NOT NULL, selected BLOB NOT NULL, n_selected INTEGER NOT NULL,
            prediction TEXT NOT NULL, consistent INTEGER NOT NULL, curve BLOB NOT NULL, mus BLOB NOT NULL, witness BLOB,
            n_calls INTEGER NOT NULL, n_computed INTEGER NOT NULL, seconds REAL NOT NULL, digest TEXT NOT NULL,
            session INTEGER NOT NULL REFERENCES sessions,
            UNIQUE (input, method, top_fraction, keep_probability),
            FOREIGN KEY (input, method) REFERENCES attributions
        )""",
        """CREATE TABLE rates (
            item INTEGER NOT NULL REFERENCES items, radius INTEGER NOT NULL, effective_radius INTEGER NOT NULL,
            rate REAL NOT NULL, rate_unbiased REAL, low REAL NOT NULL, high REAL NOT NULL, n_agreed INTEGER NOT NULL,
            n_evaluated INTEGER NOT NULL, exact INTEGER NOT NULL, PRIMARY KEY (item, radius)
        ) WITHOUT ROWID""",
        "CREATE TABLE skips (input INTEGER PRIMARY KEY, reason TEXT NOT NULL, session INTEGER NOT NULL)",
        """CREATE TABLE failures (
            input INTEGER PRIMARY KEY, reason TEXT NOT NULL, n_tries INTEGER NOT NULL, items TEXT NOT NULL,
            session INTEGER NOT NULL
        )""",
        """CREATE TABLE answers (
            scope TEXT NOT NULL, question TEXT NOT NULL, content TEXT NOT NULL, PRIMARY KEY (scope, question)
        ) WITHOUT ROWID""",
        """CREATE TABLE mean_curves (
            method TEXT NOT NULL, top_fraction REAL NOT NULL, keep_probability REAL NOT NULL, content TEXT NOT NULL,
            inputs TEXT NOT NULL, session INTEGER NOT NULL REFERENCES sessions,
            PRIMARY KEY (method, top_fraction, keep_probability)
        ) WITHOUT ROWID""",
    ),
    ("CREATE TABLE listing (input INTEGER PRIMARY KEY, name TEXT, digest TEXT)",),
    ("CREATE TABLE seals (name TEXT PRIMARY KEY, digest TEXT NOT NULL) WITHOUT ROWID",),
    (
        # A method may fail by itself.
        """CREATE TABLE failures_by_method (
            input INTEGER NOT NULL, method TEXT NOT NULL, reason TEXT NOT NULL, n_tries INTEGER NOT NULL,
            items TEXT NOT NULL, session INTEGER NOT NULL, PRIMARY KEY (input, method)
        ) WITHOUT ROWID""",
        "INSERT INTO failures_by_method SELECT input, '', reason, n_tries, items, session FROM failures",
        "DROP TABLE failures",
        "ALTER TABLE failures_by_method RENAME TO failures",
        # Labels may be numbers: a column without a type keeps whole ones, and floats that are whole, as they come.
        "ALTER TABLE inputs RENAME COLUMN label TO class_number",
        "ALTER TABLE inputs ADD COLUMN label",
        "UPDATE inputs SET label = class_number",
        "ALTER TABLE inputs DROP COLUMN class_number",
    ),
]
"""Statements that lead from version k to k + 1, the first from nothing. Once released, only ever added to."""

_OLDEST = 3  # the first version whose files hold digests of their tables

_OF_ITEMS = ("rates", "items", "inputs", "attributions", "mean_curves", "answers")
TABLES = (*_OF_ITEMS, "skips", "failures", "listing", "meta", "sessions")
"""All tables of a file of results but that of the digests; a change is named after the first."""


def check_store(path: Path) -> bool:
    """Whether there is a store at this path; anything else there is refused, and left as it is."""
    if not path.exists() or path.stat().st_size == 0:
        return False
    none = f"{str(path)!r} is not a file of results"
    with path.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise StoreError(f"{none}: it is not a SQLite database. It was not changed.")
    with wrapping_errors(path), closing(_connect(path, "ro" if _has_log(path) else "ro&immutable=1")) as connection:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (n_tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if n_tables == 0 and application in (0, APPLICATION_ID):
        # A process that was killed while it made the file leaves an empty database.
        return False
    if application != APPLICATION_ID:
        raise StoreError(f"{none}: it is another SQLite database. It was not changed.")
    if version > len(UPGRADES):
        raise StoreError(
            f"{str(path)!r} has version {version}, written by a newer holdfast; this one reads up to {len(UPGRADES)}. "
            "Upgrade holdfast. The file was not changed."
        )
    if version < _OLDEST:
        raise StoreError(
            f"{str(path)!r} has version {version}, without the digests that show whether results were changed. "
            "Run the study again, into a new file. This one was not changed."
        )
    return True


def connect_reading(path: Path) -> sqlite3.Connection:
    """A connection that does not write; it works beside a writer, and in folders that cannot be written to.

    A store of an older version is left as it is, and read as a copy of this version in memory.
    """
    connection = _connect_reading(path)
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == len(UPGRADES):
        return connection
    with closing(connection):
        check_sound(connection, path)
        if tables := broken_seals(connection):
            raise _damaged(path, f"the table {tables[0]!r} is not as it was stored")
        copy = sqlite3.connect(":memory:", isolation_level=None)
        connection.backup(copy)
    _upgrade(copy, version)
    return copy


def _upgrade(connection: sqlite3.Connection, version: int) -> None:
    """Bring a store of this version, or an empty file, to the newest: all steps or none."""
    with transaction(connection):
        for statement in chain(*UPGRADES[version:]):
            connection.execute(statement)
        seal_all(connection)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {len(UPGRADES)}")


def _connect_reading(path: Path) -> sqlite3.Connection:
    connection = _connect(path, "rw")
    try:
        # Allowed to write, it would tidy up its index of the log when it closes; no statement of ours can.
        connection.execute("PRAGMA query_only = ON")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        connection.close()
        if _has_log(path):
            raise
        # Without a log nothing is pending, and SQLite need not write beside the file.
        connection = _connect(path, "ro&immutable=1")
    return connection


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode={mode}", uri=True, isolation_level=None)


def _has_log(path: Path) -> bool:
    real = path.resolve()
    return real.with_name(real.name + "-wal").exists()


def connect_writing(path: Path) -> sqlite3.Connection:
    """A connection to a store that is locked and checked, made or upgraded if need be: all steps or none."""
    with wrapping_errors(path):
        connection = sqlite3.connect(path.resolve(), isolation_level=None)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA foreign_keys = ON")
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version < len(UPGRADES):
                _upgrade(connection, version)
        except BaseException:
            connection.close()
            raise
    return connection


def check_sound(connection: sqlite3.Connection, path: Path) -> None:
    """Raise unless every page and index of a store is whole, and its tables are those of its version."""
    (answer,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    with closing(sqlite3.connect(":memory:")) as fresh:
        for statement in chain(*UPGRADES[:version]):
            fresh.execute(statement)
        # Everything that is defined, such as tables and triggers; indexes that SQLite adds by itself aside.
        defined = "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE sql IS NOT NULL"
        if answer == "ok" and set(connection.execute(defined)) != set(fresh.execute(defined)):
            answer = "its tables differ from those of a file of results"
    if answer != "ok":
        raise _damaged(path, answer)


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Everything inside is written, or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # SQLite has already rolled back where it could not go on, as on a full disk.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def wrapping_errors(path: Path) -> Iterator[None]:
    """What SQLite cannot do, in words that name the file and say what became of it."""
    try:
        yield
    except sqlite3.IntegrityError:
        raise
    except sqlite3.OperationalError as error:
        if "decode to UTF-8" in str(error):  # Python's sqlite3 gives this error no code to tell it by
            raise _damaged(path, error) from error
        raise StoreError(
            f"{str(path)!r} cannot be read or written: {error}. Check free space and permissions. "
            "Stored items are intact; the same call continues from there."
        ) from error
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # what SQLite says may quote what it cannot read
        raise _damaged(path, error) from error


def _damaged(path: Path, reason: object) -> StoreError:
    return StoreError(f"{str(path)!r} is damaged or cut off ({reason}). It was not changed; continue from a backup.")


_PUT = "INSERT OR REPLACE INTO seals VALUES (?, ?)"


class Sealing:
    """Counts the rows that one connection writes or deletes, and adds them to the digests in the file."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._changes: Counter[str] = Counter()
        connection.create_function("seal", -1, self._count)
        # Without it, rows that "INSERT OR REPLACE" deletes are not told to triggers.
        connection.execute("PRAGMA recursive_triggers = ON")
        # For this connection alone, each row that is inserted, deleted or updated.
        for table in TABLES:
            columns = [name for (name,) in connection.execute("SELECT name FROM pragma_table_info(?)", (table,))]
            old, new = (
                f"SELECT seal('{table}', {sign}, {', '.join(f'{row}.{name}' for name in columns)});"
                for sign, row in ((-1, "OLD"), (1, "NEW"))
            )
            for event, body in (("INSERT", new), ("DELETE", old), ("UPDATE", old + new)):
                statement = f"CREATE TEMP TRIGGER seal_{table}_{event} AFTER {event} ON {table} BEGIN {body} END"
                connection.execute(statement)

    def _count(self, table: str, sign: int, *row: Any) -> None:
        # SQLite stores no negative zero.
        self._changes[table] += sign * _hash(tuple(value + 0.0 if isinstance(value, float) else value for value in row))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A transaction that brings the digests up to date with the rows that it changes."""
        self._changes.clear()  # what one that failed had counted
        with transaction(self._connection):
            yield
            for table, change in self._changes.items():
                (digest,) = self._connection.execute("SELECT digest FROM seals WHERE name = ?", (table,)).fetchone()
                self._connection.execute(_PUT, (table, _digest(int(digest, 16) + change)))


def seal_all(connection: sqlite3.Connection) -> None:
    """Compute every digest from the rows that are there."""
    connection.executemany(_PUT, [(table, _digest_of(connection, table)) for table in TABLES])


def broken_seals(connection: sqlite3.Connection) -> list[str]:
    """The tables whose rows are not those that were written."""
    stored = dict(connection.execute("SELECT name, digest FROM seals"))
    changed = [table for table in TABLES if stored.get(table) != _digest_of(connection, table)]
    return changed + sorted(stored.keys() - set(TABLES))


def _digest_of(connection: sqlite3.Connection, table: str) -> str:
    statement = f"SELECT * FROM {table}"
    return _digest(sum(map(_hash, connection.execute(statement))))


def _hash(row: tuple[Any, ...]) -> int:
    """A number that any change of the row changes."""
    return int.from_bytes(hashlib.sha256(repr(row).encode()).digest())


def _digest(total: int) -> str:
    return f"{total % 2**256:064x}"
