"""Runs a study on Ray as a process of its own: ``python -m tests.helpers.ray_runner FOLDER DB [ADDRESS]``."""

from __future__ import annotations

import sys
from pathlib import Path

from holdfast.study import Ray, run_study
from tests.helpers.study_support import Slowly, make_spec


def main(folder: str, path: str, address: str | None = None) -> int:
    """Tell each stored item as a JSON line on stderr; without an address, on a cluster of its own."""
    engine = Ray(2, address, load=Slowly(0.2))
    run = run_study(make_spec(Path(folder), factory="slow_moods"), path, engine=engine, progress="json")
    print(run, flush=True)
    return 0 if run.status.complete else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
