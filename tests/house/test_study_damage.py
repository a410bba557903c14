"""Files of results that were damaged or edited: every command refuses them, or shows exactly what was stored."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import HoldfastError, StoreError
from holdfast.report.page import write_report
from holdfast.study.export import export_study
from holdfast.study.guarantee import study_guarantee
from holdfast.study.merge import merge_studies
from holdfast.study.records import GivenUp
from holdfast.study.schema import TABLES
from holdfast.study.session import run_study
from holdfast.study.spec import CertifySpec, DataSpec, MethodSpec, SmoothingSpec, StudySpec
from holdfast.study.status import study_status
from holdfast.study.store import Store, StoreWriter
from holdfast.study.summary import summarize_study
from tests.helpers.study_support import make_spec, write_texts

NAME = "study.db"
"""Of every file, so that what is shown depends on nothing else than its content."""


@dataclass(frozen=True)
class Study:
    """A study, its file as it was written, and what commands show of it."""

    spec: StudySpec
    content: bytes
    shown: dict[str, Any]


# -- what is shown ----------------------------------------------------------------------------------


def exported(kind: str) -> bytes:
    export_study(NAME, f"table.{kind}")
    return Path(f"table.{kind}").read_bytes()


def reported() -> bytes:
    write_report(NAME, "page.html", n_gallery=1, use_model=False)
    return Path("page.html").read_bytes()


def stored(path: str = NAME) -> list[Any]:
    with Store(path) as store:
        return [store.digests(), [one.to_json() for one in store.results()], list(store.rows()), store.mean_curves()]


def merged() -> Any:
    merge_studies([NAME], "merged.db")
    return stored("merged.db")


def rerun(spec: StudySpec) -> Any:
    done = run_study(spec, NAME)
    assert done.n_new == 0
    return stored()


def commands(spec: StudySpec) -> dict[str, Callable[[], Any]]:
    """All that reads a file of results; the last one writes it."""
    per_input: dict[str, Callable[[], Any]] = {
        "summary": lambda: summarize_study(NAME, n_resamples=5).to_json(),
        "guarantee": lambda: study_guarantee(NAME, method="occlusion", radius=1, min_rate=0.5, stored=True).to_json(),
    }
    return {
        "status": lambda: study_status(NAME).plain(),
        **(per_input if spec.certify.precision == "per-input" else {}),
        **{kind: lambda kind=kind: exported(kind) for kind in ("csv", "json", "parquet")},
        "report": reported,
        "merge": merged,
        "run": lambda: rerun(spec),
    }


# -- the studies ------------------------------------------------------------------------------------


def write_study(folder: Path, certify: CertifySpec) -> Study:
    """Two inputs with items, one that is left out and one that was given up."""
    texts = write_texts(folder / "texts", 4, n_words=6)
    lines = (texts / "test_text.txt").read_text().splitlines()
    (texts / "test_text.txt").write_text("\n".join([*lines[:2], "", lines[3]]) + "\n")
    spec = make_spec(
        texts,
        methods=(MethodSpec("occlusion"),),
        top_fractions=(0.5,),
        smoothing=SmoothingSpec((1.0,)),
        data=DataSpec(f"tweeteval:{texts}", skip_unreadable=True, n=3),
        certify=certify,
    )
    assert run_study(spec, NAME).status.complete
    with StoreWriter(NAME, spec, settings={}, versions={}) as store:
        store.give_up(GivenUp(3, "", "it died", 3, ("3/occlusion/0.5/1.0",)))
    content = Path(NAME).read_bytes()
    study = Study(spec, content, {name: show() for name, show in commands(spec).items()})
    assert all(show() == study.shown[name] for name, show in fresh(study, folder / "again"))
    return study


def fresh(study: Study, folder: Path, content: bytes | None = None) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Every command, in a new folder that holds the file, damaged or not."""
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        Path(NAME).write_bytes(study.content if content is None else content)
        yield from commands(study.spec).items()


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> Study:
    folder = tmp_path_factory.mktemp("certified")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return write_study(folder, CertifySpec(radii=(1, 2)))


@pytest.fixture(scope="module")
def averaged(tmp_path_factory: pytest.TempPathFactory) -> Study:
    folder = tmp_path_factory.mktemp("averaged")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return write_study(folder, CertifySpec(radii=(1, 2), precision="data-set", half_width=0.3))


# -- damage -----------------------------------------------------------------------------------------


def flipped(content: bytes, luck: random.Random) -> bytes:
    """Other bytes anywhere, a page of zeros, two pages in each other's place, or the end cut off."""
    page, pages = 4096, len(content) // 4096
    changed = bytearray(content)
    way = luck.choice(["bytes", "bytes", "bytes", "header", "zeros", "pages", "cut", "cut at a page"])
    if way in ("bytes", "header"):
        for _ in range(luck.choice([1, 1, 2, 8])):
            changed[luck.randrange(100 if way == "header" else len(changed))] ^= 1 << luck.randrange(8)
    elif way == "zeros":
        at = page * luck.randrange(pages)
        changed[at : at + page] = bytes(page)
    elif way == "pages":
        one, two = (page * number for number in luck.sample(range(pages), 2))
        changed[one : one + page], changed[two : two + page] = content[two : two + page], content[one : one + page]
    elif way == "cut":
        return content[: luck.randrange(1, len(content))]
    else:
        return content[: page * luck.randrange(1, pages)]
    return bytes(changed)


def columns_of(content: bytes) -> list[tuple[str, str]]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.deserialize(as_rollback(content))
        statement = "SELECT name FROM pragma_table_info(?)"
        return [
            (table, name)
            for table in (*TABLES, "seals")
            for (name,) in connection.execute(statement, (table,)).fetchall()
        ]


def as_rollback(content: bytes) -> bytes:
    """The same file as a database without a write-ahead log, which memory cannot have."""
    return content[:18] + b"\x01\x01" + content[20:]


def edited(content: bytes, *statements: str) -> bytes:
    """What is left of a file after some SQL; constraints are no obstacle."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.deserialize(as_rollback(content))
        connection.execute("PRAGMA ignore_check_constraints = ON")
        for statement in statements:
            connection.execute(statement)
        changed = bytes(connection.serialize())
    return changed[:18] + b"\x02\x02" + changed[20:]


OTHER = """CASE typeof({name}) WHEN 'integer' THEN {name} + 1000 WHEN 'real' THEN {name} + 0.125
WHEN 'text' THEN {name} || 'x' WHEN 'blob' THEN zeroblob(length({name})) ELSE 'x' END"""
"""Another value of the same type."""


def edits(content: bytes) -> dict[str, tuple[str, ...]]:
    """Every column of every table changed in one row; rows deleted, duplicated and swapped; tables lost."""
    found: dict[str, tuple[str, ...]] = {}
    names: dict[str, list[str]] = {}
    for table, name in columns_of(content):
        names.setdefault(table, []).append(name)
        key = names[table][0]
        where = f"{key} = (SELECT max({key}) FROM {table})"
        found[f"{table}.{name} changed"] = (
            f"UPDATE OR REPLACE {table} SET {name} = {OTHER.format(name=name)} WHERE {where}",
        )
        others = f"SELECT other.{name} FROM {table} other WHERE other.{key} != {table}.{key}"
        found[f"{table}.{name} swapped"] = (f"UPDATE OR REPLACE {table} SET {name} = coalesce(({others}), {name})",)
    for table, own in names.items():
        found[f"{table} emptied"] = (f"DELETE FROM {table}",)
        found[f"{table} without a row"] = (f"DELETE FROM {table} WHERE {own[0]} = (SELECT min({own[0]}) FROM {table})",)
        doubled = ", ".join([OTHER.format(name=own[0]), *own[1:]])
        found[f"{table} with a row twice"] = (f"INSERT OR IGNORE INTO {table} SELECT {doubled} FROM {table} LIMIT 1",)
        found[f"{table} lost"] = (f"DROP TABLE {table}",)
        found[f"{table} without keys"] = (
            f"CREATE TABLE copy AS SELECT * FROM {table} UNION ALL SELECT * FROM {table}",
            f"DROP TABLE {table}",
            f"ALTER TABLE copy RENAME TO {table}",
        )
    return found


def survive(study: Study, content: bytes, folder: Path, name: str) -> int:
    """Every command refuses with a sentence, or shows the truth; returns how many refused."""
    n_refused = 0
    for command, show in fresh(study, folder, content):
        try:
            shown = show()
        except HoldfastError:
            n_refused += 1
            assert Path(NAME).read_bytes() == content, (name, command)
        else:
            assert shown == study.shown[command], (name, command)
    return n_refused


def survive_edits(study: Study, folder: Path, tables: tuple[str, ...]) -> int:
    n_edits = 0
    for name, statements in edits(study.content).items():
        content = edited(study.content, *statements)
        if name.startswith(tables) and content != edited(study.content):
            n_refused = survive(study, content, folder / name, name)
            assert n_refused in (0, len(study.shown)), name
            n_edits += n_refused > 0
    return n_edits


def test_the_same_bytes_without_damage_show_the_same(certified: Study, tmp_path: Path) -> None:
    assert survive(certified, certified.content, tmp_path / "same", "same") == 0
    assert survive(certified, edited(certified.content), tmp_path / "serialized", "serialized") == 0


def test_forged_rates_are_shown_by_no_command(certified: Study, tmp_path: Path) -> None:
    content = edited(certified.content, "UPDATE rates SET rate = 0")
    assert survive(certified, content, tmp_path / "forged", "forged") == len(certified.shown)
    with pytest.raises(
        StoreError, match=r"forged.*study\.db' was changed.*: the item 0/occlusion/0.5/1.0 differs from what was"
    ):
        study_status(tmp_path / "forged" / NAME)


def test_edits_of_every_column_of_every_table_are_refused_by_every_command(certified: Study, tmp_path: Path) -> None:
    assert survive_edits(certified, tmp_path, TABLES) > 100


def test_edits_of_means_and_of_digests_are_refused_by_every_command(averaged: Study, tmp_path: Path) -> None:
    assert survive_edits(averaged, tmp_path, ("answers", "mean_curves", "seals")) > 20


def survive_accidents(study: Study, folder: Path, seeds: range) -> int:
    return sum(
        survive(study, flipped(study.content, random.Random(seed)), folder / str(seed), f"seed {seed}") > 0
        for seed in seeds
    )


def test_flipped_bytes_and_lost_pages_are_refused_or_change_nothing(certified: Study, tmp_path: Path) -> None:
    assert survive_accidents(certified, tmp_path, range(60)) >= 30


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 3000, 200))
def test_many_accidents_are_refused_or_change_nothing(
    certified: Study, averaged: Study, tmp_path: Path, first: int
) -> None:
    for name, study in (("certified", certified), ("averaged", averaged)):
        (tmp_path / name).mkdir()
        assert survive_accidents(study, tmp_path / name, range(first, first + 200)) >= 50
