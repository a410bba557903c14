"""Command line → library calls → text."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from holdfast import __version__


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="holdfast", description="Does this explanation hold fast?")
    parser.add_argument("--version", action="version", version=f"holdfast {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    demo = commands.add_parser("demo", help="certify explanations of a scikit-learn model")
    demo.add_argument("--radius", type=int, default=8, help="pixels that may be revealed (default: %(default)s)")
    demo.add_argument("--rng", type=int, default=0, help="seed of the draws (default: %(default)s)")
    options = parser.parse_args(arguments)
    from holdfast.demo import run_demo

    for line in run_demo(radius=options.radius, rng=options.rng):
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
