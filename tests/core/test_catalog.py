"""The shipped designs, proven again twice; and the cache of those searched on demand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from importlib import resources
from pathlib import Path

import pytest

from holdfast.plans import Design, catalog
from holdfast.plans.catalog import cache_folder, find_design, shipped_designs, shipped_goals
from holdfast.plans.proof import bound_miss_probability
from holdfast.plans.search import Goal, search_fixed, search_sequential
from tests.helpers.stopping_oracle import SecondProof, paths_of, worst_fixed_rate

F = Fraction

LEVELS = [F(1, 50), F(1, 20), F(1, 10), F(1, 5)]
KEYS = {f"{plan} {eps} {risk}" for plan in ("exact", "sequential") for eps in LEVELS for risk in LEVELS}


def read_shipped() -> dict[str, Design]:
    """The file itself, read without the library."""
    text = resources.files("holdfast.plans").joinpath("designs.json").read_text(encoding="utf-8")
    return {key: Design(tuple(one["looks"]), tuple(one["limits"])) for key, one in json.loads(text).items()}


SHIPPED = read_shipped()


def goal_of(key: str) -> Goal:
    _, tolerance, risk = key.split()
    return Goal(F(tolerance), F(risk))


EXACT = sorted(key for key in SHIPPED if key.startswith("exact"))
SEQUENTIAL = sorted(key for key in SHIPPED if key.startswith("sequential"))


# -- what ships ---------------------------------------------------------------------------------------


def test_every_promised_design_ships() -> None:
    assert len(KEYS) == 32
    assert sorted(KEYS - SHIPPED.keys()) == []


def test_the_library_reads_what_ships() -> None:
    assert shipped_designs() == SHIPPED


@pytest.mark.parametrize("key", sorted(SHIPPED))
def test_a_shipped_design_is_proven(key: str) -> None:
    goal = goal_of(key)
    proven = bound_miss_probability(SHIPPED[key], goal.tolerance, target=float(goal.risk))
    assert proven.bound <= goal.risk


def has_second_proof(key: str) -> bool:
    goal = goal_of(key)
    return SecondProof(paths_of(SHIPPED[key]), goal.tolerance).holds(goal.risk)


@pytest.mark.parametrize("key", [key for key in sorted(SHIPPED) if goal_of(key).tolerance > F(1, 20)])
def test_a_shipped_design_is_proven_by_exact_path_counts_and_another_argument(key: str) -> None:
    assert has_second_proof(key)  # those of smaller tolerances in tests/house


@pytest.mark.parametrize("key", EXACT)
def test_every_size_smaller_than_a_shipped_fixed_one_fails(key: str) -> None:
    goal, fixed = goal_of(key), SHIPPED[key]
    assert fixed.looks == (fixed.max_draws,)
    survivors = [n for n in range(1, fixed.max_draws) if not is_refuted(n, goal)]
    assert survivors == []


def is_refuted(n_draws: int, goal: Goal) -> bool:
    """Whether n_draws draws miss too often: near one half, where most fail, or else anywhere."""
    needed = float(goal.risk) + 1e-9
    near_half = 0.5 - 2.0 / n_draws
    return any(worst_fixed_rate(n_draws, goal.tolerance, near=near)[1] > needed for near in (near_half, 0.0))


@pytest.mark.parametrize("key", SEQUENTIAL)
def test_a_shipped_sequential_design_is_cheaper_than_the_fixed_size_where_rates_are_high(key: str) -> None:
    design, fixed = SHIPPED[key], SHIPPED[key.replace("sequential", "exact")]
    assert goal_of(key).first_possible_stop <= design.looks[0]
    assert design.expected_draws(1.0) <= design.expected_draws(0.98) <= design.expected_draws(0.9) <= fixed.max_draws
    assert design.expected_draws(1.0) < fixed.max_draws or fixed.max_draws < 15
    assert max(design.expected_draws(rate) for rate in (0.8, 0.7, 0.6, 0.5)) <= 1.15 * fixed.max_draws


def test_a_shipped_design_is_found_without_touching_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path))
    for key in sorted(KEYS & SHIPPED.keys()):
        assert find_design(key.split()[0], goal_of(key)) == SHIPPED[key]
    assert list(tmp_path.iterdir()) == []


# -- what is searched ---------------------------------------------------------------------------------

UNSHIPPED = Goal(F(2, 5), F(1, 7))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder."""
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path))
    return tmp_path


def files_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_a_goal_that_does_not_ship_is_searched_proven_and_kept(folder: Path) -> None:
    goal = Goal(F(3, 20), F(3, 20))
    found = find_design("sequential", goal)
    assert bound_miss_probability(found, goal.tolerance, target=float(goal.risk)).bound <= goal.risk
    assert found == search_sequential(goal)
    (file,) = files_in(folder)
    before = (file.stat().st_ino, file.stat().st_mtime_ns, file.read_bytes())
    assert find_design("sequential", goal) == found
    # A second search would have replaced the file.
    assert (file.stat().st_ino, file.stat().st_mtime_ns, file.read_bytes()) == before


def test_plans_and_goals_are_kept_apart(folder: Path) -> None:
    goals = [UNSHIPPED, Goal(F(2, 5), F(1, 8)), Goal(F(1, 7), F(2, 5))]
    found = [find_design("exact", goal) for goal in goals]
    found.append(find_design("sequential", UNSHIPPED))
    assert len(files_in(folder)) == 4
    assert [find_design("exact", goal) for goal in goals] == found[:3] == [search_fixed(goal) for goal in goals]
    assert find_design("sequential", UNSHIPPED) == found[3]


def truncated(content: bytes) -> bytes:
    return content[: len(content) // 2]


def with_another_limit(content: bytes) -> bytes:
    stored = json.loads(content)
    stored["design"]["looks"] = [n + 1 for n in stored["design"]["looks"]]
    stored["design"]["limits"] = [n + 1 for n in stored["design"]["limits"]]
    return json.dumps(stored).encode()


def with_a_float(content: bytes) -> bytes:
    stored = json.loads(content)
    stored["design"]["looks"] = [float(n) for n in stored["design"]["looks"]]
    return json.dumps(stored).encode()


def without_a_digest(content: bytes) -> bytes:
    stored = json.loads(content)
    del stored["digest"]
    return json.dumps(stored).encode()


DAMAGES: list[Callable[[bytes], bytes]] = [
    truncated,
    with_another_limit,
    with_a_float,
    without_a_digest,
    lambda content: b"",
    lambda content: b"\xff\xfe\x00garbage",
    lambda content: b"[1, 2, 3]",
    lambda content: b"null",
    lambda content: b'{"digest": 0, "design": 0}',
    lambda content: content.replace(b"digest", b"design"),
]


@pytest.mark.parametrize("damage", DAMAGES, ids=range(len(DAMAGES)))
def test_a_damaged_file_is_searched_again_and_repaired(folder: Path, damage: Callable[[bytes], bytes]) -> None:
    found = find_design("exact", UNSHIPPED)
    (file,) = files_in(folder)
    content = file.read_bytes()
    file.write_bytes(damage(content))
    assert file.read_bytes() != content
    assert find_design("exact", UNSHIPPED) == found
    assert [path.read_bytes() for path in files_in(folder)] == [content]


def test_a_file_of_another_goal_is_not_believed(folder: Path) -> None:
    easy, hard = Goal(F(2, 5), F(3, 7)), UNSHIPPED
    found = find_design("exact", hard)
    (hard_file,) = files_in(folder)
    find_design("exact", easy)
    (easy_file,) = set(files_in(folder)) - {hard_file}
    hard_file.write_bytes(easy_file.read_bytes())
    assert find_design("exact", hard) == found != find_design("exact", easy)


def test_a_folder_that_cannot_be_written_only_costs_the_next_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a file").write_text("in the way")
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "a file" / "cache"))
    assert find_design("exact", UNSHIPPED) == search_fixed(UNSHIPPED) == find_design("exact", UNSHIPPED)
    assert files_in(tmp_path) == [tmp_path / "a file"]


def test_nothing_is_left_behind_when_the_file_cannot_be_put_in_place(folder: Path) -> None:
    find_design("exact", UNSHIPPED)
    (file,) = files_in(folder)
    file.unlink()
    (file / "in the way").mkdir(parents=True)
    assert find_design("exact", UNSHIPPED) == search_fixed(UNSHIPPED)
    assert files_in(folder) == []


def test_the_cache_is_where_the_user_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "here"))
    assert cache_folder() == tmp_path / "here"
    monkeypatch.delenv("HOLDFAST_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "holdfast"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_folder() == tmp_path / "home" / ".cache" / "holdfast"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become nobody's user")
def test_a_user_without_a_home_can_search() -> None:
    # What may live in folders that only root can read is read first.
    code = (
        "import os, scipy.special\n"
        "from fractions import Fraction as F\n"
        "from holdfast.plans.catalog import find_design, shipped_designs\n"
        "from holdfast.plans.search import Goal\n"
        "shipped_designs()\n"
        "os.setgid(54321); os.setuid(54321)\n"
        "print(find_design('exact', Goal(F(2, 5), F(1, 7))).max_draws)\n"
    )
    homes = ("HOME", "HOLDFAST_CACHE", "XDG_CACHE_HOME")
    kept = {name: value for name, value in os.environ.items() if name not in homes}
    done = subprocess.run([sys.executable, "-c", code], env=kept, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == search_fixed(UNSHIPPED).max_draws


# -- how the shipped ones are searched ----------------------------------------------------------------


def test_what_ships_is_what_is_searched_for_shipping() -> None:
    goals = [goal for goal, _ in shipped_goals()]
    assert len(set(goals)) == len(goals)
    assert {f"{plan} {one.tolerance} {one.risk}" for one in goals for plan in ("exact", "sequential")} == set(SHIPPED)


def test_a_search_for_shipping_keeps_what_the_file_holds_and_adds_what_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, other = tmp_path / "designs.json", Goal(F(2, 5), F(1, 5))
    monkeypatch.setattr(catalog, "shipped_goals", lambda: iter([(UNSHIPPED, 0.1)]))
    catalog._search_shipped(file)
    first = json.loads(file.read_text(encoding="utf-8"))
    monkeypatch.setattr(catalog, "shipped_goals", lambda: iter([(UNSHIPPED, 1.0), (other, 0.1)]))
    catalog._search_shipped(file)
    found = json.loads(file.read_text(encoding="utf-8"))
    assert list(found) == sorted(
        f"{plan} {one.tolerance} {one.risk}" for plan in ("exact", "sequential") for one in (UNSHIPPED, other)
    )
    assert first.items() < found.items()
    for key, entry in found.items():
        assert goal_of(key).is_proven_for(Design(tuple(entry["looks"]), tuple(entry["limits"])))
    assert capsys.readouterr().err.count("\n") == 2
