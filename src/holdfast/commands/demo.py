"""``holdfast demo``: a first look."""

from __future__ import annotations

import argparse

from holdfast.commands.codes import EXIT_OK
from holdfast.commands.parsing import Commands


def add(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser("demo", help="certify explanations of the bundled models, a minute's first look")
    parser.add_argument("--radius", type=int, default=8, help="features that may be revealed (default: %(default)s)")
    parser.add_argument("--rng", type=int, default=0, help="seed of the draws (default: %(default)s)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print what is certified, line by line."""
    from holdfast.demo import run_demo

    for line in run_demo(radius=options.radius, rng=options.rng):
        print(line, flush=True)
    return EXIT_OK
