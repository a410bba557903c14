"""Goal → design, without searching twice: shipped with the package, cached on disk, or searched now."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict
from fractions import Fraction
from functools import lru_cache
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Any

from holdfast.plans.design import Design
from holdfast.plans.search import Goal, search_fixed, search_sequential
from holdfast.terminal import tell_search

SHIPPED_TOLERANCES = SHIPPED_RISKS = tuple(Fraction(x) for x in ("1/50", "1/20", "1/10", "1/5"))
SEARCHES: dict[str, Callable[[Goal], Design]] = {"exact": search_fixed, "sequential": search_sequential}

DIVISORS = (2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100)
"""Risks are shared among this many rates or more: few designs then serve every number of rates."""

_FORMAT = 1
_SHIPPED_EFFORT, _DIVIDED_EFFORT = 30.0, 4.0


def find_design(plan: str, goal: Goal) -> Design:
    """The design of plan ``"exact"`` or ``"sequential"`` for a goal."""
    key = _key(plan, goal)
    if key in shipped_designs():
        return shipped_designs()[key]
    file, cached = f"{key.replace('/', '_').replace(' ', '-')}.json", None
    # A file that is not exactly what was written is as good as none.
    with suppress(OSError, RuntimeError, ValueError, KeyError, TypeError):
        stored = json.loads((cache_folder() / "designs" / file).read_text(encoding="utf-8"))
        cached = _from_entry(stored["design"]) if stored["digest"] == _digest(key, stored["design"]) else None
    if cached is not None and goal.is_proven_for(cached):
        return cached
    design = SEARCHES[plan](goal)
    tell_search(1, 1)
    stored = {"digest": _digest(key, asdict(design)), "design": asdict(design)}
    with suppress(OSError, RuntimeError):  # a folder that cannot be written only costs the next search
        folder = cache_folder() / "designs"
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as apart:
            whole = Path(apart) / file
            whole.write_text(json.dumps(stored), encoding="utf-8")
            whole.replace(folder / file)
    return design


@lru_cache(maxsize=1)
def shipped_designs() -> dict[str, Design]:
    """The designs that come with the package, by key."""
    text = resources.files("holdfast.plans").joinpath("designs.json").read_text(encoding="utf-8")
    return {key: _from_entry(entry) for key, entry in json.loads(text).items()}


def cache_folder() -> Path:
    """Where searched designs are kept: ``$HOLDFAST_CACHE``, or ``holdfast`` in the user's cache folder."""
    if named := os.environ.get("HOLDFAST_CACHE"):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "holdfast"


def _key(plan: str, goal: Goal) -> str:
    return f"{plan} {goal.tolerance} {goal.risk}"


def _from_entry(entry: dict[str, Any]) -> Design:
    return Design(tuple(entry["looks"]), tuple(entry["limits"]))


def _digest(key: str, entry: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps([_FORMAT, key, entry], sort_keys=True).encode()).hexdigest()


def shipped_goals() -> Iterator[tuple[Goal, float]]:
    """What is shipped, with the effort of its search: all common goals, and the two most common divided."""
    for tolerance, risk in product(SHIPPED_TOLERANCES, SHIPPED_RISKS):
        yield Goal(tolerance, risk), _SHIPPED_EFFORT
    for level, divisor in product((Fraction(1, 10), Fraction(1, 20)), DIVISORS):
        if level / divisor not in SHIPPED_RISKS:
            yield Goal(level, level / divisor), _DIVIDED_EFFORT


def _search_shipped(path: Path) -> None:
    """Search every shipped design that ``path`` does not hold yet (an hour on one core for all)."""
    entries: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for goal, effort in shipped_goals():
        if _key("sequential", goal) in entries:
            continue
        entries[_key("exact", goal)] = asdict(search_fixed(goal))
        entries[_key("sequential", goal)] = asdict(search_sequential(goal, effort=effort))
        print(_key("sequential", goal), entries[_key("sequential", goal)], file=sys.stderr, flush=True)
        rows = (f" {json.dumps(key)}: {json.dumps(entry)}" for key, entry in sorted(entries.items()))
        path.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    _search_shipped(Path(sys.argv[1]))
