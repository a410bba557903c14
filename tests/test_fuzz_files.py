"""Every kind of file that is read, spoilt in every way: it is read or refused in holdfast's words, and left alone."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import StoreError
from holdfast.plans.catalog import find_design
from holdfast.study import Store, study_status
from tests.fuzz_files import FORMATS, RESULTS, Format, spoil, store_bytes
from tests.fuzzing import settle
from tests.test_fuzz_functions import CASES, MANY, READ_FROM_JSON

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
    import sqlite3

    path = tmp_path / "study.db"
    path.write_bytes(store_bytes())
    connection = sqlite3.connect(path)
    connection.execute("UPDATE items SET curve = X'00FF'")
    connection.commit()
    connection.close()
    with pytest.raises(StoreError, match=r"the item 0/lime/0\.25/0\.75 is not as it was stored"):
        Store(path)


def design_files(folder: Path) -> list[Path]:
    return list(folder.rglob("*.json"))


@pytest.mark.parametrize("seed", range(12))
def test_a_cached_design_that_was_spoilt_is_searched_anew(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import holdfast as hf

    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path))
    asked: dict[str, Any] = {"tolerance": 0.41, "confidence": 0.7, "plan": "exact"}
    find_design.cache_clear()
    right = hf.plan_samples(**asked)
    (file,) = design_files(tmp_path)
    file.write_bytes(spoil(file.read_bytes(), seed))
    find_design.cache_clear()
    assert settle(lambda: None) == "answered"
    assert hf.plan_samples(**asked) == right
