"""Runs a study as a process of its own, to be killed.

``python -m tests.helpers.study_runner FOLDER DB WORKERS [LIMIT [PRECISION]]``
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path

from holdfast.study.session import run_study
from tests.helpers.own_methods import own_spec, run_live
from tests.helpers.study_support import make_spec, mean_spec


def main(folder: str, path: str, workers: str, limit: str = "0", precision: str = "per-input") -> int:
    """Tell each stored item as a JSON line on stderr; LIMIT is the size in bytes at which the disk is full."""
    if int(limit):
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
    if precision == "live":
        return 0 if run_live(Path(folder), path).status.complete else 1
    make = {"per-input": make_spec, "data-set": mean_spec, "own": own_spec}[precision]
    run = run_study(make(Path(folder), factory="slow_moods"), path, workers=int(workers), progress="json")
    print(run, flush=True)
    return 0 if run.status.complete else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
