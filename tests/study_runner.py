"""Runs a study as a process of its own, to be killed.

``python -m tests.study_runner FOLDER DB WORKERS [LIMIT [SPEC]]``
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path

from holdfast.study.run import run_study
from tests import study_support


def main(folder: str, path: str, workers: str, limit: str = "0", spec: str = "slow_spec") -> int:
    """Tell each stored item as a JSON line on stderr; LIMIT is the size in bytes at which the disk is full.

    SPEC names the study, a function of ``tests.study_support``.
    """
    if int(limit):
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
    run = run_study(getattr(study_support, spec)(Path(folder)), path, workers=int(workers), progress="json")
    print(run, flush=True)
    return 0 if run.status.complete else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
