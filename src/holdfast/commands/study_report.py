"""``holdfast study report``: files of results as one page to look at."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.commands.codes import EXIT_OK
from holdfast.commands.colors import paint
from holdfast.commands.parsing import Commands
from holdfast.commands.trusting import add_trust, announce, read_trust
from holdfast.terminal import unescaped

if TYPE_CHECKING:
    from holdfast.smoothing import SmoothedAccuracy
    from holdfast.study.spec import StudySpec


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
    add_trust(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Write the page, then print what it says first and where it is."""
    from holdfast.report.page import write_report

    specs = _specs(options)
    sentences = write_report(
        options.results,
        options.output,
        title=options.title,
        n_gallery=options.gallery,
        use_model=not options.no_model,
        confidence=options.confidence,
        trust=read_trust(options),
        accuracy=_accuracies(specs, options),
        progress=sys.stderr.isatty(),
    )
    for sentence in sentences:
        print(sentence)
    print(paint(str(Path(options.output)), "path"), file=unescaped(sys.stdout))
    return EXIT_OK


def _specs(options: argparse.Namespace) -> list[StudySpec]:
    """The studies of the files; what is about to be loaded for each is said."""
    from holdfast.study.spec_file import spec_from_plain
    from holdfast.study.store import Store

    specs = []
    for path in options.results:
        with Store(path) as store:
            specs.append(spec_from_plain(store.spec, read_trust(options)))
        announce(path, specs[-1], model=not options.no_model or options.accuracy > 0)
    return specs


def _accuracies(specs: list[StudySpec], options: argparse.Namespace) -> dict[str, SmoothedAccuracy]:
    """By the name of each study, if asked for."""
    from holdfast.report.page.source import study_accuracy

    return {
        spec.name: study_accuracy(spec, n_inputs=options.accuracy, progress=sys.stderr.isatty())
        for spec in (specs if options.accuracy else ())
    }
