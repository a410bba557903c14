"""``holdfast demo``: a first look."""

from __future__ import annotations

import argparse
import sys

from holdfast.commands.codes import EXIT_OK
from holdfast.commands.colors import paint
from holdfast.commands.parsing import Commands
from holdfast.terminal import neutral, unescaped


def add(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "demo",
        help="study the bundled models and write a page to look at, in three minutes",
        description="Explain and certify inputs of five bundled models (digits, moods of sentences, tumours), and "
        "write one page for the browser, FOLDER/report.html. Needs pip install 'holdfast[hf,sklearn,text]'.",
    )
    parser.add_argument("--output", metavar="FOLDER", default="build/demo", help="default: %(default)s")
    parser.add_argument("--inputs", type=int, metavar="N", help="inputs per study (default: 16 to 60)")
    parser.add_argument("--rng", type=int, default=0, help="seed of the draws (default: %(default)s)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print what is done, three sentences of findings, and where the page is."""
    from holdfast.demo import PAGE, run_demo

    for line in run_demo(options.output, n_inputs=options.inputs, rng=options.rng):
        told = paint(line, "path") if line.endswith(PAGE) else neutral(line)
        print(told, file=unescaped(sys.stdout), flush=True)
    return EXIT_OK
