"""Run all benchmarks, or the named ones: ``python -m benchmarks [heart plans …]``."""

from __future__ import annotations

import importlib
import json
import pkgutil
import sys
from pathlib import Path

import benchmarks

PREFIX = "bench_"


def main(names: list[str]) -> int:
    known = [
        m.name.removeprefix(PREFIX) for m in pkgutil.iter_modules(benchmarks.__path__) if m.name.startswith(PREFIX)
    ]
    unknown = set(names) - set(known)
    if unknown:
        print(f"Unknown benchmark: {', '.join(sorted(unknown))}. Known: {', '.join(known)}.")
        return 2
    folder = Path("build/bench")
    folder.mkdir(parents=True, exist_ok=True)
    missed = 0
    for name in names or known:
        module = importlib.import_module(f"benchmarks.{PREFIX}{name}")
        print(f"\n{name}: {module.__doc__.strip().splitlines()[0]}")
        figures = []
        for figure in module.run():
            print(figure, flush=True)
            figures.append(figure)
        (folder / f"{name}.json").write_text(json.dumps([f.as_dict() for f in figures], indent=1))
        missed += sum(not f.kept for f in figures)
    print(f"\nWritten to {folder}/. {missed} promised figures missed.")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
