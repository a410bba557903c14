"""Command line → library calls → text."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from holdfast import __version__
from holdfast.errors import HoldfastError

EXIT_ERROR = 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        _demo(options)
    except HoldfastError as error:
        print(f"holdfast: {error}", file=sys.stderr)
        return EXIT_ERROR
    except BrokenPipeError:
        # The reader has gone (`holdfast demo | head`): what Python still holds for it goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="holdfast", description="Does this explanation hold fast?")
    parser.add_argument("--version", action="version", version=f"holdfast {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    demo = commands.add_parser("demo", help="certify explanations of a scikit-learn model, a minute's first look")
    demo.add_argument("--radius", type=int, default=8, help="pixels that may be revealed (default: %(default)s)")
    demo.add_argument("--rng", type=int, default=0, help="seed of the draws (default: %(default)s)")
    return parser


def _demo(options: argparse.Namespace) -> None:
    from holdfast.demo import run_demo

    for line in run_demo(radius=options.radius, rng=options.rng):
        print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
