"""House: how large the source is and how cut up, before the ground floor was rebuilt and now; what a command loads.

The limits are those of the rebuild. "before" needs git and the history of the repository.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from benchmarks.figures import Figure
from benchmarks.house_figures import House

ROOT = Path(__file__).parents[1]
BEFORE = "92a87b3"
"""The last revision before the rebuild."""

CERTIFY = "certify --model bundled:cancer-forest --input bundled:cancer#0 --method random --top 5 --radius 2"
STRANGERS = ("experiments", "explore", "report", "reproduce", "study")
"""Rooms that a command about one input has no business in."""

MOST_LINES, MOST_USES_OF_A_FILE_NAME, MOST_MODULES, MOST_SECONDS = 18_500, 2, 70, 0.3
N_IMPORTS = 5

_RUN = """
import runpy, sys
try:
    runpy.run_module("holdfast", run_name="__main__", alter_sys=True)
except SystemExit as end:
    if end.code not in (0, 1, 2):
        raise
"""
_IMPORT = """
import sys, time
start = time.perf_counter()
import holdfast
print(time.perf_counter() - start, "torch" in sys.modules)
"""


def run() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        sources = {"now": ROOT / "src"}
        if _unpack(BEFORE, Path(folder)):
            sources = {"before": Path(folder) / "src"} | sources
        else:
            print(f"  There is no revision {BEFORE} here: only what is now is counted.")
        measured = [[*_counts(source), *_loads(source)] for source in sources.values()]
    for figures in zip(*measured, strict=True):
        for when, figure in zip(sources, figures, strict=True):
            at_most = figure.at_most if when == "now" else None
            yield replace(figure, name=f"{figure.name}, {when}", at_most=at_most)


def _unpack(revision: str, folder: Path) -> bool:
    """Put the source of a revision into a folder, if git and the revision are there."""
    if shutil.which("git") is None:
        return False
    done = subprocess.run(["git", "archive", revision, "src"], cwd=ROOT, capture_output=True, check=False)
    if done.returncode == 0:
        with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
            archive.extractall(folder, filter="data")
    return done.returncode == 0


def _counts(source: Path) -> Iterator[Figure]:
    """What the files say."""
    house = House.read(source / "holdfast")
    ground, names, walls = house.ground_floor, house.repeated_file_names, house.with_one_importer
    yield Figure("modules", len(house.modules))
    yield Figure("lines", house.n_lines)
    yield Figure("code lines (no blanks, comments, docstrings)", house.n_code_lines)
    yield Figure("classes", house.n_classes)
    yield Figure("file length, median", house.median_file_length, "lines")
    yield Figure("function body, median", house.body_length(50), "lines")
    yield Figure("function body, 90th percentile", house.body_length(90), "lines")
    yield Figure("functions per 1,000 code lines", house.functions_per_thousand_lines)
    yield Figure("import lines, of all lines", house.import_share, "%")
    yield Figure("file names used more than once", len(names))
    yield Figure("most uses of a file name", max(names.values(), default=1), at_most=MOST_USES_OF_A_FILE_NAME)
    yield Figure("class names used more than once", len(house.repeated_class_names))
    yield Figure("modules with one importer", len(walls))
    yield Figure("lines of modules with one importer", sum(module.n_lines for module in walls))
    yield Figure("private functions called once", house.n_called_once)
    yield Figure("private functions called once, of all functions", 100 * house.n_called_once / house.n_functions, "%")
    yield Figure("ground floor, modules", len(ground.modules))
    yield Figure("ground floor, lines", ground.n_lines, at_most=MOST_LINES)
    yield Figure("ground floor, class names used more than once", len(ground.repeated_class_names), at_most=0)


def _loads(source: Path) -> Iterator[Figure]:
    """What a fresh interpreter loads."""
    loaded = loaded_by_certify(source)
    yield Figure("modules loaded by `holdfast certify` on a table", len(loaded), at_most=MOST_MODULES)
    yield Figure(f"of these in {', '.join(STRANGERS)}", len(strangers(loaded)), at_most=0)
    imports = [_python(_IMPORT, source).split() for _ in range(N_IMPORTS)]
    yield Figure("`import holdfast`", min(float(seconds) for seconds, _ in imports), "s", at_most=MOST_SECONDS)
    yield Figure("`import holdfast` loads torch", any(torch == "True" for _, torch in imports), at_most=0)


def loaded_by_certify(source: Path = ROOT / "src") -> list[str]:
    """Modules of holdfast that certifying a row of a bundled table loads."""
    tell = 'print(*sorted(name for name in sys.modules if name.split(".")[0] == "holdfast"))'
    return _python(_RUN + tell, source, *CERTIFY.split()).splitlines()[-1].split()


def strangers(loaded: list[str]) -> list[str]:
    """Modules among these that are in rooms which a command about one input does not need."""
    return [name for name in loaded if name.split(".")[1:2] and name.split(".")[1] in STRANGERS]


def _python(code: str, source: Path, *arguments: str) -> str:
    """What a fresh interpreter prints that finds holdfast here, compiled as it is for users."""
    environment = os.environ | {"PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": ""}
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"This failed: holdfast {' '.join(arguments)}\n{done.stderr}")
    return done.stdout
