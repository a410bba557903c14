"""``holdfast study report``: files of results as one page to look at."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.commands.codes import EXIT_OK
from holdfast.commands.colors import paint
from holdfast.commands.parsing import Commands
from holdfast.terminal import unescaped

if TYPE_CHECKING:
    from holdfast.results.accuracy import SmoothedAccuracy


def add(study: Commands) -> None:
    """Add the sub-command."""
    parser = study.add_parser("report", help="one self-contained HTML page about one or several studies")
    parser.add_argument("results", metavar="RESULTS", nargs="+", help="files of results")
    parser.add_argument("--output", metavar="FILE", default="report.html", help="the page (default: %(default)s)")
    parser.add_argument("--title", help="default: the name of the study")
    parser.add_argument("--gallery", type=int, default=24, metavar="N", help="inputs to look at closer (default: 24)")
    parser.add_argument("--no-model", action="store_true", help="do not load the model: no sampled additions")
    parser.add_argument(
        "--accuracy", type=int, default=0, metavar="N", help="also measure the smoothed model's accuracy on N inputs"
    )
    parser.add_argument(
        "--confidence", type=float, default=0.95, help="of intervals over inputs (default: %(default)s)"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Write the page, then print what it says first and where it is."""
    from holdfast.report.page import write_report

    sentences = write_report(
        options.results,
        options.output,
        title=options.title,
        n_gallery=options.gallery,
        use_model=not options.no_model,
        confidence=options.confidence,
        accuracy=_accuracies(options),
        progress=sys.stderr.isatty(),
    )
    for sentence in sentences:
        print(sentence)
    print(paint(str(Path(options.output)), "path"), file=unescaped(sys.stdout))
    return EXIT_OK


def _accuracies(options: argparse.Namespace) -> dict[str, SmoothedAccuracy]:
    """By the name of each study, if asked for."""
    from holdfast.report.page.accuracy import study_accuracy
    from holdfast.study.spec_file import spec_from_plain
    from holdfast.study.store import Store

    found = {}
    for path in options.results if options.accuracy else ():
        with Store(path) as store:
            spec = spec_from_plain(store.spec)
        found[spec.name] = study_accuracy(spec, n_inputs=options.accuracy, progress=sys.stderr.isatty())
    return found
