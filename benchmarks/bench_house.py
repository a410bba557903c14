"""House: how large the source is and how cut up, before it was rebuilt and now; what commands load and enter; words.

The limits are those of the rebuild. "before" needs git and the history of the repository.
"""

from __future__ import annotations

import argparse
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

from tests.core.test_sentences import RESULTS

import holdfast
from benchmarks.figures import Figure
from benchmarks.house_figures import House
from holdfast.cli import command_parser
from holdfast.words import MOST_WORDS

ROOT = Path(__file__).parents[1]
BEFORE = "92a87b3"
"""The last revision before the rebuild."""

CERTIFY = "certify --model bundled:cancer-forest --input bundled:cancer#0 --method random --top 5 --radius 2"
STRANGERS = ("experiments", "explore", "report", "reproduce", "study")
"""Rooms that a command about one input has no business in."""

STUDY = """
model = "bundled:cancer-forest"
data = { spec = "bundled:cancer", n = 2 }
methods = ["random"]
certify = { radii = [1, 2] }
"""
ENTERED_BY = {
    "study run": "study run study.toml --quiet",
    "reproduce q2": "reproduce q2 --n 2 --methods random,occlusion --radii 1,2 --output q2",
}
"""Commands that the tracer follows, in a folder that holds the study above."""

MOST_LINES, MOST_CODE_LINES, MOST_MODULES, MOST_GROUND_LINES = 31_000, 20_000, 170, 18_500
MOST_WITH_ONE_IMPORTER, MOST_CALLED_ONCE, MOST_USES_OF_A_FILE_NAME = 35, 15, 2
MOST_LOADED, MOST_ENTERED, MOST_SECONDS = 75, 60, 0.3
MOST_EXPLAINED, MOST_README_LINES, MOST_PAGE_WORDS, MOST_PUBLIC_NAMES = 130, 120, 22_000, 60
N_IMPORTS = 5

_RUN = """
import runpy, sys
try:
    runpy.run_module("holdfast", run_name="__main__", alter_sys=True)
except SystemExit as end:
    if end.code not in (0, 1, 2):
        raise
"""
_TRACE = f"""
import inspect, os, sys, threading
import holdfast
package = os.path.dirname(holdfast.__file__)
entered = set()
def enter(frame, event, _):
    code = frame.f_code
    if event == "call" and code.co_flags & inspect.CO_OPTIMIZED and code.co_filename.startswith(package):
        entered.add((code.co_filename, code.co_qualname))
threading.setprofile(enter)
sys.setprofile(enter)
{_RUN}
sys.setprofile(None)
print(len({{path for path, _ in entered}}), len(entered))
"""
_OPTIONS = f"""
import sys
sys.path.append({str(ROOT)!r})
from benchmarks.house_figures import n_options
from holdfast.cli import command_parser
print(n_options(command_parser()))
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
        measured = [[*_counts(source), *_loads(source), *_enters(source)] for source in sources.values()]
    for figures in zip(*measured, strict=True):
        for when, figure in zip(sources, figures, strict=True):
            at_most = figure.at_most if when == "now" else None
            yield replace(figure, name=f"{figure.name}, {when}", at_most=at_most)
    yield from _words()


def _words() -> Iterator[Figure]:
    """How much there is to read: sentences of results, help, README and pages."""
    lengths: dict[str, tuple[int, int]] = {}
    for result in (make() for make in RESULTS.values()):
        sentence, explained = (len(text.split()) for text in (str(result).split("\n")[0], result.explain()))
        most = lengths.get(type(result).__name__, (0, 0))
        lengths[type(result).__name__] = (max(sentence, most[0]), max(explained, most[1]))
    for kind, (sentence, explained) in sorted(lengths.items()):
        yield Figure(f"str({kind}), at most", sentence, "words", at_most=MOST_WORDS)
        yield Figure(f"{kind}.explain(), at most", explained, "words", at_most=MOST_EXPLAINED)
    parsers, texts = [command_parser()], []
    while parsers:
        parser = parsers.pop()
        texts.append(parser.format_help())
        groups = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
        parsers += [command for action in groups for command in action.choices.values()]
    yield Figure(f"help of {len(texts)} commands", sum(len(text.split()) for text in texts), "words")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    yield Figure("README.md", len(readme.split()), "words")
    yield Figure("README.md", len(readme.splitlines()), "lines", at_most=MOST_README_LINES)
    pages = sorted((ROOT / "docs").rglob("*.md"))
    n_words = sum(len(page.read_text(encoding="utf-8").split()) for page in pages)
    yield Figure(f"docs, {len(pages)} pages", n_words, "words", at_most=MOST_PAGE_WORDS)
    yield Figure("names in `holdfast.__all__`", len(vars(holdfast)["__all__"]), at_most=MOST_PUBLIC_NAMES)


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
    yield Figure("modules", len(house.modules), at_most=MOST_MODULES)
    yield Figure("lines", house.n_lines, at_most=MOST_LINES)
    yield Figure("code lines (no blanks, comments, docstrings)", house.n_code_lines, at_most=MOST_CODE_LINES)
    yield Figure("classes", house.n_classes)
    yield Figure("file length, median", house.median_file_length, "lines")
    yield Figure("function body, median", house.body_length(50), "lines")
    yield Figure("function body, 90th percentile", house.body_length(90), "lines")
    yield Figure("functions per 1,000 code lines", house.functions_per_thousand_lines)
    yield Figure("import lines, of all lines", house.import_share, "%")
    yield Figure("file names used more than once", len(names))
    yield Figure("most uses of a file name", max(names.values(), default=1), at_most=MOST_USES_OF_A_FILE_NAME)
    yield Figure("class names used more than once", len(house.repeated_class_names), at_most=0)
    yield Figure("modules with one importer", len(walls), at_most=MOST_WITH_ONE_IMPORTER)
    yield Figure("lines of modules with one importer", sum(module.n_lines for module in walls))
    yield Figure("private functions called once", house.n_called_once)
    called_once = 100 * house.n_called_once / house.n_functions
    yield Figure("private functions called once, of all functions", called_once, "%", at_most=MOST_CALLED_ONCE)
    yield Figure("ground floor, modules", len(ground.modules))
    yield Figure("ground floor, lines", ground.n_lines, at_most=MOST_GROUND_LINES)
    yield Figure("ground floor, class names used more than once", len(ground.repeated_class_names), at_most=0)


def _loads(source: Path) -> Iterator[Figure]:
    """What a fresh interpreter loads."""
    yield Figure("options of the command line", int(_python(_OPTIONS, source)))
    loaded = loaded_by_certify(source)
    yield Figure("modules loaded by `holdfast certify` on a table", len(loaded), at_most=MOST_LOADED)
    yield Figure(f"of these in {', '.join(STRANGERS)}", len(strangers(loaded)), at_most=0)
    imports = [_python(_IMPORT, source).split() for _ in range(N_IMPORTS)]
    yield Figure("`import holdfast`", min(float(seconds) for seconds, _ in imports), "s", at_most=MOST_SECONDS)
    yield Figure("`import holdfast` loads torch", any(torch == "True" for _, torch in imports), at_most=0)


def _enters(source: Path) -> Iterator[Figure]:
    """Where commands lead: the modules that hold a function they call, and these functions."""
    for name, command in ENTERED_BY.items():
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "study.toml").write_text(STUDY, encoding="utf-8")
            modules, functions = _python(_TRACE, source, *command.split(), folder=folder).split()[-2:]
        yield Figure(f"modules entered by `holdfast {name}`", int(modules), at_most=MOST_ENTERED)
        yield Figure(f"functions called by `holdfast {name}`", int(functions))


def loaded_by_certify(source: Path = ROOT / "src") -> list[str]:
    """Modules of holdfast that certifying a row of a bundled table loads."""
    tell = 'print(*sorted(name for name in sys.modules if name.split(".")[0] == "holdfast"))'
    return _python(_RUN + tell, source, *CERTIFY.split()).splitlines()[-1].split()


def strangers(loaded: list[str]) -> list[str]:
    """Modules among these that are in rooms which a command about one input does not need."""
    return [name for name in loaded if name.split(".")[1:2] and name.split(".")[1] in STRANGERS]


def _python(code: str, source: Path, *arguments: str, folder: str | None = None) -> str:
    """What a fresh interpreter prints that finds holdfast here, compiled as it is for users."""
    environment = os.environ | {"PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": ""}
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=folder)
    if done.returncode:
        raise RuntimeError(f"This failed: holdfast {' '.join(arguments)}\n{done.stderr}")
    return done.stdout
